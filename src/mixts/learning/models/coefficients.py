"""Tasks with normal coefficients given the component: what linear and logistic tasks share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import numpy as np

from mixts import _program
from mixts._typing import Array, Float
from mixts.engines._workers import in_threads
from mixts.errors import ParameterError
from mixts.families import Family, Statistics
from mixts.families.coefficients import CoefficientFamily, CovarianceType
from mixts.learning.models.base import Model, positive

BLOCK = 1 << 19
"""Size of the matrices at a time, tasks times components times the square of the features: some
megabytes. Sums of blocks are added in their order, so that the number of threads changes no bit."""

NEGLIGIBLE = 1e-14
"""A task's share in a component that moves nothing."""


class LinearTasks(NamedTuple):
    """Statistics of linear tasks."""

    factor: Float[Array, "n p p"]
    """Triangles [R z] and the residual, p = d + 1."""
    gram: Float[Array, "n d d"]
    """V = R'R."""


class LinearSums(NamedTuple):
    """Sums over tasks, weighted by shares; of matrices the lower triangles count."""

    first: Float[Array, "L d"]
    """Sums of u (mu - m_s), for the posterior mean mu and the sharpness u of a task."""
    second: Float[Array, "L d d"]
    """Sums of u (mu - m_s)(mu - m_s)'."""
    within: Float[Array, "G d d"]
    """Sums of posterior covariances, one matrix for each precision."""


class Units(NamedTuple):
    """Units in which coefficients are learned, if those are not their own."""

    weight: Float[Array, " L"]
    """Sum of the tasks' weights for the means."""
    pull: float | Float[Array, " L"]
    """Weight of the pseudo-tasks for the means."""
    centre: Float[Array, "#L d d"]
    """Covariance of the pseudo-tasks."""


