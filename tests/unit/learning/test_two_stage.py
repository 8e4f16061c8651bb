from __future__ import annotations

import numpy as np
import pytest
from mixts_paper.experiments.paper.images import N_TASKS, past_coefficients, prior_arrays, priors_of

from mixts.errors import ParameterError
from mixts.learning.two_stage import (
    RIDGE,
    gaussian_of_estimates,
    mixture_of_estimates,
    ridge_coefficients,
)


def estimates(seed: int = 0, n: int = 400) -> tuple[np.ndarray, np.ndarray]:
    """Three clusters in four dimensions, far apart."""
    rng = np.random.default_rng(seed)
    centres = np.array([[3.0, 0, 0, 0], [0, 3.0, 0, 0], [0, 0, 3.0, 0]])
    latent = rng.integers(3, size=n)
    return centres[latent] + 0.1 * rng.normal(size=(n, 4)), latent


def test_ridge_solves_the_augmented_least_squares() -> None:
    rng = np.random.default_rng(1)
    A, y = rng.normal(size=(20, 5)), rng.normal(size=20)
    penalty = np.sqrt(RIDGE * (A**2).sum() / 5)
    augmented = np.vstack([A, penalty * np.eye(5)])
    expected = np.linalg.lstsq(augmented, np.concatenate([y, np.zeros(5)]), rcond=None)[0]
    np.testing.assert_allclose(ridge_coefficients(A, y), expected, rtol=1e-9)
    # With fewer observations than features there is still one solution.
    assert np.isfinite(ridge_coefficients(A[:3], y[:3])).all()


@pytest.mark.parametrize("scale", [1.0, 1e-4, 1e4])
def test_the_mixture_finds_the_clusters_in_any_unit(scale: float) -> None:
    points, latent = estimates()
    prior = mixture_of_estimates(scale * points, 3, 0.5, seed=0)
    np.testing.assert_array_equal(prior.weights, np.full(3, 1 / 3))
    means = prior.family.mean / scale
    found = ((points[:, None] - means) ** 2).sum(axis=2).argmin(axis=1)
    for s in range(3):
        assert len(np.unique(found[latent == s])) == 1
    np.testing.assert_allclose(
        np.sort(means.max(axis=1)), [points[latent == s].mean(axis=0).max() for s in range(3)],
        atol=0.05,
    )  # fmt: skip
    assert np.allclose(np.sqrt(prior.family.covariance.diagonal(0, 1, 2)) / scale, 0.1, rtol=0.3)


def test_one_gaussian_has_the_sample_moments() -> None:
    points, _ = estimates()
    prior = gaussian_of_estimates(points, 0.5)
    np.testing.assert_allclose(prior.family.mean[0], points.mean(axis=0))
    np.testing.assert_allclose(prior.family.covariance[0], np.cov(points, rowvar=False))


def test_too_few_tasks_are_refused() -> None:
    points, _ = estimates()
    with pytest.raises(ParameterError, match="5 components need at least 5 tasks, got 4"):
        mixture_of_estimates(points[:4], 5, 0.5, seed=0)
    with pytest.raises(ParameterError, match="at least two tasks"):
        gaussian_of_estimates(points[:1], 0.5)
    with pytest.raises(ParameterError, match="all estimates are equal"):
        mixture_of_estimates(np.ones((4, 2)), 2, 0.5, seed=0)


def test_past_tasks_predict_their_class() -> None:
    rng = np.random.default_rng(2)
    labels = np.repeat(np.arange(3), 200)
    features = np.eye(3)[labels] + 0.1 * rng.normal(size=(600, 3))
    past = past_coefficients(features, labels, seed=4)
    assert past["coefficients"].shape == (N_TASKS, 3)
    np.testing.assert_array_equal(past["coefficients"].argmax(axis=1), past["tasks"])
    again = past_coefficients(features, labels, seed=4)
    np.testing.assert_array_equal(past["coefficients"], again["coefficients"])
    prior, one = priors_of(prior_arrays(past["coefficients"], 3, 4))
    assert (prior.n_components, one.n_components) == (3, 1)
    assert sorted(prior.family.mean.argmax(axis=1)) == [0, 1, 2]
