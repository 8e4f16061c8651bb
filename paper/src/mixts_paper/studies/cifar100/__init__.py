"""Features of CIFAR-100: the data set, a pretrained network and a linear probe.

``python -m mixts_paper.studies.cifar100`` writes a file for the option ``--features`` of
``mixts reproduce paper/images``.
:class:`EfficientNetLite` needs the extra ``studies``.
"""

from mixts_paper.studies.cifar100.dataset import CIFAR100, Cifar100
from mixts_paper.studies.cifar100.features import (
    NETWORKS,
    EfficientNetLite,
    ProbedFeatures,
    probed_features,
)

__all__ = [
    "CIFAR100",
    "NETWORKS",
    "Cifar100",
    "EfficientNetLite",
    "ProbedFeatures",
    "probed_features",
]
