"""Logs to statistics: exact counts, whoever reads which part of them in which order."""

from __future__ import annotations

import gzip
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.csv
import pyarrow.parquet
import pytest

import mixts
from mixts.engines import local_engine
from mixts.logs import TaskLogs, pieces, read_logs, tally

ARMS = {"task": "user", "arm": "item", "reward": "clicked"}
LINEAR = {"task": "user", "features": ["age", "price"], "reward": "spent"}
N = 600


@pytest.fixture(scope="module")
def table() -> pyarrow.Table:
    """Rows of users 1 to 12 in random order, rewards of several kinds."""
    rng = np.random.default_rng(1)
    return pyarrow.table(
        {
            "user": rng.integers(1, 13, N),
            "item": rng.choice(["shoes", "books", "item 2", "item 10"], N),
            "clicked": rng.integers(0, 2, N),
            "age": rng.standard_normal(N),
            "price": 1 + rng.random(N),
            "spent": 1000 + 0.001 * rng.standard_normal(N),
            "visits": rng.poisson(3.0, N),
        }
    )


@pytest.fixture(scope="module")
def folder(table: pyarrow.Table, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The table as one CSV, one Parquet file of several row groups, and parts in a folder."""
    folder = tmp_path_factory.mktemp("logs")
    pyarrow.csv.write_csv(table, folder / "all.csv")
    pyarrow.parquet.write_table(table, folder / "all.parquet", row_group_size=100)
    (folder / "parts").mkdir()
    pyarrow.csv.write_csv(table.slice(0, 150), folder / "parts" / "b.csv")
    pyarrow.parquet.write_table(table.slice(150, 300), folder / "parts" / "a.parquet")
    # Another order of columns, another type of id, compressed.
    rest = table.slice(450).select(["clicked", "visits", "spent", "price", "age", "item", "user"])
    rest = rest.set_column(6, "user", rest["user"].cast(pyarrow.string()))
    pyarrow.csv.write_csv(rest, folder / "rest.csv")
    (folder / "parts" / "c.csv.gz").write_bytes(
        gzip.compress((folder / "rest.csv").read_bytes(), mtime=0)
    )
    return folder


def cells(table: pyarrow.Table, column: str) -> dict[tuple[int, str], list[Any]]:
    """The rewards of every user and item, by plain Python."""
    found: dict[tuple[int, str], list[Any]] = {}
    for row in table.to_pylist():
        found.setdefault((row["user"], row["item"]), []).append(row[column])
    return found


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


# -- what is counted --------------------------------------------------------------------------


def test_clicks_are_counted(folder: Path, table: pyarrow.Table) -> None:
    logs = read_logs(folder / "all.csv", **ARMS)
    assert logs.family == "bernoulli"
    assert logs.why == "every reward is 0 or 1"
    assert logs.tasks == tuple(str(user) for user in range(1, 13))
    assert logs.arms == ("books", "item 2", "item 10", "shoes")
    assert logs.features is None
    assert (logs.n_rows, logs.bad_rows.total, str(logs.bad_rows)) == (N, 0, "none")
    assert isinstance(logs.statistics, mixts.BernoulliStatistics)
    for (user, item), rewards in cells(table, "clicked").items():
        where = logs.tasks.index(str(user)), logs.arms.index(item)
        assert logs.statistics.successes[where] == sum(rewards)
        assert logs.statistics.failures[where] == len(rewards) - sum(rewards)


def test_amounts_keep_their_digits(folder: Path, table: pyarrow.Table) -> None:
    logs = read_logs(folder / "all.parquet", task="user", arm="item", reward="spent")
    assert logs.family == "gaussian"
    assert logs.arms is not None
    assert logs.why.startswith(f"{N} of {N} rewards are neither 0 nor 1, the first in all.parquet")
    assert isinstance(logs.statistics, mixts.GaussianStatistics)
    for (user, item), rewards in cells(table, "spent").items():
        where = logs.tasks.index(str(user)), logs.arms.index(item)
        exact = [Fraction(y) for y in rewards]
        mean = sum(exact) / len(exact)
        squares = float(sum((y - mean) ** 2 for y in exact))
        n = len(exact)
        assert logs.statistics.count[where] == n
        # Every step of an average rounds numbers near 1000 once, and every squared deviation is off
        # by the rounding of the average it was taken from.
        assert abs(logs.statistics.average[where] - mean) <= n * math.ulp(1000.0)
        rounding = 2 * n * math.ulp(1000.0) * math.sqrt(n * squares)
        assert abs(logs.statistics.squares[where] - squares) <= rounding
        assert rounding < 1e-8 * max(squares, 1e-6)


def test_counts_of_events(folder: Path, table: pyarrow.Table) -> None:
    logs = read_logs(folder / "all.csv", task="user", arm="item", reward="visits", family="poisson")
    assert logs.why == "it was asked for"
    assert isinstance(logs.statistics, mixts.PoissonStatistics)
    assert logs.arms is not None
    for (user, item), rewards in cells(table, "visits").items():
        where = logs.tasks.index(str(user)), logs.arms.index(item)
        assert logs.statistics.total[where] == sum(rewards)
        expected = sum(math.lgamma(y + 1) for y in rewards)
        assert math.isclose(logs.statistics.log_factorials[where], expected, rel_tol=1e-13)


@pytest.mark.parametrize("intercept", [False, True])
def test_linear_tasks_have_the_triangle_of_their_rows(
    folder: Path, table: pyarrow.Table, intercept: bool
) -> None:
    logs = read_logs(folder / "all.csv", **LINEAR, intercept=intercept)
    assert logs.family == "linear"
    assert logs.arms is None
    assert logs.features == (("intercept", "age", "price") if intercept else ("age", "price"))
    assert isinstance(logs.statistics, mixts.LinearStatistics)
    user = np.asarray(table["user"])
    rows = np.stack([np.asarray(table[name]) for name in ("age", "price", "spent")], axis=1)
    if intercept:
        rows = np.concatenate([np.ones((N, 1)), rows], axis=1)
    for index, name in enumerate(logs.tasks):
        own = rows[user == int(name)]
        triangle = np.linalg.qr(own, mode="r")
        triangle *= np.where(np.diagonal(triangle) < 0, -1, 1)[:, None]
        assert logs.statistics.n_observations[index] == len(own)
        # Relative to the rewards' norm, in which the noise of 0.001 is the sixth digit.
        np.testing.assert_allclose(
            logs.statistics.factor[index], triangle, atol=1e-13 * np.linalg.norm(own)
        )


def test_they_are_what_live_tasks_have(folder: Path, table: pyarrow.Table) -> None:
    logs = read_logs(folder / "all.csv", **ARMS)
    assert logs.arms is not None
    prior = mixts.MixturePrior(mixts.BernoulliArms(np.ones((1, 4)), np.ones((1, 4))))
    belief = prior.belief(n_tasks=12)
    arms = [logs.arms.index(item) for item in table["item"].to_pylist()]
    belief.update(arms, np.asarray(table["clicked"]), tasks=np.asarray(table["user"]) - 1)
    assert logs.statistics == belief.statistics
    np.testing.assert_array_equal(
        prior.condition(logs.statistics).log_evidence, belief.log_evidence
    )


# -- whoever reads what -----------------------------------------------------------------------

SETTINGS: dict[str, dict[str, Any]] = {
    "bernoulli": ARMS,
    "gaussian": {**ARMS, "reward": "spent"},
    "poisson": {**ARMS, "reward": "visits", "family": "poisson"},
    "linear": LINEAR,
}


def agree(ours: TaskLogs, theirs: TaskLogs) -> None:
    assert ours.tasks == theirs.tasks
    assert ours.arms == theirs.arms
    assert (ours.family, ours.n_rows) == (theirs.family, theirs.n_rows)
    for name, dtype in ours.statistics.fields.items():
        first, second = ours.statistics.array(name), theirs.statistics.array(name)
        if dtype is not float:
            np.testing.assert_array_equal(first, second)
        else:
            # Squared deviations have the rounding of rewards near 1000 in them: see above.
            scale = 1e-12 * 1000 if name == "squares" else 1e-12 * np.abs(second).max()
            np.testing.assert_allclose(first, second, rtol=0, atol=scale)


@pytest.mark.parametrize("family", SETTINGS)
def test_the_order_of_files_and_the_size_of_batches_do_not_matter(
    folder: Path, family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = read_logs(folder / "all.csv", **SETTINGS[family])
    agree(read_logs(folder / "all.parquet", **SETTINGS[family], batch_rows=7), whole)
    agree(read_logs(folder / "all.csv", **SETTINGS[family], batch_rows=20), whole)
    names = ["c.csv.gz", "a.parquet", "b.csv"]
    agree(read_logs([folder / "parts" / name for name in names], **SETTINGS[family]), whole)
    agree(read_logs(folder / "parts", **SETTINGS[family]), whole)
    monkeypatch.setattr(pieces, "PIECE_BYTES", 3000)
    monkeypatch.setattr(pieces, "PIECE_ROWS", 250)
    monkeypatch.setattr(pieces, "_SCAN_BYTES", 1000)
    assert len(pieces.pieces_of(str(folder / "all.csv"), ",")) >= 5
    assert len(pieces.pieces_of(str(folder / "all.parquet"), ",")) == 3
    agree(read_logs(folder / "all.csv", **SETTINGS[family]), whole)
    agree(read_logs(str(folder / "all.p*"), **SETTINGS[family]), whole)


@pytest.mark.parametrize("family", ["gaussian", "linear"])
def test_the_same_numbers_whoever_reads(
    folder: Path, family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pieces, "PIECE_BYTES", 3000)
    here = read_logs(folder / "all.csv", **SETTINGS[family])
    with ThreadPoolExecutor(3) as pool:
        there = read_logs(folder / "all.csv", **SETTINGS[family], engine=pool)
    made = read_logs(folder / "all.csv", **SETTINGS[family], engine=lambda: local_engine(1))
    assert here.statistics == there.statistics == made.statistics
    assert here.tasks == there.tasks == made.tasks


def test_clicks_that_turn_out_to_be_amounts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches and pieces of 0 and 1 become averages when another reward comes, early or late."""
    rng = np.random.default_rng(2)
    lines = [f"u{u},a{a},{y}" for u, a, y in rng.integers(0, [3, 2, 2], (300, 3)).tolist()]
    other = "u1,a1,0.5"
    head = "user,item,clicked\n"
    monkeypatch.setattr(pieces, "PIECE_BYTES", 800)
    expected = None
    for place in (0, 150, 300):
        rows = [*lines[:place], other, *lines[place:]]
        path = write(tmp_path / f"{place}.csv", head + "\n".join(rows) + "\n")
        found = read_logs(path, **ARMS, batch_rows=16)
        assert found.why == (
            f"1 of 301 rewards are neither 0 nor 1, the first in {place}.csv row {place + 1} (0.5)"
        )
        expected = expected or read_logs(path, **ARMS, family="gaussian")
        agree(found, expected)


def test_arrays_that_would_not_fit_are_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tally, "MOST_NUMBERS", 47)
    with pytest.raises(mixts.ParameterError, match="12 tasks with 4 arms are more than fit"):
        read_logs(folder / "all.csv", **ARMS)


