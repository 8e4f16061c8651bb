"""The SQLite file of a store: its tables, and how it is created, checked and migrated.

A file is created under a temporary name and renamed when it is complete and durable. So a file with
a store's name is a whole store, or it belongs to another program and must not be overwritten.
"""

from __future__ import annotations

import os
import shutil
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import apsw

from mixts.errors import StoreError
from mixts.service.store import _sqlite_rows
from mixts.service.store.base import COUNTS_OF_THE_LOG

# -- the tables: a version is only ever added, and old files are migrated step by step -------------

APPLICATION_ID = 0x4D695854
"""Marks the file as ours in its header, "MiXT": databases of other programs are not touched."""

MIGRATIONS: tuple[str, ...] = (
    """
    CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE priors (
        version INTEGER PRIMARY KEY, digest BLOB NOT NULL UNIQUE, uploaded_at INTEGER NOT NULL,
        family TEXT NOT NULL, n_components INTEGER NOT NULL, body BLOB NOT NULL
    ) STRICT;
    CREATE TABLE activations (
        seq INTEGER PRIMARY KEY, version INTEGER NOT NULL REFERENCES priors, at INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE tasks (
        number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE,
        decisions INTEGER NOT NULL, rewards INTEGER NOT NULL, late INTEGER NOT NULL,
        latent INTEGER, certainty REAL NOT NULL, version INTEGER NOT NULL,
        first_at INTEGER NOT NULL, last_at INTEGER NOT NULL, statistics BLOB NOT NULL
    ) STRICT;
    CREATE INDEX tasks_by_activity ON tasks (last_at);
    CREATE INDEX tasks_by_kind ON tasks (version, latent, certainty);
    CREATE TABLE action_sets (
        number INTEGER PRIMARY KEY, digest BLOB NOT NULL UNIQUE,
        n_actions INTEGER NOT NULL, n_features INTEGER NOT NULL, body BLOB NOT NULL
    ) STRICT;
    CREATE TABLE decisions (
        seq INTEGER PRIMARY KEY, id BLOB NOT NULL UNIQUE,
        task INTEGER NOT NULL REFERENCES tasks, key TEXT, request BLOB,
        at INTEGER NOT NULL, version INTEGER NOT NULL REFERENCES priors, action INTEGER NOT NULL,
        propensity REAL NOT NULL CHECK (propensity > 0),
        probabilities BLOB NOT NULL, weights BLOB NOT NULL,
        action_set INTEGER REFERENCES action_sets
    ) STRICT;
    CREATE INDEX decisions_by_task ON decisions (task);
    CREATE UNIQUE INDEX decisions_by_key ON decisions (task, key) WHERE key IS NOT NULL;
    CREATE TABLE rewards (
        seq INTEGER PRIMARY KEY, decision INTEGER NOT NULL UNIQUE REFERENCES decisions,
        at INTEGER NOT NULL, value REAL NOT NULL, late INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE activity (
        start INTEGER NOT NULL, writer TEXT NOT NULL,
        tasks INTEGER NOT NULL, decisions INTEGER NOT NULL, rewards INTEGER NOT NULL,
        reward_sum REAL NOT NULL, late INTEGER NOT NULL, PRIMARY KEY (start, writer)
    ) STRICT, WITHOUT ROWID;
    """,
    # Before there was a choice, every decision was Thompson sampling.
    "ALTER TABLE decisions ADD COLUMN policy TEXT NOT NULL DEFAULT 'ts'",
    # Default rewards and deferred decisions. open_windows is derived: a rebuild makes it again.
    """
    ALTER TABLE decisions ADD COLUMN deferred INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE decisions ADD COLUMN due INTEGER;
    ALTER TABLE decisions ADD COLUMN default_reward REAL;
    ALTER TABLE rewards ADD COLUMN is_default INTEGER NOT NULL DEFAULT 0;
    CREATE TABLE late_rewards (
        seq INTEGER PRIMARY KEY, decision INTEGER NOT NULL UNIQUE REFERENCES decisions,
        at INTEGER NOT NULL, value REAL NOT NULL
    ) STRICT;
    CREATE TABLE activated (
        seq INTEGER PRIMARY KEY, decision INTEGER NOT NULL UNIQUE REFERENCES decisions,
        at INTEGER NOT NULL, due INTEGER, default_reward REAL
    ) STRICT;
    CREATE TABLE open_windows (
        has_default INTEGER NOT NULL, due INTEGER NOT NULL,
        decision INTEGER NOT NULL REFERENCES decisions, PRIMARY KEY (has_default, due, decision)
    ) STRICT, WITHOUT ROWID;
    ALTER TABLE tasks ADD COLUMN defaults INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE tasks ADD COLUMN deferred INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE activity ADD COLUMN defaults INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE activity ADD COLUMN deferred INTEGER NOT NULL DEFAULT 0;
    """,
    # What each arm, version and policy earned over time. It is derived: a rebuild makes it again.
    f"""
    CREATE TABLE counts (
        span INTEGER NOT NULL, start INTEGER NOT NULL, arm INTEGER NOT NULL,
        version INTEGER NOT NULL, policy TEXT NOT NULL, writer TEXT NOT NULL,
        first_at INTEGER NOT NULL, last_at INTEGER NOT NULL, decisions INTEGER NOT NULL,
        deferred INTEGER NOT NULL, rewards INTEGER NOT NULL, defaults INTEGER NOT NULL,
        late INTEGER NOT NULL, reward_sum REAL NOT NULL, reward_squares REAL NOT NULL,
        PRIMARY KEY (span, start, arm, version, policy, writer)
    ) STRICT, WITHOUT ROWID;
    INSERT INTO counts {COUNTS_OF_THE_LOG};
    """,
    # Ids of the actions, a JSON list in their order; actions that are rows of numbers have none.
    "ALTER TABLE action_sets ADD COLUMN ids TEXT",
    # Decisions that are shown together, and the values and costs by which they were made.
    """
    ALTER TABLE decisions ADD COLUMN slate BLOB;
    ALTER TABLE decisions ADD COLUMN position INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE decisions ADD COLUMN money BLOB;
    CREATE INDEX decisions_by_slate ON decisions (slate) WHERE slate IS NOT NULL;
    """,
    # Checksums of rows, also of those that are there.
    _sqlite_rows.ADD_CHECKSUMS,
)
"""``MIGRATIONS[n]`` takes a file of version n to version n + 1; version 0 is an empty file."""

