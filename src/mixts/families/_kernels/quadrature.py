"""P(an arm is the best of independent ones) and E[the best mean], in one compiled pass.

``P(a is best) = integral of f_a(t) prod_{b != a} F_b(t) dt``, in a coordinate where all densities
are smooth (``densities``). The integral starts where the best arm lies with probability e^-39 at
most. From there one march through cells to the left gives F_a(start), and one to the right the
rest. No incomplete beta or gamma function is needed, and the result is checked: every arm's mass
must be one, and so must the sum of the probabilities; otherwise cells are made shorter.

The marches are in ``march``; here are where they start, what they give for a component, and the
mixture of the components.

The best mean is integrated with the same products: it has the density sum_a f_a prod_{b != a} F_b.
Its mean is measured from that of the arm at the origin, so that a narrow gain keeps its digits.

What the best arm says about the others follows from ``E[theta_a; b is best] = integral of
f_b M_a prod_{c != a, b} F_c dt``, where M_a(t) is the integral of theta_a f_a up to t: it is taken
from the densities as F_a is.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mixts._compiled import compiled
from mixts._typing import Array
from mixts.families._kernels.densities import (
    NORMAL,
    crest,
    fall,
    height_at,
    mean_of,
    outskirts,
)
from mixts.families._kernels.march import (
    DEPTH,
    END,
    N_NODES,
    NEGLIGIBLE,
    SOME_MASS,
    Line,
    Work,
    march,
    new_work,
    place_of,
)

Arrays = tuple[Array, ...]
Floats = tuple[float, float, float]

TOLERANCE = 1e-10
"""Masses, and the sum of the probabilities of one component, may differ from one by this."""

_NOTABLE = 1e-8
"""Larger differences are reported: with counts of 1e13, densities have only eight digits."""

_CERTAIN = 1e-290
"""A smaller variance counts as zero: the square of its inverse would overflow."""

STRIDE, ROUGHNESS = 4.0, 1e-5
"""Largest stride of a cell, and largest share of a mass in the last coefficients of its density.

The error of the result is about the square of the second: Gauss's rule is exact for polynomials of
twice the degree.
"""

_SLACK = 4.0
"""The start may be this much deeper than necessary."""

_N_NEWTON = 100
N_TRIES = 3
"""The second and the third have half the stride and a hundredth of the roughness before."""


@compiled()
def _fall(form: int, arms: Array, i: int, t: float) -> tuple[float, float]:
    """Return the fall of arm i's log density at t, and the slope there."""
    arm = arms[i]
    return fall(form, arm.first, arm.second, arm.curvature, t - arm.mode)


@compiled()
def _origin(form: int, arms: Array, n: int) -> float:
    """Set the modes, curvatures and peaks; return the mode of the sharpest arm that can win.

    Positions are measured from there, so that narrow peaks far from zero keep their digits.
    """
    floor = -np.inf
    for i in range(n):
        arm = arms[i]
        mode, curvature, peak = crest(form, arm.first, arm.second)
        arm.mode, arm.curvature, arm.peak = mode, curvature, peak
        floor = max(floor, mode - outskirts(form, curvature, DEPTH))
    origin, sharpest = 0.0, 0.0
    for i in range(n):
        can_win = floor < arms[i].mode or _fall(form, arms, i, floor)[0] < DEPTH
        if can_win and arms[i].curvature > sharpest:
            origin, sharpest = arms[i].mode, arms[i].curvature
    return origin


@compiled()
def _start(form: int, arms: Array, n: int) -> float:
    """Return where the falls of all arms whose mode is above sum to the depth, or a little more.

    Each distribution function is at most e^-fall there, and their product e^-depth. The sum of
    falls is convex, so that Newton's method cannot step over the point from the left.
    """
    t = -np.inf
    for i in range(n):
        t = max(t, arms[i].mode - outskirts(form, arms[i].curvature, DEPTH))
    for _ in range(_N_NEWTON):
        depth, slope = 0.0, 0.0
        for i in range(n):
            if t < arms[i].mode:
                fallen, steep = _fall(form, arms, i, t)
                depth += fallen
                slope += steep
        if DEPTH <= depth <= DEPTH + _SLACK:
            break
        t += (depth - DEPTH - _SLACK / 4.0) / slope
    return t


@compiled()
def _prepare(form: int, threshold: float, arms: Array, n: int) -> Line:
    """Return the line, with levels and places of all arms at the start."""
    origin = _origin(form, arms, n)
    for i in range(n):
        arms[i].mode -= origin
    start = max(_start(form, arms, n), threshold - origin)
    for i in range(n):
        fallen, _ = _fall(form, arms, i, start)
        arms[i].start_level = arms[i].peak - fallen
        arms[i].start_place = place_of(fallen, start - arms[i].mode)
    return Line(form, origin, start)


