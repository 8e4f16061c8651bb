"""Linear tasks: the evidence in closed form, maximised by the moments of their posteriors."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from mixts._typing import Array, Float
from mixts.errors import ParameterError, StatisticsError
from mixts.families import LinearGaussian, LinearStatistics, Statistics
from mixts.families._kernels.triangles import fold_block
from mixts.families.linear import CovarianceType
from mixts.learning._kernels.linear import posterior_moments, relative_evidence
from mixts.learning.models.base import Model, positive
from mixts.prior import MixturePrior

RIDGE = 1e-3
"""Of the linear models, relative to the features' mean square: the fit hardly notices it, but with
few observations and features that nearly depend on each other there is none without."""

DEPENDENT = 1e-5
"""Features depend on each other where a direction of theirs is shorter than this, of unit ones."""

LARGE_SQUARES = 1e10
"""Squared residuals beside the noise beyond which the quick loops lose too many digits."""


class LinearModel(Model):
    """Tasks with rewards a'theta + noise; the noise is learned where it is not given.

    Beside the pseudo-tasks there is a preference for components that vary alike. With L
    covariances of d dimensions, and W the inverse of their inverses' mean, it is
    ``-(d + 1) / 2 sum_s (ln det Sigma_s - ln det W)``, zero where all are equal: as if each
    component had d + 1 more tasks about its own mean that vary as all components do, which is how
    many a covariance needs to be regular at all.
    """

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
        if covariance_type not in ("full", "tied", "diag"):
            raise ParameterError(
                f"a learned covariance is 'full', 'tied' or 'diag', got {covariance_type!r}"
            )
        self.covariance_type: CovarianceType = covariance_type
        self.noise_is_given = noise_std is not None
        self._count: Array = statistics.array("count")
        self._factor: Array = statistics.array("factor")
        upper = self._factor[:, :-1, :-1]
        self._gram = np.ascontiguousarray(np.swapaxes(upper, 1, 2) @ upper)
        self._rest: Array = self._factor[:, -1, -1] ** 2
        self._noise = typical_noise(statistics) if noise_std is None else noise_std
        super().__init__(statistics)

    @property
    def n_features(self) -> int:
        return self._gram.shape[1]

    @property
    def alike(self) -> float:
        """Pseudo-tasks that vary as all components do."""
        return self.n_features + 1.0 if self.covariance_type == "full" else 2.0

    def _broad(self) -> LinearGaussian:
        """About the coefficients that serve all tasks best: where rewards lie must not matter."""
        scale = coefficient_variance(self.statistics, self._noise)
        mean = common_coefficients(self.statistics)
        return self._family(mean[None], np.diag(scale)[None], self._noise)

    def _family(
        self, mean: Array, covariance: Float[Array, "L d d"], noise: float
    ) -> LinearGaussian:
        symmetric = (covariance + np.swapaxes(covariance, 1, 2)) / 2
        kind = self.covariance_type
        if kind == "tied":
            symmetric = symmetric[0]
        elif kind == "diag":
            symmetric = np.diagonal(symmetric, axis1=1, axis2=2)
        return LinearGaussian(mean, symmetric, noise, kind)

    # -- what is maximised --------------------------------------------------------------------

    def log_evidence(self, family: LinearGaussian) -> Float[Array, "n L"]:  # type: ignore[override]
        noise = family.noise_std**2
        if self._largest_square(family) > LARGE_SQUARES:
            return MixturePrior(family).condition(self.statistics).log_evidence
        precision, log_det = _inverses(self._distinct(family))
        out = np.empty((self.n_tasks, family.n_components))
        relative_evidence(
            self._factor, self._gram, family.mean, precision, -log_det / 2, noise, out
        )
        shared = self._count * np.log(2 * np.pi * noise) + self._rest / noise
        return out - shared[:, None] / 2

    def _largest_square(self, family: LinearGaussian) -> float:
        gap = self._factor[:, None, :-1, -1] - np.einsum(
            "nij,lj->nli", self._factor[:, :-1, :-1], family.mean
        )
        return float((gap**2).sum(axis=2).max(initial=0.0) / family.noise_std**2)

    def log_hyperprior(self, family: LinearGaussian) -> float:  # type: ignore[override]
        precision, log_det = _inverses(family.full_covariances())
        gap = family.mean - self.centre.mean
        about = self.centre.full_covariances()[0] + gap[:, :, None] * gap[:, None, :]
        pull = (log_det + np.einsum("lij,lij->l", precision, about)).sum()
        value = -self.pseudo / 2 * pull
        if self.covariance_type != "tied":
            joint = len(log_det) * np.linalg.slogdet(precision.mean(axis=0))[1]
            value -= self.alike / 2 * (log_det.sum() + joint)
        if not self.noise_is_given:
            ratio = self._noise**2 / family.noise_std**2
            value -= self.pseudo / 2 * (ratio - np.log(ratio))
        return float(value)

    def improve(self, family: LinearGaussian, share: Array) -> LinearGaussian:  # type: ignore[override]
        if not np.isfinite(share).all():
            raise self._too_far_apart()
        n, d = family.mean.shape
        precision, _ = _inverses(self._distinct(family))
        first, second, within = np.zeros((n, d)), np.zeros((n, d, d)), np.zeros(precision.shape)
        misfit = posterior_moments(
            self._factor, self._gram, share, family.mean, precision, family.noise_std**2,
            first, second, within,
        )  # fmt: skip
        tasks = share.sum(axis=0)
        start = self.centre.mean - family.mean
        step = (first + self.pseudo * start) / (tasks + self.pseudo)[:, None]
        # About the new mean m + step: of (x - step)(x - step)' with x from the old mean.
        scatter = _whole(second) - _outer(first, step) - _outer(step, first)
        scatter += tasks[:, None, None] * _outer(step, step)
        gap = start - step
        scatter += self.pseudo * (self.centre.full_covariances() + _outer(gap, gap))
        covariance = self._covariances(scatter, _whole(within), tasks + self.pseudo, precision)
        if not (np.isfinite(step).all() and np.isfinite(covariance).all()):
            raise self._too_far_apart()
        return self._family(family.mean + step, covariance, self._improved_noise(family, misfit))

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

    def _covariances(
        self, scatter: Array, within: Array, tasks: Array, precision: Array
    ) -> Float[Array, "G d d"]:
        if self.covariance_type == "tied":
            return (scatter.sum(axis=0, keepdims=True) + within) / tasks.sum()
        shared = np.linalg.inv(precision.mean(axis=0))
        return (scatter + within + self.alike * shared) / (tasks + self.alike)[:, None, None]

    def _distinct(self, family: LinearGaussian) -> Float[Array, "G d d"]:
        """The covariances as matrices; one where all components share it."""
        if self.covariance_type == "tied":
            return family.covariance[None]
        return family.full_covariances()

    def _improved_noise(self, family: LinearGaussian, misfit: float) -> float:
        if self.noise_is_given:
            return family.noise_std
        total = misfit + self._rest.sum() + self.pseudo * self._noise**2
        return float(np.sqrt(total / (self._count.sum() + self.pseudo)))

    def pack(self, family: LinearGaussian) -> Float[Array, " p"]:  # type: ignore[override]
        """Means, then lower roots of the covariances with their diagonals' logarithms."""
        roots = np.linalg.cholesky(self._distinct(family))
        diagonal = np.arange(self.n_features)
        roots[:, diagonal, diagonal] = np.log(roots[:, diagonal, diagonal])
        noise = [] if self.noise_is_given else [np.log(family.noise_std)]
        return np.concatenate([family.mean.ravel(), roots[:, *self._triangle].ravel(), noise])

    def unpack(self, numbers: Array, n_components: int) -> LinearGaussian | None:
        d = self.n_features
        n = 1 if self.covariance_type == "tied" else n_components
        entries = numbers[n_components * d : n_components * d + n * len(self._triangle[0])]
        roots = np.zeros((n, d, d))
        roots[:, *self._triangle] = entries.reshape(n, -1)
        diagonal = np.arange(d)
        scale = positive(roots[:, diagonal, diagonal])
        noise = np.full(1, self._noise) if self.noise_is_given else positive(numbers[-1:])
        if scale is None or noise is None or not np.isfinite(numbers).all():
            return None
        roots[:, diagonal, diagonal] = scale
        mean = numbers[: n_components * d].reshape(n_components, d)
        return self._family(mean, roots @ np.swapaxes(roots, 1, 2), float(noise[0]))

    @property
    def _triangle(self) -> tuple[Array, Array]:
        return np.tril_indices(self.n_features)

    # -- around it ----------------------------------------------------------------------------

    def points(self, family: LinearGaussian) -> Float[Array, "n p"]:  # type: ignore[override]
        """The posterior means, in units of the component's own spread."""
        noise = family.noise_std**2
        precision, _ = _inverses(family.full_covariances())
        gap = self._factor[:, :-1, -1] - self._factor[:, :-1, :-1] @ family.mean[0]
        pull = np.einsum("nji,nj->ni", self._factor[:, :-1, :-1], gap) / noise
        shift = np.linalg.solve(precision[0] + self._gram / noise, pull[:, :, None])[:, :, 0]
        return np.asarray(shift @ np.linalg.cholesky(precision[0]))

    def estimates(self, family: LinearGaussian) -> Float[Array, "n p"]:  # type: ignore[override]
        """Least squares with a small ridge, which believe nothing but the task's own data."""
        return ridge_estimates(self.statistics)

    def n_parameters(self, n_components: int) -> int:
        d = self.n_features
        full = d * (d + 1) // 2
        covariance = {"full": n_components * full, "tied": full, "diag": n_components * d}
        noise = 0 if self.noise_is_given else 1
        return n_components * (d + 1) - 1 + covariance[self.covariance_type] + noise


