"""P(an arm is the best of independent ones) and E[the best mean], in one compiled pass.

``P(a is best) = integral of f_a(t) prod_{b != a} F_b(t) dt``, in a coordinate where all densities
are smooth (``densities``). The integral starts where the best arm lies with probability e^-39 at
most. From there one march through cells to the left gives F_a(start), and one to the right the
rest. No incomplete beta or gamma function is needed, and the result is checked: every arm's mass
must be one, and so must the sum of the probabilities; otherwise cells are made shorter.

In a cell, densities are taken at Gauss-Legendre nodes. The integral of the polynomial through them
is the distribution function at the nodes, and the product of all distribution functions but one is
that of those before it times that of those after it.

The arms themselves decide how long a cell may be. An arm's *place* is the signed root of twice the
fall of its log density from the mode: the density is e^(-place^2 / 2) of its peak, whatever its
form. No arm's place may change by more than a stride, so that no narrow peak is stepped over, and
the last coefficients of the polynomials must be small.

The best mean is integrated with the same products: it has the density sum_a f_a prod_{b != a} F_b.
Its mean is measured from that of the arm at the origin, so that a narrow gain keeps its digits.

What the best arm says about the others follows from ``E[theta_a; b is best] = integral of
f_b M_a prod_{c != a, b} F_c dt``, where M_a(t) is the integral of theta_a f_a up to t: it is taken
from the densities as F_a is.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.extending import overload

from mixts._compiled import compiled
from mixts._typing import Array
from mixts.families._kernels.densities import (
    FROM_LEFT,
    NORMAL,
    base_of,
    bends,
    bends_within,
    crest,
    exp,
    factors,
    fall,
    height_at,
    heights,
    mean_of,
    outskirts,
)
from mixts.families._kernels.roots import SUMS

Arrays = tuple[Array, ...]

_TOLERANCE = 1e-10
"""Masses, and the sum of the probabilities of one component, may differ from one by this."""

_NOTABLE = 1e-8
"""Larger differences are reported: with counts of 1e13, densities have only eight digits."""

_NEGLIGIBLE = 1e-16
"""A component of less weight changes no probability that a double can hold beside one."""

_CERTAIN = 1e-290
"""A smaller variance counts as zero: the square of its inverse would overflow."""

_STRIDE, _ROUGHNESS = 4.0, 1e-5
"""Largest stride of a cell, and largest share of a mass in the last coefficients of its density.

