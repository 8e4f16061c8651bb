"""The latent confidence sets of the paper's proofs, followed through simulations."""

from mixts.diagnostics.confidence.follow import follow_confidence_sets
from mixts.diagnostics.confidence.sets import ConfidenceSets, Threshold

__all__ = ["ConfidenceSets", "Threshold", "follow_confidence_sets"]
