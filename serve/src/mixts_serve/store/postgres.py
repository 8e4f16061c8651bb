"""A store of decisions in PostgreSQL, which several replicas of the service may share.

The isolation level READ COMMITTED is enough: every batch first locks the rows of its tasks, in
order, and unique indices reject rows that must not come twice. The store replaces a lost connection
at the next use.

A transaction waits for locks of others only briefly. If it waits in vain, the batch is repeated
with the tasks that are free, and for some seconds all batches leave out tasks that are locked.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from operator import attrgetter
from typing import Any

from mixts.errors import StoreError, TaskLockedError
from mixts_serve.records import Deployment, TaskEntry, WaitingDecision
from mixts_serve.store import tables
from mixts_serve.store._postgres_connections import (
    LOCK_SECONDS,
    TRANSACTION_SECONDS,
    ServerConnections,
    first_line,
    unavailable,
    write_limits,
)
from mixts_serve.store.base import WAITING, Backend, Transaction, TransactionConflictError

import psycopg  # isort: skip  # the module above explains how to install it

SKIP_SECONDS = 5.0
"""Time for which batches leave out locked tasks after one has waited for locks in vain."""

OTHER_LOCK_MS = 1000
"""Time that such a batch waits for locks of anything else."""

_MOMENT_MS = 50
"""Time that such a batch waits to create a task or an action set."""
_PAUSES = (0.01, 0.02, 0.02)
"""Seconds between attempts to lock the other tasks: a replica at work soon unlocks its own."""

_CREATE_SECONDS = 0.25
"""Time to find out which new tasks another writer is just creating."""

_TABLE_BYTES = (
    "SELECT COALESCE(SUM(pg_total_relation_size(c.oid)), 0) FROM pg_class c "
    "JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'mixts' AND c.relkind = 'r'"
)

_CLOCK = "SELECT (EXTRACT(EPOCH FROM clock_timestamp()) * 1000000)::bigint"
"""The server's clock: replicas on machines whose clocks are wrong agree when windows end."""

_INVALID_ROWS = (psycopg.IntegrityError, psycopg.DataError)
_CONFLICTS = (
    psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure,
    psycopg.errors.ForeignKeyViolation,  # a set of actions was removed, or is chosen from again
)  # fmt: skip

LOCK = 0x4D695854
"""Advisory lock that lets only one of several starting replicas create the tables."""

DIALECT = tables.Dialect(
    {int: "BIGINT", float: "DOUBLE PRECISION", str: "TEXT", bytes: "BYTEA"},
    "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
)

# -- a transaction --------------------------------------------------------------------------------

# Sort the names: two replicas that create the same tasks wait for each other, but never deadlock.
_NEW_TASKS = (
    f"INSERT INTO tasks ({', '.join(tables.TASKS.columns)}) "
    "SELECT {} FROM unnest(?::text[]) AS wanted (name) "
    "WHERE NOT EXISTS (SELECT 1 FROM tasks t WHERE t.name = wanted.name) ORDER BY wanted.name "
    "ON CONFLICT (name) DO NOTHING"
).format(
    ", ".join(
        "wanted.name" if name == "name" else f"?::{DIALECT.types[tables.TASKS.types[name][0]]}"
        for name in tables.TASKS.columns
    )
)
_LOCK_TASKS = f"{tables.TASK.sql} WHERE name = ANY(?) OR number = ANY(?) ORDER BY number FOR UPDATE"
_LOCK_UNLOCKED_TASKS = _LOCK_TASKS + " SKIP LOCKED"
_WANTED = "unnest(?::bigint[]) AS wanted (task) CROSS JOIN LATERAL"
_WAITING = (
    WAITING.format(source=_WANTED, task="wanted.task", window="?::bigint") + " ORDER BY d.seq"
)
_NEW_ACTION_SET = f"{tables.ACTION_SETS.insert()} ON CONFLICT (digest) DO NOTHING"


@lru_cache(256)
def placeholders(sql: str) -> str:
    """Convert ``?`` to psycopg's placeholders; no statement has ``?`` or ``%`` in a string."""
    return sql.replace("%", "%%").replace("?", "%s")


def _new_task(now: int) -> tables.Row:
    """Return the values of a new task, but its name."""
    values = zip(tables.TASKS.columns, tables.TASKS.values(TaskEntry(0, "", now, now)), strict=True)
    return tuple(value for name, value in values if name != "name")


