"""Compiled loops of the linear-Gaussian family that start from statistics: evidence and posterior.

With the task's triangle ``[[R, z], [0, r]]`` and a prior root C, the orthogonal factorisation of
``[[I, 0], [R C / sigma, (z - R theta_0) / sigma]]`` gives everything: a lower triangle T with
``log det M = 2 sum log |diag|``, ``M = T'T = I + C'R'R C / sigma^2``; the residual q of the last
column; the posterior root ``C T^-1``, lower triangular again because the columns are eliminated
from the last to the first; and the mean. The identity on top is exploited: a reflection of column
k touches row k of the top and the block below.
"""

from __future__ import annotations

import math

import numpy as np

from mixts._compiled import compiled
from mixts._typing import Array
from mixts.families._kernels.mature import NO_RUN
from mixts.families._kernels.roots import LOG_2PI, MATURE, SUMS, apply_root, column, dot

# Beyond these, squares lose the digits that a screening needs.
_LARGE_GRAM = 1e7
_LARGE_SQUARES = 1e9


@compiled(fastmath=SUMS)
def _residuals(
    factor: Array, noise_std: float, prior_mean: Array, members: Array, below: Array
) -> None:
    """The columns (z - R theta_0) / sigma of each member, beside the first d."""
    d = prior_mean.shape[1]
    for i in range(d):
        for j in range(len(members)):
            fitted = dot(factor[i, i:d], prior_mean[members[j], i:], d - i)
            below[i, d + j] = (factor[i, d] - fitted) / noise_std


@compiled(fastmath=SUMS)
def _load(factor: Array, noise_std: float, root: Array, below: Array) -> None:
    """The first d columns, R C / sigma."""
    d = len(below)
    for i in range(d):
        for j in range(d):
            if len(root) > d or d == 1:
                first = max(i, j)
                tail = root[column(j, d) + first - j :]
                below[i, j] = dot(factor[i, first:], tail, d - first) / noise_std
            else:
                below[i, j] = factor[i, j] * root[j] / noise_std if j >= i else 0.0


@compiled(fastmath=SUMS)
def _eliminate(below: Array, top: Array) -> float:
    """Reflect [[I, 0], [below]] to a lower triangle, ``top``; returns ln det T."""
    d, width = below.shape
    log_det = 0.0
    sums = np.empty(width)
    for k in range(d - 1, -1, -1):
        square = 0.0
        for i in range(d):
            square += below[i, k] * below[i, k]
        norm = math.sqrt(1.0 + square)
        log_det += math.log(norm)
        # The reflection maps (1, b) to (-norm, 0); its vector is (1 + norm, b).
        head = 1.0 + norm
        scale = 1.0 / (norm * head)
        sums[:] = 0.0
        for i in range(d):
            b, line = below[i, k], below[i]
            if b != 0.0:
                for j in range(k):
                    sums[j] += b * line[j]
                for j in range(d, width):
                    sums[j] += b * line[j]
        for j in range(width):
            top[k, j] = scale * head * sums[j]
        top[k, k] = norm
        for i in range(d):
            b, line = below[i, k] * scale, below[i]
            if b != 0.0:
                for j in range(k):
                    line[j] -= b * sums[j]
                for j in range(d, width):
                    line[j] -= b * sums[j]
    return log_det


@compiled(fastmath=SUMS)
def _keep(
    root: Array, prior_mean: Array, members: Array, top: Array, store: Array, mean: Array
) -> None:
    """store = C T^-1, packed, and each member's mean theta_0 + C T^-1 g."""
    d = prior_mean.shape[1]
    x = np.empty(d)
    for j in range(len(members)):
        s = members[j]
        for i in range(d):
            x[i] = (top[i, d + j] - dot(top[i], x, i)) / top[i, i]
        apply_root(root, x)
        for i in range(d):
            mean[s, i] = prior_mean[s, i] + x[i]
    for k in range(d):
        # Row k of C, then x T = row by back substitution, a row of T at a time.
        x[:] = 0.0
        if len(root) > d or d == 1:
            for j in range(k + 1):
                x[j] = root[column(j, d) + k - j]
        else:
            x[k] = root[k]
        for i in range(k, -1, -1):
            x[i] /= top[i, i]
            for j in range(i):
                x[j] -= x[i] * top[i, j]
        for j in range(k + 1):
            store[column(j, d) + k - j] = x[j]


