"""Densities of an arm's mean in a coordinate where they are smooth, for compiled loops.

Which arm is best does not change when all means are mapped by one increasing function. The forms
below are mapped to the whole line, where their densities are log-concave. Seen from a base point,
densities of one form differ by three numbers only,

    ln f(base + x) = level + linear x + bent bend(x)

and share the bend, so that a density costs one exponential. The base is the edge of a cell from
which nothing large has to be subtracted: a density with 1e8 observations keeps twelve digits.

The exponentials and logarithms here are plain arithmetic, so that loops of them are vectorised.
They are right to the last digits. They do not check for NaN and infinity.
"""

from __future__ import annotations

import math

import numpy as np

from mixts._compiled import compiled
from mixts._typing import Array
from mixts.families._kernels.arms import stirling_rest
from mixts.families._kernels.roots import LOG_2PI

NORMAL = 0
"""Normal with mean a and variance b: ln f(t) = -(t - a)^2 / (2 b) + constant."""
LOGIT_BETA = 1
"""Logit of a Beta(a, b) variable: -a ln(1 + e^-t) - b ln(1 + e^t)."""
LOG_GAMMA = 2
"""Logarithm of a Gamma variable of shape a and rate b: a t - b e^t."""
MINUS_LOG_GAMMA = 3
"""Logarithm of an inverse Gamma variable: -a t - b e^-t."""

FROM_LEFT, FROM_RIGHT = 0, 1
"""The base of a cell is its left edge or its right one."""

X, BEND, PRODUCT, HEIGHT, GAIN = range(5)
"""Rows of the array ``cell``:

- nodes seen from the base of the cell, then the edge that is not the base;
- bend(x), later the slope of the product of all distribution functions;
- products of distribution functions;
- the mean at each node, minus the mean at the origin;
- first, E[best mean] so far, minus the mean at the origin.
"""

_STIRLING_FROM = 10.0
"""From this argument on, a short series gives the remainder of Stirling's formula."""

_LONG = 700.0
"""From about this x on, e^x overflows, and e^-x is negligible beside one."""

_CORNER = 3.0
"""In a cell of twice this length, 16 nodes still resolve the bend of the logit."""


_LEAST = -700.0
"""Smaller arguments of the exponential are raised to this one."""
_LOG2_E = 1 / math.log(2)
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
"""ln 2 in two parts, the first with so few digits that its product with 1000 is exact."""

_SHIFT = 1.5 * 2.0**52
"""Adding this rounds a number to an integer, which is then in the last bits."""

_SERIES = tuple(1 / math.factorial(i) for i in range(13))
"""Taylor series of e^r; the rest is below 2e-16 for |r| <= ln(2) / 2."""

_ROOT = int(np.float64(math.sqrt(0.5)).view(np.int64))
_FRACTION = (1 << 52) - 1
_ODD = tuple(2 / (2 * i + 1) for i in range(11))
"""Series of ln((1 + s) / (1 - s)) / s in s^2; the rest is below 1e-17 for |s| <= 0.172."""


@compiled(borrows=True, fastmath={"contract"})
def _parts(x: float) -> tuple[float, float]:
    """Return 2^k and e^r - 1 for x = k ln 2 + r."""
    x = x if x > _LEAST else _LEAST
    shifted = x * _LOG2_E + _SHIFT
    k = shifted - _SHIFT
    r = (x - k * _LN2_HIGH) - k * _LN2_LOW
    p = (_SERIES[12] * r + _SERIES[11]) * r + _SERIES[10]
    p = ((p * r + _SERIES[9]) * r + _SERIES[8]) * r + _SERIES[7]
    p = ((p * r + _SERIES[6]) * r + _SERIES[5]) * r + _SERIES[4]
    p = ((p * r + _SERIES[3]) * r + _SERIES[2]) * (r * r) + r
    bits = (np.float64(shifted).view(np.int64) + 1023) << 52
    return np.int64(bits).view(np.float64), p


