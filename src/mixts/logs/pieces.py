"""Pieces of logs: count the rows of one, on a worker or here, and join the counts.

Statistics hold neither single rows nor their order, so a sample keeps the rows of some tasks: those
whose names have the smallest hashes, as many as fit with all of their rows. It depends on the logs
alone, not on the workers that read them.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from mixts._typing import Array, Float, Int
from mixts.logs.bad_rows import BadRows, Example, refuse_arm_a_row
from mixts.logs.files import Piece, batches_of
from mixts.logs.levels import Spans
from mixts.logs.rows import Observations, observations
from mixts.logs.schema import LogSchema
from mixts.logs.tally import Counted, Tally, binary
from mixts.logs.times import TaskTimes

LEAST_ZEROS = 0.03
"""Share of zeros from which on rewards of at least 0 may be purchases and spends."""
FEW_AMOUNTS = 24
"""So few different rewards above 0 are levels, ratings or small counts."""
MANY_ARMS = 10_000
"""Number of arms in a batch above which an arm a row is refused at once."""
NO_RANGE = (np.inf, -np.inf)
MOST_ROWS = 1 << 16
"""Largest number of rows in a sample: enough for every test of :mod:`mixts.logs.review`."""

_ARRAYS = ("tasks", "choices", "rewards", "times", "hashes")
_NO_LIMIT = np.uint64(2**64 - 1)


@dataclass(frozen=True)
class Amounts:
    """Zeros and amounts among rewards."""

    n_zeros: int = 0
    least: float = np.inf
    """Smallest reward above 0."""
    some: frozenset[float] = frozenset()
    """Different rewards above 0; if there are more than ``FEW_AMOUNTS``, some of them."""

    @classmethod
    def of(cls, rewards: Array) -> Amounts:
        """Return the amounts of some rewards."""
        amounts = rewards[rewards > 0]
        different = np.unique(amounts)[: FEW_AMOUNTS + 1]
        least = float(np.min(amounts, initial=np.inf))
        return cls(int((rewards == 0).sum()), least, frozenset(different.tolist()))

    def __add__(self, other: Amounts) -> Amounts:
        some = frozenset(sorted(self.some | other.some)[: FEW_AMOUNTS + 1])
        return Amounts(self.n_zeros + other.n_zeros, min(self.least, other.least), some)

    def are_spends(self, n: int) -> bool:
        """Return whether n rewards of at least 0 look like purchases and spends."""
        return self.n_zeros > LEAST_ZEROS * n and len(self.some) > FEW_AMOUNTS


@dataclass(frozen=True)
class PieceCounts:
    """Result of reading a piece of the logs."""

    counted: Counted
    bad: BadRows
    n_rows: int
    n_other: int
    """Number of rewards that are neither 0 nor 1."""
    other: Example | None
    """First reward that is neither 0 nor 1."""
    n_missing: int
    """Number of rows without a reward that count all the same."""
    reward_range: tuple[float, float]
    """Smallest and largest reward; infinity and minus infinity if there are none."""
    times: TaskTimes
    sample: RowSample
    amounts: Amounts = Amounts()
    """Zeros and amounts, where the family is chosen by the data."""
    spans: Spans = field(default_factory=lambda: Spans(0))
    """Ranges of the features."""
    arm_names: frozenset[str] = frozenset()
    """If the arms are listed: those of them that occur, and some others."""

    def plus(self, part: PieceCounts, above: int) -> PieceCounts:
        """Return both, but for times and spans; the part begins ``above`` rows down its file."""
        other = part.other and part.other._replace(row=part.other.row + above)
        return replace(
            self,
            bad=self.bad + part.bad.moved(above),
            n_rows=self.n_rows + part.n_rows,
            n_other=self.n_other + part.n_other,
            other=self.other or other,
            n_missing=self.n_missing + part.n_missing,
            reward_range=_range(self.reward_range, part.reward_range),
            sample=self.sample + part.sample,
            amounts=self.amounts + part.amounts,
            arm_names=self.arm_names | part.arm_names,
        )


def tally_of(schema: LogSchema) -> Tally:
    """Return an empty tally of rows."""
    return Tally(schema.family, schema.arms, len(schema.feature_names), schema.decimals)


def read_piece(piece: Piece, delimiter: str, schema: LogSchema) -> PieceCounts:
    """Count the rows of one piece, one batch at a time."""
    tally = tally_of(schema)
    bad, n_rows = BadRows(), 0
    n_other, other, n_missing, extent = 0, None, 0, NO_RANGE
    amounts = Amounts()
    seen: frozenset[str] = frozenset()
    times, sample, spans = TaskTimes(), no_rows(), Spans(len(schema.feature_names))
    for batch in batches_of(piece, schema.columns, delimiter, schema.batch_rows):
        n_rows += len(batch) + batch.ragged.total
        if not batch.columns:
            bad += batch.ragged
            continue
        rows = observations(batch, schema, piece.path)
        bad += rows.bad
        n_missing += int(rows.missing.sum())
        extent = _range(extent, rows.rewards[~rows.missing])
        if schema.family == "auto":
            amounts += Amounts.of(rows.rewards)
            unlike = ~binary(rows.rewards)
            if unlike.any():
                n_other += int(unlike.sum())
                other = other or _example(rows, int(np.argmax(unlike)), piece)
        if len(rows.arm_names) > MANY_ARMS:  # before all of them get room
            refuse_arm_a_row(len(rows.rewards), len(rows.arm_names), str(schema.arm))
        if schema.arms is not None:
            seen = _arms_seen(seen.union(rows.arm_names), schema.arms)
        tasks, arms = tally.add(rows)
        spans.add(tasks, rows.features)
        if schema.time is not None:
            times.add(tasks, rows.times, rows.n_dates)
        sample += _sampled(rows, tasks, arms, sample)
    counted = tally.counted()
    if schema.time is not None:
        times = times.ordered(np.arange(len(counted.tasks)))
    return PieceCounts(
        counted, bad, n_rows, n_other, other, n_missing, extent, times, sample, amounts, spans,
        seen,
    )  # fmt: skip


def _arms_seen(names: frozenset[str], listed: tuple[str, ...]) -> frozenset[str]:
    """Return the listed arms among these names, and as many others as a message needs."""
    found = names.intersection(listed)
    return found.union(sorted(names - found)[:MANY_ARMS])


def _sampled(
    rows: Observations, tasks: Int[Array, " m"], arms: Int[Array, " a"], known: RowSample
) -> RowSample:
    """Return the rows of a batch whose tasks belong to a sample; arms are empty if linear."""
    hashes = name_hashes(rows.task_names)[rows.tasks]
    kept = hashes < known.limit
    choices = arms[kept] if len(rows.arm_names) else feature_hashes(rows.features[kept])
    return RowSample(tasks[kept], choices, rows.rewards[kept], rows.times[kept], hashes[kept])


def _range(known: tuple[float, float], rewards: Any) -> tuple[float, float]:
    """Return the smallest and largest reward, also of those before."""
    low, high = known
    return float(np.min(rewards, initial=low)), float(np.max(rewards, initial=high))


def _example(rows: Observations, index: int, piece: Piece) -> Example:
    file = piece.path.replace("\\", "/").rpartition("/")[2]
    return Example(file, int(rows.rows[index]), f"{rows.rewards[index]:g}")


# -- the sample -----------------------------------------------------------------------------------


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
