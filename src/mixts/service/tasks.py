"""The tasks that a group of operations is about, locked, with their statistics."""

from __future__ import annotations

import numpy as np

from mixts._typing import Array, Float, Int
from mixts.families import Statistics
from mixts.service.records import LoggedDecision, TaskEntry
from mixts.service.versions import ActivePrior


class Tasks:
    """The locked tasks of a group, and their statistics, which rewards change in place."""

    def __init__(self, entries: list[TaskEntry], active: ActivePrior) -> None:
        self._entries = entries
        self._active = active
        self._by_name = {entry.name: row for row, entry in enumerate(entries)}
        self._by_number = {entry.number: row for row, entry in enumerate(entries)}
        self.statistics: Statistics = active.codec.decode([e.statistics for e in entries])
        self._taught: set[int] = set()
        self._touched: set[int] = set()

    def rows(self, names: list[str]) -> tuple[Int[Array, " m"], Statistics]:
        """Statistics that the tasks of these names are in, and where."""
        rows = np.array([self._by_name[name] for name in names])
        if self._active.prior.family.n_arms is not None:
            return rows, self.statistics
        # What is believed of a linear task takes a while: only of those that are asked for.
        distinct, inverse = np.unique(rows, return_inverse=True)
        return inverse, self.statistics[distinct]

    def observe(
        self,
        decision: LoggedDecision,
        features: dict[int, Float[Array, "K d"]],
        value: float,
        now: int,
        late: bool,
    ) -> None:
        """Learn from a reward, or only count it; one that is impossible is refused."""
        row = self._by_number[decision.task]
        action: object = decision.action
        if decision.action_set is not None:
            action = features[decision.action_set][decision.action]
        observed = self.statistics.observations(action, value)
        if late:
            self.statistics.empty(self.statistics.shape, 1).observe([0], observed)
        else:
            self.statistics.observe([row], observed)
            self._taught.add(row)
        entry = self._entries[row]
        entry.rewards += 1
        entry.late += late
        entry.last_at = now
        self._touched.add(row)

    def decided(self, name: str, weights: Float[Array, " L"], version: int, now: int) -> TaskEntry:
        """Count a decision, and what was believed when it was made."""
        row = self._by_name[name]
        entry = self._entries[row]
        entry.decisions += 1
        entry.latent = int(weights.argmax())
        entry.certainty = float(weights[entry.latent])
        entry.version = version
        entry.last_at = now
        self._touched.add(row)
        return entry

    def changed(self) -> list[TaskEntry]:
        """The tasks to be saved, with their new statistics."""
        taught = sorted(self._taught)
        if taught:
            encoded = self._active.codec.encode(self.statistics, taught)
            for row, content in zip(taught, encoded, strict=True):
                self._entries[row].statistics = content
        return [self._entries[row] for row in sorted(self._touched)]
