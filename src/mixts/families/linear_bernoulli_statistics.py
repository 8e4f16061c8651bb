"""Statistics of clicks with features: a table of distinct feature rows with their counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple, Self, cast

import numpy as np

from mixts import _checks, _program
from mixts._typing import Array, ArrayLike, Float, Int
from mixts.errors import ObservationError, OutcomeError, StatisticsError
from mixts.families.linear_statistics import (
    LinearStatistics,
    action_rows,
    check_rows,
    observed_rows,
    weighted_triangles,
)
from mixts.families.statistics import WORD, Statistics

MAX_ROWS = 10_000
"""Most distinct feature rows of a task by default: a belief about so many takes a tenth of a
second for each component, and every update makes it anew."""

_LEAST_ROOM = 4
"""Rows for which a task gets room at least; each time that room is used up, it doubles."""

_FEW_ROWS = 64
"""So many rows, or a batch so much smaller than the tables, are counted in place. The rows of a
whole log would make room in Python for every task again and again: sorting takes less time."""


class Tables(NamedTuple):
    """Where each task's rows are, (n,), and the rows of all tasks, (N, ...).

    The rows of a task lie one after the other, sorted by their numbers, the first number first. A
    sorted table does not depend on the order in which rows were counted.
    """

    start: Array
    """Place of the task's first row."""
    size: Array
    """Number of its rows."""
    room: Array
    """Number of rows that fit before another task's begin."""
    rows: Array
    """(N, d): features."""
    trials: Array
    successes: Array


