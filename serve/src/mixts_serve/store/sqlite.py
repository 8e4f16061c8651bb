"""Decisions in a SQLite file: a write-ahead log, every commit synced, one writer.

apsw contains its own SQLite. The system's may be one of those (3.7.0 to 3.51.2) that can lose a
commit when the write-ahead log restarts.

SQLite checks how its pages are built, not what is in them. So every numbered row has a checksum of
its other columns, written in the same statement, and rows are numbered without gaps: a changed or
missing row is noticed. The tables ``counts``, ``activity`` and ``open_windows`` follow from others.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from operator import attrgetter
from pathlib import Path
from typing import Any
from zlib import crc32

import apsw
from msgspec import msgpack
from msgspec.structs import replace

from mixts.errors import StoreUnavailableError
from mixts_serve.records import (
    Deployment,
    LoggedDecision,
    Removal,
    TaskEntry,
    WaitingDecision,
)
from mixts_serve.store import _sqlite_file, tables
from mixts_serve.store._sqlite_log import BUSY_SECONDS, FileConnections, WriteAheadLog
from mixts_serve.store.base import WAITING, Backend, Transaction, WouldWaitError

log = logging.getLogger("mixts_serve")

# SQLite reads the inner rows one by one, and stops at the outer limit.
_WAITING = WAITING.format(source="", task="?", window="?") + " LIMIT ?"

_encode = msgpack.Encoder().encode


def checksum(values: tables.Row) -> int:
    """Return the checksum of a row, whose values must be as SQLite returns them.

    A CRC finds every flipped bit and every burst of up to 32 bits.
    """
    return crc32(_encode(values)) - 2**31


@cache
def _insert(table: tables.Table) -> str:
    return table.insert(str(table.key), *table.columns, "checksum")


# -- the clock ------------------------------------------------------------------------------------

CORRECTION = 0.1
"""Largest rate at which a difference from the wall clock is made up for: 6 seconds a minute."""

JUMP_US = 10_000_000
"""Difference from the wall clock, in microseconds, from which on a warning is logged."""


class SteadyClock:
    """The clock of stores in a file: microseconds since 1970 that never jump and never go back.

    The clock starts with the wall clock and follows it, but each second of it lasts between 0.9 and
    1.1 seconds of the machine's monotonic clock. If the wall clock jumps by a day, a reward window
    ends at most 10 % too early or too late. Small corrections, as those of NTP, are followed at
    once. Several threads may read the clock.

    Parameters
    ----------
    wall, monotonic : callable
        The two clocks, in nanoseconds.
    """

    def __init__(
        self,
        wall: Callable[[], int] = time.time_ns,
        monotonic: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._wall, self._monotonic = wall, monotonic
        self._lock = threading.Lock()
        self._read_at = monotonic()
        self._now = float(wall()) / 1000
        self._has_warned = False

    def now_us(self) -> int:
        """Return microseconds since 1970."""
        with self._lock:
            read_at = self._monotonic()
            elapsed = (read_at - self._read_at) / 1000
            self._read_at = read_at
            behind = self._wall() / 1000 - (self._now + elapsed)
            most = CORRECTION * elapsed
            self._now += elapsed + min(max(behind, -most), most)
            self._warn(behind)
            return int(self._now)

    def _warn(self, behind: float) -> None:
        """Warn when the wall clock has jumped, and not again before both clocks agree."""
        if abs(behind) < JUMP_US:
            self._has_warned = False
        elif not self._has_warned:
            self._has_warned = True
            log.warning(
                "the system's clock jumped %s by %.0f seconds: the service's clock approaches it "
                "by 6 seconds a minute, and a restart sets it at once",
                "forward" if behind > 0 else "back", abs(behind) / 1e6,
            )  # fmt: skip


_CLOCK = SteadyClock()
"""The clock of all deciders of this process."""


def now_us() -> int:
    """Return microseconds since 1970, which do not follow jumps of the system's clock."""
    return _CLOCK.now_us()


# -- the store ------------------------------------------------------------------------------------


