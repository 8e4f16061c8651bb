"""Linear tasks: how their prior is learned, from posterior moments, and checked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from scipy import special

from mixts._numbers import LOG_2PI
from mixts._typing import Array, Bool, Float, Int
from mixts.errors import StatisticsError
from mixts.families import Family, LinearGaussian, LinearStatistics, Statistics
from mixts.families.linear import CovarianceType
from mixts.families.linear_statistics import triangle
from mixts.learning.models.base import Model, positive
from mixts.learning.models.coefficients import (
    CoefficientModel,
    LinearSums,
    LinearTasks,
    evidence_of_tasks,
    inverses,
    moments_of_tasks,
    pulls,
)
from mixts.learning.models.offset import OffsetModel
from mixts.learning.models.predictive import Prediction, Predictive, chi_squared, noise_part
from mixts.learning.two_stage import gaussian_of_estimates, mixture_of_estimates, ridge_estimates
from mixts.prior import MixturePrior

DEPENDENT = 1e-5
"""Singular values of unit features below this mean that features depend on each other."""

LARGE_SQUARES = 1e10
"""Ratio of squared residuals to the noise beyond which the fast loops lose too many digits."""

BLOCK = 1 << 21
"""Size of factors at a time: tasks times components times the square of the features."""

MOST_STACKED = 8192
"""Numbers to factorise together: from 9,216 on OpenBLAS hands columns to threads, which costs more
than the work on them."""

LARGE = 1e8
"""Beyond this ratio to the squared noise, squares would lose more than half of the digits."""


class GaussianMoments(NamedTuple):
    """Sums over tasks of which the M step makes components and their noise."""

    misfit: float
    """Sum of E(reward - a'theta)^2 over all rewards."""
    n_rewards: int
    """Number of rewards."""
    tasks: Float[Array, " L"]
    """Sums of shares."""
    moments: LinearSums


class LinearModel(CoefficientModel):
    """Tasks with rewards a'theta + noise; the noise is learned unless it is given."""

    statistics_type: ClassVar[type[Statistics]] = LinearStatistics
    options: ClassVar[tuple[str, ...]] = ("noise_std", "covariance_type")
    statistics: LinearStatistics
    centre: LinearGaussian

    def __init__(
        self,
        statistics: LinearStatistics,
        noise_std: float | None = None,
        covariance_type: CovarianceType = "full",
    ) -> None:
        self.noise_is_given = noise_std is not None
        self._common = common_coefficients(statistics)
        typical = typical_noise(statistics, self._common)
        self._noise = typical if noise_std is None else noise_std
        super().__init__(statistics, covariance_type)

    def _prepare(self) -> None:
        self._count: Array = self.statistics.array("count")
        self._factor: Array = self.statistics.array("factor")
        upper = self._factor[:, :-1, :-1]
        self._gram = np.ascontiguousarray(np.swapaxes(upper, 1, 2) @ upper)
        self._tasks = LinearTasks(self._factor, self._gram)
        self._rest: Array = self._factor[:, -1, -1] ** 2

    @classmethod
    def with_offset(cls, statistics: Statistics, **options: Any) -> Model:
        factor = statistics.array("factor")
        rest = factor[..., -1:] - factor[..., -2:-1]
        parts = np.concatenate([factor[..., :-2], rest], axis=2)
        known = LinearStatistics(count=statistics.array("count"), factor=triangle(parts))
        return OffsetModel(statistics, cls(known, **options))

    def after(self, prior: MixturePrior, pseudo: Array, pseudo_weights: Array) -> Self:
        other = super().after(prior, pseudo, pseudo_weights)
        other._noise = float(np.mean(other.centre.noise_std))  # each component has one or its own
        return other

    def _broad(self) -> LinearGaussian:
        """Return a component around the common coefficients: a shift of rewards must not matter."""
        scale = coefficient_variance(self.statistics, self._common, self._noise)
        return self._family(self._common[None], np.diag(scale)[None], self._noise)

    def _family(
        self, mean: Array, covariance: Float[Array, "L d d"], noise: float
    ) -> LinearGaussian:
        return LinearGaussian(mean, self.shaped(covariance), noise, self.covariance_type)

    # -- the objective ------------------------------------------------------------------------

    def log_evidence(self, family: LinearGaussian) -> Float[Array, "n L"]:  # type: ignore[override]
        noise = family.noise_std**2
        precision, log_det = inverses(self.distinct(family))
        out, squares, largest = evidence_of_tasks(
            self._tasks, family.mean, precision, -log_det / 2, noise
        )
        if largest > LARGE_SQUARES * noise:
            return MixturePrior(family).condition(self.statistics).log_evidence
        shared = self._count * np.log(2 * np.pi * noise) + self._rest / noise
        return out - 0.5 * squares - shared[:, None] / 2

    def log_hyperprior(self, family: LinearGaussian) -> float:  # type: ignore[override]
        value = super().log_hyperprior(family)
        if not self.noise_is_given:
            ratio = self._noise**2 / family.noise_std**2
            value -= float(np.sum(self.pseudo_weights)) / 2 * (ratio - float(np.log(ratio)))
        return value

    def sums(self, family: LinearGaussian, share: Array) -> GaussianMoments:  # type: ignore[override]
        if not np.isfinite(share).all():
            raise self._too_far_apart()
        precision, _ = inverses(self.distinct(family))
        misfit, sums = moments_of_tasks(
            self._tasks, share, share, family.mean, precision, family.noise_std**2
        )
        misfit += float(self._rest.sum())
        return GaussianMoments(misfit, int(self._count.sum()), share.sum(axis=0), sums)

    def improved(self, family: LinearGaussian, sums: GaussianMoments) -> LinearGaussian:  # type: ignore[override]
        precision, _ = inverses(self.distinct(family))
        mean, covariance = self.maximised(family.mean, sums.tasks, sums.moments, precision)
        if not (np.isfinite(mean).all() and np.isfinite(covariance).all()):
            raise self._too_far_apart()
        return self._family(mean, covariance, self._improved_noise(family, sums))

    def information(self, family: LinearGaussian, component: int) -> Float[Array, "n d d"]:
        return np.asarray(self._gram / family.noise_std**2)

    def _too_far_apart(self) -> StatisticsError:
        n = max(int(self._count.sum()), 1)
        sizes = np.sqrt((self._factor**2).sum(axis=(0, 1)) / n)
        return StatisticsError(
            f"the numbers are too far apart to learn from: the noise is {self._noise:.2g}, rewards "
            f"are about {sizes[-1]:.2g} and features from {sizes[:-1].min():.2g} to "
            f"{sizes[:-1].max():.2g}. Divide features by their sizes, subtract from rewards what "
            "all have in common (or add a feature that is always 1), and leave out features that "
            "others determine" + ("; or do not give noise_std" if self.noise_is_given else "")
        )

    def _improved_noise(self, family: LinearGaussian, sums: GaussianMoments) -> float:
        if self.noise_is_given:
            return family.noise_std
        pseudo = np.sum(self.pseudo_weights)  # each pseudo-task was observed at least once
        total = sums.misfit + pseudo * self._noise**2
        return float(np.sqrt(total / (sums.n_rewards + pseudo)))

    def pack(self, family: LinearGaussian) -> Float[Array, " p"]:  # type: ignore[override]
        """Return the means and roots, then the logarithm of a noise that is learned."""
        noise = [] if self.noise_is_given else [np.log(family.noise_std)]
        return np.concatenate([super().pack(family), noise])

    def unpack(self, numbers: Array, n_components: int) -> LinearGaussian | None:
        found = self.unpack_moments(numbers, n_components)
        noise = np.full(1, self._noise) if self.noise_is_given else positive(numbers[-1:])
        if found is None or noise is None:
            return None
        return self._family(*found, float(noise[0]))

    # -- points and two stages ----------------------------------------------------------------

    def points(self, family: LinearGaussian) -> Float[Array, "n p"]:  # type: ignore[override]
        """Return posterior means, in units of the component's own spread."""
        noise = family.noise_std**2
        precision, _ = inverses(family.full_covariances())
        _, pull = pulls(self._tasks, family.mean, noise)
        shift = np.linalg.solve(precision[0] + self._gram / noise, pull[:, 0, :, None])[:, :, 0]
        return np.asarray(shift @ np.linalg.cholesky(precision[0]))

    def estimates(self, family: Family) -> Float[Array, "n p"]:
        """Return least squares with a small ridge, from each task's own data."""
        return ridge_estimates(self.statistics)

    def two_stage(self, n_components: int, seed: int) -> tuple[MixturePrior, MixturePrior]:
        estimates, noise = ridge_estimates(self.statistics), self.centre.noise_std
        mixture = mixture_of_estimates(
            estimates, n_components, noise, seed, self.covariance_type, weights="fitted"
        )
        return mixture, gaussian_of_estimates(estimates, noise)

    def n_parameters(self, n_components: int) -> int:
        return super().n_parameters(n_components) + (0 if self.noise_is_given else 1)


def common_coefficients(statistics: LinearStatistics) -> Float[Array, " d"]:
    """Return least squares of all tasks together; the shortest if features depend on each other.

    Computed from the triangles, not from sums of squares: rewards far from zero keep their digits.
    """
    d = statistics.shape[0]
    joint = joint_triangle(statistics.array("factor"))
    sizes = np.sqrt((joint[:, :d] ** 2).sum(axis=0))
    sizes[sizes == 0] = 1.0
    return np.linalg.lstsq(joint[:, :d] / sizes, joint[:, d], rcond=DEPENDENT)[0] / sizes


def joint_triangle(factor: Float[Array, "n p p"]) -> Float[Array, "p p"]:
    """Return the triangle of the data of all tasks: tall factorisations of some tasks at a time."""
    p = factor.shape[1]
    height = max(2, MOST_STACKED // p**2)
    while len(factor) > 1:
        padding = np.zeros((-len(factor) % height, p, p))
        factor = triangle(np.concatenate([factor, padding]).reshape(-1, height * p, p))
    return factor[0] if len(factor) else np.zeros(factor.shape[1:])


def unexplained(statistics: LinearStatistics, common: Float[Array, " d"]) -> float:
    """Return the mean square of residuals of the common coefficients.

    If there are no residuals, as of a single reward, it is the mean square of the rewards.
    """
    factor = statistics.array("factor")
    n = max(int(statistics.array("count").sum()), 1)
    gap = factor[:, :-1, -1] - factor[:, :-1, :-1] @ common
    rest = float((gap**2).sum() + (factor[:, -1, -1] ** 2).sum()) / n
    squares = float((factor[:, :, -1] ** 2).sum()) / n
    # Residuals of the size of rounding count as none.
    return rest if rest > 1e-20 * squares else squares


def spare_counts(statistics: LinearStatistics) -> Int[Array, " n"]:
    """Return how many more observations than independent features each task has."""
    diagonal = np.abs(np.diagonal(statistics.array("factor")[:, :-1, :-1], axis1=1, axis2=2))
    rank = (diagonal > 1e-9 * diagonal.max(axis=1, initial=0.0, keepdims=True)).sum(axis=1)
    return np.maximum(statistics.array("count") - rank, 0)


def typical_noise(statistics: LinearStatistics, common: Float[Array, " d"] | None = None) -> float:
    """Estimate the standard deviation of residuals of least squares, task by task.

    If no task has more observations than features, half of the residual variance of the common
    coefficients counts as noise.
    """
    factor, spare = statistics.array("factor"), spare_counts(statistics)
    rest = (factor[spare > 0, -1, -1] ** 2).sum()
    common = common_coefficients(statistics) if common is None else common
    size = np.sqrt(unexplained(statistics, common))
    noise = np.sqrt(rest / spare.sum()) if spare.sum() else np.sqrt(0.5) * size
    # Noise of zero would mean a division by zero.
    return float(max(noise, 1e-3 * size)) or 1.0


def coefficient_variance(
    statistics: LinearStatistics, common: Float[Array, " d"], noise_std: float
) -> Float[Array, " d"]:
    """Return variances of coefficients with which every feature explains its part of rewards."""
    factor, count = statistics.array("factor"), statistics.array("count")
    n = max(int(count.sum()), 1)
    sizes = (factor[:, :-1, :-1] ** 2).sum(axis=(0, 1)) / n
    # A feature that is always zero gets the scale of the largest.
    sizes = np.where(sizes > 0, sizes, sizes.max(initial=0.0) or 1.0)
    return np.asarray(max(unexplained(statistics, common), noise_std**2) / (len(sizes) * sizes))


@dataclass(frozen=True)
class Rotated:
    """Rotated rewards of tasks, and their distributions."""

    tasks: Int[Array, " m"]
    features: Float[Array, "m r d"]
    """R."""
    rewards: Float[Array, "m r"]
    """z."""
    real: Bool[Array, "m r"]
    """Rows that hold an observation; a task with few observations has few."""
    location: Float[Array, "m L r"]
    """R m_s."""
    inverse: Float[Array, "m L r r"]
    """H_s^-1."""
    log_scale: Float[Array, "m L r"]
    """ln of the diagonal of H_s."""

    def innovations(self, rewards: Float[Array, "m r b"]) -> Float[Array, "m L r b"]:
        """Compute H_s^-1 (z - R m_s) for b rotated rewards of each task."""
        return self.inverse @ (rewards[:, None] - self.location[..., None])


class LinearPredictive(Predictive):
    """Predictions of rotated rewards one after the other, then of the residual noise.

    With the factor ``[A y] = Q [[R, z], [0, sqrt(rss)]]`` a task is d rewards ``z_j = R_j theta +
    noise``, and the residual noise, rss. Under component s the rewards are normal with mean
    ``R m_s`` and covariance ``H_s H_s' = R C C' R' + sigma^2 I``, where ``C C'`` is the component's
    covariance. The entries of ``H_s^-1 (z - R m_s)`` are what each reward adds to the earlier ones,
    in standard deviations, and the diagonal of H_s is those deviations.
    """

    family_type: ClassVar[type[Family]] = LinearGaussian

    def __init__(self, prior: MixturePrior, statistics: Statistics) -> None:
        super().__init__(prior, statistics)
        factor = statistics.array("factor")
        d = factor.shape[1] - 1
        self.count: Int[Array, " n"] = statistics.array("count")
        self.residual: Float[Array, " n"] = factor[:, d, d] ** 2
        self.real = _real_rows(factor[:, :d], self.count)
        self.spare: Int[Array, " n"] = np.maximum(self.count - self.real.sum(axis=1), 0)
        self.factor: Float[Array, "n d p"] = factor[:, :d] * self.real[..., None]

    def parts(self) -> Iterator[Prediction]:
        for rotated in self._blocks(np.arange(len(self.count))):
            innovation = rotated.innovations(rotated.rewards[..., None])[..., 0]
            for j in range(rotated.real.shape[1]):
                rows = np.flatnonzero(rotated.real[:, j])
                e, log_scale = innovation[rows, :, j], rotated.log_scale[rows, :, j]
                log = -0.5 * (LOG_2PI + e**2) - log_scale
                yield Prediction(
                    "rewards", rotated.tasks[rows], log, special.ndtr(e), np.zeros_like(e)
                )
        yield noise_part(self.spare, self.residual / self.family.unit_noise**2)

    def scores(self) -> Float[Array, " n"]:
        out = np.empty(len(self.count))
        for rotated in self._blocks(np.arange(len(out))):
            residual = self.residual[rotated.tasks, None]
            out[rotated.tasks] = self._score(rotated, rotated.rewards[..., None], residual)[:, 0]
        return out

    def replicate(
        self, rng: np.random.Generator, tasks: Int[Array, " m"], n: int
    ) -> Float[Array, "m n"]:
        out, start = np.empty((len(tasks), n)), 0
        for rotated in self._blocks(tasks):
            m = len(rotated.tasks)
            step = max(1, BLOCK // rotated.location.size)
            for first in range(0, n, step):
                b = min(step, n - first)
                _, parameters = self.prior.draw(rng, m * b)
                theta, sigma = self._split(parameters.reshape(m, b, -1))
                rewards = rotated.features @ np.swapaxes(theta, 1, 2)
                rewards += sigma[:, None] * rng.standard_normal(rewards.shape)
                spare = np.repeat(self.spare[rotated.tasks, None], b, axis=1)
                residual = sigma**2 * chi_squared(rng, spare)
                score = self._score(rotated, rewards, residual)
                out[start : start + m, first : first + b] = score
            start += m
        return out

    def _split(self, parameters: Float[Array, "m b p"]) -> tuple[Array, Array]:
        """Return theta, (m, b, d), and the noise, (m, b), of drawn parameters."""
        return parameters, np.full(parameters.shape[:2], self.family.unit_noise)

    def _score(
        self, rotated: Rotated, rewards: Float[Array, "m r b"], residual: Float[Array, "m b"]
    ) -> Float[Array, "m b"]:
        """Compute the log evidence of rotated rewards and residuals."""
        real = rotated.real[:, None, :, None]
        log = -0.5 * (LOG_2PI + rotated.innovations(rewards) ** 2) - rotated.log_scale[..., None]
        given = (log * real).sum(axis=2)
        mixed = special.logsumexp(self.prior.log_weights[:, None] + given, axis=1)
        noise = self.family.unit_noise**2
        rest = self.spare[rotated.tasks, None] * (LOG_2PI + np.log(noise)) + residual / noise
        return np.asarray(mixed - 0.5 * rest)

    def _blocks(self, tasks: Int[Array, " m"]) -> Iterator[Rotated]:
        n_components, d = self.family.mean.shape
        size = max(1, BLOCK // (n_components * d * d))
        root, group = self.family.roots.matrices(), self.family.roots.group_of
        for start in range(0, len(tasks), size):
            part = tasks[start : start + size]
            # Skip rows that none of these tasks has.
            rows = np.flatnonzero(self.real[part].any(axis=0))
            factor = self.factor[part][:, rows]
            features = factor[..., :d]
            lower = _lower(features[:, None] @ root, self.family.unit_noise)
            yield Rotated(
                part,
                features,
                factor[..., d],
                self.real[part][:, rows],
                np.einsum("mij,sj->msi", features, self.family.mean),
                np.linalg.inv(lower)[:, group],
                np.log(np.diagonal(lower, axis1=2, axis2=3))[:, group],
            )


def _lower(scaled: Float[Array, "m G r d"], noise_std: float) -> Float[Array, "m G r r"]:
    """Return H with H H' = B B' + sigma^2 I, for B = R C."""
    m, n_groups, r, d = scaled.shape
    noise = noise_std * np.eye(r)
    if (scaled**2).sum(axis=3).max(initial=0.0) < LARGE * noise_std**2:
        return np.linalg.cholesky(scaled @ np.swapaxes(scaled, 2, 3) + noise**2)
    below = np.broadcast_to(noise, (m, n_groups, r, r))
    stacked = np.concatenate([np.swapaxes(scaled, 2, 3), below], axis=2)
    upper = triangle(stacked.reshape(m * n_groups, d + r, r))
    return np.swapaxes(upper, 1, 2).reshape(m, n_groups, r, r)


def _real_rows(factor: Float[Array, "n d p"], count: Int[Array, " n"]) -> Bool[Array, "n d"]:
    """Return which rows of a factor hold an observation: non-zero ones, at most ``count``.

    Rounding may leave small numbers in other rows, so the largest rows count.
    """
    size = np.linalg.norm(factor, axis=2)
    rank = np.argsort(np.argsort(-size, axis=1, kind="stable"), axis=1)
    return np.asarray((size > 0) & (rank < count[:, None]))
