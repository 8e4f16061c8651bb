"""Decisions in a SQLite file: WAL, every commit synced, one writer.

apsw brings its own SQLite: the system's may be one of those (3.7.0 to 3.51.2) that can lose a
commit when a write-ahead log is reset.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from mixts.errors import MissingExtraError, StoreUnavailableError
from mixts.service.store.backend import Backend, Row

try:
    import apsw
except ImportError as error:  # pragma: no cover - the extra is always there in tests
    raise MissingExtraError(
        "a store of decisions in a SQLite file needs the extra 'serve': pip install 'mixts[serve]'"
    ) from error

from mixts.service.store import sqlite_file
from mixts.service.store.sqlite_connections import Connections
from mixts.service.store.sqlite_log import Log
from mixts.service.store.sqlite_transaction import SQLiteTransaction


class SQLiteBackend(Backend):
    """A store in one file (and, while it is open, its ``-wal`` and ``-shm``)."""

    def __init__(
        self, path: str | os.PathLike[str], *, vfs: str | None = None, synchronous: str = "FULL"
    ) -> None:
        self.name = str(path)
        self.path = Path(path).absolute()
        try:
            self._connections = Connections(self.path, vfs, synchronous)
        except apsw.Error as error:
            raise sqlite_file.refusal(self.path, error) from error
        self._log = Log(self._connections, self.name)
        self._closed = False

    @contextmanager
    def transaction(self, *, wait: bool = True) -> Iterator[SQLiteTransaction]:
        try:
            writer = self._log.writer(wait=wait)
            self._connections.begin(writer, wait=wait)
            try:
                yield SQLiteTransaction(writer)
                self._log.commit(writer)
            except BaseException:
                with suppress(apsw.Error):
                    writer.execute("ROLLBACK")
                raise
        except apsw.ConstraintError:
            raise  # ours to answer for, and no reason to call the disk bad
        except apsw.Error as error:
            raise StoreUnavailableError(_refused(self.name, error)) from error

    def probe(self) -> None:
        with self.transaction() as transaction:
            transaction.mark()

    def query(self, sql: str, parameters: Sequence[Any] = ()) -> list[Row]:
        try:
            with self._connections.reader() as reader:
                return list(reader.execute(sql, tuple(parameters)))
        except apsw.Error as error:
            raise StoreUnavailableError(_refused(self.name, error)) from error

    def scan(self, sql: str, parameters: Sequence[Any] = ()) -> Iterator[Row]:
        try:
            with self._connections.separate_reader() as reader:
                reader.execute("BEGIN")
                yield from reader.execute(sql, tuple(parameters))
        except apsw.Error as error:
            raise StoreUnavailableError(_refused(self.name, error)) from error

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._log.close()


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
