"""Disks that fail on demand, for SQLite: a VFS whose operations a test can make fail.

    with FaultyDisk() as disk, SQLiteBackend(path, vfs=disk.name) as ...:
        disk.fail("write", apsw.FullError, "-wal")
        ...
        disk.mend()

Locks and shared memory are those of the system.
"""

from __future__ import annotations

import itertools
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

import apsw
from mixts_serve.store import DecisionStore
from mixts_serve.store.sqlite import SQLiteBackend

Act = Literal["open", "read", "write", "sync", "truncate", "delete"]

_numbers = itertools.count()


class WatchedDisk(apsw.VFS):
    """Calls ``before`` for each operation on a file; ``before`` may raise to make it fail."""

    def __init__(self) -> None:
        self.name = f"{type(self).__name__}-{next(_numbers)}"
        self.lock = threading.RLock()
        super().__init__(self.name, "")

    def before(self, act: Act, path: str) -> None:
        """Run before an operation on a file."""

    def open_file(self, name: Any, flags: list[int]) -> apsw.VFSFile:
        """Open a file of this disk."""
        return WatchedFile(self, name, flags)

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        if name is None:  # a temporary file
            return apsw.VFSFile("", name, flags)
        with self.lock:
            self.before("open", path_of(name))
            return self.open_file(name, flags)

    def xDelete(self, path: str, sync_folder: bool) -> None:  # noqa: N802
        with self.lock:
            self.before("delete", path)
            super().xDelete(path, sync_folder)

    def excepthook(self, *_: object) -> bool:
        """Ignore a failure that SQLite ignores, such as that of a file that cannot be removed."""
        return True

    def store(self, path: Path, synchronous: str = "FULL") -> DecisionStore:
        """Open a store on this disk."""
        return DecisionStore(SQLiteBackend(path, vfs=self.name, synchronous=synchronous))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.unregister()


class WatchedFile(apsw.VFSFile):
    def __init__(self, disk: WatchedDisk, name: Any, flags: list[int]) -> None:
        self.disk = disk
        self.path = path_of(name)
        super().__init__("", name, flags)

    def xRead(self, amount: int, offset: int) -> bytes:  # noqa: N802
        with self.disk.lock:
            self.disk.before("read", self.path)
            return super().xRead(amount, offset)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        with self.disk.lock:
            self.disk.before("write", self.path)
            super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:  # noqa: N802
        # Do not sync the real disk: the model of a disk decides which data are durable.
        with self.disk.lock:
            self.disk.before("sync", self.path)

    def xTruncate(self, size: int) -> None:  # noqa: N802
        with self.disk.lock:
            self.disk.before("truncate", self.path)
            super().xTruncate(size)


@dataclass
class Fault:
    act: Act
    error: type[apsw.Error]
    end: str
    """Last part of the names of the files that fail."""
    after: int
    """Number of operations that still succeed."""


class FaultyDisk(WatchedDisk):
    """Disk that fails on demand, until it is mended."""

    def __init__(self) -> None:
        self._faults: list[Fault] = []
        self.n_failures = 0
        super().__init__()

    def fail(self, act: Act, error: type[apsw.Error], end: str = "", after: int = 0) -> None:
        """Make an operation fail, after the first ``after`` calls."""
        self._faults.append(Fault(act, error, end, after))

    def mend(self) -> None:
        self._faults = []

    def before(self, act: Act, path: str) -> None:
        for fault in self._faults:
            if fault.act == act and path.endswith(fault.end):
                fault.after -= 1
                if fault.after < 0:
                    self.n_failures += 1
                    raise fault.error(f"{act} fails, as the test demands")


def path_of(name: Any) -> str:
    return name if isinstance(name, str) else name.filename()
