"""Models of counts: rows of outcomes with Dirichlet priors, improved by Newton's method.

A Beta distribution is a row of two outcomes. All rows of all components are improved at once.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy import sparse, special

from mixts import _program
from mixts._typing import Array, Bool, Float, Int
from mixts.families import BernoulliArms, BernoulliStatistics, Family, Statistics
from mixts.families.special import beta_evidence, log_rising
from mixts.learning.models.base import MomentModel, positive
from mixts.learning.models.predictive import ArmPredictive
from mixts.learning.two_stage import LEAST_TOTAL, MOST_TOTAL, Group

Counts = Float[Array, "L rows _"]


LIMITS = 1e-6, 1e8
"""Limits of learned counts: beyond them a row is practically certain, or practically known. Also of
learned shapes, and of learned rates relative to the mean reward."""

STEPS = 2
"""Number of Newton steps in each iteration; the next iteration continues from there."""

HALVINGS = 30

NOTHING = 1e-14
"""Relative gain that rounding hides."""

LARGEST_SUM = 1e250
"""Divide a growing sum by this when it exceeds it, long before it overflows."""

_FEW_PAIRS = 1 << 16
"""Table of possible levels that is small anyway: half a megabyte of places."""

NEGLIGIBLE = 1e-17
"""Terms below this fraction of the sum change no digit of it."""


@dataclass(frozen=True)
class Levels:
    """Distinct positive values of each column of counts: tasks share the terms of a value."""

    value: Float[Array, " u"]
    column: Int[Array, " u"]
    n_columns: int
    tasks: sparse.csr_array | None = None
    """(n, u): 1 for each entry that a task has, one for each column that is not zero."""

    @classmethod
    def of(cls, columns: Int[Array, "n c"]) -> Levels:
        """Find the entries, ordered by column, then by value."""
        n, width = columns.shape
        filled = np.flatnonzero(columns != 0)
        starts = np.searchsorted(filled, width * np.arange(n + 1))
        owner, value, entry = _levels(filled % width, columns.ravel()[filled])
        matrix = sparse.csr_array((np.ones(len(entry)), entry, starts), shape=(n, len(value)))
        return cls(value.astype(float), owner, width, matrix)

    def times(self, numbers: Float[Array, "n c"]) -> sparse.csr_array:
        """Return ``tasks`` with a task's number of the column in place of each 1."""
        assert self.tasks is not None
        task = np.repeat(np.arange(len(numbers)), np.diff(self.tasks.indptr))
        entry = self.tasks.indices
        scaled = (numbers[task, self.column[entry]], entry, self.tasks.indptr)
        return sparse.csr_array(scaled, shape=self.tasks.shape)

    @cached_property
    def entries(self) -> Any:
        """``tasks`` transposed, (u, n)."""
        assert self.tasks is not None
        return self.tasks.T

    def table(self, start: Float[Array, "c L"]) -> Float[Array, "u L"]:
        """Compute ln G(a + u) / G(a) of each entry."""
        a = start[self.column]
        if _program.core is None:
            return log_rising(a, self.value[:, None])
        own, out = np.arange(len(a)), np.zeros((3, *a.shape))  # each entry is a column of its own
        _program.core.rising_sums(own, self.value, np.ones(a.shape), a, False, out)
        return np.asarray(out[0])

    def rising(
        self, shares: Float[Array, "u L"], start: Float[Array, "c L"], *, derivatives: bool = False
    ) -> Float[Array, "3 c L"]:
        """Sum shares times f(a + u) - f(a) over each column's entries, for f = ln G, psi, psi'.

        Without ``derivatives`` only ln G is summed.
        """
        out = np.zeros((3, *start.shape))
        if _program.core is not None:
            first = np.ascontiguousarray(start)
            _program.core.rising_sums(self.column, self.value, shares, first, derivatives, out)
            return out
        a = start[self.column]
        out[0] = self.by_column(shares * log_rising(a, self.value[:, None]))
        if derivatives:
            later = a + self.value[:, None]
            for i, f in ((1, special.psi), (2, trigamma)):
                out[i] = self.by_column(shares * (f(later) - f(start)[self.column]))
        return out

    def by_column(self, entries: Float[Array, "u L"]) -> Float[Array, "c L"]:
        """Sum over each column's entries."""
        out = np.zeros((self.n_columns, entries.shape[1]))
        filled = self.starts < np.append(self.starts[1:], len(self.column))
        if filled.any():
            out[filled] = np.add.reduceat(entries, self.starts[filled])
        return out

    def among(self, columns: Bool[Array, " c"]) -> tuple[Levels, Bool[Array, " u"]]:
        """Return the entries of some columns, without the tasks, and which entries these are."""
        kept = columns[self.column]
        place = np.cumsum(columns) - 1
        n = int(columns.sum())
        return Levels(self.value[kept], place[self.column[kept]], n), kept

    @cached_property
    def starts(self) -> Int[Array, " c"]:
        """First entry of each column, or where it would be."""
        return np.searchsorted(self.column, np.arange(self.n_columns))


