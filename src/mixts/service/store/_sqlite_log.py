"""The write-ahead log of a SQLite file: commits go there, and from there into the file.

A sync that fails is dangerous afterwards: the system may forget what it could not write, and call
the next sync a success. What a commit writes is safe, because the next one writes it again. Pages
that were moved into the file are not: SQLite remembers that it moved them, though only the last of
several moves is synced. So after such a failure nothing is moved, and the log is kept, until
SQLite has read it again from the beginning.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import apsw

from mixts.errors import StoreError, StoreUnavailableError
from mixts.service.store import _sqlite_file
from mixts.service.store.base import WouldWaitError

log = logging.getLogger("mixts.service")

BUSY_SECONDS = 10
"""How long to wait for another process that writes to the same file."""

MOST_IDLE = 8
"""Readers that are kept open while nobody reads."""

RENEW_SECONDS = 0.5
"""How long to wait for those who read, when all connections are to be made anew."""


_OPEN: Counter[tuple[int, int] | None] = Counter()
"""The files that this process has open, and how often."""

_OPENING = threading.Lock()
"""Nobody looks at a file that another thread is about to open."""

MOVE_PAGES = 2_000
"""Pages of the log that are moved into the file at a time, beside the writer."""

RESET_PAGES = 16_000
"""From here on the writer itself waits for a whole move, so that the log starts anew."""

RESET_SECONDS = 0.1
"""How long it waits for those who still read the old log; then the log grows on."""

PATIENCE_SECONDS = 10.0
"""After how long it is tried again to let go of the file, where somebody was reading."""


class Connections:
    """All of them can be made anew, so that SQLite reads its log again from the beginning."""

    def __init__(self, path: Path, vfs: str | None, synchronous: str) -> None:
        self.path = path
        self.vfs = vfs
        self._synchronous = synchronous
        self._readers: list[Any] = []
        self._n_reading = 0
        self._n_long = 0
        self._renewing = False
        self._closed = False
        self._changed = threading.Condition()
        with _OPENING:
            # A file that this process has open was looked at. Once more would be one too often:
            # closing a file drops all locks of the process on it, and SQLite's own with them.
            if _identity(path) not in _OPEN and not _sqlite_file.look_at(path):
                _sqlite_file.create(path, vfs)
            self._writer: Any = self._open()
            self._identity = _identity(path)
            _OPEN[self._identity] += 1

    # -- writing ------------------------------------------------------------------------------

    def writer(self) -> Any:
        """The one that writes, if what it would write to is still the file of that name."""
        if _identity(self.path) != self._identity:
            raise StoreUnavailableError(
                f"{self.path} was removed or replaced while it was open: bring it back, or start "
                "anew; nothing was acknowledged"
            )
        if self._writer is None:
            try:
                self._writer = self._open()
            except StoreError as error:
                raise StoreUnavailableError(str(error)) from error
        return self._writer

    @property
    def is_open(self) -> bool:
        """Whether there is one to write with; else the next use opens it, which takes a while."""
        return self._writer is not None

    def begin(self, writer: Any, *, wait: bool) -> None:
        """Begin to write, when no other process does."""
        if wait:
            writer.execute("BEGIN IMMEDIATE")
            return
        writer.set_busy_timeout(0)
        try:
            writer.execute("BEGIN IMMEDIATE")
        except apsw.BusyError as error:
            raise WouldWaitError(f"another process writes to {self.path}") from error
        finally:
            writer.set_busy_timeout(BUSY_SECONDS * 1000)

    def _open(self) -> Any:
        writer = self.connect()
        try:
            _sqlite_file.check(writer, self.path)
            _sqlite_file.use_log(writer, self.path)
            _sqlite_file.migrate(writer, self.path, self.vfs)
            writer.pragma("synchronous", self._synchronous)
            writer.pragma("wal_autocheckpoint", 0)
            writer.pragma("cache_size", -65536)
        except BaseException:
            with suppress(apsw.Error):
                writer.close()
            raise
        return writer

    def connect(self, *, read_only: bool = False) -> Any:
        """One more, to the file that is there: it is never made here."""
        flags = apsw.SQLITE_OPEN_READONLY if read_only else apsw.SQLITE_OPEN_READWRITE
        connection = apsw.Connection(str(self.path), flags=flags, vfs=self.vfs)
        connection.set_busy_timeout(BUSY_SECONDS * 1000)
        return connection

    # -- reading ------------------------------------------------------------------------------

    @contextmanager
    def reader(self) -> Iterator[Any]:
        """One for a short read; a few stay open for those who read next."""
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
        """One for a long read, whatever else the thread reads meanwhile."""
        with self._reading(long=True):
            connection = self.connect(read_only=True)
            try:
                yield connection
            finally:
                connection.close()

    @contextmanager
    def _reading(self, *, long: bool = False) -> Iterator[None]:
        with self._changed:
            self._changed.wait_for(lambda: not self._renewing)
            if self._closed:
                raise StoreError(f"{self.path} is closed")
            self._n_reading += 1
            self._n_long += long
        try:
            yield
        finally:
            with self._changed:
                self._n_reading -= 1
                self._n_long -= long
                self._changed.notify_all()

    # -- ending -------------------------------------------------------------------------------

    def renew(self) -> bool:
        """Close all and begin anew, unless somebody reads for long; whether it was done."""
        with self._changed:
            if self._n_long:
                return False
            self._renewing = True
            idle = self._changed.wait_for(lambda: not self._n_reading, RENEW_SECONDS)
        try:
            if idle:
                self._close(move_log=False)
                self._writer = None
                self.writer()
        finally:
            with self._changed:
                self._renewing = False
                self._changed.notify_all()
        return idle

    def close(self, *, move_log: bool) -> None:
        """For good."""
        with self._changed:
            self._closed = True
        self._close(move_log=move_log)
        with _OPENING:
            _OPEN[self._identity] -= 1
            if not _OPEN[self._identity]:
                del _OPEN[self._identity]

    def _close(self, *, move_log: bool) -> None:
        readers, self._readers = self._readers, []
        for connection in readers:
            with suppress(apsw.Error):
                connection.close()
        if self._writer is not None:
            with suppress(apsw.Error):
                # The last one to close a file moves its log into it.
                self._writer.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, int(not move_log))
                self._writer.close()


def _identity(path: Path) -> tuple[int, int] | None:
    """Which file it is that a path leads to, None where there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


