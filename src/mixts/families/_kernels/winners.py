"""Thompson sampling in many decisions: only arms that may be the best are drawn.

The arm of the highest mean is drawn first, in the coordinate of ``densities``, where every density
is log-concave: beyond the best draw so far, at t, a density is below the exponential of the same
value and slope at t. The mass under that exponential bounds the probability that an arm wins, so
that one uniform number and a few products reject most arms. For an arm that is left, the
exponential is the envelope of a rejection step: the arm wins with exactly the probability of its
tail, and its draw then follows the law of its tail. So the best arm has the law of Thompson
sampling, although the means of most of the others are never drawn.

The arguments of the loops are those of ``decide``, but for ``scratch``: the state, and an array
(3, K) for the parameters of the arms.
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


@compiled()
def _draw_log_gamma(shape: float, state: Array) -> float:
    """Draw the logarithm of a Gamma variable, which does not underflow, however small the shape."""
    if shape >= 1.0:
        return math.log(gamma(shape, state))
    return math.log(gamma(shape + 1.0, state)) + math.log(uniform(state)) / shape


@compiled()
def _draw(form: int, a: float, b: float, state: Array) -> float:
    """Draw an arm's mean, in the coordinate of its form."""
    if form == NORMAL:
        return a + math.sqrt(b) * normal(state)
    x = _draw_log_gamma(a, state)
    return x - (_draw_log_gamma(b, state) if form == LOGIT_BETA else math.log(b))


@compiled()
def _draw_above(form: int, a: float, b: float, best: float, u: float, state: Array) -> float:
    """Draw an arm's mean if it is above ``best``, else return -inf; ``u`` is uniform."""
    mode, curvature = summit(form, a, b)
    fallen, steep = fall(form, a, b, curvature, best - mode)
    bound = math.exp(-fallen) * math.sqrt(curvature / _TWO_PI) / steep
    if u >= bound:
        return -np.inf
    # Given that u is below the bound, their ratio is uniform again.
    gap = -math.log(u / bound)
    t = best + gap / steep
    rest = gap + fallen - fall(form, a, b, curvature, t - mode)[0] - stirling_rests(form, a, b)
    return t if math.log(uniform(state)) < rest else -np.inf


@compiled()
def _best_arm(form: int, i: int, mask: Array, arms: Array, state: Array) -> int:
    """Return the best arm of decision i under one draw of all means.

    ``arms`` (3, K) has both parameters of each arm, and room for one more number.
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
    height = 1.0 / (1.0 + math.exp(-best)) if form == LOGIT_BETA else math.exp(best)
    for k in range(n_arms):
        if k == lead or (masked and not mask[i, k]):
            continue
        a, b = arms[0, k], arms[1, k]
        # The slope at the best mean so far, the curvature at the mode, and q: the log density has
        # fallen by as much at least, because curvatures are at most n / 4, or b e^t, or 1 / b.
        if form == LOGIT_BETA:
            steep, curvature = (a + b) * height - a, a * b * arms[2, k]
            q = 2.0 * steep * steep * arms[2, k]
        elif form == LOG_GAMMA:
            steep, curvature = b * height - a, a
            q = 0.5 * steep * steep * arms[2, k] / height
        else:
            steep, curvature = (best - a) / b, 1.0 / b
            q = 0.5 * steep * (best - a)
        wide = _TWO_PI * steep * steep
        if steep > 0.0 and wide > curvature:
            # The bound is at most e^-q sqrt(curvature / wide): Stirling's remainders only make a
            # peak lower. The series is less than e^q.
            series = 1.0 + q * (1.0 + q * (1 / 2 + q * (1 / 6 + q * (1 / 24 + q / 120))))
            u = uniform(state)
            if u * u * wide * series * series >= curvature:
                continue
            t = _draw_above(form, a, b, best, u, state)
        else:
            t = _draw(form, a, b, state)
        if t > best:
            best, winner, same = t, k, 1.0
            height = 1.0 / (1.0 + math.exp(-best)) if form == LOGIT_BETA else math.exp(best)
        elif t == best:
            # Certain arms may be equal: then chance decides.
            same += 1.0
            winner = k if uniform(state) * same < 1.0 else winner
    return winner


@compiled(nogil=True)
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


@compiled(nogil=True)
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


@compiled(nogil=True)
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
