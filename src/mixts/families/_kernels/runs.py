"""Runs of linear posteriors: start one, and bring root and mean up to date."""

from __future__ import annotations

from mixts._compiled import compiled
from mixts._typing import Array
from mixts.families._kernels.roots import SUMS, dot, project, update_root
from mixts.families._kernels.slots import NEW, NO_RUN, Prior, Slots


@compiled(inner=True, borrows=True, fastmath=SUMS)
def settle(prior: Prior, slots: Slots, p: int, g: int, scratch: Array) -> None:
    """Bring a group's root and means up to date; its run may go on."""
    m, root, v = slots.waiting[p, g], slots.root[p, g], slots.shadow[p, g]
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
            step = slots.push[p, c]
            for k in range(len(v)):
                slots.mean[p, c, k] += step * scratch[2, k]
            slots.push[p, c] = 0.0
        slots.spread[p, g] *= prior.noise / (prior.noise + m * slots.spread[p, g])
        slots.waiting[p, g] = 0


@compiled(inner=True, borrows=True, fastmath=SUMS)
def start_run(prior: Prior, slots: Slots, p: int, g: int, a: Array, scratch: Array) -> None:
    """Bring a group up to date, and make a its run's action, not observed yet."""
    settle(prior, slots, p, g, scratch)
    d, v = len(a), slots.shadow[p, g]
    project(slots.root[p, g], a, v)
    slots.spread[p, g] = dot(v, v, d)
    slots.waiting[p, g] = 0
    for j in range(prior.starts[g], prior.starts[g + 1]):
        c = prior.members[j]
        slots.level[p, c] = dot(a, slots.mean[p, c], d)
        slots.push[p, c] = 0.0
