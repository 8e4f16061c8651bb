"""Compiled loop of information-directed sampling."""

from __future__ import annotations

import numpy as np

from mixts._compiled import compiled
from mixts._typing import Array


@compiled()
def _frontier(regret: Array, information: Array, order: Array, corner: Array) -> int:
    """Write the corners of the frontier to ``corner`` and return their number.

    A distribution over actions is a point (regret, information) of the convex hull of the actions.
    Less regret and more information are better, so that only the upper left side of the hull
    matters: there, both rise from corner to corner, and the slope falls.
    """
    n = 0
    for k in order:
        d, g = regret[k], information[k]
        if n > 0 and g <= information[corner[n - 1]]:
            continue
        if n > 0 and d == regret[corner[n - 1]]:
            n -= 1
        while n > 1:
            i, j = corner[n - 2], corner[n - 1]
            rise = (information[j] - information[i]) * (d - regret[i])
            if rise > (g - information[i]) * (regret[j] - regret[i]):
                break
            n -= 1
        corner[n] = k
        n += 1
    return n


@compiled()
def _ratio(regret: float, information: float) -> float:
    if regret <= 0.0:
        return 0.0
    return regret * regret / information if information > 0.0 else np.inf


@compiled()
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


@compiled()
def least_ratio(regrets: Array, informations: Array, mask: Array, law: Array) -> None:
    """Write the distributions that minimise regret^2 / information to ``law`` (m, K), zeros before.

    The ratio is convex on the hull, so that its minimum lies on one edge of the frontier: at most
    two actions have a positive probability. Where no action is informative, the action of least
    regret is taken.
    """
    n_rows, n_actions = mask.shape
    corner = np.empty(n_actions, np.int64)
    for r in range(n_rows):
        regret, information = regrets[r], informations[r]
        available = np.flatnonzero(mask[r])
        order = available[np.argsort(regret[available])]
        n = _frontier(regret, information, order, corner)
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
