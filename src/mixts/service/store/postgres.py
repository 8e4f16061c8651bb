"""Decisions in PostgreSQL, which several replicas share.

Correct at READ COMMITTED: every group locks the rows of its tasks first, in order, and unique keys
stand behind that. A connection that is lost is made anew at the next use.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from mixts.errors import MissingExtraError, StoreError, StoreUnavailableError
from mixts.service.store.backend import Backend, Row, TransactionConflictError, WouldWaitError
from mixts.service.store.postgres_schema import LOCK, MIGRATIONS
from mixts.service.store.postgres_transaction import PostgresTransaction

try:
    import psycopg
    import psycopg.conninfo
except ImportError as error:  # pragma: no cover - the extra is always there in tests
    raise MissingExtraError(
        "a store of decisions in PostgreSQL needs the extra 'postgres': "
        "pip install 'mixts[postgres]'"
    ) from error

CONNECT_SECONDS = 10

_SILENCE: dict[str, Any] = {
    "keepalives_idle": 15,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
"""A database that is silent for half a minute is away: libpq's own defaults wait for hours."""

MOST_IDLE = 8
"""Connections for readers that are kept while nobody reads."""

_WRONG_ROWS = (psycopg.IntegrityError, psycopg.DataError)
_CONFLICTS = (psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure)


