"""The task axis: one task without it, or many tasks on the first axis.

``n_tasks=None`` is one task, and no array has a task axis. With ``n_tasks=k``, also k = 1, every
array has the task axis first.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mixts import _checks
from mixts._typing import Array, ArrayLike, Int
from mixts.errors import ObservationError, ParameterError, TaskError

# Never written to.
_ONE = np.zeros(1, np.int64)


class TaskAxis:
    """Number of tasks, and whether arrays have an axis for them."""

    def __init__(self, n_tasks: int | None) -> None:
        self.single = n_tasks is None
        self.size = 1 if n_tasks is None else _checks.count(n_tasks, "n_tasks", least=0)

    def __str__(self) -> str:
        return "1 task" if self.size == 1 else f"{self.size} tasks"

    @property
    def n_tasks(self) -> int | None:
        """Number of tasks; None for one task without a task axis."""
        return None if self.single else self.size

    def decisions(self, tasks: ArrayLike | None) -> Int[Array, " m"]:
        """Return the task of each decision: all in order, or the given ones."""
        if self.single:
            self._refuse_tasks(tasks)
            return _ONE
        return np.arange(self.size) if tasks is None else _checks.task_indices(tasks, self.size)

    def observations(self, tasks: ArrayLike | None, n: int) -> Int[Array, " m"]:
        """Return the task of each of n observations: one per task in order, or the given ones."""
        if self.single:
            self._refuse_tasks(tasks)
            return _ONE if n == 1 else np.zeros(n, np.int64)
        index = self.decisions(tasks)
        if len(index) != n:
            expected = (
                f"one observation for each of the {self.size} tasks"
                if tasks is None
                else f"as many observations as tasks ({len(index)})"
            )
            raise ObservationError(
                f"expected {expected}, got {n}: give the task of each observation as tasks="
            )
        return index

    def squeeze(self, array: Array) -> Any:
        """Remove the task axis for one task; a number becomes a Python number."""
        if not self.single:
            return array
        return array.item() if array.ndim == 1 else array[0]

    def grow(self, n: int) -> Int[Array, " n"]:
        """Add n tasks and return their indices."""
        if self.single:
            raise ParameterError(
                "this has one task and no task axis: create it with n_tasks=... to add tasks"
            )
        n = _checks.count(n, "n", least=0)
        self.size += n
        return np.arange(self.size - n, self.size)

    def _refuse_tasks(self, tasks: ArrayLike | None) -> None:
        if tasks is not None:
            raise TaskError(
                "this has one task and no task axis: leave tasks out, or create it with n_tasks=..."
            )
