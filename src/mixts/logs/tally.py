"""Count rows into statistics of tasks and arms whose names appear while the rows are read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from mixts._typing import Array, Int
from mixts.errors import LogsError, ObservationError, OutcomeError, ParameterError, StatisticsError
from mixts.families import (
    BernoulliStatistics,
    GaussianStatistics,
    LinearBernoulliStatistics,
    LinearStatistics,
    SpendStatistics,
    Statistics,
)
from mixts.logs.bad_rows import WIDER
from mixts.logs.rows import Observations
from mixts.logs.schema import KINDS

MOST_NUMBERS = 1 << 31
"""Largest size of an array: 16 GiB. A larger one is usually a mistake: an arm for every row."""

_SPARE = 4
"""Tables grow by doubling, and are copied to merge: they take this many times their size."""


class Names:
    """Names in order of appearance, each with its index."""

    def __init__(self, names: Sequence[str] = ()) -> None:
        self._index: dict[str, int] = {}
        self.indices(names)

    def __len__(self) -> int:
        return len(self._index)

    def __iter__(self) -> Iterator[str]:
        return iter(self._index)

    def indices(self, names: Sequence[str]) -> Int[Array, " n"]:
        """Return the index of each name; new names are appended."""
        index = self._index
        return np.array([index.setdefault(name, len(index)) for name in names], dtype=np.int64)


@dataclass(frozen=True)
class Counted:
    """Statistics of the tasks and arms of a piece of the logs."""

    tasks: tuple[str, ...]
    arms: tuple[str, ...]
    family: str
    statistics: Statistics
    spends: SpendStatistics | None = None
    """The same rewards as purchases and spends, if the family "gaussian" is not the only choice."""
    too_large: str = ""
    """Why the rows did not fit into the tables that the family "logistic" needs; "" if they did,
    or if no table was made."""

    def widened(self) -> Counted:
        """Return counts of rewards 0 and 1 as counts of any rewards."""
        counts = self.statistics
        if isinstance(counts, LinearBernoulliStatistics):
            return replace(self, family="linear", statistics=counts.to_linear())
        assert isinstance(counts, BernoulliStatistics)
        wide, spends = as_gaussian(counts), as_spends(counts)
        return replace(self, family="gaussian", statistics=wide, spends=spends)


class _Arrays:
    """Statistics of one size for each task, or for each task and arm, with room for more."""

    def __init__(self, kind: type[Statistics], n_features: int) -> None:
        self._kind = kind
        self._linear = kind is LinearStatistics
        self._size = n_features + 1
        self._arrays: dict[str, Array] = {}
        self._make((0, 0))

    @classmethod
    def of(cls, statistics: Statistics, n_features: int = 0) -> _Arrays:
        """Take over the arrays of statistics."""
        made = cls(type(statistics), n_features)
        made._arrays = {name: statistics.array(name) for name in statistics.fields}
        made._room = (len(statistics), 0 if made._linear else statistics.shape[0])
        return made

    def _shape(self, name: str, room: tuple[int, int]) -> tuple[int, ...]:
        if not self._linear:
            return room
        return (room[0], self._size, self._size) if name == "factor" else room[:1]

    def _make(self, room: tuple[int, int]) -> None:
        self._room = room
        self._arrays = {
            name: np.zeros(self._shape(name, room), dtype)
            for name, dtype in self._kind.fields.items()
        }

    def grow(self, n_tasks: int, n_arms: int) -> None:
        """Make room for so many tasks and arms; at least twice as much as before."""
        needed = (n_tasks, 0 if self._linear else n_arms)
        if all(n <= room for n, room in zip(needed, self._room, strict=True)):
            return
        per_task = self._size**2 if self._linear else needed[1]
        if needed[0] * per_task > MOST_NUMBERS:
            what = f"{self._size - 1:,} features" if self._linear else f"{needed[1]:,} arms"
            raise ParameterError(
                f"{needed[0]:,} tasks with {what} are more than fit into memory: check the names "
                "of the columns, or limit the arms by a list"
            )
        before = self._arrays
        n_tasks, n_arms = (
            had if n <= had else max(n, 2 * had) for n, had in zip(needed, self._room, strict=True)
        )
        self._make((n_tasks, n_arms))
        for name, array in before.items():
            self._arrays[name][tuple(slice(n) for n in array.shape)] = array

    def observe(self, tasks: Int[Array, " m"], observed: tuple[Array, ...]) -> None:
        """Count observations."""
        statistics = self._kind.adopt(tuple(self._arrays.values()))
        try:
            statistics.observe(tasks, observed)
        except OutcomeError as error:
            # The rows were checked: only the sum of an arm's rewards can be too large.
            raise StatisticsError("the rewards of an arm add up to more than 2^62") from error

    def merge(self, tasks: Int[Array, " n"], arms: Int[Array, " k"], theirs: Statistics) -> None:
        """Add the statistics of these tasks and arms."""
        where = tasks if self._linear else np.ix_(tasks, arms)
        ours = self._at(where)
        known = np.asarray(ours.n_observations) > 0
        merged = ours[known] + theirs[known]
        for name, array in self._arrays.items():
            values = theirs.array(name).copy()
            values[known] = merged.array(name)
            array[where] = values

    def select(self, tasks: Int[Array, " n"], arms: Int[Array, " k"]) -> Statistics:
        """Return the statistics of these tasks and arms."""
        return self._at(tasks if self._linear else np.ix_(tasks, arms))

    def _at(self, where: Any) -> Statistics:
        return self._kind(single=False, **{name: a[where] for name, a in self._arrays.items()})


class _TooLargeError(Exception):
    """Tables that would have too many rows."""


class _Tables:
    """Tables of distinct feature rows, with the methods of :class:`_Arrays`."""

    def __init__(self, n_features: int, decimals: int | None) -> None:
        self.statistics = LinearBernoulliStatistics.empty((n_features,), 0, decimals=decimals)

    def grow(self, n_tasks: int, n_arms: int) -> None:
        had = len(self.statistics)
        if n_tasks > had:
            self.statistics = self.statistics.extend(max(n_tasks, 2 * had) - had)

    def observe(self, tasks: Int[Array, " m"], observed: tuple[Array, ...]) -> None:
        """Count observations, or raise `_TooLargeError` and count none."""
        self._check_size(0)
        try:
            self.statistics.observe(tasks, observed)
        except ObservationError as error:  # the rows were checked: there are too many of them
            raise _TooLargeError(str(error)) from error

    def merge(self, tasks: Int[Array, " n"], arms: Int[Array, " k"], theirs: Statistics) -> None:
        """Add the tables of these tasks, or raise `_TooLargeError` and add none."""
        assert isinstance(theirs, LinearBernoulliStatistics)
        self._check_size(int(theirs.tables.size.sum()))
        places = np.full(len(self.statistics), len(theirs))
        places[tasks] = np.arange(len(theirs))
        try:
            self.statistics = self.statistics + theirs.extend(1)[places]
        except ObservationError as error:
            raise _TooLargeError(str(error)) from error

    def select(self, tasks: Int[Array, " n"], arms: Int[Array, " k"]) -> Statistics:
        return self.statistics[tasks]

    def _check_size(self, n_more: int) -> None:
        (d,), n_rows = self.statistics.shape, int(self.statistics.tables.size.sum()) + n_more
        if _SPARE * n_rows * (d + 2) > MOST_NUMBERS:
            raise _TooLargeError(
                f"all tasks together have about {n_rows:,} distinct rows of {d:,} features, more "
                "than fit into memory"
            )


class Tally:
    """Statistics that grow by rows, or by merging other counts.

    With the family "auto", rewards are counted as 0 and 1 until one is neither; then the counts
    become averages, and the family "gaussian", or "linear" with features. Until a reward is
    negative, the rewards of arms are also counted as purchases and spends, because only all rewards
    together decide between "gaussian" and "spend". Tables that grow too large become "linear".
    """

    def __init__(
        self,
        family: str,
        arms: Sequence[str] | None,
        n_features: int,
        decimals: int | None = None,
    ) -> None:
        self._auto = family == "auto"
        self._n_features = n_features
        self.family = ("logistic" if n_features else "bernoulli") if self._auto else family
        self.tasks, self.arms = Names(), Names(arms or ())
        self._store: _Arrays | _Tables = (
            _Tables(n_features, decimals)
            if self.family == "logistic"
            else _Arrays(KINDS[self.family], n_features)
        )
        self._spends: _Arrays | None = None
        self._too_large = ""

    def _widen(self) -> None:
        """Convert counts of rewards 0 and 1 to counts of any rewards."""
        wide = self.counted().widened()
        self.family, self._store = wide.family, _Arrays.of(wide.statistics, self._n_features)
        self._spends = None if wide.spends is None else _Arrays.of(wide.spends)

    # -- counting -----------------------------------------------------------------------------

    def add(self, rows: Observations) -> tuple[Int[Array, " m"], Int[Array, " a"]]:
        """Count the rows of a batch; return the task and, without features, the arm of each row."""
        tasks = self._named(self.tasks, rows.task_names, rows.tasks)
        linear = bool(self._n_features)
        arms = rows.arms if linear else self._named(self.arms, rows.arm_names, rows.arms)
        if self._auto and self.family in WIDER and not binary(rows.rewards).all():
            self._widen()
        if self._spends is not None and (rows.rewards < 0).any():
            self._spends = None
        observed = (rows.features if linear else arms, rows.rewards)
        for store in self._stores():
            store.grow(len(self.tasks), len(self.arms))
            try:
                store.observe(tasks, observed)
            except _TooLargeError as error:
                self._leave_tables(error)
                self._store.observe(tasks, observed)
        return tasks, arms

    def _stores(self) -> list[_Arrays | _Tables]:
        return [self._store] if self._spends is None else [self._spends, self._store]

    def _leave_tables(self, error: _TooLargeError) -> None:
        """Count on as "linear": a later reward may be neither 0 nor 1, and then this is right."""
        self._too_large = too_large(error)
        if not self._auto:
            raise LogsError(self._too_large) from error
        self._widen()

    def _named(
        self, names: Names, found: Sequence[str], index: Int[Array, " m"]
    ) -> Int[Array, " m"]:
        """Convert indices into a batch's names to indices into all names; skip unused names."""
        used = np.unique(index)
        places = np.full(len(found), -1)
        places[used] = names.indices([found[i] for i in used])
        return places[index]

    def merge(self, other: Counted) -> tuple[Int[Array, " n"], Int[Array, " k"]]:
        """Add the counts of another tally; return the indices that its tasks and arms have here."""
        if other.family == WIDER.get(self.family):
            self._widen()
        elif other.family != self.family:
            other = other.widened()
        self._too_large = self._too_large or other.too_large
        tasks = self.tasks.indices(other.tasks)
        arms = self.arms.indices(other.arms)
        if other.spends is None:
            self._spends = None
        elif self._spends is not None:
            self._spends.grow(len(self.tasks), len(self.arms))
            self._spends.merge(tasks, arms, other.spends)
        self._store.grow(len(self.tasks), len(self.arms))
        try:
            self._store.merge(tasks, arms, other.statistics)
        except _TooLargeError as error:
            self._leave_tables(error)
            self._store.merge(tasks, arms, other.widened().statistics)
        return tasks, arms

    def counted(
        self, tasks: Int[Array, " n"] | None = None, arms: Int[Array, " k"] | None = None
    ) -> Counted:
        """Return all counts, in order of appearance or in a given order."""
        rows = np.arange(len(self.tasks)) if tasks is None else tasks
        columns = np.arange(len(self.arms)) if arms is None else arms
        for store in self._stores():
            store.grow(len(self.tasks), len(self.arms))
        spends = None if self._spends is None else self._spends.select(rows, columns)
        task_names, arm_names = tuple(self.tasks), tuple(self.arms)
        return Counted(
            tuple(task_names[i] for i in rows),
            () if self._n_features else tuple(arm_names[i] for i in columns),
            self.family,
            self._store.select(rows, columns),
            cast("SpendStatistics | None", spends),
            self._too_large,
        )


def too_large(error: Exception) -> str:
    """Say what to do about tables of distinct rows that do not fit."""
    return (
        f"{str(error).partition(':')[0]}, and the family logistic counts each of them. Round the "
        "features, or round them more (--round-features DECIMALS, decimals=DECIMALS); leave out "
        "features that differ from row to row; or choose --family linear "
        '(family="linear")'
    )


def as_gaussian(counts: BernoulliStatistics) -> GaussianStatistics:
    """Return the same rewards as numbers: n = s + f, average s / n, squared deviations s f / n."""
    won, lost = counts.array("successes"), counts.array("failures")
    n = won + lost
    some = np.maximum(n, 1)
    return GaussianStatistics(count=n, average=won / some, squares=won * (lost / some))


def as_spends(counts: BernoulliStatistics) -> SpendStatistics:
    """Return the same rewards as purchases: each spends 1, whose logarithm is 0."""
    won, lost = counts.array("successes"), counts.array("failures")
    zeros = np.zeros(won.shape)
    return SpendStatistics(purchases=won, misses=lost, average=zeros, squares=zeros)


def binary(rewards: Array) -> Array:
    """Return which rewards are 0 or 1."""
    return (rewards == 0) | (rewards == 1)
