"""Compiled loops of the linear-Gaussian family: absorb one observation after the other, and sample.

Components with the same covariance form a *group* and share all work that does not depend on the
mean: ``members[starts[g]:starts[g + 1]]`` are the components of group g. How roots and posteriors
are kept is said in ``kernels.roots``, how groups sleep in ``kernels.sleep``.
"""

from __future__ import annotations

import math

import numpy as np

from mixts._compiled import compiled
from mixts._typing import Array
from mixts.families._kernels.mature import NO_RUN, catch_up, mature, observe_mature, repeat
from mixts.families._kernels.roots import (
    LARGEST,
    LOG_2PI,
    LOST,
    MATURE,
    SMALLEST,
    SUMS,
    apply_root,
    dot,
    project,
    sweep,
    unwind,
)
from mixts.families._kernels.sleep import dream, settle


@compiled(fastmath=SUMS)
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


@compiled(fastmath=SUMS)
def fold_rows(tasks: Array, actions: Array, outcomes: Array, count: Array, factor: Array) -> None:
    """Rotate checked observations into their tasks' triangles, one after the other."""
    d = actions.shape[1]
    row = np.empty(d + 1)
    for i in range(len(tasks)):
        row[:d] = actions[i]
        row[d] = outcomes[i]
        fold(factor[tasks[i]], row)
        count[tasks[i]] += 1


@compiled(fastmath=SUMS)
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


@compiled()
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


@compiled()
def _survey(
    tasks: Array, features: Array, slots: Array, last: Array,
    low: Array, high: Array, before: Array, same: Array,
) -> None:  # fmt: skip
    """Where each action differs from zero, and whether it is the one its task took before.

    ``before[i]`` is the task's observation before i in this call, or -1: then ``last`` has it.
    """
    m, d = features.shape
    newest = np.full(len(last), -1)
    for i in range(m):
        p = slots[tasks[i]]
        low[i], high[i], before[i] = 0, d, newest[p]
        newest[p] = i
        while low[i] < d - 1 and features[i, low[i]] == 0.0:
            low[i] += 1
        while high[i] > low[i] + 1 and features[i, high[i] - 1] == 0.0:
            high[i] -= 1
        previous = last[p] if before[i] < 0 else features[before[i]]
        same[i] = True
        for k in range(d):
            if features[i, k] != previous[k]:
                same[i] = False
                break


@compiled()
def _record(
    tasks: Array, features: Array, outcomes: Array, slots: Array, last: Array, count: Array,
    factor: Array,
) -> None:  # fmt: skip
    """Observations into statistics, and each task's newest action."""
    m, d = features.shape
    row = np.empty(d + 1)
    for i in range(m):
        last[slots[tasks[i]]] = features[i]
        row[:d] = features[i]
        row[d] = outcomes[i]
        fold(factor[tasks[i]], row)
        count[tasks[i]] += 1


@compiled()
def observe(
    tasks: Array, features: Array, outcomes: Array, noise: float,
    prior_mean: Array, roots: Array, starts: Array, members: Array,
    count: Array, factor: Array, relative: Array, asleep: Array,
    slots: Array, filled: Array, recent: Array,
    rank: Array, store: Array, shrink: Array, gains: Array, mean: Array,
    misfit: Array, drift: Array, last: Array, run: Array, spread: Array, reach: Array,
    level: Array, base: Array,
    log_weights: Array, limits: Array, refresh: Array,
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
    low, high, before = np.empty(m, np.int64), np.empty(m, np.int64), np.empty(m, np.int64)
    same = np.empty(m, np.bool_)
    _survey(tasks, features, slots, last, low, high, before, same)
    scratch, work = np.empty(d), np.empty((3, d))
    # Groups outside: a prior root is read once for all the tasks of the call.
    for g in range(len(starts) - 1):
        inside = members[starts[g] : starts[g + 1]]
        for i in range(m):
            t, a, y = tasks[i], features[i], outcomes[i]
            p = slots[t]
            r = rank[p, g]
            if asleep[t, g]:
                if r != LOST:
                    dream(a, y, low[i], high[i], inside, mean[p], misfit[p], drift[p])
            elif r != MATURE:
                _observe_young(
                    a, y, low[i], high[i], noise, roots[g], prior_mean, inside,
                    store[p, g], shrink[p, g], gains[p], r, relative[t], scratch,
                )  # fmt: skip
                rank[p, g] = r + 1
                if r + 1 == recent.shape[1]:
                    mature(
                        g, roots[g], prior_mean, inside, recent[p], noise,
                        store[p, g], mean[p], run[p], scratch, work,
                    )  # fmt: skip
                    rank[p, g] = MATURE
            elif same[i] and run[p, g] != NO_RUN:
                repeat(g, y, noise, inside, run[p], spread[p], level[p], relative[t])
            else:
                previous = last[p] if before[i] < 0 else features[before[i]]
                catch_up(
                    g, previous, noise, inside, store[p, g], mean[p],
                    run[p], spread[p], reach[p], level[p], base[p], scratch, work,
                )  # fmt: skip
                observe_mature(
                    g, a, y, low[i], high[i], noise, inside, store[p, g], mean[p], relative[t],
                    run[p], spread[p], reach[p], level[p], base[p], scratch, work,
                )  # fmt: skip
    _record(tasks, features, outcomes, slots, last, count, factor)
    return settle(
        tasks, log_weights, limits, noise, prior_mean, roots, starts, members,
        count, refresh, relative, asleep, ceiling, highest, asleep_since,
        slots, rank, store, shrink, gains, mean, misfit, drift,
        last, run, spread, reach, level, base,
    )  # fmt: skip


@compiled(fastmath=SUMS)
def sample(
    tasks: Array, latent: Array, group_of: Array, noise: float,
    prior_mean: Array, roots: Array, starts: Array, members: Array,
    slots: Array, rank: Array, store: Array, shrink: Array, gains: Array, mean: Array,
    last: Array, run: Array, spread: Array, reach: Array, level: Array, base: Array,
    x: Array,
) -> None:  # fmt: skip
    """Turn standard normals x (m, d) into parameters; zeros become the posterior means."""
    m, d = x.shape
    scratch, work = np.empty(d), np.empty((3, d))
    for i in range(m):
        s = latent[i]
        g, p = group_of[s], slots[tasks[i]]
        if rank[p, g] == MATURE:
            catch_up(
                g, last[p], noise, members[starts[g] : starts[g + 1]], store[p, g], mean[p],
                run[p], spread[p], reach[p], level[p], base[p], scratch, work,
            )  # fmt: skip
            apply_root(store[p, g], x[i])
            for k in range(d):
                x[i, k] += mean[p, s, k]
        else:
            unwind(store[p, g], shrink[p, g], gains[p, s], rank[p, g], x[i])
            apply_root(roots[g], x[i])
            for k in range(d):
                x[i, k] += prior_mean[s, k]
