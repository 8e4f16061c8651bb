"""Compiled loops of Gaussian arms over tasks, components and the arms that a task has seen."""

from __future__ import annotations

import math

from mixts._compiled import compiled
from mixts._typing import Array


@compiled()
def relative_evidence(
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