class CoefficientModel(Model):
    """Tasks whose coefficients theta are N(mean_s, covariance_s) given component s.

    Besides the pseudo-tasks, the hyperprior prefers components with similar covariances. With L
    covariances of d dimensions, and W the inverse of the mean of their inverses, it is
    ``-(d + 1) / 2 sum_s (ln det Sigma_s - ln det W)``, zero where all are equal: as if each
    component had d + 1 more tasks around its own mean that vary as all components do. That is how
    many tasks a covariance needs to be regular.
    """

    options: ClassVar[tuple[str, ...]] = ("covariance_type",)
    centre: CoefficientFamily

    def __init__(self, statistics: Statistics, covariance_type: CovarianceType = "full") -> None:
        if covariance_type not in ("full", "tied", "diag"):
            raise ParameterError(
                f"a learned covariance is 'full', 'tied' or 'diag', got {covariance_type!r}"
            )
        self.covariance_type: CovarianceType = covariance_type
        super().__init__(statistics)

    @property
    def n_features(self) -> int:
        """Number of coefficients."""
        return self.statistics.shape[0]

    @property
    def alike(self) -> float:
        """Number of pseudo-tasks that vary as all components do; none in a refit."""
        if self.continues:
            return 0.0
        return self.n_features + 1.0 if self.covariance_type == "full" else 2.0

    def shaped(self, covariance: Float[Array, "L d d"]) -> Array:
        """Return covariances in the form of ``covariance_type``; "tied" ones come as one."""
        symmetric = (covariance + np.swapaxes(covariance, 1, 2)) / 2
        if self.covariance_type == "tied":
            return np.asarray(symmetric[0])
        if self.covariance_type == "diag":
            return np.diagonal(symmetric, axis1=1, axis2=2)
        return symmetric

    def distinct(self, family: CoefficientFamily) -> Float[Array, "G d d"]:
        """Return the covariances as matrices; one if all components share it."""
        if self.covariance_type == "tied":
            return family.covariance[None]
        return family.full_covariances()

    # -- the hyperprior, and components that explain their tasks better ------------------------

    def log_hyperprior(self, family: CoefficientFamily) -> float:  # type: ignore[override]
        precision, log_det = inverses(family.full_covariances())
        gap = family.mean - self.centre.mean
        about = self.centre.full_covariances() + gap[:, :, None] * gap[:, None, :]
        pull = log_det + np.einsum("lij,lij->l", precision, about)
        value = -(self.pseudo * pull).sum() / 2
        if self.covariance_type != "tied":
            joint = len(log_det) * np.linalg.slogdet(precision.mean(axis=0))[1]
            value -= self.alike / 2 * (log_det.sum() + joint)
        return float(value)

    def new_sums(self, family: CoefficientFamily) -> LinearSums:
        """Return sums of posterior moments over tasks, to which nothing was added yet."""
        n_groups = 1 if self.covariance_type == "tied" else family.n_components
        return new_sums(family.mean.shape, n_groups)

    def maximised(
        self,
        before: Float[Array, "L d"],
        tasks: Float[Array, " L"],
        sums: LinearSums,
        precision: Float[Array, "G d d"],
        units: Units | None = None,
    ) -> tuple[Float[Array, "L d"], Float[Array, "G d d"]]:
        """Return the means and covariances that explain posterior moments and pseudo-tasks best.

        ``before`` are the means from which the sums of moments are measured, and ``tasks`` the sums
        of shares.
        """
        first, second, within = sums
        weight, given, centre = units or (tasks, self.pseudo, self.centre.full_covariances())
        pull, pseudo = (np.broadcast_to(x, tasks.shape) for x in (given, self.pseudo))
        start = self.centre.mean - before
        step = (first + pull[:, None] * start) / (weight + pull)[:, None]
        # Scatter around the new mean m + step: sum of (x - step)(x - step)', x from the old mean.
        scatter = whole(second) - outer(first, step) - outer(step, first)
        scatter += weight[:, None, None] * outer(step, step)
        gap = start - step
        scatter += pseudo[:, None, None] * centre + pull[:, None, None] * outer(gap, gap)
        counts = tasks + pseudo
        if self.covariance_type == "tied":
            total = scatter.sum(axis=0, keepdims=True) + whole(within)
            return before + step, total / counts.sum()
        shared = np.linalg.inv(precision.mean(axis=0))
        total = scatter + whole(within) + self.alike * shared
        return before + step, total / (counts + self.alike)[:, None, None]

    @abstractmethod
    def information(self, family: Any, component: int) -> Float[Array, "n d d"]:
        """Return what each task says about its coefficients: the precision that it adds."""

    def tasks_known(self, family: Family, share: Float[Array, "n L"]) -> Float[Array, " L"]:
        """Return from how many tasks each component is known.

        A task counts as the part of the prior variance of its coefficients that it takes away, the
        mean of 1 - 1 / (1 + e) over the eigenvalues e of its information in units of the prior.
        """
        assert isinstance(family, CoefficientFamily)
        known = np.empty(family.n_components)
        d = self.n_features
        nowhere, unit = np.zeros((1, d)), np.eye(d)[None]
        for s, covariance in enumerate(family.full_covariances()):
            variances, axes = np.linalg.eigh(covariance)  # it may be singular
            root = axes * np.sqrt(np.maximum(variances, 0.0))
            some = np.flatnonzero(share[:, s] >= NEGLIGIBLE)
            inside, weight = self.information(family, s)[some], share[some, s, None]
            # In units of the prior its precision is I, and a task's posterior is (I + inside)^-1.
            tasks = LinearTasks(np.zeros((len(some), d + 1, d + 1)), root.T @ inside @ root)
            _, sums = moments_of_tasks(tasks, weight, weight, nowhere, unit, 1.0)
            known[s] = weight.sum() - np.trace(sums.within[0]) / d
        return known

    # -- parameters as numbers ----------------------------------------------------------------

    def pack(self, family: CoefficientFamily) -> Float[Array, " p"]:  # type: ignore[override]
        """Return means, then lower roots of the covariances with logarithms on the diagonals."""
        roots = np.linalg.cholesky(self.distinct(family))
        diagonal = np.arange(self.n_features)
        roots[:, diagonal, diagonal] = np.log(roots[:, diagonal, diagonal])
        return np.concatenate([family.mean.ravel(), roots[:, *self._triangle].ravel()])

    def unpack(self, numbers: Array, n_components: int) -> CoefficientFamily | None:
        found = self.unpack_moments(numbers, n_components)
        if found is None:
            return None
        mean, covariance = found
        return self.centre.with_moments(mean, self.shaped(covariance), self.covariance_type)

    def unpack_moments(self, numbers: Array, n_components: int) -> tuple[Array, Array] | None:
        """Return the means and covariances of numbers, or None where they are out of range."""
        d = self.n_features
        n = 1 if self.covariance_type == "tied" else n_components
        entries = numbers[n_components * d : n_components * d + n * len(self._triangle[0])]
        roots = np.zeros((n, d, d))
        roots[:, *self._triangle] = entries.reshape(n, -1)
        diagonal = np.arange(d)
        scale = positive(roots[:, diagonal, diagonal])
        if scale is None or not np.isfinite(numbers).all():
            return None
        roots[:, diagonal, diagonal] = scale
        mean = numbers[: n_components * d].reshape(n_components, d)
        return mean, roots @ np.swapaxes(roots, 1, 2)

    @property
    def _triangle(self) -> tuple[Array, Array]:
        return np.tril_indices(self.n_features)

    def n_parameters(self, n_components: int) -> int:
        d = self.n_features
        full = d * (d + 1) // 2
        covariance = {"full": n_components * full, "tied": full, "diag": n_components * d}
        return n_components * (d + 1) - 1 + covariance[self.covariance_type]


