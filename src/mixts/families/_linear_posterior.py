"""Posteriors of linear tasks: updated one observation at a time, or computed from statistics.

The arrays are records of ``_kernels.slots``; docs/numerics.md has the mathematics.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from mixts._typing import Array, Bool, Float, Int
from mixts.errors import ActionError
from mixts.families._kernels import actions as action_kernels
from mixts.families._kernels import linear as kernels
from mixts.families._kernels.linear import condition
from mixts.families._kernels.roots import N_SCRATCH
from mixts.families._kernels.rows import fold_block
from mixts.families._kernels.slots import LOST, NEW, Dormancy, Histories, Prior, mark_dormant
from mixts.families._linear_rewards import LinearRewards
from mixts.families._linear_slots import BUDGET_BYTES, SlotPool, empty_slots
from mixts.families.base import Posterior, Waiting
from mixts.families.choice import NO_MASK, resolve
from mixts.families.linear_statistics import check_rows, raise_bad_row
from mixts.families.rewards import RewardBelief, reweighed
from mixts.families.statistics import Statistics

if TYPE_CHECKING:
    from mixts.families.linear import LinearFamily

DORMANT_LIMIT = -math.log(1e-16)
"""A component may be dormant while its weight is surely below 1e-16 of the largest."""

_DORMANT_MARGIN = 4.0
"""It becomes dormant a factor exp(4) below that, so that it does not wake at once."""

_DRAWS_AT_ONCE = 1 << 17
"""Random numbers of one compiled pass over decisions: a megabyte, which the cache holds."""

_REFRESH = 4096
"""After so many single observations a posterior is recomputed, which removes rounding errors."""


class LinearPosterior(Posterior):
    """Posteriors of every component for each task; dormant ones are recomputed when read."""

    def __init__(
        self,
        prior: LinearFamily,
        statistics: Statistics,
        log_weights: Float[Array, " L"],
        *,
        allow_dormant: bool = True,
        budget: int = BUDGET_BYTES,
    ) -> None:
        super().__init__(prior, statistics, log_weights, allow_dormant=allow_dormant)
        n, n_components, roots = len(statistics), prior.n_components, prior.roots
        n_groups = len(roots.values)
        self._prior = Prior(
            prior.mean.copy(), roots.packed, roots.starts, roots.members, roots.group_of,
            log_weights, prior.unit_noise, prior.unit_noise**2,
            *(np.array(part) for part in prior.noise_prior),
        )  # fmt: skip
        known = not len(self._prior.degrees)
        self._pool = SlotPool(n, n_groups, n_components, prior.n_features, budget)
        if n <= self._pool.max_slots and not self._histories.counts.any():
            self._pool.admit(np.arange(n))
        self._dormancy = Dormancy(
            relative_evidence=np.zeros((n, n_components)),
            misfit=np.zeros((n, 0 if known else n_components)),
            dormant=np.zeros((n, n_groups), bool),
            ceiling=np.full((n, n_groups), -np.inf),
            highest=np.full(n, -np.inf),
            since=np.zeros((n, n_components)),
            refresh=self._histories.counts + _REFRESH,
            limit=DORMANT_LIMIT,
            # A reward's density is not bounded if the noise may be small: then none is dormant.
            margin=_DORMANT_MARGIN if allow_dormant and known else math.inf,
            gain=-0.5 * math.log(2 * math.pi * prior.unit_noise**2),
        )
        d = prior.n_features
        self._scratch = np.empty((N_SCRATCH, d + 1))
        self._work = np.empty((3, d, d + int(np.diff(roots.starts).max())))
        self._has_evidence = False

    @property
    def statistics(self) -> Statistics:
        """Statistics of the tasks; updates change their arrays in place."""
        return self._statistics

    @statistics.setter
    def statistics(self, statistics: Statistics) -> None:
        self._statistics = statistics
        self._histories = Histories(statistics.array("count"), statistics.array("factor"))

    # -- log evidence -------------------------------------------------------------------------

    @property
    def relative_evidence(self) -> Float[Array, "n L"]:  # type: ignore[override]
        """log p(history | s), -inf where the component is dormant; computed at the first read."""
        if not self._has_evidence:
            self._has_evidence = True
            seen = np.flatnonzero(self._histories.counts)
            if len(seen):
                wanted = np.ones((len(seen), self._n_groups), bool)
                self._dormancy.relative_evidence[seen] = self._evidence(seen, wanted)
                self._mark_dormant(seen)
        return self._dormancy.relative_evidence

    @property
    def _n_groups(self) -> int:
        return len(self._prior.roots)

    def log_evidence(self) -> Float[Array, "n L"]:
        """Return log p(history | s), exact for every component.

        Tasks with dormant components are computed from their statistics, all components alike, so
        that their differences keep their digits.
        """
        result = self.relative_evidence.copy()
        has_dormant = np.flatnonzero(self._dormancy.dormant.any(axis=1))
        if len(has_dormant):
            wanted = np.ones((len(has_dormant), self._n_groups), bool)
            result[has_dormant] = self._evidence(has_dormant, wanted)
        return result

    def _evidence(
        self, tasks: Int[Array, " m"], wanted: Bool[Array, "m G"], *, keep: bool = False
    ) -> Float[Array, "m L"]:
        """Compute log evidence from statistics; with ``keep``, write posteriors to the slots."""
        out = np.zeros((len(tasks), self.prior.n_components))
        arrays = tuple(self._prior), tuple(self._histories), tuple(self._pool.arrays)
        condition(tasks, wanted, *arrays, keep, self._work, (out, self._dormancy.misfit))
        return out

    # -- slots --------------------------------------------------------------------------------

    def _admit(self, tasks: Int[Array, " m"]) -> None:
        """Put the posteriors of these distinct tasks into slots."""
        new = self._pool.admit(tasks)
        if not len(new):
            return
        known, slots = self._histories.counts[new] > 0, self._pool.arrays
        if not known.all():
            fresh = slots.of_task[new[~known]]
            slots.waiting[fresh] = NEW
        if known.any():
            new = new[known]
            self.relative_evidence  # noqa: B018 - decides which groups are dormant
            slots.waiting[slots.of_task[new]] = LOST
            self._rebuild(new)

    def _rebuild(self, tasks: Int[Array, " m"]) -> None:
        """Recompute the posteriors of all groups that are not dormant from the statistics."""
        fresh = self._evidence(tasks, ~self._dormancy.dormant[tasks], keep=True)
        dormant = np.isneginf(self.relative_evidence[tasks])
        self.relative_evidence[tasks] = np.where(dormant, -np.inf, fresh)

    def _chunks(self, tasks: Int[Array, " m"]) -> list[Array]:
        """Return positions of ``tasks`` in parts whose tasks fit into the pool at once."""
        if self._pool.holds_all or len(tasks) <= self._pool.max_slots:
            return [np.arange(len(tasks))]
        distinct, inverse = np.unique(tasks, return_inverse=True)
        if len(distinct) <= self._pool.max_slots:
            return [np.arange(len(tasks))]
        part = inverse // self._pool.max_slots
        return [np.flatnonzero(part == i) for i in range(int(part.max()) + 1)]

    # -- updates ------------------------------------------------------------------------------

    def update(self, tasks: Int[Array, " m"], observed: tuple[Array, ...]) -> None:
        """Take observations, all or none: a few one at a time, a long history at once."""
        actions, outcomes = observed
        m, d = actions.shape
        if m > 2 * d or not self._pool.holds_all:
            self._update_many(tasks, actions, outcomes)
        else:
            self._observe(tasks, actions, outcomes)

    def _update_many(self, tasks: Int[Array, " m"], actions: Array, outcomes: Array) -> None:
        check_rows(actions, outcomes)
        length = np.bincount(tasks, minlength=1)[tasks]
        # From about 2 d observations on, a factorisation costs less than the single steps.
        long = length > 2 * actions.shape[1]
        if long.any():
            self._update_long(tasks[long], actions[long], outcomes[long])
            tasks, actions, outcomes = tasks[~long], actions[~long], outcomes[~long]
        for part in self._chunks(tasks):
            self._admit(np.unique(tasks[part]))
            self._observe(tasks[part], actions[part], outcomes[part])

    def _update_long(self, tasks: Int[Array, " m"], actions: Array, outcomes: Array) -> None:
        """Fold long histories into the statistics, and compute the evidence once."""
        (count, factor), dormancy = self._histories, self._dormancy
        evidence = self.relative_evidence
        order = np.argsort(tasks, kind="stable")
        distinct, first = np.unique(tasks[order], return_index=True)
        for task, rows in zip(distinct, np.split(order, first[1:]), strict=True):
            factor[task] = fold_block(factor[task], actions[rows], outcomes[rows])
            count[task] += len(rows)
        dormancy.dormant[distinct] = False
        dormancy.highest[distinct] = -np.inf
        dormancy.refresh[distinct] = count[distinct] + _REFRESH
        held = self._pool.of_task[distinct] >= 0
        for some, keep in ((distinct[held], True), (distinct[~held], False)):
            evidence[some] = self._evidence(some, ~dormancy.dormant[some], keep=keep)
        self._mark_dormant(distinct)

    def _observe(self, tasks: Int[Array, " m"], actions: Array, outcomes: Array) -> None:
        """Take checked or unchecked observations of tasks that are in the pool."""
        self.relative_evidence  # noqa: B018 - decides which groups are dormant
        flagged = kernels.observe((tasks, actions, outcomes), *self._plain())
        if flagged < 0:
            raise_bad_row(actions, outcomes, -1 - flagged)
        if flagged:
            self._mark_dormant(tasks)

    # -- dormant components -------------------------------------------------------------------

    def _mark_dormant(self, tasks: Int[Array, " m"]) -> None:
        """Make negligible groups dormant, and recheck dormant groups whose bound has risen."""
        if mark_dormant(tasks, *self._plain()):
            self._recheck_dormant(tasks)

    def _plain(self) -> tuple[Any, ...]:
        """Return all arrays as compiled loops take them."""
        records = (self._prior, self._histories, self._pool.arrays, self._dormancy)
        return *(tuple(record) for record in records), self._scratch

    def _recheck_dormant(self, tasks: Int[Array, " m"]) -> None:
        """Wake the dormant groups that may matter; refresh the tasks that are due."""
        distinct, pool, dormancy = np.unique(tasks), self._pool, self._dormancy
        counts = self._histories.counts[distinct]
        due = distinct[counts >= dormancy.refresh[distinct]]
        if len(due):
            dormancy.refresh[due] = self._histories.counts[due] + _REFRESH
            resident = due[pool.of_task[due] >= 0]
            if len(resident):
                self._rebuild(resident)
        lead = (self._prior.log_weights + self.relative_evidence[distinct]).max(axis=1)
        enough = lead - dormancy.limit - counts * dormancy.gain
        unsure = dormancy.dormant[distinct] & (dormancy.ceiling[distinct] > enough[:, None])
        for row in np.flatnonzero(unsure.any(axis=1)):
            self._wake(int(distinct[row]), unsure[row])
        if unsure.any():
            # Those that are negligible go back to sleep: their bounds are tight again.
            mark_dormant(distinct, *self._plain())

    def _wake(self, task: int, waking: Bool[Array, " G"]) -> None:
        """Recompute these groups of a task from its statistics."""
        dormancy = self._dormancy
        dormancy.dormant[task, waking] = False
        resident = bool(self._pool.of_task[task] >= 0)
        woken = self._evidence(np.array([task]), waking[None], keep=resident)[0]
        members = waking[self.prior.roots.group_of]
        self.relative_evidence[task, members] = woken[members]
        ceilings = dormancy.ceiling[task, dormancy.dormant[task]]
        dormancy.highest[task] = ceilings.max(initial=-np.inf)

    # -- decisions and readers ----------------------------------------------------------------

    def decide(
        self,
        rng: np.random.Generator,
        log_weights: Float[Array, " L"],
        tasks: Int[Array, " m"],
        mask: Bool[Array, "m K"] | None,
        actions: Array | None = None,
    ) -> tuple[Int[Array, " m"], Int[Array, " m"]] | None:
        """Draw components and parameters, and find the best actions, in one compiled pass."""
        if actions is None or not self._pool.holds_all:
            return None
        evidence, m = self.relative_evidence, len(tasks)
        uniform, x = rng.random(m), rng.standard_normal((m, self.prior.n_features))
        sets = actions if actions.ndim == 3 else actions[None]
        available = NO_MASK if mask is None else mask
        scores, (best, latent) = np.empty((m, sets.shape[1])), np.empty((2, m), np.int64)
        prior, _, slots, _, scratch = self._plain()
        offer = sets, available, scores, best, latent
        code = kernels.decide((tasks, uniform, x), offer, prior, slots, evidence, scratch)
        if code:
            resolve(rng, code, scores, available, best)
        return best, latent

    def sample(
        self, rng: np.random.Generator, tasks: Int[Array, " m"], latent: Int[Array, " m"]
    ) -> Float[Array, "m p"]:
        """Draw theta ~ N(mean, covariance) of the component of each task."""
        return self._place(tasks, latent, rng.standard_normal((len(tasks), self.prior.n_features)))

    def _place(
        self, tasks: Int[Array, " m"], latent: Int[Array, " m"], x: Float[Array, "m p"]
    ) -> Float[Array, "m p"]:
        """Turn standard normals into parameters, in place; zeros become means."""
        if self._pool.holds_all:
            self._move(tasks, latent, x)
            return x
        for part in self._chunks(tasks):
            self._admit(np.unique(tasks[part]))
            moved = x[part]
            self._move(tasks[part], latent[part], moved)
            x[part] = moved
        return x

    def _move(self, tasks: Int[Array, " m"], latent: Int[Array, " m"], x: Array) -> None:
        arrays = tuple(self._prior), tuple(self._pool.arrays), self._dormancy.misfit
        kernels.sample(tasks, latent, *arrays, self._scratch, x)

    def prepare(self, tasks: Int[Array, " m"], latent: Int[Array, " m"]) -> None:
        """Wake the components of these pairs; the next update makes negligible ones dormant."""
        self.relative_evidence  # noqa: B018 - decides which groups are dormant
        dormant, groups = self._dormancy.dormant, self.prior.roots.group_of[latent]
        for task in np.unique(tasks[dormant[tasks, groups]]):
            waking = np.zeros(self._n_groups, bool)
            waking[groups[tasks == task]] = True
            self._admit(np.array([task]))
            self._wake(int(task), waking & dormant[task])

    def component_means(self, tasks: Int[Array, " m"]) -> Float[Array, "m L p"]:
        """Return E[theta | history, s]; dormant components are recomputed."""
        return self._means(tasks)

    def _means(self, tasks: Int[Array, " m"]) -> Float[Array, "m L d"]:
        n, d = self.prior.n_components, self.prior.n_features
        self.relative_evidence  # noqa: B018 - decides which groups are dormant
        pairs, latent = np.repeat(tasks, n), np.tile(np.arange(n), len(tasks))
        means = self._place(pairs, latent, np.zeros((len(pairs), d))).reshape(len(tasks), n, d)
        for row in np.flatnonzero(self._dormancy.dormant[tasks].any(axis=1)):
            dormant = self._dormancy.dormant[tasks[row]][self.prior.roots.group_of]
            means[row, dormant] = self._exact(int(tasks[row]))[0][dormant]
        return means

    def component_covariances(self, tasks: Int[Array, " m"]) -> Float[Array, "m L p p"]:
        """Return Cov[theta | history, s]."""
        n, d = self.prior.n_components, self.prior.n_features
        covariances = np.zeros((len(tasks), n, d, d))
        for row, task in enumerate(tasks):
            covariances[row] = self._exact(int(task))[1]
        return covariances

    def component_roots(self, tasks: Int[Array, " m"]) -> Float[Array, "m L d d"]:
        """Return R with R'R = Cov[theta | history, s], in units of the noise.

        Zeros for dormant components.
        """
        d = self.prior.n_features
        active = ~np.isneginf(self.relative_evidence[tasks])
        roots = np.zeros((len(tasks), self._n_groups, d, d))
        upper = np.triu_indices(d)
        for part in self._parts(tasks, active.sum(axis=1)):
            own = np.zeros_like(roots[part])
            own[:, :, *upper] = self._pool.arrays.root[self._settled(tasks[part])]
            roots[part] = own
        return np.where(active[..., None, None], roots[:, self.prior.roots.group_of], 0.0)

    def _exact(self, task: int) -> tuple[Float[Array, "L p"], Float[Array, "L p p"]]:
        """Compute means and covariances of every component from the statistics of one task."""
        n, d = self.prior.n_components, self.prior.n_features
        one = np.zeros(1, np.int64)
        slot = empty_slots(1, self._n_groups, n, d)._replace(of_task=one)
        history = Histories(*(array[task : task + 1] for array in self._histories))
        wanted = np.ones((1, self._n_groups), bool)
        arrays = tuple(self._prior), tuple(history), tuple(slot)
        out = np.zeros((1, n)), np.zeros((1, self._dormancy.misfit.shape[1]))
        condition(one, wanted, *arrays, True, self._work, out)
        roots = np.zeros((self._n_groups, d, d))
        roots[:, *np.triu_indices(d)] = slot.root[0]
        covariance = np.swapaxes(roots, 1, 2) @ roots
        return slot.mean[0], covariance[self.prior.roots.group_of]

    def family(self, task: int) -> LinearFamily:
        """Return the posterior of one task as a prior."""
        mean, covariance = self._exact(task)
        covariance = (covariance + np.swapaxes(covariance, 1, 2)) / 2
        return self.prior.with_moments(mean, covariance)

    def best_in_draws(
        self,
        rng: np.random.Generator,
        tasks: Int[Array, " m"],
        weights: Float[Array, "m L"],
        actions: Array,
        mask: Bool[Array, "m K"],
        n_samples: int,
    ) -> Float[Array, "3 m K"]:
        """Estimate P(action is best), the variance of that estimate, and regrets, without bias.

        The regret is E[max_b X_b] - E[X_a], X_a = a'theta. Only E[max_b X_b - X_lead] is sampled,
        where lead is the action of the highest mean: the other differences come from exact means.

        Components are summed exactly, and parameters are sampled. Component s gets
        ``2 + n_samples w_s / 2`` pairs of samples, a number fixed by the history, so that the
        estimate ``sum_s w_s (mean over s's samples)`` has the right expectation. The samples of a
        pair lie opposite each other about the mean, which mostly makes the error smaller.
        """
        pairs = 2 + (n_samples / 2 * weights).astype(np.int64)
        pairs[(weights <= 0) | np.isneginf(self.relative_evidence[tasks])] = 0
        sizes = pairs.sum(axis=1)
        found = np.zeros((3, *mask.shape))
        scratch = action_kernels.new_scratch(self.prior.n_features, mask.shape[1])
        for part in self._parts(tasks, sizes):
            x = rng.standard_normal((sizes[part].sum(), self.prior.n_features))
            self._add_noise(rng, tasks[part], pairs[part], x)
            decisions = self._decisions(part, tasks, actions, mask, weights, pairs) + scratch
            own = found[:, part]
            bad = action_kernels.best_in_draws(decisions, x, own)
            if bad >= 0:
                row = np.arange(len(tasks))[part][bad]
                raise ActionError(f"the actions of decision {row} must have finite features")
            found[:, part] = own
        return found

    def _add_noise(
        self, rng: np.random.Generator, tasks: Int[Array, " m"], pairs: Int[Array, "m L"], x: Array
    ) -> None:
        """Multiply the draws x of ``best_in_draws`` by their noise, if that is unknown."""
        return None

    def action_moments(self, tasks: Int[Array, " m"], actions: Array) -> Float[Array, "2 m L K"]:
        """Return mean and variance of a'theta for all actions; zeros for dormant components."""
        moments = np.zeros((2, len(tasks), self.prior.n_components, actions.shape[-2]))
        self._add_moments(tasks, actions, moments[0], moments[1])
        return moments

    def action_means(self, tasks: Int[Array, " m"], actions: Array) -> Float[Array, "m L K"]:
        """Return the mean of a'theta for all actions; zeros for dormant components."""
        means = np.zeros((len(tasks), self.prior.n_components, actions.shape[-2]))
        self._add_moments(tasks, actions, means, means[:0])
        return means

    def _add_moments(
        self, tasks: Int[Array, " m"], actions: Array, mean: Array, variance: Array
    ) -> None:
        """Write moments of a'theta to zeros (m, L, K); an empty variance is not computed."""
        active = ~np.isneginf(self.relative_evidence[tasks])
        mask = np.ones((len(tasks), actions.shape[-2]), bool)
        weights, pairs = active.astype(float), active.astype(np.int64)
        scratch = action_kernels.new_scratch(self.prior.n_features, actions.shape[-2])
        for part in self._parts(tasks, pairs.sum(axis=1)):
            decisions = self._decisions(part, tasks, actions, mask, weights, pairs) + scratch
            own = mean[part], variance[part] if len(variance) else variance
            action_kernels.action_moments(decisions, own)
            mean[part] = own[0]
            if len(variance):
                variance[part] = own[1]

    def _parts(self, tasks: Int[Array, " m"], sizes: Int[Array, " m"]) -> Iterator[slice | Array]:
        """Yield positions of ``tasks`` in parts, and give the tasks of each part slots.

        ``sizes`` is the number of vectors that each decision needs; a part of several decisions
        needs about ``_DRAWS_AT_ONCE`` numbers at most.
        """
        at_once = max(1, _DRAWS_AT_ONCE // self.prior.n_features)
        if self._pool.holds_all and sizes.sum() <= at_once:
            yield slice(None)
            return
        for part in self._chunks(tasks):
            self._admit(np.unique(tasks[part]))
            ends = np.flatnonzero(np.diff(np.cumsum(sizes[part]) // at_once)) + 1
            yield from np.split(part, ends)

    def _decisions(
        self,
        part: slice | Array,
        tasks: Int[Array, " m"],
        actions: Array,
        mask: Bool[Array, "m K"],
        weights: Float[Array, "m L"],
        pairs: Int[Array, "m L"],
    ) -> tuple[Array, ...]:
        """Return the fields of ``_kernels.actions.Decisions`` for a part of the decisions.

        The scratch arrays are left out.
        """
        slot = self._settled(tasks[part])
        sets = actions[None] if actions.ndim == 2 else actions[part]
        slots, prior = self._pool.arrays, self._prior
        return (
            sets, mask[part], weights[part], pairs[part], slot, slots.mean, slots.root,
            prior.starts, prior.members,
        )  # fmt: skip

    def _settled(self, tasks: Int[Array, " m"]) -> Int[Array, " m"]:
        """Bring roots and means of these tasks up to date; return their slots."""
        slot, arrays = self._pool.of_task[tasks], self._pool.arrays
        waiting = arrays.waiting[slot]
        rows, groups = np.nonzero((waiting > 0) | (waiting == NEW))
        if len(rows):
            latent = self._prior.members[self._prior.starts[groups]]
            self._move(tasks[rows], latent, np.zeros((len(rows), self.prior.n_features)))
        return slot

    def rewards(
        self,
        tasks: Int[Array, " m"],
        weights: Float[Array, "m L"],
        actions: Array | None,
        waiting: Waiting | None = None,
    ) -> RewardBelief:
        """Return the belief about a'theta of the offered actions."""
        assert actions is not None
        if waiting is None or not np.isin(waiting.tasks, tasks).any():
            return self._rewards(tasks, weights, actions)
        distinct, rows = np.unique(tasks, return_inverse=True)
        place, features = waiting.among(distinct)
        first = np.unique(rows, return_index=True)[1]
        theta = np.einsum("ml,mld->md", weights[first], self._means(distinct))
        statistics = self.statistics[distinct]
        self._expect(statistics, place, (features, (features * theta[place]).sum(axis=1)))
        after = type(self)(self.prior, statistics, self._prior.log_weights)
        before = self.relative_evidence[distinct][rows]
        weights = reweighed(weights, after.relative_evidence[rows], before)
        return after._rewards(rows, weights, actions)

    def _rewards(
        self, tasks: Int[Array, " m"], weights: Float[Array, "m L"], actions: Array
    ) -> RewardBelief:
        return LinearRewards(self, tasks, weights, actions)

    def _expect(
        self, statistics: Statistics, tasks: Int[Array, " w"], observed: tuple[Array, ...]
    ) -> None:
        """Count rewards that are expected, but have not come."""
        statistics.observe(tasks, observed)

    def add_tasks(self, n: int) -> None:
        """Append tasks with no history."""
        self.statistics = self.statistics.extend(n)
        self._pool.add_tasks(n)
        old, rows = self._dormancy, ((0, n), (0, 0))
        self._dormancy = old._replace(
            relative_evidence=np.pad(old.relative_evidence, rows),
            misfit=np.pad(old.misfit, rows),
            dormant=np.pad(old.dormant, rows),
            ceiling=np.pad(old.ceiling, rows, constant_values=-np.inf),
            highest=np.pad(old.highest, (0, n), constant_values=-np.inf),
            since=np.pad(old.since, rows),
            refresh=np.pad(old.refresh, (0, n), constant_values=_REFRESH),
        )
