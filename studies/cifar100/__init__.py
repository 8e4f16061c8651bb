"""Features of CIFAR-100: the data set, a pretrained network and a linear probe.

``python -m studies.cifar100`` writes a file for ``mixts reproduce paper/images --features``.
:class:`EfficientNetLite` needs the extra ``studies``.
"""

from studies.cifar100.dataset import CIFAR100, Cifar100
from studies.cifar100.features import ProbedFeatures, probed_features
from studies.cifar100.network import NETWORKS, EfficientNetLite

__all__ = [
    "CIFAR100",
    "NETWORKS",
    "Cifar100",
    "EfficientNetLite",
    "ProbedFeatures",
    "probed_features",
]
