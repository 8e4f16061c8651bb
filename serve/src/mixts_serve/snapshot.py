"""What a refit learns from: the statistics of all tasks of a store, without some days."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import partial, reduce
from itertools import islice

import numpy as np

from mixts.errors import ParameterError
from mixts.extend import Array, Int, Statistics
from mixts_serve.store import DecisionStore
from mixts_serve.store.rebuild import CHUNK, Replay
from mixts_serve.store.store import first_id
from mixts_serve.store.tables import BASE, OFFERED, ActionSet, Row
from mixts_serve.versions import LoadedPrior

DAY_US = 86_400_000_000
_ASKED = 1_000
"""Number of sets of actions that are read together."""
_EPOCH = date(1970, 1, 1)

_TASKS = (
    "SELECT number, first_at, rewards, statistics, (SELECT MAX(seq) FROM decisions) FROM tasks "
    "ORDER BY number"
)

_ARCHIVED = (
    f"SELECT 1 FROM archived_counts WHERE span = {DAY_US} AND start >= ? AND start <= ? LIMIT 1"
)


@dataclass(frozen=True, order=True)
class Days:
    """Days of UTC, from the first to the last."""

    first: date
    last: date

    @classmethod
    def parse(cls, text: str) -> Days:
        """Return the days of a text such as "2026-03-01" or "2026-03-01..2026-03-07"."""
        ends = str(text).split("..")
        try:
            first, last = date.fromisoformat(ends[0]), date.fromisoformat(ends[-1])
        except ValueError:
            first, last = date.max, date.min
        if len(ends) > 2 or first > last:
            raise ParameterError(
                f"days must be as 2026-03-01 or 2026-03-01..2026-03-07, got {text!r}"
            )
        return cls(first, last)

    def __str__(self) -> str:
        return str(self.first) if self.first == self.last else f"{self.first}..{self.last}"

    def __contains__(self, day: date) -> bool:
        return self.first <= day <= self.last

    @property
    def ids(self) -> tuple[bytes, bytes]:
        """Bounds of the ids of decisions of these days, which begin with the time."""
        return first_id(start_of(self.first)), first_id(start_of(self.last) + DAY_US)


def start_of(day: date) -> int:
    """Return the begin of a day in microseconds since 1970."""
    return (day - _EPOCH).days * DAY_US


def day_of(moment: int) -> date:
    """Return the day of a moment in microseconds since 1970."""
    return datetime.fromtimestamp(moment // 1_000_000, UTC).date()


@dataclass(frozen=True)
class Snapshot:
    """All tasks of a store at one moment."""

    statistics: Statistics
    numbers: Int[Array, " n"]
    first_at: Int[Array, " n"]
    """Time of each task's first decision, in microseconds since 1970."""
    rewards: int
    """Number of rewards of all tasks."""
    last_decision: int
    """Number of the last decision."""

    @classmethod
    def of(cls, store: DecisionStore, active: LoadedPrior, excluded: Sequence[Days]) -> Snapshot:
        """Read all tasks from one snapshot; the service goes on meanwhile.

        Tasks that have decisions on excluded days are recomputed from the log without these.
        """
        numbers: list[int] = []
        first_at: list[int] = []
        parts, rewards, last = [active.codec.decode([])], 0, 0
        found = store.backend.scan(_TASKS)
        while chunk := list(islice(found, CHUNK)):
            number, at, n_rewards, contents, decisions = zip(*chunk, strict=True)
            parts.append(active.codec.decode([bytes(content) for content in contents]))
            numbers += number
            first_at += at
            rewards, last = rewards + sum(n_rewards), int(decisions[0] or 0)
        statistics = reduce(lambda one, other: one.concatenate(other), parts)
        known = np.array(numbers, np.int64)
        if excluded and len(known):
            statistics = _without(store, active, statistics, known, excluded)
        return cls(statistics, known, np.array(first_at, np.int64), rewards, last)


def _without(
    store: DecisionStore,
    active: LoadedPrior,
    statistics: Statistics,
    numbers: Int[Array, " n"],
    excluded: Sequence[Days],
) -> Statistics:
    """Return the statistics without the decisions of excluded days."""
    for days in excluded:
        span = start_of(days.first), start_of(days.last)
        if store.backend.value(_ARCHIVED, span) is not None:
            raise ParameterError(
                f"decisions of {days} were archived: their rewards are part of the statistics of "
                "their tasks and cannot be left out any more; --exclude none takes the days back"
            )
    inside = " OR ".join(["(d.id >= ? AND d.id < ?)"] * len(excluded))
    bounds = [bound for days in excluded for bound in days.ids]
    concerned = f"SELECT d.task FROM decisions d WHERE {inside}"
    tasks = sorted({task for (task,) in store.backend.scan(concerned, bounds)})
    touched = np.intersect1d(np.array(tasks, np.int64), numbers)
    if not len(touched):
        return statistics
    known = set(touched.tolist())

    def rows_of(sql: str, parameters: Sequence[bytes] = (*bounds, *bounds)) -> Iterator[Row]:
        return (row for row in store.backend.scan(sql, parameters) if row[0] in known)

    bases = map(BASE.read, store.backend.scan(BASE.sql))
    log = Replay(touched, active.prior.family, [each for each in bases if each.task in known])
    log.read(rows_of, f"d.task IN ({concerned}) AND NOT ({inside})", partial(_sets, store))
    others = ~np.isin(numbers, touched)
    places = np.concatenate([np.flatnonzero(others), np.searchsorted(numbers, touched)])
    joined = statistics[others].concatenate(log.statistics)
    return joined[np.argsort(places)]


def _sets(store: DecisionStore, numbers: Sequence[int]) -> dict[int, ActionSet]:
    """Return sets of actions by their numbers."""
    found = {}
    for start in range(0, len(numbers), _ASKED):
        some = numbers[start : start + _ASKED]
        places = ", ".join("?" * len(some))
        for each in store.backend.read(OFFERED, some, f" WHERE s.number IN ({places})"):
            found[each.number] = each
    return found
