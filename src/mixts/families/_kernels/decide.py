"""Thompson sampling among independent arms: one compiled pass from the weights to the best arm.

Every decision has its own stream of random numbers, made from two words for the whole batch and the
decision's place in it: the results do not depend on the number of threads. The numbers are those of
splitmix64 (Steele, Lea and Flood, 2014), a hash of a counter: streams start at multiples of another
odd number than that by which they go on, so that they do not meet.

In all loops, ``asked`` are the first and the last decision of this call, the task of every
decision, the mask (no rows: every arm is available) and the two words of the batch. ``weights`` are
the log prior weights and the log evidence; ``counts`` and ``prior`` are as in ``arms``. ``state``
(1,) is scratch. The best arms and the components are written to ``chosen`` (2, m).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mixts._compiled import compiled
from mixts._typing import Array

Arrays = tuple[Array, ...]

# -- random numbers -------------------------------------------------------------------------------

_BITS = 2.0**53
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_U11, _U27, _U30, _U31 = np.uint64(11), np.uint64(27), np.uint64(30), np.uint64(31)


@compiled(inner=True, borrows=True)
def uniform(state: Array) -> float:
    """Return the next number of a stream of splitmix64, between 0 and 1, neither included."""
    z = state[0] + _GOLDEN
    state[0] = z
    z = (z ^ (z >> _U30)) * _FIRST
    z = (z ^ (z >> _U27)) * _SECOND
    z ^= z >> _U31
    return (np.float64(z >> _U11) + 0.5) / _BITS


@compiled(inner=True, borrows=True, fastmath={"nnan", "nsz"})
def begin(i: int, key: Array, t: int, weights: Arrays, state: Array) -> int:
    """Start the stream of decision i, and draw S ~ P_t.

    A component is drawn at random, and kept with its weight relative to the largest.
    """
    state[0] = (key[0] ^ (key[1] << _U11)) + np.uint64(i) * _FIRST
    log_weights, relative = weights
    n, lead = len(log_weights), -np.inf
    for s in range(n):
        weight = log_weights[s] + relative[t, s]
        lead = weight if weight > lead else lead
    while True:
        drawn: Any = np.int64(uniform(state) * n)
        if uniform(state) < math.exp(log_weights[drawn] + relative[t, drawn] - lead):
            return drawn


@compiled(inner=True, borrows=True)
def normal(state: Array) -> float:
    """Draw a standard normal variable by Marsaglia's polar method."""
    while True:
        x, y = 2.0 * uniform(state) - 1.0, 2.0 * uniform(state) - 1.0
        square = x * x + y * y
        if square < 1.0:
            return x * math.sqrt(-2.0 * math.log(square) / square)


@compiled(inner=True, borrows=True)
def gamma(shape: float, state: Array) -> float:
    """Draw a Gamma variable of a shape above TAME (Marsaglia and Tsang, 2000)."""
    d = (shape if shape >= 1.0 else shape + 1.0) - 1.0 / 3.0
    while True:
        x = normal(state)
        root = 1.0 + x / math.sqrt(9.0 * d)
        v = root * root * root
        u = uniform(state)
        # The first condition is cheap and almost always enough.
        if root > 0.0 and (
            u < 1.0 - 0.0331 * x * x * x * x
            or math.log(u) < 0.5 * x * x + d * (1.0 - v + math.log(v))
        ):
            return d * v if shape >= 1.0 else d * v * uniform(state) ** (1.0 / shape)


@compiled(borrows=True)
def act_bernoulli(
    asked: Any, weights: Arrays, counts: Arrays, prior: Arrays, state: Array, chosen: Array
) -> None:
    """Draw a component and all means of Bernoulli arms for each decision, and take the best arm."""
    first, last, tasks, mask, key = asked
    (successes, failures), (alpha, beta) = counts, prior
    for i in range(first, last):
        t, best = tasks[i], -1.0
        s = begin(i, key, t, weights, state)
        chosen[1, i] = s
        for k in range(len(alpha)):
            if len(mask) == 0 or mask[i, k]:
                won = gamma(alpha[k, s] + successes[t, k], state)
                mean = won / (won + gamma(beta[k, s] + failures[t, k], state))
                if mean > best:
                    best, chosen[0, i] = mean, k


@compiled(borrows=True)
def act_poisson(
    asked: Any, weights: Arrays, counts: Arrays, prior: Arrays, state: Array, chosen: Array
) -> None:
    """Do the same for Poisson arms."""
    first, last, tasks, mask, key = asked
    (count, total, _), (shape, rate) = counts, prior
    for i in range(first, last):
        t, best = tasks[i], -1.0
        s = begin(i, key, t, weights, state)
        chosen[1, i] = s
        for k in range(len(shape)):
            if len(mask) == 0 or mask[i, k]:
                mean = gamma(shape[k, s] + total[t, k], state) / (rate[k, s] + count[t, k])
                if mean > best:
                    best, chosen[0, i] = mean, k


@compiled(borrows=True)
def act_gaussian(
    asked: Any, weights: Arrays, counts: Arrays, prior: Any, state: Array, chosen: Array
) -> None:
    """Do the same for Gaussian arms."""
    first, last, tasks, mask, key = asked
    (count, average, _), (prior_mean, variance, noise) = counts, prior
    for i in range(first, last):
        t, best = tasks[i], -np.inf
        s = begin(i, key, t, weights, state)
        chosen[1, i] = s
        for k in range(len(variance)):
            if len(mask) == 0 or mask[i, k]:
                m, v, n = prior_mean[k, s], variance[k, s], count[t, k]
                shrink = noise + n * v
                mean = m + n * v * (average[t, k] - m) / shrink
                mean += math.sqrt(v * noise / shrink) * normal(state)
                if mean > best:
                    best, chosen[0, i] = mean, k
