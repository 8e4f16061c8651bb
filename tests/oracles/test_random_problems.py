"""Every family on random problems: evidence, weights and posteriors by three roads."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from tests.oracles.agreement import assert_agrees
from tests.oracles.problems import (
    COVARIANCE_TYPES,
    ROADS,
    LinearProblem,
    Problem,
    covariances,
    random_arms,
    random_linear,
)

pytestmark = pytest.mark.usefixtures("program")

ARMS = ("bernoulli", "gaussian", "poisson")


@cache
def problem_of(kind: str, seed: int, n: int | None = None) -> Problem:
    """A problem, made once: the roads share its reference."""
    if kind in COVARIANCE_TYPES:
        return random_linear(seed, kind, n)
    return random_arms(seed, kind, n)


@pytest.mark.parametrize("road", ROADS)
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("kind", [*COVARIANCE_TYPES, *ARMS])
def test_short_histories(kind: str, seed: int, road: str) -> None:
    problem = problem_of(kind, seed)
    assert_agrees(ROADS[road](problem), problem.reference)


@pytest.mark.parametrize("road", ROADS)
@pytest.mark.parametrize("kind", ["full", *ARMS])
def test_two_hundred_rewards(kind: str, road: str) -> None:
    problem = problem_of(kind, 101, n=200)
    assert_agrees(ROADS[road](problem), problem.reference)


@pytest.mark.slow
@pytest.mark.parametrize("road", ROADS)
@pytest.mark.parametrize("seed", range(100, 130))
@pytest.mark.parametrize("kind", [*COVARIANCE_TYPES, *ARMS])
def test_longer_histories(kind: str, seed: int, road: str) -> None:
    problem = problem_of(kind, seed, n=300)
    assert_agrees(ROADS[road](problem), problem.reference)


@pytest.mark.parametrize("kind", [*COVARIANCE_TYPES, *ARMS])
def test_no_history_is_the_prior(kind: str) -> None:
    problem = problem_of(kind, 50, n=0)
    belief = problem.prior.belief()
    assert np.array_equal(belief.log_evidence, np.zeros(problem.prior.n_components))
    assert_agrees(belief, problem.reference)


@pytest.mark.parametrize("kind", [*COVARIANCE_TYPES, *ARMS])
def test_reading_every_round_changes_nothing(kind: str) -> None:
    """The incremental path is exact at every round, and looking at it leaves it so."""
    problem = problem_of(kind, 60, n=30)
    belief = problem.prior.belief()
    for t, (action, outcome) in enumerate(zip(problem.actions, problem.outcomes, strict=True), 1):
        belief.update(action, outcome)
        weights = belief.weights
        assert weights.sum() == pytest.approx(1.0, abs=1e-12)
        if t % 10 == 0:
            part = {"actions": problem.actions[:t], "outcomes": problem.outcomes[:t]}
            assert_agrees(belief, type(problem)(**{**vars_of(problem), **part}).reference)


@pytest.mark.parametrize("kind", COVARIANCE_TYPES)
def test_many_features_round_by_round(kind: str) -> None:
    """Twelve features: fewer rewards than features, as many, and more."""
    rng = np.random.default_rng(70)
    mean, covariance = rng.normal(size=(3, 12)), covariances(rng, kind, 3, 12)
    rows, rewards = rng.normal(size=(30, 12)), rng.normal(size=30)
    belief = LinearProblem(mean, covariance, 0.5, kind, rows, rewards).prior.belief()
    for t in range(1, 31):
        belief.update(rows[t - 1], rewards[t - 1])
        if t in (1, 7, 8, 9, 11, 12, 13, 24, 30):
            part = LinearProblem(mean, covariance, 0.5, kind, rows[:t], rewards[:t])
            assert_agrees(belief, part.reference)


def vars_of(problem: Problem) -> dict:
    return {name: getattr(problem, name) for name in type(problem).__dataclass_fields__}


@pytest.mark.parametrize("kind", COVARIANCE_TYPES)
def test_mean_rewards_of_feature_rows(kind: str) -> None:
    problem = problem_of(kind, 3)
    rows = np.random.default_rng(0).normal(size=(7, problem.actions.shape[1]))
    expected = (rows @ problem.reference.mean.astype(float)).tolist()
    belief = ROADS["one by one"](problem)
    assert belief.mean_rewards(rows) == pytest.approx(expected, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("kind", ARMS)
def test_mean_rewards_of_arms(kind: str) -> None:
    problem = problem_of(kind, 3)
    belief = ROADS["one by one"](problem)
    expected = problem.reference.mean.astype(float)
    np.testing.assert_allclose(belief.mean_rewards(), expected, rtol=1e-9, atol=1e-12)
