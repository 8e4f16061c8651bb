"""Compiled loops of the arm families: count observations, update and compute log evidence.

``counts`` is the tuple of the statistics, arrays (tasks, arms). ``prior`` is the tuple of
prior parameters, transposed to (K, L) so that the L components of an arm are side by side.

``count_*`` loops check every observation, then count all of them. ``observe_*`` loops do the same
and also update ``relative``, the log evidence up to a constant per task, after each observation.
Both return the index of the first bad observation, with nothing changed, or -1.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mixts._compiled import compiled
from mixts._typing import Array
from mixts.families._kernels.roots import LARGEST

Arrays = tuple[Array, ...]

# Stirling's series for lnGamma, as differences of it are needed: for arguments of at least 10 the
# first neglected term, 691/360360 x^-11, is below 2e-14.
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188)
_LARGE = 10.0

_FEW = 16

LARGEST_COUNT = 2.0**53
LARGEST_TOTAL = 2.0**62


@compiled()
def stirling_rest(x: float) -> float:
    """Return ln Gamma(x) minus Stirling's formula, for x of at least 10."""
    y = 1.0 / (x * x)
    return (
        _STIRLING[0]
        + y * (_STIRLING[1] + y * (_STIRLING[2] + y * (_STIRLING[3] + y * _STIRLING[4])))
    ) / x


@compiled()
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


# -- Bernoulli ------------------------------------------------------------------------------------


@compiled()
def gather_bernoulli(
    tasks: Array, latent: Array, counts: Arrays, prior: Arrays, out: Array
) -> None:
    """Write the Beta parameters of every arm for pairs of a task and a component, (2, m, K)."""
    (successes, failures), (alpha, beta) = counts, prior
    for i in range(len(tasks)):
        t, s = tasks[i], latent[i]
        for k in range(len(alpha)):
            out[0, i, k] = alpha[k, s] + successes[t, k]
            out[1, i, k] = beta[k, s] + failures[t, k]


@compiled()
def _first_bad_bernoulli(arms: Array, outcomes: Array, n_arms: int) -> int:
    for i in range(len(arms)):
        if not (0 <= arms[i] < n_arms and (outcomes[i] == 0.0 or outcomes[i] == 1.0)):
            return i
    return -1


@compiled()
def _add_bernoulli(t: int, k: int, y: float, counts: Arrays) -> None:
    successes, failures = counts
    if y == 1.0:
        successes[t, k] += 1
    else:
        failures[t, k] += 1


@compiled()
def count_bernoulli(tasks: Array, arms: Array, outcomes: Array, counts: Arrays) -> int:
    """Count rewards 0 and 1."""
    bad = _first_bad_bernoulli(arms, outcomes, counts[0].shape[1])
    if bad < 0:
        for i in range(len(arms)):
            _add_bernoulli(tasks[i], arms[i], outcomes[i], counts)
    return bad


@compiled()
def observe_bernoulli(
    tasks: Array, arms: Array, outcomes: Array, counts: Arrays, prior: Arrays, relative: Array
) -> int:
    """Add ln of each reward's predictive probability to the evidence, then count the reward."""
    (successes, failures), (alpha, beta) = counts, prior
    bad = _first_bad_bernoulli(arms, outcomes, len(alpha))
    if bad >= 0:
        return bad
    for i in range(len(arms)):
        t, k = tasks[i], arms[i]
        won = outcomes[i] == 1.0
        seen = successes[t, k] if won else failures[t, k]
        both = successes[t, k] + failures[t, k]
        for s in range(alpha.shape[1]):
            before = alpha[k, s] if won else beta[k, s]
            relative[t, s] += math.log((before + seen) / (alpha[k, s] + beta[k, s] + both))
        _add_bernoulli(t, k, outcomes[i], counts)
    return -1


@compiled()
def evidence_bernoulli(tasks: Array, counts: Arrays, prior: Arrays, relative: Array) -> None:
    """Compute ln of ratios of beta functions from the counts."""
    (successes, failures), (alpha, beta) = counts, prior
    n_arms, n_components = alpha.shape
    for t in tasks:
        relative[t] = 0.0
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


@compiled()
def gather_poisson(tasks: Array, latent: Array, counts: Arrays, prior: Arrays, out: Array) -> None:
    """Write the Gamma parameters of every arm for pairs of a task and a component, (2, m, K)."""
    (count, total, _), (shape, rate) = counts, prior
    for i in range(len(tasks)):
        t, s = tasks[i], latent[i]
        for k in range(len(shape)):
            out[0, i, k] = shape[k, s] + total[t, k]
            out[1, i, k] = rate[k, s] + count[t, k]


@compiled()
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


@compiled()
def _first_bad_poisson(tasks: Array, arms: Array, outcomes: Array, total: Array) -> int:
    whole = 0.0
    for i in range(len(arms)):
        y = outcomes[i]
        # Beyond 2^53 a float no longer holds every whole number.
        good = 0 <= arms[i] < total.shape[1] and 0.0 <= y <= LARGEST_COUNT and y == math.floor(y)
        if not good:
            return i
        whole += y
        if total[tasks[i], arms[i]] + whole > LARGEST_TOTAL:
            return i
    return -1


@compiled()
def _add_poisson(t: int, k: int, y: float, counts: Arrays) -> None:
    count, total, log_factorials = counts
    count[t, k] += 1
    total[t, k] += np.int64(y)
    log_factorials[t, k] += math.lgamma(y + 1.0)


