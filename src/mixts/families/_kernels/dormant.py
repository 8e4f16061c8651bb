"""Compiled loops of dormant components: which become dormant, what bounds their weight, which wake.

A group is *dormant* while an upper bound of its log weight is far enough below the leader's. Its
posterior stays as it was. Of later observations only the misfit ``r'r`` and the drift ``X'r`` of
the residuals ``r = y - X mean`` are summed, because they bound the evidence that it has lost: by
Cauchy-Schwarz ``r'(sigma^2 I + X C C'X')^-1 r >= (r'r)^2 / (sigma^2 r'r + |C'X'r|^2)``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mixts._compiled import compiled
from mixts._typing import Array
from mixts.families._kernels.roots import SUMS, dot, project
from mixts.families._kernels.slots import LOST, Histories, Prior, Slots, settle

Plain = tuple[Any, ...]
"""The fields of the record that an argument is named after: see ``_kernels.linear``."""


class Dormancy(NamedTuple):
    """Log evidence of the n tasks, and which groups are dormant."""

    relative_evidence: Array
    """(n, L): log p(history | s); -inf while the component is dormant."""
    misfit: Array
    """(n, L): squared misfit of the history where the noise is unknown, else (n, 0)."""
    dormant: Array
    """(n, G), boolean."""
    ceiling: Array
    """(n, G): ``ceiling + count * gain`` is an upper bound of a dormant group's log weight."""
    highest: Array
    """(n,): the largest ceiling of the task's dormant groups, -inf without dormant groups."""
    since: Array
    """(n, L): log weight when the component became dormant, less ``count * gain`` of then."""
    refresh: Array
    """(n,): the count at which the task's posterior is recomputed from its statistics."""
    limit: float
    """A group stays dormant while its bound is this far below the leader, in nats."""
    margin: float
    """A group becomes dormant this much further below; infinite: no group ever does."""
    gain: float
    """The most that one observation can add to a log evidence, -ln(2 pi sigma^2) / 2."""


@compiled(inner=True, borrows=True, fastmath=SUMS)
def observe_dormant(prior: Prior, slots: Slots, p: int, g: int, a: Array, y: float) -> None:
    """Add an observation to the misfit and drift of a dormant group."""
    for j in range(prior.starts[g], prior.starts[g + 1]):
        s = prior.members[j]
        residual = y - dot(a, slots.mean[p, s], len(a))
        slots.misfit[p, s] += residual * residual
        drift = slots.drift[p, s]
        for k in range(len(a)):
            drift[k] += residual * a[k]


@compiled(borrows=True)
def _highest(prior: Prior, relative: Array, first: int, end: int) -> float:
    """Return the largest log weight of the members from first to end, not normalised."""
    best = -np.inf
    for j in range(first, end):
        s = prior.members[j]
        best = max(best, prior.log_weights[s] + relative[s])
    return best


@compiled(borrows=True)
def _is_negligible(t: int, g: int, prior: Prior, dormancy: Dormancy, enough: float) -> bool:
    """Return whether a group that is not dormant may become so."""
    if dormancy.dormant[t, g]:
        return False
    best = _highest(prior, dormancy.relative_evidence[t], prior.starts[g], prior.starts[g + 1])
    return best < enough - dormancy.margin


@compiled(inner=True, borrows=True)
def needs_attention(t: int, prior: Prior, count: int, dormancy: Dormancy) -> bool:
    """Return whether ``mark_dormant`` would change anything, or the posterior is to be recomputed.

    Most updates need no more than this, so that ``mark_dormant`` is compiled only where it is used.
    """
    n_groups = len(prior.starts) - 1
    lead = _highest(prior, dormancy.relative_evidence[t], prior.starts[0], prior.starts[n_groups])
    enough = lead - dormancy.limit
    for g in range(n_groups):
        if _is_negligible(t, g, prior, dormancy, enough):
            return True
    return dormancy.highest[t] + count * dormancy.gain > enough or count >= dormancy.refresh[t]


@compiled(borrows=True)
def _make_dormant(
    t: int, g: int, prior: Prior, slots: Slots, dormancy: Dormancy, grown: float, scratch: Array
) -> None:
    """Make a group dormant: note its log weights, and start its sums of residuals at zero."""
    first, end, relative = prior.starts[g], prior.starts[g + 1], dormancy.relative_evidence[t]
    best = _highest(prior, relative, first, end) - grown
    dormancy.dormant[t, g] = True
    dormancy.ceiling[t, g] = best
    dormancy.highest[t] = max(dormancy.highest[t], best)
    p = slots.of_task[t]
    if p >= 0:
        settle(prior, slots, p, g, scratch)
    for j in range(first, end):
        s = prior.members[j]
        dormancy.since[t, s] = prior.log_weights[s] + relative[s] - grown
        relative[s] = -np.inf
        if p >= 0:
            slots.misfit[p, s] = 0.0
            for k in range(prior.mean.shape[1]):
                slots.drift[p, s, k] = 0.0


@compiled(borrows=True)
def _loss(prior: Prior, slots: Slots, p: int, g: int, s: int, v: Array) -> float:
    """Return a lower bound of the nats that s has lost against a perfect fit while dormant."""
    misfit = slots.misfit[p, s]
    if misfit == 0.0:
        return 0.0
    drift = slots.drift[p, s]
    project(slots.root[p, g], drift, v)
    return 0.5 * misfit * misfit / (prior.noise * misfit + dot(v, v, len(drift)))


@compiled(borrows=True)
def _lower_ceilings(
    t: int, prior: Prior, slots: Slots, dormancy: Dormancy, enough: float, v: Array
) -> None:
    """Lower the ceilings above ``enough`` by the evidence that the groups have surely lost."""
    p, highest = slots.of_task[t], -np.inf
    for g in range(len(prior.starts) - 1):
        if not dormancy.dormant[t, g]:
            continue
        if dormancy.ceiling[t, g] > enough and p >= 0 and slots.waiting[p, g] != LOST:
            bound = -np.inf
            for j in range(prior.starts[g], prior.starts[g + 1]):
                s = prior.members[j]
                bound = max(bound, dormancy.since[t, s] - _loss(prior, slots, p, g, s, v))
            dormancy.ceiling[t, g] = min(dormancy.ceiling[t, g], bound)
        highest = max(highest, dormancy.ceiling[t, g])
    dormancy.highest[t] = highest


@compiled(borrows=True)
def mark_dormant(
    tasks: Array, prior: Plain, histories: Plain, slots: Plain, dormancy: Plain, scratch: Array
) -> int:
    """Make negligible groups dormant, and lower the ceilings of those that are.

    Returns the number of tasks with a dormant group whose bound stays above the limit, or whose
    posterior is to be recomputed.
    """
    known, past, held = Prior(*prior), Histories(*histories), Slots(*slots)
    sleep, flagged, n_groups = Dormancy(*dormancy), 0, len(known.starts) - 1
    for i in range(len(tasks)):
        t = tasks[i]
        grown = past.counts[t] * sleep.gain
        lead = _highest(known, sleep.relative_evidence[t], known.starts[0], known.starts[n_groups])
        enough = lead - sleep.limit
        for g in range(n_groups):
            if _is_negligible(t, g, known, sleep, enough):
                _make_dormant(t, g, known, held, sleep, grown, scratch)
        if sleep.highest[t] + grown > enough:
            _lower_ceilings(t, known, held, sleep, enough - grown, scratch[0])
        flagged += sleep.highest[t] + grown > enough or past.counts[t] >= sleep.refresh[t]
    return flagged
