"""Posteriors of clicks with features: computed from a task's table when they are asked for.

A posterior given a component is a set of weighted points, see ``_logistic``. It is a function of
prior and table alone, so an update only counts; the next reader computes.

Two computations are kept apart. Decisions use posteriors of few points, one task at a time; the
compiled core leaves dormant components out (``_kept``, ``_working_evidence``; ``_unknown``: tasks
to redo). Readers of ``log_evidence`` get all components with more points (``_precise``,
``_is_stale``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from mixts import _program
from mixts._numbers import softmax
from mixts._typing import Array, Bool, Float, Int
from mixts.families._linear_rewards import RowRewards
from mixts.families._logistic import (
    CHUNK,
    TOLERANCE,
    ClickTasks,
    Table,
    new_posterior,
    posterior_moments,
)
from mixts.families.base import Posterior, Waiting
from mixts.families.bernoulli import BetaMarginal
from mixts.families.linear_bernoulli_statistics import LinearBernoulliStatistics
from mixts.families.marginals import NormalMarginal
from mixts.families.rewards import AverageRewards, reweighed

if TYPE_CHECKING:
    from mixts.families.linear_bernoulli import LinearBernoulli

KEPT_POINTS = 1024
"""Most points of the posteriors that decisions use, which are kept."""

_LITTLE = 12.0
"""Components whose weight is below exp(-12) = 6e-6 of the largest, and whose posterior is nearly
normal, keep Laplace's evidence in decisions: an error of a nat moves no weight by more than 2e-5.
"""

BUDGET_BYTES = 1 << 28
"""Memory for the posteriors of tasks between calls; at least one is always kept."""

_DORMANT_MARGIN = 4.0
"""A component becomes dormant when its weight is a factor exp(4) below 1e-16 of the largest: the
estimated evidence has an error."""

_LARGEST_TOTAL = 1e12
"""Limit of a + b of the Beta distribution that stands for a click rate: a certain rate."""

_LEAST_INFORMATION = 1e-12
"""Least p (1 - p) of a click rate: a rarer click would be an observation of no weight."""


def logistic(x: Array) -> Array:
    """Return 1 / (1 + exp(-x)), without overflow."""
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * x)))


def task_bytes(n_components: int, n_features: int) -> int:
    """Return the memory of one task's posterior in bytes."""
    d = n_features
    return 8 * n_components * (KEPT_POINTS + d * d + 5 * d + 5)


def click_tasks(statistics: LinearBernoulliStatistics) -> ClickTasks:
    """Return the tables of all tasks, one after the other."""
    counts = (statistics.array(name).astype(float) for name in ("trials", "successes"))
    offsets = np.append(0, np.cumsum(statistics.tables.size))
    return ClickTasks(offsets, statistics.array("rows"), *counts)


