"""Logs to statistics: the counts are exact, however workers divide the files."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

import mixts
from mixts import errors
from mixts.engines import engine_of
from mixts.families import (
    BernoulliStatistics,
    GaussianStatistics,
    LinearStatistics,
    PoissonStatistics,
)
from mixts.logs import TaskLogs, files, read_logs, tally
from tests.unit.logs import sample_logs
from tests.unit.logs.sample_logs import ARMS, LINEAR, N, write


@pytest.fixture(scope="module")
def table() -> pyarrow.Table:
    return sample_logs.table()


@pytest.fixture(scope="module")
def folder(table: pyarrow.Table, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("logs")
    sample_logs.write_files(table, folder)
    return folder


def cells(table: pyarrow.Table, column: str) -> dict[tuple[int, str], list[Any]]:
    """The rewards of every user and item, by plain Python."""
    found: dict[tuple[int, str], list[Any]] = {}
    for row in table.to_pylist():
        found.setdefault((row["user"], row["item"]), []).append(row[column])
    return found


# -- what is counted --------------------------------------------------------------------------


def test_clicks_are_counted(folder: Path, table: pyarrow.Table) -> None:
    logs = read_logs(folder / "all.csv", **ARMS)
    assert logs.family == "bernoulli"
    assert logs.why == "every reward is 0 or 1"
    assert logs.tasks == tuple(str(user) for user in range(1, 13))
    assert logs.arms == ("books", "item 2", "item 10", "shoes")
    assert logs.features is None
    assert (logs.n_rows, logs.bad_rows.total, str(logs.bad_rows)) == (N, 0, "none")
    assert isinstance(logs.statistics, BernoulliStatistics)
    for (user, item), rewards in cells(table, "clicked").items():
        where = logs.tasks.index(str(user)), logs.arms.index(item)
        assert logs.statistics.successes[where] == sum(rewards)
        assert logs.statistics.failures[where] == len(rewards) - sum(rewards)


def test_amounts_keep_their_digits(folder: Path, table: pyarrow.Table) -> None:
    logs = read_logs(folder / "all.parquet", task="user", arm="item", reward="spent")
    assert logs.family == "gaussian"
    assert logs.arms is not None
    assert logs.why.startswith(f"{N} of {N} rewards are neither 0 nor 1, the first in all.parquet")
    assert isinstance(logs.statistics, GaussianStatistics)
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
    assert isinstance(logs.statistics, PoissonStatistics)
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
    assert isinstance(logs.statistics, LinearStatistics)
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
    monkeypatch.setattr(files, "PIECE_BYTES", 3000)
    monkeypatch.setattr(files, "PIECE_ROWS", 250)
    monkeypatch.setattr(files, "_SCAN_BYTES", 1000)
    assert len(files.pieces_of(str(folder / "all.csv"), ",")) >= 5
    assert len(files.pieces_of(str(folder / "all.parquet"), ",")) == 3
    agree(read_logs(folder / "all.csv", **SETTINGS[family]), whole)
    agree(read_logs(str(folder / "all.p*"), **SETTINGS[family]), whole)


@pytest.mark.parametrize("family", ["gaussian", "linear"])
def test_the_numbers_do_not_depend_on_the_engine(
    folder: Path, family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "PIECE_BYTES", 3000)
    here = read_logs(folder / "all.csv", **SETTINGS[family])
    with ThreadPoolExecutor(3) as pool:
        there = read_logs(folder / "all.csv", **SETTINGS[family], engine=pool)
    made = read_logs(folder / "all.csv", **SETTINGS[family], engine=lambda: engine_of(1))
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
    monkeypatch.setattr(files, "PIECE_BYTES", 800)
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
    with pytest.raises(errors.ParameterError, match="12 tasks with 4 arms are more than fit"):
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


@pytest.mark.parametrize("batch_rows", [7, 1000])
def test_a_listed_arm_that_no_row_has_is_refused(folder: Path, batch_rows: int) -> None:
    """A slip of the pen made a new arm, and lost the rows of the right one."""
    options: dict[str, Any] = {**ARMS, "batch_rows": batch_rows}
    with pytest.raises(
        errors.ParameterError, match=r"and 'shose' does not: did you mean 'shoes'\?"
    ) as no:
        read_logs(folder / "all.csv", **options, arms=["shose", "books"])
    assert "arms=prior" in str(no.value)
    with pytest.raises(
        errors.ParameterError, match=r"and 'xyz' does not\. Its arms are 'books', 'item 2'"
    ):
        read_logs(folder / "all.csv", **options, arms=["books", "xyz"])
    with pytest.raises(
        errors.ParameterError, match="did you mean 'shoes'"
    ):  # before "no row is left"
        read_logs(folder / "all.csv", **options, arms=["Shoes"])


def test_an_arm_whose_rows_are_all_bad_is_no_slip(tmp_path: Path) -> None:
    log = write(tmp_path / "t.csv", "user,item,clicked\nu,a,1\nu,a,0\nu,b,\nu,c,1\n")
    logs = read_logs(log, **ARMS, arms=["a", "b"])
    assert logs.statistics.pulls.sum(axis=0).tolist() == [2, 0]


def test_arms_that_are_listed(folder: Path) -> None:
    names = ("shoes", "hats", "books", "item 2")
    prior = mixts.MixturePrior(mixts.BernoulliArms.uniform(4), arm_names=names)
    logs = read_logs(folder / "all.csv", **ARMS, arms=prior)
    with pytest.raises(
        errors.ParameterError, match="arms must be names, or a prior that names its arms"
    ):
        read_logs(folder / "all.csv", **ARMS, arms=prior.replace(arm_names=None))
    everything = read_logs(folder / "all.csv", **ARMS)
    assert logs.arms == logs.schema.arms == names  # workers receive names, not the prior
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
