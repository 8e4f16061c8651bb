"""Histories of 1e5 rewards, beyond what an n x n density can say: sequential references."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from tests.oracles.agreement import EXTREME, assert_agrees
from tests.oracles.problems import ROADS, ArmsProblem, LinearProblem, Problem

pytestmark = pytest.mark.usefixtures("program")

LONG = 100_000


@cache
def linear(kind: str, n: int = LONG) -> LinearProblem:
    rng = np.random.default_rng(31)
    if kind == "ordinary":
        mean, variance, noise_std = rng.normal(size=(2, 2)), np.array([0.5, 2.0]), 0.5
        rows = rng.normal(size=(n, 2))
        rewards = rows @ mean[1] + noise_std * rng.normal(size=n)
    else:
        mean = np.array([[1000.0, 0.0], [1000.001, 0.002]])
        variance, noise_std = np.array([1e-6, 1e6]), 1e-3
        rows = np.column_stack([np.ones(n), rng.normal(size=n)])
        rewards = rows @ np.array([1000.0005, 0.001]) + noise_std * rng.normal(size=n)
    return LinearProblem(mean, variance, noise_std, "spherical", rows, rewards)


@cache
def arms(kind: str, n: int = LONG) -> ArmsProblem:
    rng = np.random.default_rng(32)
    actions = rng.integers(2, size=n)
    if kind == "bernoulli":
        alpha, beta = np.array([[1.0, 9.0], [30.0, 2.0]]), np.array([[1.0, 1.0], [70.0, 8.0]])
        outcomes = rng.binomial(1, np.array([0.3, 0.8])[actions])
        return ArmsProblem(kind, alpha, beta, actions, outcomes)
    if kind == "poisson":
        shape, rate = np.array([[1.0, 9.0], [3e4, 2e3]]), np.array([[1e-3, 1e-2], [30.0, 2.0]])
        outcomes = rng.poisson(np.array([1000.0, 990.0])[actions])
        return ArmsProblem(kind, shape, rate, actions, outcomes)
    mean = np.array([[1000.0, 999.999], [1000.001, 1000.0]])
    variance = np.array([[1e-6, 1e-6], [1e-8, 1e6]])
    outcomes = rng.normal(np.array([1000.0005, 999.9995])[actions], 1e-3)
    return ArmsProblem(kind, mean, variance, actions, outcomes, noise_std=1e-3)


def problem_of(name: str, n: int = LONG) -> Problem:
    return linear(name, n) if name in ("ordinary", "near 1000") else arms(name, n)


NAMES = ("ordinary", "near 1000", "bernoulli", "poisson", "gaussian")


AT_ONCE = [
    ("bernoulli", LONG),
    ("poisson", LONG),
    # Sequential references take seconds; rewards near 1000 lose more digits than ordinary ones.
    ("near 1000", LONG // 10),
    ("gaussian", LONG // 10),
    *(pytest.param(name, LONG, marks=pytest.mark.slow) for name in NAMES[:2] + NAMES[-1:]),
]


@pytest.mark.parametrize(("name", "n"), AT_ONCE)
def test_a_long_history_at_once(name: str, n: int) -> None:
    problem = problem_of(name, n)
    assert_agrees(ROADS["one batch"](problem), problem.reference, EXTREME)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("road", ["one by one", "conditioned"])
def test_a_hundred_thousand_rewards_one_by_one(name: str, road: str) -> None:
    problem = problem_of(name)
    assert_agrees(ROADS[road](problem), problem.reference, EXTREME)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("road", ["one by one", "conditioned"])
def test_two_thousand_rewards_one_by_one(name: str, road: str) -> None:
    problem = problem_of(name, 2000)
    assert_agrees(ROADS[road](problem), problem.reference, EXTREME)
