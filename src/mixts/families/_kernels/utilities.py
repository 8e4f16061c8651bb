"""P(an arm is the best by its utility) and E[the best utility], value * mean - cost.

Utilities of arms with a normal mean are normal. Others have no coordinate in which all densities
have one form: each arm has its own ends. But the best utility is never below the highest lower
end, so that only the upper ends of arms lie in the way of the march to the right. A cell is laid
out by the logarithm of the distance from the nearest end, the highest lower end behind or the
lowest upper end ahead: there every density is smooth, a pole at an end included. An arm is left
behind before its upper end is reached, and the next end comes into view.

The mass of an arm below the start is taken in the arm's own coordinate (``march``). So the checks
are the same: every arm's mass must be one, and so must the sum of the probabilities.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mixts._compiled import compiled
from mixts._typing import Array
from mixts.families._kernels.densities import GAIN, HEIGHT, LOGIT_BETA, exp, height_at, mean_of
from mixts.families._kernels.march import (
    DEPTH,
    END,
    FINE,
    N_CELLS,
    N_NODES,
    NEGLIGIBLE,
    NODES,
    OFF,
    Joint,
    Line,
    Work,
    add_joint,
    add_wins,
    march,
    pace,
    place_of,
    set_slopes,
    step,
)
from mixts.families._kernels.prices import AT, LEFT, SCALE, Edge, describe, evaluate, logs, place
from mixts.families._kernels.quadrature import (
    N_TRIES,
    ROUGHNESS,
    STRIDE,
    TOLERANCE,
    Arrays,
    Floats,
    clear,
    collect,
    depart,
    explain,
    finish,
    only_winner,
    set_centers,
    set_feet,
    tally,
)

_SLACK = 4.0
"""The start may be this much deeper than necessary."""

_N_NEWTON = 60

_NEAR = 1e-290
"""No cell comes nearer to an end: what is left of an arm there is at the end itself."""

_DEEP = 27.0
"""An arm is left behind where at most e^-27 = 2e-12 of its mass lies ahead."""

_CLOSING = 5.5
"""Gauss's rule with 16 nodes errs by 16^-2b = e^-5.5b of the mass before an end of power b."""


@compiled(borrows=True)
def _depth(at: float, price: Any) -> float:
    """Return a lower bound of -ln P(utility < at).

    Below the mode it is the fall. Towards an upper end, the log density in the arm's own coordinate
    falls by ``high_power`` per unit at most, so that the mass ahead is at least density / power.
    """
    if at >= price.high or (at >= price.mode and not price.high_power > 0.0):
        return 0.0
    fallen = logs(price, Edge(at, price.high, price.high - at))[2]
    ahead = 0.0
    if price.high_power > 0.0:
        ahead = math.exp(price.peak - fallen) / price.high_power
    return max(fallen, ahead) if at < price.mode else ahead


@compiled(borrows=True)
def _start(prices: Array, n: int, floor: bool) -> float:
    """Return where the best utility lies below with probability e^-depth, or a little less.

    The root of the sum of depths is nearly straight in the logarithm of the distance from the
    origin. Among many arms the start is above most of them, so that few upper ends lie ahead.
    """
    top = -np.inf
    for i in range(n):
        end = prices[i].high
        top = max(top, end if floor and end < np.inf else prices[i].mode)
    lowest, highest = -np.inf, math.log(top) if floor else -math.log(-top)
    target = math.sqrt(DEPTH + 0.5 * _SLACK)
    s, last, root_last = highest - 0.1, highest, 0.0
    for _ in range(_N_NEWTON):
        at = math.exp(s) if floor else -math.exp(-s)
        depth = 0.0
        for i in range(n):
            depth += _depth(at, prices[i])
        if DEPTH <= depth <= DEPTH + _SLACK:
            lowest = s
            break
        root = math.sqrt(max(depth, 0.0))
        if depth < DEPTH:
            highest = s
        else:
            lowest = s
        if lowest > -np.inf and highest - lowest < 1e-13 * max(abs(s), 1.0):
            break
        # A secant, and a bisection where it leads astray.
        step_ = (target - root) * (s - last) / (root - root_last) if root != root_last else 0.0
        last, root_last = s, root
        s = max(s + step_, s - 20.0)
        if not lowest < s < highest:
            s = 0.5 * (lowest + highest) if lowest > -np.inf else last - 10.0
    s = lowest if lowest > -np.inf else s
    return math.exp(s) if floor else -math.exp(-s)