@compiled(inner=True)
def depart(n: int, sign: int, work: Work) -> tuple[int, float]:
    """Put all arms back to the start.

    Returns how many have mass on this side of it, and P(all arms are below the start).
    """
    count = 0
    below = 1.0
    for i in range(n):
        arm = work.arms[i]
        if arm.start_place < END:
            arm.level, arm.place = arm.start_level, arm.start_place
            below *= arm.below
            if sign * arm.place < END:
                work.alive[count] = i
                count += 1
    return count, below


@compiled(inner=True)
def tally(n: int, below: float, work: Work) -> float:
    """Set every arm's share; return how far the masses and the sum of shares are from one."""
    total, gap = below, 0.0
    for i in range(n):
        share = 0.0
        for j in range(N_NODES):
            share += work.won[i, j]
        # A sum that should be zero may be just below.
        work.arms[i].share = max(share, 0.0)
        total += share
        if work.arms[i].start_place < END:
            gap = max(gap, abs(work.arms[i].below - 1.0))
    # In this order, so that no comparison hides a NaN.
    return gap if abs(total - 1.0) < gap else abs(total - 1.0)


@compiled(inner=True)
def clear(n: int, work: Work) -> None:
    """Set what all marches add to, but the arms' masses, to zero."""
    work.gain[:] = 0.0
    work.joint[:] = 0.0
    for i in range(n):
        for j in range(N_NODES):
            work.won[i, j] = 0.0


@compiled(inner=True)
def set_feet(n: int, work: Work) -> None:
    """Set E[mean | below the start] of every arm that has mass there."""
    for i in range(n):
        arm = work.arms[i]
        if arm.below > SOME_MASS:
            arm.foot = arm.moment / arm.below - arm.drift


@compiled(inline="always")
def _component(form: int, threshold: float, n: int, work: Work) -> tuple[float, float, float]:
    """Set every arm's share, P(it is best and above the threshold).

    Returns how far off they may be, P(all arms are below the threshold), and the expectation of the
    best mean, or of the threshold where it is higher; NaN if it is not wanted.
    """
    arms = work.arms
    line = _prepare(form, threshold, arms, n)
    free = threshold == -np.inf
    for i in range(n):
        arms[i].drift = mean_of(form, arms[i].first, arms[i].second) - arms[i].center
        arms[i].center -= height_at(form, line.origin)
        arms[i].foot = 0.0
    if free and depart(n, 1, work)[0] == 1:
        winner = arms[work.alive[0]]
        for i in range(n):
            arms[i].share = 1.0 if i == work.alive[0] else 0.0
        work.joint[:] = 0.0
        return 0.0, 0.0, mean_of(form, winner.first, winner.second)
    stride, roughest = STRIDE, ROUGHNESS
    gap, below = 0.0, 0.0
    for _ in range(N_TRIES):
        clear(n, work)
        for i in range(n):
            arms[i].below = arms[i].moment = 0.0
        for sign in (-1, 1):
            count, below = depart(n, sign, work)
            if sign > 0:
                set_feet(n, work)
            march(line, sign, count, stride, roughest, work)
        gap = tally(n, 0.0 if free else below, work)
        if gap < TOLERANCE:
            break
        stride *= 0.5
        roughest *= 0.01
    below = below if line.start == threshold - line.origin else 0.0
    best = np.nan
    if len(work.gain) > 0:
        best = height_at(form, line.origin) * (1.0 - below) + work.gain[0]
        best += 0.0 if free else below * threshold
    return gap, below, best


@compiled()
def _split(
    form: int, a: Array, b: Array, mask: Array, arms: Array, certain: Array
) -> tuple[int, float]:
    """Write the uncertain arms to ``arms``, and mark the certain arms of the highest mean.

    Returns the number of uncertain arms, and the best mean of the certain ones.
    """
    n = 0
    threshold = -np.inf
    for k in range(len(mask)):
        certain[k] = mask[k] and form == NORMAL and b[k] < _CERTAIN
        if certain[k]:
            threshold = max(threshold, a[k])
        elif mask[k]:
            arms[n].index, arms[n].first, arms[n].second = k, a[k], b[k]
            n += 1
    for k in range(len(mask)):
        certain[k] = certain[k] and a[k] == threshold
    return n, threshold


class Found(NamedTuple):
    """What is computed about m decisions; zero before. The last three may be empty: not wanted."""

    chance: Array
    """(m, K): P(arm is best)."""
    error: Array
    """(m,): error of the chances."""
    best: Array
    """(m,): E[best mean]."""
    center: Array
    """(m, K): given, the mean of each arm under the mixture; empty and of booleans if the
    information is not wanted."""
    information: Array
    """(2, m, K): variance of an arm's mean that the best arm explains; that the component and the
    best arm explain."""


