"""P(an arm is the best of independent ones): all decisions of a call in one compiled pass.

``P(a is best) = integral of f_a(t) prod_{b != a} F_b(t) dt``, in a coordinate where all densities
are smooth (``marginals``). The integral starts where the best arm lies with probability e^-39 at
most. From there one march to the left (``cells``) gives F_a(start), and one to the right the rest.
No incomplete beta or gamma function is needed, and the result is checked: every arm's mass must be
one, and so must the sum of the probabilities; otherwise cells are made shorter.
"""

from __future__ import annotations

import numpy as np

from mixts._compiled import compiled
from mixts._typing import Array
from mixts.families._kernels.cells import (
    ARM,
    BELOW,
    CURVATURE,
    DEPTH,
    END,
    FIRST,
    LEVEL,
    MODE,
    N_NODES,
    PEAK,
    PLACE,
    SECOND,
    SHARE,
    START_LEVEL,
    START_PLACE,
    WON,
    march,
    place_of,
)
from mixts.families._kernels.marginals import NORMAL, crest, fall, outskirts

_TOLERANCE = 1e-10
"""How far masses, and the sum of the probabilities of one component, may be from one."""

_NOTABLE = 1e-8
"""What is further from one is reported: with counts of 1e13 densities have but eight digits."""

_NEGLIGIBLE = 1e-16
"""A component of less weight changes no probability that a double can hold beside one."""

_CERTAIN = 1e-290
"""A smaller variance is none: the square of its inverse would overflow."""

_STRIDE, _ROUGHNESS = 4.0, 1e-5
"""How long a cell may be, and how much of a mass the last coefficients of its density may hold.

The error of the result is about the square of the second: Gauss's rule is exact for polynomials of
twice the degree.
"""

_SLACK = 4.0
"""How much deeper than necessary the start may be."""

_N_NEWTON = 100
_N_TRIES = 3
"""The second and the third with half the stride and a hundredth of the roughness before."""


@compiled()
def _fall(form: int, arms: Array, i: int, t: float) -> tuple[float, float]:
    a, b, curvature = arms[FIRST, i], arms[SECOND, i], arms[CURVATURE, i]
    return fall(form, a, b, curvature, t - arms[MODE, i])


@compiled()
def _origin(form: int, arms: Array, n: int) -> float:
    """Describe the densities; the mode of the sharpest one that can win.

    From there all else is measured, so that needles far from zero keep their digits.
    """
    floor = -np.inf
    for i in range(n):
        mode, curvature, peak = crest(form, arms[FIRST, i], arms[SECOND, i])
        arms[MODE, i], arms[CURVATURE, i], arms[PEAK, i] = mode, curvature, peak
        floor = max(floor, mode - outskirts(form, curvature, DEPTH))
    origin, sharpest = 0.0, 0.0
    for i in range(n):
        can_win = floor < arms[MODE, i] or _fall(form, arms, i, floor)[0] < DEPTH
        if can_win and arms[CURVATURE, i] > sharpest:
            origin, sharpest = arms[MODE, i], arms[CURVATURE, i]
    return origin


@compiled()
def _start(form: int, arms: Array, n: int) -> float:
    """Where the falls of all arms whose mode is above sum to ``DEPTH``, or a little more.

    Each distribution function is at most e^-fall there, and their product e^-DEPTH. The sum of
    falls is convex, so that Newton's method cannot step over the point from the left.
    """
    t = -np.inf
    for i in range(n):
        t = max(t, arms[MODE, i] - outskirts(form, arms[CURVATURE, i], DEPTH))
    for _ in range(_N_NEWTON):
        depth, slope = 0.0, 0.0
        for i in range(n):
            if t < arms[MODE, i]:
                fallen, steep = _fall(form, arms, i, t)
                depth += fallen
                slope += steep
        if DEPTH <= depth <= DEPTH + _SLACK:
            break
        t += (depth - DEPTH - _SLACK / 4.0) / slope
    return t


@compiled()
def _prepare(form: int, threshold: float, arms: Array, n: int) -> tuple[float, float]:
    """The origin and the start from there, with levels and places of all arms at the start."""
    origin = _origin(form, arms, n)
    for i in range(n):
        arms[MODE, i] -= origin
    start = max(_start(form, arms, n), threshold - origin)
    for i in range(n):
        fallen, _ = _fall(form, arms, i, start)
        arms[START_LEVEL, i] = arms[PEAK, i] - fallen
        arms[START_PLACE, i] = place_of(fallen, start - arms[MODE, i])
    return origin, start