class Log:
    """Moves pages into the file when there are many, in a thread of its own."""

    def __init__(self, connections: Connections, name: str) -> None:
        self._connections = connections
        self._name = name
        self._is_ours = False
        self._is_doubtful = False
        """Whether pages that were moved into the file may be missing there."""
        self._read_again_at = 0.0
        self._ends_well = True
        """Whether the last thing in it is a commit that was synced."""
        self._begin()
        self._failure: str | None = None
        self._moving = threading.Lock()
        """SQLite does not wait for another move but fails."""
        self._mover: Any = None
        self._wanted = threading.Event()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="mixts-checkpoints", daemon=True)
        self._thread.start()

    def _begin(self) -> None:
        self._pages = 0
        self._move_above = MOVE_PAGES
        self._reset_above = RESET_PAGES

    # -- what the writer does -----------------------------------------------------------------

    def writer(self, *, wait: bool) -> Any:
        """The connection to write with, and the log ready for it."""
        read_again = (
            self._is_doubtful and self._ends_well and time.monotonic() > self._read_again_at
        )
        is_ready = self._is_ours and not read_again and self._pages <= self._reset_above
        if not wait and not (is_ready and self._connections.is_open):
            raise WouldWaitError("the log is to be emptied, or read again")
        writer = self._connections.writer()
        if read_again:
            writer = self._read_again()
        if not self._is_ours:
            _sqlite_file.take_over_log(writer, self._connections.vfs)
            writer.set_wal_hook(self._committed)
            self._is_ours = True
        if self._pages > self._reset_above:
            self._start_anew(writer)
        return writer

    def commit(self, writer: Any) -> None:
        """End a transaction with all that it did durable in the log."""
        ended_well, self._ends_well = self._ends_well, False
        writer.execute("COMMIT")
        self._ends_well = ended_well or self._ends_well

    def _committed(self, connection: Any, name: str, pages: int) -> int:
        """Called after a commit that wrote something."""
        self._ends_well = True
        if pages < self._pages:
            self._begin()
        self._pages = pages
        if pages > self._move_above:
            self._move_above = pages + MOVE_PAGES
            self._wanted.set()
        return apsw.SQLITE_OK

    def _start_anew(self, writer: Any) -> None:
        """Move all pages into the file.

        Where a long read is in the way, or the disk, decisions go on: they are safe in the log,
        which grows, and after as many pages more it is tried again.
        """
        self._reset_above = self._pages + RESET_PAGES
        writer.set_busy_timeout(int(RESET_SECONDS * 1000))
        with self._moving:
            if self._move(writer, apsw.SQLITE_CHECKPOINT_RESTART):
                self._begin()
        writer.set_busy_timeout(BUSY_SECONDS * 1000)

    def _read_again(self) -> Any:
        """Let go of the file and open it anew; then SQLite knows of no page that was moved."""
        with self._moving:
            self._close_mover()
            if self._connections.renew():
                self._is_doubtful = self._is_ours = False
                self._begin()
            else:
                self._read_again_at = time.monotonic() + PATIENCE_SECONDS
        return self._connections.writer()

    # -- beside the writer --------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            self._wanted.wait()
            self._wanted.clear()
            if self._closed:
                return
            with self._moving:
                try:
                    self._mover = self._mover or self._connections.connect()
                    # Before it has looked into the file, it knows of no log that it could move.
                    _sqlite_file.use_log(self._mover, self._connections.path)
                except apsw.Error as error:
                    self._note(str(error))
                else:
                    self._move(self._mover, apsw.SQLITE_CHECKPOINT_PASSIVE)

    def _move(self, connection: Any, mode: int) -> bool:
        """Move pages into the file; whether all went well."""
        if self._is_doubtful:
            return False
        try:
            connection.wal_checkpoint(mode=mode)
        except apsw.Error as error:
            self._is_doubtful = isinstance(error, apsw.IOError)
            self._note(str(error))
            return False
        self._note(None)
        return True

    def _note(self, failure: str | None) -> None:
        """Say once that the log cannot be emptied, and once that it can."""
        if failure is not None and self._failure is None:
            log.warning("%s: its log grows and cannot be emptied now: %s", self._name, failure)
        elif failure is None and self._failure is not None:
            log.warning("%s: its log is emptied again", self._name)
        self._failure = failure

    def close(self) -> None:
        """End the thread, and all connections."""
        self._closed = True
        self._wanted.set()
        self._thread.join()
        self._close_mover()
        self._connections.close(move_log=not self._is_doubtful)

    def _close_mover(self) -> None:
        mover, self._mover = self._mover, None
        if mover is not None:
            with suppress(apsw.Error):
                mover.close()
