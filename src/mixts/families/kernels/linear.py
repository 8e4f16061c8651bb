"""Compiled loops of the linear-Gaussian family.

A component's prior is ``theta = theta_0 + C x`` with x standard normal and C lower triangular (or diagonal,
then one row). Components with the same covariance form a *group* and share all work that does not depend on
the mean: ``members[starts[g]:starts[g + 1]]`` are the components of group g.

The posterior of x given j observations is kept in one of two forms:

- *young* (rank j < d): Potter's updates as a product ``H = F_1 ... F_j``, ``F_i = I - shrink_i v_i v_i'``, acting on
  the shared prior root, and gains ``c_i = e_i / alpha_i``. With ``u = C'a`` one sweep of ``dot_i = v_i'u``,
  ``u -= shrink_i dot_i v_i`` gives the new v, and the predicted mean ``a'theta_0 + sum_i c_i dot_i`` for free.
  A new task costs nothing but its own observations, and the prior root is read, never written.
- *dense* (rank -1): the root ``C H`` and the mean themselves, updated by Potter's rule.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from mixts.typing import Array

# Sums may be reordered so that they vectorise; NaN and infinity keep their meaning.
_SUMS = {"reassoc", "contract", "nsz"}
_LOG_2PI = math.log(2 * math.pi)
DENSE = -1


@njit(cache=True, fastmath=_SUMS, inline="never")
def _dot(x: Array, y: Array, n: int) -> float:
    total = 0.0
    for i in range(n):
        total += x[i] * y[i]
    return total


@njit(cache=True, fastmath=_SUMS)
def _apply_transpose(root: Array, a: Array, out: Array) -> None:
    """out = C'a."""
    d = len(a)
    if root.shape[0] == 1:
        for i in range(d):
            out[i] = root[0, i] * a[i]
        return
    out[:] = 0.0
    for k in range(d):
        x = a[k]
        if x != 0.0:
            row = root[k]
            for i in range(k + 1):
                out[i] += x * row[i]


@njit(cache=True, fastmath=_SUMS)
def _apply(root: Array, x: Array, out: Array) -> None:
    """out = C x; x and out may be the same array."""
    d = len(x)
    if root.shape[0] == 1:
        for i in range(d):
            out[i] = root[0, i] * x[i]
        return
    for k in range(d - 1, -1, -1):
        out[k] = _dot(root[k], x, k + 1)


@njit(cache=True, fastmath=_SUMS)
def fold(factor: Array, row: Array) -> None:
    """Rotate one row [a', y] into a task's triangle by Givens rotations; destroys the row."""
    size = len(row)
    for k in range(size):
        x = row[k]
        if x != 0.0:
            old = factor[k, k]
            new = math.hypot(old, x)
            c, s = old / new, x / new
            factor[k, k] = new
            line = factor[k]
            for j in range(k + 1, size):
                f, r = line[j], row[j]
                line[j] = c * f + s * r
                row[j] = c * r - s * f


@njit(cache=True, fastmath=_SUMS)
def _unwind(basis: Array, shrink: Array, gains: Array, rank: int, x: Array) -> None:
    """x = H x + m, the whitened mean m = sum_i c_i F_1 ... F_{i-1} v_i, in one backward sweep."""
    d = len(x)
    for i in range(rank - 1, -1, -1):
        v = basis[i]
        step = gains[i] - shrink[i] * _dot(v, x, d)
        for k in range(d):
            x[k] += step * v[k]


@njit(cache=True, fastmath=_SUMS)
def _densify(
    root: Array, prior_mean: Array, members: Array, basis: Array, shrink: Array, gains: Array,
    mean: Array, rank: int,
) -> None:  # fmt: skip
    """From young to dense: basis becomes the root C F_1 ... F_rank, mean the components' means."""
    d = prior_mean.shape[1]
    x = np.empty(d)
    for s in members:
        x[:] = 0.0
        _unwind(basis, shrink, gains[s], rank, x)
        _apply(root, x, x)
        for k in range(d):
            mean[s, k] = prior_mean[s, k] + x[k]
    dense = np.zeros((d, d))
    for k in range(d):
        line = dense[k]
        if root.shape[0] == 1:
            line[k] = root[0, k]
        else:
            line[: k + 1] = root[k, : k + 1]
        for i in range(rank):
            v = basis[i]
            step = shrink[i] * _dot(line, v, d)
            for j in range(d):
                line[j] -= step * v[j]
    basis[:d] = dense


