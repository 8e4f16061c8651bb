"""Mean rewards of arms that are bought with some probability and then bring a log-normal spend.

An arm's mean reward is ``p exp(mu + sigma^2 / 2)``: p is the probability of a purchase, mu and
sigma^2 are the mean and the variance of the logarithm of a spend. The variance takes one of the
values ``LEVELS``, with probabilities proportional to ``sigma^(-2 shape) exp(-scale / sigma^2)``:
the inverse-gamma density of ln sigma^2, in which levels are evenly spaced. Given the level
everything is conjugate, so sums over the levels are exact, and every moment of the mean reward is
finite. With a variance that has no upper limit the expectation of ``exp(sigma^2 / 2)`` would be
infinite.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
import scipy  # loads a submodule when it is first used

from mixts._numbers import softmax
from mixts._typing import Array, Float, Int
from mixts.families.marginals import LOG_2PI_E, NEGLIGIBLE, MeanDistribution, find_root, parameter

LEAST_STD, MOST_STD = 0.1, 2.0
"""Limits of sigma. With sigma = 2 the mean spend is seven times the median."""

N_LEVELS = 61
"""Steps of five percent in sigma. Up to about a hundred purchases, the posterior of sigma is wider
than a step, so that sums over levels differ little from integrals."""

LEVELS = np.geomspace(LEAST_STD, MOST_STD, N_LEVELS) ** 2
"""Possible values of sigma^2."""
_LOGS, _INVERSES = np.log(LEVELS), 1 / LEVELS

LIMITS = 1e-3, 1e6
"""Limits of a fitted shape and scale."""

_BLOCK = 1 << 15
"""Numbers at a time: few enough for the cache of a processor."""

_FAINT = 1e-11
"""Levels of less weight change no probability that matters."""

_TINY = 1e-300
"""A smaller probability of a purchase counts as this one."""


# -- the variance of the logarithm of a spend -----------------------------------------------------


def _exponents(shape: Array, scale: Array, tilt: Array | float = 0.0) -> Float[Array, "... G"]:
    """Return ln of sigma^(-2 shape) exp(-scale / sigma^2 + tilt sigma^2) at every level."""
    found = np.multiply.outer(shape, -_LOGS)
    found -= np.multiply.outer(scale, _INVERSES)
    if np.any(tilt):
        found += np.multiply.outer(tilt, LEVELS)
    return found


def log_sum(shape: Array, scale: Array, tilt: Array | float = 0.0) -> Array:
    """Return ln Z: the sum of sigma^(-2 shape) exp(-scale / sigma^2 + tilt sigma^2) over levels."""
    shape, scale, tilt = np.broadcast_arrays(shape, scale, tilt)
    out = np.empty(shape.size)
    flat = [x.reshape(-1) for x in (shape, scale, tilt)]
    rows = _BLOCK // N_LEVELS
    for start in range(0, len(out), rows):
        part = _exponents(*(x[start : start + rows] for x in flat))
        top = part.max(axis=1, keepdims=True)
        np.exp(part - top, out=part)
        out[start : start + rows] = top[:, 0] + np.log(part.sum(axis=1))
    return out.reshape(shape.shape)


def level_weights(shape: Array, scale: Array) -> Float[Array, "... G"]:
    """Return the probability of every level."""
    return softmax(_exponents(shape, scale))


def level_means(shape: Array, scale: Array) -> Float[Array, "3 ..."]:
    """Return the means of ln sigma^2, of 1 / sigma^2 and of sigma^2."""
    out = np.empty((3, shape.size))
    flat = shape.reshape(-1), scale.reshape(-1)
    table = np.stack([_LOGS, _INVERSES, LEVELS], axis=1)
    rows = _BLOCK // N_LEVELS
    for start in range(0, shape.size, rows):
        part = level_weights(*(x[start : start + rows] for x in flat))
        # einsum, because the bits of a product by BLAS depend on the number of its threads.
        out[:, start : start + rows] = np.einsum("ng,gi->in", part, table)
    return out.reshape(3, *shape.shape)


def fit_levels(
    shape: Array, scale: Array, mean_log: Array, mean_inverse: Array
) -> tuple[Array, Array]:
    """Return the shape and scale under which these means of ln sigma^2 and 1 / sigma^2 are likely.

    They maximise ``-shape mean_log - scale mean_inverse - log_sum(shape, scale)``, a concave
    function, by Newton's method from the given shape and scale; a step is quartered until it gains,
    and a pair that no step would improve is done.
    """
    sizes = shape.shape
    means = np.stack([np.broadcast_to(x, sizes).reshape(-1) for x in (mean_log, mean_inverse)])
    best = np.stack([shape.reshape(-1), scale.reshape(-1)])

    def value(pairs: Float[Array, "2 m"], which: Int[Array, " m"]) -> Float[Array, " m"]:
        return np.asarray(-(pairs * means[:, which]).sum(axis=0) - log_sum(*pairs))

    left = np.arange(best.shape[1])
    now = value(best, left)
    for _ in range(_NEWTON_STEPS):
        steps, gain = np.zeros_like(best), np.zeros(len(now))
        steps[0, left], steps[1, left], gain[left] = _newton(*best[:, left], *means[:, left])
        left = left[gain[left] > _NOTHING * (1 + np.abs(now[left]))]
        waiting, length = left, 1.0
        gained = np.ones(len(now), bool)
        for _ in range(_HALVINGS):
            if not len(waiting):
                break
            old = best[:, waiting]
            trial = np.clip(old + length * steps[:, waiting], old / 10, 10 * old)
            trial = np.clip(trial, *LIMITS)
            reached = value(trial, waiting)
            better = reached > now[waiting] + _NOTHING * (1 + np.abs(now[waiting]))
            best[:, waiting[better]], now[waiting[better]] = trial[:, better], reached[better]
            waiting = waiting[~better]
            length /= 4
        gained[waiting] = False
        left = left[gained[left]]
        if not len(left):
            break
    return best[0].reshape(sizes), best[1].reshape(sizes)


_NEWTON_STEPS, _HALVINGS, _NOTHING = 50, 8, 1e-14


def _newton(a: Array, b: Array, mean_log: Array, mean_inverse: Array) -> tuple[Array, ...]:
    """Return the Newton step and its gain; the curvature is the covariance of the two functions."""
    weights = level_weights(a, b)
    one, two = weights @ _LOGS, weights @ _INVERSES
    gaps = _LOGS - one[..., None], _INVERSES - two[..., None]
    h11, h22, h12 = (
        (weights * x * y).sum(axis=-1) for x, y in ((gaps[0],) * 2, (gaps[1],) * 2, gaps)
    )
    slope = one - mean_log, two - mean_inverse
    # Where one level has almost all of the weight, the curvature vanishes.
    h11, h22 = h11 + 1e-12, h22 + 1e-12
    # A parameter that is at its limit, and would go beyond, stays there: the other one moves alone.
    stays = [
        ((x <= LIMITS[0]) & (by < 0)) | ((x >= LIMITS[1]) & (by > 0))
        for x, by in zip((a, b), slope, strict=True)
    ]
    h12 = np.where(stays[0] | stays[1], 0.0, h12)
    det = np.maximum(h11 * h22 - h12 * h12, 1e-12 * h11 * h22)
    steps = (h22 * slope[0] - h12 * slope[1]) / det, (h11 * slope[1] - h12 * slope[0]) / det
    first, second = (np.where(s, 0.0, step) for s, step in zip(stays, steps, strict=True))
    return first, second, 0.5 * (first * slope[0] + second * slope[1])


# -- the mean reward ------------------------------------------------------------------------------


@dataclass(frozen=True)
class SpendMarginal(MeanDistribution):
    """Distributions of arms' mean rewards ``p exp(mu + sigma^2 / 2)``: six parameters each.

    p is Beta(alpha, beta); given sigma^2, mu is normal with mean ``log_spend`` and variance
    ``sigma^2 / strength``; sigma^2 has the level weights of ``shape`` and ``scale``.
    """

    lowest: ClassVar[float] = 0.0

    alpha = parameter(0)
    beta = parameter(1)
    log_spend = parameter(2)
    strength = parameter(3)
    shape = parameter(4)
    scale = parameter(5)

    # -- moments --------------------------------------------------------------------------------

    def purchase_rate(self) -> Array:
        """Return the mean of p."""
        return self.alpha / (self.alpha + self.beta)

    @cached_property
    def _log_norm(self) -> Array:
        return log_sum(self.shape, self.scale)

    def log_mean_spend(self) -> Array:
        """Return ln of the mean of exp(mu + sigma^2 / 2): of a spend, given a purchase.

        Given sigma^2 the mean is ``exp(log_spend + (1/2 + 1 / (2 strength)) sigma^2)``.
        """
        tilt = 0.5 + 0.5 / self.strength
        return np.asarray(self.log_spend + log_sum(self.shape, self.scale, tilt) - self._log_norm)

    def mean(self) -> Array:
        return np.asarray(self.purchase_rate() * np.exp(self.log_mean_spend()))

    def log_relative_square(self) -> Array:
        """Return ln of the second moment of the mean reward over its squared mean."""
        rate = np.log1p(self.beta / (self.alpha * (self.alpha + self.beta + 1)))
        twice = log_sum(self.shape, self.scale, 1 + 2 / self.strength) - self._log_norm
        return np.asarray(rate + twice - 2 * (self.log_mean_spend() - self.log_spend))

    def variance(self) -> Array:
        return np.asarray(self.mean() ** 2 * np.expm1(self.log_relative_square()))

    def pool(self, weights: Float[Array, "n _"]) -> Self:
        """Return one row of distributions for all rows together, parameters (6, 1, K).

        The purchase rate and mu keep the moments, sigma^2 the likeliest levels of the mixture.
        """

        def average(values: Array) -> Array:
            return np.asarray((weights * values).sum(axis=0, keepdims=True))

        rates, spreads = self.purchase_rate(), self.parameter_covariances()
        rate, log_spend = average(rates), average(self.log_spend)
        rate_variance = average(spreads[1, 1] + (rates - rate) ** 2)
        total = np.maximum(rate * (1 - rate) / rate_variance - 1, 1e-12)
        logs, inverses, levels = map(average, level_means(self.shape, self.scale))
        shape, scale = fit_levels(average(self.shape), average(self.scale), logs, inverses)
        strength = levels / average(spreads[2, 2] + (self.log_spend - log_spend) ** 2)
        parameters = (rate * total, (1 - rate) * total, log_spend, strength, shape, scale)
        return replace(self, parameters=np.stack(parameters))

    def spread(self, mean: Array, variance: Array) -> Self:
        """Return the distributions with these moments of the mean reward.

        All of alpha, beta, strength, shape and scale are multiplied by one number, which sets the
        variance; ``log_spend`` then sets the mean.
        """
        target = np.log1p(variance / mean**2)

        def excess(log_factor: Array) -> Array:
            return target - self._sharpened(np.exp(log_factor)).log_relative_square()

        widest = np.full(target.shape, _WIDEST)
        sharper = self._sharpened(np.exp(find_root(excess, -widest, widest)))
        moved = np.array(sharper.parameters)
        moved[2] += np.log(mean) - np.log(sharper.mean())
        return replace(self, parameters=moved)

    def _sharpened(self, factor: Array) -> Self:
        sharper = self.parameters * factor
        sharper[2] = self.log_spend
        return replace(self, parameters=sharper)

    def parameter_means(self) -> Float[Array, "... p"]:
        """Return the means of the mean rewards, of the purchase rates and of mu."""
        return np.concatenate([self.mean(), self.purchase_rate(), self.log_spend], axis=-1)

    def parameter_covariances(self) -> Float[Array, "3 3 ... K"]:
        """Return the covariances of an arm's mean reward, purchase rate and mu."""
        rate, mean, total = self.purchase_rate(), self.mean(), self.alpha + self.beta
        out = np.zeros((3, 3, *mean.shape))
        out[0, 0] = self.variance()
        out[1, 1] = rate * (1 - rate) / (total + 1)
        out[2, 2] = level_means(self.shape, self.scale)[2] / self.strength
        # p and mu are independent: E[p^2] = E[p] (alpha + 1) / (total + 1).
        out[0, 1] = out[1, 0] = mean * ((self.alpha + 1) / (total + 1) - rate)
        # Given sigma^2, exp(mu) moves the mean of mu by sigma^2 / strength.
        weights = softmax(_exponents(self.shape, self.scale, 0.5 + 0.5 / self.strength))
        out[0, 2] = out[2, 0] = mean * (weights * LEVELS).sum(axis=-1) / self.strength
        return out

    # -- draws ----------------------------------------------------------------------------------

    def sample(self, rng: np.random.Generator) -> Array:
        p, mu, variance = self.draw_parameters(rng)
        return np.asarray(p * np.exp(mu + variance / 2))

    def draw_parameters(
        self, rng: np.random.Generator, *index: Int[Array, " n"]
    ) -> tuple[Array, Array, Array]:
        """Draw p, mu and sigma^2 of every arm, for indices on the axes before the arms."""
        total = np.cumsum(level_weights(self.shape, self.scale), axis=-1)
        chosen = self.select(*index) if index else self
        place: Array = np.asarray(rng.random(chosen.shape.shape))
        if not index:
            level = _places(total, place)
        else:
            level = np.empty(place.shape, np.int64)
            rows = max(1, _BLOCK // (N_LEVELS * place.shape[-1]))
            for start in range(0, len(place), rows):
                part = slice(start, start + rows)
                level[part] = _places(total[tuple(i[part] for i in index)], place[part])
        variance = LEVELS[level]
        p = np.maximum(rng.beta(chosen.alpha, chosen.beta), _TINY)
        deviation = np.sqrt(variance / chosen.strength) * rng.standard_normal(p.shape)
        return p, chosen.log_spend + deviation, variance

    # -- learning -------------------------------------------------------------------------------

    def learn(
        self, purchases: Array, misses: Array, average: Array, squares: Array
    ) -> tuple[Self, Array]:
        """Return the distributions after rewards with these statistics, and their log evidence.

        Numbers of purchases and misses need not be whole. The log evidence lacks the terms that
        do not depend on the parameters.
        """
        rates = self.alpha + purchases, self.beta + misses
        spends = learn_spends(self.parameters[2:], purchases, average, squares)
        result = replace(self, parameters=np.stack([*rates, *spends]))
        log_evidence = scipy.special.betaln(*rates) - scipy.special.betaln(self.alpha, self.beta)
        log_evidence += spend_evidence(self.strength, spends[1], self._log_norm, result._log_norm)
        return result, np.asarray(log_evidence)

    def expect(self, n: Array) -> Self:
        return self.learn(*self.expected(n))[0]

    def expected(
        self, n: Array, weights: Float[Array, "m L"] | None = None
    ) -> tuple[Array, Array, Array, Array]:
        """Return the statistics of n expected rewards; with weights, expected by the mixture.

        The expected share of them are purchases, and the log-normal distribution with their average
        and variance has the expected spend: means hardly move when these are learned.
        """
        level = level_means(self.shape, self.scale)[2]
        rate, spend = self.purchase_rate(), np.exp(self.log_mean_spend())
        if weights is not None:
            means = np.stack([rate, spend, level])
            rate, spend, level = np.einsum("ml,imlk->imk", weights, means)[:, :, None]
        purchases = n * rate
        return purchases, n - purchases, np.log(spend) - level / 2, purchases * level

    def reward_entropy(self, mean: Array, variance: Array) -> Array:
        """Return the entropy of a normal reward with the variance of a typical arm's rewards."""
        noise = np.exp(level_means(self.shape, self.scale)[2]) / self.purchase_rate() - 1
        around = np.maximum(mean, _TINY) ** 2 * float(np.median(noise))
        return np.asarray(0.5 * (LOG_2PI_E + np.log(around + variance)))

    # -- quantiles --------------------------------------------------------------------------------

    def cdf(self, value: Array) -> Array:
        with np.errstate(divide="ignore"):
            log_value = np.log(np.maximum(value, 0.0))
        shape = np.broadcast_shapes(self.alpha.shape, np.shape(value))
        flat = np.broadcast_to(self.parameters, (6, *shape)).reshape(6, -1)
        place = np.broadcast_to(log_value, shape).reshape(-1)
        out = np.empty(len(place))
        rows = max(1, _BLOCK // (N_LEVELS * _N_BETA))
        for start in range(0, len(out), rows):
            part = slice(start, start + rows)
            out[part] = _below(flat[:, part], place[part])
        return out.reshape(shape)

    def quantile(self, probability: float | Array) -> Array:
        level = np.broadcast_to(probability, self.alpha.shape).reshape(-1)
        one = replace(self, parameters=self.parameters.reshape(6, -1, 1, 1))
        found = one.mixture_quantiles(np.ones((len(level), 1)), level)
        return found.reshape(self.alpha.shape)

    def log_spend_quantile(self, probability: float) -> Array:
        """Return the quantile of mu."""
        weights = level_weights(self.shape, self.scale)
        deviation = np.sqrt(LEVELS / self.strength[..., None])

        def excess(x: Array) -> Array:
            return np.asarray(
                (weights * scipy.special.ndtr(x[..., None] / deviation)).sum(axis=-1) - probability
            )

        far = scipy.special.ndtri(probability) * deviation
        return self.log_spend + find_root(excess, far.min(axis=-1), far.max(axis=-1))

    def mixture_quantiles(
        self, weights: Float[Array, "m L"], probability: Float[Array, " m"]
    ) -> Float[Array, "m K"]:
        """Return the quantile of each arm's mean reward under mixtures; parameters (6, m, L, K).

        With X = p and Y = exp(mu + sigma^2 / 2), ``P(XY < xy) <= P(X < x) + P(Y < y)``: the
        factors' q/2 quantiles give a lower bound, and their (1 + q)/2 quantiles an upper one.
        """
        q = probability[:, None, None]
        spreads = np.sqrt(LEVELS / self.strength[..., None])
        centres = LEVELS / 2 + self.log_spend[..., None]
        likely = level_weights(self.shape, self.scale) > NEGLIGIBLE
        counts = (weights > NEGLIGIBLE)[:, :, None]
        ends = []
        for tail, worst, take in ((q / 2, np.inf, np.min), ((1 + q) / 2, -np.inf, np.max)):
            far = centres + scipy.special.ndtri(tail)[..., None] * spreads
            far = take(np.where(likely, far, worst), axis=-1)
            rate = np.maximum(scipy.special.betaincinv(self.alpha, self.beta, tail), _TINY)
            ends.append(take(np.where(counts, far + np.log(rate), worst), axis=1))

        def excess(x: Array) -> Array:
            below = self.cdf(np.broadcast_to(np.exp(x)[:, None], self.alpha.shape))
            return np.einsum("ml,mlk->mk", weights, below) - probability[:, None]

        return np.exp(find_root(excess, *ends))


_WIDEST = 25.0
"""Limit of ln of the factor by which ``spread`` makes distributions sharper or wider."""


def learn_spends(
    prior: Float[Array, "4 ..."], purchases: Array, average: Array, squares: Array
) -> Float[Array, "4 ..."]:
    """Return ``log_spend``, ``strength``, ``shape`` and ``scale`` after purchases.

    With k purchases, average y and squared deviations M2 of the log spends, these are::

        m + k (y - m) / (r + k)
        r + k
        a + k/2
        b + (M2 + r k / (r + k) (y - m)^2) / 2
    """
    log_spend, strength, shape, scale = prior
    gap, after = average - log_spend, strength + purchases
    misfit = squares + strength * purchases / after * gap * gap
    location = log_spend + purchases * gap / after
    return np.stack([location, after, shape + 0.5 * purchases, scale + 0.5 * misfit])


def spend_evidence(strength: Array, strength_after: Array, norm: Array, norm_after: Array) -> Array:
    """Return ln p(log spends) of an arm without its factors (2 pi)^(-1/2).

    It is ``ln(r / r') / 2 + ln Z(a', b') - ln Z(a, b)``, with ``norm = ln Z`` as from ``log_sum``.
    """
    return np.asarray(0.5 * np.log(strength / strength_after) + norm_after - norm)


def _places(total: Float[Array, "... G"], place: Array) -> Int[Array, "..."]:
    """Return the first level whose cumulative weight exceeds the place between 0 and 1."""
    found = (total <= place[..., None] * total[..., -1:]).sum(axis=-1)
    return np.asarray(np.minimum(found, N_LEVELS - 1))


# -- the distribution function --------------------------------------------------------------------

_N_BETA = 121
_STEPS = np.linspace(-4.4, 4.4, _N_BETA)
_FAR, _STRETCH = np.sinh(_STEPS), np.log(np.cosh(_STEPS))
"""Nodes of the trapezoidal rule for the logit of p, in units of its standard deviation: dense in
the middle, and up to 40 units far for the slow tails of small alpha and beta."""

_NARROW = 0.04
"""A normal variable of less than this part of the variance of ln p is narrow."""

_HERMITE = np.polynomial.hermite_e.hermegauss(31)
"""Nodes and weights for a normal variable."""


def _below(parameters: Float[Array, "6 n"], log_value: Float[Array, " n"]) -> Float[Array, " n"]:
    """Return P(ln p + mu + sigma^2 / 2 <= log_value) of each arm.

    It is the sum over levels of P(ln p + normal variable <= t). One of the two variables has nodes,
    the other its distribution function: ln p has the nodes, unless the normal variable is so narrow
    that they would miss it. The error is below 1e-6; up to 1e-3 where both beta is below 2 and the
    normal variable is narrow.
    """
    alpha, beta, log_spend, strength, shape, scale = parameters
    weights = level_weights(shape, scale)
    arm, level = np.nonzero(weights > _FAINT)
    variance = LEVELS[level]
    deviation = np.sqrt(variance / strength[arm])
    t = log_value[arm] - log_spend[arm] - variance / 2
    rate_variance = scipy.special.zeta(2.0, alpha) - scipy.special.zeta(2.0, alpha + beta)
    # With beta below 2, ln p may end with a corner at 0, which the nodes of a normal variable miss.
    narrow = (deviation**2 < _NARROW * rate_variance[arm]) & (beta[arm] >= 2)
    below = np.empty(len(arm))
    nodes, masses = _beta_nodes(alpha, beta)
    some = np.flatnonzero(~narrow)
    inside = scipy.special.ndtr((t[some, None] - nodes[arm[some]]) / deviation[some, None])
    below[some] = np.einsum("ij,ij->i", inside, masses[arm[some]])
    some = np.flatnonzero(narrow)
    x = np.exp(np.minimum(t[some, None] - deviation[some, None] * _HERMITE[0], 0.0))
    inside = scipy.special.betainc(alpha[arm[some], None], beta[arm[some], None], x)
    below[some] = inside @ (_HERMITE[1] / _HERMITE[1].sum())
    found = np.bincount(arm, below * weights[arm, level], len(alpha))
    return np.asarray(np.clip(found / np.bincount(arm, weights[arm, level], len(alpha)), 0.0, 1.0))


def _beta_nodes(
    alpha: Float[Array, " n"], beta: Float[Array, " n"]
) -> tuple[Float[Array, "n j"], Float[Array, "n j"]]:
    """Return nodes ln p and their masses for Beta variables p."""
    deviation = np.sqrt(scipy.special.zeta(2.0, alpha) + scipy.special.zeta(2.0, beta))
    centre = scipy.special.psi(alpha) - scipy.special.psi(beta)
    logit = centre[:, None] + deviation[:, None] * _FAR
    log_p, log_rest = -np.logaddexp(0.0, -logit), -np.logaddexp(0.0, logit)
    return log_p, softmax(alpha[:, None] * log_p + beta[:, None] * log_rest + _STRETCH)
