"""Distributions of an arm's mean in a coordinate where they are smooth, for compiled loops.

Which arm is best does not change when all means are mapped by one increasing function. The forms
below are mapped to the whole line, where their densities are log-concave. Seen from a base point,
densities of one form differ by three numbers only,

    ln f(base + x) = level + linear x + bent bend(x)

and share the bend, so that a density costs one exponential. The base is the edge of a cell from
which nothing large has to be subtracted: a density with 1e8 observations keeps twelve digits.
"""

from __future__ import annotations

import math

from mixts._compiled import compiled
from mixts._typing import Array
from mixts.families._kernels.arms import stirling_rest
from mixts.families._kernels.elementary import expm1, log1p
from mixts.families._kernels.roots import LOG_2PI

NORMAL = 0
"""Of parameters mean and variance: ln f(t) = -(t - mean)^2 / (2 variance) + constant."""
LOGIT_BETA = 1
"""The logit of a Beta(a, b) variable: -a ln(1 + e^-t) - b ln(1 + e^t)."""
LOG_GAMMA = 2
"""The logarithm of a Gamma variable of shape a and rate b: a t - b e^t."""
MINUS_LOG_GAMMA = 3
"""The logarithm of an inverse Gamma variable: -a t - b e^-t."""

FROM_LEFT, FROM_RIGHT = 0, 1
"""Whether the base of a cell is its left edge or its right one."""

_SERIES = 10.0
"""From here on the remainder of Stirling's formula is a short series."""

_LONG = 700.0
"""From about here on e^x overflows, and e^-x is nothing beside one."""

_CORNER = 3.0
"""Twice as long is a cell in which 16 nodes still see the bend of the logit."""


@compiled()
def _stirling_rest(x: float) -> float:
    """ln Gamma(x) - (x - 1/2) ln x + x - ln(2 pi) / 2."""
    if x >= _SERIES:
        return stirling_rest(x)
    return math.lgamma(x) - (x - 0.5) * math.log(x) + x - 0.5 * LOG_2PI


@compiled()
def crest(form: int, a: float, b: float) -> tuple[float, float, float]:
    """The mode, and the curvature and value of the log density there.

    Of the gamma functions only the remainders of Stirling's formula are left at the mode.
    """
    if form == NORMAL:
        return a, 1.0 / b, -0.5 * (math.log(b) + LOG_2PI)
    mode = math.log(a / b)
    if form == LOGIT_BETA:
        curvature = a / (a + b) * b
        rest = _stirling_rest(a) + _stirling_rest(b) - _stirling_rest(a + b)
    else:
        curvature = a
        rest = _stirling_rest(a)
        if form == MINUS_LOG_GAMMA:
            mode = -mode
    return mode, curvature, 0.5 * (math.log(curvature) - LOG_2PI) - rest


@compiled()
def fall(form: int, a: float, b: float, curvature: float, x: float) -> tuple[float, float]:
    """How far the log density has fallen at x from its mode, and how steep it is there.

    Beyond such a point lies at most e^-fall of the mass, as for every log-concave density.
    """
    if form == NORMAL:
        return 0.5 * curvature * x * x, curvature * abs(x)
    if form == LOGIT_BETA:
        # To the left a |x| + n ln(b / n + a / n e^-|x|), to the right the same with a and b
        # exchanged: written so that the logarithm is of one plus something small.
        tail, other = (a, b) if x < 0 else (b, a)
        distance, n = abs(x), a + b
        decay = math.exp(-distance)
        steep = curvature * n * -math.expm1(-distance) / (other + tail * decay)
        if tail <= other:
            return tail * distance + n * math.log1p(tail / n * math.expm1(-distance)), steep
        if distance < _LONG:
            return n * math.log1p(other / n * math.expm1(distance)) - other * distance, steep
        return tail * distance + n * math.log(other / n), steep
    y = x if form == LOG_GAMMA else -x
    growth = math.expm1(y)
    return a * (growth - y), a * abs(growth)


@compiled()
def outskirts(form: int, curvature: float, depth: float) -> float:
    """About how far left of the mode the log density has fallen by ``depth``."""
    distance = math.sqrt(2.0 * depth / curvature)
    # There the density of an inverse Gamma variable falls like e^-e^|x|.
    return min(distance, math.log1p(depth / curvature)) if form == MINUS_LOG_GAMMA else distance


@compiled()
def bends_within(form: int, low: float, high: float) -> bool:
    """Whether a cell is so long that the bend at zero, some units wide, is a corner in it."""
    return form == LOGIT_BETA and low < -_CORNER and high > _CORNER


@compiled()
def base_of(form: int, low: float, high: float) -> tuple[int, float]:
    """Which edge of a cell is the base, and the constant of its bend."""
    if form == LOGIT_BETA:
        if low + high > 0.0:
            return FROM_LEFT, 1.0 / (1.0 + math.exp(low))
        return FROM_RIGHT, 1.0 / (1.0 + math.exp(-high))
    return (FROM_RIGHT, 0.0) if form == LOG_GAMMA else (FROM_LEFT, 0.0)


@compiled()
def bends(form: int, constant: float, x: Array, out: Array) -> None:
    """What the log densities of a form share at x from the base, all to one side of it."""
    # A loop each: with one for all, the compiler does not vectorise.
    size = len(x)
    if form == NORMAL:
        for j in range(size):
            out[j] = -0.5 * x[j] * x[j]
        return
    for j in range(size):
        out[j] = -expm1(-abs(x[j]))
    if form == LOGIT_BETA:
        for j in range(size):
            out[j] = -log1p(-constant * out[j])


@compiled()
def factors(
    form: int, side: int, a: float, b: float, curvature: float, gap: float
) -> tuple[float, float]:
    """``linear`` and ``bent`` of a density whose mode is ``gap`` to the left of the base."""
    if form == NORMAL:
        return -curvature * gap, curvature
    if form == LOGIT_BETA:
        return (-b if side == FROM_LEFT else a), a + b
    if form == LOG_GAMMA:
        return a, a * math.exp(gap)
    return -a, a * math.exp(-gap)
