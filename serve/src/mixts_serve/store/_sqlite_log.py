"""The connections to a SQLite file, and its write-ahead log: when the log is moved into the file.

A commit goes to the log; a checkpoint moves pages from the log into the file. After a sync that
failed, the system may drop what it could not write and report the next sync as a success. Commits
survive that, because the next commit writes the same part of the log again. Pages in the file do
not: SQLite remembers that it moved them, although only the last of several checkpoints is synced.
So after such a failure there are no checkpoints, and the log is kept, until all connections were
reopened: SQLite then reads the log from its beginning.
"""

from __future__ import annotations

import ctypes
import logging
import os
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import apsw

from mixts.errors import StoreError, StoreUnavailableError
from mixts_serve.store import _sqlite_file

log = logging.getLogger("mixts_serve")

BUSY_SECONDS = 10
"""Time to wait for another process that writes to the same file."""

MOST_IDLE = 8
"""Number of idle readers that are kept open."""

REOPEN_SECONDS = 0.5
"""Time to wait for reads to end before all connections are reopened."""

_OPEN: Counter[tuple[int, int] | None] = Counter()
"""The files that this process has open, and how many times each."""

_OPENING = threading.Lock()
"""Keeps threads from inspecting a file that another one is about to open."""

CHUNK_BYTES = 2**16
"""The file grows by so many bytes at a time."""

CHECKPOINT_PAGES = 2_000
"""Pages in the log after which the checkpoint thread moves them into the file."""

RESET_PAGES = 16_000
"""Pages in the log after which the writer itself makes a checkpoint, and the log restarts."""

RESET_SECONDS = 0.1
"""Time that the writer waits for readers of the old log; after that, the log grows on."""

PURGE_ATTEMPTS, PURGE_MS = 5, 1_000
"""Attempts to empty the log, and how long each waits for readers."""

REOPEN_RETRY_SECONDS = 10.0
"""Time until the next attempt to reopen the file, if a long read prevented the last one."""