class Sums(NamedTuple):
    """Scratch arrays of the mixture of a decision's components."""

    chance: Array
    """(K,): P(arm is best) under one component."""
    certain: Array
    """(K,): the best of the arms without variance."""
    given: Array
    """(K, K): E[mean of an arm - its center; another is best] of one component; may be empty."""
    every: Array
    """(K, K): the same of the mixture."""


@compiled(inner=True)
def new_sums(n_arms: int, wants_joint: bool) -> Sums:
    """Allocate the scratch arrays."""
    size = n_arms if wants_joint else 0
    pairs = np.empty((2, size, size))
    return Sums(np.empty(n_arms), np.empty(n_arms, np.bool_), pairs[0], pairs[1])


@compiled()
def _chances(a: Array, n: int, certain: Array, below: float, work: Work, chance: Array) -> None:
    """Set P(arm is best) of one component: of n uncertain arms, and of the best certain ones."""
    chance[:] = 0.0
    ties = certain.sum()
    for i in range(n):
        chance[work.arms[i].index] = work.arms[i].share
    for k in range(len(a)):
        if certain[k]:
            chance[k] = below / ties


@compiled()
def _explain(
    a: Array, center: Array, n: int, certain: Array, chance: Array, work: Work, given: Array
) -> None:
    """Set E[mean of an arm - its center; another is best] of one component, (arm, other)."""
    for k in range(len(a)):
        for b in range(len(a)):
            given[k, b] = chance[b] * (a[k] - center[k])
    for i in range(n):
        arm = work.arms[i]
        for b in range(len(a)):
            given[arm.index, b] = chance[b] * (arm.drift + (arm.foot if certain[b] else 0.0))
        for k in range(n):
            given[arm.index, work.arms[k].index] += work.joint[i, k]


@compiled()
def _explained(given: Array, chance: Array, weight: float, out: Array) -> None:
    """Add the variance of E[mean - center | which arm is best] to ``out`` (K,)."""
    for b in range(len(chance)):
        if chance[b] > 0.0:
            for k in range(len(chance)):
                out[k] += weight * given[k, b] * given[k, b] / chance[b]


@compiled(inner=True)
def collect(
    r: int, weight: float, a: Array, n: int, results: Floats, work: Work, sums: Sums, found: Found
) -> None:
    """Add the results of a component to decision r; ``a`` are the means of certain arms."""
    gap, below, best = results
    _chances(a, n, sums.certain, below, work, sums.chance)
    for k in range(len(a)):
        found.chance[r, k] += weight * sums.chance[k]
    if len(found.best) > 0:
        found.best[r] += weight * best
    if len(found.center) > 0:
        _explain(a, found.center[r], n, sums.certain, sums.chance, work, sums.given)
        _explained(sums.given, sums.chance, weight, found.information[1, r])
        for k in range(len(a)):
            for b in range(len(a)):
                sums.every[k, b] += weight * sums.given[k, b]
    if not gap <= _NOTABLE:
        found.error[r] += weight * gap


@compiled(inner=True)
def finish(r: int, sums: Sums, found: Found) -> None:
    """Complete decision r after its last component."""
    if len(found.center) > 0:
        _explained(sums.every, found.chance[r], 1.0, found.information[0, r])
    total = 0.0
    for k in range(len(found.chance[r])):
        total += found.chance[r, k]
    for k in range(len(found.chance[r])):
        found.chance[r, k] /= total


@compiled(nogil=True)
def best_arms(
    form: int, parameters: Array, weights: Array, mask: Array, plain: Arrays, n_nodes: int
) -> None:
    """Compute P(arm is best) of m decisions, and whatever else is wanted.

    ``parameters`` (2, m, L, K) are those of the arms' densities, ``weights`` (m, L) those of the
    components, ``mask`` (m, K) says which arms are available, and ``plain`` has the fields of
    ``Found``. ``n_nodes`` is N_NODES, given at run time so that the compiler does not know it:
    loops over nodes are then vectorised, not unrolled, which is up to 10 % faster.
    """
    found = Found(*plain)
    n_rows, n_arms = mask.shape
    work = new_work(n_arms, n_nodes, len(found.best) > 0, found.center)
    sums = new_sums(n_arms, len(found.center) > 0)
    for r in range(n_rows):
        sums.every[:] = 0.0
        for s in range(weights.shape[1]):
            weight = weights[r, s]
            if weight <= NEGLIGIBLE:
                continue
            a, b = parameters[0, r, s], parameters[1, r, s]
            n, threshold = _split(form, a, b, mask[r], work.arms, sums.certain)
            for i in range(n if len(found.center) > 0 else 0):
                work.arms[i].center = found.center[r, work.arms[i].index]
            gap, below, best = 0.0, 1.0, threshold
            if n > 0:
                gap, below, best = _component(form, threshold, n, work)
            collect(r, weight, a, n, (gap, below, best), work, sums, found)
        finish(r, sums, found)
