"""Compiled loops of the arm families: count observations, update and compute log evidence.

``counts`` is the tuple of the statistics, arrays (tasks, arms). ``prior`` is the tuple of
prior parameters, transposed to (K, L) so that the L components of an arm are side by side.

``observe_*`` loops check every observation, then count all of them, and update ``relative``, the
log evidence up to a constant per task, after each. Without components, they only count. They return
the index of the first bad observation, with nothing changed, or -1.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mixts._compiled import compiled
from mixts._numbers import LARGEST, LARGEST_COUNT, LARGEST_TOTAL
from mixts._typing import Array

Arrays = tuple[Array, ...]

# Stirling's series for lnGamma, as differences of it are needed: for arguments of at least 10 the
# first neglected term, 691/360360 x^-11, is below 2e-14.
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188)
_LARGE = 10.0

_FEW = 16


@compiled(inner=True, borrows=True)
def stirling_rest(x: float) -> float:
    """Return ln Gamma(x) minus Stirling's formula, for x of at least 10."""
    y = 1.0 / (x * x)
    return (
        _STIRLING[0]
        + y * (_STIRLING[1] + y * (_STIRLING[2] + y * (_STIRLING[3] + y * _STIRLING[4])))
    ) / x


@compiled(inner=True, borrows=True)
def log_rising(a: float, n: float) -> float:
    """Return ln Gamma(a + n) - ln Gamma(a) for whole n, without subtracting two large numbers."""
    total = 0.0
    if n <= _FEW:
        for i in range(int(n)):
            total += math.log(a + i)
        return total
    while a < _LARGE:
        total += math.log(a)
        a += 1.0
        n -= 1.0
    end = a + n
    total += (a - 0.5) * math.log1p(n / a) + n * (math.log(end) - 1.0)
    return total + stirling_rest(end) - stirling_rest(a)


def count_only(observe: Any, n_parameters: int, *numbers: float) -> Any:
    """Return the function that counts observations by an ``observe`` loop without components."""

    def count(tasks: Array, arms: Array, outcomes: Array, counts: Arrays) -> int:
        n_tasks, n_arms = counts[0].shape
        prior = (np.empty((n_arms, 0)),) * n_parameters + numbers
        bad: int = observe(tasks, arms, outcomes, counts, prior, np.empty((n_tasks, 0)))
        return bad

    return count


# -- Bernoulli ------------------------------------------------------------------------------------


@compiled(borrows=True)
def observe_bernoulli(
    tasks: Array, arms: Array, outcomes: Array, counts: Arrays, prior: Arrays, relative: Array
) -> int:
    """Add ln of each reward's predictive probability to the evidence, then count the reward."""
    (successes, failures), (alpha, beta) = counts, prior
    for i in range(len(arms)):
        if not (0 <= arms[i] < len(alpha) and (outcomes[i] == 0.0 or outcomes[i] == 1.0)):
            return i
    for i in range(len(arms)):
        t, k, won = tasks[i], arms[i], outcomes[i] == 1.0
        seen = successes[t, k] if won else failures[t, k]
        both = successes[t, k] + failures[t, k]
        for s in range(alpha.shape[1]):
            before = alpha[k, s] if won else beta[k, s]
            relative[t, s] += math.log((before + seen) / (alpha[k, s] + beta[k, s] + both))
        if won:
            successes[t, k] += 1
        else:
            failures[t, k] += 1
    return -1


count_bernoulli = count_only(observe_bernoulli, 2)


@compiled(borrows=True)
def evidence_bernoulli(tasks: Array, counts: Arrays, prior: Arrays, relative: Array) -> None:
    """Compute ln of ratios of beta functions from the counts."""
    (successes, failures), (alpha, beta) = counts, prior
    n_arms, n_components = alpha.shape
    for t in tasks:
        for s in range(n_components):
            relative[t, s] = 0.0
        for k in range(n_arms):
            won, lost = successes[t, k], failures[t, k]
            if won + lost > 0:
                for s in range(n_components):
                    relative[t, s] += (
                        log_rising(alpha[k, s], won)
                        + log_rising(beta[k, s], lost)
                        - log_rising(alpha[k, s] + beta[k, s], won + lost)
                    )


# -- Poisson --------------------------------------------------------------------------------------


@compiled(borrows=True)
def _poisson_gap(a: float, b: float, y: float, n: float) -> float:
    """Return an arm's log evidence without y (ln(y / n) - 1) - sum ln y!, the part that all share.

    ``ln G(a + y) - ln G(a) - a ln(1 + n / b) - y ln(b + n)`` without that part, so that large
    counts leave no large numbers whose difference is small.
    """
    shrunk = a * math.log1p(n / b)
    if y == 0.0:
        return -shrunk
    if y <= _FEW:
        return log_rising(a, y) - shrunk - y * (math.log(b + n) + math.log(y / n) - 1.0)
    total, low, left = 0.0, a, y
    while low < _LARGE:
        total += math.log(low)
        low += 1.0
        left -= 1.0
    end = low + left
    total -= (y - left) * (math.log(end) - 1.0)
    total += (low - 0.5) * math.log1p(left / low) + y * (math.log1p(a / y) - math.log1p(b / n))
    return total + stirling_rest(end) - stirling_rest(low) - shrunk


