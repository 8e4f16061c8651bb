"""Tables of distinct feature rows: counting, merging, limits and files."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from mixts import errors
from mixts.families import LinearBernoulliStatistics, LinearStatistics, Statistics

N_TASKS, N_FEATURES = 5, 3


def history(n: int = 300, seed: int = 0) -> tuple[Any, Any, Any]:
    """Tasks, features of few levels, so that rows repeat, and clicks."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(-1, 2, size=(n, N_FEATURES)).astype(float)
    return rng.integers(N_TASKS, size=n), rows, (rng.random(n) < 0.3).astype(float)


def counted(tasks: Any, rows: Any, clicks: Any, **limits: Any) -> LinearBernoulliStatistics:
    statistics = LinearBernoulliStatistics.empty((N_FEATURES,), N_TASKS, **limits)
    statistics.observe(tasks, statistics.observations(rows, clicks))
    return statistics


def test_rows_are_counted_as_a_dictionary_counts_them() -> None:
    tasks, rows, clicks = history()
    expected: dict[Any, list[int]] = {}
    for task, row, click in zip(tasks, rows, clicks, strict=True):
        entry = expected.setdefault((int(task), *row.tolist()), [0, 0])
        entry[0] += 1
        entry[1] += int(click)
    found = counted(tasks, rows, clicks)
    keys = [
        (int(t), *row.tolist()) for t, row in zip(found.owners, found.array("rows"), strict=True)
    ]
    assert keys == sorted(expected)
    assert found.array("trials").tolist() == [expected[key][0] for key in keys]
    assert found.array("successes").tolist() == [expected[key][1] for key in keys]
    np.testing.assert_array_equal(found.n_observations, np.bincount(tasks))
    np.testing.assert_array_equal(found.successes, np.bincount(tasks, clicks))


def test_the_order_does_not_matter_to_the_bit() -> None:
    tasks, rows, clicks = history()
    other = np.random.default_rng(1).permutation(len(tasks))
    once = counted(tasks, rows, clicks)
    again = counted(tasks[other], rows[other], clicks[other])
    assert once == again
    assert once.encode() == again.encode()
    half = counted(tasks[:70], rows[:70], clicks[:70])
    rest = counted(tasks[70:], rows[70:], clicks[70:])
    assert half + rest == rest + half == once


def test_unsorted_arrays_are_sorted() -> None:
    found = LinearBernoulliStatistics(
        size=[3], rows=[[2.0], [-0.0], [0.0]], trials=[1, 2, 3], successes=[1, 0, 2]
    )
    assert found.array("rows").tolist() == [[0.0], [2.0]]
    assert not np.signbit(found.array("rows")).any()
    assert found.array("trials").tolist() == [5, 1]
    assert found.array("successes").tolist() == [2, 1]


def test_linear_statistics_of_the_same_clicks() -> None:
    tasks, rows, clicks = history()
    expected = LinearStatistics.empty((N_FEATURES,), N_TASKS)
    expected.observe(tasks, expected.observations(rows, clicks))
    found = counted(tasks, rows, clicks).to_linear()
    np.testing.assert_allclose(found.array("factor"), expected.array("factor"), atol=1e-12)
    np.testing.assert_array_equal(found.array("count"), expected.array("count"))


def test_features_are_rounded_if_asked() -> None:
    rows = np.array([[0.124, 1.0, 0.0], [0.12, 1.001, -0.001]])
    exact = counted([0, 0], rows, [0, 1])
    rounded = counted([0, 0], rows, [0, 1], decimals=2)
    assert exact.size[0] == 2
    assert rounded.size[0] == 1
    assert rounded.array("rows").tolist() == [[0.12, 1.0, 0.0]]
    with pytest.raises(errors.StatisticsError, match="decimals"):
        exact + rounded


def test_too_many_rows_are_refused_aloud_and_nothing_changes() -> None:
    limited = counted([0, 0, 1], np.eye(3), [0, 1, 1], max_rows=2)
    before = limited.copy()
    more = np.array([[1.0, 0, 0], [0.0, 0, 2]])
    with pytest.raises(errors.ObservationError, match=r"2 distinct rows .* got 3: round"):
        limited.observe([0, 0], limited.observations(more, [1, 1]))
    assert limited == before
    limited.observe([0, 0], limited.observations(np.eye(3)[[0, 0]], [1, 1]))  # not a new row
    assert limited.n_observations[0] == 4


