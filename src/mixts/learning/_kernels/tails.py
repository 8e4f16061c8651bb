"""Compiled loops of predicted counts: how likely a count is, and how likely a smaller one."""

from __future__ import annotations

import math

from mixts._compiled import compiled
from mixts._typing import Array
from mixts.families._kernels.arms import log_rising

# Where a sum of terms relative to the first one is rescaled, long before it overflows.
_LARGE = 1e250
_NEGLIGIBLE = 1e-17


@compiled()
def _sum_below(won: int, tried: int, a: float, b: float) -> float:
    """ln of the sum of p(i) / p(won) over i < won; -inf if there is none."""
    term, total, shift = 1.0, 0.0, 0.0
    concave = a >= 1.0 and b >= 1.0
    for i in range(won - 1, -1, -1):
        term *= (i + 1.0) / (tried - i) * (b + tried - i - 1.0) / (a + i)
        total += term
        if total > _LARGE:
            term, total, shift = term / _LARGE, total / _LARGE, shift + math.log(_LARGE)
        # Terms of a log-concave law that have become small never grow again.
        if concave and term < _NEGLIGIBLE * total:
            break
    return math.log(total) + shift


@compiled()
def predict_counts(
    won: Array, tried: Array, alpha: Array, beta: Array, log_mass: Array, below: Array, at: Array
) -> None:
    """Beta-binomial laws Beta(alpha, beta) of ``won`` out of ``tried``, (m,), for L components.

    Fills, all (m, L): ln p(won), p(less than won) and p(won). A parameter of zero makes all
    outcomes of that kind impossible; two of them say nothing at all.
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
            # The shorter side is summed.
            if 2 * w <= n:
                below[i, s] = math.exp(log + _sum_below(w, n, a, b))
            else:
                above = math.exp(log + _sum_below(n - w, n, b, a))
                below[i, s] = max(0.0, 1.0 - at[i, s] - above)