The error of the result is about the square of the second: Gauss's rule is exact for polynomials of
twice the degree.
"""

_SLACK = 4.0
"""The start may be this much deeper than necessary."""

_N_NEWTON = 100
_N_TRIES = 3
"""The second and the third have half the stride and a hundredth of the roughness before."""

_DEPTH = 39.0
"""Beyond a fall of the log density by this lies at most e^-39 = 1e-17 of the mass: left out."""

_CORE, _TAIL = 4.0, 1 / 3
"""Places are compressed where densities are below e^-8 of the peak: cells may be longer there."""

_END = _CORE + _TAIL * (math.sqrt(2.0 * _DEPTH) - _CORE)
"""The place at which an arm is left behind."""

_SOME_MASS = 1e-14
"""Smaller distribution functions have lost their digits."""

_FINE = 1e-3
"""Cells of a smaller stride are not halved: their roughness is rounding."""

_GROWTH = 8.0
"""A cell may be this much longer than the last, when a narrow peak has been left behind."""

_N_CELLS = 4000
"""No march has more cells: about ten are usual, and a hundred for parameters of 1e-100."""

N_NODES = 16
_N_LANES = N_NODES + 4
_MASS, _LAST, _LAST_BUT_ONE = N_NODES, N_NODES + 1, N_NODES + 2
"""Lanes after those of the nodes: the whole integral, the last two Legendre coefficients."""

_ARM = np.dtype(
    [
        ("index", np.int64),  # which arm of the decision this is
        ("first", float), ("second", float),  # the two parameters of its density
        ("mode", float), ("curvature", float), ("peak", float),  # ... and of its log density
        ("start_level", float), ("start_place", float),  # log density and place at the start
        ("level", float), ("place", float),  # ... at the near edge of the present cell
        ("next_level", float), ("next_place", float),  # ... at the far edge
        ("linear", float), ("bent", float), ("fixed", float),  # its log density in the cell
        ("below", float),  # its mass so far
        ("share", float),  # P(it is best)
        ("center", float),  # the mean from which its moments are taken, minus that at the origin
        ("drift", float),  # its mean minus the center
        ("moment", float),  # integral of (mean - center) f so far
        ("foot", float),  # E[mean - center | below the start], minus the drift
    ]
)  # fmt: skip
"""The numbers that a march keeps of an arm."""


class _Work(NamedTuple):
    """Scratch arrays of a march, for K arms; row k of those with two axes is arm ``alive[k]``."""

    arms: Array
    """(K,) of ``_ARM``."""
    alive: Array
    """(K,): the arms that are not left behind yet."""
    x: Array
    """(nodes + 1,): nodes of the cell seen from its base, then the edge that is not the base."""
    bend: Array
    """(nodes + 1,): bend(x)."""
    product: Array
    """(nodes,): products of distribution functions."""
    density: Array
    """(K, nodes): densities at the nodes."""
    before: Array
    """(K, nodes): products of the distribution functions of the arms before."""
    won: Array
    """(K, nodes): each node's part of P(arm is best); row i is arm i."""
    height: Array
    """(nodes + 1,): the mean at each node of a cell, minus the mean at the origin."""
    gain: Array
    """(1,): E[best mean] so far, minus the mean at the origin; empty if it is not wanted."""
    moments: Array
    """(K, lanes): integrals of (mean - center) f; no rows if they are not wanted."""
    trend: Array
    """(K, nodes): E[mean - center | below the node], minus the drift."""
    wins: Array
    """(K, nodes): each node's part of P(arm is best) in one cell."""
    joint: Array
    """(K, K): E[mean of row a - its center; column b is best]; by position in ``arms``. Empty and
    of booleans if it is not wanted."""
    lanes: Array
    """(K, lanes): integrals up to each node (later the distribution function there), the whole
    integral, the last two Legendre coefficients."""


class _Line(NamedTuple):
    """The line on which arms are compared."""

    form: int
    """Form of the densities."""
    origin: float
    """Positions are measured from here."""
    start: float
    """Start of both marches, relative to the origin."""


def _rule() -> tuple[Array, Array, Array]:
    """Return nodes and weights on [0, 1], and the sums of values at the nodes: (node, lane).

    Lanes are the integrals up to each node, the whole integral, and the last two coefficients of
    the Legendre series; the unused lane fills a vector register. The integral of P_n from -1 is
    (P_{n+1} - P_{n-1}) / (2 n + 1).
    """
    nodes, weights = np.polynomial.legendre.leggauss(N_NODES)
    legendre = np.polynomial.legendre.legvander(nodes, N_NODES)
    lower = np.column_stack([-np.ones(N_NODES), legendre[:, : N_NODES - 1]])
    values = legendre[:, :N_NODES] * weights[:, None] / 2
    lanes = np.zeros((N_NODES, _N_LANES))
    lanes[:, :N_NODES] = values @ (legendre[:, 1:] - lower).T
    lanes[:, _MASS] = weights
    lanes[:, _LAST] = (2 * N_NODES - 1) * values[:, -1]
    lanes[:, _LAST_BUT_ONE] = (2 * N_NODES - 3) * values[:, -2]
    return (nodes + 1) / 2, weights / 2, lanes / 2


_NODES, _WEIGHTS, _LANES = _rule()


