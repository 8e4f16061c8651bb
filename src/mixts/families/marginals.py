"""Distributions of the mean rewards of actions, and quantiles of their mixtures."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import scipy  # loads a submodule when it is first used

from mixts import _program
from mixts._numbers import softmax
from mixts._typing import Array, Float, Int
from mixts.families.best_arms import LOG_GAMMA, LOGIT_BETA, MINUS_LOG_GAMMA, NORMAL

__all__ = [
    "LOGIT_BETA",
    "LOG_2PI_E",
    "LOG_GAMMA",
    "MINUS_LOG_GAMMA",
    "NEGLIGIBLE",
    "NORMAL",
    "Marginal",
    "MeanDistribution",
    "Money",
    "NormalMarginal",
]


def parameter(index: int) -> Any:
    """Return a property: one of the parameters of a distribution, (..., K)."""
    return property(lambda distribution: distribution.parameters[index])


@dataclass(frozen=True)
class MeanDistribution(ABC):
    """Distributions of actions' means, which q parameters describe, (q, ..., K)."""

    parameters: Array

    lowest: ClassVar[float] = -math.inf
    """The lowest possible mean."""
    highest: ClassVar[float] = math.inf
    """The highest possible average of rewards."""

    @abstractmethod
    def sample(self, rng: np.random.Generator) -> Array:
        """Draw each mean once, independently."""

    def sample_mapped(self, rng: np.random.Generator) -> Array:
        """Draw each mean once, mapped by an increasing function: the best one is still the best.

        A family whose means may round to equal numbers has a map that keeps them apart.
        """
        return self.sample(rng)

    @abstractmethod
    def mean(self) -> Array:
        """Return the expectations."""

    @abstractmethod
    def variance(self) -> Array:
        """Return the variances; 0 is a certain mean."""

    @abstractmethod
    def quantile(self, probability: float | Array) -> Array:
        """Return the quantiles of this probability."""

    @abstractmethod
    def cdf(self, value: Array) -> Array:
        """Return the probability of a mean of at most this value."""

    @abstractmethod
    def expect(self, n: Array) -> Self:
        """Return the distributions after n more rewards of each action, all of them expected."""

    @abstractmethod
    def reward_entropy(self, mean: Array, variance: Array) -> Array:
        """Return the entropy of one reward of an arm whose mean has these moments.

        Rewards other than 0 and 1 count as normal.
        """

    def mixture_quantiles(
        self, weights: Float[Array, "m L"], probability: Float[Array, " m"]
    ) -> Float[Array, "m K"]:
        """Return the quantile of each action's mean under mixtures; parameters (2, m, L, K).

        The quantiles of the components bracket that of the mixture.
        """
        level = np.broadcast_to(probability[:, None, None], self.parameters.shape[1:])
        each = self.quantile(level)
        counts = (weights > NEGLIGIBLE)[:, :, None]
        low = np.where(counts, each, np.inf).min(axis=1)
        high = np.where(counts, each, -np.inf).max(axis=1)

        def excess(x: Array) -> Array:
            below = self.cdf(np.broadcast_to(x[:, None], each.shape))
            return np.einsum("ml,mlk->mk", weights, below) - probability[:, None]

        return find_root(excess, low, high)

    def select(self, *index: Array) -> Self:
        """Return some of the distributions, by indices on the axes before the arms."""
        places: Any = (slice(None), *index)
        return replace(self, parameters=self.parameters[places])

    def expand(self, axis: int) -> Self:
        """Return the distributions with one more axis of length 1 before the arms."""
        return replace(self, parameters=np.expand_dims(self.parameters, axis + 1))


@dataclass(frozen=True)
class Marginal(MeanDistribution):
    """Distributions of actions' means: two parameters each, (2, ..., K).

    Of several rewards, only their number and their average matter.
    """

    form: ClassVar[int]
    """Form of the density after an increasing map to the whole line, with these parameters:
    ``NORMAL``, ``LOGIT_BETA``, ``LOG_GAMMA`` or ``MINUS_LOG_GAMMA``."""

    whole: ClassVar[bool] = False
    """Whether rewards are whole numbers."""

    @abstractmethod
    def observe(self, average: Array, n: Array) -> tuple[Self, Array]:
        """Return the distributions after n rewards of this average, and the log evidence of these.

        Neither n rewards nor their sum need be whole numbers, and n may be 0. The log evidence
        lacks the terms that do not depend on the parameters.
        """

    def expect(self, n: Array) -> Self:
        return self.observe(self.mean(), n)[0]

    @abstractmethod
    def draw_averages(self, rng: np.random.Generator, means: Array, n: Array) -> Array:
        """Draw the average of n rewards of arms with these means; n is at least 1."""

    def estimates(
        self,
        weights: Float[Array, "m L"],
        averages: Float[Array, "m n _"],
        n_more: Int[Array, "m 1 1"],
    ) -> Float[Array, "m n K"]:
        """Return the mean of each action under mixtures after n more rewards of this average."""
        after, log_evidence = self.expand(1).observe(averages[:, :, None], n_more[:, None])
        with np.errstate(divide="ignore"):
            log_weights = np.log(weights)[:, None, :, None]
        after_weights = softmax(np.moveaxis(log_weights + log_evidence, 2, -1))
        return np.einsum("mnkl,mnlk->mnk", after_weights, after.mean())


NEGLIGIBLE = 1e-12
"""Components of less weight change no quantile and no estimate that matters."""

