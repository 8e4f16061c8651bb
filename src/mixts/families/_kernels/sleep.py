"""Compiled loops of sleeping components: who falls asleep, what sleepers take in, who wakes.

A group *sleeps* while an upper bound of its log weight is far enough below the leader's. Its
posterior stays as it was; of later observations only the misfit ``r'r`` and the drift ``X'r`` of
the residuals ``r = y - X mean`` are summed, because they bound what it has lost: by Cauchy-Schwarz
``r'(sigma^2 I + X C C'X')^-1 r >= (r'r)^2 / (sigma^2 r'r + |C'X'r|^2)``.
"""

from __future__ import annotations

import numpy as np

from mixts._compiled import compiled
from mixts._typing import Array
from mixts.families._kernels.evidence import condition_one, screen
from mixts.families._kernels.mature import catch_up
from mixts.families._kernels.roots import (
    LOST,
    MATURE,
    SUMS,
    apply_root,
    dot,
    project,
    sweep,
    unwind,
)


@compiled()
def fall_asleep(
    members: Array, root: Array, prior_mean: Array,
    rank: int, store: Array, shrink: Array, gains: Array, mean: Array,
    misfit: Array, drift: Array,
) -> None:  # fmt: skip
    """Write the means out, so that residuals can be taken, and begin to sum them."""
    for s in members:
        misfit[s] = 0.0
        drift[s] = 0.0
        if rank != MATURE:
            mean[s] = 0.0
            unwind(store, shrink, gains[s], rank, mean[s])
            apply_root(root, mean[s])
            mean[s] += prior_mean[s]


@compiled(fastmath=SUMS)
def dream(
    a: Array, y: float, low: int, high: int, members: Array, mean: Array,
    misfit: Array, drift: Array,
) -> None:  # fmt: skip
    """What a sleeping group takes in of an observation."""
    for s in members:
        residual = y - dot(a[low:], mean[s, low:], high - low)
        misfit[s] += residual * residual
        line = drift[s]
        for k in range(low, high):
            line[k] += residual * a[k]


@compiled()
def settle(
    tasks: Array, log_weights: Array, limits: Array, noise: float,
    prior_mean: Array, roots: Array, starts: Array, members: Array,
    count: Array, refresh: Array, relative: Array, asleep: Array,
    ceiling: Array, highest: Array, asleep_since: Array,
    slots: Array, rank: Array, store: Array, shrink: Array, gains: Array, mean: Array,
    misfit: Array, drift: Array, last: Array, run: Array, spread: Array, reach: Array,
    level: Array, base: Array,
) -> int:  # fmt: skip
    """Put negligible groups to sleep; how many of the tasks need another look at theirs.

    ``limits`` are: how far below the leader a group must surely be to go on sleeping; how much
    further to fall asleep; and the most that one observation can add to a log evidence.
    ``ceiling[t, g] + count * gain`` is an upper bound of a sleeping group's log weight,
    ``asleep_since[t, s] + count * gain`` the one of a component's at the time it fell asleep,
    ``highest[t]`` the largest ceiling of the task's sleepers.
    """
    limit, margin, gain = limits
    flagged = 0
    for t in tasks:
        lead = -np.inf
        for s in range(len(log_weights)):
            lead = max(lead, log_weights[s] + relative[t, s])
        for g in range(len(starts) - 1):
            if asleep[t, g]:
                continue
            inside = members[starts[g] : starts[g + 1]]
            best = -np.inf
            for s in inside:
                best = max(best, log_weights[s] + relative[t, s])
            if best < lead - limit - margin:
                asleep[t, g] = True
                ceiling[t, g] = best - count[t] * gain
                highest[t] = max(highest[t], ceiling[t, g])
                for s in inside:
                    asleep_since[t, s] = log_weights[s] + relative[t, s] - count[t] * gain
                    relative[t, s] = -np.inf
                p = slots[t]
                if p >= 0:
                    if rank[p, g] == MATURE:
                        d = prior_mean.shape[1]
                        catch_up(
                            g, last[p], noise, inside, store[p, g], mean[p], run[p], spread[p],
                            reach[p], level[p], base[p], np.empty(d), np.empty((3, d)),
                        )  # fmt: skip
                    fall_asleep(
                        inside, roots[g], prior_mean, rank[p, g], store[p, g], shrink[p, g],
                        gains[p], mean[p], misfit[p], drift[p],
                    )  # fmt: skip
        if highest[t] + count[t] * gain > lead - limit or count[t] >= refresh[t]:
            flagged += 1
    return flagged


