"""One suite for all engines: statistics of a lazy table are those of the same rows in memory."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from mixts.errors import FormatError, LogsError, MixtsError, ParameterError
from mixts.logs import TaskLogs, read_logs, read_rows, review, task_blocks
from mixts.logs.again import read_before
from tests.contracts.lazy_engines import Hold, hold, lazy_postgres, spark

__all__ = ["hold", "lazy_postgres", "spark"]

pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

N = 3000
EPOCH = datetime(2024, 5, 1, 12)


def rows() -> pa.Table:
    """Rows of 60 users, with every kind of value that a row may lack."""
    rng = np.random.default_rng(8)
    user = rng.integers(60, size=N)
    items = np.array(["tea", "Tea", "item 10", "item 2"])
    clicks = rng.integers(2, size=N).astype(float)
    clicks[::41] = np.nan
    amounts = np.where(rng.random(N) < 0.7, 0.0, np.round(rng.lognormal(3, 1, N), 2))
    messy = rng.normal(5.0, 2.0, N)
    messy[::53], messy[1::53], messy[2::53], messy[3::53] = np.nan, np.inf, -np.inf, 1e80
    times = [EPOCH + timedelta(minutes=int(m)) for m in rng.permutation(N)]
    name = [None if i % 97 == 0 else "" if i % 97 == 1 else f"u{u}" for i, u in enumerate(user)]
    return pa.table(
        {
            "user": pa.array(name, pa.string()),
            "number": pa.array(np.where(np.arange(N) % 89, user - 7.5 * (user % 2), np.nan)),
            "whole": pa.array(user),
            "day": pa.array([(EPOCH + timedelta(days=int(u))).date() for u in user]),
            "moment": pa.array([EPOCH + timedelta(seconds=int(u)) for u in user]),
            "price_code": pa.array([Decimal(int(u)) / 4 for u in user], pa.decimal128(10, 2)),
            "item": pa.array(items[rng.integers(4, size=N)].tolist()),
            "click": pa.array([None if x != x else x for x in clicks], pa.float64()),
            "seen": pa.array([None if i % 31 == 0 else bool(x == 1) for i, x in enumerate(clicks)]),
            "said": pa.array([["0", "1", "true", " 1 ", "x", ""][i % 6] for i in range(N)]),
            "spent": pa.array(rng.normal(1000.0, 0.1, N)),
            "amount": pa.array(amounts),
            "cents": pa.array([Decimal(int(100 * x)) / 100 for x in amounts], pa.decimal128(10, 2)),
            "messy": pa.array(messy),
            "visits": pa.array(rng.poisson(3.0, N)),
            "age": pa.array(
                [None if i % 61 == 0 else float(x) for i, x in enumerate(rng.integers(5, size=N))]
            ),
            "price": pa.array(np.round(rng.normal(size=N), 1)),
            "city": pa.array([["x", "y", "z", None][k] for k in rng.integers(4, size=N)]),
            "at": pa.array(times, pa.timestamp("us")),
            "at_utc": pa.array([t.replace(tzinfo=UTC) for t in times], pa.timestamp("us", "UTC")),
            "clock": pa.array(rng.permutation(N).astype(float)),
        }
    )


ARMS: list[dict[str, Any]] = [
    {"reward": "click"},
    {"reward": "click", "missing_reward": 0},
    {"reward": "click", "missing_reward": 0.5},
    {"reward": "seen"},
    {"reward": "said"},
    {"reward": "spent", "time": "at"},
    {"reward": "spent", "time": "at_utc", "clip": (999.9, 1000.05)},
    {"reward": "amount", "time": "clock"},
    {"reward": "amount", "family": "gaussian", "clip": (1, 50)},
    {"reward": "amount", "family": "spend", "arms": ["tea", "item 2"]},
    {"reward": "cents"},
    {"reward": "messy"},
    {"reward": "messy", "family": "spend", "clip": (3.0, 9.0)},
    {"reward": "visits", "family": "poisson"},
    {"reward": "visits"},
    {"reward": "visits", "family": "bernoulli", "allow_bad_rows": True},
]
FEATURES: list[dict[str, Any]] = [
    {"features": ["age", "price"], "reward": "spent"},
    {"features": ["age", "city"], "reward": "click", "intercept": True},
    {"features": ["price"], "reward": "click", "decimals": 0},
    {"features": ["item", "age"], "reward": "messy"},
    {"features": ["age"], "reward": "click", "text": ["age"]},
    {"features": ["item"], "person": ["age", "city"], "reward": "click"},
    {"features": ["item"], "score": "price", "reward": "spent"},
]
BATCHES = {"whole": 1 << 17, "blocks": 24}
"""Some options make one block of all tasks, or a few."""


def described(options: dict[str, Any]) -> str:
    return "-".join(str(value) for value in options.values())


def assert_same(found: TaskLogs, expected: TaskLogs) -> None:
    """Counts agree to the bit, real numbers to 1e-12 of the size of the rewards."""
    for name in ("tasks", "arms", "features", "family", "n_rows", "n_missing"):
        assert getattr(found, name) == getattr(expected, name), name
    assert dict(found.bad_rows.counts) == dict(expected.bad_rows.counts)
    assert found.reward_range == expected.reward_range
    size = max(1.0, *map(abs, expected.reward_range))
    for name in expected.statistics.fields:
        ours, theirs = found.statistics.array(name), expected.statistics.array(name)
        if theirs.dtype == np.int64:
            np.testing.assert_array_equal(ours, theirs, name)
        else:
            np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12 * size, err_msg=name)
    assert_same_sample(found, expected)
    np.testing.assert_allclose(found.spans.low, expected.spans.low, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(found.spans.high, expected.spans.high, rtol=1e-12, atol=1e-14)
    np.testing.assert_array_equal(found.spans.varies, expected.spans.varies)
    if expected.times is not None and found.times is not None:
        np.testing.assert_array_equal(found.times.first, expected.times.first)
        np.testing.assert_array_equal(found.times.last, expected.times.last)


def assert_same_sample(found: TaskLogs, expected: TaskLogs) -> None:
    """Both samples have the same rows; an engine may give them in another order."""
    samples = []
    for sample in (found.sample, expected.sample):
        order = np.lexsort((sample.times, sample.rewards, sample.tasks))
        samples.append((sample.tasks[order], sample.rewards[order], sample.hashes[order]))
        choices = np.unique(np.stack([sample.tasks, sample.choices]), axis=1)
        samples[-1] += (choices[0],)  # how many different choices each task has
    for ours, theirs in zip(*samples, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert found.sample.limit == expected.sample.limit


@pytest.mark.parametrize("options", ARMS, ids=described)
def test_arms(hold: Hold, options: dict[str, Any]) -> None:
    table, columns = rows(), {"task": "user", "arm": "item", **options}
    assert_same(read_logs(hold(table), **columns), read_logs(table, **columns))


@pytest.mark.parametrize("options", FEATURES, ids=described)
def test_features(hold: Hold, options: dict[str, Any]) -> None:
    table, columns = rows(), {"task": "user", **options}
    assert_same(read_logs(hold(table), **columns, batch_rows=80), read_logs(table, **columns))


@pytest.mark.parametrize("task", ["number", "whole", "day", "moment", "price_code", "seen"])
def test_names_of_tasks(hold: Hold, task: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks have the same names, and the same ones are sampled."""
    table, columns = rows(), {"task": task, "arm": "item", "reward": "amount"}
    monkeypatch.setattr("mixts.logs.pieces.MOST_ROWS", 500)
    monkeypatch.setattr("mixts.logs.groups.MOST_ROWS", 500)
    lazy = hold(table)
    if hasattr(lazy, "toArrow"):  # times of Spark have a time zone, and names that say so
        table = lazy.toArrow()
    expected = read_logs(table, **columns)
    for batch in BATCHES.values():
        assert_same(read_logs(lazy, **columns, batch_rows=batch), expected)
    some = [1, 0]
    ours, theirs = (read_rows(logs, some) for logs in (read_logs(lazy, **columns), expected))
    for k in (0, 1):
        np.testing.assert_array_equal(
            np.sort(ours.rewards[ours.tasks == k]), np.sort(theirs.rewards[theirs.tasks == k])
        )


