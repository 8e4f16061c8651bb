"""Compiled loops that start from statistics: log evidence and posterior of the linear family.

With the task's triangle ``[[R, z], [0, r]]`` and a prior root C, the orthogonal factorisation of
``[[I, 0], [R C / sigma, (z - R theta_0) / sigma]]`` gives everything: a lower triangle T with
``log det M = 2 sum log |diag|``, ``M = T'T = I + C'R'R C / sigma^2``; the residual q of the last
column; the posterior root ``C T^-1``, lower triangular again because the columns are eliminated
from the last to the first; and the mean. The identity on top is never stored: a reflection of
column k touches row k of the top and the block below.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from mixts._compiled import compiled
from mixts._typing import Array
from mixts.families._kernels.roots import LOG_2PI, SUMS, apply_root, column, dot
from mixts.families._kernels.slots import NO_RUN, Histories, Prior, Slots, members_of
from mixts.families._kernels.student import whole_evidence

# Beyond these, squaring loses the digits that ``screen_group`` needs.
_LARGE_GRAM = 1e7
_LARGE_SQUARES = 1e9


class Factorisation(NamedTuple):
    """Temporary matrices (d, d + k) for a group of k members; column d + j belongs to member j."""

    below: Array
    """[R C / sigma, (z - R theta_0) / sigma] before the elimination, its remainder after."""
    top: Array
    """[T, g]: the lower triangle, and the right-hand sides T x = g of the whitened means x."""


@compiled()
def new_factorisation(prior: Prior, g: int) -> Factorisation:
    """Allocate the matrices for group g."""
    d = prior.mean.shape[1]
    width = d + len(members_of(prior, g))
    return Factorisation(np.empty((d, width)), np.empty((d, width)))


@compiled(fastmath=SUMS)
def _load_residuals(prior: Prior, g: int, factor: Array, out: Array, first: int) -> None:
    """Set column first + j of out to (z - R theta_0) / sigma of member j."""
    d = prior.mean.shape[1]
    members = members_of(prior, g)
    for i in range(d):
        for j in range(len(members)):
            fitted = dot(factor[i, i:d], prior.mean[members[j], i:], d - i)
            out[i, first + j] = (factor[i, d] - fitted) / prior.noise_std


@compiled(fastmath=SUMS)
def _load_block(prior: Prior, g: int, factor: Array, out: Array) -> None:
    """Set the first d columns of out to R C / sigma."""
    root, noise_std = prior.roots[g], prior.noise_std
    d = len(out)
    for i in range(d):
        for j in range(d):
            if len(root) > d or d == 1:
                first = max(i, j)
                tail = root[column(j, d) + first - j :]
                out[i, j] = dot(factor[i, first:], tail, d - first) / noise_std
            else:
                out[i, j] = factor[i, j] * root[j] / noise_std if j >= i else 0.0


@compiled(fastmath=SUMS)
def _eliminate(below: Array, top: Array) -> float:
    """Reflect [[I, 0], [below]] to a lower triangle, ``top``; return ln det T."""
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
def _store_posterior(prior: Prior, g: int, top: Array, packed: Array, mean: Array) -> None:
    """Set packed to the root C T^-1, and the mean (L, d) of each member to theta_0 + C T^-1 g."""
    root, members = prior.roots[g], members_of(prior, g)
    d = prior.mean.shape[1]
    x = np.empty(d)
    for j in range(len(members)):
        s = members[j]
        for i in range(d):
            x[i] = (top[i, d + j] - dot(top[i], x, i)) / top[i, i]
        apply_root(root, x)
        for i in range(d):
            mean[s, i] = prior.mean[s, i] + x[i]
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
            packed[column(j, d) + k - j] = x[j]


@compiled()
def _shared(count: int, factor: Array, noise_std: float) -> float:
    """Return the part of the log evidence that all components share."""
    d = len(factor) - 1
    rest = factor[d, d] / noise_std
    return -0.5 * (count * (LOG_2PI + 2.0 * math.log(noise_std)) + rest * rest)


@compiled()
def condition_group(
    prior: Prior, g: int, count: int, factor: Array, work: Factorisation, out: Array, misfit: Array
) -> None:
    """Set out (L,) to the exact log evidence of a group's members; ``work.top`` is [T, g] then.

    With unknown noise, also set misfit (L,) to the squared misfit of the history.
    """
    d = prior.mean.shape[1]
    members = members_of(prior, g)
    _load_block(prior, g, factor, work.below)
    _load_residuals(prior, g, factor, work.below, d)
    log_det = _eliminate(work.below, work.top)
    shared = _shared(count, factor, prior.noise_std)
    for j in range(len(members)):
        q = 0.0
        for k in range(d):
            q += work.below[k, d + j] * work.below[k, d + j]
        s = members[j]
        if len(prior.degrees) == 0:
            out[s] = shared - log_det - 0.5 * q
        else:
            misfit[s] = factor[d, d] * factor[d, d] + q
            out[s] = whole_evidence(prior.degrees[s], prior.unit[s], count, misfit[s]) - log_det


@compiled()
def condition(
    tasks: Array, wanted: Array, prior: Prior, histories: Histories, slots: Slots, keep: bool,
    out: Array, misfit: Array,
) -> None:  # fmt: skip
    """Set out (m, L) to the log evidence of tasks under the wanted groups (m, G).

    ``misfit`` (n, L), or (n, 0) with known noise, is that of all tasks. With ``keep``, posteriors
    are written to the tasks' slots too.
    """
    d = prior.mean.shape[1]
    work = Factorisation(np.empty((0, 0)), np.empty((0, 0)))
    for g in range(len(prior.starts) - 1):
        if wanted[:, g].any() and work.top.shape[1] != d + len(members_of(prior, g)):
            work = new_factorisation(prior, g)
        for i in range(len(tasks)):
            if wanted[i, g]:
                t = tasks[i]
                count, factor = histories.counts[t], histories.factor[t]
                condition_group(prior, g, count, factor, work, out[i], misfit[t])
                if keep:
                    p = slots.of_task[t]
                    _store_posterior(prior, g, work.top, slots.root[p, g], slots.mean[p])
                    slots.waiting[p, g] = NO_RUN


@compiled()
def screen_group(prior: Prior, g: int, count: int, factor: Array, out: Array) -> bool:
    """Set out (L,) to a group's log evidence by a Cholesky factorisation of M.

    This is quick, and exact enough to decide whether a group stays dormant. Returns False where M
    or the residuals are so large that squaring them would lose too many digits.
    """
    root, members = prior.roots[g], members_of(prior, g)
    d = prior.mean.shape[1]
    residuals = np.empty((d, len(members)))
    _load_residuals(prior, g, factor, residuals, 0)
    prior_root = np.zeros((d, d))
    for j in range(d):
        if len(root) > d or d == 1:
            start = column(j, d)
            for k in range(j, d):
                prior_root[k, j] = root[start + k - j] / prior.noise_std
        else:
            prior_root[j, j] = root[j] / prior.noise_std
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
    shared = _shared(count, factor, prior.noise_std)
    for j in range(len(members)):
        w = residuals[:, j].copy()
        squares = dot(w, w, d)
        if squares > _LARGE_SQUARES:
            return False
        x = np.dot(block.T, w)
        for i in range(d):
            x[i] = (x[i] - dot(lower[i], x, i)) / lower[i, i]
        out[members[j]] = shared - log_det - 0.5 * (squares - dot(x, x, d))
    return True