@compiled(borrows=True)
def _weigh(
    form: int,
    i: int,
    limits: tuple[float, float],
    work: Work,
    prices: Array,
    joint: Joint | None,
) -> None:
    """Set an arm's mass and moment below the start, by a march in its own coordinate."""
    arm, price = work.arms[i], prices[i]
    # A mean that is sold at a loss is high where the utility is low.
    sign = -1 if price.value > 0.0 else 1
    arm.below = arm.moment = 0.0
    if arm.start_place <= -END:
        return
    mode, arm.mode = arm.mode, 0.0
    if joint is not None:
        arm.center = (price.center + price.cost) / price.value - height_at(form, mode)
    arm.level, arm.place = arm.start_level, -sign * arm.start_place
    work.alive[0] = i
    # One arm; a constant would make the compiler write this march a second time.
    march(Line(form, mode, price.own), sign, abs(sign), limits, work, joint)
    arm.moment *= price.value
    arm.mode = mode


@compiled(borrows=True)
def _lay_out(low_side: bool, edge: Edge, width: float, nodes: Array) -> None:
    """Set the utilities at the nodes, their distances from the end ahead, and the scale there."""
    for j in range(N_NODES):
        nodes[SCALE, j] = exp(width * NODES[j] if low_side else -width * NODES[j])
    for j in range(N_NODES):
        scale = nodes[SCALE, j] * (edge.at if low_side else edge.left)
        nodes[SCALE, j] = scale
        nodes[AT, j] = scale if low_side else edge.ahead - scale
        nodes[LEFT, j] = edge.ahead - scale if low_side else scale


@compiled(borrows=True)
def _lay_out_to_end(edge: Edge, nodes: Array) -> None:
    """Set the same for a cell of equal scale up to the end ahead."""
    for j in range(N_NODES):
        nodes[LEFT, j] = edge.left * (1.0 - NODES[j])
        nodes[AT, j] = edge.at + edge.left * NODES[j]
        nodes[SCALE, j] = edge.left


@compiled(borrows=True)
def _advance(n: int, edge: Edge, work: Work, prices: Array) -> float:
    """Set the places of all arms at the far edge of the cell; return the largest stride."""
    longest = 0.0
    for k in range(n):
        arm, price = work.arms[work.alive[k]], prices[work.alive[k]]
        arm.next_place = END
        if edge.left > _NEAR or price.high > edge.ahead:
            fallen, gap = logs(price, edge)[2], edge.at - price.mode
            if fallen < _DEEP or gap < 0.0:
                arm.next_place = place_of(fallen, gap)
            longest = max(longest, abs(arm.next_place - arm.place))
    return longest


@compiled(borrows=True)
def _reach(n: int, edge: Edge, work: Work, prices: Array) -> float:
    """Return the distance in which the sharpest arm's own coordinate changes by about its width."""
    sharpest = 0.0
    for k in range(n):
        i = work.alive[k]
        slope = 0.0
        if prices[i].rise < np.inf:
            slope += 1.0 / (edge.at - prices[i].low)
        if prices[i].drop < np.inf:
            slope += 1.0 / (edge.left + (prices[i].high - edge.ahead))
        sharpest = max(sharpest, slope * math.sqrt(work.arms[i].curvature))
    return 1.0 / sharpest


@compiled(borrows=True)
def _ahead(n: int, at: float, work: Work, prices: Array) -> Edge:
    """Return the edge with the lowest upper end of n arms."""
    ahead = np.inf
    for k in range(n):
        ahead = min(ahead, prices[work.alive[k]].high)
    return Edge(at, ahead, ahead - at)