class SQLiteTransaction(Transaction):
    """A transaction that holds the file's one write lock; rows need no locks of their own.

    Rows of one kind are read and written by ``executemany``: one prepared statement for all of
    them, and one call, takes half the time of a call for each.
    """

    def __init__(self, connection: Any, clock: Callable[[], int]) -> None:
        self._connection, self._clock = connection, clock
        self._last: dict[str, int] = {}
        """Last numbers of tables that this transaction appends to."""

    def now_us(self) -> int:
        return self._clock()

    def _execute(self, sql: str, parameters: Sequence[Any] = ()) -> list[tables.Row]:
        return list(self._connection.execute(sql, tuple(parameters)))

    def _execute_where(
        self, sql: str, columns: tuple[str, ...], keys: Sequence[tables.Row], end: str = ""
    ) -> list[tables.Row]:
        condition = " AND ".join(f"{column} = ?" for column in columns)
        return list(self._connection.executemany(f"{sql} WHERE {condition}{end}", keys))

    def _execute_each(self, sql: str, rows: Sequence[tables.Row]) -> None:
        self._connection.executemany(sql, rows)

    def _append(self, table: tables.Table, records: Sequence[Any]) -> range:
        """Insert records with the next numbers and their checksums, and return the numbers."""
        if not records:
            return range(0)
        last = self._last.get(table.name)
        if last is None:
            last = _last(self._execute, table)
        numbers = range(last + 1, last + 1 + len(records))
        numbered = [(n, *table.values(record)) for n, record in zip(numbers, records, strict=True)]
        self._execute_each(_insert(table), [(*row, checksum(row)) for row in numbered])
        self._last[table.name] = numbers[-1]
        return numbers

    def _update(
        self, table: tables.Table, columns: tuple[str, ...], records: Sequence[Any]
    ) -> None:
        saved, number, values = attrgetter(*columns), attrgetter(str(table.key)), table.values
        rows = [
            (*saved(each), checksum((number(each), *values(each))), number(each))
            for each in records
        ]
        self._execute_each(table.update(*columns, "checksum"), rows)

    def _among(self, numbers: Sequence[int]) -> tuple[str, Any]:
        return "IN (SELECT value FROM json_each(?))", json.dumps(list(numbers))

    def _delete(self, table: tables.Table, column: str, numbers: Sequence[int]) -> Sequence[int]:
        """Delete rows, and note the gap that they leave."""
        deleted = super()._delete(table, column, numbers)
        if deleted:
            known = self._find(tables.REMOVAL, "r.name", [table.name])
            note = known[0] if known else Removal(0, table.name)
            note.n += len(deleted)
            note.total = (note.total + sum(deleted)) % _MODULUS
            note.last = max(note.last, *deleted, 0)
            if known:
                self._update(tables.REMOVED, ("n", "total", "last"), [note])
            else:
                self._append(tables.REMOVED, [note])
        return deleted

    def _log(self, decisions: Sequence[LoggedDecision]) -> None:
        # The numbers are known: no row need be found.
        numbered = zip(decisions, self._append(tables.DECISIONS, decisions), strict=True)
        windows = [replace(each, seq=seq).window for each, seq in numbered if each.due is not None]
        self._execute_each(
            tables.OPEN_WINDOWS.insert(), [tables.OPEN_WINDOWS.values(w) for w in windows]
        )

    def is_deployed(self, deployment: Deployment) -> bool:
        return True  # no other process can write during this transaction

    def lock_tasks(
        self, names: Sequence[str], numbers: Sequence[int], now: int
    ) -> tuple[list[TaskEntry], int]:
        found = self._find(tables.TASK, "t.name", names)
        known = {entry.name for entry in found}
        new = [TaskEntry(0, name, now, now) for name in names if name not in known]
        for entry, number in zip(new, self._append(tables.TASKS, new), strict=True):
            entry.number = number
        found += new
        known_numbers = {entry.number for entry in found}
        others = [number for number in numbers if number not in known_numbers]
        return found + self._find(tables.TASK, "t.number", others), len(new)

    def find_waiting(
        self, tasks: Mapping[int, int], last: int, now: int, window: int
    ) -> list[WaitingDecision]:
        asked = [(task, last, window, now, most) for task, most in tasks.items()]
        found = [WaitingDecision(*row) for row in self._connection.executemany(_WAITING, asked)]
        return sorted(found, key=lambda decision: decision.seq)

    def action_set(self, digest: bytes, actions: tables.ActionSet) -> int:
        number = self._one("SELECT number FROM action_sets WHERE digest = ?", digest)
        if number is None:
            (number,) = self._append(tables.ACTION_SETS, [actions])
        return int(number)

    def freeze(self) -> None:
        return None

    def shape(self) -> str | None:
        value = self._one("SELECT value FROM meta WHERE name = 'shape'")
        return None if value is None else str(value)


