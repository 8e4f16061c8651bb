"""The action probabilities of information-directed sampling, by a compiled loop."""

from __future__ import annotations

import numpy as np

from mixts._compiled import compiled
from mixts._typing import Array


@compiled(borrows=True)
def _frontier(r: int, terms: Array, order: Array, mask: Array, corner: Array) -> int:
    """Write the corners of the frontier to ``corner`` and return their number.

    A distribution over actions is a point (regret, information) of the convex hull of the actions.
    Less regret and more information are better, so that only the upper left side of the hull
    matters: there, both rise from corner to corner, and the slope falls.
    """
    n = 0
    for place in range(len(corner)):
        k = order[r, place]
        if not mask[r, k]:
            break
        d, g = terms[0, r, k], terms[1, r, k]
        if n > 0 and g <= terms[1, r, corner[n - 1]]:
            continue
        if n > 0 and d == terms[0, r, corner[n - 1]]:
            n -= 1
        while n > 1:
            i, j = corner[n - 2], corner[n - 1]
            rise = (terms[1, r, j] - terms[1, r, i]) * (d - terms[0, r, i])
            if rise > (g - terms[1, r, i]) * (terms[0, r, j] - terms[0, r, i]):
                break
            n -= 1
        corner[n] = k
        n += 1
    return n


@compiled(borrows=True)
def _ratio(regret: float, information: float) -> float:
    if regret <= 0.0:
        return 0.0
    return regret * regret / information if information > 0.0 else np.inf


@compiled(borrows=True)
def _spread(r: int, k: int, share: float, terms: Array, mask: Array, probabilities: Array) -> None:
    """Add a probability to action k, in equal parts to all actions that are exactly like it."""
    same = 0
    for step in range(2):
        for b in range(mask.shape[1]):
            like = terms[0, r, b] == terms[0, r, k] and terms[1, r, b] == terms[1, r, k]
            if mask[r, b] and like:
                if step == 0:
                    same += 1
                else:
                    probabilities[r, b] += share / same


@compiled(borrows=True)
def minimise(terms: Array, order: Array, mask: Array, corner: Array, probabilities: Array) -> None:
    """Do what ``least_ratio`` says.

    ``terms`` (2, m, K) are regret and information, and ``order`` (m, K) sorts the actions by their
    regret, those that are not available last. ``corner`` (K,) is scratch.
    """
    for r in range(mask.shape[0]):
        n = _frontier(r, terms, order, mask, corner)
        first, second, share = corner[0], corner[0], 0.0
        least = _ratio(terms[0, r, first], terms[1, r, first])
        for c in range(1, n):
            i, j = corner[c - 1], corner[c]
            regret, information = terms[0, r, i], terms[1, r, i]
            d, g = terms[0, r, j] - regret, terms[1, r, j] - information
            # The ratio's slope along the edge is zero here.
            q = regret / d - 2.0 * information / g
            q = 0.0 if q < 0.0 else (1.0 if q > 1.0 else q)
            found = _ratio(regret + q * d, information + q * g)
            if found < least:
                least, first, second, share = found, i, j, q
        if share < 1.0:
            _spread(r, first, 1.0 - share, terms, mask, probabilities)
        if share > 0.0:
            _spread(r, second, share, terms, mask, probabilities)


def least_ratio(regrets: Array, informations: Array, mask: Array, probabilities: Array) -> None:
    """Write the probabilities (m, K), zeros before, that minimise regret^2 / information.

    The ratio is convex on the hull, so that its minimum lies on one edge of the frontier: at most
    two actions have a positive probability. Where no action is informative, the action of least
    regret is taken. numpy sorts: a sort takes numba seconds to compile.
    """
    order = np.where(mask, regrets, np.inf).argsort(axis=1)
    corner = np.empty(mask.shape[1], np.int64)
    minimise(np.stack([regrets, informations]), order, mask, corner, probabilities)
