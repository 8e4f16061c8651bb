"""Unknown noise: the variance of a task's rewards, and the Student distributions that it makes.

The variance is inverse gamma given the component: ``unit / sigma^2`` is chi-squared with
``freedom`` degrees of freedom. Under the prior these are ``degrees * noise_std^2`` and ``degrees``.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import scipy  # loads a submodule when it is first used

from mixts import _checks
from mixts._numbers import softmax
from mixts._typing import Array, Bool, Float, Int
from mixts.errors import ParameterError
from mixts.families.marginals import LOG_2PI_E, MeanDistribution, NormalMarginal, parameter
from mixts.families.rewards import ArmRewards, IndependentRewards, RewardBelief

LEAST_DEGREES, MOST_DEGREES = 2.1, 1e4
"""Limits of degrees of freedom that are learned or matched. With 2 or less, mean rewards have no
variance; with 1e4, the noise of tasks differs by less than one percent."""

_NEWTON_STEPS = 50


class NoisyTasks:
    """Families whose tasks have a noise of their own, the last of a task's parameters."""

    def learning_settings(self) -> dict[str, Any]:
        return {"noise": "per-task", **super().learning_settings()}  # type: ignore[misc]

    def reward_parameters(
        self, parameters: Float[Array, "n p"], arms: Int[Array, " n"], means: Float[Array, " n"]
    ) -> Float[Array, "n 2"]:
        """Return the mean reward of each action, and the noise of its task."""
        return np.stack([means, parameters[:, -1]], axis=1)

    def outcomes(self, rng: np.random.Generator, means: Float[Array, "n 2"]) -> Float[Array, " n"]:
        """Draw a reward of each mean and noise."""
        mean, sigma = np.moveaxis(means, -1, 0)
        return np.asarray(mean + sigma * rng.standard_normal(mean.shape))


def noise_parameters(noise_std: Any, degrees: Any, n_components: int) -> tuple[Array, Array]:
    """Return checked arrays (L,) of the typical noise and of its degrees of freedom."""
    both = []
    for value, name in ((noise_std, "noise_std"), (degrees, "degrees")):
        given = _checks.numbers(value, f"{name} must be a number or an array", ParameterError)
        if given.shape not in ((), (n_components,)):
            raise ParameterError(
                f"{name} must be a number, or one for each of the {n_components} components, "
                f"got shape {given.shape}"
            )
        both.append(_checks.real_array(np.broadcast_to(given, (n_components,)), name, 1))
    for value in both[0]:
        _checks.positive_number(value, "noise_std")
    if not (both[1] > 2).all():
        raise ParameterError(
            f"degrees must be above 2, or mean rewards have no variance, got {both[1].min():g}"
        )
    return both[0], both[1]


def shown(values: Float[Array, " L"]) -> str:
    """Return the range of some numbers, for a ``repr``."""
    low, high = f"{values.min():.4g}", f"{values.max():.4g}"
    return low if low == high else f"{low} to {high}"


def draw_noise(rng: np.random.Generator, freedom: Array, unit: Array) -> Array:
    """Draw the noise sigma: unit / sigma^2 is chi-squared with these degrees of freedom."""
    return np.asarray(np.sqrt(0.5 * unit / rng.standard_gamma(0.5 * freedom)))


def noise_moments(freedom: Array, unit: Array) -> tuple[Array, Array]:
    """Return mean and variance of sigma.

    With f degrees of freedom, ``E[sigma] = sqrt(unit / 2) Gamma((f - 1) / 2) / Gamma(f / 2)`` and
    ``E[sigma^2] = unit / (f - 2)``.
    """
    mean = np.sqrt(unit / 2) / scipy.special.poch((freedom - 1) / 2, 0.5)
    square = unit / (freedom - 2)
    # With many degrees both terms are nearly the same: the series keeps the digits of the rest.
    near = unit / freedom * (1 / (2 * freedom) + 15 / (8 * freedom**2))
    return mean, np.where(freedom > 1e5, near, np.maximum(square - mean**2, 0.0))


def noise_quantile(freedom: Array, unit: Array, probability: float) -> Array:
    """Return a quantile of sigma."""
    return np.asarray(np.sqrt(0.5 * unit / scipy.special.gammainccinv(0.5 * freedom, probability)))


