"""Compiled loops of the arm families: absorb observations, evidence of statistics.

Prior parameters come transposed, (K, L), so that an arm's L components are side by side.
``observe`` loops first check every observation and return the index of the first bad one, or -1
after absorbing all. With ``incremental`` they also move ``relative``, the log evidence up to a
constant per task.
"""

from __future__ import annotations

import math

import numpy as np

from mixts._compiled import compiled
from mixts._typing import Array
from mixts.families._kernels.roots import LARGEST

# Stirling's series for lnGamma, as differences of it are needed: for arguments of at least 10 the
# first neglected term, 691/360360 x^-11, is below 2e-14.
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188)
_LARGE = 10.0

_FEW = 16

LARGEST_COUNT = 2.0**53
LARGEST_TOTAL = 2.0**62


@compiled()
def stirling_rest(x: float) -> float:
    """What Stirling's formula lacks of ln Gamma(x), for x of at least 10."""
    y = 1.0 / (x * x)
    return (
        _STIRLING[0]
        + y * (_STIRLING[1] + y * (_STIRLING[2] + y * (_STIRLING[3] + y * _STIRLING[4])))
    ) / x


@compiled()
def log_rising(a: float, n: float) -> float:
    """ln Gamma(a + n) - ln Gamma(a) for whole n, without subtracting two large numbers."""
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


@compiled()
def gather_bernoulli(
    tasks: Array, latent: Array, successes: Array, failures: Array, alpha: Array, beta: Array,
    out: Array,
) -> None:  # fmt: skip
    """The Beta parameters of every arm for pairs of a task and a component, out (2, m, K)."""
    for i in range(len(tasks)):
        t, s = tasks[i], latent[i]
        for k in range(len(alpha)):
            out[0, i, k] = alpha[k, s] + successes[t, k]
            out[1, i, k] = beta[k, s] + failures[t, k]


@compiled()
def observe_bernoulli(
    tasks: Array, arms: Array, outcomes: Array, incremental: bool,
    successes: Array, failures: Array, alpha: Array, beta: Array, relative: Array,
) -> int:  # fmt: skip
    """Rewards 0 or 1: ln of the predictive probability, then the counts."""
    n_arms, n_components = alpha.shape
    for i in range(len(arms)):
        if not (0 <= arms[i] < n_arms and (outcomes[i] == 0.0 or outcomes[i] == 1.0)):
            return i
    for i in range(len(arms)):
        t, k = tasks[i], arms[i]
        won = outcomes[i] == 1.0
        if incremental:
            seen = successes[t, k] if won else failures[t, k]
            both = successes[t, k] + failures[t, k]
            for s in range(n_components):
                prior = alpha[k, s] if won else beta[k, s]
                relative[t, s] += math.log((prior + seen) / (alpha[k, s] + beta[k, s] + both))
        if won:
            successes[t, k] += 1
        else:
            failures[t, k] += 1
    return -1


@compiled()
def evidence_bernoulli(
    tasks: Array, successes: Array, failures: Array, alpha: Array, beta: Array, relative: Array
) -> None:
    """ln of ratios of beta functions, from the counts."""
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


@compiled()
def gather_poisson(
    tasks: Array, latent: Array, count: Array, total: Array, log_factorials: Array,
    shape: Array, rate: Array, out: Array,
) -> None:  # fmt: skip
    """The Gamma parameters of every arm for pairs of a task and a component, out (2, m, K)."""
    for i in range(len(tasks)):
        t, s = tasks[i], latent[i]
        for k in range(len(shape)):
            out[0, i, k] = shape[k, s] + total[t, k]
            out[1, i, k] = rate[k, s] + count[t, k]


