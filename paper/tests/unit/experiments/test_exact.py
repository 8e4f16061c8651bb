"""Exact values over counts, against the enumeration of all histories."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from mixts_paper.experiments.beyond.optimum import count_tree
from scipy.special import betaln

import mixts
from mixts.errors import ParameterError

RNG = np.random.default_rng(5)
ALPHA, BETA = RNG.uniform(0.3, 5, (2, 2)), RNG.uniform(0.3, 5, (2, 2))
WEIGHTS = np.array([0.7, 0.3])
PRIOR = mixts.MixturePrior(mixts.BernoulliArms(ALPHA, BETA), WEIGHTS)

History = tuple[tuple[int, int], ...]
"""Arms and rewards in the order in which they came."""


def evidence(history: History) -> float:
    """The probability of the rewards, given the arms, in the order in which they came."""
    total = 0.0
    for weight, alpha, beta in zip(WEIGHTS, ALPHA, BETA, strict=True):
        log = 0.0
        for arm in range(2):
            won = sum(reward for a, reward in history if a == arm)
            lost = sum(1 - reward for a, reward in history if a == arm)
            log += betaln(alpha[arm] + won, beta[arm] + lost) - betaln(alpha[arm], beta[arm])
        total += weight * np.exp(log)
    return total


def arm_values(history: History, rounds_left: int, policy: object) -> list[float]:
    """Expected rewards to come after each arm, by recursion over histories, which never merge."""
    values = []
    for arm in range(2):
        value = 0.0
        for reward in (0, 1):
            after = (*history, (arm, reward))
            chance = evidence(after) / evidence(history)
            value += chance * (reward + best_value(after, rounds_left - 1, policy))
        values.append(value)
    return values


def best_value(history: History, rounds_left: int, policy: object = None) -> float:
    if rounds_left == 0:
        return 0.0
    values = arm_values(history, rounds_left, policy)
    return max(values) if policy is None else float(np.dot(policy(history), values))


def success(n_rounds: int) -> np.ndarray:
    return PRIOR.condition(count_tree(2, n_rounds).statistics(n_rounds)).mean_rewards()


@pytest.mark.parametrize("horizon", [1, 2, 3, 4])
def test_the_best_value_is_that_of_all_histories(horizon: int) -> None:
    exact = count_tree(2, 4).value(success(4), horizon)
    assert exact == pytest.approx(best_value((), horizon), abs=1e-12)


def test_no_deterministic_policy_of_two_rounds_is_better() -> None:
    """All 32 of them: an arm first, then an arm after each of the four outcomes."""
    found = []
    for first, *later in product((0, 1), repeat=5):

        def policy(history: History, first: int = first, later: list[int] = later) -> list[float]:
            arm = first if not history else later[2 * history[0][0] + history[0][1]]
            return [1.0 - arm, float(arm)]

        found.append(best_value((), 2, policy))
    assert count_tree(2, 2).value(success(2), 2) == pytest.approx(max(found), abs=1e-12)
    assert max(found) > min(found) + 0.01


def test_the_value_of_thompson_sampling_is_that_of_all_histories() -> None:
    tree = count_tree(2, 3)
    asked = mixts.MixTS.resume(PRIOR, tree.statistics(3), seed=0).action_probabilities()[0]

    def policy(history: History) -> np.ndarray:
        agent = mixts.MixTS(PRIOR, seed=0)
        for arm, reward in history:
            agent.update(arm, reward)
        return agent.action_probabilities()[0]

    for horizon in (1, 2, 3):
        expected = best_value((), horizon, policy)
        assert tree.value(success(3), horizon, asked) == pytest.approx(expected, abs=1e-9)


def test_the_value_of_a_policy_is_what_it_earns_in_simulation() -> None:
    tree = count_tree(2, 5)
    asked = mixts.MixTS.resume(PRIOR, tree.statistics(5), seed=0).action_probabilities()[0]
    exact = tree.value(success(5), 5, asked)
    played = mixts.simulate(
        {"MixTS": PRIOR}, mixts.BanditEnvironment(PRIOR), 5, 4000, 1, 1, block_size=4000
    )
    earned = played.reward["MixTS"].sum(axis=1)
    assert abs(earned.mean() - exact) < 4 * earned.std() / np.sqrt(len(earned))


@pytest.mark.parametrize("n_arms", [1, 2, 3])
def test_counts_follow_each_other(n_arms: int) -> None:
    tree = count_tree(n_arms, 4)
    assert tree.n_rounds == 4
    totals = tree.counts.sum(axis=(1, 2))
    for t in range(5):
        rows = slice(tree.starts[t], tree.starts[t + 1])
        assert (totals[rows] == t).all()
        assert len(np.unique(tree.counts[rows].reshape(-1, 2 * n_arms), axis=0)) == len(
            totals[rows]
        )
    for row, (outcome, arm) in product(range(len(tree.following)), np.ndindex(2, n_arms)):
        step = tree.counts[tree.following[row, outcome, arm]] - tree.counts[row]
        assert step[outcome, arm] == step.sum() == 1


def test_a_horizon_beyond_the_tree_is_refused() -> None:
    for horizon in (0, 3):
        with pytest.raises(ParameterError, match=f"from 1 to 2, got {horizon}"):
            count_tree(2, 2).value(success(2), horizon)
