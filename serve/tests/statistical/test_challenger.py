"""Evidence for a challenger: a right champion is seldom beaten, however often one looks."""

from __future__ import annotations

import math

import numpy as np
from mixts_serve.challenger import History, log_ratios
from scipy import stats

import mixts
from mixts._typing import Array

ROUNDS = 4


def champion() -> mixts.MixturePrior:
    return mixts.MixturePrior(mixts.BernoulliArms([[8, 2], [2, 8]], [[2, 8], [8, 2]]), [0.7, 0.3])


def challenger() -> mixts.MixturePrior:
    family = mixts.BernoulliArms([[8, 2], [2, 8], [1, 1]], [[2, 8], [8, 2], [9, 9]])
    return mixts.MixturePrior(family, [0.4, 0.3, 0.3])


def paths(truth: mixts.MixturePrior, n_streams: int, n_tasks: int) -> Array:
    """Return ln E of each stream after every reward; one task comes after the other."""
    rng, n = np.random.default_rng(1), n_streams * n_tasks
    _, means = truth.draw(rng, n)
    agent = mixts.MixIDS(champion(), n_tasks=n, seed=2)
    arms, rewards = np.empty((n, ROUNDS), np.int64), np.empty((n, ROUNDS))
    for t in range(ROUNDS):
        arms[:, t] = agent.act()
        rewards[:, t] = rng.random(n) < means[np.arange(n), arms[:, t]]
        agent.update(arms[:, t], rewards[:, t])
    found = [
        log_ratios(
            champion(), challenger(),
            [History(a[:t], r[:t]) for a, r in zip(arms, rewards, strict=True)],
        )
        for t in range(1, ROUNDS + 1)
    ]  # fmt: skip
    steps = np.diff(np.stack(found, axis=1), axis=1, prepend=0.0)
    return np.asarray(steps.reshape(n_streams, -1).cumsum(axis=1))


def test_a_right_champion_is_seldom_beaten() -> None:
    found = paths(champion(), 600, 20)
    for alpha in (0.1, 0.01):
        n_false = int((found.max(axis=1) >= -math.log(alpha)).sum())
        # A right test has more with a probability below 1e-3.
        assert n_false <= stats.binom.isf(1e-3, len(found), alpha), alpha
    # E of one task is 1 in the mean, also where the policy depends on the rewards.
    task = np.exp(found[:, ROUNDS - 1])
    assert abs(task.mean() - 1) < 4 * task.std() / math.sqrt(len(task))
    assert found.max() > 0


def test_a_right_challenger_wins_within_some_dozens_of_tasks() -> None:
    found = paths(challenger(), 60, 100)
    reached = (found >= math.log(100)).argmax(axis=1) / ROUNDS
    assert (found.max(axis=1) >= math.log(100)).mean() > 0.9
    assert np.median(reached) < 40