def _inverses(covariance: Float[Array, "L d d"]) -> tuple[Array, Array]:
    """Inverses and logarithms of determinants."""
    lower = np.linalg.cholesky(covariance)
    inverse = np.linalg.inv(lower)
    log_det = 2 * np.log(np.diagonal(lower, axis1=1, axis2=2)).sum(axis=1)
    return np.ascontiguousarray(np.swapaxes(inverse, 1, 2) @ inverse), log_det


def _whole(lower: Float[Array, "L d d"]) -> Array:
    """Symmetric matrices from their lower triangles."""
    triangle = np.tril(lower, -1)
    return np.tril(lower) + np.swapaxes(triangle, 1, 2)


def _outer(x: Float[Array, "L d"], y: Float[Array, "L d"]) -> Array:
    return x[:, :, None] * y[:, None, :]


def ridge_estimates(statistics: LinearStatistics, ridge: float = RIDGE) -> Float[Array, "n d"]:
    """argmin |y - A x|^2 + r m |x|^2 of every task, m the mean of its features' sums of squares."""
    gram, moment = np.array(statistics.gram), np.asarray(statistics.moment)
    d = gram.shape[1]
    added = ridge * np.trace(gram, axis1=1, axis2=2) / d
    # A task whose features are all zero says nothing: its coefficients are zero.
    added = np.where(added > 0, added, 1.0)
    gram[:, np.arange(d), np.arange(d)] += added[:, None]
    return np.asarray(np.linalg.solve(gram, moment[:, :, None])[:, :, 0])


