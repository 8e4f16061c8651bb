"""The arrays of linear posteriors, and the update of one posterior.

Components with the same prior covariance form a *group*: they share the root of the posterior
covariance and everything else that does not depend on the mean. The posterior of a task lives in a
*slot*: the root of each group and the mean of each component.

While a task repeats an action a, its further observations only move numbers. With
``spread = a'Sigma a`` after the first of them, m more leave ``spread noise / (noise + m spread)``
of it, and ``level = a'mean`` moves as an arm's mean does. Root and mean catch up when they are
needed: when another action comes, when the component is sampled or becomes dormant.

Sizes: n tasks, S slots, G groups, L components, d features. docs/numerics.md lists all arrays.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from mixts._compiled import compiled
from mixts._typing import Array
from mixts.families._kernels.roots import LOG_2PI, SUMS, dot, update_root
from mixts.families._kernels.student import predictive

NO_RUN = -1
"""Value of ``Slots.waiting``: root and mean are up to date, no action can be repeated."""
LOST = -2
"""Value of ``Slots.waiting``: nothing is stored, the group was dormant when its task came back."""


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
    """(S, G): repeats of a that root and mean do not contain yet, or NO_RUN or LOST."""
    spread: Array
    """(S, G): a'Sigma a, Sigma = C C' without the repeats that wait."""
    reach: Array
    """(S, G, d): Sigma a."""
    level: Array
    """(S, L): a'mean, with the repeats that wait."""
    base: Array
    """(S, L): a'mean, without them."""


class Evidence(NamedTuple):
    """Log evidence of one task."""

    n: int
    """Observations so far."""
    relative: Array
    """(L,): log p(history | s)."""
    misfit: Array
    """(L,): squared misfit of the history where the noise is unknown, or empty."""


@compiled(inner=True, borrows=True, fastmath=SUMS)
def catch_up(prior: Prior, slots: Slots, p: int, g: int, scratch: Array) -> None:
    """Apply the waiting repeats of the latest action to a group's root and means."""
    a, m, spread = slots.last[p], slots.waiting[p, g], slots.spread[p, g]
    if m <= 0:
        return
    reach, mean, level, base = slots.reach[p, g], slots.mean[p], slots.level[p], slots.base[p]
    for j in range(prior.starts[g], prior.starts[g + 1]):
        c = prior.members[j]
        if spread > 0.0:
            step = (level[c] - base[c]) / spread
            for k in range(len(a)):
                mean[c, k] += step * reach[k]
        base[c] = level[c]
    update_root(slots.root[p, g], a, prior.noise / m, scratch)
    shrink = prior.noise / (prior.noise + m * spread)
    slots.spread[p, g] = spread * shrink
    for k in range(len(a)):
        reach[k] *= shrink
    slots.waiting[p, g] = 0


@compiled(borrows=True)
def _add_evidence(
    prior: Prior, c: int, alpha: float, log_alpha: float, error: float, evidence: Evidence
) -> None:
    """Add the log density of one reward under component c, whose prediction erred by ``error``."""
    square = error * error / alpha
    if len(prior.degrees) == 0:
        evidence.relative[c] -= 0.5 * (log_alpha + square)
    else:
        freedom, unit = prior.degrees[c] + evidence.n, prior.unit[c] + evidence.misfit[c]
        evidence.relative[c] += predictive(freedom, unit, alpha, square)
        evidence.misfit[c] += square


@compiled(inner=True, borrows=True)
def repeat_action(prior: Prior, slots: Slots, p: int, g: int, y: float, evidence: Evidence) -> None:
    """Take one more observation of the task's latest action."""
    noise, spread = prior.noise, slots.spread[p, g]
    left = spread * noise / (noise + slots.waiting[p, g] * spread)
    alpha = left + noise
    log_alpha = LOG_2PI + math.log(alpha)
    level = slots.level[p]
    for j in range(prior.starts[g], prior.starts[g + 1]):
        c = prior.members[j]
        error = y - level[c]
        _add_evidence(prior, c, alpha, log_alpha, error, evidence)
        level[c] += left * error / alpha
    slots.waiting[p, g] += 1


@compiled(inner=True, borrows=True, fastmath=SUMS)
def change_action(
    prior: Prior, slots: Slots, p: int, g: int, a: Array, y: float, evidence: Evidence,
    scratch: Array,
) -> None:  # fmt: skip
    """Take an observation of another action than the latest."""
    noise, d = prior.noise, len(a)
    spread = update_root(slots.root[p, g], a, noise, scratch)
    alpha = spread + noise
    log_alpha = LOG_2PI + math.log(alpha)
    mean, level, base = slots.mean[p], slots.level[p], slots.base[p]
    new, reach = scratch[3], slots.reach[p, g]
    for j in range(prior.starts[g], prior.starts[g + 1]):
        c = prior.members[j]
        error = y - dot(a, mean[c], d)
        _add_evidence(prior, c, alpha, log_alpha, error, evidence)
        step = error / alpha
        for k in range(d):
            mean[c, k] += step * new[k]
        level[c] = y - step * noise
        base[c] = level[c]
    shrink = noise / alpha
    slots.spread[p, g] = spread * shrink
    for k in range(d):
        reach[k] = new[k] * shrink
    slots.waiting[p, g] = 0
