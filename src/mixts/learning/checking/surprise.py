"""Tasks that no component explains."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mixts._typing import Array, Bool, Float, Int
from mixts.learning.checking.predictive import Predictive

LEVEL = 0.01
"""A task with a p-value of at most this is surprising."""

SCREENED = 99
"""Draws for every task; all others are only for those that have at most SCREENED / 10 below."""


@dataclass(frozen=True)
class Surprise:
    """How probable each task is beside tasks that the prior draws, the same things tried."""

    score: Float[Array, " n"]
    """ln of the probability (for real numbers, density) of the task's statistics."""
    expected: Float[Array, " n"]
    """The mean score of tasks that the prior draws."""
    spread: Float[Array, " n"]
    """Their standard deviation."""
    p_value: Float[Array, " n"]
    """How likely the prior draws a task that is no more probable; 0 for what is impossible, 1 for
    tasks without observations."""
    log_factor: Float[Array, " n"]
    """ln of how much more probable the flat prior makes the task. Above ln 100 for at most 1 % of a
    right prior's tasks, however actions were chosen, if the flat prior does not depend on them: one
    that was given, or that of Bernoulli arms and MDPs. Others take their scale from these tasks, so
    that it is nearly so, the more tasks the better."""
    n_observations: Int[Array, " n"]

    @property
    def impossible(self) -> Int[Array, " k"]:
        """The tasks that have seen what every component rules out."""
        return np.flatnonzero(np.isneginf(self.score))

    @property
    def surprising(self) -> Bool[Array, " n"]:
        """Those with a p-value of at most 0.01."""
        return np.asarray(self.p_value <= LEVEL)

    @property
    def n_expected(self) -> float:
        """How many would be surprising, at most, if the prior were right."""
        return LEVEL * int((self.n_observations > 0).sum())

    @property
    def n_unlike(self) -> int:
        """How many tasks the flat prior makes 100 times more probable."""
        return int((self.log_factor > -np.log(LEVEL)).sum())

    def ranked(self) -> Int[Array, " n"]:
        """The tasks, the most surprising first; among equals the one furthest from expectation."""
        with np.errstate(invalid="ignore", divide="ignore"):
            distance = np.where(self.spread > 0, (self.score - self.expected) / self.spread, 0.0)
        distance = np.where(np.isneginf(self.score), -np.inf, distance)
        return np.lexsort((np.arange(len(distance)), distance, self.p_value))


def scores_beside(
    predictive: Predictive, observed: Float[Array, " n"], n_draws: int, rng: np.random.Generator
) -> tuple[Array, Array, Array]:
    """Means and deviations of replicated scores, and Monte Carlo p-values, (n,) each.

    ``(1 + how many draws score no more) / (1 + draws)``. A task of which 10 of the first 99 do is
    not looked at further: its p-value is above 0.1 and needs no more digits.
    """
    every = np.arange(len(observed))
    first = min(n_draws, SCREENED)
    drawn = predictive.replicate(rng, every, first)
    # The same counts may have scores that differ by rounding.
    tie = observed + 1e-9 * (1 + np.where(np.isfinite(observed), np.abs(observed), 0.0))
    below = (drawn <= tie[:, None]).sum(axis=1)
    p_value = (1 + below) / (1 + first)
    mean, deviation = drawn.mean(axis=1), drawn.std(axis=1)
    closer = np.flatnonzero(below <= SCREENED // 10)
    if n_draws > first and len(closer):
        more = predictive.replicate(rng, closer, n_draws - first)
        below[closer] += (more <= tie[closer, None]).sum(axis=1)
        p_value[closer] = (1 + below[closer]) / (1 + n_draws)
    return mean, deviation, p_value
