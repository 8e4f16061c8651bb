"""Damage in a write-ahead log: SQLite drops everything after it without a word, mixts does not.

A log is a head and frames, each a page with the number of the page and a checksum that continues
that of the frame before (https://www.sqlite.org/fileformat.html). SQLite reads frames up to the
first one that does not fit. After a power loss that is right: the last transaction was never
acknowledged, and any part of it may be missing. After a flipped bit it is wrong: all frames behind
the bit are dropped. Two facts tell the difference.

- A transaction begins after the one before it was synced. So a frame that continues the checksum of
  a commit proves that this commit was durable. If both lie behind the first frame that does not
  fit, acknowledged transactions would be dropped.
- The index of the log, ``-shm``, has the number of frames that were synced. It outlives a process
  that is killed, but perhaps not a power loss; it has a checksum of its own.

Frames of an older log, which the present one overwrites from its beginning, have other salts.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mixts._typing import Array, Bool, Int
from mixts.errors import StoreError

_MAGIC = 0x377F0682
"""First number of a log; it is one more if checksums read big-endian numbers."""
_FORMAT = 3007000
_HEAD, _FRAME_HEAD = 32, 24
"""Bytes of the head, and of a frame before its page."""
_INDEX = struct.Struct("=12xBxHII8x8s2I")
"""Header of the index: is it in use, size of a page, number of frames and of pages, salts, and its
checksum. It is there twice; after that comes the number of frames that are in the file."""
_NATIVE = "<" if sys.byteorder == "little" else ">"
_CHUNK = 256
"""Frames that are read at a time."""
_ATTEMPTS = 5


class Damage(NamedTuple):
    """Frames of a damaged log: those that SQLite would read, and those that were written."""

    readable: int
    written: int
    n_bytes: int
    """Bytes of the frames that SQLite would drop."""


def check(path: Path) -> None:
    """Raise ``StoreError`` if the log of this file is damaged; change nothing."""
    damage = find_damage(path)
    if damage is None:
        return
    lost = damage.written - damage.readable
    raise StoreError(
        f"{path}-wal is damaged or incomplete: {lost:,} of its {damage.written:,} pages "
        f"({damage.n_bytes:,} bytes) hold acknowledged decisions or rewards, which SQLite would "
        f"drop. Nothing was changed. Bring {path} and its -wal back from a copy; or run 'mixts "
        f"store salvage {path}', which keeps a copy and saves what can be read"
    )


def find_damage(path: Path) -> Damage | None:
    """Return which part of a log SQLite would drop although it was acknowledged."""
    for _ in range(_ATTEMPTS):
        index = _read_index(path)
        log = Log(path)
        damage = log.damage(index)
        # Another process may have the file open, and its log may have restarted meanwhile.
        if damage is None or log.head == Log(path).head:
            return damage
    return None


class _Index(NamedTuple):
    n_frames: int
    n_moved: int
    """Number of frames that a checkpoint has moved into the file."""
    salts: bytes


class Frames(NamedTuple):
    pages: Int[Array, " n"]
    is_commit: Bool[Array, " n"]
    fits: Bool[Array, " n"]
    """True for a frame of this log whose checksum continues the one in the frame before."""


class Log:
    """The log of a file, read without SQLite."""

    def __init__(self, path: Path) -> None:
        self.path = path.with_name(path.name + "-wal")
        start = _read(self.path, 0, _HEAD + _FRAME_HEAD)
        self.head, first = start[:_HEAD], start[_HEAD:]
        self._page_size = _page_size(path)
        order = {_MAGIC: "<", _MAGIC + 1: ">"}.get(int.from_bytes(self.head[:4], "big"))
        self._order = order or _NATIVE
        self._salts, self._sums = self.head[16:24], _big_endian(self.head[24:].ljust(8, b"\0"))
        self._has_head = (
            len(self.head) == _HEAD
            and order is not None
            and _checksum(self.head[:24], order).tolist() == self._sums.tolist()
        )
        if not self._has_head:  # the first frame has the same salts
            self._order, self._salts = _NATIVE, first[8:16]

    def damage(self, index: _Index | None) -> Damage | None:
        """Return which part SQLite would drop although it was acknowledged."""
        pages, is_commit, fits = self.frames()
        n_good = _first(~fits) if self._has_head else 0
        readable = _last(is_commit[:n_good]) + 1
        # A frame that continues a commit proves that the commit was durable.
        proofs = np.append(False, is_commit[:-1] & fits[1:])
        proofs[: n_good + 1] = False
        written = readable
        if proofs.any():
            proof = _last(proofs)
            end = proof + _first(~fits[proof:])
            written = _last(is_commit[:end]) + 1
        if index is not None:
            if len(pages) and index.salts == self._salts:
                written = max(written, index.n_frames)
            elif not len(pages) and index.n_frames > index.n_moved:
                written = index.n_frames
        if written <= readable:
            return None
        return Damage(readable, written, (written - readable) * (_FRAME_HEAD + self._page_size))

    def mend(self, n_frames: int) -> None:
        """Give the first frames checksums that fit; their pages stay as they are.

        The damaged page stays, too: check the database afterwards.
        """
        pages, is_commit, _ = (part[:n_frames] for part in self.frames())
        end = _last(is_commit & (pages > 0)) + 1
        magic = _MAGIC + (self._order == ">")
        head = struct.pack(">4I", magic, _FORMAT, self._page_size, 0) + self._salts
        sums = _checksum(head, self._order)
        mended = self.path.with_name(self.path.name + "-mended")
        with mended.open("wb") as out:
            out.write(head + sums.astype(">u4").tobytes())
            for chunk in self._chunks():
                for frame in chunk[: max(end, 0)]:
                    body = frame[:8].tobytes() + frame[_FRAME_HEAD:].tobytes()
                    if body[:4] != bytes(4):  # SQLite reads no frame of page 0
                        sums = _checksum(body, self._order, sums)
                        given = body[:8] + self._salts + sums.astype(">u4").tobytes()
                        out.write(given + body[8:])
                end -= len(chunk)
        mended.replace(self.path)

    def cut(self, n_frames: int) -> None:
        """Remove all frames but the first ones."""
        with self.path.open("r+b") as file:
            file.truncate(_HEAD + n_frames * (_FRAME_HEAD + self._page_size) if n_frames else 0)

    def frames(self) -> Frames:
        weights, power = _weights(2 + self._page_size // 4)
        # The salts and the sums of a frame, which lie between its first words and its page, add 0.
        weights = np.insert(weights, [2] * 4, 0, axis=0)
        sums, found = self._sums, []
        for chunk in self._chunks():
            numbers = _big_endian(chunk[:, :_FRAME_HEAD])
            stored = numbers[:, 4:]
            before = np.vstack([sums[None], stored[:-1]])
            words = chunk.view(f"{self._order}u4").astype("u4", copy=False)
            right = words @ weights + before @ power
            salts = (chunk[:, 8:16] == np.frombuffer(self._salts, "u1")).all(axis=1)
            fits = salts & (right == stored).all(axis=1) & (numbers[:, 0] > 0)
            found.append((numbers[:, 0].astype(np.int64), salts & (numbers[:, 1] > 0), fits))
            sums = stored[-1]
        if not found:
            return Frames(np.zeros(0, np.int64), np.zeros(0, bool), np.zeros(0, bool))
        return Frames(*(np.concatenate(part) for part in zip(*found, strict=True)))

    def _chunks(self) -> Iterator[Array]:
        """Yield the bytes of frames, one frame a row."""
        size = _FRAME_HEAD + self._page_size
        start = _HEAD
        while content := _read(self.path, start, _CHUNK * size):
            n = len(content) // size
            if n:
                yield np.frombuffer(content[: n * size], "u1").reshape(n, size)
            start += len(content)


def _read_index(path: Path) -> _Index | None:
    """Return the index, or None if there is none that is whole."""
    content = _read(path.with_name(path.name + "-shm"), 0, 2 * _INDEX.size + 4)
    first, second = content[: _INDEX.size], content[_INDEX.size : 2 * _INDEX.size]
    if len(content) < 2 * _INDEX.size + 4 or first != second:
        return None
    is_used, _, n_frames, _, salts, *sums = _INDEX.unpack(first)
    if not is_used or _checksum(first[:40], _NATIVE).tolist() != sums:
        return None
    return _Index(n_frames, int.from_bytes(content[-4:], sys.byteorder), salts)


def _page_size(path: Path) -> int:
    size = int.from_bytes(_read(path, 16, 2), "big")
    return 65536 if size == 1 else max(size, 512)


def _read(path: Path, start: int, n: int) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(start)
            return file.read(n)
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror}") from error


def _big_endian(content: bytes | Array) -> Array:
    """Return the big-endian numbers of bytes, or of each row of bytes."""
    if isinstance(content, bytes):
        return np.frombuffer(content, ">u4").astype("u4")
    return np.ascontiguousarray(content).view(">u4").astype("u4")


def _checksum(content: bytes, order: str, before: Array | None = None) -> Array:
    """Return the two sums of SQLite over bytes, which continue those ``before``."""
    words = np.frombuffer(content, f"{order}u4").astype("u4")
    weights, power = _weights(len(words))
    sums: Array = words @ weights
    return sums if before is None else sums + before @ power


@cache
def _weights(n_words: int) -> tuple[Array, Array]:
    """Return what each word adds to the two sums, and what the sums before add.

    For each pair of words, ``s0 += x + s1`` and then ``s1 += y + s0``: a linear map, modulo 2^32.
    """
    power, rows = [[1, 0], [0, 1]], []
    for _ in range(n_words // 2):
        (a, b), (c, d) = power
        rows += [[b % 2**32, d % 2**32], [(a + b) % 2**32, (c + d) % 2**32]]
        power = [[a + b, a + 2 * b], [c + d, c + 2 * d]]
        power = [[entry % 2**32 for entry in row] for row in power]
    return np.array(rows[::-1], "u4"), np.array(power, "u4").T


def _first(marks: Bool[Array, " n"]) -> int:
    """Return the index of the first True, or the length if there is none."""
    return int(marks.argmax()) if marks.any() else len(marks)


def _last(marks: Bool[Array, " n"]) -> int:
    """Return the index of the last True, or -1 if there is none."""
    return len(marks) - 1 - _first(marks[::-1]) if marks.any() else -1