def inverses(covariance: Float[Array, "L d d"]) -> tuple[Array, Array]:
    """Return inverses and logarithms of determinants."""
    lower = np.linalg.cholesky(covariance)
    inverse = np.linalg.inv(lower)
    log_det = 2 * np.log(np.diagonal(lower, axis1=1, axis2=2)).sum(axis=1)
    return np.ascontiguousarray(np.swapaxes(inverse, 1, 2) @ inverse), log_det


def whole(lower: Float[Array, "L d d"]) -> Array:
    """Return symmetric matrices from their lower triangles."""
    triangle = np.tril(lower, -1)
    return np.tril(lower) + np.swapaxes(triangle, 1, 2)


def outer(x: Float[Array, "L d"], y: Float[Array, "L d"]) -> Array:
    """Return the matrices x_s y_s'."""
    return x[:, :, None] * y[:, None, :]


# -- posteriors of linear tasks, a block at a time on all processors ------------------------------

# Given component s with precision P, the posterior of a task's coefficients is
# N(m_s + A^-1 pull, A^-1) with A = P + V / sigma^2 and pull = R'(z - R m_s) / sigma^2. Learned
# covariances have a floor, so they can be inverted; where squares would lose too many digits,
# learning calls the family itself instead.


def evidence_of_tasks(
    tasks: LinearTasks,
    mean: Float[Array, "L d"],
    precision: Float[Array, "G d d"],
    half_log_det: Float[Array, " G"],
    noise: float,
) -> tuple[Float[Array, "n L"], Float[Array, "n L"], float]:
    """Compute (ln det P - ln det A) / 2 and |z - R m|^2 / sigma^2 - pull' A^-1 pull.

    Also returns the largest |z - R m|^2. ``precision`` has one matrix for each component, or one
    for all, and ``half_log_det`` half the logarithms of their determinants.
    """
    out, squares = np.empty((2, len(tasks.factor), len(mean)))

    def work(first: int, last: int) -> float:
        block = slice(first, last)
        some = LinearTasks(*(array[block] for array in tasks))
        if _program.core is not None:
            return float(
                _program.core.linear_evidence(
                    *some, mean, precision, half_log_det, noise, out[block], squares[block]
                )
            )
        matrix = precision + some.gram[:, None] / noise
        gap, pull = pulls(some, mean, noise)
        square = (gap**2).sum(axis=2) / noise
        lower = _or_nan(np.linalg.cholesky, matrix)
        solved = np.linalg.solve(lower, pull[..., None])[..., 0]
        log_det = np.log(np.diagonal(lower, axis1=2, axis2=3)).sum(axis=2)
        out[block], squares[block] = half_log_det - log_det, square - (solved**2).sum(axis=2)
        return float(square.max())

    largest = max(in_threads(work, len(out), _block(mean)), default=0.0)
    return out, squares, noise * largest


