"""Linear-Gaussian problems at the edges: widths, offsets, singular covariances, degenerate rows."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest

from tests.oracles.agreement import EXTREME, assert_agrees
from tests.oracles.problems import COVARIANCE_TYPES, ROADS, LinearProblem, covariances

pytestmark = pytest.mark.usefixtures("program")

CASES: dict[str, Callable[[], LinearProblem]] = {}


def case(make: Callable[[], LinearProblem]) -> Callable[[], LinearProblem]:
    CASES[make.__name__.replace("_", " ")] = make
    return make


def scaled(
    seed: int, covariance_type: str, variance: float, noise_std: float, n: int = 60
) -> LinearProblem:
    """Three components of about this prior variance; the task comes from the first."""
    rng = np.random.default_rng(seed)
    mean = np.sqrt(variance) * rng.normal(size=(3, 4))
    covariance = covariances(rng, covariance_type, 3, 4, variance)
    rows = rng.normal(size=(n, 4))
    theta = mean[0] + np.sqrt(variance) * rng.normal(size=4)
    rewards = rows @ theta + noise_std * rng.normal(size=n)
    return LinearProblem(mean, covariance, noise_std, covariance_type, rows, rewards)


for _type in COVARIANCE_TYPES:
    for _variance in (1e-8, 1e6):
        for _noise in (0.1, 1e-3):
            CASES[f"{_type} variance {_variance} noise {_noise}"] = (
                lambda t=_type, v=_variance, s=_noise: scaled(7, t, v, s)
            )


@case
def all_widths_in_one_prior() -> LinearProblem:
    """Components from nearly certain to nearly ignorant around one truth."""
    rng = np.random.default_rng(11)
    truth = np.array([0.5, -1.0, 2.0])
    rows = rng.normal(size=(100, 3))
    rewards = rows @ truth + 0.1 * rng.normal(size=100)
    variance = np.array([1e-8, 1e-4, 1.0, 1e6])
    return LinearProblem(np.tile(truth + 1e-3, (4, 1)), variance, 0.1, "spherical", rows, rewards)


@case
def rewards_near_1000_known_by_an_intercept() -> LinearProblem:
    """Three components that differ by a few noise deviations, a thousand up."""
    rng = np.random.default_rng(12)
    rows = np.column_stack([np.ones(100), rng.normal(size=100)])
    rewards = rows @ np.array([1000.0, 0.002]) + 1e-3 * rng.normal(size=100)
    mean = np.array([[1000.0, 0.0], [1000.001, 0.002], [999.998, 0.001]])
    covariance = np.tile([1e-6, 1e-6], (3, 1))
    return LinearProblem(mean, covariance, 1e-3, "diag", rows, rewards)


@case
def rewards_near_1000_from_a_wide_prior() -> LinearProblem:
    rng = np.random.default_rng(13)
    rows = rng.uniform(0.5, 1.0, size=(100, 4))
    rewards = rows @ np.array([400.0, 300.0, 350.0, 320.0]) + 1e-3 * rng.normal(size=100)
    mean = rng.normal(300.0, 50.0, size=(3, 4))
    return LinearProblem(mean, covariances(rng, "full", 3, 4, 1e6), 1e-3, "full", rows, rewards)


@case
def the_right_component_has_weight_1e_300() -> LinearProblem:
    """Just enough history to bring it back: neither weight is negligible at the end."""
    rng = np.random.default_rng(14)
    mean = np.array([[0.0, 0.0], [0.0, 1.2]])
    rows = np.tile([[1.0, 0.0], [0.0, 1.0]], (10, 1))
    rewards = rows @ mean[1] + 0.1 * rng.normal(size=20)
    weights = np.array([1.0, 1e-300])
    return LinearProblem(mean, np.full((2, 2), 1e-8), 0.1, "diag", rows, rewards, weights)


@case
def a_weight_of_zero_and_one_of_1e_300() -> LinearProblem:
    rng = np.random.default_rng(15)
    mean = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    rows = rng.normal(size=(40, 2))
    rewards = rows @ mean[1] + 0.1 * rng.normal(size=40)
    weights = np.array([1.0, 0.0, 1e-300])
    return LinearProblem(mean, np.full(3, 0.01), 0.1, "spherical", rows, rewards, weights)


def singular(factors: np.ndarray, seed: int, noise_std: float = 0.1) -> LinearProblem:
    """Covariances B B' of small integers: singular exactly, not to rounding."""
    rng = np.random.default_rng(seed)
    n_components, d, _ = factors.shape
    mean = rng.integers(-2, 3, size=(n_components, d)).astype(float)
    rows = rng.normal(size=(50, d))
    rewards = rows @ (mean[0] + factors[0] @ rng.normal(size=factors.shape[2]))
    rewards += noise_std * rng.normal(size=50)
    covariance = factors @ factors.transpose(0, 2, 1)
    return LinearProblem(mean, covariance, noise_std, "full", rows, rewards)


