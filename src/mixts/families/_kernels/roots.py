"""Compiled loops over square roots of covariances.

A component is ``theta = mean + C x`` with x standard normal and C lower triangular. Roots are
packed by columns: column k is the d - k entries from the diagonal down, at ``column(k, d)``. The
root of a diagonal covariance is stored as its diagonal only; ``copy_root`` unfolds it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from mixts._compiled import compiled
from mixts._typing import Array

# Sums may be reordered so that they vectorise; NaN and infinity keep their meaning.
SUMS = {"reassoc", "contract", "nsz"}
LOG_2PI = math.log(2 * math.pi)

LARGEST = 1e75
"""Real rewards and features beyond this are refused: products of four must not overflow."""


class Scratch(NamedTuple):
    """Temporary vectors (d,) of ``update_root``; only ``reach`` is read afterwards."""

    v: Array
    """C'a."""
    keep: Array
    """Factor of a column's own entries."""
    move: Array
    """Factor of the sum of the later columns, which is subtracted."""
    reach: Array
    """C C'a, with the root from before the update."""


@compiled()
def new_scratch(d: int) -> Scratch:
    """Allocate scratch vectors of d numbers."""
    rows = np.empty((4, d))
    return Scratch(rows[0], rows[1], rows[2], rows[3])


@compiled(fastmath=SUMS)
def dot(x: Array, y: Array, n: int) -> float:
    """Return x'y over the first n entries."""
    total = 0.0
    for i in range(n):
        total += x[i] * y[i]
    return total


@compiled()
def column(k: int, d: int) -> int:
    """Return the index at which column k of a packed root starts."""
    return k * d - k * (k - 1) // 2


@compiled(fastmath=SUMS)
def project(root: Array, a: Array, low: int, high: int, out: Array) -> None:
    """Compute out = C'a, where only the entries low to high of a differ from zero."""
    d = len(a)
    if len(root) == d:
        for i in range(d):
            out[i] = root[i] * a[i]
        return
    start = 0
    if low == 0 and high == d:
        for k in range(d):
            out[k] = dot(root[start:], a[k:], d - k)
            start += d - k
        return
    for k in range(d):
        if k < low:
            out[k] = dot(root[start + low - k :], a[low:], high - low)
        elif k < high:
            out[k] = dot(root[start:], a[k:], high - k)
        else:
            out[k] = 0.0
        start += d - k


@compiled(fastmath=SUMS)
def apply_root(root: Array, x: Array) -> None:
    """Replace x by C x."""
    d = len(x)
    if len(root) == d:
        for i in range(d):
            x[i] *= root[i]
        return
    start = len(root)
    for k in range(d - 1, -1, -1):
        start -= d - k
        # From the last column to the first: column k needs the original x[k].
        below, tail, value = root[start:], x[k:], x[k]
        tail[0] = value * below[0]
        for i in range(1, d - k):
            tail[i] += value * below[i]


@compiled()
def copy_root(root: Array, d: int, packed: Array) -> None:
    """Copy a root, triangular or diagonal, into a packed triangle."""
    if len(root) > d or d == 1:
        for i in range(len(root)):
            packed[i] = root[i]
    else:
        packed[:] = 0.0
        for k in range(d):
            packed[column(k, d)] = root[k]


@compiled(fastmath=SUMS)
def update_root(
    root: Array, a: Array, low: int, high: int, noise: float, scratch: Scratch
) -> float:
    """Update a packed root by one observation with action a; return a'C C'a from before.

    This is Carlson's form of Potter's square-root update. With alpha_k the noise variance plus the
    squares of v = C'a from the last entry to k, column k becomes
    ``(alpha_{k+1} column - v_k sum_{j>k} v_j column_j) / sqrt(alpha_k alpha_{k+1})``, which keeps
    the triangle. ``scratch.reach`` is C C'a afterwards.
    """
    d = len(a)
    v, keep, move, reach = scratch.v, scratch.keep, scratch.move, scratch.reach
    project(root, a, low, high, v)
    spread = dot(v, v, d)
    alpha = noise
    for k in range(d - 1, -1, -1):
        keep[k] = alpha
        alpha += v[k] * v[k]
        move[k] = alpha
    for k in range(d):
        scale = math.sqrt(keep[k] * move[k])
        keep[k] = keep[k] / scale
        move[k] = v[k] / scale
    reach[:] = 0.0
    start = len(root)
    for k in range(d - 1, 0, -2):
        # Two columns in one pass halve the traffic on ``reach``.
        n = d - k
        after = root[start - n : start]
        start -= 2 * n + 1
        before, tail = root[start + 1 : start + 1 + n], reach[k:]
        x1, y1, z1, x0, y0, z0 = keep[k], move[k], v[k], keep[k - 1], move[k - 1], v[k - 1]
        for i in range(n):
            entry1, entry0, past = after[i], before[i], tail[i]
            between = past + entry1 * z1
            after[i] = entry1 * x1 - past * y1
            before[i] = entry0 * x0 - between * y0
            tail[i] = between + entry0 * z0
        reach[k - 1] = root[start] * z0
        root[start] *= x0
    if d % 2 == 1:
        x0, y0, z0 = keep[0], move[0], v[0]
        for i in range(d):
            entry0, past = root[i], reach[i]
            root[i] = entry0 * x0 - past * y0
            reach[i] = past + entry0 * z0
    return spread
