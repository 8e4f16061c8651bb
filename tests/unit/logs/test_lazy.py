"""Lazy tables: what can go wrong between queries, databases, and folders that name columns."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import mixts
from mixts import errors
from mixts.cli import main
from mixts.logs import queries, read_logs, read_rows, task_blocks
from mixts.logs.connect import without_password
from mixts.logs.lazy import LazyLog
from mixts.logs.read import TaskLogs

duckdb = pytest.importorskip("duckdb")
pl = pytest.importorskip("polars")

COLUMNS: dict[str, Any] = {"task": "user", "arm": "item", "reward": "clicked"}


def table(n: int = 900) -> pa.Table:
    """Clicks of 90 users of two kinds."""
    rng = np.random.default_rng(4)
    user, item = rng.integers(90, size=n), rng.integers(3, size=n)
    clicked = rng.random(n) < np.where((user + item) % 2, 0.8, 0.2)
    day = [f"2024-05-0{1 + d}" for d in rng.integers(3, size=n)]
    return pa.table({"user": user, "item": item, "clicked": clicked.astype(float), "day": day})


def relation(rows: pa.Table) -> Any:
    connection = duckdb.connect()
    connection.register("rows", rows)
    return connection.sql("SELECT * FROM rows")


def database(folder: Path) -> Path:
    path = folder / "logs.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.register("rows", table())
        connection.execute("CREATE TABLE clicks AS SELECT * FROM rows")
    return path


def test_only_groups_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """At most so many rows at a time as the setting says, whatever the number of rows."""
    monkeypatch.setattr(queries, "GROUPS_PER_ROW", 1)
    monkeypatch.setattr("mixts.logs.groups.MOST_ROWS", 50)
    monkeypatch.setattr("mixts.logs.pieces.MOST_ROWS", 50)
    sizes: list[int] = []
    collected = LazyLog.collected

    def noted(log: LazyLog, query: Any) -> Any:
        found = collected(log, query)
        sizes.append(found.num_rows)
        return found

    monkeypatch.setattr(LazyLog, "collected", noted)
    rows = pa.concat_tables([table()] * 20)
    found = read_logs(relation(rows), **COLUMNS, batch_rows=60)
    assert max(sizes) <= 60 + 3  # a range ends with a whole task, which has three arms
    assert found.counted == "DuckDB counted 18,000 rows"
    assert found.statistics == read_logs(rows, **COLUMNS).statistics


def test_a_prior_does_not_depend_on_the_engine() -> None:
    rows = table()
    settings: dict[str, Any] = {"n_components": 2, "seed": 1}
    expected = mixts.fit_logs(rows, COLUMNS, **settings).prior
    for logs in (relation(rows), pl.from_arrow(rows).lazy()):
        found = mixts.fit_logs(logs, COLUMNS, **settings)
        np.testing.assert_array_equal(found.prior.weights, expected.weights)
        np.testing.assert_array_equal(found.prior.family.alpha, expected.family.alpha)
    assert found.logs.counted == "polars counted 900 rows"


def test_an_engine_that_fails_half_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """The table is dropped after the first query."""
    connection = duckdb.connect()
    connection.register("rows", table())
    connection.execute("CREATE TABLE clicks AS SELECT * FROM rows")
    logs = connection.table("clicks")
    totals = queries.Query.totals

    def then_dropped(query: queries.Query) -> queries.Totals:
        found = totals(query)
        connection.execute("ALTER TABLE clicks DROP COLUMN item")
        return found

    monkeypatch.setattr(queries.Query, "totals", then_dropped)
    with pytest.raises(
        errors.FormatError, match=r"the table cannot be read, DuckDB failed: .*item"
    ):
        read_logs(logs, **COLUMNS)


def test_rows_that_appear_between_two_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    rows_of = LazyLog.rows_of

    def with_another_arm(*arguments: Any) -> pa.Table:
        rows = rows_of(*arguments)
        item = pa.array(np.full(rows.num_rows, 7))
        return rows.set_column(rows.column_names.index("item"), "item", item)

    monkeypatch.setattr(LazyLog, "rows_of", with_another_arm)
    with pytest.raises(errors.FormatError, match="has other rows than a moment ago"):
        read_logs(relation(table()), **COLUMNS)


def test_bad_rows_of_an_engine_have_no_numbers() -> None:
    rows = table().to_pydict()
    rows["item"][3] = rows["item"][5] = None
    rows["clicked"][7], rows["clicked"][8] = 2.0, float("inf")
    logs = read_logs(relation(pa.table(rows)), **COLUMNS, family="bernoulli")
    assert logs.bad_rows.lines() == [
        "2: no arm; in the table",
        "1: reward is not 0 or 1; in the table (2)",
        "1: reward is not finite; in the table (inf)",
    ]


def test_bad_rows_do_not_decide_the_family_of_blocks() -> None:
    rows = table().to_pydict()
    rows["user"] = [f"u{user}" for user in rows["user"]]
    rows["user"][4], rows["clicked"][4] = "", 7.0
    columns: dict[str, Any] = {"task": "user", "features": ["item"], "reward": "clicked"}
    assert task_blocks(relation(pa.table(rows)), **columns).schema.family == "logistic"


def test_blocks_are_of_lazy_tables() -> None:
    with pytest.raises(errors.ParameterError, match=r"expected one lazy table, .* got Table"):
        task_blocks(table(), **COLUMNS)
    with pytest.raises(TypeError, match=r"task_blocks\(\) missing a required .* 'reward'"):
        task_blocks(relation(table()), task="user")
    text = relation(table()).project('"user", item, CAST(clicked AS VARCHAR) AS clicked')
    with pytest.raises(errors.ParameterError, match="family must be named, because the rewards"):
        task_blocks(text, task="user", features=["item"], reward="clicked")


@pytest.mark.parametrize("fault", ["no task", "another arm", "a categorical arm"])
def test_bad_rows_do_not_decide_the_family(fault: str) -> None:
    """Purchases stay purchases, and ratings ratings, beside a bad row with another reward."""
    user = [f"u{i % 60}" for i in range(900)]
    item: Any = pa.array([i % 3 for i in range(900)])
    options: dict[str, Any] = {"task": "user", "arm": "item"}
    if fault == "no task":
        user[8] = ""
    else:
        options["arms"] = ["0", "1"]
    if fault == "a categorical arm":
        item = item.cast(pa.string()).dictionary_encode()
    spent = [0.0 if i % 5 < 3 else 2.0 + i % 150 * 0.37 for i in range(900)]
    stars = [float(i % 5) for i in range(900)]
    for rewards, bad, family in ((spent, -3.0, "spend"), (stars, 2.5, "gaussian")):
        rewards[8] = bad
        rows = pa.table({"user": user, "item": item, "reward": rewards})
        for logs in (rows, relation(rows), pl.from_arrow(rows).lazy()):
            assert read_logs(logs, **options, reward="reward").family == family


def test_rows_without_a_fact_count_for_the_family() -> None:
    """A fact of the person may be missing: such a row is good."""
    rows = table()
    town = pa.array([None if i % 5 == 0 else "xy"[i % 2] for i in range(rows.num_rows)])
    reward = np.where(np.arange(rows.num_rows) % 5, rows["clicked"], 0.25 + rows["item"].to_numpy())
    rows = rows.append_column("town", town).append_column("reward", pa.array(reward))
    columns: dict[str, Any] = {"task": "user", "features": ["item"], "person": ["town"]}
    found, expected = (
        read_logs(logs, **columns, reward="reward") for logs in (relation(rows), rows)
    )
    assert found.family == expected.family == "linear"
    np.testing.assert_allclose(found.statistics.gram, expected.statistics.gram, atol=1e-9)
    np.testing.assert_allclose(found.statistics.moment, expected.statistics.moment, atol=1e-9)
    blocks = task_blocks(relation(rows), **columns, reward="reward")
    assert blocks.schema.family == "linear"


def test_too_many_distinct_rows_of_clicks() -> None:
    rng = np.random.default_rng(1)
    n = 10_100
    rows = pa.table({"user": np.zeros(n, int), "x": rng.random(n), "y": rng.integers(2, size=n)})
    columns: dict[str, Any] = {"task": "user", "features": ["x"], "reward": "y"}
    messages = []
    for logs in (rows, relation(rows)):
        with pytest.raises(errors.LogsError, match=r"counts each of them\. Round the") as caught:
            read_logs(logs, **columns, family="logistic")
        messages.append(str(caught.value).partition(", and")[0])
    assert messages[0] == messages[1]


def test_columns_of_folders(tmp_path: Path) -> None:
    """Folders of a partitioned data set name columns: as tasks, arms and features."""
    rows = table()
    connection = duckdb.connect()
    connection.register("rows", rows)
    copy = "COPY (SELECT * FROM rows) TO '{}' (FORMAT parquet, PARTITION_BY (day, item))"
    connection.execute(copy.format(tmp_path / "parts"))

    def counts(logs: TaskLogs) -> list[int]:
        return logs.statistics.pulls.ravel().tolist()  # type: ignore[no-any-return]

    for columns in (COLUMNS, {**COLUMNS, "task": "day"}):
        found = read_logs(tmp_path / "parts", **columns)
        assert found.tasks == read_logs(rows, **columns).tasks
        assert counts(found) == counts(read_logs(rows, **columns))
    assert len(read_rows(found, [0]).rewards) == sum(counts(found)[:3])
    with pytest.raises(errors.ParameterError, match=r"has no column 'days'; it has: .*day, item"):
        read_logs(tmp_path / "parts", **{**COLUMNS, "task": "days"})


def test_a_folder_of_rows_without_a_value(tmp_path: Path) -> None:
    folder = tmp_path / "item=__HIVE_DEFAULT_PARTITION__"
    folder.mkdir()
    pa.parquet.write_table(table(10).drop_columns("item"), folder / "a.parquet")
    pa.parquet.write_table(table(10), tmp_path / "b.parquet")
    assert read_logs(tmp_path, **COLUMNS, allow_bad_rows=True).bad_rows.counts == {"no arm": 10}


@pytest.mark.parametrize("source", [["--table", "clicks"], ["--query", "SELECT * FROM clicks"]])
def test_a_database_is_fitted(
    source: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = database(tmp_path), tmp_path / "prior.json"
    words = ["--task", "user", "--arm", "item", "--reward", "clicked", "--components", "2"]
    assert main(["fit", str(path), *source, *words, "--out", str(out)]) == 0
    assert "DuckDB counted 900 rows" in capsys.readouterr().out
    page = out.with_suffix(".html").read_text(encoding="utf-8")
    assert "DuckDB counted 900 rows" in page
    assert source[0] in page
    settings: dict[str, Any] = {"n_components": 2, "seed": 1}
    expected = mixts.fit_logs(table(), COLUMNS, **settings).prior
    np.testing.assert_array_equal(mixts.MixturePrior.load(out).weights, expected.weights)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["logs.duckdb"], "logs.duckdb is a database: say which rows by --table NAME or --query"),
        (["logs.duckdb", "a.csv", "--table", "clicks"], "--table needs one database, got 2"),
        (["none.duckdb", "--table", "clicks"], "there is no file none.duckdb"),
        (["logs.duckdb", "--table", "click"], "--table failed at logs.duckdb: .*clicks"),
        (["logs.duckdb", "--query", "SELECT"], "--query failed at logs.duckdb: Parser Error"),
        (["logs.duckdb", "--query", "SELECT 1; SELECT 2"], "--query must be one SELECT"),
        (["logs.duckdb", "--query", ""], "--query must be one SELECT"),
        (["logs.duckdb", "--query", "COPY clicks TO 'prior.json'"], "--query must be one SELECT"),
        (["postgresql://me:secret@127.0.0.1:1/db", "--table", "x"], r"failed at .*//me:\.\.\.@127"),
        (
            ["postgresql://me:secret/1@host/db", "--table", "x"],
            r":\.\.\.@host/db is no address",
        ),
        (
            ["postgresql://me:1/secret@host/db", "--table", "x"],
            r":\.\.\.@host/db is no address",
        ),
    ],
)
def test_databases_that_cannot_be_read(
    words: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    database(tmp_path)
    monkeypatch.chdir(tmp_path)
    if "://" in words[0]:
        pytest.importorskip("ibis")
    options = ["--task", "user", "--arm", "item", "--reward", "clicked", "--out", "prior.json"]
    assert main(["fit", *words, *options]) == 2
    found = capsys.readouterr().err
    assert re.search(said, found)
    assert "secret" not in found
    assert not Path("prior.json").exists()


def test_passwords_are_not_shown() -> None:
    assert without_password("postgresql://me:secret@host/db") == "postgresql://me:...@host/db"
    assert without_password("x://host/db?password=secret&a=1") == "x://host/db?password=...&a=1"
    assert without_password("logs/*.csv") == "logs/*.csv"


def test_files_that_are_not_there_are_named(tmp_path: Path) -> None:
    missing = pl.scan_parquet(tmp_path / "*.parquet")
    with pytest.raises(errors.FormatError, match="the table cannot be read, polars failed"):
        read_logs(missing, **COLUMNS)
