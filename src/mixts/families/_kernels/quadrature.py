"""P(an arm is the best of independent ones) and E[the best mean], in one compiled pass.

``P(a is best) = integral of f_a(t) prod_{b != a} F_b(t) dt``, in a coordinate where all densities
are smooth (``densities``). The integral starts where the best arm lies with probability e^-39 at
most. From there one integral over cells to the left gives F_a(start), and one to the right the
rest. No incomplete beta or gamma function is needed, and the result is checked: every arm's mass
must be one, and so must the sum of the probabilities; otherwise cells are made shorter.

The integrals are in ``cells``; here are where they start, what they give for a component, and the
mixture of the components.

The best mean is integrated with the same products: it has the density sum_a f_a prod_{b != a} F_b.
Its mean is measured from that of the arm at the origin, so that a narrow gain keeps its digits.

Of mixtures of normal distributions there are also quantiles, and estimates to come: m decisions, L
components, K actions, n averages of rewards.
"""

from __future__ import annotations

import math

import numpy as np

from mixts._compiled import compiled
from mixts._typing import Array
from mixts.families._kernels.cells import (
    DEPTH,
    END,
    N_NODES,
    NEGLIGIBLE,
    WON,
    Line,
    Work,
    integrate_side,
    place_of,
)
from mixts.families._kernels.densities import (
    GAIN,
    NORMAL,
    fall,
    height_at,
    mean_of,
    peak_of,
    tail_distance,
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


@compiled(borrows=True)
def _prepare(form: int, threshold: float, arms: Array, n: int) -> Line:
    """Describe the densities of n arms; return the line, with all arms at its start.

    The origin is the mode of the sharpest arm that can win: positions are measured from there, so
    that narrow peaks far from zero keep their digits.
    """
    floor = -np.inf
    for i in range(n):
        arm = arms[i]
        arm.mode, arm.curvature, arm.peak = peak_of(form, arm.first, arm.second)
        end = arm.mode - tail_distance(form, arm.curvature, DEPTH)
        floor = end if end > floor else floor
    origin, sharpest = 0.0, 0.0
    for i in range(n):
        arm = arms[i]
        if arm.curvature > sharpest:
            depth, _ = fall(form, arm.first, arm.second, arm.curvature, floor - arm.mode)
            if floor < arm.mode or depth < DEPTH:
                origin, sharpest = arm.mode, arm.curvature
    for i in range(n):
        arms[i].mode -= origin
    start = _start(form, arms, n)
    start = start if start > threshold - origin else threshold - origin
    for i in range(n):
        arm = arms[i]
        gap = start - arm.mode
        fallen, _ = fall(form, arm.first, arm.second, arm.curvature, gap)
        arm.start_level, arm.start_place = arm.peak - fallen, place_of(fallen, gap)
    return Line(form, origin, start)


@compiled(borrows=True)
def _start(form: int, arms: Array, n: int) -> float:
    """Return where the falls of all arms whose mode is above sum to the depth, or a little more.

    Each distribution function is at most e^-fall there, and their product e^-depth. The sum of
    falls is convex, so that Newton's method cannot step over the point from the left.
    """
    t = -np.inf
    for i in range(n):
        end = arms[i].mode - tail_distance(form, arms[i].curvature, DEPTH)
        t = end if end > t else t
    for _ in range(_N_NEWTON):
        depth, slope = 0.0, 0.0
        for i in range(n):
            arm = arms[i]
            if t < arm.mode:
                fallen, steep = fall(form, arm.first, arm.second, arm.curvature, t - arm.mode)
                depth += fallen
                slope += steep
        if DEPTH <= depth <= DEPTH + _SLACK:
            break
        t += (depth - DEPTH - _SLACK / 4.0) / slope
    return t


@compiled(inner=True, borrows=True)
def return_to_start(n: int, sign: int, work: Work) -> tuple[int, float]:
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


@compiled(inner=True, borrows=True)
def set_shares(n: int, below: float, work: Work) -> float:
    """Set every arm's share; return how far the masses and the sum of shares are from one."""
    total, gap = below, 0.0
    for i in range(n):
        arm, share = work.arms[i], 0.0
        for j in range(N_NODES):
            share += work.rows[WON, i, j]
        # A sum that should be zero may be just below.
        arm.share = share if share > 0.0 else 0.0
        total += share
        off = abs(arm.below - 1.0)
        gap = off if arm.start_place < END and off > gap else gap
    # In this order, so that no comparison hides a NaN.
    return gap if abs(total - 1.0) < gap else abs(total - 1.0)


@compiled(inner=True, borrows=True)
def clear(n: int, work: Work) -> None:
    """Set what both integrals add to, but the arms' masses, to zero."""
    work.cell[GAIN, 0] = 0.0
    for i in range(n):
        for j in range(N_NODES):
            work.rows[WON, i, j] = 0.0


@compiled(inner=True, borrows=True)
def only_winner(n: int, work: Work) -> int:
    """Return the arm that is the only one with mass above the start, or -1; set all shares."""
    count, winner = 0, 0
    for i in range(n):
        work.arms[i].share = 0.0
        if work.arms[i].start_place < END:
            count += 1
            winner = i
    work.arms[winner].share = 1.0
    return winner if count == 1 else -1


@compiled(borrows=True)
def _split(
    form: int, r: int, s: int, parameters: Array, mask: Array, arms: Array
) -> tuple[int, int, float]:
    """Write the uncertain arms to ``arms``, and after them the certain ones of the highest mean.

    Returns both numbers, and the best mean of the certain arms.
    """
    n, n_certain, threshold = 0, 0, -np.inf
    for k in range(mask.shape[1]):
        if mask[r, k]:
            a, b = parameters[0, r, s, k], parameters[1, r, s, k]
            if form == NORMAL and b < _CERTAIN:
                threshold = a if a > threshold else threshold
            else:
                arms[n].index, arms[n].first, arms[n].second = k, a, b
                n += 1
    if threshold > -np.inf:
        for k in range(mask.shape[1]):
            a, b = parameters[0, r, s, k], parameters[1, r, s, k]
            if mask[r, k] and b < _CERTAIN and a == threshold:
                arms[n + n_certain].index = k
                n_certain += 1
    return n, n_certain, threshold


# -- ``found`` (m, K + 2): P(arm is best), the error of these chances, E[best mean] ---------------


@compiled(inner=True, borrows=True)
def collect(
    r: int, weight: float, n: int, n_certain: int, results: Floats, arms: Array, found: Array
) -> None:
    """Add the results of a component to decision r."""
    gap, below, best = results
    n_arms = found.shape[1] - 2
    for i in range(n):
        found[r, arms[i].index] += weight * arms[i].share
    for i in range(n, n + n_certain):
        found[r, arms[i].index] += weight * below / n_certain
    found[r, n_arms + 1] += weight * best
    if not gap <= _NOTABLE:
        found[r, n_arms] += weight * gap


@compiled(inner=True, borrows=True)
def finish(r: int, found: Array) -> None:
    """Complete decision r after its last component."""
    n_arms = found.shape[1] - 2
    total = 0.0
    for k in range(n_arms):
        total += found[r, k]
    for k in range(n_arms):
        found[r, k] /= total


@compiled(nogil=True, borrows=True)
def best_arms(
    form: int, parameters: Array, weights: Array, mask: Array, plain: Arrays, found: Array
) -> None:
    """Compute P(arm is best) of m decisions, and E[best mean].

    ``parameters`` (2, m, L, K) are those of the arms' densities, ``weights`` (m, L) those of the
    components, ``mask`` (m, K) says which arms are available, and ``plain`` has the fields of
    ``Work``. The results are written to ``found``, zero before.
    """
    # One function for all components: all that it calls would be optimised once more for a
    # function between.
    work, arms = Work(*plain), plain[0]
    for r in range(mask.shape[0]):
        for s in range(weights.shape[1]):
            if weights[r, s] <= NEGLIGIBLE:
                continue
            n, n_certain, threshold = _split(form, r, s, parameters, mask, arms)
            gap, below, best = 0.0, 1.0, threshold
            if n > 0:
                free = threshold == -np.inf
                line = _prepare(form, threshold, arms, n)
                clear(n, work)
                winner = only_winner(n, work) if free else -1
                n_tries, stride, roughest = 0 if winner >= 0 else N_TRIES, STRIDE, ROUGHNESS
                for _ in range(n_tries):
                    clear(n, work)
                    for i in range(n):
                        arms[i].below = 0.0
                    for sign in (-1, 1):
                        count, below = return_to_start(n, sign, work)
                        integrate_side(line, sign, count, (stride, roughest), work)
                    gap = set_shares(n, 0.0 if free else below, work)
                    if gap < TOLERANCE:
                        break
                    stride *= 0.5
                    roughest *= 0.01
                below = below if line.start == threshold - line.origin else 0.0
                best = height_at(form, line.origin) * (1.0 - below) + work.cell[GAIN, 0]
                if winner >= 0:
                    best = mean_of(form, arms[winner].first, arms[winner].second)
                elif not free:
                    best += below * threshold
            collect(r, weights[r, s], n, n_certain, (gap, below, best), arms, found)
        finish(r, found)


_ROOT_HALF = math.sqrt(0.5)
_DENSITY = 1.0 / math.sqrt(2.0 * math.pi)

_FAR = 40.0
"""A component that is so many nats below the most likely one adds less than rounding does."""

_N_STEPS = 30
"""Newton's steps before bisection: far more than a smooth distribution function needs."""


@compiled()
def _below(x: float, weights: Array, mean: Array, deviation: Array) -> tuple[float, float]:
    """Return distribution function and density of a mixture (L,) at x."""
    total, density = 0.0, 0.0
    for s in range(len(weights)):
        if weights[s] > 0.0:
            if deviation[s] > 0.0:
                u = (x - mean[s]) / deviation[s]
                total += weights[s] * 0.5 * math.erfc(-u * _ROOT_HALF)
                density += weights[s] * _DENSITY * math.exp(-0.5 * u * u) / deviation[s]
            elif x >= mean[s]:
                total += weights[s]
    return total, density


@compiled()
def _quantile(
    probability: float, low: float, high: float, weights: Array, mean: Array, deviation: Array
) -> float:
    """Return the quantile of a mixture (L,) between low and high, by Newton's method."""
    x, n, least = 0.5 * (low + high), 0, 1e-16 * max(abs(low), abs(high))
    while high - low > least and low < x < high:
        total, density = _below(x, weights, mean, deviation)
        if total < probability:
            low = x
        else:
            high = x
        # Beside a certain component the function jumps, and only halving makes progress.
        step = (probability - total) / density if n < _N_STEPS and density > 0.0 else np.inf
        n += 1
        if abs(step) <= least:
            break
        x = x + step if low < x + step < high else 0.5 * (low + high)
    return x


@compiled()
def mixture_quantiles(
    weights: Array, parameters: Array, probability: Array, standard: Array, least: float, out: Array
) -> None:
    """Set out (m, K) to the quantiles of mixtures with means and variances (2, m, L, K).

    ``standard`` (m,) is the quantile of the standard normal distribution. Components of a weight
    above ``least`` bracket the quantile of the mixture.
    """
    m, n_components, n_actions = parameters.shape[1:]
    mean, deviation = np.empty(n_components), np.empty(n_components)
    for i in range(m):
        for k in range(n_actions):
            low, high = np.inf, -np.inf
            for s in range(n_components):
                mean[s] = parameters[0, i, s, k]
                deviation[s] = math.sqrt(parameters[1, i, s, k])
                if weights[i, s] > least:
                    low = min(low, mean[s] + standard[i] * deviation[s])
                    high = max(high, mean[s] + standard[i] * deviation[s])
            out[i, k] = _quantile(probability[i], low, high, weights[i], mean, deviation)


@compiled()
def estimates(
    weights: Array, parameters: Array, noise: float, averages: Array, n_more: Array, out: Array
) -> None:
    """Set out (m, n, K) to E[theta_a | the average of n_more (m,) rewards of a].

    ``parameters`` (2, m, L, K) are means and variances of the components, and ``averages``
    (m, n, K) those of rewards with this noise variance.
    """
    m, n_components, n_actions = parameters.shape[1:]
    level, sharp, share = np.empty(n_components), np.empty(n_components), np.empty(n_components)
    logs = np.empty(n_components)
    for i in range(m):
        n = n_more[i]
        for k in range(n_actions):
            mean = parameters[0, i, :, k]
            for s in range(n_components):
                total = noise + n * parameters[1, i, s, k]
                level[s] = math.log(weights[i, s]) - 0.5 * math.log(total)
                sharp[s] = 0.5 * n / total
                share[s] = n * parameters[1, i, s, k] / total
            for r in range(averages.shape[1]):
                top = -np.inf
                for s in range(n_components):
                    gap = averages[i, r, k] - mean[s]
                    logs[s] = level[s] - sharp[s] * gap * gap
                    top = max(top, logs[s])
                value, mass = 0.0, 0.0
                for s in range(n_components):
                    if logs[s] > top - _FAR:
                        weight = math.exp(logs[s] - top)
                        mass += weight
                        value += weight * (mean[s] + share[s] * (averages[i, r, k] - mean[s]))
                out[i, r, k] = value / mass
