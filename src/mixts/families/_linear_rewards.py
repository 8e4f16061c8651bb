"""Mean rewards of actions under linear posteriors."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from mixts._typing import Array, Bool, Float, Int
from mixts.families.quadrature import NormalMarginal
from mixts.families.rewards import AverageRewards, RewardBelief

if TYPE_CHECKING:
    from mixts.families._linear_posterior import LinearPosterior


@dataclass(frozen=True)
class ProductRewards(RewardBelief):
    """Mean rewards a'theta of actions, which depend on each other through theta."""

    posterior: LinearPosterior
    tasks: Int[Array, " m"]
    weights: Float[Array, "m L"]
    actions: Array

    def draw(
        self, rng: np.random.Generator, rows: Int[Array, " n"], latent: Int[Array, " n"]
    ) -> Float[Array, "n K"]:
        return self._products(self.posterior.sample(rng, self.tasks[rows], latent), rows)

    def _products(
        self, parameters: Float[Array, "n p"], rows: Int[Array, " n"]
    ) -> Float[Array, "n K"]:
        sets = self.actions if self.actions.ndim == 2 else self.actions[rows]
        return self.posterior.prior.mean_rewards(parameters, sets)

    def terms(
        self, rng: np.random.Generator, mask: Bool[Array, "m K"], measure: str, n_samples: int
    ) -> tuple[Float[Array, "m K"], Float[Array, "m K"]]:
        """Return both terms; the variance is exact, everything else is estimated."""
        if measure == "mutual-information":
            return super().terms(rng, mask, measure, n_samples)
        arguments = (rng, self.tasks, self.weights, self.actions, mask, n_samples)
        if measure == "variance":
            return self.posterior.expected_regrets(*arguments), self.variances()
        by_component = measure == "latent-and-best-action"
        return self.posterior.expected_terms(*arguments, by_component=by_component)

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
