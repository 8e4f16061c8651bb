"""Mixtures of normal distributions: compiled loops beside the plain versions of every family."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from mixts.families.marginals import Marginal, NormalMarginal

pytestmark = pytest.mark.usefixtures("program")


def mixture(seed: int, shape: tuple[int, int, int], spread: float) -> tuple[Any, NormalMarginal]:
    """Weights (m, L), some of them tiny or zero, and distributions (2, m, L, K)."""
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.full(shape[1], 0.2), shape[0])
    weights[rng.random(weights.shape) < 0.2] = 0.0
    weights[:, 0] += 0.1
    weights /= weights.sum(axis=1, keepdims=True)
    variances = rng.gamma(1.0, size=shape) * 10 ** rng.uniform(-3, 1, shape)
    return weights, NormalMarginal(np.stack([spread * rng.normal(size=shape), variances]), 0.3)


@pytest.mark.parametrize("spread", [0.0, 0.1, 10.0])
@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 2, 4), (40, 5, 3)])
@pytest.mark.parametrize("level", [0.5, 2 / 3, 1 - 1e-6, 0.01])
def test_quantiles(shape: tuple[int, int, int], spread: float, level: float) -> None:
    weights, marginal = mixture(1, shape, spread)
    probability = np.full(shape[0], level)
    found = marginal.mixture_quantiles(weights, probability)
    np.testing.assert_allclose(
        found, Marginal.mixture_quantiles(marginal, weights, probability), rtol=1e-9, atol=1e-12
    )
    standard = (found[:, None] - marginal.location) / np.sqrt(marginal.variances)
    below = np.einsum("ml,mlk->mk", weights, stats.norm.cdf(standard))
    np.testing.assert_allclose(below, level, rtol=1e-12)


def test_quantiles_of_certain_components() -> None:
    """The distribution function jumps: the quantile is where it crosses the level."""
    parameters = np.zeros((2, 1, 3, 2))
    parameters[0, 0] = [[1.0, 1.0], [2.0, 0.0], [3.0, 3.0]]
    parameters[1, 0, 1] = [0.0, 4.0]
    marginal, weights = NormalMarginal(parameters, 0.3), np.array([[0.3, 0.4, 0.3]])
    for level, certain in ((0.2, 1.0), (0.5, 2.0), (0.9, 3.0)):
        found = marginal.mixture_quantiles(weights, np.array([level]))[0]
        np.testing.assert_allclose(found[0], certain, rtol=1e-15)
        below, above = (
            0.3 * (found[1] + step > 1) + 0.3 * (found[1] + step > 3)
            + 0.4 * stats.norm.cdf((found[1] + step) / 2)
            for step in (-1e-12, 1e-12)
        )  # fmt: skip
        assert below <= level <= above


@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 2, 4), (20, 5, 3)])
@pytest.mark.parametrize("scale", [0.5, 30.0])
def test_estimates(shape: tuple[int, int, int], scale: float) -> None:
    weights, marginal = mixture(2, shape, 1.0)
    rng = np.random.default_rng(3)
    averages = scale * rng.normal(size=(shape[0], 7, shape[2]))
    n_more = np.arange(shape[0])[:, None, None]
    np.testing.assert_allclose(
        marginal.estimates(weights, averages, n_more),
        Marginal.estimates(marginal, weights, averages, n_more),
        rtol=1e-10,
        atol=1e-12,
    )
