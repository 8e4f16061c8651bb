"""Decisions in a SQLite file: a write-ahead log, every commit synced, one writer.

apsw contains its own SQLite. The system's may be one of those (3.7.0 to 3.51.2) that can lose a
commit when the write-ahead log restarts.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from msgspec.structs import astuple

from mixts.errors import MissingExtraError, StoreUnavailableError
from mixts.service.records import (
    Changes,
    KnownReward,
    LoggedDecision,
    OpenWindow,
    TaskEntry,
    WaitingDecision,
)
from mixts.service.store.base import (
    COUNTS_OF_THE_LOG,
    NEXT_LIFE,
    SPAN_US,
    ActionSet,
    Backend,
    CountedTask,
    Row,
    Transaction,
)

try:
    import apsw
except ImportError as error:  # pragma: no cover - the extra is always there in tests
    raise MissingExtraError(
        "a store of decisions in a SQLite file needs the extra 'serve': pip install 'mixts[serve]'"
    ) from error

from mixts.service.store import _sqlite_file
from mixts.service.store._sqlite_log import Connections, WriteAheadLog
from mixts.service.store._sqlite_rows import TABLES, check_rows, checksum

_TASK = (
    "SELECT number, name, decisions, rewards, late, latent, certainty, version, first_at, last_at, "
    "statistics, defaults, deferred FROM tasks"
)
_TASK_BY_NAME = _TASK + " WHERE name = ?"
_TASK_BY_NUMBER = _TASK + " WHERE number = ?"
_SAVE_TASK = (
    "UPDATE tasks SET decisions = ?, rewards = ?, late = ?, latent = ?, certainty = ?, "
    "version = ?, last_at = ?, statistics = ?, defaults = ?, deferred = ?, checksum = ? "
    "WHERE number = ?"
)
_DECISION = (
    "SELECT d.seq, a.at, d.id, d.task, d.at, d.version, d.action, d.propensity, d.weights, "
    "d.request, d.action_set, d.policy, d.deferred, COALESCE(a.due, d.due), "
    "COALESCE(a.default_reward, d.default_reward), d.slate, d.position "
    "FROM decisions d LEFT JOIN activated a ON a.decision = d.seq"
)
_DECISION_BY_ID = _DECISION + " WHERE d.id = ?"
_DECISIONS_BY_SLATE = _DECISION + " WHERE d.slate = ? ORDER BY d.position"
_DECISION_BY_KEY = (
    _DECISION.replace(" FROM", ", ?1, ?2 FROM")
    + " WHERE d.task = (SELECT number FROM tasks WHERE name = ?1) AND d.key = ?2"
)
# SQLite reads the inner rows one by one, and stops at the outer limit.
_WAITING = (
    "SELECT d.seq, d.task, d.action, d.action_set, COALESCE(a.at, d.at) FROM "
    "(SELECT seq, task, at, action, action_set, deferred, due FROM decisions "
    "WHERE task = ? ORDER BY seq DESC LIMIT ?) d "
    "LEFT JOIN activated a ON a.decision = d.seq "
    "WHERE (d.deferred = 0 OR a.at IS NOT NULL) AND COALESCE(a.due, d.due, d.at + ?) >= ? "
    "AND NOT EXISTS (SELECT 1 FROM rewards r WHERE r.decision = d.seq) LIMIT ?"
)
_REWARD = (
    "SELECT r.decision, r.value, r.late, r.is_default, l.value FROM rewards r "
    "LEFT JOIN late_rewards l ON l.decision = r.decision WHERE r.decision = ?"
)
_OPEN_WINDOW = "INSERT INTO open_windows (has_default, due, decision) VALUES (?, ?, ?)"
_CLOSE_WINDOW = "DELETE FROM open_windows WHERE has_default = ? AND due = ? AND decision = ?"
_ACTIVITY = (
    "INSERT INTO activity (start, writer, tasks, decisions, rewards, reward_sum, late, defaults, "
    "deferred) VALUES (?, '', ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (start, writer) DO UPDATE SET "
    "tasks = tasks + excluded.tasks, decisions = decisions + excluded.decisions, "
    "rewards = rewards + excluded.rewards, reward_sum = reward_sum + excluded.reward_sum, "
    "late = late + excluded.late, defaults = defaults + excluded.defaults, "
    "deferred = deferred + excluded.deferred"
)
_COUNT = (
    "INSERT INTO counts VALUES (?, ?, ?, ?, ?, '', ?, ?, ?, ?, ?, ?, ?, ?, ?) "
    "ON CONFLICT (span, start, arm, version, policy, writer) DO UPDATE SET "
    "first_at = min(first_at, excluded.first_at), last_at = max(last_at, excluded.last_at), "
    "decisions = decisions + excluded.decisions, deferred = deferred + excluded.deferred, "
    "rewards = rewards + excluded.rewards, defaults = defaults + excluded.defaults, "
    "late = late + excluded.late, reward_sum = reward_sum + excluded.reward_sum, "
    "reward_squares = reward_squares + excluded.reward_squares"
)


class SQLiteTransaction(Transaction):
    """A transaction that holds the file's one write lock; rows need no locks of their own.

    Rows of one kind are read and written by ``executemany``: one prepared statement for all of
    them, and one call, takes half the time of a call for each.
    """

    def __init__(self, connection: Any) -> None:
        self._execute = connection.execute
        self._execute_many = connection.executemany
        self._last: dict[str, int] = {}
        """Last numbers of tables that this transaction appends to."""

    def active_version(self) -> int | None:
        return self._one("SELECT version FROM activations ORDER BY seq DESC LIMIT 1")

    def is_active(self, version: int) -> bool:
        return True  # no other process can write during this transaction

    def find_decisions(self, ids: Sequence[bytes]) -> dict[bytes, LoggedDecision]:
        rows = self._execute_many(_DECISION_BY_ID, [(id,) for id in ids])
        return {row[2]: LoggedDecision(*row) for row in rows}

    def lock_tasks(
        self, names: Sequence[str], numbers: Sequence[int], now: int
    ) -> tuple[list[TaskEntry], int]:
        rows = list(self._execute_many(_TASK_BY_NAME, [(name,) for name in names]))
        known = {row[1] for row in rows}
        new = [
            (name, 0, 0, 0, None, 0.0, 0, now, now, b"", 0, 0)
            for name in names
            if name not in known
        ]
        rows += [
            (number, *row) for number, row in zip(self._append("tasks", new), new, strict=True)
        ]
        found = {row[0] for row in rows}
        others = [(number,) for number in numbers if number not in found]
        rows += self._execute_many(_TASK_BY_NUMBER, others)
        return [TaskEntry(*row) for row in rows], len(new)

    def find_keys(self, pairs: Sequence[tuple[str, str]]) -> dict[tuple[str, str], LoggedDecision]:
        rows = self._execute_many(_DECISION_BY_KEY, pairs)
        return {(task, key): LoggedDecision(*row) for *row, task, key in rows}

    def find_slate(self, slate: bytes) -> list[LoggedDecision]:
        return [LoggedDecision(*row) for row in self._execute(_DECISIONS_BY_SLATE, (slate,))]

    def find_rewards(self, decisions: Sequence[int]) -> dict[int, KnownReward]:
        rows = self._execute_many(_REWARD, [(seq,) for seq in decisions])
        return {
            seq: KnownReward(value, bool(late), bool(is_default), late_value)
            for seq, value, late, is_default, late_value in rows
        }

    def find_waiting(
        self, tasks: Mapping[int, int], last: int, now: int, window: int
    ) -> list[WaitingDecision]:
        asked = [(task, last, window, now, most) for task, most in tasks.items()]
        found = [WaitingDecision(*row) for row in self._execute_many(_WAITING, asked)]
        return sorted(found, key=lambda decision: decision.seq)

    def find_taken(self, tasks: Sequence[int]) -> list[tuple[int, int]]:
        sql = "SELECT DISTINCT task, action FROM decisions WHERE task = ?"
        return list(self._execute_many(sql, [(task,) for task in tasks]))

    def action_set(self, digest: bytes, actions: ActionSet) -> int:
        number = self._one("SELECT number FROM action_sets WHERE digest = ?", digest)
        if number is None:
            (number,) = self._append("action_sets", [(digest, *actions)])
        return int(number)

    def find_action_sets(self, numbers: Sequence[int]) -> dict[int, ActionSet]:
        sql = "SELECT n_actions, n_features, body, ids FROM action_sets WHERE number = ?"
        return {number: ActionSet(*self._execute(sql, (number,)).fetchone()) for number in numbers}

    def add(self, changes: Changes, now: int) -> None:
        self._append("rewards", map(astuple, changes.rewards))
        self._append("late_rewards", map(astuple, changes.late_rewards))
        self._append("activated", map(astuple, changes.activated))
        made = changes.decisions
        numbers = self._append("decisions", [astuple(decision)[2:] for decision in made])
        windows = zip((decision.window for decision in made), numbers, strict=True)
        new = [(*window[:2], seq) for window, seq in windows if window is not None]
        self._execute_many(_OPEN_WINDOW, [*changes.opened, *new])
        self._execute_many(_CLOSE_WINDOW, changes.closed)
        saved = [
            (
                t.decisions, t.rewards, t.late, t.latent, t.certainty, t.version, t.last_at,
                t.statistics, t.defaults, t.deferred, checksum(*astuple(t)), t.number,
            )
            for t in changes.tasks
        ]  # fmt: skip
        self._execute_many(_SAVE_TASK, saved)
        counts = [(*key, *astuple(count)) for key, count in changes.counts.items()]
        self._execute_many(_COUNT, counts)
        self._execute(_ACTIVITY, (now - now % SPAN_US, *astuple(changes.tally)))

    def freeze(self) -> None:
        return None

    def replace_tasks(self, rows: Sequence[CountedTask]) -> None:
        for number, *rest in rows:
            self._execute(
                "UPDATE tasks SET decisions = ?, rewards = ?, late = ?, defaults = ?, "
                "deferred = ?, statistics = ? WHERE number = ?",
                (*rest, number),
            )
            self._execute(f"{TABLES['tasks'].update_checksum} WHERE number = ?", (number,))

    def replace_windows(self, wrong: Sequence[OpenWindow], missing: Sequence[OpenWindow]) -> None:
        for window in wrong:
            self._execute(_CLOSE_WINDOW, window)
        for window in missing:
            self._execute(_OPEN_WINDOW, window)

    def replace_counts(self) -> None:
        self._execute("DELETE FROM counts")
        self._execute(f"INSERT INTO counts {COUNTS_OF_THE_LOG}")

    def add_prior(
        self, digest: bytes, now: int, family: str, n_components: int, body: bytes
    ) -> tuple[int, bool]:
        version = self._one("SELECT version FROM priors WHERE digest = ?", digest)
        is_new = version is None
        if is_new:
            (version,) = self._append("priors", [(digest, now, family, n_components, body)])
        return int(version), is_new

    def activate(self, version: int, now: int, shape: str) -> None:
        self._append("activations", [(version, now)])
        self._execute("INSERT OR REPLACE INTO meta (name, value) VALUES ('shape', ?)", (shape,))

    def shape(self) -> str | None:
        value = self._one("SELECT value FROM meta WHERE name = 'shape'")
        return None if value is None else str(value)

    def begin_life(self) -> int:
        return int(self._one(NEXT_LIFE))

    def mark(self) -> None:
        """Write a row without a meaning, to test that the database accepts writes."""
        self._execute("INSERT OR REPLACE INTO meta (name, value) VALUES ('probe', '')")

    def _append(self, name: str, rows: Iterable[tuple[Any, ...]]) -> range:
        """Insert rows with the next numbers and their checksums, and return the numbers."""
        given = list(rows)
        if not given:
            return range(0)
        table, last = TABLES[name], self._last.get(name)
        if last is None:
            last = int(self._one(table.last))
        numbers = range(last + 1, last + 1 + len(given))
        numbered = [(number, *row) for number, row in zip(numbers, given, strict=True)]
        self._execute_many(table.insert, [(*row, checksum(*row)) for row in numbered])
        self._last[name] = numbers[-1]
        return numbers

    def _one(self, sql: str, *parameters: Any) -> Any:
        row = self._execute(sql, parameters).fetchone()
        return None if row is None else row[0]


class SQLiteBackend(Backend):
    """A store in one file (and, while it is open, its ``-wal`` and ``-shm``)."""

    database = "SQLite"

    def __init__(
        self, path: str | os.PathLike[str], *, vfs: str | None = None, synchronous: str = "FULL"
    ) -> None:
        self.name = str(path)
        self.path = Path(path).absolute()
        try:
            self._connections = Connections(self.path, vfs, synchronous)
        except apsw.Error as error:
            raise _sqlite_file.refusal(self.path, error) from error
        self._log = WriteAheadLog(self._connections, self.name)
        self._closed = False
        self._waits_since: float | None = None
        """Since when the writer has been waiting for a lock or for the disk."""

    @contextmanager
    def transaction(self, *, wait: bool = True) -> Iterator[SQLiteTransaction]:
        try:
            self._waits_since = time.monotonic()
            writer = self._log.writer(wait=wait)
            self._connections.begin(writer, wait=wait)
            try:
                self._waits_since = None
                yield SQLiteTransaction(writer)
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

    def watch(self) -> float:
        since = self._waits_since
        return 0.0 if since is None else time.monotonic() - since

    def probe(self) -> None:
        with self.transaction() as transaction:
            transaction.mark()

    def query(self, sql: str, parameters: Sequence[Any] = ()) -> list[Row]:
        try:
            with self._connections.reader() as reader:
                return list(reader.execute(sql, tuple(parameters)))
        except apsw.Error as error:
            raise self._unavailable(error) from error

    def scan(self, sql: str, parameters: Sequence[Any] = ()) -> Iterator[Row]:
        try:
            with self._connections.separate_reader() as reader:
                reader.execute("BEGIN")
                yield from reader.execute(sql, tuple(parameters))
        except apsw.Error as error:
            raise self._unavailable(error) from error

    def check(self, *, full: bool = False) -> Iterator[list[str]]:
        def query(sql: str, parameters: Sequence[Any]) -> list[Row]:
            with self._connections.reader() as reader:
                return list(reader.execute(sql, parameters))

        try:
            if full:
                found = [row[0] for row in query("PRAGMA integrity_check(10)", ())]
                yield [] if found == ["ok"] else found
                with self._connections.reader() as reader:
                    yield _sqlite_file.changed_definitions(reader)
            for table in TABLES.values():
                ((last,),) = query(table.last, ())
                # A service that is restarted often gets to all rows if it begins anywhere.
                start = 0 if full else random.randint(0, last)
                yield from check_rows(query, table, start, last)
                yield from check_rows(query, table, 0, start)
        except apsw.Error as error:
            raise self._unavailable(error) from error

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