class LinearBernoulliStatistics(Statistics):
    """Distinct feature rows of each task, sorted, with counts of trials and successes.

    This is all that any logistic model can use of a history. Tables merge by addition, and do not
    depend on the order of observations.

    Parameters
    ----------
    single
        Whether these are the statistics of one task without a task axis.
    size : (tasks,)
        Number of distinct rows of each task.
    rows : (N, d)
        Features: the rows of the first task, then those of the second, and so on.
    trials, successes : (N,)
        Number of observations with these features, and number of rewards 1 among them.
    decimals
        Round features to this many decimals before counting; None: no rounding.
    max_rows
        Most distinct rows of a task. An observation beyond them is refused.
    """

    kind: ClassVar[str] = "linear-bernoulli"
    fields: ClassVar[dict[str, Any]] = {
        "size": np.int64, "rows": float, "trials": np.int64, "successes": np.int64,
    }  # fmt: skip
    support: ClassVar[str] = "0 or 1"

    def __init__(
        self,
        *,
        single: bool = False,
        decimals: int | None = None,
        max_rows: int = MAX_ROWS,
        **arrays: ArrayLike,
    ) -> None:
        self.decimals, self.max_rows = checked_limits(decimals, max_rows)
        super().__init__(single=single, **arrays)

    def _store(self, arrays: Sequence[Array]) -> None:
        """Keep the tables, sorted if they are not."""
        size, rows, trials, successes = arrays
        shapes_fit = rows.ndim == 2 and size.ndim == 1 and rows.shape[1] >= 1
        if not shapes_fit or not trials.shape == successes.shape == rows.shape[:1]:
            raise StatisticsError(
                "expected size (tasks,), rows (N, d), trials (N,) and successes (N,), got "
                f"{size.shape}, {rows.shape}, {trials.shape} and {successes.shape}"
            )
        if (size < 0).any() or size.sum() != len(rows):
            raise StatisticsError(
                f"size must add up to the {len(rows)} rows of all tasks, got {size.sum()}"
            )
        self._set(_compact(size, rows, trials, successes))
        if not _are_sorted(self._tables):
            self._set(_compact(np.zeros_like(size), rows[:0], trials[:0], successes[:0]))
            owners = np.repeat(np.arange(len(size)), size)
            self._count(owners, rows + 0.0, trials, successes)

    def _set(self, tables: Tables) -> None:
        self._tables = tables
        self._end = len(tables.rows)
        """Place behind the rows of all tasks: room begins here."""

    @classmethod
    def array_shapes(cls, shape: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
        return {"size": (), "rows": shape, "trials": (), "successes": ()}

    @classmethod
    def empty(cls, shape: tuple[int, ...], n_tasks: int | None = None, **limits: Any) -> Self:
        """Return the statistics of tasks without observations.

        Parameters
        ----------
        shape
            (n_features,).
        n_tasks
            Number of tasks; None for one task without a task axis.
        **limits
            ``decimals`` and ``max_rows``, as for the class.
        """
        n = 1 if n_tasks is None else _checks.count(n_tasks, "n_tasks", least=0)
        none = np.zeros(0, np.int64)
        return cls(
            single=n_tasks is None, size=np.zeros(n, np.int64), rows=np.zeros((0, *shape)),
            trials=none, successes=none, **limits,
        )  # fmt: skip

    def _like(self, single: bool, arrays: dict[str, Array]) -> Self:
        return type(self)(
            single=single, decimals=self.decimals, max_rows=self.max_rows,
            **cast(dict[str, Any], arrays),
        )  # fmt: skip

    def _check(self) -> None:
        size, trials, successes = self._tables.size, self.array("trials"), self.array("successes")
        if not ((trials >= 1) & (successes >= 0) & (successes <= trials)).all():
            raise StatisticsError("every row needs a trial, and from 0 to all trials as successes")
        if size.max(initial=0) > self.max_rows:
            raise StatisticsError(self._too_many(int(size.max())))

    # -- observations -------------------------------------------------------------------------

    def observations(
        self, actions: ArrayLike, outcomes: ArrayLike
    ) -> tuple[Float[Array, "m d"], Float[Array, " m"]]:
        """Return feature rows and rewards as arrays of m observations."""
        features, rewards = observed_rows(actions, outcomes, self.shape[0])
        return self._rounded(features), rewards

    def checked_actions(self, actions: ArrayLike) -> Float[Array, "m d"]:
        """Return the feature rows of decisions without outcomes."""
        return action_rows(actions, self.shape[0])

    def _rounded(self, features: Float[Array, "m d"]) -> Float[Array, "m d"]:
        if self.decimals is not None:
            features = np.round(features, self.decimals)
        return features + 0.0  # -0.0 becomes 0.0: equal numbers must have equal bits

    def _observe(self, tasks: Int[Array, " m"], observed: tuple[Array, ...]) -> None:
        """Count the rows, one after the other."""
        features, rewards = observed
        check_rows(features, rewards)
        wrong = rewards * rewards != rewards
        if wrong.any():
            i = int(np.argmax(wrong))
            raise OutcomeError(
                f"rewards must be 0 or 1, got {rewards[i]:g} (observation {i}): rewards of other "
                "sizes need LinearGaussian"
            )
        self._add(tasks, features, np.ones_like(tasks), rewards.astype(np.int64))

    def _add(self, tasks: Array, features: Array, trials: Array, successes: Array) -> None:
        """Count rows with their trials and successes, all or none.

        The time depends on the number of rows and on the tables of their tasks, not on the number
        of tasks.
        """
        most = self._tables.size[tasks].max(initial=0) + len(tasks)
        if most > self.max_rows:
            self._check_limit(tasks, features)
        self._count(tasks, features, trials, successes)

    def _check_limit(self, tasks: Array, features: Array) -> None:
        """Raise ``ObservationError`` if a task would have too many distinct rows."""
        distinct, places, n_rows = np.unique(tasks, return_inverse=True, return_counts=True)
        full = self._tables.size[distinct] + n_rows > self.max_rows
        if not full.any():
            return
        # Some of the rows may be new: count those of such tasks in a copy.
        some = full[places]
        trial = self[distinct[full]]
        ones = np.ones(int(some.sum()), np.int64)
        trial._count((np.cumsum(full) - 1)[places[some]], features[some], ones, ones)
        n = int(trial._tables.size.max())
        if n > self.max_rows:
            raise ObservationError(self._too_many(n))

    def _too_many(self, n: int) -> str:
        return (
            f"a task may have {self.max_rows:,} distinct rows of features, got {n:,}: round the "
            "features (decimals=2), count numbers in classes, or raise max_rows"
        )

    def _count(self, tasks: Array, features: Array, trials: Array, successes: Array) -> None:
        """Count rows: few of them in place by the core, or by sorting all rows of all tasks."""
        few = len(tasks) <= _FEW_ROWS or _FEW_ROWS * len(tasks) <= int(self._tables.size.sum())
        if _program.core is not None and few:
            features, done = np.ascontiguousarray(features), 0
            while done < len(tasks):
                observed = tasks, features, trials, successes
                done = _program.core.count_rows(done, *observed, *self._tables)
                if done < len(tasks):
                    self._make_room(int(tasks[done]))
            return
        owners = np.concatenate([self.owners, tasks])
        rows = np.concatenate([self.array("rows"), features])
        counts = np.concatenate(
            [[self.array("trials"), self.array("successes")], [trials, successes]], axis=1
        )
        order = np.lexsort((*rows.T[::-1], owners))
        owners, rows, counts = owners[order], rows[order], counts[:, order]
        differs = (owners[1:] != owners[:-1]) | (rows[1:] != rows[:-1]).any(axis=1)
        first = np.flatnonzero(np.append(True, differs)[: len(rows)])
        size = np.bincount(owners[first], minlength=len(self))
        sums = np.add.reduceat(counts, first, axis=1) if len(first) else counts
        self._set(_compact(size, rows[first], *sums))

    def _make_room(self, task: int) -> None:
        """Move the rows of a task behind all others, with twice the room."""
        t = self._tables
        size, old = int(t.size[task]), int(t.start[task])
        end, room = self._end, max(2 * size, _LEAST_ROOM)
        if end + room > len(t.rows):
            # At least as much room again as there is, so that this happens rarely.
            more = max(room, len(t.rows))
            t = t._replace(
                rows=np.pad(t.rows, ((0, more), (0, 0))),
                trials=np.pad(t.trials, (0, more)),
                successes=np.pad(t.successes, (0, more)),
            )
        for array in (t.rows, t.trials, t.successes):
            array[end : end + size] = array[old : old + size]
        t.start[task], t.room[task] = end, room
        self._tables, self._end = t, end + room

    # -- reading ------------------------------------------------------------------------------

    @property
    def tables(self) -> Tables:
        """Where the rows of each task are, for compiled loops, which must not change them."""
        return self._tables

    def array(self, name: str) -> Array:
        """Return a copy of an array, the rows of one task after the other."""
        if name == "size":
            return self._tables.size.copy()
        return np.asarray(getattr(self._tables, name)[self._places(slice(None))])

    def _places(self, index: Any) -> Int[Array, " k"]:
        """Return the places of the rows of some tasks, one task after the other."""
        start, size = self._tables.start[index], self._tables.size[index]
        first = np.cumsum(size) - size
        return np.repeat(start - first, size) + np.arange(size.sum())

    @property
    def size(self) -> Any:
        """Number of distinct rows of each task."""
        return self._view(self._tables.size)

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of features, as (d,)."""
        return (self._tables.rows.shape[1],)

    def __len__(self) -> int:
        return len(self._tables.size)

    @property
    def n_observations(self) -> Any:
        """Number of observations of each task."""
        return self._view(self._by_task(self.array("trials")))

    @property
    def successes(self) -> Any:
        """Number of rewards 1 of each task."""
        return self._view(self._by_task(self.array("successes")))

    def _by_task(self, counts: Int[Array, " N"]) -> Int[Array, " n"]:
        total = np.zeros(len(self), np.int64)
        np.add.at(total, self.owners, counts)
        return total

    @property
    def owners(self) -> Int[Array, " N"]:
        """Task of each row of ``array("rows")``."""
        return np.repeat(np.arange(len(self)), self._tables.size)

    @property
    def feature_scales(self) -> Float[Array, " d"]:
        """Root mean square of each feature over all observations."""
        rows, trials = self.array("rows"), self.array("trials")
        return np.sqrt((trials[:, None] * rows**2).sum(axis=0) / max(int(trials.sum()), 1))

    @property
    def feature_squares(self) -> Float[Array, "d d"]:
        """Sum of row' row over all observations."""
        rows = self.array("rows")
        return np.asarray((rows * self.array("trials")[:, None]).T @ rows)

    # -- other statistics ---------------------------------------------------------------------

    def mapped(self, matrix: Float[Array, "e d"]) -> Self:
        """Return the statistics of the same observations with rows ``matrix @ row``."""
        arrays = {name: self.array(name) for name in self.fields}
        return self._like(self.single, {**arrays, "rows": arrays["rows"] @ matrix.T})

    def to_linear(self) -> LinearStatistics:
        """Return the statistics of the same observations for a linear model of the rewards."""
        rows, trials, won = (self.array(name) for name in ("rows", "trials", "successes"))
        share = won / trials
        factor = weighted_triangles(
            self.owners, rows, (trials, share, won * (1 - share)), len(self)
        )
        counts = self._by_task(trials)
        return LinearStatistics(single=self.single, count=counts, factor=factor)

    def _select(self, index: Any) -> dict[str, Array]:
        if not (isinstance(index, np.ndarray) and index.dtype == np.int64):
            index = np.atleast_1d(np.arange(len(self))[index])
        places = self._places(index)
        t = self._tables
        return {
            "size": t.size[index], "rows": t.rows[places], "trials": t.trials[places],
            "successes": t.successes[places],
        }  # fmt: skip

    def _merge(self, other: Self) -> dict[str, Array]:
        merged = self.copy()
        added = (other.array(name) for name in ("rows", "trials", "successes"))
        merged._add(other.owners, *added)
        return {name: merged.array(name) for name in self.fields}

    def extend(self, n: int) -> Self:
        """Return the same tasks followed by ``n`` tasks without observations."""
        arrays = {name: self.array(name) for name in self.fields}
        return self._like(False, {**arrays, "size": np.pad(arrays["size"], (0, n))})

    def _compatible(self, other: Self) -> None:
        super()._compatible(other)
        if other.decimals != self.decimals:
            raise StatisticsError(
                f"expected features rounded to {self.decimals} decimals, got {other.decimals}"
            )

    # -- bytes and files ----------------------------------------------------------------------

    def bundle(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return what a file stores: a header of plain values, and arrays."""
        header, arrays = super().bundle()
        return {**header, "limits": {"decimals": self.decimals, "max_rows": self.max_rows}}, arrays

    @property
    def n_bytes(self) -> int:
        """Bytes of a task without observations."""
        return 0

    def encode(self, index: Any = slice(None)) -> list[bytes]:
        """Return the bytes of each task, or of some: its rows, trials and successes."""
        parts, start = [], 0
        found = self._select(index)
        for n in found["size"]:
            own = slice(start, start + n)
            start += n
            parts.append(
                found["rows"][own].astype("<f8").tobytes()
                + found["trials"][own].astype("<i8").tobytes()
                + found["successes"][own].astype("<i8").tobytes()
            )
        return parts

    def decode(self, contents: Sequence[bytes]) -> Self:
        """Return the statistics of tasks with these bytes, with the limits of these statistics."""
        (d,) = self.shape
        width = WORD * (d + 2)
        for content in contents:
            if len(content) % width:
                raise StatisticsError(
                    f"a task's statistics have {len(content)} bytes, which are no rows of {d} "
                    "features: they are of another family, or damaged"
                )
        size = np.array([len(content) // width for content in contents], np.int64)
        rows, counts = [np.zeros((0, d))], [np.zeros((2, 0), np.int64)]
        for content, n in zip(contents, size.tolist(), strict=True):
            rows.append(np.frombuffer(content, "<f8", n * d).reshape(n, d))
            counts.append(np.frombuffer(content, "<i8", 2 * n, WORD * n * d).reshape(2, n))
        trials, successes = np.concatenate(counts, axis=1)
        arrays = {"rows": np.concatenate(rows), "trials": trials, "successes": successes}
        return self._like(False, {"size": size, **arrays})


def checked_limits(decimals: Any, max_rows: Any) -> tuple[int | None, int]:
    """Return the limits of tables, or raise ``ParameterError``."""
    if decimals is not None:
        decimals = _checks.count(decimals, "decimals", least=0)
    return decimals, _checks.count(max_rows, "max_rows")


def _compact(size: Array, rows: Array, trials: Array, successes: Array) -> Tables:
    """Return tables whose rows lie one after the other, without room for more."""
    return Tables(
        np.cumsum(size) - size, size.copy(), size.copy(), rows.copy(), trials.copy(),
        successes.copy(),
    )  # fmt: skip


def _are_sorted(tables: Tables) -> bool:
    """Return whether the rows of every task are sorted and distinct, with one kind of zero."""
    rows = tables.rows
    if (np.signbit(rows) & (rows == 0)).any():
        return False
    if len(rows) < 2:
        return True
    differs = rows[1:] != rows[:-1]
    first = differs.argmax(axis=1)
    pairs = np.arange(len(first))
    rises = differs.any(axis=1) & (rows[pairs + 1, first] > rows[pairs, first])
    begins = np.zeros(len(rows) + 1, bool)
    begins[tables.start] = True  # the first row of a task follows no other
    return bool((rises | begins[1:-1]).all())
