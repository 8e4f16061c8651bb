"""The connections to a PostgreSQL database: their time limits, and what becomes of those that hang.

A database may hang instead of failing: its machine or its process is stopped, or a firewall drops
packets. Limits inside the server do not help then, nor does TCP while the machine still confirms
what it receives. So ``watch``, which another thread calls, breaks connections that have waited for
too long; the waiting thread then gets an error.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any

from mixts.errors import MissingExtraError, StoreError, StoreUnavailableError
from mixts_serve.store.tables import Row

try:
    import psycopg
    import psycopg.conninfo
except ImportError as error:  # pragma: no cover - the extra is always there in tests
    raise MissingExtraError(
        "a store of decisions in PostgreSQL needs the extra 'postgres': "
        "pip install 'mixts-serve[postgres]'"
    ) from error

Connection = psycopg.Connection[Row]

CONNECT_SECONDS = 5

LOCK_SECONDS = 10
"""Time to wait while another transaction, such as a rebuild, locks a whole table."""

BRIEF_LOCK_MS = 250
"""Time that a batch waits for tasks that others have locked, before it leaves them out.

Ten times as long as a batch of another replica usually takes.
"""

WRITE_SECONDS = 10
"""Longest statement of a batch."""

IDLE_SECONDS = 30
"""Longest pause within a transaction, after which the server ends it: other replicas can then have
its tasks."""

TRANSACTION_SECONDS = 2 * IDLE_SECONDS
"""Longest transaction of a batch, which servers before version 17 do not limit."""

READ_SECONDS = 30
"""Longest read of a page or a metric."""

GRACE_SECONDS = 2
"""Time after which the connection is broken if the server does not keep its limits."""

MOST_IDLE = 8
"""Most idle connections that are kept for readers."""

_TIMEOUTS: dict[str, Any] = {
    "keepalives_idle": 15,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
}
"""Drop a connection when the server's machine is silent; libpq's default is hours."""

_HAS_TRANSACTION_TIMEOUT = 170_000
"""Version of the server."""


def write_limits(connection: Connection) -> dict[str, int]:
    """Return the server's limits for a connection that writes, in milliseconds."""
    limits = {
        "statement_timeout": WRITE_SECONDS * 1000,
        "idle_in_transaction_session_timeout": IDLE_SECONDS * 1000,
    }
    if connection.info.server_version >= _HAS_TRANSACTION_TIMEOUT:
        limits["transaction_timeout"] = TRANSACTION_SECONDS * 1000
    return limits


