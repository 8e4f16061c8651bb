"""Compiled loops over mixtures of normal distributions: quantiles, and estimates to come.

Sizes: m decisions, L components, K actions, n averages of rewards.
"""

from __future__ import annotations

import math

import numpy as np

from mixts._compiled import compiled
from mixts._typing import Array

_ROOT_HALF = math.sqrt(0.5)
_DENSITY = 1.0 / math.sqrt(2.0 * math.pi)

_FAR = 40.0
"""A component that is so many nats below the most likely one adds less than rounding does."""

_N_STEPS = 30
"""Newton's steps before bisection: far more than a smooth distribution function needs."""


@compiled()
def _below(x: float, weights: Array, mean: Array, deviation: Array) -> tuple[float, float]:
    """Return distribution function and density of a mixture (L,) at x."""
    total, density = 0.0, 0.0
    for s in range(len(weights)):
        if weights[s] > 0.0:
            if deviation[s] > 0.0:
                u = (x - mean[s]) / deviation[s]
                total += weights[s] * 0.5 * math.erfc(-u * _ROOT_HALF)
                density += weights[s] * _DENSITY * math.exp(-0.5 * u * u) / deviation[s]
            elif x >= mean[s]:
                total += weights[s]
    return total, density


@compiled()
def _quantile(
    probability: float, low: float, high: float, weights: Array, mean: Array, deviation: Array
) -> float:
    """Return the quantile of a mixture (L,) between low and high, by Newton's method."""
    x, n, least = 0.5 * (low + high), 0, 1e-16 * max(abs(low), abs(high))
    while high - low > least and low < x < high:
        total, density = _below(x, weights, mean, deviation)
        if total < probability:
            low = x
        else:
            high = x
        # Beside a certain component the function jumps, and only halving makes progress.
        step = (probability - total) / density if n < _N_STEPS and density > 0.0 else np.inf
        n += 1
        if abs(step) <= least:
            break
        x = x + step if low < x + step < high else 0.5 * (low + high)
    return x


@compiled()
def mixture_quantiles(
    weights: Array, parameters: Array, probability: Array, standard: Array, least: float, out: Array
) -> None:
    """Set out (m, K) to the quantiles of mixtures with means and variances (2, m, L, K).

    ``standard`` (m,) is the quantile of the standard normal distribution. Components of a weight
    above ``least`` bracket the quantile of the mixture.
    """
    m, n_components, n_actions = parameters.shape[1:]
    mean, deviation = np.empty(n_components), np.empty(n_components)
    for i in range(m):
        for k in range(n_actions):
            low, high = np.inf, -np.inf
            for s in range(n_components):
                mean[s] = parameters[0, i, s, k]
                deviation[s] = math.sqrt(parameters[1, i, s, k])
                if weights[i, s] > least:
                    low = min(low, mean[s] + standard[i] * deviation[s])
                    high = max(high, mean[s] + standard[i] * deviation[s])
            out[i, k] = _quantile(probability[i], low, high, weights[i], mean, deviation)


@compiled()
def estimates(
    weights: Array, parameters: Array, noise: float, averages: Array, n_more: Array, out: Array
) -> None:
    """Set out (m, n, K) to E[theta_a | the average of n_more (m,) rewards of a].

    ``parameters`` (2, m, L, K) are means and variances of the components, and ``averages``
    (m, n, K) those of rewards with this noise variance.
    """
    m, n_components, n_actions = parameters.shape[1:]
    level, sharp, share = np.empty(n_components), np.empty(n_components), np.empty(n_components)
    logs = np.empty(n_components)
    for i in range(m):
        n = n_more[i]
        for k in range(n_actions):
            mean = parameters[0, i, :, k]
            for s in range(n_components):
                total = noise + n * parameters[1, i, s, k]
                level[s] = math.log(weights[i, s]) - 0.5 * math.log(total)
                sharp[s] = 0.5 * n / total
                share[s] = n * parameters[1, i, s, k] / total
            for r in range(averages.shape[1]):
                top = -np.inf
                for s in range(n_components):
                    gap = averages[i, r, k] - mean[s]
                    logs[s] = level[s] - sharp[s] * gap * gap
                    top = max(top, logs[s])
                value, mass = 0.0, 0.0
                for s in range(n_components):
                    if logs[s] > top - _FAR:
                        weight = math.exp(logs[s] - top)
                        mass += weight
                        value += weight * (mean[s] + share[s] * (averages[i, r, k] - mean[s]))
                out[i, r, k] = value / mass
