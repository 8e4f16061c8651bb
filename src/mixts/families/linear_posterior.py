"""The posteriors of linear tasks: incremental where it is fast, from statistics where it is
needed."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from mixts._typing import Array, Bool, Float, Int
from mixts.errors import ActionError
from mixts.families._kernels import evidence as evidence_kernels
from mixts.families._kernels import linear as kernels
from mixts.families._kernels import mature as mature_kernels
from mixts.families._kernels import sleep as sleep_kernels
from mixts.families.base import Posterior
from mixts.families.linear_cache import BUDGET_BYTES, FactorPool
from mixts.families.linear_statistics import check_rows, fold_block, refuse_row
from mixts.families.statistics import Statistics

if TYPE_CHECKING:
    from mixts.families.linear import LinearGaussian

SLEEP_LIMIT = -math.log(1e-16)
"""A component may sleep while its weight is surely below 1e-16 of the largest."""

_SLEEP_MARGIN = 4.0
"""It falls asleep a factor exp(4) below that, so that it need not be looked at again at once."""

_REFRESH = 4096
"""After so many observations one by one a posterior is recomputed: rounding is wiped out."""


class LinearPosterior(Posterior):
    """Posteriors of all awake components; sleepers are recomputed when they are asked for."""

    young_from: ClassVar[int] = 48
    """The least d for which tasks begin young. Below, half of d observations cost less in mature
    form, with runs of one action, than young and then once more to mature."""

    def __init__(
        self,
        prior: LinearGaussian,
        statistics: Statistics,
        log_weights: Float[Array, " L"],
        *,
        sleep: bool = True,
        budget: int = BUDGET_BYTES,
    ) -> None:
        self.prior = prior
        self.statistics = statistics
        self._log_weights = log_weights
        n, roots = len(statistics), prior.roots
        n_groups = len(roots.values)
        self._pool = FactorPool(n, n_groups, prior.n_components, prior.n_features, budget)
        self._asleep = np.zeros((n, n_groups), bool)
        self._ceiling = np.full((n, n_groups), -np.inf)
        self._highest = np.full(n, -np.inf)
        self._asleep_since = np.zeros((n, prior.n_components))
        self._refresh = statistics.array("count") + _REFRESH
        self._gain = -0.5 * math.log(2 * math.pi * prior.noise_std**2)
        margin = _SLEEP_MARGIN if sleep else math.inf
        self._limits = np.array([SLEEP_LIMIT, margin, self._gain])
        self._lazy: Array | None = None
        self._shape = (prior.mean, roots.values, roots.starts, roots.members)

    @property
    def statistics(self) -> Statistics:
        """The tasks' statistics; the loops change their arrays in place."""
        return self._statistics

    @statistics.setter
    def statistics(self, statistics: Statistics) -> None:
        self._statistics = statistics
        self._count, self._factor = statistics.array("count"), statistics.array("factor")

    # -- log evidence -------------------------------------------------------------------------

    @property
    def relative(self) -> Float[Array, "n L"]:  # type: ignore[override]
        """log p(history | s), -inf where the component sleeps; computed when first asked for."""
        if self._lazy is None:
            self._lazy = np.zeros((len(self._count), self.prior.n_components))
            seen = np.flatnonzero(self._count)
            if len(seen):
                wanted = np.ones((len(seen), self._asleep.shape[1]), bool)
                self._lazy[seen] = self._evidence(seen, wanted)
                self._settle(seen)
        return self._lazy

    def log_evidence(self) -> Float[Array, "n L"]:
        """log p(history | s), exact for every component.

        Tasks with sleepers are computed from their statistics: components compared with each other
        come from the same road.
        """
        result = self.relative.copy()
        drowsy = np.flatnonzero(self._asleep.any(axis=1))
        if len(drowsy):
            result[drowsy] = self._evidence(drowsy, np.ones_like(self._asleep[drowsy]))
        return result

    def _evidence(
        self, tasks: Int[Array, " m"], wanted: Bool[Array, "m G"], *, keep: bool = False
    ) -> Float[Array, "m L"]:
        """Log evidence from the statistics; with ``keep``, posteriors go to the tasks' slots."""
        pool, out = self._pool, np.zeros((len(tasks), self.prior.n_components))
        evidence_kernels.condition(
            tasks, wanted, self.prior.noise_std, *self._shape,
            self._count, self._factor, out,
            keep, pool.slots, pool.rank, pool.run, pool.store, pool.mean,
        )  # fmt: skip
        return out

    # -- slots --------------------------------------------------------------------------------

    def _admit(self, tasks: Int[Array, " m"]) -> None:
        """Every one of these distinct tasks gets its posteriors into a slot."""
        pool = self._pool
        new = pool.admit(tasks)
        known = new[self._count[new] > 0]
        if self.prior.n_features < self.young_from and len(known) < len(new):
            fresh = pool.begin(new[self._count[new] == 0])
            mature_kernels.start_mature(
                fresh, *self._shape[:2], pool.rank, pool.run, pool.store, pool.mean
            )
        if len(known):
            self.relative  # noqa: B018 - decides who sleeps before posteriors are made
            pool.give_up(known, self._asleep[known])
            self._rebuild(known)

    def _rebuild(self, tasks: Int[Array, " m"]) -> None:
        awake = ~self._asleep[tasks]
        fresh = self._evidence(tasks, awake, keep=True)
        self.relative[tasks] = np.where(np.isneginf(self.relative[tasks]), -np.inf, fresh)

    def _chunks(self, tasks: Int[Array, " m"]) -> list[Array]:
        """Positions of the entries of ``tasks``, in parts whose tasks fit into the pool at once."""
        if self._pool.everyone or len(tasks) <= self._pool.max_slots:
            return [np.arange(len(tasks))]
        distinct, inverse = np.unique(tasks, return_inverse=True)
        if len(distinct) <= self._pool.max_slots:
            return [np.arange(len(tasks))]
        part = inverse // self._pool.max_slots
        return [np.flatnonzero(part == i) for i in range(int(part.max()) + 1)]

    # -- updates ------------------------------------------------------------------------------

    def update(self, tasks: Int[Array, " m"], observed: tuple[Array, ...]) -> None:
        """Absorb observations, all or none: a few one at a time, a long history at once."""
        actions, outcomes = observed
        m, d = actions.shape
        if m > 2 * d or not self._pool.everyone:
            self._update_many(tasks, actions, outcomes)
        else:
            self._observe(tasks, actions, outcomes)

    def _update_many(self, tasks: Int[Array, " m"], actions: Array, outcomes: Array) -> None:
        check_rows(actions, outcomes)
        length = np.bincount(tasks, minlength=1)[tasks]
        # From about 2 d observations on, a factorisation costs less than the single steps.
        long = length > 2 * actions.shape[1]
        if long.any():
            self._fold_long(tasks[long], actions[long], outcomes[long])
            tasks, actions, outcomes = tasks[~long], actions[~long], outcomes[~long]
        for part in self._chunks(tasks):
            self._admit(np.unique(tasks[part]))
            self._observe(tasks[part], actions[part], outcomes[part])

    def _fold_long(self, tasks: Int[Array, " m"], actions: Array, outcomes: Array) -> None:
        before = self.relative
        count, factor = self._count, self._factor
        order = np.argsort(tasks, kind="stable")
        distinct, first = np.unique(tasks[order], return_index=True)
        for task, rows in zip(distinct, np.split(order, first[1:]), strict=True):
            factor[task] = fold_block(factor[task], actions[rows], outcomes[rows])
            count[task] += len(rows)
        self._pool.drop(distinct)
        self._asleep[distinct] = False
        self._highest[distinct] = -np.inf
        self._refresh[distinct] = count[distinct] + _REFRESH
        before[distinct] = self._evidence(distinct, ~self._asleep[distinct])
        self._settle(distinct)

    def _observe(self, tasks: Int[Array, " m"], actions: Array, outcomes: Array) -> None:
        pool = self._pool
        flagged = kernels.observe(
            tasks, actions, outcomes, self.prior.noise_std**2, *self._shape,
            self._count, self._factor, self.relative, self._asleep,
            pool.slots, pool.filled, pool.recent,
            pool.rank, pool.store, pool.shrink, pool.gains, pool.mean, pool.misfit, pool.drift,
            *pool.runs, self._log_weights, self._limits, self._refresh,
            self._ceiling, self._highest, self._asleep_since,
        )  # fmt: skip
        if flagged < 0:
            refuse_row(actions, outcomes, -1 - flagged)
        if flagged:
            self._look_at(tasks)

    # -- sleep --------------------------------------------------------------------------------

    def _settle(self, tasks: Int[Array, " m"]) -> None:
        """Let negligible groups sleep; look at sleepers whose bound has risen."""
        pool = self._pool
        flagged = sleep_kernels.settle(
            tasks, self._log_weights, self._limits, self.prior.noise_std**2, *self._shape,
            self._count, self._refresh, self.relative, self._asleep,
            self._ceiling, self._highest, self._asleep_since, pool.slots,
            pool.rank, pool.store, pool.shrink, pool.gains, pool.mean, pool.misfit, pool.drift,
            *pool.runs,
        )  # fmt: skip
        if flagged:
            self._look_at(tasks)

    def _look_at(self, tasks: Int[Array, " m"]) -> None:
        """Wake the sleepers that may matter again; wipe out rounding where it is time."""
        distinct = np.unique(tasks)
        due = distinct[self._count[distinct] >= self._refresh[distinct]]
        if len(due):
            self._refresh[due] = self._count[due] + _REFRESH
            resident = due[self._pool.slots[due] >= 0]
            if len(resident):
                self._rebuild(resident)
        pool, waking = self._pool, np.zeros((len(distinct), self._asleep.shape[1]), bool)
        if sleep_kernels.look(
            distinct, self._log_weights, self._limits, self.prior.noise_std, *self._shape,
            self._count, self._factor, self.relative, self._asleep,
            self._ceiling, self._highest, self._asleep_since,
            pool.slots, pool.rank, pool.store, pool.shrink, pool.misfit, pool.drift, waking,
        ):  # fmt: skip
            for row in np.flatnonzero(waking.any(axis=1)):
                self._wake(int(distinct[row]), waking[row])

    def _wake(self, task: int, waking: Bool[Array, " G"]) -> None:
        self._asleep[task, waking] = False
        resident = bool(self._pool.slots[task] >= 0)
        woken = self._evidence(np.array([task]), waking[None], keep=resident)[0]
        members = waking[self.prior.roots.group_of]
        self.relative[task, members] = woken[members]
        sleeping = self._ceiling[task, self._asleep[task]]
        self._highest[task] = sleeping.max(initial=-np.inf)

    # -- what decisions and readers need ------------------------------------------------------

    def sample(
        self, rng: np.random.Generator, tasks: Int[Array, " m"], latent: Int[Array, " m"]
    ) -> Float[Array, "m p"]:
        """theta ~ N(mean, covariance) of the component of each task."""
        return self._place(tasks, latent, rng.standard_normal((len(tasks), self.prior.n_features)))

    def _place(
        self, tasks: Int[Array, " m"], latent: Int[Array, " m"], x: Float[Array, "m p"]
    ) -> Float[Array, "m p"]:
        """Standard normals to parameters, in place; zeros to means."""
        if self._pool.everyone:
            self._move(tasks, latent, x)
            return x
        for part in self._chunks(tasks):
            self._admit(np.unique(tasks[part]))
            moved = x[part]
            self._move(tasks[part], latent[part], moved)
            x[part] = moved
        return x

    def _move(self, tasks: Int[Array, " m"], latent: Int[Array, " m"], x: Array) -> None:
        pool, roots = self._pool, self.prior.roots
        kernels.sample(
            tasks, latent, roots.group_of, self.prior.noise_std**2, *self._shape,
            pool.slots, pool.rank, pool.store, pool.shrink, pool.gains, pool.mean, *pool.runs, x,
        )  # fmt: skip

    def prepare(self, tasks: Int[Array, " m"], latent: Int[Array, " m"]) -> None:
        """Wake the components of these pairs; who is not needed falls asleep at the next update."""
        self.relative  # noqa: B018 - decides who sleeps
        groups = self.prior.roots.group_of[latent]
        for task in np.unique(tasks[self._asleep[tasks, groups]]):
            waking = np.zeros(self._asleep.shape[1], bool)
            waking[groups[tasks == task]] = True
            self._admit(np.array([task]))
            self._wake(int(task), waking & self._asleep[task])

    def component_means(self, tasks: Int[Array, " m"]) -> Float[Array, "m L p"]:
        """E[theta | history, s], sleepers recomputed."""
        n, d = self.prior.n_components, self.prior.n_features
        self.relative  # noqa: B018 - decides who sleeps
        pairs, latent = np.repeat(tasks, n), np.tile(np.arange(n), len(tasks))
        means = self._place(pairs, latent, np.zeros((len(pairs), d))).reshape(len(tasks), n, d)
        for row in np.flatnonzero(self._asleep[tasks].any(axis=1)):
            sleepers = self._asleep[tasks[row]][self.prior.roots.group_of]
            means[row, sleepers] = self._exact(int(tasks[row]))[0][sleepers]
        return means

    def component_covariances(self, tasks: Int[Array, " m"]) -> Float[Array, "m L p p"]:
        """Cov[theta | history, s]."""
        n, d = self.prior.n_components, self.prior.n_features
        covariances = np.zeros((len(tasks), n, d, d))
        for row, task in enumerate(tasks):
            covariances[row] = self._exact(int(task))[1]
        return covariances

    def _exact(self, task: int) -> tuple[Float[Array, "L p"], Float[Array, "L p p"]]:
        """Means and covariances of every component from the statistics of one task."""
        n_groups, d = self._asleep.shape[1], self.prior.n_features
        mean = np.zeros((1, self.prior.n_components, d))
        store = np.zeros((1, n_groups, d * (d + 1) // 2))
        ranks = np.zeros((1, n_groups), np.int64)
        evidence_kernels.condition(
            np.zeros(1, np.int64), np.ones((1, n_groups), bool), self.prior.noise_std, *self._shape,
            self._count[task : task + 1], self._factor[task : task + 1],
            np.zeros((1, self.prior.n_components)),
            True, np.zeros(1, np.int64), ranks, ranks.copy(), store, mean,
        )  # fmt: skip
        roots = np.zeros((n_groups, d, d))
        roots[:, *np.triu_indices(d)] = store[0]
        covariance = np.swapaxes(roots, 1, 2) @ roots
        return mean[0], covariance[self.prior.roots.group_of]

    def family(self, task: int) -> LinearGaussian:
        """The posterior of one task as a prior."""
        mean, covariance = self._exact(task)
        covariance = (covariance + np.swapaxes(covariance, 1, 2)) / 2
        return type(self.prior)(mean, covariance, self.prior.noise_std)

    def best_action_probabilities(
        self,
        rng: np.random.Generator,
        tasks: Int[Array, " m"],
        weights: Float[Array, "m L"],
        actions: Array | None,
        mask: Bool[Array, "m K"],
        n_samples: int,
    ) -> tuple[Float[Array, "m K"], Float[Array, "m K"]]:
        """Components summed exactly, parameters sampled: unbiased, with its standard error.

        Component s gets ``2 + n_samples w_s`` samples, a number fixed by the history, so that the
        estimate ``sum_s w_s (share of s's samples in which the action is best)`` has the right
        expectation.
        """
        assert actions is not None
        probabilities, errors = np.zeros(mask.shape), np.zeros(mask.shape)
        for row, task in enumerate(tasks):
            w = weights[row]
            active = np.flatnonzero((w > 0) & ~np.isneginf(self.relative[task]))
            sizes = 2 + np.floor(n_samples * w[active]).astype(np.int64)
            latent = np.repeat(active, sizes)
            theta = self.sample(rng, np.full(len(latent), task), latent)
            available = np.flatnonzero(mask[row])
            rows = actions if actions.ndim == 2 else actions[row]
            scores = theta @ rows[available].T
            if not np.isfinite(scores).all():
                raise ActionError(f"the actions of decision {row} must have finite features")
            best = scores == scores.max(axis=1, keepdims=True)
            votes = best / best.sum(axis=1, keepdims=True)
            starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
            share = np.add.reduceat(votes, starts) / sizes[:, None]
            square = np.add.reduceat(votes**2, starts) / sizes[:, None]
            shares = w[active] / w[active].sum()
            probabilities[row, available] = shares @ share
            spread = np.maximum(square - share**2, 0) / (sizes[:, None] - 1)
            errors[row, available] = np.sqrt(shares**2 @ spread)
        return probabilities, errors

    def add_tasks(self, n: int) -> None:
        """Append tasks with no history."""
        self.statistics = self.statistics.extend(n)
        self._pool.add_tasks(n)
        self._asleep = np.pad(self._asleep, ((0, n), (0, 0)))
        self._ceiling = np.pad(self._ceiling, ((0, n), (0, 0)), constant_values=-np.inf)
        self._highest = np.pad(self._highest, (0, n), constant_values=-np.inf)
        self._asleep_since = np.pad(self._asleep_since, ((0, n), (0, 0)))
        self._refresh = np.pad(self._refresh, (0, n), constant_values=_REFRESH)
        if self._lazy is not None:
            self._lazy = np.pad(self._lazy, ((0, n), (0, 0)))