def _levels(
    owners: Int[Array, " m"], values: Int[Array, " m"]
) -> tuple[Int[Array, " u"], Int[Array, " u"], Int[Array, " m"]]:
    """Return distinct pairs, ordered by owner, then by value, and the place of each given pair."""
    width = int(values.max(initial=0)) + 1
    n_pairs = (int(owners.max(initial=0)) + 1) * width
    if n_pairs > max(_FEW_PAIRS, len(owners)):  # a table of all possible pairs would be large
        order = np.lexsort((values, owners))
        is_first = np.ones(len(order), bool)
        is_first[1:] = (np.diff(owners[order]) != 0) | (np.diff(values[order]) != 0)
        entry = np.empty(len(order), np.int64)
        entry[order] = np.cumsum(is_first) - 1
        first = order[is_first]
        return owners[first], values[first], entry
    pairs = owners * width + values
    occurs = np.zeros(n_pairs, bool)
    occurs[pairs] = True
    found = np.flatnonzero(occurs)
    place = np.cumsum(occurs) - 1
    return found // width, found % width, place[pairs]


@dataclass(frozen=True)
class LevelSums:
    """Shares of tasks, summed over the tasks of each level."""

    levels: Levels
    """Levels, without the tasks."""
    shares: Float[Array, "u L"]

    def __add__(self, other: LevelSums) -> LevelSums:
        """Add the shares of other tasks; a level may occur in only one of both."""
        mine, theirs = self.levels, other.levels
        columns = np.concatenate([mine.column, theirs.column])
        values = np.concatenate([mine.value, theirs.value]).astype(np.int64)
        column, value, place = _levels(columns, values)
        shares = np.zeros((len(column), self.shares.shape[1]))
        shares[place[: len(mine.column)]] = self.shares
        shares[place[len(mine.column) :]] += other.shares
        return LevelSums(Levels(value.astype(float), column, mine.n_columns), shares)


