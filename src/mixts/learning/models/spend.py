"""Spend arms: how their prior is learned, by expectation maximisation, and checked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from scipy import special

from mixts._numbers import LOG_2PI
from mixts._typing import Array, Float, Int
from mixts.families import BernoulliArms, BernoulliStatistics, Family, SpendArms, SpendStatistics
from mixts.families.spend_marginal import (
    LEVELS,
    LIMITS,
    fit_levels,
    learn_spends,
    level_means,
    level_weights,
    log_sum,
    spend_evidence,
)
from mixts.families.statistics import Statistics
from mixts.learning.models.base import MomentModel, positive
from mixts.learning.models.counts import BernoulliModel, RowSums, beta_binomial, log_orders
from mixts.learning.models.predictive import ArmPredictive, Prediction, chi_squared
from mixts.learning.two_stage import Group

BROAD_SHAPE = 2.0
"""Shape of sigma^2 in the broad component: worth four purchases."""

LEAST_STRENGTH, MOST_STRENGTH = 0.05, 1e4
"""Limits of the strength. With less, the largest sigma^2 would decide about the mean spend alone,
and its variance would overflow; the upper limit is for two stages."""


class SpendModel(MomentModel):
    """Tasks with purchases and spends. Purchases are learned as rewards of Bernoulli arms.

    The E step computes the posterior of mu and sigma^2 of every task and arm with purchases; their
    expectations then determine the spends' parameters. Arms without purchases say nothing about
    spends.
    """

    statistics_type: ClassVar[type[Statistics]] = SpendStatistics
    statistics: SpendStatistics
    centre: SpendArms

    def __init__(self, statistics: SpendStatistics) -> None:
        self._buying = BernoulliModel(_purchases(statistics))
        super().__init__(statistics)

    def with_tasks(self, statistics: Statistics) -> Self:
        other = super().with_tasks(statistics)
        other._buying = self._buying.with_tasks(_purchases(statistics))
        return other

    def _prepare(self) -> None:
        statistics = self.statistics
        self._task, self._arm = np.nonzero(statistics.array("purchases"))
        self._spends = tuple(
            statistics.array(name)[self._task, self._arm, None].astype(float)
            for name in ("purchases", "average", "squares")
        )

    def about(self, centre: Family, pseudo: Any) -> Self:
        assert isinstance(centre, SpendArms)
        other = super().about(centre, pseudo)
        other._buying = self._buying.about(_rates(centre), pseudo)
        return other

    def _broad(self) -> SpendArms:
        """Return a component around the average log spend, as wide as the arms' averages."""
        shape = (1, self.statistics.shape[0])
        n, average, _ = self._spends
        total = max(float(n.sum()), 1.0)
        mean = float((n * average).sum() / total)
        variance = self._typical_variance()
        between = float((n * (average - mean) ** 2).sum() / total)
        strength = float(np.clip(variance / max(between, 1e-12), LEAST_STRENGTH, 1.0))
        rates = self._buying.centre
        assert isinstance(rates, BernoulliArms)
        spends = (mean, strength, BROAD_SHAPE, BROAD_SHAPE * variance)
        return SpendArms(rates.alpha, rates.beta, *(np.full(shape, x) for x in spends))

    def _typical_variance(self) -> float:
        """Estimate sigma^2 within arms and tasks; half of the whole variance if none bought twice.

        It stays inside the levels.
        """
        n, average, squares = self._spends
        spare = float((n - 1).sum())
        if spare:
            found = float(squares.sum()) / spare
        else:
            found = float(average.var()) / 2 if len(average) else 1.0
        return float(np.clip(found, LEVELS[0], LEVELS[-1]))

    # -- evidence -------------------------------------------------------------------------------

    def _own(self, family: SpendArms) -> Float[Array, "4 m L"]:
        """Return the parameters of spends for every task and arm with purchases."""
        parameters = (family.log_spend, family.strength, family.shape, family.scale)
        return np.stack([parameter.T[self._arm] for parameter in parameters])

    def _after(self, own: Float[Array, "4 m L"]) -> Float[Array, "4 m L"]:
        return learn_spends(own, *self._spends)

    def log_evidence(self, family: SpendArms) -> Float[Array, "n L"]:  # type: ignore[override]
        own = self._own(family)
        after = self._after(own)
        norm = log_sum(family.shape.T, family.scale.T)[self._arm]
        gaps = spend_evidence(own[1], after[1], norm, log_sum(after[2], after[3]))
        out = self._buying.log_evidence(_rates(family))
        np.add.at(out, self._task, gaps)
        return out + family.evidence_constant(self.statistics)[:, None]

    def log_hyperprior(self, family: SpendArms) -> float:  # type: ignore[override]
        logs, inverses, _ = level_means(self.centre.shape, self.centre.scale)
        about = 1 / self.centre.strength
        about = about + inverses * (self.centre.log_spend - family.log_spend) ** 2
        value = 0.5 * (np.log(family.strength) - family.strength * about)
        value = value - family.shape * logs - family.scale * inverses
        value = value - log_sum(family.shape, family.scale)
        return self._buying.log_hyperprior(_rates(family)) + float((self.pseudo * value).sum())

    def sums(self, family: SpendArms, share: Array) -> SpendSums:  # type: ignore[override]
        after = self._after(self._own(family))
        logs, inverses, _ = level_means(after[2], after[3])
        weight, gap = share[self._task], after[0] - family.log_spend.T[self._arm]
        sharp = weight * inverses
        spends = (
            weight, sharp, sharp * gap, sharp * gap * gap + weight / after[1], weight * logs,
        )  # fmt: skip
        rates = self._buying.sums(_rates(family), share)
        return SpendSums(rates, *map(self._by_arm, spends))

    def improved(self, family: SpendArms, sums: SpendSums) -> SpendArms:  # type: ignore[override]
        rates = self._buying.improved(_rates(family), sums.rates)
        assert isinstance(rates, BernoulliArms)
        centre_logs, centre_inverses, _ = level_means(self.centre.shape, self.centre.scale)
        # The centre is drawn this often, and observed exactly.
        n = sums.tasks + self.pseudo
        pull, start = self.pseudo * centre_inverses, self.centre.log_spend - family.log_spend
        precision = sums.sharp + pull
        step = (sums.first + pull * start) / precision
        misfit = sums.second - 2 * sums.first * step + sums.sharp * step**2
        misfit += pull * (start - step) ** 2 + self.pseudo / self.centre.strength
        mean_log = (sums.logs + self.pseudo * centre_logs) / n
        shape, scale = fit_levels(family.shape, family.scale, mean_log, precision / n)
        strength = np.maximum(n / misfit, LEAST_STRENGTH)
        return SpendArms(rates.alpha, rates.beta, family.log_spend + step, strength, shape, scale)

    def _by_arm(self, values: Float[Array, "m L"]) -> Float[Array, "L K"]:
        """Sum over the tasks of each arm."""
        n_arms = self.statistics.shape[0]
        sums = [np.bincount(self._arm, column, n_arms) for column in values.T]
        return np.stack(sums).astype(float)

    # -- what learning asks of every model --------------------------------------------------------

    def pack(self, family: SpendArms) -> Float[Array, " p"]:  # type: ignore[override]
        rates = self._buying.pack(_rates(family))
        logs = np.log(np.stack([family.strength, family.shape, family.scale]))
        return np.concatenate([rates, family.log_spend.ravel(), logs.ravel()])

    def unpack(self, numbers: Array, n_components: int) -> SpendArms | None:
        shape = (n_components, self.statistics.shape[0])
        size = shape[0] * shape[1]
        rates = self._buying.unpack(numbers[: 2 * size], n_components)
        rest = positive(numbers[3 * size :])
        if rates is None or rest is None or not np.isfinite(numbers).all():
            return None
        assert isinstance(rates, BernoulliArms)
        strength, *levels = rest.reshape(3, *shape)
        log_spend = numbers[2 * size : 3 * size].reshape(shape)
        limited = (np.clip(x, *LIMITS) for x in levels)
        strength = np.maximum(strength, LEAST_STRENGTH)
        return SpendArms(rates.alpha, rates.beta, log_spend, strength, *limited)

    def estimates(self, family: SpendArms) -> Float[Array, "n p"]:  # type: ignore[override]
        """Return posterior means: logarithms of purchase rates, and log spends."""
        rates = self._buying.estimates(_rates(family))
        purchases, average = (self.statistics.array(name) for name in ("purchases", "average"))
        trust = purchases / (purchases + family.strength[0])
        spends = family.log_spend[0] + trust * (average - family.log_spend[0])
        return np.concatenate([np.log(rates), spends], axis=1)

    def match(
        self, groups: Int[Array, " n"], n_groups: int, pooled: Family | None = None
    ) -> SpendArms:
        """Match rates as Bernoulli arms do, and the mean and variance of average log spends."""
        prior = self.centre if pooled is None else pooled
        assert isinstance(prior, SpendArms)
        rates = self._buying.match(groups, n_groups, _rates(prior))
        assert isinstance(rates, BernoulliArms)
        purchases, average, squares = (
            self.statistics.array(name) for name in ("purchases", "average", "squares")
        )
        inside = [groups == g for g in range(n_groups)]
        spare = np.stack([np.maximum(purchases[i] - 1, 0).sum(axis=0) for i in inside])
        within = np.stack([squares[i].sum(axis=0) for i in inside])
        # The prior's variance is worth 2 shape purchases, also here.
        level = (within + 2 * prior.scale) / (spare + 2 * prior.shape)
        level = np.clip(level, LEVELS[0], LEVELS[-1])
        found = [Group.of(average, purchases, i) for i in inside]
        seen = np.stack([group.seen for group in found])
        mean = np.stack([group.mean for group in found])
        variance = np.stack([group.variance(v) for group, v in zip(found, level, strict=True)])
        variance = np.where(np.isnan(variance), level / prior.strength, variance)
        variance = np.maximum(variance, level / np.maximum(seen, 1))
        strength = np.clip(level / variance, LEAST_STRENGTH, MOST_STRENGTH)
        own = (mean, strength, np.broadcast_to(prior.shape, level.shape), prior.shape * level)
        usual = (prior.log_spend, prior.strength, prior.shape, prior.scale)
        spends = (np.where(seen > 0, a, b) for a, b in zip(own, usual, strict=True))
        return SpendArms(rates.alpha, rates.beta, *spends)

    def n_parameters(self, n_components: int) -> int:
        return n_components * (6 * self.statistics.shape[0] + 1) - 1