@compiled(inner=True, borrows=True, fastmath={"contract"})
def exp(x: float) -> float:
    """Return e^x for x up to 700, and e^-700 below -700."""
    power, rest = _parts(x)
    return power * rest + power


@compiled(inner=True, borrows=True, fastmath={"contract"})
def expm1(x: float) -> float:
    """Return e^x - 1 for x up to 700."""
    power, rest = _parts(x)
    return power * rest + (power - 1.0)


@compiled(inner=True, borrows=True, fastmath={"contract"})
def log1p(x: float) -> float:
    """Return ln(1 + x) for x above -1."""
    y = 1.0 + x
    lost = (x - (y - 1.0)) / y
    # y = 2^k m with m between the roots of 1/2 and 2.
    bits = np.float64(y).view(np.int64) - _ROOT
    k = np.float64(bits >> 52)
    m = np.int64((bits & _FRACTION) + _ROOT).view(np.float64)
    s = (m - 1.0) / (m + 1.0)
    z = s * s
    p = (_ODD[10] * z + _ODD[9]) * z + _ODD[8]
    p = ((p * z + _ODD[7]) * z + _ODD[6]) * z + _ODD[5]
    p = ((p * z + _ODD[4]) * z + _ODD[3]) * z + _ODD[2]
    p = (p * z + _ODD[1]) * z
    return (k * _LN2_HIGH + (p * s + (k * _LN2_LOW + lost))) + 2.0 * s


@compiled(borrows=True)
def _stirling_rest(x: float) -> float:
    """Return ln Gamma(x) - (x - 1/2) ln x + x - ln(2 pi) / 2."""
    if x >= _STIRLING_FROM:
        return stirling_rest(x)
    return math.lgamma(x) - (x - 0.5) * math.log(x) + x - 0.5 * LOG_2PI


@compiled(inner=True, borrows=True)
def mode_of(form: int, a: float, b: float) -> tuple[float, float]:
    """Return the mode, and the curvature of the log density there."""
    if form == NORMAL:
        return a, 1.0 / b
    mode = math.log(a / b)
    if form == LOGIT_BETA:
        return mode, a / (a + b) * b
    return (mode if form == LOG_GAMMA else -mode), a


@compiled(inner=True, borrows=True)
def stirling_rests(form: int, a: float, b: float) -> float:
    """Return how much lower the log density is at its mode than a normal one of its curvature.

    There, only the remainders of Stirling's formula are left of the gamma functions.
    """
    if form == NORMAL:
        return 0.0
    rest = _stirling_rest(a)
    return rest + _stirling_rest(b) - _stirling_rest(a + b) if form == LOGIT_BETA else rest


@compiled(inner=True, borrows=True)
def peak_of(form: int, a: float, b: float) -> tuple[float, float, float]:
    """Return the mode, and the curvature and value of the log density there."""
    mode, curvature = mode_of(form, a, b)
    return mode, curvature, 0.5 * (math.log(curvature) - LOG_2PI) - stirling_rests(form, a, b)


@compiled(inner=True, borrows=True)
def fall(form: int, a: float, b: float, curvature: float, x: float) -> tuple[float, float]:
    """Return how far the log density has fallen at distance x from its mode, and its slope there.

    As for every log-concave density, at most e^-fall of the mass lies beyond such a point.
    """
    if form == NORMAL:
        return 0.5 * curvature * x * x, curvature * abs(x)
    if form == LOGIT_BETA:
        # To the left a |x| + n ln(b / n + a / n e^-|x|), to the right the same with a and b
        # exchanged: written so that the logarithm is of one plus something small.
        tail, other = (a, b) if x < 0 else (b, a)
        distance, n = abs(x), a + b
        lost = math.expm1(-distance)
        steep = curvature * n * -lost / (other + tail * math.exp(-distance))
        if tail <= other:
            return tail * distance + n * math.log1p(tail / n * lost), steep
        if distance < _LONG:
            return n * math.log1p(other / n * math.expm1(distance)) - other * distance, steep
        return tail * distance + n * math.log(other / n), steep
    y = x if form == LOG_GAMMA else -x
    growth = math.expm1(y)
    return a * (growth - y), a * abs(growth)


