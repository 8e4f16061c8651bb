"""P(an arm is the best of independent ones), by other means than the library's.

- `plain`: Gauss-Legendre rules between many quantiles of every arm, with scipy's distribution
  functions; for parameters that scipy is good at.
- `needles`: densities alone, in 30 digits and normalised by their own integral, for sharp
  distributions of any count, where scipy's functions have lost their digits.
- `first_of_two`: P(the first of two arms is best) in closed form, in 30 digits.

Distributions are named by the form that the library knows them by.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import mpmath
import numpy as np
from scipy import special

FORMS = ("normal", "logit-beta", "log-gamma", "minus-log-gamma")

_LEVELS = 10.0 ** -np.array([16, 13, 10, 8, 6, 4.5, 3, 2, 1.3, 0.8, 0.5])
_N_NODES = 20


# -- with scipy ------------------------------------------------------------------------------------


def _quantiles(form: str, a: Any, b: Any) -> Any:
    """Points of every arm on the whole line, (levels, arms), from both tails."""
    q = np.append(_LEVELS, 0.5)[:, None]
    if form == "normal":
        low, high = special.ndtri(q), -special.ndtri(q)
        return np.concatenate([low, high]) * np.sqrt(b) + a
    if form == "logit-beta":
        tails = [special.betaincinv(a, b, q), special.betaincinv(b, a, q)]
        low, high = (np.log(x) - np.log1p(-x) for x in tails)
        return np.concatenate([low, -high])
    points = np.concatenate([special.gammaincinv(a, q), special.gammainccinv(a, q)])
    return np.log(points / b) * (-1 if form == "minus-log-gamma" else 1)


def _log_density(form: str, a: Any, b: Any, t: Any) -> Any:
    if form == "normal":
        return -0.5 * ((t - a) ** 2 / b + np.log(2 * np.pi * b))
    if form == "logit-beta":
        return a * special.log_expit(t) + b * special.log_expit(-t) - special.betaln(a, b)
    t = -t if form == "minus-log-gamma" else t
    return a * (t + np.log(b)) - b * np.exp(t) - special.gammaln(a)


def _cdf(form: str, a: Any, b: Any, t: Any) -> Any:
    if form == "normal":
        return special.ndtr((t - a) / np.sqrt(b))
    if form == "logit-beta":
        above = special.betainc(b, a, special.expit(-t))
        return np.where(t < 0, special.betainc(a, b, special.expit(t)), 1 - above)
    if form == "log-gamma":
        return special.gammainc(a, b * np.exp(t))
    return special.gammaincc(a, b * np.exp(-t))


def plain(form: str, a: Any, b: Any) -> tuple[Any, float]:
    """The probabilities, and how far they are from summing to one."""
    edges = np.unique(_quantiles(form, a, b))
    nodes, weights = np.polynomial.legendre.leggauss(_N_NODES)
    half, centre = (edges[1:] - edges[:-1]) / 2, (edges[1:] + edges[:-1]) / 2
    t = (centre[:, None] + half[:, None] * nodes).reshape(-1, 1)
    below = np.log(np.maximum(_cdf(form, a, b, t), 1e-300))
    others = below.sum(axis=1, keepdims=True) - below
    density = np.exp(_log_density(form, a, b, t) + others)
    found = (half[:, None] * weights).ravel() @ density
    return found, abs(float(found.sum()) - 1)


# -- in 30 digits ----------------------------------------------------------------------------------


def _exact_log_density(form: str, a: Any, b: Any, t: Any) -> Any:
    if form == "normal":
        return -((t - a) ** 2) / (2 * b)
    if form == "logit-beta":
        return -a * mpmath.log1p(mpmath.exp(-t)) - b * mpmath.log1p(mpmath.exp(t))
    t = -t if form == "minus-log-gamma" else t
    return a * t - b * mpmath.exp(t)


def _mode_and_width(form: str, a: Any, b: Any) -> tuple[Any, Any]:
    if form == "normal":
        return a, mpmath.sqrt(b)
    mode = mpmath.log(a / b) * (-1 if form == "minus-log-gamma" else 1)
    return mode, 1 / mpmath.sqrt(a * b / (a + b) if form == "logit-beta" else a)


def _rule(n: int) -> list[tuple[Any, Any]]:
    """Gauss-Legendre on [0, 1]: doubles improved by Newton's method."""
    result = []
    for x in np.polynomial.legendre.leggauss(n)[0]:
        root = mpmath.findroot(lambda y: mpmath.legendre(n, y), mpmath.mpf(float(x)))
        slope = n * mpmath.legendre(n - 1, root) / (1 - root**2)
        result.append(((root + 1) / 2, 1 / ((1 - root**2) * slope**2)))
    return result


def needles(form: str, a: Any, b: Any) -> Any:
    """Probabilities of arms that are nearly normal: cells of one and a half widths, up to 12."""
    with mpmath.workdps(30):
        laws = [(mpmath.mpf(float(x)), mpmath.mpf(float(y))) for x, y in zip(a, b, strict=True)]
        shapes = [_mode_and_width(form, *law) for law in laws]
        peaks = [
            _exact_log_density(form, *law, at) for law, (at, _) in zip(laws, shapes, strict=True)
        ]
        edges = sorted({at + 1.5 * k * width for at, width in shapes for k in range(-8, 9)})
        rule = _rule(10)

        def density(i: int, t: Any) -> Any:
            return mpmath.exp(_exact_log_density(form, *laws[i], t) - peaks[i])

        def integral(i: int, low: Any, high: Any) -> Any:
            wide = high - low
            return wide * mpmath.fsum(w * density(i, low + wide * x) for x, w in rule)

        cells = list(pairwise(edges))
        arms = range(len(laws))
        masses = [[integral(i, *cell) for cell in cells] for i in arms]
        totals = [mpmath.fsum(row) for row in masses]
        below, won = [mpmath.mpf(0) for _ in arms], [mpmath.mpf(0) for _ in arms]
        for k, (low, high) in enumerate(cells):
            for x, w in rule:
                t = low + (high - low) * x
                cdf = [(below[i] + integral(i, low, t)) / totals[i] for i in arms]
                for i in arms:
                    others = mpmath.fprod(cdf[j] for j in arms if j != i)
                    won[i] += (high - low) * w * density(i, t) / totals[i] * others
            below = [below[i] + masses[i][k] for i in arms]
        return np.array([float(x) for x in won])


def first_of_two(form: str, a: Any, b: Any) -> float:
    """Closed forms; of Beta variables for a whole first parameter of the first arm."""
    with mpmath.workdps(30):
        (a1, a2), (b1, b2) = ([mpmath.mpf(float(x)) for x in pair] for pair in (a, b))
        if form == "normal":
            return float(mpmath.ncdf((a1 - a2) / mpmath.sqrt(b1 + b2)))
        if form == "logit-beta":
            terms = (
                mpmath.beta(a2 + i, b1 + b2) / ((b1 + i) * mpmath.beta(1 + i, b1))
                for i in range(int(a1))
            )
            return float(mpmath.fsum(terms) / mpmath.beta(a2, b2))
        # X / b1 > Y / b2 where X / (X + Y) is a Beta(a1, a2) variable.
        above = mpmath.betainc(a1, a2, b1 / (b1 + b2), 1, regularized=True)
        return float(above if form == "log-gamma" else 1 - above)
