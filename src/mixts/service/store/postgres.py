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
from urllib.parse import urlsplit, urlunsplit

from mixts.errors import MissingExtraError, StoreError, StoreUnavailableError
from mixts.service.store.backend import Backend, Row, TransactionConflictError
from mixts.service.store.postgres_schema import LOCK, MIGRATIONS
from mixts.service.store.postgres_transaction import PostgresTransaction

try:
    import psycopg
except ImportError as error:  # pragma: no cover - the extra is always there in tests
    raise MissingExtraError(
        "a store of decisions in PostgreSQL needs the extra 'postgres': "
        "pip install 'mixts[postgres]'"
    ) from error

SCHEMA = "mixts"
"""Where the tables are: beside those of others, in one database."""

CONNECT_SECONDS = 10

_CONFLICTS = (psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure)


class PostgresBackend(Backend):
    """A store in the schema ``mixts`` of a database."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.name = without_password(url)
        self._writer_id = uuid.uuid4().hex[:8]
        self._writer: psycopg.Connection[Row] | None = None
        self._local = threading.local()
        self._readers: list[psycopg.Connection[Row]] = []
        self._lock = threading.Lock()
        self._closed = False
        try:
            with self._connect() as connection:
                self._prepare(connection)
        except psycopg.Error as error:
            raise StoreError(f"{self.name} cannot be used: {_first_line(error)}") from error

    def _connect(self) -> psycopg.Connection[Row]:
        connection = psycopg.connect(
            self._url, autocommit=True, connect_timeout=CONNECT_SECONDS, application_name="mixts",
            keepalives_idle=30,
        )  # fmt: skip
        # Durable means durable, and a lock may not wait for ever, whatever the server's defaults.
        connection.execute("SET synchronous_commit TO on")
        connection.execute("SET lock_timeout TO '10s'")
        connection.execute("SET search_path TO mixts")
        return connection

    def _prepare(self, connection: psycopg.Connection[Row]) -> None:
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
            connection.execute("CREATE SCHEMA IF NOT EXISTS mixts")
            connection.execute(
                "CREATE TABLE IF NOT EXISTS schema_version (version BIGINT PRIMARY KEY)"
            )
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
    def transaction(self) -> Iterator[PostgresTransaction]:
        try:
            if self._writer is None or self._writer.closed:
                self._writer = self._connect()
            with self._writer.transaction():
                yield PostgresTransaction(self._writer, self._writer_id)
        except _CONFLICTS as error:
            raise TransactionConflictError(str(error)) from error
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
            connection = self._reader()
            try:
                return connection.execute(statement, tuple(parameters)).fetchall()
            except psycopg.OperationalError as error:
                # The connection may have died long ago, unnoticed: once more with a new one.
                self._local.connection = None
                with suppress(psycopg.Error):
                    connection.close()
                if attempt == 2:
                    raise StoreUnavailableError(_refused(self.name, error)) from error
            except psycopg.Error as error:
                raise StoreUnavailableError(_refused(self.name, error)) from error
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

    def _reader(self) -> psycopg.Connection[Row]:
        """A connection of this thread's own."""
        connection: psycopg.Connection[Row] | None = getattr(self._local, "connection", None)
        if connection is None or connection.closed:
            try:
                connection = self._connect()
            except psycopg.Error as error:
                raise StoreUnavailableError(_refused(self.name, error)) from error
            with self._lock:
                if self._closed:
                    connection.close()
                    raise StoreError(f"{self.name} is closed")
                self._readers = [r for r in self._readers if not r.closed] + [connection]
            self._local.connection = connection
        return connection

    def close(self) -> None:
        with self._lock:
            self._closed = True
        self._drop_writer()
        for connection in self._readers:
            with suppress(psycopg.Error):
                connection.close()


def placeholders(sql: str) -> str:
    """A statement with ``?`` for parameters as psycopg has it; none has either sign in a text."""
    return sql.replace("%", "%%").replace("?", "%s")


def without_password(url: str) -> str:
    """An address that may be shown."""
    parts = urlsplit(url)
    if parts.password is None:
        return url
    return urlunsplit(parts._replace(netloc=parts.netloc.replace(f":{parts.password}@", ":***@")))


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__


def _refused(name: str, error: Exception) -> str:
    reason = "the database refuses"
    if isinstance(error, psycopg.errors.DiskFull):
        reason = "the disk is full"
    elif isinstance(error, psycopg.OperationalError):
        reason = "the database cannot be reached, or is in trouble"
    return f"{name}: {reason} ({_first_line(error)}); nothing was acknowledged"