class PostgresTransaction(Transaction):
    """A transaction that locks the rows of its tasks.

    Its methods read and write whole batches, to save round trips to the server.
    """

    def __init__(
        self, connection: psycopg.Connection[tables.Row], backend: PostgresBackend, skips: bool
    ) -> None:
        self._connection = connection
        self._backend = backend
        self.writer = backend.writer_id
        self._skips = skips
        """True if the transaction leaves out tasks that are locked, instead of waiting."""
        self._locked_sets: set[bytes] = set()
        self.has_tasks = False
        """True if a transaction that skips has locked the tasks that are free."""

    def _run(self, sql: str, parameters: Sequence[Any] = ()) -> psycopg.Cursor[tables.Row]:
        with self._backend.connections.writing():
            return self._connection.execute(placeholders(sql), tuple(parameters))

    def _execute(self, sql: str, parameters: Sequence[Any] = ()) -> list[tables.Row]:
        cursor = self._run(sql, parameters)
        return [] if cursor.description is None else cursor.fetchall()

    def _execute_where(
        self, sql: str, columns: tuple[str, ...], keys: Sequence[tables.Row], end: str = ""
    ) -> list[tables.Row]:
        lists = [list(values) for values in zip(*keys, strict=True)] or [[] for _ in columns]
        condition = f"{columns[0]} = ANY(?)"
        if len(columns) > 1:
            arrays = ", ".join("?::text[]" for _ in columns)
            condition = f"({', '.join(columns)}) IN (SELECT * FROM unnest({arrays}))"
        return self._execute(f"{sql} WHERE {condition}{end}", lists)

    def _execute_each(self, sql: str, rows: Sequence[tables.Row]) -> None:
        if rows:
            with self._backend.connections.writing(), self._connection.cursor() as cursor:
                cursor.executemany(placeholders(sql), rows)

    def _append(self, table: tables.Table, records: Sequence[Any]) -> None:
        self._execute_each(table.insert(), [table.values(record) for record in records])

    def _update(
        self, table: tables.Table, columns: tuple[str, ...], records: Sequence[Any]
    ) -> None:
        values = attrgetter(*columns, str(table.key))
        self._execute_each(table.update(*columns), [values(record) for record in records])

    FOR_UPDATE = " ORDER BY t.number FOR UPDATE"

    def _among(self, numbers: Sequence[int]) -> tuple[str, Any]:
        return "= ANY(?::bigint[])", list(numbers)

    @contextmanager
    def _together(self) -> Iterator[None]:
        with self._backend.connections.writing(), self._connection.pipeline():
            yield

    def now_us(self) -> int:
        return int(self._one(_CLOCK))

    def is_deployed(self, deployment: Deployment) -> bool:
        return self.deployment() == deployment

    def lock_tasks(
        self, names: Sequence[str], numbers: Sequence[int], now: int
    ) -> tuple[list[TaskEntry], int]:
        if self._skips:
            return self._lock_unlocked_tasks(names, numbers, now)
        n_new = 0
        if names:
            n_new = self._run(_NEW_TASKS, (*_new_task(now), list(names))).rowcount
        rows = self._execute(_LOCK_TASKS, (list(names), list(numbers)))
        entries = [tables.TASK.read(row) for row in rows]
        found = {entry.name for entry in entries} | {entry.number for entry in entries}
        if not found.issuperset(names) or not found.issuperset(numbers):
            raise TransactionConflictError("a task was erased")
        return entries, n_new

    def _lock_unlocked_tasks(
        self, names: Sequence[str], numbers: Sequence[int], now: int
    ) -> tuple[list[TaskEntry], int]:
        """Lock the tasks that no other writer has locked for longer than a moment."""
        left_names, left_numbers = set(names), set(numbers)
        entries: list[TaskEntry] = []

        def lock() -> None:
            # This waits for locks of whole tables only.
            wanted = list(left_names), list(left_numbers)
            rows = self._execute(_LOCK_UNLOCKED_TASKS, wanted)
            for row in rows:
                entries.append(tables.TASK.read(row))
                left_names.discard(entries[-1].name)
                left_numbers.discard(entries[-1].number)

        lock()
        n_new = self._create_tasks(sorted(left_names), now) if left_names else 0
        for wait in (0.0, *_PAUSES):
            if left_names or left_numbers:
                time.sleep(wait)
                lock()
        self._execute(f"SET LOCAL lock_timeout TO '{OTHER_LOCK_MS}ms'")
        self.has_tasks = True
        if left_names or left_numbers:
            self._backend.note_locks()
        # A name and a number may belong to the same task.
        return list({entry.number: entry for entry in entries}.values()), n_new

    def _create_tasks(self, names: list[str], now: int) -> int:
        """Create missing tasks, except those that another writer is just creating."""
        together = self._unless_locked(_NEW_TASKS, (*_new_task(now), names))
        if together is not None:
            return together.rowcount
        n_new, until = 0, time.monotonic() + _CREATE_SECONDS
        for name in names:
            if time.monotonic() > until:
                break
            alone = self._unless_locked(_NEW_TASKS, (*_new_task(now), [name]))
            n_new += 0 if alone is None else alone.rowcount
        return n_new

    def _unless_locked(self, sql: str, parameters: Any) -> psycopg.Cursor[tables.Row] | None:
        """Execute a statement; return None if it would have to wait for another transaction."""
        try:
            with self._connection.transaction():  # a savepoint
                self._execute(f"SET LOCAL lock_timeout TO '{_MOMENT_MS}ms'")
                cursor = self._run(sql, parameters)
                # SET LOCAL outlives a savepoint that is not rolled back.
                self._execute(f"SET LOCAL lock_timeout TO '{OTHER_LOCK_MS}ms'")
                return cursor
        except psycopg.errors.LockNotAvailable:
            return None

    def find_waiting(
        self, tasks: Mapping[int, int], last: int, now: int, window: int
    ) -> list[WaitingDecision]:
        rows = self._execute(_WAITING, (list(tasks), last, window, now))
        return [WaitingDecision(*row) for row in rows]

    def action_set(self, digest: bytes, actions: tables.ActionSet) -> int:
        # If another replica is adding the same set, the INSERT waits, and then the SELECT finds it.
        find = "SELECT number FROM action_sets WHERE digest = ?"
        number = self._one(find, digest)
        if number is None and not self._skips:
            self._execute(_NEW_ACTION_SET, tables.ACTION_SETS.values(actions))
            number = self._one(find, digest)
        elif number is None and digest not in self._locked_sets:
            self._unless_locked(_NEW_ACTION_SET, tables.ACTION_SETS.values(actions))
            number = self._one(find, digest)
        if number is None:
            self._locked_sets.add(digest)
            self._backend.note_locks()
            raise TaskLockedError(
                "another writer is storing the same actions and does not finish: nothing was "
                "changed; try again later"
            )
        return int(number)

    def take_time(self) -> None:
        for name in write_limits(self._connection):
            self._execute(f"SET LOCAL {name} TO 0")

    def freeze(self) -> None:
        self.take_time()  # a rebuild takes as long as it takes
        self._execute(f"SET LOCAL lock_timeout TO '{LOCK_SECONDS}s'")
        self._execute("LOCK TABLE tasks IN EXCLUSIVE MODE")

    def shape(self) -> str | None:
        # Create the row if it is missing: replicas that start together must lock the same row.
        self._execute(
            "INSERT INTO meta (name, value) VALUES ('shape', '') ON CONFLICT (name) DO NOTHING"
        )
        value = self._one("SELECT value FROM meta WHERE name = 'shape' FOR UPDATE")
        return str(value) or None


