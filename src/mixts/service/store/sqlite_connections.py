"""The connections to one SQLite file: one that writes, and some that read."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import apsw

from mixts.errors import StoreError, StoreUnavailableError
from mixts.service.store import sqlite_file
from mixts.service.store.backend import WouldWaitError

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
            if _identity(path) not in _OPEN and not sqlite_file.look_at(path):
                sqlite_file.create(path, vfs)
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
            sqlite_file.check(writer, self.path)
            sqlite_file.use_log(writer, self.path)
            sqlite_file.migrate(writer, self.path, self.vfs)
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