@compiled()
def _loss(
    noise: float, root: Array, rank: int, store: Array, shrink: Array,
    misfit: float, drift: Array, work: Array,
) -> float:  # fmt: skip
    """The least a component has lost against perfect fit since it fell asleep, in nats."""
    d = len(drift)
    if misfit == 0.0:
        return 0.0
    if rank == MATURE:
        project(store[: d * (d + 1) // 2], drift, 0, d, work[0])
    else:
        project(root, drift, 0, d, work[0])
        sweep(store, shrink, rank, work[0], work[1])
    return 0.5 * misfit * misfit / (noise * misfit + dot(work[0], work[0], d))


@compiled()
def _look_at_one(
    task: int, log_weights: Array, limits: Array, noise_std: float,
    prior_mean: Array, roots: Array, starts: Array, members: Array,
    count: Array, factor: Array, relative: Array, asleep: Array,
    ceiling: Array, highest: Array, asleep_since: Array,
    slot: int, rank: Array, store: Array, shrink: Array, misfit: Array, drift: Array,
    waking: Array,
) -> bool:  # fmt: skip
    """Look at the sleepers of one task whose bound has risen; ``waking`` (G,): who must wake.

    First a better bound, from what they have lost since; then, if need be, their evidence.
    """
    limit, margin, gain = limits
    d = prior_mean.shape[1]
    lead = -np.inf
    for s in range(len(log_weights)):
        lead = max(lead, log_weights[s] + relative[task, s])
    out, work = np.empty(len(log_weights)), np.empty((2, d))
    grown = count[task] * gain
    any_wakes = False
    for g in range(len(starts) - 1):
        waking[g] = False
        if not asleep[task, g] or ceiling[task, g] + grown <= lead - limit:
            continue
        inside = members[starts[g] : starts[g + 1]]
        if slot >= 0 and rank[slot, g] != LOST:
            bound = -np.inf
            for s in inside:
                lost = _loss(
                    noise_std * noise_std, roots[g], rank[slot, g], store[slot, g],
                    shrink[slot, g], misfit[slot, s], drift[slot, s], work,
                )  # fmt: skip
                bound = max(bound, asleep_since[task, s] - lost)
            ceiling[task, g] = min(ceiling[task, g], bound)
            if ceiling[task, g] + grown <= lead - limit:
                continue
        below = np.empty((d, d + len(inside)))
        if not screen(
            count[task], factor[task], noise_std, prior_mean, roots[g], inside, below, out
        ):
            top = np.empty((d, d + len(inside)))
            condition_one(
                count[task], factor[task], noise_std, prior_mean, roots[g], inside, below, top, out
            )
        best = -np.inf
        for s in inside:
            best = max(best, log_weights[s] + out[s])
        ceiling[task, g] = best - grown
        # A nap of a round or two would cost more than it saves.
        waking[g] = best > lead - limit - 0.25 * margin
        any_wakes = any_wakes or waking[g]
    highest[task] = -np.inf
    for g in range(len(starts) - 1):
        if asleep[task, g] and not waking[g]:
            highest[task] = max(highest[task], ceiling[task, g])
    return any_wakes


@compiled()
def look(
    tasks: Array, log_weights: Array, limits: Array, noise_std: float,
    prior_mean: Array, roots: Array, starts: Array, members: Array,
    count: Array, factor: Array, relative: Array, asleep: Array,
    ceiling: Array, highest: Array, asleep_since: Array,
    slots: Array, rank: Array, store: Array, shrink: Array, misfit: Array, drift: Array,
    waking: Array,
) -> bool:  # fmt: skip
    """Look at the sleepers of distinct tasks; ``waking`` (m, G), and whether anybody wakes."""
    any_wakes = False
    for i in range(len(tasks)):
        t = tasks[i]
        any_wakes |= _look_at_one(
            t, log_weights, limits, noise_std, prior_mean, roots, starts, members,
            count, factor, relative, asleep, ceiling, highest, asleep_since,
            slots[t], rank, store, shrink, misfit, drift, waking[i],
        )  # fmt: skip
    return any_wakes
