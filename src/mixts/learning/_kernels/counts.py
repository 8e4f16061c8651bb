"""Compiled loops over counts: sums over tasks with the same count, and probabilities of counts.

Many tasks have the same counts, so functions of a count are computed once for each distinct count
and kept in a table. ``index`` (tasks, columns) points to rows of such tables; -1 stands for a count
of zero, which has no row.
"""

from __future__ import annotations

import math

from mixts._compiled import compiled
from mixts._typing import Array
from mixts.families._kernels.arms import log_rising


@compiled()
def look_up(index: Array, table: Array, out: Array) -> None:
    """Add to out[i], for each task i, the rows of ``table`` (rows, L) that the task points to."""
    for i in range(len(index)):
        for c in range(index.shape[1]):
            u = index[i, c]
            if u >= 0:
                for s in range(table.shape[1]):
                    out[i, s] += table[u, s]


@compiled()
def add_up(index: Array, share: Array, out: Array) -> None:
    """Add to out[u], for each row u, the shares (L,) of all tasks that point to the row."""
    for i in range(len(index)):
        for c in range(index.shape[1]):
            u = index[i, c]
            if u >= 0:
                for s in range(out.shape[1]):
                    out[u, s] += share[i, s]


@compiled()
def add_up_totals(index: Array, share: Array, values: Array, out: Array) -> None:
    """Do as ``add_up``, with each share multiplied by the task's entry of ``values``.

    ``values`` has the shape of ``index``.
    """
    for i in range(len(index)):
        for c in range(index.shape[1]):
            u = index[i, c]
            if u >= 0:
                for s in range(out.shape[1]):
                    out[u, s] += share[i, s] * values[i, c]


# -- the log of the gamma function G, and its derivatives -----------------------------------------

_LARGE = 8.0
"""The asymptotic series below have full precision for arguments of at least this."""


@compiled()
def digamma(x: float) -> float:
    """Compute psi, the derivative of ln G: by recurrence up to _LARGE, then by a series."""
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
    """Compute psi', the second derivative of ln G, in the same way."""
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
    """Add sum_u share_u (f(a + value_u) - f(a)) of each column to ``out``, for f = ln G, psi, psi'.

    Row u of the table belongs to column ``column[u]``; rows of a column follow each other.
    ``start`` (columns, L) holds a. ``out`` (3, columns, L) has the three functions on its first
    axis; without ``derivatives`` only ln G is summed.
    """
    for s in range(start.shape[1]):
        last = -1
        log_gamma_a, psi_a, psi_prime_a = 0.0, 0.0, 0.0
        for u in range(len(value)):
            c = column[u]
            a = start[c, s]
            if c != last:
                last = c
                log_gamma_a = math.lgamma(a)
                if derivatives:
                    psi_a, psi_prime_a = digamma(a), trigamma(a)
            share = shares[u, s]
            if share == 0.0:
                continue
            out[0, c, s] += share * (math.lgamma(a + value[u]) - log_gamma_a)
            if derivatives:
                out[1, c, s] += share * (digamma(a + value[u]) - psi_a)
                out[2, c, s] += share * (trigamma(a + value[u]) - psi_prime_a)


# -- beta-binomial probabilities ------------------------------------------------------------------

_LARGEST_SUM = 1e250
"""Divide a growing sum by this when it exceeds it, long before it overflows."""

_NEGLIGIBLE = 1e-17
"""Terms below this fraction of the sum change no digit of it."""


@compiled()
def _sum_below(won: int, tried: int, a: float, b: float) -> float:
    """Compute ln of the sum of p(i) / p(won) over i < won; -inf for won = 0."""
    term, total, shift = 1.0, 0.0, 0.0
    concave = a >= 1.0 and b >= 1.0
    for i in range(won - 1, -1, -1):
        term *= (i + 1.0) / (tried - i) * (b + tried - i - 1.0) / (a + i)
        total += term
        if total > _LARGEST_SUM:
            term, total = term / _LARGEST_SUM, total / _LARGEST_SUM
            shift += math.log(_LARGEST_SUM)
        # Beyond its mode a log-concave distribution only falls: later terms are negligible too.
        if concave and term < _NEGLIGIBLE * total:
            break
    return math.log(total) + shift


@compiled()
def predict_counts(
    won: Array, tried: Array, alpha: Array, beta: Array, log_mass: Array, below: Array, at: Array
) -> None:
    """Compute beta-binomial probabilities of ``won`` out of ``tried``, (m,), for L components.

    Write ln p(won) to ``log_mass``, p(less than won) to ``below`` and p(won) to ``at``, (m, L)
    each. With alpha = 0 a success is impossible, with beta = 0 a failure.
    """
    for i in range(len(won)):
        w, n = won[i], tried[i]
        log_binomial = log_rising(1.0, n) - log_rising(1.0, w) - log_rising(1.0, n - w)
        for s in range(alpha.shape[1]):
            a, b = alpha[i, s], beta[i, s]
            if a == 0.0 or b == 0.0:
                sure = (a > 0.0 and w == n) or (b > 0.0 and w == 0)
                log_mass[i, s] = 0.0 if sure else -math.inf
                at[i, s] = 1.0 if sure else 0.0
                below[i, s] = 1.0 if b > 0.0 and not sure else 0.0
                continue
            log_p = log_binomial + log_rising(a, w) + log_rising(b, n - w) - log_rising(a + b, n)
            log_mass[i, s], at[i, s] = log_p, math.exp(min(log_p, 0.0))
            # Sum over the side with fewer outcomes.
            if 2 * w <= n:
                below[i, s] = math.exp(log_p + _sum_below(w, n, a, b))
            else:
                above = math.exp(log_p + _sum_below(n - w, n, b, a))
                below[i, s] = max(0.0, 1.0 - at[i, s] - above)
