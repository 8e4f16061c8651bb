"""Integrals of products of densities and distribution functions, cell by cell.

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
from typing import NamedTuple

import numpy as np

from mixts._compiled import compiled
from mixts._typing import Array
from mixts.families._kernels.densities import (
    BEND,
    FROM_LEFT,
    GAIN,
    HEIGHT,
    PRODUCT,
    X,
    base_of,
    bends,
    bends_within,
    exp,
    factors,
    heights,
)

Arrays = tuple[Array, ...]

NEGLIGIBLE = 1e-16
"""A component of less weight changes no probability that a double can hold beside one."""

DEPTH = 39.0
"""Beyond a fall of the log density by this lies at most e^-39 = 1e-17 of the mass: left out."""

_CORE, _TAIL = 4.0, 1 / 3
"""Places are compressed where densities are below e^-8 of the peak: cells may be longer there."""

END = _CORE + _TAIL * (math.sqrt(2.0 * DEPTH) - _CORE)
"""The place at which an arm is left behind."""

FINE = 1e-3
"""Cells of a smaller stride are not halved: their roughness is rounding."""

_GROWTH = 8.0
"""A cell may be this much longer than the last, when a narrow peak has been left behind."""

OFF = 2e-11
"""Cells are made shorter where the probabilities of all arms differ from their sum by more."""

_GOOD = 1e-14
"""Where they differ by less, the error says nothing about how long the next cell may be."""

N_CELLS = 4000
"""No integral has more cells: about ten are usual, and a hundred for parameters of 1e-100."""

N_NODES = 16
N_LANES = N_NODES + 4
MASS, LAST, LAST_BUT_ONE = N_NODES, N_NODES + 1, N_NODES + 2
"""Lanes after those of the nodes: the whole integral, the last two Legendre coefficients."""

ARM = np.dtype(
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
    ]
)  # fmt: skip
"""The numbers that an integral keeps of an arm."""


DENSITY, BEFORE, WON, LANES = range(4)
"""Parts of ``Work.rows``: densities at the nodes; products of the distribution functions of the
arms before; each node's part of P(arm is best), where row i is arm i; integrals up to each node
(later the distribution function there), the whole integral, the last two Legendre coefficients."""


class Work(NamedTuple):
    """Scratch arrays of an integral, for K arms. They are few: each costs time to compile."""

    arms: Array
    """(K,) of ``ARM``."""
    alive: Array
    """(K,): the arms that are not left behind yet."""
    cell: Array
    """(5, lanes): numbers of the present cell, see ``X``."""
    rows: Array
    """(4, K, lanes): numbers of arms in the cell, see ``DENSITY``; row k is arm ``alive[k]``."""


def new_work(n_arms: int) -> Arrays:
    """Allocate the scratch arrays of ``Work``."""
    return (
        np.empty(n_arms, ARM),
        np.empty(n_arms, np.int64),
        np.zeros((5, N_LANES)),
        np.empty((4, n_arms, N_LANES)),
    )


class Line(NamedTuple):
    """The line on which arms are compared."""

    form: int
    """Form of the densities."""
    origin: float
    """Positions are measured from here."""
    start: float
    """Start of the integrals to both sides, relative to the origin."""


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
    lanes = np.zeros((N_NODES, N_LANES))
    lanes[:, :N_NODES] = values @ (legendre[:, 1:] - lower).T
    lanes[:, MASS] = weights
    lanes[:, LAST] = (2 * N_NODES - 1) * values[:, -1]
    lanes[:, LAST_BUT_ONE] = (2 * N_NODES - 3) * values[:, -2]
    return (nodes + 1) / 2, weights / 2, lanes / 2


NODES, _WEIGHTS, _SUMS = _rule()


@compiled(inner=True, borrows=True)
def place_of(fallen: float, x: float) -> float:
    """Return the place at x from the mode, where the log density has fallen so far."""
    root = math.sqrt(2.0 * fallen) if fallen > 0.0 else 0.0
    root = root if root < _CORE else _CORE + _TAIL * (root - _CORE)
    return root if x > 0 else -root


@compiled(borrows=True)
def _lay_out(form: int, origin: float, low: float, high: float, cell: Array) -> int:
    """Set x to the nodes, from left to right, and the other edge, all seen from the base; bend(x).

    Returns which edge is the base.
    """
    side, constant = base_of(form, origin + low, origin + high)
    for j in range(N_NODES):
        part = NODES[j] if side == FROM_LEFT else -NODES[N_NODES - 1 - j]
        cell[X, j] = (high - low) * part
    cell[X, N_NODES] = high - low if side == FROM_LEFT else low - high
    bends(form, constant, cell.shape[1] - 3, cell)
    return side


@compiled(borrows=True)
def _describe(form: int, side: int, edge: float, far: float, n: int, work: Work) -> float:
    """Describe the densities in the cell from ``edge`` to ``far``; return the largest stride."""
    arms, alive, x, bent_x = work.arms, work.alive, work.cell[X, N_NODES], work.cell[BEND, N_NODES]
    base = far if (edge < far) != (side == FROM_LEFT) else edge
    longest = 0.0
    for k in range(n):
        arm = arms[alive[k]]
        mode, near = arm.mode, arm.level
        linear, bent = factors(form, side, arm.first, arm.second, arm.curvature, base - mode)
        rise = linear * x + bent * bent_x
        level = near + (rise if base == edge else -rise)
        place = place_of(arm.peak - level, far - mode)
        stride = abs(place - arm.place)
        longest = stride if stride > longest else longest
        arm.linear, arm.bent, arm.fixed = linear, bent, near if base == edge else level
        arm.next_level, arm.next_place = level, place
    return longest


@compiled(borrows=True, fastmath={"contract"})
def _evaluate(n: int, sign: int, width: float, work: Work) -> float:
    """Compute densities at the nodes and their lanes; return the largest last coefficients.

    To the left only the lanes after those of the nodes are set: no products are wanted there.
    """
    arms, alive, cell, rows = work.arms, work.alive, work.cell, work.rows
    # Loops of a length that the compiler does not know are vectorised, others unrolled.
    size = cell.shape[1] - 4
    roughness = 0.0
    for k in range(n):
        arm = arms[alive[k]]
        linear, bent, fixed = arm.linear, arm.bent, arm.fixed
        for j in range(size):
            rows[DENSITY, k, j] = exp(linear * cell[X, j] + bent * cell[BEND, j] + fixed)
        if sign > 0:
            set_lanes(k, width, rows)
        else:
            for j in range(MASS, N_LANES):
                rows[LANES, k, j] = 0.0
            for m in range(size):
                part = rows[DENSITY, k, m] * width
                for j in range(MASS, N_LANES):
                    rows[LANES, k, j] += _SUMS[m, j] * part
        rough = abs(rows[LANES, k, LAST]) + abs(rows[LANES, k, LAST_BUT_ONE])
        roughness = rough if not rough <= roughness else roughness
    return roughness


@compiled(inner=True, borrows=True, fastmath={"contract"})
def set_lanes(k: int, width: float, rows: Array) -> None:
    """Set the lanes of a density."""
    for j in range(N_LANES):
        rows[LANES, k, j] = 0.0
    for m in range(0, N_NODES, 4):
        f0, f1 = rows[DENSITY, k, m] * width, rows[DENSITY, k, m + 1] * width
        f2, f3 = rows[DENSITY, k, m + 2] * width, rows[DENSITY, k, m + 3] * width
        for j in range(N_LANES):
            rows[LANES, k, j] += (_SUMS[m, j] * f0 + _SUMS[m + 1, j] * f1) + (
                _SUMS[m + 2, j] * f2 + _SUMS[m + 3, j] * f3
            )


@compiled(inner=True, borrows=True)
def set_slopes(n: int, width: float, work: Work) -> float:
    """Set the distribution functions, their products before each arm, and the slope of all of them.

    Returns how far the integral of the slope is from the change of the product between the edges.
    """
    arms, alive, cell, rows = work.arms, work.alive, work.cell, work.rows
    size = cell.shape[1] - 4
    # Arm by arm: (F G)' = F' G + F G'. No division is needed.
    for j in range(size):
        cell[PRODUCT, j], cell[BEND, j] = 1.0, 0.0
    near, far = 1.0, 1.0
    for k in range(n):
        mass = arms[alive[k]].below
        near *= mass
        far *= mass + rows[LANES, k, MASS]
        for j in range(size):
            cdf, before = rows[LANES, k, j] + mass, cell[PRODUCT, j]
            rows[LANES, k, j] = cdf
            rows[BEFORE, k, j] = before
            cell[BEND, j] = cell[BEND, j] * cdf + before * rows[DENSITY, k, j]
            cell[PRODUCT, j] = before * cdf
    total = 0.0
    for j in range(size):
        total += _WEIGHTS[j] * cell[BEND, j]
    return abs(width * total - (far - near))


@compiled(inner=True, borrows=True)
def add_wins(n: int, width: float, work: Work) -> None:
    """Add a cell to every arm's probability of being best, node by node, and to the best mean."""
    alive, cell, rows = work.alive, work.cell, work.rows
    size = cell.shape[1] - 4
    total = 0.0
    for j in range(size):
        total += _WEIGHTS[j] * cell[BEND, j] * cell[HEIGHT, j]
        cell[PRODUCT, j] = width * _WEIGHTS[j]
    cell[GAIN, 0] += width * total
    for k in range(n - 1, -1, -1):
        i = alive[k]
        for j in range(size):
            after = cell[PRODUCT, j]
            rows[WON, i, j] += rows[DENSITY, k, j] * rows[BEFORE, k, j] * after
            cell[PRODUCT, j] = after * rows[LANES, k, j]