_ROOT_PRECISION = 1e-15
"""Relative error of a quantile."""

LOG_2PI_E = math.log(2 * math.pi * math.e)
"""Twice the entropy of a standard normal variable."""


@dataclass(frozen=True)
class NormalMarginal(Marginal):
    """Normal distributions of arms' means; a variance of zero is a certain mean."""

    form: ClassVar[int] = NORMAL

    noise: float
    """Variance of a reward around its arm's mean."""

    location = parameter(0)
    variances = parameter(1)

    def sample(self, rng: np.random.Generator) -> Array:
        return self.location + np.sqrt(self.variances) * rng.standard_normal(self.location.shape)

    def mean(self) -> Array:
        return self.location

    def variance(self) -> Array:
        return self.variances

    def quantile(self, probability: float | Array) -> Array:
        return self.location + scipy.special.ndtri(probability) * np.sqrt(self.variances)

    def cdf(self, value: Array) -> Array:
        gap = value - self.location
        # A certain mean has no spread: its distribution function is a step.
        with np.errstate(divide="ignore", invalid="ignore"):
            scaled = np.where(gap == 0, 0.0, gap / np.sqrt(self.variances))
        return np.where((self.variances == 0) & (gap == 0), 1.0, scipy.special.ndtr(scaled))

    def mixture_quantiles(
        self, weights: Float[Array, "m L"], probability: Float[Array, " m"]
    ) -> Float[Array, "m K"]:
        core, standard = _program.core, scipy.special.ndtri(probability)
        if core is None:
            return super().mixture_quantiles(weights, probability)
        found = np.empty((len(weights), self.parameters.shape[3]))
        arrays = weights, self.parameters, probability, standard
        weights, parameters, probability, standard = map(np.ascontiguousarray, arrays)
        core.mixture_quantiles(weights, parameters, probability, standard, NEGLIGIBLE, found)
        return found

    def estimates(
        self,
        weights: Float[Array, "m L"],
        averages: Float[Array, "m n _"],
        n_more: Int[Array, "m 1 1"],
    ) -> Float[Array, "m n K"]:
        if _program.core is None:
            return super().estimates(weights, averages, n_more)
        found, n = np.empty(averages.shape), np.ascontiguousarray(n_more[:, 0, 0])
        weights, parameters = np.ascontiguousarray(weights), np.ascontiguousarray(self.parameters)
        averages = np.ascontiguousarray(averages)
        _program.core.estimates(weights, parameters, self.noise, averages, n, found)
        return found

    def observe(self, average: Array, n: Array) -> tuple[Self, Array]:
        gap, total = average - self.location, self.noise + n * self.variances
        location = self.location + n * self.variances * gap / total
        variances = self.variances * self.noise / total
        log_evidence = -0.5 * (np.log(total / self.noise) + n * gap * gap / total)
        after = np.stack(np.broadcast_arrays(location, variances))
        return replace(self, parameters=after), log_evidence

    def draw_averages(self, rng: np.random.Generator, means: Array, n: Array) -> Array:
        return means + np.sqrt(self.noise / n) * rng.standard_normal(means.shape)

    def reward_entropy(self, mean: Array, variance: Array) -> Array:
        return 0.5 * (LOG_2PI_E + np.log(self.noise + variance))


class Money(NamedTuple):
    """The utility of an action's mean reward: value * mean reward - cost, for m decisions."""

    values: Float[Array, "m K"]
    costs: Float[Array, "m K"]

    def of(self, outcomes: Float[Array, "m ... K"]) -> Float[Array, "m ... K"]:
        """Return the utilities of mean rewards."""
        between = (slice(None), *[None] * (outcomes.ndim - 2))
        return self.values[between] * outcomes - self.costs[between]

    def part(self, rows: slice) -> Money:
        """Return the money of some decisions."""
        return Money(self.values[rows], self.costs[rows])


def find_root(function: Callable[[Array], Array], low: Array, high: Array) -> Array:
    """Return the zeros of an increasing function between ``low`` and ``high``, elementwise.

    Chandrupatla's method: inverse quadratic interpolation where that is safe, else bisection.
    """
    a, b, c = high, low, low
    f_a, f_b, f_c = function(a), function(b), np.zeros_like(low)
    t = np.full_like(low, 0.5)
    with np.errstate(divide="ignore", invalid="ignore"):
        while True:
            x = a + t * (b - a)
            f = function(x)
            same = np.sign(f) == np.sign(f_a)
            c, f_c = np.where(same, a, b), np.where(same, f_a, f_b)
            b, f_b = np.where(same, b, a), np.where(same, f_b, f_a)
            a, f_a = x, f
            nearer = np.abs(f_a) < np.abs(f_b)
            best, rest = np.where(nearer, a, b), np.where(nearer, f_a, f_b)
            least = _ROOT_PRECISION * np.maximum(np.abs(best), np.abs(high - low)) / np.abs(b - a)
            if ((rest == 0) | ~(least < 0.5)).all():
                return best
            place, fraction = (a - b) / (c - b), (f_a - f_b) / (f_c - f_b)
            safe = (fraction**2 < place) & ((1 - fraction) ** 2 < 1 - place)
            t = f_a / (f_b - f_a) * f_c / (f_b - f_c)
            t = t + (c - a) / (b - a) * f_a / (f_c - f_a) * f_b / (f_c - f_b)
            t = np.clip(np.where(safe & np.isfinite(t), t, 0.5), least, 1 - least)
            t = np.where(np.isfinite(t), t, 0.5)
