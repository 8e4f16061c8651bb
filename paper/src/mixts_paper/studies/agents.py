"""Rivals of the policies that never learn, for studies."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import mixts
from mixts.extend import Array
from mixts.simulation import AgentSpec

BESTSELLER, IDS = "bestseller", "MixIDS"


class Fixed:
    """An agent that never learns: it takes the available action with the highest score.

    Parameters
    ----------
    scores
        Score of each arm, (K,), or coefficients of a linear score of an action's features, (d,).
    linear
        Whether the scores are coefficients.
    n_tasks, seed
        As for all agents; the seed is not used.
    """

    def __init__(
        self, scores: Array, linear: bool, n_tasks: int | None = None, seed: Any = None
    ) -> None:
        self._scores, self._linear = np.asarray(scores, float), linear
        self._n_rows = 1 if n_tasks is None else n_tasks

    def act(
        self, actions: Array | None = None, tasks: Array | None = None, mask: Array | None = None
    ) -> Array:
        """Return the action with the highest score for each task; the first of several."""
        scores = actions @ self._scores if self._linear and actions is not None else self._scores
        scores = np.broadcast_to(scores, (self._n_rows, scores.shape[-1]))
        if mask is not None:
            scores = np.where(mask, scores, -np.inf)
        return np.asarray(scores.argmax(axis=1))

    def update(self, actions: Array, outcomes: Array, tasks: Array | None = None) -> None:
        """Ignore the outcomes."""


def bestseller(prior: mixts.MixturePrior) -> AgentSpec:
    """Return the spec of the agent that always takes the action with the highest prior mean.

    The prior mean is the mean over the tasks that the prior describes, so this is the best choice
    of an agent that treats all tasks alike.
    """
    mean = prior.weights @ prior.family.parameter_means()
    return partial(Fixed, mean, prior.family.n_arms is None)
