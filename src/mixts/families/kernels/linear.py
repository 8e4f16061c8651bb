"""Compiled loops of the linear-Gaussian family: absorb one observation after the other, and sample.

Components with the same covariance form a *group* and share all work that does not depend on the
mean: ``members[starts[g]:starts[g + 1]]`` are the components of group g. How roots and posteriors
are kept is said in ``kernels.roots``, how groups sleep in ``kernels.sleep``.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from mixts.families.kernels.roots import (
    LARGEST,
    LOG_2PI,
    LOST,
    MATURE,
    SMALLEST,
    SUMS,
    apply_root,
    copy_root,
    dot,
    project,
    sweep,
    unwind,
)
from mixts.families.kernels.sleep import dream, settle
from mixts.typing import Array


@njit(cache=True, fastmath=SUMS)
def fold(factor: Array, row: Array) -> None:
    """Rotate one row [a', y] into a task's triangle by Givens rotations; destroys the row."""
    size = len(row)
    for k in range(size):
        x = row[k]
        # What is smaller has a square that vanishes beside any noise.
        if abs(x) > SMALLEST:
            old = factor[k, k]
            new = math.sqrt(old * old + x * x)
            c, s = old / new, x / new
            factor[k, k] = new
            line = factor[k]
            for j in range(k + 1, size):
                f, r = line[j], row[j]
                line[j] = c * f + s * r
                row[j] = c * r - s * f


@njit(cache=True, fastmath=SUMS)
def _observe_young(
    a: Array, y: float, low: int, high: int, noise: float, root: Array, prior_mean: Array,
    members: Array, store: Array, shrink: Array, gains: Array, rank: int, relative: Array,
    dots: Array,
) -> None:  # fmt: skip
    d = len(a)
    u = store[rank * d : (rank + 1) * d]
    project(root, a, low, high, u)
    sweep(store, shrink, rank, u, dots)
    alpha = dot(u, u, d) + noise
    shrink[rank] = 1.0 / (alpha + math.sqrt(alpha * noise))
    log_alpha = LOG_2PI + math.log(alpha)
    for s in members:
        error = y - dot(a[low:], prior_mean[s, low:], high - low) - dot(dots, gains[s], rank)
        relative[s] -= 0.5 * (log_alpha + error * error / alpha)
        gains[s, rank] = error / alpha


@njit(cache=True, fastmath=SUMS)
def _carlson(
    root: Array, a: Array, low: int, high: int, noise: float, reach: Array, work: Array
) -> float:
    """Update a packed root by one observation; reach = C C'a, returns alpha.

    With alpha_k the noise plus the squares of v = C'a from the last entry to k, column k becomes
    ``(alpha_{k+1} column - v_k sum_{j>k} v_j column_j) / sqrt(alpha_k alpha_{k+1})``: triangular
    as before.
    """
    d = len(a)
    v, keep, move = work[0], work[1], work[2]
    project(root, a, low, high, v)
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
        # Two columns in a pass: half the traffic on ``reach``.
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
    return alpha


@njit(cache=True, fastmath=SUMS)
def _observe_mature(
    a: Array, y: float, low: int, high: int, noise: float, members: Array, root: Array,
    mean: Array, relative: Array, reach: Array, work: Array,
) -> None:  # fmt: skip
    d = len(a)
    alpha = _carlson(root, a, low, high, noise, reach, work)
    log_alpha = LOG_2PI + math.log(alpha)
    for s in members:
        error = y - dot(a[low:], mean[s, low:], high - low)
        relative[s] -= 0.5 * (log_alpha + error * error / alpha)
        step = error / alpha
        for k in range(d):
            mean[s, k] += step * reach[k]


@njit(cache=True)
def _mature(
    root: Array, prior_mean: Array, members: Array, recent: Array, noise: float,
    store: Array, mean: Array, unused: Array, reach: Array, work: Array,
) -> None:  # fmt: skip
    """From young to mature: absorb the task's first observations again, in the other form."""
    d = prior_mean.shape[1]
    packed = store[: d * (d + 1) // 2]
    copy_root(root, d, packed)
    for s in members:
        mean[s] = prior_mean[s]
    for i in range(len(recent)):
        a, y = recent[i, :d], recent[i, d]
        _observe_mature(a, y, 0, d, noise, members, packed, mean, unused, reach, work)


@njit(cache=True)
def _check_and_keep(
    tasks: Array, features: Array, outcomes: Array, slots: Array, filled: Array, recent: Array
) -> int:
    """The first observation that is too large or no number; -1 after noting young tasks' ones."""
    m, d = features.shape
    for i in range(m):
        size = abs(outcomes[i])
        for k in range(d):
            size += abs(features[i, k])
        if not size <= LARGEST:
            return i
    for i in range(m):
        p = slots[tasks[i]]
        if filled[p] < recent.shape[1]:
            recent[p, filled[p], :d] = features[i]
            recent[p, filled[p], d] = outcomes[i]
            filled[p] += 1
    return -1


@njit(cache=True)
def observe(
    tasks: Array, features: Array, outcomes: Array, noise: float,
    prior_mean: Array, roots: Array, starts: Array, members: Array,
    count: Array, factor: Array, relative: Array, asleep: Array,
    slots: Array, filled: Array, recent: Array,
    rank: Array, store: Array, shrink: Array, gains: Array, mean: Array,
    misfit: Array, drift: Array, log_weights: Array, limits: Array, refresh: Array,
    ceiling: Array, highest: Array, asleep_since: Array,
) -> int:  # fmt: skip
    """Absorb observations into statistics and every awake posterior, then ``settle``.

    Returns how many tasks need another look, or -1 - i if observation i is bad and nothing was
    changed.
    """
    m, d = features.shape
    bad = _check_and_keep(tasks, features, outcomes, slots, filled, recent)
    if bad >= 0:
        return -1 - bad
    low, high = np.empty(m, np.int64), np.empty(m, np.int64)
    for i in range(m):
        low[i], high[i] = 0, d
        while low[i] < d - 1 and features[i, low[i]] == 0.0:
            low[i] += 1
        while high[i] > low[i] + 1 and features[i, high[i] - 1] == 0.0:
            high[i] -= 1
    reach, work, unused = np.empty(d), np.empty((3, d)), np.zeros(relative.shape[1])
    last = recent.shape[1]
    # Groups outside: a prior root is read once for all the tasks of the call.
    for g in range(len(starts) - 1):
        inside = members[starts[g] : starts[g + 1]]
        for i in range(m):
            t = tasks[i]
            a, y, p = features[i], outcomes[i], slots[t]
            r = rank[p, g]
            if asleep[t, g]:
                if r != LOST:
                    dream(a, y, low[i], high[i], inside, mean[p], misfit[p], drift[p])
                continue
            if r == MATURE:
                root = store[p, g, : d * (d + 1) // 2]
                _observe_mature(
                    a, y, low[i], high[i], noise, inside, root, mean[p], relative[t], reach, work
                )
                continue
            _observe_young(
                a, y, low[i], high[i], noise, roots[g], prior_mean, inside,
                store[p, g], shrink[p, g], gains[p], r, relative[t], reach,
            )  # fmt: skip
            rank[p, g] = r + 1
            if r + 1 == last:
                _mature(
                    roots[g], prior_mean, inside, recent[p], noise,
                    store[p, g], mean[p], unused, reach, work,
                )  # fmt: skip
                rank[p, g] = MATURE
    row = np.empty(d + 1)
    for i in range(m):
        row[:d] = features[i]
        row[d] = outcomes[i]
        fold(factor[tasks[i]], row)
        count[tasks[i]] += 1
    return settle(
        tasks, log_weights, limits, prior_mean, roots, starts, members,
        count, refresh, relative, asleep, ceiling, highest, asleep_since,
        slots, rank, store, shrink, gains, mean, misfit, drift,
    )  # fmt: skip


@njit(cache=True, fastmath=SUMS)
def sample(
    tasks: Array, latent: Array, group_of: Array, prior_mean: Array, roots: Array,
    slots: Array, rank: Array, store: Array, shrink: Array, gains: Array, mean: Array,
    x: Array,
) -> None:  # fmt: skip
    """Turn standard normals x (m, d) into parameters; zeros become the posterior means."""
    m, d = x.shape
    for i in range(m):
        s = latent[i]
        g, p = group_of[s], slots[tasks[i]]
        if rank[p, g] == MATURE:
            apply_root(store[p, g, : d * (d + 1) // 2], x[i])
            for k in range(d):
                x[i, k] += mean[p, s, k]
        else:
            unwind(store[p, g], shrink[p, g], gains[p, s], rank[p, g], x[i])
            apply_root(roots[g], x[i])
            for k in range(d):
                x[i, k] += prior_mean[s, k]
