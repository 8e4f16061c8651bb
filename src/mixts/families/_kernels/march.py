"""Marches through cells: the integrals of products of densities and distribution functions.

In a cell, densities are taken at Gauss-Legendre nodes. The integral of the polynomial through them
is the distribution function at the nodes, and the product of all distribution functions but one is
that of those before it times that of those after it.

The arms themselves decide how long a cell may be. An arm's *place* is the signed root of twice the
fall of its log density from the mode: the density is e^(-place^2 / 2) of its peak, whatever its
form. No arm's place may change by more than a stride, so that no narrow peak is stepped over, and
the last coefficients of the polynomials must be small.
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
    base_of,
    bends,
    bends_within,
    exp,
    factors,
    heights,
)
from mixts.families._kernels.roots import SUMS

NEGLIGIBLE = 1e-16
"""A component of less weight changes no probability that a double can hold beside one."""

DEPTH = 39.0
"""Beyond a fall of the log density by this lies at most e^-39 = 1e-17 of the mass: left out."""

_CORE, _TAIL = 4.0, 1 / 3
"""Places are compressed where densities are below e^-8 of the peak: cells may be longer there."""

END = _CORE + _TAIL * (math.sqrt(2.0 * DEPTH) - _CORE)
"""The place at which an arm is left behind."""

SOME_MASS = 1e-14
"""Smaller distribution functions have lost their digits."""

FINE = 1e-3
"""Cells of a smaller stride are not halved: their roughness is rounding."""

_GROWTH = 8.0
"""A cell may be this much longer than the last, when a narrow peak has been left behind."""

OFF = 2e-11
"""Cells are made shorter where the probabilities of all arms differ from their sum by more."""

_GOOD = 1e-14
"""Where they differ by less, the error says nothing about how long the next cell may be."""

N_CELLS = 4000
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


class Work(NamedTuple):
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


class Line(NamedTuple):
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


NODES, _WEIGHTS, _LANES = _rule()


@compiled(inner=True)
def new_work(n_arms: int, n_nodes: int, wants_best: bool, center: Array) -> Work:
    """Allocate the scratch arrays."""
    x = np.empty((4, N_NODES + 1))
    nodes = np.empty((3, n_arms, n_nodes))
    n_joint = n_arms if len(center) > 0 else 0
    more = np.empty((2, n_joint, n_nodes))
    return Work(
        np.empty(n_arms, _ARM), np.empty(n_arms, np.int64), x[0], x[1], x[2, :N_NODES],
        nodes[0], nodes[1], nodes[2], x[3], np.empty(1 if wants_best else 0),
        np.empty((n_joint, _N_LANES)), more[0], more[1],
        np.empty((n_joint, n_joint), center.dtype),
        np.empty((n_arms, _N_LANES)),
    )  # fmt: skip


@compiled(inner=True)
def place_of(fallen: float, x: float) -> float:
    """Return the place at x from the mode, where the log density has fallen so far."""
    root = math.sqrt(2.0 * max(fallen, 0.0))
    root = min(root, _CORE + _TAIL * (root - _CORE))
    return root if x > 0 else -root


@compiled()
def _lay_out(side: int, width: float, x: Array) -> None:
    """Set x to the nodes, from left to right, and the other edge, all seen from the base."""
    for j in range(N_NODES):
        x[j] = width * NODES[j] if side == FROM_LEFT else -width * NODES[N_NODES - 1 - j]
    x[N_NODES] = width if side == FROM_LEFT else -width


@compiled()
def _describe(form: int, side: int, edge: float, far: float, n: int, work: Work) -> float:
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
        place = place_of(arm.peak - level, far - mode)
        longest = max(longest, abs(place - arm.place))
        arm.linear, arm.bent, arm.fixed = linear, bent, near if base == edge else level
        arm.next_level, arm.next_place = level, place
    return longest


@compiled(fastmath={"contract"})
def _evaluate(n: int, sign: int, width: float, work: Work) -> float:
    """Compute densities at the nodes and their lanes; return the largest last coefficients.

    To the left only the lanes after those of the nodes are set: no products are wanted there.
    """
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
        if sign > 0:
            set_lanes(width, f, sums)
        else:
            for j in range(_MASS, _N_LANES):
                sums[j] = 0.0
            for m in range(size):
                part = f[m] * width
                for j in range(_MASS, _N_LANES):
                    sums[j] += _LANES[m, j] * part
        roughness = max(roughness, abs(sums[_LAST]) + abs(sums[_LAST_BUT_ONE]))
    return roughness


@compiled(inner=True, fastmath={"contract"})
def set_lanes(width: float, f: Array, sums: Array) -> float:
    """Set the lanes of one density; return the size of its last coefficients."""
    for j in range(_N_LANES):
        sums[j] = 0.0
    for m in range(0, N_NODES, 4):
        f0, f1, f2, f3 = f[m] * width, f[m + 1] * width, f[m + 2] * width, f[m + 3] * width
        for j in range(_N_LANES):
            sums[j] += (_LANES[m, j] * f0 + _LANES[m + 1, j] * f1) + (
                _LANES[m + 2, j] * f2 + _LANES[m + 3, j] * f3
            )
    return abs(sums[_LAST]) + abs(sums[_LAST_BUT_ONE])


@compiled(inner=True)
def set_slopes(n: int, width: float, work: Work) -> float:
    """Set the distribution functions, their products before each arm, and the slope of all of them.

    The slope is in ``bend``.

    Returns how far the integral of the slope is from the change of the product between the edges.
    """
    size = work.density.shape[1]
    # Arm by arm: (F G)' = F' G + F G'. No division is needed.
    product, slope = work.product, work.bend
    for j in range(size):
        product[j], slope[j] = 1.0, 0.0
    near, far = 1.0, 1.0
    for k in range(n):
        cdf, f, mass = work.lanes[k], work.density[k], work.arms[work.alive[k]].below
        before = work.before[k]
        near *= mass
        far *= mass + cdf[_MASS]
        for j in range(size):
            cdf[j] += mass
            before[j] = product[j]
            slope[j] = slope[j] * cdf[j] + product[j] * f[j]
            product[j] *= cdf[j]
    total = 0.0
    for j in range(size):
        total += _WEIGHTS[j] * slope[j]
    return abs(width * total - (far - near))


@compiled(inner=True)
def add_wins(n: int, width: float, work: Work) -> None:
    """Add a cell to every arm's probability of being best, node by node, and to the best mean."""
    size = work.density.shape[1]
    product = work.product
    if len(work.gain) > 0:
        total = 0.0
        for j in range(size):
            total += _WEIGHTS[j] * work.bend[j] * work.height[j]
        work.gain[0] += width * total
    for j in range(size):
        product[j] = width * _WEIGHTS[j]
    for k in range(n - 1, -1, -1):
        cdf, before = work.lanes[k], work.before[k]
        f, won = work.density[k], work.won[work.alive[k]]
        for j in range(size):
            won[j] += f[j] * before[j] * product[j]
            product[j] *= cdf[j]