# -- names ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "names"),
    [
        ([3, 1, 20, 1], ["1", "3", "20"]),
        (["3", "01", "20", "1"], ["01", "1", "3", "20"]),
        ([1.0, 2.5, None, math.nan], ["1", "2.5"]),
        ([date(2024, 5, 1), date(2023, 5, 1), None, None], ["2023-05-01", "2024-05-01"]),
        ([True, False, True, None], ["false", "true"]),
        (["b10", "b9", "", None], ["b9", "b10"]),
        (pyarrow.array(["y", "x", None, "x"]).dictionary_encode(), ["x", "y"]),
        (["NA", "null", "-5", "nan"], ["-5", "NA", "nan", "null"]),
    ],
)
def test_names_of_any_type(values: Any, names: list[str], tmp_path: Path) -> None:
    reward = [0, 1, 1, 0]
    rows = pyarrow.table({"user": values, "item": ["a"] * 4, "clicked": reward})
    pyarrow.parquet.write_table(rows, tmp_path / "t.parquet")
    logs = read_logs(tmp_path / "t.parquet", **ARMS)
    assert list(logs.tasks) == names
    missing = sum(value is None or value in ("", math.nan) for value in rows["user"].to_pylist())
    missing += sum(value != value for value in rows["user"].to_pylist())
    assert logs.bad_rows.counts.get("no task", 0) == missing
    swapped = read_logs(tmp_path / "t.parquet", task="item", arm="user", reward="clicked")
    assert list(swapped.arms or ()) == names


