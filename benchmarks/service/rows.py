"""Compare ways to write the rows of a batch to PostgreSQL, in CPU a row on both sides.

    python benchmarks/service/rows.py [--sizes 4 16 64] [--rows 8000]

The store sends a statement for each row, all in one pipeline. The others send one statement a
batch: arrays of columns (``unnest``), one JSON text (``json_to_recordset``), or ``COPY``, which
needs a round trip of its own.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import psycopg
from mixts_serve import Decide, Decider, DecisionStore
from mixts_serve.store.tables import DECISIONS
from problem import make_prior
from scaling import cpu_seconds

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from serve.tests import postgres_server

N_TASKS = 1_000
TYPES = {int: "bigint", float: "double precision", str: "text", bytes: "bytea"}
KINDS = {name: kind for name, (kind, _) in DECISIONS.types.items()}
COLUMNS = DECISIONS.columns
INSERT = f"INSERT INTO decisions ({', '.join(COLUMNS)})"
_ENCODE = msgspec.json.Encoder().encode

Connection = psycopg.Connection[Any]
Write = Callable[[Connection, list[tuple]], None]


def in_turn(connection: Connection, rows: list[tuple]) -> None:
    sql = DECISIONS.insert().replace("?", "%s")
    with connection.pipeline(), connection.cursor() as cursor:
        cursor.executemany(sql, rows)


def unnest(connection: Connection, rows: list[tuple]) -> None:
    arrays = ", ".join(f"%s::{TYPES[KINDS[name]]}[]" for name in COLUMNS)
    columns = [list(values) for values in zip(*rows, strict=True)]
    connection.execute(f"{INSERT} SELECT * FROM unnest({arrays})", columns)


def as_json(connection: Connection, rows: list[tuple]) -> None:
    def read(name: str) -> str:
        return f"decode({name}, 'base64')" if KINDS[name] is bytes else name

    def kind(name: str) -> str:
        return "text" if KINDS[name] is bytes else TYPES[KINDS[name]]

    read_all = ", ".join(map(read, COLUMNS))
    kinds = ", ".join(f"{name} {kind(name)}" for name in COLUMNS)
    text = _ENCODE([dict(zip(COLUMNS, row, strict=True)) for row in rows]).decode()
    sql = f"{INSERT} SELECT {read_all} FROM json_to_recordset(%s::json) AS v({kinds})"
    connection.execute(sql, (text,))


def copy(connection: Connection, rows: list[tuple]) -> None:
    sql = f"COPY decisions ({', '.join(COLUMNS)}) FROM STDIN"
    with connection.cursor() as cursor, cursor.copy(sql) as target:
        for row in rows:
            target.write_row(row)


WAYS: dict[str, Write] = {
    "a statement a row": in_turn, "unnest": unnest, "JSON": as_json, "COPY": copy,
}  # fmt: skip


def fresh(row: tuple) -> tuple:
    """Return a row with another id and another key."""
    values = dict(zip(COLUMNS, row, strict=True)) | {
        "id": os.urandom(16),
        "key": os.urandom(8).hex(),
    }
    return tuple(values[name] for name in COLUMNS)


def cost(write: Write, connection: Connection, rows: list[tuple], n: int) -> tuple[float, float]:
    """Return microseconds of CPU a row: of this process, and of the server's."""

    def run(n: int) -> float:
        spent = 0.0
        for _ in range(n):
            new = [fresh(row) for row in rows]
            before = time.thread_time()
            with connection.transaction():
                write(connection, new)
            spent += time.thread_time() - before
        return spent

    pid = connection.info.backend_pid
    run(20)
    before = cpu_seconds(pid)
    own = run(n)
    scale = 1e6 / (n * len(rows))
    return scale * own, scale * (cpu_seconds(pid) - before)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[4, 16, 64])
    parser.add_argument("--rows", type=int, default=8_000)
    options = parser.parse_args()
    with postgres_server.running(fsync=False) as url:
        with DecisionStore(url) as store, Decider(make_prior(), store, seed=1) as decider:
            made = decider.decide_many([Decide(f"task {i}") for i in range(N_TASKS)])
            with store.backend.transaction() as transaction:
                found = transaction.find_decisions([bytes.fromhex(each.id) for each in made])
            rows = [DECISIONS.values(row) for row in found.values()]
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("SET search_path TO mixts")
            connection.execute("ANALYZE")
            print(f"| us a row, service + database | {' | '.join(map(str, options.sizes))} |")
            print("|---" * (1 + len(options.sizes)) + "|")
            for name, write in WAYS.items():
                cells = []
                for size in options.sizes:
                    n = max(options.rows // size, 50)
                    own, server = cost(write, connection, rows[:size], n)
                    cells.append(f"{own:.0f} + {server:.0f}")
                print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
