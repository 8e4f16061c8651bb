"""Compiled loops of the linear-Gaussian family that start from statistics: evidence and posterior.

With the task's triangle ``[[R, z], [0, r]]`` and a prior root C, the QR factorisation of
``[[I, 0], [R C / sigma, (z - R theta_0) / sigma]]`` gives everything: the triangle G' with
``log det M = 2 sum log |diag|``, the residual q of the last column, the posterior root ``C G'^-1`` and mean. The
identity on top is exploited: a Householder reflection of column k touches row k of the top and the block below.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from mixts.families.kernels.linear import _SUMS, DENSE, _apply, _dot
from mixts.typing import Array

_LOG_2PI = math.log(2 * math.pi)


@njit(cache=True, fastmath=_SUMS)
def _load(
    factor: Array, noise_std: float, prior_mean: Array, root: Array, members: Array, below: Array
) -> None:
    """below = [R C, z - R theta_0 for each member] / sigma, (d, d + members)."""
    d = prior_mean.shape[1]
    below[:] = 0.0
    for i in range(d):
        line = below[i]
        for k in range(i, d):
            x = factor[i, k] / noise_std
            if x != 0.0:
                if root.shape[0] == 1:
                    line[k] += x * root[0, k]
                else:
                    for j in range(k + 1):
                        line[j] += x * root[k, j]
        for j in range(len(members)):
            fitted = _dot(factor[i, i:d], prior_mean[members[j], i:], d - i)
            line[d + j] = (factor[i, d] - fitted) / noise_std


@njit(cache=True, fastmath=_SUMS)
def _eliminate(below: Array, top: Array) -> float:
    """Householder QR of [[I, 0], [below]]; fills the triangle ``top``; returns ln |det|."""
    d, width = below.shape
    log_det = 0.0
    sums = np.empty(width)
    for k in range(d):
        square = 0.0
        for i in range(d):
            square += below[i, k] * below[i, k]
        norm = math.sqrt(1.0 + square)
        log_det += math.log(norm)
        # The reflection maps (1, b) to (-norm, 0); its vector is (1 + norm, b).
        head = 1.0 + norm
        scale = 1.0 / (norm * head)
        sums[k + 1 :] = 0.0
        for i in range(d):
            b = below[i, k]
            if b != 0.0:
                for j in range(k + 1, width):
                    sums[j] += b * below[i, j]
        top[k, :k] = 0.0
        top[k, k] = norm
        for j in range(k + 1, width):
            top[k, j] = scale * head * sums[j]
        for i in range(d):
            b = below[i, k] * scale
            if b != 0.0:
                for j in range(k + 1, width):
                    below[i, j] -= b * sums[j]
    return log_det


@njit(cache=True, fastmath=_SUMS)
def _keep(
    root: Array, prior_mean: Array, members: Array, top: Array, dense: Array, mean: Array
) -> None:
    """dense = C G'^-1 and each member's mean theta_0 + C G'^-1 g."""
    d = prior_mean.shape[1]
    x = np.empty(d)
    for j in range(len(members)):
        s = members[j]
        for i in range(d - 1, -1, -1):
            x[i] = (top[i, d + j] - _dot(top[i, i + 1 : d], x[i + 1 :], d - i - 1)) / top[i, i]
        _apply(root, x, x)
        for i in range(d):
            mean[s, i] = prior_mean[s, i] + x[i]
    for k in range(d):
        line = dense[k]
        line[:] = 0.0
        if root.shape[0] == 1:
            line[k] = root[0, k]
        else:
            line[: k + 1] = root[k, : k + 1]
        # Forward substitution of x G' = line, a row of G' at a time.
        for i in range(d):
            x_i = line[i] / top[i, i]
            line[i] = x_i
            if x_i != 0.0:
                for j in range(i + 1, d):
                    line[j] -= x_i * top[i, j]


@njit(cache=True)
def condition(
    tasks: Array, wanted: Array, noise_std: float,
    prior_mean: Array, roots: Array, starts: Array, members: Array,
    count: Array, factor: Array, out: Array,
    keep: bool, slots: Array, rank: Array, basis: Array, mean: Array,
) -> None:  # fmt: skip
    """Log evidence (m, L) of tasks for the wanted (m, G) groups; with ``keep`` their posteriors too."""
    d = prior_mean.shape[1]
    for g in range(len(starts) - 1):
        inside = members[starts[g] : starts[g + 1]]
        below = np.empty((d, d + len(inside)))
        top = np.empty((d, d + len(inside)))
        for i in range(len(tasks)):
            if not wanted[i, g]:
                continue
            t = tasks[i]
            _load(factor[t], noise_std, prior_mean, roots[g], inside, below)
            log_det = _eliminate(below, top)
            rest = factor[t, d, d] / noise_std
            shared = -0.5 * count[t] * (_LOG_2PI + 2.0 * math.log(noise_std)) - 0.5 * rest * rest
            for j in range(len(inside)):
                q = 0.0
                for k in range(d):
                    q += below[k, d + j] * below[k, d + j]
                out[i, inside[j]] = shared - log_det - 0.5 * q
            if keep:
                p = slots[t]
                _keep(roots[g], prior_mean, inside, top, basis[p, g], mean[p])
                rank[p, g] = DENSE


@njit(cache=True)
def settle(
    tasks: Array, log_weights: Array, limit: float, margin: float, gain: float,
    starts: Array, members: Array, count: Array, refresh: Array,
    relative: Array, asleep: Array, ceiling: Array, highest: Array,
) -> int:  # fmt: skip
    """Put negligible groups to sleep; how many of the tasks need to look at sleepers or refresh.

    ``ceiling[t, g] + count * gain`` is an upper bound of a sleeping group's log weight, ``highest[t]`` the
    largest ceiling of the task's sleepers.
    """
    flagged = 0
    for t in tasks:
        lead = -np.inf
        for s in range(len(log_weights)):
            lead = max(lead, log_weights[s] + relative[t, s])
        for g in range(len(starts) - 1):
            if asleep[t, g]:
                continue
            best = -np.inf
            for s in members[starts[g] : starts[g + 1]]:
                best = max(best, log_weights[s] + relative[t, s])
            if best < lead - limit - margin:
                asleep[t, g] = True
                ceiling[t, g] = best - count[t] * gain
                highest[t] = max(highest[t], ceiling[t, g])
                for s in members[starts[g] : starts[g + 1]]:
                    relative[t, s] = -np.inf
        if highest[t] + count[t] * gain > lead - limit or count[t] >= refresh[t]:
            flagged += 1
    return flagged
