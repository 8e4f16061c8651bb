"""The arrays of linear posteriors, the update of one posterior by runs, and dormant groups.

Components with the same prior covariance form a *group*: they share the root of the posterior
covariance and everything else that does not depend on the mean. The posterior of a task lives in a
*slot*: the root of each group and the mean of each component.

A task's *run* is its latest action a and the observations of it since another action. They only
move numbers: with ``spread = a'Sigma a`` before the run, m of them leave
``spread noise / (noise + m spread)`` of it, and ``level = a'mean`` moves as an arm's mean does.
Root and mean follow when they are needed: when another action comes, when the component is sampled
or becomes dormant.

Sizes: n tasks, S slots, G groups, L components, d features.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from mixts._compiled import compiled
from mixts._typing import Array
from mixts.families._kernels.arms import predictive
from mixts.families._kernels.roots import LOG_2PI, SUMS, dot, project, update_root

NO_RUN = -1
"""Value of ``Slots.waiting``: root and mean are up to date, there is no run."""
LOST = -2
"""Value of ``Slots.waiting``: nothing is stored, the group was dormant when its task came back."""
NEW = -3
"""Value of ``Slots.waiting``: nothing is stored yet, root and mean are the prior's."""


class Prior(NamedTuple):
    """Prior of the L components; never changed."""

    mean: Array
    """(L, d): theta_0."""
    roots: Array
    """(G, d (d + 1) / 2): packed triangles C with C C' = Sigma_0."""
    starts: Array
    """(G + 1,): ``members[starts[g]:starts[g + 1]]`` are the components of group g."""
    members: Array
    """(L,): the components, group by group."""
    group_of: Array
    """(L,): the group of each component."""
    log_weights: Array
    """(L,): log prior weights."""
    noise_std: float
    """sigma."""
    noise: float
    """sigma^2."""
    degrees: Array
    """(L,): degrees of freedom of an unknown noise variance, in units of which roots are then, with
    sigma 1; empty: the noise is known."""
    unit: Array
    """(L,): degrees times the typical noise variance, or empty."""


class Histories(NamedTuple):
    """Statistics of the n tasks: the arrays of ``LinearStatistics``."""

    counts: Array
    """(n,): observations so far."""
    factor: Array
    """(n, d + 1, d + 1): the triangle [[R, z], [0, sqrt(rss)]] of [A y]."""


class Slots(NamedTuple):
    """Posteriors of the tasks in the pool; the first axis is the slot, but for ``of_task``."""

    of_task: Array
    """(n,): the slot of each task, or -1."""
    root: Array
    """(S, G, d (d + 1) / 2): packed triangles C with C C' = Sigma."""
    mean: Array
    """(S, L, d): posterior means; of a dormant component, the mean when it became dormant."""
    misfit: Array
    """(S, L): r'r of the residuals r = y - X mean since a component became dormant."""
    drift: Array
    """(S, L, d): X'r of the same residuals."""
    last: Array
    """(S, d): the task's latest action a."""
    waiting: Array
    """(S, G): observations of a that root and mean do not contain yet, or NO_RUN, NEW or
    LOST."""
    spread: Array
    """(S, G): a'Sigma a, Sigma = C C' without the observations that wait."""
    projection: Array
    """(S, G, d): C'a, without them."""
    level: Array
    """(S, L): a'mean, with them."""
    shift: Array
    """(S, L): the mean becomes mean + shift Sigma a by them."""


class Evidence(NamedTuple):
    """Log evidence of one task."""

    n: int
    """Observations so far."""
    relative_evidence: Array
    """(L,): log p(history | s)."""
    misfit: Array
    """(L,): squared misfit of the history where the noise is unknown, or empty."""


@compiled(borrows=True)
def _add_evidence(
    prior: Prior, c: int, alpha: float, log_alpha: float, error: float, evidence: Evidence
) -> None:
    """Add the log density of one reward under component c, whose prediction erred by ``error``."""
    square = error * error / alpha
    if len(prior.degrees) == 0:
        evidence.relative_evidence[c] -= 0.5 * (log_alpha + square)
    else:
        freedom, unit = prior.degrees[c] + evidence.n, prior.unit[c] + evidence.misfit[c]
        evidence.relative_evidence[c] += predictive(freedom, unit, alpha, square)
        evidence.misfit[c] += square


@compiled(inner=True, borrows=True)
def observe_run(prior: Prior, slots: Slots, p: int, g: int, y: float, evidence: Evidence) -> None:
    """Take one observation of the run's action."""
    noise, spread = prior.noise, slots.spread[p, g]
    share = noise / (noise + slots.waiting[p, g] * spread)
    left = spread * share
    alpha = left + noise
    log_alpha = LOG_2PI + math.log(alpha)
    level, shift = slots.level[p], slots.shift[p]
    for j in range(prior.starts[g], prior.starts[g + 1]):
        c = prior.members[j]
        error = y - level[c]
        _add_evidence(prior, c, alpha, log_alpha, error, evidence)
        step = error / alpha
        shift[c] += share * step
        # Whichever of both changes less has the smaller rounding error.
        level[c] = level[c] + left * step if left < noise else y - noise * step
    slots.waiting[p, g] += 1


@compiled(inner=True, borrows=True, fastmath=SUMS)
def settle(prior: Prior, slots: Slots, p: int, g: int, scratch: Array) -> None:
    """Bring a group's root and means up to date; its run may go on."""
    m, root, v = slots.waiting[p, g], slots.root[p, g], slots.projection[p, g]
    first, end = prior.starts[g], prior.starts[g + 1]
    if m == NEW:
        for k in range(len(root)):
            root[k] = prior.roots[g, k]
        for j in range(first, end):
            c = prior.members[j]
            for k in range(len(v)):
                slots.mean[p, c, k] = prior.mean[c, k]
        slots.waiting[p, g] = NO_RUN
    elif m > 0:
        update_root(root, v, prior.noise / m, scratch)
        for j in range(first, end):
            c = prior.members[j]
            step = slots.shift[p, c]
            for k in range(len(v)):
                slots.mean[p, c, k] += step * scratch[2, k]
            slots.shift[p, c] = 0.0
        slots.spread[p, g] *= prior.noise / (prior.noise + m * slots.spread[p, g])
        slots.waiting[p, g] = 0


@compiled(inner=True, borrows=True, fastmath=SUMS)
def start_run(prior: Prior, slots: Slots, p: int, g: int, a: Array, scratch: Array) -> None:
    """Bring a group up to date, and make a its run's action, not observed yet."""
    settle(prior, slots, p, g, scratch)
    d, v = len(a), slots.projection[p, g]
    project(slots.root[p, g], a, v)
    slots.spread[p, g] = dot(v, v, d)
    slots.waiting[p, g] = 0
    for j in range(prior.starts[g], prior.starts[g + 1]):
        c = prior.members[j]
        slots.level[p, c] = dot(a, slots.mean[p, c], d)
        slots.shift[p, c] = 0.0


# -- dormant groups -------------------------------------------------------------------------------

# A group is *dormant* while an upper bound of its log weight is far enough below the leader's. Its
# posterior stays as it was. Of later observations only the misfit ``r'r`` and the drift ``X'r`` of
# the residuals ``r = y - X mean`` are summed, because they bound the evidence that it has lost: by
# Cauchy-Schwarz ``r'(sigma^2 I + X C C'X')^-1 r >= (r'r)^2 / (sigma^2 r'r + |C'X'r|^2)``.

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
