"""The arrays of linear posteriors, and the update of one posterior by runs.

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
from typing import NamedTuple

from mixts._compiled import compiled
from mixts._typing import Array
from mixts.families._kernels.roots import LOG_2PI, SUMS, dot, project, update_root
from mixts.families._kernels.student import predictive

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
