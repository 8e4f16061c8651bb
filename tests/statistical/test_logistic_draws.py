"""Draws from logistic posteriors: calibrated over the prior, and with the posterior's moments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit

from mixts.families import _logistic as logistic
from tests.oracles import logistic_references as references

pytestmark = pytest.mark.usefixtures("program")


def draw(problem: Any, out: Any, n: int, rng: np.random.Generator) -> tuple[Any, float]:
    """Return n draws of the only component, and the share of accepted moves."""
    theta, latent = np.empty((n, len(problem.mean))), np.zeros(n, np.int64)
    accepted = out.draw(*references.table(problem), latent, rng, theta, 0.01, 1024)
    return theta, accepted / (n * logistic.N_MOVES)


@pytest.mark.parametrize(
    ("d", "deviation", "rate", "n"),
    [
        (1, 3.0, 0.06, 20),
        (3, 3.0, 0.5, 10),
        pytest.param(3, 1.0, 0.06, 40, marks=pytest.mark.slow),
        pytest.param(8, 1.0, 0.2, 5, marks=pytest.mark.slow),
    ],
)
def test_ranks_of_true_parameters_are_uniform(
    d: int, deviation: float, rate: float, n: int
) -> None:
    """Parameters from the prior have uniform ranks among draws from their posterior."""
    rng = np.random.default_rng(17)
    n_tasks, n_draws = 400, 31
    ranks, moves = np.empty((n_tasks, d + 1)), []
    design = None
    for i in range(n_tasks):
        problem = references.draw_problem(np.random.default_rng(1), d, deviation, rate, n)
        if design is None:
            design = references.make_design(problem.mean[None], problem.root[None])
        true = problem.mean + problem.root @ rng.standard_normal(d)
        clicks = rng.binomial(problem.trials.astype(int), expit(problem.rows @ true))
        problem = problem._replace(successes=clicks.astype(float))
        out = references.condition(problem, design)
        theta, accepted = draw(problem, out, n_draws, rng)
        moves.append(accepted)
        ranks[i, :d] = (theta < true).sum(axis=0)
        ranks[i, d] = (theta.sum(axis=1) < true.sum()).sum()
    for k in range(d + 1):
        counts = np.bincount(ranks[:, k].astype(int) // 4, minlength=8)
        # One false alarm in 10,000 for each coordinate.
        assert stats.chisquare(counts).pvalue > 1e-4
    assert np.mean(moves) > 0.6


@pytest.mark.parametrize(
    ("deviation", "n", "kind"),
    [
        (3.0, 100, "silent"),
        pytest.param(1.0, 100, "random", marks=pytest.mark.slow),
        pytest.param(3.0, 30, "separable", marks=pytest.mark.slow),
    ],
)
def test_draws_have_the_moments_of_the_posterior(deviation: float, n: int, kind: str) -> None:
    rng = np.random.default_rng(2)
    problem = references.draw_problem(np.random.default_rng(n), 2, deviation, 0.06, n, kind)
    exact = references.grid(problem, 161)
    design = references.make_design(problem.mean[None], problem.root[None])
    out = references.condition(problem, design)
    theta, _ = draw(problem, out, 100_000, rng)
    scale = np.sqrt(np.diag(exact.covariance))
    # 100,000 independent draws have errors of 0.003 deviations. Four moves leave little of the
    # fixed points' error, which is at most 0.03 here.
    assert np.all(np.abs(theta.mean(axis=0) - exact.mean) < 0.02 * scale)
    assert np.all(np.abs(theta.std(axis=0) / scale - 1.0) < 0.02)


def test_draws_are_continuous_and_depend_on_their_random_numbers_only() -> None:
    problem = references.draw_problem(np.random.default_rng(4), 5, 1.0, 0.2, 60)
    design = references.make_design(problem.mean[None], problem.root[None])
    out = references.condition(problem, design)
    theta, _ = draw(problem, out, 1000, np.random.default_rng(9))
    again, _ = draw(problem, out, 1000, np.random.default_rng(9))
    np.testing.assert_array_equal(theta, again)
    # A draw keeps its fixed point if all moves are refused.
    assert len(np.unique(theta[:, 0])) > 990
