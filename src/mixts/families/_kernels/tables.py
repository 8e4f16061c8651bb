"""Tables of distinct feature rows, one for each task, with counts of trials and successes.

The rows of a task lie one after the other in arrays that all tasks share, sorted by their numbers,
the first number first. A sorted table does not depend on the order in which rows were counted.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from mixts._compiled import compiled
from mixts._typing import Array


class Tables(NamedTuple):
    """Where each task's rows are, (n,), and the rows of all tasks, (N, ...)."""

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


@compiled(borrows=True)
def _order(row: Array, other: Array) -> int:
    """Return -1, 0 or 1: whether a row comes before, equals or comes after another."""
    for k in range(len(row)):
        if row[k] != other[k]:
            return -1 if row[k] < other[k] else 1
    return 0


@compiled(borrows=True)
def count_rows(
    first: int,
    tasks: Array,
    features: Array,
    trials: Array,
    successes: Array,
    tables: tuple[Any, ...],
) -> int:
    """Count rows from ``first`` on; return how many are counted when a table has no room left."""
    t = Tables(*tables)
    d = features.shape[1]
    for i in range(first, len(tasks)):
        start, size = t.start[tasks[i]], t.size[tasks[i]]
        low, high, found = start, start + size, False
        while low < high and not found:
            middle = (low + high) // 2
            order = _order(t.rows[middle], features[i])
            if order == 0:
                low, found = middle, True
            elif order < 0:
                low = middle + 1
            else:
                high = middle
        if not found:
            if size == t.room[tasks[i]]:
                return i
            for j in range(start + size, low, -1):
                for k in range(d):
                    t.rows[j, k] = t.rows[j - 1, k]
                t.trials[j], t.successes[j] = t.trials[j - 1], t.successes[j - 1]
            for k in range(d):
                t.rows[low, k] = features[i, k]
            t.trials[low] = t.successes[low] = 0
            t.size[tasks[i]] += 1
        t.trials[low] += trials[i]
        t.successes[low] += successes[i]
    return len(tasks)