@pytest.mark.parametrize("time", ["at", "at_utc", "clock", "day"])
def test_rows_before_a_time(hold: Hold, time: str) -> None:
    table, columns = rows(), {"task": "whole", "arm": "item", "reward": "amount", "time": time}
    ours, theirs = read_logs(hold(table), **columns), read_logs(table, **columns)
    assert theirs.times is not None
    boundary = float(np.sort(theirs.times.last)[20])
    found, expected = (read_before(logs, boundary) for logs in (ours, theirs))
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_array_equal(found[1].pulls, expected[1].pulls)


@pytest.mark.parametrize("options", [*ARMS[:1], ARMS[7], ARMS[13], FEATURES[1]], ids=described)
def test_blocks_of_tasks(hold: Hold, options: dict[str, Any]) -> None:
    """Blocks have one family and the same arms, and together all tasks."""
    arm = {} if "features" in options else {"arm": "item"}
    table, columns = rows(), {"task": "user", **arm, **options}
    whole = read_logs(table, **columns)
    found = task_blocks(hold(table), **columns, batch_rows=10)
    assert (found.schema.family, found.schema.arms) == (whole.family, whole.arms)
    blocks = list(found)
    assert len(blocks) > 1 or found.log.engine == "Dask"
    assert found.counts.bad.counts == whole.bad_rows.counts
    place = {name: i for i, name in enumerate(whole.tasks)}
    seen: list[str] = []
    for block in blocks:
        expected = whole.statistics[np.array([place[name] for name in block.tasks])]
        for name in expected.fields:
            np.testing.assert_allclose(block.statistics.array(name), expected.array(name), 1e-12)
        seen += block.tasks
    assert sorted(seen) == sorted(whole.tasks)