def test_a_number_and_its_text_are_one_task(tmp_path: Path) -> None:
    rewards = {"item": ["a"], "clicked": [1]}
    pyarrow.parquet.write_table(pyarrow.table({"user": [1], **rewards}), tmp_path / "a.parquet")
    pyarrow.parquet.write_table(pyarrow.table({"user": ["1"], **rewards}), tmp_path / "b.parquet")
    pyarrow.parquet.write_table(pyarrow.table({"user": [1.0], **rewards}), tmp_path / "c.parquet")
    logs = read_logs(tmp_path, **ARMS)
    assert logs.tasks == ("1",)
    assert logs.statistics.n_observations.tolist() == [3]


def test_arms_that_are_listed(folder: Path) -> None:
    logs = read_logs(folder / "all.csv", **ARMS, arms=["shoes", "hats", "books", "item 2"])
    everything = read_logs(folder / "all.csv", **ARMS)
    assert logs.arms == ("shoes", "hats", "books", "item 2")
    np.testing.assert_array_equal(
        logs.statistics.array("successes")[:, [2, 3, 0]],
        everything.statistics.array("successes")[:, [0, 1, 3]],
    )
    assert logs.statistics.array("failures")[:, 1].tolist() == [0] * 12
    assert list(logs.bad_rows.counts) == ["an arm that is not listed"]
    assert logs.bad_rows.total == everything.statistics.array("successes")[:, 2].sum() + (
        everything.statistics.array("failures")[:, 2].sum()
    )
    assert logs.bad_rows.examples["an arm that is not listed"][0].value == "item 10"


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
    "no reward": (1, [(4, "")]),
    "reward is not a number": (1, [(5, "maybe")]),
    "a line with another number of columns": (
        3,
        [(6, "2 instead of 3: u1,a"), (8, "4 instead of 3: u1,a,1,9"), (21, "2 instead of 3: u2,")],
    ),
    "reward is not finite": (2, [(7, "nan"), (13, "-inf")]),
    "reward is not 0 or 1": (1, [(10, "2")]),
}  # fmt: skip


