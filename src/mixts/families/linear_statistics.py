"""Statistics of linear tasks: the count of observations and the triangular factor of the data."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np

from mixts import _checks, _program
from mixts._numbers import LARGEST, LARGEST_TOTAL
from mixts._typing import Array, ArrayLike, Float, Int
from mixts.errors import ActionError, OutcomeError, StatisticsError
from mixts.families.statistics import Statistics, stored, turns


class LinearStatistics(Statistics):
    """Counts n and triangles of ``[A y] = Q [[R, z], [0, sqrt(rss)]]``, never sums of squares.

    Sums lose digits where rewards are large beside their noise; the factor does not. Merging is
    the QR factorisation of two stacked triangles, so any engine that reduces can make them.
    """

    kind: ClassVar[str] = "linear-gaussian"
    fields: ClassVar[dict[str, Any]] = {"count": np.int64, "factor": float}
    support: ClassVar[str] = f"numbers between -{LARGEST:g} and {LARGEST:g}"

    @classmethod
    def array_shapes(cls, shape: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
        size = shape[0] + 1
        return {"count": (), "factor": (size, size)}

    def observations(
        self, actions: ArrayLike, outcomes: ArrayLike
    ) -> tuple[Float[Array, "m d"], Float[Array, " m"]]:
        """Return feature rows and rewards as arrays of m observations."""
        return observed_rows(actions, outcomes, self.shape[0])

    def checked_actions(self, actions: ArrayLike) -> Float[Array, "m d"]:
        """Return the feature rows of decisions without outcomes."""
        return action_rows(actions, self.shape[0])

    def _observe(self, tasks: Int[Array, " m"], observed: tuple[Array, ...]) -> None:
        """Fold the rows into the triangles, one after the other."""
        check_rows(*observed)
        if _program.core is not None:
            _program.core.fold_rows(tasks, *observed, *self.stored)
            return
        for turn in turns(tasks):
            fold_histories(tasks[turn], *(array[turn] for array in observed), *self.stored)

    @property
    def feature_scales(self) -> Float[Array, " d"]:
        """Root mean square of each feature over all observations."""
        squares = (self.array("factor")[:, :-1, :-1] ** 2).sum(axis=(0, 1))
        return np.sqrt(squares / max(int(self.array("count").sum()), 1))

    @property
    def feature_squares(self) -> Float[Array, "d d"]:
        """Sum of row' row over all observations."""
        factor = self.array("factor")[:, :-1, :-1]
        return np.einsum("nij,nik->jk", factor, factor)

    def mapped(self, matrix: Float[Array, "e d"]) -> Self:
        """Return the statistics of the same observations with rows ``matrix @ row``."""
        factor = self.array("factor")
        rows = np.concatenate([factor[..., :-1] @ matrix.T, factor[..., -1:]], axis=2)
        return type(self)(single=self.single, count=self.array("count"), factor=triangle(rows))

    def _check(self) -> None:
        count, factor = self.array("count"), self.array("factor")
        square = factor.ndim == 3 and factor.shape[1] == factor.shape[2] >= 2
        if count.ndim != 1 or not square or len(count) != len(factor):
            raise StatisticsError(
                "expected count (tasks,) and factor (tasks, d + 1, d + 1), "
                f"got {count.shape} and {factor.shape}"
            )
        if ((count < 0) | (count > LARGEST_TOTAL)).any():
            raise StatisticsError("count must be from 0 to 2^62")

    @classmethod
    def from_sums(
        cls, count: ArrayLike, gram: ArrayLike, moment: ArrayLike, squares: ArrayLike
    ) -> Self:
        """Make statistics from sums, where nothing better exists.

        Squaring has already lost half of the digits: the residual has an absolute error of about
        1e-16 yy, too much for rewards near 1000 with noise 1e-3.

        Parameters
        ----------
        count : (tasks,)
            Number of observations of each task.
        gram : (tasks, d, d)
            V = A'A.
        moment : (tasks, d)
            B = A'y.
        squares : (tasks,)
            yy = y'y.

        Returns
        -------
        LinearStatistics
            With a task axis.
        """
        v, b, yy = (np.asarray(x, dtype=float) for x in (gram, moment, squares))
        if (
            v.ndim != 3
            or v.shape[1] != v.shape[2]
            or b.shape != v.shape[:2]
            or yy.shape != v.shape[:1]
        ):
            raise StatisticsError(
                "expected gram (tasks, d, d), moment (tasks, d) and squares (tasks,), "
                f"got {v.shape}, {b.shape} and {yy.shape}"
            )
        joint = np.concatenate(
            [
                np.concatenate([v, b[:, :, None]], axis=2),
                np.concatenate([b[:, None, :], yy[:, None, None]], axis=2),
            ],
            axis=1,
        )
        values, vectors = np.linalg.eigh(joint)
        scale = np.abs(values).max(axis=1, initial=0.0)
        if (values.min(axis=1) < -1e-8 * scale).any():
            raise StatisticsError(
                "these are not sums of real data: [[V, B], [B', yy]] must be positive semi-definite"
            )
        roots = np.sqrt(np.maximum(values, 0))[:, :, None] * np.swapaxes(vectors, 1, 2)
        return cls(count=count, factor=triangle(roots))

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of features, as (d,)."""
        return (self.array("factor").shape[1] - 1,)

    @property
    def n_observations(self) -> Any:
        """Number of observations of each task."""
        return self._view(self.array("count"))

    factor = stored("factor", "Triangle [[R, z], [0, sqrt(rss)]] of each task.")

    @property
    def gram(self) -> Any:
        """V = A'A = R'R of each task  [paper: Sec. 4.2]."""
        r = self.array("factor")[:, :-1, :-1]
        return self._view(np.swapaxes(r, 1, 2) @ r)

    @property
    def moment(self) -> Any:
        """B = A'y = R'z of each task  [paper: Sec. 4.2]."""
        f = self.array("factor")
        return self._view((np.swapaxes(f[:, :-1, :-1], 1, 2) @ f[:, :-1, -1:])[:, :, 0])

    @property
    def squares(self) -> Any:
        """y'y = z'z + rss of each task."""
        return self._view((self.array("factor")[:, :, -1] ** 2).sum(axis=1))

    def _merge(self, other: Self) -> dict[str, Array]:
        ours, theirs = self.array("factor"), other.array("factor")
        factor = triangle(np.concatenate([ours, theirs], axis=1))
        # A side with no history leaves the other as it is, to the bit.
        factor[other.array("count") == 0] = ours[other.array("count") == 0]
        factor[self.array("count") == 0] = theirs[self.array("count") == 0]
        return {"count": self.array("count") + other.array("count"), "factor": factor}


# -- triangular factors ---------------------------------------------------------------------------

_BLOCK_ROWS = 4096
"""Rows factorised at a time, which bounds the memory that a long history needs."""


def triangle(rows: Float[Array, "n m p"]) -> Float[Array, "n p p"]:
    """Return the triangular factor of each stack of rows, with no negative diagonal entry."""
    n, m, p = rows.shape
    if m < p:
        rows = np.concatenate([rows, np.zeros((n, p - m, p))], axis=1)
    r = np.linalg.qr(rows, mode="r")
    sign = np.where(np.diagonal(r, axis1=1, axis2=2) < 0, -1.0, 1.0)
    return np.triu(r * sign[:, :, None])


def fold_histories(
    tasks: Int[Array, " m"],
    features: Float[Array, "m d"],
    outcomes: Float[Array, " m"],
    count: Int[Array, " n"],
    factor: Float[Array, "n p p"],
) -> None:
    """Add checked observations to counts and triangles, by QR factorisations.

    A task's triangle becomes that of its triangle with the new rows [a', y] below. Tasks with the
    same number of new rows are factorised together.
    """
    rows = np.concatenate([features, outcomes[:, None]], axis=1)
    order = np.argsort(tasks, kind="stable")
    distinct, first, lengths = np.unique(tasks[order], return_index=True, return_counts=True)
    for length in np.unique(lengths):
        alike = np.flatnonzero(lengths == length)
        some = distinct[alike]
        for start in range(0, length, _BLOCK_ROWS):
            place = first[alike, None] + np.arange(start, min(start + _BLOCK_ROWS, length))
            factor[some] = triangle(np.concatenate([factor[some], rows[order[place]]], axis=1))
        count[some] += length


def weighted_triangles(
    tasks: Int[Array, " m"],
    features: Float[Array, "m d"],
    moments: tuple[Array, Array, Array],
    n_tasks: int,
) -> Float[Array, "n p p"]:
    """Return the triangles of groups of observations with the same task and features.

    n rewards of average y with squared deviations M2 are as good as one reward sqrt(n) y of
    features sqrt(n) x, and a residual of M2: features are never squared.

    Parameters
    ----------
    tasks : (m,)
        Task of each group.
    features : (m, d)
        Features of each group.
    moments
        Number of rewards of each group, at least 1, their average and their squared deviations.
    n_tasks
        Number of tasks.

    Returns
    -------
    array
        Triangle of each task.
    """
    n, average, squares = moments
    d, root = features.shape[1], np.sqrt(n)
    factor, count = np.zeros((n_tasks, d + 1, d + 1)), np.zeros(n_tasks, np.int64)
    fold_histories(tasks, features * root[:, None], average * root, count, factor)
    rest = np.bincount(tasks, squares, n_tasks)
    factor[:, d, d] = np.hypot(factor[:, d, d], np.sqrt(rest))
    return factor


# -- checks ---------------------------------------------------------------------------------------


def observed_rows(
    actions: ArrayLike, outcomes: ArrayLike, n_features: int
) -> tuple[Float[Array, "m d"], Float[Array, " m"]]:
    """Return feature rows and rewards as arrays of m observations, checked for their shapes."""
    d = n_features
    expected = f"actions must be feature vectors of {d} numbers"
    features = _checks.numbers(actions, expected, ActionError)
    rewards = _checks.numbers(outcomes, "outcomes must be numbers", OutcomeError)
    if features.shape == rewards.shape == (0,):
        features = features.reshape(0, d)
    if features.ndim not in (1, 2) or features.shape != (*rewards.shape, d):
        raise ActionError(
            f"actions must be features ({d},) with one outcome, or (m, {d}) with m outcomes; "
            f"got shapes {features.shape} and {rewards.shape}"
        )
    return features.reshape(-1, d), rewards.reshape(-1)


def action_rows(actions: ArrayLike, n_features: int) -> Float[Array, "m d"]:
    """Return the feature rows of decisions without outcomes, checked."""
    expected = f"actions must be feature vectors of {n_features} numbers"
    features = _checks.numbers(actions, expected, ActionError)
    if features.ndim not in (1, 2) or features.shape[-1] != n_features:
        shapes = f"({n_features},) or (m, {n_features})"
        raise ActionError(f"{expected}, {shapes}, got shape {features.shape}")
    rows = features.reshape(-1, n_features)
    check_rows(rows, np.zeros(len(rows)))
    return rows


def check_rows(features: Float[Array, "m d"], outcomes: Float[Array, " m"]) -> None:
    """Raise an error if an observation is too large for a triangle, or not a number."""
    # Negated, so that NaN is found too.
    bad = ~(np.abs(features).sum(axis=1) + np.abs(outcomes) <= LARGEST)
    if bad.any():
        raise_bad_row(features, outcomes, int(np.argmax(bad)))


def raise_bad_row(features: Float[Array, "m d"], outcomes: Float[Array, " m"], index: int) -> None:
    """Raise the error that describes a bad observation."""
    limits = f"numbers between -{LARGEST:g} and {LARGEST:g}"
    where = f"(observation {index})"
    if not np.abs(features[index]).sum() <= LARGEST:
        raise ActionError(f"features must be {limits}, got {features[index]} {where}")
    raise OutcomeError(f"rewards must be {limits}, got {outcomes[index]} {where}")
