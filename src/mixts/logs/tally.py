"""Statistics of tasks and arms that become known only while rows are read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mixts._typing import Array, Int
from mixts.errors import OutcomeError, ParameterError, StatisticsError
from mixts.families import (
    BernoulliStatistics,
    GaussianStatistics,
    LinearStatistics,
    PoissonStatistics,
    SpendStatistics,
    Statistics,
)
from mixts.logs.rows import Observations

KINDS: dict[str, type[Statistics]] = {
    "bernoulli": BernoulliStatistics,
    "gaussian": GaussianStatistics,
    "poisson": PoissonStatistics,
    "spend": SpendStatistics,
    "linear": LinearStatistics,
}

MOST_NUMBERS = 1 << 31
"""Largest size of an array: 16 GiB. A larger one is usually a mistake: an arm for every row."""


class Names:
    """Names in order of appearance, each with its index."""

    def __init__(self, names: Sequence[str] = ()) -> None:
        self._index: dict[str, int] = {}
        self.indices(names)

    def __len__(self) -> int:
        return len(self._index)

    def __iter__(self) -> Any:
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


class Tally:
    """Statistics that grow by rows, or by merging other counts.

    With the family "auto", rewards are counted as Bernoulli until one is neither 0 nor 1; then the
    counts become averages, and the family "gaussian". Until a reward is negative, the rewards are
    also counted as purchases and spends: which of the two families it is, all rewards decide.
    """

    def __init__(self, family: str, arms: Sequence[str] | None, n_features: int) -> None:
        self._auto = family == "auto"
        self.family = "bernoulli" if self._auto else family
        self.tasks, self.arms = Names(), Names(arms or ())
        self._linear = family == "linear"
        self._size = n_features + 1
        self._arrays: dict[str, Array] = {}
        self._spends: Tally | None = None
        self._make_arrays((0, 0))

    # -- room ---------------------------------------------------------------------------------

    def _shape(self, name: str, room: tuple[int, int]) -> tuple[int, ...]:
        if not self._linear:
            return room
        return (room[0], self._size, self._size) if name == "factor" else room[:1]

    def _make_arrays(self, room: tuple[int, int]) -> None:
        self._room = room
        self._arrays = {
            name: np.zeros(self._shape(name, room), dtype)
            for name, dtype in KINDS[self.family].fields.items()
        }

    def _grow(self) -> None:
        """Make room for all named tasks and arms; at least twice as much as before."""
        needed = (len(self.tasks), 0 if self._linear else len(self.arms))
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
        self._make_arrays((n_tasks, n_arms))
        for name, array in before.items():
            self._arrays[name][tuple(slice(n) for n in array.shape)] = array

    def _become_gaussian(self) -> None:
        """Convert counts of 0 and 1 to averages s / n and squared deviations s f / n."""
        counts = BernoulliStatistics(single=False, **self._arrays)
        self.family = "gaussian"
        self._spends = Tally("spend", None, 0)
        self._spends.tasks, self._spends.arms = self.tasks, self.arms
        self._spends._adopt(as_spends(counts), self._room)
        found = as_gaussian(counts)
        self._arrays = {name: found.array(name) for name in found.fields}

    def _adopt(self, statistics: Statistics, room: tuple[int, int]) -> None:
        self._room = room
        self._arrays = {name: statistics.array(name) for name in statistics.fields}

    # -- counting -----------------------------------------------------------------------------

    def add(self, rows: Observations) -> tuple[Int[Array, " m"], Int[Array, " a"]]:
        """Count the rows of a batch; return the task and, unless linear, the arm of each row."""
        tasks = self._named(self.tasks, rows.task_names, rows.tasks)
        arms = rows.arms if self._linear else self._named(self.arms, rows.arm_names, rows.arms)
        if self._auto and self.family == "bernoulli" and not binary(rows.rewards).all():
            self._become_gaussian()
        if self._spends is not None and (rows.rewards < 0).any():
            self._spends = None
        if self._spends is not None:
            self._spends._observe(tasks, (arms, rows.rewards))
        self._observe(tasks, (rows.features if self._linear else arms, rows.rewards))
        return tasks, arms

    def _observe(self, tasks: Int[Array, " m"], observed: tuple[Array, ...]) -> None:
        self._grow()
        statistics = KINDS[self.family].adopt(tuple(self._arrays.values()))
        try:
            statistics.observe(tasks, observed)
        except OutcomeError as error:
            # Rows are checked before: only the sum of an arm's rewards can be too large.
            raise StatisticsError("the rewards of an arm add up to more than 2^62") from error

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
        if other.family == "gaussian" and self.family == "bernoulli":
            self._become_gaussian()
        tasks = self.tasks.indices(other.tasks)
        arms = self.arms.indices(other.arms)
        theirs, spends = other.statistics, other.spends
        if self.family == "gaussian" and isinstance(theirs, BernoulliStatistics):
            spends = as_spends(theirs)
            theirs = as_gaussian(theirs)
        if self._spends is not None and spends is None:
            self._spends = None
        if self._spends is not None and spends is not None:
            self._spends._merge(tasks, arms, spends)
        self._merge(tasks, arms, theirs)
        return tasks, arms

    def _merge(self, tasks: Int[Array, " n"], arms: Int[Array, " k"], theirs: Statistics) -> None:
        self._grow()
        where = tasks if self._linear else np.ix_(tasks, arms)
        kind = KINDS[self.family]
        ours = kind(single=False, **{name: array[where] for name, array in self._arrays.items()})
        known = np.asarray(ours.n_observations) > 0
        merged = ours[known] + theirs[known]
        for name, array in self._arrays.items():
            values = theirs.array(name).copy()
            values[known] = merged.array(name)
            array[where] = values

    def counted(
        self, tasks: Int[Array, " n"] | None = None, arms: Int[Array, " k"] | None = None
    ) -> Counted:
        """Return all counts, in order of appearance or in a given order."""
        rows = np.arange(len(self.tasks)) if tasks is None else tasks
        columns = np.arange(len(self.arms)) if arms is None else arms
        where = rows if self._linear else np.ix_(rows, columns)
        arrays = {name: array[where] for name, array in self._arrays.items()}
        spends = None
        if self._spends is not None:
            self._spends._grow()
            found = {name: array[where] for name, array in self._spends._arrays.items()}
            spends = SpendStatistics(single=False, **found)
        task_names, arm_names = tuple(self.tasks), tuple(self.arms)
        return Counted(
            tuple(task_names[i] for i in rows),
            () if self._linear else tuple(arm_names[i] for i in columns),
            self.family,
            KINDS[self.family](single=False, **arrays),
            spends,
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
