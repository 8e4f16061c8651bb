"""Compiled loops of clicks with features: Laplace's approximation of evidence and moments.

Given a component, the log posterior of ``delta = theta - mean`` is
``-delta' P delta / 2 + sum_i [k_i eta_i - n_i softplus(eta_i)]`` with ``eta = X (mean + delta)``
and the precision P. At its mode the Hessian is ``A = P + X'WX``. The evidence is approximated by
``log posterior + ln det(P) / 2 - ln det(A) / 2``, and the posterior by N(mode, A^-1).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from mixts._compiled import compiled
from mixts._typing import Array
from mixts.families._kernels.roots import SUMS, dot
from mixts.learning._kernels.gaussian import (
    NEGLIGIBLE,
    LinearSums,
    _backward,
    _factorise,
    _forward,
    _invert,
)

_DECREMENT = 1e-7
"""Stop Newton's steps when the next one raises the log posterior by less than half of this."""
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
