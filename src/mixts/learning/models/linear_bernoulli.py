"""Clicks with features: how their prior is learned and checked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Self

import numpy as np

from mixts._typing import Array, Float, Int
from mixts.errors import StatisticsError
from mixts.families import LinearBernoulli, LinearBernoulliStatistics, Statistics
from mixts.families._kernels import logistic as kernels
from mixts.families.coefficients import CoefficientFamily, CovarianceType
from mixts.learning._kernels.gaussian import LinearSums
from mixts.learning._kernels.logistic import (
    ClickTasks,
    laplace_evidence,
    laplace_moments,
    point_moments,
)
from mixts.learning.models.coefficients import CoefficientModel, inverses
from mixts.learning.two_stage import gaussian_of_estimates, mixture_of_estimates
from mixts.prior import MixturePrior

SPREAD = np.pi**2 / 3
"""Variance of the standard logistic distribution: log odds of this variance over tasks explain as
much of who clicks as chance does."""

WEAK = 10.0
"""Factor of the variances with which the coefficients of all tasks together are penalised."""

AT_ONCE = 64
"""Tasks whose posteriors are computed together."""

MOST_KEPT = 1 << 25
"""Most numbers of posterior moments that are kept from evidence to moments: 256 MiB."""


class LinearBernoulliModel(CoefficientModel):
    """Tasks with rewards 0 or 1, logistic in a'theta.

    Evidence and posterior moments are those of the family: integrals at fixed points. They take
    several times as long as Laplace's approximation, with which a ``quick`` model climbs first.
    """

    statistics_type: ClassVar[type[Statistics]] = LinearBernoulliStatistics
    statistics: LinearBernoulliStatistics
    centre: LinearBernoulli

    def __init__(
        self, statistics: LinearBernoulliStatistics, covariance_type: CovarianceType = "full"
    ) -> None:
        self._tasks = click_tasks(statistics)
        self._is_quick = False
        self._modes: Array | None = None
        """Where the next Newton steps of a quick model begin, (n, L, d)."""
        self._kept: tuple[LinearBernoulli, Array, Array] | None = None
        """Posterior moments under the family whose evidence was computed last."""
        super().__init__(statistics, covariance_type)
        self._flat = self.centre

    def quick(self) -> Self:
        """Return the same tasks with Laplace's approximation.

        Newton's steps begin where those of the last call ended. So a quick model must not be
        shared by several restarts: their results would depend on each other.
        """
        other = self.about(self.centre, self.pseudo)
        other._is_quick, other._modes, other._kept = True, None, None
        return other

    def about(self, centre: LinearBernoulli, pseudo: float) -> Self:  # type: ignore[override]
        other = super().about(centre, pseudo)
        other._kept = None
        return other

    def __getstate__(self) -> dict[str, object]:
        """Leave out what is kept for the next call."""
        return {**self.__dict__, "_modes": None, "_kept": None}

    def _broad(self) -> LinearBernoulli:
        """Return a component around the common coefficients."""
        statistics = self.statistics
        variances = coefficient_variances(statistics)
        mean = common_coefficients(self._tasks, variances)
        full = LinearBernoulli(
            mean[None], np.diag(variances)[None], decimals=statistics.decimals,
            max_rows=statistics.max_rows,
        )  # fmt: skip
        return full.with_moments(
            full.mean, self.shaped(full.full_covariances()), self.covariance_type
        )

    # -- the objective ------------------------------------------------------------------------

    def log_evidence(self, family: LinearBernoulli) -> Float[Array, "n L"]:  # type: ignore[override]
        if self._is_quick:
            return self._laplace(family)[0]
        (n_components, d), n = family.mean.shape, self.n_tasks
        if n * n_components * d * (d + 1) > MOST_KEPT:
            return family.log_evidence(self.statistics)
        evidence = np.empty((n, n_components))
        mean = np.empty((n, n_components, d))
        covariance = np.zeros((n, n_components, d, d))
        for tasks, values, *moments in self._posteriors(family):
            evidence[tasks], mean[tasks], covariance[tasks] = values, *moments
        self._kept = family, mean, covariance
        return evidence

    def _laplace(self, family: LinearBernoulli) -> tuple[Array, Array]:
        """Return the approximate evidence, and the modes of theta minus the component's mean."""
        precision, log_det = inverses(self.distinct(family))
        modes = self._starts(family)
        out = np.empty((self.n_tasks, family.n_components))
        laplace_evidence(self._tasks, family.mean, precision, -log_det / 2, modes, out)
        return out, modes

    def _starts(self, family: LinearBernoulli) -> Float[Array, "n L d"]:
        """Return the array of modes that a quick model keeps; zeros for another one."""
        shape = (self.n_tasks, *family.mean.shape)
        if not self._is_quick:
            return np.zeros(shape)
        if self._modes is None or self._modes.shape != shape:
            self._modes = np.zeros(shape)
        return self._modes

    def _posteriors(self, family: LinearBernoulli) -> Iterator[tuple[slice, Array, Array, Array]]:
        """Yield evidence, posterior means and covariances (lower triangles) of blocks of tasks."""
        design, (n_components, d) = family.design, family.mean.shape
        record = kernels.new_posterior(AT_ONCE, n_components, d, design.points.shape[1])
        offsets, rows, *counts = self._tasks
        for start in range(0, self.n_tasks, AT_ONCE):
            stop = min(start + AT_ONCE, self.n_tasks)
            m, own = stop - start, slice(offsets[start], offsets[stop])
            table = offsets[start : stop + 1] - offsets[start], rows[own], *(c[own] for c in counts)
            wanted = np.ones((m, n_components), bool)
            kernels.condition(table, np.arange(m), tuple(design), wanted, tuple(record))
            mean, covariance = np.empty((m, n_components, d)), np.zeros((m, n_components, d, d))
            point_moments(design.points, tuple(record), mean, covariance)
            yield slice(start, stop), record.log_evidence[:m], mean, covariance

    def improve(self, family: LinearBernoulli, share: Array) -> LinearBernoulli:  # type: ignore[override]
        precision, _ = inverses(self.distinct(family))
        sums = self.new_sums(family)
        if self._is_quick:
            modes = self._starts(family)
            laplace_moments(self._tasks, share, family.mean, precision, modes, sums)
        elif self._kept is not None and self._kept[0] is family:
            self._add(share, *self._kept, sums)
        else:
            for tasks, _, mean, covariance in self._posteriors(family):
                self._add(share[tasks], family, mean, covariance, sums)
        mean, covariance = self.maximised(family, share, sums, precision)
        if not (np.isfinite(mean).all() and np.isfinite(covariance).all()):
            raise StatisticsError(
                "the features are too far apart to learn from: divide them by their sizes, and "
                "leave out features that others determine"
            )
        return family.with_moments(mean, self.shaped(covariance), self.covariance_type)

    def _add(
        self, share: Array, family: LinearBernoulli, mean: Array, covariance: Array,
        sums: LinearSums,
    ) -> None:  # fmt: skip
        """Add posterior moments of tasks to the sums."""
        gap = mean - family.mean
        sums.first[:] += np.einsum("ns,nsd->sd", share, gap)
        sums.second[:] += np.einsum("nsd,nse->sde", share[:, :, None] * gap, gap)
        within = np.einsum("ns,nsde->sde", share, covariance)
        tied = self.covariance_type == "tied"
        sums.within[:] += within.sum(axis=0, keepdims=True) if tied else within

    # -- points and two stages ----------------------------------------------------------------

    def points(self, family: LinearBernoulli) -> Float[Array, "n p"]:  # type: ignore[override]
        """Return posterior modes, in units of the component's own spread."""
        precision, _ = inverses(family.full_covariances())
        shift = self.about(self.centre, self.pseudo)._laplace(family)[1][:, 0]
        return np.asarray(shift @ np.linalg.cholesky(precision[0]))

    def estimates(self, family: LinearBernoulli) -> Float[Array, "n p"]:  # type: ignore[override]
        """Return logistic estimates of each task's own, with the penalty of the flat prior."""
        return np.asarray(self._flat.mean[0] + self._laplace(self._flat)[1][:, 0])

    def two_stage(self, n_components: int, seed: int) -> tuple[MixturePrior, MixturePrior]:
        estimates = self.estimates(self.centre)
        found = (
            mixture_of_estimates(
                estimates, n_components, 1.0, seed, self.covariance_type, weights="fitted"
            ),
            gaussian_of_estimates(estimates, 1.0),
        )
        mixture, unimodal = map(self._logistic, found)
        return mixture, unimodal

    def _logistic(self, prior: MixturePrior) -> MixturePrior:
        """Return the same distribution of coefficients for clicks."""
        family = prior.family
        assert isinstance(family, CoefficientFamily)
        moments = family.mean, family.covariance, family.covariance_type
        return MixturePrior(self.centre.with_moments(*moments), prior.weights)


