"""Poisson arms: how their Gamma prior is learned, by Newton's method, and checked."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np
from scipy import special

from mixts._numbers import LARGEST_TOTAL
from mixts._typing import Array, Float, Int
from mixts.families import Family, PoissonArms, PoissonStatistics, Statistics
from mixts.learning.models.base import MomentModel, positive
from mixts.learning.models.counts import (
    HALVINGS,
    LIMITS,
    NOTHING,
    STEPS,
    Levels,
    LevelSums,
    trigamma,
)
from mixts.learning.models.predictive import ArmPredictive
from mixts.learning.two_stage import LEAST_TOTAL, MOST_TOTAL, Group


class PoissonModel(MomentModel):
    """Tasks with counts as rewards and Gamma priors on the arms' means."""

    statistics_type: ClassVar[type[Statistics]] = PoissonStatistics
    statistics: PoissonStatistics
    centre: PoissonArms

    def _prepare(self) -> None:
        self._count: Array = self.statistics.array("count")
        self._total: Array = self.statistics.array("total")
        self._totals = Levels.of(self._total)
        self._counts = Levels.of(self._count)
        self._totals_of_counts = self._counts.times(self._total.astype(float))
        self._totals_of_entries = self._totals_of_counts.T

    def _broad(self) -> PoissonArms:
        """Return a component with shape 1 and the mean of all rewards."""
        n = max(int(self._count.sum()), 1)
        mean = max(float(self._total.sum() / n), 0.5 / n)
        shape = (1, self._count.shape[1])
        return PoissonArms(np.ones(shape), np.full(shape, 1 / mean))

    def log_evidence(self, family: PoissonArms) -> Float[Array, "n L"]:  # type: ignore[override]
        shape, rate = family.shape.T, family.rate.T
        later = np.log(rate[self._counts.column] + self._counts.value[:, None])
        prior = shape[self._counts.column] * (np.log(rate[self._counts.column]) - later)
        out = self._totals.tasks @ self._totals.table(shape) + self._counts.tasks @ prior
        # -y ln(b + n) depends on both y and n, and is not in the tables.
        out -= self._totals_of_counts @ later
        return out - self.statistics.array("log_factorials").sum(axis=1)[:, None]

    def log_hyperprior(self, family: PoissonArms) -> float:  # type: ignore[override]
        return float((self.pseudo * self._pseudo_density(family.shape, family.rate)).sum())

    def _pseudo_density(self, shape: Array, rate: Array) -> Array:
        """Compute E[ln density of theta] of each component, with theta drawn from the centre."""
        a, b = self.centre.shape, self.centre.rate
        logs, mean = special.psi(a) - np.log(b), a / b
        norm = shape * np.log(rate) - special.gammaln(shape)
        return np.asarray(norm + (shape - 1) * logs - rate * mean)

    def sums(self, family: Family, share: Array) -> tuple[LevelSums, ...]:
        totals, counts = (replace(levels, tasks=None) for levels in (self._totals, self._counts))
        return (
            LevelSums(totals, self._totals.entries @ share),
            LevelSums(counts, self._counts.entries @ share),
            LevelSums(counts, self._totals_of_entries @ share),
        )

    def improved(self, family: PoissonArms, sums: tuple[LevelSums, ...]) -> PoissonArms:  # type: ignore[override]
        problem = _Problem(self, *sums)
        shape, rate = family.shape, family.rate
        value = problem.value(shape, rate)
        for _ in range(STEPS):
            shape, rate, value = problem.step(shape, rate, value)
        return PoissonArms(shape, rate)

    def pack(self, family: PoissonArms) -> Float[Array, " p"]:  # type: ignore[override]
        return np.log(np.concatenate([family.shape.ravel(), family.rate.ravel()]))

    def unpack(self, numbers: Array, n_components: int) -> PoissonArms | None:
        found = positive(numbers)
        if found is None:
            return None
        shape, rate = found.reshape(2, n_components, -1)
        mean = self.centre.shape / self.centre.rate
        return PoissonArms(
            np.clip(shape, *LIMITS), np.clip(rate, LIMITS[0] / mean, LIMITS[1] / mean)
        )

    def estimates(self, family: PoissonArms) -> Float[Array, "n p"]:  # type: ignore[override]
        """Return the logarithms of posterior means."""
        mean = (self._total + family.shape[0]) / (self._count + family.rate[0])
        return np.log(mean)

    def match(
        self, groups: Int[Array, " n"], n_groups: int, pooled: Family | None = None
    ) -> PoissonArms:
        prior = self.centre if pooled is None else pooled
        assert isinstance(prior, PoissonArms)
        averages = self._total / np.maximum(self._count, 1)
        found = [Group.of(averages, self._count, groups == g) for g in range(n_groups)]
        seen = np.stack([group.seen for group in found])
        mean = np.stack([group.shrunken(prior.shape[0] / prior.rate[0]) for group in found])
        variance = np.stack([group.variance(each) for group, each in zip(found, mean, strict=True)])
        variance = np.where(np.isnan(variance), mean * (mean / prior.shape), variance)
        # However similar tasks are, the shape cannot exceed the number of counted events.
        most = np.clip(seen * mean + prior.shape, LEAST_TOTAL, MOST_TOTAL)
        shape = np.clip(
            mean * (mean / np.maximum(variance, mean * (mean / most))), LEAST_TOTAL, most
        )
        return PoissonArms(
            np.where(seen > 0, shape, prior.shape), np.where(seen > 0, shape / mean, prior.rate)
        )

    def n_parameters(self, n_components: int) -> int:
        return n_components * (2 * self._count.shape[1] + 1) - 1


