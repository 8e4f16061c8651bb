"""What priors predict of arms: each one's statistic, given its tries and the arms before it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator

import numpy as np
from scipy import special

from mixts._typing import Array, Float, Int
from mixts.families import BernoulliArms, GaussianArms, PoissonArms, Statistics
from mixts.families._kernels.arms import LARGEST_TOTAL
from mixts.families.arms import ArmFamily, ArmStatistics
from mixts.learning._kernels.tails import predict_counts
from mixts.learning.checking.evidence import mixture_evidence
from mixts.learning.checking.predictive import Part, Predictive
from mixts.prior import MixturePrior

BLOCK = 1 << 18
"""Numbers of replicated statistics at a time: their tasks, draws and arms."""

LOG_2PI = float(np.log(2 * np.pi))


class ArmPredictive(Predictive):
    """Arms one after the other."""

    family: ArmFamily

    def __init__(self, prior: MixturePrior, statistics: Statistics) -> None:
        assert isinstance(statistics, ArmStatistics)
        self.prior, self.statistics = prior, statistics
        self.pulls: Int[Array, "n K"] = statistics.pulls

    def parts(self) -> Iterator[Part]:
        for arm in range(self.pulls.shape[1]):
            tasks = np.flatnonzero(self.pulls[:, arm])
            yield Part("rewards", tasks, *self._predict(arm, tasks))

    def scores(self) -> Float[Array, " n"]:
        return mixture_evidence(self.prior, self.statistics) + self._orders(self.statistics)

    def replicate(
        self, rng: np.random.Generator, tasks: Int[Array, " m"], n: int
    ) -> Float[Array, "m n"]:
        out = np.empty((len(tasks), n))
        rows = max(1, BLOCK // (self.pulls.shape[1] * n))
        for start in range(0, len(tasks), rows):
            part = tasks[start : start + rows]
            pulls = np.repeat(self.pulls[part], n, axis=0)
            _, means = self.prior.draw(rng, len(pulls))
            drawn = self._draw(rng, pulls, means)
            score = mixture_evidence(self.prior, drawn) + self._orders(drawn)
            out[start : start + rows] = score.reshape(len(part), n)
        return out

    @abstractmethod
    def _predict(self, arm: int, tasks: Int[Array, " m"]) -> tuple[Array, Array, Array]:
        """ln p(statistic), p(less) and p(equal) of an arm for these tasks, (m, L) each."""

    @abstractmethod
    def _orders(self, statistics: Statistics) -> Float[Array, " n"]:
        """ln of how many histories (of which measure) have the same statistics."""

    @abstractmethod
    def _draw(self, rng: np.random.Generator, pulls: Array, means: Array) -> Statistics:
        """Statistics of so many pulls of arms with these mean rewards, (m, K) each."""


class BernoulliPredictive(ArmPredictive):
    """Beta-binomial counts of successes."""

    def _predict(self, arm: int, tasks: Int[Array, " m"]) -> tuple[Array, Array, Array]:
        family = self.prior.family
        assert isinstance(family, BernoulliArms)
        won = self.statistics.array("successes")[tasks, arm]
        return counts_law(won, self.pulls[tasks, arm], family.alpha[:, arm], family.beta[:, arm])

    def _orders(self, statistics: Statistics) -> Float[Array, " n"]:
        won, lost = statistics.array("successes"), statistics.array("failures")
        return np.asarray(log_orders(np.stack([won, lost], axis=-1)).sum(axis=1))

    def _draw(self, rng: np.random.Generator, pulls: Array, means: Array) -> Statistics:
        won = rng.binomial(pulls, means)
        return type(self.statistics)(successes=won, failures=pulls - won)


class PoissonPredictive(ArmPredictive):
    """Negative binomial totals."""

    def _predict(self, arm: int, tasks: Int[Array, " m"]) -> tuple[Array, Array, Array]:
        family = self.prior.family
        assert isinstance(family, PoissonArms)
        y = self.statistics.array("total")[tasks, arm, None].astype(float)
        n = self.pulls[tasks, arm, None].astype(float)
        a, b = family.shape[:, arm], family.rate[:, arm]
        # Gamma(a + y) / (Gamma(a) y!) = 1 / ((a + y) B(a, y + 1))
        log = -special.betaln(a, y + 1) - np.log(a + y) - a * np.log1p(n / b)
        log = log - special.xlogy(y, 1 + b / n)
        least = np.where(y > 0, special.betainc(a, np.maximum(y, 1), b / (b + n)), 0.0)
        return log, least, np.exp(np.minimum(log, 0.0))

    def _orders(self, statistics: Statistics) -> Float[Array, " n"]:
        """The total of n rewards is n^y / y! times as likely as rewards without ln y! of each."""
        n, y = statistics.array("count"), statistics.array("total")
        log = special.xlogy(y, np.maximum(n, 1)) - special.gammaln(y + 1.0)
        return np.asarray((log + statistics.array("log_factorials")).sum(axis=1))

    def _draw(self, rng: np.random.Generator, pulls: Array, means: Array) -> Statistics:
        total = rng.poisson(np.minimum(pulls * means, LARGEST_TOTAL / 2))
        return type(self.statistics)(count=pulls, total=total, log_factorials=np.zeros(total.shape))


class GaussianPredictive(ArmPredictive):
    """Normal averages; the deviations from them are the noise alone, chi-squared."""

    def parts(self) -> Iterator[Part]:
        yield from super().parts()
        family = self.prior.family
        assert isinstance(family, GaussianArms)
        spare = np.maximum(self.pulls - 1, 0).sum(axis=1)
        squares = self.statistics.array("squares").sum(axis=1)
        yield noise_part(spare, squares / family.noise_std**2)

    def _predict(self, arm: int, tasks: Int[Array, " m"]) -> tuple[Array, Array, Array]:
        family = self.prior.family
        assert isinstance(family, GaussianArms)
        noise = family.noise_std**2 / self.pulls[tasks, arm, None]
        variance = family.variance[:, arm] + noise
        gap = self.statistics.array("average")[tasks, arm, None] - family.mean[:, arm]
        score = gap / np.sqrt(variance)
        log = -0.5 * (LOG_2PI + np.log(variance) + score**2)
        return log, special.ndtr(score), np.zeros_like(log)

    def _orders(self, statistics: Statistics) -> Float[Array, " n"]:
        return np.zeros(len(statistics))

    def _draw(self, rng: np.random.Generator, pulls: Array, means: Array) -> Statistics:
        family = self.prior.family
        assert isinstance(family, GaussianArms)
        sigma, n = family.noise_std, np.maximum(pulls, 1)
        average = means + sigma / np.sqrt(n) * rng.standard_normal(means.shape)
        squares = sigma**2 * chi_squared(rng, n - 1)
        tried = pulls > 0
        return type(self.statistics)(count=pulls, average=average * tried, squares=squares * tried)


def counts_law(
    won: Int[Array, " m"], tried: Int[Array, " m"], alpha: Array, beta: Array
) -> tuple[Array, Array, Array]:
    """ln p(won), p(less) and p(won) of beta-binomial laws, (m, L); parameters (L,) or (m, L)."""
    shape = (len(won), alpha.shape[-1])
    log, less, equal = (np.empty(shape) for _ in range(3))
    a, b = (np.array(np.broadcast_to(x, shape), order="C") for x in (alpha, beta))
    predict_counts(won.astype(np.int64), tried.astype(np.int64), a, b, log, less, equal)
    return log, less, equal


def log_orders(counts: Int[Array, "... k"]) -> Float[Array, "..."]:
    """ln of the multinomial coefficients of the last axis."""
    each = special.gammaln(counts + 1.0).sum(axis=-1)
    return np.asarray(special.gammaln(counts.sum(axis=-1) + 1.0) - each)


def noise_part(spare: Int[Array, " n"], squares: Float[Array, " n"]) -> Part:
    """Squared residuals in units of the noise, chi-squared with ``spare`` degrees of freedom.

    They are the same under every component.
    """
    tasks = np.flatnonzero(spare)
    less = special.gammainc(spare[tasks, None] / 2, squares[tasks, None] / 2)
    return Part("noise", tasks, np.zeros_like(less), less, np.zeros_like(less))


def chi_squared(rng: np.random.Generator, freedom: Int[Array, "..."]) -> Float[Array, "..."]:
    """Chi-squared variables; with no degree of freedom 0."""
    return 2 * rng.standard_gamma(freedom / 2)
