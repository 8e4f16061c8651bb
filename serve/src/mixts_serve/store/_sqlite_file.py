"""The SQLite file of a store: how it is created and checked.

A file is created under a temporary name and renamed when it is complete and durable. So a file with
a store's name is a whole store, or it belongs to another program and must not be overwritten.
"""

from __future__ import annotations

import errno
import os
import shutil
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import apsw

from mixts.errors import StoreError
from mixts.extend import files
from mixts_serve.store.tables import SCHEMA_VERSION, TABLES, Dialect

APPLICATION_ID = 0x4D695854
"""Marks the file as ours in its header, "MiXT": databases of other programs are not touched."""

DIALECT = Dialect(
    {int: "INTEGER", float: "REAL", str: "TEXT", bytes: "BLOB"}, "INTEGER PRIMARY KEY",
    "STRICT", "STRICT, WITHOUT ROWID", "checksum INTEGER NOT NULL",
)  # fmt: skip

CHECKED_BYTES = 256 * 2**20
"""A file up to this size is checked page by page when it is opened."""

_MAGIC = b"SQLite format 3\0"
_ID = slice(68, 72)
"""Place of the application id in the header (https://www.sqlite.org/fileformat.html)."""

_REMAINS = ("-wal", "-journal")
"""Files that may hold a database's last changes, which SQLite would apply to a new database."""

_CHUNK = 2**16
"""Bytes of a log that are written at a time; SQLite accepts at most twice as many."""

_DEFINITIONS = "SELECT type, name, tbl_name, sql FROM sqlite_schema"

_DAMAGED = "bring it back from a copy"


def inspect(path: Path) -> bool:
    """Return whether the file exists; raise ``StoreError`` if it cannot be ours.

    This reads the header without SQLite, which would complete a transaction that another program
    left unfinished in its own file.
    """
    try:
        if not path.exists():
            _check_vacant(path)
            return False
        if not path.is_file():
            raise StoreError(f"{path} is not a file: choose another path")
        with path.open("rb") as file:
            header = file.read(100)
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror}") from error
    if not header:
        raise StoreError(
            f"{path} is empty, which a store of decisions never is: {_DAMAGED}, or remove it to "
            "start again"
        )
    if not header.startswith(_MAGIC):
        raise StoreError(
            f"{path} is not a store of decisions of mixts: choose another path; or its beginning "
            f"is damaged: {_DAMAGED}"
        )
    if int.from_bytes(header[_ID], "big") != APPLICATION_ID:
        raise StoreError(
            f"{path} is not a store of decisions of mixts but a database of another program: "
            "choose another path"
        )
    return True


def _check_vacant(path: Path) -> None:
    for end in _REMAINS:
        remains = path.with_name(path.name + end)
        if remains.exists():
            raise StoreError(
                f"{path} is missing, but {remains.name} is there and may hold its last decisions: "
                "bring the file back, or remove both to start again"
            )
    if not path.parent.is_dir():
        raise StoreError(f"{path.parent} is not a folder: make it first")


def create(path: Path, vfs: str | None) -> None:
    """Create an empty store, unless another process has just done so."""
    draft = path.with_name(f".{path.name}.{os.urandom(4).hex()}")
    try:
        # For its owner only; SQLite gives the log and its index the same permissions.
        os.close(os.open(draft, os.O_CREAT | os.O_EXCL, 0o600))
        connection = apsw.Connection(str(draft), vfs=vfs)
        try:
            use_log(connection, path)
            _create_tables(connection)
        finally:
            connection.close()
        _give_name(draft, path)
    except OSError as error:
        raise StoreError(f"{path} cannot be made: {error.strerror}") from error
    finally:
        for end in ("", "-shm", *_REMAINS):
            with suppress(OSError):
                draft.with_name(draft.name + end).unlink()
    sync(path.parent)


def _give_name(draft: Path, path: Path) -> None:
    try:
        os.link(draft, path)
    except FileExistsError:
        return
    except OSError:  # a file system without links
        if not path.exists():
            draft.rename(path)


