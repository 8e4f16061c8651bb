"""Tabular MDPs: how their prior is learned and checked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import numpy as np

from mixts import _checks
from mixts._typing import Array, ArrayLike, Bool, Float, Int
from mixts.errors import ParameterError, StatisticsError
from mixts.families import Family, Statistics, TabularMDP, TabularStatistics
from mixts.learning.models.counts import Counts, CountsModel, Rows, beta_binomial, log_orders
from mixts.learning.models.predictive import BLOCK, Prediction, Predictive, mixture_evidence
from mixts.prior import MixturePrior


class TabularModel(CountsModel):
    """Tasks that are MDPs: rewards of pairs of state and action, and transitions."""

    statistics_type: ClassVar[type[Statistics]] = TabularStatistics
    options: ClassVar[tuple[str, ...]] = ("horizon", "initial", "support")
    statistics: TabularStatistics

    def __init__(
        self,
        statistics: TabularStatistics,
        horizon: int | None = None,
        initial: ArrayLike | None = None,
        support: ArrayLike | None = None,
    ) -> None:
        if horizon is None:
            raise ParameterError(
                "horizon is needed to learn a prior of MDPs: counts do not tell how long an "
                "episode is"
            )
        self._states, self._actions = statistics.shape
        self._horizon = _checks.count(horizon, "horizon")
        self._initial = initial
        self._support = checked_support(support, statistics)
        super().__init__(statistics)

    def _prepare(self) -> None:
        rows = self._states * self._actions
        self._pairs = self.statistics.array("rewards").reshape(-1, rows, 2)
        self._moves = self.statistics.array("transitions").reshape(-1, rows, self._states)
        self._rows = (
            Rows.of(self._pairs, np.ones((rows, 2), bool)),
            Rows.of(self._moves, self._support.reshape(rows, self._states)),
        )

    @classmethod
    def check_options(cls, statistics: Statistics, options: Mapping[str, Any]) -> None:
        """Raise an error if tasks made a transition that ``support`` rules out."""
        assert isinstance(statistics, TabularStatistics)
        checked_support(options.get("support"), statistics)

    def _broad(self) -> TabularMDP:
        return TabularMDP.uniform(
            self._states, self._actions, self._horizon, self._initial, self._support
        )

    def _seen(self) -> tuple[Array, ...]:
        return self._pairs, self._moves

    def _counts(self, family: TabularMDP) -> tuple[Counts, ...]:
        n = family.n_components
        return (
            family.reward.reshape(n, -1, 2),
            family.transition.reshape(n, -1, self._states),
        )

    def _family(self, counts: tuple[Counts, ...]) -> TabularMDP:
        n = len(counts[0])
        shape = (n, self._states, self._actions)
        initial = self.centre.initial  # type: ignore[attr-defined]
        return TabularMDP(
            counts[0].reshape(*shape, 2),
            counts[1].reshape(*shape, self._states),
            self._horizon,
            initial,
        )


def checked_support(
    support: ArrayLike | None, statistics: TabularStatistics
) -> Bool[Array, "X A X"]:
    """Return which transitions are possible: all of them unless ``support`` is given."""
    states, actions = statistics.shape
    shape = (states, actions, states)
    if support is None:
        return np.ones(shape, bool)
    given = np.asarray(support)
    if given.shape != shape or given.dtype != np.bool_:
        raise ParameterError(
            f"support must be boolean of shape {shape}, true where a transition is possible, got "
            f"type {given.dtype} and shape {given.shape}"
        )
    if not given.any(axis=2).all():
        x, a = (int(i) for i in np.argwhere(~given.any(axis=2))[0])
        raise ParameterError(f"support leaves no next state after action {a} in state {x}")
    broken = (statistics.array("transitions") > 0) & ~given
    if broken.any():
        task, x, a, to = (int(i) for i in np.argwhere(broken)[0])
        raise StatisticsError(
            f"task {task} went from state {x} with action {a} to state {to}, which support says is "
            "impossible"
        )
    return given


class TabularPredictive(Predictive):
    """Predictions of each pair of state and action, given how often it was visited."""

    family_type: ClassVar[type[Family]] = TabularMDP

    def __init__(self, prior: MixturePrior, statistics: Statistics) -> None:
        super().__init__(prior, statistics)
        self.rewards: Int[Array, "n X A 2"] = statistics.array("rewards")
        self.transitions: Int[Array, "n X A X"] = statistics.array("transitions")

    def parts(self) -> Iterator[Prediction]:
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
        """Draw as many rewards and next states of every pair as these tasks have."""
        _, parameters = self.prior.draw(rng, len(tasks))
        mdps = self.family._view(parameters)
        tried = self.rewards.sum(axis=3)[tasks]
        won = rng.binomial(tried, np.clip(mdps.rewards, 0.0, 1.0))
        went = rng.multinomial(self.transitions.sum(axis=3)[tasks], mdps.transitions)
        return TabularStatistics(rewards=np.stack([won, tried - won], axis=3), transitions=went)


def _row_parts(
    group: str, counts: Int[Array, "n k"], prior: Float[Array, "L k"]
) -> Iterator[Prediction]:
    """Yield a row's outcomes one after the other: each is beta-binomial given the earlier ones."""
    left = counts.sum(axis=1)
    rest = np.cumsum(prior[:, ::-1], axis=1)[:, ::-1]
    for k in range(counts.shape[1] - 1):
        tasks = np.flatnonzero(left)
        if not len(tasks):
            return
        predicted = beta_binomial(counts[tasks, k], left[tasks], prior[:, k], rest[:, k + 1])
        yield Prediction(group, tasks, *predicted)
        left = left - counts[:, k]
