"""Compiled functions of an unknown noise variance: its evidence, all at once and step by step.

The variance of a task is inverse gamma: ``degrees / 2`` is its shape and ``unit / 2`` its scale,
``unit = degrees * noise_std^2``. After n rewards with the squared misfit S (in units of the task's
own variance, were it one) it is inverse gamma again, with ``degrees + n`` and ``unit + S``.
"""

from __future__ import annotations

import math

from mixts._compiled import compiled
from mixts._typing import Array
from mixts.families._kernels.arms import log_rising
from mixts.families._kernels.roots import LARGEST

Arrays = tuple[Array, ...]

_LARGE = 10.0
"""From here on the series of ``_half_step`` errs by less than 4e-14."""


@compiled(borrows=True)
def _half_step(x: float) -> tuple[float, float]:
    """Return h and r with Gamma(x + 1/2) / Gamma(x) = sqrt(h) exp(r).

    For large x, h is x, and r is the difference of Stirling's series. A small x is first moved up:
    the ratio at x is that at x + 1, times x / (x + 1/2).
    """
    ratio = 1.0
    while x < _LARGE:
        ratio *= x / (x + 0.5)
        x += 1.0
    y = 1.0 / (x * x)
    rest = -1.0 / 8 + y * (1.0 / 192 + y * (-1.0 / 640 + y * (17.0 / 14336 - y * 31.0 / 18432)))
    return x * ratio * ratio, rest / x


@compiled(inner=True, borrows=True)
def predictive(freedom: float, unit: float, alpha: float, square: float) -> float:
    """Return the log density of a reward, a Student variable.

    ``alpha`` is its variance and ``square`` its squared standardised error, both in units of the
    noise variance, which has ``freedom`` and ``unit``.
    """
    head, rest = _half_step(0.5 * freedom)
    level = 0.5 * math.log(head / (math.pi * unit) / alpha) + rest
    return level - 0.5 * (freedom + 1.0) * math.log1p(square / unit)


@compiled(inner=True, borrows=True)
def whole_evidence(degrees: float, unit: float, n: int, misfit: float) -> float:
    """Return the log density of n rewards with this misfit, without their determinant.

    ``ln Gamma((v + n) / 2) - ln Gamma(v / 2) - n/2 ln(pi u) - (v + n) / 2 ln(1 + S / u)``. The
    gamma functions are never subtracted: with 1e8 degrees they have no digit left after the point.
    """
    total = log_rising(0.5 * degrees, n // 2)
    if n % 2 == 1:
        head, rest = _half_step(0.5 * (degrees + n - 1))
        total += 0.5 * math.log(head) + rest
    return total - 0.5 * (n * math.log(math.pi * unit) + (degrees + n) * math.log1p(misfit / unit))


# -- arms -----------------------------------------------------------------------------------------
#
# ``counts`` are the arrays of ``GaussianStatistics``, (tasks, arms). ``prior`` are means and ratios
# of variances to the noise variance, (K, L), then degrees and units, (L,). ``sums`` are the log
# evidence and the squared misfit, (tasks, L).


@compiled(borrows=True)
def _arm_misfit(n: int, average: float, squares: float, mean: float, ratio: float) -> float:
    """Return the squared misfit of n rewards of an arm."""
    gap = average - mean
    return squares + n * gap * gap / (1.0 + n * ratio)


@compiled(borrows=True)
def observe_student(
    tasks: Array, arms: Array, outcomes: Array, counts: Arrays, prior: Arrays, sums: Arrays
) -> int:
    """Add the log density of each reward to the evidence, then count it."""
    (count, average, squares), (mean, ratio, degrees, units) = counts, prior
    relative, misfit = sums
    for i in range(len(arms)):
        if not (0 <= arms[i] < len(mean) and abs(outcomes[i]) <= LARGEST):
            return i
    for i in range(len(arms)):
        t, k, y = tasks[i], arms[i], outcomes[i]
        n, old, total = count[t, k], average[t, k], 0
        for j in range(len(mean)):
            total += count[t, j]
        for s in range(mean.shape[1]):
            m, r = mean[k, s], ratio[k, s]
            wide = 1.0 + n * r
            error, alpha = y - (m + n * r * (old - m) / wide), 1.0 + r / wide
            square = error * error / alpha
            freedom, unit = degrees[s] + total, units[s] + misfit[t, s]
            relative[t, s] += predictive(freedom, unit, alpha, square)
            misfit[t, s] += square
        # Welford's formula.
        count[t, k] += 1
        average[t, k] = old + (y - old) / (n + 1)
        squares[t, k] += (y - old) * (y - average[t, k])
    return -1


@compiled(borrows=True)
def evidence_student(tasks: Array, counts: Arrays, prior: Arrays, sums: Arrays) -> None:
    """Compute the log evidence and the squared misfit from the statistics."""
    (count, average, squares), (mean, ratio, degrees, units) = counts, prior
    relative, misfit = sums
    for t in tasks:
        total = 0
        for s in range(mean.shape[1]):
            relative[t, s], misfit[t, s] = 0.0, 0.0
        for k in range(len(mean)):
            n = count[t, k]
            if n > 0:
                total += n
                for s in range(mean.shape[1]):
                    m, r = mean[k, s], ratio[k, s]
                    relative[t, s] -= 0.5 * math.log1p(n * r)
                    misfit[t, s] += _arm_misfit(n, average[t, k], squares[t, k], m, r)
        for s in range(mean.shape[1]):
            relative[t, s] += whole_evidence(degrees[s], units[s], total, misfit[t, s])
