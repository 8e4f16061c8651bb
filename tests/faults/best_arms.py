"""Faults of the chances of arms and of information-directed sampling."""

from __future__ import annotations

from tests.faults.catalogue import fault
from tests.faults.inject import edit

CHANCES = "tests/oracles/test_best_arms.py"
MODULE = "mixts.families.best_arms"

fault(
    "the best mean forgets the mean of the certain arm",
    f"{CHANCES}::test_the_best_mean_with_a_certain_arm",
    edit(f"{MODULE}:_integrate", "below * np.where(free, 0.0, threshold[:, 0])", "0.0"),
)
fault(
    "products of distribution functions leave out the arms after",
    f"{CHANCES}::test_two_arms",
    edit(f"{MODULE}:_sweep", "cdf[:, :0:-1]", "np.ones_like(cdf[:, :0:-1])"),
)
fault(
    "steep products of many arms are not resolved",
    f"{CHANCES}::test_many_equal_arms",
    edit(f"{MODULE}:_describe", "(*halves, *_DEPTHS)", "_DEPTHS"),
)
fault(
    "corners of densities with small parameters are not resolved",
    f"{CHANCES}::test_the_programs_agree",
    edit(f"{MODULE}:_describe", "least.min() < _SMALL", "False"),
)
fault(
    "the ratio is not least between two actions",
    "tests/unit/agents/test_ids.py::test_the_ratio_is_the_least_of_all_pairs",
    edit("mixts.agents.ids:_best_pair", "low / d - 2 * known / g", "2 * known / g - low / d"),
)
