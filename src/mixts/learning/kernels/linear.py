"""Compiled loops of linear tasks: Cholesky factorisations of A = Sigma_s^-1 + V / sigma^2.

Quick, because A is only a sum. A covariance that is learned has a floor, so that it can be
inverted; where squares would lose too many digits the families' own loops are asked instead.
"""

from __future__ import annotations

import math

import numpy as np

from mixts.compiled import compiled
from mixts.families.kernels.roots import SUMS, dot
from mixts.typing import Array

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
def relative_evidence(
    factor: Array, gram: Array, mean: Array, precision: Array, half_log_det: Array, noise: float,
    out: Array,
) -> None:  # fmt: skip
    """-ln det(M) / 2 - (|z - R m|^2 / sigma^2 - |L^-1 pull|^2) / 2 of each task and component."""
    d = mean.shape[1]
    lower, pull = np.empty((d, d)), np.empty(d)
    for i in range(len(factor)):
        for s in range(len(mean)):
            log_det = _factorise(precision[s], gram[i], noise, lower)
            square = _residual(factor[i], mean[s], noise, pull)
            _forward(lower, pull)
            q = square - dot(pull, pull, d)
            out[i, s] = half_log_det[s] - log_det - 0.5 * q


@compiled(fastmath=SUMS)
def _add_inverse(lower: Array, share: float, inverse: Array, total: Array) -> None:
    """total += share (lower lower')^-1, its lower triangle; ``inverse`` becomes lower^-T."""
    d = len(lower)
    for j in range(d):
        # Row j of the transposed inverse: the column j of lower^-1.
        for i in range(j):
            inverse[j, i] = 0.0
        inverse[j, j] = 1.0 / lower[j, j]
        for i in range(j + 1, d):
            inverse[j, i] = -dot(lower[i, j:], inverse[j, j:], i - j) / lower[i, i]
    for j in range(d):
        for i in range(j, d):
            total[i, j] += share * dot(inverse[i, i:], inverse[j, i:], d - i)


@compiled(fastmath=SUMS)
def posterior_moments(
    factor: Array, gram: Array, share: Array, mean: Array, precision: Array, noise: float,
    first: Array, second: Array, within: Array,
) -> float:  # fmt: skip
    """Sums over tasks, each with its share in component s.

    ``first`` (L, d) of mu - m_s, ``second`` (L, d, d) of their outer products and ``within`` of the
    posterior covariances, both lower triangles. Returns the sum of E|y - A theta|^2 but for the
    tasks' own residuals.
    """
    d = mean.shape[1]
    lower, inverse = np.zeros((d, d)), np.zeros((d, d))
    pull, step, own = np.empty(d), np.empty(d), np.empty((d, d))
    misfit = 0.0
    for i in range(len(factor)):
        for s in range(len(mean)):
            r = share[i, s]
            if r < NEGLIGIBLE:
                continue
            _factorise(precision[s], gram[i], noise, lower)
            _residual(factor[i], mean[s], noise, pull)
            _forward(lower, pull)
            _backward(lower, pull)
            for j in range(d):
                first[s, j] += r * pull[j]
                for k in range(j + 1):
                    second[s, j, k] += r * pull[j] * pull[k]
            own[:] = 0.0
            _add_inverse(lower, 1.0, inverse, own)
            for j in range(d):
                step[j] = mean[s, j] + pull[j]
            square = 0.0
            for j in range(d):
                rest = factor[i, j, d] - dot(factor[i, j, j:d], step[j:], d - j)
                square += rest * rest
            trace = 0.0
            for j in range(d):
                for k in range(j):
                    within[s, j, k] += r * own[j, k]
                    trace += 2.0 * own[j, k] * gram[i, j, k]
                within[s, j, j] += r * own[j, j]
                trace += own[j, j] * gram[i, j, j]
            misfit += r * (square + trace)
    return misfit
