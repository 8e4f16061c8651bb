"""Where the posteriors of linear tasks live between calls: slots of one pool with a memory budget.

A task's statistics are always kept; its roots and means only while they fit. A task that was
evicted gets a slot again, recomputed from its statistics, when it is next needed.
"""

from __future__ import annotations

import numpy as np

from mixts.typing import Array, Int

BUDGET_BYTES = 1 << 30
"""Of all slots of one belief together; at least one slot is always there."""

_FIRST_ROWS = 8

_PER_SLOT = ("_used", "filled", "recent", "rank", "store", "shrink", "gains", "mean")


def task_bytes(n_groups: int, n_components: int, n_features: int) -> int:
    """The memory of one slot: packed roots, gains and means, and the first observations."""
    d = n_features
    return 8 * (n_groups * d * (d + 1) // 2 + 2 * n_components * d + d * d)


class FactorPool:
    """Slots for tasks; what is in them is said in ``kernels.linear``."""

    def __init__(
        self, n_tasks: int, n_groups: int, n_components: int, n_features: int, budget: int
    ) -> None:
        d = n_features
        self._dense = d * (d + 1) // 2
        # A young posterior's vectors of d numbers fill the room of the triangle that follows.
        self._last = (d + 1) // 2
        self._n_features = d
        self.max_slots = max(1, budget // task_bytes(n_groups, n_components, d))
        self.slots = np.full(n_tasks, -1, np.int64)
        self.n_resident = 0
        self._owner = np.full(0, -1, np.int64)
        self._used = np.zeros(0, np.int64)
        self._clock = 0
        # No rank of any slot exceeds this: looked at exactly only when rows seem to run out.
        self._rank_bound = 0
        self._rows = min(_FIRST_ROWS, self._last)
        self.filled = np.zeros(0, np.int64)
        self.recent = np.zeros((0, self._last, d + 1))
        self.rank = np.zeros((0, n_groups), np.int64)
        self.store = np.zeros((0, n_groups, self._width()))
        self.shrink = np.zeros((0, n_groups, self._rows))
        self.gains = np.zeros((0, n_components, self._rows))
        self.mean = np.zeros((0, n_components, d))

    def _width(self) -> int:
        return self._dense if self._rows == self._last else self._rows * self._n_features

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
            self.rank[free] = 0
            self.filled[free] = 0
            self.n_resident += len(new)
        return new

    def drop(self, tasks: Int[Array, " m"]) -> None:
        """Forget these tasks' posteriors: their statistics have changed."""
        held = self.slots[tasks]
        held = np.unique(held[held >= 0])
        self.slots[self._owner[held]] = -1
        self._owner[held] = -1
        self.n_resident -= len(held)

    def reserve(self, n: int) -> None:
        """Room for up to n more observations of any one task."""
        self._rank_bound += n
        if self._rows < self._last and self._rank_bound > self._rows:
            self._rank_bound = int(self.filled.max(initial=0)) + n
            rows = self._rows
            while rows < min(self._rank_bound, self._last):
                rows = min(2 * rows, self._last)
            self._widen(rows)

    def make_room_for_roots(self, tasks: Int[Array, " m"]) -> None:
        """Room for mature roots, which these tasks are going to have."""
        self._widen(self._last)
        self.filled[self.slots[tasks]] = self._last

    def _widen(self, rows: int) -> None:
        more = rows - self._rows
        if more > 0:
            self._rows = rows
            wider = self._width() - self.store.shape[2]
            self.store = np.pad(self.store, ((0, 0), (0, 0), (0, wider)))
            self.shrink = np.pad(self.shrink, ((0, 0), (0, 0), (0, more)))
            self.gains = np.pad(self.gains, ((0, 0), (0, 0), (0, more)))

    def _provide(self, n: int) -> None:
        """At least n free slots: by growing, then by evicting those not used for longest."""
        size = len(self._owner)
        free = int((self._owner < 0).sum())
        if free < n and size < self.max_slots:
            more = min(max(n - free, size), self.max_slots - size)
            self._owner = np.concatenate([self._owner, np.full(more, -1, np.int64)])
            for name in _PER_SLOT:
                array = getattr(self, name)
                blank = np.zeros((more, *array.shape[1:]), array.dtype)
                setattr(self, name, np.concatenate([array, blank]))
            free += more
        if free < n:
            candidates = np.flatnonzero((self._owner >= 0) & (self._used < self._clock))
            oldest = candidates[np.argsort(self._used[candidates], kind="stable")][: n - free]
            self.drop(self._owner[oldest])
