"""Posteriors of clicks with features: computed from a task's table when they are asked for.

A posterior given a component is a set of weighted points, see ``_kernels.logistic``. It is a
function of prior and table alone, so an update only counts; the next reader computes.

Two computations are kept apart. Decisions use posteriors of few points, one task at a time, which
leave dormant components out (``_kept``, ``_working_evidence``; ``_unknown``: tasks to redo).
Readers of ``log_evidence`` get all components with more points (``_precise``, ``_is_stale``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np
import scipy  # loads a submodule when it is first used

from mixts._numbers import softmax
from mixts._typing import Array, Bool, Float, Int
from mixts.families._kernels import logistic as kernels
from mixts.families._kernels.logistic import Design
from mixts.families._linear_rewards import RowRewards
from mixts.families.base import Posterior, Waiting
from mixts.families.bernoulli import BetaMarginal
from mixts.families.linear_bernoulli_statistics import LinearBernoulliStatistics
from mixts.families.quadrature import NormalMarginal
from mixts.families.rewards import AverageRewards, reweighed

if TYPE_CHECKING:
    from mixts.families.linear_bernoulli import LinearBernoulli

Table = tuple[Array, Array, Array, Array]
"""The fields of ``_kernels.logistic.Tables``: offsets, rows, trials and successes."""

TOLERANCE = 0.02
"""Points are added until the standard error of the log evidence is below this."""

MOST_POINTS = 4096
"""Most points of integration for the evidence."""

KEPT_POINTS = 1024
"""Most points of the posteriors that decisions use, which are kept."""

_AT_ONCE = 64
"""Tasks of one compiled pass that keeps no posteriors."""


def logistic(x: Array) -> Array:
    """Return 1 / (1 + exp(-x)), without overflow."""
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * x)))


def task_bytes(n_components: int, n_features: int) -> int:
    """Return the memory of one task's posterior in bytes."""
    d = n_features
    return 8 * n_components * (KEPT_POINTS + d * d + 5 * d + 4)


def new_design(prior: LinearBernoulli) -> Design:
    """Return the moments of a prior with dense roots, and the fixed points of its dimension."""
    roots, points = prior.roots, fixed_points(prior.n_features)
    return Design(prior.mean.copy(), roots.matrices(), roots.group_of, points, TOLERANCE)


@lru_cache(maxsize=16)
def fixed_points(d: int) -> Float[Array, "d N"]:
    """Return the points of integration in d dimensions, the same in every process.

    Blocks are random shifts of a lattice ``k z / n mod 1``. Its generator z is chosen coordinate
    by coordinate to have the least worst-case error (Sloan and Reztsov), with weights that fall
    with the coordinate. In the order of reversed bits, each first half is a lattice, too.
    """
    n = MOST_POINTS // (2 * kernels.N_BLOCKS)
    order = np.zeros(1, np.int64)
    while len(order) < n:
        order = np.concatenate([2 * order, 2 * order + 1])
    odd, places, error, generator = np.arange(1, n, 2), np.arange(n), np.ones(n), []
    for j in range(d):
        x = np.outer(odd, places) % n / n
        factors = 1 + (2 * math.pi) ** 2 / (j + 1) * (x * x - x + 1 / 6)
        best = int((factors @ error).argmin())
        error *= factors[best]
        generator.append(int(odd[best]))
    shifts = np.random.default_rng(d).random((kernels.N_BLOCKS, 1, d))
    uniform = (np.outer(order, generator) / n + shifts) % 1
    return kernels.make_points(scipy.special.ndtri(np.clip(uniform, 1e-9, 1 - 1e-9)))


