"""Mean rewards of actions under linear posteriors."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from mixts._typing import Array, Bool, Float, Int
from mixts.families.marginals import NormalMarginal
from mixts.families.rewards import AverageRewards, OnceRewards, RewardBelief

if TYPE_CHECKING:
    from mixts.families.linear import LinearPosterior

_ALONE = 1e-9
"""A row whose leverage is within this of 1 is alone in its direction: others say nothing of it."""


@dataclass(frozen=True)
class RowRewards(RewardBelief):
    """Mean rewards of rows of features, which say something about each other through theta."""

    posterior: Any
    tasks: Int[Array, " m"]
    weights: Float[Array, "m L"]
    actions: Array

    def draw(
        self, rng: np.random.Generator, rows: Int[Array, " n"], latent: Int[Array, " n"]
    ) -> Float[Array, "n K"]:
        return self._means_of(self.posterior.sample(rng, self.tasks[rows], latent), rows)

    def _means_of(
        self, parameters: Float[Array, "n p"], rows: Int[Array, " n"]
    ) -> Float[Array, "n K"]:
        """Return the mean rewards under parameters drawn for these decisions."""
        sets = self.actions if self.actions.ndim == 2 else self.actions[rows]
        return np.asarray(self.posterior.prior.mean_rewards(parameters, sets))

    def once(self, mask: Bool[Array, "m K"]) -> OnceRewards:
        return OnceRows(self, mask)

    @abstractmethod
    def scaled_rows(self) -> Float[Array, "m L K d"]:
        """Return B with B B' = Cov[a'theta] given the component, rows in units of their noise."""

    @abstractmethod
    def placed(
        self,
        rng: np.random.Generator,
        x: Float[Array, "n K"],
        left: Float[Array, "n K"],
        rows: Int[Array, " n"],
        latent: Int[Array, " n"],
    ) -> Float[Array, "n K"]:
        """Return mean rewards that differ from their component's by ``x`` units of noise.

        Their variances around that, in squared units, are ``left``.
        """


@dataclass(frozen=True)
class OnceRows(OnceRewards):
    """What can be known of rows that are taken at most once.

    Given the component, and in units of the noise, the rewards of the rows on offer are normal with
    covariance ``B B' + I``. With the leverages ``h = diag(B (I + B'B)^-1 B')``, the other rows
    leave the variance ``h_a / (1 - h_a)`` of a row's mean, and the error of its reward when the
    others predict it is ``(Y_a - E[theta_a | all rewards]) / (1 - h_a)`` (leave-one-out).
    """

    rewards: RowRewards
    mask: Bool[Array, "m K"]

    @cached_property
    def _rows(self) -> Float[Array, "m L K d"]:
        """B; zeros for rows that are not on offer, which nobody learns from."""
        return np.where(self.mask[:, None, :, None], self.rewards.scaled_rows(), 0.0)

    @cached_property
    def _solved(self) -> Float[Array, "m L d K"]:
        """(I + B'B)^-1 B'."""
        b = self._rows
        squares = np.swapaxes(b, 2, 3) @ b + np.eye(b.shape[3])
        return np.linalg.solve(squares, np.swapaxes(b, 2, 3))

    @cached_property
    def _room(self) -> Float[Array, "m L K"]:
        """1 - h."""
        return 1.0 - np.einsum("mlkd,mldk->mlk", self._rows, self._solved)

    @cached_property
    def _variance(self) -> Float[Array, "m L K"]:
        """Variance of each row's mean given the component, in units of the noise."""
        return np.einsum("mlkd,mlkd->mlk", self._rows, self._rows)

    @cached_property
    def _left(self) -> Float[Array, "m L K"]:
        """Variance that the other rows leave."""
        alone = self._room < _ALONE
        left = (1 - self._room) / np.where(alone, 1.0, self._room)
        return np.where(alone, self._variance, np.minimum(left, self._variance))

    def taught(self) -> Float[Array, "m K"]:
        """Return I(Y_a; S) + I(Y_a; rewards of the others | S).

        The second term is ``log((1 + variance) / (1 + left)) / 2``.
        """
        gain = 0.5 * (np.log1p(self._variance) - np.log1p(self._left))
        return self.rewards.taught() + np.einsum("ml,mlk->mk", self.weights, gain)

    def _explained(self) -> Float[Array, "m L K"]:
        """Return the variance that the other rows explain given the component."""
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(self._variance > 0, 1 - self._left / self._variance, 0.0)
        return share * self.marginal.variance()

    def variances(self) -> Float[Array, "m K"]:
        return self._between() + np.einsum("ml,mlk->mk", self.weights, self._explained())

    def quantiles(self, probability: Float[Array, " m"]) -> Float[Array, "m K"]:
        """Return the quantiles of a mixture of normal distributions with these moments."""
        moments = np.stack([self.marginal.mean(), self._explained()])
        return NormalMarginal(moments, 1.0).mixture_quantiles(self.weights, probability)

    def draw(
        self, rng: np.random.Generator, rows: Int[Array, " n"], latent: Int[Array, " n"]
    ) -> Float[Array, "n K"]:
        b, solved, room = self._rows, self._solved, self._room
        theta = rng.standard_normal((len(rows), b.shape[3]))
        x = rng.standard_normal((len(rows), b.shape[2]))
        pairs, member = np.unique(rows * b.shape[1] + latent, return_inverse=True)
        order = np.argsort(member, kind="stable")
        ends = np.cumsum(np.bincount(member))
        for pair, own in zip(pairs.tolist(), np.split(order, ends[:-1]), strict=True):
            at = divmod(pair, b.shape[1])
            reward = theta[own] @ b[at].T + x[own]
            error = reward - reward @ solved[at].T @ b[at].T
            alone = room[at] < _ALONE
            x[own] = np.where(alone, 0.0, reward - error / np.where(alone, 1.0, room[at]))
        return self.rewards.placed(rng, x, self._left[rows, latent], rows, latent)


@dataclass(frozen=True)
class ProductRewards(RowRewards):
    """Mean rewards a'theta of actions, which depend on each other through theta."""

    posterior: LinearPosterior

    def best(
        self, rng: np.random.Generator, mask: Bool[Array, "m K"], n_samples: int
    ) -> tuple[Float[Array, "m K"], Float[Array, "m K"]]:
        """Estimate P(action is the best) from pairs of draws."""
        found = self._in_draws(rng, mask, n_samples)
        return found[0], np.sqrt(found[1])

    def regrets(
        self, rng: np.random.Generator, mask: Bool[Array, "m K"], n_samples: int
    ) -> Float[Array, "m K"]:
        """Estimate the regrets from the same kind of draws."""
        return self._in_draws(rng, mask, n_samples)[2]

    def _in_draws(self, rng: np.random.Generator, mask: Bool[Array, "m K"], n: int) -> Array:
        return self.posterior.best_in_draws(rng, self.tasks, self.weights, self.actions, mask, n)

    def scaled_rows(self) -> Float[Array, "m L K d"]:
        roots = self.posterior.component_roots(self.tasks)
        sets = self.actions if self.actions.ndim == 2 else self.actions[:, None]
        return sets @ np.swapaxes(roots, 2, 3) / self.posterior.prior.unit_noise

    def placed(
        self, rng: np.random.Generator, x: Array, left: Array, rows: Array, latent: Array
    ) -> Float[Array, "n K"]:
        return self.marginal.mean()[rows, latent] + self.posterior.prior.unit_noise * x

    def means(self) -> Float[Array, "m K"]:
        """Return the mean of each action's mean reward; variances are not computed for it."""
        means = self.posterior.action_means(self.tasks, self.actions)
        return np.einsum("ml,mlk->mk", self.weights, means)


@dataclass(frozen=True)
class LinearRewards(ProductRewards, AverageRewards):
    """Mean rewards a'theta with known noise."""

    @cached_property
    def marginal(self) -> NormalMarginal:
        moments = self.posterior.action_moments(self.tasks, self.actions)
        return NormalMarginal(moments, self.posterior.prior.unit_noise**2)