@compiled()
def _shared(count: int, factor: Array, noise_std: float) -> float:
    """The part of the log evidence that all components share."""
    d = len(factor) - 1
    rest = factor[d, d] / noise_std
    return -0.5 * (count * (LOG_2PI + 2.0 * math.log(noise_std)) + rest * rest)


@compiled()
def condition_one(
    count: int, factor: Array, noise_std: float, prior_mean: Array, root: Array, members: Array,
    below: Array, top: Array, out: Array,
) -> None:  # fmt: skip
    """The log evidence of a group's members, exactly; ``top`` is left for ``_keep``."""
    d = prior_mean.shape[1]
    _load(factor, noise_std, root, below)
    _residuals(factor, noise_std, prior_mean, members, below)
    log_det = _eliminate(below, top)
    shared = _shared(count, factor, noise_std)
    for j in range(len(members)):
        q = 0.0
        for k in range(d):
            q += below[k, d + j] * below[k, d + j]
        out[members[j]] = shared - log_det - 0.5 * q


@compiled()
def condition(
    tasks: Array, wanted: Array, noise_std: float,
    prior_mean: Array, roots: Array, starts: Array, members: Array,
    count: Array, factor: Array, out: Array,
    keep: bool, slots: Array, rank: Array, run: Array, store: Array, mean: Array,
) -> None:  # fmt: skip
    """Log evidence (m, L) of tasks for wanted groups (m, G); with ``keep`` their posteriors too."""
    d = prior_mean.shape[1]
    below, top = np.empty((0, 0)), np.empty((0, 0))
    for g in range(len(starts) - 1):
        inside = members[starts[g] : starts[g + 1]]
        if wanted[:, g].any() and below.shape[1] != d + len(inside):
            below, top = np.empty((d, d + len(inside))), np.empty((d, d + len(inside)))
        for i in range(len(tasks)):
            if wanted[i, g]:
                t = tasks[i]
                condition_one(
                    count[t], factor[t], noise_std, prior_mean, roots[g], inside,
                    below, top, out[i],
                )  # fmt: skip
                if keep:
                    p = slots[t]
                    _keep(roots[g], prior_mean, inside, top, store[p, g], mean[p])
                    rank[p, g] = MATURE
                    run[p, g] = NO_RUN


@compiled()
def screen(
    count: int, factor: Array, noise_std: float, prior_mean: Array, root: Array, members: Array,
    below: Array, out: Array,
) -> bool:  # fmt: skip
    """Log evidence by a Cholesky factorisation of M: quick, and exact enough to go on sleeping.

    False where M or the residuals are so large that squaring them would lose too many digits.
    """
    d = prior_mean.shape[1]
    _residuals(factor, noise_std, prior_mean, members, below)
    prior_root = np.zeros((d, d))
    for j in range(d):
        if len(root) > d or d == 1:
            start = column(j, d)
            for k in range(j, d):
                prior_root[k, j] = root[start + k - j] / noise_std
        else:
            prior_root[j, j] = root[j] / noise_std
    block = np.dot(factor[:d, :d].copy(), prior_root)
    gram = np.dot(block.T, block)
    for j in range(d):
        gram[j, j] += 1.0
        if gram[j, j] > _LARGE_GRAM:
            return False
    lower = np.linalg.cholesky(gram)
    log_det = 0.0
    for j in range(d):
        log_det += math.log(lower[j, j])
    shared = _shared(count, factor, noise_std)
    for j in range(len(members)):
        w = below[:, d + j].copy()
        squares = dot(w, w, d)
        if squares > _LARGE_SQUARES:
            return False
        x = np.dot(block.T, w)
        for i in range(d):
            x[i] = (x[i] - dot(lower[i], x, i)) / lower[i, i]
        out[members[j]] = shared - log_det - 0.5 * (squares - dot(x, x, d))
    return True
