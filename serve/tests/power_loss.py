"""A disk that can lose its power: data that were not synced are then lost, or there in part.

    disk = PowerLossDisk(np.random.default_rng(seed))
    disk.begin(100)                     # fail from the 100th file operation on
    disk.lose_power(folder)             # write the files as they are after a power loss

Bytes reach the disk in sectors, in any order. Names behave as in a journaling file system: files
are created and removed in order, and the next sync of any file makes all of these changes durable.
After a failed sync, the system forgets the data that it could not write and does not try again. It
reports the failure once for each open file, as Linux does since 4.13.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apsw
import numpy as np

from serve.tests.faulty_disk import Act, WatchedDisk, WatchedFile, path_of

SECTOR = 512
"""Bytes that the disk writes completely or not at all."""
PAGE = 4096
"""Bytes that the system caches and syncs together."""


@dataclass(frozen=True)
class Write:
    """Content of the sectors after a write, and the length of the file."""

    sectors: dict[int, bytes]
    length: int


class Content:
    """A file's bytes: as programs read them, as they are on the disk, and the writes in between."""

    def __init__(self, durable: bytes = b"") -> None:
        self.cached = bytearray(durable)
        self.durable = durable
        self.writes: list[Write] = []
        self.n_failures = 0
        """Number of failed syncs."""

    def write(self, data: bytes, offset: int) -> None:
        end = offset + len(data)
        if end > len(self.cached):
            self.cached += bytes(end - len(self.cached))
        self.cached[offset:end] = data
        touched = range(offset // SECTOR, -(-end // SECTOR))
        sectors = {n: bytes(self.cached[n * SECTOR : (n + 1) * SECTOR]) for n in touched}
        self.writes.append(Write(sectors, len(self.cached)))

    def truncate(self, size: int) -> None:
        self.cached = self.cached[:size] + bytes(max(size - len(self.cached), 0))
        self.writes.append(Write({}, size))

    def sync(self) -> None:
        body = bytearray(self.durable[: len(self.cached)])
        body += bytes(len(self.cached) - len(body))
        for page in {n * SECTOR // PAGE for write in self.writes for n in write.sectors}:
            part = slice(page * PAGE, (page + 1) * PAGE)
            body[part] = self.cached[part]
        self.durable = bytes(body)
        self.writes = []

    def forget(self, rng: np.random.Generator) -> None:
        """Fail to sync: write some of the data, and forget the rest."""
        self.durable = self.survivor(rng)
        self.writes = []
        self.n_failures += 1

    def survivor(self, rng: np.random.Generator) -> bytes:
        """Return the content of the disk if the power is lost now."""
        # No writes, all writes, the first ones with the last one torn, or any sectors of any write.
        n = len(self.writes)
        some = int(rng.integers(n + 1))
        ways = [(0, 0), (n, n), (some, min(some + 1, n)), (0, n)]
        whole, torn = ways[rng.choice(4, p=[0.15, 0.15, 0.35, 0.35])]
        body = bytearray(self.durable)
        for number, write in enumerate(self.writes[:torn]):
            for sector, data in write.sectors.items():
                if number < whole or rng.random() < 0.5:
                    start = sector * SECTOR
                    body += _unwritten(start - len(body), rng)
                    body[start : start + SECTOR] = data
            if number < whole:
                del body[write.length :]
        lengths = [len(self.durable), *(write.length for write in self.writes)]
        length = lengths[rng.integers(whole, torn + 1)]
        return bytes(body[:length] + _unwritten(length - len(body), rng))


class PowerLossDisk(WatchedDisk):
    """A disk for one process at a time; a share of its syncs fails."""

    def __init__(self, rng: np.random.Generator, failing: float = 0.0) -> None:
        self._rng = rng
        self.failing = failing
        self._left = 0
        self.dead = True
        """True after the process has ended, or the power is lost."""
        self._names: dict[str, Content] = {}
        self._durable_names: dict[str, Content] = {}
        self._renamed: list[tuple[str, Content | None]] = []
        """Files that were created or (None) removed since the last sync."""
        self._inodes: dict[int, Content] = {}
        super().__init__()

    def begin(self, acts: int) -> None:
        """Begin a process that ends after so many operations; the system keeps unsynced data."""
        self._left = acts
        self.dead = False

    def before(self, act: Act, path: str) -> None:
        self._left -= act != "read"
        if self._left <= 0:
            self.dead = True
        if self.dead:
            raise apsw.IOError("neither process nor power")

    def end(self) -> None:
        with self.lock:
            self.dead = True

    def open_file(self, name: Any, flags: list[int]) -> apsw.VFSFile:
        path = path_of(name)
        there = os.path.exists(path)
        file = PowerLossFile(self, name, flags)
        inode = os.stat(path).st_ino
        if path not in self._names:
            if not there:  # the number may be that of a file that was removed
                self._inodes[inode] = Content()
            elif inode not in self._inodes:
                self._inodes[inode] = self._durable_names[path] = Content(Path(path).read_bytes())
            self._name(path, self._inodes[inode])
        file.content = self._names[path]
        file.n_failures = file.content.n_failures
        return file

    def xDelete(self, path: str, sync_folder: bool) -> None:  # noqa: N802
        with self.lock:
            super().xDelete(path, sync_folder)
            self._name(path, None)
            if sync_folder:
                self.sync_names()

    def sync(self, file: PowerLossFile) -> None:
        if self._rng.random() < self.failing:
            file.content.forget(self._rng)
        else:
            file.content.sync()
            self.sync_names()
        if file.n_failures < file.content.n_failures:
            file.n_failures = file.content.n_failures
            raise apsw.IOError("the sync fails, as the test demands")

    def sync_names(self) -> None:
        for path, content in self._renamed:
            _rename(self._durable_names, path, content)
        self._renamed = []

    def lose_power(self, folder: Path) -> None:
        """Fail from now on, and write the content of the disk into a folder."""
        with self.lock:
            self.dead = True
            del self._renamed[int(self._rng.integers(len(self._renamed) + 1)) :]
            self.sync_names()
            for path, content in self._durable_names.items():
                (folder / Path(path).name).write_bytes(content.survivor(self._rng))
                if path.endswith("-wal"):  # the content of shared memory is lost, or not
                    index = Path(path.replace("-wal", "-shm"))
                    kept = index.exists() and self._rng.random() < 0.5
                    garbage = self._rng.bytes(int(self._rng.integers(40_000)))
                    (folder / index.name).write_bytes(index.read_bytes() if kept else garbage)

    def _name(self, path: str, content: Content | None) -> None:
        _rename(self._names, path, content)
        self._renamed.append((path, content))


class PowerLossFile(WatchedFile):
    disk: PowerLossDisk
    content: Content
    n_failures: int
    """Number of failed syncs that were reported for this file."""

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        with self.disk.lock:
            super().xWrite(data, offset)
            self.content.write(bytes(data), offset)

    def xTruncate(self, size: int) -> None:  # noqa: N802
        with self.disk.lock:
            super().xTruncate(size)
            self.content.truncate(size)

    def xSync(self, flags: int) -> None:  # noqa: N802
        with self.disk.lock:
            super().xSync(flags)
            self.disk.sync(self)


def _rename(names: dict[str, Content], path: str, content: Content | None) -> None:
    if content is None:
        names.pop(path, None)
    else:
        names[path] = content


def _unwritten(n: int, rng: np.random.Generator) -> bytes:
    """Return content for a part of a file that was never written: zeros, or old data."""
    return rng.bytes(max(n, 0)) if rng.random() < 0.5 else bytes(max(n, 0))
