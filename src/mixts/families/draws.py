"""Draws of the numbers that a policy compares: components are summed exactly.

Each component has a number of draws that its weight fixes, so that ``sum_s w_s (mean over the draws
of s)`` has the right expectation, and only the parameters given the component are sampled. A policy
takes its action from what the draws say: given the draws, these probabilities are the true ones.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mixts._typing import Array, Bool, Float, Int
from mixts.families.choice import draw_rows, inclusion, top_rows

_LEAST = 2
"""Draws of every component: an error needs two."""


@dataclass(frozen=True)
class Strata:
    """The components of n draws for each of m decisions, one component after the other."""

    weights: Float[Array, "m L"]
    """Weights of the components; negligible ones are 0."""
    counts: Int[Array, "m L"]
    """Number of draws of each component; n in each row."""

    @classmethod
    def of(cls, weights: Float[Array, "m L"], n_samples: int, negligible: float) -> Strata:
        """Give each component draws in proportion to its weight, but at least two.

        The numbers depend on the weights alone: chance has no part in them.
        """
        weights = np.where(weights > negligible, weights, 0.0)
        weights /= weights.sum(axis=1, keepdims=True)
        counts = _LEAST * (weights > 0) + (n_samples * weights).astype(np.int64)
        numbers = counts.sum(axis=1)
        counts[np.arange(len(counts)), weights.argmax(axis=1)] += numbers.max(initial=0) - numbers
        return cls(weights, counts)

    @property
    def latent(self) -> Int[Array, "m n"]:
        """The component of each draw."""
        m, n_components = self.counts.shape
        each = np.tile(np.arange(n_components), m)
        n = int(self.counts[:1].sum())
        return np.repeat(each, self.counts.reshape(-1)).reshape(m, n)

    @property
    def shares(self) -> Float[Array, "m n"]:
        """The probability of each draw."""
        each = self.weights / np.maximum(self.counts, 1)
        return np.take_along_axis(each, self.latent, axis=1)

    def average(self, values: Float[Array, "m n j"]) -> tuple[Array, Array]:
        """Return the expectation of values of the draws, (m, j), and its standard error."""
        rows, latent = np.nonzero(self.counts)
        n, weight = self.counts[rows, latent, None], self.weights[rows, latent, None]
        starts = np.cumsum(n) - n[:, 0]
        flat = values.reshape(-1, values.shape[2])
        mean = np.add.reduceat(flat, starts) / n
        square = np.add.reduceat(flat * flat, starts) / n
        variance = np.maximum(square - mean * mean, 0.0) / (n - 1)
        first = np.searchsorted(rows, np.arange(len(self.counts)))
        total = np.add.reduceat(weight * mean, first)
        return total, np.sqrt(np.add.reduceat(weight * weight * variance, first))


@dataclass(frozen=True)
class Draws:
    """Draws of the mean rewards, or utilities, of K actions for each of m decisions."""

    strata: Strata
    values: Float[Array, "m n K"]

    def inclusion(
        self, mask: Bool[Array, "m K"], k: int
    ) -> tuple[Float[Array, "m K"], Float[Array, "m K"]]:
        """Return P(action is among the best k) and its standard error; ties share."""
        m, n, n_actions = self.values.shape
        every = np.repeat(mask, n, axis=0)
        found = inclusion(self.values.reshape(-1, n_actions), every, k)
        chance, error = self.strata.average(found.reshape(m, n, n_actions))
        # Rounding must leave no sure action just below one.
        return np.minimum(chance / (chance.sum(axis=1, keepdims=True) / k), 1.0), error

    def ranking(
        self, rng: np.random.Generator, mask: Bool[Array, "m K"], k: int
    ) -> tuple[Int[Array, "m k"], Float[Array, "m K"], Float[Array, "m K"]]:
        """Return the best k actions of one of the draws, and ``inclusion``.

        The draw is taken by its probability: given the draws, those of being included are true.
        """
        one = self.values[np.arange(len(mask)), draw_rows(rng, self.strata.shares)]
        return top_rows(rng, one, mask, k), *self.inclusion(mask, k)

    def gains(self, mask: Bool[Array, "m K"], lead: Int[Array, " m"]) -> Float[Array, " m"]:
        """Return the expectation of the best value minus that of the leading action."""
        best = np.where(mask[:, None], self.values, -np.inf).max(axis=2)
        own = np.take_along_axis(self.values, lead[:, None, None], axis=2)[:, :, 0]
        return self.strata.average((best - own)[:, :, None])[0][:, 0]

    def variances(self) -> Float[Array, "m K"]:
        """Return the variance of each action's value."""
        gap = self.values - self.strata.average(self.values)[0][:, None]
        return self.strata.average(gap * gap)[0]

    def quantiles(self, probability: Float[Array, " m"]) -> Float[Array, "m K"]:
        """Return the least value of each action such that those up to it have the probability."""
        order = np.argsort(self.values, axis=1)
        shares = np.broadcast_to(self.strata.shares[:, :, None], order.shape)
        total = np.take_along_axis(shares, order, axis=1).cumsum(axis=1)
        below = total < probability[:, None, None] * total[:, -1:] * (1 - 1e-12)
        place = np.take_along_axis(order, below.sum(axis=1, keepdims=True), axis=1)
        return np.take_along_axis(self.values, place, axis=1)[:, 0]
