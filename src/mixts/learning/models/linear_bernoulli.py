"""Clicks with features: how their prior is learned and checked."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
from scipy import special

from mixts._typing import Array, Float, Int
from mixts.errors import StatisticsError
from mixts.families import Family, LinearBernoulli, LinearBernoulliStatistics, Statistics
from mixts.families._kernels import logistic as kernels
from mixts.families._linear_bernoulli_posterior import logistic
from mixts.families.coefficients import CoefficientFamily, CovarianceType
from mixts.learning._kernels.gaussian import LinearSums
from mixts.learning._kernels.logistic import (
    ClickTasks,
    RowPredictions,
    laplace_evidence,
    laplace_moments,
    point_moments,
    predict_rows,
)
from mixts.learning.models.base import Prediction, Predictive, Rates
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
        other.pseudo_weights = self.pseudo_weights
        other._is_quick, other._modes, other._kept = True, None, None
        return other

    def about(self, centre: LinearBernoulli, pseudo: Any) -> Self:  # type: ignore[override]
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
        mean, covariance = self.maximised(family.mean, share, sums, precision)
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

    def information(self, family: LinearBernoulli, component: int) -> Float[Array, "n d d"]:
        offsets, rows, trials, _ = self._tasks
        rate = logistic(rows @ family.mean[component])
        weighted = rows * (trials * rate * (1 - rate))[:, None]
        return np.stack([weighted[a:b].T @ rows[a:b] for a, b in pairwise(offsets)])

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


# -- predictions ----------------------------------------------------------------------------------

MOST_ROWS = 200
"""Most rows of a task that are predicted one after the other; of more rows, evenly spaced ones.
Which rows these are does not depend on clicks, so that predictions stay right."""

N_NODES = 24
"""Nodes of quadrature over x'theta: for deviations up to 5, rates are right to 1e-4."""

REPLICATED = 1 << 22
"""Most numbers of replicated rows at a time."""