@compiled(borrows=True)
def _can_close(n: int, edge: Edge, work: Work, prices: Array) -> bool:
    """Return whether one cell up to the end ahead is short enough for the arms that end there."""
    for k in range(n):
        price = prices[work.alive[k]]
        if price.high == edge.ahead:
            fallen = logs(price, edge)[2] if edge.at > price.mode else 0.0
            if fallen + _CLOSING * price.high_power < _DEEP:
                return False
    return True


@compiled(inner=True, borrows=True)
def march_up(
    line: Line,
    n: int,
    limits: tuple[float, float],
    work: Work,
    prices: Array,
    nodes: Array,
    joint: Joint | None,
) -> None:
    """March from the start upwards until the last of n arms has ended."""
    floor, start = line.form == 1, line.start
    stride, roughest = limits
    edge = Edge(start, -np.inf, 0.0)
    width, scale, tried = 0.0, 1.0, -np.inf
    for _ in range(N_CELLS):
        if n == 0:
            return
        new = _ahead(n, edge.at, work, prices)
        if new.ahead != edge.ahead:
            edge = new
            width, scale = stride * _reach(n, edge, work, prices), 1.0
        low_side = floor and edge.at <= edge.left
        gap = edge.at if low_side else edge.left
        width, scale = width * scale / gap, gap
        closing = tried != edge.at and edge.left < 4.0 * width * gap
        closing = closing and _can_close(n, edge, work, prices)
        if closing:
            tried, far = edge.at, Edge(edge.ahead, edge.ahead, 0.0)
        elif low_side:
            # Half of the way to the end ahead at most.
            width = min(width, math.log1p(0.5 * edge.left / gap))
            at = gap * math.exp(width)
            far = Edge(at, edge.ahead, edge.ahead - at)
        else:
            rest = gap * math.exp(-width)
            far = Edge(edge.ahead - rest, edge.ahead, rest)
        longest = _advance(n, far, work, prices)
        if longest > stride:
            width *= 1.0 if closing else max(0.1, 0.97 * stride / longest)
            continue
        size = 1.0 if closing else width
        if closing:
            _lay_out_to_end(edge, nodes)
        else:
            _lay_out(low_side, edge, width, nodes)
        found = evaluate(n, edge.ahead, size, nodes, work, prices)
        if not found <= roughest and longest > FINE:
            width *= 1.0 if closing else 0.5
            continue
        for j in range(N_NODES):
            work.cell[HEIGHT, j] = nodes[AT, j]
        off = set_slopes(n, size, work)
        if off > OFF and longest > FINE:
            width *= 1.0 if closing else pace(off)
            continue
        add_wins(n, size, work)
        add_joint(n, 1, size, work, joint)
        n, longest = step(n, 1, work)
        edge, scale = far, far.at if low_side else far.left
        width *= min(pace(off), 0.97 * stride / max(longest, FINE))


@compiled(borrows=True)
def _prepare(form: int, threshold: float, n: int, work: Work, prices: Array) -> Line:
    """Describe all arms; return the line from whose start they are compared.

    Its form is whether its origin is a lower end.
    """
    for i in range(n):
        prices[i].center = work.arms[i].center
        describe(form, work.arms[i], prices[i])
        prices[i].peak = work.arms[i].peak
    origin, floor = place(prices, n)
    start = max(_start(prices, n, floor), threshold - origin)
    for i in range(n):
        arm, price = work.arms[i], prices[i]
        mean = mean_of(form, arm.first, arm.second)
        arm.drift = price.value * mean - price.cost - price.center
        arm.foot, arm.start_place = 0.0, END
        if start < price.high:
            low, high, fallen = logs(price, Edge(start, price.high, price.high - start))
            price.own = low - high if form == LOGIT_BETA else low + high
            arm.start_level = arm.peak - fallen
            arm.start_place = place_of(fallen, start - price.mode)
    return Line(1 if floor else 0, origin, start)


