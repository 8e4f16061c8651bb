"""What every component of a Gaussian prior says of some actions, and how much it has learned."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from mixts._typing import Array, Float, Int
from mixts.errors import ParameterError
from mixts.families import GaussianArms, GaussianStatistics, LinearGaussian, LinearStatistics
from mixts.families.statistics import Statistics
from mixts.prior import MixturePrior


class Components(ABC):
    """Posteriors of all components, of actions that are given by their index among those on offer.

    Everything follows from the statistics, so that the agent's own belief is not touched.
    """

    linear: LinearGaussian
    """The prior as that of a linear bandit."""

    @abstractmethod
    def moments(
        self, statistics: Statistics, actions: Array | None, index: Int[Array, "n m"]
    ) -> tuple[Float[Array, "n m L"], Float[Array, "n m L"]]:
        """mu_t(a, s) and ||a||_{t,s}^2 of m actions for each run and every component."""

    @abstractmethod
    def log_determinant_ratios(self, statistics: Statistics) -> Float[Array, "n L"]:
        """log(det Sigma_{t,s}^-1 / det Sigma_0,s^-1), also where a prior is singular."""

    @abstractmethod
    def largest_norms(self, actions: Array | None, n: int) -> Float[Array, " n"]:
        """The largest norm of an action on offer, for each run."""


class ArmComponents(Components):
    """Gaussian arms: the linear bandit whose actions are the unit vectors."""

    def __init__(self, family: GaussianArms) -> None:
        self._family = family
        self.linear = family.to_linear()

    def moments(
        self, statistics: Statistics, actions: Array | None, index: Int[Array, "n m"]
    ) -> tuple[Float[Array, "n m L"], Float[Array, "n m L"]]:
        rows, every = np.arange(len(index))[:, None], np.arange(self._family.n_components)
        marginal = self._family.marginals(statistics, rows, every)
        mean, variance = (x[rows, :, index] for x in (marginal.mean(), marginal.variance()))
        return mean, variance

    def log_determinant_ratios(self, statistics: Statistics) -> Float[Array, "n L"]:
        assert isinstance(statistics, GaussianStatistics)
        ratio = self._family.variance / self._family.noise_std**2
        return np.log1p(statistics.count[:, None] * ratio).sum(axis=2)

    def largest_norms(self, actions: Array | None, n: int) -> Float[Array, " n"]:
        return np.ones(n)


class FeatureComponents(Components):
    """Linear bandits, whose action sets may change."""

    def __init__(self, prior: MixturePrior) -> None:
        assert isinstance(prior.family, LinearGaussian)
        self.linear = prior.family
        self._prior = prior

    def moments(
        self, statistics: Statistics, actions: Array | None, index: Int[Array, "n m"]
    ) -> tuple[Float[Array, "n m L"], Float[Array, "n m L"]]:
        assert actions is not None
        rows = np.arange(len(index))[:, None]
        features = actions[index] if actions.ndim == 2 else actions[rows, index]
        given = self._prior.condition(statistics)
        mean = features @ np.swapaxes(given.component_mean, 1, 2)
        # One product for each run and component: (n, 1, m, d) with (n, L, d, d).
        product = features[:, None] @ given.component_covariance
        variance = (product * features[:, None]).sum(axis=3)
        # Rounding of a direction that is known exactly may leave it below zero.
        return mean, np.swapaxes(np.maximum(variance, 0), 1, 2)

    def log_determinant_ratios(self, statistics: Statistics) -> Float[Array, "n L"]:
        # det(I + Sigma_0 V / sigma^2), in which no covariance is inverted.
        assert isinstance(statistics, LinearStatistics)
        family = self.linear
        learned = family.full_covariances() @ (statistics.gram[:, None] / family.noise_std**2)
        return np.linalg.slogdet(np.eye(family.n_features) + learned).logabsdet

    def largest_norms(self, actions: Array | None, n: int) -> Float[Array, " n"]:
        assert actions is not None
        norms = np.linalg.norm(actions, axis=-1).max(axis=-1)
        return np.full(n, norms) if norms.ndim == 0 else norms


def components_of(prior: Any) -> Components:
    """Those of a prior for which the paper's proofs define everything."""
    if not isinstance(prior, MixturePrior):
        raise ParameterError(f"prior must be a MixturePrior, got {type(prior).__name__}")
    if isinstance(prior.family, GaussianArms):
        return ArmComponents(prior.family)
    if isinstance(prior.family, LinearGaussian):
        return FeatureComponents(prior)
    raise ParameterError(
        "regret is decomposed for linear bandits: the prior must be of GaussianArms or "
        f"LinearGaussian, got {prior.family!r}"
    )
