"""Marches through cells: integrals of arms' densities, and of their products with the others.

In a cell, densities are taken at Gauss-Legendre nodes. The integral of the polynomial through them
is the distribution function at the nodes, and the product of all distribution functions but one is
that of those before it times that of those after it.

How long a cell may be is measured on the arms themselves. An arm's *place* is the signed root of
twice the fall of its log density from the mode: the density is e^(-place^2 / 2) of its peak,
whatever its form. No arm's place may change by more than a stride, so that no needle is stepped
over, and the last coefficients of the polynomials must be small.
"""

from __future__ import annotations

import math

import numpy as np

from mixts._compiled import compiled
from mixts._typing import Array
from mixts.families._kernels.elementary import exp
from mixts.families._kernels.marginals import FROM_LEFT, base_of, bends, bends_within, factors

DEPTH = 39.0
"""Beyond a fall of the log density by this lies at most e^-39 = 1e-17 of the mass: left out."""

_CORE, _TAIL = 4.0, 1 / 3
"""Places are compressed where densities are below e^-8 of the peak: cells may be longer there."""

END = _CORE + _TAIL * (math.sqrt(2.0 * DEPTH) - _CORE)
"""The place at which an arm is left behind."""

_FINE = 1e-3
"""Cells of a smaller stride are not halved: what is rough there is rounding."""

_GROWTH = 8.0
"""How much longer than the last a cell may be, when a needle has been left behind."""

_N_CELLS = 4000
"""No march has more: some ten is usual, and a hundred for parameters of 1e-100."""

N_NODES = 16
N_COLUMNS = N_NODES + 1
N_LANES = N_NODES + 4
_MASS, _LAST, _LAST_BUT_ONE = N_NODES, N_NODES + 1, N_NODES + 2

N_ROWS = 17
(
    ARM, FIRST, SECOND, MODE, CURVATURE, PEAK,  # an arm, its density
    START_LEVEL, START_PLACE,  # its log density and its place at the start
    LEVEL, PLACE, _NEXT_LEVEL, _NEXT_PLACE,  # at the edges of the present cell
    _LINEAR, _BENT, _FIXED,  # its density in the cell
    BELOW, SHARE,  # its mass so far, P(it is best)
) = range(N_ROWS)  # fmt: skip
"""The rows of ``arms``, (row, arm). ``alive`` has the arms that are still on the way."""

_DENSITY, _BEFORE, WON = 0, 1, 2
"""At the nodes, (3, arm, node): densities, products of the arms before, probabilities so far."""

_X, _BEND, _PRODUCT = 0, 1, 2
"""The grid, (3, node): what a cell's arms share. The last column is the edge that is no base."""


def _rule() -> tuple[Array, Array, Array]:
    """Nodes and weights on [0, 1], and sums of values at the nodes: (node, lane).

    Lanes are the integrals up to each node, the whole integral, and the last two coefficients of
    the Legendre series; unused ones fill a vector register. The integral of P_n from -1 is
    (P_{n+1} - P_{n-1}) / (2 n + 1).
    """
    nodes, weights = np.polynomial.legendre.leggauss(N_NODES)
    legendre = np.polynomial.legendre.legvander(nodes, N_NODES)
    lower = np.column_stack([-np.ones(N_NODES), legendre[:, : N_NODES - 1]])
    values = legendre[:, :N_NODES] * weights[:, None] / 2
    lanes = np.zeros((N_NODES, N_LANES))
    lanes[:, :N_NODES] = values @ (legendre[:, 1:] - lower).T
    lanes[:, _MASS] = weights
    lanes[:, _LAST] = (2 * N_NODES - 1) * values[:, -1]
    lanes[:, _LAST_BUT_ONE] = (2 * N_NODES - 3) * values[:, -2]
    return (nodes + 1) / 2, weights / 2, lanes / 2


_NODES, _WEIGHTS, _LANES = _rule()


@compiled()
def place_of(fallen: float, x: float) -> float:
    """The place at x from the mode, where the log density has fallen so far."""
    root = math.sqrt(2.0 * max(fallen, 0.0))
    root = min(root, _CORE + _TAIL * (root - _CORE))
    return root if x > 0 else -root


@compiled()
def _lay_out(side: int, width: float, x: Array) -> None:
    """The nodes from the base, and the other edge, from left to right but for the edge."""
    for j in range(N_NODES):
        x[j] = width * _NODES[j] if side == FROM_LEFT else -width * _NODES[N_NODES - 1 - j]
    x[N_NODES] = width if side == FROM_LEFT else -width


@compiled()
def _look(
    form: int, side: int, edge: float, far: float, grid: Array, arms: Array, alive: Array, n: int
) -> float:
    """Densities in the cell from ``edge`` to ``far``; the longest way of an arm's place."""
    x, bent_x = grid[_X, N_NODES], grid[_BEND, N_NODES]
    base = min(edge, far) if side == FROM_LEFT else max(edge, far)
    longest = 0.0
    for k in range(n):
        i = alive[k]
        a, b, curvature = arms[FIRST, i], arms[SECOND, i], arms[CURVATURE, i]
        linear, bent = factors(form, side, a, b, curvature, base - arms[MODE, i])
        rise = linear * x + bent * bent_x
        level = arms[LEVEL, i] + (rise if base == edge else -rise)
        place = place_of(arms[PEAK, i] - level, far - arms[MODE, i])
        arms[_LINEAR, i], arms[_BENT, i] = linear, bent
        arms[_FIXED, i] = arms[LEVEL, i] if base == edge else level
        arms[_NEXT_LEVEL, i], arms[_NEXT_PLACE, i] = level, place
        longest = max(longest, abs(place - arms[PLACE, i]))
    return longest


