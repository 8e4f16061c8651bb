"""Thompson sampling in many decisions: only arms that may be the best are drawn.

The arm of the highest mean is drawn first, in the coordinate of ``densities``, where every density
is log-concave: beyond the best draw so far, at t, a density is below the exponential of the same
value and slope at t. The mass under that exponential bounds the probability that an arm wins, so
that one uniform number and a few products reject most arms. For an arm that is left, the
exponential is the envelope of a rejection step: the arm wins with exactly the probability of its
tail, and its draw then follows the law of its tail. So the best arm has the law of Thompson
sampling, although the means of most of the others are never drawn.

The arguments of the loops are those of ``decide``, but for ``scratch``: the state, and an array
(5, K) for the parameters of the arms and what follows from them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mixts._compiled import compiled
from mixts._typing import Array
from mixts.families._kernels.decide import Arrays, begin, gamma, normal, uniform
from mixts.families._kernels.densities import (
    LOG_GAMMA,
    LOGIT_BETA,
    NORMAL,
    fall,
    stirling_rests,
    summit,
)

_TWO_PI = 2.0 * math.pi


@compiled(borrows=True)
def _draw_log_gamma(shape: float, state: Array) -> float:
    """Draw the logarithm of a Gamma variable, which does not underflow, however small the shape."""
    if shape >= 1.0:
        return math.log(gamma(shape, state))
    return math.log(gamma(shape + 1.0, state)) + math.log(uniform(state)) / shape


@compiled(borrows=True)
def _draw(form: int, a: float, b: float, state: Array) -> float:
    """Draw an arm's mean, in the coordinate of its form."""
    if form == NORMAL:
        return a + math.sqrt(b) * normal(state)
    if a >= 1.0 and b >= 1.0 and form == LOGIT_BETA:
        return math.log(gamma(a, state) / gamma(b, state))  # one logarithm instead of two
    x = _draw_log_gamma(a, state)
    return x - (_draw_log_gamma(b, state) if form == LOGIT_BETA else math.log(b))


@compiled(borrows=True)
def _draw_above(
    form: int, a: float, b: float, best: float, height: float, u: float, state: Array
) -> float:
    """Draw an arm's mean if it is above ``best``, else return -inf; ``u`` is uniform."""
    mode, curvature = summit(form, a, b)
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
    least = gap + fallen - fall(form, a, b, curvature, t - mode)[0] - math.log(uniform(state))
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
            u = uniform(state)
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
            winner = k if uniform(state) * same < 1.0 else winner
    return winner


@compiled(nogil=True, borrows=True)
def win_bernoulli(
    asked: Any, weights: Arrays, counts: Arrays, prior: Arrays, scratch: Arrays, chosen: Array
) -> None:
    """Draw a component and the best of the Bernoulli arms for each decision."""
    first, last, tasks, mask, key = asked
    (successes, failures), (alpha, beta), (state, arms) = counts, prior, scratch
    form: Any = np.int64(LOGIT_BETA)  # a constant would have all functions compiled for it alone
    for i in range(first, last):
        t = tasks[i]
        s = begin(i, key, t, weights, state)
        for k in range(len(alpha)):
            arms[0, k] = alpha[k, s] + successes[t, k]
            arms[1, k] = beta[k, s] + failures[t, k]
        chosen[0, i], chosen[1, i] = _best_arm(form, i, mask, arms, state), s


@compiled(nogil=True, borrows=True)
def win_poisson(
    asked: Any, weights: Arrays, counts: Arrays, prior: Arrays, scratch: Arrays, chosen: Array
) -> None:
    """Draw a component and the best of the Poisson arms for each decision."""
    first, last, tasks, mask, key = asked
    (count, total, _), (shape, rate), (state, arms) = counts, prior, scratch
    form: Any = np.int64(LOG_GAMMA)  # a constant would have all functions compiled for it alone
    for i in range(first, last):
        t = tasks[i]
        s = begin(i, key, t, weights, state)
        for k in range(len(shape)):
            arms[0, k] = shape[k, s] + total[t, k]
            arms[1, k] = rate[k, s] + count[t, k]
        chosen[0, i], chosen[1, i] = _best_arm(form, i, mask, arms, state), s


@compiled(nogil=True, borrows=True)
def win_gaussian(
    asked: Any, weights: Arrays, counts: Arrays, prior: Any, scratch: Arrays, chosen: Array
) -> None:
    """Draw a component and the best of the Gaussian arms for each decision."""
    first, last, tasks, mask, key = asked
    (count, average, _), (mean, variance, noise), (state, arms) = counts, prior, scratch
    form: Any = np.int64(NORMAL)  # a constant would have all functions compiled for it alone
    for i in range(first, last):
        t = tasks[i]
        s = begin(i, key, t, weights, state)
        for k in range(len(mean)):
            m, v, n = mean[k, s], variance[k, s], count[t, k]
            shrink = noise + n * v
            arms[0, k] = m + n * v * (average[t, k] - m) / shrink
            arms[1, k] = v * noise / shrink
        chosen[0, i], chosen[1, i] = _best_arm(form, i, mask, arms, state), s
