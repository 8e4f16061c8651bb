"""Rows of some tasks, kept while logs are read: statistics hold neither single rows nor order.

The tasks are those whose names have the smallest hashes, as many as fit into the sample with all of
their rows. So the sample depends on the logs alone, not on the workers that read them.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mixts._typing import Array, Float, Int

MOST_ROWS = 1 << 16
"""Largest number of rows in a sample: enough for every test of :mod:`mixts.logs.review`."""

_ARRAYS = ("tasks", "choices", "rewards", "times", "hashes")
_NO_LIMIT = np.uint64(2**64 - 1)


@dataclass(frozen=True)
class RowSample:
    """All rows of some tasks, in the order of the files."""

    tasks: Int[Array, " m"]
    """Task of each row."""
    choices: Int[Array, " m"]
    """Arm of each row, or a number that rows with the same features share."""
    rewards: Float[Array, " m"]
    times: Float[Array, " m"]
    """Time of each row; NaN if the logs have none."""
    hashes: Any
    """Hash of each row's task."""
    limit: Any = _NO_LIMIT
    """Tasks with this hash or a larger one are left out."""

    def __len__(self) -> int:
        return len(self.tasks)

    def moved(self, tasks: Int[Array, " n"], arms: Int[Array, " k"]) -> RowSample:
        """Return the same rows with other indices of tasks and, unless empty, of arms."""
        choices = arms[self.choices] if len(arms) else self.choices
        return replace(self, tasks=tasks[self.tasks], choices=choices)

    def __add__(self, other: RowSample) -> RowSample:
        """Return the sample of both logs; the rows of the left side come first."""
        limit = min(self.limit, other.limit)
        kept = [one._where(one.hashes < limit) for one in (self, other)]
        arrays = {name: np.concatenate([getattr(one, name) for one in kept]) for name in _ARRAYS}
        both = RowSample(**arrays, limit=limit)
        return both._trimmed() if len(both) > MOST_ROWS else both

    def _trimmed(self) -> RowSample:
        hashes, counts = np.unique(self.hashes, return_counts=True)
        first = int(np.argmax(np.cumsum(counts) > MOST_ROWS))
        if first:
            found = self._where(self.hashes < hashes[first])
            return replace(found, limit=hashes[first])
        # One task alone is too large: keep its first rows.
        rows = np.flatnonzero(self.hashes == hashes[0])[:MOST_ROWS]
        limit = hashes[1] if len(hashes) > 1 else self.limit
        return replace(self._where(rows), limit=limit)

    def _where(self, rows: Any) -> RowSample:
        return replace(self, **{name: getattr(self, name)[rows] for name in _ARRAYS})


def no_rows() -> RowSample:
    """Return an empty sample, from which no task is left out so far."""
    nothing = np.empty(0, np.int64)
    return RowSample(nothing, nothing, np.empty(0), np.empty(0), np.empty(0, np.uint64))


def name_hashes(names: Sequence[str]) -> Any:
    """Return a hash of each name, the same on every machine."""
    codes = np.array([zlib.crc32(name.encode("utf-8", "surrogatepass")) for name in names])
    return _mixed(codes.astype(np.uint64))


def feature_hashes(features: Float[Array, "m d"]) -> Int[Array, " m"]:
    """Return a number for each row of features; equal rows have equal numbers."""
    bits = np.ascontiguousarray(features + 0.0).view(np.uint64)  # -0.0 becomes 0.0
    total = np.zeros(len(features), np.uint64)
    for column in bits.T:
        total = _mixed(total + column)
    return total.view(np.int64)


def _mixed(values: Any) -> Any:
    """Mix the bits of 64-bit numbers as the generator SplitMix64 does."""
    with np.errstate(over="ignore"):
        mixed = values + np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return mixed ^ (mixed >> np.uint64(31))
