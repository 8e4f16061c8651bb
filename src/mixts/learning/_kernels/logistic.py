"""Compiled loops of clicks with features: Laplace's approximation, moments, and predictions.

Given a component, the log posterior of ``delta = theta - mean`` is
``-delta' P delta / 2 + sum_i [k_i eta_i - n_i softplus(eta_i)]`` with ``eta = X (mean + delta)``
and the precision P. At its mode the Hessian is ``A = P + X'WX``. The evidence is approximated by
``log posterior + ln det(P) / 2 - ln det(A) / 2``, and the posterior by N(mode, A^-1).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from mixts._compiled import compiled
from mixts._typing import Array
from mixts.families._kernels.logistic import _LARGE_ERROR, _MEAN_SIZE, _VAR_SIZE
from mixts.families._kernels.roots import SUMS, dot
from mixts.learning._kernels.gaussian import (
    NEGLIGIBLE,
    LinearSums,
    _backward,
    _factorise,
    _forward,
    _invert,
)

_DECREMENT = 1e-8
"""Stop Newton's steps when the next one raises the log posterior by less than half of this. The
mode is then known to 1e-4 deviations, and so is the log determinant of the Hessian."""
_N_STEPS = 100
_SHORTEST = 1e-9
"""Shortest step of the line search, as a part of Newton's step."""


class ClickTasks(NamedTuple):
    """Tables of tasks, one after the other."""

    offsets: Array
    """(n + 1,): the first row of each task, and the end."""
    rows: Array
    """(N, d)."""
    trials: Array
    """(N,) numbers."""
    successes: Array
    """(N,) numbers."""


class _Work(NamedTuple):
    """Temporary arrays for one pair of a task and a component."""

    eta: Array
    """(R,): linear predictors."""
    slope: Array
    """(d,): gradient, then Newton's step."""
    gram: Array
    """(d, d): X'WX, the lower triangle."""
    lower: Array
    """(d, d): Cholesky factor of A."""
    trial: Array
    """(d,): delta at the end of a step."""


@compiled()
def _new_work(tasks: ClickTasks) -> _Work:
    most = 0
    for i in range(len(tasks.offsets) - 1):
        most = max(most, tasks.offsets[i + 1] - tasks.offsets[i])
    d = tasks.rows.shape[1]
    return _Work(np.empty(most), np.empty(d), np.empty((d, d)), np.zeros((d, d)), np.empty(d))


@compiled(fastmath=SUMS)
def _value(
    tasks: ClickTasks, i: int, mean: Array, precision: Array, delta: Array, eta: Array
) -> float:
    """Set eta, and return the log posterior up to its constant."""
    d, total, first = len(mean), 0.0, tasks.offsets[i]
    for k in range(first, tasks.offsets[i + 1]):
        row, x = tasks.rows[k], 0.0
        for j in range(d):
            x += row[j] * (mean[j] + delta[j])
        eta[k - first] = x
        softplus = (x if x > 0.0 else 0.0) + math.log1p(math.exp(-abs(x)))
        total += tasks.successes[k] * x - tasks.trials[k] * softplus
    for j in range(d):
        total -= 0.5 * delta[j] * dot(precision[j], delta, d)
    return total


@compiled(fastmath=SUMS)
def _set_slope(tasks: ClickTasks, i: int, precision: Array, delta: Array, work: _Work) -> None:
    """Set the gradient, and X'WX, at the present eta."""
    d, first = len(delta), tasks.offsets[i]
    slope, gram = work.slope, work.gram
    gram[:] = 0.0
    for j in range(d):
        slope[j] = -dot(precision[j], delta, d)
    for k in range(first, tasks.offsets[i + 1]):
        row, x, n = tasks.rows[k], work.eta[k - first], tasks.trials[k]
        t = math.exp(-abs(x))
        p = (1.0 if x > 0.0 else t) / (1.0 + t)
        rest, weight = tasks.successes[k] - n * p, n * t / ((1.0 + t) * (1.0 + t))
        for j in range(d):
            slope[j] += rest * row[j]
            scaled, target = weight * row[j], gram[j]
            if scaled != 0.0:
                for m in range(j + 1):
                    target[m] += scaled * row[m]


