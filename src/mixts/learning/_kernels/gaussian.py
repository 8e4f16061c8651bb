"""Compiled loops of Gaussian arms and of linear tasks: evidence and posterior moments.

Linear tasks use Cholesky factorisations of A = Sigma_s^-1 + V / sigma^2, which is fast because A is
only a sum. Learned covariances have a floor, so they can be inverted; where squares would lose too
many digits, learning calls the families' own loops instead.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from mixts._compiled import compiled
from mixts._typing import Array
from mixts.families._kernels.arms import whole_evidence
from mixts.families._kernels.roots import SUMS, dot


class ArmSums(NamedTuple):
    """Sums over tasks that tried an arm, weighted by shares, (L, K) each."""

    tasks: Array
    """Sums of 1."""
    sharp: Array
    """Sums of the sharpness u of a task, which is 1 if the noise is known."""
    first: Array
    """Sums of u (mu - m_s), for the posterior mean mu."""
    second: Array
    """Sums of u (mu - m_s)^2 plus the posterior variance."""


class LinearTasks(NamedTuple):
    """Statistics of linear tasks."""

    factor: Array
    """Triangles [R z], (n, d + 1, d + 1)."""
    gram: Array
    """R'R, (n, d, d)."""


class LinearSums(NamedTuple):
    """Sums over tasks, weighted by shares; of matrices the lower triangles."""

    first: Array
    """Sums of u (mu - m_s), for the posterior mean mu and the sharpness u of a task, (L, d)."""
    second: Array
    """Sums of u (mu - m_s)(mu - m_s)', (L, d, d)."""
    within: Array
    """Sums of posterior covariances, one matrix for each precision."""


@compiled()
def arm_evidence(
    count: Array, average: Array, mean: Array, variance: Array, noise: float, out: Array
) -> None:
    """Add -(ln(1 + n v / sigma^2) + n (y - m)^2 / (sigma^2 + n v)) / 2 of all arms to out[i, s]."""
    once = np.empty_like(variance)  # of ratings and many other rewards, an arm has only one
    for s in range(len(mean)):
        for k in range(mean.shape[1]):
            once[s, k] = math.log1p(variance[s, k] / noise)
    for i in range(len(count)):
        for k in range(count.shape[1]):
            n = count[i, k]
            if n > 0:
                for s in range(len(mean)):
                    gap = average[i, k] - mean[s, k]
                    wide = n * variance[s, k]
                    log = once[s, k] if n == 1 else math.log1p(wide / noise)
                    out[i, s] -= 0.5 * (log + n * gap * gap / (noise + wide))


@compiled()
def arm_moments(
    count: Array, average: Array, share: Array, sharp: Array, mean: Array, variance: Array,
    noise: float, sums: ArmSums,
) -> float:  # fmt: skip
    """Add posterior moments to the sums, and return the sum of E[n (average - theta)^2].

    ``sharp`` (n, L) are shares times the tasks' sharpness; with known noise, the shares.
    """
    misfit = 0.0
    for i in range(len(count)):
        for k in range(count.shape[1]):
            n = count[i, k]
            if n > 0:
                for s in range(len(mean)):
                    r, sharper = share[i, s], sharp[i, s]
                    wide = n * variance[s, k]
                    trust = wide / (noise + wide)
                    gap = average[i, k] - mean[s, k]
                    step = trust * gap
                    rest = variance[s, k] * noise / (noise + wide)
                    sums.tasks[s, k] += r
                    sums.sharp[s, k] += sharper
                    sums.first[s, k] += sharper * step
                    sums.second[s, k] += sharper * step * step + r * rest
                    misfit += r * n * ((gap - step) * (gap - step) + rest)
    return misfit


NEGLIGIBLE = 1e-14
"""A task's share in a component that moves nothing."""


@compiled(fastmath=SUMS)
def _factorise(precision: Array, gram: Array, noise: float, lower: Array) -> float:
    """Factorise precision + gram / noise = M M', and return ln det M.

    ``lower`` becomes M, but for its diagonal: that has the inverses of the diagonal of M, because
    products take less time than divisions.
    """
    d, weight = len(precision), 1.0 / noise
    log_det = 0.0
    for i in range(d):
        for j in range(i):
            rest = precision[i, j] + weight * gram[i, j] - dot(lower[i], lower[j], j)
            lower[i, j] = rest * lower[j, j]
        rest = precision[i, i] + weight * gram[i, i] - dot(lower[i], lower[i], i)
        lower[i, i] = 1.0 / math.sqrt(rest)
        log_det += math.log(rest)
    return 0.5 * log_det


@compiled(fastmath=SUMS)
def _residual(factor: Array, mean: Array, noise: float, pull: Array) -> float:
    """Return |z - R mean|^2 / noise; ``pull`` becomes R'(z - R mean) / noise."""
    d, weight = len(mean), 1.0 / noise
    square = 0.0
    pull[:] = 0.0
    for i in range(d):
        rest = factor[i, d] - dot(factor[i, i:d], mean[i:], d - i)
        square += rest * rest
        rest *= weight
        for j in range(i, d):
            pull[j] += factor[i, j] * rest
    return square * weight