class _Problem:
    """Expected log density of one M step, for each component and arm (L, K).

    With R the shares by total y, and S, T the shares and their totals by count n, it is
    ``sum R ln G(a + y) / G(a) + a (S ln b - S ln(b + n)) - T ln(b + n)``, and the pseudo-tasks.
    """

    def __init__(
        self, model: PoissonModel, by_total: LevelSums, by_count: LevelSums, totals: LevelSums
    ) -> None:
        self._model = model
        self._total_levels, self._by_total = by_total.levels, by_total.shares
        self._levels, self._by_count = by_count.levels, by_count.shares
        self._totals = totals.shares
        a, b = model.centre.shape, model.centre.rate
        self._logs, self._mean = special.psi(a) - np.log(b), a / b
        self._least_rate, self._most_rate = (LIMITS[0] / self._mean, LIMITS[1] / self._mean)

    def _of_totals(self, shape: Array, *, derivatives: bool = False) -> Array:
        """Sum ln G(a + y) / G(a), and derivatives, (3, L, K)."""
        rising = self._total_levels.rising(self._by_total, shape.T, derivatives=derivatives)
        return np.swapaxes(rising, 1, 2)

    def _of_counts(self, weight: Array, entries: Array) -> Array:
        return self._levels.by_column(weight * entries).T

    def value(self, shape: Array, rate: Array) -> Array:
        levels = self._levels
        b = rate.T[levels.column]
        later = np.log(b + levels.value[:, None])
        fall = self._of_counts(self._by_count, np.log(b) - later)
        inside = self._of_totals(shape)[0] + shape * fall
        inside -= self._of_counts(self._totals, later)
        return np.asarray(inside + self._model.pseudo * self._model._pseudo_density(shape, rate))

    def step(self, shape: Array, rate: Array, value: Array) -> tuple[Array, Array, Array]:
        """Take a Newton step in the logarithms, halved until it gains."""
        by_shape, by_rate, promise = self._direction(shape, rate)
        waiting = promise > NOTHING * (1 + np.abs(value))
        best, length = (shape, rate, value), 1.0
        for _ in range(HALVINGS):
            if not waiting.any():
                break
            moved = np.clip(shape * np.exp(np.clip(length * by_shape, -3, 3)), *LIMITS)
            other = rate * np.exp(np.clip(length * by_rate, -3, 3))
            other = np.clip(other, self._least_rate, self._most_rate)
            trial = self.value(moved, other)
            accept = waiting & (trial >= value)
            best = (
                np.where(accept, moved, best[0]),
                np.where(accept, other, best[1]),
                np.where(accept, trial, best[2]),
            )
            waiting &= ~accept
            length /= 2
        return best

    def _direction(self, a: Array, b: Array) -> tuple[Array, Array, Array]:
        """Return the direction in the logarithms, and the slope in that direction."""
        levels, pseudo = self._levels, self._model.pseudo
        rate = b.T[levels.column]
        after = rate + levels.value[:, None]
        fall = self._of_counts(self._by_count, np.log(rate / after))
        _, rise, up = self._of_totals(a, derivatives=True)
        slope_a = rise + fall
        slope_a += pseudo * (np.log(b) - special.psi(a) + self._logs)
        gain = self._of_counts(self._by_count, 1 / rate - 1 / after)
        slope_b = a * gain - self._of_counts(self._totals, 1 / after)
        slope_b += pseudo * (a / b - self._mean)
        bend_a = up - pseudo * trigamma(a)
        bend_b = a * self._of_counts(self._by_count, 1 / after**2 - 1 / rate**2)
        bend_b += self._of_counts(self._totals, 1 / after**2) - pseudo * a / b**2
        mixed = gain + pseudo / b
        # First and second derivatives in the logarithms.
        g1, g2 = a * slope_a, b * slope_b
        h11, h22, h12 = a * a * bend_a + g1, b * b * bend_b + g2, a * b * mixed
        det = h11 * h22 - h12 * h12
        good = (h11 < 0) & (h22 < 0) & (det > 0)
        safe = np.where(good, det, 1.0)
        one = np.where(good, -(h22 * g1 - h12 * g2) / safe, g1 / np.maximum(np.abs(h11), 1e-12))
        two = np.where(good, -(h11 * g2 - h12 * g1) / safe, g2 / np.maximum(np.abs(h22), 1e-12))
        return one, two, one * g1 + two * g2