def match_noise(inverse: Array, log: Array) -> tuple[Array, Array]:
    """Return noise_std and degrees with these means of 1 / sigma^2 and of ln sigma^2.

    Among all inverse gamma distributions, this one is nearest to any distribution with these means
    (Kullback-Leibler). ``ln x - digamma(x) = ln E[1 / sigma^2] + E[ln sigma^2]``, with x = degrees
    / 2, is solved by Newton's method for ln x, in which the logarithm of the left side is nearly
    linear. The degrees keep their limits.
    """
    inverse, log = np.asarray(inverse, float), np.asarray(log, float)
    gap = np.maximum(np.log(inverse) + log, 1e-12)
    # Minka's approximation, which errs by a percent or two.
    x = (3 - gap + np.sqrt((gap - 3) ** 2 + 24 * gap)) / (12 * gap)
    for _ in range(_NEWTON_STEPS):
        value = np.log(x) - scipy.special.digamma(x)
        slope = 1 / x - scipy.special.polygamma(1, x)
        step = np.log(value / gap) * value / (x * slope)
        x = x * np.exp(np.clip(-step, -2, 2))
        # Beyond the largest degrees the difference on the left has few digits.
        if (np.abs(step) < 1e-10).all() or (x > MOST_DEGREES).all():
            break
    return np.sqrt(1 / inverse), np.clip(2 * x, LEAST_DEGREES, MOST_DEGREES)


def expected_noise(freedom: Array, unit: Array) -> tuple[Array, Array]:
    """Return the means of 1 / sigma^2 and of ln sigma^2."""
    return freedom / unit, np.log(unit / 2) - scipy.special.digamma(freedom / 2)


def pooled_noise(
    noise_std: Float[Array, " L"], degrees: Float[Array, " L"], weights: Float[Array, " L"]
) -> tuple[Float[Array, " 1"], Float[Array, " 1"]]:
    """Return the noise of a mixture as that of one component, by ``match_noise``."""
    if (noise_std == noise_std[0]).all() and (degrees == degrees[0]).all():
        return noise_std[:1], degrees[:1]
    inverse, log = expected_noise(degrees, degrees * noise_std**2)
    return match_noise(np.array([weights @ inverse]), np.array([weights @ log]))


# -- quadrature over the noise --------------------------------------------------------------------

_TAIL = 1e-9
"""Mass left out at either end of the nodes; where the noise is large, the share of E[sigma]."""


def noise_nodes(
    freedom: Float[Array, "..."], unit: Float[Array, "..."]
) -> tuple[Float[Array, "... G"], Float[Array, "... G"]]:
    """Return values of sigma^2 and their weights: a quadrature over the noise.

    With g = unit / (2 sigma^2), which is gamma of shape a = freedom / 2, the density of ln g is
    ``exp(a x - exp(x)) / Gamma(a)``: analytic, and falling at least exponentially. The trapezoid
    rule with steps h errs by about ``|Gamma(a + 2 pi i / h)| / Gamma(a)``, which is below 1e-8 for
    ``h = 1 / sqrt(a + 4)``.
    """
    shape = np.asarray(freedom, float) / 2
    low = np.log(scipy.special.gammaincinv(shape - 0.5, _TAIL))
    high = np.log(scipy.special.gammainccinv(shape, _TAIL))
    n = int(np.ceil(((high - low) * np.sqrt(shape + 4)).max(initial=1.0))) + 1
    x = low[..., None] + (high - low)[..., None] * (np.arange(n) / (n - 1))
    log_weight = shape[..., None] * (x - np.log(shape)[..., None])
    log_weight -= shape[..., None] * np.expm1(x - np.log(shape)[..., None])
    weight = np.exp(log_weight)
    weight /= weight.sum(axis=-1, keepdims=True)
    return np.asarray(0.5 * unit[..., None] * np.exp(-x)), weight


_BLOCK = 1 << 22
"""Numbers of Normal marginals at a time: decisions times components times nodes times arms."""


