"""Linear rewards: a'theta plus Gaussian noise, which is known, or of a task and unknown."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np

from mixts import _checks
from mixts._typing import Array, ArrayLike, Float
from mixts.families._linear_posterior import LinearPosterior
from mixts.families._linear_slots import task_bytes
from mixts.families.base import Posterior
from mixts.families.coefficients import CoefficientFamily, CovarianceType
from mixts.families.linear_statistics import LinearStatistics
from mixts.families.statistics import Statistics

__all__ = ["CovarianceType", "LinearFamily", "LinearGaussian"]


class LinearFamily(CoefficientFamily):
    """Rewards a'theta + noise, with a location and a covariance of theta for L components."""

    statistics_type: ClassVar[type[Statistics]] = LinearStatistics
    posterior_type: ClassVar[type[Posterior]] = LinearPosterior
    unit_noise: float
    """Noise in whose units the roots are."""
    noise_prior: tuple[Array, Array] = (np.empty(0), np.empty(0))
    """Degrees of freedom and unit of an unknown noise variance; empty: the noise is known."""

    @property
    def task_bytes(self) -> int:
        """Memory for the roots and means of one task, in bytes."""
        return task_bytes(len(self.roots.values), self.n_components, self.n_features)

    def _reward_moments(self, statistics: Statistics, actions: Array) -> tuple[Array, Array]:
        every = np.arange(len(statistics))
        uniform = np.full(self.n_components, -np.log(self.n_components))
        posterior = self.posterior(statistics, uniform)
        d = self.n_features
        mean = actions @ np.swapaxes(posterior.component_means(every)[..., :d], 1, 2)
        # One product for each task and component: (n, 1, m, d) with (n, L, d, d).
        product = actions[:, None] @ posterior.component_covariances(every)[..., :d, :d]
        variance = (product * actions[:, None]).sum(axis=3)
        # Rounding may leave the variance of an exactly known direction below zero.
        return mean, np.swapaxes(np.maximum(variance, 0), 1, 2)

    def mean_rewards(
        self, parameters: Float[Array, "... p"], actions: Array | None = None
    ) -> Float[Array, "... K"]:
        """Return a'theta for every action; ``actions`` is one set (K, d), or one for each theta."""
        return self.products(parameters, actions)


class LinearGaussian(LinearFamily):
    """Family of linear rewards with Gaussian noise and Gaussian coefficients, for L components.

    A reward of features a is a'theta + N(0, noise_std^2), with theta ~ N(mean, covariance).
    Posteriors are exact for every component  [paper: Sec. 4.2].

    Parameters
    ----------
    mean
        Prior means, (L, d).
    covariance
        Prior covariances: (L, d, d) for the type "full", (d, d) for "tied", or variances, (L, d)
        for "diag" and (L,) for "spherical". A singular covariance is allowed: the component knows
        some direction of theta exactly.
    noise_std
        Standard deviation of the noise.
    covariance_type
        Form of ``covariance``.

    Examples
    --------
    >>> import mixts
    >>> family = mixts.LinearGaussian(
    ...     [[1.0, 0.0], [0.0, 1.0]], [0.1, 0.1], noise_std=0.5, covariance_type="spherical"
    ... )
    >>> belief = mixts.MixturePrior(family).belief()
    >>> belief.update([[0.9, 0.1], [0.2, 0.8]], [1.1, 0.3])
    >>> belief.weights.round(3)
    array([0.877, 0.123])
    """

    kind: ClassVar[str] = "linear-gaussian"

    def __init__(
        self,
        mean: ArrayLike,
        covariance: ArrayLike,
        noise_std: float,
        covariance_type: CovarianceType = "full",
    ) -> None:
        self._set_moments(mean, covariance, covariance_type)
        self.noise_std: float = _checks.positive_number(noise_std, "noise_std")

    def with_moments(
        self, mean: ArrayLike, covariance: ArrayLike, covariance_type: CovarianceType = "full"
    ) -> Self:
        return type(self)(mean, covariance, self.noise_std, covariance_type)

    @classmethod
    def standard(cls, n_features: int, noise_std: float) -> Self:
        """Return one component N(0, I), the uninformative prior of TS  [paper: Sec. 6.2].

        Parameters
        ----------
        n_features
            Dimension d of theta.
        noise_std
            Standard deviation of the noise.

        Returns
        -------
        LinearGaussian
            A family of one component.
        """
        d = _checks.count(n_features, "n_features")
        return cls(np.zeros((1, d)), np.ones(1), noise_std, covariance_type="spherical")

    def __repr__(self) -> str:
        return (
            f"LinearGaussian({self.n_components} components, {self.n_features} features, "
            f"noise_std={self.noise_std!r}, covariance_type={self.covariance_type!r})"
        )

    def settings(self) -> dict[str, Any]:
        return {"noise_std": self.noise_std, "covariance_type": self.covariance_type}

    def learning_settings(self) -> dict[str, Any]:
        return {"noise_std": self.noise_std}

    @property
    def unit_noise(self) -> float:  # type: ignore[override]
        """Noise of rewards, ``noise_std``: roots are those of the covariances."""
        return self.noise_std

    @property
    def max_prior_variance(self) -> float:
        """Largest eigenvalue of any component's covariance, lambda_0,max  [paper: Thm 1]."""
        if self.covariance_type in ("full", "tied"):
            d = self.n_features
            return float(np.linalg.eigvalsh(self.covariance.reshape(-1, d, d)).max())
        return float(self.covariance.max())

    def to_linear(self) -> LinearGaussian:
        """Return this family."""
        return self

    def log_determinant_ratios(self, statistics: Statistics) -> Float[Array, "n L"]:
        """Return ln det(I + Sigma_0 V / sigma^2), without inverting a covariance."""
        assert isinstance(statistics, LinearStatistics)
        gram = np.swapaxes(statistics.array("factor")[:, :-1, :-1], 1, 2)
        gram = gram @ np.swapaxes(gram, 1, 2)
        learned = self.full_covariances() @ (gram[:, None] / self.noise_std**2)
        return np.linalg.slogdet(np.eye(self.n_features) + learned).logabsdet

    def outcomes(self, rng: np.random.Generator, means: Float[Array, " n"]) -> Float[Array, " n"]:
        return means + self.noise_std * rng.standard_normal(means.shape)
