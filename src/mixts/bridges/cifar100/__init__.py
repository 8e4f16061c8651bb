"""CIFAR-100 as features: the data set, a pretrained network and a linear probe.

Needs the extra ``images`` for :class:`EfficientNetLite`; all else works without it.
"""

from __future__ import annotations

from mixts.bridges.cifar100.archive import CIFAR100
from mixts.bridges.cifar100.embeddings import Embedding, embed
from mixts.bridges.cifar100.features import ProbedFeatures, probed_features
from mixts.bridges.cifar100.images import Cifar100
from mixts.bridges.cifar100.network import NETWORKS, EfficientNetLite
from mixts.bridges.cifar100.probe import LinearProbe, learn_probe
from mixts.download import DownloadError, PublishedFile, fetch

__all__ = [
    "CIFAR100",
    "NETWORKS",
    "Cifar100",
    "DownloadError",
    "EfficientNetLite",
    "Embedding",
    "LinearProbe",
    "ProbedFeatures",
    "PublishedFile",
    "embed",
    "fetch",
    "learn_probe",
    "probed_features",
]