@case
def full_of_rank_one() -> LinearProblem:
    rng = np.random.default_rng(16)
    return singular(rng.integers(-2, 3, size=(3, 4, 1)).astype(float), 16)


@case
def full_of_rank_one_and_much_noise() -> LinearProblem:
    """No component is ruled out, so small differences must be right."""
    rng = np.random.default_rng(16)
    return singular(rng.integers(-2, 3, size=(3, 4, 1)).astype(float), 16, noise_std=10.0)


@case
def full_of_rank_two() -> LinearProblem:
    rng = np.random.default_rng(17)
    return singular(rng.integers(-2, 3, size=(3, 5, 2)).astype(float), 17)


@case
def full_singular_to_rounding() -> LinearProblem:
    rng = np.random.default_rng(18)
    return singular(rng.normal(size=(3, 5, 3)), 18)


@case
def full_of_rank_zero_beside_full_rank() -> LinearProblem:
    return singular(np.array([np.eye(3), np.zeros((3, 3)), np.diag([1.0, 0.0, 2.0])]), 19)


@case
def tied_of_rank_one() -> LinearProblem:
    rng = np.random.default_rng(20)
    root = np.array([1.0, 2.0, 0.0, -1.0])
    mean = rng.normal(size=(3, 4))
    rows = rng.normal(size=(40, 4))
    rewards = rows @ (mean[1] + 0.7 * root) + 0.1 * rng.normal(size=40)
    return LinearProblem(mean, np.outer(root, root), 0.1, "tied", rows, rewards)


@case
def diag_with_zeros() -> LinearProblem:
    rng = np.random.default_rng(21)
    mean = rng.normal(size=(3, 4))
    variance = np.array([[1.0, 0.0, 2.0, 0.0], [0.0, 1e6, 0.0, 1e-8], [0.0, 0.0, 0.0, 0.0]])
    rows = rng.normal(size=(40, 4))
    rewards = rows @ mean[0] + 0.2 * rng.normal(size=40)
    return LinearProblem(mean, variance, 0.2, "diag", rows, rewards)


@case
def spherical_with_a_zero() -> LinearProblem:
    rng = np.random.default_rng(22)
    mean = rng.normal(size=(3, 3))
    rows = rng.normal(size=(40, 3))
    rewards = rows @ mean[0] + 0.2 * rng.normal(size=40)
    return LinearProblem(mean, np.array([0.0, 1.0, 1e-8]), 0.2, "spherical", rows, rewards)


@case
def more_dimensions_than_rewards() -> LinearProblem:
    rng = np.random.default_rng(23)
    mean = rng.normal(size=(3, 20))
    rows = rng.normal(size=(7, 20))
    rewards = rows @ mean[2] + rng.normal(size=7)
    return LinearProblem(mean, covariances(rng, "full", 3, 20, 1e6), 0.1, "full", rows, rewards)


@case
def the_same_row_again_and_again() -> LinearProblem:
    rng = np.random.default_rng(24)
    mean = rng.normal(size=(3, 3))
    rows = np.tile([1.0, -2.0, 0.5], (80, 1))
    rewards = rows @ mean[1] + 0.1 * rng.normal(size=80)
    return LinearProblem(mean, covariances(rng, "full", 3, 3, 1e6), 0.1, "full", rows, rewards)


@case
def rows_of_zeros_and_collinear_rows() -> LinearProblem:
    rng = np.random.default_rng(25)
    mean = rng.normal(size=(2, 3))
    rows = np.outer(rng.integers(-1, 2, size=60), [1.0, 1.0, 3.0])
    rewards = rows @ mean[1] + 0.1 * rng.normal(size=60)
    return LinearProblem(mean, covariances(rng, "tied", 2, 3), 0.1, "tied", rows, rewards)


@case
def features_of_unlike_scales() -> LinearProblem:
    rng = np.random.default_rng(26)
    scales = np.array([1e-4, 1.0, 1e4])
    mean = rng.normal(size=(3, 3)) / scales
    rows = rng.normal(size=(80, 3)) * scales
    rewards = rows @ (mean[0] + rng.normal(size=3) / scales) + 0.1 * rng.normal(size=80)
    return LinearProblem(mean, np.tile(scales**-2, (3, 1)), 0.1, "diag", rows, rewards)


@cache
def problem_of(name: str) -> LinearProblem:
    return CASES[name]()


@pytest.mark.parametrize("road", ROADS)
@pytest.mark.parametrize("name", CASES)
def test_extreme(name: str, road: str) -> None:
    problem = problem_of(name)
    assert_agrees(ROADS[road](problem), problem.reference, EXTREME, problem.floor)


def test_a_weight_of_1e_300_comes_back() -> None:
    """The case is what it says: the tiny prior weight ends neither negligible nor alone."""
    weights = problem_of("the right component has weight 1e 300").reference.weights
    assert 1e-12 < float(weights[1]) < 1 - 1e-12