class FileConnections:
    """The connections to one file: one writer, and a pool of readers."""

    def __init__(self, path: Path, vfs: str | None, synchronous: str) -> None:
        self.path = path
        self._paths_beside = tuple(f"{path}{end}" for end in ("-wal", "-shm"))
        self.vfs = vfs
        self._synchronous = synchronous
        self._readers: list[Any] = []
        self._n_reads = 0
        self._n_long_reads = 0
        self._reopening = False
        self._closed = False
        self._changed = threading.Condition()
        with _OPENING:
            # Do not inspect a file that this process has open: closing any handle of a file drops
            # all locks of the process on it, SQLite's own included.
            if _identity(path) not in _OPEN and not _sqlite_file.inspect(path):
                _sqlite_file.create(path, vfs)
            self._writer: Any = self._open()
            self._identity = _identity(path)
            self._beside = self._identify_beside()
            _OPEN[self._identity] += 1

    # -- writing ------------------------------------------------------------------------------

    def writer(self) -> Any:
        """Return the writer; raise ``StoreUnavailableError`` if the file is gone or replaced."""
        if _identity(self.path) != self._identity:
            raise StoreUnavailableError(
                f"{self.path} was removed or replaced while it was open: bring it back, or "
                "restart; nothing was acknowledged"
            )
        if self._writer is None:
            try:
                self._writer = self._open()
                self._beside = self._identify_beside()
            except StoreError as error:
                raise StoreUnavailableError(str(error)) from error
        if (found := self._identify_beside()) != self._beside:
            gone = next(path for path in found if found[path] != self._beside[path])
            raise StoreUnavailableError(
                f"{gone} was removed or replaced while it was open: {self._rescue_log()}; nothing "
                "was acknowledged since"
            )
        return self._writer

    def _rescue_log(self) -> str:
        """Move a log that has no name any more into the file; say what to do."""
        try:
            in_log, moved = self._writer.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_FULL)
        except apsw.Error:
            in_log, moved = 1, 0
        if in_log == moved:
            return f"restart the service, all that was acknowledged is in {self.path.name}"
        return "bring it back; or stop the service in order, which writes it into the file"

    def _identify_beside(self) -> dict[str, tuple[int, int] | None]:
        """Identify the log and its index, which exist as long as the file is open."""
        return {path: _identity(path) for path in self._paths_beside}

    def _open(self) -> Any:
        writer = self.connect()
        try:
            _sqlite_file.check(writer, self.path)
            _sqlite_file.use_log(writer, self.path)
            writer.pragma("synchronous", self._synchronous)
            writer.pragma("wal_autocheckpoint", 0)
            writer.pragma("cache_size", -65536)
            self._page_size = int(writer.pragma("page_size"))
        except BaseException:
            with suppress(apsw.Error):
                writer.close()
            raise
        return writer

    def connect(self, *, read_only: bool = False) -> Any:
        """Open one more connection; this never creates the file."""
        flags = apsw.SQLITE_OPEN_READONLY if read_only else apsw.SQLITE_OPEN_READWRITE
        connection = apsw.Connection(str(self.path), flags=flags, vfs=self.vfs)
        connection.set_busy_timeout(BUSY_SECONDS * 1000)
        # Otherwise SQLite, which is compiled with STAT4, plans a join again for every row that it
        # looks up.
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        connection.pragma("secure_delete", 1)  # deleted rows become zeros
        if not read_only:
            chunk = ctypes.c_int(CHUNK_BYTES)
            connection.file_control("main", apsw.SQLITE_FCNTL_CHUNK_SIZE, ctypes.addressof(chunk))
        return connection

    def reserve(self, writer: Any) -> None:
        """Let the file have room for all pages, so that a checkpoint succeeds on a full disk."""
        n_bytes = writer.pragma("page_count") * self._page_size
        if n_bytes > self.path.stat().st_size:
            size = ctypes.c_int64(n_bytes)
            writer.file_control("main", apsw.SQLITE_FCNTL_SIZE_HINT, ctypes.addressof(size))

    # -- reading ------------------------------------------------------------------------------

    @contextmanager
    def reader(self) -> Iterator[Any]:
        """Lend a connection from the pool, for a short read."""
        with self._reading():
            with self._changed:
                connection = self._readers.pop() if self._readers else None
            if connection is None:
                connection = self.connect(read_only=True)
                connection.pragma("query_only", 1)
            try:
                yield connection
            finally:
                with self._changed:
                    keep = not self._closed and len(self._readers) < MOST_IDLE
                    if keep:
                        self._readers.append(connection)
                if not keep:
                    connection.close()

    @contextmanager
    def separate_reader(self) -> Iterator[Any]:
        """Open a connection for a long read."""
        with self._reading(long=True):
            connection = self.connect(read_only=True)
            try:
                yield connection
            finally:
                connection.close()

    @contextmanager
    def _reading(self, *, long: bool = False) -> Iterator[None]:
        with self._changed:
            self._changed.wait_for(lambda: not self._reopening)
            if self._closed:
                raise StoreError(f"{self.path} is closed")
            self._n_reads += 1
            self._n_long_reads += long
        try:
            yield
        finally:
            with self._changed:
                self._n_reads -= 1
                self._n_long_reads -= long
                self._changed.notify_all()

    # -- reopening and closing ----------------------------------------------------------------

    def reopen(self) -> bool:
        """Reopen all connections, unless a long read is running; return whether it was done."""
        with self._changed:
            if self._n_long_reads:
                return False
            self._reopening = True
            idle = self._changed.wait_for(lambda: not self._n_reads, REOPEN_SECONDS)
        try:
            if idle:
                self._close(checkpoint=False)
                self._writer = None
                self.writer()
        finally:
            with self._changed:
                self._reopening = False
                self._changed.notify_all()
        return idle

    def close(self, *, checkpoint: bool) -> None:
        """Close all connections for good; with ``checkpoint``, move the log into the file."""
        with self._changed:
            self._closed = True
        self._close(checkpoint=checkpoint)
        with _OPENING:
            _OPEN[self._identity] -= 1
            if not _OPEN[self._identity]:
                del _OPEN[self._identity]

    def _close(self, *, checkpoint: bool) -> None:
        readers, self._readers = self._readers, []
        for connection in readers:
            with suppress(apsw.Error):
                connection.close()
        if self._writer is not None:
            with suppress(apsw.Error):
                # By default, the last connection that closes the file moves the log into it.
                self._writer.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, int(not checkpoint))
                self._writer.close()


