"""Compiled entry points of linear posteriors: take observations, sample, start from statistics.

numba unpacks a plain tuple of arrays three times faster than a named one (0.1 against 0.3
microseconds for each array, which a single decision would notice). So the functions that every
round calls from Python take plain tuples, and name the fields inside, where that costs nothing.

Log evidence and posterior follow from statistics (``condition``). With the task's triangle
``[[R, z], [0, r]]`` and a prior root C, the orthogonal factorisation of
``[[I, 0], [R C / sigma, (z - R theta_0) / sigma]]`` gives everything: a lower triangle T with
``log det M = 2 sum log |diag|``, ``M = T'T = I + C'R'R C / sigma^2``; the residual q of the last
column; the posterior root ``C T^-1``, lower triangular again because the columns are eliminated
from the last to the first; and the mean. The identity on top is never stored: a reflection of
column k touches row k of the top and the block below.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from mixts._compiled import compiled
from mixts._typing import Array
from mixts.families._kernels.arms import whole_evidence
from mixts.families._kernels.choice import best_product, pick_latent
from mixts.families._kernels.roots import LARGEST, LOG_2PI, SUMS, apply_packed, column, dot
from mixts.families._kernels.rows import fold_one
from mixts.families._kernels.slots import (
    LOST,
    NO_RUN,
    Dormancy,
    Evidence,
    Histories,
    Prior,
    Slots,
    needs_attention,
    observe_dormant,
    observe_run,
    settle,
    start_run,
)

Plain = tuple[Any, ...]
"""The fields of the record that an argument is named after."""


class Observed(NamedTuple):
    """The m observations of one call."""

    tasks: Array
    """(m,)."""
    features: Array
    """(m, d)."""
    outcomes: Array
    """(m,)."""


@compiled(borrows=True)
def _first_bad(batch: Observed) -> int:
    """Return the first observation that is too large or not a number, or -1."""
    m, d = batch.features.shape
    for i in range(m):
        size = abs(batch.outcomes[i])
        for k in range(d):
            size += abs(batch.features[i, k])
        if not size <= LARGEST:
            return i
    return -1


@compiled(borrows=True)
def _equal(x: Array, y: Array) -> bool:
    """Return whether two vectors are the same."""
    k = 0
    while k < len(x) and x[k] == y[k]:
        k += 1
    return k == len(x)


@compiled(borrows=True)
def observe(
    batch: Plain, prior: Plain, histories: Plain, slots: Plain, dormancy: Plain, scratch: Array
) -> int:
    """Take observations into the statistics and every posterior.

    Every task must have a slot. Returns how many tasks need ``mark_dormant``, or -1 - i if
    observation i is bad and nothing was changed. ``scratch`` is (N_SCRATCH, d + 1).
    """
    new, known, past = Observed(*batch), Prior(*prior), Histories(*histories)
    held, sleep = Slots(*slots), Dormancy(*dormancy)
    bad = _first_bad(new)
    if bad >= 0:
        return -1 - bad
    for i in range(len(new.tasks)):
        t, a, y = new.tasks[i], new.features[i], new.outcomes[i]
        p = held.of_task[t]
        last = held.last[p]
        evidence = Evidence(past.counts[t], sleep.relative_evidence[t], sleep.misfit[t])
        same = _equal(a, last)
        for g in range(len(known.starts) - 1):
            if sleep.dormant[t, g]:
                if held.waiting[p, g] != LOST:
                    observe_dormant(known, held, p, g, a, y)
            else:
                if not same or held.waiting[p, g] < 0:
                    start_run(known, held, p, g, a, scratch)
                observe_run(known, held, p, g, y, evidence)
        for k in range(len(a)):
            last[k] = a[k]
        fold_one(scratch[3], a, y, past.factor[t])
        past.counts[t] += 1
    flagged = 0
    for i in range(len(new.tasks)):
        t = new.tasks[i]
        flagged += needs_attention(t, known, past.counts[t], sleep)
    return flagged


@compiled(borrows=True, fastmath=SUMS)
def _place(prior: Prior, slots: Slots, p: int, s: int, x: Array, scratch: Array) -> None:
    """Turn a standard normal x (d,) into parameters of component s in slot p."""
    settle(prior, slots, p, prior.group_of[s], scratch)
    apply_packed(slots.root[p, prior.group_of[s]], x)
    for k in range(len(x)):
        x[k] += slots.mean[p, s, k]


@compiled(borrows=True, fastmath=SUMS)
def sample(
    tasks: Array, latent: Array, prior: Plain, slots: Plain, misfit: Array, scratch: Array, x: Array
) -> None:
    """Turn standard normals x (m, d) into parameters; zeros become the posterior means.

    If the noise is unknown, a column of gamma variables of shape (degrees + n) / 2 may follow,
    which becomes the noise of the task. ``scratch`` is as for ``observe``.
    """
    known, held = Prior(*prior), Slots(*slots)
    d = known.mean.shape[1]
    for i in range(len(x)):
        s = latent[i]
        if x.shape[1] > d:
            sigma = math.sqrt(0.5 * (known.unit[s] + misfit[tasks[i], s]) / x[i, d])
            for k in range(d):
                x[i, k] *= sigma
            x[i, d] = sigma
        _place(known, held, held.of_task[tasks[i]], s, x[i, :d], scratch)


@compiled(borrows=True)
def decide(
    draws: Plain, offer: Plain, prior: Plain, slots: Plain, relative: Array, scratch: Array
) -> int:
    """Draw a component and its parameters for each task, and find the best action under them.

    ``draws`` are the tasks (m,), uniform numbers (m,) and standard normals (m, d), which become the
    parameters; ``offer`` are the arguments of ``take_best_product`` after these. Returns its
    result, and writes the components to ``latent``.
    """
    known, held = Prior(*prior), Slots(*slots)
    tasks, uniform, x = draws
    sets, mask, scores, best, latent = offer
    ties = 0
    for i in range(len(tasks)):
        t = tasks[i]
        s = pick_latent(known.log_weights, relative[t], uniform[i])
        latent[i] = s
        _place(known, held, held.of_task[t], s, x[i], scratch)
        code = best_product(i, x, sets, mask, scores, best)
        if code < 0:
            return code
        ties = 1 if code == 1 else ties
    return ties


# -- from statistics ------------------------------------------------------------------------------


@compiled(borrows=True, fastmath=SUMS)
def _load(prior: Prior, g: int, factor: Array, out: Array) -> int:
    """Set out to [R C, z - R theta_0] / sigma, a column of the latter for each member.

    Returns the number of columns.
    """
    root, d, base = prior.roots[g], prior.mean.shape[1], prior.starts[g]
    width = d + prior.starts[g + 1] - base
    for i in range(d):
        row, start = factor[i], 0
        for j in range(d):
            first = max(i, j)
            tail = root[start + first - j :]
            out[i, j] = dot(row[first:], tail, d - first) / prior.noise_std
            start += d - j
        for j in range(d, width):
            mean = prior.mean[prior.members[base + j - d]]
            out[i, j] = (row[d] - dot(row[i:], mean[i:], d - i)) / prior.noise_std
    return width


@compiled(borrows=True, fastmath=SUMS)
def _eliminate(below: Array, top: Array, width: int, sums: Array) -> float:
    """Reflect [[I, 0], [below]] to a lower triangle, ``top``; return ln det T."""
    d = len(below)
    log_det = 0.0
    for k in range(d - 1, -1, -1):
        square = 0.0
        for i in range(d):
            square += below[i, k] * below[i, k]
        norm = math.sqrt(1.0 + square)
        log_det += math.log(norm)
        # The reflection maps (1, b) to (-norm, 0); its vector is (1 + norm, b).
        head = 1.0 + norm
        scale = 1.0 / (norm * head)
        for j in range(width):
            sums[j] = 0.0
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


@compiled(borrows=True, fastmath=SUMS)
def _store_posterior(
    prior: Prior, g: int, top: Array, packed: Array, mean: Array, x: Array
) -> None:
    """Set packed to the root C T^-1, and the mean (L, d) of each member to theta_0 + C T^-1 g."""
    root, d, base = prior.roots[g], prior.mean.shape[1], prior.starts[g]
    for j in range(base, prior.starts[g + 1]):
        s = prior.members[j]
        line = mean[s]
        for i in range(d):
            line[i] = (top[i, d + j - base] - dot(top[i], line, i)) / top[i, i]
        apply_packed(root, line)
        for i in range(d):
            line[i] += prior.mean[s, i]
    for k in range(d):
        # Row k of C, then x T = row by back substitution, a row of T at a time.
        for j in range(k + 1):
            x[j] = root[column(j, d) + k - j]
        for i in range(k, -1, -1):
            x[i] /= top[i, i]
            for j in range(i):
                x[j] -= x[i] * top[i, j]
        for j in range(k + 1):
            packed[column(j, d) + k - j] = x[j]


@compiled(borrows=True)
def _evaluate(
    prior: Prior, g: int, count: int, factor: Array, work: Array, out: Array, misfit: Array
) -> None:
    """Set out (L,) to the exact log evidence of a group's members; ``work[1]`` is [T, g] then.

    With unknown noise, also set misfit (L,) to the squared misfit of the history. Column d + j of
    ``work[0]`` belongs to member j.
    """
    d, sigma, base, below = prior.mean.shape[1], prior.noise_std, prior.starts[g], work[0]
    width = _load(prior, g, factor, below)
    log_det = _eliminate(below, work[1], width, work[2, 0])
    rest = factor[d, d] / sigma
    shared = -0.5 * (count * (LOG_2PI + 2.0 * math.log(sigma)) + rest * rest)
    for j in range(d, width):
        q, s = 0.0, prior.members[base + j - d]
        for k in range(d):
            q += below[k, j] * below[k, j]
        if len(prior.degrees) == 0:
            out[s] = shared - log_det - 0.5 * q
        else:
            misfit[s] = factor[d, d] * factor[d, d] + q
            out[s] = whole_evidence(prior.degrees[s], prior.unit[s], count, misfit[s]) - log_det


@compiled(borrows=True)
def condition(
    tasks: Array, wanted: Array, prior: Plain, histories: Plain, slots: Plain, keep: bool,
    work: Array, out: Plain,
) -> None:  # fmt: skip
    """Compute the log evidence of tasks under the wanted groups (m, G).

    ``out`` are the log evidence (m, L), and the misfit (n, L) of all tasks, or (n, 0) with known
    noise. With ``keep``, posteriors are written to the tasks' slots too. ``work`` is (3, d, w), w
    at least d and the size of the largest group together.
    """
    known, past, held = Prior(*prior), Histories(*histories), Slots(*slots)
    evidence, misfit = out
    for g in range(len(known.starts) - 1):
        for i in range(len(tasks)):
            if wanted[i, g]:
                t = tasks[i]
                factor = past.factor[t]
                _evaluate(known, g, past.counts[t], factor, work, evidence[i], misfit[t])
                if keep:
                    p = held.of_task[t]
                    root, mean = held.root[p, g], held.mean[p]
                    _store_posterior(known, g, work[1], root, mean, work[2, 0])
                    held.waiting[p, g] = NO_RUN