def sync(path: Path) -> None:
    """Sync a file or a folder: a new name in a folder is durable only then."""
    with suppress(OSError):  # some systems cannot sync a folder
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def copy(connection: Any, path: Path) -> None:
    """Copy a database that may be in use to a new file, with its permissions and its owner.

    The file has its name when it is complete.
    """
    try:
        if os.path.lexists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
        with files.replacing(path) as draft:
            os.close(os.open(draft, os.O_CREAT | os.O_EXCL, 0o600))
            connection.execute("VACUUM INTO ?", (str(draft),))
            copy_owner(os.stat(connection.filename), draft)
    except OSError as error:
        raise StoreError(f"{path} cannot be made: {error.strerror}") from error
    except apsw.Error as error:
        raise StoreError(f"{path} was not written: {reason_of(path, error)}") from error
    sync(path.parent)


def copy_owner(original: os.stat_result, path: Path) -> None:
    """Give a file the owner and the permissions of another, or keep it for this user only."""
    mode = original.st_mode & 0o777
    own = path.stat()
    if (own.st_uid, own.st_gid) != (original.st_uid, original.st_gid):
        try:
            os.chown(path, original.st_uid, original.st_gid)
        except OSError:  # only root gives files away
            mode &= 0o700
    path.chmod(mode)


def use_log(connection: Any, path: Path) -> None:
    """Write commits to a write-ahead log, and sync each of them."""
    mode = connection.pragma("journal_mode", "wal")
    if mode != "wal":
        raise StoreError(
            f"{path} cannot have a write-ahead log where it is (it has {mode!r}): put it on a "
            "local disk"
        )
    connection.pragma("synchronous", "FULL")
    # A copy by VACUUM INTO had no log: the first read makes it.
    connection.execute("SELECT COUNT(*) FROM sqlite_schema").get  # noqa: B018


def check(connection: Any, path: Path) -> None:
    """Raise ``StoreError`` for a damaged or newer file, and leave it as it is."""
    # By default, the last connection that closes the file moves the log into it.
    log = Path(connection.filename_wal)
    untouched = log.exists() and log.stat().st_size > 0
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, int(untouched))
    _check_version(connection.pragma("user_version"), path)
    if path.stat().st_size <= CHECKED_BYTES:
        found = connection.execute("PRAGMA quick_check(1)").get
        if found != "ok":
            raise StoreError(f"{path} is damaged ({found}): {_DAMAGED}")
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)


def take_over_log(connection: Any, vfs: str | None) -> None:
    """Write the log of an earlier process again, and sync it, before anything depends on it.

    The earlier process may have been killed before its last sync, or that sync may have failed.
    Then parts of the log exist only in the system's memory, and a later sync need not write them:
    a power loss would destroy them, and everything after them in the log.
    """
    log = Path(connection.filename_wal)
    connection.execute("BEGIN IMMEDIATE")  # keeps other writers away
    try:
        size = log.stat().st_size if log.exists() else 0
        if size:
            flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_WAL
            file = apsw.VFSFile(vfs or "", str(log), [flags, 0])
            try:
                for start in range(0, size, _CHUNK):
                    file.xWrite(file.xRead(min(_CHUNK, size - start), start), start)
                file.xSync(apsw.SQLITE_SYNC_FULL)
            finally:
                file.xClose()
    finally:
        connection.execute("ROLLBACK")


_PAGES = {2: 12, 5: 12, 10: 8, 13: 8}
"""Bytes of the header of a page of rows, by the kind of page, which is the first of them."""
_MOST_PAGES = 2**25
"""From this number on, the first byte of a page of another kind, a page's number, may be a 2."""


