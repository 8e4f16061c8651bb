"""Pieces of logs: count the rows of one, on a worker or here, and join the counts.

Statistics hold neither single rows nor their order, so a sample keeps the rows of some tasks: those
whose names have the smallest hashes, as many as fit with all of their rows. It depends on the logs
alone, not on the workers that read them.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from mixts._typing import Array, Float, Int
from mixts.logs.bad_rows import BadRows, Example, refuse_arm_a_row
from mixts.logs.files import Piece, RowBatch, batches_of
from mixts.logs.rows import Observations, observations
from mixts.logs.schema import FileSchema
from mixts.logs.tally import Counted, Tally, binary

MIN_ZERO_SHARE = 0.03
"""Share of zeros from which on rewards of at least 0 may be purchases and spends."""
MAX_RATING_LEVELS = 24
"""So few different rewards above 0 are levels, ratings or small counts."""
MANY_ARMS = 10_000
"""Number of arms in a batch above which an arm a row is refused at once."""
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
    """Different rewards above 0; if there are more than ``MAX_RATING_LEVELS``, some of them."""

    @classmethod
    def of(cls, rewards: Array) -> Amounts:
        """Return the amounts of some rewards."""
        amounts = rewards[rewards > 0]
        different = np.unique(amounts)[: MAX_RATING_LEVELS + 1]
        least = float(np.min(amounts, initial=np.inf))
        return cls(int((rewards == 0).sum()), least, frozenset(different.tolist()))

    def __add__(self, other: Amounts) -> Amounts:
        some = frozenset(sorted(self.some | other.some)[: MAX_RATING_LEVELS + 1])
        return Amounts(self.n_zeros + other.n_zeros, min(self.least, other.least), some)

    def are_spends(self, n: int) -> bool:
        """Return whether n rewards of at least 0 look like purchases and spends."""
        return self.n_zeros > MIN_ZERO_SHARE * n and len(self.some) > MAX_RATING_LEVELS


class TaskTimes:
    """First and last time of each task, which grows by rows or by merging."""

    def __init__(self) -> None:
        self.first: Float[Array, " n"] = np.empty(0)
        self.last: Float[Array, " n"] = np.empty(0)
        self.n_dates = 0
        self.n_numbers = 0

    def add(self, tasks: Int[Array, " m"], times: Float[Array, " m"], n_dates: int) -> None:
        """Note the times of rows, and how many of them are dates."""
        self._note(tasks, times, times)
        self.n_dates += n_dates
        self.n_numbers += len(times) - n_dates

    def merge(self, other: TaskTimes, tasks: Int[Array, " n"]) -> None:
        """Note the times of other tasks, whose indices here are given."""
        self._note(tasks, other.first, other.last)
        self.n_dates += other.n_dates
        self.n_numbers += other.n_numbers

    def _note(
        self, tasks: Int[Array, " m"], first: Float[Array, " m"], last: Float[Array, " m"]
    ) -> None:
        more = max(0, int(np.max(tasks, initial=-1)) + 1 - len(self.first))
        if more:
            more = max(more, len(self.first))  # at least twice as much as before
            self.first = np.concatenate([self.first, np.full(more, np.inf)])
            self.last = np.concatenate([self.last, np.full(more, -np.inf)])
        np.minimum.at(self.first, tasks, first)
        np.maximum.at(self.last, tasks, last)

    def ordered(self, tasks: Int[Array, " n"]) -> TaskTimes:
        """Return the times of these tasks, in their order."""
        found = TaskTimes()
        found.first, found.last = self.first[tasks], self.last[tasks]
        found.n_dates, found.n_numbers = self.n_dates, self.n_numbers
        return found


class Spans:
    """Smallest and largest number of each column of the rows, and whether a task has several."""

    def __init__(self, n_numbers: int) -> None:
        self.low, self.high = np.full(n_numbers, np.inf), np.full(n_numbers, -np.inf)
        self.varies = np.zeros(n_numbers, bool)
        """Whether each number differs within some task."""
        self._some = np.empty((0, n_numbers))
        """Some row of each task."""
        self._n_tasks = 0

    def add(self, tasks: Int[Array, " m"], rows: Float[Array, "m d"]) -> None:
        """Count rows; tasks that are new have the next indices."""
        if not len(rows):
            return
        self.low, self.high = np.minimum(self.low, rows.min(0)), np.maximum(self.high, rows.max(0))
        new = tasks >= self._n_tasks
        if new.any():
            self._n_tasks, room = int(tasks.max()) + 1, len(self._some)
            if self._n_tasks > room:
                more = np.empty((max(self._n_tasks, 2 * room) - room, rows.shape[1]))
                self._some = np.concatenate([self._some, more])
            self._some[tasks[new]] = rows[new]
        for j in np.flatnonzero(~self.varies & (self.low < self.high)):
            self.varies[j] = (rows[:, j] != self._some[tasks, j]).any()

    def merge(self, other: Spans, tasks: Int[Array, " n"]) -> None:
        """Count the rows that others counted; ``tasks`` are the indices of their tasks here."""
        self.add(tasks, other._some[: other._n_tasks])
        self.low, self.high = np.minimum(self.low, other.low), np.maximum(self.high, other.high)
        self.varies |= other.varies


# -- the sample -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class RowSample:
    """All rows of some tasks, in the order of the files; by default none."""

    tasks: Int[Array, " m"] = field(default_factory=lambda: np.empty(0, np.int64))
    """Task of each row."""
    choices: Int[Array, " m"] = field(default_factory=lambda: np.empty(0, np.int64))
    """Arm of each row, or a number that rows with the same features share."""
    rewards: Float[Array, " m"] = field(default_factory=lambda: np.empty(0))
    times: Float[Array, " m"] = field(default_factory=lambda: np.empty(0))
    """Time of each row; NaN if the logs have none."""
    hashes: Any = field(default_factory=lambda: np.empty(0, np.uint64))
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


# -- pieces ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PieceCounts:
    """Result of reading a piece of the logs; by default of no rows."""

    counted: Counted | None = None
    bad: BadRows = field(default_factory=BadRows)
    n_rows: int = 0
    n_other: int = 0
    """Number of rewards that are neither 0 nor 1."""
    other: Example | None = None
    """First reward that is neither 0 nor 1."""
    n_missing: int = 0
    """Number of rows without a reward that count all the same."""
    reward_range: tuple[float, float] = (np.inf, -np.inf)
    """Smallest and largest reward; infinity and minus infinity if there are none."""
    times: TaskTimes = field(default_factory=TaskTimes)
    sample: RowSample = field(default_factory=RowSample)
    amounts: Amounts = Amounts()
    """Zeros and amounts, where the family is chosen by the data."""
    spans: Spans = field(default_factory=lambda: Spans(0))
    """Ranges of the features."""
    arm_names: frozenset[str] = frozenset()
    """If the arms are listed: those of them that occur, and some others."""
    engine_rows: Mapping[str, int] = field(default_factory=dict)
    """Number of rows that each engine of lazy tables counted."""

    def plus(self, part: PieceCounts, above: int = 0) -> PieceCounts:
        """Return both, but for times and spans; the part begins ``above`` rows down its file."""
        (low, high), (least, most) = self.reward_range, part.reward_range
        return replace(
            self,
            bad=self.bad + part.bad.moved(above),
            n_rows=self.n_rows + part.n_rows,
            n_other=self.n_other + part.n_other,
            other=self.other or (part.other and part.other._replace(row=part.other.row + above)),
            n_missing=self.n_missing + part.n_missing,
            reward_range=(min(low, least), max(high, most)),
            sample=self.sample + part.sample,
            amounts=self.amounts + part.amounts,
            arm_names=self.arm_names | part.arm_names,
        )


def tally_of(schema: FileSchema) -> Tally:
    """Return an empty tally of rows."""
    return Tally(schema.family, schema.arms, len(schema.feature_names), schema.decimals)


def read_piece(piece: Piece, delimiter: str, schema: FileSchema) -> PieceCounts:
    """Count the rows of one piece, one batch at a time."""
    tally, found, seen = tally_of(schema), PieceCounts(), frozenset[str]()
    times, spans = TaskTimes(), Spans(len(schema.feature_names))
    for batch in batches_of(piece, schema.columns, delimiter, schema.batch_rows):
        if not batch.columns:
            found = found.plus(PieceCounts(bad=batch.ragged, n_rows=batch.ragged.total))
            continue
        rows = observations(batch, schema, piece.path)
        if len(rows.arm_names) > MANY_ARMS:  # before all of them get room
            refuse_arm_a_row(len(rows.rewards), len(rows.arm_names), str(schema.arm))
        if schema.arms is not None:
            seen = arms_seen(seen.union(rows.arm_names), schema.arms)
        tasks, arms = tally.add(rows)
        spans.add(tasks, rows.features)
        if schema.time is not None:
            times.add(tasks, rows.times, rows.n_dates)
        found = found.plus(_batch_counts(rows, batch, schema, piece))
        found = replace(found, sample=found.sample + _sampled(rows, tasks, arms, found.sample))
    counted = tally.counted()
    if schema.time is not None:
        times = times.ordered(np.arange(len(counted.tasks)))
    return replace(found, counted=counted, times=times, spans=spans, arm_names=seen)


def _batch_counts(
    rows: Observations, batch: RowBatch, schema: FileSchema, piece: Piece
) -> PieceCounts:
    """Return the counts of a batch, without those that depend on earlier batches."""
    present = rows.rewards[~rows.missing]
    found = PieceCounts(
        bad=rows.bad,
        n_rows=len(batch) + batch.ragged.total,
        n_missing=int(rows.missing.sum()),
        reward_range=(
            float(np.min(present, initial=np.inf)),
            float(np.max(present, initial=-np.inf)),
        ),
    )
    if schema.family != "auto":
        return found
    unlike = np.flatnonzero(~binary(rows.rewards))
    other = None
    if len(unlike):
        i, file = unlike[0], piece.path.replace("\\", "/").rpartition("/")[2]
        other = Example(file, int(rows.rows[i]), f"{rows.rewards[i]:g}")
    amounts = Amounts.of(rows.rewards)
    return replace(found, n_other=len(unlike), other=other, amounts=amounts)


def arms_seen(names: frozenset[str], listed: Sequence[str]) -> frozenset[str]:
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