class SpendSums(NamedTuple):
    """Sums over tasks with purchases of an arm, weighted by shares, (L, K)."""

    rates: tuple[RowSums, ...]
    """Sums of all tasks about the rates of purchases."""
    tasks: Array
    """Sums of 1."""
    sharp: Array
    """Sums of u = E[1 / sigma^2]."""
    first: Array
    """Sums of u (mu - m_s), for the posterior mean mu of log spends."""
    second: Array
    """Sums of E[(mu - m_s)^2 / sigma^2]."""
    logs: Array
    """Sums of E[ln sigma^2]."""


def _purchases(statistics: Statistics) -> BernoulliStatistics:
    """Return purchases as rewards of 1."""
    return BernoulliStatistics.adopt([statistics.array(name) for name in ("purchases", "misses")])


def _rates(family: SpendArms) -> BernoulliArms:
    """Return the purchases as Bernoulli arms."""
    return BernoulliArms(family.alpha, family.beta)


class SpendPredictive(ArmPredictive):
    """Predictions of numbers of purchases, of the deviations of log spends and of their averages.

    Each is predicted given those before it: deviations say something about sigma^2, and that says
    how far the average may be off.
    """

    family_type: ClassVar[type[Family]] = SpendArms

    def parts(self) -> Iterator[Prediction]:
        family = self.family
        bought, average, squares = (
            self.statistics.array(name) for name in ("purchases", "average", "squares")
        )
        for arm in range(self.pulls.shape[1]):
            tasks = np.flatnonzero(self.pulls[:, arm])
            yield Prediction("rewards", tasks, *self._predict(arm, tasks))
            shape, scale = family.shape[:, arm], family.scale[:, arm]
            tasks = np.flatnonzero(bought[:, arm] > 1)
            spare = bought[tasks, arm, None] - 1.0
            yield Prediction(
                "noise", tasks, *_deviations(shape, scale, spare, squares[tasks, arm, None])
            )
            tasks = np.flatnonzero(bought[:, arm])
            n = bought[tasks, arm, None].astype(float)
            shape, scale = shape + (n - 1) / 2, scale + squares[tasks, arm, None] / 2
            gap = average[tasks, arm, None] - family.log_spend[:, arm]
            yield Prediction(
                "rewards", tasks, *_averages(shape, scale, gap, n, family.strength[:, arm])
            )

    def _predict(self, arm: int, tasks: Int[Array, " m"]) -> tuple[Array, Array, Array]:
        """Predict numbers of purchases."""
        family = self.family
        bought = self.statistics.array("purchases")[tasks, arm]
        return beta_binomial(
            bought, self.pulls[tasks, arm], family.alpha[:, arm], family.beta[:, arm]
        )

    def _orders(self, statistics: Statistics) -> Float[Array, " n"]:
        bought, missed = statistics.array("purchases"), statistics.array("misses")
        return np.asarray(log_orders(np.stack([bought, missed], axis=-1)).sum(axis=1))

    def _draw(self, rng: np.random.Generator, pulls: Array, means: Array) -> Statistics:
        mean, rate, mu = np.split(means, 3, axis=1)
        variance = 2 * (np.log(np.maximum(mean, 1e-300)) - np.log(rate) - mu)
        variance = np.clip(variance, LEVELS[0], LEVELS[-1])
        bought = rng.binomial(pulls, rate)
        n, some = np.maximum(bought, 1), bought > 0
        average = mu + np.sqrt(variance / n) * rng.standard_normal(mu.shape)
        squares = variance * chi_squared(rng, n - 1)
        return type(self.statistics)(
            purchases=bought, misses=pulls - bought, average=average * some, squares=squares * some
        )


