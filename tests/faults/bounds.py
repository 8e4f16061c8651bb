"""Faults of the bounds that know the latent prior, and of their measured steps."""

from __future__ import annotations

from tests.faults.catalogue import fault
from tests.faults.inject import edit

EXACT = "tests/oracles/test_known_models.py"
KNOWN = "tests/unit/bounds/test_known_models.py"

fault(
    "known models: the better of two actions counts for both",
    (EXACT, KNOWN),
    edit("mixts.bounds.known_models:pairs_bound", "math.sqrt(alpha * beta)", "max(alpha, beta)"),
)
fault(
    "known models: the gap of one state only",
    (EXACT, KNOWN),
    edit("mixts.bounds.known_models:pairs_bound", "own[r] - value[r, s]", "0.0"),
)
fault(
    "entropy: the mean of the states is not subtracted from their rank",
    "tests/unit/bounds/test_entropy.py",
    edit("mixts.bounds.entropy:entropy_terms", "np.count_nonzero(p) - 1", "np.count_nonzero(p)"),
)
fault(
    "counts: the radius of another delta",
    KNOWN,
    edit("mixts.bounds.counts:radius", "2 * math.log(delta)", "math.log(delta)"),
)
fault(
    "narrow components: affinities are forgotten as arms are learned",
    KNOWN,
    edit("mixts.bounds.narrow:_factors", "distance * shrink", "distance + 0 * shrink"),
)
fault(
    "latent cost: the variance of the best action",
    "tests/unit/diagnostics/test_latent_cost.py",
    edit(
        "mixts.diagnostics.latent_cost:LatentCostRecorder.measure",
        "self._variances += variance[:, 0]",
        "self._variances += variance[:, 1]",
    ),
)
