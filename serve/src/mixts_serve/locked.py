"""The tasks that a batch has locked: their statistics, their counts, and decisions that wait."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

import numpy as np

from mixts import MixturePrior
from mixts.errors import TaskLockedError
from mixts.extend import Array, Float, Int
from mixts.families import Statistics
from mixts_serve.records import Decide, LoggedDecision, TaskEntry, WaitingDecision
from mixts_serve.store.base import FeatureSets
from mixts_serve.versions import ActivePrior

MOST_WAITING = 100
"""Last decisions of a task among which those without a reward count as waiting.

A task whose rewards never come would otherwise make every decision slower than the one before it.
With the imagined outcomes of a hundred decisions, a task is decided as one that is well known.
"""


class LockedTasks:
    """The locked tasks of a batch and their statistics, which rewards update in place."""

    def __init__(self, entries: list[TaskEntry], active: ActivePrior) -> None:
        self._entries = entries
        self._prior = active.prior
        self._family = active.prior.family
        self._codec = active.codec
        self._by_name = {entry.name: row for row, entry in enumerate(entries)}
        self._by_number = {entry.number: row for row, entry in enumerate(entries)}
        self._statistics = active.codec.decode([entry.statistics for entry in entries])
        self._observed: set[int] = set()
        """Rows whose statistics have changed."""
        self._touched: set[int] = set()
        """Rows that must be saved."""

    def holds(self, task: str | int) -> bool:
        """Return whether a task is locked, by its name or its number."""
        return task in self._by_name or task in self._by_number

    def rows(self, names: list[str]) -> tuple[Int[Array, " m"], Statistics]:
        """Return the row of each named task, and the statistics to which the rows refer."""
        rows = np.array([self._by_name[name] for name in names])
        if self._family.n_arms is not None:
            return rows, self._statistics
        # The belief of a linear task is slow to compute: leave out tasks that need no decision.
        distinct, inverse = np.unique(rows, return_inverse=True)
        return inverse, self._statistics[distinct]

    def waiting_counts(self, names: Iterable[str]) -> dict[int, int]:
        """Return the numbers of tasks with decisions that may wait for a reward, and how many."""
        entries = [self._entries[self._by_name[name]] for name in names]
        return {
            entry.number: entry.decisions - entry.rewards - entry.deferred
            for entry in entries
            if entry.decisions > entry.rewards + entry.deferred
        }

    def n_decided(self, row_of: dict[str, int], n_rows: int) -> Int[Array, " n"]:
        """Return the number of decisions of each task that may have been shown, by row."""
        counts = np.zeros(n_rows, np.int64)
        for name, row in row_of.items():
            entry = self._entries[self._by_name[name]]
            counts[row] = entry.decisions - entry.deferred
        return counts

    def observed_arms(self, name: str) -> set[int]:
        """Return the arms of which a task has rewards."""
        row = np.array([self._by_name[name]])
        return set(np.flatnonzero(self._statistics[row].pulls[0]).tolist())

    def n_bytes(self, name: str) -> int:
        """Return the size of a task's statistics before this batch."""
        return len(self._entries[self._by_name[name]].statistics)

    def number(self, name: str) -> int:
        """Return the number of a task."""
        return self._entries[self._by_name[name]].number

    def observe(
        self, decision: LoggedDecision, features: FeatureSets, value: float, *, late: bool
    ) -> None:
        """Learn from a reward, or only check it if it is late; raise if it is impossible."""
        row = self._by_number[decision.task]
        observed = self._statistics.observations(taken(decision, features), value)
        if late:
            self._family.empty_statistics(1).observe(np.zeros(1, np.int64), observed)
        else:
            self._statistics.observe(np.array([row]), observed)
            self._observed.add(row)

    def count_reward(self, decision: LoggedDecision, now: int, *, late: bool) -> None:
        """Count the reward of a decision."""
        entry = self._touch(self._by_number[decision.task])
        entry.rewards += 1
        entry.late += late
        entry.last_at = now

    def count_default(self, decision: LoggedDecision) -> None:
        """Count the default reward of a decision."""
        entry = self._touch(self._by_number[decision.task])
        entry.rewards += 1
        entry.defaults += 1

    def count_late(self, decision: LoggedDecision, now: int) -> None:
        """Count a reward that came after the default reward."""
        entry = self._touch(self._by_number[decision.task])
        entry.late += 1
        entry.last_at = now

    def count_activation(self, decision: LoggedDecision, now: int) -> None:
        """Count the activation of a deferred decision."""
        entry = self._touch(self._by_number[decision.task])
        entry.deferred -= 1
        entry.last_at = now

    def count_decision(
        self, request: Decide, weights: Float[Array, " L"], version: int, now: int
    ) -> TaskEntry:
        """Count a decision of a task, and store its most probable kind."""
        entry = self._touch(self._by_name[request.task])
        entry.decisions += 1
        entry.deferred += request.defer
        entry.latent, entry.certainty = likeliest_kind(self._prior, weights)
        entry.version = version
        entry.last_at = now
        return entry

    def _touch(self, row: int) -> TaskEntry:
        self._touched.add(row)
        return self._entries[row]

    def changed(self) -> list[TaskEntry]:
        """Return the tasks to save, with their new statistics."""
        observed = sorted(self._observed)
        if observed:
            encoded = self._codec.encode(self._statistics, observed)
            for row, content in zip(observed, encoded, strict=True):
                self._entries[row].statistics = content
        return [self._entries[row] for row in sorted(self._touched)]


class WaitingActions:
    """Actions whose rewards have not come, by the row of their task: the last ones of each."""

    def __init__(self) -> None:
        self._actions: dict[int, deque[Any]] = {}

    def add(self, row: int, action: Any) -> None:
        """Add an arm, or a row of features, to those of a task."""
        self._actions.setdefault(row, deque(maxlen=MOST_WAITING)).append(action)

    def of(self, rows: Iterable[int]) -> tuple[Array, Array] | None:
        """Return what waits in these rows, as agents take it; None if nothing does."""
        distinct = dict.fromkeys(rows)
        found = [(row, made) for row in distinct for made in self._actions.get(row, ())]
        if not found:
            return None
        tasks, actions = zip(*found, strict=True)
        return np.array(actions), np.array(tasks)


def task_locked(task: str | int) -> TaskLockedError:
    """Return the error for a task that another writer keeps locked."""
    named = f"task {task!r}" if isinstance(task, str) else "the task of this decision"
    return TaskLockedError(
        f"another writer keeps {named} locked: nothing was changed; try again later"
    )


def taken(decision: LoggedDecision | WaitingDecision, features: FeatureSets) -> Any:
    """Return the action of a decision as statistics take it: an arm, or a row of features."""
    if decision.action_set is None:
        return decision.action
    return features[decision.action_set][decision.action]


def likeliest_kind(prior: MixturePrior, weights: Float[Array, " L"]) -> tuple[int, float]:
    """Return the heaviest component of the most probable kind, and the probability of the kind."""
    by_kind = prior.sum_by_kind(weights)
    best = int(by_kind.argmax())
    if prior.kinds is not None:
        weights = np.where(np.array(prior.kind_indices) == best, weights, -1.0)
    return int(weights.argmax()), float(by_kind[best])
