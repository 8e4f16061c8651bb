"""Dirichlet counts of rows of outcomes, found by Newton's method from shares of tasks.

A Beta distribution is a row of two outcomes. All rows of all components are improved at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special

from mixts._typing import Array, Bool, Float, Int
from mixts.learning.models.levels import Levels

LEAST, MOST = 1e-6, 1e8
"""Of learned counts: beyond, rows are as good as certain, or as good as known."""
STEPS = 2
"""Of Newton's method in each iteration; the next one goes on from there."""
HALVINGS = 30
NOTHING = 1e-14
"""Of the value, a gain that rounding hides."""


@dataclass(frozen=True)
class Rows:
    """The counts of tasks in rows of outcomes: (n, rows, k), and which outcomes are possible."""

    outcomes: Levels
    totals: Levels
    possible: Bool[Array, "rows k"]

    @classmethod
    def of(cls, counts: Int[Array, "n rows k"], possible: Bool[Array, "rows k"]) -> Rows:
        n, rows, k = counts.shape
        return cls(Levels.of(counts.reshape(n, rows * k)), Levels.of(counts.sum(axis=2)), possible)

    def log_evidence(self, counts: Float[Array, "L rows k"]) -> Float[Array, "n L"]:
        """Of the ordered history: sum ln G(a + c) / G(a) - ln G(A + C) / G(A) over the rows."""
        n = len(counts)
        each, total = self._arguments(counts)
        table = rising(each[self.outcomes.column], self.outcomes.value[:, None])
        below = rising(total[self.totals.column], self.totals.value[:, None])
        return self.outcomes.look_up(table, n) - self.totals.look_up(below, n)

    def _arguments(self, counts: Float[Array, "L rows k"]) -> tuple[Array, Array]:
        """The counts by column of outcomes (rows k, L), and by row (rows, L)."""
        each = counts.reshape(len(counts), -1).T
        return np.where(each > 0, each, 1.0), counts.sum(axis=2).T

    def improve(
        self,
        counts: Float[Array, "L rows k"],
        share: Float[Array, "n L"],
        centre: Float[Array, "1 rows k"],
        pseudo: float,
    ) -> Float[Array, "L rows k"]:
        """Counts under which the shares of tasks and the pseudo-tasks are more likely."""
        problem = _Problem(
            self, self.outcomes.shares(share), self.totals.shares(share), centre, pseudo
        )
        value = problem.value(counts)
        for _ in range(STEPS):
            counts, value = problem.step(counts, value)
        return counts


def rising(start: Array, length: Array) -> Array:
    """ln G(start + length) - ln G(start)."""
    return np.asarray(special.gammaln(start + length) - special.gammaln(start))


def expected_logs(counts: Float[Array, "... k"]) -> Float[Array, "... k"]:
    """E[ln p] under each row; 0 for impossible outcomes."""
    safe = np.where(counts > 0, counts, 1.0)
    logs = special.psi(safe) - special.psi(counts.sum(axis=-1, keepdims=True))
    return np.asarray(np.where(counts > 0, logs, 0.0))


def pseudo_density(
    counts: Float[Array, "L rows k"], centre: Float[Array, "1 rows k"]
) -> Float[Array, "L rows"]:
    """E[ln density of p] under the counts, with p drawn from the centre."""
    possible = counts > 0
    safe = np.where(possible, counts, 1.0)
    logs = ((counts - 1) * expected_logs(centre) * possible).sum(axis=2)
    norm = special.gammaln(counts.sum(axis=2)) - special.gammaln(safe).sum(axis=2)
    return np.asarray(logs + norm)


@dataclass(frozen=True)
class _Problem:
    """The expected log density of one M step, for each component and row."""

    rows: Rows
    outcome_shares: Float[Array, "u L"]
    total_shares: Float[Array, "v L"]
    centre: Float[Array, "1 rows k"]
    pseudo: float

    def _sums(self, counts: Array, *, derivatives: bool = False) -> tuple[Array, Array]:
        """Sums over tasks of f(a + c) - f(a), f = ln G and its derivatives, of those that exist.

        By outcome (3, L, rows, k) and by row (3, L, rows).
        """
        each, total = self.rows._arguments(counts)
        rise = self.rows.outcomes.rising(self.outcome_shares, each, derivatives=derivatives)
        fall = self.rows.totals.rising(self.total_shares, total, derivatives=derivatives)
        return np.swapaxes(rise, 1, 2).reshape(3, *counts.shape), np.swapaxes(fall, 1, 2)

    def value(self, counts: Array) -> Float[Array, "L rows"]:
        rise, fall = self._sums(counts)
        inside = np.where(counts > 0, rise[0], 0.0).sum(axis=2) - fall[0]
        return np.asarray(inside + self.pseudo * pseudo_density(counts, self.centre))

    def step(self, counts: Array, value: Array) -> tuple[Array, Array]:
        """One step of Newton's method in ln counts, halved where it does not gain."""
        direction, slope = self._direction(counts)
        promise = (direction * slope).sum(axis=2)
        waiting = promise > NOTHING * (1 + np.abs(value))
        length = 1.0
        result, reached = counts, value
        for _ in range(HALVINGS):
            if not waiting.any():
                break
            change = np.clip(length * direction, -3.0, 3.0)
            moved = np.where(counts > 0, np.clip(counts * np.exp(change), LEAST, MOST), 0.0)
            trial = self.value(moved)
            accept = waiting & (trial >= value)
            result = np.where(accept[:, :, None], moved, result)
            reached = np.where(accept, trial, reached)
            waiting &= ~accept
            length /= 2
        return result, reached

    def _direction(self, counts: Array) -> tuple[Array, Array]:
        """Where to go, and the slope, in ln a.

        The Hessian is a diagonal and a rank-one matrix, so that it is easily solved.
        Where it is not negative definite the diagonal alone, made negative, still leads upwards.
        """
        possible = counts > 0
        safe, total = np.where(possible, counts, 1.0), counts.sum(axis=2)
        (_, rise, up), (_, fall, down) = self._sums(counts, derivatives=True)
        psi_total = special.psi(total)[:, :, None]
        slope = rise - fall[:, :, None]
        slope += self.pseudo * (expected_logs(self.centre) + psi_total - special.psi(safe))
        slope = np.where(possible, counts * slope, 0.0)
        bend = counts**2 * (up - self.pseudo * trigamma(safe)) + slope
        joint = -down + self.pseudo * trigamma(total)
        with np.errstate(divide="ignore", invalid="ignore"):
            inverse = np.where(possible, 1.0 / bend, 0.0)
            ratio = (counts * slope * inverse).sum(axis=2)
            weight = 1.0 / joint + (counts**2 * inverse).sum(axis=2)
            newton = inverse * (slope - counts * (ratio / weight)[:, :, None])
            # Negative definite: the diagonal is, and the rank-one part does not outweigh it.
            good = np.where(possible, bend < 0, True).all(axis=2) & ((joint <= 0) | (weight > 0))
            good &= np.isfinite(newton).all(axis=2)
        plain = slope / np.maximum(np.abs(bend), 1e-12)
        return np.where(good[:, :, None], -newton, plain), slope


def trigamma(x: Array) -> Array:
    """The second derivative of ln G."""
    return np.asarray(special.zeta(2.0, x))
