"""Rescue of a SQLite store whose write-ahead log is damaged."""

from __future__ import annotations

import fcntl
import os
import shutil
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import apsw

from mixts.errors import StoreError
from mixts.service.store import _sqlite_file, _sqlite_wal

_ENDS = ("", "-wal", "-shm")

_OPEN_LOCK = 128
"""Byte of ``-shm`` that every process locks which has the file open (SQLite's os_unix.c)."""


@dataclass(frozen=True, slots=True)
class Salvaged:
    """Result of a rescue."""

    damage: _sqlite_wal.Damage
    copy: Path
    """Copy of the file as it was; its log is beside it."""
    dropped: int
    """Number of pages of the log that could not be used."""


def salvage(path: Path) -> Salvaged | None:
    """Make a store with a damaged log usable again, and keep a copy of all of its files.

    All pages of the log are kept if the database is whole with them: a damaged page is often
    written again later in the log, so that nothing is lost. Otherwise all pages from the damage on
    are dropped.

    Parameters
    ----------
    path : Path
        A SQLite file that no process has open.

    Returns
    -------
    Salvaged or None
        None if the log is not damaged: nothing was changed.
    """
    _sqlite_file.inspect(path)
    _check_unused(path)
    damage = _sqlite_wal.find_damage(path)
    if damage is None:
        return None
    copy = _keep_copy(path)
    log = _sqlite_wal.Log(path)
    for dropped in (0, damage.written - damage.readable):
        if dropped:
            log.cut(damage.readable)
        else:
            log.mend(damage.written)
        if _is_whole(path):
            return Salvaged(damage, copy, dropped)
        _bring_back(path, copy)
    raise StoreError(
        f"{path} is damaged with and without the end of its log: bring it back from a copy; "
        "nothing was changed"
    )


def _check_unused(path: Path) -> None:
    """Raise ``StoreError`` if a process has the file open."""
    index = path.with_name(path.name + "-shm")
    if not index.exists():
        return
    with index.open("r+b") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _OPEN_LOCK)
        except OSError as error:
            raise StoreError(f"another process has {path} open: stop the service first") from error


def _keep_copy(path: Path) -> Path:
    """Copy the files of a store to names that say since when they are damaged."""
    moment = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    copy = path.with_name(f"{path.name}.damaged-{moment}-{os.urandom(2).hex()}")
    for end in _ENDS:
        if (file := path.with_name(path.name + end)).exists():
            shutil.copy2(file, copy.with_name(copy.name + end))
    _sqlite_file.sync_folder(path.parent)
    return copy


def _bring_back(path: Path, copy: Path) -> None:
    for end in _ENDS:
        path.with_name(path.name + end).unlink(missing_ok=True)
        if (file := copy.with_name(copy.name + end)).exists():
            shutil.copy2(file, path.with_name(path.name + end))


def _is_whole(path: Path) -> bool:
    """Move the log into the file, and return whether every table and index is whole."""
    path.with_name(path.name + "-shm").unlink(missing_ok=True)
    try:
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
        with closing(connection):
            return bool(connection.pragma("integrity_check") == "ok")
    except apsw.Error:
        return False