class SQLiteBackend(Backend):
    """A store in one file (and, while it is open, its ``-wal`` and ``-shm``).

    Parameters
    ----------
    path : str or path
        The file; it is created if it does not exist.
    vfs, synchronous : str
        Settings of SQLite: the virtual file system, and when the disk must have the data.
    clock : callable
        Returns microseconds since 1970 that never go back: simulations of a year have their own.
    """

    database = "SQLite"
    is_quick = True

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        vfs: str | None = None,
        synchronous: str = "FULL",
        clock: Callable[[], int] = now_us,
    ) -> None:
        super().__init__()
        self.name, self._clock = str(path), clock
        self.path = Path(path).absolute()
        try:
            self._connections = FileConnections(self.path, vfs, synchronous)
        except apsw.Error as error:
            raise _sqlite_file.refusal(self.path, error) from error
        self._log = WriteAheadLog(self._connections, self.name)
        self._closed = False
        self._waits_since: float | None = None
        """Since when the writer has been waiting for a lock or for the disk."""

    def now_us(self) -> int:
        return self._clock()

    @contextmanager
    def _transaction(self, wait: bool) -> Iterator[SQLiteTransaction]:
        if not (wait or self._log.is_ready):
            raise WouldWaitError(f"the write-ahead log of {self.name} must be moved")
        try:
            self._waits_since = time.monotonic()
            writer = self._log.writer()
            self._begin(writer, wait)
            try:
                self._waits_since = None
                yield SQLiteTransaction(writer, self._clock)
                self._waits_since = time.monotonic()
                self._log.commit(writer)
            except BaseException:
                with suppress(apsw.Error):
                    writer.execute("ROLLBACK")
                raise
        except apsw.ConstraintError:
            raise  # an error in this code; the disk works
        except apsw.Error as error:
            if isinstance(error, apsw.FullError):
                self._log.note_full_disk()
            raise self._unavailable(error) from error
        finally:
            self._waits_since = None

    def _begin(self, writer: Any, wait: bool) -> None:
        """Begin to write; if another process writes, wait for it or raise ``WouldWaitError``."""
        writer.set_busy_timeout(BUSY_SECONDS * 1000 if wait else 0)
        try:
            writer.execute("BEGIN IMMEDIATE")
        except apsw.BusyError as error:
            if wait:
                raise
            raise WouldWaitError(f"another process writes to {self.name}") from error

    def watch(self) -> float:
        since = self._waits_since
        return 0.0 if since is None else time.monotonic() - since

    def probe(self) -> None:
        with self.transaction() as transaction:
            transaction.mark()

    def query(self, sql: str, parameters: Sequence[Any] = ()) -> list[tables.Row]:
        try:
            with self._connections.reader() as reader:
                return list(reader.execute(sql, tuple(parameters)))
        except apsw.Error as error:
            raise self._unavailable(error) from error

    def scan(self, sql: str, parameters: Sequence[Any] = ()) -> Iterator[tables.Row]:
        try:
            with self._connections.separate_reader() as reader:
                reader.execute("BEGIN")
                yield from reader.execute(sql, tuple(parameters))
        except apsw.Error as error:
            raise self._unavailable(error) from error

    def check(self) -> Iterator[str]:
        try:
            # One snapshot: rows that are erased or archived meanwhile are not missing.
            with self._connections.separate_reader() as reader:
                reader.execute("BEGIN")

                def execute(sql: str, parameters: tables.Row = ()) -> list[tables.Row]:
                    return list(reader.execute(sql, parameters))

                found = [row[0] for row in execute("PRAGMA integrity_check(10)")]
                yield from [] if found == ["ok"] else found
                yield from _sqlite_file.changed_definitions(reader)
                for table in tables.TABLES:
                    if isinstance(table.key, str):
                        yield from check_rows(execute, table)
        except apsw.Error as error:
            raise self._unavailable(error) from error

    def purge(self) -> bool:
        try:
            return self._log.purge()
        except apsw.Error as error:
            raise self._unavailable(error) from error

    def backup(self, path: Path) -> None:
        with self._connections.separate_reader() as reader:
            _sqlite_file.copy(reader, path)

    def _unavailable(self, error: apsw.Error) -> StoreUnavailableError:
        reason = _sqlite_file.reason_of(self.path, error)
        return StoreUnavailableError(f"{self.name}: {reason}; nothing was acknowledged")

    def schema_version(self) -> int:
        ((version,),) = self.query("PRAGMA user_version")
        return int(version)

    def n_bytes(self) -> int:
        files = (self.path, self.path.with_name(self.path.name + "-wal"))
        return sum(file.stat().st_size for file in files if file.exists())

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._log.close()