# -- the database ---------------------------------------------------------------------------------


class PostgresBackend(Backend):
    """The schema ``mixts`` of a database; with ``create``, made if it is missing."""

    database = "PostgreSQL"
    settle_us = TRANSACTION_SECONDS * 1_000_000
    """Replicas number their rows before they commit, and commit in another order."""

    def __init__(self, url: str, *, create: bool = True) -> None:
        super().__init__()
        self.name = without_secrets(url)
        self.connections = ServerConnections(url, self.name)
        self.writer_id = uuid.uuid4().hex[:8]
        self._skip_until = 0.0
        try:
            with self.connections.connect() as connection:
                self._prepare(connection, create)
        except psycopg.Error as error:
            raise StoreError(f"{self.name} cannot be used: {first_line(error)}") from error

    def _prepare(self, connection: psycopg.Connection[tables.Row], create: bool) -> None:
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
            row = connection.execute("SELECT to_regclass('mixts.schema_version')").fetchone()
            if row is None or row[0] is None:
                if not create:
                    raise StoreError(f"{self.name} has no store of decisions")
                self._create_tables(connection)
            row = connection.execute("SELECT MAX(version) FROM schema_version").fetchone()
            if row is None or row[0] != tables.SCHEMA_VERSION:
                raise StoreError(
                    f"{self.name} has version {row and row[0]} of the tables, and this mixts uses "
                    f"version {tables.SCHEMA_VERSION}: open it with the mixts that made it, or "
                    "choose another database"
                )

    def _create_tables(self, connection: psycopg.Connection[tables.Row]) -> None:
        connection.execute("CREATE SCHEMA IF NOT EXISTS mixts")
        connection.execute("CREATE TABLE schema_version (version BIGINT PRIMARY KEY)")
        for table in tables.TABLES:
            for statement in table.create(DIALECT):
                connection.execute(statement)
        connection.execute("INSERT INTO schema_version VALUES (%s)", (tables.SCHEMA_VERSION,))

    # -- writing ------------------------------------------------------------------------------

    @contextmanager
    def _transaction(self, wait: bool) -> Iterator[PostgresTransaction]:
        skips, transaction = time.monotonic() < self._skip_until, None
        try:
            with self.connections.transaction() as connection:
                if skips:
                    connection.execute(f"SET LOCAL lock_timeout TO '{LOCK_SECONDS}s'")
                transaction = PostgresTransaction(connection, self, skips)
                yield transaction
        except psycopg.errors.LockNotAvailable as error:
            self.note_locks()
            if not skips:
                raise TransactionConflictError(first_line(error)) from error
            if transaction is not None and transaction.has_tasks:
                raise TaskLockedError(
                    f"{self.name}: another program keeps rows locked that this operation needs "
                    f"({first_line(error)}); nothing was changed"
                ) from error
            raise unavailable(self.name, error) from error
        except _CONFLICTS as error:
            raise TransactionConflictError(first_line(error)) from error
        except _INVALID_ROWS:
            raise  # an error in this code; the database works
        except psycopg.Error as error:
            self.connections.drop_writer()
            raise unavailable(self.name, error) from error

    def note_locks(self) -> None:
        """Leave out tasks that are locked, for a while."""
        self._skip_until = time.monotonic() + SKIP_SECONDS

    def watch(self) -> float:
        return self.connections.watch()

    def probe(self) -> None:
        with self.transaction() as transaction:
            transaction.mark()

    # -- reading ------------------------------------------------------------------------------

    def query(self, sql: str, parameters: Sequence[Any] = ()) -> list[tables.Row]:
        try:
            return self.connections.read(placeholders(sql), tuple(parameters))
        except psycopg.Error as error:
            raise unavailable(self.name, error) from error

    def scan(self, sql: str, parameters: Sequence[Any] = ()) -> Iterator[tables.Row]:
        try:
            with (
                self.connections.connect() as connection,
                connection.transaction(),
                connection.cursor("mixts_scan") as cursor,
            ):
                cursor.itersize = 10_000
                cursor.execute(placeholders(sql), tuple(parameters))
                yield from cursor
        except psycopg.Error as error:
            raise unavailable(self.name, error) from error

    def now_us(self) -> int:
        ((now,),) = self.query(_CLOCK)
        return int(now)

    def schema_version(self) -> int:
        ((version,),) = self.query("SELECT MAX(version) FROM schema_version")
        return int(version)

    def n_bytes(self) -> int:
        ((size,),) = self.query(_TABLE_BYTES)
        return int(size)

    def close(self) -> None:
        self.connections.close()


def without_secrets(url: str) -> str:
    """Return the address of a database without its password and other secrets."""
    try:
        parts = psycopg.conninfo.conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        # psycopg's message may quote the address with its password.
        raise StoreError(
            "the address of the database cannot be read: expected "
            "postgresql://user:password@host:port/name, with special characters percent-encoded"
        ) from None
    user = f"{parts['user']}@" if parts.get("user") else ""
    port = f":{parts['port']}" if parts.get("port") else ""
    return f"postgresql://{user}{parts.get('host', '')}{port}/{parts.get('dbname', '')}"
