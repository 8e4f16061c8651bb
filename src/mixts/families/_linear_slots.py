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
        projection=np.empty((n_slots, n_groups, d)),
        level=np.empty((n_slots, n_components)),
        shift=np.empty((n_slots, n_components)),
    )


class SlotPool:
    """Slots that hold the posteriors of tasks between calls, within a memory budget.

    The statistics of a task are always kept, its roots and means only while they fit. When there
    is no room left, all slots are freed. A task gets a slot again when it is next needed, and its
    posteriors are recomputed from its statistics.
    """

    def __init__(
        self, n_tasks: int, n_groups: int, n_components: int, n_features: int, budget: int
    ) -> None:
        self._sizes = (n_groups, n_components, n_features)
        self.max_slots = max(1, budget // task_bytes(*self._sizes))
        self.arrays = empty_slots(0, *self._sizes)._replace(of_task=np.full(n_tasks, -1, np.int64))
        self.n_resident = 0

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

    def admit(self, tasks: Int[Array, " m"]) -> Int[Array, " new"]:
        """Give each of these distinct tasks, which fit, a slot; return the tasks that had none."""
        new = tasks[self.of_task[tasks] < 0]
        if self.n_resident + len(new) > self.max_slots:
            self.of_task[:], self.n_resident, new = -1, 0, tasks
        first, self.n_resident = self.n_resident, self.n_resident + len(new)
        if self.n_resident > len(self.arrays.root):
            self._grow()
        self.of_task[new] = np.arange(first, self.n_resident)
        return new

    def _grow(self) -> None:
        """Make room for all present tasks at first, then twice the room, as far as it fits."""
        size = len(self.arrays.root)
        n_slots = min(max(len(self.of_task), 2 * size), self.max_slots)
        larger = empty_slots(n_slots, *self._sizes)._replace(of_task=self.of_task)
        for name in Slots._fields[1:]:
            getattr(larger, name)[:size] = getattr(self.arrays, name)
        self.arrays = larger