# -- checks of rows -------------------------------------------------------------------------------

_CHECKED_ROWS = 1_000
"""Number of rows that are read at a time."""

Execute = Callable[[str, tables.Row], list[tables.Row]]


_MODULUS = 2**62


def _last(execute: Execute, table: tables.Table) -> int:
    """Return the last number that a row of a table ever had."""
    ((last, removed),) = execute(
        f"SELECT (SELECT MAX({table.key}) FROM {table.name}), "
        "(SELECT last FROM removed WHERE name = ?)",
        (table.name,),
    )
    return max(last or 0, removed or 0)


def check_rows(execute: Execute, table: tables.Table) -> Iterator[str]:
    """Yield what is wrong with the rows of a table, and with the index of its unique column.

    Missing rows are right if they are as many as were removed, with the same sum of numbers.
    """
    removed = execute("SELECT n, total FROM removed WHERE name = ?", (table.name,))
    n_missing = total = 0
    for problem in _wrong_rows(execute, table):
        if isinstance(problem, str):
            yield problem
        elif not removed:
            yield f"rows {problem[0]} to {problem[1]} of {table.name} are missing"
        else:
            first, last = problem
            n_missing += last - first + 1
            total += (first + last) * (last - first + 1) // 2
    if removed and (n_missing, total % _MODULUS) != removed[0]:
        yield (
            f"{n_missing} rows of {table.name} are missing, and {removed[0][0]} others were erased "
            "or archived"
            if n_missing == removed[0][0]
            else f"{n_missing} rows of {table.name} are missing, of which {removed[0][0]} were "
            "erased or archived"
        )


def _wrong_rows(execute: Execute, table: tables.Table) -> Iterator[str | tuple[int, int]]:
    """Yield what is wrong with rows; of missing ones, the first and the last number."""
    key, name = table.key, table.name
    unique = next((column for column, rule in table.rules.items() if "UNIQUE" in rule), None)
    indexed = "NULL"
    if unique is not None:
        indexed = f"(SELECT s.{key} FROM {name} s WHERE s.{unique} = r.{unique})"
    sql = (
        f"SELECT {key}, {', '.join(table.columns)}, checksum, {indexed} FROM {name} r "
        f"WHERE {key} > ? AND {key} <= ? ORDER BY {key} LIMIT ?"
    )
    done, last, n = 0, _last(execute, table), _CHECKED_ROWS
    while done < last:
        try:
            rows = execute(sql, (done, last, n))
        except UnicodeDecodeError:  # a text is damaged: read row by row to find it
            if n == 1:
                done += 1
                yield f"row {done} of {name} has a damaged text"
            n = 1 if n > 1 else _CHECKED_ROWS
            continue
        except apsw.CorruptError as error:
            yield f"{name} cannot be read after row {done} ({error})"
            return
        for *values, stored, found in rows:
            number = values[0]
            if number != done + 1:
                yield done + 1, number - 1
            done = number
            if checksum(tuple(values)) != stored:
                yield f"row {number} of {name} differs from its checksum"
            elif unique is not None and found != number:
                yield f"row {number} of {name} is not in its index"
        if not rows:
            yield done + 1, last
            return
