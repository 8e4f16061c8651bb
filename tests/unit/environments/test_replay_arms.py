"""Recorded rewards of arms as a bandit."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import mixts
from mixts import _random
from mixts.environments import ReplayArms
from mixts.errors import ActionError, ParameterError

# Task 0 has one reward of arm 1, task 1 rewards of one arm only, task 2 three or more of all arms.
# Every reward is another number, which tells where it is from.
COUNTS = np.array([[3, 1, 3], [0, 7, 0], [4, 3, 3]])
TASKS = np.repeat([0, 0, 0, 1, 1, 1, 2, 2, 2], COUNTS.ravel())
ARMS = np.repeat([0, 1, 2, 0, 1, 2, 0, 1, 2], COUNTS.ravel())
REWARDS = np.arange(float(len(TASKS)))


def bandit(n_rounds: int = 3) -> ReplayArms:
    order = np.random.default_rng(5).permutation(len(TASKS))
    return ReplayArms(ARMS[order], REWARDS[order], TASKS[order], n_rounds)


def start(environment: ReplayArms, n: int, seed: int = 0):
    return environment.start(partial(_random.stream, seed), n)


def recorded(task: int, arm: int) -> list[float]:
    """Return the rewards of an arm in a task, by plain Python."""
    rows = zip(TASKS, ARMS, REWARDS, strict=True)
    return [float(r) for t, a, r in rows if (t, a) == (task, arm)]


def test_tasks_offer_the_arms_with_rewards_left() -> None:
    environment = bandit()
    assert environment.used.tolist() == [0, 2]
    assert environment.n_tasks == 2
    assert environment.counts.tolist() == [[3, 1, 3], [4, 3, 3]]
    assert bandit(8).used.tolist() == [2]
    problem = start(environment, 2)
    assert problem.next_round() == (None, None)
    assert sorted(problem.latent) == [0, 2]
    problem.play(np.full(2, 1))
    mask = problem.next_round().mask
    assert mask is not None
    np.testing.assert_array_equal(mask[:, 1], problem.latent == 2)  # task 0 had one reward of it
    assert mask[:, [0, 2]].all()


def test_choices_take_the_recorded_rewards_without_replacement() -> None:
    """Whatever arms are chosen, in whatever order: no reward comes twice, none from elsewhere."""
    rng = np.random.default_rng(2)
    for seed in range(30):
        problem = start(bandit(), 2, seed)
        given: dict[tuple[int, int], list[float]] = {}
        for _ in range(3):
            mask = problem.next_round().mask
            mask = np.ones((2, 3), bool) if mask is None else mask
            chosen = np.array([rng.choice(np.flatnonzero(row)) for row in mask])
            outcome = problem.play(chosen)
            np.testing.assert_array_equal(outcome.feedback[0], chosen)
            np.testing.assert_array_equal(outcome.feedback[1], outcome.rewards)
            for run, task in enumerate(problem.latent):
                rewards = recorded(task, chosen[run])
                assert outcome.values[run] == np.mean(rewards)
                offered = np.flatnonzero(mask[run])
                assert outcome.best[run] == max(np.mean(recorded(task, arm)) for arm in offered)
                given.setdefault((task, chosen[run]), []).append(outcome.rewards[run])
        for (task, arm), rewards in given.items():
            assert len(set(rewards)) == len(rewards)
            assert set(rewards) <= set(recorded(task, arm))


def test_the_order_is_random_and_the_same_for_all_agents() -> None:
    environment = bandit()
    first, second = start(environment, 2, 7), start(environment, 2, 7)
    rewards: list[dict[tuple[int, int, int], float]] = [{}, {}]
    for which, (problem, arms) in enumerate(((first, (0, 0, 2)), (second, (2, 0, 0)))):
        for i, arm in enumerate(arms):
            problem.next_round()
            outcome = problem.play(np.full(2, arm))
            for run in range(2):
                rewards[which][run, arm, arms[:i].count(arm)] = outcome.rewards[run]
    assert rewards[0] == rewards[1]
    # Each reward of task 2's arm 0 comes first in a quarter of the runs.
    n = 4000
    many = start(environment, n)
    many.next_round()
    firsts = many.play(np.zeros(n, int)).rewards[many.latent == 2]
    assert len(firsts) == n / 2
    share = np.array([(firsts == reward).mean() for reward in recorded(2, 0)])
    assert np.abs(share - 1 / 4).max() < 4 * np.sqrt(1 / 4 * 3 / 4 / len(firsts))


def test_a_choice_must_have_a_reward_left() -> None:
    problem = start(bandit(), 2)
    problem.next_round()
    problem.play(np.full(2, 1))
    problem.next_round()
    with pytest.raises(ActionError, match=r"act chose action 1 in run .* not available"):
        problem.play(np.full(2, 1))
    for i in range(2):
        problem.play(np.zeros(2, int))
        if i < 1:
            problem.next_round()
    with pytest.raises(ActionError, match="enough for 3 rounds: play fewer"):
        problem.next_round()


def test_a_simulation_plays_it() -> None:
    environment = bandit()
    prior = mixts.MixturePrior(mixts.GaussianArms([[0.0] * 3], [[1000.0] * 3], 1.0))
    results = mixts.simulate({"TS": prior}, environment, 3, 2, 3, block_size=2)
    assert sorted(results.latent) == [0, 2]
    assert (results.regret["TS"] >= 0).all()
    assert repr(environment) == (
        "ReplayArms(24 rewards, 2 tasks with enough of them for 3 rounds, 3 arms)"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((ARMS[:5], REWARDS, TASKS, 3), "arms must be 24 integers from 0, one for each recorded"),
        ((ARMS, REWARDS, TASKS - 1, 3), "tasks must be 24 integers from 0"),
        ((ARMS, REWARDS + np.inf, TASKS, 3), "rewards must be finite"),
        ((ARMS, REWARDS, TASKS, 0), "n_rounds must be a whole number, at least 1"),
        ((ARMS, REWARDS, TASKS, 3, 2), "arms must be integers from 0 to 1, got 2"),
        (
            (ARMS, REWARDS, TASKS, 11),
            "no task has 11 recorded rewards or more, of two arms or more",
        ),
        ((ARMS[:0], REWARDS[:0], TASKS[:0], 1), "rewards is empty"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_bad_arguments_are_refused(arguments: tuple, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        ReplayArms(*arguments)