class ServerConnections:
    """The connections to one database: one writer, and a pool of readers."""

    def __init__(self, url: str, name: str) -> None:
        self._url = url
        self._name = name
        self._writer: Connection | None = None
        self._idle: list[Connection] = []
        self._connecting_since: float | None = None
        """Since when the writer has been waiting for a new connection."""
        self._waiting: dict[Connection, tuple[float, float]] = {}
        """Connections that wait for the server, since when and until when."""
        self._lock = threading.Lock()
        self._closed = False

    def connect(self, **limits: int) -> Connection:
        """Open a connection, with limits of the server in milliseconds."""
        connection = psycopg.connect(
            self._url, autocommit=True, connect_timeout=CONNECT_SECONDS, application_name="mixts",
            **_TIMEOUTS,
        )  # fmt: skip
        connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
        # Do not rely on the server's defaults: sync every commit, and limit the wait for locks.
        settings: dict[str, Any] = {"synchronous_commit": "on", "search_path": "mixts"}
        settings |= {"lock_timeout": LOCK_SECONDS * 1000} | limits
        with self.watched(connection, CONNECT_SECONDS):
            connection.execute("; ".join(f"SET {n} TO {v}" for n, v in settings.items()))
        return connection

    def check_open(self) -> None:
        """Raise ``StoreError`` if the connections were closed."""
        if self._closed:
            raise StoreError(f"{self._name} is closed")

    # -- writing ------------------------------------------------------------------------------

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """Lend the connection of the writer, for one transaction."""
        self.check_open()
        if self._writer is None or self._writer.closed:
            self._writer = self._connect_writer()
        transaction = self._writer.transaction()
        with self.writing():
            transaction.__enter__()
        try:
            yield self._writer
        except BaseException as error:
            with self.writing():
                transaction.__exit__(type(error), error, error.__traceback__)
            raise
        with self.writing():
            transaction.__exit__(None, None, None)

    def _connect_writer(self) -> Connection:
        self._connecting_since = time.monotonic()
        try:
            writer = self.connect(lock_timeout=BRIEF_LOCK_MS)
            for name, milliseconds in write_limits(writer).items():
                writer.execute(f"SET {name} TO {milliseconds}")
            return writer
        finally:
            self._connecting_since = None

    def writing(self) -> AbstractContextManager[None]:
        """Watch one call of the database by the writer."""
        assert self._writer is not None
        return self.watched(self._writer, WRITE_SECONDS + GRACE_SECONDS)

    def drop_writer(self) -> None:
        """Close the writer's connection after a failure, since it may be broken."""
        writer, self._writer = self._writer, None
        if writer is not None:
            with suppress(psycopg.Error):
                writer.close()

    # -- reading ------------------------------------------------------------------------------

    def read(self, statement: str, parameters: tuple[Any, ...]) -> list[Row]:
        """Return the rows of one statement."""
        for attempt in (1, 2):
            connection, is_new = self._borrow()
            try:
                with self.watched(connection, READ_SECONDS + GRACE_SECONDS):
                    rows = connection.execute(statement, parameters).fetchall()
            except psycopg.Error as error:
                with suppress(psycopg.Error):
                    connection.close()
                # The server may have closed an idle connection: retry once with a new one.
                lost = isinstance(error, psycopg.OperationalError) and error.sqlstate is None
                if is_new or attempt == 2 or not lost:
                    raise
                self._close_idle()
                continue
            self._give_back(connection)
            return rows
        raise AssertionError("unreachable")

    def _borrow(self) -> tuple[Connection, bool]:
        """Return a connection for one read, and whether it is new."""
        with self._lock:
            self.check_open()
            if self._idle:
                return self._idle.pop(), False
        return self.connect(statement_timeout=READ_SECONDS * 1000), True

    def _give_back(self, connection: Connection) -> None:
        with self._lock:
            if not self._closed and len(self._idle) < MOST_IDLE:
                self._idle.append(connection)
                return
        connection.close()

    def _close_idle(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            with suppress(psycopg.Error):
                connection.close()

    # -- connections that hang ----------------------------------------------------------------

    @contextmanager
    def watched(self, connection: Connection, seconds: float) -> Iterator[None]:
        """Break the connection if the ``with`` block takes longer than this."""
        before = self._waiting.get(connection)
        now = time.monotonic()
        with self._lock:
            self._waiting[connection] = (now, now + seconds)
        try:
            yield
        finally:
            with self._lock:
                if before is None:
                    self._waiting.pop(connection, None)
                else:
                    self._waiting[connection] = before

    def watch(self) -> float:
        """Break connections that have waited for too long; return how long the writer has."""
        now, longest = time.monotonic(), 0.0
        with self._lock:  # so that no connection is closed meanwhile, and its number used again
            for connection, (since, until) in self._waiting.items():
                if connection is self._writer:
                    longest = now - since
                if now > until:
                    _break(connection)
        connecting = self._connecting_since
        return longest if connecting is None else max(longest, now - connecting)

    def close(self) -> None:
        """Close all connections."""
        with self._lock:
            self._closed = True
        self.drop_writer()
        self._close_idle()


def _break(connection: Connection) -> None:
    """Make every call that waits for the server fail."""
    with suppress(OSError, psycopg.Error):
        end = socket.socket(fileno=connection.fileno())
        try:
            end.shutdown(socket.SHUT_RDWR)
        finally:
            end.detach()


def first_line(error: Exception) -> str:
    """Return the first line of the database's message."""
    return str(error).strip().partition("\n")[0] or type(error).__name__


def unavailable(name: str, error: Exception) -> StoreUnavailableError:
    """Return the error for a database that cannot be used."""
    reason = "the database refuses"
    if isinstance(error, psycopg.errors.DiskFull):
        reason = "the disk is full"
    elif isinstance(error, psycopg.errors.LockNotAvailable):
        reason = "another program keeps the tables locked"
    elif isinstance(error, psycopg.OperationalError):
        reason = "the database cannot be reached, or is in trouble"
    return StoreUnavailableError(
        f"{name}: {reason} ({first_line(error)}); nothing was acknowledged"
    )
