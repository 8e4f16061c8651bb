"""MDP: what it takes and refuses, batches and indices, policies that do not fit."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mixts
from mixts import errors

pytestmark = pytest.mark.usefixtures("program")

REWARDS = np.array([[0.1, 0.9], [0.5, 0.0], [1.0, 0.25]])
ROWS = np.array(
    [
        [[1.0, 0.0, 0.0], [0.5, 0.5, 0.0]],
        [[0.0, 0.25, 0.75], [0.2, 0.3, 0.5]],
        [[0.0, 0.0, 1.0], [1 / 3, 1 / 3, 1 / 3]],
    ]
)
HORIZON = 4
NAN, INF = np.nan, np.inf


def at(array: Any, index: Any, value: float) -> Any:
    changed = np.array(array, dtype=float)
    changed[index] = value
    return changed


def mdp(rewards: Any = REWARDS, rows: Any = ROWS, horizon: Any = HORIZON, start: Any = 0) -> Any:
    return mixts.MDP(rewards, rows, horizon, start)


def batch(n: int = 5) -> mixts.MDP:
    rng = np.random.default_rng(1)
    return mdp(rng.random((n, 3, 2)), rng.dirichlet(np.ones(3), (n, 3, 2)), start=[0.2, 0.3, 0.5])


# -- what it holds ---------------------------------------------------------------------------------


def test_it_holds_what_it_was_given() -> None:
    one = mdp(start=2)
    np.testing.assert_array_equal(one.rewards, REWARDS)
    np.testing.assert_array_equal(one.transitions, ROWS)
    np.testing.assert_array_equal(one.initial, [0.0, 0.0, 1.0])
    assert (one.n_states, one.n_actions, one.horizon, one.shape) == (3, 2, HORIZON, ())
    np.testing.assert_array_equal(one.parameters, np.append(REWARDS, ROWS))
    assert mdp(REWARDS.tolist(), ROWS.tolist(), np.int64(4), np.int64(1)).initial[1] == 1.0
    assert repr(one) == "MDP(3 states, 2 actions, horizon 4)"
    assert repr(batch()) == "MDP(5 MDPs, 3 states, 2 actions, horizon 4)"


def test_it_is_a_copy_and_cannot_be_written_to() -> None:
    rewards, rows, initial = REWARDS.copy(), ROWS.copy(), np.array([0.5, 0.5, 0.0])
    one = mdp(rewards, rows, start=initial)
    rewards[:], rows[:], initial[:] = 0.0, 0.0, 0.0
    np.testing.assert_array_equal(one.rewards, REWARDS)
    np.testing.assert_array_equal(one.transitions, ROWS)
    np.testing.assert_array_equal(one.initial, [0.5, 0.5, 0.0])
    for array in (one.parameters, one.rewards, one.transitions, one.initial):
        with pytest.raises(ValueError, match="read-only"):
            array[:] = 0.5


def test_values_by_hand() -> None:
    """Two steps: 0.9 and then half of 0.9 and half of 0.5, rather than 0.1 and 0.9."""
    two = mdp(horizon=2)
    policy, values = two.plan()
    assert policy.tolist() == [[1, 0, 0], [1, 0, 0]]
    np.testing.assert_allclose(values[1], [0.9, 0.5, 1.0])
    np.testing.assert_allclose(values[0], [0.9 + 0.7, 0.5 + 0.25 * 0.5 + 0.75, 2.0])
    assert two.value(policy) == pytest.approx(1.6)
    assert type(two.value(policy)) is float
    assert mdp(horizon=2, start=[0.5, 0.0, 0.5]).value(policy) == pytest.approx(1.8)
    worst = [[0, 1, 1], [0, 1, 1]]
    np.testing.assert_allclose(two.evaluate(worst)[1], [0.1, 0.0, 0.25])
    np.testing.assert_allclose(two.evaluate(worst)[0], [0.2, 0.02 + 0.125, 0.25 + 0.35 / 3])


def test_the_last_step_is_greedy_and_earlier_ones_are_not() -> None:
    """A policy depends on the step: near the end there is no time to get anywhere."""
    river = mixts.RiverSwim(5, horizon=20).mean_mdp("left")
    policy = river.plan().policy
    assert policy[-1].tolist() == [0, 0, 0, 0, 1]
    assert policy[0].tolist() == [1, 1, 1, 1, 1]


# -- batches ---------------------------------------------------------------------------------------


def test_a_batch_is_indexed_like_an_array() -> None:
    mdps = batch()
    assert len(mdps) == 5
    assert mdps.shape == (5,)
    for index in (slice(1, 4), [3, 0, 3], np.array([True, False, True, False, True]), -1, 2,
                  np.int64(1)):  # fmt: skip
        part = mdps[index]
        np.testing.assert_array_equal(part.rewards, mdps.rewards[index])
        np.testing.assert_array_equal(part.transitions, mdps.transitions[index])
        assert (part.horizon, part.n_actions) == (HORIZON, 2)
        np.testing.assert_array_equal(part.initial, mdps.initial)
    assert mdps[2].shape == ()
    assert len(list(mdps)) == 5
    assert mdps[None].shape == (1, 5)
    for outside in (5, -6):
        with pytest.raises(IndexError):
            mdps[outside]
    with pytest.raises(IndexError):
        mdps[0, 0]  # never into an MDP's numbers


def test_one_mdp_is_not_a_batch() -> None:
    with pytest.raises(TypeError, match="one MDP"):
        len(mdp())
    with pytest.raises(IndexError, match="one MDP"):
        mdp()[0]


def test_pickled_it_is_the_same() -> None:
    again = pickle.loads(pickle.dumps(batch()))
    np.testing.assert_array_equal(again.parameters, batch().parameters)
    np.testing.assert_array_equal(again.plan().policy, batch().plan().policy)


# -- refusals --------------------------------------------------------------------------------------

Bad = tuple[Callable[[], Any], str]

IMPOSSIBLE: dict[str, Bad] = {
    "shapes": (lambda: mdp(REWARDS[:2]), r"\(\.\.\., X, A, X\), got \(2, 2\) and \(3, 2, 3\)"),
    "transposed": (lambda: mdp(REWARDS.T), "must have shape"),
    "one axis": (lambda: mdp(REWARDS[0], ROWS[0]), "must have shape"),
    "batches differ": (lambda: mdp(np.stack([REWARDS] * 2), ROWS[None]), "must have shape"),
    "no states": (lambda: mdp(np.ones((0, 2)), np.ones((0, 2, 0)), 3, 0), "must have shape"),
    "no actions": (lambda: mdp(np.ones((2, 0)), np.ones((2, 0, 2)), 3, 0), "must have shape"),
    "reward nan": (lambda: mdp(at(REWARDS, (1, 1), NAN)), "rewards must be finite"),
    "reward infinite": (lambda: mdp(at(REWARDS, (1, 1), INF)), "rewards must be finite"),
    "rewards text": (lambda: mdp("rewards"), "rewards must be numbers"),
    "row sum": (lambda: mdp(rows=at(ROWS, (0, 0, 0), 0.9)), r"sum to 1 .* got .*0\.9.* \(0, 0\)"),
    "negative": (lambda: mdp(rows=at(ROWS, (1, 1, 2), -0.5)), r"got -0\.5 at index \(1, 1, 2\)"),
    "row nan": (lambda: mdp(rows=at(ROWS, (1, 1, 2), NAN)), "transitions must be probabilities"),
    "horizon zero": (lambda: mdp(horizon=0), "horizon must be a whole number, at least 1, got 0"),
    "horizon half": (lambda: mdp(horizon=2.5), "horizon must be a whole number"),
    "horizon true": (lambda: mdp(horizon=True), "horizon must be a whole number"),
    "start outside": (lambda: mdp(start=3), "initial must be a state from 0 to 2, got 3"),
    "start negative": (lambda: mdp(start=-1), "initial must be a whole number, at least 0"),
    "start a float": (lambda: mdp(start=1.0), "initial must be a whole number"),
    "start nobody": (lambda: mdp(start=None), "initial must be numbers"),
    "start sum": (lambda: mdp(start=[0.5, 0.2, 0.2]), "initial must be probabilities"),
    "start negative probability": (lambda: mdp(start=[1.5, -0.5, 0.0]), "initial must be at least"),
    "start nan": (lambda: mdp(start=[1.0, NAN, 0.0]), "initial must be probabilities"),
    "start short": (lambda: mdp(start=[0.5, 0.5]), r"3 states, got shape \(2,\)"),
}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_impossible_mdps_are_refused(name: str) -> None:
    make, message = IMPOSSIBLE[name]
    with pytest.raises(errors.ParameterError, match=message):
        make()


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("verb", ["evaluate", "value"])
def test_policies_that_do_not_fit_are_refused(verb: str) -> None:
    good = np.zeros((HORIZON, 3), int)
    for wrong, message in [
        (good[:2], r"shape \(\.\.\., 4, 3\): step, state, got shape \(2, 3\)"),
        (good.T, r"got shape \(3, 4\)"),
        (good[0], r"got shape \(3,\)"),
        (0, r"got shape \(\)"),
        (good.astype(float), "got type float64"),
        (good == 0, "got type bool"),
        (at(good, (1, 2), 2).astype(int), "integers from 0 to 1.* got 0 to 2"),
        (at(good, (1, 2), -1).astype(int), "got -1 to 0"),
        ("policy", "a policy is actions"),
        ([[0], [0, 1]], "a policy is actions"),
        (None, "a policy is actions"),
    ]:
        with pytest.raises(errors.ParameterError, match=message):
            getattr(mdp(), verb)(wrong)


def test_nothing_is_evaluated_to_nothing() -> None:
    """No policies for one MDP, or one policy for no MDPs."""
    mdp = mixts.RiverSwim(4, horizon=3).mean_mdp("left")
    none = np.zeros((0, 3, 4), int)
    assert mdp.evaluate(none).shape == (0, 3, 4)
    assert mdp.value(none).shape == (0,)
    empty = mixts.MDP.stack([mdp, mdp])[:0]
    assert empty.evaluate(np.zeros((3, 4), int)).shape == (0, 3, 4)
    assert empty.plan().policy.shape == (0, 3, 4)
    assert len(empty) == 0


def test_a_batch_of_several(unchecked: None) -> None:
    river = mixts.RiverSwim(4, horizon=3)
    left, right = river.mean_mdp("left"), river.mean_mdp("right")
    both = mixts.MDP.stack(mdp for mdp in (left, right))
    np.testing.assert_array_equal(both.rewards, [left.rewards, right.rewards])
    np.testing.assert_array_equal(both[1].transitions, right.transitions)
    longer = mixts.RiverSwim(5, horizon=3).mean_mdp("left")
    elsewhere = mixts.RiverSwim(4, horizon=3, start=0).mean_mdp("left")
    for others in ([], [left, 3], [left, longer], [left, elsewhere], [left, both]):
        with pytest.raises(errors.ParameterError, match="MDPs"):
            mixts.MDP.stack(others)


@pytest.mark.usefixtures("unchecked")
def test_a_generator_or_none() -> None:
    with pytest.raises(errors.ParameterError, match=r"rng must be a numpy\.random\.Generator"):
        mixts.RiverSwim(4).mean_mdp("left").plan(3)
