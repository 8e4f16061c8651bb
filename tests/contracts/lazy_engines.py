"""Engines that hold a table of tests: each makes a lazy table of a ``pyarrow.Table``."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from serve.tests import postgres_server
from tests.requirements import require

Hold = Callable[[pa.Table], Any]
"""Give a table to an engine, and return the lazy table."""

ENGINES = (
    "polars",
    "duckdb",
    "ibis-duckdb",
    "ibis-postgres",
    pytest.param("dask", marks=pytest.mark.slow),
    pytest.param("spark", marks=pytest.mark.slow),
)

_NUMBERS = itertools.count()


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """A session of Spark with two threads; to start it takes ten seconds."""
    sql = pytest.importorskip("pyspark.sql")
    builder = sql.SparkSession.builder.master("local[2]")
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
    }.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def lazy_postgres() -> Iterator[str]:
    """The address of a real server."""
    reason = "no PostgreSQL server is installed (initdb was not found)"
    require("postgres", postgres_server.find() is not None, reason)
    with postgres_server.running(fsync=False) as url:
        yield url


@pytest.fixture(params=ENGINES)
def hold(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Hold]:
    """Give tables to one engine after the other."""
    yield from holding(request.param, request, tmp_path)


def holding(engine: str, request: pytest.FixtureRequest, folder: Path) -> Iterator[Hold]:
    """Yield the function that gives tables to an engine."""
    if engine == "polars":
        polars = pytest.importorskip("polars")
        yield lambda table: polars.from_arrow(table).lazy()
    elif engine == "dask":
        frames = pytest.importorskip("dask.dataframe")
        types = pytest.importorskip("pandas").ArrowDtype
        yield lambda table: frames.from_pandas(table.to_pandas(types_mapper=types), npartitions=3)
    elif engine == "spark":
        session = request.getfixturevalue("spark")
        yield session.createDataFrame
    elif engine == "ibis-postgres":
        pytest.importorskip("ibis")
        yield from _postgres(request.getfixturevalue("lazy_postgres"))
    else:
        duckdb = pytest.importorskip("duckdb")
        path = str(folder / "logs.duckdb")
        yield (_by_ibis if engine == "ibis-duckdb" else _by_duckdb)(duckdb, path)


def _by_duckdb(duckdb: Any, path: str) -> Hold:
    def hold(table: pa.Table) -> Any:
        connection = duckdb.connect()
        connection.register("arrow", table)
        connection.execute("CREATE TABLE logs AS SELECT * FROM arrow")
        return connection.table("logs")

    return hold


def _by_ibis(duckdb: Any, path: str) -> Hold:
    ibis = pytest.importorskip("ibis")

    def hold(table: pa.Table) -> Any:
        name = f"logs{next(_NUMBERS)}"
        with duckdb.connect(path) as connection:
            connection.register("arrow", table)
            connection.execute(f"CREATE TABLE {name} AS SELECT * FROM arrow")
        return ibis.duckdb.connect(path, read_only=False).table(name)

    return hold


def _postgres(url: str) -> Iterator[Hold]:
    """Copy tables to a server, and read them through Ibis."""
    import ibis
    import psycopg

    types = {
        pa.string(): "text", pa.int64(): "bigint", pa.float64(): "double precision",
        pa.bool_(): "boolean", pa.timestamp("us"): "timestamp", pa.date32(): "date",
        pa.timestamp("us", "UTC"): "timestamptz", pa.decimal128(10, 2): "numeric(10, 2)",
    }  # fmt: skip
    backend = ibis.connect(url)

    def hold(table: pa.Table) -> Any:
        name = f"logs{next(_NUMBERS)}"
        columns = ", ".join(f'"{each.name}" {types[each.type]}' for each in table.schema)
        with psycopg.connect(url) as connection, connection.cursor() as cursor:
            cursor.execute(f"CREATE TABLE {name} ({columns})")
            with cursor.copy(f"COPY {name} FROM STDIN") as copy:
                for row in zip(*(column.to_pylist() for column in table.columns), strict=True):
                    copy.write_row(row)
        return backend.table(name)

    yield hold
    backend.disconnect()
