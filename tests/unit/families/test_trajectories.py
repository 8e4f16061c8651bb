"""Trajectories: a malformed one is refused completely, with an error that describes it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mixts
from mixts import errors

pytestmark = pytest.mark.usefixtures("program")

STATES = np.array([[0, 1, 2, 1], [2, 2, 0, 0], [1, 1, 1, 1]])
ACTIONS = np.array([[0, 1, 1], [1, 0, 0], [0, 0, 0]])
REWARDS = np.array([[0.0, 1.0, 1.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]])
NAN, INF = np.nan, np.inf

PRIOR = mixts.MixturePrior(
    mixts.TabularMDP(np.ones((2, 3, 2, 2)), np.full((2, 3, 2, 3), [1.0, 2.0, 3.0]), 3, 0)
)


def at(array: Any, index: Any, value: Any) -> Any:
    changed = array.copy()
    changed[index] = value
    return changed


# -- what it is ------------------------------------------------------------------------------------


def test_one_episode_or_many() -> None:
    one = mixts.Trajectory(STATES[0], ACTIONS[0], REWARDS[0])
    assert (one.single, one.n_steps, float(one.returns)) == (True, 3, 2.0)
    many = mixts.Trajectory(STATES[:, :3], ACTIONS, REWARDS)
    assert (many.single, many.n_steps) == (False, 3)
    np.testing.assert_array_equal(many.returns, [2.0, 1.0, 1.0])
    assert repr(one) == "Trajectory(3 steps, return 2)"
    assert repr(many) == "Trajectory(3 episodes, 3 steps, mean return 1.333)"


def test_returns_are_of_steps_that_count() -> None:
    rewards = at(at(REWARDS, (0, 2), NAN), (1, 0), 7.0)
    many = mixts.Trajectory(STATES, ACTIONS, rewards, lengths=[2, 0, 3])
    np.testing.assert_array_equal(many.returns, [1.0, 0.0, 1.0])
    one = mixts.Trajectory(STATES[0], ACTIONS[0], rewards[0], lengths=2)
    assert float(one.returns) == 1.0
    assert "return 1" in repr(one)


def test_buffers_may_be_used_again() -> None:
    """Nothing that happens to the given arrays afterwards reaches the trajectory."""
    buffers = STATES.copy(), ACTIONS.copy(), REWARDS.copy(), np.array([2, 3, 1])
    trajectory = mixts.Trajectory(*buffers)
    for buffer in buffers:
        buffer[...] = 99
    belief, expected = PRIOR.belief(), PRIOR.belief()
    belief.update(trajectory)
    expected.update(mixts.Trajectory(STATES, ACTIONS, REWARDS, [2, 3, 1]))
    assert belief.statistics == expected.statistics


def test_no_episodes_are_a_trajectory_too() -> None:
    nothing = mixts.Trajectory(STATES[:0], ACTIONS[:0], REWARDS[:0])
    assert nothing.returns.shape == (0,)
    assert "0 episodes" in repr(nothing)
    belief = PRIOR.belief()
    belief.update(nothing)
    assert belief.statistics.n_observations == 0


def test_any_whole_numbers_will_do() -> None:
    """Of any integer type, strided, read-only or lists; rewards of any type that holds 0 and 1."""
    expected = PRIOR.belief()
    expected.update(mixts.Trajectory(STATES, ACTIONS, REWARDS))
    fortran, frozen = np.asfortranarray(STATES), ACTIONS.astype(np.uint8)
    frozen.flags.writeable = False
    for given in [
        (fortran, frozen, REWARDS.astype(bool)),
        (STATES.tolist(), ACTIONS.tolist(), REWARDS.astype(np.float32)),
        (STATES.astype(np.int32), np.repeat(ACTIONS, 2, axis=1)[:, ::2], REWARDS.astype(int)),
    ]:
        belief = PRIOR.belief()
        belief.update(mixts.Trajectory(*given))
        assert belief.statistics == expected.statistics
        np.testing.assert_array_equal(belief.log_evidence, expected.log_evidence)


# -- what no trajectory can be ---------------------------------------------------------------------


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((STATES[0], ACTIONS[0], REWARDS[0, :2]), r"got shapes \(4,\), \(3,\) and \(2,\)"),
        ((STATES[0, :2], ACTIONS[0], REWARDS[0]), r"got shapes \(2,\), \(3,\) and \(3,\)"),
        ((np.zeros(5, int), ACTIONS[0], REWARDS[0]), r"got shapes \(5,\), \(3,\)"),
        ((STATES[:2], ACTIONS, REWARDS), r"got shapes \(2, 4\), \(3, 3\) and \(3, 3\)"),
        ((STATES, ACTIONS, REWARDS[:2]), "got shapes"),
        ((STATES, ACTIONS[0], REWARDS[0]), "got shapes"),
        ((STATES[0], ACTIONS, REWARDS), "got shapes"),
        ((STATES[None], ACTIONS[None], REWARDS[None]), "one more axis, first; got shapes"),
        ((0, 0, 1.0), r"got shapes \(\), \(\) and \(\)"),
        ((0, [0], [1.0]), r"got shapes \(\), \(1,\) and \(1,\)"),
        (([], [], []), "got shapes"),
        (([0], [], []), "got shapes"),
        ((np.zeros((2, 1), int), np.zeros((2, 0), int), np.zeros((2, 0))), "got shapes"),
        ((STATES.astype(float), ACTIONS, REWARDS), "states must be integers, got type float64"),
        ((STATES > 0, ACTIONS, REWARDS), "states must be integers, got type bool"),
        ((STATES, ACTIONS + 0.5, REWARDS), "actions must be integers, got type float64"),
        ((STATES, [["left"] * 3] * 3, REWARDS), "actions must be integers"),
        ((STATES, ACTIONS, [["one"] * 3] * 3), "rewards must be numbers"),
        ((STATES, ACTIONS, REWARDS.astype(complex)), "rewards must be numbers"),
        ((None, ACTIONS, REWARDS), "states must be integers, got type object"),
        (([[0, 1], [0]], [[0], [0]], [[1.0], [1.0]]), "states must be integers"),
        ((STATES[0], ACTIONS[0], [0.0, None, 1.0]), "rewards must be numbers"),
    ],
)
def test_what_has_no_steps_is_no_trajectory(given: Any, message: str) -> None:
    with pytest.raises(errors.TrajectoryError, match=message):
        mixts.Trajectory(*given)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    "lengths", [2, [3, 3], [1, 2, 4], [-1, 0, 0], [1.0, 2.0, 3.0], [[1, 2, 3]], "abc", [True] * 3]
)
def test_lengths_that_do_not_fit_are_refused(lengths: Any) -> None:
    with pytest.raises(errors.TrajectoryError, match=r"whole numbers from 0 to 3, of shape \(3,\)"):
        mixts.Trajectory(STATES, ACTIONS, REWARDS, lengths)


def test_the_length_of_one_episode_is_a_number() -> None:
    for wrong in ([2], 4, -1):
        with pytest.raises(errors.TrajectoryError, match=r"of shape \(\)"):
            mixts.Trajectory(STATES[0], ACTIONS[0], REWARDS[0], lengths=wrong)


# -- what this family refuses ----------------------------------------------------------------------


def readings(belief: mixts.Belief) -> list[Any]:
    statistics = belief.statistics.copy()
    return [belief.log_evidence, statistics.array("rewards"), statistics.array("transitions")]


def assert_refused(
    belief: mixts.Belief, kind: type[Exception], message: str, *update: Any, **how: Any
) -> None:
    before = readings(belief)
    with pytest.raises(kind, match=message) as caught:
        belief.update(*update, **how)
    assert type(caught.value) is kind
    for one, other in zip(readings(belief), before, strict=True):
        assert one.tobytes() == other.tobytes()


WRONG: dict[str, tuple[Any, Any, Any, type[Exception], str]] = {
    "state above": (at(STATES, (2, 1), 3), ACTIONS, REWARDS, errors.TrajectoryError,
                    r"states are 0 to 2, got 3 \(episode 2, step 1\)"),
    "state below": (at(STATES, (1, 0), -1), ACTIONS, REWARDS, errors.TrajectoryError,
                    r"states are 0 to 2, got -1 \(episode 1, step 0\)"),
    "last state": (at(STATES, (2, 3), 9), ACTIONS, REWARDS, errors.TrajectoryError,
                   r"states are 0 to 2, got 9 \(episode 2, step 3\)"),
    "action above": (STATES, at(ACTIONS, (2, 2), 2), REWARDS, errors.ActionError,
                     r"actions are 0 to 1, got 2 \(episode 2, step 2\)"),
    "action below": (STATES, at(ACTIONS, (0, 0), -5), REWARDS, errors.ActionError,
                     r"actions are 0 to 1, got -5 \(episode 0, step 0\)"),
    "half a reward": (STATES, ACTIONS, at(REWARDS, (2, 2), 0.5), errors.OutcomeError,
                      r"0 or 1, got 0\.5 \(episode 2, step 2\)"),
    "two rewards": (STATES, ACTIONS, at(REWARDS, (1, 2), 2.0), errors.OutcomeError,
                    r"0 or 1, got 2\.0 \(episode 1, step 2\)"),
    "no number": (STATES, ACTIONS, at(REWARDS, (0, 1), NAN), errors.OutcomeError,
                  r"0 or 1, got nan \(episode 0, step 1\)"),
    "endless": (STATES, ACTIONS, at(REWARDS, (0, 1), INF), errors.OutcomeError, "got inf"),
    "nearly one": (STATES, ACTIONS, at(REWARDS, (0, 1), 1 - 1e-16), errors.OutcomeError,
                   r"got 0\.99"),
    "too short": (STATES[:, 1:], ACTIONS[:, 1:], REWARDS[:, 1:], errors.TrajectoryError,
                  r"an episode has 3 steps, got 2; say with lengths="),
    "too long": (np.zeros((3, 4), int), np.zeros((3, 4), int), np.zeros((3, 4)),
                 errors.TrajectoryError, "an episode has 3 steps, got 4"),
}  # fmt: skip


@pytest.mark.parametrize("n_tasks", [None, 3])
@pytest.mark.parametrize("name", WRONG)
def test_episodes_outside_the_mdp_are_refused_whole(name: str, n_tasks: int | None) -> None:
    """Fresh, with a history, and after the statistics were handed out."""
    *given, kind, message = WRONG[name]
    belief = PRIOR.belief(n_tasks)
    for _ in range(2):
        assert_refused(belief, kind, message, mixts.Trajectory(*given))
        belief.update(mixts.Trajectory(STATES, ACTIONS, REWARDS))
    assert_refused(belief, kind, message, mixts.Trajectory(*given))
    assert np.sum(belief.statistics.n_observations) == 18


def test_too_long_is_too_long_whatever_counts() -> None:
    longer = mixts.Trajectory(
        np.zeros((1, 4), int), np.zeros((1, 4), int), np.zeros((1, 4)), lengths=[2]
    )
    assert_refused(PRIOR.belief(), errors.TrajectoryError, "has 3 steps, got 4", longer)


def test_shorter_arrays_need_lengths() -> None:
    belief = PRIOR.belief()
    short = mixts.Trajectory(STATES[:, :2], ACTIONS[:, :2], REWARDS[:, :2], lengths=[2, 1, 0])
    belief.update(short)
    assert belief.statistics.n_observations == 3
    assert belief.statistics.transitions.sum() == 1  # 0 -> 1, and the others' ends are unseen


@pytest.mark.usefixtures("unchecked")
def test_invalid_trajectories_are_refused() -> None:
    one = mixts.Trajectory(STATES[0], ACTIONS[0], REWARDS[0])
    belief = PRIOR.belief()
    for update, came in [
        ((ACTIONS[0], REWARDS[0]), "got ndarray and ndarray"),
        (((STATES[0], ACTIONS[0], REWARDS[0]),), "got tuple"),
        ((0, 1.0), "got int and float"),
        ((None,), "got NoneType"),
        ((one, REWARDS[0], [0]), "got Trajectory and ndarray"),
    ]:
        assert_refused(belief, errors.TrajectoryError, f"mixts.Trajectory.*{came}", *update)


def test_tasks_of_trajectories() -> None:
    """By name or in second place; as many as there are episodes."""
    many = mixts.Trajectory(STATES, ACTIONS, REWARDS)
    one = mixts.Trajectory(STATES[0], ACTIONS[0], REWARDS[0])
    by_name, by_place = PRIOR.belief(4), PRIOR.belief(4)
    by_name.update(many, tasks=[3, 1, 3])
    by_place.update(many, [3, 1, 3])
    assert by_name.statistics == by_place.statistics
    assert by_name.statistics.n_observations.tolist() == [0, 3, 0, 6]
    by_name.update(one, tasks=[2])
    assert by_name.statistics.n_observations.tolist() == [0, 3, 3, 6]
    for tasks, kind, message in [
        ([0, 1], errors.ObservationError, r"as many observations as tasks \(2\), got 3"),
        (None, errors.ObservationError, "each of the 4 tasks, got 3"),
        ([0, 1, 4], errors.TaskError, "between 0 and 3, got 4"),
        ([0.0, 1.0, 2.0], errors.TaskError, "integers"),
    ]:
        assert_refused(by_name, kind, message, many, tasks=tasks)
    assert_refused(PRIOR.belief(), errors.TaskError, "leave tasks out", many, tasks=[0, 0, 0])


@pytest.mark.usefixtures("unchecked")
def test_bandits_refuse_trajectories() -> None:
    one = mixts.Trajectory(STATES[0], ACTIONS[0], REWARDS[0])
    for family in (mixts.BernoulliArms.uniform(3), mixts.LinearGaussian.standard(3, noise_std=1)):
        belief = mixts.MixturePrior(family).belief()
        with pytest.raises(errors.ActionError):
            belief.update(one)
        with pytest.raises(errors.ObservationError):
            belief.update(0)  # and bandits need an outcome
        assert belief.statistics.n_observations == 0
