"""Exponentials and logarithms in plain arithmetic: loops of them are vectorised.

All are right to the last digits. Arguments are not checked: NaN and infinity are the caller's.
"""

from __future__ import annotations

import math

import numpy as np

from mixts._compiled import compiled

_LEAST = -700.0
_LOG2_E = 1 / math.log(2)
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
"""ln 2 in two parts, the first with so few digits that its product with 1000 is exact."""

_SHIFT = 1.5 * 2.0**52
"""Added to a number, it rounds it to a whole one, which then is in the last bits."""

_SERIES = tuple(1 / math.factorial(i) for i in range(13))
"""Of e^r, below 2e-16 after these for |r| <= ln(2) / 2."""

_ROOT = int(np.float64(math.sqrt(0.5)).view(np.int64))
_FRACTION = (1 << 52) - 1
_ODD = tuple(2 / (2 * i + 1) for i in range(11))
"""Of ln((1 + s) / (1 - s)) / s, below 1e-17 after these for |s| <= 0.172."""


@compiled(fastmath={"contract"})
def _parts(x: float) -> tuple[float, float]:
    """2^k and e^r - 1, of which x is the logarithm: x = k ln 2 + r."""
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


@compiled(fastmath={"contract"})
def exp(x: float) -> float:
    """e^x for x up to 700; e^-700 below -700."""
    power, rest = _parts(x)
    return power * rest + power


@compiled(fastmath={"contract"})
def expm1(x: float) -> float:
    """e^x - 1 for x up to 700."""
    power, rest = _parts(x)
    return power * rest + (power - 1.0)


@compiled(fastmath={"contract"})
def log1p(x: float) -> float:
    """ln(1 + x) for x above -1."""
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