class PostgresBackend(Backend):
    """A store in the schema ``mixts`` of a database; ``create`` makes it where there is none."""

    def __init__(self, url: str, *, create: bool = True) -> None:
        self._url = url
        self.name = shown(url)
        self._writer_id = uuid.uuid4().hex[:8]
        self._writer: psycopg.Connection[Row] | None = None
        self._idle: list[psycopg.Connection[Row]] = []
        self._lock = threading.Lock()
        self._closed = False
        try:
            with self._connect() as connection:
                self._prepare(connection, create)
        except psycopg.Error as error:
            raise StoreError(f"{self.name} cannot be used: {_first_line(error)}") from error

    def _connect(self) -> psycopg.Connection[Row]:
        connection = psycopg.connect(
            self._url, autocommit=True, connect_timeout=CONNECT_SECONDS, application_name="mixts",
            **_SILENCE,
        )  # fmt: skip
        connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
        # Durable means durable, and a lock may not wait for ever, whatever the server's defaults.
        connection.execute("SET synchronous_commit TO on")
        connection.execute("SET lock_timeout TO '10s'")
        connection.execute("SET search_path TO mixts")
        return connection

    def _prepare(self, connection: psycopg.Connection[Row], create: bool) -> None:
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
            row = connection.execute("SELECT to_regclass('mixts.schema_version')").fetchone()
            if row is None or row[0] is None:
                if not create:
                    raise StoreError(f"{self.name} has no store of decisions")
                connection.execute("CREATE SCHEMA IF NOT EXISTS mixts")
                connection.execute("CREATE TABLE schema_version (version BIGINT PRIMARY KEY)")
            row = connection.execute("SELECT MAX(version) FROM schema_version").fetchone()
            version = int(row[0]) if row is not None and row[0] is not None else 0
            if version > len(MIGRATIONS):
                raise StoreError(
                    f"{self.name} has version {version} of the tables, this mixts knows up to "
                    f"{len(MIGRATIONS)}: upgrade mixts"
                )
            for step in MIGRATIONS[version:]:
                connection.execute(step)
            if version < len(MIGRATIONS):
                connection.execute("INSERT INTO schema_version VALUES (%s)", (len(MIGRATIONS),))

    # -- writing ------------------------------------------------------------------------------

    @contextmanager
    def transaction(self, *, wait: bool = True) -> Iterator[PostgresTransaction]:
        if not wait:
            raise WouldWaitError(f"{self.name} is a server")
        try:
            if self._closed:
                raise StoreError(f"{self.name} is closed")
            if self._writer is None or self._writer.closed:
                self._writer = self._connect()
            with self._writer.transaction():
                yield PostgresTransaction(self._writer, self._writer_id)
        except _CONFLICTS as error:
            raise TransactionConflictError(_first_line(error)) from error
        except _WRONG_ROWS:
            raise  # ours to answer for, and no reason to call the database away
        except psycopg.Error as error:
            self._drop_writer()
            raise StoreUnavailableError(_refused(self.name, error)) from error

    def _drop_writer(self) -> None:
        """After any failure begin with a fresh connection: the old one may be half dead."""
        writer, self._writer = self._writer, None
        if writer is not None:
            with suppress(psycopg.Error):
                writer.close()

    def probe(self) -> None:
        with self.transaction() as transaction:
            transaction.mark()

    # -- reading ------------------------------------------------------------------------------

    def query(self, sql: str, parameters: Sequence[Any] = ()) -> list[Row]:
        statement = placeholders(sql)
        for attempt in (1, 2):
            connection, is_new = self._take()
            try:
                rows = connection.execute(statement, tuple(parameters)).fetchall()
            except psycopg.Error as error:
                with suppress(psycopg.Error):
                    connection.close()
                # One that was idle may have died long ago, unnoticed: once more with a new one.
                if is_new or attempt == 2 or not isinstance(error, psycopg.OperationalError):
                    raise StoreUnavailableError(_refused(self.name, error)) from error
                self._forget_idle()
                continue
            self._give_back(connection)
            return rows
        raise AssertionError("unreachable")

    def scan(self, sql: str, parameters: Sequence[Any] = ()) -> Iterator[Row]:
        try:
            with (
                self._connect() as connection,
                connection.transaction(),
                connection.cursor("mixts_scan") as cursor,
            ):
                cursor.itersize = 10_000
                cursor.execute(placeholders(sql), tuple(parameters))
                yield from cursor
        except psycopg.Error as error:
            raise StoreUnavailableError(_refused(self.name, error)) from error

    def _take(self) -> tuple[psycopg.Connection[Row], bool]:
        """A connection for one read, and whether it is new."""
        with self._lock:
            if self._closed:
                raise StoreError(f"{self.name} is closed")
            if self._idle:
                return self._idle.pop(), False
        try:
            return self._connect(), True
        except psycopg.Error as error:
            raise StoreUnavailableError(_refused(self.name, error)) from error

    def _give_back(self, connection: psycopg.Connection[Row]) -> None:
        with self._lock:
            if not self._closed and len(self._idle) < MOST_IDLE:
                self._idle.append(connection)
                return
        connection.close()

    def _forget_idle(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            with suppress(psycopg.Error):
                connection.close()

    def close(self) -> None:
        with self._lock:
            self._closed = True
        self._drop_writer()
        self._forget_idle()


def placeholders(sql: str) -> str:
    """A statement with ``?`` for parameters as psycopg has it; none has either sign in a text."""
    return sql.replace("%", "%%").replace("?", "%s")


def shown(url: str) -> str:
    """An address without anything secret, wherever in it that may be."""
    try:
        known = psycopg.conninfo.conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        # Its message may quote what it could not read, a password among it.
        raise StoreError(
            "the address of the database cannot be read: expected "
            "postgresql://user:password@host:port/name, with special characters percent-encoded"
        ) from None
    user = f"{known['user']}@" if known.get("user") else ""
    port = f":{known['port']}" if known.get("port") else ""
    return f"postgresql://{user}{known.get('host', '')}{port}/{known.get('dbname', '')}"


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__


def _refused(name: str, error: Exception) -> str:
    reason = "the database refuses"
    if isinstance(error, psycopg.errors.DiskFull):
        reason = "the disk is full"
    elif isinstance(error, psycopg.OperationalError):
        reason = "the database cannot be reached, or is in trouble"
    return f"{name}: {reason} ({_first_line(error)}); nothing was acknowledged"