@pytest.mark.parametrize("fault", ["sorted", "copies", "constant", "drift"])
def test_faults_of_logs(hold: Hold, fault: str) -> None:
    """The same warnings, or the same refusal, as for rows in memory."""
    rng = np.random.default_rng(2)
    user, item = np.repeat(np.arange(80), 20), np.tile(["a", "b"], 800)
    reward = rng.normal(size=1600)
    if fault == "sorted":
        reward = np.sort(reward.reshape(80, 20), axis=1).ravel()
    if fault == "constant":
        reward[:] = 1.0
    time = np.tile(np.arange(20.0), 80)
    if fault == "drift":
        reward += time
    table = pa.table({"user": user, "item": item, "reward": reward, "at": time})
    if fault == "copies":
        table = pa.concat_tables([table, table])
    columns = {"task": "user", "arm": "item", "reward": "reward", "time": "at"}

    def found(logs: Any) -> Any:
        try:
            return {warning.code: str(warning) for warning in review(read_logs(logs, **columns))}
        except LogsError as error:
            return str(error)

    expected = found(table)
    assert expected
    assert found(hold(table)) == expected


def test_an_engine_that_fails_is_named(hold: Hold) -> None:
    lazy = hold(rows())
    with pytest.raises(ParameterError, match="has no column 'users'; it has: user, number"):
        read_logs(lazy, task="users", arm="item", reward="click")
    with pytest.raises(ParameterError, match="must have numbers or dates, got String: CAST"):
        read_logs(lazy, task="user", arm="item", reward="click", time="said")
    with pytest.raises(ParameterError, match="column of the reward must have numbers, got Date"):
        read_logs(lazy, task="user", arm="item", reward="day")
    empty = hold(rows().slice(0, 0))
    with pytest.raises(FormatError, match="no rows below the names of the columns in the table"):
        read_logs(empty, task="user", arm="item", reward="click")
    assert issubclass(FormatError, MixtsError)