def _identity(path: Path | str) -> tuple[int, int] | None:
    """Return the device and inode of a file, or None if it does not exist."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


class WriteAheadLog:
    """The log of one file, with a thread that makes checkpoints."""

    def __init__(self, connections: FileConnections, name: str) -> None:
        self._connections = connections
        self._name = name
        self._is_taken_over = False
        self._is_full = False
        """True if the last transaction found the disk full."""
        self._must_reopen = False
        """True if pages of earlier checkpoints may be missing in the file."""
        self._reopen_at = 0.0
        self._ends_synced = True
        """True if the last commit in the log was synced."""
        self._begin()
        self._failure: str | None = None
        self._checkpointing = threading.Lock()
        """Held during a checkpoint: SQLite fails if two run at once."""
        self._checkpointer: Any = None
        self._wanted = threading.Event()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="mixts-checkpoints", daemon=True)
        self._thread.start()

    def _begin(self) -> None:
        self._pages = 0
        self._checkpoint_above = CHECKPOINT_PAGES
        self._reset_above = RESET_PAGES

    # -- in the thread that writes ------------------------------------------------------------

    @property
    def is_ready(self) -> bool:
        """Whether ``writer`` returns at once; the log may have to be moved into the file before."""
        return (
            not (self._must_reopen or self._is_full or self._pages > self._reset_above)
            and self._is_taken_over
        )

    def writer(self) -> Any:
        """Return the connection to write with, after making the log ready for it."""
        reopen = self._must_reopen and self._ends_synced and time.monotonic() > self._reopen_at
        writer = self._connections.writer()
        if reopen:
            writer = self._reopen()
        if not self._is_taken_over:
            _sqlite_file.take_over_log(writer, self._connections.vfs)
            writer.set_wal_hook(self._committed)
            self._is_taken_over = True
        if self._is_full:
            self._is_full = False
            self._restart(writer, apsw.SQLITE_CHECKPOINT_TRUNCATE)
        elif self._pages > self._reset_above:
            self._restart(writer, apsw.SQLITE_CHECKPOINT_RESTART)
        return writer

    def note_full_disk(self) -> None:
        """Give the log's room back before the next transaction."""
        self._is_full = True

    def commit(self, writer: Any) -> None:
        """Commit a transaction: its changes are durable in the log when this returns."""
        self._connections.reserve(writer)
        ended_synced, self._ends_synced = self._ends_synced, False
        writer.execute("COMMIT")
        self._ends_synced = ended_synced or self._ends_synced

    def _committed(self, connection: Any, name: str, pages: int) -> int:
        """Note the size of the log; SQLite calls this after every commit that wrote something."""
        self._ends_synced = True
        if pages < self._pages:
            self._begin()
        self._pages = pages
        if pages > self._checkpoint_above:
            self._checkpoint_above = pages + CHECKPOINT_PAGES
            self._wanted.set()
        return apsw.SQLITE_OK

    def _restart(self, writer: Any, mode: int) -> None:
        """Move all pages into the file, so that the log restarts from its beginning, or is cut.

        If a long read or the disk prevents that, the service goes on. Decisions are safe in the
        log, which grows; the next attempt follows after ``RESET_PAGES`` more pages.
        """
        self._reset_above = self._pages + RESET_PAGES
        writer.set_busy_timeout(int(RESET_SECONDS * 1000))
        with self._checkpointing:
            if self._checkpoint(writer, mode):
                self._begin()
        writer.set_busy_timeout(BUSY_SECONDS * 1000)

    def purge(self) -> bool:
        """Empty the log, and overwrite the room in the file that no row uses.

        Deleted rows are zeros in the file, but their earlier versions are in the log, and SQLite
        leaves copies of rows behind when it splits a page. Return False if a long read, or a
        checkpoint that failed, prevents it. All threads may call this.
        """
        connection = self._connections.connect()
        try:
            _sqlite_file.use_log(connection, self._connections.path)
            connection.pragma("wal_autocheckpoint", 0)
            for _ in range(PURGE_ATTEMPTS):
                connection.set_busy_timeout(PURGE_MS)
                with self._checkpointing:
                    is_moved = self._checkpoint(connection, apsw.SQLITE_CHECKPOINT_TRUNCATE)
                connection.set_busy_timeout(BUSY_SECONDS * 1000)
                if is_moved and _sqlite_file.overwrite_unused(connection, self._connections.vfs):
                    return True
            return False
        finally:
            connection.close()

    def _reopen(self) -> Any:
        """Reopen the file: SQLite then forgets which pages it moved, and reads the whole log."""
        with self._checkpointing:
            self._close_checkpointer()
            if self._connections.reopen():
                self._must_reopen = self._is_taken_over = False
                self._begin()
            else:
                self._reopen_at = time.monotonic() + REOPEN_RETRY_SECONDS
        return self._connections.writer()

    # -- in the checkpoint thread -------------------------------------------------------------

    def _run(self) -> None:
        while True:
            self._wanted.wait()
            self._wanted.clear()
            if self._closed:
                return
            with self._checkpointing:
                try:
                    self._checkpointer = self._checkpointer or self._connections.connect()
                    # A connection that has not read the file yet has no log to checkpoint.
                    _sqlite_file.use_log(self._checkpointer, self._connections.path)
                except apsw.Error as error:
                    self._note_failure(_sqlite_file.reason_of(self._connections.path, error))
                else:
                    self._checkpoint(self._checkpointer, apsw.SQLITE_CHECKPOINT_PASSIVE)

    def _checkpoint(self, connection: Any, mode: int) -> bool:
        """Move pages into the file; return whether that succeeded."""
        if self._must_reopen:
            return False
        try:
            connection.wal_checkpoint(mode=mode)
        except apsw.Error as error:
            self._must_reopen = isinstance(error, apsw.IOError)
            self._note_failure(_sqlite_file.reason_of(self._connections.path, error))
            return False
        self._note_failure(None)
        return True

    def _note_failure(self, failure: str | None) -> None:
        """Log the first failure in a row, and the end of the failures."""
        if failure is not None and self._failure is None:
            log.warning(
                "%s: the write-ahead log grows, its checkpoint failed: %s", self._name, failure
            )
        elif failure is None and self._failure is not None:
            log.warning("%s: checkpoints of the write-ahead log work again", self._name)
        self._failure = failure

    def close(self) -> None:
        """End the thread, and close all connections."""
        self._closed = True
        self._wanted.set()
        self._thread.join()
        self._close_checkpointer()
        self._connections.close(checkpoint=not self._must_reopen)

    def _close_checkpointer(self) -> None:
        connection, self._checkpointer = self._checkpointer, None
        if connection is not None:
            with suppress(apsw.Error):
                connection.close()