# -- the file -------------------------------------------------------------------------------------

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
            migrate(connection, path, vfs)
        finally:
            connection.close()
        _give_name(draft, path)
    except OSError as error:
        raise StoreError(f"{path} cannot be made: {error.strerror}") from error
    finally:
        for end in ("", "-shm", *_REMAINS):
            with suppress(OSError):
                draft.with_name(draft.name + end).unlink()
    sync_folder(path.parent)


def _give_name(draft: Path, path: Path) -> None:
    try:
        os.link(draft, path)
    except FileExistsError:
        return
    except OSError:  # a file system without links
        if not path.exists():
            draft.rename(path)


def sync_folder(folder: Path) -> None:
    """Sync a folder: a new name in it is durable only then."""
    with suppress(OSError):  # some systems cannot
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def use_log(connection: Any, path: Path) -> None:
    """Write commits to a write-ahead log, and sync each of them."""
    mode = connection.pragma("journal_mode", "wal")
    if mode != "wal":
        raise StoreError(
            f"{path} cannot have a write-ahead log where it is (it has {mode!r}): put it on a "
            "local disk"
        )
    connection.pragma("synchronous", "FULL")


def check(connection: Any, path: Path) -> None:
    """Raise ``StoreError`` for a damaged or newer file, and leave it as it is."""
    # By default, the last connection that closes the file moves the log into it.
    log = Path(connection.filename_wal)
    untouched = log.exists() and log.stat().st_size > 0
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, int(untouched))
    _check_version(connection.pragma("user_version"), path)
    if path.stat().st_size <= CHECKED_BYTES:
        found = connection.pragma("quick_check")
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


def _check_version(version: int, path: Path) -> None:
    if version > len(MIGRATIONS):
        raise StoreError(
            f"{path} has version {version} of the tables, this mixts knows up to "
            f"{len(MIGRATIONS)}: upgrade mixts"
        )


def migrate(connection: Any, path: Path, vfs: str | None) -> None:
    """Migrate the tables to this version, all steps or none."""
    if connection.pragma("user_version") == len(MIGRATIONS):
        return
    take_over_log(connection, vfs)
    _sqlite_rows.register(connection)
    connection.transaction_mode = "IMMEDIATE"
    with connection:
        # Another process may have migrated them just now.
        version = connection.pragma("user_version")
        _check_version(version, path)
        for step in MIGRATIONS[version:]:
            connection.execute(step)
        connection.pragma("application_id", APPLICATION_ID)
        connection.pragma("user_version", len(MIGRATIONS))


def changed_definitions(connection: Any) -> list[str]:
    """Return what differs between the tables and indices of a file and those of a new one."""
    with closing(apsw.Connection(":memory:")) as new:
        _sqlite_rows.register(new)
        for step in MIGRATIONS:
            new.execute(step)
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