@compiled(fastmath=SUMS)
def _climb(
    tasks: ClickTasks, i: int, mean: Array, precision: Array, delta: Array, work: _Work
) -> tuple[float, float]:
    """Move delta to the mode; return the log posterior there, and ln det of ``work.lower``."""
    d, trial = len(mean), work.trial
    value = _value(tasks, i, mean, precision, delta, work.eta)
    for n in range(_N_STEPS):
        _set_slope(tasks, i, precision, delta, work)
        log_det = _factorise(precision, work.gram, 1.0, work.lower)
        step = work.slope
        _forward(work.lower, step)
        decrement = dot(step, step, d)
        # Rounding of the log posterior hides smaller steps from the line search.
        if decrement <= _DECREMENT + 1e-14 * abs(value) or n == _N_STEPS - 1:
            break
        _backward(work.lower, step)
        length, new = 1.0, value
        while length > _SHORTEST:
            for j in range(d):
                trial[j] = delta[j] + length * step[j]
            new = _value(tasks, i, mean, precision, trial, work.eta)
            # Armijo's condition, with a tenth of the slope.
            if new >= value + 0.1 * length * decrement:
                break
            length *= 0.5
        value = new
        for j in range(d):
            delta[j] = trial[j]
    return value, log_det


@compiled()
def laplace_evidence(
    tasks: ClickTasks, mean: Array, precision: Array, half_log_det: Array, modes: Array, out: Array
) -> None:
    """Set out[i, s] to the approximate log evidence, and modes (n, L, d) to theta - mean there.

    Newton's steps begin at ``modes``. ``precision`` has one matrix for each component, or one for
    all.
    """
    work = _new_work(tasks)
    for i in range(len(out)):
        for s in range(len(mean)):
            g = min(s, len(precision) - 1)
            value, log_det = _climb(tasks, i, mean[s], precision[g], modes[i, s], work)
            out[i, s] = value + half_log_det[g] - log_det


@compiled(fastmath=SUMS)
def laplace_moments(
    tasks: ClickTasks, share: Array, mean: Array, precision: Array, modes: Array, sums: LinearSums
) -> None:
    """Add approximate posterior moments to the sums; Newton's steps begin at ``modes``."""
    d, work = mean.shape[1], _new_work(tasks)
    inverse, own = np.zeros((d, d)), np.zeros((d, d))
    for i in range(len(share)):
        for s in range(len(mean)):
            r = share[i, s]
            if r < NEGLIGIBLE:
                continue
            g = min(s, len(precision) - 1)
            delta = modes[i, s]
            _climb(tasks, i, mean[s], precision[g], delta, work)
            _invert(work.lower, inverse, own)
            for j in range(d):
                sums.first[s, j] += r * delta[j]
                for k in range(j + 1):
                    sums.second[s, j, k] += r * delta[j] * delta[k]
                    sums.within[g, j, k] += r * own[j, k]


@compiled(fastmath=SUMS)
def point_moments(points: Array, record: tuple[Any, ...], mean: Array, covariance: Array) -> None:
    """Set mean (m, L, d) and covariance (m, L, d, d) of the posteriors in the first m slots.

    ``record`` are the fields of ``families._kernels.logistic.Posterior``, whose
    ``parameter_moments`` explains the sums; of covariances only the lower triangles are set.
    """
    _, error, n_points, rank, location, direction, shape, log_weight = record
    n_tasks, n_components, d = mean.shape
    most = points.shape[1]
    y, weight, scaled = np.empty((d, most)), np.empty(most), np.empty(most)
    centre, move, second, half = np.empty(d), np.empty(d), np.empty((d, d)), np.empty((d, d))
    for i in range(n_tasks):
        r = rank[i]
        for s in range(n_components):
            n = n_points[i, s]
            top, total = -np.inf, 0.0
            for a in range(n):
                top = max(top, log_weight[i, s, a])
            for a in range(n):
                weight[a] = math.exp(log_weight[i, s, a] - top)
                total += weight[a]
            even = 1.0 / n if error[i, s] < _LARGE_ERROR else 0.0
            for a in range(n):
                weight[a] = weight[a] / total - even
            second[:] = 0.0
            for j in range(d):
                second[j, j] = 1.0
                move[j] = centre[j] = 0.0
            for j in range(r):
                spread, bend = shape[i, s, 1, j], shape[i, s, 2, j]
                centre[j] = shape[i, s, 0, j] + bend * _MEAN_SIZE
                own, z, first = y[j], points[j], 0.0
                for a in range(n):
                    own[a] = spread * z[a] + bend * (math.sqrt(1.0 + z[a] * z[a]) - _MEAN_SIZE)
                    scaled[a] = own[a] * weight[a]
                    first += scaled[a]
                move[j] = first
                for k in range(j + 1):
                    second[j, k] = dot(scaled, y[k], n)
                if even > 0.0:
                    second[j, j] += spread * spread + bend * bend * _VAR_SIZE
            for j in range(r):
                for k in range(j + 1):
                    second[j, k] -= move[j] * move[k]
                    second[k, j] = second[j, k]
            for j in range(r):
                move[j] += centre[j]
            turn = direction[i, s]
            for j in range(d):
                mean[i, s, j] = location[i, s, j] + dot(turn[j], move, r)
                for k in range(d):
                    half[j, k] = dot(turn[j], second[k], d)
            for j in range(d):
                for k in range(j + 1):
                    covariance[i, s, j, k] = dot(half[j], turn[k], d)


