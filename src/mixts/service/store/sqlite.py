"""Decisions in a SQLite file: WAL, every commit synced, one writer.

apsw brings its own SQLite: the system's may be one of those (3.7.0 to 3.51.2) that can lose a
commit when a write-ahead log is reset.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from mixts.errors import MissingExtraError, StoreError, StoreUnavailableError
from mixts.service.store.backend import Backend, Row

try:
    import apsw
except ImportError as error:  # pragma: no cover - the extra is always there in tests
    raise MissingExtraError(
        "a store of decisions in a SQLite file needs the extra 'serve': pip install 'mixts[serve]'"
    ) from error

from mixts.service.store import sqlite_file
from mixts.service.store.sqlite_transaction import SQLiteTransaction

log = logging.getLogger("mixts.service")

BUSY_SECONDS = 10
"""How long to wait for another process that writes to the same file."""

CHECKPOINT_PAGES = 2_000
"""Pages of the write-ahead log that are moved into the file at a time, beside the writer."""

RESET_PAGES = 16_000
"""From here on the writer itself waits for a whole checkpoint, so that the log starts anew."""

RESET_SECONDS = 0.1
"""How long it waits for those who still read the old log; then the log grows on."""


class SQLiteBackend(Backend):
    """A store in one file (and, while it is open, its ``-wal`` and ``-shm``)."""

    def __init__(
        self, path: str | os.PathLike[str], *, vfs: str | None = None, synchronous: str = "FULL"
    ) -> None:
        self.path = Path(path).absolute()
        self.name = str(path)
        self._vfs = vfs
        self._local = threading.local()
        self._readers: list[Any] = []
        self._lock = threading.Lock()
        self._closed = False
        self._writer = self._open()
        self._writer.pragma("synchronous", synchronous)
        self._writer.set_wal_hook(self._after_commit)
        self._identity = _identity(self.path)
        self._wal_pages = 0
        self._reset_above = RESET_PAGES
        self._moving = threading.Lock()
        """Held by whoever moves pages of the log into the file."""
        self._move_failure: str | None = None
        self._wanted = threading.Event()
        self._checkpointer = threading.Thread(
            target=self._checkpoints, name="mixts-checkpoints", daemon=True
        )
        self._checkpointer.start()

    # -- opening ------------------------------------------------------------------------------

    def _open(self) -> Any:
        try:
            if not sqlite_file.look_at(self.path):
                sqlite_file.create(self.path, self._vfs)
            connection = self._connect()
            try:
                sqlite_file.check(connection, self.path)
                sqlite_file.use_log(connection, self.path)
                sqlite_file.migrate(connection, self.path)
                connection.pragma("wal_autocheckpoint", 0)
                connection.pragma("cache_size", -65536)
            except BaseException:
                with suppress(apsw.Error):
                    connection.close()
                raise
        except apsw.Error as error:
            raise sqlite_file.refusal(self.path, error) from error
        return connection

    def _connect(self, *, read_only: bool = False) -> Any:
        """To the file that is there: it is never made here."""
        flags = apsw.SQLITE_OPEN_READONLY if read_only else apsw.SQLITE_OPEN_READWRITE
        connection = apsw.Connection(str(self.path), flags=flags, vfs=self._vfs)
        connection.set_busy_timeout(BUSY_SECONDS * 1000)
        return connection

    # -- writing ------------------------------------------------------------------------------

    @contextmanager
    def transaction(self) -> Iterator[SQLiteTransaction]:
        if _identity(self.path) != self._identity:
            raise StoreUnavailableError(
                f"{self.name} was removed or replaced while it was open: bring it back, or start "
                "anew; nothing was acknowledged"
            )
        if self._wal_pages > self._reset_above:
            self._start_log_anew()
        execute = self._writer.execute
        try:
            execute("BEGIN IMMEDIATE")
            try:
                yield SQLiteTransaction(self._writer)
                # Where the sync of a commit fails, the next one writes the same part of the log
                # anew: nothing rests on pages that the system may have dropped.
                execute("COMMIT")
            except BaseException:
                with suppress(apsw.Error):
                    execute("ROLLBACK")
                raise
        except apsw.Error as error:
            raise StoreUnavailableError(_refused(self.name, error)) from error

    def probe(self) -> None:
        with self.transaction() as transaction:
            transaction.mark()

    # -- the log ------------------------------------------------------------------------------

    def _after_commit(self, connection: Any, name: str, pages: int) -> int:
        self._wal_pages = pages
        if pages > CHECKPOINT_PAGES:
            self._wanted.set()
        if pages < RESET_PAGES:
            self._reset_above = RESET_PAGES
        return apsw.SQLITE_OK

    def _checkpoints(self) -> None:
        """Move pages into the file beside the writer, so that commits stay short."""
        connection: Any = None
        while True:
            self._wanted.wait()
            self._wanted.clear()
            if self._closed:
                break
            try:
                connection = connection or self._connect()
                # Before it has looked into the file, it knows of no log that it could move.
                sqlite_file.use_log(connection, self.path)
                self._move(connection, apsw.SQLITE_CHECKPOINT_PASSIVE)
            except apsw.Error as error:
                self._note(str(error))
        if connection is not None:
            connection.close()

    def _start_log_anew(self) -> None:
        """Move all pages into the file.

        Where a long read is in the way, or the disk, decisions go on: they are safe in the log,
        which grows, and after as many pages more it is tried again.
        """
        self._reset_above = self._wal_pages + RESET_PAGES
        self._writer.set_busy_timeout(int(RESET_SECONDS * 1000))
        try:
            self._move(self._writer, apsw.SQLITE_CHECKPOINT_RESTART)
            self._wal_pages, self._reset_above = 0, RESET_PAGES
        except apsw.Error as error:
            self._note(str(error))
        finally:
            self._writer.set_busy_timeout(BUSY_SECONDS * 1000)

    def _move(self, connection: Any, mode: int) -> None:
        with self._moving:  # SQLite does not wait for another checkpoint but fails
            connection.wal_checkpoint(mode=mode)
        self._note(None)

    def _note(self, failure: str | None) -> None:
        """Say once that the log cannot be emptied, and once that it can."""
        if failure is not None and self._move_failure is None:
            log.warning("%s: its log grows and cannot be emptied now: %s", self.name, failure)
        elif failure is None and self._move_failure is not None:
            log.warning("%s: its log is emptied again", self.name)
        self._move_failure = failure

    # -- reading ------------------------------------------------------------------------------

    def query(self, sql: str, parameters: Sequence[Any] = ()) -> list[Row]:
        try:
            return list(self._reader().execute(sql, tuple(parameters)))
        except apsw.Error as error:
            raise StoreUnavailableError(_refused(self.name, error)) from error

    def scan(self, sql: str, parameters: Sequence[Any] = ()) -> Iterator[Row]:
        try:
            connection = self._connect(read_only=True)
            try:
                connection.execute("BEGIN")
                yield from connection.execute(sql, tuple(parameters))
            finally:
                connection.close()
        except apsw.Error as error:
            raise StoreUnavailableError(_refused(self.name, error)) from error

    def _reader(self) -> Any:
        """A connection of this thread's own."""
        connection = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._connect(read_only=True)
            connection.execute("PRAGMA query_only = 1")
            with self._lock:
                if self._closed:
                    connection.close()
                    raise StoreError(f"{self.name} is closed")
                self._readers.append(connection)
            self._local.connection = connection
        return connection

    def close(self) -> None:
        with self._lock:
            if self._closed:
                return
            self._closed = True
        self._wanted.set()
        self._checkpointer.join()
        for connection in (*self._readers, self._writer):
            with suppress(apsw.Error):
                connection.close()


def _identity(path: Path) -> tuple[int, int] | None:
    """Which file it is that a path leads to, None where there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _refused(name: str, error: Exception) -> str:
    reasons = (
        (apsw.FullError, "the disk is full"),
        (apsw.ReadOnlyError, "it may only be read"),
        (apsw.BusyError, "another process keeps it locked"),
        (apsw.CorruptError, "it is damaged"),
        (apsw.IOError, "the system reports an input or output error"),
    )
    reason = next((text for kind, text in reasons if isinstance(error, kind)), "it was refused")
    return f"{name}: {reason} ({error}); nothing was acknowledged"