class LinearBernoulliPredictive(Predictive):
    """Predictions of the successes of rows, one row after the other.

    The distribution of theta after each row is taken as normal (assumed-density filtering). For
    scores, evidence is Laplace's approximation: p-values compare scores of the same kind, and a
    thousand replications of each task cost too much otherwise.
    """

    family_type: ClassVar[type[Family]] = LinearBernoulli

    def __init__(self, prior: MixturePrior, statistics: Statistics) -> None:
        super().__init__(prior, statistics)
        self._tasks = click_tasks(self.statistics)

    # -- rows one after the other -------------------------------------------------------------

    @cached_property
    def _chosen(self) -> ClickTasks:
        """The rows that are predicted."""
        size = np.diff(self._tasks.offsets)
        kept = [
            first + (np.arange(min(n, MOST_ROWS)) * n) // min(n, MOST_ROWS)
            for first, n in zip(self._tasks.offsets, size, strict=False)
            if n
        ]
        rows = np.concatenate([np.empty(0, np.int64), *kept])
        offsets = np.append(0, np.cumsum(np.minimum(size, MOST_ROWS)))
        return ClickTasks(offsets, *(array[rows] for array in self._tasks[1:]))

    @cached_property
    def _predicted(self) -> RowPredictions:
        shape = (len(self._chosen.rows), self.family.n_components)
        found = RowPredictions(*(np.empty(shape) for _ in RowPredictions._fields))
        covariances = np.ascontiguousarray(self.family.full_covariances())
        predict_rows(self._chosen, self.family.mean, covariances, _nodes(N_NODES), found)
        return found

    def _in_turn(self) -> Iterator[tuple[Int[Array, " m"], Int[Array, " m"]]]:
        """Yield the tasks that have a first, second, third ... row, and these rows."""
        size = np.diff(self._chosen.offsets)
        for j in range(int(size.max(initial=0))):
            tasks = np.flatnonzero(size > j)
            yield tasks, self._chosen.offsets[tasks] + j

    def parts(self) -> Iterator[Prediction]:
        found, orders = self._predicted, order_counts(*self._chosen[2:])
        below = rows_below(found, self._chosen.trials, self._chosen.successes)
        at = np.exp(np.minimum(found.log_mass + orders[:, None], 0.0))
        for tasks, rows in self._in_turn():
            yield Prediction("rewards", tasks, found.log_mass[rows], below[rows], at[rows])

    def rates(self) -> Rates:
        """Return the click rate of each row that the mixture predicts from the task's earlier rows.

        With its variance, and the row's numbers of trials and successes.
        """
        found, (_, _, trials, successes) = self._predicted, self._chosen
        log_weights = np.tile(self.prior.log_weights, (len(self.statistics), 1))
        mean, variance = np.empty((2, len(trials)))
        for tasks, rows in self._in_turn():
            share = special.softmax(log_weights[tasks], axis=1)
            rate = found.rate[rows]
            mean[rows] = (share * rate).sum(axis=1)
            square = (share * (found.rate_variance[rows] + rate**2)).sum(axis=1)
            variance[rows] = np.maximum(square - mean[rows] ** 2, 0.0)
            log_weights[tasks] += found.log_mass[rows]
        return Rates(mean, variance, trials, successes)

    # -- scores -------------------------------------------------------------------------------

    def scores(self) -> Float[Array, " n"]:
        return self._scores(self._tasks)

    def replicate(
        self, rng: np.random.Generator, tasks: Int[Array, " m"], n: int
    ) -> Float[Array, "m n"]:
        out, size = np.empty((len(tasks), n)), np.diff(self._tasks.offsets)[tasks]
        for i, task in enumerate(tasks):
            own = slice(self._tasks.offsets[task], self._tasks.offsets[task + 1])
            rows, trials = self._tasks.rows[own], self._tasks.trials[own]
            step = max(1, REPLICATED // max(int(size[i]) * rows.shape[1], 1))
            for first in range(0, n, step):
                b = min(step, n - first)
                _, theta = self.prior.draw(rng, b)
                rates = logistic(theta @ rows.T)
                clicks = rng.binomial(trials.astype(np.int64), rates).astype(float)
                drawn = ClickTasks(
                    size[i] * np.arange(b + 1), np.tile(rows, (b, 1)), np.tile(trials, b),
                    clicks.ravel(),
                )  # fmt: skip
                out[i, first : first + b] = self._scores(drawn)
        return out

    def _scores(self, tasks: ClickTasks) -> Float[Array, " n"]:
        """Return ln of the approximate probability of each task's counts under the mixture."""
        family, n = self.family, len(tasks.offsets) - 1
        # A covariance may be singular, and its inverse is not: a part of 1e-9 is added.
        covariance = family.full_covariances().copy()
        diagonal = np.arange(family.n_features)
        size = np.trace(covariance, axis1=1, axis2=2) / family.n_features
        covariance[:, diagonal, diagonal] += (1e-9 * np.where(size > 0, size, 1.0))[:, None]
        precision, log_det = inverses(covariance)
        given, modes = np.empty((n, family.n_components)), np.zeros((n, *family.mean.shape))
        laplace_evidence(tasks, family.mean, precision, -log_det / 2, modes, given)
        orders = np.append(0.0, np.cumsum(order_counts(*tasks[2:])))[tasks.offsets]
        mixed = special.logsumexp(self.prior.log_weights + given, axis=1)
        return np.asarray(mixed + np.diff(orders))


def _nodes(n: int) -> Float[Array, "2 Q"]:
    """Return nodes and weights of Gauss-Hermite quadrature for a standard normal density."""
    nodes, weights = special.roots_hermitenorm(n)
    return np.stack([nodes, weights / weights.sum()])


def order_counts(trials: Float[Array, " N"], successes: Float[Array, " N"]) -> Float[Array, " N"]:
    """Return ln of the number of orders in which the successes of each row can come."""
    both = special.gammaln(successes + 1.0) + special.gammaln(trials - successes + 1.0)
    return np.asarray(special.gammaln(trials + 1.0) - both)


def rows_below(
    found: RowPredictions, trials: Float[Array, " N"], successes: Float[Array, " N"]
) -> Float[Array, "N L"]:
    """Return the probability of fewer successes than a row has, under each component.

    K < k of n trials at the rate p happens if p is below B ~ Beta(k, n - k + 1). So the probability
    is the mean of ``P(K < k | x'theta)`` over x'theta, or of ``P(x'theta < logit B)`` over B: the
    narrower of the two is integrated by quadrature, and the other is then smooth.
    """
    out = np.where((trials == 1)[:, None], 1 - found.rate, 0.0)
    out[successes == 0] = 0.0
    many = np.flatnonzero((trials > 1) & (successes > 0))
    n, k = trials[many, None, None], successes[many, None, None]
    location, deviation = found.location[many, :, None], np.sqrt(found.variance[many, :, None])
    z, weights = _nodes(N_NODES)
    # logit B is nearly normal, with these moments.
    centre = special.digamma(k) - special.digamma(n - k + 1)
    width = np.sqrt(special.polygamma(1, k) + special.polygamma(1, n - k + 1))
    eta = location + deviation * z
    by_rate = (special.bdtr(k - 1, n.astype(np.int64), special.expit(eta)) * weights).sum(axis=2)
    logit = centre + width * z
    log_ratio = k * logit + (n + 1) * special.log_expit(-logit) - special.betaln(k, n - k + 1)
    ratio = np.exp(log_ratio + 0.5 * z**2) * width * np.sqrt(2 * np.pi)
    mass = ratio * weights
    by_limit = (special.ndtr((logit - location) / deviation) * mass).sum(axis=2)
    by_limit /= mass.sum(axis=2)
    out[many] = np.where((width < deviation)[:, :, 0], by_limit, by_rate)
    return np.clip(out, 0.0, 1.0)