@compiled()
def _new_work(n_arms: int, n_nodes: int, wants_best: bool, center: Array) -> _Work:
    """Allocate the scratch arrays."""
    x = np.empty((4, N_NODES + 1))
    nodes = np.empty((3, n_arms, n_nodes))
    n_joint = n_arms if len(center) > 0 else 0
    more = np.empty((2, n_joint, n_nodes))
    return _Work(
        np.empty(n_arms, _ARM), np.empty(n_arms, np.int64), x[0], x[1], x[2, :N_NODES],
        nodes[0], nodes[1], nodes[2], x[3], np.empty(1 if wants_best else 0),
        np.empty((n_joint, _N_LANES)), more[0], more[1],
        np.empty((n_joint, n_joint), center.dtype),
        np.empty((n_arms, _N_LANES)),
    )  # fmt: skip


@compiled()
def _place_of(fallen: float, x: float) -> float:
    """Return the place at x from the mode, where the log density has fallen so far."""
    root = math.sqrt(2.0 * max(fallen, 0.0))
    root = min(root, _CORE + _TAIL * (root - _CORE))
    return root if x > 0 else -root


@compiled()
def _lay_out(side: int, width: float, x: Array) -> None:
    """Set x to the nodes, from left to right, and the other edge, all seen from the base."""
    for j in range(N_NODES):
        x[j] = width * _NODES[j] if side == FROM_LEFT else -width * _NODES[N_NODES - 1 - j]
    x[N_NODES] = width if side == FROM_LEFT else -width


@compiled()
def _describe(form: int, side: int, edge: float, far: float, n: int, work: _Work) -> float:
    """Describe the densities in the cell from ``edge`` to ``far``; return the largest stride."""
    arms, alive, x, bent_x = work.arms, work.alive, work.x[N_NODES], work.bend[N_NODES]
    base = min(edge, far) if side == FROM_LEFT else max(edge, far)
    longest = 0.0
    for k in range(n):
        arm = arms[alive[k]]
        mode, near = arm.mode, arm.level
        linear, bent = factors(form, side, arm.first, arm.second, arm.curvature, base - mode)
        rise = linear * x + bent * bent_x
        level = near + (rise if base == edge else -rise)
        place = _place_of(arm.peak - level, far - mode)
        longest = max(longest, abs(place - arm.place))
        arm.linear, arm.bent, arm.fixed = linear, bent, near if base == edge else level
        arm.next_level, arm.next_place = level, place
    return longest


@compiled(fastmath={"contract"})
def _evaluate(n: int, width: float, work: _Work) -> float:
    """Compute densities at the nodes and their lanes; return the largest last coefficients."""
    # Loops of a length that the compiler does not know are vectorised, others unrolled.
    size = work.density.shape[1]
    arms, alive, x, bend = work.arms, work.alive, work.x, work.bend
    density, lanes = work.density, work.lanes
    roughness = 0.0
    for k in range(n):
        arm = arms[alive[k]]
        linear, bent, fixed = arm.linear, arm.bent, arm.fixed
        f, sums = density[k], lanes[k]
        for j in range(size):
            f[j] = exp(linear * x[j] + bent * bend[j] + fixed)
        for j in range(_N_LANES):
            sums[j] = 0.0
        for m in range(0, N_NODES, 4):
            f0, f1, f2, f3 = f[m] * width, f[m + 1] * width, f[m + 2] * width, f[m + 3] * width
            for j in range(_N_LANES):
                sums[j] += (_LANES[m, j] * f0 + _LANES[m + 1, j] * f1) + (
                    _LANES[m + 2, j] * f2 + _LANES[m + 3, j] * f3
                )
        roughness = max(roughness, abs(sums[_LAST]) + abs(sums[_LAST_BUT_ONE]))
    return roughness


@compiled()
def _add_wins(n: int, width: float, work: _Work) -> None:
    """Add a cell to every arm's probability of being best, node by node."""
    size = work.density.shape[1]
    product = work.product
    for j in range(size):
        product[j] = 1.0
    for k in range(n):
        cdf, before, mass = work.lanes[k], work.before[k], work.arms[work.alive[k]].below
        for j in range(size):
            before[j] = product[j]
            cdf[j] += mass
            product[j] *= cdf[j]
    for j in range(size):
        product[j] = width * _WEIGHTS[j]
    for k in range(n - 1, -1, -1):
        cdf, before = work.lanes[k], work.before[k]
        f, won = work.density[k], work.won[work.alive[k]]
        for j in range(size):
            won[j] += f[j] * before[j] * product[j]
            product[j] *= cdf[j]


