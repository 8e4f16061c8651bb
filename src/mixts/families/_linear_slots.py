"""Slots that hold the posteriors of linear tasks between calls, within a memory budget."""

from __future__ import annotations

import numpy as np

from mixts._typing import Array, Int
from mixts.families._kernels.slots import NEW, Slots

BUDGET_BYTES = 1 << 30
"""Memory of all slots of one belief; at least one slot always exists."""


def task_bytes(n_groups: int, n_components: int, n_features: int) -> int:
    """Return the memory of one slot in bytes."""
    d = n_features
    per_group, per_component = d * (d + 1) // 2 + d + 2, 2 * d + 3
    return 8 * (n_groups * per_group + n_components * per_component + d)


def empty_slots(n_slots: int, n_groups: int, n_components: int, d: int) -> Slots:
    """Allocate slots that no task has; memory is used only where it is written to."""
    return Slots(
        of_task=np.zeros(0, np.int64),
        root=np.empty((n_slots, n_groups, d * (d + 1) // 2)),
        mean=np.empty((n_slots, n_components, d)),
        misfit=np.empty((n_slots, n_components)),
        drift=np.empty((n_slots, n_components, d)),
        last=np.empty((n_slots, d)),
        waiting=np.full((n_slots, n_groups), NEW, np.int64),
        spread=np.empty((n_slots, n_groups)),
        shadow=np.empty((n_slots, n_groups, d)),
        level=np.empty((n_slots, n_components)),
        push=np.empty((n_slots, n_components)),
    )


class SlotPool:
    """Slots that hold the posteriors of tasks between calls, within a memory budget.

    The statistics of a task are always kept, its roots and means only while they fit. A task that
    was evicted gets a slot again when it is next needed, recomputed from its statistics.
    """

    def __init__(
        self, n_tasks: int, n_groups: int, n_components: int, n_features: int, budget: int
    ) -> None:
        self._sizes = (n_groups, n_components, n_features)
        self.max_slots = max(1, budget // task_bytes(*self._sizes))
        self.arrays = empty_slots(0, *self._sizes)._replace(of_task=np.full(n_tasks, -1, np.int64))
        self.n_resident = 0
        self._owner = np.full(0, -1, np.int64)
        self._used = np.zeros(0, np.int64)
        self._clock = 0

    @property
    def of_task(self) -> Int[Array, " n"]:
        """Slot of each task, or -1."""
        return self.arrays.of_task

    @property
    def holds_all(self) -> bool:
        """Whether every task has a slot, so that nothing needs to be looked up."""
        return self.n_resident == len(self.arrays.of_task)

    def add_tasks(self, n: int) -> None:
        """Append tasks without a slot."""
        of_task = np.concatenate([self.of_task, np.full(n, -1, np.int64)])
        self.arrays = self.arrays._replace(of_task=of_task)

    def admit_all(self) -> None:
        """Give every task a slot, if all of them fit; none has a history or a slot."""
        n = len(self.of_task)
        if n <= self.max_slots:
            self.arrays = empty_slots(n, *self._sizes)._replace(of_task=np.arange(n))
            self._owner, self._used = np.arange(n), np.zeros(n, np.int64)
            self.n_resident = n

    def admit(self, tasks: Int[Array, " m"]) -> Int[Array, " new"]:
        """Give each of these distinct tasks a slot; return the tasks that had none."""
        self._clock += 1
        present = self.of_task[tasks]
        self._used[present[present >= 0]] = self._clock
        new = tasks[present < 0]
        if len(new):
            self._provide(len(new))
            free = np.flatnonzero(self._owner < 0)[: len(new)]
            self._owner[free] = new
            self._used[free] = self._clock
            self.of_task[new] = free
            self.n_resident += len(new)
        return new

    def drop(self, tasks: Int[Array, " m"]) -> None:
        """Free the slots of these tasks."""
        held = self.of_task[tasks]
        held = np.unique(held[held >= 0])
        self.of_task[self._owner[held]] = -1
        self._owner[held] = -1
        self.n_resident -= len(held)

    def _provide(self, n: int) -> None:
        """Make n slots free: by growing, then by evicting the tasks not used for longest."""
        size = len(self._owner)
        free = int((self._owner < 0).sum())
        if free < n and size < self.max_slots:
            # First room for all present tasks, then twice the size.
            more = min(max(n - free, len(self.of_task) - size, size), self.max_slots - size)
            self._grow(size + more)
            free += more
        if free < n:
            candidates = np.flatnonzero((self._owner >= 0) & (self._used < self._clock))
            oldest = candidates[np.argsort(self._used[candidates], kind="stable")][: n - free]
            self.drop(self._owner[oldest])

    def _grow(self, n_slots: int) -> None:
        size = len(self._owner)
        larger = empty_slots(n_slots, *self._sizes)._replace(of_task=self.of_task)
        for name in Slots._fields[1:]:
            getattr(larger, name)[:size] = getattr(self.arrays, name)
        self.arrays = larger
        self._owner = np.pad(self._owner, (0, n_slots - size), constant_values=-1)
        self._used = np.pad(self._used, (0, n_slots - size))