class CountsModel(MomentModel):
    """Tasks whose parameters are rows of probabilities with Dirichlet priors."""

    _rows: tuple[Rows, ...]

    @abstractmethod
    def _counts(self, family: Any) -> tuple[Counts, ...]:
        """Return the prior counts of a family, one array for each type of row."""

    @abstractmethod
    def _family(self, counts: tuple[Counts, ...]) -> Family:
        """Return the family with these counts."""

    @abstractmethod
    def _seen(self) -> tuple[Int[Array, "n rows _"], ...]:
        """Return the counts of the tasks, one array for each type of row."""

    def log_evidence(self, family: Family) -> Float[Array, "n L"]:
        parts = zip(self._rows, self._counts(family), strict=True)
        return np.asarray(sum(rows.log_evidence(counts) for rows, counts in parts))

    def log_hyperprior(self, family: Family) -> float:
        parts = zip(self._counts(family), self._counts(self.centre), strict=True)
        densities = (pseudo_density(counts, expected_logs(centre)) for counts, centre in parts)
        return float(sum((self.pseudo * density).sum() for density in densities))

    def sums(self, family: Family, share: Float[Array, "n L"]) -> tuple[RowSums, ...]:
        return tuple(rows.sums(share) for rows in self._rows)

    def improved(self, family: Family, sums: tuple[RowSums, ...]) -> Family:
        parts = zip(self._rows, sums, self._counts(family), self._counts(self.centre), strict=True)
        return self._family(
            tuple(
                found.improved(rows.possible, counts, centre, self.pseudo)
                for rows, found, counts, centre in parts
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
            part[possible] = np.clip(counts, *LIMITS)
            parts.append(part)
            start += size
        return self._family(tuple(parts))

    def estimates(self, family: Family) -> Float[Array, "n p"]:
        """Return posterior mean probabilities; rows that a task never saw have the prior's."""
        columns = []
        for seen, prior in zip(self._seen(), self._counts(family), strict=True):
            total = seen + prior[0]
            mean = total / total.sum(axis=2, keepdims=True)
            # The others determine the probability of a row's last outcome.
            columns.append(mean[:, :, :-1].reshape(len(seen), -1))
        return np.concatenate(columns, axis=1)

    def match(
        self, groups: Int[Array, " n"], n_groups: int, pooled: Family | None = None
    ) -> Family:
        """Match each row's mean, and the sum of the variances of its entries."""
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
    # However similar tasks are, the total cannot exceed the number of observations.
    most = np.minimum(group.seen.max(axis=1) + usual, MOST_TOTAL)
    total = np.clip(np.nan_to_num(total, nan=MOST_TOTAL), LEAST_TOTAL, most)
    return np.where(group.seen > 0, mean * total[:, None], prior)


@dataclass(frozen=True)
class Rows:
    """Counts of tasks in rows of outcomes, (n, rows, k), and which outcomes are possible."""

    outcomes: Levels
    totals: Levels
    possible: Bool[Array, "rows k"]

    @classmethod
    def of(cls, counts: Int[Array, "n rows k"], possible: Bool[Array, "rows k"]) -> Rows:
        n, rows, k = counts.shape
        return cls(
            Levels.of(counts.reshape(n, rows * k)),
            Levels.of(np.einsum("nrk->nr", counts)),
            possible,
        )

    def log_evidence(self, counts: Float[Array, "L rows k"]) -> Float[Array, "n L"]:
        """Sum ln G(a + c) / G(a) - ln G(A + C) / G(A) over the rows: of ordered histories."""
        each, total = self._arguments(counts)
        rise, fall = self.outcomes.table(each), self.totals.table(total)
        return np.asarray(self.outcomes.tasks @ rise - self.totals.tasks @ fall)

    def _arguments(self, counts: Float[Array, "L rows k"]) -> tuple[Array, Array]:
        """Return the counts by column of outcomes (rows k, L), and by row (rows, L)."""
        each = counts.reshape(len(counts), -1).T
        return np.where(each > 0, each, 1.0), counts.sum(axis=2).T

    def sums(self, share: Float[Array, "n L"]) -> RowSums:
        """Sum the shares of the tasks of each level."""
        return RowSums(*(
            LevelSums(replace(levels, tasks=None), levels.entries @ share)
            for levels in (self.outcomes, self.totals)
        ))  # fmt: skip


class RowSums(NamedTuple):
    """Shares of tasks by the levels of their outcomes and totals."""

    outcomes: LevelSums
    totals: LevelSums

    def improved(
        self,
        possible: Bool[Array, "rows k"],
        counts: Float[Array, "L rows k"],
        centre: Float[Array, "#L rows k"],
        pseudo: float | Float[Array, "L rows"],
    ) -> Float[Array, "L rows k"]:
        """Return counts under which the shares of tasks and the pseudo-tasks are more likely."""
        problem = _Problem(
            Rows(self.outcomes.levels, self.totals.levels, possible),
            self.outcomes.shares, self.totals.shares,
            expected_logs(centre),
            np.broadcast_to(pseudo, counts.shape[:2]),
        )  # fmt: skip
        value = problem.value(counts)
        for _ in range(STEPS):
            counts, value = problem.step(counts, value)
        return counts


@dataclass(frozen=True)
class _Problem:
    """Expected log density of one M step, for each component and row."""

    rows: Rows
    outcome_shares: Float[Array, "u L"]
    total_shares: Float[Array, "v L"]
    logs: Float[Array, "#L rows k"]
    """E[ln p] under the centre."""
    pseudo: Float[Array, "L rows"]

    def _sums(self, counts: Array, *, derivatives: bool = False) -> tuple[Array, Array]:
        """Sum f(a + c) - f(a) over tasks, for f = ln G and its first two derivatives.

        Returns sums by outcome (3, L, rows, k) and by row (3, L, rows).
        """
        each, total = self.rows._arguments(counts)
        rise = self.rows.outcomes.rising(self.outcome_shares, each, derivatives=derivatives)
        fall = self.rows.totals.rising(self.total_shares, total, derivatives=derivatives)
        return np.swapaxes(rise, 1, 2).reshape(3, *counts.shape), np.swapaxes(fall, 1, 2)

    def value(self, counts: Array) -> Float[Array, "L rows"]:
        rise, fall = self._sums(counts)
        inside = np.where(counts > 0, rise[0], 0.0).sum(axis=2) - fall[0]
        return np.asarray(inside + self.pseudo * pseudo_density(counts, self.logs))

    def step(self, counts: Array, value: Array) -> tuple[Array, Array]:
        """Take a Newton step in ln counts, halved until it gains."""
        direction, slope = self._direction(counts)
        promise = (direction * slope).sum(axis=2)
        waiting = promise > NOTHING * (1 + np.abs(value))
        length = 1.0
        result, reached = counts.copy(), value.copy()
        for _ in range(HALVINGS):
            if not waiting.any():
                break
            # One row that needs many halvings must not repeat the work of ten thousand others.
            rows = np.flatnonzero(waiting.any(axis=0))
            few = self if len(rows) == waiting.shape[1] else self.among(rows)
            before = counts[:, rows]
            change = np.clip(length * direction[:, rows], -3.0, 3.0)
            moved = np.where(before > 0, np.clip(before * np.exp(change), *LIMITS), 0.0)
            trial = few.value(moved)
            accept = waiting[:, rows] & (trial >= value[:, rows])
            result[:, rows] = np.where(accept[:, :, None], moved, result[:, rows])
            reached[:, rows] = np.where(accept, trial, reached[:, rows])
            waiting[:, rows] &= ~accept
            length /= 2
        return result, reached

    def among(self, rows: Int[Array, " r"]) -> _Problem:
        """Return the problem of some rows: each row's is independent of the others."""
        chosen = np.isin(np.arange(len(self.rows.possible)), rows)
        each = np.repeat(chosen, self.rows.possible.shape[1])
        outcomes, kept = self.rows.outcomes.among(each)
        totals, kept_totals = self.rows.totals.among(chosen)
        return _Problem(
            Rows(outcomes, totals, self.rows.possible[rows]),
            self.outcome_shares[kept],
            self.total_shares[kept_totals],
            self.logs[:, rows],
            self.pseudo[:, rows],
        )

    def _direction(self, counts: Array) -> tuple[Array, Array]:
        """Return the direction and the slope in ln a.

        The Hessian is a diagonal plus a rank-one matrix, which is easy to solve. Where it is not
        negative definite, its diagonal made negative still gives a direction upwards.
        """
        possible = counts > 0
        safe, total = np.where(possible, counts, 1.0), counts.sum(axis=2)
        (_, rise, up), (_, fall, down) = self._sums(counts, derivatives=True)
        psi_total = special.psi(total)[:, :, None]
        slope = rise - fall[:, :, None]
        pseudo = self.pseudo[:, :, None]
        slope += pseudo * (self.logs + psi_total - special.psi(safe))
        slope = np.where(possible, counts * slope, 0.0)
        bend = counts**2 * (up - pseudo * trigamma(safe)) + slope
        joint = -down + self.pseudo * trigamma(total)
        with np.errstate(divide="ignore", invalid="ignore"):
            inverse = np.where(possible, 1.0 / bend, 0.0)
            ratio = (counts * slope * inverse).sum(axis=2)
            weight = 1.0 / joint + (counts**2 * inverse).sum(axis=2)
            newton = inverse * (slope - counts * (ratio / weight)[:, :, None])
            # Negative definite: the diagonal is negative, and the rank-one part is smaller.
            good = np.where(possible, bend < 0, True).all(axis=2) & ((joint <= 0) | (weight > 0))
            good &= np.isfinite(newton).all(axis=2)
        plain = slope / np.maximum(np.abs(bend), 1e-12)
        return np.where(good[:, :, None], -newton, plain), slope


def trigamma(x: Array) -> Array:
    """Compute the second derivative of ln G."""
    return np.asarray(special.zeta(2.0, x))


def expected_logs(counts: Float[Array, "... k"]) -> Float[Array, "... k"]:
    """Compute E[ln p] under each row; 0 for impossible outcomes."""
    safe = np.where(counts > 0, counts, 1.0)
    logs = special.psi(safe) - special.psi(counts.sum(axis=-1, keepdims=True))
    return np.asarray(np.where(counts > 0, logs, 0.0))


def pseudo_density(
    counts: Float[Array, "L rows k"], expected: Float[Array, "#L rows k"]
) -> Float[Array, "L rows"]:
    """Compute E[ln density of p] under the counts, from E[ln p] under the centre."""
    possible = counts > 0
    safe = np.where(possible, counts, 1.0)
    logs = ((counts - 1) * expected * possible).sum(axis=2)
    norm = special.gammaln(counts.sum(axis=2)) - special.gammaln(safe).sum(axis=2)
    return np.asarray(logs + norm)


def beta_binomial(
    won: Int[Array, " m"],
    tried: Int[Array, " m"],
    alpha: Float[Array, " L"],
    beta: Float[Array, " L"],
) -> tuple[Float[Array, "m L"], Float[Array, "m L"], Float[Array, "m L"]]:
    """Compute ln p(won), p(less) and p(won) of beta-binomial distributions.

    With alpha = 0 a success is impossible, with beta = 0 a failure.
    """
    pairs, place = np.unique(np.stack([won, tried], axis=1), axis=0, return_inverse=True)
    k, n = (column[:, None].astype(float) for column in pairs.T)
    a, b = np.where(alpha > 0, alpha, 1.0), np.where(beta > 0, beta, 1.0)
    log = log_rising(1.0, n) - log_rising(1.0, k) - log_rising(1.0, n - k)
    log = log + beta_evidence(a, b, k, n - k)
    at = np.exp(np.minimum(log, 0.0))
    # Sum over the side with fewer outcomes.
    low = 2 * k <= n
    ends = np.where(low, k, n - k), n, np.where(low, a, b), np.where(low, b, a)
    tail = np.exp(log + _log_tail(*np.broadcast_arrays(*ends)))
    less = np.where(low, tail, np.maximum(0.0, 1 - at - tail))
    # Only k = n has a probability if beta is 0, and only k = 0 if alpha is 0.
    sure = ((alpha > 0) & (k == n)) | ((beta > 0) & (k == 0))
    certain = (alpha == 0) | (beta == 0)
    log = np.where(certain, np.where(sure, 0.0, -np.inf), log)
    at, less = (
        np.where(certain, sure, at),
        np.where(certain, (beta > 0) & ~sure, less),
    )
    return log[place], less[place], at[place]


def _log_tail(
    k: Float[Array, "m L"], n: Float[Array, "m L"], a: Float[Array, "m L"], b: Float[Array, "m L"]
) -> Float[Array, "m L"]:
    """Compute ln of the sum of p(i) / p(k) over i < k, from k - 1 down; -inf for k = 0."""
    shape, concave = k.shape, (a >= 1) & (b >= 1)
    i, n, a, b, concave = (x.ravel() for x in (k - 1, n, a, b, concave))
    total, shift = np.zeros(i.shape), np.zeros(i.shape)
    left, term = np.flatnonzero(i >= 0), np.ones(i.shape)
    while len(left):
        at, rest = i[left], n[left] - i[left]
        term[left] *= (at + 1) / rest * (b[left] + rest - 1) / (a[left] + at)
        total[left] += term[left]
        large = left[total[left] > LARGEST_SUM]
        term[large] /= LARGEST_SUM
        total[large] /= LARGEST_SUM
        shift[large] += np.log(LARGEST_SUM)
        i[left] -= 1
        # Beyond its mode a log-concave distribution only falls: later terms are negligible too.
        done = concave[left] & (term[left] < NEGLIGIBLE * total[left])
        left = left[~done & (i[left] >= 0)]
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(total) + shift).reshape(shape)


def log_orders(counts: Int[Array, "... k"]) -> Float[Array, "..."]:
    """Compute ln of the multinomial coefficients over the last axis."""
    each = special.gammaln(counts + 1.0).sum(axis=-1)
    return np.asarray(special.gammaln(counts.sum(axis=-1) + 1.0) - each)


class BernoulliModel(CountsModel):
    """Tasks with rewards 0 or 1 and Beta priors."""

    statistics_type: ClassVar[type[Statistics]] = BernoulliStatistics
    statistics: BernoulliStatistics

    def _prepare(self) -> None:
        arrays = [self.statistics.array(name) for name in ("successes", "failures")]
        self._pairs = np.stack(arrays, axis=2)
        possible = np.ones(self._pairs.shape[1:], bool)
        self._rows = (Rows.of(self._pairs, possible),)

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
        family = self.family
        won = self.statistics.array("successes")[tasks, arm]
        return beta_binomial(won, self.pulls[tasks, arm], family.alpha[:, arm], family.beta[:, arm])

    def _orders(self, statistics: Statistics) -> Float[Array, " n"]:
        won, lost = statistics.array("successes"), statistics.array("failures")
        return np.asarray(log_orders(np.stack([won, lost], axis=-1)).sum(axis=1))

    def _draw(self, rng: np.random.Generator, pulls: Array, means: Array) -> Statistics:
        won = rng.binomial(pulls, means)
        return type(self.statistics)(successes=won, failures=pulls - won)
