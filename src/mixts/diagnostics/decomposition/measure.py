"""The two parts of a round's regret, and the norms that the proof sums up."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mixts._typing import Array, Float
from mixts.diagnostics.decomposition.components import Components
from mixts.environments.bandit import BanditProblem
from mixts.simulation.followers import Decided


class Parts(NamedTuple):
    """One round, for each run."""

    first: Float[Array, " n"]
    """mu_*(A_t*) - mu_t(A_t*, S_*)."""
    second: Float[Array, " n"]
    """mu_t(A_t, S_t) - mu_*(A_t)."""
    norm: Float[Array, " n"]
    """||A_t||, the norm that of Sigma_{t,S_t}."""
    best_norm: Float[Array, " n"]
    """||A_t*||, the norm that of Sigma_{t,S_*}."""


class PartsMeasure:
    """Measures a block of runs round by round, and keeps what is summed over rounds.

    Eq. 1 adds and subtracts mu_t(A_t*, S_*) = mu_t(A_t, S_t), which are equal in expectation given
    the history: the true best action with the true state, and the action taken with the state
    sampled, have one law  [paper: Eq. 1].
    """

    def __init__(self, components: Components, problem: BanditProblem) -> None:
        self._components, self._problem = components, problem
        n, n_components = len(problem.latent), components.linear.n_components
        self.squared_norms = np.zeros((n, n_components))
        """sum_t ||A_t||_{t,s}^2, for every state s."""
        self.largest_norms = np.zeros(n)
        """sum_t max_s ||A_t||_{t,s}."""
        self.kappa = np.zeros(n)
        """The largest norm of any action that was offered."""

    def __call__(self, decided: Decided) -> Parts:
        problem, sampled, rows = self._problem, decided.latent, np.arange(len(decided.latent))
        best, means = problem.best_action, problem.means
        mean, variance = self._components.moments(
            decided.belief.statistics, decided.actions, np.stack([decided.chosen, best], axis=1)
        )
        self._add(variance[:, 0], decided.actions)
        return Parts(
            means[rows, best] - mean[rows, 1, problem.latent],
            mean[rows, 0, sampled] - means[rows, decided.chosen],
            np.sqrt(variance[rows, 0, sampled]),
            np.sqrt(variance[rows, 1, problem.latent]),
        )

    def _add(self, variance: Float[Array, "n L"], actions: Array | None) -> None:
        self.squared_norms += variance
        self.largest_norms += np.sqrt(variance.max(axis=1))
        np.maximum(
            self.kappa, self._components.largest_norms(actions, len(self.kappa)), out=self.kappa
        )
