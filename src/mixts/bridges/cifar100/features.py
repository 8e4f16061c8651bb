"""From images to features: a network's embedding, then a linear probe to one output a class."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mixts._progress import Bars
from mixts._typing import Array
from mixts.bridges.cifar100.embeddings import Embedding, embed
from mixts.bridges.cifar100.images import N_CLASSES, Cifar100
from mixts.bridges.cifar100.probe import RIDGES, learn_probe
from mixts.errors import FormatError
from mixts.experiments.paper.images.features import ImageFeatures


@dataclass(frozen=True)
class ProbedFeatures:
    """Features, and how well their largest entry names the class."""

    features: ImageFeatures
    train_accuracy: float
    test_accuracy: float
    ridge: float


def probed_features(
    images: Cifar100, embedding: Embedding, folder: Path, bars: Bars | None = None
) -> ProbedFeatures:
    """The outputs of a probe that was fitted to the training images only.

    Embeddings are kept in ``folder``; what is there already is not computed again.
    """
    _check_classes(images)
    bars = Bars() if bars is None else bars
    n_train, n_test = len(images.train_labels), len(images.test_labels)
    train_bar, test_bar = bars.add("training images", n_train), bars.add("test images", n_test)
    train = embed(images.train_images, embedding, folder, train_bar.set)
    test = embed(images.test_images, embedding, folder, test_bar.set)
    probe_bar = bars.add("linear probe", len(RIDGES) + 1)
    probe = learn_probe(train, images.train_labels, N_CLASSES, moved=probe_bar.set)
    features = ImageFeatures(
        probe.logits(train),
        images.train_labels,
        probe.logits(test),
        images.test_labels,
        images.classes,
        f"CIFAR-100, {embedding!r}, linear probe",
    )
    return ProbedFeatures(
        features,
        _accuracy(features.train_features, images.train_labels),
        _accuracy(features.test_features, images.test_labels),
        probe.ridge,
    )


def _accuracy(logits: Array, labels: Array) -> float:
    return float(np.mean(logits.argmax(axis=1) == labels))


def _check_classes(images: Cifar100) -> None:
    """Before the hours of work: each class is a task, and needs images in both parts."""
    for part, labels in (("training", images.train_labels), ("test", images.test_labels)):
        absent = np.flatnonzero(np.bincount(labels, minlength=N_CLASSES) == 0)
        if len(absent):
            raise FormatError(
                f"every class must have a {part} image; {len(absent)} have none, the first is "
                f"{images.classes[absent[0]]}: give more of the data set"
            )
