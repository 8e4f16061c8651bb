"""Tasks of counts: Bernoulli arms, and tabular MDPs."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np

from mixts import _checks
from mixts._typing import Array, ArrayLike, Bool, Float, Int
from mixts.errors import ParameterError, StatisticsError
from mixts.families import (
    BernoulliArms,
    BernoulliStatistics,
    Family,
    Statistics,
    TabularMDP,
    TabularStatistics,
)
from mixts.learning.models.base import MomentModel, positive, spread
from mixts.learning.models.dirichlet import LEAST, MOST, Rows, pseudo_density
from mixts.learning.models.moments import LEAST_TOTAL, MOST_TOTAL, Group

Counts = Float[Array, "L rows _"]


class CountsModel(MomentModel):
    """Tasks whose parameters are rows of probabilities with Dirichlet priors."""

    _rows: tuple[Rows, ...]

    @abstractmethod
    def _counts(self, family: Any) -> tuple[Counts, ...]:
        """The prior counts of a family, kind of row by kind of row."""

    @abstractmethod
    def _family(self, counts: tuple[Counts, ...]) -> Family:
        """The family with these counts."""

    @abstractmethod
    def _seen(self) -> tuple[Int[Array, "n rows _"], ...]:
        """The counts of the tasks."""

    def log_evidence(self, family: Family) -> Float[Array, "n L"]:
        parts = zip(self._rows, self._counts(family), strict=True)
        return np.asarray(sum(rows.log_evidence(counts) for rows, counts in parts))

    def log_hyperprior(self, family: Family) -> float:
        parts = zip(self._counts(family), self._counts(self.centre), strict=True)
        return float(self.pseudo * sum(pseudo_density(c, centre).sum() for c, centre in parts))

    def improve(self, family: Family, share: Float[Array, "n L"]) -> Family:
        parts = zip(self._rows, self._counts(family), self._counts(self.centre), strict=True)
        return self._family(
            tuple(
                rows.improve(counts, share, centre, self.pseudo) for rows, counts, centre in parts
            )
        )

    def pack(self, family: Family) -> Float[Array, " p"]:
        return np.concatenate([np.log(counts[counts > 0]) for counts in self._counts(family)])

    def unpack(self, numbers: Array, n_components: int) -> Family | None:
        parts, start = [], 0
        for rows in self._rows:
            possible = np.broadcast_to(rows.possible, (n_components, *rows.possible.shape))
            size = int(possible.sum())
            counts = positive(numbers[start : start + size])
            if counts is None:
                return None
            part = np.zeros(possible.shape)
            part[possible] = np.clip(counts, LEAST, MOST)
            parts.append(part)
            start += size
        return self._family(tuple(parts))

    def points(self, family: Family) -> Float[Array, "n p"]:
        return spread(self.estimates(family))

    def estimates(self, family: Family) -> Float[Array, "n p"]:
        """Posterior mean probabilities, those of rows that a task never saw at the prior's."""
        columns = []
        for seen, prior in zip(self._seen(), self._counts(family), strict=True):
            total = seen + prior[0]
            mean = total / total.sum(axis=2, keepdims=True)
            # The last outcome of a row is what the others leave.
            columns.append(mean[:, :, :-1].reshape(len(seen), -1))
        return np.concatenate(columns, axis=1)

    def match(
        self, groups: Int[Array, " n"], n_groups: int, pooled: Family | None = None
    ) -> Family:
        """Each row's mean, and the total that gives its entries their variance, in sum."""
        parts = []
        priors = self._counts(self.centre if pooled is None else pooled)
        for seen, prior, rows in zip(self._seen(), priors, self._rows, strict=True):
            made = [_matched_rows(seen, prior[0], groups == g) for g in range(n_groups)]
            parts.append(np.where(rows.possible, np.stack(made), 0.0))
        return self._family(tuple(parts))

    def n_parameters(self, n_components: int) -> int:
        each = sum(int(rows.possible.sum()) for rows in self._rows)
        return n_components * (each + 1) - 1


def _matched_rows(
    seen: Int[Array, "n rows k"], prior: Float[Array, "rows k"], inside: Bool[Array, " n"]
) -> Float[Array, "rows k"]:
    totals = seen.sum(axis=2, keepdims=True)
    group = Group.of(seen / np.maximum(totals, 1), np.broadcast_to(totals, seen.shape), inside)
    mean = group.shrunken(prior / prior.sum(axis=1, keepdims=True))
    spread = mean * (1 - mean)
    variance = group.variance(spread, shrinks=True).sum(axis=1)
    usual = prior.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        total = np.where(np.isnan(variance), usual, spread.sum(axis=1) / variance - 1)
    # However much tasks agree, they are known no better than by what was seen of them.
    most = np.minimum(group.seen.max(axis=1) + usual, MOST_TOTAL)
    total = np.clip(np.nan_to_num(total, nan=MOST_TOTAL), LEAST_TOTAL, most)
    return np.where(group.seen > 0, mean * total[:, None], prior)


class BernoulliModel(CountsModel):
    """Arms with rewards 0 or 1 and Beta priors."""

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


class TabularModel(CountsModel):
    """MDPs: rewards of pairs of state and action, and transitions within a support."""

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
        rows = self._states * self._actions
        self._pairs = statistics.array("rewards").reshape(-1, rows, 2)
        self._moves = statistics.array("transitions").reshape(-1, rows, self._states)
        self._rows = (
            Rows.of(self._pairs, np.ones((rows, 2), bool)),
            Rows.of(self._moves, self._support.reshape(rows, self._states)),
        )
        super().__init__(statistics)

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
    """Which transitions are possible; all of them unless said otherwise."""
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
