"""The probability that an arm is the best of independent ones, and the expected best mean.

``P(a is best) = integral of f_a(t) prod_{b != a} F_b(t) dt``, and the best mean has the density
``sum_a f_a prod_{b != a} F_b``. Which arm is best does not change when all means are mapped by one
increasing function: each form below is mapped to the whole line, where its density is log-concave
and smooth.

This is the plain program. The line is cut at a few points of every arm, and each piece has 16
Gauss-Legendre nodes. The integral of the polynomial through a density's values is its distribution
function at the nodes. Densities are computed from their modes, ``ln f = peak - fall``, where
nothing large is subtracted: with 1e8 observations, probabilities keep ten digits. Parameters may be
from 1e-100 to some 1e12. Beyond, masses are no longer one, and the error says so.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import scipy  # loads a submodule when it is first used

from mixts import _program
from mixts._typing import Array, Bool, Float
from mixts.families.special import stirling_rest

NORMAL = 0
"""Normal with mean a and variance b: ln f(t) = -(t - a)^2 / (2 b) + constant."""
LOGIT_BETA = 1
"""Logit of a Beta(a, b) variable: -a ln(1 + e^-t) - b ln(1 + e^t)."""
LOG_GAMMA = 2
"""Logarithm of a Gamma variable of shape a and rate b: a t - b e^t."""
MINUS_LOG_GAMMA = 3
"""Logarithm of an inverse Gamma variable: -a t - b e^-t."""

_NEGLIGIBLE = 1e-16
"""A component of less weight changes no probability that a double can hold beside one."""

_NOTABLE = 1e-8
"""Larger errors are reported."""

_CERTAIN = 1e-290
"""A smaller variance counts as zero."""

_DEPTHS = 0.5 * np.array([3.0, 4.5, 6.0, 9.0]) ** 2
"""The line is cut where a log density has fallen by so much, as a normal one has at 3, 4.5, 6 and 9
standard deviations. At most e^-40 of the mass lies beyond the last."""

_CORNERS = np.array([-32, -16, -8, -4, -3, -2, -1, 0, 1, 2, 3, 4, 8, 16, 32.0])
"""Cuts around the corner of a density with a parameter below one: there, some units away from the
mode, one slow exponential gives way to another or to a steep fall."""

_SMALL = 1.0
"""Densities with a smaller parameter have such a corner."""

_NEWTON_STEPS = 100
_LONG = 700.0
"""From about this x on, e^x overflows."""

_BLOCK = 1 << 20
"""Values of densities at a time, about."""


class BestArms(NamedTuple):
    """What the quadrature gives for m decisions."""

    chance: Float[Array, "m K"]
    """P(arm is best)."""
    error: Float[Array, " m"]
    """Error of the chances: 0 where every arm's mass and every component's sum of probabilities is
    one, as far as the densities of very sharp arms can be trusted."""
    best: Float[Array, " m"]
    """E[best mean]."""


def best_arms(
    form: int,
    parameters: Float[Array, "2 m L K"],
    weights: Float[Array, "m L"],
    mask: Bool[Array, "m K"],
) -> BestArms:
    """Compute P(arm is best) and E[best mean] under each mixture, among the arms of its mask.

    Parameters
    ----------
    form
        Form of the densities: ``NORMAL``, ``LOGIT_BETA``, ``LOG_GAMMA`` or ``MINUS_LOG_GAMMA``.
    parameters
        Both parameters of the distributions of the arms' means, given the component.
    weights
        Weights of the components for each of m decisions.
    mask
        Available arms of each decision.
    """
    found = BestArms(np.zeros(mask.shape), np.zeros(len(mask)), np.zeros(len(mask)))
    if _program.core is not None:
        parameters, weights, mask = map(np.ascontiguousarray, (parameters, weights, mask))
        _program.core.best_arms(form, parameters, weights, mask, *found)
        return found
    rows, components = np.nonzero(weights > _NEGLIGIBLE)
    size = max(1, _BLOCK // (320 * mask.shape[1] ** 2))
    for start in range(0, len(rows), size):
        row, component = rows[start : start + size], components[start : start + size]
        weight = weights[row, component]
        a, b = parameters[:, row, component]
        chance, gap, best = _integrate(form, a, b, mask[row])
        np.add.at(found.chance, row, weight[:, None] * chance)
        np.add.at(found.error, row, weight * np.where(gap <= _NOTABLE, 0.0, gap))
        np.add.at(found.best, row, weight * best)
    return found._replace(chance=found.chance / found.chance.sum(axis=1, keepdims=True))


# -- one density, of parameters a and b -----------------------------------------------------------


def _mode(form: int, a: Array, b: Array) -> tuple[Array, Array]:
    """Return where a density is highest, and the curvature -(ln f)'' there."""
    if form == NORMAL:
        return a, 1 / b
    mode = np.log(a / b)
    if form == LOGIT_BETA:
        return mode, a / (a + b) * b
    return (mode if form == LOG_GAMMA else -mode), a


def _peak(form: int, a: Array, b: Array, curvature: Array) -> Array:
    """Return the log density at its mode.

    There, only the remainders of Stirling's formula are left of the gamma functions.
    """
    peak = 0.5 * np.log(curvature / (2 * math.pi))
    if form == LOGIT_BETA:
        peak = peak - stirling_rest(a) - stirling_rest(b) + stirling_rest(a + b)
    elif form != NORMAL:
        peak = peak - stirling_rest(a)
    return np.asarray(peak)


def _fall(form: int, a: Array, b: Array, curvature: Array, x: Array) -> tuple[Array, Array]:
    """Return how far a log density has fallen at x from its mode, and its absolute slope there."""
    if form == NORMAL:
        return 0.5 * curvature * x * x, curvature * np.abs(x)
    if form != LOGIT_BETA:
        y = np.minimum(x if form == LOG_GAMMA else -x, _LONG)
        return a * (np.expm1(y) - y), a * np.abs(np.expm1(y))
    # To the right n ln(a / n e^x + b / n) - a x, to the left the same with a and b exchanged. The
    # logarithm is of one plus something small: of the smaller parameter's share.
    n, x, tail, other = a + b, np.abs(x), np.where(x < 0, a, b), np.where(x < 0, b, a)
    lost, near = -np.expm1(-x), np.minimum(x, _LONG)
    with np.errstate(divide="ignore"):
        slow = tail * x + n * np.log1p(-np.minimum(tail, other) / n * lost)
        steep = n * np.log1p(np.minimum(tail, other) / n * np.expm1(near)) - other * x
        far = tail * x + n * np.log(other / n)
    depth = np.where(tail <= other, slow, np.where(x < _LONG, steep, far))
    return depth, curvature * n * lost / (other + tail * np.exp(-x))


def _distance(form: int, a: Array, b: Array, curvature: Array, depth: float, side: float) -> Array:
    """Return about how far to a side of the mode a log density has fallen by ``depth``.

    The fall is convex: Newton's method goes beyond the point in one step, and then back to it.
    """
    x = np.sqrt(2 * depth / curvature)
    if (form, side) in ((LOG_GAMMA, 1.0), (MINUS_LOG_GAMMA, -1.0)):
        x = np.minimum(x, np.log1p(depth / curvature))  # there the density falls like e^-e^x
    for _ in range(_NEWTON_STEPS):
        fallen, slope = _fall(form, a, b, curvature, side * x)
        if (np.abs(fallen - depth) < 0.01 * depth).all():
            break
        x = x - (fallen - depth) / slope
    return np.asarray(x)


def _height(form: int, t: Array) -> Array:
    """Return the mean at a point of the line."""
    if form == NORMAL:
        return t
    return np.asarray(scipy.special.expit(t) if form == LOGIT_BETA else np.exp(t))


def _rise(form: int, origin: Array, x: Array) -> Array:
    """Return the mean at origin + x minus the mean at the origin."""
    if form == NORMAL:
        return x
    here, growth = _height(form, origin), np.expm1(np.minimum(x, _LONG))
    if form == LOGIT_BETA:
        return np.asarray(here * (1 - here) * growth / (1 + here * growth))
    return np.asarray(here * growth)


def _mean(form: int, a: Array, b: Array) -> Array:
    """Return the expectation of a mean."""
    if form == NORMAL:
        return a
    if form == LOGIT_BETA:
        return a / (a + b)
    if form == LOG_GAMMA:
        return a / b
    return np.divide(b, a - 1, out=np.full(a.shape, np.inf), where=a > 1)


# -- n sets of independent arms -------------------------------------------------------------------


def _rule() -> tuple[Array, Array, Array]:
    """Return nodes and weights on [0, 1], and the integrals up to each node: (node, up to node).

    The integral of the Legendre polynomial P_n from -1 is (P_{n+1} - P_{n-1}) / (2 n + 1).
    """
    nodes, weights = np.polynomial.legendre.leggauss(16)
    legendre = np.polynomial.legendre.legvander(nodes, 16)
    lower = np.column_stack([-np.ones(16), legendre[:, :15]])
    values = legendre[:, :16] * weights[:, None] / 2
    return (nodes + 1) / 2, weights / 2, values @ (legendre[:, 1:] - lower).T / 2


_NODES, _WEIGHTS, _INTEGRALS = _rule()


class _Arms(NamedTuple):
    """Arms of n sets, (n, K) each; modes are seen from the origin of their set."""

    form: int
    a: Array
    b: Array
    mode: Array
    curvature: Array
    origin: Float[Array, "n 1"]
    active: Bool[Array, "n K"]
    """Arms that are available, uncertain, and may win."""


def _describe(form: int, a: Array, b: Array, mask: Array, threshold: Array) -> tuple[_Arms, Array]:
    """Return the arms, and the points (n, p) at which the line is cut.

    An arm cannot win if it ends, to the right, below the left end of another arm. The origin is the
    mode of the sharpest arm that can, so that narrow peaks far from zero keep their digits.
    """
    mode, curvature = _mode(form, a, b)
    # The product of K distribution functions may change K times as fast as one.
    halves = _DEPTHS[0] / 2.0 ** np.arange(math.log2(a.shape[1]), 0, -1)
    near, far = (
        [_distance(form, a, b, curvature, depth, side) for depth in (*halves, *_DEPTHS)]
        for side in (-1.0, 1.0)
    )
    floor = np.where(mask, mode - near[-1], -np.inf).max(axis=1, keepdims=True)
    active = mask & (mode + far[-1] >= np.maximum(floor, threshold))
    lead = np.where(active, curvature, -1.0).argmax(axis=1)[:, None]
    origin = np.take_along_axis(mode, lead, axis=1)
    mode = mode - origin
    arms = _Arms(form, a, b, mode, curvature, origin, active)
    cuts = [mode, *(mode - x for x in near), *(mode + x for x in far)]
    finest = 0.5 / np.sqrt(np.take_along_axis(curvature, lead, axis=1))
    least = np.where(active, np.minimum(a, b) if form == LOGIT_BETA else a, np.inf)
    if form != NORMAL and least.min() < _SMALL:
        where = {LOGIT_BETA: np.zeros_like(b), LOG_GAMMA: -np.log(b), MINUS_LOG_GAMMA: np.log(b)}
        corner = where[form] - origin
        cuts += [np.where(least < _SMALL, corner + x, mode) for x in _CORNERS]
        finest = np.minimum(finest, 0.25)
    every = np.where(active[:, None], np.stack(cuts, axis=1), 0.0).reshape(len(a), -1)
    return arms, _thinned(every, finest)


def _thinned(cuts: Float[Array, "n p"], finest: Float[Array, "n 1"]) -> Float[Array, "n q"]:
    """Return the cuts in order, on a grid of steps ``finest`` on which most coincide."""
    cuts = np.sort(np.rint(cuts / finest) * finest, axis=1)
    again = np.zeros(cuts.shape, bool)
    again[:, 1:] = cuts[:, 1:] == cuts[:, :-1]
    cuts = np.sort(np.where(again, cuts[:, -1:], cuts), axis=1)
    return cuts[:, : int((~again).sum(axis=1).max()) + 1]


def _densities(arms: _Arms, t: Float[Array, "n p j"]) -> Float[Array, "n K p j"]:
    """Return the densities of all arms at points of the line."""
    a, b, mode, curvature = (
        x[:, :, None, None] for x in (arms.a, arms.b, arms.mode, arms.curvature)
    )
    depth, _ = _fall(arms.form, a, b, curvature, t[:, None] - mode)
    found = np.exp(_peak(arms.form, a, b, curvature) - depth)
    return np.where(arms.active[:, :, None, None], found, 0.0)


def _sweep(arms: _Arms, cuts: Float[Array, "n p"], low: Float[Array, "n 1"]) -> tuple[Array, ...]:
    """Integrate over the line; only what lies above ``low`` counts for the chances.

    Returns the mass of each arm (n, K), P(arm is best), and E[best mean] (n,), minus the mean at
    the origin.
    """
    edges = np.sort(np.concatenate([cuts, low], axis=1), axis=1)
    width = np.diff(edges)[:, :, None]
    t = edges[:, :-1, None] + width * _NODES
    density = _densities(arms, t)
    piece = width[:, None, :, 0] * (density @ _WEIGHTS)
    before = np.cumsum(piece, axis=2) - piece
    cdf = before[..., None] + width[:, None] * (density @ _INTEGRALS)
    cdf = np.where(arms.active[:, :, None, None], cdf, 1.0)
    # The product of all but one is that of those before it, times that of those after it.
    ones = np.ones_like(cdf[:, :1])
    others = np.cumprod(np.concatenate([ones, cdf[:, :-1]], axis=1), axis=1)
    others *= np.cumprod(np.concatenate([ones, cdf[:, :0:-1]], axis=1), axis=1)[:, ::-1]
    part = density * others * (width * _WEIGHTS * (t > low[:, :, None]))[:, None]
    gain = part.sum(axis=1) * _rise(arms.form, arms.origin[:, :, None], t)
    # A sum that should be zero may be just below.
    return piece.sum(axis=2), np.maximum(part.sum(axis=(2, 3)), 0.0), gain.sum(axis=(1, 2))


def _integrate(
    form: int, a: Array, b: Array, mask: Bool[Array, "n K"]
) -> tuple[Float[Array, "n K"], Float[Array, " n"], Float[Array, " n"]]:
    """Return P(arm is best), its error, and E[best mean], of n sets of independent arms.

    A certain arm is best if all others are below it. Certain arms of the same mean share.
    """
    certain = mask & (b < _CERTAIN) if form == NORMAL else np.zeros_like(mask)
    threshold = np.where(certain, a, -np.inf).max(axis=1, keepdims=True)
    highest, uncertain = certain & (a == threshold), mask & ~certain
    # Parameters that are not used must still be possible ones.
    a, b = np.where(uncertain, a, 1.0), np.where(uncertain, b, 1.0)
    arms, cuts = _describe(form, a, b, uncertain, threshold)
    low = np.maximum(threshold - arms.origin, cuts[:, :1])
    mass, chance, gain = _sweep(arms, cuts, low)
    active, free = arms.active, np.isneginf(threshold[:, 0])
    # P(all uncertain arms are below the certain ones), which are normal.
    place = (threshold - arms.origin - arms.mode) * np.sqrt(arms.curvature)
    below = np.where(free, 0.0, np.where(active, scipy.special.ndtr(place), 1.0).prod(axis=1))
    gap = np.where(active, np.abs(mass - 1), 0.0).max(axis=1)
    gap = np.maximum(gap, np.abs(chance.sum(axis=1) + below - 1))
    chance = chance + highest * (below / np.maximum(highest.sum(axis=1), 1))[:, None]
    best = (1 - below) * _height(form, arms.origin[:, 0]) + gain
    best = best + below * np.where(free, 0.0, threshold[:, 0])
    # The mean of the only arm that may win needs no integral, and may be infinite.
    alone = free & (active.sum(axis=1) == 1)
    best = np.where(alone, np.where(active, _mean(form, a, b), -np.inf).max(axis=1), best)
    return chance, gap, best