def test_the_limit_is_that_of_each_task() -> None:
    limited = counted([0, 0, 1, 3], np.eye(3)[[0, 1, 0, 2]], [0, 1, 1, 0], max_rows=2)
    before = limited.copy()
    features, clicks = np.eye(3)[[1, 1, 2, 0]], [1, 0, 1, 1]
    # Task 0 is full, and gets a row that it has; tasks 1 and 3 get one more row each.
    limited.observe([0, 1, 3, 3], limited.observations(features, clicks))
    assert limited == before + counted([0, 1, 3, 3], features, clicks, max_rows=2)
    assert limited.size.tolist() == [2, 2, 0, 2, 0]
    before = limited.copy()
    with pytest.raises(errors.ObservationError, match="got 4"):
        limited.observe([2, 3, 1, 3], limited.observations(np.eye(3)[[0, 0, 0, 1]] * 2, clicks))
    assert limited == before


def test_tasks_without_observations_take_no_room() -> None:
    statistics = LinearBernoulliStatistics.empty((N_FEATURES,), 100_000)
    for task in (70_000, 5, 70_000):
        statistics.observe([task], statistics.observations([1.0, 0.0, 2.0], 1))
    assert statistics.n_observations[[5, 70_000]].tolist() == [1, 2]
    assert len(statistics.tables.rows) <= 16


@pytest.mark.parametrize(
    ("features", "reward", "error"),
    [
        ([1.0, 0, 0], 0.5, errors.OutcomeError),
        ([1.0, 0, 0], 2, errors.OutcomeError),
        ([1.0, 0, 0], np.nan, errors.OutcomeError),
        ([np.inf, 0, 0], 1, errors.ActionError),
        ([np.nan, 0, 0], 1, errors.ActionError),
        ([1.0, 0], 1, errors.ActionError),
    ],
)
def test_bad_observations_change_nothing(features: Any, reward: Any, error: Any) -> None:
    statistics = counted(*history(40))
    before = statistics.copy()
    with pytest.raises(error):
        statistics.observe([0], statistics.observations(features, reward))
    assert statistics == before


def test_bytes_and_files(tmp_path: Any) -> None:
    statistics = counted(*history(), decimals=3, max_rows=100)
    empty = LinearBernoulliStatistics.empty((N_FEATURES,), 0)
    assert empty.decode(statistics.encode()) == statistics
    assert empty.decode([b"", *statistics.encode([2])])[1] == statistics[2]
    with pytest.raises(errors.StatisticsError, match="another family, or damaged"):
        empty.decode([b"x" * 8])
    for name in ("tasks.json", "tasks.npz"):
        statistics.save(tmp_path / name)
        again = Statistics.load(tmp_path / name)
        assert again == statistics
        assert isinstance(again, LinearBernoulliStatistics)
        assert (again.decimals, again.max_rows) == (3, 100)
    assert pickle.loads(pickle.dumps(statistics)) == statistics


@pytest.mark.parametrize(
    "wrong",
    [
        {"size": [1]},
        {"rows": [[1.0], [np.nan]]},
        {"trials": [0, 1]},
        {"successes": [3, 0]},
        {"max_rows": 1},
        {"rows": [1.0, 2.0]},
    ],
)
def test_impossible_tables_are_refused(wrong: dict[str, Any]) -> None:
    arrays: dict[str, Any] = {
        "size": [2], "rows": [[1.0], [2.0]], "trials": [2, 1], "successes": [1, 1],
    }  # fmt: skip
    LinearBernoulliStatistics(**arrays)
    with pytest.raises(errors.StatisticsError):
        LinearBernoulliStatistics(**{**arrays, **wrong})


def test_many_distinct_rows_of_many_tasks() -> None:
    """Of many tasks; the limit is on the rows of one."""
    rng = np.random.default_rng(0)
    n, n_tasks = 200_000, 2_000
    statistics = LinearBernoulliStatistics.empty((4,), n_tasks)
    rows, tasks = rng.normal(size=(n, 4)), rng.integers(n_tasks, size=n)
    statistics.observe(tasks, statistics.observations(rows, rng.random(n) < 0.1))
    assert statistics.array("size").sum() == n
    with pytest.raises(errors.ObservationError, match="10,000"):
        statistics.observe(
            np.zeros(10_001, int), statistics.observations(rows[:10_001], rows[:10_001, 0] > 0)
        )
