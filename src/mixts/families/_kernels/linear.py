"""Compiled entry points of linear posteriors: take observations, and sample.

numba unpacks a plain tuple of arrays three times faster than a named one (0.1 against 0.3
microseconds for each array, which a single decision would notice). So the functions that every
round calls from Python take plain tuples, and name the fields inside, where that costs nothing.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from mixts._compiled import compiled
from mixts._typing import Array
from mixts.families._kernels.choice import best_product, pick_latent
from mixts.families._kernels.dormant import Dormancy, needs_attention, observe_dormant
from mixts.families._kernels.roots import LARGEST, SUMS, apply_packed
from mixts.families._kernels.slots import (
    LOST,
    Evidence,
    Histories,
    Prior,
    Slots,
    observe_run,
    settle,
    start_run,
)
from mixts.families._kernels.triangles import fold_one

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