@compiled()
def _add_gain(n: int, width: float, work: _Work) -> None:
    """Add a cell to the best mean; ``_add_wins`` has set the distribution functions."""
    size = work.density.shape[1]
    # The slope of F_1 ... F_n, arm by arm: (F G)' = F' G + F G'. No division is needed.
    product, slope = work.product, work.bend
    for j in range(size):
        product[j], slope[j] = 1.0, 0.0
    for k in range(n):
        cdf, f = work.lanes[k], work.density[k]
        for j in range(size):
            slope[j] = slope[j] * cdf[j] + product[j] * f[j]
            product[j] *= cdf[j]
    total = 0.0
    for j in range(size):
        total += _WEIGHTS[j] * slope[j] * work.height[j]
    work.gain[0] += width * total


# -- what the best arm says about the others: compiled only where it is wanted ---------------------


@compiled(fastmath={"contract"})
def _add_moments(n: int, width: float, work: _Work) -> None:
    """Compute the lanes of (mean - center) f in a cell."""
    density, height = work.density, work.height
    # Lengths that the compiler does not know: unrolled, these loops take seconds to compile.
    size, n_lanes = density.shape[1], work.moments.shape[1]
    for k in range(n):
        center, f, sums = work.arms[work.alive[k]].center, density[k], work.moments[k]
        for j in range(n_lanes):
            sums[j] = 0.0
        for m in range(size):
            part = f[m] * width * (height[m] - center)
            for j in range(n_lanes):
                sums[j] += _LANES[m, j] * part


@compiled(fastmath=SUMS)
def _add_products(n: int, width: float, work: _Work) -> None:
    """Add a cell to E[mean of an arm - its center; another is best]."""
    size = work.density.shape[1]
    product, height = work.product, work.height
    for j in range(size):
        product[j] = 1.0
    for k in range(n):
        cdf, before = work.lanes[k], work.before[k]
        for j in range(size):
            before[j] = product[j]
            product[j] *= cdf[j]
    for j in range(size):
        product[j] = width * _WEIGHTS[j]
    for k in range(n - 1, -1, -1):
        arm, cdf, before, f = (
            work.arms[work.alive[k]],
            work.lanes[k],
            work.before[k],
            work.density[k],
        )
        moments, trend, wins = work.moments[k], work.trend[k], work.wins[k]
        for j in range(size):
            wins[j] = f[j] * before[j] * product[j]
            product[j] *= cdf[j]
            # Below the first mass of an arm, its mean is that of the point itself; an arm that is
            # so unlikely to lie below does not matter there.
            here = height[j] - arm.center
            given = (arm.moment + moments[j]) / cdf[j] if cdf[j] > _SOME_MASS else here
            trend[j] = given - arm.drift
    for b in range(n):
        i, wins = work.alive[b], work.wins[b]
        total, own = 0.0, 0.0
        for j in range(size):
            total += wins[j]
            own += wins[j] * (height[j] - work.arms[i].center - work.arms[i].drift)
        if total <= _NEGLIGIBLE:
            continue
        work.joint[i, i] += own
        for a in range(n):
            if a != b:
                trend, sum_ = work.trend[a], 0.0
                for j in range(size):
                    sum_ += trend[j] * wins[j]
                work.joint[work.alive[a], i] += sum_


def _add_joint(n: Any, sign: Any, width: Any, work: Any) -> Any:
    """Add a cell to the joint moments, if ``work.joint`` has numbers for them."""
    raise NotImplementedError("compiled code only")


@overload(_add_joint)
def _add_joint_where_wanted(n: Any, sign: Any, width: Any, work: Any) -> Any:
    """Choose the code by the type of ``work.joint``: the compiler never sees what is not wanted."""

    def nothing(n: Any, sign: Any, width: Any, work: Any) -> Any:
        pass

    def add(n: Any, sign: Any, width: Any, work: Any) -> Any:
        _add_moments(n, width, work)
        if sign > 0:
            _add_products(n, width, work)
        for k in range(n):
            work.arms[work.alive[k]].moment += work.moments[k, _MASS]

    joint = work.types[work.fields.index("joint")]
    return nothing if joint.dtype == types.boolean else add


