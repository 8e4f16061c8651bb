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
        "mixts.learning.models.coefficients:CoefficientModel.maximised",
        "pseudo[:, None, None] * centre + pull[:, None, None] * outer(gap, gap)",
        "pull[:, None, None] * outer(gap, gap)",
    ),
)


def moments_without_variance(moments: Any) -> Any:
    def wrong(
        count: Any, average: Any, share: Any, sharp: Any, mean: Any, variance: Any, noise: float
    ) -> Any:
        misfit, sums = moments(count, average, share, sharp, mean, variance, noise)
        rest = variance * noise / (noise + count[:, None] * variance)
        sums.second[...] -= np.einsum("nl,nlk->lk", share, rest * (count > 0)[:, None])
        return misfit, sums

    return wrong


fault(
    "the posterior variance of arms is forgotten",
    f"{NOTHING_TO_GAIN}[gaussian-2-True]",
    replace("mixts.learning.models.gaussian:arm_moments", moments_without_variance),
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
    replace("mixts.learning.climbing:_State.improved", weights_without_pseudo_tasks),
)
fault(
    "pseudo-tasks pull half as much on learned counts",
    f"{NOTHING_TO_GAIN}[bernoulli-2-False]",
    edit(
        "mixts.learning.models.counts:_Problem._direction",
        "pseudo * (self.logs + psi_total - special.psi(safe))",
        "pseudo / 2 * (self.logs + psi_total - special.psi(safe))",
    ),
)
fault(
    "tasks are summed in the order in which they come",
    f"{LEARN}::test_the_order_of_tasks_makes_no_difference[full]",
    replace("mixts.learning.em:canonical", lambda _: lambda statistics: np.arange(len(statistics))),
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
    edit("mixts.learning.learn:_observed", "check_options(given, options)", ""),
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


# -- replay of past tasks -------------------------------------------------------------------------

REPLAY_ARMS = "tests/unit/environments/test_replay_arms.py"
POLICIES = "tests/unit/diagnostics/test_policies.py"

fault(
    "a replay gives the same recorded reward again",
    f"{REPLAY_ARMS}::test_choices_take_the_recorded_rewards_without_replacement",
    edit(
        "mixts.environments.replay:ReplayArmsProblem.play",
        "self._taken[rows, index] += 1",
        "self._taken[rows, index] += 0",
    ),
)
fault(
    "a replay gives rewards in the order of the logs",
    f"{REPLAY_ARMS}::test_the_order_is_random_and_the_same_for_all_agents",
    edit(
        "mixts.environments.replay:ReplayArms._shuffled",
        "rng.permutation(len(self.rewards))",
        "np.arange(len(self.rewards))",
    ),
)
fault(
    "the bestseller of a comparison knows the held-out tasks",
    f"{POLICIES}::test_the_bestseller_knows_the_training_tasks_only",
    edit(
        "mixts.diagnostics._replays:PastTasks.folds",
        "fit.training_tasks",
        "fit.logs.statistics",
    ),
)
fault(
    "the rival of clicks with features is no regression",
    "tests/unit/diagnostics/test_bestseller.py::test_clicks_have_a_logistic_regression",
    edit(
        "mixts.diagnostics.bestseller:_logistic_regression",
        "climb(rows @ mean, rows @ root, *counts).v",
        "np.tanh(climb(rows @ mean, rows @ root, *counts).v)",
    ),
)
fault(
    "the rival of clicks with features knows nothing of the tasks",
    f"{POLICIES}::test_shuffled_tasks_gain_nothing[logistic]",
    edit(
        "mixts.diagnostics.bestseller:pooled_scores",
        "return _logistic_regression(prior, tasks)",
        "return 0.0 * _logistic_regression(prior, tasks)",
    ),
)
fault(
    "policies are compared with unpaired errors",
    f"{POLICIES}::test_numbers_are_means_over_tasks",
    edit(
        "mixts.diagnostics.policies:Earnings.gain",
        "self._of(policy) - self._of(over)",
        "self._of(policy) - self._of(over)[::-1]",
    ),
)

# -- pooled effects ------------------------------------------------------------------------------

POOLED = "tests/oracles/test_pooled.py"

fault(
    "what tasks explain themselves counts half beside pooled effects",
    f"{POOLED}::test_the_gradient_is_that_of_the_evidence[common noise]",
    edit(
        "mixts.learning.pooled:_of_triangles",
        "gradient -= less.T @ (by_row * own.ravel())",
        "gradient -= 0.5 * less.T @ (by_row * own.ravel())",
    ),
)
fault(
    "clicks count at the mean of the log odds, without their spread",
    f"{POOLED}::test_the_gradient_is_that_of_the_evidence[clicks]",
    edit(
        "mixts.learning.pooled:_of_clicks",
        "np.sqrt(np.maximum(spread, 0.0))[:, None] * z",
        "0.0 * z",
    ),
)
fault(
    "a fact that is not known has its raw mean in logs",
    "tests/unit/logs/test_pooled.py::test_what_a_person_lacks_makes_no_bad_row",
    edit(
        "mixts.features:Pooled.numbers",
        "np.where(known[:, None], block, 0.0)",
        "block",
    ),
)
fault(
    "a fact that is not known has its raw mean in decisions",
    "tests/unit/test_pooled_features.py::test_what_is_not_known_is_that_of_the_average_person",
    edit("mixts.features._sums:Sums._centred", "row[part] = 0.0", "pass"),
)
fault(
    "the facts of the last person are those of the next",
    "tests/unit/test_pooled_features.py::test_facts_that_change_count_at_once",
    edit("mixts.features._sums:Sums._slopes", "all(map(is_, values, last))", "last[0] is not None"),
)
fault(
    "any gain of held-out tasks pays for pooled effects",
    f"{POOLED}::test_a_small_gain_does_not_pay_for_effects",
    edit("mixts.learning.pooled:best_ridge", "gains.max() - NEARLY", "gains.max()"),
)
fault(
    "held-out tasks teach the effects that they judge",
    f"{POOLED}::test_gains_of_held_out_tasks_are_those_of_learning_on_the_others",
    edit(
        "mixts.learning.pooled:held_out_gains",
        "matrices.sum(axis=0) - matrix",
        "matrices.sum(axis=0)",
    ),
)
