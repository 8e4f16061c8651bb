"""What priors predict of MDPs: each pair's rewards, and its next states one after the other."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mixts._typing import Array, Float, Int
from mixts.families import Statistics, TabularMDP, TabularStatistics
from mixts.learning.checking.arms import BLOCK, counts_law, log_orders
from mixts.learning.checking.evidence import mixture_evidence
from mixts.learning.checking.predictive import Part, Predictive
from mixts.prior import MixturePrior


class TabularPredictive(Predictive):
    """Pairs of a state and an action one after the other, how often they were visited given."""

    def __init__(self, prior: MixturePrior, statistics: Statistics) -> None:
        assert isinstance(prior.family, TabularMDP)
        assert isinstance(statistics, TabularStatistics)
        self.prior, self.family, self.statistics = prior, prior.family, statistics
        self.rewards: Int[Array, "n X A 2"] = statistics.array("rewards")
        self.transitions: Int[Array, "n X A X"] = statistics.array("transitions")

    def parts(self) -> Iterator[Part]:
        visited = np.argwhere(self.rewards.any(axis=(0, 3)))
        for x, a in visited:
            rows = self.rewards[:, x, a], self.family.reward[:, x, a]
            yield from _row_parts("rewards", *rows)
            rows = self.transitions[:, x, a], self.family.transition[:, x, a]
            yield from _row_parts("transitions", *rows)

    def scores(self) -> Float[Array, " n"]:
        return self._score(self.statistics)

    def replicate(
        self, rng: np.random.Generator, tasks: Int[Array, " m"], n: int
    ) -> Float[Array, "m n"]:
        out = np.empty((len(tasks), n))
        size = self.family.flat_prior.shape[1]
        rows = max(1, BLOCK // (size * n))
        for start in range(0, len(tasks), rows):
            part = tasks[start : start + rows]
            score = self._score(self._draw(rng, np.repeat(part, n)))
            out[start : start + rows] = score.reshape(len(part), n)
        return out

    def _score(self, statistics: Statistics) -> Float[Array, " n"]:
        orders = log_orders(statistics.array("rewards")).sum(axis=(1, 2))
        orders = orders + log_orders(statistics.array("transitions")).sum(axis=(1, 2))
        return mixture_evidence(self.prior, statistics) + orders

    def _draw(self, rng: np.random.Generator, tasks: Int[Array, " m"]) -> TabularStatistics:
        """As many rewards and next states of every pair as these tasks have."""
        _, parameters = self.prior.draw(rng, len(tasks))
        mdps = self.family._view(parameters)
        tried = self.rewards.sum(axis=3)[tasks]
        won = rng.binomial(tried, np.clip(mdps.rewards, 0.0, 1.0))
        went = rng.multinomial(self.transitions.sum(axis=3)[tasks], mdps.transitions)
        return TabularStatistics(rewards=np.stack([won, tried - won], axis=3), transitions=went)


def _row_parts(group: str, counts: Int[Array, "n k"], prior: Float[Array, "L k"]) -> Iterator[Part]:
    """A row's outcomes one after the other: each a beta-binomial part of what the others left."""
    left = counts.sum(axis=1)
    rest = np.cumsum(prior[:, ::-1], axis=1)[:, ::-1]
    for k in range(counts.shape[1] - 1):
        tasks = np.flatnonzero(left)
        if not len(tasks):
            return
        law = counts_law(counts[tasks, k], left[tasks], prior[:, k], rest[:, k + 1])
        yield Part(group, tasks, *law)
        left = left - counts[:, k]