def evidence_of(
    design: Design, statistics: LinearBernoulliStatistics
) -> tuple[Float[Array, "n L"], Float[Array, "n L"]]:
    """Return the log evidence of each task, and its standard error."""
    n, (n_components, d) = len(statistics), design.mean.shape
    found = np.zeros((2, n, n_components))
    out = tuple(kernels.new_posterior(min(n, _AT_ONCE), n_components, d, MOST_POINTS))
    for start in range(0, n, _AT_ONCE):
        part = statistics[start : start + _AT_ONCE]
        own = part.tables
        offsets = np.append(0, np.cumsum(own.size))
        counts = own.trials.astype(float), own.successes.astype(float)
        slots, wanted = np.arange(len(part)), np.ones((len(part), n_components), bool)
        kernels.condition((offsets, own.rows, *counts), slots, tuple(design), wanted, out)
        found[:, start : start + len(part)] = out[0][: len(part)], out[1][: len(part)]
    return found[0], found[1]


def table_of(statistics: LinearBernoulliStatistics, task: int) -> Table:
    """Return the fields of ``_kernels.logistic.Tables`` for one task."""
    tables = statistics.tables
    start, size = int(tables.start[task]), int(tables.size[task])
    own = slice(start, start + size)
    counts = tables.trials[own].astype(float), tables.successes[own].astype(float)
    return np.array([0, size]), tables.rows[own], *counts


_LEAST_WEIGHT = 0.005
"""Components of less weight need no precise click rates: these have an error of some 0.03."""

BUDGET_BYTES = 1 << 28
"""Memory for the posteriors of tasks between calls; at least one is always kept."""

DORMANT_LIMIT = -math.log(1e-16)
"""A component may be dormant while its weight is surely below 1e-16 of the largest."""

_DORMANT_MARGIN = 4.0
"""It becomes dormant a factor exp(4) below that: the estimated evidence has an error."""

# Never written to, but not read-only: numba would compile the loops again for read-only arrays.
_FIRST_SLOT = np.zeros(1, np.int64)

_LARGEST_TOTAL = 1e12
"""Limit of a + b of the Beta distribution that stands for a click rate: a certain rate."""