# -- from cell to cell -----------------------------------------------------------------------------


@compiled(inner=True, borrows=True)
def step(n: int, sign: int, work: Work) -> tuple[int, float]:
    """Move all arms to the far edge; return how many of them go on, and their largest stride."""
    left = 0
    longest = 0.0
    for k in range(n):
        i = work.alive[k]
        arm = work.arms[i]
        stride = abs(arm.next_place - arm.place)
        arm.below += work.rows[LANES, k, MASS]
        arm.level, arm.place = arm.next_level, arm.next_place
        if sign * arm.place < END:
            work.alive[left] = i
            left += 1
            longest = stride if stride > longest else longest
    return left, longest


@compiled(inner=True, borrows=True)
def growth_of(off: float) -> float:
    """Return how much longer the next cell may be, where the last one was off by so much.

    A cell may be much longer than the last when a narrow peak has been left behind. Gauss's rule
    with 16 nodes has an error of order 32; in practice it grows a little more slowly.
    """
    if off <= _GOOD:
        return _GROWTH
    longer = 0.95 * (OFF / off) ** (1 / 24)
    return longer if longer > 0.3 else 0.3


@compiled(inner=True, borrows=True)
def integrate_side(line: Line, sign: int, n: int, limits: tuple[float, float], work: Work) -> None:
    """Integrate from the start to the left or the right until the last of n arms has ended.

    Add to the arms' masses and, to the right, to their probabilities of being best. ``limits`` are
    the largest stride of a cell and its largest roughness.
    """
    form, origin = line.form, line.origin
    stride, roughest = limits
    sharpest = 0.0
    for k in range(n):
        curvature = work.arms[work.alive[k]].curvature
        sharpest = curvature if curvature > sharpest else sharpest
    edge, length = line.start, sign * stride / math.sqrt(sharpest)
    for _ in range(N_CELLS):
        if n == 0:
            return
        far = edge + length
        low, high = (edge, far) if sign > 0 else (far, edge)
        if bends_within(form, origin + low, origin + high):
            far = -origin
            length = far - edge
            low, high = (edge, far) if sign > 0 else (far, edge)
        side = _lay_out(form, origin, low, high, work.cell)
        longest = _describe(form, side, edge, far, n, work)
        if longest > stride:
            shorter = 0.97 * stride / longest
            length *= shorter if shorter > 0.1 else 0.1
            continue
        found = _evaluate(n, sign, high - low, work)
        if not found <= roughest and longest > FINE:
            length *= 0.5
            continue
        off = 0.0
        if sign > 0:
            heights(form, origin, low if side == FROM_LEFT else high, work.cell)
            off = set_slopes(n, high - low, work)
            if off > OFF and longest > FINE:
                length *= growth_of(off)
                continue
            add_wins(n, high - low, work)
        n, longest = step(n, sign, work)
        edge = far
        growth = 0.97 * stride / (longest if longest > FINE else FINE)
        length *= growth if growth < growth_of(off) else growth_of(off)
