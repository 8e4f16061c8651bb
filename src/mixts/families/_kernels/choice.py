"""Compiled loops of a decision: draw a latent state, find the best action.

Of independent arms only those that may be the best are drawn. The arm of the highest mean comes
first, in the coordinate of ``densities``, where every density is log-concave: beyond the best draw
so far, at t, a density is below the exponential of the same value and slope at t. The mass under
that exponential bounds the probability that an arm wins, so that one uniform number and a few
products reject most arms. For an arm that is left, the exponential is the envelope of a rejection
step: the arm wins with exactly the probability of its tail, and its draw then follows the
distribution of its tail. So the best arm has the probabilities of Thompson sampling, although the
means of most of the others are never drawn.

Every decision has its own stream of random numbers, made from two words for the whole batch and the
decision's place in it: the results do not depend on the number of threads. The numbers are those of
splitmix64 (Steele, Lea and Flood, 2014), a hash of a counter: streams start at multiples of another
odd number than that by which they go on, so that they do not meet.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mixts._compiled import compiled
from mixts._typing import Array
from mixts.families._kernels.densities import (
    LOG_GAMMA,
    LOGIT_BETA,
    NORMAL,
    fall,
    mode_of,
    stirling_rests,
)
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


Arrays = tuple[Array, ...]

# -- random numbers -------------------------------------------------------------------------------

_BITS = 2.0**53
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_U11, _U27, _U30, _U31 = np.uint64(11), np.uint64(27), np.uint64(30), np.uint64(31)


@compiled(inner=True, borrows=True)
def _uniform(state: Array) -> float:
    """Return the next number of a stream of splitmix64, between 0 and 1, neither included."""
    z = state[0] + _GOLDEN
    state[0] = z
    z = (z ^ (z >> _U30)) * _FIRST
    z = (z ^ (z >> _U27)) * _SECOND
    z ^= z >> _U31
    return (np.float64(z >> _U11) + 0.5) / _BITS


@compiled(inner=True, borrows=True, fastmath={"nnan", "nsz"})
def _begin(i: int, key: Array, t: int, weights: Arrays, state: Array) -> int:
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
        drawn: Any = np.int64(_uniform(state) * n)
        if _uniform(state) < math.exp(log_weights[drawn] + relative[t, drawn] - lead):
            return drawn


@compiled(inner=True, borrows=True)
def _normal(state: Array) -> float:
    """Draw a standard normal variable by Marsaglia's polar method."""
    while True:
        x, y = 2.0 * _uniform(state) - 1.0, 2.0 * _uniform(state) - 1.0
        square = x * x + y * y
        if square < 1.0:
            return x * math.sqrt(-2.0 * math.log(square) / square)


@compiled(inner=True, borrows=True)
def _gamma(shape: float, state: Array) -> float:
    """Draw a Gamma variable of a shape of at least 1 (Marsaglia and Tsang, 2000)."""
    d = shape - 1.0 / 3.0
    while True:
        x = _normal(state)
        root = 1.0 + x / math.sqrt(9.0 * d)
        v = root * root * root
        u = _uniform(state)
        # The first condition is cheap and almost always enough.
        if root > 0.0 and (
            u < 1.0 - 0.0331 * x * x * x * x
            or math.log(u) < 0.5 * x * x + d * (1.0 - v + math.log(v))
        ):
            return d * v


# -- the best arm ---------------------------------------------------------------------------------

_TWO_PI = 2.0 * math.pi


@compiled(borrows=True)
def _draw_log_gamma(shape: float, state: Array) -> float:
    """Draw the logarithm of a Gamma variable, which does not underflow, however small the shape."""
    if shape >= 1.0:
        return math.log(_gamma(shape, state))
    return math.log(_gamma(shape + 1.0, state)) + math.log(_uniform(state)) / shape


@compiled(borrows=True)
def _draw(form: int, a: float, b: float, state: Array) -> float:
    """Draw an arm's mean, in the coordinate of its form."""
    if form == NORMAL:
        return a + math.sqrt(b) * _normal(state)
    if a >= 1.0 and b >= 1.0 and form == LOGIT_BETA:
        return math.log(_gamma(a, state) / _gamma(b, state))  # one logarithm instead of two
    x = _draw_log_gamma(a, state)
    return x - (_draw_log_gamma(b, state) if form == LOGIT_BETA else math.log(b))


@compiled(borrows=True)
def _draw_above(
    form: int, a: float, b: float, best: float, height: float, u: float, state: Array
) -> float:
    """Draw an arm's mean if it is above ``best``, else return -inf; ``u`` is uniform."""
    mode, curvature = mode_of(form, a, b)
    rate = a + b if form == LOGIT_BETA else b
    steep = (best - a) / b if form == NORMAL else rate * height - a
    fallen = fall(form, a, b, curvature, best - mode)[0]
    # The logarithm of the bound, e^-fallen sqrt(curvature / 2 pi) / steep, over u.
    gap = 0.5 * math.log(curvature / (_TWO_PI * steep * steep * u * u)) - fallen
    if gap <= 0.0:
        return -np.inf
    # Given that u is below the bound, their ratio is uniform again.
    t = best + gap / steep
    # The draw is kept where this is above Stirling's remainders, whose bounds mostly decide.
    least = gap + fallen - fall(form, a, b, curvature, t - mode)[0] - math.log(_uniform(state))
    low, high = _bounds_of_rests(form, a, b)
    if least > high or (least > low and least > stirling_rests(form, a, b)):
        return t
    return -np.inf


