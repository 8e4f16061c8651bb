"""Moments of groups of tasks: how much tasks differ beyond what chance alone would do."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mixts._typing import Array, Float, Int

LEAST_TOTAL, MOST_TOTAL = 0.1, 1e4
"""Of the counts of a row; a shape has the same limits. Moments of few tasks are no reason to be
surer, or less sure, than that."""


class Group(NamedTuple):
    """What a group of tasks shows of each column."""

    mean: Array
    seen: Array
    """How many observations there are."""
    scatter: Array
    tasks: Array
    scale: Array

    @classmethod
    def of(
        cls, averages: Float[Array, "n ..."], counts: Int[Array, "n ..."], inside: Array
    ) -> Group:
        """Of those tasks that are inside, each with its average and number of observations."""
        n, y = counts[inside].astype(float), averages[inside]
        total = n.sum(axis=0)
        safe = np.maximum(total, 1.0)
        mean = (n * y).sum(axis=0) / safe
        scatter = (n * (y - mean) ** 2).sum(axis=0)
        return cls(mean, total, scatter, (n > 0).sum(axis=0), total - (n**2).sum(axis=0) / safe)

    def shrunken(self, mean: Array) -> Array:
        """The mean with one observation more, from elsewhere: nothing is impossible by chance."""
        return np.asarray((self.seen * self.mean + mean) / (self.seen + 1))

    def variance(self, within: Array, *, shrinks: bool = False) -> Array:
        """Between tasks, at least zero, where single observations vary by ``within``.

        With n_i observations of average y_i, mean m and N in all, the scatter
        ``sum n_i (y_i - m)^2`` has the expectation
        ``(tasks - 1) within + variance (N - sum n_i^2 / N)``. Where observations are 0 or 1 the
        variance of one in its task is ``within`` less that between tasks: it ``shrinks``. NaN where
        nothing can be said, as of a single task.
        """
        spare = np.maximum(self.tasks - 1, 0)
        scale = self.scale - spare if shrinks else self.scale
        excess = np.maximum(self.scatter - spare * within, 0.0)
        some = (scale > 1e-9 * self.seen) & (self.tasks > 1)
        return np.asarray(np.where(some, excess / np.where(some, scale, 1.0), np.nan))
