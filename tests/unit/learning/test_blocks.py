"""Evidence and posterior moments of blocks of linear tasks: the same for any number of threads."""

from __future__ import annotations

import numpy as np
import pytest

import mixts
from mixts.engines import _workers
from mixts.families import LinearStatistics
from mixts.learning.models import coefficients, linear
from mixts.learning.models.coefficients import inverses
from mixts.learning.models.linear import LinearModel, joint_triangle

pytestmark = pytest.mark.usefixtures("program")

N_TASKS, N_FEATURES, N_ROWS = 50, 3, 6


@pytest.fixture
def model() -> LinearModel:
    rng = np.random.default_rng(0)
    tasks = np.repeat(np.arange(N_TASKS), N_ROWS)
    features = rng.normal(size=(len(tasks), N_FEATURES))
    statistics = LinearStatistics.empty((N_FEATURES,), N_TASKS)
    statistics.observe(tasks, (features, features.sum(axis=1) + rng.normal(size=len(tasks))))
    return LinearModel(statistics)


@pytest.fixture
def arguments(model: LinearModel) -> tuple[np.ndarray, ...]:
    """Means, precisions and logarithms of their roots of two components, and shares of tasks."""
    rng = np.random.default_rng(1)
    precision, log_det = inverses(np.stack([np.eye(N_FEATURES), 2 * np.eye(N_FEATURES)]))
    share = rng.dirichlet(np.ones(2), N_TASKS)
    return rng.normal(size=(2, N_FEATURES)), precision, -log_det / 2, share


@pytest.mark.parametrize("n_threads", [2, 5])
def test_threads_change_no_bit(
    n_threads: int,
    model: LinearModel,
    arguments: tuple[np.ndarray, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mean, precision, half, share = arguments
    monkeypatch.setattr(coefficients, "BLOCK", 8)
    found = []
    for n in (1, n_threads):
        monkeypatch.setattr(_workers, "n_threads", lambda n=n: n)
        evidence = coefficients.evidence_of_tasks(model._tasks, mean, precision, half, 0.5)
        misfit, sums = coefficients.moments_of_tasks(
            model._tasks, share, share, mean, precision, 0.5
        )
        found.append((*evidence, np.array(misfit), *sums))
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


def test_blocks_add_up_to_all_tasks(
    model: LinearModel, arguments: tuple[np.ndarray, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    mean, precision, half, share = arguments
    found = []
    for size in (coefficients.BLOCK, 13 * mean.size * N_FEATURES):
        monkeypatch.setattr(coefficients, "BLOCK", size)
        out = coefficients.evidence_of_tasks(model._tasks, mean, precision, half, 0.5)
        sums = coefficients.moments_of_tasks(model._tasks, share, share, mean, precision, 0.5)
        found.append((out, sums))
    (whole, (misfit, sums)), (blocks, (again, parts)) = found
    for one, other in zip(whole, blocks, strict=True):
        np.testing.assert_array_equal(one, other)
    gap = model._factor[:, None, :-1, -1] - mean @ np.swapaxes(model._factor[:, :-1, :-1], 1, 2)
    np.testing.assert_allclose(whole[2], (gap**2).sum(axis=2).max(), rtol=1e-12)
    # Sums of some tens of numbers in another order: their rounding errors, relative to the largest.
    bound = N_TASKS * np.finfo(float).eps
    assert abs(again - misfit) <= bound * misfit
    for one, other in zip(sums, parts, strict=True):
        assert np.abs(one - other).max() <= bound * N_TASKS * np.abs(one).max()


@pytest.mark.parametrize("n_tasks", [0, 1, 2, 50])
def test_the_joint_triangle_is_that_of_all_rows(
    n_tasks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(linear, "MOST_STACKED", 3 * 4**2)
    rng = np.random.default_rng(2)
    factor = np.triu(rng.normal(size=(n_tasks, 4, 4)))
    joint = joint_triangle(factor)
    rows = factor.reshape(-1, 4)
    np.testing.assert_allclose(joint.T @ joint, rows.T @ rows, rtol=1e-12, atol=1e-12)


def test_a_learned_prior_does_not_depend_on_the_threads(
    model: LinearModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coefficients, "BLOCK", 8)
    priors = []
    for n in (1, 3):
        monkeypatch.setattr(_workers, "n_threads", lambda n=n: n)
        learned = mixts.learn_prior(model.statistics, 2, n_restarts=2, seed=1, engine=1)
        priors.append(learned)
    np.testing.assert_array_equal(priors[0].weights, priors[1].weights)
    for name, array in priors[0].family.arrays().items():
        np.testing.assert_array_equal(array, priors[1].family.arrays()[name])
