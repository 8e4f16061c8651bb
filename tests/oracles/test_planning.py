"""Backward induction and evaluation against enumeration, a linear program and fractions."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import mixts
from mixts import errors
from tests.oracles.tabular_references import ExactMDP, linear_program

pytestmark = pytest.mark.usefixtures("program")

ROUNDING = 1e-13
"""A value is at most h <= 20 here, and is h sums of X <= 8 products: some 1e-15 of it is lost."""

KINDS = ("dense", "sparse", "certain")


def tables(seed: int, n_states: int, n_actions: int, kind: str = "dense") -> tuple[Any, Any]:
    """Rewards (X, A) and transitions (X, A, X); sparse ones have zeros, certain ones one 1."""
    rng = np.random.default_rng((seed, n_states, n_actions, KINDS.index(kind)))
    rewards = rng.random((n_states, n_actions))
    rows = rng.dirichlet(np.ones(n_states), (n_states, n_actions))
    if kind == "sparse":
        rewards[rng.random(rewards.shape) < 0.4] = 0.0
        rows[rng.random(rows.shape) < 0.4] = 0.0
        rows[..., 0] += rows.sum(axis=-1) == 0
        rows /= rows.sum(axis=-1, keepdims=True)
    if kind == "certain":
        rows = np.eye(n_states)[rng.integers(n_states, size=(n_states, n_actions))]
    return rewards, rows


def floats(values: Any) -> Any:
    return np.array(values, dtype=float)


TINY = [(2, 2, 3), (3, 2, 2), (2, 3, 2), (1, 3, 3), (3, 1, 4)]
tiny = pytest.mark.parametrize(("n_states", "n_actions", "horizon"), TINY, ids=str)
kinds = pytest.mark.parametrize("kind", KINDS)


@tiny
@kinds
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_plan_is_the_best_of_all_policies(
    seed: int, kind: str, n_states: int, n_actions: int, horizon: int
) -> None:
    """At every step and from every state, and the policy earns what the values promise."""
    rewards, transitions = tables(seed, n_states, n_actions, kind)
    exact = ExactMDP.of(rewards, transitions, horizon)
    plan = mixts.MDP(rewards, transitions, horizon, 0).plan()
    best = floats(exact.best_values())
    np.testing.assert_allclose(plan.values, best, rtol=ROUNDING, atol=ROUNDING)
    chosen = tuple(map(tuple, plan.policy.tolist()))
    np.testing.assert_allclose(floats(exact.values(chosen)), best, rtol=ROUNDING, atol=ROUNDING)


@kinds
def test_every_policy_is_worth_the_mean_return_of_its_trajectories(kind: str) -> None:
    """All 64 at once, as policies of one MDP."""
    rewards, transitions = tables(5, 2, 2, kind)
    exact, initial = ExactMDP.of(rewards, transitions, 3), np.array([0.3, 0.7])
    mdp = mixts.MDP(rewards, transitions, 3, initial)
    policies = list(exact.policies())
    assert len(policies) == 64
    expected = floats([exact.values(policy) for policy in policies])
    np.testing.assert_allclose(mdp.evaluate(policies), expected, rtol=ROUNDING, atol=ROUNDING)
    np.testing.assert_allclose(mdp.value(policies), expected[:, 0] @ initial, rtol=ROUNDING)
    assert mdp.value(policies).max() == pytest.approx(mdp.value(mdp.plan().policy), rel=ROUNDING)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("n_states", "n_actions", "horizon"), [(8, 3, 6), (5, 5, 12), (7, 2, 20)])
def test_the_plan_solves_the_linear_program(
    kind: str, n_states: int, n_actions: int, horizon: int
) -> None:
    """The solver stops where constraints hold within 1e-7, over at most 20 steps."""
    rewards, transitions = tables(7, n_states, n_actions, kind)
    values = mixts.MDP(rewards, transitions, horizon, 0).plan().values
    solved = linear_program(rewards, transitions, horizon)
    np.testing.assert_allclose(values, solved, atol=2e-7 * horizon)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("n_states", "n_actions", "horizon"), [(6, 4, 8), (4, 2, 15)])
def test_the_plan_is_the_recursion_in_fractions(
    kind: str, n_states: int, n_actions: int, horizon: int
) -> None:
    rewards, transitions = tables(8, n_states, n_actions, kind)
    plan = mixts.MDP(rewards, transitions, horizon, 0).plan()
    best = floats(ExactMDP.of(rewards, transitions, horizon).recursive_values())
    np.testing.assert_allclose(plan.values, best, rtol=ROUNDING, atol=ROUNDING)


def test_riverswim_is_planned_right() -> None:
    """The MDP whose values span the most: a small reward near, a large one far."""
    mdp = mixts.RiverSwim().mean_mdp("left")
    exact = ExactMDP.of(mdp.rewards, mdp.transitions, mdp.horizon)
    best = floats(exact.recursive_values())
    np.testing.assert_allclose(mdp.plan().values, best, rtol=ROUNDING, atol=ROUNDING)


# -- batches ---------------------------------------------------------------------------------------


def batch(shape: tuple[int, ...], n_states: int = 4, n_actions: int = 3) -> mixts.MDP:
    rng = np.random.default_rng(3)
    rewards = rng.random((*shape, n_states, n_actions))
    rows = rng.dirichlet(np.ones(n_states), (*shape, n_states, n_actions))
    return mixts.MDP(rewards, rows, 5, rng.dirichlet(np.ones(n_states)))


@pytest.mark.parametrize("shape", [(0,), (1,), (7,), (2, 3)], ids=str)
def test_a_batch_is_planned_like_each_of_its_mdps(shape: tuple[int, ...]) -> None:
    mdps = batch(shape)
    policy, values = mdps.plan()
    assert policy.shape == values.shape == (*shape, 5, 4)
    assert policy.dtype == np.int64
    evaluated, worth = mdps.evaluate(policy), mdps.value(policy)
    assert evaluated.shape == values.shape
    assert worth.shape == shape
    for index in np.ndindex(shape):
        alone = mdps[index]
        assert alone.shape == ()
        np.testing.assert_array_equal(alone.plan().policy, policy[index])
        np.testing.assert_array_equal(alone.plan().values, values[index])
        np.testing.assert_array_equal(alone.evaluate(policy[index]), evaluated[index])
        assert alone.value(policy[index]) == pytest.approx(worth[index], rel=ROUNDING)
        fresh = mixts.MDP(mdps.rewards[index], mdps.transitions[index], 5, mdps.initial)
        np.testing.assert_array_equal(fresh.plan().policy, policy[index])
    # The same sums in another order.
    np.testing.assert_allclose(evaluated, values, rtol=ROUNDING)


def test_one_policy_serves_many_mdps_and_one_mdp_many_policies() -> None:
    mdps = batch((6,))
    policies = np.random.default_rng(4).integers(3, size=(2, 3, 5, 4))
    shared = mdps.evaluate(policies[0, 0])
    assert shared.shape == (6, 5, 4)
    for m in range(6):
        np.testing.assert_array_equal(shared[m], mdps[m].evaluate(policies[0, 0]))
    many = mdps[2].evaluate(policies)
    assert many.shape == (2, 3, 5, 4)
    assert mdps[2].value(policies).shape == (2, 3)
    for index in np.ndindex(2, 3):
        np.testing.assert_array_equal(many[index], mdps[2].evaluate(policies[index]))
    for wrong in (policies, policies[0], policies[:, 0]):
        with pytest.raises(errors.ParameterError, match=r"one for each of \(6,\) MDPs"):
            mdps.evaluate(wrong)


# -- ties ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n_states", "n_actions"), list(product([1, 2, 3, 5, 8], [2, 3, 4, 7])))
def test_equal_actions_are_ties_to_the_last_bit(n_states: int, n_actions: int) -> None:
    """Whichever way the loops are vectorised: the first of equal actions is taken."""
    rewards, transitions = tables(9, n_states, 1)
    mdp = mixts.MDP(
        np.repeat(rewards, n_actions, axis=1), np.repeat(transitions, n_actions, axis=1), 9, 0
    )
    assert np.all(mdp.plan().policy == 0)
    chosen = mdp.plan(np.random.default_rng(1)).policy
    # 9 X independent choices: all the same with a probability below 1e-2 at worst, for X = 1.
    assert len(np.unique(chosen)) > 1
    np.testing.assert_array_equal(mdp.plan(np.random.default_rng(1)).values, mdp.plan().values)


def test_ties_are_only_between_the_best() -> None:
    """A worse action is never taken, wherever it stands, and a single best one always is."""
    rewards = np.array([[0.2, 0.7, 0.7, 0.1], [0.5, 0.3, 0.5, 0.5], [0.0, 0.1, 0.2, 0.9]])
    transitions = np.tile([0.25, 0.25, 0.5], (3, 4, 1))
    mdp = mixts.MDP(rewards, transitions, 40, 0)
    first = mdp.plan().policy
    np.testing.assert_array_equal(first, np.tile([1, 0, 3], (40, 1)))
    chosen = mdp.plan(np.random.default_rng(2)).policy
    assert set(chosen[:, 0]) == {1, 2}
    assert set(chosen[:, 1]) == {0, 2, 3}
    assert set(chosen[:, 2]) == {3}
    assert mdp.value(chosen) == pytest.approx(mdp.value(first), rel=ROUNDING)
