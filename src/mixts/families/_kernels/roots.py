"""Compiled loops over square roots of covariances.

A component is ``theta = mean + C x`` with x standard normal and C lower triangular. Roots are
packed by columns: column k is the d - k entries from the diagonal down, at ``column(k, d)``. The
prior root of a diagonal covariance is stored as its diagonal only.
"""

from __future__ import annotations

import math

from mixts._compiled import compiled
from mixts._numbers import LARGEST, LOG_2PI  # noqa: F401
from mixts._typing import Array

# Sums may be reordered so that they vectorise; NaN and infinity keep their meaning.
SUMS = {"reassoc", "contract", "nsz"}
N_SCRATCH = 4
"""Temporary vectors, the rows of ``scratch``: the factors of a column's own entries in
``update_root``, the factors of the sum of the later columns, C v, and one that callers may use."""


@compiled(inner=True, borrows=True, fastmath=SUMS)
def dot(x: Array, y: Array, n: int) -> float:
    """Return x'y over the first n entries."""
    total = 0.0
    for i in range(n):
        total += x[i] * y[i]
    return total


@compiled(inner=True, borrows=True)
def column(k: int, d: int) -> int:
    """Return the index at which column k of a packed root starts."""
    return k * d - k * (k - 1) // 2


@compiled(inner=True, borrows=True)
def project(root: Array, a: Array, out: Array) -> None:
    """Compute out = C'a; the zeros at both ends of a cost no time."""
    d = len(a)
    low, high, start = 0, d, 0
    while low < d - 1 and a[low] == 0.0:
        low += 1
    while high > low + 1 and a[high - 1] == 0.0:
        high -= 1
    for k in range(d):
        first = max(k, low)
        out[k] = dot(root[start + first - k :], a[first:], high - first)
        start += d - k


@compiled(inner=True, borrows=True, fastmath=SUMS)
def apply_packed(root: Array, x: Array) -> None:
    """Replace x by C x."""
    d, start = len(x), len(root)
    for k in range(d - 1, -1, -1):
        start -= d - k
        # From the last column to the first: column k needs the original x[k].
        below, tail, value = root[start:], x[k:], x[k]
        tail[0] = value * below[0]
        for i in range(1, d - k):
            tail[i] += value * below[i]


@compiled(inner=True, borrows=True, fastmath=SUMS)
def update_root(root: Array, v: Array, noise: float, scratch: Array) -> None:
    """Update a packed root C by one observation with v = C'a, and v with it.

    This is Carlson's form of Potter's square-root update. With alpha_k the noise variance plus the
    squares of v from the last entry to k, column k becomes
    ``(alpha_{k+1} column - v_k sum_{j>k} v_j column_j) / sqrt(alpha_k alpha_{k+1})``, which keeps
    the triangle, and v_k becomes ``v_k noise / sqrt(alpha_k alpha_{k+1})``. ``scratch[2]`` is C v
    of before.
    """
    d = len(v)
    keep, move, reach = scratch[0], scratch[1], scratch[2]
    alpha = noise
    for k in range(d - 1, -1, -1):
        before = alpha
        alpha += v[k] * v[k]
        scale = 1.0 / math.sqrt(before * alpha)
        keep[k] = before * scale
        move[k] = v[k] * scale
        reach[k] = 0.0
    start = len(root)
    for k in range(d - 1, 0, -2):
        # Two columns in one pass halve the traffic on ``reach``.
        n = d - k
        last = root[start - n :]
        start -= 2 * n + 1
        first, tail = root[start + 1 :], reach[k:]
        x1, y1, z1, x0, y0, z0 = keep[k], move[k], v[k], keep[k - 1], move[k - 1], v[k - 1]
        for i in range(n):
            entry1, entry0, past = last[i], first[i], tail[i]
            between = past + entry1 * z1
            last[i] = entry1 * x1 - past * y1
            first[i] = entry0 * x0 - between * y0
            tail[i] = between + entry0 * z0
        reach[k - 1] = root[start] * z0
        root[start] *= x0
    if d % 2 == 1:
        x0, y0, z0 = keep[0], move[0], v[0]
        for i in range(d):
            entry0, past = root[i], reach[i]
            root[i] = entry0 * x0 - past * y0
            reach[i] = past + entry0 * z0
    for k in range(d):
        v[k] = move[k] * noise
