"""Compiled loops of Gaussian arms and of linear tasks: evidence and posterior moments."""

from __future__ import annotations

import math

import numpy as np

from mixts._compiled import compiled
from mixts._typing import Array
from mixts.families._kernels.roots import SUMS, dot


@compiled()
def arm_evidence(
    count: Array, average: Array, mean: Array, variance: Array, noise: float, out: Array
) -> None:
    """out[i, s] += -(ln(1 + n v / sigma^2) + n (y - m)^2 / (sigma^2 + n v)) / 2 over the arms."""
    for i in range(len(count)):
        for k in range(count.shape[1]):
            n = count[i, k]
            if n > 0:
                for s in range(len(mean)):
                    gap = average[i, k] - mean[s, k]
                    wide = n * variance[s, k]
                    out[i, s] -= 0.5 * (math.log1p(wide / noise) + n * gap * gap / (noise + wide))


@compiled()
def arm_moments(
    count: Array, average: Array, share: Array, mean: Array, variance: Array, noise: float,
    tasks: Array, first: Array, second: Array,
) -> float:  # fmt: skip
    """Sums over tasks that saw an arm, each with its share in component s.

    ``tasks`` of 1, ``first`` of mu - m_s, ``second`` of its square and the posterior variance.
    Returns the sum of E[n (average - theta)^2].
    """
    misfit = 0.0
    for i in range(len(count)):
        for k in range(count.shape[1]):
            n = count[i, k]
            if n > 0:
                for s in range(len(mean)):
                    r = share[i, s]
                    wide = n * variance[s, k]
                    trust = wide / (noise + wide)
                    gap = average[i, k] - mean[s, k]
                    step = trust * gap
                    rest = variance[s, k] * noise / (noise + wide)
                    tasks[s, k] += r
                    first[s, k] += r * step
                    second[s, k] += r * (step * step + rest)
                    misfit += r * n * ((gap - step) * (gap - step) + rest)
    return misfit


NEGLIGIBLE = 1e-14
"""A task's share in a component that moves nothing."""


@compiled(fastmath=SUMS)
def _factorise(precision: Array, gram: Array, noise: float, lower: Array) -> float:
    """lower lower' = precision + gram / noise, row by row; returns ln det of ``lower``."""
    d = len(precision)
    log_det = 0.0
    for i in range(d):
        for j in range(i):
            rest = precision[i, j] + gram[i, j] / noise - dot(lower[i], lower[j], j)
            lower[i, j] = rest / lower[j, j]
        rest = precision[i, i] + gram[i, i] / noise - dot(lower[i], lower[i], i)
        lower[i, i] = math.sqrt(rest)
        log_det += math.log(lower[i, i])
    return log_det


@compiled(fastmath=SUMS)
def _residual(factor: Array, mean: Array, noise: float, pull: Array) -> float:
    """|z - R mean|^2 / noise, and the pull R'(z - R mean) / noise."""
    d = len(mean)
    square = 0.0
    pull[:] = 0.0
    for i in range(d):
        rest = factor[i, d] - dot(factor[i, i:d], mean[i:], d - i)
        square += rest * rest
        for j in range(i, d):
            pull[j] += factor[i, j] * rest / noise
    return square / noise


@compiled()
def _forward(lower: Array, x: Array) -> None:
    """x becomes lower^-1 x."""
    for i in range(len(x)):
        x[i] = (x[i] - dot(lower[i], x, i)) / lower[i, i]


@compiled()
def _backward(lower: Array, x: Array) -> None:
    """x becomes lower^-T x."""
    for i in range(len(x) - 1, -1, -1):
        x[i] /= lower[i, i]
        for j in range(i):
            x[j] -= lower[i, j] * x[i]


@compiled()
def linear_evidence(
    factor: Array, gram: Array, mean: Array, precision: Array, half_log_det: Array, noise: float,
    out: Array,
) -> None:  # fmt: skip
    """-ln det(M) / 2 - (|z - R m|^2 / sigma^2 - |L^-1 pull|^2) / 2 of each task and component.

    ``precision`` has one matrix for each component, or one for all, which is factorised once.
    """
    d = mean.shape[1]
    lower, pull = np.empty((d, d)), np.empty(d)
    log_det = 0.0
    for i in range(len(factor)):
        for s in range(len(mean)):
            g = min(s, len(precision) - 1)
            if s == g:
                log_det = _factorise(precision[g], gram[i], noise, lower)
            square = _residual(factor[i], mean[s], noise, pull)
            _forward(lower, pull)
            q = square - dot(pull, pull, d)
            out[i, s] = half_log_det[g] - log_det - 0.5 * q


@compiled(fastmath=SUMS)
def _invert(lower: Array, inverse: Array, out: Array) -> None:
    """out = (lower lower')^-1, its lower triangle; ``inverse`` becomes lower^-T."""
    d = len(lower)
    for j in range(d):
        # Row j of the transposed inverse: the column j of lower^-1.
        inverse[j, j] = 1.0 / lower[j, j]
        for i in range(j + 1, d):
            inverse[j, i] = -dot(lower[i, j:], inverse[j, j:], i - j) / lower[i, i]
    for j in range(d):
        for i in range(j, d):
            out[i, j] = dot(inverse[i, i:], inverse[j, i:], d - i)


@compiled(fastmath=SUMS)
def _misfit(factor: Array, theta: Array) -> float:
    """|z - R theta|^2."""
    d = len(theta)
    square = 0.0
    for j in range(d):
        rest = factor[j, d] - dot(factor[j, j:d], theta[j:], d - j)
        square += rest * rest
    return square


@compiled(fastmath=SUMS)
def _add_covariance(own: Array, gram: Array, share: float, within: Array) -> float:
    """within += share own, lower triangles; returns share trace(own gram)."""
    trace = 0.0
    for j in range(len(own)):
        for k in range(j):
            within[j, k] += share * own[j, k]
            trace += 2.0 * own[j, k] * gram[j, k]
        within[j, j] += share * own[j, j]
        trace += own[j, j] * gram[j, j]
    return share * trace


@compiled(fastmath=SUMS)
def posterior_moments(
    factor: Array, gram: Array, share: Array, mean: Array, precision: Array, noise: float,
    first: Array, second: Array, within: Array,
) -> float:  # fmt: skip
    """Sums over tasks, each with its share in component s.

    ``first`` (L, d) of mu - m_s, ``second`` (L, d, d) of their outer products and ``within`` of the
    posterior covariances, both lower triangles, the latter as many as there are precisions. Returns
    the sum of E|y - A theta|^2 but for the tasks' own residuals.
    """
    d = mean.shape[1]
    lower, inverse, own = np.zeros((d, d)), np.zeros((d, d)), np.zeros((d, d))
    pull, theta = np.empty(d), np.empty(d)
    misfit = 0.0
    for i in range(len(factor)):
        factorised = -1
        for s in range(len(mean)):
            r = share[i, s]
            if r < NEGLIGIBLE:
                continue
            g = min(s, len(precision) - 1)
            if factorised != g:
                factorised = g
                _factorise(precision[g], gram[i], noise, lower)
                _invert(lower, inverse, own)
            _residual(factor[i], mean[s], noise, pull)
            _forward(lower, pull)
            _backward(lower, pull)
            for j in range(d):
                theta[j] = mean[s, j] + pull[j]
                first[s, j] += r * pull[j]
                for k in range(j + 1):
                    second[s, j, k] += r * pull[j] * pull[k]
            misfit += r * _misfit(factor[i], theta)
            misfit += _add_covariance(own, gram[i], r, within[g])
    return misfit
