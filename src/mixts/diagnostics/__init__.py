"""Why an agent's regret is what it is: confidence sets, decomposition, identification."""

from mixts.diagnostics._inequalities import Inequality, PriorScales
from mixts.diagnostics.confidence import ConfidenceSets, Threshold, follow_confidence_sets
from mixts.diagnostics.decomposition import (
    Decomposition,
    decompose_regret,
    prepare_decomposition,
)
from mixts.diagnostics.identification import Identification, identify

__all__ = [
    "ConfidenceSets",
    "Decomposition",
    "Identification",
    "Inequality",
    "PriorScales",
    "Threshold",
    "decompose_regret",
    "follow_confidence_sets",
    "identify",
    "prepare_decomposition",
]