# -- marches --------------------------------------------------------------------------------------


@compiled()
def _step(n: int, sign: int, work: _Work) -> tuple[int, float]:
    """Move all arms to the far edge; return how many of them go on, and their largest stride."""
    left = 0
    longest = 0.0
    for k in range(n):
        i = work.alive[k]
        arm = work.arms[i]
        stride = abs(arm.next_place - arm.place)
        arm.below += work.lanes[k, _MASS]
        arm.level, arm.place = arm.next_level, arm.next_place
        if sign * arm.place < _END:
            work.alive[left] = i
            left += 1
            longest = max(longest, stride)
    return left, longest


@compiled()
def _march(line: _Line, sign: int, n: int, stride: float, roughest: float, work: _Work) -> None:
    """March from the start to the left or the right until the last of n arms has ended.

    Add to the arms' masses and, to the right, to their probabilities of being best.
    """
    form, origin = line.form, line.origin
    sharpest = 0.0
    for k in range(n):
        sharpest = max(sharpest, work.arms[work.alive[k]].curvature)
    edge, length = line.start, sign * stride / math.sqrt(sharpest)
    for _ in range(_N_CELLS):
        if n == 0:
            return
        far = edge + length
        if bends_within(form, origin + min(edge, far), origin + max(edge, far)):
            far = -origin
            length = far - edge
        low, high, width = min(edge, far), max(edge, far), abs(far - edge)
        side, constant = base_of(form, origin + low, origin + high)
        _lay_out(side, width, work.x)
        bends(form, constant, work.x, work.bend)
        longest = _describe(form, side, edge, far, n, work)
        if longest > stride:
            length *= max(0.1, 0.97 * stride / longest)
            continue
        found = _evaluate(n, width, work)
        if not found <= roughest and longest > _FINE:
            length *= 0.5
            continue
        if len(work.gain) > 0:
            base = low if side == FROM_LEFT else high
            heights(form, origin, base, work.x, work.height)
        if sign > 0:
            _add_wins(n, width, work)
            if len(work.gain) > 0:
                _add_gain(n, width, work)
        _add_joint(n, sign, width, work)
        n, longest = _step(n, sign, work)
        edge = far
        length *= min(_GROWTH, 0.97 * stride / max(longest, _FINE))


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
        floor = max(floor, mode - outskirts(form, curvature, _DEPTH))
    origin, sharpest = 0.0, 0.0
    for i in range(n):
        can_win = floor < arms[i].mode or _fall(form, arms, i, floor)[0] < _DEPTH
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
        t = max(t, arms[i].mode - outskirts(form, arms[i].curvature, _DEPTH))
    for _ in range(_N_NEWTON):
        depth, slope = 0.0, 0.0
        for i in range(n):
            if t < arms[i].mode:
                fallen, steep = _fall(form, arms, i, t)
                depth += fallen
                slope += steep
        if _DEPTH <= depth <= _DEPTH + _SLACK:
            break
        t += (depth - _DEPTH - _SLACK / 4.0) / slope
    return t


@compiled()
def _prepare(form: int, threshold: float, arms: Array, n: int) -> _Line:
    """Return the line, with levels and places of all arms at the start."""
    origin = _origin(form, arms, n)
    for i in range(n):
        arms[i].mode -= origin
    start = max(_start(form, arms, n), threshold - origin)
    for i in range(n):
        fallen, _ = _fall(form, arms, i, start)
        arms[i].start_level = arms[i].peak - fallen
        arms[i].start_place = _place_of(fallen, start - arms[i].mode)
    return _Line(form, origin, start)