@compiled(borrows=True)
def _component(
    form: int,
    threshold: float,
    n: int,
    work: Work,
    prices: Array,
    nodes: Array,
    joint: Joint | None,
) -> Floats:
    """Set every arm's share, P(it is best and above the threshold).

    Returns how far off they may be, P(all arms are below the threshold), and the expectation of the
    best utility, or of the threshold where it is higher.
    """
    arms = work.arms
    line = _prepare(form, threshold, n, work, prices)
    free = threshold == -np.inf
    winner = only_winner(n, work) if free else -1
    if winner >= 0:
        clear(n, work, joint)
        mean = mean_of(form, arms[winner].first, arms[winner].second)
        return 0.0, 0.0, prices[winner].value * mean - prices[winner].cost
    stride, roughest = STRIDE, ROUGHNESS
    gap, below = 0.0, 0.0
    for _ in range(N_TRIES):
        for i in range(n):
            if arms[i].start_place < END:
                _weigh(form, i, (stride, roughest), work, prices, joint)
        for i in range(n):
            arms[i].center = prices[i].center - line.origin
        clear(n, work, joint)
        count, below = depart(n, 1, work)
        if joint is not None:
            set_feet(n, work)
        march_up(line, count, (stride, roughest), work, prices, nodes, joint)
        gap = tally(n, 0.0 if free else below, work)
        if gap < TOLERANCE:
            break
        stride *= 0.5
        roughest *= 0.01
    below = below if line.start == threshold - line.origin else 0.0
    best = line.origin * (1.0 - below) + work.cell[GAIN, 0]
    return gap, below, best if free else best + below * threshold


@compiled(borrows=True)
def _split(
    place: tuple[int, int], parameters: Array, money: Array, mask: Array, arms: Array, prices: Array
) -> tuple[int, int, float]:
    """Write the uncertain arms to ``arms`` and ``prices``, and after them the best of the others.

    Returns both numbers, and the best utility of those without a value.
    """
    r, s = place
    n, n_certain, threshold = 0, 0, -np.inf
    for k in range(mask.shape[1]):
        if mask[r, k]:
            value, cost = money[r, 0, k], money[r, 1, k]
            if value == 0.0:
                threshold = -cost if -cost > threshold else threshold
            else:
                arms[n].index, arms[n].center = k, 0.0
                arms[n].first, arms[n].second = parameters[0, r, s, k], parameters[1, r, s, k]
                prices[n].value, prices[n].cost = value, cost
                n += 1
    for k in range(mask.shape[1]):
        if mask[r, k] and money[r, 0, k] == 0.0 and -money[r, 1, k] == threshold:
            arms[n + n_certain].index = k
            n_certain += 1
    return n, n_certain, threshold


@compiled(nogil=True)
def best_utilities(
    form: int,
    parameters: Array,
    money: Array,
    asked: Arrays,
    plain: Arrays,
    found: Array,
    joint: Joint | None,
) -> None:
    """Compute P(arm is best by its utility) of m decisions, and E[best utility].

    ``money`` (m, 2, K) has values and costs, and ``asked`` are the weights of the components and
    the mask. ``plain`` has the fields of ``Work``, then the descriptions of the arms' utilities and
    of the nodes, (3, nodes). The rest is as for ``best_arms``. The means are not normal.
    """
    (weights, mask), (arms, alive, cell, rows, prices, nodes) = asked, plain
    work = Work(arms, alive, cell, rows)
    for r in range(mask.shape[0]):
        if joint is not None:
            joint.pairs[2] = 0.0
        for s in range(weights.shape[1]):
            weight = weights[r, s]
            if weight <= NEGLIGIBLE:
                continue
            n, n_certain, threshold = _split((r, s), parameters, money, mask, arms, prices)
            results = (0.0, 1.0, threshold)
            if joint is not None:
                set_centers(r, n, arms, joint)
            if n > 0:
                results = _component(form, threshold, n, work, prices, nodes, joint)
            collect(r, weight, n, n_certain, results, arms, found)
            if joint is not None:
                a, sizes = -money[r, 1], (n, n_certain)
                explain(r, weight, a, sizes, results[1], arms, joint)
        finish(r, found, joint)