class PoissonPredictive(ArmPredictive):
    """Predictions of negative binomial totals."""

    family_type: ClassVar[type[Family]] = PoissonArms

    def _predict(self, arm: int, tasks: Int[Array, " m"]) -> tuple[Array, Array, Array]:
        family = self.family
        y = self.statistics.array("total")[tasks, arm, None].astype(float)
        n = self.pulls[tasks, arm, None].astype(float)
        a, b = family.shape[:, arm], family.rate[:, arm]
        # Gamma(a + y) / (Gamma(a) y!) = 1 / ((a + y) B(a, y + 1))
        log = -special.betaln(a, y + 1) - np.log(a + y) - a * np.log1p(n / b)
        log = log - special.xlogy(y, 1 + b / n)
        least = np.where(y > 0, special.betainc(a, np.maximum(y, 1), b / (b + n)), 0.0)
        return log, least, np.exp(np.minimum(log, 0.0))

    def _orders(self, statistics: Statistics) -> Float[Array, " n"]:
        """Compute ln n^y / y!, and add back ln y! of each reward."""
        n, y = statistics.array("count"), statistics.array("total")
        log = special.xlogy(y, np.maximum(n, 1)) - special.gammaln(y + 1.0)
        return np.asarray((log + statistics.array("log_factorials")).sum(axis=1))

    def _draw(self, rng: np.random.Generator, pulls: Array, means: Array) -> Statistics:
        total = rng.poisson(np.minimum(pulls * means, LARGEST_TOTAL / 2))
        return type(self.statistics)(count=pulls, total=total, log_factorials=np.zeros(total.shape))
