"""Posteriors of linear tasks in the compiled core: an incremental path to ``LinearPosterior``.

``src/core/linear.hpp`` describes the update; docs/numerics.md has the mathematics.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mixts import _program
from mixts._typing import Array, Bool, Float, Int
from mixts.families.base import Posterior
from mixts.families.choice import NO_MASK, resolve
from mixts.families.linear import LinearFamily, LinearPosterior
from mixts.families.linear_statistics import check_rows, fold_histories, raise_bad_row
from mixts.families.linear_student import LinearStudentPosterior
from mixts.families.statistics import Statistics

BUDGET_BYTES = 1 << 30
"""Memory of the roots and means of one belief's tasks; at least one task always fits.

The statistics of a task are always kept. When there is no room left for its roots and means, those
of all other tasks are freed, and recomputed from statistics when they are next needed.
"""

DORMANT_LIMIT = -math.log(1e-16)
"""A component may be dormant while its weight is surely below 1e-16 of the largest."""

_DORMANT_MARGIN = 4.0
"""It becomes dormant a factor exp(4) below that, so that it does not wake at once."""

_REFRESH = 4096
"""After so many single observations a posterior is recomputed, which removes rounding errors."""


class CoreLinearPosterior(LinearPosterior):
    """Posteriors that the core updates; dormant components are recomputed when read."""

    def __init__(
        self,
        prior: LinearFamily,
        statistics: Statistics,
        log_weights: Float[Array, " L"],
        *,
        allow_dormant: bool = True,
        budget: int | None = None,
    ) -> None:
        self._allow_dormant = allow_dormant
        super().__init__(prior, statistics, log_weights, allow_dormant=allow_dormant)
        roots, (degrees, unit) = prior.roots, prior.noise_prior
        self._misfit = np.zeros((len(statistics), len(degrees)))
        self._core = _program.core.Linear(
            prior.mean, roots.packed, roots.starts, roots.members, log_weights, prior.unit_noise,
            degrees, unit, **self._limits(BUDGET_BYTES if budget is None else budget),
        )  # fmt: skip
        self._bind()

    def _limits(self, budget: int) -> dict[str, Any]:
        """Return when components become dormant, what is recomputed, and how many tasks fit."""
        family = self.prior
        # A reward's density is not bounded if the noise may be small: then none is dormant.
        sleeps = self._allow_dormant and not len(family.noise_prior[0])
        return {
            "limit": DORMANT_LIMIT,
            "margin": _DORMANT_MARGIN if sleeps else math.inf,
            # One observation adds at most this to a log evidence.
            "gain": -0.5 * math.log(2 * math.pi * family.unit_noise**2),
            "refresh": _REFRESH,
            "n_slots": max(1, budget // family.task_bytes),
        }

    def _bind(self) -> None:
        """Let the core work on the arrays of today."""
        count, factor = self._statistics.stored
        self._core.bind(count, factor, self._evidence, self._misfit)

    def __reduce__(self) -> Any:
        """Copy prior and statistics.

        The rest is recomputed from them, here too: so both go on with the same bits.
        """
        self._core.forget()
        return _restore, (self.prior, self.statistics, self._log_weights, self._allow_dormant)

    @property
    def statistics(self) -> Statistics:
        """Statistics of the tasks; updates change their arrays in place."""
        return self._statistics

    @statistics.setter
    def statistics(self, statistics: Statistics) -> None:
        self._statistics = statistics
        if hasattr(self, "_core"):
            self._bind()

    def quick(self) -> Any:
        """Return the core object."""
        return self._core

    # -- evidence and updates -------------------------------------------------------------------

    def _evaluate(self) -> None:
        """Compute the evidence at the first read."""
        self._core.evaluate()

    def log_evidence(self) -> Float[Array, "n L"]:
        """Return log p(history | s), exact for every component."""
        result = np.empty_like(self._evidence)
        self._core.log_evidence(result)
        return result

    def update(self, tasks: Int[Array, " m"], observed: tuple[Array, ...]) -> None:
        """Take observations, all or none: a few one at a time, a long history at once."""
        features, outcomes = observed
        most = 2 * self.prior.n_features
        if len(tasks) > most:
            check_rows(features, outcomes)
            # From about 2 d observations on, a factorisation costs less than the single steps.
            long = np.bincount(tasks)[tasks] > most
            if long.any():
                stored = self.statistics.stored
                fold_histories(tasks[long], features[long], outcomes[long], *stored)
                self._core.recompute(np.unique(tasks[long]))
                tasks, features, outcomes = tasks[~long], features[~long], outcomes[~long]
        bad = self._core.update(tasks, features, outcomes)
        if bad >= 0:
            raise_bad_row(features, outcomes, bad)

    def add_tasks(self, n: int) -> None:
        """Append tasks with no history."""
        self._statistics = self._statistics.extend(n)
        self._evidence = np.pad(self._evidence, ((0, n), (0, 0)))
        self._misfit = np.pad(self._misfit, ((0, n), (0, 0)))
        self._bind()

    # -- parameters and actions -----------------------------------------------------------------

    def decide(
        self,
        rng: np.random.Generator,
        log_weights: Float[Array, " L"],
        tasks: Int[Array, " m"],
        mask: Bool[Array, "m K"] | None,
        actions: Array | None = None,
    ) -> tuple[Int[Array, " m"], Int[Array, " m"]] | None:
        """Draw components and parameters, and find the best actions, in one pass."""
        if actions is None:
            return None
        sets, m = actions if actions.ndim == 3 else actions[None], len(tasks)
        available = NO_MASK if mask is None else mask
        scores, (best, latent) = np.empty((m, sets.shape[1])), np.empty((2, m), np.int64)
        code = self._core.decide(rng, tasks, sets, available, scores, best, latent)
        if code:
            resolve(rng, code, scores, available, best)
        return best, latent

    def _place(
        self, tasks: Int[Array, " m"], latent: Int[Array, " m"], x: Float[Array, "m d"]
    ) -> Float[Array, "m d"]:
        self._core.place(tasks, latent, x)
        return x

    def _means(self, tasks: Int[Array, " m"]) -> Float[Array, "m L d"]:
        means = np.empty((len(tasks), *self.prior.mean.shape))
        self._core.means(tasks, means)
        return means

    def component_roots(self, tasks: Int[Array, " m"]) -> Float[Array, "m L d d"]:
        """Return C_t'; zeros for dormant components."""
        d, packed = self.prior.n_features, self.prior.roots.packed
        found = np.zeros((len(tasks), *packed.shape))
        self._core.roots(tasks, found)
        roots = np.zeros((len(tasks), len(packed), d, d))
        roots[:, :, *np.triu_indices(d)] = found
        return roots[:, self.prior.roots.group_of]

    def action_moments(self, tasks: Int[Array, " m"], actions: Array) -> Float[Array, "2 m L K"]:
        """Return mean and variance of a'theta; zeros for dormant components."""
        moments = np.zeros((2, len(tasks), self.prior.n_components, actions.shape[-2]))
        sets = actions[None] if actions.ndim == 2 else actions
        self._core.action_moments(tasks, sets, moments[0], moments[1])
        return moments

    def action_means(self, tasks: Int[Array, " m"], actions: Array) -> Float[Array, "m L K"]:
        means = np.zeros((len(tasks), self.prior.n_components, actions.shape[-2]))
        sets = actions[None] if actions.ndim == 2 else actions
        self._core.action_moments(tasks, sets, means, means[:0])
        return means

    def _vote(
        self, rng: np.random.Generator, tasks: Int[Array, " m"], weights: Float[Array, "m L"],
        pairs: Int[Array, "m L"], sets: Array, mask: Bool[Array, "m K"],
    ) -> tuple[Float[Array, "3 m K"], int]:  # fmt: skip
        found = np.zeros((3, *mask.shape))
        return found, self._core.best_in_draws(rng, tasks, weights, pairs, sets, mask, found)


class CoreLinearStudentPosterior(CoreLinearPosterior, LinearStudentPosterior):
    """The same with unknown noise."""


def _restore(prior: LinearFamily, statistics: Any, log_weights: Any, allow_dormant: bool) -> Any:
    """Build a posterior from what ``__reduce__`` returned."""
    return prior.posterior(statistics, log_weights, allow_dormant=allow_dormant)


CORE_POSTERIORS: dict[type[Posterior], Any] = {
    LinearPosterior: CoreLinearPosterior,
    LinearStudentPosterior: CoreLinearStudentPosterior,
}
"""The posterior that the core keeps in place of each plain one."""
