"""Faults of tabular MDPs: their posteriors and their plans."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.faults.catalogue import fault
from tests.faults.inject import edit, replace

IMPOSSIBLE = "tests/unit/families/test_impossible_episodes.py"
ORACLES = "tests/oracles/test_tabular.py"
PLANNING = "tests/oracles/test_planning.py"
EVIDENCE = "mixts.families.tabular:TabularMDP.log_evidence"
HISTORY = f"{ORACLES}::test_a_random_history[plain-0-30.0-one by one]"
SAME = f"{ORACLES}::test_both_programs_make_the_same_decisions"

# -- posteriors -----------------------------------------------------------------------------------

fault(
    "the evidence forgets the totals of rows (MDP)",
    HISTORY,
    edit(EVIDENCE, "each - log_rising(a.sum(axis=-1), n)", "each"),
)
fault(
    "an outcome that no component allows is not refused (MDP)",
    f"{IMPOSSIBLE}::test_an_impossible_update_is_refused_whole",
    edit(EVIDENCE, "(a == 0) & (counts > 0)", "(a == 0) & (counts < 0)"),
)


def without_last_state(observations: Any) -> Any:
    def wrong(self: Any, actions: Any, outcomes: Any) -> Any:
        states, moves, rewards, lengths = observations(self, actions, outcomes)
        return states[:, : moves.shape[1]].copy(), moves, rewards, lengths

    return wrong


fault(
    "the state after the last step is forgotten (MDP)",
    HISTORY,
    replace("mixts.families.tabular:TabularStatistics.observations", without_last_state),
)


def first_episode_stays(update: Any) -> Any:
    def wrong(self: Any, tasks: Any, observed: Any) -> None:
        from mixts.errors import TrajectoryError

        try:
            update(self, tasks, observed)
        except TrajectoryError:
            self.statistics.observe(tasks[:1], tuple(array[:1] for array in observed))
            raise

    return wrong


fault(
    "a refused batch leaves its first episode in the counts (MDP)",
    f"{IMPOSSIBLE}::test_an_impossible_update_is_refused_whole",
    replace("mixts.families.tabular_posterior:TabularPosterior.update", first_episode_stays),
)


def rewards_swapped(draw: Any) -> Any:
    def wrong(family: Any, rng: Any, counts: Any) -> Any:
        drawn = draw(family, rng, counts)
        n_pairs = family.n_states * family.n_actions
        drawn[:, :n_pairs] = 1 - drawn[:, :n_pairs]
        return drawn

    return wrong


fault(
    "rewards of one and zero are swapped where MDPs are drawn",
    SAME,
    replace("mixts.families.tabular_posterior:draw_parameters", rewards_swapped),
)
fault(
    "an MDP is drawn from the counts of another component",
    SAME,
    replace(
        "mixts.families.tabular_posterior:TabularPosterior.sample",
        lambda sample: (
            lambda self, rng, tasks, latent: sample(self, rng, tasks, np.roll(latent, 1))
        ),
    ),
)

# -- plans ----------------------------------------------------------------------------------------


def one_step_early(induce: Any) -> Any:
    def wrong(rewards: Any, transitions: Any, horizon: int, words: Any) -> Any:
        plan = induce(rewards, transitions, horizon, words)
        plan.policy[:, :-1] = plan.policy[:, 1:].copy()
        return plan

    return wrong


fault(
    "a plan has the actions of the next step",
    f"{PLANNING}::test_the_plan_is_the_best_of_all_policies",
    replace("mixts.planning:induce", one_step_early),
)
fault(
    "a plan takes the last of equal actions",
    f"{PLANNING}::test_equal_actions_are_ties_to_the_last_bit",
    edit(
        "mixts.planning:induce",
        "best.argmax(axis=-1)",
        "best.shape[-1] - 1 - best[..., ::-1].argmax(axis=-1)",
    ),
)
