"""One model of the rows of all tasks: the rival of every prior that was learned from them.

A team without a mixture prior has the mean reward of each arm, or one regression on the features.
A prior must earn more than that.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mixts._typing import Array, ArrayLike, Float, Int
from mixts.families import Statistics
from mixts.families._logistic import climb
from mixts.prior import MixturePrior

RARE = 0.1
"""An arm with less than this share of the average number of rewards ranks below the others."""


class Bestseller:
    """Agent that takes the available action with the highest score, and never learns.

    Parameters
    ----------
    scores
        Score of each arm, (K,), or coefficients of the features, (d,).
    n_tasks, seed
        As for all agents; the seed is not used.
    """

    def __init__(self, scores: Float[Array, " p"], n_tasks: int, seed: Any = None) -> None:
        self.scores = scores
        self._n_tasks = n_tasks

    def act(
        self, actions: Array | None = None, tasks: None = None, mask: ArrayLike | None = None
    ) -> Int[Array, " n"]:
        """Return the action with the highest score for each task."""
        values = self.scores if actions is None else actions @ self.scores
        values = np.broadcast_to(values, (self._n_tasks, values.shape[-1]))
        return np.argmax(values if mask is None else np.where(mask, values, -np.inf), axis=1)

    def update(self, actions: Any, outcomes: Any) -> None:
        """Learn nothing."""


def pooled_scores(prior: MixturePrior, tasks: Statistics) -> Float[Array, " p"]:
    """Return the mean reward of each arm, or the coefficients of one regression on all rows.

    All rows count as one task. The prior matters only for arms with few rewards, and for features
    that the rows do not determine.

    Parameters
    ----------
    prior
        One component, learned from these tasks.
    tasks
        Statistics of the tasks.

    Returns
    -------
    array
        Arms: mean rewards, (K,); an arm with less than a tenth of the average number of rewards
        ranks below all others, because its mean is mostly luck. Features: coefficients, (d,), of
        the reward, or of its log odds: rows are ranked by ``row @ coefficients``.
    """
    family = prior.family
    if family.n_features is not None:
        if family.link == "logit":
            return _logistic_regression(prior, tasks)
        coefficients = prior.condition(merged(tasks)).component_mean[0, 0]
        return coefficients[: family.n_features]
    means = np.array(prior.condition(merged(tasks)).mean_rewards()[0])
    counts = tasks.pulls.sum(axis=0)
    rare = counts < RARE * counts.mean()
    if not rare.all():
        means[rare] = np.nextafter(means[~rare].min(), -np.inf)
    return means


def merged(tasks: Statistics) -> Statistics:
    """Return the statistics of one task that has the histories of all these tasks.

    Parameters
    ----------
    tasks
        Statistics of at least one task.

    Returns
    -------
    Statistics
        Statistics of one task.
    """
    while len(tasks) > 1:
        half = len(tasks) // 2
        last = tasks[np.arange(2 * half, len(tasks))]
        tasks = (tasks[np.arange(half)] + tasks[np.arange(half, 2 * half)]).concatenate(last)
    return tasks


def _logistic_regression(prior: MixturePrior, tasks: Statistics) -> Float[Array, " d"]:
    """Return the coefficients with the largest posterior density.

    They are ``mean + root @ v`` with a standard normal v, so that features of any scale and a
    singular covariance are harmless.
    """
    belief = prior.belief()
    mean, covariance = belief.component_mean[0], belief.component_covariance[0]
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    rows = tasks.array("rows")
    counts = (tasks.array(name).astype(float) for name in ("trials", "successes"))
    return np.asarray(mean + root @ climb(rows @ mean, rows @ root, *counts).v)
