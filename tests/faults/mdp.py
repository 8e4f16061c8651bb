"""Faults of tabular MDPs: their posteriors and their plans."""

from __future__ import annotations

from typing import Any

from tests.faults.catalogue import fault
from tests.faults.inject import edit, replace

IMPOSSIBLE = "tests/unit/families/test_impossible_episodes.py"
ORACLES = "tests/oracles/test_tabular.py"
PLANNING = "tests/oracles/test_planning.py"
OBSERVE = "mixts.families._kernels.tabular:observe"


def identity(*names: str) -> tuple[str, ...]:
    """Return the ids of tests of the identities of MDPs."""
    path = "tests/statistical/test_tabular_identities.py"
    return tuple(f"{path}::test_identity[mild-{name}]" for name in names)


# -- posteriors -----------------------------------------------------------------------------------


def counts_first(observe: Any) -> Any:
    """The prediction of a step already knows the step."""

    def wrong(
        tasks: Any, episodes: Any, counts: Any, prior: Any, log_weights: Any, relative: Any,
        since_refresh: Any,
    ) -> Any:  # fmt: skip
        from mixts.families._kernels.tabular import count

        ahead = tuple(array.copy() for array in counts)
        count(tasks, episodes, ahead)
        refused = observe(tasks, episodes, ahead, prior, log_weights, relative, since_refresh)
        if refused[0] < 0:
            count(tasks, episodes, counts)
        return refused

    return wrong


fault(
    "the weights are updated after the counts (MDP)",
    identity("weights are calibrated", "surprise is entropy"),
    replace(OBSERVE, counts_first),
)
fault(
    "a transition that no component allows is not refused (MDP)",
    f"{IMPOSSIBLE}::test_an_impossible_update_is_refused_whole",
    edit(
        OBSERVE,
        "seen and transition_prior[x, a, y, s] == 0.0",
        "seen and transition_prior[x, a, y, s] < 0.0",
    ),
)


def without_last_state(observations: Any) -> Any:
    def wrong(self: Any, actions: Any, outcomes: Any) -> Any:
        states, moves, rewards, lengths = observations(self, actions, outcomes)
        return states[:, : moves.shape[1]].copy(), moves, rewards, lengths

    return wrong


fault(
    "the state after the last step is forgotten (MDP)",
    f"{ORACLES}::test_a_random_history[0-30.0-one by one]",
    replace("mixts.families.tabular:TabularStatistics.observations", without_last_state),
)


def first_episodes_stay(observe: Any) -> Any:
    def wrong(tasks: Any, episodes: Any, counts: Any, *others: Any) -> Any:
        from mixts.families._kernels.tabular import count

        refused = observe(tasks, episodes, counts, *others)
        if refused[0] > 0:
            n = refused[0]
            count(tasks[:n], tuple(array[:n] for array in episodes), counts)
        return refused

    return wrong


fault(
    "a refused batch leaves its first episodes in the counts (MDP)",
    f"{IMPOSSIBLE}::test_an_impossible_update_is_refused_whole",
    replace(OBSERVE, first_episodes_stay),
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
    identity("samples spread as truths", "sampled values are the true ones"),
    replace("mixts.families.tabular_posterior:draw_parameters", rewards_swapped),
)
fault(
    "an MDP is drawn from the counts of another component",
    identity("latent state and policy together", "policies are as often followed as best"),
    replace(
        "mixts.families.tabular_posterior:TabularPosterior.sample",
        lambda sample: (
            lambda self, rng, tasks, latent: sample(self, rng, tasks, rng.permutation(latent))
        ),
    ),
)

# -- plans ----------------------------------------------------------------------------------------


def one_step_early(induce: Any) -> Any:
    def wrong(
        parameters: Any, n_actions: int, words: Any, room: Any, policy: Any, values: Any
    ) -> None:
        induce(parameters, n_actions, words, room, policy, values)
        policy[:, :-1] = policy[:, 1:].copy()

    return wrong


fault(
    "a plan has the actions of the next step",
    f"{PLANNING}::test_the_plan_is_the_best_of_all_policies",
    replace("mixts.planning._kernels:induce", one_step_early),
)
fault(
    "a plan takes the last of equal actions",
    f"{PLANNING}::test_equal_actions_are_ties_to_the_last_bit",
    edit("mixts.planning._kernels:induce", "value > top", "value >= top"),
)
