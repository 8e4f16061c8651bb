"""What policies earn and why: comparison, confidence sets, decomposition, identification."""

from mixts.diagnostics._inequalities import Inequality, PriorScales
from mixts.diagnostics.advice import Advice, advise, judged
from mixts.diagnostics.confidence import ConfidenceSets, Threshold, follow_confidence_sets
from mixts.diagnostics.decomposition import (
    Decomposition,
    decompose_regret,
    prepare_decomposition,
)
from mixts.diagnostics.identification import Identification, identify
from mixts.diagnostics.latent_cost import (
    LatentCost,
    measure_latent_cost,
    prepare_latent_cost,
)
from mixts.diagnostics.policies import Earnings, PolicyComparison, compare_policies

__all__ = [
    "Advice",
    "ConfidenceSets",
    "Decomposition",
    "Earnings",
    "Identification",
    "Inequality",
    "LatentCost",
    "PolicyComparison",
    "PriorScales",
    "Threshold",
    "advise",
    "compare_policies",
    "decompose_regret",
    "follow_confidence_sets",
    "identify",
    "judged",
    "measure_latent_cost",
    "prepare_decomposition",
    "prepare_latent_cost",
]
