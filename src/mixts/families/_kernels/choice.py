"""Compiled loops of a decision: draw a latent state, find the best action."""

from __future__ import annotations

import math

import numpy as np

from mixts._compiled import compiled
from mixts._typing import Array
from mixts.families._kernels.roots import dot

_FAR = 40.0
"""A component so many nats below the leading one adds less to the sum of weights than rounding."""


@compiled(inner=True, borrows=True)
def pick_latent(log_weights: Array, relative: Array, uniform: float) -> int:
    """Draw S ~ P_t of one task by inversion of the normalised weights."""
    picked, lead, total = 0, -np.inf, 0.0
    for s in range(len(log_weights)):
        weight = log_weights[s] + relative[s]
        lead = weight if weight > lead else lead
    # Twice: the sum of all weights, and then the partial sums.
    rest = np.inf
    for _ in range(2):
        for s in range(len(log_weights)):
            weight = log_weights[s] + relative[s] - lead
            if weight > -_FAR:
                # Rounding may leave a positive rest: then the last possible state is taken.
                picked = s
                weight = math.exp(weight)
                total += weight
                rest -= weight
                if rest < 0.0:
                    break
        rest = uniform * total
    return picked


@compiled()
def draw_latent(
    log_weights: Array, relative: Array, tasks: Array, uniform: Array, latent: Array
) -> None:
    """Draw S ~ P_t for each task."""
    for i in range(len(tasks)):
        latent[i] = pick_latent(log_weights, relative[tasks[i]], uniform[i])


@compiled(inner=True, borrows=True)
def best_score(i: int, scores: Array, mask: Array, best: Array) -> int:
    """Apply ``take_best`` to row i."""
    masked = len(mask) > 0
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
    return 1 if same > 1 else 0


@compiled()
def take_best(scores: Array, mask: Array, best: Array) -> int:
    """Write the first available action of the largest score in each row.

    Returns 0, or 1 if some row has ties, or -1 - i if row i has an available score that is not
    finite. An empty mask (no rows) means that every action is available.
    """
    ties = 0
    for i in range(scores.shape[0]):
        code = best_score(i, scores, mask, best)
        if code < 0:
            return code
        ties = max(ties, code)
    return ties


@compiled(inner=True, borrows=True)
def best_product(i: int, theta: Array, sets: Array, mask: Array, scores: Array, best: Array) -> int:
    """Apply ``take_best_product`` to row i."""
    rows = sets[i if len(sets) > 1 else 0]
    for k in range(len(rows)):
        scores[i, k] = dot(rows[k], theta[i], rows.shape[1])
    return best_score(i, scores, mask, best)


@compiled()
def take_best_product(theta: Array, sets: Array, mask: Array, scores: Array, best: Array) -> int:
    """Apply ``take_best`` to the scores a'theta for action sets (1 or m, K, d).

    theta (m, p) may have more than d entries: the first d count.
    """
    ties = 0
    for i in range(len(theta)):
        code = best_product(i, theta, sets, mask, scores, best)
        if code < 0:
            return code
        ties = max(ties, code)
    return ties
