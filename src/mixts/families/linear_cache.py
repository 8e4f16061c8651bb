"""Where the posteriors of linear tasks live between calls: slots of one pool with a memory budget.

A task's statistics are always kept; its roots and means only while they fit. A task that was evicted
gets a slot again, recomputed from its statistics, when it is next needed.
"""

from __future__ import annotations

import numpy as np

from mixts.families.kernels.linear import DENSE
from mixts.typing import Array, Int

BUDGET_BYTES = 1 << 30
"""Of all slots of one belief together; at least one slot is always there."""

_FIRST_ROWS = 8


class FactorPool:
    """Slots for tasks: ``basis`` (slots, G, rows, d), its coefficients, and dense means."""

    def __init__(
        self, n_tasks: int, n_groups: int, n_components: int, n_features: int, budget: int
    ) -> None:
        self._n_features = n_features
        slot_bytes = 8 * n_features * (n_groups * n_features + 2 * n_components)
        self.max_slots = max(1, budget // slot_bytes)
        self.slots = np.full(n_tasks, -1, np.int64)
        self.n_resident = 0
        self._owner = np.full(0, -1, np.int64)
        self._used = np.zeros(0, np.int64)
        self._clock = 0
        # No rank of any slot exceeds this: looked at exactly only when rows seem to run out.
        self._rank_bound = 0
        rows = min(_FIRST_ROWS, n_features)
        self.rank = np.zeros((0, n_groups), np.int64)
        self.basis = np.zeros((0, n_groups, rows, n_features))
        self.shrink = np.zeros((0, n_groups, rows))
        self.gains = np.zeros((0, n_components, rows))
        self.mean = np.zeros((0, n_components, n_features))

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
        """Rows for up to n more observations of any one task, before it becomes dense."""
        rows, d = self.basis.shape[2], self._n_features
        self._rank_bound += n
        if rows < d and self._rank_bound > rows:
            self._rank_bound = int(self.rank.max(initial=0)) + n
            while rows < min(self._rank_bound, d):
                rows = min(2 * rows, d)
            self._widen(rows)

    def make_dense(self) -> None:
        """Rows for dense roots."""
        self._widen(self._n_features)

    def _widen(self, rows: int) -> None:
        more = rows - self.basis.shape[2]
        if more > 0:
            self.basis = np.pad(self.basis, ((0, 0), (0, 0), (0, more), (0, 0)))
            self.shrink = np.pad(self.shrink, ((0, 0), (0, 0), (0, more)))
            self.gains = np.pad(self.gains, ((0, 0), (0, 0), (0, more)))

    def _provide(self, n: int) -> None:
        """At least n free slots: by growing, then by evicting those not used for longest."""
        size = len(self._owner)
        free = int((self._owner < 0).sum())
        if free < n and size < self.max_slots:
            more = min(max(n - free, size), self.max_slots - size)
            self._owner = np.concatenate([self._owner, np.full(more, -1, np.int64)])
            for name in ("_used", "rank", "basis", "shrink", "gains", "mean"):
                array = getattr(self, name)
                blank = np.zeros((more, *array.shape[1:]), array.dtype)
                setattr(self, name, np.concatenate([array, blank]))
            free += more
        if free < n:
            candidates = np.flatnonzero((self._owner >= 0) & (self._used < self._clock))
            oldest = candidates[np.argsort(self._used[candidates], kind="stable")][: n - free]
            self.drop(self._owner[oldest])

    def is_dense(self, task: int, group: int) -> bool:
        """Whether the task's posterior of the group is kept as a dense root."""
        return bool(self.rank[self.slots[task], group] == DENSE)