def moments_of_tasks(
    tasks: LinearTasks,
    share: Float[Array, "n L"],
    sharp: Float[Array, "n L"],
    mean: Float[Array, "L d"],
    precision: Float[Array, "G d d"],
    noise: float,
) -> tuple[float, LinearSums]:
    """Sum posterior moments over tasks, and E|y - A theta|^2 without the tasks' own residuals.

    ``sharp`` are shares times the tasks' sharpness; with known noise, the shares.
    """

    def work(first: int, last: int) -> tuple[float, LinearSums]:
        block = slice(first, last)
        some = LinearTasks(*(array[block] for array in tasks))
        if _program.core is not None:
            sums = new_sums(mean.shape, len(precision))
            misfit = _program.core.posterior_moments(
                *some, share[block], sharp[block], mean, precision, noise, *sums
            )
            return float(misfit), sums
        return _moments(some, share[block], sharp[block], mean, precision, noise)

    misfit, total = 0.0, new_sums(mean.shape, len(precision))
    for part, sums in in_threads(work, len(share), _block(mean)):
        misfit += part
        for whole, one in zip(total, sums, strict=True):
            whole += one
    return misfit, total


def _moments(
    tasks: LinearTasks,
    share: Float[Array, "n L"],
    sharp: Float[Array, "n L"],
    mean: Float[Array, "L d"],
    precision: Float[Array, "G d d"],
    noise: float,
) -> tuple[float, LinearSums]:
    """Compute ``moments_of_tasks`` of one block."""
    _, pull = pulls(tasks, mean, noise)
    own = _or_nan(np.linalg.inv, precision + tasks.gram[:, None] / noise)
    step = (own @ pull[..., None])[..., 0]
    gap, _ = pulls(tasks, mean + step, noise)
    by_precision = share if len(precision) == len(mean) else share.sum(axis=1, keepdims=True)
    misfit = (share * (gap**2).sum(axis=2)).sum()
    misfit += (by_precision * np.einsum("ngij,nij->ng", own, tasks.gram)).sum()
    weighted = sharp[..., None] * step
    return float(misfit), LinearSums(
        weighted.sum(axis=0),
        np.einsum("nsi,nsj->sij", weighted, step),
        np.einsum("ng,ngij->gij", by_precision, own),
    )


def pulls(
    tasks: LinearTasks, theta: Float[Array, "*n L d"], noise: float
) -> tuple[Float[Array, "n L d"], Float[Array, "n L d"]]:
    """Compute z - R theta and R'(z - R theta) / sigma^2."""
    upper, z = tasks.factor[:, None, :-1, :-1], tasks.factor[:, None, :-1, -1]
    gap = z - (upper @ theta[..., None])[..., 0]
    return gap, (np.swapaxes(upper, 2, 3) @ gap[..., None])[..., 0] / noise


def _or_nan(
    function: Callable[[Array], Array], matrices: Float[Array, "... d d"]
) -> Float[Array, "... d d"]:
    """Return roots or inverses; NaN if rounding made one of the matrices singular or indefinite."""
    try:
        return function(matrices)
    except np.linalg.LinAlgError:
        return np.full(matrices.shape, np.nan)


def _block(mean: Float[Array, "L d"]) -> int:
    """Return how many tasks are a block."""
    return max(8, BLOCK // (mean.size * mean.shape[1]))


def new_sums(shape: tuple[int, ...], n_precisions: int) -> LinearSums:
    """Return sums over tasks, to which nothing was added yet, for means of this shape (L, d)."""
    n, d = shape
    return LinearSums(np.zeros((n, d)), np.zeros((n, d, d)), np.zeros((n_precisions, d, d)))