def _deviations(
    shape: Float[Array, " L"], scale: Float[Array, " L"], spare: Array, squares: Array
) -> tuple[Array, Array, Array]:
    """Predict sums of squares, chi-squared times sigma^2; return ln p, p(less) and p(equal) = 0."""
    log = log_sum(shape + spare / 2, scale + squares / 2) - log_sum(shape, scale)
    less = special.gammainc(spare / 2, squares / (2 * LEVELS)) @ level_weights(shape, scale).T
    return log, less, np.zeros_like(log)


def _averages(
    shape: Float[Array, "m L"],
    scale: Float[Array, "m L"],
    gap: Float[Array, "m L"],
    n: Float[Array, "m 1"],
    strength: Float[Array, " L"],
) -> tuple[Array, Array, Array]:
    """Predict averages of n log spends; return ln p, p(less) and p(equal) = 0."""
    precision = strength * n / (strength + n)
    log = log_sum(shape + 0.5, scale + 0.5 * precision * gap * gap) - log_sum(shape, scale)
    log = log + 0.5 * (np.log(precision) - LOG_2PI)
    less = np.empty_like(log)
    for s in range(log.shape[1]):
        score = gap[:, s, None] * np.sqrt(precision[:, s, None] / LEVELS)
        less[:, s] = (special.ndtr(score) * level_weights(shape[:, s], scale[:, s])).sum(axis=1)
    return log, less, np.zeros_like(log)