@compiled(inner=True, borrows=True)
def tail_distance(form: int, curvature: float, depth: float) -> float:
    """Return about how far left of the mode the log density has fallen by ``depth``."""
    distance = math.sqrt(2.0 * depth / curvature)
    if form != MINUS_LOG_GAMMA:
        return distance
    # There the density of an inverse Gamma variable falls like e^-e^|x|.
    nearer = math.log1p(depth / curvature)
    return nearer if nearer < distance else distance


@compiled(inner=True, borrows=True)
def bends_within(form: int, low: float, high: float) -> bool:
    """Return whether the bend at zero, some units wide, looks like a corner in so long a cell."""
    return form == LOGIT_BETA and low < -_CORNER and high > _CORNER


@compiled(inner=True, borrows=True)
def base_of(form: int, low: float, high: float) -> tuple[int, float]:
    """Return which edge of a cell is the base, and the constant of its bend."""
    if form == LOGIT_BETA:
        if low + high > 0.0:
            return FROM_LEFT, 1.0 / (1.0 + math.exp(low))
        return FROM_RIGHT, 1.0 / (1.0 + math.exp(-high))
    return (FROM_RIGHT, 0.0) if form == LOG_GAMMA else (FROM_LEFT, 0.0)


@compiled(inner=True, borrows=True)
def bends(form: int, constant: float, size: int, cell: Array) -> None:
    """Set bend(x) at distances x from the base, all to one side of it."""
    # A loop each: with one for all, the compiler does not vectorise.
    if form == NORMAL:
        for j in range(size):
            cell[BEND, j] = -0.5 * cell[X, j] * cell[X, j]
        return
    for j in range(size):
        cell[BEND, j] = -expm1(-abs(cell[X, j]))
    if form == LOGIT_BETA:
        for j in range(size):
            cell[BEND, j] = -log1p(-constant * cell[BEND, j])


@compiled(inner=True, borrows=True)
def factors(
    form: int, side: int, a: float, b: float, curvature: float, gap: float
) -> tuple[float, float]:
    """Return ``linear`` and ``bent`` of a density whose mode is ``gap`` to the left of the base."""
    if form == NORMAL:
        return -curvature * gap, curvature
    if form == LOGIT_BETA:
        return (-b if side == FROM_LEFT else a), a + b
    if form == LOG_GAMMA:
        return a, a * math.exp(gap)
    return -a, a * math.exp(-gap)


# -- from the coordinate back to the mean ---------------------------------------------------------


@compiled(inner=True, borrows=True)
def height_at(form: int, t: float) -> float:
    """Return the mean at a point of the line."""
    if form == NORMAL:
        return t
    if form == LOGIT_BETA:
        return 1.0 / (1.0 + math.exp(-t)) if t > -_LONG else math.exp(t)
    return math.exp(t)


@compiled(inner=True, borrows=True)
def heights(form: int, origin: float, base: float, cell: Array) -> None:
    """Set the mean at the nodes, origin + base + x, minus the mean at the origin."""
    size = cell.shape[1] - 4
    if form == NORMAL:
        for j in range(size):
            cell[HEIGHT, j] = base + cell[X, j]
        return
    here = height_at(form, origin)
    for j in range(size):
        x = base + cell[X, j]
        cell[HEIGHT, j] = here * expm1(x if x < _LONG else _LONG)
    if form == LOGIT_BETA:
        for j in range(size):
            cell[HEIGHT, j] *= (1.0 - here) / (1.0 + cell[HEIGHT, j])


@compiled(inner=True, borrows=True)
def mean_of(form: int, a: float, b: float) -> float:
    """Return the expectation of a mean with these parameters."""
    if form == NORMAL:
        return a
    if form == LOGIT_BETA:
        return a / (a + b)
    if form == LOG_GAMMA:
        return a / b
    return b / (a - 1.0) if a > 1.0 else np.inf
