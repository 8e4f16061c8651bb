"""Where the posteriors of linear tasks live between calls: slots of one pool with a memory budget.

A task's statistics are always kept; its roots and means only while they fit. A task that was
evicted gets a slot again, recomputed from its statistics, when it is next needed.
"""

from __future__ import annotations

import numpy as np

from mixts._typing import Array, Bool, Int
from mixts.families._kernels.roots import LOST

BUDGET_BYTES = 1 << 30
"""Of all slots of one belief together; at least one slot is always there."""

_PER_SLOT = (
    "_used", "filled", "recent", "rank", "store", "shrink", "gains", "mean", "misfit", "drift",
    "last", "run", "spread", "reach", "level", "base",
)  # fmt: skip


def task_bytes(n_groups: int, n_components: int, n_features: int) -> int:
    """The memory of one slot: packed roots, gains and means, and the first observations."""
    d = n_features
    return 8 * (n_groups * d * (d + 3) // 2 + 3 * n_components * d + d * d)


class FactorPool:
    """Slots for tasks; what is in them is said in ``_kernels.roots`` and ``_kernels.mature``.

    Memory is asked for at once, not cleared, and only used where it is written to.
    """

    def __init__(
        self, n_tasks: int, n_groups: int, n_components: int, n_features: int, budget: int
    ) -> None:
        d = n_features
        # A young posterior's vectors of d numbers fill the room of the triangle that follows.
        self._last = (d + 1) // 2
        self.max_slots = max(1, budget // task_bytes(n_groups, n_components, d))
        self.slots = np.full(n_tasks, -1, np.int64)
        self.n_resident = 0
        self._owner = np.full(0, -1, np.int64)
        self._used = np.zeros(0, np.int64)
        self._clock = 0
        self.filled = np.zeros(0, np.int64)
        self.recent = np.zeros((0, self._last, d + 1))
        self.rank = np.zeros((0, n_groups), np.int64)
        self.store = np.zeros((0, n_groups, d * (d + 1) // 2))
        self.shrink = np.zeros((0, n_groups, self._last))
        self.gains = np.zeros((0, n_components, self._last))
        self.mean = np.zeros((0, n_components, d))
        self.misfit = np.zeros((0, n_components))
        self.drift = np.zeros((0, n_components, d))
        self.last = np.zeros((0, d))
        self.run = np.zeros((0, n_groups), np.int64)
        self.spread = np.zeros((0, n_groups))
        self.reach = np.zeros((0, n_groups, d))
        self.level = np.zeros((0, n_components))
        self.base = np.zeros((0, n_components))

    @property
    def runs(self) -> tuple[Array, Array, Array, Array, Array, Array]:
        """The state of runs of one action, in the order in which the loops take it."""
        return self.last, self.run, self.spread, self.reach, self.level, self.base

    @property
    def everyone(self) -> bool:
        """Whether every task has a slot: then nothing needs to be looked up."""
        return self.n_resident == len(self.slots)

    def add_tasks(self, n: int) -> None:
        """Make room for more tasks in the index; slots come when they are needed."""
        self.slots = np.concatenate([self.slots, np.full(n, -1, np.int64)])

    def admit(self, tasks: Int[Array, " m"]) -> Int[Array, " new"]:
        """Give each of these distinct tasks a slot; returns those that had none, all ranks 0."""
        self._clock += 1
        present = self.slots[tasks]
        self._used[present[present >= 0]] = self._clock
        new = tasks[present < 0]
        if len(new):
            self._provide(len(new))
            free = np.flatnonzero(self._owner < 0)[: len(new)]
            self._owner[free] = new
            self._used[free] = self._clock
            self.slots[new] = free
            # Nothing else of a young posterior is read before it is written.
            self.rank[free] = 0
            self.filled[free] = 0
            self.n_resident += len(new)
        return new

    def begin(self, tasks: Int[Array, " m"]) -> Int[Array, " m"]:
        """The slots of tasks that begin mature: their first observations need not be kept."""
        held: Array = self.slots[tasks]
        self.filled[held] = self._last
        return held

    def give_up(self, tasks: Int[Array, " m"], asleep: Bool[Array, "m G"]) -> None:
        """Tasks that come back with a history: nothing is young, and sleepers' states are lost."""
        held = self.slots[tasks]
        self.filled[held] = self._last
        self.rank[held] = np.where(asleep, LOST, self.rank[held])

    def drop(self, tasks: Int[Array, " m"]) -> None:
        """Forget these tasks' posteriors: their statistics have changed."""
        held = self.slots[tasks]
        held = np.unique(held[held >= 0])
        self.slots[self._owner[held]] = -1
        self._owner[held] = -1
        self.n_resident -= len(held)

    def _provide(self, n: int) -> None:
        """At least n free slots: by growing, then by evicting those not used for longest."""
        size = len(self._owner)
        free = int((self._owner < 0).sum())
        if free < n and size < self.max_slots:
            # First for all the tasks there are, then doubling.
            more = min(max(n - free, len(self.slots) - size, size), self.max_slots - size)
            self._owner = np.concatenate([self._owner, np.full(more, -1, np.int64)])
            for name in _PER_SLOT:
                array = getattr(self, name)
                larger = np.empty((size + more, *array.shape[1:]), array.dtype)
                larger[:size] = array
                setattr(self, name, larger)
            free += more
        if free < n:
            candidates = np.flatnonzero((self._owner >= 0) & (self._used < self._clock))
            oldest = candidates[np.argsort(self._used[candidates], kind="stable")][: n - free]
            self.drop(self._owner[oldest])