class LinearBernoulliPosterior(Posterior):
    """Posteriors of every component for each task; dormant ones are computed when read."""

    prior: LinearBernoulli
    statistics: LinearBernoulliStatistics

    def __init__(
        self,
        prior: LinearBernoulli,
        statistics: LinearBernoulliStatistics,
        log_weights: Float[Array, " L"],
        *,
        allow_dormant: bool = True,
    ) -> None:
        super().__init__(prior, statistics, log_weights, allow_dormant=allow_dormant)
        self._log_weights = log_weights
        self._margin = _DORMANT_MARGIN if allow_dormant else math.inf
        n = len(statistics)
        self._working_evidence = np.zeros((n, prior.n_components))
        self._ceiling = np.zeros((n, prior.n_components))
        """Log evidence when it was last computed: every further click or silence lowers it."""
        self._unknown = set(np.flatnonzero(statistics.tables.size).tolist())
        """Tasks whose ``_working_evidence`` is out of date."""
        self._precise = np.zeros((2, n, prior.n_components))
        """Log evidence and its error at full precision."""
        self._is_stale = statistics.tables.size > 0
        self._kept: dict[int, Any] = {}
        """Posteriors of tasks, as many as fit."""
        self._max_kept = max(1, BUDGET_BYTES // prior.task_bytes)
        self._last: tuple[int, Table] | None = None
        """The task whose table was used last, and the table: a decision uses it twice."""

    def __getstate__(self) -> dict[str, Any]:
        """Leave the kept posteriors out: they are large, and those of the core cannot be copied."""
        return {**self.__dict__, "_kept": {}, "_last": None}

    # -- log evidence -------------------------------------------------------------------------

    @property
    def relative_evidence(self) -> Float[Array, "n L"]:  # type: ignore[override]
        """log p(history | s), -inf where the component is dormant; computed when it is read."""
        for task in sorted(self._unknown):
            self._compute(task)
        return self._working_evidence

    def log_evidence(self) -> Float[Array, "n L"]:
        """Return log p(history | s) of every component, all as precise as ``TOLERANCE`` says."""
        return self._evidence[0]

    def evidence_error(self) -> Float[Array, "n L"]:
        """Return the standard error of ``log_evidence``."""
        return self._evidence[1]

    @property
    def _evidence(self) -> Float[Array, "2 n L"]:
        stale = np.flatnonzero(self._is_stale)
        if len(stale):
            tasks = click_tasks(self.statistics[stale])
            found = posterior_moments(self.prior.design, tasks, moments=False)
            self._precise[:, stale] = found.log_evidence, found.error
            self._is_stale[stale] = False
        return self._precise.copy()

    def _compute(self, task: int) -> Any:
        """Compute the posteriors of those components of a task that can matter.

        All begin with few points. Components get more where the error of the evidence could change
        a weight by more than a quarter of ``TOLERANCE``.
        """
        found = self._kept.get(task)
        if found is None:
            found = new_posterior(self.prior.design, KEPT_POINTS)
            if len(self._kept) >= self._max_kept:
                self._kept.clear()
            self._kept[task] = found
        table, working = self._table(task), self._working_evidence[task]
        if _program.core is not None:
            found.compute(
                *table, self._log_weights, self._ceiling[task], working, self._margin, TOLERANCE,
                KEPT_POINTS,
            )  # fmt: skip
        else:
            every = np.ones(len(working), bool)
            found.find_modes(*table, every)
            joint = self._log_weights + found.laplace
            some = joint >= joint.max() - _LITTLE
            for s in np.flatnonzero(~some):
                some[s] = not found.is_nearly_normal(*table[:2], s)
            found.integrate(*table, some, math.inf, KEPT_POINTS)
            weights = softmax(self._log_weights + found.log_evidence)
            unsure = weights * (1 - weights) * found.error > TOLERANCE / 4
            found.integrate(*table, unsure, TOLERANCE, KEPT_POINTS)
            working[:] = found.log_evidence
        self._unknown.discard(task)
        return found

    def _table(self, task: int) -> Table:
        if self._last is None or self._last[0] != task:
            tables = self.statistics.tables
            start = int(tables.start[task])
            own = slice(start, start + int(tables.size[task]))
            counts = tables.trials[own].astype(float), tables.successes[own].astype(float)
            self._last = task, (tables.rows[own], *counts)
        return self._last[1]

    def _posterior_of(self, task: int) -> Any:
        """Return the posteriors of a task's components that are not dormant."""
        if task in self._unknown or task not in self._kept:
            return self._compute(task)
        return self._kept[task]

    def _with_moments(self, task: int, *, every: bool = False) -> Any:
        """Return the posteriors of a task, with enough points for moments.

        Averages over points need more of them than the evidence does. Components share
        ``KEPT_POINTS`` by their weights, so that a moment of the mixture is about as precise as
        that of one component with all points; with ``every``, each has all of them.
        """
        found = self._posterior_of(task)
        dormant = np.isneginf(self._working_evidence[task])
        if every:
            n_points = np.full(len(dormant), KEPT_POINTS)
            lacking = dormant & (found.n_known == 0)
            if lacking.any():
                found.find_modes(*self._table(task), lacking)
        else:
            weights = softmax(self._log_weights + self._working_evidence[task])
            shares = np.maximum(np.ceil(np.log2(weights * (KEPT_POINTS / CHUNK) + 1e-300)), 0.0)
            n_points = np.where(dormant, 0, CHUNK * 2 ** shares.astype(np.int64))
        found.weigh(*self._table(task), n_points)
        return found

    # -- updates ------------------------------------------------------------------------------

    def update(self, tasks: Int[Array, " m"], observed: tuple[Array, ...]) -> None:
        """Count observations, all or none; beliefs are computed when they are next read."""
        self.prior.check_odds(observed[0])
        self.statistics._observe(tasks, observed)
        self._unknown.update(tasks.tolist())
        self._last = None
        self._is_stale[tasks] = True

    def add_tasks(self, n: int) -> None:
        """Append tasks with no history."""
        self.statistics, self._last = self.statistics.extend(n), None
        rows = ((0, n), (0, 0))
        self._working_evidence, self._ceiling = (
            np.pad(self._working_evidence, rows),
            np.pad(self._ceiling, rows),
        )
        self._precise = np.pad(self._precise, ((0, 0), *rows))
        self._is_stale = np.pad(self._is_stale, (0, n))

    # -- parameters ---------------------------------------------------------------------------

    def sample(
        self, rng: np.random.Generator, tasks: Int[Array, " m"], latent: Int[Array, " m"]
    ) -> Float[Array, "m p"]:
        """Draw theta from the posterior of the component of each task, also of a dormant one."""
        theta = np.empty((len(tasks), self.prior.n_features))
        if len(tasks) == 1:
            self._draw(int(tasks[0]), rng, latent, theta)
            return theta
        for task, rows in _by_task(tasks, latent):
            drawn = np.empty((len(rows), theta.shape[1]))
            self._draw(task, rng, latent[rows], drawn)
            theta[rows] = drawn
        return theta

    def _draw(
        self, task: int, rng: np.random.Generator, latent: Int[Array, " k"], theta: Array
    ) -> None:
        """Set theta (k, d) to draws for one task."""
        found = self._posterior_of(task)
        found.draw(*self._table(task), latent, rng, theta, TOLERANCE, KEPT_POINTS)

    def component_means(self, tasks: Int[Array, " m"]) -> Float[Array, "m L p"]:
        """Return E[theta | history, s]; dormant components are computed."""
        return self._moments(tasks)[0]

    def component_covariances(self, tasks: Int[Array, " m"]) -> Float[Array, "m L p p"]:
        """Return Cov[theta | history, s]."""
        return self._moments(tasks)[1]

    def _moments(self, tasks: Int[Array, " m"], *, every: bool = True) -> tuple[Array, Array]:
        """Return means and covariances of theta; zeros for dormant components, unless ``every``."""
        n, d = self.prior.n_components, self.prior.n_features
        mean, covariance = np.zeros((len(tasks), n, d)), np.zeros((len(tasks), n, d, d))
        for row, task in enumerate(tasks):
            if self.statistics.tables.size[task] == 0:
                mean[row], covariance[row] = self.prior.mean, self.prior.full_covariances()
                continue
            found = self._with_moments(int(task), every=every)
            for s in np.flatnonzero(found.n_used).tolist():
                found.parameter_moments(s, mean[row, s], covariance[row, s])
        return mean, covariance

    def family(self, task: int) -> LinearBernoulli:
        """Return normal distributions with the moments of one task's posterior, as a prior."""
        mean, covariance = self._moments(np.array([task]))
        covariance = (covariance + np.swapaxes(covariance, -1, -2)) / 2
        return self.prior.with_moments(mean[0], covariance[0])

    # -- decisions ----------------------------------------------------------------------------

    def action_moments(
        self, tasks: Int[Array, " m"], actions: Array, *, every: bool = False
    ) -> Float[Array, "4 m L K"]:
        """Return mean and variance of the click rate, then of a'theta, for all actions.

        Zeros for dormant components, unless ``every`` component is wanted.
        """
        moments = np.zeros((len(tasks), 4, self.prior.n_components, actions.shape[-2]))
        for row, task in enumerate(tasks):
            own = np.ascontiguousarray(actions if actions.ndim == 2 else actions[row])
            self._with_moments(int(task), every=every).action_moments(own, moments[row])
        return np.moveaxis(moments, 1, 0)

    def gains(
        self, tasks: Int[Array, " m"], actions: Array, mask: Bool[Array, "m K"],
        lead: Int[Array, " m"],
    ) -> Float[Array, "m L"]:  # fmt: skip
        """Return E[max_b p_b - p_lead | s] of the click rates p; zeros for dormant components."""
        found = np.zeros((len(tasks), self.prior.n_components))
        for row, task in enumerate(tasks):
            own = np.ascontiguousarray(actions if actions.ndim == 2 else actions[row])
            self._with_moments(int(task)).gains(own, mask[row], int(lead[row]), found[row])
        return found

    def mean_rewards(
        self, tasks: Int[Array, " m"], weights: Float[Array, "m L"], actions: Array | None
    ) -> Float[Array, "m K"]:
        """Return the expected click rates, which are not those of the expected theta."""
        if actions is None:  # the prior raises ActionError
            return self.prior.mean_rewards(np.zeros((len(tasks), self.prior.n_features)), None)
        return np.einsum("ml,mlk->mk", weights, self.action_moments(tasks, actions)[0])

    def rewards(
        self,
        tasks: Int[Array, " m"],
        weights: Float[Array, "m L"],
        actions: Array | None,
        waiting: Waiting | None = None,
    ) -> ClickRates:
        """Return the belief about the click rates of the offered actions."""
        assert actions is not None
        if waiting is None or not np.isin(waiting.tasks, tasks).any():
            return ClickRates(self, tasks, weights, actions)
        distinct, first, rows = np.unique(tasks, return_index=True, return_inverse=True)
        after = Awaited(self, distinct, weights[first], waiting.among(distinct))
        before = self.relative_evidence[distinct][rows]
        weights = reweighed(weights, after.relative_evidence[rows], before)
        return ClickRates(after, rows, weights, actions)


class Awaited(LinearBernoulliPosterior):
    """Posteriors as if each waiting decision had brought its expected part of a click."""

    def __init__(
        self,
        before: LinearBernoulliPosterior,
        tasks: Int[Array, " n"],
        weights: Float[Array, "n L"],
        waiting: Waiting,
    ) -> None:
        super().__init__(before.prior, before.statistics[tasks], before._log_weights)
        self._added: dict[int, tuple[Array, Array]] = {}
        for row, task in enumerate(tasks):
            own = waiting.actions[waiting.tasks == row]
            if len(own):
                rates = before.mean_rewards(np.array([task]), weights[row : row + 1], own)[0]
                self._added[row] = own, rates
                self._unknown.add(row)

    def _table(self, task: int) -> Table:
        if task not in self._added:
            return super()._table(task)
        rows, trials, successes = super()._table(task)
        added, rates = self._added[task]
        rows = np.concatenate([rows, added])
        trials, successes = np.append(trials, np.ones(len(rates))), np.append(successes, rates)
        return rows, trials, successes


@dataclass(frozen=True)
class ClickRates(RowRewards, AverageRewards):
    """Click rates of actions, which depend on each other through theta."""

    posterior: LinearBernoulliPosterior

    @cached_property
    def _moments(self) -> Float[Array, "4 m L K"]:
        return self.posterior.action_moments(self.tasks, self.actions)

    @cached_property
    def marginal(self) -> BetaMarginal:
        """Beta distributions with the moments of the click rates."""
        mean, variance = self._moments[:2]
        room = mean * (1 - mean)
        with np.errstate(divide="ignore", invalid="ignore"):
            total = np.where(variance > 0, room / variance - 1, _LARGEST_TOTAL)
        total = np.clip(total, 1e-12, _LARGEST_TOTAL)
        # A rate of a dormant component is 0: any distribution will do, its weight is 0.
        return BetaMarginal(np.stack([np.maximum(mean * total, 1e-300), (1 - mean) * total]))

    def means(self) -> Float[Array, "m K"]:
        return np.einsum("ml,mlk->mk", self.weights, self._moments[0])

    def gains(
        self, rng: np.random.Generator, mask: Array, lead: Array, n_samples: int
    ) -> Float[Array, " m"]:
        """Integrate over the points of the posterior, which the means need anyway."""
        found = self.posterior.gains(self.tasks, self.actions, mask, lead)
        return np.einsum("ml,ml->m", self.weights, found)

    def quantiles(self, probability: Float[Array, " m"]) -> Float[Array, "m K"]:
        """Return the quantiles of normal a'theta with its moments, as click rates."""
        normal = NormalMarginal(self._moments[2:], 1.0)
        return logistic(normal.mixture_quantiles(self.weights, probability))

    @cached_property
    def _noise(self) -> Float[Array, "m L K"]:
        """Standard deviation of a click as an observation of a'theta: 1 / sqrt(E[p (1 - p)])."""
        mean, variance = self._moments[:2]
        information = np.maximum(mean * (1 - mean) - variance, _LEAST_INFORMATION)
        return np.asarray(1 / np.sqrt(information))

    def scaled_rows(self) -> Float[Array, "m L K d"]:
        """Return rows as if a'theta were normal, and each click as informative as on average."""
        values, vectors = np.linalg.eigh(self.posterior._moments(self.tasks, every=False)[1])
        roots = vectors * np.sqrt(np.maximum(values, 0.0))[:, :, None]
        sets = self.actions if self.actions.ndim == 2 else self.actions[:, None]
        return np.asarray(sets @ roots / self._noise[..., None])

    def placed(
        self, rng: np.random.Generator, x: Array, left: Array, rows: Array, latent: Array
    ) -> Float[Array, "n K"]:
        """Return click rates: E logistic(z) is about logistic(E z / sqrt(1 + pi v/8)), z normal."""
        noise = self._noise[rows, latent]
        known = self._moments[2][rows, latent] + noise * x
        return logistic(known / np.sqrt(1 + np.pi / 8 * noise**2 * left))


def _by_task(
    tasks: Int[Array, " m"], latent: Int[Array, " m"]
) -> list[tuple[int, Int[Array, " k"]]]:
    """Return each distinct task with its positions, one component after the other."""
    order = np.lexsort((latent, tasks))
    distinct, first = np.unique(tasks[order], return_index=True)
    return list(zip(distinct.tolist(), np.split(order, first[1:]), strict=False))
