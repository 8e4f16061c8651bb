"""Compiled loops of a decision: draw a latent state, find the best action."""

from __future__ import annotations

import math

import numpy as np

from mixts._compiled import compiled
from mixts._typing import Array
from mixts.families._kernels.roots import dot

_FAR = 40.0
"""A component so many nats below the leading one adds less to the sum of weights than rounding."""


@compiled()
def draw_latent(
    log_weights: Array, relative: Array, tasks: Array, uniform: Array, latent: Array
) -> None:
    """Draw S ~ P_t for each task by inversion of the normalised weights."""
    for i in range(len(tasks)):
        t, lead, total = tasks[i], -np.inf, 0.0
        for s in range(len(log_weights)):
            weight = log_weights[s] + relative[t, s]
            lead = weight if weight > lead else lead
        # Twice: the sum of all weights, and then the partial sums.
        rest = np.inf
        for _ in range(2):
            for s in range(len(log_weights)):
                weight = log_weights[s] + relative[t, s] - lead
                if weight > -_FAR:
                    # Rounding may leave a positive rest: then the last possible state is taken.
                    latent[i] = s
                    weight = math.exp(weight)
                    total += weight
                    rest -= weight
                    if rest < 0.0:
                        break
            rest = uniform[i] * total


@compiled()
def take_best(scores: Array, mask: Array, best: Array) -> int:
    """Write the first available action of the largest score in each row.

    Returns 0, or 1 if some row has ties, or -1 - i if row i has an available score that is not
    finite. An empty mask (no rows) means that every action is available.
    """
    masked = len(mask) > 0
    ties = 0
    for i in range(scores.shape[0]):
        top, where, same = -np.inf, -1, 0
        for k in range(scores.shape[1]):
            if masked and not mask[i, k]:
                continue
            score = scores[i, k]
            if not math.isfinite(score):
                return -1 - i
            if score > top:
                top, where, same = score, k, 1
            elif score == top:
                same += 1
        best[i] = where
        if same > 1:
            ties = 1
    return ties


@compiled()
def take_best_product(theta: Array, sets: Array, mask: Array, scores: Array, best: Array) -> int:
    """Apply ``take_best`` to the scores a'theta for action sets (1 or m, K, d).

    theta (m, p) may have more than d entries: the first d count.
    """
    for i in range(len(theta)):
        rows = sets[i if len(sets) > 1 else 0]
        for k in range(len(rows)):
            scores[i, k] = dot(rows[k], theta[i], rows.shape[1])
    return take_best(scores, mask, best)