@compiled(fastmath={"contract"})
def _evaluate(
    arms: Array, alive: Array, n: int, width: float, grid: Array, density: Array, lanes: Array
) -> float:
    """Densities at the nodes, their sums, and how much of a mass the last coefficients hold."""
    # Loops of a length that the compiler does not know are vectorised, others unrolled.
    size = density.shape[1]
    x, bends = grid[_X], grid[_BEND]
    roughness = 0.0
    for k in range(n):
        i = alive[k]
        linear, bent, fixed = arms[_LINEAR, i], arms[_BENT, i], arms[_FIXED, i]
        f, sums = density[k], lanes[k]
        for j in range(size):
            f[j] = exp(linear * x[j] + bent * bends[j] + fixed)
        for j in range(N_LANES):
            sums[j] = 0.0
        for m in range(0, N_NODES, 4):
            f0, f1, f2, f3 = f[m] * width, f[m + 1] * width, f[m + 2] * width, f[m + 3] * width
            for j in range(N_LANES):
                sums[j] += (_LANES[m, j] * f0 + _LANES[m + 1, j] * f1) + (
                    _LANES[m + 2, j] * f2 + _LANES[m + 3, j] * f3
                )
        roughness = max(roughness, abs(sums[_LAST]) + abs(sums[_LAST_BUT_ONE]))
    return roughness


@compiled()
def _win(
    arms: Array, alive: Array, n: int, width: float, grid: Array, nodes: Array, lanes: Array
) -> None:
    """Add a cell to every arm's probability of being best, node by node."""
    size = nodes.shape[2]
    product = grid[_PRODUCT]
    for j in range(size):
        product[j] = 1.0
    for k in range(n):
        cdf, before, mass = lanes[k], nodes[_BEFORE, k], arms[BELOW, alive[k]]
        for j in range(size):
            before[j] = product[j]
            cdf[j] += mass
            product[j] *= cdf[j]
    for j in range(size):
        product[j] = width * _WEIGHTS[j]
    for k in range(n - 1, -1, -1):
        cdf, before, f, won = lanes[k], nodes[_BEFORE, k], nodes[_DENSITY, k], nodes[WON, alive[k]]
        for j in range(size):
            won[j] += f[j] * before[j] * product[j]
            product[j] *= cdf[j]


@compiled()
def _step(arms: Array, alive: Array, n: int, sign: int, lanes: Array) -> tuple[int, float]:
    """Go to the far edge: how many arms go on, and the longest way that one of them went."""
    left = 0
    longest = 0.0
    for k in range(n):
        i = alive[k]
        way = abs(arms[_NEXT_PLACE, i] - arms[PLACE, i])
        arms[BELOW, i] += lanes[k, _MASS]
        arms[LEVEL, i], arms[PLACE, i] = arms[_NEXT_LEVEL, i], arms[_NEXT_PLACE, i]
        if sign * arms[PLACE, i] < END:
            alive[left] = i
            left += 1
            longest = max(longest, way)
    return left, longest


@compiled()
def march(
    form: int, origin: float, start: float, sign: int, stride: float, roughest: float,
    arms: Array, alive: Array, n: int, grid: Array, nodes: Array, lanes: Array,
) -> None:  # fmt: skip
    """From the start to the left or to the right until the last of n arms is left behind.

    Adds to the arms' masses and, to the right, to their probabilities of being best.
    """
    sharpest = 0.0
    for k in range(n):
        sharpest = max(sharpest, arms[CURVATURE, alive[k]])
    edge, length = start, sign * stride / math.sqrt(sharpest)
    for _ in range(_N_CELLS):
        if n == 0:
            return
        far = edge + length
        if bends_within(form, origin + min(edge, far), origin + max(edge, far)):
            far = -origin
            length = far - edge
        low, high, width = min(edge, far), max(edge, far), abs(far - edge)
        side, constant = base_of(form, origin + low, origin + high)
        _lay_out(side, width, grid[_X])
        bends(form, constant, grid[_X], grid[_BEND])
        longest = _look(form, side, edge, far, grid, arms, alive, n)
        if longest > stride:
            length *= max(0.1, 0.97 * stride / longest)
            continue
        found = _evaluate(arms, alive, n, width, grid, nodes[_DENSITY], lanes)
        if not found <= roughest and longest > _FINE:
            length *= 0.5
            continue
        if sign > 0:
            _win(arms, alive, n, width, grid, nodes, lanes)
        n, longest = _step(arms, alive, n, sign, lanes)
        edge = far
        length *= min(_GROWTH, 0.97 * stride / max(longest, _FINE))
