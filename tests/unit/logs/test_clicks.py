"""Logs of clicks with features: when the family is logistic, and when its tables are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mixts.errors import LogsError, ParameterError
from mixts.families import LinearBernoulliStatistics, LinearStatistics
from mixts.logs import read_logs
from mixts.logs.again import read_before
from tests.unit.logs.sample_logs import write

COLUMNS: dict[str, Any] = {"task": "user", "features": ["price", "size"], "reward": "clicked"}
N = 400
RNG = np.random.default_rng(8)
PRICE = RNG.integers(0, 4, N) / 4
SIZE = RNG.integers(0, 3, N)
CLICKS = (RNG.random(N) < 0.3).astype(float)


def lines(rewards: Any, price: Any = PRICE) -> list[str]:
    rows = zip(price, SIZE, rewards, strict=True)
    return [f"u{i % 9},{float(p)!r},{s},{float(r):g},{i}\n" for i, (p, s, r) in enumerate(rows)]


HEADER = "user,price,size,clicked,when\n"


def text(rewards: Any, price: Any = PRICE) -> str:
    return HEADER + "".join(lines(rewards, price))


def expected(rewards: Any, price: Any = PRICE, n: int = N) -> LinearBernoulliStatistics:
    statistics = LinearBernoulliStatistics.empty((2,), 9)
    rows = np.stack([price, SIZE], axis=1)[:n]
    observed = statistics.observations(rows, np.asarray(rewards)[:n])
    statistics.observe(np.arange(n) % 9, observed)
    return statistics


def test_clicks_with_features_are_logistic(tmp_path: Path) -> None:
    logs = read_logs(write(tmp_path / "t.csv", text(CLICKS)), **COLUMNS)
    assert (logs.family, logs.why) == ("logistic", "every reward is 0 or 1")
    assert logs.statistics == expected(CLICKS)
    assert logs.features == ("price", "size")
    assert logs.arms is None
    asked = read_logs(tmp_path / "t.csv", **COLUMNS, family="logistic")
    assert asked.statistics == logs.statistics
    assert asked.why == "it was asked for"


@pytest.mark.parametrize("batch_rows", [1, 50])
def test_batches_and_files_give_the_same_tables(tmp_path: Path, batch_rows: int) -> None:
    found = read_logs(write(tmp_path / "t.csv", text(CLICKS)), **COLUMNS, batch_rows=batch_rows)
    assert found.statistics == expected(CLICKS)
    rows = lines(CLICKS)
    for name, part in (("a", rows[:30]), ("b", rows[30:35]), ("c", rows[35:])):
        write(tmp_path / f"{name}.csv", HEADER + "".join(part))
    files = [tmp_path / f"{name}.csv" for name in "cab"]
    assert read_logs(files, **COLUMNS, batch_rows=batch_rows).statistics == expected(CLICKS)


def test_rows_before_a_time_are_counted_in_tables(tmp_path: Path) -> None:
    logs = read_logs(write(tmp_path / "t.csv", text(CLICKS)), **COLUMNS, time="when")
    tasks, statistics = read_before(logs, 100.0)
    assert len(tasks) == 9
    assert statistics == expected(CLICKS, n=100)


def close(found: Any, wanted: LinearStatistics) -> bool:
    return (
        isinstance(found, LinearStatistics)
        and np.array_equal(found.array("count"), wanted.array("count"))
        and np.allclose(found.gram, wanted.gram, atol=1e-9)
        and np.allclose(found.moment, wanted.moment, atol=1e-9)
        and np.allclose(np.abs(found.array("factor")[:, -1, -1]),
                        np.abs(wanted.array("factor")[:, -1, -1]), atol=1e-9)
    )  # fmt: skip


@pytest.mark.parametrize("place", [0, 200, N - 1])
def test_a_reward_other_than_a_click_makes_it_linear(tmp_path: Path, place: int) -> None:
    rewards = CLICKS.copy()
    rewards[place] = 0.5
    path = write(tmp_path / "t.csv", text(rewards))
    linear = read_logs(path, **COLUMNS, family="linear").statistics
    assert isinstance(linear, LinearStatistics)
    rows = lines(rewards)
    write(tmp_path / "a.csv", HEADER + "".join(rows[:100]))
    write(tmp_path / "b.csv", HEADER + "".join(rows[100:]))
    for files in (path, [tmp_path / "a.csv", tmp_path / "b.csv"]):
        for batch_rows in (37, 10_000):
            logs = read_logs(files, **COLUMNS, batch_rows=batch_rows)
            assert logs.family == "linear"
            assert logs.why.startswith(f"1 of {N} rewards are neither 0 nor 1")
            assert close(logs.statistics, linear)


def test_a_family_can_be_asked_for(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", text(CLICKS))
    logs = read_logs(path, **COLUMNS, family="linear")
    assert logs.family == "linear"
    assert close(logs.statistics, expected(CLICKS).to_linear())
    rewards = np.where(np.arange(N) < 20, 2.0, CLICKS)
    logs = read_logs(write(tmp_path / "u.csv", text(rewards)), **COLUMNS, family="logistic")
    assert logs.family == "logistic"
    assert logs.bad_rows.counts == {"reward is not 0 or 1": 20}
    arm = {"task": "user", "arm": "size", "reward": "clicked"}
    with pytest.raises(ParameterError, match="family 'logistic' needs features"):
        read_logs(path, **arm, family="logistic")
    with pytest.raises(ParameterError, match="family 'bernoulli' needs an arm"):
        read_logs(path, **COLUMNS, family="bernoulli")


def test_features_are_rounded_if_asked(tmp_path: Path) -> None:
    price = RNG.random(N)
    path = write(tmp_path / "t.csv", text(CLICKS, price))
    logs = read_logs(path, **COLUMNS, decimals=1)
    found = logs.statistics
    assert isinstance(found, LinearBernoulliStatistics)
    assert found.decimals == 1
    wanted = expected(CLICKS, np.round(price, 1))
    for name in ("size", "rows", "trials", "successes"):
        np.testing.assert_array_equal(found.array(name), wanted.array(name))
    assert found.array("size").max() <= 33 < read_logs(path, **COLUMNS).statistics.size.max()
    with pytest.raises(ParameterError, match="decimals must be"):
        read_logs(path, **COLUMNS, decimals=-1)
    with pytest.raises(ParameterError, match="decimals is for features"):
        read_logs(path, task="user", arm="size", reward="clicked", decimals=0)


MANY = 10_001
"""Distinct rows, one more than a task may have."""


def many(last: str) -> str:
    rows = "".join(f"one,{i},{i % 2}\n" for i in range(MANY))
    return f"user,x,clicked\n{rows}two,0,{last}\n"


def test_a_task_with_too_many_distinct_rows_is_refused(tmp_path: Path) -> None:
    columns: dict[str, Any] = {"task": "user", "features": ["x"], "reward": "clicked"}
    path = write(tmp_path / "t.csv", many("1"))
    said = "10,000 distinct rows of features, got 10,001.*--round-features.*--family linear"
    for family in ("auto", "logistic"):
        with pytest.raises(LogsError, match=said):
            read_logs(path, **columns, family=family)
    assert read_logs(path, **columns, family="linear").n_rows == MANY + 1
    # The tables are dropped, not the rows: a later reward shows that the family is linear.
    linear = read_logs(write(tmp_path / "u.csv", many("7.5")), **columns, batch_rows=1 << 20)
    late = read_logs(tmp_path / "u.csv", **columns, batch_rows=3000)
    for logs in (linear, late):
        assert logs.family == "linear"
        assert np.array_equal(logs.statistics.n_observations, [MANY, 1])


@pytest.mark.parametrize("batch_rows", [20, 10_000])
def test_tables_beyond_memory_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch_rows: int
) -> None:
    rows = lines(CLICKS)
    write(tmp_path / "a.csv", HEADER + "".join(rows[:200]))
    write(tmp_path / "b.csv", HEADER + "".join(rows[200:]))
    files = [tmp_path / "a.csv", tmp_path / "b.csv"]
    monkeypatch.setattr("mixts.logs.tally.MOST_NUMBERS", 4 * 4 * 60)
    with pytest.raises(LogsError, match=r"more than fit into memory.*--round-features"):
        read_logs(files, **COLUMNS, batch_rows=batch_rows)
    assert read_logs(files, **COLUMNS, family="linear").family == "linear"
