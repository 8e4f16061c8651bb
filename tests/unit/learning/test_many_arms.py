"""Learning and checking with many arms: the short ways agree with the plain ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mixts
from mixts.families import BernoulliStatistics
from mixts.learning.models import predictive_of
from mixts.learning.models.counts import Levels, Rows, _Problem, expected_logs

pytestmark = pytest.mark.usefixtures("program")


def test_levels_are_the_distinct_values_of_each_column() -> None:
    counts = np.random.default_rng(1).integers(0, 4, size=(30, 7)) * np.array([1, 1, 0, 1, 9, 1, 1])
    levels = Levels.of(counts)
    expected = [(c, v) for c in range(7) for v in np.unique(counts[:, c]) if v > 0]
    assert list(zip(levels.column.tolist(), levels.value.tolist(), strict=True)) == expected
    assert levels.tasks is not None
    for task, has in enumerate(levels.tasks.toarray()):
        own = [(c, v) for c, v in enumerate(counts[task]) if v > 0]
        assert [expected[entry] for entry in np.flatnonzero(has)] == own
        assert set(has) <= {0.0, 1.0}
    numbers = np.random.default_rng(2).normal(size=counts.shape)
    np.testing.assert_allclose(levels.times(numbers).sum(axis=1), (numbers * (counts > 0)).sum(1))


def problem(n_rows: int = 40) -> tuple[_Problem, Any]:
    rng = np.random.default_rng(2)
    counts = rng.integers(0, 6, size=(50, n_rows, 2))
    rows = Rows.of(counts, np.ones((n_rows, 2), bool))
    share = rng.dirichlet([1.0, 1.0], size=50)
    centre = np.ones((1, n_rows, 2))
    shares = rows.outcomes.entries @ share, rows.totals.entries @ share
    return _Problem(rows, *shares, expected_logs(centre), np.full((2, n_rows), 0.1)), rng.gamma(
        1.0, 5.0, size=(2, n_rows, 2)
    )


def test_some_rows_alone_have_their_values_among_all() -> None:
    whole, counts = problem()
    some = np.array([0, 3, 17, 39])
    np.testing.assert_array_equal(
        whole.among(some).value(counts[:, some]), whole.value(counts)[:, some]
    )


def test_a_newton_step_never_loses_and_reports_its_values() -> None:
    whole, counts = problem()
    before, start = whole.value(counts), counts.copy()
    moved, reached = whole.step(counts, before)
    assert (reached >= before).all()
    assert (reached > before).mean() > 0.9
    np.testing.assert_allclose(whole.value(moved), reached, rtol=1e-12)
    np.testing.assert_array_equal(counts, start)


def test_tasks_beside_a_task_need_only_the_arms_that_it_tried() -> None:
    rng = np.random.default_rng(3)
    mean = rng.uniform(0.1, 0.9, size=(2, 2000))
    prior = mixts.MixturePrior(mixts.BernoulliArms(5 * mean, 5 * (1 - mean)))
    tried = rng.choice(2000, 8, replace=False)
    won, lost = np.zeros((1, 2000), np.int64), np.zeros((1, 2000), np.int64)
    won[0, tried], lost[0, tried] = rng.integers(0, 5, 8), rng.integers(1, 5, 8)
    task = np.array([0])
    many = predictive_of(prior, BernoulliStatistics(successes=won, failures=lost))
    few = predictive_of(
        mixts.MixturePrior(prior.family.arms(np.sort(tried))),
        BernoulliStatistics(successes=won[:, np.sort(tried)], failures=lost[:, np.sort(tried)]),
    )
    np.testing.assert_allclose(many.scores(), few.scores(), rtol=1e-10)
    drawn = [one.replicate(np.random.default_rng(4), task, 50) for one in (many, few)]
    np.testing.assert_allclose(drawn[0], drawn[1], rtol=1e-10)
