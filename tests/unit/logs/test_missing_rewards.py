"""Rows without a reward: bad rows, or rows that count as ``missing_reward``."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.csv
import pyarrow.parquet
import pytest

from mixts import errors
from mixts.engines import engine_of
from mixts.logs import files, read_logs, read_rows
from tests.unit.logs import sample_logs
from tests.unit.logs.sample_logs import ARMS, LINEAR, N, write

EMPTY = slice(None, None, 3)
"""Rows without a reward."""


def tables(column: str) -> tuple[pyarrow.Table, pyarrow.Table]:
    """Return logs in which every third reward is missing, and the same logs with 0 instead."""
    table = sample_logs.table()
    values = np.asarray(table[column].to_numpy(), float)
    missing = np.zeros(N, bool)
    missing[EMPTY] = True
    index = table.schema.get_field_index(column)
    holes = pyarrow.array([None if m else v for v, m in zip(values, missing, strict=True)])
    filled = pyarrow.array(np.where(missing, 0.0, values))
    return table.set_column(index, column, holes), table.set_column(index, column, filled)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize(
    "columns",
    [
        ARMS,
        {**ARMS, "reward": "spent"},
        {**ARMS, "reward": "visits", "family": "poisson"},
        {**LINEAR, "intercept": True},
    ],
)
def test_they_count_as_the_reward_that_is_given(
    columns: dict[str, Any], kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The statistics are those of logs that contain the reward, however they are divided."""
    for name, table in zip(("holes", "filled"), tables(columns["reward"]), strict=True):
        if kind == "csv":
            pyarrow.csv.write_csv(table, tmp_path / f"{name}.csv")
        else:
            pyarrow.parquet.write_table(table, tmp_path / f"{name}.parquet", row_group_size=100)
    path = tmp_path / f"holes.{kind}"
    logs = read_logs(path, **columns, missing_reward=0)
    expected = read_logs(tmp_path / f"filled.{kind}", **columns)
    assert logs.statistics == expected.statistics
    assert (logs.n_missing, logs.bad_rows.total, expected.n_missing) == (200, 0, 0)
    assert logs.missing == "200 rows had no reward and count as 0 (--missing-reward)"
    assert expected.missing == ""
    rows, theirs = read_rows(logs, [0, 3]), read_rows(expected, [0, 3])
    assert np.array_equal(rows.rewards, theirs.rewards)
    monkeypatch.setattr(files, "PIECE_BYTES", 3000)
    monkeypatch.setattr(files, "_SCAN_BYTES", 1000)
    monkeypatch.setattr(files, "PIECE_ROWS", 150)
    assert len(files.pieces_of(str(path), ",")) > 3
    here = read_logs(path, **columns, missing_reward=0)
    with ThreadPoolExecutor(3) as pool:
        there = read_logs(path, **columns, missing_reward=0, engine=pool)
    made = read_logs(path, **columns, missing_reward=0, engine=lambda: engine_of(1))
    assert there.statistics == made.statistics == here.statistics
    assert there.n_missing == made.n_missing == here.n_missing == 200


@pytest.mark.parametrize(
    "rewards",
    [
        pyarrow.array([1.0, None, math.nan, 0.0]),
        pyarrow.array(["1", None, " NaN", "0"]),
        pyarrow.array(["1", "", " ", "0"]).dictionary_encode(),
        pyarrow.array([1, None, None, 0], pyarrow.int8()),
        pyarrow.array([True, None, None, False]),
    ],
)
def test_null_nan_and_empty_text_are_missing(rewards: pyarrow.Array, tmp_path: Path) -> None:
    rows = {"user": ["u"] * 4, "item": list("aabb"), "clicked": rewards}
    pyarrow.parquet.write_table(pyarrow.table(rows), tmp_path / "t.parquet")
    bad = read_logs(tmp_path / "t.parquet", **ARMS)
    assert dict(bad.bad_rows.counts) == {"no reward": 2}
    logs = read_logs(tmp_path / "t.parquet", **ARMS, missing_reward=0)
    assert logs.bad_rows.total == 0
    assert logs.statistics.array("successes").tolist() == [[1, 0]]
    assert logs.statistics.array("failures").tolist() == [[1, 2]]


def test_other_bad_rows_stay_bad(tmp_path: Path) -> None:
    text = "user,item,clicked\nu,a,1\n,a,\nu,,\nu,a,maybe\nu,a,\nu,b,0\nu,b,inf\nu,b,0\n"
    logs = read_logs(write(tmp_path / "t.csv", text), **ARMS, missing_reward=1)
    assert dict(logs.bad_rows.counts) == {
        "no task": 1, "no arm": 1, "reward is not a number": 1, "reward is not finite": 1,
    }  # fmt: skip
    assert logs.missing == "1 row had no reward and counts as 1 (--missing-reward)"
    assert logs.reward_range == (0, 1)


@pytest.mark.parametrize("engine", [None, ThreadPoolExecutor])
def test_the_range_is_that_of_rewards_in_the_files(
    engine: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "PIECE_BYTES", 3000)
    monkeypatch.setattr(files, "_SCAN_BYTES", 1000)
    holes, _ = tables("spent")
    pyarrow.csv.write_csv(holes, tmp_path / "t.csv")
    columns = {**ARMS, "reward": "spent"}
    given = holes["spent"].drop_null().to_numpy()
    logs = read_logs(tmp_path / "t.csv", **columns, missing_reward=0, engine=engine and engine(2))
    np.testing.assert_allclose(logs.reward_range, (given.min(), given.max()), rtol=1e-15)


CLICKS = "u,a,1\n" + "u,a,\n" * 9 + "v,b,1\n"
BOUGHT = CLICKS.replace("v,b,1", "v,b,2.5")


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (CLICKS, ["9 rows have no reward", "present is 1", "--missing-reward 0"]),
        (BOUGHT, ["is positive (1 to 2.5)", "--missing-reward 0", "--allow-bad-rows"]),
    ],
)
def test_logs_of_clicks_alone_are_told_the_way_out(
    rows: str, words: list[str], tmp_path: Path
) -> None:
    path = write(tmp_path / "t.csv", "user,item,clicked\n" + rows)
    with pytest.raises(errors.LogsError) as refused:
        read_logs(path, **ARMS)
    for word in words:
        assert word in str(refused.value)
    assert "9: no reward; first t.csv row 2" in str(refused.value)
    assert read_logs(path, **ARMS, missing_reward=0).n_missing == 9


def test_other_logs_are_not(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", "user,item,clicked\n" + CLICKS + "u,a,0\n")
    with pytest.raises(errors.FormatError, match="9 of 12 rows are bad, which is more than half"):
        read_logs(path, **ARMS)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"missing_reward": math.nan}, "missing_reward must be a number"),
        ({"missing_reward": "0"}, "missing_reward must be a number"),
        ({"missing_reward": 0.5, "family": "bernoulli"}, "a reward of the family 'bernoulli'"),
        ({"missing_reward": -1, "family": "poisson"}, "a reward of the family 'poisson', got -1"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_it_must_be_a_reward(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", "user,item,clicked\n" + CLICKS)
    with pytest.raises(errors.ParameterError, match=message):
        read_logs(path, **ARMS, **options)
