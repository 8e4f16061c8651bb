"""Beliefs about the mean rewards of the actions on offer: all that a policy needs to decide."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from mixts._numbers import softmax
from mixts._typing import Array, Bool, Float, Int
from mixts.families.quadrature import Marginal, expected_best

_NEGLIGIBLE = 1e-12
"""Components of less weight do not bound a quantile."""


class RewardBelief(ABC):
    """Joint distribution of the mean rewards of K actions under a mixture, for m decisions.

    Given the component, each action's mean reward has the distribution ``marginal``; the
    subclass knows how the actions depend on each other.
    """

    weights: Float[Array, "m L"]
    """Posterior weights of the components."""

    @property
    @abstractmethod
    def marginal(self) -> Marginal:
        """Distributions of the mean rewards given the component, parameters (2, m, L, K)."""

    @abstractmethod
    def draw(
        self, rng: np.random.Generator, rows: Int[Array, " n"], latent: Int[Array, " n"]
    ) -> Float[Array, "n K"]:
        """Draw the mean rewards of all actions for pairs of a decision and a component."""

    @abstractmethod
    def regrets(
        self, rng: np.random.Generator, mask: Bool[Array, "m K"], n_samples: int
    ) -> Float[Array, "m K"]:
        """Return E[max_b theta_b - theta_a], the expected regret of each action."""

    def means(self) -> Float[Array, "m K"]:
        """Return the mean of each action's mean reward."""
        return np.einsum("ml,mlk->mk", self.weights, self.marginal.mean())

    def variances(self) -> Float[Array, "m K"]:
        """Return the variance of each action's mean reward: within and between components."""
        means, w = self.marginal.mean(), self.weights
        gap = means - np.einsum("ml,mlk->mk", w, means)[:, None]
        return np.einsum("ml,mlk->mk", w, self.marginal.variance() + gap * gap)

    def quantiles(self, probability: Float[Array, " m"]) -> Float[Array, "m K"]:
        """Return the quantile of each action's mean reward under the mixture.

        The quantiles of the components bracket that of the mixture; bisection finds it.
        """
        level = np.broadcast_to(probability[:, None, None], self.marginal.parameters.shape[1:])
        each = self.marginal.quantile(level)
        counts = (self.weights > _NEGLIGIBLE)[:, :, None]
        low = np.where(counts, each, np.inf).min(axis=1)
        high = np.where(counts, each, -np.inf).max(axis=1)
        while True:
            middle = 0.5 * (low + high)
            if not ((low < middle) & (middle < high)).any():
                return middle
            below = self.marginal.cdf(np.broadcast_to(middle[:, None], each.shape))
            too_low = np.einsum("ml,mlk->mk", self.weights, below) < probability[:, None]
            low, high = np.where(too_low, middle, low), np.where(too_low, high, middle)

    def draw_latent(
        self, rng: np.random.Generator, n_samples: int
    ) -> tuple[Int[Array, "m n"], Int[Array, "m n"]]:
        """Draw components for each decision by systematic sampling; return rows and components.

        Each component is drawn as often as its weight says, up to one, and without bias.
        """
        m = len(self.weights)
        total = np.cumsum(self.weights, axis=1)
        place = (np.arange(n_samples) + rng.random((m, 1))) / n_samples * total[:, -1:]
        latent = (place[:, :, None] >= total[:, None, :-1]).sum(axis=2)
        return np.broadcast_to(np.arange(m)[:, None], latent.shape), latent

    def draw_mixture(
        self, rng: np.random.Generator, n_samples: int
    ) -> tuple[Int[Array, "m n"], Float[Array, "m n K"]]:
        """Draw components and mean rewards for each decision."""
        rows, latent = self.draw_latent(rng, n_samples)
        drawn = self.draw(rng, rows.reshape(-1), latent.reshape(-1))
        return latent, drawn.reshape(*latent.shape, -1)

    def draw_estimates(
        self, rng: np.random.Generator, n_samples: int, n_more: Int[Array, " m"]
    ) -> tuple[Int[Array, "m n"], Float[Array, "m n K"]]:
        """Draw what the mean of each action would be after ``n_more`` observations of it.

        Components and mean rewards are drawn first, then the average of the observations, and the
        mixture is conditioned on that. Without more observations the estimate is the present mean;
        with many, it is the drawn mean reward.
        """
        latent, drawn = self.draw_mixture(rng, n_samples)
        n = n_more[:, None, None]
        averages = self.marginal.draw_averages(rng, drawn, np.maximum(n, 1))
        return latent, np.where(n > 0, self._estimates(averages, n), self.means()[:, None])

    def _estimates(
        self, averages: Float[Array, "m n K"], n_more: Int[Array, "m 1 1"]
    ) -> Float[Array, "m n K"]:
        """Return E[theta_a | the average of n observations of a], each action on its own."""
        prior = self.marginal.expand(1)
        after, log_evidence = prior.observe(averages[:, :, None], n_more[:, None])
        with np.errstate(divide="ignore"):
            log_weights = np.log(self.weights)[:, None, :, None]
        weights = softmax(np.moveaxis(log_weights + log_evidence, 2, -1))
        return np.einsum("mnkl,mnlk->mnk", weights, after.mean())


@dataclass(frozen=True)
class IndependentRewards(RewardBelief):
    """Mean rewards of arms, which are independent given the component."""

    weights: Float[Array, "m L"]
    distributions: Marginal

    @property
    def marginal(self) -> Marginal:
        return self.distributions

    def draw(
        self, rng: np.random.Generator, rows: Int[Array, " n"], latent: Int[Array, " n"]
    ) -> Float[Array, "n K"]:
        return self.marginal.select(rows, latent).sample(rng)

    def regrets(
        self, rng: np.random.Generator, mask: Bool[Array, "m K"], n_samples: int
    ) -> Float[Array, "m K"]:
        best = expected_best(self.marginal, self.weights, mask)
        return best[:, None] - self.means()


def with_expected_rewards(
    marginal: Marginal, weights: Float[Array, "m L"], counts: Int[Array, "m K"]
) -> IndependentRewards:
    """Return the belief as if ``counts`` more rewards of each arm had come, all of them expected.

    An expected reward is the arm's mean under the mixture: means hardly move, but the variance
    shrinks as it will when the true rewards come.
    """
    expected = IndependentRewards(weights, marginal).means()
    after, log_evidence = marginal.observe(expected[:, None], counts[:, None])
    with np.errstate(divide="ignore"):
        weights = softmax(np.log(weights) + log_evidence.sum(axis=2))
    return IndependentRewards(weights, after)