# -- what the best arm says about the others: compiled only where it is wanted ---------------------


@compiled(fastmath={"contract"})
def _add_moments(n: int, width: float, work: Work) -> None:
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
def _add_products(n: int, width: float, work: Work) -> None:
    """Add a cell to E[mean of an arm - its center; another is best]."""
    size = work.density.shape[1]
    product, height = work.product, work.height
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
            given = (arm.moment + moments[j]) / cdf[j] if cdf[j] > SOME_MASS else here
            trend[j] = given - arm.drift
    for b in range(n):
        i, wins = work.alive[b], work.wins[b]
        total, own = 0.0, 0.0
        for j in range(size):
            total += wins[j]
            own += wins[j] * (height[j] - work.arms[i].center - work.arms[i].drift)
        if total <= NEGLIGIBLE:
            continue
        work.joint[i, i] += own
        for a in range(n):
            if a != b:
                trend, sum_ = work.trend[a], 0.0
                for j in range(size):
                    sum_ += trend[j] * wins[j]
                work.joint[work.alive[a], i] += sum_


def add_joint(n: Any, sign: Any, width: Any, work: Any) -> Any:
    """Add a cell to the joint moments, if ``work.joint`` has numbers for them."""
    raise NotImplementedError("compiled code only")


@overload(add_joint)
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


@compiled(inner=True)
def step(n: int, sign: int, work: Work) -> tuple[int, float]:
    """Move all arms to the far edge; return how many of them go on, and their largest stride."""
    left = 0
    longest = 0.0
    for k in range(n):
        i = work.alive[k]
        arm = work.arms[i]
        stride = abs(arm.next_place - arm.place)
        arm.below += work.lanes[k, _MASS]
        arm.level, arm.place = arm.next_level, arm.next_place
        if sign * arm.place < END:
            work.alive[left] = i
            left += 1
            longest = max(longest, stride)
    return left, longest


@compiled(inner=True)
def pace(off: float) -> float:
    """Return how much longer the next cell may be, where the last one was off by so much.

    A cell may be much longer than the last when a narrow peak has been left behind. Gauss's rule
    with 16 nodes has an error of order 32; in practice it grows a little more slowly.
    """
    return max(0.3, 0.95 * (OFF / off) ** (1 / 24)) if off > _GOOD else _GROWTH


@compiled(inner=True)
def march(line: Line, sign: int, n: int, stride: float, roughest: float, work: Work) -> None:
    """March from the start to the left or the right until the last of n arms has ended.

    Add to the arms' masses and, to the right, to their probabilities of being best.
    """
    form, origin = line.form, line.origin
    sharpest = 0.0
    for k in range(n):
        sharpest = max(sharpest, work.arms[work.alive[k]].curvature)
    edge, length = line.start, sign * stride / math.sqrt(sharpest)
    for _ in range(N_CELLS):
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
        found = _evaluate(n, sign, width, work)
        if not found <= roughest and longest > FINE:
            length *= 0.5
            continue
        if len(work.gain) > 0 and (sign > 0 or len(work.joint) > 0):
            base = low if side == FROM_LEFT else high
            heights(form, origin, base, work.x, work.height)
        off = 0.0
        if sign > 0:
            off = set_slopes(n, width, work)
            if off > OFF and longest > FINE:
                length *= pace(off)
                continue
            add_wins(n, width, work)
        add_joint(n, sign, width, work)
        n, longest = step(n, sign, work)
        edge = far
        length *= min(pace(off), 0.97 * stride / max(longest, FINE))
