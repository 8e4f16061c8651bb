"""Bernoulli arms: how their prior is learned and checked."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from mixts._typing import Array, Float, Int
from mixts.families import BernoulliArms, BernoulliStatistics, Family, Statistics
from mixts.learning.models.counts import Counts, CountsModel, Rows, counts_law, log_orders
from mixts.learning.models.predictive import ArmPredictive


class BernoulliModel(CountsModel):
    """Tasks with rewards 0 or 1 and Beta priors."""

    statistics_type: ClassVar[type[Statistics]] = BernoulliStatistics
    statistics: BernoulliStatistics

    def __init__(self, statistics: BernoulliStatistics) -> None:
        self._pairs = np.stack(
            [statistics.array("successes"), statistics.array("failures")], axis=2
        )
        possible = np.ones(self._pairs.shape[1:], bool)
        self._rows = (Rows.of(self._pairs, possible),)
        super().__init__(statistics)

    def _broad(self) -> BernoulliArms:
        return BernoulliArms.uniform(self.statistics.shape[0])

    def _seen(self) -> tuple[Array, ...]:
        return (self._pairs,)

    def _counts(self, family: BernoulliArms) -> tuple[Counts, ...]:
        return (np.stack([family.alpha, family.beta], axis=2),)

    def _family(self, counts: tuple[Counts, ...]) -> BernoulliArms:
        return BernoulliArms(counts[0][:, :, 0], counts[0][:, :, 1])


class BernoulliPredictive(ArmPredictive):
    """Predictions of beta-binomial counts of successes."""

    family_type: ClassVar[type[Family]] = BernoulliArms

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