def click_tasks(statistics: LinearBernoulliStatistics) -> ClickTasks:
    """Return the tables of all tasks, one after the other."""
    counts = (statistics.array(name).astype(float) for name in ("trials", "successes"))
    offsets = np.append(0, np.cumsum(statistics.array("size")))
    return ClickTasks(offsets, statistics.array("rows"), *counts)


def coefficient_variances(statistics: LinearBernoulliStatistics) -> Float[Array, " d"]:
    """Return variances of coefficients with which each feature explains as much of the log odds."""
    sizes = statistics.feature_scales**2
    # A feature that is always zero gets the scale of the largest.
    sizes = np.where(sizes > 0, sizes, sizes.max(initial=0.0) or 1.0)
    return np.asarray(SPREAD / (len(sizes) * sizes))


def common_coefficients(tasks: ClickTasks, variances: Float[Array, " d"]) -> Float[Array, " d"]:
    """Return the logistic regression of all tasks together, weakly penalised."""
    together = tasks._replace(offsets=tasks.offsets[[0, -1]])
    zero, modes = np.zeros((1, len(variances))), np.zeros((1, 1, len(variances)))
    precision = np.diag(1 / (WEAK * variances))[None]
    laplace_evidence(together, zero, precision, np.zeros(1), modes, np.empty((1, 1)))
    return np.asarray(modes[0, 0])


def order_counts(trials: Int[Array, " N"], successes: Int[Array, " N"]) -> Float[Array, " N"]:
    """Return ln of the number of orders in which the successes of each row can come."""
    from scipy import special

    return np.asarray(
        special.gammaln(trials + 1.0) - special.gammaln(successes + 1.0)
        - special.gammaln(trials - successes + 1.0)
    )  # fmt: skip
