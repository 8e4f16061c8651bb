"""Compiled loops of counts: sums over tasks that share a value, and probabilities of counts."""

from __future__ import annotations

import math

from mixts._compiled import compiled
from mixts._typing import Array
from mixts.families._kernels.arms import log_rising


@compiled()
def look_up(index: Array, table: Array, out: Array) -> None:
    """Add the table's rows (entries, L) that task i points to, to out[i]."""
    for i in range(len(index)):
        for c in range(index.shape[1]):
            u = index[i, c]
            if u >= 0:
                for s in range(table.shape[1]):
                    out[i, s] += table[u, s]


@compiled()
def add_up(index: Array, share: Array, out: Array) -> None:
    """Add the shares (L,) of every task that points to entry u, to out[u]."""
    for i in range(len(index)):
        for c in range(index.shape[1]):
            u = index[i, c]
            if u >= 0:
                for s in range(out.shape[1]):
                    out[u, s] += share[i, s]


@compiled()
def add_up_totals(index: Array, share: Array, values: Array, out: Array) -> None:
    """Add each share times the task's value in that column, to out[u]."""
    for i in range(len(index)):
        for c in range(index.shape[1]):
            u = index[i, c]
            if u >= 0:
                for s in range(out.shape[1]):
                    out[u, s] += share[i, s] * values[i, c]


# -- ln G and its derivatives ---------------------------------------------------------------------

_LARGE = 8.0
"""From here on the asymptotic series below have full precision."""


@compiled()
def digamma(x: float) -> float:
    """Compute the derivative of ln G, shifted to where the asymptotic series holds."""
    shift = 0.0
    while x < _LARGE:
        shift -= 1.0 / x
        x += 1.0
    y = 1.0 / (x * x)
    series = y * (
        1 / 12 - y * (1 / 120 - y * (1 / 252 - y * (1 / 240 - y * (1 / 132 - y * 691 / 32760))))
    )
    return shift + math.log(x) - 0.5 / x - series


@compiled()
def trigamma(x: float) -> float:
    """Compute the second derivative of ln G."""
    shift = 0.0
    while x < _LARGE:
        shift += 1.0 / (x * x)
        x += 1.0
    y = 1.0 / (x * x)
    series = 1 / 6 - y * (1 / 30 - y * (1 / 42 - y * (1 / 30 - y * (5 / 66 - y * 691 / 2730))))
    return shift + 1.0 / x + 0.5 * y + series * y / x


@compiled()
def rising_sums(
    column: Array, value: Array, shares: Array, start: Array, derivatives: bool, out: Array
) -> None:
    """Sum share (f(a + u) - f(a)) over each column's entries, for f = ln G, psi and psi'.

    ``start`` (columns, L) holds a. The sums are added to ``out`` (3, columns, L); without
    ``derivatives`` only to its first entry.
    """
    for s in range(start.shape[1]):
        last = -1
        base, slope, bend = 0.0, 0.0, 0.0
        for u in range(len(value)):
            c = column[u]
            a = start[c, s]
            if c != last:
                last = c
                base = math.lgamma(a)
                if derivatives:
                    slope, bend = digamma(a), trigamma(a)
            r = shares[u, s]
            if r == 0.0:
                continue
            out[0, c, s] += r * (math.lgamma(a + value[u]) - base)
            if derivatives:
                out[1, c, s] += r * (digamma(a + value[u]) - slope)
                out[2, c, s] += r * (trigamma(a + value[u]) - bend)


# Rescale a sum of terms relative to the first one at this size, long before it overflows.
_RESCALED = 1e250
_NEGLIGIBLE = 1e-17


@compiled()
def _sum_below(won: int, tried: int, a: float, b: float) -> float:
    """Compute ln of the sum of p(i) / p(won) over i < won; -inf for won = 0."""
    term, total, shift = 1.0, 0.0, 0.0
    concave = a >= 1.0 and b >= 1.0
    for i in range(won - 1, -1, -1):
        term *= (i + 1.0) / (tried - i) * (b + tried - i - 1.0) / (a + i)
        total += term
        if total > _RESCALED:
            term, total, shift = term / _RESCALED, total / _RESCALED, shift + math.log(_RESCALED)
        # Small terms of a log-concave distribution never grow again.
        if concave and term < _NEGLIGIBLE * total:
            break
    return math.log(total) + shift


@compiled()
def predict_counts(
    won: Array, tried: Array, alpha: Array, beta: Array, log_mass: Array, below: Array, at: Array
) -> None:
    """Compute beta-binomial probabilities of ``won`` out of ``tried``, (m,), for L components.

    Writes ln p(won), p(less than won) and p(won), (m, L) each. A parameter of zero makes outcomes
    of that side impossible.
    """
    for i in range(len(won)):
        w, n = won[i], tried[i]
        orders = log_rising(1.0, n) - log_rising(1.0, w) - log_rising(1.0, n - w)
        for s in range(alpha.shape[1]):
            a, b = alpha[i, s], beta[i, s]
            if a == 0.0 or b == 0.0:
                sure = (a > 0.0 and w == n) or (b > 0.0 and w == 0)
                log_mass[i, s] = 0.0 if sure else -math.inf
                at[i, s] = 1.0 if sure else 0.0
                below[i, s] = 1.0 if b > 0.0 and not sure else 0.0
                continue
            log = orders + log_rising(a, w) + log_rising(b, n - w) - log_rising(a + b, n)
            log_mass[i, s], at[i, s] = log, math.exp(min(log, 0.0))
            # Sum the shorter side.
            if 2 * w <= n:
                below[i, s] = math.exp(log + _sum_below(w, n, a, b))
            else:
                above = math.exp(log + _sum_below(n - w, n, b, a))
                below[i, s] = max(0.0, 1.0 - at[i, s] - above)
