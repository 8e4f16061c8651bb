"""Compiled loops over roots of covariances and the two forms of a linear posterior.

A component's prior is ``theta = theta_0 + C x`` with x standard normal and C lower triangular.
Roots are stored by columns, packed: column k is the d - k entries from the diagonal down, at
``column(k, d)``; a diagonal root is only its diagonal.

The posterior of a task and a group of components is kept in one of two forms, in the same memory:

- *young* (rank j, up to about d / 2): Potter's updates as a product ``H = F_1 ... F_j``,
  ``F_i = I - shrink_i v_i v_i'``, acting on the shared prior root, and gains
  ``c_i = e_i / alpha_i``. With ``u = C'a`` one sweep of ``dot_i = v_i'u``,
  ``u -= shrink_i dot_i v_i`` gives the new v, and the predicted mean
  ``a'theta_0 + sum_i c_i dot_i`` for free. The prior root is read, never written.
- *mature*: the packed root itself, updated in place by Carlson's triangular form of the same step,
  and the mean.
"""

from __future__ import annotations

import math

from mixts._compiled import compiled
from mixts._typing import Array

# Sums may be reordered so that they vectorise; NaN and infinity keep their meaning.
SUMS = {"reassoc", "contract", "nsz"}
LOG_2PI = math.log(2 * math.pi)

# The rank of a posterior that is not young: mature, or lost when the task's slot was given away.
MATURE = -1
LOST = -2

LARGEST = 1e75
"""Real rewards and features beyond this are refused: products of four must not overflow."""
SMALLEST = 1e-150
"""Below this a number's square underflows."""


@compiled(fastmath=SUMS)
def dot(x: Array, y: Array, n: int) -> float:
    """x'y over the first n entries."""
    total = 0.0
    for i in range(n):
        total += x[i] * y[i]
    return total


@compiled()
def column(k: int, d: int) -> int:
    """Where column k of a packed root starts."""
    return k * d - k * (k - 1) // 2


@compiled(fastmath=SUMS)
def project(root: Array, a: Array, low: int, high: int, out: Array) -> None:
    """out = C'a, where only the entries low to high of a differ from zero."""
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
    """x becomes C x."""
    d = len(x)
    if len(root) == d:
        for i in range(d):
            x[i] *= root[i]
        return
    start = len(root)
    for k in range(d - 1, -1, -1):
        start -= d - k
        # Columns from the last on: x[k] is still its own when column k needs it.
        below, tail, value = root[start:], x[k:], x[k]
        tail[0] = value * below[0]
        for i in range(1, d - k):
            tail[i] += value * below[i]


@compiled()
def copy_root(root: Array, d: int, packed: Array) -> None:
    """The root as a packed triangle, also where it is diagonal."""
    if len(root) > d or d == 1:
        packed[:] = root
    else:
        packed[:] = 0.0
        for k in range(d):
            packed[column(k, d)] = root[k]


@compiled(fastmath=SUMS)
def sweep(store: Array, shrink: Array, rank: int, u: Array, dots: Array) -> None:
    """u = H'u; dots are the products v_i'u on the way."""
    d = len(u)
    for i in range(rank):
        v = store[i * d : (i + 1) * d]
        dots[i] = dot(v, u, d)
        step = shrink[i] * dots[i]
        for k in range(d):
            u[k] -= step * v[k]


@compiled(fastmath=SUMS)
def unwind(store: Array, shrink: Array, gains: Array, rank: int, x: Array) -> None:
    """x = H x + m, the whitened mean m = sum_i c_i F_1 ... F_{i-1} v_i, in one backward sweep."""
    d = len(x)
    for i in range(rank - 1, -1, -1):
        v = store[i * d : (i + 1) * d]
        step = gains[i] - shrink[i] * dot(v, x, d)
        for k in range(d):
            x[k] += step * v[k]
