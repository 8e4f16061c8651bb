"""Poisson arms: counts as rewards, a Gamma prior on each arm's mean."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import scipy  # loads a submodule when it is first used

from mixts import _checks
from mixts._numbers import LARGEST_COUNT, LARGEST_TOTAL
from mixts._typing import Array, ArrayLike, Bool, Float, Int
from mixts.families.arms import ArmFamily, ArmStatistics
from mixts.families.marginals import LOG_2PI_E, LOG_GAMMA, Marginal, parameter
from mixts.families.special import draw_log_gamma, log_rising, stirling_rest
from mixts.families.statistics import Statistics, stored


class PoissonStatistics(ArmStatistics):
    """Count of observations, total and sum of log factorials of each arm, (tasks, arms).

    Histories merge by adding all three.
    """

    kind: ClassVar[str] = "poisson-arms"
    fields: ClassVar[dict[str, Any]] = {
        "count": np.int64,
        "total": np.int64,
        "log_factorials": float,
    }
    support: ClassVar[str] = "whole numbers from 0 to 2^53 (2^62 in all)"
    core_count: ClassVar[str] = "count_poisson"

    count = stored("count", "Number of observations of each arm.")
    total = stored("total", "Sum of each arm's rewards.")
    log_factorials = stored("log_factorials", "Sum of ln y! over each arm's rewards.")

    def accepts(self, rewards: Float[Array, " m"]) -> Bool[Array, " m"]:
        whole = rewards == np.floor(rewards)
        return np.asarray((rewards >= 0) & (rewards <= LARGEST_COUNT) & whole)

    def _possible(self, tasks: Array, arms: Array, rewards: Array) -> Bool[Array, " m"]:
        """Return which observations are possible, and cannot make a total overflow."""
        good = super()._possible(tasks, arms, rewards)
        total = self.array("total")[tasks, np.where(good, arms, 0)]
        return np.asarray(good & (total + np.cumsum(rewards) <= LARGEST_TOTAL))

    def count_rewards(self, at: tuple[Array, Array], rewards: Float[Array, " m"]) -> None:
        np.add.at(self.array("count"), at, 1)
        np.add.at(self.array("total"), at, rewards.astype(np.int64))
        np.add.at(self.array("log_factorials"), at, log_rising(1.0, rewards))


@dataclass(frozen=True)
class GammaMarginal(Marginal):
    """Gamma distributions (shape a, rate b) of arms' rates."""

    form: ClassVar[int] = LOG_GAMMA
    whole: ClassVar[bool] = True
    lowest: ClassVar[float] = 0.0

    a = parameter(0)
    b = parameter(1)

    def sample(self, rng: np.random.Generator) -> Array:
        return rng.standard_gamma(self.a) / self.b

    def sample_mapped(self, rng: np.random.Generator) -> Array:
        """Draw the logarithms of the means: many means of small shapes underflow to 0."""
        return draw_log_gamma(rng, self.a) - np.log(self.b)

    def mean(self) -> Array:
        return self.a / self.b

    def variance(self) -> Array:
        return self.a / self.b**2

    def quantile(self, probability: float | Array) -> Array:
        return np.asarray(scipy.special.gammaincinv(self.a, probability) / self.b)

    def cdf(self, value: Array) -> Array:
        return np.asarray(scipy.special.gammainc(self.a, self.b * value))

    def observe(self, average: Array, n: Array) -> tuple[Self, Array]:
        total, rate = n * average, self.b + n
        after = np.stack(np.broadcast_arrays(self.a + total, rate))
        log_evidence = log_rising(self.a, total) - self.a * np.log1p(n / self.b)
        return replace(self, parameters=after), log_evidence - total * np.log(rate)

    def draw_averages(self, rng: np.random.Generator, means: Array, n: Array) -> Array:
        return np.asarray(rng.poisson(n * means) / n)

    def reward_entropy(self, mean: Array, variance: Array) -> Array:
        return 0.5 * (LOG_2PI_E + np.log(mean + variance))


