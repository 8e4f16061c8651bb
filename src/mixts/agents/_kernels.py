"""Compiled loop of information-directed sampling."""

from __future__ import annotations

import numpy as np

from mixts._compiled import compiled
from mixts._typing import Array, Bool, Float


@compiled(borrows=True)
def _frontier(regret: Array, information: Array, order: Array, n_actions: int) -> int:
    """Return the number of corners of the frontier, and move them to the front of ``order``.

    A distribution over actions is a point (regret, information) of the convex hull of the actions.
    Less regret and more information are better, so that only the upper left side of the hull
    matters: there, both rise from corner to corner, and the slope falls.
    """
    n = 0
    for place in range(n_actions):
        k = order[place]
        d, g = regret[k], information[k]
        if n > 0 and g <= information[order[n - 1]]:
            continue
        if n > 0 and d == regret[order[n - 1]]:
            n -= 1
        while n > 1:
            i, j = order[n - 2], order[n - 1]
            rise = (information[j] - information[i]) * (d - regret[i])
            if rise > (g - information[i]) * (regret[j] - regret[i]):
                break
            n -= 1
        order[n] = k
        n += 1
    return n


@compiled(borrows=True)
def _ratio(regret: float, information: float) -> float:
    if regret <= 0.0:
        return 0.0
    return regret * regret / information if information > 0.0 else np.inf


@compiled(borrows=True)
def _spread(
    k: int, share: float, regret: Array, information: Array, mask: Array, law: Array
) -> None:
    """Add a probability to action k, in equal parts to all actions that are exactly like it."""
    same = 0
    for b in range(len(mask)):
        same += mask[b] and regret[b] == regret[k] and information[b] == information[k]
    for b in range(len(mask)):
        if mask[b] and regret[b] == regret[k] and information[b] == information[k]:
            law[b] += share / same


@compiled(borrows=True)
def find_least_ratio(
    regrets: Array, informations: Array, mask: Array, order: Array, law: Array
) -> None:
    """Do the work of ``least_ratio``; ``order`` (m, K) is overwritten.

    ``order`` are the actions by rising regret, available ones first.
    """
    for r in range(len(mask)):
        regret, information, corner, n = regrets[r], informations[r], order[r], 0
        for k in range(mask.shape[1]):
            n += mask[r, k]
        n = _frontier(regret, information, corner, n)
        first, second, share = corner[0], corner[0], 0.0
        least = _ratio(regret[first], information[first])
        for c in range(1, n):
            i, j = corner[c - 1], corner[c]
            d, g = regret[j] - regret[i], information[j] - information[i]
            # The ratio's slope along the edge is zero here.
            q = min(max(regret[i] / d - 2.0 * information[i] / g, 0.0), 1.0)
            found = _ratio(regret[i] + q * d, information[i] + q * g)
            if found < least:
                least, first, second, share = found, i, j, q
        if share < 1.0:
            _spread(first, 1.0 - share, regret, information, mask[r], law[r])
        if share > 0.0:
            _spread(second, share, regret, information, mask[r], law[r])


def least_ratio(
    regrets: Float[Array, "m K"], informations: Float[Array, "m K"], mask: Bool[Array, "m K"],
    law: Float[Array, "m K"],
) -> None:  # fmt: skip
    """Write the distributions that minimise regret^2 / information to ``law`` (m, K), zeros before.

    The ratio is convex on the hull, so that its minimum lies on one edge of the frontier: at most
    two actions have a positive probability. Where no action is informative, the action of least
    regret is taken.
    """
    order = np.argsort(np.where(mask, regrets, np.inf), axis=1, kind="stable")
    find_least_ratio(regrets, informations, mask, order, law)
