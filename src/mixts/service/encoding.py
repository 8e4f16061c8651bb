"""Arrays and names as a database keeps them: fixed little-endian bytes, nothing that runs."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from mixts._typing import Array, ArrayLike, Bool, Float
from mixts.errors import StatisticsError, StoreError
from mixts.families import Family, Statistics
from mixts.families.arms import ArmStatistics
from mixts.prior import MixturePrior

WORD = 8
"""Bytes of every number: 64-bit integers and doubles."""


def new_id(now: int) -> bytes:
    """16 bytes: milliseconds, so that an index grows at its end, and 80 random bits."""
    return (now // 1000).to_bytes(6, "big") + os.urandom(10)


def parse_id(text: object) -> bytes | None:
    """The bytes of a decision's id, or None where it cannot be one."""
    if not isinstance(text, str) or len(text) != 32 or not text.isascii() or not text.isalnum():
        return None
    try:
        return bytes.fromhex(text)
    except ValueError:
        return None


def now_us() -> int:
    """Microseconds since 1970."""
    return time.time_ns() // 1000


# -- numbers --------------------------------------------------------------------------------------


def pack(values: ArrayLike) -> bytes:
    """Doubles, one after the other."""
    return np.ascontiguousarray(values, "<f8").tobytes()


def unpack(content: bytes) -> Float[Array, " n"]:
    """What ``pack`` packed, as an array of its own."""
    return np.frombuffer(content, "<f8").astype(float)


def request_digest(actions: Array | None, mask: Bool[Array, " K"] | None) -> bytes:
    """What a key stands for: a retry must ask for the same."""
    content = hashlib.sha256()
    for part in (actions, mask):
        content.update(b"-" if part is None else repr(part.shape).encode() + part.tobytes())
    return content.digest()[:16]


def prior_digest(prior: MixturePrior) -> bytes:
    """The same for the same prior, whatever file it came from."""
    header, arrays = prior.bundle()
    content = hashlib.sha256(repr(sorted(header.items())).encode())
    for name, array in sorted(arrays.items()):
        content.update(f"{name} {array.dtype.str} {array.shape}".encode())
        content.update(np.ascontiguousarray(array).tobytes())
    return content.digest()


# -- statistics -----------------------------------------------------------------------------------


class StatisticsCodec:
    """The statistics of tasks as one string of bytes each, for one family.

    A string is the task's entries of each field, in order, 8 bytes a number; an empty one is a task
    with no history. Arms that were appended later are missing in older strings, and counted as
    never observed.
    """

    def __init__(self, family: Family) -> None:
        self.kind = family.statistics_type
        self._empty = family.empty_statistics(1)
        shapes = [self._empty.array(name).shape[1:] for name in self.kind.fields]
        self._sizes = [int(np.prod(shape)) for shape in shapes]
        ends = np.cumsum([0, *self._sizes]).tolist()
        places = [slice(*ends_of) for ends_of in pairwise(ends)]
        self._layout = list(zip(places, shapes, self.kind.fields.values(), strict=True))
        self.n_bytes = WORD * sum(self._sizes)
        self._blank = bytes(self.n_bytes)

    def decode(self, contents: Sequence[bytes]) -> Statistics:
        """The statistics of these tasks, with the task axis."""
        whole = b"".join(
            content if len(content) == self.n_bytes else self._complete(content)
            for content in contents
        )
        n = len(contents)
        words = np.frombuffer(whole, "<i8").reshape(n, self.n_bytes // WORD)
        arrays = []
        for place, shape, dtype in self._layout:
            part = words[:, place].astype(np.int64)
            arrays.append((part.view(dtype) if dtype is float else part).reshape(n, *shape))
        made = self.kind.adopt(arrays)
        try:
            made.check()
        except StatisticsError as error:
            raise StoreError(f"a task's statistics are damaged: {error}") from error
        return made

    def encode(self, statistics: Statistics, rows: Any = slice(None)) -> list[bytes]:
        """A string for each task, or for some of them."""
        parts = [
            statistics.array(name)[rows].astype("<f8" if dtype is float else "<i8")
            for name, dtype in self.kind.fields.items()
        ]
        parts = [part.reshape(len(part), -1) for part in parts]
        words = np.concatenate([part.view("<i8") for part in parts], axis=1)
        return [row.tobytes() for row in words]

    def _complete(self, content: bytes) -> bytes:
        """A task without history, or one from before arms were appended."""
        if not content:
            return self._blank
        n_fields = len(self._sizes)
        narrow, rest = divmod(len(content), WORD * n_fields)
        if not issubclass(self.kind, ArmStatistics) or rest or narrow > self._sizes[0]:
            raise StoreError(
                f"a task's statistics have {len(content)} bytes where the prior expects "
                f"{self.n_bytes}: they are of another family, or damaged"
            )
        old = np.frombuffer(content, "<i8").reshape(n_fields, narrow)
        return np.pad(old, ((0, 0), (0, self._sizes[0] - narrow))).tobytes()
