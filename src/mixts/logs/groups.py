"""Groups of rows that an engine counted: their statistics, and the sample of whole tasks.

The groups go through the same code as rows do (:func:`mixts.logs.rows.observations`), so names,
levels and reasons of bad rows are the same; only counting uses how many rows a group has, and the
moments of its rewards.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from mixts._numbers import LARGEST_TOTAL
from mixts._typing import Array, Float, Int
from mixts.errors import FormatError, LogsError, StatisticsError
from mixts.families import (
    BernoulliStatistics,
    GaussianStatistics,
    LinearBernoulliStatistics,
    LinearStatistics,
    PoissonStatistics,
    SpendStatistics,
    Statistics,
)
from mixts.families.linear_statistics import weighted_triangles
from mixts.families.special import log_rising
from mixts.logs.bad_rows import BadRows, Example, refuse_arm_a_row
from mixts.logs.files import LogTable, RowBatch, pieces_of
from mixts.logs.lazy import Groups, LazyLog
from mixts.logs.pieces import (
    MANY_ARMS,
    MAX_RATING_LEVELS,
    MOST_ROWS,
    Amounts,
    PieceCounts,
    RowSample,
    Spans,
    TaskTimes,
    arms_seen,
    name_hashes,
    read_piece,
)
from mixts.logs.queries import Query
from mixts.logs.rows import Observations, moments, observations
from mixts.logs.schema import FileSchema
from mixts.logs.tally import TOO_MUCH, Counted, Tally, binary, check_room, too_large


@dataclass(frozen=True)
class Cells:
    """Usable groups of one block, with indices into the tasks and arms that they use."""

    tasks: Int[Array, " m"]
    n_tasks: int
    arms: Int[Array, " a"]
    n_arms: int
    features: Float[Array, "m d"]
    n: Int[Array, " m"]
    won: Int[Array, " m"]
    """Number of rewards 1 in groups of rewards 0 and 1; 0 in others."""
    rewards: Float[Array, " m"]
    """The reward of each group, or its smallest one."""
    average: Float[Array, " m"]
    squares: Float[Array, " m"]
    groups: Groups = field(repr=False)

    def sums(self, values: Array) -> Array:
        """Return the sums of values by task and arm."""
        at = self.tasks * self.n_arms + self.arms
        shape = self.n_tasks, self.n_arms
        if values.dtype == np.int64:  # bincount adds in floating point
            found = np.zeros(self.n_tasks * self.n_arms, np.int64)
            np.add.at(found, at, values)
            return found.reshape(shape)
        return np.bincount(at, values, self.n_tasks * self.n_arms).reshape(shape)

    def merged(self, n: Array, average: Array, squares: Array) -> tuple[Array, Array, Array]:
        """Return count, average and squared deviations by task and arm of groups with moments."""
        count = self.sums(n)
        some = np.maximum(count, 1)
        first = self.sums(n * average) / some
        # Once more around the average, so that the groups' own average is exact to rounding.
        apart = average - first[self.tasks, self.arms]
        shift = self.sums(n * apart) / some
        mean = np.where(count > 0, first + shift, 0.0)
        rest = self.sums(squares + n * (average - mean[self.tasks, self.arms]) ** 2)
        return count, mean, rest


# -- statistics -----------------------------------------------------------------------------------


def _bernoulli(cells: Cells) -> Statistics:
    return BernoulliStatistics(
        successes=cells.sums(cells.won), failures=cells.sums(cells.n - cells.won)
    )


def _poisson(cells: Cells) -> Statistics:
    n, rewards = cells.n, cells.rewards
    if (cells.sums(n * rewards) > LARGEST_TOTAL).any():
        raise StatisticsError(TOO_MUCH)
    return PoissonStatistics(
        count=cells.sums(n),
        total=cells.sums(n * rewards.astype(np.int64)),
        log_factorials=cells.sums(n * log_rising(1.0, rewards)),
    )


def _gaussian(cells: Cells) -> Statistics:
    count, average, squares = cells.merged(cells.n, cells.average, cells.squares)
    return GaussianStatistics(count=count, average=average, squares=squares)


def _spend(cells: Cells) -> SpendStatistics:
    bought = np.where(binary(cells.rewards), cells.won, cells.n)
    logs = np.log(np.where(cells.rewards > 0, cells.rewards, 1.0))
    differ = cells.groups.differ
    average = np.where(differ, cells.groups.log_average, logs)
    squares = np.where(differ, cells.groups.log_squares, 0.0)
    purchases, average, squares = cells.merged(bought, average, squares)
    misses = cells.sums(cells.n - bought)
    return SpendStatistics(purchases=purchases, misses=misses, average=average, squares=squares)


def _linear(cells: Cells) -> Statistics:
    moments = cells.n, cells.average, cells.squares
    factor = weighted_triangles(cells.tasks, cells.features, moments, cells.n_tasks)
    count = np.zeros(cells.n_tasks, np.int64)
    np.add.at(count, cells.tasks, cells.n)
    return LinearStatistics(count=count, factor=factor)


def _logistic(cells: Cells, decimals: int | None) -> Statistics:
    order = np.argsort(cells.tasks, kind="stable")
    return LinearBernoulliStatistics(
        size=np.bincount(cells.tasks, minlength=cells.n_tasks),
        rows=cells.features[order] + 0.0,
        trials=cells.n[order],
        successes=cells.won[order],
        decimals=decimals,
    )


_STATISTICS = {
    "bernoulli": _bernoulli, "gaussian": _gaussian, "poisson": _poisson, "spend": _spend,
    "linear": _linear,
}  # fmt: skip


def _counted(
    cells: Cells, names: tuple[tuple[str, ...], tuple[str, ...]], schema: FileSchema
) -> Counted:
    """Return the statistics of groups; "auto" is the narrowest family of their rewards."""
    family, linear = schema.family, schema.arm is None
    is_auto = family == "auto"
    if is_auto and binary(cells.rewards).all():
        family = "logistic" if linear else "bernoulli"
    elif is_auto:
        family = "linear" if linear else "gaussian"
    if family == "logistic":
        try:
            return Counted(*names, family, _logistic(cells, schema.decimals))
        except StatisticsError as error:
            said = too_large(error)
            if not is_auto:
                raise LogsError(said) from error
            return Counted(*names, "linear", _linear(cells), too_large=said)
    spends = None
    if is_auto and family == "gaussian" and not (cells.rewards < 0).any():
        spends = _spend(cells)
    return Counted(*names, family, _STATISTICS[family](cells), spends)


def _cells(rows: Observations, groups: Groups) -> tuple[Cells, tuple[Any, Any]]:
    """Return the usable groups, and the names of their tasks and arms."""
    used, tasks = np.unique(rows.tasks, return_inverse=True)
    used_arms, arms = np.unique(rows.arms, return_inverse=True)
    check_room(len(used), len(used_arms), rows.features.shape[1])
    won = np.where(groups.won >= 0, groups.won, groups.n * (rows.rewards == 1))
    share, zeros_and_ones = won / groups.n, binary(rows.rewards)
    average = np.where(groups.differ, groups.average, rows.rewards)
    squares = np.where(groups.differ, groups.squares, 0.0)
    cells = Cells(
        tasks, len(used), arms, len(used_arms), rows.features, groups.n, won, rows.rewards,
        np.where(zeros_and_ones, share, average),
        np.where(zeros_and_ones, won * (1 - share), squares), groups,
    )  # fmt: skip
    names = (
        tuple(rows.task_names[i] for i in used), tuple(rows.arm_names[i] for i in used_arms),
    )  # fmt: skip
    return cells, names


# -- blocks ---------------------------------------------------------------------------------------


def read_groups(
    columns: dict[str, Any], groups: Groups, schema: FileSchema, name: str
) -> PieceCounts:
    """Count the groups of a block, as :func:`mixts.logs.pieces.read_piece` counts rows."""
    batch = RowBatch(columns, np.arange(len(groups.n)), BadRows(), groups)
    rows = observations(batch, schema, name)
    good = groups.at(rows.rows)
    n_rows = int(groups.n.sum())
    if len(rows.arm_names) > MANY_ARMS:
        refuse_arm_a_row(n_rows, len(rows.arm_names), str(schema.arm))
    cells, names = _cells(rows, good)
    counted = _counted(cells, names, schema)
    spans = Spans(len(schema.feature_names))
    spans.add(cells.tasks, rows.features)
    times = TaskTimes()
    if schema.time is not None:
        times.add(cells.tasks, rows.times, rows.n_dates)
        last = moments(good.last)[0]
        times.add(cells.tasks, last, int(rows.n_dates))
    present = ~rows.missing
    highest = np.where(np.isnan(good.high), rows.rewards, good.high)
    reward_range = (
        float(np.min(rows.rewards[present], initial=np.inf)),
        float(np.max(highest[present], initial=-np.inf)),
    )
    seen = frozenset[str]()
    if schema.arms is not None:
        seen = arms_seen(frozenset(rows.arm_names), schema.arms)
    n_missing = int(good.n[rows.missing].sum())
    found = PieceCounts(
        counted, rows.bad, n_rows, n_missing=n_missing, reward_range=reward_range, times=times,
        spans=spans, arm_names=seen,
    )  # fmt: skip
    return _with_amounts(found, cells, highest, name) if schema.family == "auto" else found


def _with_amounts(found: PieceCounts, cells: Cells, highest: Array, name: str) -> PieceCounts:
    """Add what decides between the families."""
    zeros_and_ones = binary(cells.rewards)
    unlike = cells.rewards[~zeros_and_ones]
    other = Example(name, 0, f"{unlike[0]:g}") if len(unlike) else None
    amounts = Amounts.of(np.concatenate([cells.rewards, highest]))
    n_zeros = int((cells.n - cells.won)[zeros_and_ones].sum())
    n_other = int(cells.n[~zeros_and_ones].sum())
    return replace(found, n_other=n_other, other=other, amounts=replace(amounts, n_zeros=n_zeros))


def read_lazy(log: LazyLog, schema: FileSchema) -> Iterator[tuple[PieceCounts, float]]:
    """Yield the counts of a lazy table, a range of tasks at a time, and its share of the work."""
    query = Query(log, schema)
    totals = query.totals()
    amounts = Amounts()
    if schema.family == "auto" and schema.arm is not None and totals.n_other:
        # Groups tell their smallest and largest reward only.
        amounts = Amounts(some=frozenset(query.amounts(MAX_RATING_LEVELS + 1)))
    ranges = query.ranges(totals)
    for low, high in ranges:
        part = read_groups(*query.block(low, high, totals), schema, log.name)
        yield replace(part, amounts=part.amounts + amounts), 1 / len(ranges)


# -- the sample -----------------------------------------------------------------------------------


def task_table(
    log: LazyLog, names: Sequence[str], schema: FileSchema, most: int | None = None
) -> LogTable:
    """Return the rows of some tasks of a lazy table as a table in memory, at most so many."""
    return LogTable(log.name, log.header, log.rows_of(names, schema, most))


class SampledTasks:
    """Tasks whose names have the smallest hashes, as many as fit into a sample."""

    def __init__(self) -> None:
        self._names: Array = np.empty(0, object)
        self._hashes: Any = np.empty(0, np.uint64)
        self._counts: Int[Array, " n"] = np.empty(0, np.int64)
        self._limit: Any = RowSample().limit

    def add(self, counted: Counted) -> None:
        """Consider the tasks of a block."""
        counts = np.asarray(counted.statistics.n_observations)
        hashes = name_hashes(counted.tasks)
        some = np.flatnonzero((counts > 0) & (hashes < self._limit))
        names = np.array(counted.tasks, object)[some]
        self._names = np.concatenate([self._names, names])
        self._hashes = np.concatenate([self._hashes, hashes[some]])
        self._counts = np.concatenate([self._counts, counts[some]])
        distinct, places = np.unique(self._hashes, return_inverse=True)
        beyond = np.cumsum(np.bincount(places, self._counts)) > MOST_ROWS
        if beyond.any():
            # A task that is too large alone is kept: it gives its first rows.
            first = max(int(np.argmax(beyond)), 1)
            self._limit = distinct[first] if first < len(distinct) else self._limit
            kept = places < first
            self._names, self._hashes = self._names[kept], self._hashes[kept]
            self._counts = self._counts[kept]

    def rows(self, log: LazyLog, schema: FileSchema, tally: Tally) -> RowSample:
        """Return the rows of these tasks, with the indices of a tally: one more query."""
        if not len(self._names):
            return RowSample(limit=self._limit)
        found = RowSample()
        for piece in pieces_of(task_table(log, self._names.tolist(), schema, MOST_ROWS), ","):
            part = read_piece(piece, ",", schema)
            assert part.counted is not None
            known = len(tally.tasks), len(tally.arms)
            tasks = tally.tasks.indices(part.counted.tasks)
            arms = tally.arms.indices(part.counted.arms)
            if known != (len(tally.tasks), len(tally.arms)):
                raise FormatError(
                    f"{log.name} has other rows than a moment ago: read a table that does not "
                    "change, such as the rows before a time (WHERE)"
                )
            found += part.sample.moved(tasks, arms)
        return replace(found, limit=self._limit)
