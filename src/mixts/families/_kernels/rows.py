"""Loops that count observed feature rows, into triangular factors or into tables.

A linear task keeps the triangular factor of its data, ``[A y] = Q [[R, z], [0, sqrt(rss)]]``:

``fold_row`` adds one observation by Givens rotations; ``fold_block`` adds a long history of one
task by blocked QR factorisations, which cost less per row. The same observations in the same order
give the same bits by ``fold_row``, in however many calls.

A logistic task keeps a table of its distinct rows, with counts of trials and successes. The rows of
a task lie one after the other in arrays that all tasks share, sorted by their numbers, the first
number first. A sorted table does not depend on the order in which rows were counted.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from mixts._compiled import compiled
from mixts._typing import Array, Float
from mixts.families._kernels.roots import SUMS

_SMALLEST = 1e-150
"""The square of a smaller number underflows, and vanishes beside any noise."""

_BLOCK_ROWS = 4096
"""Rows factorised at a time, which bounds the memory that a long history needs."""


@compiled(inner=True, borrows=True, fastmath=SUMS)
def fold_row(factor: Array, row: Array) -> None:
    """Rotate one row [a', y] into a triangle (d + 1, d + 1); the row is overwritten."""
    size = len(row)
    for k in range(size):
        x = row[k]
        if abs(x) > _SMALLEST:
            old = factor[k, k]
            new = math.sqrt(old * old + x * x)
            c, s = old / new, x / new
            factor[k, k] = new
            line = factor[k]
            for j in range(k + 1, size):
                f, r = line[j], row[j]
                line[j] = c * f + s * r
                row[j] = c * r - s * f


@compiled(inner=True, borrows=True)
def fold_one(row: Array, a: Array, y: float, factor: Array) -> None:
    """Rotate one observation into a triangle; ``row`` (d + 1,) is overwritten."""
    d = len(a)
    for k in range(d):
        row[k] = a[k]
    row[d] = y
    fold_row(factor, row)


@compiled()
def fold_rows(tasks: Array, features: Array, outcomes: Array, count: Array, factor: Array) -> None:
    """Rotate checked observations into the triangles of their tasks, one after the other."""
    row = np.empty(features.shape[1] + 1)
    for i in range(len(tasks)):
        fold_one(row, features[i], outcomes[i], factor[tasks[i]])
        count[tasks[i]] += 1


def triangle(rows: Float[Array, "n m p"]) -> Float[Array, "n p p"]:
    """Return the triangular factor of each stack of rows, with no negative diagonal entry."""
    n, m, p = rows.shape
    if m < p:
        rows = np.concatenate([rows, np.zeros((n, p - m, p))], axis=1)
    r = np.linalg.qr(rows, mode="r")
    sign = np.where(np.diagonal(r, axis1=1, axis2=2) < 0, -1.0, 1.0)
    return np.triu(r * sign[:, :, None])


def fold_block(
    factor: Float[Array, "p p"], features: Float[Array, "m d"], outcomes: Float[Array, " m"]
) -> Float[Array, "p p"]:
    """Return a task's triangle after many observations, factorised a block of rows at a time."""
    for start in range(0, len(outcomes), _BLOCK_ROWS):
        part = slice(start, start + _BLOCK_ROWS)
        rows = np.concatenate([features[part], outcomes[part, None]], axis=1)
        factor = triangle(np.concatenate([factor, rows])[None])[0]
    return factor


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
