"""Why regret is what it is: confidence sets, decomposition, identification, latent cost."""

from mixts_paper.analysis import drawings as _drawings  # noqa: F401 - lets mixts.plot draw results
from mixts_paper.analysis.confidence import ConfidenceSets, Threshold, follow_confidence_sets
from mixts_paper.analysis.decomposition import (
    Decomposition,
    DecompositionObserver,
    decompose_regret,
)
from mixts_paper.analysis.identification import Identification, identify
from mixts_paper.analysis.inequalities import Inequality
from mixts_paper.analysis.latent_cost import (
    LatentCost,
    LatentCostObserver,
    measure_latent_cost,
)

__all__ = [
    "ConfidenceSets", "Decomposition", "DecompositionObserver", "Identification", "Inequality",
    "LatentCost", "LatentCostObserver", "Threshold", "decompose_regret", "follow_confidence_sets",
    "identify", "measure_latent_cost",
]  # fmt: skip
