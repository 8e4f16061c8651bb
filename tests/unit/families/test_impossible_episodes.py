"""Prior counts of zero: what no component can explain is refused whole, and the rest goes on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mixts
from mixts import errors

pytestmark = pytest.mark.usefixtures("program")


def sure(weights: Any = None) -> mixts.MixturePrior:
    """Three components; state 2 is never followed by 0, and action 1 there is never rewarded.

    The first never comes from 0 to 1, the second never from 0 to 2, the third knows no zeros of
    its own.
    """
    reward, transition = np.ones((3, 3, 2, 2)), np.ones((3, 3, 2, 3))
    transition[:, 2, :, 0] = 0.0
    reward[:, 2, 1, 0] = 0.0
    transition[0, 0, :, 1] = 0.0
    transition[1, 0, :, 2] = 0.0
    return mixts.MixturePrior(mixts.TabularMDP(reward, transition, 3, 0), weights)


def bits(belief: mixts.Belief) -> list[bytes]:
    statistics = belief.statistics.copy()
    counts = [statistics.array(name).tobytes() for name in ("rewards", "transitions")]
    return [belief.log_evidence.tobytes(), belief.weights.tobytes(), *counts]


FINE = ([0, 1, 1], [0, 0, 0], [0.0, 1.0, 0.0])


def trajectory(*episodes: Any, lengths: Any = None) -> mixts.Trajectory:
    return mixts.Trajectory(*(np.array(part) for part in zip(*episodes, strict=True)), lengths)


def test_one_impossible_step_rules_a_component_out_for_good() -> None:
    belief = sure().belief()
    belief.update(trajectory(([0, 1, 1], [0, 1, 0], [1.0, 0.0, 0.0])))
    assert np.isneginf(belief.log_evidence).tolist() == [True, False, False]
    assert belief.weights[0] == 0.0
    belief.update(trajectory(([0, 2, 1], [0, 1, 0], [1.0, 0.0, 0.0])))
    assert np.isneginf(belief.log_evidence).tolist() == [True, True, False]
    assert belief.weights.tolist() == [0.0, 0.0, 1.0]
    for _ in range(20):
        assert belief.sample(np.random.default_rng(1))[0] == 2
    assert np.isfinite(belief.mean).all()
    assert np.isfinite(belief.covariance).all()
    assert belief.as_prior().weights.tolist() == [0.0, 0.0, 1.0]
    assert "2: weight 1.0000" in repr(belief)


Refused = tuple[Any, Any, str]

REFUSED: dict[str, Refused] = {
    "a transition": (
        ([0, 2, 0], [0, 0, 1], [0.0, 1.0, 0.0]), None,
        r"task 1: state 2, action 0, reward 1, which led to state 0 \(episode 1, step 1\)",
    ),
    "a reward": (
        ([2, 2, 2], [0, 0, 1], [0.0, 0.0, 1.0]), None,
        r"task 1: state 2, action 1, reward 1 \(episode 1, step 2\)",
    ),
    "both": (
        ([2, 0, 0], [1, 0, 0], [1.0, 0.0, 0.0]), None,
        r"task 1: state 2, action 1, reward 1, which led to state 0 \(episode 1, step 0\)",
    ),
    "the last that counts": (
        ([1, 2, 0], [0, 1, 0], [0.0, 1.0, 0.0]), [3, 2, 3],
        r"task 1: state 2, action 1, reward 1 \(episode 1, step 1\)",
    ),
    "together": (
        ([0, 1, 1], [0, 0, 0], [0.0, 0.0, 0.0]), None,
        r"task 1: state 0, action 0, reward 0, which led to state 1 \(episode 1, step 0\)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_an_impossible_update_is_refused_whole(name: str) -> None:
    """All episodes of the update are undone, and the message describes the impossible step.

    The last one is impossible only with what the task has seen: 0 to 2, with the third component
    known to be wrong.
    """
    bad, lengths, message = REFUSED[name]
    belief = sure([0.5, 0.5, 0.0]).belief(3)
    if name == "together":
        belief.update(trajectory(([0, 2, 2], [0, 0, 0], [0.0, 0.0, 0.0])), tasks=[1])
    belief.update(trajectory(([1, 1, 1], [0, 1, 0], [1.0, 0.0, 0.0])), tasks=[0])
    update = trajectory(FINE, bad, FINE, lengths=lengths)
    for tasks in ([0, 1, 2], [2, 1, 1], [0, 1, 0]):
        before = bits(belief)
        with pytest.raises(errors.TrajectoryError, match=message) as caught:
            belief.update(update, tasks=tasks)
        assert "Nothing was learned" in str(caught.value)
        assert bits(belief) == before
    belief.update(trajectory(FINE), tasks=[0])
    again = belief.prior.condition(belief.statistics)
    np.testing.assert_allclose(again.log_evidence, belief.log_evidence, rtol=1e-13)


def test_the_third_time_is_one_too_many_for_a_repeated_task() -> None:
    """An earlier episode of the batch may rule components out; the refusal undoes this."""
    belief = sure([0.5, 0.5, 0.0]).belief(2)
    to_one, to_two = FINE, ([0, 2, 2], [0, 0, 0], [0.0, 0.0, 0.0])
    before = bits(belief)
    with pytest.raises(errors.TrajectoryError, match=r"task 1: .* led to state 2 \(episode 2"):
        belief.update(trajectory(to_one, to_one, to_two, to_one), tasks=[0, 1, 1, 0])
    assert bits(belief) == before
    belief.update(trajectory(to_one, to_two), tasks=[0, 1])
    assert np.isneginf(belief.log_evidence).tolist() == [[True, False, False], [False, True, False]]


def test_impossible_statistics_are_refused() -> None:
    """By condition, and so by a prior that is swapped in; the agent keeps what it has."""
    flat = mixts.MixturePrior(mixts.TabularMDP.uniform(3, 2, 3, 0))
    agent = mixts.MixTS(flat, 3, seed=0)
    agent.update(trajectory(FINE, ([2, 0, 0], [0, 0, 0], [0.0, 0.0, 0.0]), FINE))
    before = bits(agent.belief)
    with pytest.raises(errors.StatisticsError, match=r"observations of task 1 are impossible"):
        sure().condition(agent.belief.statistics)
    with pytest.raises(errors.StatisticsError, match="task 1 "):
        agent.use_prior(sure())
    assert agent.prior is flat
    assert bits(agent.belief) == before
    kept = sure().condition(agent.belief.statistics[[0, 2]])
    assert np.isfinite(kept.weights).all()


def test_what_only_a_component_of_no_weight_explains_is_impossible() -> None:
    prior = sure([1.0, 0.0, 0.0])
    belief, before = prior.belief(), bits(prior.belief())
    with pytest.raises(errors.TrajectoryError, match="led to state 1"):
        belief.update(trajectory(FINE))
    assert bits(belief) == before
    seen = sure().belief()
    seen.update(trajectory(FINE))
    with pytest.raises(errors.StatisticsError, match="impossible"):
        prior.condition(seen.statistics)
