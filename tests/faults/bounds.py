"""Faults of the bounds that know the latent prior, and of their measured steps."""

from __future__ import annotations

from tests.faults.catalogue import fault
from tests.faults.inject import edit

EXACT = "paper/tests/oracles/test_known_models.py"
KNOWN = "paper/tests/unit/bounds/test_known_models.py"

fault(
    "known models: the better of two actions counts for both",
    (EXACT, KNOWN),
    edit("mixts_paper.bounds.models:pairs_bound", "math.sqrt(alpha * beta)", "max(alpha, beta)"),
)
fault(
    "known models: the gap of one state only",
    (EXACT, KNOWN),
    edit("mixts_paper.bounds.models:pairs_bound", "own[r] - value[r, s]", "0.0"),
)
fault(
    "entropy: the mean of the states is not subtracted from their rank",
    "paper/tests/unit/bounds/test_entropy.py",
    edit(
        "mixts_paper.bounds.entropies:entropy_terms",
        "np.count_nonzero(p) - 1",
        "np.count_nonzero(p)",
    ),
)
fault(
    "counts: the radius of another delta",
    KNOWN,
    edit("mixts_paper.bounds.entropies:radius", "2 * math.log(delta)", "math.log(delta)"),
)
fault(
    "narrow components: affinities are forgotten as arms are learned",
    KNOWN,
    edit("mixts_paper.bounds.models:_factors", "distance * shrink", "distance + 0 * shrink"),
)
fault(
    "latent cost: the variance of the best action",
    "paper/tests/unit/analysis/test_latent_cost.py",
    edit(
        "mixts_paper.analysis.latent_cost:LatentCostRecorder.measure",
        "self._variances += variance[:, 0]",
        "self._variances += variance[:, 1]",
    ),
)
