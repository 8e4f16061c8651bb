"""collapse() and draw() against the exact moments of the mixture."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import mixts
from tests.oracles.agreement import covariance_error, mean_error
from tests.oracles.problems import COVARIANCE_TYPES, Problem, random_arms, random_linear

ARMS = ("bernoulli", "gaussian", "poisson")
DRAWS = 40_000
STANDARD_ERRORS = 5.0  # a false alarm in 1.7 million comparisons; there are some thousand


def empty(kind: str, seed: int) -> Problem:
    make = random_linear if kind in COVARIANCE_TYPES else random_arms
    return make(seed, kind, 0)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("kind", COVARIANCE_TYPES)
def test_collapse_keeps_mean_and_covariance(kind: str, seed: int) -> None:
    problem = empty(kind, seed)
    collapsed = problem.prior.collapse()
    assert collapsed.n_components == 1
    belief = collapsed.belief()
    truth = problem.reference
    assert mean_error(belief.mean, truth.mean, truth.covariance) <= 1
    assert covariance_error(belief.covariance, truth.covariance) <= 1


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("kind", ARMS)
def test_collapse_keeps_each_arms_mean_and_variance(kind: str, seed: int) -> None:
    problem = empty(kind, seed)
    collapsed = problem.prior.collapse()
    assert collapsed.n_components == 1
    assert type(collapsed.family) is type(problem.prior.family)
    belief, truth = collapsed.belief(), problem.reference
    marginals = np.diag(np.diagonal(truth.covariance))
    assert mean_error(belief.mean, truth.mean, truth.covariance) <= 1
    assert covariance_error(belief.covariance, marginals) <= 1


def test_collapse_of_far_apart_and_certain_components() -> None:
    """The spread between means is the whole variance, a thousand up."""
    mean = np.array([[1000.0, 1.0], [1001.0, -1.0]])
    family = mixts.LinearGaussian(mean, np.zeros(2), 0.1, covariance_type="spherical")
    belief = mixts.MixturePrior(family, weights=[0.25, 0.75]).collapse().belief()
    np.testing.assert_allclose(belief.mean, [1000.75, -0.5], rtol=1e-14)
    np.testing.assert_allclose(
        belief.covariance, [[0.1875, -0.375], [-0.375, 0.75]], rtol=0, atol=1e-12
    )


@pytest.mark.parametrize("kind", [*COVARIANCE_TYPES, *ARMS])
def test_draw_has_the_mixtures_moments(kind: str) -> None:
    problem = empty(kind, 2)
    prior, truth = problem.prior, problem.reference
    latent, parameters = prior.draw(np.random.default_rng(5), DRAWS)
    assert latent.shape == (DRAWS,)
    assert parameters.shape == (DRAWS, len(truth.mean))
    for s, weight in enumerate(prior.weights):
        chosen = parameters[latent == s]
        error = np.sqrt(weight * (1 - weight) / DRAWS)
        assert abs(len(chosen) / DRAWS - weight) <= STANDARD_ERRORS * error + 1e-12
        if len(chosen) > 100:
            assert_moments(
                chosen,
                truth.component_mean[s].astype(float),
                truth.component_covariance[s].astype(float),
            )


def assert_moments(sample: np.ndarray, mean: np.ndarray, covariance: np.ndarray) -> None:
    """Mean and every product of deviations, each within its own standard error."""
    centred = sample - mean
    products = centred[:, :, None] * centred[:, None, :]
    for values, target in ((centred, np.zeros_like(mean)), (products, covariance)):
        error = values.std(axis=0, ddof=1) / np.sqrt(len(values))
        assert np.all(abs(values.mean(axis=0) - target) <= STANDARD_ERRORS * error + 1e-12)


@pytest.mark.parametrize("kind", ARMS)
def test_drawn_arms_follow_their_law(kind: str) -> None:
    problem = random_arms(4, kind, 0)
    latent, parameters = problem.prior.draw(np.random.default_rng(6), DRAWS)
    for s in range(problem.prior.n_components):
        for arm in range(parameters.shape[1]):
            first, second = problem.first[s, arm], problem.second[s, arm]
            law = {
                "bernoulli": stats.beta(first, second),
                "poisson": stats.gamma(first, scale=1 / second),
                "gaussian": stats.norm(first, np.sqrt(second)),
            }[kind]
            chosen = parameters[latent == s, arm]
            if len(chosen) > 100:
                assert stats.kstest(chosen, law.cdf).pvalue > 1e-6


def test_draws_stay_where_a_singular_covariance_keeps_them() -> None:
    direction = np.array([1.0, -2.0, 0.0])
    family = mixts.LinearGaussian(
        np.ones((1, 3)), np.outer(direction, direction)[None], 0.1, covariance_type="full"
    )
    _, parameters = mixts.MixturePrior(family).draw(np.random.default_rng(7), 1000)
    along = (parameters - 1.0) @ direction / (direction @ direction)
    # A zero eigenvalue is known to rounding, so its root to the root of it.
    np.testing.assert_allclose(parameters - 1.0, np.outer(along, direction), atol=1e-7)
    assert stats.kstest(along, stats.norm.cdf).pvalue > 1e-6
