"""Clicks with features: how their prior is learned and checked."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from scipy import special

from mixts import _program
from mixts._typing import Array, Bool, Float, Int
from mixts.errors import StatisticsError
from mixts.families import Family, LinearBernoulli, LinearBernoulliStatistics, Statistics
from mixts.families._linear_bernoulli_posterior import click_tasks, logistic
from mixts.families._logistic import MOST_POINTS, ClickTasks, Moments, climb, posterior_moments
from mixts.families.coefficients import CoefficientFamily, CovarianceType
from mixts.learning.models.base import Model
from mixts.learning.models.coefficients import CoefficientModel, LinearSums, inverses
from mixts.learning.models.offset import OffsetModel
from mixts.learning.models.predictive import Prediction, Predictive, Rates
from mixts.learning.two_stage import gaussian_of_estimates, mixture_of_estimates
from mixts.prior import MixturePrior

SPREAD = np.pi**2 / 3
"""Variance of the standard logistic distribution: log odds of this variance over tasks explain as
much of who clicks as chance does."""

WEAK = 10.0
"""Factor of the variances with which the coefficients of all tasks together are penalised."""

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
        self,
        statistics: LinearBernoulliStatistics,
        covariance_type: CovarianceType = "full",
        *,
        offset: bool = False,
    ) -> None:
        self._has_offset = offset
        self._most_points = MOST_POINTS
        """Most points of an integral; 0 for Laplace's approximation."""
        super().__init__(statistics, covariance_type)
        self._flat = self.centre

    def _prepare(self) -> None:
        self._tasks = click_tasks(self.statistics)
        self._offsets: Float[Array, " N"] | None = None
        """Known part of each row's log odds; None if there is none."""
        if self._has_offset:
            rows = self._tasks.rows
            self._tasks, self._offsets = self._tasks._replace(rows=rows[:, :-1]), rows[:, -1]
        self._kept: tuple[LinearBernoulli, Moments] | None = None
        """Posterior moments under the family whose evidence was computed last."""
        self._modes: Array | None = None
        """Modes under the last family of a climb with Laplace's approximation: those under the
        next family are near."""

    @classmethod
    def with_offset(cls, statistics: Statistics, **options: Any) -> Model:
        assert isinstance(statistics, LinearBernoulliStatistics)
        return OffsetModel(statistics, cls(statistics, offset=True, **options))

    @property
    def n_features(self) -> int:
        """Number of coefficients to learn."""
        return self._tasks.rows.shape[1]

    def quick(self) -> Self:
        """Return the same tasks with Laplace's approximation."""
        other = self.about(self.centre, self.pseudo)
        other.pseudo_weights = self.pseudo_weights
        other._most_points = 0
        return other

    def about(self, centre: LinearBernoulli, pseudo: Any) -> Self:  # type: ignore[override]
        other = super().about(centre, pseudo)
        other._kept = other._modes = None
        return other

    def __getstate__(self) -> dict[str, object]:
        """Leave out what is kept for the next call."""
        return {**self.__dict__, "_kept": None, "_modes": None}

    def _broad(self) -> LinearBernoulli:
        """Return a component around the common coefficients."""
        statistics = self.statistics
        variances = coefficient_variances(statistics.feature_scales[: self.n_features])
        mean = common_coefficients(self._tasks, variances, self._offsets)
        full = LinearBernoulli(
            mean[None], np.diag(variances)[None], decimals=statistics.decimals,
            max_rows=statistics.max_rows,
        )  # fmt: skip
        return full.with_moments(
            full.mean, self.shaped(full.full_covariances()), self.covariance_type
        )

    # -- the objective ------------------------------------------------------------------------

    def _most_tasks(self, family: LinearBernoulli) -> int:
        """Return of how many tasks the posterior moments may be kept."""
        d = family.n_features
        return max(1, MOST_KEPT // (family.n_components * d * (d + 1)))

    def log_evidence(self, family: LinearBernoulli) -> Float[Array, "n L"]:  # type: ignore[override]
        if self.n_tasks > self._most_tasks(family):
            return self._posterior_moments(family, self._most_points, moments=False).log_evidence
        self._kept = family, self._moments(family)
        return self._kept[1].log_evidence

    def _moments(
        self, family: LinearBernoulli, wanted: Bool[Array, "n L"] | None = None
    ) -> Moments:
        """Return evidence and posterior moments; with Laplace's, start from the last modes."""
        start = self._modes
        if start is not None and start.shape[1:] != family.mean.shape:
            start = None
        found = self._posterior_moments(family, self._most_points, wanted=wanted, start=start)
        if self._most_points == 0:
            self._modes = found.mean
        return found

    def _posterior_moments(
        self, family: LinearBernoulli, most_points: int, part: slice | None = None, **wanted: Any
    ) -> Moments:
        """Return posterior moments of tasks, all or a part; an offset's coefficient is known."""
        tasks, d = self._tasks, family.n_features
        if self._offsets is not None:
            family = family.with_offset()
            tasks = tasks._replace(rows=np.column_stack([tasks.rows, self._offsets]))
            if wanted.get("start") is not None:
                ends = ((0, 0), (0, 0), (0, 1))
                wanted["start"] = np.pad(wanted["start"], ends, constant_values=1.0)
        if part is not None:
            tasks = tasks.part(part.start, part.stop)
        found = posterior_moments(family.design, tasks, most_points, **wanted)
        return found._replace(mean=found.mean[..., :d], covariance=found.covariance[..., :d, :d])

    def _posteriors(
        self, family: LinearBernoulli, wanted: Bool[Array, "n L"]
    ) -> Iterator[tuple[slice, Moments]]:
        """Yield posterior moments of blocks of tasks, of the wanted components."""
        if self._kept is not None and self._kept[0] is family:
            yield slice(None), self._kept[1]
        elif self.n_tasks <= (step := self._most_tasks(family)):
            yield slice(None), self._moments(family, wanted)
        else:
            for first in range(0, self.n_tasks, step):
                own = slice(first, min(first + step, self.n_tasks))
                most = self._most_points
                yield own, self._posterior_moments(family, most, own, wanted=wanted[own])

    def sums(self, family: LinearBernoulli, share: Array) -> tuple[Array, LinearSums]:  # type: ignore[override]
        sums = self.new_sums(family)
        for tasks, found in self._posteriors(family, share > 0):
            own, gap = share[tasks], found.mean - family.mean
            sums.first[:] += np.einsum("ns,nsd->sd", own, gap)
            sums.second[:] += np.einsum("nsd,nse->sde", own[:, :, None] * gap, gap)
            within = np.einsum("ns,nsde->sde", own, found.covariance)
            tied = self.covariance_type == "tied"
            sums.within[:] += within.sum(axis=0, keepdims=True) if tied else within
        return share.sum(axis=0), sums

    def improved(  # type: ignore[override]
        self, family: LinearBernoulli, sums: tuple[Array, LinearSums]
    ) -> LinearBernoulli:
        precision, _ = inverses(self.distinct(family))
        mean, covariance = self.maximised(family.mean, *sums, precision)
        if not (np.isfinite(mean).all() and np.isfinite(covariance).all()):
            raise StatisticsError(
                "the features are too far apart to learn from: divide them by their sizes, and "
                "leave out features that others determine"
            )
        return family.with_moments(mean, self.shaped(covariance), self.covariance_type)

    def information(self, family: LinearBernoulli, component: int) -> Float[Array, "n d d"]:
        offsets, rows, trials, _ = self._tasks
        odds = rows @ family.mean[component]
        rate = logistic(odds if self._offsets is None else odds + self._offsets)
        weighted = rows * (trials * rate * (1 - rate))[:, None]
        return np.stack([weighted[a:b].T @ rows[a:b] for a, b in pairwise(offsets)])

    # -- points and two stages ----------------------------------------------------------------

    def points(self, family: LinearBernoulli) -> Float[Array, "n p"]:  # type: ignore[override]
        """Return posterior modes, in units of the component's own spread."""
        precision, _ = inverses(family.full_covariances())
        shift = self._posterior_moments(family, 0).mean[:, 0] - family.mean[0]
        return np.asarray(shift @ np.linalg.cholesky(precision[0]))

    def estimates(self, family: LinearBernoulli) -> Float[Array, "n p"]:  # type: ignore[override]
        """Return logistic estimates of each task's own, with the penalty of the flat prior."""
        return self._posterior_moments(self._flat, 0).mean[:, 0]

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


def coefficient_variances(scales: Float[Array, " d"]) -> Float[Array, " d"]:
    """Return variances of coefficients with which each feature explains as much of the log odds."""
    sizes = scales**2
    # A feature that is always zero gets the scale of the largest.
    sizes = np.where(sizes > 0, sizes, sizes.max(initial=0.0) or 1.0)
    return np.asarray(SPREAD / (len(sizes) * sizes))


def common_coefficients(
    tasks: ClickTasks,
    variances: Float[Array, " d"],
    offsets: Float[Array, " N"] | None = None,
) -> Float[Array, " d"]:
    """Return the logistic regression of all tasks together, weakly penalised."""
    root = np.sqrt(WEAK * variances)
    start = np.zeros(len(tasks.rows)) if offsets is None else offsets
    found = climb(start, tasks.rows * root, tasks.trials, tasks.successes)
    return np.asarray(root * found.v)


# -- predictions ----------------------------------------------------------------------------------

MOST_ROWS = 200
"""Most rows of a task that are predicted one after the other; of more rows, evenly spaced ones.
Which rows these are does not depend on clicks, so that predictions stay right."""

N_NODES = 24
"""Nodes of quadrature over x'theta: for deviations up to 5, rates are right to 1e-4."""

REPLICATED = 1 << 22
"""Most numbers of replicated rows at a time."""


class RowPredictions(NamedTuple):
    """Predictions of each row by each component, (N, L), given the earlier rows of its task."""

    location: Array
    """Mean of x'theta."""
    variance: Array
    """Variance of x'theta."""
    log_mass: Array
    """ln probability of the row's successes, in a given order."""
    rate: Array
    """Mean click rate."""
    rate_variance: Array
    """Variance of the click rate."""


def predict_rows(tasks: ClickTasks, family: LinearBernoulli) -> RowPredictions:
    """Predict each row from the earlier rows of its task, under each component.

    After a row, the posterior of theta becomes the normal distribution with the same moments
    (assumed-density filtering): in the direction of the row they come from quadrature, and the
    others follow.
    """
    shape, nodes = (len(tasks.rows), family.n_components), _nodes(N_NODES)
    found = RowPredictions(*(np.empty(shape) for _ in RowPredictions._fields))
    covariance = np.ascontiguousarray(family.full_covariances())
    if _program.core is not None:
        _program.core.logistic_predictions(*tasks, family.mean, covariance, nodes, *found)
        return found
    size = np.diff(tasks.offsets)
    for i in range(len(size)):
        m, within = family.mean.copy(), covariance.copy()
        for a in range(tasks.offsets[i], tasks.offsets[i + 1]):
            row, v = tasks.rows[a], within @ tasks.rows[a]
            mu, variance = m @ row, np.maximum(v @ row, 1e-12)
            p = special.expit(mu[:, None] + np.sqrt(variance)[:, None] * nodes[0])
            rate, square = p @ nodes[1], p**2 @ nodes[1]
            mass, new, spread = _tilted(mu, variance, tasks.trials[a], tasks.successes[a], nodes)
            for field, value in zip(
                found, (mu, variance, mass, rate, np.maximum(square - rate**2, 0.0)), strict=True
            ):
                field[a] = value
            m += v * ((new - mu) / variance)[:, None]
            shrink = (spread - variance) / variance**2
            within += v[:, :, None] * v[:, None, :] * shrink[:, None, None]
    return found


def _tilted(
    mu: Float[Array, " L"], variance: Float[Array, " L"], n: float, k: float, nodes: Array
) -> tuple[Array, Array, Array]:
    """Return ln of the mass of k successes in n trials for x'theta ~ N(mu, variance), and the mean
    and variance of x'theta given them.

    Gauss-Hermite quadrature around the mode, ``nodes`` (2, Q) for a standard normal weight.
    """

    def height(x: Array) -> Array:
        fit = k * x - n * np.logaddexp(0.0, x)
        return fit - 0.5 * ((x.T - mu) ** 2 / variance).T

    def curvature(x: Array) -> Array:
        return 1 / variance + n * special.expit(x) * special.expit(-x)

    x = mu
    for _ in range(50):
        slope = k - n * special.expit(x) - (x - mu) / variance
        # A logistic function is nearly straight within 2: longer steps may overshoot.
        step = np.clip(slope / curvature(x), -2.0, 2.0)
        x = x + step
        if (np.abs(step) < 1e-9 * (1.0 + np.abs(x))).all():
            break
    scale, peak, (z, node) = 1 / np.sqrt(curvature(x)), height(x), nodes
    at = height(x[:, None] + scale[:, None] * z)
    weight = node * np.exp(at - peak[:, None] + 0.5 * z * z)
    total = weight.sum(axis=1)
    first = weight @ z / total
    second = weight @ z**2 / total - first**2
    mass = peak + np.log(total * scale) - 0.5 * np.log(variance)
    return mass, x + scale * first, scale**2 * second


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
        return predict_rows(self._chosen, self.family)

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
        given = posterior_moments(self.family.design, tasks, 0, moments=False).log_evidence
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