_LEAST_INFORMATION = 1e-12
"""Least p (1 - p) of a click rate: a rarer click would be an observation of no weight."""


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
        self._working = prior.working_design
        self._design = tuple(self._working)
        self._quick = tuple(self._working._replace(tolerance=math.inf))
        self._finest = tuple(self._working._replace(tolerance=0.0))
        self._kept: dict[int, kernels.Posterior] = {}
        """Posteriors of tasks, as many as fit."""
        self._refined: dict[int, kernels.Posterior] = {}
        """The same with all points, of tasks whose moments were used."""
        self._max_kept = max(1, BUDGET_BYTES // prior.task_bytes)
        self._last: tuple[int, Table] | None = None
        """The task whose table was used last, and the table: a decision uses it twice."""

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
            self._precise[:, stale] = evidence_of(self.prior.design, self.statistics[stale])
            self._is_stale[stale] = False
        return self._precise.copy()

    def _compute(self, task: int) -> kernels.Posterior:
        """Compute the posteriors of a task, of those components that can matter.

        First with few points; then with more, where the error of the evidence could change a
        weight by more than a quarter of ``TOLERANCE``.
        """
        found = self._kept.get(task)
        if found is None:
            n, d = self.prior.mean.shape
            found = kernels.new_posterior(1, n, d, KEPT_POINTS)
        found.n_points[:] = 0
        ceiling, wanted = self._ceiling[task], self._working_evidence[task] > -np.inf
        self._condition(task, wanted, found, self._quick)
        joint, top = self._joint(found, wanted, ceiling)
        if not all(wanted.tolist()):
            waking = ~wanted & (joint >= top - DORMANT_LIMIT)
            if waking.any():
                wanted |= waking
                self._condition(task, wanted, found, self._quick)
                joint, top = self._joint(found, wanted, ceiling)
        # No w (1 - w) is above 1 / 4: if all errors are small, the weights need not be computed.
        if max(found.error[0].tolist()) > TOLERANCE:
            weights = softmax(np.where(wanted, joint, -np.inf))
            unsure = wanted & (weights * (1 - weights) * found.error[0] > TOLERANCE / 4)
            if unsure.any():
                self._condition(task, unsure, found, self._design)
                joint, top = self._joint(found, wanted, ceiling)
        asleep = (joint < top - DORMANT_LIMIT - self._margin) & (joint > -np.inf)
        self._working_evidence[task] = np.where(asleep | ~wanted, -np.inf, ceiling)
        self._unknown.discard(task)
        self._refined.pop(task, None)
        _put(self._kept, task, found, self._max_kept)
        return found

    def _joint(
        self, found: kernels.Posterior, wanted: Bool[Array, " L"], ceiling: Float[Array, " L"]
    ) -> tuple[Float[Array, " L"], float]:
        """Write the new evidence of wanted components to ``ceiling``, in place.

        Return ln P_0(s) + ceiling of each component, and the largest one that is wanted.
        """
        np.copyto(ceiling, found.log_evidence[0], where=wanted)
        joint = self._log_weights + ceiling
        return joint, float(joint.max(initial=-np.inf, where=wanted))

    def _condition(
        self, task: int, wanted: Bool[Array, " L"], out: kernels.Posterior, design: kernels.Plain
    ) -> None:
        kernels.condition(self._table(task), _FIRST_SLOT, design, wanted[None], tuple(out))

    def _table(self, task: int) -> Table:
        if self._last is None or self._last[0] != task:
            self._last = task, table_of(self.statistics, task)
        return self._last[1]

    def _posterior_of(self, task: int) -> kernels.Posterior:
        """Return the posteriors of a task: of its components that are not dormant."""
        if task in self._unknown or task not in self._kept:
            return self._compute(task)
        return self._kept[task]

    def _with_moments(self, task: int, *, every: bool = False) -> kernels.Posterior:
        """Return the posteriors of a task, with all points where moments of them matter.

        Averages over points need more of them than the evidence does. With ``every``, those of
        dormant components and of components of little weight are precise, too.
        """
        found = self._posterior_of(task)
        if task in self._refined:
            refined = self._refined[task]
        else:
            # A copy: draws must not depend on whether somebody has read moments.
            refined = kernels.Posterior(*(array.copy() for array in found))
            _put(self._refined, task, refined, self._max_kept)
        coarse = refined.n_points[0] < KEPT_POINTS
        if not every:
            coarse &= softmax(self._log_weights + self._working_evidence[task]) > _LEAST_WEIGHT
        if coarse.any():
            self._condition(task, coarse, refined, self._finest)
        return refined

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

    def prepare(self, tasks: Int[Array, " m"], latent: Int[Array, " m"]) -> None:
        """Compute the posteriors of these pairs that are dormant."""
        dormant = np.isneginf(self.relative_evidence[tasks, latent])
        for task in np.unique(tasks[dormant]):
            wanted = np.zeros(self.prior.n_components, bool)
            wanted[latent[dormant & (tasks == task)]] = True
            self._condition(int(task), wanted, self._posterior_of(int(task)), self._design)

    def sample(
        self, rng: np.random.Generator, tasks: Int[Array, " m"], latent: Int[Array, " m"]
    ) -> Float[Array, "m p"]:
        """Draw theta from the posterior of the component of each task."""
        d = self.prior.n_features
        normals = rng.standard_normal((len(tasks), kernels.N_MOVES + 1, d))
        uniforms = 1.0 - rng.random((len(tasks), kernels.N_MOVES + 1))  # above 0
        theta = np.empty((len(tasks), d))
        if len(tasks) == 1:
            self._draw(int(tasks[0]), latent, (normals, uniforms), theta)
            return theta
        for task, rows in _by_task(tasks, latent):
            drawn = np.empty((len(rows), d))
            self._draw(task, latent[rows], (normals[rows], uniforms[rows]), drawn)
            theta[rows] = drawn
        return theta

    def _draw(
        self, task: int, latent: Int[Array, " k"], random: tuple[Array, Array], theta: Array
    ) -> None:
        """Set theta (k, d) to draws for one task."""
        which = np.zeros((len(latent), 3), np.int64)
        which[:, 2] = latent
        found = tuple(self._posterior_of(task))
        kernels.draw(self._table(task), self._design, found, which, random, theta)

    def component_means(self, tasks: Int[Array, " m"]) -> Float[Array, "m L p"]:
        """Return E[theta | history, s]; dormant components are computed."""
        return self._moments(tasks)[0]

    def component_covariances(self, tasks: Int[Array, " m"]) -> Float[Array, "m L p p"]:
        """Return Cov[theta | history, s]."""
        return self._moments(tasks)[1]

    def _moments(self, tasks: Int[Array, " m"]) -> tuple[Array, Array]:
        n, d = self.prior.n_components, self.prior.n_features
        mean, covariance = np.zeros((len(tasks), n, d)), np.zeros((len(tasks), n, d, d))
        for row, task in enumerate(tasks):
            if self._is_empty(int(task)):
                mean[row], covariance[row] = self.prior.mean, self.prior.full_covariances()
                continue
            found = self._with_moments(int(task), every=True)
            for s in range(n):
                moments = kernels.parameter_moments(self._working, found, 0, s)
                mean[row, s], covariance[row, s] = moments
        return mean, covariance

    def _is_empty(self, task: int) -> bool:
        return bool(self.statistics.tables.size[task] == 0)

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
        moments = np.zeros((4, len(tasks), self.prior.n_components, actions.shape[-2]))
        for row, task in enumerate(tasks):
            own = actions if actions.ndim == 2 else actions[row]
            found = self._with_moments(int(task), every=every)
            for s in np.flatnonzero(found.n_points[0]).tolist():
                moments[:, row, s] = kernels.action_moments(self._working, found, 0, s, own)
        return moments

    def mean_rewards(
        self, tasks: Int[Array, " m"], weights: Float[Array, "m L"], actions: Array | None
    ) -> Float[Array, "m K"]:
        """Return the expected click rates, which are not those of the expected theta."""
        if actions is None:
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
        distinct, rows = np.unique(tasks, return_inverse=True)
        first = np.unique(rows, return_index=True)[1]
        after = Awaited(self, distinct, weights[first], waiting.among(distinct))
        before = self.relative_evidence[distinct][rows]
        weights = reweighed(weights, after.relative_evidence[rows], before)
        return ClickRates(after, rows, weights, actions)


class Awaited(LinearBernoulliPosterior):
    """Posteriors as if the clicks of waiting decisions had come: the expected part of a click."""

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
        _, rows, trials, successes = super()._table(task)
        added, rates = self._added[task]
        rows = np.concatenate([rows, added])
        trials, successes = np.append(trials, np.ones(len(rates))), np.append(successes, rates)
        return np.array([0, len(rows)]), rows, trials, successes


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
        """Return rows of normal a'theta with its moments; a click says as much as at its mean."""
        values, vectors = np.linalg.eigh(self.posterior.component_covariances(self.tasks))
        roots = vectors * np.sqrt(np.maximum(values, 0.0))[:, :, None]
        sets = self.actions if self.actions.ndim == 2 else self.actions[:, None]
        return np.asarray(sets @ roots / self._noise[..., None])

    def placed(
        self, rng: np.random.Generator, x: Array, left: Array, rows: Array, latent: Array
    ) -> Float[Array, "n K"]:
        """Return click rates: of normal z, E[logistic(z)] is logistic(E[z] / sqrt(1 + pi v/8))."""
        noise = self._noise[rows, latent]
        known = self._moments[2][rows, latent] + noise * x
        return logistic(known / np.sqrt(1 + np.pi / 8 * noise**2 * left))


def _put(
    kept: dict[int, kernels.Posterior], task: int, found: kernels.Posterior, most: int
) -> None:
    """Keep the posteriors of a task; if there is no room, forget all others."""
    if task not in kept and len(kept) >= most:
        kept.clear()
    kept[task] = found


def _by_task(
    tasks: Int[Array, " m"], latent: Int[Array, " m"]
) -> list[tuple[int, Int[Array, " k"]]]:
    """Return each distinct task with its positions, one component after the other."""
    order = np.lexsort((latent, tasks))
    distinct, first = np.unique(tasks[order], return_index=True)
    return list(zip(distinct.tolist(), np.split(order, first[1:]), strict=False))