@compiled(borrows=True)
def observe_poisson(
    tasks: Array, arms: Array, outcomes: Array, counts: Arrays, prior: Arrays, relative: Array
) -> int:
    """Add differences of the closed form to the evidence, then each reward to the sums."""
    (count, total, log_factorials), (shape, rate) = counts, prior
    whole = 0.0
    for i in range(len(arms)):
        y = outcomes[i]
        # Beyond 2^53 a float no longer holds every whole number.
        good = 0 <= arms[i] < len(shape) and 0.0 <= y <= LARGEST_COUNT and y == math.floor(y)
        whole += y
        if not good or total[tasks[i], arms[i]] + whole > LARGEST_TOTAL:
            return i
    for i in range(len(arms)):
        t, k, y = tasks[i], arms[i], outcomes[i]
        before, n = float(total[t, k]), float(count[t, k])
        for s in range(shape.shape[1]):
            a, b = shape[k, s], rate[k, s]
            relative[t, s] += _poisson_gap(a, b, before + y, n + 1.0)
            if n > 0:
                relative[t, s] -= _poisson_gap(a, b, before, n)
        count[t, k] += 1
        total[t, k] += np.int64(y)
        log_factorials[t, k] += math.lgamma(y + 1.0)
    return -1


count_poisson = count_only(observe_poisson, 2)


@compiled(borrows=True)
def evidence_poisson(tasks: Array, counts: Arrays, prior: Arrays, relative: Array) -> None:
    """Compute the closed form from the sums."""
    (count, total, _), (shape, rate) = counts, prior
    n_arms, n_components = shape.shape
    for t in tasks:
        for s in range(n_components):
            relative[t, s] = 0.0
        for k in range(n_arms):
            n, y = float(count[t, k]), float(total[t, k])
            if n > 0:
                for s in range(n_components):
                    relative[t, s] += _poisson_gap(shape[k, s], rate[k, s], y, n)


# -- Gaussian -------------------------------------------------------------------------------------


@compiled(borrows=True)
def _gaussian_quadratic(n: float, mean: float, m: float, v: float, noise: float) -> float:
    gap = mean - m
    return n * gap * gap / (noise + n * v)


@compiled(borrows=True)
def observe_gaussian(
    tasks: Array,
    arms: Array,
    outcomes: Array,
    counts: Arrays,
    prior: tuple[Any, ...],
    relative: Array,
) -> int:
    """Add differences of the closed form to the evidence, then count each reward."""
    (count, average, squares), (mean, variance, noise) = counts, prior
    for i in range(len(arms)):
        if not (0 <= arms[i] < len(mean) and abs(outcomes[i]) <= LARGEST):
            return i
    for i in range(len(arms)):
        t, k, y = tasks[i], arms[i], outcomes[i]
        n, old = count[t, k], average[t, k]
        new = old + (y - old) / (n + 1)
        # Differences of the closed form telescope, so that rounding errors do not add up.
        for s in range(mean.shape[1]):
            m, v = mean[k, s], variance[k, s]
            relative[t, s] += 0.5 * (
                _gaussian_quadratic(n, old, m, v, noise)
                - _gaussian_quadratic(n + 1, new, m, v, noise)
                - math.log1p(v / (noise + n * v))
            )
        # Welford's formula.
        count[t, k] += 1
        average[t, k] = new
        squares[t, k] += (y - old) * (y - new)
    return -1


count_gaussian = count_only(observe_gaussian, 2, 1.0)


@compiled(borrows=True)
def evidence_gaussian(
    tasks: Array, counts: Arrays, prior: tuple[Any, ...], relative: Array
) -> None:
    """Compute the closed form from count and average."""
    (count, average, _), (mean, variance, noise) = counts, prior
    n_arms, n_components = mean.shape
    for t in tasks:
        for s in range(n_components):
            relative[t, s] = 0.0
        for k in range(n_arms):
            n = count[t, k]
            if n > 0:
                for s in range(n_components):
                    m, v = mean[k, s], variance[k, s]
                    relative[t, s] -= 0.5 * (
                        _gaussian_quadratic(n, average[t, k], m, v, noise)
                        + math.log1p(n * v / noise)
                    )


# -- unknown noise --------------------------------------------------------------------------------

# The variance of a task is inverse gamma: ``degrees / 2`` is its shape and ``unit / 2`` its scale,
# ``unit = degrees * noise_std^2``. After n rewards with the squared misfit S (in units of the
# task's own variance, were it one) it is inverse gamma with ``degrees + n`` and ``unit + S``.

_SERIES_START = 10.0
"""From here on the series of ``_half_step`` errs by less than 4e-14."""


@compiled(borrows=True)
def _half_step(x: float) -> tuple[float, float]:
    """Return h and r with Gamma(x + 1/2) / Gamma(x) = sqrt(h) exp(r).

    For large x, h is x, and r is the difference of Stirling's series. A small x is first moved up:
    the ratio at x is that at x + 1, times x / (x + 1/2).
    """
    ratio = 1.0
    while x < _SERIES_START:
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
