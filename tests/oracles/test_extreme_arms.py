"""Arms at the edges: strong and weak priors, large counts, rewards near 1000, tiny weights."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest

from tests.oracles.agreement import EXTREME, assert_agrees
from tests.oracles.problems import ROADS, ArmsProblem

pytestmark = pytest.mark.usefixtures("program")

CASES: dict[str, Callable[[], ArmsProblem]] = {}


def case(make: Callable[[], ArmsProblem]) -> Callable[[], ArmsProblem]:
    CASES[make.__name__.replace("_", " ")] = make
    return make


def flips(seed: int, n: int, chances: list[float]) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    actions = rng.integers(len(chances), size=n)
    return actions, rng.binomial(1, np.array(chances)[actions])


def counts(seed: int, n: int, means: list[float]) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    actions = rng.integers(len(means), size=n)
    return actions, rng.poisson(np.array(means)[actions])


def reals(seed: int, n: int, means: list[float], noise: float) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    actions = rng.integers(len(means), size=n)
    return actions, rng.normal(np.array(means)[actions], noise)


@case
def bernoulli_of_variance_1e_8() -> ArmsProblem:
    """`alpha + beta` of 2.5e7: log gamma of it is 4e8, of which the answer keeps the units."""
    alpha = np.array([[1.25e7, 5e6], [1.2501e7, 2e7]])
    return ArmsProblem("bernoulli", alpha, 2.5e7 - alpha, *flips(1, 60, [0.5, 0.4]))


@case
def bernoulli_with_one_reward_after_a_strong_prior() -> ArmsProblem:
    alpha = np.array([[1e10], [3e9]])
    return ArmsProblem("bernoulli", alpha, 1e10 - 0.5 * alpha, np.array([0]), np.array([1]))


@case
def bernoulli_all_or_nothing() -> ArmsProblem:
    tiny = np.array([[1e-8, 1e-3], [1e-8, 1.0], [1e-300, 2.0]])
    return ArmsProblem("bernoulli", tiny, tiny[::-1], *flips(2, 40, [0.5, 1.0]))


@case
def bernoulli_lopsided() -> ArmsProblem:
    alpha, beta = np.array([[1e-6, 1e6], [0.5, 2e5]]), np.array([[1e6, 1e-6], [2e5, 0.5]])
    return ArmsProblem("bernoulli", alpha, beta, *flips(3, 100, [0.05, 0.95]))


@case
def bernoulli_with_weight_1e_300() -> ArmsProblem:
    alpha, beta = np.array([[100.0, 50.0], [40.0, 10.0]]), np.array([[9900.0, 50.0], [60.0, 1.0]])
    actions, outcomes = flips(4, 1500, [0.4, 0.9])
    return ArmsProblem("bernoulli", alpha, beta, actions, outcomes, np.array([1.0, 1e-300]))


@case
def poisson_of_variance_1e_8() -> ArmsProblem:
    shape = np.array([[1e8, 4e8], [1.0001e8, 4.001e8]])
    rate = np.array([[1e8, 2e8], [1e8, 2e8]])
    return ArmsProblem("poisson", shape, rate, *counts(5, 60, [1.0, 2.0]))


@case
def poisson_of_variance_1e6() -> ArmsProblem:
    shape, rate = np.array([[1e-2, 1.0], [1.0, 4.0]]), np.array([[1e-4, 1e-3], [1e-3, 2e-3]])
    return ArmsProblem("poisson", shape, rate, *counts(6, 60, [80.0, 1500.0]))


@case
def poisson_counts_near_1000() -> ArmsProblem:
    shape, rate = np.array([[1e6, 1e3], [1e3, 1e6]]), np.array([[1e3, 1.0], [1.0, 1e3]])
    return ArmsProblem("poisson", shape, rate, *counts(7, 100, [1000.0, 1000.5]))


@case
def poisson_of_nothing_but_zeros() -> ArmsProblem:
    shape, rate = np.array([[1e-8, 1.0], [1.0, 1e-8]]), np.array([[1.0, 1e6], [1e-8, 1.0]])
    return ArmsProblem("poisson", shape, rate, np.repeat([0, 1], 30), np.zeros(60, dtype=int))


@case
def gaussian_of_variance_1e_8() -> ArmsProblem:
    mean = np.array([[0.5, 0.0], [0.5001, 0.0001]])
    history = reals(8, 120, [0.5, 0.0], 0.1)
    return ArmsProblem("gaussian", mean, np.full((2, 2), 1e-8), *history, noise_std=0.1)


@case
def gaussian_of_variance_1e6() -> ArmsProblem:
    mean = np.array([[900.0, 0.0], [-500.0, 10.0]])
    history = reals(9, 120, [850.0, -300.0], 1e-3)
    return ArmsProblem("gaussian", mean, np.full((2, 2), 1e6), *history, noise_std=1e-3)


@case
def gaussian_arms_that_are_known() -> ArmsProblem:
    """Variances of zero: nothing is learned of those arms, and they still tell components apart."""
    mean, variance = np.array([[0.5, 0.0], [0.45, 0.1]]), np.array([[0.0, 1.0], [0.0, 0.0]])
    return ArmsProblem("gaussian", mean, variance, *reals(11, 80, [0.5, 0.1], 0.2), noise_std=0.2)


@case
def gaussian_rewards_near_1000() -> ArmsProblem:
    mean = np.array([[1000.0, 999.999], [1000.001, 1000.0], [999.998, 1000.0]])
    variance = np.array([[1e-6, 1e-6], [1e-8, 1e-8], [1e-6, 1e6]])
    history = reals(10, 200, [1000.0005, 999.9995], 1e-3)
    return ArmsProblem("gaussian", mean, variance, *history, noise_std=1e-3)


@case
def gaussian_with_weight_1e_300() -> ArmsProblem:
    mean = np.array([[0.0, 0.0], [0.0, 1.2]])
    actions = np.tile([0, 1], 10)
    outcomes = np.random.default_rng(14).normal(mean[1][actions], 0.1)
    variance, weights = np.full((2, 2), 1e-8), np.array([1.0, 1e-300])
    return ArmsProblem("gaussian", mean, variance, actions, outcomes, weights, 0.1)


@cache
def problem_of(name: str) -> ArmsProblem:
    return CASES[name]()


@pytest.mark.parametrize("road", ROADS)
@pytest.mark.parametrize("name", CASES)
def test_extreme(name: str, road: str) -> None:
    problem = problem_of(name)
    assert_agrees(ROADS[road](problem), problem.reference, EXTREME)


@pytest.mark.parametrize("kind", ["bernoulli", "gaussian"])
def test_a_weight_of_1e_300_comes_back(kind: str) -> None:
    """The cases are what they say: the tiny prior weight ends far from negligible."""
    weights = problem_of(f"{kind} with weight 1e 300").reference.weights
    assert float(weights[1]) > 1e-12