class PoissonArms(ArmFamily):
    """Family of K arms with Poisson rewards and Gamma priors on their means, for L components.

    The mean of an arm is Gamma(a, b): a is ``shape`` and b is ``rate``. Components are conjugate
    [paper: Sec. 3]. With n rewards y_i, their sum y, and the gamma function G, these are for an
    arm:

    *Log evidence*::

        ln G(a + y) - ln G(a) + a ln b - (a + y) ln(b + n) - sum ln y_i!

    *Posterior of the mean reward*: Gamma(a + y, b + n), see ``GammaMarginal``.

    Parameters
    ----------
    shape, rate
        Parameters of the Gamma prior of each arm's mean under each component, (L, K), above 0.

    Examples
    --------
    >>> import mixts
    >>> family = mixts.PoissonArms(shape=[[20, 5], [5, 20]], rate=[[5, 5], [5, 5]])
    >>> belief = mixts.MixturePrior(family).belief()
    >>> belief.update([0, 1], [5, 0])
    >>> belief.weights.round(3)
    array([0.997, 0.003])
    """

    kind: ClassVar[str] = "poisson-arms"
    array_names: ClassVar[tuple[str, ...]] = ("shape", "rate")
    statistics_type: ClassVar[type[ArmStatistics]] = PoissonStatistics
    core_class: ClassVar[str] = "PoissonArms"

    def __init__(self, shape: ArrayLike, rate: ArrayLike) -> None:
        self.shape: Float[Array, "L K"] = _checks.parameter_array(shape, "shape", 2)
        self.rate: Float[Array, "L K"] = _checks.parameter_array(rate, "rate", 2)
        _checks.same_shape(self.shape, self.rate, "shape and rate")
        _checks.positive(self.shape, "shape")
        _checks.positive(self.rate, "rate")

    def relative_evidence(self, statistics: PoissonStatistics) -> Float[Array, "n L"]:
        """Return the log evidence minus ``y (ln(y / n) - 1) - sum ln y_i!``, which all share.

        With Stirling's formula for both gamma functions, and its rest R (``stirling_rest``), it has
        no large numbers whose difference is small::

            (a - 1/2) ln(1 + y / a) - a ln(1 + n / b)
            + y [ln(1 + a / y) - ln(1 + b / n)] + R(a + y) - R(a)
        """
        n, y = (statistics.array(name)[:, None] for name in ("count", "total"))
        a, b = self.shape, self.rate
        each = (a - 0.5) * np.log1p(y / a) - a * np.log1p(n / b)
        each += y * (np.log1p(a / np.maximum(y, 1)) - np.log1p(b / np.maximum(n, 1)))
        return np.asarray((each + stirling_rest(a + y) - stirling_rest(a)).sum(axis=2))

    def posterior_parameters(
        self, statistics: PoissonStatistics, tasks: Int[Array, "..."], latent: Int[Array, "..."]
    ) -> Float[Array, "2 ... K"]:
        count, total, _ = statistics.stored
        return np.stack([self.shape[latent] + total[tasks], self.rate[latent] + count[tasks]])

    def marginal(self, parameters: Float[Array, "2 ... K"]) -> GammaMarginal:
        return GammaMarginal(parameters)

    def evidence_constant(self, statistics: Statistics) -> Float[Array, " n"]:
        """Return the shared terms ``y (ln(y / n) - 1) - sum ln y_i!``, summed over arms."""
        total, count = statistics.array("total"), statistics.array("count")
        mean = np.where(total > 0, total / np.maximum(count, 1), 1.0)
        shared = total * np.log(mean) - total
        return np.asarray((shared - statistics.array("log_factorials")).sum(axis=1))

    @classmethod
    def match(cls, mean: Array, variance: Array, settings: dict[str, Any]) -> Self:
        return cls(mean**2 / variance, mean / variance)

    def outcomes(self, rng: np.random.Generator, means: Float[Array, " n"]) -> Float[Array, " n"]:
        # By inversion: one uniform number per reward, so that every agent has the same luck.
        return np.asarray(scipy.stats.poisson.ppf(rng.random(means.shape), means), dtype=float)