@njit(cache=True, fastmath=_SUMS)
def _observe_young(
    a: Array, y: float, noise: float, root: Array, prior_mean: Array, members: Array,
    basis: Array, shrink: Array, gains: Array, rank: int, relative: Array, dots: Array,
) -> None:  # fmt: skip
    d = len(a)
    u = basis[rank]
    _apply_transpose(root, a, u)
    for i in range(rank):
        v = basis[i]
        dots[i] = _dot(v, u, d)
        step = shrink[i] * dots[i]
        for k in range(d):
            u[k] -= step * v[k]
    alpha = _dot(u, u, d) + noise
    shrink[rank] = 1.0 / (alpha + math.sqrt(alpha * noise))
    log_alpha = _LOG_2PI + math.log(alpha)
    for s in members:
        error = y - _dot(a, prior_mean[s], d) - _dot(dots, gains[s], rank)
        relative[s] -= 0.5 * (log_alpha + error * error / alpha)
        gains[s, rank] = error / alpha


@njit(cache=True, fastmath=_SUMS)
def _observe_dense(
    a: Array, y: float, noise: float, members: Array, root: Array, mean: Array, relative: Array,
    v: Array, w: Array,
) -> None:  # fmt: skip
    """Potter's square-root update: no covariance is ever subtracted."""
    d = len(a)
    v[:] = 0.0
    for k in range(d):
        x = a[k]
        line = root[k]
        for i in range(d):
            v[i] += x * line[i]
    alpha = _dot(v, v, d) + noise
    shrink = 1.0 / (alpha + math.sqrt(alpha * noise))
    for k in range(d):
        line = root[k]
        w[k] = _dot(line, v, d)
        step = shrink * w[k]
        for i in range(d):
            line[i] -= step * v[i]
    log_alpha = _LOG_2PI + math.log(alpha)
    for s in members:
        error = y - _dot(a, mean[s], d)
        relative[s] -= 0.5 * (log_alpha + error * error / alpha)
        step = error / alpha
        for k in range(d):
            mean[s, k] += step * w[k]


@njit(cache=True)
def observe(
    tasks: Array, features: Array, outcomes: Array, noise: float,
    prior_mean: Array, roots: Array, starts: Array, members: Array,
    count: Array, factor: Array, relative: Array, asleep: Array,
    slots: Array, rank: Array, basis: Array, shrink: Array, gains: Array, mean: Array,
) -> int:  # fmt: skip
    """Absorb observations into statistics and every awake posterior; -1, or the first bad index."""
    m, d = features.shape
    for i in range(m):
        total = outcomes[i]
        for k in range(d):
            total += abs(features[i, k])
        if not math.isfinite(total):
            return i
    dots, v, w = np.empty(d), np.empty(d), np.empty(d)
    # Groups outside: a prior root is read once for all the tasks of the call.
    for g in range(len(starts) - 1):
        inside = members[starts[g] : starts[g + 1]]
        for i in range(m):
            t = tasks[i]
            if asleep[t, g]:
                continue
            a, y, p = features[i], outcomes[i], slots[t]
            r = rank[p, g]
            if r == DENSE:
                _observe_dense(a, y, noise, inside, basis[p, g], mean[p], relative[t], v, w)
            else:
                _observe_young(
                    a, y, noise, roots[g], prior_mean, inside,
                    basis[p, g], shrink[p, g], gains[p], r, relative[t], dots,
                )  # fmt: skip
                rank[p, g] = r + 1
                if r + 1 == d:
                    _densify(
                        roots[g], prior_mean, inside, basis[p, g], shrink[p, g], gains[p], mean[p], d
                    )
                    rank[p, g] = DENSE
    row = np.empty(d + 1)
    for i in range(m):
        row[:d] = features[i]
        row[d] = outcomes[i]
        fold(factor[tasks[i]], row)
        count[tasks[i]] += 1
    return -1


@njit(cache=True, fastmath=_SUMS)
def sample(
    tasks: Array, latent: Array, group_of: Array, prior_mean: Array, roots: Array,
    slots: Array, rank: Array, basis: Array, shrink: Array, gains: Array, mean: Array,
    x: Array,
) -> None:  # fmt: skip
    """Turn standard normals x (m, d) into parameters; zeros become the posterior means."""
    m, d = x.shape
    for i in range(m):
        s = latent[i]
        g, p = group_of[s], slots[tasks[i]]
        if rank[p, g] == DENSE:
            z = x[i].copy()
            for k in range(d):
                x[i, k] = mean[p, s, k] + _dot(basis[p, g, k], z, d)
        else:
            _unwind(basis[p, g], shrink[p, g], gains[p, s], rank[p, g], x[i])
            _apply(roots[g], x[i], x[i])
            for k in range(d):
                x[i, k] += prior_mean[s, k]