class RowPredictions(NamedTuple):
    """Predictions of each row by each component, (N, L), given the earlier rows of its task."""

    location: Array
    """Mean of x'theta."""
    variance: Array
    """Variance of x'theta."""
    log_mass: Array
    """ln probability of the row's successes, in a given order."""
    rate: Array
    """Mean click rate."""
    rate_variance: Array
    """Variance of the click rate."""


@compiled(fastmath=SUMS)
def _tilted(
    mu: float, variance: float, n: float, k: float, nodes: Array
) -> tuple[float, float, float]:
    """Return ln of the mass of k successes in n trials for x'theta ~ N(mu, variance), and the mean
    and variance of x'theta given them.

    Gauss-Hermite quadrature around the mode, ``nodes`` (2, Q) for a standard normal weight.
    """
    x = mu
    for _ in range(50):
        t = math.exp(-abs(x))
        p = (1.0 if x > 0.0 else t) / (1.0 + t)
        curvature = 1.0 / variance + n * t / ((1.0 + t) * (1.0 + t))
        step = (k - n * p - (x - mu) / variance) / curvature
        # A logistic function is nearly straight within 2: longer steps may overshoot.
        step = min(max(step, -2.0), 2.0)
        x += step
        if abs(step) < 1e-9 * (1.0 + abs(x)):
            break
    t = math.exp(-abs(x))
    scale = 1.0 / math.sqrt(1.0 / variance + n * t / ((1.0 + t) * (1.0 + t)))
    peak = k * x - n * ((x if x > 0.0 else 0.0) + math.log1p(t)) - 0.5 * (x - mu) ** 2 / variance
    total = first = second = 0.0
    for q in range(nodes.shape[1]):
        z = nodes[0, q]
        e = x + scale * z
        log = k * e - n * ((e if e > 0.0 else 0.0) + math.log1p(math.exp(-abs(e))))
        log += -0.5 * (e - mu) ** 2 / variance - peak + 0.5 * z * z
        w = nodes[1, q] * math.exp(log)
        total += w
        first += w * z
        second += w * z * z
    first /= total
    second = second / total - first * first
    mass = peak + math.log(total * scale) - 0.5 * math.log(variance)
    return mass, x + scale * first, scale * scale * second


@compiled(fastmath=SUMS)
def predict_rows(
    tasks: ClickTasks, mean: Array, covariance: Array, nodes: Array, out: RowPredictions
) -> None:
    """Predict each row from the earlier rows of its task, under each component.

    After a row, the posterior of theta becomes the normal distribution with the same moments
    (assumed-density filtering): in the direction of the row they come from quadrature, and the
    others follow.
    """
    d = mean.shape[1]
    m, within, v = np.empty(d), np.empty((d, d)), np.empty(d)
    for i in range(len(tasks.offsets) - 1):
        for s in range(len(mean)):
            m[:] = mean[s]
            within[:] = covariance[s]
            for a in range(tasks.offsets[i], tasks.offsets[i + 1]):
                row, n, k = tasks.rows[a], tasks.trials[a], tasks.successes[a]
                for j in range(d):
                    v[j] = dot(within[j], row, d)
                mu, variance = dot(row, m, d), max(dot(row, v, d), 1e-12)
                deviation, rate, square = math.sqrt(variance), 0.0, 0.0
                for q in range(nodes.shape[1]):
                    p = 1.0 / (1.0 + math.exp(-max(mu + deviation * nodes[0, q], -700.0)))
                    rate += nodes[1, q] * p
                    square += nodes[1, q] * p * p
                mass, new, spread = _tilted(mu, variance, n, k, nodes)
                out.location[a, s], out.variance[a, s], out.log_mass[a, s] = mu, variance, mass
                out.rate[a, s], out.rate_variance[a, s] = rate, max(square - rate * rate, 0.0)
                shift, shrink = (new - mu) / variance, (spread - variance) / (variance * variance)
                for j in range(d):
                    m[j] += v[j] * shift
                    for b in range(d):
                        within[j, b] += v[j] * v[b] * shrink
