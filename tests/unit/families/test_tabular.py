"""TabularMDP: valid parameters, impossible outcomes, and agents that plan."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mixts
from mixts import errors
from mixts.families import TabularStatistics

pytestmark = pytest.mark.usefixtures("program")

NAN, INF = np.nan, np.inf
REWARD = np.full((2, 3, 2, 2), [1.0, 3.0])
TRANSITION = np.full((2, 3, 2, 3), [1.0, 2.0, 3.0])


def at(array: Any, index: Any, value: float) -> Any:
    changed = np.array(array, dtype=float)
    changed[index] = value
    return changed


def family(
    reward: Any = REWARD, transition: Any = TRANSITION, horizon: Any = 3, initial: Any = 0
) -> Any:
    return mixts.TabularMDP(reward, transition, horizon, initial)


# -- parameters ------------------------------------------------------------------------------------


def test_parameters_are_rewards_then_transitions() -> None:
    rng = np.random.default_rng(1)
    reward, transition = rng.random((2, 3, 2, 2)), rng.random((2, 3, 2, 3))
    ours = family(reward, transition, 4, [0.2, 0.3, 0.5])
    assert (ours.n_components, ours.n_states, ours.n_actions, ours.horizon) == (2, 3, 2, 4)
    assert ours.n_arms is None
    means = mixts.MixturePrior(ours).belief().component_mean
    mdps = ours.mdp(means)
    np.testing.assert_allclose(mdps.rewards, reward[..., 0] / reward.sum(axis=-1))
    np.testing.assert_allclose(mdps.transitions, transition / transition.sum(-1, keepdims=True))
    np.testing.assert_array_equal(mdps.initial, [0.2, 0.3, 0.5])
    assert (mdps.shape, mdps.horizon) == ((2,), 4)
    np.testing.assert_array_equal(ours.mean_rewards(means), mdps.rewards)
    assert ours.mdp(means[0]).shape == ()
    with pytest.raises(errors.ParameterError, match=r"24 numbers for each MDP, got \(2, 23\)"):
        ours.mdp(means[:, 1:])
    assert repr(ours) == "TabularMDP(2 components, 3 states, 2 actions, horizon 4)"


def test_min_pseudo_count_is_the_least_total() -> None:
    """Lambda_0,min: of rewards and transitions, over pairs and components; zeros count as zeros."""
    assert family().min_pseudo_count == 4.0
    assert family(at(REWARD, (1, 2, 1), 0.25)).min_pseudo_count == 0.5
    sparse = at(TRANSITION, (0, 1, 0), [0.0, 0.0, 1.5])
    assert family(transition=sparse).min_pseudo_count == 1.5


def test_uniform_is_one_component_that_knows_nothing() -> None:
    flat = mixts.TabularMDP.uniform(3, 2, 5)
    np.testing.assert_array_equal(flat.reward, np.ones((1, 3, 2, 2)))
    np.testing.assert_array_equal(flat.transition, np.ones((1, 3, 2, 3)))
    np.testing.assert_allclose(flat.initial, [1 / 3] * 3)
    assert mixts.TabularMDP.uniform(3, 2, 5, initial=2).initial.tolist() == [0.0, 0.0, 1.0]
    support = np.random.default_rng(1).random((3, 2, 3)) < 0.5
    support[..., 0] = True
    told = mixts.TabularMDP.uniform(3, 2, 5, 0, support)
    np.testing.assert_array_equal(told.transition[0], support.astype(float))


def test_from_means_is_the_mean_times_the_strength() -> None:
    rng = np.random.default_rng(1)
    rewards, rows = rng.random((2, 3, 2)), rng.dirichlet(np.ones(3), (2, 3, 2))
    rewards[0, 1, 1], rewards[1, 0, 0] = 0.0, 1.0
    mdps = mixts.MDP(rewards, rows, 4, 1)
    ours = mixts.TabularMDP.from_means(mdps, 12.0)
    np.testing.assert_allclose(ours.parameter_means(), mdps.parameters, rtol=1e-14)
    np.testing.assert_allclose(ours.reward.sum(axis=-1), 12.0)
    np.testing.assert_allclose(ours.transition.sum(axis=-1), 12.0)
    assert ours.reward[0, 1, 1].tolist() == [0.0, 12.0]
    assert ours.reward[1, 0, 0].tolist() == [12.0, 0.0]
    alone = mixts.TabularMDP.from_means(mdps[1], 12.0)
    np.testing.assert_array_equal(alone.reward, ours.reward[1:])
    assert (alone.horizon, alone.initial.tolist()) == (4, [0.0, 1.0, 0.0])


@pytest.mark.parametrize("strength", [1.0, 1e-3])
def test_nothing_is_drawn_for_zero_tasks(strength: float) -> None:
    """Faint counts are drawn in another way."""
    prior = mixts.MixturePrior(family(strength * REWARD, strength * TRANSITION))
    latent, parameters = prior.draw(np.random.default_rng(1), 0)
    assert (latent.shape, parameters.shape) == ((0,), (0, 24))
    agent = mixts.MixTS(prior, 2, seed=1)
    assert agent.act(tasks=np.zeros(0, int)).shape == (0, 3, 3)


Bad = tuple[Callable[[], Any], str]

MDPS = mixts.MDP(np.full((2, 3, 2), 0.5), np.full((2, 3, 2, 3), 1 / 3), 4, 0)

IMPOSSIBLE: dict[str, Bad] = {
    "reward axes": (lambda: family(REWARD[0]), "reward must have 4 axes"),
    "three outcomes": (lambda: family(np.ones((2, 3, 2, 3))), r"\(L, X, A, 2\)"),
    "components differ": (lambda: family(REWARD[:1]), r"got \(1, 3, 2, 2\) and \(2, 3, 2, 3\)"),
    "states differ": (lambda: family(transition=TRANSITION[..., :2]), r"\(L, X, A, X\)"),
    "empty": (lambda: family(REWARD[:0], TRANSITION[:0]), "reward is empty"),
    "negative": (
        lambda: family(at(REWARD, (1, 2, 0, 1), -1.0)),
        r"reward must be at least 0, got -1\.0 at index \(1, 2, 0, 1\)",
    ),
    "nan": (lambda: family(at(REWARD, (0, 0, 0, 0), NAN)), "reward must be finite, got nan"),
    "infinite": (lambda: family(transition=at(TRANSITION, 0, INF)), "transition must be finite"),
    "no reward possible": (
        lambda: family(at(REWARD, (1, 2, 0), 0.0)),
        r"reward .* component 1, state 2, action 0 has only zeros",
    ),
    "no transition possible": (
        lambda: family(transition=at(TRANSITION, (0, 1, 1), 0.0)),
        r"transition .* component 0, state 1, action 1 has only zeros",
    ),
    "too much to add": (lambda: family(np.full_like(REWARD, 1.2e308)), "reward"),
    "too little": (lambda: family(np.full_like(REWARD, 5e-324)), "reward must be 0 or from"),
    "text": (lambda: family("counts"), "reward must be an array of numbers"),
    "horizon": (lambda: family(horizon=0), "horizon must be a whole number, at least 1"),
    "horizon text": (lambda: family(horizon="3"), "horizon must be a whole number"),
    "start": (lambda: family(initial=3), "initial must be a state from 0 to 2, got 3"),
    "start sum": (lambda: family(initial=[0.5, 0.4, 0.0]), "initial must be probabilities"),
    "start size": (lambda: family(initial=[0.5, 0.5]), "3 states, got shape"),
    "no states": (lambda: mixts.TabularMDP.uniform(0, 2, 3), "n_states must be a whole number"),
    "no actions": (lambda: mixts.TabularMDP.uniform(2, 0, 3), "n_actions must be a whole number"),
    "support shape": (
        lambda: mixts.TabularMDP.uniform(3, 2, 3, support=np.ones((3, 3), bool)),
        r"support must be boolean of shape \(3, 2, 3\)",
    ),
    "support counts": (
        lambda: mixts.TabularMDP.uniform(3, 2, 3, support=np.ones((3, 2, 3))), "got float64",
    ),
    "support of nothing": (
        lambda: mixts.TabularMDP.uniform(3, 2, 3, support=np.zeros((3, 2, 3), bool)), "only zeros",
    ),
    "strength": (lambda: mixts.TabularMDP.from_means(MDPS, 0.0), "strength must be a number"),
    "means of what": (lambda: mixts.TabularMDP.from_means(REWARD, 1.0), "mdps must be an MDP"),
    "two axes": (lambda: mixts.TabularMDP.from_means(MDPS[None], 1.0), "mdps must be an MDP"),
    "means above one": (
        lambda: mixts.TabularMDP.from_means(mixts.MDP([[2.0]], [[[1.0]]], 1, 0), 1.0), "rewards",
    ),
}  # fmt: skip


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_impossible_parameters_are_refused(name: str) -> None:
    make, message = IMPOSSIBLE[name]
    with pytest.raises(errors.ParameterError, match=message):
        make()


# -- statistics ------------------------------------------------------------------------------------


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rewards": np.zeros((1, 3, 2, 3), int)}, r"got \(1, 3, 2, 3\)"),
        ({"transitions": np.zeros((1, 3, 2, 2), int)}, "expected rewards"),
        ({"transitions": np.zeros((2, 3, 2, 3), int)}, "expected rewards"),
        ({"rewards": np.full((1, 3, 2, 2), -1)}, "at least 0"),
        ({"rewards": np.zeros((1, 3, 2, 2))}, "whole numbers"),
        ({"transitions": np.ones((1, 3, 2, 3), int)}, "more transitions than rewards"),
        ({"single": True, "rewards": np.zeros((2, 3, 2, 2), int),
          "transitions": np.zeros((2, 3, 2, 3), int)}, "one task, got 2"),
        ({"other": np.zeros(3)}, "needs the arrays"),
    ],
)  # fmt: skip
def test_counts_that_no_episodes_give_are_refused(change: dict[str, Any], message: str) -> None:
    good = {"rewards": np.zeros((1, 3, 2, 2), int), "transitions": np.zeros((1, 3, 2, 3), int)}
    with pytest.raises(errors.StatisticsError, match=message):
        TabularStatistics(**{**good, **change})


def test_statistics_of_other_mdps_are_refused() -> None:
    prior = mixts.MixturePrior(family())
    for other in (mixts.TabularMDP.uniform(2, 2, 3), mixts.TabularMDP.uniform(3, 3, 3)):
        with pytest.raises(errors.StatisticsError, match=r"TabularStatistics of shape \(3, 2\)"):
            prior.condition(mixts.MixturePrior(other).belief().statistics)


# -- files -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["river.json", "river.npz", "river"])
def test_files_keep_every_count(name: str, tmp_path: Path) -> None:
    """Zeros, thirds, horizon and start, to the bit."""
    prior = mixts.RiverSwim(7, horizon=11, strength=1 / 3, start=2).prior
    prior.save(tmp_path / name)
    again = mixts.MixturePrior.load(tmp_path / name)
    assert isinstance(again.family, mixts.TabularMDP)
    assert again.names == ("left", "right")
    assert again.family.horizon == 11
    for ours, theirs in zip(
        again.family.arrays().values(), prior.family.arrays().values(), strict=True
    ):
        assert ours.tobytes() == theirs.tobytes()


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "prior.json"
    mixts.MixturePrior(family()).save(path)
    text = path.read_text(encoding="utf-8")
    for old, new in [('"horizon": 3', '"horizon": 0'), ('"horizon": 3', '"length": 3'),
                     ('"horizon": 3', '"horizon": 2.5'), ("[1.0, 3.0]", "[0.0, 0.0]"),
                     ("[1.0, 0.0, 0.0]", "[0.9, 0.0, 0.0]")]:  # fmt: skip
        assert old in text
        path.write_text(text.replace(old, new), encoding="utf-8")
        with pytest.raises(errors.FormatError):
            mixts.MixturePrior.load(path)


# -- agents ----------------------------------------------------------------------------------------


def river_agent(n_tasks: int | None = None, seed: int = 0) -> mixts.MixTS:
    return mixts.MixTS(mixts.RiverSwim(5, horizon=6).prior, n_tasks, seed)


def test_a_decision_is_the_best_policy_of_the_drawn_mdp() -> None:
    """The draws of ``belief.sample`` and of ``act`` are the same, given the same generator."""
    prior = mixts.RiverSwim(5, horizon=6).prior
    agent = mixts.MixTS(prior, 30, np.random.default_rng(4))
    latent, parameters = prior.belief(30).sample(np.random.default_rng(4))
    policy = agent.act()
    np.testing.assert_array_equal(agent.last_latent, latent)
    mdps = prior.family.mdp(parameters)
    np.testing.assert_allclose(
        mdps.evaluate(policy), mdps.plan().values, rtol=1e-12, atol=1e-12
    )  # fmt: skip
    single = river_agent()
    assert single.act().shape == (6, 5)
    assert type(single.last_latent) is int


def test_the_current_is_soon_known() -> None:
    """Who swims right and stays in place knows: with the current to the right nobody does."""
    agent = river_agent()
    agent.update(mixts.Trajectory([2, 2, 2, 1, 1, 1], [1] * 6, [0.0] * 6))
    assert agent.belief.weights.tolist() == [1.0, 0.0]


@pytest.mark.usefixtures("unchecked")
def test_what_a_policy_cannot_be_asked_is_refused() -> None:
    """Masks, action sets and probabilities; and refused calls take no luck."""
    agent, twin = river_agent(2), river_agent(2)
    before = agent.belief.log_evidence, agent.belief.statistics.copy()
    for verb in (agent.act, agent.action_probabilities, agent.act_with_probabilities):
        with pytest.raises(errors.ActionError, match="leave actions out"):
            verb(np.eye(2))
        with pytest.raises(errors.ObservationError):
            verb(mask=np.ones(2, bool))
    for verb in (agent.action_probabilities, agent.act_with_probabilities):
        with pytest.raises(errors.ActionError, match="policy"):
            verb()
    with pytest.raises(errors.MaskError, match="leave mask out"):
        agent.act(mask=np.ones((2, 2), bool))
    np.testing.assert_array_equal(agent.belief.log_evidence, before[0])
    assert agent.belief.statistics == before[1]
    np.testing.assert_array_equal(agent.act(), twin.act())


def test_an_oracle_knows_the_current() -> None:
    prior = mixts.RiverSwim(5, horizon=6).prior
    agent = mixts.Oracle(prior, [0, 1, 1], n_tasks=3, seed=1)
    policy = agent.act()
    assert agent.last_latent.tolist() == [0, 1, 1]
    assert policy[0, :, 4].tolist() == [1] * 6
    assert policy[1:, :, 0].tolist() == [[0] * 6] * 2


def test_other_agents_refuse_mdps() -> None:
    with pytest.raises(errors.ParameterError, match="MDP"):
        mixts.CorralExp4(mixts.MixturePrior(family()), 10)


def test_a_bigger_prior_is_swapped_in_under_live_tasks() -> None:
    """From PSRL to the river: statistics stay, beliefs are those of the new prior."""
    flat = mixts.TabularMDP.uniform(5, 2, 6, 2)
    agent = mixts.MixTS(mixts.MixturePrior(flat), 2, seed=0)
    agent.update(
        mixts.Trajectory(
            [[2, 2, 3, 3, 3, 3], [2, 1, 0, 0, 0, 0]], [[1] * 6, [0] * 6], np.zeros((2, 6))
        )
    )
    river = mixts.RiverSwim(5, horizon=6).prior
    agent.use_prior(river)
    expected = river.condition(agent.belief.statistics)
    np.testing.assert_array_equal(agent.belief.log_evidence, expected.log_evidence)
    assert agent.belief.weights[0].tolist() == [1.0, 0.0]  # stayed at 2: not with the current
    assert agent.act().shape == (2, 6, 5)


@pytest.mark.parametrize("size", [1e-75, 1e75])
def test_the_least_and_largest_counts_are_drawn_from(size: float) -> None:
    """Where all counts are as small as they may be MDPs are certain, where large they are means."""
    drawn = family(np.full_like(REWARD, size)).draw(np.random.default_rng(0), np.zeros(50, int))
    rewards = drawn[:, : REWARD[0, ..., 0].size]
    assert np.isin(rewards, [0.0, 1.0]).all() if size < 1 else (abs(rewards - 0.5) < 1e-9).all()


def test_parameters_are_read_with_care() -> None:
    """Arrays that are not an MDP are refused, and an MDP cannot be changed."""
    prior = mixts.RiverSwim(4).prior
    _, parameters = prior.draw(np.random.default_rng(0), 2)
    mdps = prior.family.mdp(parameters)
    before = mdps.rewards.copy()
    parameters[:] = -3.0
    np.testing.assert_array_equal(mdps.rewards, before)
    with pytest.raises(ValueError, match="read-only"):
        mdps.rewards[0, 0, 0] = 1.0
    with pytest.raises(errors.ParameterError, match="transitions must be at least 0"):
        prior.family.mdp(parameters)
    with pytest.raises(errors.ParameterError, match="40 numbers for each MDP"):
        prior.family.mdp(parameters[:, 1:])


def test_rounding_does_not_pile_up(program: str) -> None:
    """The core computes evidence anew from the counts after 4096 steps of a task."""
    river = mixts.RiverSwim(5, horizon=6)
    belief = river.prior.belief(3)
    episode = ([[2, 2, 2, 1, 1, 1]], [[1] * 6], [[0.0] * 6])
    # A marker that only a recomputation wipes out; the plain program always computes anew.
    belief.posterior.relative_evidence[:] += 1.0
    if program == "core":
        belief.posterior._n_since[:] = 4096 - 12
    for tasks, wiped in (([0], [0, 0, 0]), ([1], [0, 0, 0]), ([0], [1, 0, 0]), ([1], [1, 1, 0])):
        belief.update(mixts.Trajectory(*episode), tasks)
        exact = river.prior.condition(belief.statistics).log_evidence
        off = belief.log_evidence[:, 0] - exact[:, 0]
        if program == "core":
            np.testing.assert_allclose(off, 1.0 - np.array(wiped), atol=1e-12)
        else:
            assert off[tasks] == 0.0