@compiled()
def _depart(arms: Array, alive: Array, n: int, sign: int) -> tuple[int, float]:
    """How many arms have mass on this side of the start, and P(all arms are below the start)."""
    count = 0
    below = 1.0
    for i in range(n):
        if arms[START_PLACE, i] < END:
            arms[LEVEL, i], arms[PLACE, i] = arms[START_LEVEL, i], arms[START_PLACE, i]
            below *= arms[BELOW, i]
            if sign * arms[PLACE, i] < END:
                alive[count] = i
                count += 1
    return count, below


@compiled()
def _tally(arms: Array, n: int, below: float, nodes: Array) -> float:
    """Every arm's probability, and how far the masses and the sum are from one."""
    total, gap = below, 0.0
    for i in range(n):
        share = 0.0
        for j in range(N_NODES):
            share += nodes[WON, i, j]
        # A sum that should be zero may be just below.
        arms[SHARE, i] = max(share, 0.0)
        total += share
        if arms[START_PLACE, i] < END:
            gap = max(gap, abs(arms[BELOW, i] - 1.0))
    # In this order, so that no comparison hides a NaN.
    return gap if abs(total - 1.0) < gap else abs(total - 1.0)


@compiled()
def _component(
    form: int, threshold: float, arms: Array, alive: Array, n: int,
    grid: Array, nodes: Array, lanes: Array,
) -> tuple[float, float]:  # fmt: skip
    """P(an arm is best and above the threshold); how far off, and P(all arms are below it)."""
    origin, start = _prepare(form, threshold, arms, n)
    free = threshold == -np.inf
    if free and _depart(arms, alive, n, 1)[0] == 1:
        for i in range(n):
            arms[SHARE, i] = 1.0 if i == alive[0] else 0.0
        return 0.0, 0.0
    stride, roughest = _STRIDE, _ROUGHNESS
    gap, below = 0.0, 0.0
    for _ in range(_N_TRIES):
        for i in range(n):
            arms[BELOW, i] = 0.0
            for j in range(N_NODES):
                nodes[WON, i, j] = 0.0
        for sign in (-1, 1):
            count, below = _depart(arms, alive, n, sign)
            march(
                form, origin, start, sign, stride, roughest, arms, alive, count, grid, nodes, lanes
            )
        gap = _tally(arms, n, 0.0 if free else below, nodes)
        if gap < _TOLERANCE:
            break
        stride *= 0.5
        roughest *= 0.01
    return gap, (below if start == threshold - origin else 0.0)


@compiled()
def _split(form: int, a: Array, b: Array, mask: Array, arms: Array) -> tuple[int, float, int]:
    """The uncertain arms; the best of the certain ones, and how many share that place."""
    n, ties = 0, 0
    threshold = -np.inf
    for k in range(len(mask)):
        if not mask[k]:
            continue
        if form == NORMAL and b[k] < _CERTAIN:
            if a[k] >= threshold:
                ties = ties + 1 if a[k] == threshold else 1
                threshold = a[k]
        else:
            arms[ARM, n], arms[FIRST, n], arms[SECOND, n] = k, a[k], b[k]
            n += 1
    return n, threshold, ties


@compiled(nogil=True)
def best_arms(
    form: int, parameters: Array, weights: Array, mask: Array,
    arms: Array, alive: Array, grid: Array, nodes: Array, lanes: Array,
    result: Array, errors: Array,
) -> None:  # fmt: skip
    """P(arm is best) for decisions with parameters (2, m, L, K), weights (m, L) and mask (m, K)."""
    n_rows, n_arms = mask.shape
    for r in range(n_rows):
        for s in range(weights.shape[1]):
            weight = weights[r, s]
            if weight <= _NEGLIGIBLE:
                continue
            a, b = parameters[0, r, s], parameters[1, r, s]
            n, threshold, ties = _split(form, a, b, mask[r], arms)
            gap, below = 0.0, 1.0
            if n > 0:
                gap, below = _component(form, threshold, arms, alive, n, grid, nodes, lanes)
            for i in range(n):
                result[r, int(arms[ARM, i])] += weight * arms[SHARE, i]
            for k in range(n_arms):
                if ties > 0 and mask[r, k] and a[k] == threshold and b[k] < _CERTAIN:
                    result[r, k] += weight * below / ties
            if not gap <= _NOTABLE:
                errors[r] += weight * gap
        total = 0.0
        for k in range(n_arms):
            total += result[r, k]
        for k in range(n_arms):
            result[r, k] /= total