@compiled()
def _depart(n: int, sign: int, work: _Work) -> tuple[int, float]:
    """Put all arms back to the start.

    Returns how many have mass on this side of it, and P(all arms are below the start).
    """
    count = 0
    below = 1.0
    for i in range(n):
        arm = work.arms[i]
        if arm.start_place < _END:
            arm.level, arm.place = arm.start_level, arm.start_place
            below *= arm.below
            if sign * arm.place < _END:
                work.alive[count] = i
                count += 1
    return count, below


@compiled()
def _tally(n: int, below: float, work: _Work) -> float:
    """Set every arm's share; return how far the masses and the sum of shares are from one."""
    total, gap = below, 0.0
    for i in range(n):
        share = 0.0
        for j in range(N_NODES):
            share += work.won[i, j]
        # A sum that should be zero may be just below.
        work.arms[i].share = max(share, 0.0)
        total += share
        if work.arms[i].start_place < _END:
            gap = max(gap, abs(work.arms[i].below - 1.0))
    # In this order, so that no comparison hides a NaN.
    return gap if abs(total - 1.0) < gap else abs(total - 1.0)


@compiled()
def _set_feet(n: int, work: _Work) -> None:
    """Set E[mean | below the start] of every arm that has mass there."""
    for i in range(n):
        arm = work.arms[i]
        if arm.below > _SOME_MASS:
            arm.foot = arm.moment / arm.below - arm.drift


@compiled()
def _component(form: int, threshold: float, n: int, work: _Work) -> tuple[float, float, float]:
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
    if free and _depart(n, 1, work)[0] == 1:
        winner = arms[work.alive[0]]
        for i in range(n):
            arms[i].share = 1.0 if i == work.alive[0] else 0.0
        work.joint[:] = 0.0
        return 0.0, 0.0, mean_of(form, winner.first, winner.second)
    stride, roughest = _STRIDE, _ROUGHNESS
    gap, below = 0.0, 0.0
    for _ in range(_N_TRIES):
        work.gain[:] = 0.0
        work.joint[:] = 0.0
        for i in range(n):
            arms[i].below = arms[i].moment = 0.0
            for j in range(N_NODES):
                work.won[i, j] = 0.0
        for sign in (-1, 1):
            count, below = _depart(n, sign, work)
            if sign > 0:
                _set_feet(n, work)
            _march(line, sign, count, stride, roughest, work)
        gap = _tally(n, 0.0 if free else below, work)
        if gap < _TOLERANCE:
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


@compiled()
def _chances(a: Array, n: int, certain: Array, below: float, work: _Work, chance: Array) -> None:
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
    a: Array, center: Array, n: int, certain: Array, chance: Array, work: _Work, given: Array
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
    wants_best, wants_joint = len(found.best) > 0, len(found.center) > 0
    work = _new_work(n_arms, n_nodes, wants_best, found.center)
    chance, certain = np.empty(n_arms), np.empty(n_arms, np.bool_)
    size = n_arms if wants_joint else 0
    given, every = np.empty((size, size)), np.empty((size, size))
    for r in range(n_rows):
        every[:] = 0.0
        for s in range(weights.shape[1]):
            weight = weights[r, s]
            if weight <= _NEGLIGIBLE:
                continue
            a, b = parameters[0, r, s], parameters[1, r, s]
            n, threshold = _split(form, a, b, mask[r], work.arms, certain)
            for i in range(n if wants_joint else 0):
                work.arms[i].center = found.center[r, work.arms[i].index]
            gap, below, best = 0.0, 1.0, threshold
            if n > 0:
                gap, below, best = _component(form, threshold, n, work)
            _chances(a, n, certain, below, work, chance)
            for k in range(n_arms):
                found.chance[r, k] += weight * chance[k]
            if wants_best:
                found.best[r] += weight * best
            if wants_joint:
                _explain(a, found.center[r], n, certain, chance, work, given)
                _explained(given, chance, weight, found.information[1, r])
                every += weight * given
            if not gap <= _NOTABLE:
                found.error[r] += weight * gap
        if wants_joint:
            _explained(every, found.chance[r], 1.0, found.information[0, r])
        total = 0.0
        for k in range(n_arms):
            total += found.chance[r, k]
        for k in range(n_arms):
            found.chance[r, k] /= total