@dataclass(frozen=True)
class StudentMarginal(MeanDistribution):
    """Student distributions of actions' means: given the noise sigma they are normal.

    The four parameters are the location m, the spread r, and the freedom f and unit u of the noise:
    given sigma, the mean is N(m, sigma^2 r), and u / sigma^2 is chi-squared with f degrees of
    freedom. So it is Student with f degrees of freedom, location m and squared scale r u / f. All
    actions of a task have the same noise, and independent means given the noise.
    """

    location = parameter(0)
    spread = parameter(1)
    freedom = parameter(2)
    unit = parameter(3)

    def noise(self) -> Array:
        """Return E[sigma^2]."""
        return np.asarray(self.unit / (self.freedom - 2))

    def sample(self, rng: np.random.Generator) -> Array:
        return self.sample_both(rng)[0]

    def sample_both(self, rng: np.random.Generator) -> tuple[Array, Array]:
        """Draw the noise of each task, (...), and all its means given this noise, (..., K)."""
        sigma = draw_noise(rng, self.freedom[..., 0], self.unit[..., 0])
        x = rng.standard_normal(self.location.shape)
        return self.location + np.sqrt(self.spread) * sigma[..., None] * x, sigma

    def mean(self) -> Array:
        return self.location

    def variance(self) -> Array:
        return np.asarray(self.spread * self.noise())

    def quantile(self, probability: float | Array) -> Array:
        scale = np.sqrt(self.spread * self.unit / self.freedom)
        return np.asarray(self.location + scale * scipy.special.stdtrit(self.freedom, probability))

    def cdf(self, value: Array) -> Array:
        gap, scale = value - self.location, np.sqrt(self.spread * self.unit / self.freedom)
        # A certain mean has no spread: its distribution function is a step.
        with np.errstate(divide="ignore", invalid="ignore"):
            scaled = np.where(gap == 0, 0.0, gap / scale)
        return np.where((scale == 0) & (gap == 0), 1.0, scipy.special.stdtr(self.freedom, scaled))

    def expect(self, n: Array) -> Self:
        """Return the distributions after n more rewards; what they say of the noise is left out."""
        spread = self.spread / (1 + n * self.spread)
        after = np.stack(np.broadcast_arrays(self.location, spread, self.freedom, self.unit))
        return replace(self, parameters=after)

    def reward_entropy(self, mean: Array, variance: Array) -> Array:
        return np.asarray(0.5 * (LOG_2PI_E + np.log(self.noise() + variance)))

    def observe(self, average: Array, squares: Array, n: Array) -> tuple[Array, Array]:
        """Return each action's mean after n rewards of this average, and their log evidence.

        ``squares`` are the squared deviations from the average. The log evidence is
        ``whole_evidence`` and the determinant of one arm, without the terms that do not depend on
        the parameters.
        """
        gap, wide = average - self.location, 1 + n * self.spread
        misfit = squares + n * gap * gap / wide
        half, more = 0.5 * self.freedom, 0.5 * np.maximum(n, 1)
        # ln Gamma(half + more) - ln Gamma(half), without subtracting two large numbers.
        log_evidence = scipy.special.gammaln(more) - scipy.special.betaln(half, more)
        log_evidence = np.where(n > 0, log_evidence, 0.0) - 0.5 * (
            n * np.log(self.unit) + np.log(wide)
        )
        log_evidence = log_evidence - (half + 0.5 * n) * np.log1p(misfit / self.unit)
        return self.location + n * self.spread / wide * gap, log_evidence

    def given_noise(
        self, weights: Float[Array, "m L"]
    ) -> tuple[NormalMarginal, Float[Array, "m L G"]]:
        """Return the normal distributions given values of the noise, (2, m, L, G, K).

        The weights of pairs of a component and a value come with them.
        """
        square, share = noise_nodes(self.freedom[..., 0], self.unit[..., 0])
        spread = self.spread[:, :, None] * square[..., None]
        location = np.broadcast_to(self.location[:, :, None], spread.shape)
        return NormalMarginal(np.stack([location, spread]), 1.0), weights[..., None] * share


