"""Small histories by numerical integration of likelihood times prior: no conjugacy anywhere."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy import integrate, stats

import mixts
from tests.oracles import references
from tests.oracles.agreement import assert_agrees

ACTIONS = np.array([0, 1, 1, 0, 1, 1, 0])


def product(terms: Any) -> Any:
    return mpmath.fprod(terms)


def assert_belief_is_the_mixture_of_integrals(
    family: Any, rewards: Any, arm: Callable[[int, int, Any], tuple]
) -> None:
    """Two components, two arms: the belief against the mixture of the integrals."""
    components = []
    for s in range(2):

        def component_arm(a: int, y: Any, s: int = s) -> tuple[Decimal, Decimal, Decimal]:
            return references.quadrature(*arm(s, a, y))

        components.append(references.arms_component(component_arm, 2, ACTIONS, rewards))
    weights = [0.3, 0.7]
    belief = mixts.MixturePrior(family, weights=weights).belief()
    belief.update(ACTIONS, rewards)
    assert_agrees(belief, references.mixture(weights, components))


def test_bernoulli() -> None:
    alpha, beta = np.array([[1.5, 3.0], [2.0, 7.0]]), np.array([[2.5, 1.0], [2.0, 4.0]])

    def arm(s: int, a: int, y: Any) -> tuple:
        return (
            lambda x: x ** (alpha[s, a] - 1) * (1 - x) ** (beta[s, a] - 1),
            lambda x: product(x if r else 1 - x for r in y),
            [0, 0.5, 1],
        )

    assert_belief_is_the_mixture_of_integrals(
        mixts.BernoulliArms(alpha, beta), np.array([1, 0, 1, 1, 1, 0, 0]), arm
    )


def test_poisson() -> None:
    shape, rate = np.array([[1.5, 3.0], [2.0, 7.0]]), np.array([[0.5, 1.0], [2.0, 0.25]])

    def arm(s: int, a: int, y: Any) -> tuple:
        return (
            lambda x: x ** (shape[s, a] - 1) * mpmath.exp(-rate[s, a] * x),
            lambda x: product(mpmath.exp(-x) * x ** int(r) / mpmath.factorial(int(r)) for r in y),
            [0, 1, 4, 16, 64, mpmath.inf],
        )

    assert_belief_is_the_mixture_of_integrals(
        mixts.PoissonArms(shape, rate), np.array([3, 0, 2, 5, 1, 1, 0]), arm
    )


def test_gaussian_arms() -> None:
    mean, variance = np.array([[0.0, 1.0], [-1.0, 0.5]]), np.array([[1.0, 0.25], [2.0, 0.5]])
    noise_std = 0.5

    def arm(s: int, a: int, y: Any) -> tuple:
        centre, spread, noise = map(mpmath.mpf, (mean[s, a], variance[s, a], noise_std**2))
        values, scale = [mpmath.mpf(r) for r in y], (2 * mpmath.pi * noise) ** (len(y) / 2)
        return (
            lambda x: mpmath.exp(-((x - centre) ** 2) / (2 * spread)),
            lambda x: mpmath.exp(-sum((x - r) ** 2 for r in values) / (2 * noise)) / scale,
            [-mpmath.inf, -4, -2, -1, 0, 1, 2, 4, mpmath.inf],
        )

    rewards = np.array([0.5, 1.25, 0.75, -0.5, 2.0, 1.0, 0.25])
    assert_belief_is_the_mixture_of_integrals(
        mixts.GaussianArms(mean, variance, noise_std), rewards, arm
    )


def test_linear_in_two_dimensions() -> None:
    """scipy's double integral reaches some 1e-9, so that is what this one asks for."""
    mean, covariance, noise_std = np.array([0.5, -0.25]), np.array([[1.0, 0.4], [0.4, 0.5]]), 0.7
    rows = np.array([[1.0, 0.0], [0.5, -1.0], [1.0, 2.0]])
    rewards = np.array([0.8, 0.3, -0.9])
    precision = np.linalg.inv(covariance).tolist()
    squared_scale = (2 * np.pi) ** 5 * np.linalg.det(covariance) * noise_std**6

    def integrand(x: float, y: float) -> float:
        """The prior's density times the likelihood, in plain numbers: it is asked for often."""
        u, v = x - 0.5, y + 0.25
        exponent = u * (precision[0][0] * u + 2 * precision[0][1] * v) + precision[1][1] * v * v
        for (first, second), reward in zip(rows.tolist(), rewards.tolist(), strict=True):
            exponent += ((reward - first * x - second * y) / noise_std) ** 2
        return math.exp(-exponent / 2) / math.sqrt(squared_scale)

    theta = np.array([0.3, -0.4])
    likelihood = np.prod(stats.norm.pdf(rewards, rows @ theta, noise_std))
    expected = stats.multivariate_normal(mean, covariance).pdf(theta) * likelihood
    assert integrand(*theta) == pytest.approx(expected, rel=1e-13)
    value, error = integrate.dblquad(integrand, -6, 7, -5, 5, epsabs=1e-12, epsrel=1e-10)
    family = mixts.LinearGaussian(mean[None], covariance[None], noise_std, covariance_type="full")
    belief = mixts.MixturePrior(family).belief()
    belief.update(rows, rewards)
    assert belief.log_evidence[0] == pytest.approx(np.log(value), abs=2 * error / value + 1e-9)
