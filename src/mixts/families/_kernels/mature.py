"""Compiled loops over mature posteriors: Carlson's update, and runs of the same action.

While a task repeats an action, its further observations only move numbers. With
``spread = a'Sigma a`` when the run began, m of them leave ``spread noise / (noise + m spread)`` of
it; ``level = a'mean`` moves as an arm's mean does. Root and mean are brought up to date when they
are needed: when another action comes, when the component is sampled or falls asleep. ``run`` is the
number of observations that wait, or NO_RUN.
"""

from __future__ import annotations

import math

from mixts._compiled import compiled
from mixts._typing import Array
from mixts.families._kernels.roots import LOG_2PI, MATURE, SUMS, copy_root, dot, project

NO_RUN = -1


@compiled(fastmath=SUMS)
def absorb(
    root: Array, a: Array, low: int, high: int, noise: float, reach: Array, work: Array
) -> float:
    """Update a packed root by one observation; reach = C C'a, returns a'C C'a of before.

    With alpha_k the noise plus the squares of v = C'a from the last entry to k, column k becomes
    ``(alpha_{k+1} column - v_k sum_{j>k} v_j column_j) / sqrt(alpha_k alpha_{k+1})``: triangular
    as before.
    """
    d = len(a)
    v, keep, move = work[0], work[1], work[2]
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
    return spread


@compiled(fastmath=SUMS)
def catch_up(
    g: int, a: Array, noise: float, members: Array, root: Array, mean: Array,
    run: Array, spread: Array, reach: Array, level: Array, base: Array,
    scratch: Array, work: Array,
) -> None:  # fmt: skip
    """Bring a group's root and means up to date with the observations of action ``a`` that wait."""
    d, m, s = len(a), run[g], spread[g]
    if m <= 0:
        return
    along = reach[g]
    for c in members:
        if s > 0.0:
            step = (level[c] - base[c]) / s
            for k in range(d):
                mean[c, k] += step * along[k]
        base[c] = level[c]
    absorb(root, a, 0, d, noise / m, scratch, work)
    shrink = noise / (noise + m * s)
    spread[g] = s * shrink
    for k in range(d):
        along[k] *= shrink
    run[g] = 0


@compiled()
def repeat(
    g: int, y: float, noise: float, members: Array,
    run: Array, spread: Array, level: Array, relative: Array,
) -> None:  # fmt: skip
    """One more observation of the action of the run."""
    s = spread[g] * noise / (noise + run[g] * spread[g])
    alpha = s + noise
    log_alpha = LOG_2PI + math.log(alpha)
    for c in members:
        error = y - level[c]
        relative[c] -= 0.5 * (log_alpha + error * error / alpha)
        level[c] += s * error / alpha
    run[g] += 1


@compiled(fastmath=SUMS)
def observe_mature(
    g: int, a: Array, y: float, low: int, high: int, noise: float, members: Array, root: Array,
    mean: Array, relative: Array, run: Array, spread: Array, reach: Array, level: Array,
    base: Array, scratch: Array, work: Array,
) -> None:  # fmt: skip
    """An observation of another action: a new run begins."""
    d = len(a)
    s = absorb(root, a, low, high, noise, scratch, work)
    alpha = s + noise
    log_alpha = LOG_2PI + math.log(alpha)
    for c in members:
        error = y - dot(a[low:], mean[c, low:], high - low)
        relative[c] -= 0.5 * (log_alpha + error * error / alpha)
        step = error / alpha
        for k in range(d):
            mean[c, k] += step * scratch[k]
        level[c] = y - step * noise
        base[c] = level[c]
    shrink = noise / alpha
    spread[g] = s * shrink
    along = reach[g]
    for k in range(d):
        along[k] = scratch[k] * shrink
    run[g] = 0


@compiled()
def start_mature(
    slots: Array, prior_mean: Array, roots: Array,
    rank: Array, run: Array, store: Array, mean: Array,
) -> None:  # fmt: skip
    """Tasks with no history, mature from the start: every group has a copy of its prior."""
    d = prior_mean.shape[1]
    for p in slots:
        mean[p] = prior_mean
        for g in range(len(roots)):
            copy_root(roots[g], d, store[p, g])
            rank[p, g] = MATURE
            run[p, g] = NO_RUN


@compiled(fastmath=SUMS)
def mature(
    g: int, root: Array, prior_mean: Array, members: Array, recent: Array, noise: float,
    packed: Array, mean: Array, run: Array, scratch: Array, work: Array,
) -> None:  # fmt: skip
    """From young to mature: absorb the task's first observations again, in the other form."""
    d = prior_mean.shape[1]
    copy_root(root, d, packed)
    for c in members:
        mean[c] = prior_mean[c]
    for i in range(len(recent)):
        a = recent[i, :d]
        alpha = absorb(packed, a, 0, d, noise, scratch, work) + noise
        for c in members:
            step = (recent[i, d] - dot(a, mean[c], d)) / alpha
            for k in range(d):
                mean[c, k] += step * scratch[k]
    run[g] = NO_RUN
