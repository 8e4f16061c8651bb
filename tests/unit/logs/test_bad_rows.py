"""Logs with bad rows, and logs and requests that are refused."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

import mixts
from mixts import errors
from mixts.logs import files, read_logs
from tests.unit.logs import sample_logs
from tests.unit.logs.sample_logs import ARMS, LINEAR, write


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("logs")
    sample_logs.write_files(sample_logs.table(), folder)
    return folder


# -- bad rows ---------------------------------------------------------------------------------

BAD = """user,item,clicked
u1,a,1
,a,1
u1,,1
u1,a,
u1,a,maybe
u1,a
u1,a,nan
u1,a,1,9

u1,a,0
u1,a,2
u1,a, 1
u1,a,TRUE
u1,a,-inf
u2,b,1e0
u2,b,0
u2,b,0.0
u2,b,+1
u2,b,0
u2,b,1.
u2,b,0
u2,
"""
REASONS = {
    "no task": (1, [(2, "")]),
    "no arm": (1, [(3, "")]),
    "no reward": (2, [(4, ""), (7, "")]),
    "reward is not a number": (1, [(5, "maybe")]),
    "a line with another number of columns": (
        3,
        [(6, "2 instead of 3: u1,a"), (8, "4 instead of 3: u1,a,1,9"), (21, "2 instead of 3: u2,")],
    ),
    "reward is not finite": (1, [(13, "-inf")]),
    "reward is not 0 or 1": (1, [(10, "2")]),
}  # fmt: skip


@pytest.mark.parametrize("batch_rows", [1, 1 << 17])
@pytest.mark.parametrize("piece_bytes", [40, 1 << 20])
def test_every_bad_row_is_counted_for_its_reason(
    tmp_path: Path, batch_rows: int, piece_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "PIECE_BYTES", piece_bytes)
    monkeypatch.setattr(files, "_SCAN_BYTES", 30)
    path = write(tmp_path / "bad.csv", BAD)
    logs = read_logs(path, **ARMS, family="bernoulli", batch_rows=batch_rows)
    assert logs.n_rows == 21
    found = {
        reason: (logs.bad_rows.counts[reason], [(e.row, e.value) for e in examples])
        for reason, examples in logs.bad_rows.examples.items()
    }
    assert found == REASONS
    assert logs.statistics.array("successes").tolist() == [[3, 0], [0, 3]]
    assert logs.statistics.array("failures").tolist() == [[1, 0], [0, 4]]
    lines = logs.bad_rows.lines()
    assert lines[0].startswith(
        "3: a line with another number of columns; first bad.csv row 6 (2 in"
    )
    assert "1: reward is not a number; bad.csv row 5 (maybe)" in lines


def test_bad_rows_of_linear_tasks(tmp_path: Path) -> None:
    rows = pyarrow.table(
        {
            "user": ["u"] * 6,
            "age": [1.0, None, math.inf, 1.0, 1.0, 2.0],
            "price": ["1", "2", "3", "cheap", "1e80", "4"],
            "spent": [True, False, True, True, True, False],
        }
    )
    pyarrow.parquet.write_table(rows, tmp_path / "t.parquet")
    numbers: Any = {**LINEAR, "features": mixts.Features(["age", "price"])}
    with pytest.raises(errors.FormatError) as refused:
        read_logs(tmp_path / "t.parquet", **numbers)
    assert "4 of 6 rows are bad, which is more than half" in str(refused.value)
    assert "feature 'price' is not a number; t.parquet row 4 (cheap)" in str(refused.value)
    logs = read_logs(tmp_path / "t.parquet", **numbers, allow_bad_rows=True)
    assert set(logs.bad_rows.counts) == {
        "no feature 'age'", "feature 'age' is not finite", "feature 'price' is not a number",
        "features and reward beyond 1e+75",
    }  # fmt: skip
    assert logs.statistics.n_observations.tolist() == [2]


def test_rows_of_other_arms_are_left_out_as_asked_for(tmp_path: Path) -> None:
    """They are no sign of a wrong column, however many they are; other bad rows are."""
    text = "user,item,clicked\n" + "u,other,1\n" * 8 + "u,a,1\nu,a,0\n"
    logs = read_logs(write(tmp_path / "t.csv", text), **ARMS, arms=["a"])
    assert logs.bad_rows.counts == {"an arm that is not listed": 8}
    more = write(tmp_path / "t.csv", text + "u,a,x\n" * 3)
    with pytest.raises(errors.FormatError, match="add --allow-bad-rows"):
        read_logs(more, **ARMS, arms=["a"])


def test_rows_without_any_good_one_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", "user,item,clicked\nu,a,x\n")
    with pytest.raises(errors.FormatError, match=r"none of 1 rows .*\n  1: reward is not a number"):
        read_logs(path, **ARMS, allow_bad_rows=True)
    with pytest.raises(errors.FormatError, match="no rows below the names"):
        read_logs(write(tmp_path / "t.csv", "user,item,clicked\n"), **ARMS)


def test_values_with_line_ends_and_quotes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "PIECE_BYTES", 30)
    monkeypatch.setattr(files, "_SCAN_BYTES", 20)
    text = '"user","item","clicked"\n' + '"a\nb","say ""x"", y",1\n' * 20
    path = write(tmp_path / "t.csv", text)
    assert len(files.pieces_of(str(path), ",")) == 1
    logs = read_logs(path, **ARMS, batch_rows=1)
    assert (logs.tasks, logs.arms, logs.bad_rows.total) == (("a\nb",), ('say "x", y',), 0)
    assert logs.statistics.array("successes").tolist() == [[20]]
    # Quotes alone are no reason to read a file in one piece.
    assert len(files.pieces_of(str(write(path, text.replace("a\nb", "ab"))), ",")) > 5


def test_other_delimiters(tmp_path: Path) -> None:
    rows = "user;item;clicked\nu;a;1\n"
    assert read_logs(write(tmp_path / "t.csv", rows), **ARMS, delimiter=";").n_rows == 1
    assert read_logs(write(tmp_path / "t.tsv", rows.replace(";", "\t")), **ARMS).n_rows == 1
    with pytest.raises(errors.ParameterError, match=r"separated by ';': add --delimiter ';'"):
        read_logs(tmp_path / "t.csv", **ARMS)
    tabs = write(tmp_path / "tabs.csv", rows.replace(";", "\t"))
    assert read_logs(tabs, **ARMS, delimiter=r"\t").n_rows == 1
    with pytest.raises(errors.ParameterError, match=re.escape(r"add --delimiter '\t'")):
        read_logs(tabs, **ARMS)


# -- refusals ---------------------------------------------------------------------------------


def _file(content: bytes) -> Callable[[Path], dict[str, Any]]:
    def made(folder: Path) -> dict[str, Any]:
        (folder / "t.csv").write_bytes(content)
        return {**ARMS, "paths": folder / "t.csv"}

    return made


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (_file(b"user,thing,clicked\n"), r"no column 'item'; it has: user, thing, clicked"),
        (_file(b"user,item,item,clicked\n"), "2 columns 'item': rename"),
        (_file(b"user,itm,clicked\n"), r"no column 'item'; .*; did you mean 'itm'\?"),
        (_file(b"user, Item,clicked\n"), r"no column 'item'; .*; did you mean ' Item'\?"),
        (_file(b"u1,a,1\nu2,b,0\n"), "the first line must hold the names of the columns"),
        (_file(b""), "t.csv is empty"),
        (_file(b"user,item,clicked\n"), r"no rows below the names of the columns in .*t\.csv"),
        (_file(b"user,item,clicked\n\xff,a,1\n"), "UTF-8"),
        (_file(b"\xff\xfe\x00"), "neither Parquet nor CSV in UTF-8"),
        (_file(b"PAR1 and nothing else"), "not a Parquet file, or is damaged"),
        (lambda folder: {**ARMS, "paths": folder / "none.csv"}, "there is no file .*none.csv"),
        (lambda folder: {**ARMS, "paths": folder}, "has no files .parquet, .csv"),
        (lambda folder: {**ARMS, "paths": []}, "at least one file"),
    ],
)
def test_files_that_cannot_be_read(
    make: Callable[[Path], dict[str, Any]], message: str, tmp_path: Path
) -> None:
    with pytest.raises(errors.MixtsError, match=message):
        read_logs(**make(tmp_path))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"features": ["age"]}, "either arm, .* or features"),
        ({"arm": None}, "either arm, .* or features"),
        ({"arm": None, "features": []}, "at least one"),
        ({"arm": None, "features": ["age", "age"]}, "different columns"),
        ({"arm": None, "features": ["age"], "family": "poisson"}, "'poisson' needs an arm"),
        ({"arm": None, "features": ["age"], "arms": ["a"]}, "leave it out with features"),
        ({"arm": None, "features": ["intercept"], "intercept": True}, "different columns"),
        ({"family": "linear"}, "'linear' needs features"),
        ({"intercept": True}, "leave it out with arms"),
        ({"arms": ["a", "a"]}, "distinct"),
        ({"arms": []}, "at least one arm"),
        ({"delimiter": ",,"}, "one character"),
        ({"batch_rows": 0}, "batch_rows"),
        ({"arm": "clicked", "reward": "item"}, "none of 600 rows can be used"),
    ],
)
def test_requests_that_make_no_sense(folder: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(errors.MixtsError, match=message):
        read_logs(folder / "all.csv", **{**ARMS, **options})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({**ARMS, "before": 3.0}, "unexpected keyword argument 'before'"),
        ({**ARMS, "renamed": {}}, "unexpected keyword argument 'renamed'"),
        ({**ARMS, "arms_may_lack_rows": True}, "unexpected keyword argument 'arms_may_lack_rows'"),
        ({"task": "user", "arm": "item"}, "missing a required .*'reward'"),
    ],
)
def test_the_options_are_those_of_the_schema(
    folder: Path, options: dict[str, Any], message: str
) -> None:
    """The function that was called is named, not the record of its options."""
    with pytest.raises(TypeError, match=rf"^read_logs\(\) .*{message}"):
        read_logs(folder / "all.csv", **options)


@pytest.mark.parametrize(
    ("options", "roles"),
    [
        ({"arm": "user"}, "'user' is both the task (--task) and the arm (--arm)"),
        ({"reward": "user"}, "'user' is both the task (--task) and the reward (--reward)"),
        ({"reward": "item"}, "'item' is both the arm (--arm) and the reward (--reward)"),
        ({"time": "user"}, "'user' is both the task (--task) and the time (--time)"),
        ({"time": "clicked"}, "'clicked' is both the reward (--reward) and the time (--time)"),
        ({"arm": None, "features": ["age", "user"]}, "the task (--task) and a feature (--features"),
        (
            {"arm": None, "features": mixts.Features(["age", "clicked"])},
            "the reward (--reward) and a feature (--features)",
        ),
    ],
)
def test_a_column_has_one_role(folder: Path, options: dict[str, Any], roles: str) -> None:
    with pytest.raises(errors.ParameterError, match=re.escape(roles)) as refused:
        read_logs(folder / "all.csv", **{**ARMS, **options})
    assert "name another column for one of them" in str(refused.value)


@pytest.mark.parametrize("column", ["user", "clicked"])
def test_columns_of_lists_are_refused(column: str, tmp_path: Path) -> None:
    values: dict[str, Any] = {"user": ["u"], "item": ["a"], "clicked": [1]}
    pyarrow.parquet.write_table(pyarrow.table({**values, column: [[1]]}), tmp_path / "t.parquet")
    with pytest.raises(errors.ParameterError, match=r"must have .*numbers.*, got list"):
        read_logs(tmp_path / "t.parquet", **ARMS)


def test_pyarrow_is_asked_for(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow.csv", None)
    with pytest.raises(errors.MissingExtraError, match=r"mixts\[logs\]"):
        read_logs(folder / "all.csv", **ARMS)
