"""Logs in a real PostgreSQL: connections that break, and queries of the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mixts.cli import main
from mixts.errors import FormatError
from mixts.learning import TaskFolder
from mixts.logs import read_logs, read_rows, task_blocks
from mixts.logs.lazy import LazyLog
from tests.contracts.lazy_engines import lazy_postgres

__all__ = ["lazy_postgres"]

ibis = pytest.importorskip("ibis")
psycopg = pytest.importorskip("psycopg")

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")

COLUMNS: dict[str, Any] = {"task": "user", "arm": "item", "reward": "spent"}
N_QUERIES = 5
"""Queries of :func:`read_logs` for logs of several ranges: totals, amounts, arms, ends, a range."""


@pytest.fixture
def address(lazy_postgres: str) -> str:
    """A server with logs of 60 users."""
    with psycopg.connect(lazy_postgres) as connection:
        connection.execute(
            """
            DROP TABLE IF EXISTS visits;
            CREATE TABLE visits AS
            SELECT md5((i % 60)::text)::uuid AS id, 'u' || i % 60 AS user, 'a' || i % 3 AS item,
                (i % 7) / 3.0::float8 AS spent, (i / 7 + i) % 2 AS clicked
            FROM generate_series(1, 2000) AS rows(i)
            """
        )
    return lazy_postgres


def break_connections(address: str) -> None:
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
        )


@pytest.mark.parametrize("before", range(N_QUERIES))
def test_a_connection_that_breaks_before_a_query(
    before: int, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    collected, asked = LazyLog.collected, []

    def broken(log: LazyLog, query: Any) -> Any:
        asked.append(query)
        if len(asked) == before + 1:
            break_connections(address)
        return collected(log, query)

    logs = ibis.connect(address).table("visits")
    monkeypatch.setattr(LazyLog, "collected", broken)
    said = r"the table cannot be read, PostgreSQL \(through Ibis\) failed: .* Nothing was kept"
    with pytest.raises(FormatError, match=said):
        read_logs(logs, **COLUMNS, batch_rows=4)
    assert len(asked) == before + 1  # a query is not asked twice
    again = ibis.connect(address).table("visits")
    assert read_logs(again, **COLUMNS, batch_rows=4).n_rows == 2000


def test_a_connection_that_breaks_later(address: str, tmp_path: Path) -> None:
    logs = ibis.connect(address).table("visits")
    found = read_logs(logs, **COLUMNS)
    blocks = task_blocks(logs, **COLUMNS, batch_rows=1)

    def parts() -> Any:
        for block in blocks:
            yield block.statistics
            break_connections(address)

    with pytest.raises(FormatError, match="Nothing was kept"):
        TaskFolder.write(tmp_path / "visits.tasks", parts())
    assert not list(tmp_path.iterdir())
    with pytest.raises(FormatError, match="Nothing was kept"):
        read_rows(found, [0])


def test_tasks_that_are_uuids(address: str) -> None:
    logs = read_logs(ibis.connect(address).table("visits"), **{**COLUMNS, "task": "id"})
    assert (len(logs.tasks), len(logs.tasks[0]), logs.n_rows) == (60, 36, 2000)
    assert len(read_rows(logs, [3, 1]).rewards) == logs.statistics.n_observations[[1, 3]].sum()


@pytest.mark.parametrize("end", ["", ";", " -- the end"], ids=["plain", "semicolon", "comment"])
def test_a_query_of_the_command_line(
    end: str, address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, words = tmp_path / "prior.json", ["--task", "user", "--arm", "item", "--reward", "clicked"]
    query = f"SELECT \"user\", item, clicked FROM visits WHERE item LIKE 'a%'{end}"
    options = ["--components", "1", "--held-out", "0", "--no-report", "--out", str(out)]
    assert main(["fit", address, "--query", query, *words, *options]) == 0
    assert "PostgreSQL (through Ibis) counted 2,000 rows" in capsys.readouterr().out


def test_other_statements_are_refused(
    address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, words = tmp_path / "prior.json", ["--task", "user", "--arm", "item", "--reward", "clicked"]
    for query in ("SELECT * FROM visits; DELETE FROM visits", "DELETE FROM visits", ";"):
        assert main(["fit", address, "--query", query, *words, "--out", str(out)]) == 2
        assert "--query must be one SELECT" in capsys.readouterr().err
    with psycopg.connect(address) as connection:
        (n,) = connection.execute("SELECT count(*) FROM visits").fetchone()
    assert n == 2000
    assert not list(tmp_path.iterdir())
