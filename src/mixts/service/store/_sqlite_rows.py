"""Rows with checksums: a bit that flips in the content of a SQLite file is noticed.

SQLite checks how its pages are built, not what is in them. So every row of the log, of the tasks
and of the priors has a checksum of its other columns, written in the same statement. Rows of a
table are numbered without gaps, so a missing row is noticed, too. The tables ``counts`` and
``open_windows`` have none: a rebuild compares them with the log.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from zlib import crc32

import apsw
from msgspec import msgpack

_encode = msgpack.Encoder().encode

FUNCTION = "mixts_checksum"
"""Name of ``checksum`` in SQL."""

PIECE_SECONDS = 0.002
"""Time for the rows that are checked at a time: readers and the writer hardly notice it."""

_MOST_ROWS = 1_000


@dataclass(frozen=True)
class Table:
    """A table whose rows have checksums."""

    name: str
    unique: str | None
    """A column other than the number whose index is checked, too."""
    columns: tuple[str, ...]
    """All columns but the checksum; the first one numbers the rows from 1."""

    @cached_property
    def insert(self) -> str:
        """Statement that inserts a row and its checksum."""
        names = ", ".join(self.columns)
        places = "?, " * len(self.columns)
        return f"INSERT INTO {self.name} ({names}, checksum) VALUES ({places}?)"

    @cached_property
    def last(self) -> str:
        """Statement for the last number."""
        return f"SELECT COALESCE(MAX({self.columns[0]}), 0) FROM {self.name}"

    @cached_property
    def update_checksum(self) -> str:
        """Statement that computes the checksums of rows again."""
        return f"UPDATE {self.name} SET checksum = {FUNCTION}({', '.join(self.columns)})"

    @cached_property
    def read(self) -> str:
        """Statement for rows of some numbers: columns, checksum, and the number by the index."""
        key, found = self.columns[0], "NULL"
        if self.unique is not None:
            found = f"(SELECT s.{key} FROM {self.name} s WHERE s.{self.unique} = r.{self.unique})"
        return (
            f"SELECT {', '.join(self.columns)}, checksum, {found} FROM {self.name} r "
            f"WHERE {key} > ? AND {key} <= ? ORDER BY {key} LIMIT ?"
        )


TABLES = {
    table.name: table
    for table in (
        Table(
            "priors", "digest",
            ("version", "digest", "uploaded_at", "family", "n_components", "body"),
        ),
        Table("activations", None, ("seq", "version", "at")),
        Table(
            "tasks", "name",
            (
                "number", "name", "decisions", "rewards", "late", "latent", "certainty",
                "version", "first_at", "last_at", "statistics", "defaults", "deferred",
            ),
        ),
        Table(
            "action_sets", "digest",
            ("number", "digest", "n_actions", "n_features", "body", "ids"),
        ),
        Table(
            "decisions", "id",
            (
                "seq", "id", "task", "at", "version", "action", "propensity", "weights",
                "request", "action_set", "policy", "deferred", "due", "default_reward", "slate",
                "position", "key", "probabilities", "money",
            ),
        ),
        Table("rewards", "decision", ("seq", "decision", "at", "value", "late", "is_default")),
        Table("late_rewards", "decision", ("seq", "decision", "at", "value")),
        Table("activated", "decision", ("seq", "decision", "at", "due", "default_reward")),
    )
}  # fmt: skip
"""The tables in the order of the fields of their records. A migration uses them: if a table
changes, keep a copy for it."""

ADD_CHECKSUMS = "".join(
    f"ALTER TABLE {table.name} ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0; "
    f"{table.update_checksum}; "
    for table in TABLES.values()
)


def checksum(*values: Any) -> int:
    """Return the checksum of a row, whose values must be as SQLite returns them.

    A CRC finds every flipped bit and every burst of up to 32 bits.
    """
    return crc32(_encode(values)) - 2**31


def register(connection: Any) -> None:
    """Make the checksum a function of SQL."""
    connection.create_scalar_function(FUNCTION, checksum, deterministic=True)


Query = Callable[[str, Sequence[Any]], list[tuple[Any, ...]]]


def check_rows(query: Query, table: Table, after: int, last: int) -> Iterator[list[str]]:
    """Check rows after a number and up to another, a few at a time; yield what is wrong with them.

    ``query`` may raise ``apsw.CorruptError``, after which the rest of the table is left out.
    """
    n = 10
    while after < last:
        started = time.perf_counter()
        try:
            rows = query(table.read, (after, last, n))
        except UnicodeDecodeError:  # a text is damaged: find its row
            if n == 1:
                after += 1
                yield [f"row {after} of {table.name} has a damaged text"]
            n = 1
            continue
        except apsw.CorruptError as error:
            yield [f"{table.name} cannot be read after row {after} ({error})"]
            return
        end = rows[-1][0] if rows else last
        yield _check(table, rows, after, end)
        after = end
        seconds = max(time.perf_counter() - started, 1e-6)
        n = max(1, min(_MOST_ROWS, 2 * n, int(len(rows) * PIECE_SECONDS / seconds)))


def _check(table: Table, rows: Sequence[tuple[Any, ...]], after: int, end: int) -> list[str]:
    wrong = []
    for *values, stored, found in rows:
        number = values[0]
        if number != after + 1:
            wrong.append(f"rows {after + 1} to {number - 1} of {table.name} are missing")
        after = number
        if checksum(*values) != stored:
            wrong.append(f"row {number} of {table.name} differs from its checksum")
        elif table.unique is not None and found != number:
            wrong.append(f"row {number} of {table.name} is not in its index")
    if after != end:
        wrong.append(f"rows {after + 1} to {end} of {table.name} are missing")
    return wrong