@compiled()
def count_poisson(tasks: Array, arms: Array, outcomes: Array, counts: Arrays) -> int:
    """Add whole rewards to the sums."""
    bad = _first_bad_poisson(tasks, arms, outcomes, counts[1])
    if bad < 0:
        for i in range(len(arms)):
            _add_poisson(tasks[i], arms[i], outcomes[i], counts)
    return bad


@compiled()
def observe_poisson(
    tasks: Array, arms: Array, outcomes: Array, counts: Arrays, prior: Arrays, relative: Array
) -> int:
    """Add differences of the closed form to the evidence, then each reward to the sums."""
    (count, total, _), (shape, rate) = counts, prior
    bad = _first_bad_poisson(tasks, arms, outcomes, total)
    if bad >= 0:
        return bad
    for i in range(len(arms)):
        t, k, y = tasks[i], arms[i], outcomes[i]
        before, n = float(total[t, k]), float(count[t, k])
        for s in range(shape.shape[1]):
            a, b = shape[k, s], rate[k, s]
            relative[t, s] += _poisson_gap(a, b, before + y, n + 1.0)
            if n > 0:
                relative[t, s] -= _poisson_gap(a, b, before, n)
        _add_poisson(t, k, y, counts)
    return -1


@compiled()
def evidence_poisson(tasks: Array, counts: Arrays, prior: Arrays, relative: Array) -> None:
    """Compute the closed form from the sums."""
    (count, total, _), (shape, rate) = counts, prior
    n_arms, n_components = shape.shape
    for t in tasks:
        relative[t] = 0.0
        for k in range(n_arms):
            n, y = float(count[t, k]), float(total[t, k])
            if n > 0:
                for s in range(n_components):
                    relative[t, s] += _poisson_gap(shape[k, s], rate[k, s], y, n)


# -- Gaussian -------------------------------------------------------------------------------------


@compiled()
def _gaussian_quadratic(n: float, mean: float, m: float, v: float, noise: float) -> float:
    gap = mean - m
    return n * gap * gap / (noise + n * v)


@compiled()
def gather_gaussian(
    tasks: Array, latent: Array, counts: Arrays, prior: tuple[Any, ...], out: Array
) -> None:
    """Write the mean and variance of every arm for pairs of a task and a component, (2, m, K)."""
    (count, average, _), (mean, variance, noise) = counts, prior
    for i in range(len(tasks)):
        t, s = tasks[i], latent[i]
        for k in range(len(mean)):
            m, v, n = mean[k, s], variance[k, s], count[t, k]
            shrink = noise + n * v
            out[0, i, k] = m + n * v * (average[t, k] - m) / shrink
            out[1, i, k] = v * noise / shrink


@compiled(inner=True)
def first_bad_gaussian(arms: Array, outcomes: Array, n_arms: int) -> int:
    """Return the first observation of no arm, or that is too large or not a number, or -1."""
    for i in range(len(arms)):
        if not (0 <= arms[i] < n_arms and abs(outcomes[i]) <= LARGEST):
            return i
    return -1


@compiled()
def _next_average(n: int, old: float, y: float) -> float:
    return old + (y - old) / (n + 1)


@compiled(inner=True)
def add_gaussian(t: int, k: int, y: float, counts: Arrays) -> None:
    """Update count, average and squared deviations by Welford's formula."""
    count, average, squares = counts
    old = average[t, k]
    new = _next_average(count[t, k], old, y)
    count[t, k] += 1
    average[t, k] = new
    squares[t, k] += (y - old) * (y - new)


@compiled()
def count_gaussian(tasks: Array, arms: Array, outcomes: Array, counts: Arrays) -> int:
    """Add real rewards to count, average and squared deviations."""
    bad = first_bad_gaussian(arms, outcomes, counts[0].shape[1])
    if bad < 0:
        for i in range(len(arms)):
            add_gaussian(tasks[i], arms[i], outcomes[i], counts)
    return bad


@compiled()
def observe_gaussian(
    tasks: Array,
    arms: Array,
    outcomes: Array,
    counts: Arrays,
    prior: tuple[Any, ...],
    relative: Array,
) -> int:
    """Add differences of the closed form to the evidence, then count each reward."""
    (count, average, _), (mean, variance, noise) = counts, prior
    bad = first_bad_gaussian(arms, outcomes, len(mean))
    if bad >= 0:
        return bad
    for i in range(len(arms)):
        t, k, y = tasks[i], arms[i], outcomes[i]
        n, old = count[t, k], average[t, k]
        new = _next_average(n, old, y)
        # Differences of the closed form telescope, so that rounding errors do not add up.
        for s in range(mean.shape[1]):
            m, v = mean[k, s], variance[k, s]
            relative[t, s] += 0.5 * (
                _gaussian_quadratic(n, old, m, v, noise)
                - _gaussian_quadratic(n + 1, new, m, v, noise)
                - math.log1p(v / (noise + n * v))
            )
        add_gaussian(t, k, y, counts)
    return -1


@compiled()
def evidence_gaussian(
    tasks: Array, counts: Arrays, prior: tuple[Any, ...], relative: Array
) -> None:
    """Compute the closed form from count and average."""
    (count, average, _), (mean, variance, noise) = counts, prior
    n_arms, n_components = mean.shape
    for t in tasks:
        relative[t] = 0.0
        for k in range(n_arms):
            n = count[t, k]
            if n > 0:
                for s in range(n_components):
                    m, v = mean[k, s], variance[k, s]
                    relative[t, s] -= 0.5 * (
                        _gaussian_quadratic(n, average[t, k], m, v, noise)
                        + math.log1p(n * v / noise)
                    )
