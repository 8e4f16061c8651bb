"""Faults of learning a prior: the objective, the order of tasks, the number of components."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.faults.catalogue import fault
from tests.faults.inject import edit, replace

NOTHING_TO_GAIN = "tests/oracles/test_learned_evidence.py::test_nothing_is_left_to_gain"
LEARN = "tests/unit/learning/test_learn.py"

fault(
    "pseudo-tasks have no spread of their own",
    f"{NOTHING_TO_GAIN}[full-2-False]",
    edit(
        "mixts.learning.models.linear:LinearModel.improve",
        "self.centre.full_covariances() + _outer(gap, gap)",
        "_outer(gap, gap)",
    ),
)


def moments_without_variance(moments: Any) -> Any:
    def wrong(
        count: Any, average: Any, share: Any, mean: Any, variance: Any, noise: float, sums: Any
    ) -> float:
        misfit = moments(count, average, share, mean, variance, noise, sums)
        rest = variance * noise / (noise + count[:, None] * variance)
        sums.second[...] -= np.einsum("nl,nlk->lk", share, rest * (count > 0)[:, None])
        return float(misfit)

    return wrong


fault(
    "the posterior variance of arms is forgotten",
    f"{NOTHING_TO_GAIN}[gaussian-2-True]",
    replace("mixts.learning._kernels.gaussian:arm_moments", moments_without_variance),
)


def weights_without_pseudo_tasks(improved: Any) -> Any:
    def wrong(self: Any, model: Any) -> Any:
        family, _ = improved(self, model)
        tasks = self.share.sum(axis=0) + 1e-9
        return family, tasks / tasks.sum()

    return wrong


fault(
    "the learned weights ignore pseudo-tasks",
    f"{NOTHING_TO_GAIN}[gaussian-2-True]",
    replace("mixts.learning.em:_State.improved", weights_without_pseudo_tasks),
)
fault(
    "pseudo-tasks pull half as much on learned counts",
    f"{NOTHING_TO_GAIN}[bernoulli-2-False]",
    edit(
        "mixts.learning.models.counts:_Problem._direction",
        "self.pseudo * (expected_logs(self.centre) + psi_total - special.psi(safe))",
        "self.pseudo / 2 * (expected_logs(self.centre) + psi_total - special.psi(safe))",
    ),
)
fault(
    "tasks are summed in the order in which they come",
    f"{LEARN}::test_the_order_of_tasks_makes_no_difference[full]",
    replace(
        "mixts.learning.starts:canonical", lambda _: lambda statistics: np.arange(len(statistics))
    ),
)
fault(
    "the standard error takes folds for independent",
    f"{LEARN}::test_one_standard_error_by_hand",
    replace(
        "mixts.learning.select:gap_error",
        lambda error: (
            lambda held_out, n_folds: (
                error(held_out, n_folds) / np.sqrt(1 + n_folds / (n_folds - 1))
            )
        ),
    ),
)
fault(
    "a support is checked only after the tasks are sorted",
    "tests/unit/learning/test_bad_input.py::test_a_support_that_tasks_contradict_is_refused",
    edit("mixts.learning.learn:_observed", "check_options(statistics, options)", ""),
)
fault(
    "the broad component has another weight than the given one",
    (
        "tests/unit/learning/test_robust_prior.py"
        "::test_one_more_component_with_the_weight_that_was_asked_for"
    ),
    replace(
        "mixts.learning.learn:robust_prior",
        lambda robust: lambda prior, weight=0.01: robust(prior, weight / (1 + weight)),
    ),
)