@compiled()
def _forward(lower: Array, x: Array) -> None:
    """Replace x by M^-1 x; ``lower`` is that of ``_factorise``."""
    for i in range(len(x)):
        x[i] = (x[i] - dot(lower[i], x, i)) * lower[i, i]


@compiled()
def _backward(lower: Array, x: Array) -> None:
    """Replace x by M^-T x; ``lower`` is that of ``_factorise``."""
    for i in range(len(x) - 1, -1, -1):
        x[i] *= lower[i, i]
        for j in range(i):
            x[j] -= lower[i, j] * x[i]


@compiled(nogil=True)
def linear_evidence(
    tasks: LinearTasks, mean: Array, precision: Array, half_log_det: Array, noise: float,
    out: Array, squares: Array,
) -> float:  # fmt: skip
    """Compute -ln det(M) / 2 and |z - R m|^2 / sigma^2 - |L^-1 pull|^2 of tasks and components.

    Returns the largest |z - R m|^2 / sigma^2. ``precision`` has one matrix for each component, or
    one for all, which is factorised once.
    """
    d = mean.shape[1]
    lower, pull = np.empty((d, d)), np.empty(d)
    log_det, largest = 0.0, 0.0
    for i in range(len(tasks.factor)):
        for s in range(len(mean)):
            g = min(s, len(precision) - 1)
            if s == g:
                log_det = _factorise(precision[g], tasks.gram[i], noise, lower)
            square = _residual(tasks.factor[i], mean[s], noise, pull)
            largest = max(largest, square)
            _forward(lower, pull)
            squares[i, s] = square - dot(pull, pull, d)
            out[i, s] = half_log_det[g] - log_det
    return largest


@compiled()
def add_student(count: Array, degrees: Array, unit: Array, misfit: Array, out: Array) -> None:
    """Add the log evidence of tasks with unknown noise, but for determinants, to out (n, L)."""
    for i in range(len(count)):
        for s in range(len(degrees)):
            out[i, s] += whole_evidence(degrees[s], unit[s], count[i], misfit[i, s])


@compiled(fastmath=SUMS)
def _invert(lower: Array, inverse: Array, out: Array) -> None:
    """Write the lower triangle of (M M')^-1 to ``out``; ``inverse`` becomes M^-T.

    ``lower`` is that of ``_factorise``.
    """
    d = len(lower)
    for j in range(d):
        # Row j of the transposed inverse is column j of M^-1.
        inverse[j, j] = lower[j, j]
        for i in range(j + 1, d):
            inverse[j, i] = -dot(lower[i, j:], inverse[j, j:], i - j) * lower[i, i]
    for j in range(d):
        for i in range(j, d):
            out[i, j] = dot(inverse[i, i:], inverse[j, i:], d - i)


@compiled(fastmath=SUMS)
def _misfit(factor: Array, theta: Array) -> float:
    """Compute |z - R theta|^2."""
    d = len(theta)
    square = 0.0
    for j in range(d):
        rest = factor[j, d] - dot(factor[j, j:d], theta[j:], d - j)
        square += rest * rest
    return square


@compiled(fastmath=SUMS)
def _add_covariance(own: Array, gram: Array, share: float, within: Array) -> float:
    """Add share own to ``within``, lower triangles, and return share trace(own gram)."""
    trace = 0.0
    for j in range(len(own)):
        for k in range(j):
            within[j, k] += share * own[j, k]
            trace += 2.0 * own[j, k] * gram[j, k]
        within[j, j] += share * own[j, j]
        trace += own[j, j] * gram[j, j]
    return share * trace


@compiled(nogil=True, fastmath=SUMS)
def posterior_moments(
    tasks: LinearTasks, share: Array, sharp: Array, mean: Array, precision: Array, noise: float,
    sums: LinearSums,
) -> float:  # fmt: skip
    """Add posterior moments to the sums; ``sharp`` is as in ``arm_moments``.

    Returns the sum of E|y - A theta|^2 without the tasks' own residuals.
    """
    factor, gram = tasks.factor, tasks.gram
    d = mean.shape[1]
    lower, inverse, own = np.zeros((d, d)), np.zeros((d, d)), np.zeros((d, d))
    pull, theta = np.empty(d), np.empty(d)
    misfit = 0.0
    for i in range(len(factor)):
        factorised = -1
        for s in range(len(mean)):
            r, sharper = share[i, s], sharp[i, s]
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
                sums.first[s, j] += sharper * pull[j]
                for k in range(j + 1):
                    sums.second[s, j, k] += sharper * pull[j] * pull[k]
            misfit += r * _misfit(factor[i], theta)
            misfit += _add_covariance(own, gram[i], r, sums.within[g])
    return misfit