def overwrite_unused(connection: Any, vfs: str | None) -> bool:
    """Overwrite the room between the rows of each page of the file, if its log is empty.

    The file is written beside SQLite, which has no call for it: no other process can write
    meanwhile, and a commit then tells all others to read their pages again. Only room that SQLite
    does not read is changed. Return False if the log is not empty.
    """
    connection.execute("BEGIN IMMEDIATE")
    try:
        log = Path(connection.filename_wal)
        if log.exists() and log.stat().st_size:
            return False
        size = connection.pragma("page_size")
        if connection.pragma("page_count") >= _MOST_PAGES:
            raise StoreError(
                f"{connection.filename} is too large for erased rows to be overwritten in place: "
                "stop the service and run VACUUM"
            )
        flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_MAIN_DB
        file = apsw.VFSFile(vfs or "", connection.filename, [flags, 0])
        try:
            for start in range(0, connection.pragma("page_count") * size, size):
                page = file.xRead(size, start)
                first, end = _unused(page, 100 if start == 0 else 0)
                if any(page[first:end]):
                    file.xWrite(bytes(end - first), start + first)
            file.xSync(apsw.SQLITE_SYNC_FULL)
        finally:
            file.xClose()
        connection.execute("INSERT OR REPLACE INTO meta (name, value) VALUES ('probe', '')")
        connection.execute("COMMIT")
        return True
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _unused(page: bytes, header: int) -> tuple[int, int]:
    """Return where the unused room of a page begins and ends."""
    if page[header] not in _PAGES:
        return 0, 0
    n_rows, end = (int.from_bytes(page[header + i : header + i + 2], "big") for i in (3, 5))
    first = header + _PAGES[page[header]] + 2 * n_rows
    return (first, end) if first < end <= len(page) else (0, 0)


def _check_version(version: int, path: Path) -> None:
    if version != SCHEMA_VERSION:
        raise StoreError(
            f"{path} has version {version} of the tables, and this mixts uses version "
            f"{SCHEMA_VERSION}: open it with the mixts that made it, or choose another path"
        )


def _create_tables(connection: Any) -> None:
    with connection:
        for table in TABLES:
            for statement in table.create(DIALECT):
                connection.execute(statement)
        connection.pragma("application_id", APPLICATION_ID)
        connection.pragma("user_version", SCHEMA_VERSION)


def changed_definitions(connection: Any) -> list[str]:
    """Return what differs between the tables and indices of a file and those of a new one."""
    with closing(apsw.Connection(":memory:")) as new:
        _create_tables(new)
        found, right = (
            {row[:2]: row[2:] for row in each.execute(_DEFINITIONS)} for each in (connection, new)
        )
    return [
        f"the definition of {kind} {name} is not that of this version"
        for (kind, name), definition in right.items()
        if found.get((kind, name)) != definition
    ]


def refusal(path: Path, error: apsw.Error) -> StoreError:
    """Return the error for a file that cannot be opened."""
    if isinstance(error, (apsw.NotADBError, apsw.CorruptError)):
        return StoreError(f"{path} is damaged ({error}): {_DAMAGED}")
    return StoreError(f"{path} cannot be used: {reason_of(path, error)}")


_NEEDED = 1 << 16
"""Bytes, more than the 32 KiB of an index of the write-ahead log, without which a disk is full."""


def reason_of(path: Path, error: apsw.Error) -> str:
    """Return why a file cannot be used: SQLite's words, after what is known better.

    On a full disk SQLite often reports an input or output error: where it maps a file to memory, or
    reserves room.
    """
    free = _NEEDED
    with suppress(OSError):
        free = shutil.disk_usage(path.parent).free
    if free < _NEEDED and isinstance(error, (apsw.FullError, apsw.IOError, apsw.CantOpenError)):
        return f"the disk is full: {free:,} bytes are free in {path.parent} ({error})"
    reasons = (
        (apsw.FullError, "the disk is full"),
        (apsw.ReadOnlyError, "it may only be read"),
        (apsw.BusyError, "another process keeps it locked"),
        (apsw.CorruptError, "it is damaged"),
        (apsw.IOError, "the system reports an input or output error"),
    )
    reason = next((text for kind, text in reasons if isinstance(error, kind)), "it was refused")
    return f"{reason} ({error})"
