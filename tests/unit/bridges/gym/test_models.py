from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from gymnasium.envs.toy_text import CliffWalkingEnv

import mixts
from mixts.bridges.gym import EpisodePlayer, tabular_model
from mixts.errors import OutcomeError, ParameterError
from tests.unit.bridges.gym.worlds import END, Walk, frozen_lake


def test_the_uniform_prior_knows_the_end_and_nothing_else() -> None:
    player = EpisodePlayer(Walk(), 4)
    family = player.uniform_prior().family
    assert (family.n_components, family.n_states, family.n_actions, family.horizon) == (1, 6, 3, 4)
    np.testing.assert_array_equal(family.reward[0, :END], 1.0)
    np.testing.assert_array_equal(family.transition[0, :END], 1.0)
    np.testing.assert_array_equal(family.initial, [0.2] * 5 + [0.0])
    assert family.min_pseudo_count == 2.0
    _, drawn = player.uniform_prior().draw(np.random.default_rng(0), 50)
    mdps = family.mdp(drawn)
    np.testing.assert_array_equal(mdps.rewards[:, END], 0.0)
    np.testing.assert_array_equal(mdps.transitions[:, END, :, :END], 0.0)
    assert (mdps.transitions[:, :END] > 0).all()


def test_the_uniform_prior_knows_what_zero_is_worth() -> None:
    family = EpisodePlayer(Walk(), 4, binarize=(-1, 3)).uniform_prior().family
    np.testing.assert_allclose(family.mdp(family.parameter_means()).rewards[0, END], 0.25)
    _, drawn = mixts.MixturePrior(family).draw(np.random.default_rng(0), 200)
    # Its standard deviation is sqrt(0.1875 / 1e6).
    assert np.abs(family.mdp(drawn).rewards[:, END] - 0.25).max() < 0.005


def test_the_model_of_frozen_lake() -> None:
    model = EpisodePlayer(frozen_lake(), 30).model()
    assert (model.n_states, model.n_actions, model.horizon) == (17, 4, 30)
    np.testing.assert_array_equal(model.initial, np.eye(17)[0])
    down, right, end = 1, 2, 16
    expected = np.zeros(17)
    expected[[14, 10, end]] = 1 / 3  # beside the goal: slips down or up, or walks into it
    np.testing.assert_allclose(model.transitions[14, right], expected)
    assert model.rewards[14, right] == pytest.approx(1 / 3)
    expected = np.zeros(17)
    expected[[0, 2, end]] = 1 / 3  # above a hole: slips to either side, or falls
    np.testing.assert_allclose(model.transitions[1, down], expected)
    for hole_goal_or_end in (5, 7, 11, 12, 15, end):
        np.testing.assert_array_equal(model.transitions[hole_goal_or_end, :, end], 1.0)
        np.testing.assert_array_equal(model.rewards[hole_goal_or_end], 0.0)
    assert model.rewards.sum() == pytest.approx(1.0)  # a third each for three of four actions


def test_episodes_follow_the_model() -> None:
    player = EpisodePlayer(frozen_lake(), 40, seed=5)
    model = player.model()
    best = model.plan().policy
    n = 400
    returns = []
    belief = player.uniform_prior().belief()
    for _ in range(n):
        played = player.play(best)
        assert played.rewards.sum() == player.last_return
        returns.append(player.last_return)
        belief.update(played, None)
    value = model.value(best)
    assert abs(np.mean(returns) - value) < 4 * (value * (1 - value) / n) ** 0.5
    # What happened is possible in the model, and has its frequencies.
    counts = belief.statistics.transitions
    assert (model.transitions[counts > 0] > 0).all()
    totals = counts.sum(axis=2)
    x, a = np.unravel_index(totals.argmax(), totals.shape)
    p, m = model.transitions[x, a], totals[x, a]
    assert (np.abs(counts[x, a] / m - p) <= 4 * np.sqrt(p * (1 - p) / m)).all()


def raw_model(env: Any, horizon: int) -> mixts.MDP:
    """An environment's table with its rewards as they are, and 0 after the end."""
    n, n_actions = env.observation_space.n, env.action_space.n
    rewards, transitions = np.zeros((n + 1, n_actions)), np.zeros((n + 1, n_actions, n + 1))
    transitions[n, :, n] = 1.0
    for x, a in product(range(n), range(n_actions)):
        for p, y, reward, terminated in env.unwrapped.P[x][a]:
            rewards[x, a] += p * reward
            transitions[x, a, n if terminated else y] += p
    start = np.append(env.unwrapped.initial_state_distrib, 0.0)
    return mixts.MDP(rewards, transitions, horizon, start)


def test_binarizing_keeps_the_best_policy() -> None:
    """CliffWalking: every step costs 1, so that what comes after the end matters."""
    env = CliffWalkingEnv()
    raw, model = raw_model(env, 25), tabular_model(env, 25, binarize=(-100, 0))
    best = model.plan().policy
    assert raw.value(best) == pytest.approx(-13.0)
    assert raw.value(raw.plan().policy) == pytest.approx(-13.0)
    # 25 steps of (reward + 100) / 100.
    assert model.value(best) == pytest.approx((25 * 100 - 13) / 100)
    player = EpisodePlayer(env, 25, binarize=(-100, 0), seed=1)
    player.play(best)
    assert (player.last_return, player.last_length) == (-13.0, 13)


def test_models_that_are_not_shown_are_refused() -> None:
    env: Any = Walk()
    with pytest.raises(ParameterError, match="no attribute 'P'"):
        tabular_model(env, 3)
    stay = {x: {a: [(1.0, x, 0, False)] for a in (-1, 0, 1)} for x in range(10, 15)}
    env.P = stay
    with pytest.raises(ParameterError, match="'initial_state_distrib', so give initial"):
        tabular_model(env, 3)
    model = tabular_model(env, 3, initial=[0, 0, 1, 0, 0])
    np.testing.assert_array_equal(model.initial, [0, 0, 1, 0, 0, 0])
    np.testing.assert_array_equal(model.transitions, np.eye(6)[:, None].repeat(3, axis=1))
    with pytest.raises(ParameterError, match="5 states, got shape"):
        tabular_model(env, 3, initial=[1.0])
    # Added one by one, nine ninths are more than one, which no probability may be.
    env.P = {**stay, 12: {a: [(1 / 9, 12, 1, False)] * 9 for a in (-1, 0, 1)}}
    assert tabular_model(env, 3, initial=[1, 0, 0, 0, 0]).rewards[2, 0] == 1.0
    env.P = {x: stay[x] for x in range(10, 14)}
    with pytest.raises(ParameterError, match="14 and -1 are missing"):
        tabular_model(env, 3, initial=[1, 0, 0, 0, 0])
    env.P = {**stay, 12: {a: [(1.0, 12, 0.5, False)] for a in (-1, 0, 1)}}
    with pytest.raises(OutcomeError, match="binarize"):
        tabular_model(env, 3, initial=[1, 0, 0, 0, 0])
