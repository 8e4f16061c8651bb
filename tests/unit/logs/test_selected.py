"""Rows of some tasks, read again: the same however the files are divided."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow
import pytest

from mixts.errors import ParameterError
from mixts.logs import TaskRows, files, read_logs, read_rows
from tests.unit.logs import sample_logs
from tests.unit.logs.sample_logs import ARMS, LINEAR, write


@pytest.fixture(scope="module")
def table() -> pyarrow.Table:
    return sample_logs.table()


@pytest.fixture(scope="module")
def folder(table: pyarrow.Table, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("logs")
    sample_logs.write_files(table, folder)
    return folder


def equal(a: TaskRows, b: TaskRows) -> bool:
    names = ("tasks", "arms", "features", "rewards")
    return all(np.array_equal(getattr(a, name), getattr(b, name)) for name in names)


@pytest.mark.parametrize("name", ["all.csv", "all.parquet"])
def test_rows_of_arms(folder: Path, table: pyarrow.Table, name: str) -> None:
    logs = read_logs(folder / name, **ARMS)
    rows = read_rows(logs, [7, 2])
    users = [int(logs.tasks[7]), int(logs.tasks[2])]
    expected = [
        (users.index(row["user"]), row["item"], row["clicked"])
        for row in table.to_pylist()
        if row["user"] in users
    ]
    arms = [logs.arms[k] for k in rows.arms]
    assert list(zip(rows.tasks, arms, rows.rewards, strict=True)) == expected
    assert rows.features.shape == (len(expected), 0)
    # They are what the statistics counted.
    statistics = logs.statistics[np.array([7, 2])]
    counts = np.zeros((2, 4), int)
    np.add.at(counts, (rows.tasks, rows.arms), 1)
    np.testing.assert_array_equal(counts, statistics.pulls)


def test_rows_of_features(folder: Path, table: pyarrow.Table) -> None:
    logs = read_logs(folder / "parts", **LINEAR, intercept=True)
    rows = read_rows(logs, [3])
    everything = read_rows(logs, np.arange(12))
    np.testing.assert_array_equal(rows.features, everything.features[everything.tasks == 3])
    user = int(logs.tasks[3])
    expected = sorted(
        (r["age"], r["price"], r["spent"]) for r in table.to_pylist() if r["user"] == user
    )
    assert (rows.features[:, 0] == 1).all()
    found = sorted(zip(*rows.features[:, 1:].T, rows.rewards, strict=True))
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert rows.arms.shape == (0,)


def test_the_engine_changes_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch, processes: object
) -> None:
    whole = read_rows(read_logs(folder / "all.csv", **ARMS), [0, 5, 9])
    monkeypatch.setattr(files, "PIECE_BYTES", 2000)
    monkeypatch.setattr(files, "_SCAN_BYTES", 1000)
    logs = read_logs(folder / "all.csv", **ARMS, batch_rows=17)
    assert equal(read_rows(logs, [0, 5, 9]), whole)
    assert equal(read_rows(logs, [0, 5, 9], engine=processes), whole)


def test_bad_rows_and_delimiters_are_as_before(tmp_path: Path) -> None:
    text = "user;item;clicked\na;x;1\na;y;maybe\nb;x;0\na;;1\na;z;0\n"
    options = {"delimiter": ";", "arms": ["y", "x"], "allow_bad_rows": True}
    logs = read_logs(write(tmp_path / "logs.csv", text), **ARMS, **options)
    rows = read_rows(logs, [0])
    assert (rows.tasks.tolist(), rows.arms.tolist(), rows.rewards.tolist()) == ([0], [1], [1.0])
    assert len(read_rows(logs, np.arange(0)).rewards) == 0


@pytest.mark.parametrize("tasks", [[12], [-1], [1, 1], [[0]], [0.5]])
@pytest.mark.usefixtures("unchecked")
def test_tasks_must_be_known(folder: Path, tasks: list) -> None:
    logs = read_logs(folder / "all.csv", **ARMS)
    with pytest.raises(ParameterError, match="tasks must be"):
        read_rows(logs, tasks)