def common_coefficients(statistics: LinearStatistics) -> Float[Array, " d"]:
    """Least squares of all tasks together; the shortest where features depend on each other.

    From the triangles, not from sums of squares: rewards far from zero keep all their digits.
    """
    d = statistics.shape[0]
    rows = statistics.array("factor").reshape(-1, d + 1)
    joint = fold_block(np.zeros((d + 1, d + 1)), rows[:, :d], rows[:, d])
    sizes = np.sqrt((joint[:, :d] ** 2).sum(axis=0))
    sizes[sizes == 0] = 1.0
    return np.linalg.lstsq(joint[:, :d] / sizes, joint[:, d], rcond=DEPENDENT)[0] / sizes


def unexplained(statistics: LinearStatistics) -> float:
    """The mean square of what the common coefficients leave of the rewards.

    Where they leave nothing, as of a single reward, the mean square of the rewards themselves.
    """
    factor = statistics.array("factor")
    n = max(int(statistics.array("count").sum()), 1)
    gap = factor[:, :-1, -1] - factor[:, :-1, :-1] @ common_coefficients(statistics)
    rest = float((gap**2).sum() + (factor[:, -1, -1] ** 2).sum()) / n
    squares = float((factor[:, :, -1] ** 2).sum()) / n
    # What only rounding leaves is nothing.
    return rest if rest > 1e-20 * squares else squares


def typical_noise(statistics: LinearStatistics) -> float:
    """The standard deviation of what least squares, task by task, cannot explain.

    Where no task has more observations than its features explain, half of what the tasks' common
    coefficients leave is taken for noise.
    """
    factor, count = statistics.array("factor"), statistics.array("count")
    diagonal = np.abs(np.diagonal(factor[:, :-1, :-1], axis1=1, axis2=2))
    rank = (diagonal > 1e-9 * diagonal.max(axis=1, initial=0.0, keepdims=True)).sum(axis=1)
    spare = np.maximum(count - rank, 0)
    rest = (factor[spare > 0, -1, -1] ** 2).sum()
    size = np.sqrt(unexplained(statistics))
    noise = np.sqrt(rest / spare.sum()) if spare.sum() else np.sqrt(0.5) * size
    # Rewards without any noise would leave nothing to divide by.
    return float(max(noise, 1e-3 * size)) or 1.0


def coefficient_variance(statistics: LinearStatistics, noise_std: float) -> Float[Array, " d"]:
    """Variances of coefficients with which every feature explains its part of the rewards."""
    factor, count = statistics.array("factor"), statistics.array("count")
    n = max(int(count.sum()), 1)
    sizes = (factor[:, :-1, :-1] ** 2).sum(axis=(0, 1)) / n
    # A feature that is always zero has no scale of its own.
    sizes = np.where(sizes > 0, sizes, sizes.max(initial=0.0) or 1.0)
    return np.asarray(max(unexplained(statistics), noise_std**2) / (len(sizes) * sizes))
