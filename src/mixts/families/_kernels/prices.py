"""Densities of utilities, value * mean - cost, of arms whose mean is not normal.

An arm's log density falls from the mode by powers of the distances from its ends. These are known
with all their digits near the ends, because positions are distances themselves: from the highest
lower end behind, and from the lowest upper end ahead (``Edge``).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from mixts._compiled import compiled
from mixts._typing import Array
from mixts.families._kernels.densities import LOG_GAMMA, LOGIT_BETA, crest, exp, log_of
from mixts.families._kernels.march import DENSITY, LANES, LAST, LAST_BUT_ONE, Work, set_lanes

_PRICE = np.dtype(
    [
        ("value", float), ("cost", float),  # utility = value * mean - cost; beta: a value above 0
        ("low", float), ("high", float),  # ends of the utility, seen from the origin
        ("mode", float),  # where the density in the arm's own coordinate is highest
        ("rise", float), ("drop", float),  # distances of the ends from there, infinity if none
        ("level", float),  # log density of the utility there
        ("peak", float),  # ... and of the arm's own coordinate
        ("low_power", float), ("high_power", float),  # of the ratios of distances from the ends
        ("straight", float), ("inverse", float),  # other terms of a gamma density
        ("own", float),  # the start in the arm's own coordinate, seen from the mode
        ("center", float),  # the utility from which its moments are taken
    ]
)  # fmt: skip
"""The numbers that describe an arm's utility."""


class Edge(NamedTuple):
    """The present edge of the march."""

    at: float
    """Utility there, seen from the origin."""
    ahead: float
    """Lowest upper end of the arms that are not left behind, seen from the origin."""
    left: float
    """Distance from that end."""


AT, LEFT, SCALE = range(3)
"""Rows of ``nodes``: the utility at each node, its distance from the end ahead, and the scale."""


def new_prices(n_arms: int) -> Array:
    """Allocate the descriptions of the arms."""
    return np.empty(n_arms, _PRICE)


@compiled(inner=True, borrows=True)
def describe(form: int, arm: Any, price: Any) -> None:
    """Set the density of an arm's utility from its parameters, value and cost."""
    if form == LOGIT_BETA and price.value < 0.0:
        # 1 - mean has the parameters exchanged.
        arm.first, arm.second = arm.second, arm.first
        price.cost -= price.value
        price.value = -price.value
    a, b, size = arm.first, arm.second, abs(price.value)
    arm.mode, arm.curvature, arm.peak = crest(form, a, b)
    if form == LOGIT_BETA:
        price.rise, price.drop = size * (a / (a + b)), size * (b / (a + b))
        price.low_power, price.high_power = a, b
        price.straight = price.inverse = 0.0
        price.level = arm.peak - math.log(price.rise * (b / (a + b)))
        return
    near = size * (a / b if form == LOG_GAMMA else b / a)
    power = a if form == LOG_GAMMA else -a
    price.straight = -a if form == LOG_GAMMA else 0.0
    price.inverse = 0.0 if form == LOG_GAMMA else a
    price.level = arm.peak - math.log(near)
    above = price.value > 0.0
    price.rise, price.drop = (near, np.inf) if above else (np.inf, near)
    price.low_power, price.high_power = (power, 0.0) if above else (0.0, power)


@compiled(inner=True, borrows=True)
def place(prices: Array, n: int) -> tuple[float, bool]:
    """Set ends and modes, seen from the highest lower end, else from the highest upper end.

    Returns this origin, and whether it is a lower end.
    """
    lower, upper = -np.inf, -np.inf
    for i in range(n):
        if prices[i].rise < np.inf:
            lower = max(lower, -prices[i].cost)
        else:
            upper = max(upper, -prices[i].cost)
    floor = lower > -np.inf
    origin = lower if floor else upper
    for i in range(n):
        price = prices[i]
        end = -price.cost - origin
        if price.rise < np.inf:
            price.low, price.high, price.mode = end, end + abs(price.value), end + price.rise
            if price.drop == np.inf:
                price.high = np.inf
        else:
            price.low, price.high, price.mode = -np.inf, end, end - price.drop
    return origin, floor


@compiled(borrows=True)
def _log_ratio(distance: float, whole: float, rest: float) -> float:
    """Return ln(distance / whole), where ``rest`` = distance - whole is known better near zero."""
    return math.log1p(rest / whole) if rest > -0.5 * whole else math.log(distance / whole)


@compiled(inner=True, borrows=True)
def logs(price: Any, edge: Edge) -> tuple[float, float, float]:
    """Return the logarithms of both distances from the ends, relative to the mode's, and the fall.

    The fall is that of the log density in the arm's own coordinate.
    """
    gap, low, high = edge.at - price.mode, 0.0, 0.0
    fallen = 0.0
    if price.rise < np.inf:
        low = _log_ratio(edge.at - price.low, price.rise, gap)
        if price.drop == np.inf:
            x = gap / price.rise
            fallen = -(price.straight + price.inverse / (1.0 + x)) * x
    if price.drop < np.inf:
        high = _log_ratio(edge.left + (price.high - edge.ahead), price.drop, -gap)
        if price.rise == np.inf:
            x = -gap / price.drop
            fallen = -(price.straight + price.inverse / (1.0 + x)) * x
    return low, high, fallen - price.low_power * low - price.high_power * high


@compiled(inner=True, borrows=True, fastmath={"contract"})
def evaluate(n: int, ahead: float, width: float, nodes: Array, work: Work, prices: Array) -> float:
    """Compute densities at the nodes and their lanes; return the largest last coefficients."""
    rows, size = work.rows, work.cell.shape[1] - 4
    roughness = 0.0
    for k in range(n):
        price = prices[work.alive[k]]
        mode, level = price.mode, price.level
        if price.rise < np.inf and price.drop < np.inf:
            low, up, power = price.low, 1.0 / price.rise, price.low_power - 1.0
            high, down, other = price.high - ahead, 1.0 / price.drop, price.high_power - 1.0
            for j in range(size):
                gap = nodes[AT, j] - mode
                rise = log_of((nodes[AT, j] - low) * up, gap * up)
                drop = log_of((nodes[LEFT, j] + high) * down, -gap * down)
                rows[DENSITY, k, j] = exp(level + power * rise + other * drop) * nodes[SCALE, j]
        else:
            straight, inverse = price.straight, price.inverse
            above = price.rise < np.inf
            up = 1.0 / price.rise if above else -1.0 / price.drop
            power = (price.low_power if above else price.high_power) - 1.0
            low, high = price.low, price.high - ahead
            for j in range(size):
                x = (nodes[AT, j] - mode) * up
                p = (nodes[AT, j] - low if above else -(nodes[LEFT, j] + high)) * up
                value = level + power * log_of(p, x) + (straight + inverse / p) * x
                rows[DENSITY, k, j] = exp(value) * nodes[SCALE, j]
        set_lanes(k, width, rows)
        rough = abs(rows[LANES, k, LAST]) + abs(rows[LANES, k, LAST_BUT_ONE])
        roughness = rough if not rough <= roughness else roughness
    return roughness