@compiled(borrows=True)
def _bounds_of_rests(form: int, a: float, b: float) -> tuple[float, float]:
    """Return bounds of ``stirling_rests``.

    The remainder for x is between 1 / (12 x) - 1 / (360 x^3) and 1 / (12 x).
    """
    if form == NORMAL:
        return -1.0, 0.0
    x, y, z = 1.0 / a, 1.0 / b, 1.0 / (a + b)
    if form == LOG_GAMMA:
        return x / 12.0 - x * x * x / 360.0, x / 12.0
    high = (x + y - z) / 12.0
    return high - (x * x * x + y * y * y) / 360.0, high + z * z * z / 360.0


@compiled(borrows=True)
def _height(form: int, t: float) -> float:
    """Return the mean at a point of the coordinate; for normal means, anything."""
    return 1.0 / (1.0 + math.exp(-t)) if form == LOGIT_BETA else math.exp(t)


@compiled(borrows=True)
def _set_limits(form: int, best: float, height: float, arms: Array) -> None:
    """Set the limits of all arms.

    An arm of a positive limit cannot win if the square of its uniform number times the limit is at
    least its curvature; a negative limit says nothing. With the slope at the best mean so far, the
    curvature at the mode, and q, by which the log density has fallen at least, because curvatures
    are at most n / 4, or b e^t, or 1 / b, the bound of ``_draw_above`` is at most
    e^-q sqrt(curvature / 2 pi) / slope: Stirling's remainders only make a peak lower.
    """
    # A loop each: with one for all, the compiler does not vectorise.
    if form == LOGIT_BETA:
        for k in range(arms.shape[1]):
            a, b, share = arms[0, k], arms[1, k], arms[2, k]
            steep = (a + b) * height - a
            arms[3, k] = a * b * share
            arms[4, k] = _limit(steep, a * b * share, 2.0 * steep * steep * share)
    elif form == LOG_GAMMA:
        for k in range(arms.shape[1]):
            a, b, share = arms[0, k], arms[1, k], arms[2, k]
            steep = b * height - a
            arms[3, k] = a
            arms[4, k] = _limit(steep, a, 0.5 * steep * steep * share / height)
    else:
        for k in range(arms.shape[1]):
            a, b = arms[0, k], arms[1, k]
            steep = (best - a) / b
            arms[3, k] = 1.0 / b
            arms[4, k] = _limit(steep, 1.0 / b, 0.5 * steep * (best - a))


@compiled(borrows=True)
def _limit(steep: float, curvature: float, q: float) -> float:
    wide = _TWO_PI * steep * steep
    # The series is less than e^q.
    series = 1.0 + q * (1.0 + q * (1 / 2 + q * (1 / 6 + q * (1 / 24 + q * (1 / 120)))))
    limit = wide * series * series
    limit = limit if wide > curvature else -1.0
    return limit if steep > 0.0 else -1.0


@compiled(borrows=True)
def _best_arm(form: int, i: int, mask: Array, arms: Array, state: Array) -> int:
    """Return the best arm of decision i under one draw of all means.

    ``arms`` (5, K) has both parameters of each arm, and room for three more numbers.
    """
    n_arms, masked, lead, top = arms.shape[1], len(mask) > 0, -1, -np.inf
    for k in range(n_arms):
        if form == LOGIT_BETA:
            arms[2, k] = 1.0 / (arms[0, k] + arms[1, k])
        else:
            arms[2, k] = 1.0 / arms[1, k] if form == LOG_GAMMA else 1.0
    for k in range(n_arms):
        mean = arms[0, k] * arms[2, k]
        if mean > top and not (masked and not mask[i, k]):
            lead, top = k, mean
    winner, same = lead, 1.0
    best = _draw(form, arms[0, lead], arms[1, lead], state)
    height = _height(form, best)
    _set_limits(form, best, height, arms)
    for k in range(n_arms):
        if k == lead or (masked and not mask[i, k]):
            continue
        if arms[4, k] > 0.0:
            u = _uniform(state)
            if u * u * arms[4, k] >= arms[3, k]:
                continue
            t = _draw_above(form, arms[0, k], arms[1, k], best, height, u, state)
        else:
            t = _draw(form, arms[0, k], arms[1, k], state)
        if t > best:
            best, winner, same = t, k, 1.0
            height = _height(form, best)
            _set_limits(form, best, height, arms)
        elif t == best:
            # Certain arms may be equal: then chance decides.
            same += 1.0
            winner = k if _uniform(state) * same < 1.0 else winner
    return winner


@compiled(nogil=True, borrows=True)
def draw_best_arms(
    asked: Any, weights: Arrays, counts: Arrays, prior: Any, scratch: Arrays, chosen: Array
) -> None:
    """Draw a component and all means for each decision, and take the best arm.

    ``asked`` are the form of the densities, the first and the last decision of this call, the task
    of every decision, the mask (no rows: every arm is available) and the two words of the batch.
    ``weights`` are the log prior weights and the log evidence. The posterior parameters of normal
    means follow from ``counts``, numbers and averages of rewards, and from means, variances and the
    noise of the ``prior``. Those of other forms are sums of both. ``scratch`` are the state of the
    random numbers and an array (5, K). Best arms and components are written to ``chosen`` (2, m).
    """
    form, first, last, tasks, mask, key = asked
    (one, two), (before, other, noise), (state, arms) = counts, prior, scratch
    for i in range(first, last):
        t = tasks[i]
        s = _begin(i, key, t, weights, state)
        if form == NORMAL:
            for k in range(len(before)):
                m, v, n = before[k, s], other[k, s], one[t, k]
                shrink = noise + n * v
                arms[0, k] = m + n * v * (two[t, k] - m) / shrink
                arms[1, k] = v * noise / shrink
        else:
            for k in range(len(before)):
                arms[0, k] = before[k, s] + one[t, k]
                arms[1, k] = other[k, s] + two[t, k]
        chosen[0, i], chosen[1, i] = _best_arm(form, i, mask, arms, state), s