@compiled()
def _poisson_gap(a: float, b: float, y: float, n: float) -> float:
    """What an arm's log evidence has beyond the part y (ln(y / n) - 1) - sum ln y! that all share.

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
def observe_poisson(
    tasks: Array, arms: Array, outcomes: Array, incremental: bool,
    count: Array, total: Array, log_factorials: Array, shape: Array, rate: Array, relative: Array,
) -> int:  # fmt: skip
    """Counts: differences of the closed form, then the sums."""
    n_arms, n_components = shape.shape
    whole = 0.0
    for i in range(len(arms)):
        y = outcomes[i]
        # Beyond 2^53 a float no longer holds every whole number.
        if not (0 <= arms[i] < n_arms and 0.0 <= y <= LARGEST_COUNT and y == math.floor(y)):
            return i
        whole += y
        if total[tasks[i], arms[i]] + whole > LARGEST_TOTAL:
            return i
    for i in range(len(arms)):
        t, k, y = tasks[i], arms[i], outcomes[i]
        if incremental:
            before, n = float(total[t, k]), float(count[t, k])
            for s in range(n_components):
                a, b = shape[k, s], rate[k, s]
                relative[t, s] += _poisson_gap(a, b, before + y, n + 1.0)
                if n > 0:
                    relative[t, s] -= _poisson_gap(a, b, before, n)
        count[t, k] += 1
        total[t, k] += np.int64(y)
        log_factorials[t, k] += math.lgamma(y + 1.0)
    return -1


@compiled()
def evidence_poisson(
    tasks: Array, count: Array, total: Array, log_factorials: Array,
    shape: Array, rate: Array, relative: Array,
) -> None:  # fmt: skip
    """The closed form, from the sums."""
    n_arms, n_components = shape.shape
    for t in tasks:
        relative[t] = 0.0
        for k in range(n_arms):
            n, y = float(count[t, k]), float(total[t, k])
            if n > 0:
                for s in range(n_components):
                    relative[t, s] += _poisson_gap(shape[k, s], rate[k, s], y, n)


@compiled()
def _gaussian_quadratic(n: float, mean: float, m: float, v: float, noise: float) -> float:
    gap = mean - m
    return n * gap * gap / (noise + n * v)


@compiled()
def gather_gaussian(
    tasks: Array, latent: Array, count: Array, average: Array, squares: Array,
    mean: Array, variance: Array, noise: float, out: Array,
) -> None:  # fmt: skip
    """The mean and variance of every arm for pairs of a task and a component, out (2, m, K)."""
    for i in range(len(tasks)):
        t, s = tasks[i], latent[i]
        for k in range(len(mean)):
            m, v, n = mean[k, s], variance[k, s], count[t, k]
            shrink = noise + n * v
            out[0, i, k] = m + n * v * (average[t, k] - m) / shrink
            out[1, i, k] = v * noise / shrink


@compiled()
def observe_gaussian(
    tasks: Array, arms: Array, outcomes: Array, incremental: bool,
    count: Array, average: Array, squares: Array,
    mean: Array, variance: Array, noise: float, relative: Array,
) -> int:  # fmt: skip
    """Real rewards: differences of the closed form, then Welford's update."""
    n_arms, n_components = mean.shape
    for i in range(len(arms)):
        if not (0 <= arms[i] < n_arms and abs(outcomes[i]) <= LARGEST):
            return i
    for i in range(len(arms)):
        t, k, y = tasks[i], arms[i], outcomes[i]
        n, old = count[t, k], average[t, k]
        new = old + (y - old) / (n + 1)
        if incremental:
            # Differences of the closed form: they telescope, so that errors do not pile up.
            for s in range(n_components):
                m, v = mean[k, s], variance[k, s]
                relative[t, s] += 0.5 * (
                    _gaussian_quadratic(n, old, m, v, noise)
                    - _gaussian_quadratic(n + 1, new, m, v, noise)
                    - math.log1p(v / (noise + n * v))
                )
        count[t, k] = n + 1
        average[t, k] = new
        squares[t, k] += (y - old) * (y - new)
    return -1


@compiled()
def evidence_gaussian(
    tasks: Array, count: Array, average: Array, squares: Array,
    mean: Array, variance: Array, noise: float, relative: Array,
) -> None:  # fmt: skip
    """The closed form, from count and average."""
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