@pytest.mark.parametrize("batch_rows", [1, 1 << 17])
@pytest.mark.parametrize("piece_bytes", [40, 1 << 20])
def test_every_bad_row_is_counted_for_its_reason(
    tmp_path: Path, batch_rows: int, piece_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pieces, "PIECE_BYTES", piece_bytes)
    monkeypatch.setattr(pieces, "_SCAN_BYTES", 30)
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
    with pytest.raises(mixts.FormatError) as refused:
        read_logs(tmp_path / "t.parquet", **LINEAR)
    assert "4 of 6 rows are bad, which is more than half" in str(refused.value)
    assert "feature 'price' is not a number; t.parquet row 4 (cheap)" in str(refused.value)
    logs = read_logs(tmp_path / "t.parquet", **LINEAR, allow_bad_rows=True)
    assert set(logs.bad_rows.counts) == {
        "no feature 'age'", "feature 'age' is not finite", "feature 'price' is not a number",
        "features and reward beyond 1e+75",
    }  # fmt: skip
    assert logs.statistics.n_observations.tolist() == [2]


def test_rows_without_any_good_one_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", "user,item,clicked\nu,a,x\n")
    with pytest.raises(mixts.FormatError, match=r"none of 1 rows .*\n  1: reward is not a number"):
        read_logs(path, **ARMS, allow_bad_rows=True)
    with pytest.raises(mixts.FormatError, match="none of 0 rows"):
        read_logs(write(tmp_path / "t.csv", "user,item,clicked\n"), **ARMS)


def test_values_with_line_ends_and_quotes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "PIECE_BYTES", 30)
    monkeypatch.setattr(pieces, "_SCAN_BYTES", 20)
    text = '"user","item","clicked"\n' + '"a\nb","say ""x"", y",1\n' * 20
    path = write(tmp_path / "t.csv", text)
    assert len(pieces.pieces_of(str(path), ",")) == 1
    logs = read_logs(path, **ARMS, batch_rows=1)
    assert (logs.tasks, logs.arms, logs.bad_rows.total) == (("a\nb",), ('say "x", y',), 0)
    assert logs.statistics.array("successes").tolist() == [[20]]
    # Quotes alone are no reason to read a file in one piece.
    assert len(pieces.pieces_of(str(write(path, text.replace("a\nb", "ab"))), ",")) > 5


def test_other_delimiters(tmp_path: Path) -> None:
    rows = "user;item;clicked\nu;a;1\n"
    assert read_logs(write(tmp_path / "t.csv", rows), **ARMS, delimiter=";").n_rows == 1
    assert read_logs(write(tmp_path / "t.tsv", rows.replace(";", "\t")), **ARMS).n_rows == 1
    with pytest.raises(mixts.ParameterError, match=r"perhaps columns are not separated by ','"):
        read_logs(tmp_path / "t.csv", **ARMS)


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
        (_file(b""), "t.csv is empty"),
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
    with pytest.raises(mixts.MixtsError, match=message):
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
        ({"reward": "item"}, "none of 600 rows says anything"),
    ],
)
def test_requests_that_make_no_sense(folder: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(mixts.MixtsError, match=message):
        read_logs(folder / "all.csv", **{**ARMS, **options})


@pytest.mark.parametrize("column", ["user", "clicked"])
def test_columns_of_lists_are_refused(column: str, tmp_path: Path) -> None:
    values: dict[str, Any] = {"user": ["u"], "item": ["a"], "clicked": [1]}
    pyarrow.parquet.write_table(pyarrow.table({**values, column: [[1]]}), tmp_path / "t.parquet")
    with pytest.raises(mixts.ParameterError, match=r"must have .*numbers.*, got list"):
        read_logs(tmp_path / "t.parquet", **ARMS)


def test_pyarrow_is_asked_for(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow.csv", None)
    with pytest.raises(mixts.MissingExtraError, match=r"mixts\[logs\]"):
        read_logs(folder / "all.csv", **ARMS)
