"""Compiled loops of dormant components: which become dormant, what bounds their weight, which wake.

A group is *dormant* while an upper bound of its log weight is far enough below the leader's. Its
posterior stays as it was. Of later observations only the misfit ``r'r`` and the drift ``X'r`` of
the residuals ``r = y - X mean`` are summed, because they bound the evidence that it has lost: by
Cauchy-Schwarz ``r'(sigma^2 I + X C C'X')^-1 r >= (r'r)^2 / (sigma^2 r'r + |C'X'r|^2)``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mixts._compiled import compiled
from mixts._typing import Array
from mixts.families._kernels.evidence import condition_group, new_factorisation, screen_group
from mixts.families._kernels.roots import SUMS, dot, new_scratch, project
from mixts.families._kernels.slots import (
    LOST,
    Histories,
    Prior,
    Row,
    Slots,
    catch_up,
    members_of,
)


class Dormancy(NamedTuple):
    """Log evidence of the n tasks, and which groups are dormant."""

    relative: Array
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


@compiled(fastmath=SUMS)
def observe_dormant(prior: Prior, slots: Slots, p: int, g: int, row: Row) -> None:
    """Add an observation to the misfit and drift of a dormant group."""
    a, low, high = row.a, row.low, row.high
    mean, misfit, drift = slots.mean[p], slots.misfit[p], slots.drift[p]
    for s in members_of(prior, g):
        residual = row.y - dot(a[low:], mean[s, low:], high - low)
        misfit[s] += residual * residual
        line = drift[s]
        for k in range(low, high):
            line[k] += residual * a[k]


@compiled()
def _leader(prior: Prior, relative: Array) -> float:
    """Return the largest log weight of a task's components, not normalised."""
    lead = -np.inf
    for s in range(len(relative)):
        lead = max(lead, prior.log_weights[s] + relative[s])
    return lead


@compiled()
def _make_dormant(
    t: int, g: int, prior: Prior, histories: Histories, slots: Slots, dormancy: Dormancy
) -> None:
    """Make a group dormant: note its log weights, and start its sums of residuals at zero."""
    grown = histories.counts[t] * dormancy.gain
    relative, since = dormancy.relative[t], dormancy.since[t]
    best = -np.inf
    for s in members_of(prior, g):
        since[s] = prior.log_weights[s] + relative[s] - grown
        best = max(best, since[s])
        relative[s] = -np.inf
    dormancy.dormant[t, g] = True
    dormancy.ceiling[t, g] = best
    dormancy.highest[t] = max(dormancy.highest[t], best)
    p = slots.of_task[t]
    if p >= 0:
        catch_up(prior, slots, p, g, slots.last[p], new_scratch(prior.mean.shape[1]))
        for s in members_of(prior, g):
            slots.misfit[p, s] = 0.0
            slots.drift[p, s] = 0.0


@compiled()
def mark_dormant(
    tasks: Array, prior: Prior, histories: Histories, slots: Slots, dormancy: Dormancy
) -> int:
    """Make negligible groups dormant; return how many of the tasks ``recheck_dormant`` must see.

    These are the tasks with a dormant group whose bound has reached the limit, and those whose
    posterior is to be recomputed.
    """
    limit, gain = dormancy.limit, dormancy.gain
    flagged = 0
    for t in tasks:
        lead = _leader(prior, dormancy.relative[t])
        for g in range(len(prior.starts) - 1):
            if dormancy.dormant[t, g]:
                continue
            best = -np.inf
            for s in members_of(prior, g):
                best = max(best, prior.log_weights[s] + dormancy.relative[t, s])
            if best < lead - limit - dormancy.margin:
                _make_dormant(t, g, prior, histories, slots, dormancy)
        count = histories.counts[t]
        if dormancy.highest[t] + count * gain > lead - limit or count >= dormancy.refresh[t]:
            flagged += 1
    return flagged


@compiled()
def _loss(prior: Prior, slots: Slots, p: int, g: int, s: int) -> float:
    """Return a lower bound of the nats that s has lost against a perfect fit while dormant."""
    d = prior.mean.shape[1]
    misfit = slots.misfit[p, s]
    if misfit == 0.0:
        return 0.0
    v = np.empty(d)
    project(slots.root[p, g], slots.drift[p, s], 0, d, v)
    return 0.5 * misfit * misfit / (prior.noise * misfit + dot(v, v, d))


@compiled()
def _recheck_group(
    t: int, g: int, prior: Prior, histories: Histories, slots: Slots, dormancy: Dormancy,
    enough: float,
) -> bool:  # fmt: skip
    """Lower the ceiling of a dormant group; return whether the evidence had to be computed.

    First by the bound on the evidence that it has lost; if the bound of its log weight is still
    above ``enough``, by its evidence.
    """
    p, count = slots.of_task[t], histories.counts[t]
    grown = count * dormancy.gain
    if p >= 0 and slots.waiting[p, g] != LOST:
        bound = -np.inf
        for s in members_of(prior, g):
            bound = max(bound, dormancy.since[t, s] - _loss(prior, slots, p, g, s))
        dormancy.ceiling[t, g] = min(dormancy.ceiling[t, g], bound)
        if dormancy.ceiling[t, g] + grown <= enough:
            return False
    factor = histories.factor[t]
    out = np.empty(len(prior.members))
    if not screen_group(prior, g, count, factor, out):
        condition_group(prior, g, count, factor, new_factorisation(prior, g), out, out[:0])
    best = -np.inf
    for s in members_of(prior, g):
        best = max(best, prior.log_weights[s] + out[s])
    dormancy.ceiling[t, g] = best - grown
    return True


@compiled()
def recheck_dormant(
    tasks: Array, prior: Prior, histories: Histories, slots: Slots, dormancy: Dormancy,
    waking: Array,
) -> bool:  # fmt: skip
    """Recheck the dormant groups of distinct tasks; return whether any of them must wake.

    ``waking`` (m, G) is set to the groups whose weight may matter again.
    """
    limit, margin = dormancy.limit, dormancy.margin
    any_wakes = False
    for i in range(len(tasks)):
        t = tasks[i]
        lead = _leader(prior, dormancy.relative[t])
        grown = histories.counts[t] * dormancy.gain
        highest = -np.inf
        for g in range(len(prior.starts) - 1):
            waking[i, g] = False
            if not dormancy.dormant[t, g]:
                continue
            if dormancy.ceiling[t, g] + grown > lead - limit and _recheck_group(
                t, g, prior, histories, slots, dormancy, lead - limit
            ):
                # A little below the limit: a few rounds as dormant cost more than they save.
                waking[i, g] = dormancy.ceiling[t, g] + grown > lead - limit - 0.25 * margin
            if waking[i, g]:
                any_wakes = True
            else:
                highest = max(highest, dormancy.ceiling[t, g])
        dormancy.highest[t] = highest
    return any_wakes
