"""Problems whose truth is drawn by the tests themselves: a prior of unequal components."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special, stats

import mixts

WEIGHTS = np.array([0.5, 0.3, 0.2])


@dataclass(frozen=True)
class Setting:
    """A prior with its own sampler of truths and rewards, and the law of a posterior mean reward.

    ``cdf(x, mean, variance)`` is the distribution function of the conjugate posterior with these
    moments.
    """

    family: Any
    draw: Callable[[np.random.Generator, Any], Any]
    reward: Callable[[np.random.Generator, Any], Any]
    cdf: Callable[[Any, Any, Any], Any]
    n_actions: int
    n_features: int | None = None

    @property
    def prior(self) -> mixts.MixturePrior:
        return mixts.MixturePrior(self.family, weights=WEIGHTS)

    def action_sets(self, rng: np.random.Generator, n: int) -> Any:
        """A new set for each task in each round, or None for arms."""
        if self.n_features is None:
            return None
        return rng.normal(size=(n, self.n_actions, self.n_features))

    def mean_rewards(self, theta: Any, sets: Any) -> Any:
        return theta if sets is None else np.einsum("nkd,nd->nk", sets, theta)


def _beta_cdf(x: Any, mean: Any, variance: Any) -> Any:
    total = mean * (1 - mean) / variance - 1
    return special.betainc(mean * total, (1 - mean) * total, x)


def _gamma_cdf(x: Any, mean: Any, variance: Any) -> Any:
    return special.gammainc(mean**2 / variance, x * mean / variance)


def _normal_cdf(x: Any, mean: Any, variance: Any) -> Any:
    return stats.norm.cdf(x, mean, np.sqrt(variance))


def bernoulli() -> Setting:
    alpha = np.array([[8.0, 2.0, 2.0, 1.0], [2.0, 6.0, 3.0, 1.0], [1.0, 1.0, 1.0, 3.0]])
    beta = np.array([[2.0, 6.0, 5.0, 1.0], [6.0, 2.0, 3.0, 4.0], [5.0, 4.0, 1.0, 1.0]])
    return Setting(
        mixts.BernoulliArms(alpha, beta),
        lambda rng, s: rng.beta(alpha[s], beta[s]),
        lambda rng, mean: (rng.random(mean.shape) < mean).astype(float),
        _beta_cdf,
        4,
    )


def gaussian() -> Setting:
    mean = np.array([[1.0, 0.0, 0.2, -0.5], [0.0, 0.8, 0.2, 0.3], [-0.5, 0.1, 0.9, 0.4]])
    variance = np.array([[0.2, 0.1, 0.5, 1.0], [0.1, 0.4, 0.1, 0.3], [0.6, 0.05, 0.2, 0.8]])
    noise_std = 0.7
    return Setting(
        mixts.GaussianArms(mean, variance, noise_std),
        lambda rng, s: rng.normal(mean[s], np.sqrt(variance[s])),
        lambda rng, mu: rng.normal(mu, noise_std),
        _normal_cdf,
        4,
    )


def poisson() -> Setting:
    shape = np.array([[6.0, 2.0, 1.0, 3.0], [2.0, 5.0, 2.0, 1.0], [1.0, 1.0, 4.0, 2.0]])
    rate = np.array([[2.0, 2.0, 1.0, 2.0], [2.0, 1.5, 2.0, 0.5], [1.0, 0.8, 1.0, 2.0]])
    return Setting(
        mixts.PoissonArms(shape, rate),
        lambda rng, s: rng.gamma(shape[s], 1 / rate[s]),
        lambda rng, mean: rng.poisson(mean).astype(float),
        _gamma_cdf,
        4,
    )


def linear(spread: float = 1.0, noise_std: float = 0.5, scale: float = 1.0) -> Setting:
    """Three components in four dimensions; ``spread`` of their means, ``scale`` of covariances."""
    rng = np.random.default_rng(12)
    mean = spread * rng.normal(size=(3, 4))
    root = rng.normal(size=(3, 4, 4)) * np.array([0.2, 0.4, 0.6])[:, None, None]
    root *= np.sqrt(scale)
    covariance = root @ np.swapaxes(root, 1, 2)
    covariance = (covariance + np.swapaxes(covariance, 1, 2)) / 2

    def draw(rng: np.random.Generator, s: Any) -> Any:
        return mean[s] + np.einsum("nij,nj->ni", root[s], rng.normal(size=(len(s), 4)))

    return Setting(
        mixts.LinearGaussian(mean, covariance, noise_std),
        draw,
        lambda rng, mu: rng.normal(mu, noise_std),
        _normal_cdf,
        5,
        4,
    )