class StudentRewards(RewardBelief):
    """Mean rewards of actions with unknown noise."""

    @property
    @abstractmethod
    def marginal(self) -> StudentMarginal: ...

    @abstractmethod
    def draw_both(
        self, rng: np.random.Generator, rows: Int[Array, " n"], latent: Int[Array, " n"]
    ) -> tuple[Float[Array, "n K"], Float[Array, " n"]]:
        """Draw the mean rewards and the noise for pairs of a decision and a component."""

    def draw(
        self, rng: np.random.Generator, rows: Int[Array, " n"], latent: Int[Array, " n"]
    ) -> Float[Array, "n K"]:
        return self.draw_both(rng, rows, latent)[0]

    def draw_estimates(
        self, rng: np.random.Generator, latent: Int[Array, "m n"], n_more: Int[Array, " m"]
    ) -> Float[Array, "m n K"]:
        """Draw what the mean of each action would be after ``n_more`` rewards of it."""
        rows = np.repeat(np.arange(len(latent)), latent.shape[1])
        drawn, sigma = self.draw_both(rng, rows, latent.reshape(-1))
        means, noise = drawn.reshape(*latent.shape, drawn.shape[1]), sigma.reshape(*latent.shape, 1)
        n = n_more[:, None, None]
        averages = means + noise / np.sqrt(np.maximum(n, 1)) * rng.standard_normal(means.shape)
        spare = np.broadcast_to(np.maximum(n - 1, 0), means.shape)
        squares = noise**2 * 2 * rng.standard_gamma(0.5 * spare)
        weights, marginal = self._relevant()
        assert isinstance(marginal, StudentMarginal)
        after, log_evidence = marginal.expand(1).observe(
            averages[:, :, None], squares[:, :, None], n[..., None]
        )
        with np.errstate(divide="ignore"):
            log_weights = np.log(weights)[:, None, :, None]
        after_weights = softmax(np.moveaxis(log_weights + log_evidence, 2, -1))
        estimates = np.einsum("mnkl,mnlk->mnk", after_weights, after)
        return np.where(n > 0, estimates, self.means()[:, None])

    def _reward_entropy(self) -> Float[Array, "m K"]:
        noise = np.einsum("ml,mlk->mk", self.weights, self.marginal.noise())
        return np.asarray(0.5 * (LOG_2PI_E + np.log(noise + self.variances())))


@dataclass(frozen=True)
class StudentArmRewards(ArmRewards, StudentRewards):
    """Mean rewards of arms, which are independent given the component and the noise.

    Everything that needs their joint distribution is a sum over values of the noise
    (``noise_nodes``), for which arms are independent and normal.
    """

    weights: Float[Array, "m L"]
    distributions: StudentMarginal

    @property
    def marginal(self) -> StudentMarginal:
        return self.distributions

    def draw_both(
        self, rng: np.random.Generator, rows: Int[Array, " n"], latent: Int[Array, " n"]
    ) -> tuple[Float[Array, "n K"], Float[Array, " n"]]:
        return self.marginal.select(rows, latent).sample_both(rng)

    def _parts(self) -> list[slice]:
        """Return parts of the decisions whose marginals given the noise fit into memory."""
        _, m, n_components, n_arms = self.marginal.parameters.shape
        size = max(1, _BLOCK // (64 * n_components * n_arms))
        return [slice(start, start + size) for start in range(0, m, size)]

    def _normal(self, rows: slice) -> IndependentRewards:
        """Return the belief in which pairs of a component and a noise are the components."""
        own = self.marginal.select(np.arange(len(self.weights))[rows])
        marginal, weights = own.given_noise(self.weights[rows])
        m, n_arms = len(weights), marginal.parameters.shape[-1]
        flat = replace(marginal, parameters=marginal.parameters.reshape(2, m, -1, n_arms))
        return IndependentRewards(weights.reshape(m, -1), flat)

    def best(
        self, rng: np.random.Generator, mask: Bool[Array, "m K"], n_samples: int
    ) -> tuple[Float[Array, "m K"], Float[Array, "m K"]]:
        """Return P(arm is the best) by quadrature over means and noise, and its errors."""
        chance, error = np.empty(mask.shape), np.empty(mask.shape)
        for rows in self._parts():
            chance[rows], error[rows] = self._normal(rows).best(rng, mask[rows], n_samples)
        return chance, error

    def expected_best(self, mask: Bool[Array, "m K"]) -> Float[Array, " m"]:
        best = np.empty(len(mask))
        for rows in self._parts():
            best[rows] = self._normal(rows).expected_best(mask[rows])
        return best

    def expecting(self, counts: Int[Array, "m K"]) -> StudentArmRewards:
        """Return the belief as if ``counts`` more rewards of each arm had come, all expected.

        They count for the means, but not for the noise: rewards that do not scatter would make it
        small.
        """
        n, old = counts[:, None], self.marginal
        gap, wide = self.means()[:, None] - old.location, 1 + n * old.spread
        misfit = (n * gap * gap / wide).sum(axis=2)
        freedom, unit = old.freedom[..., 0], old.unit[..., 0]
        log_evidence = -0.5 * (np.log(wide).sum(axis=2) + freedom * np.log1p(misfit / unit))
        with np.errstate(divide="ignore"):
            weights = softmax(np.log(self.weights) + log_evidence)
        location = old.location + n * old.spread * gap / wide
        after = np.stack([location, old.spread / wide, old.freedom, old.unit + misfit[..., None]])
        return StudentArmRewards(weights, StudentMarginal(after))
