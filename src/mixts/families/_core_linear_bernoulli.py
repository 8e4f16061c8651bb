"""Posteriors of clicks with features in the compiled core: those of components that can matter.

Two computations are kept apart. Decisions use posteriors of at most ``KEPT_POINTS`` points, one
task at a time, and leave dormant components out. Readers of ``log_evidence`` get all components
with more points.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mixts._typing import Array, Float, Int
from mixts.families._linear_bernoulli_posterior import (
    KEPT_POINTS,
    LinearBernoulliPosterior,
    click_tasks,
)
from mixts.families._logistic import TOLERANCE, new_posterior, posterior_moments

_DORMANT_MARGIN = 4.0
"""A component becomes dormant when its weight is a factor exp(4) below 1e-16 of the largest: the
estimated evidence has an error."""


class CoreLinearBernoulliPosterior(LinearBernoulliPosterior):
    """The same with dormant components, which are computed when read."""

    def __init__(
        self,
        prior: Any,
        statistics: Any,
        log_weights: Float[Array, " L"],
        *,
        allow_dormant: bool = True,
    ) -> None:
        super().__init__(prior, statistics, log_weights, allow_dormant=allow_dormant)
        self._margin = _DORMANT_MARGIN if allow_dormant else math.inf
        self._ceiling, self._precise = np.zeros((2, len(statistics), prior.n_components))
        """Log evidence when it was last computed, which every further click or silence lowers; and
        log evidence at full precision."""
        self._is_stale = statistics.tables.size > 0
        """Tasks whose ``_precise`` is out of date."""

    def _computed(self, task: int, found: Any) -> Any:
        found = found or new_posterior(self.prior.design, KEPT_POINTS)
        found.compute(
            *self._table(task), self._log_weights, self._ceiling[task], self._evidence[task],
            self._margin, TOLERANCE, KEPT_POINTS,
        )  # fmt: skip
        return found

    def log_evidence(self) -> Float[Array, "n L"]:
        stale = np.flatnonzero(self._is_stale)
        if len(stale):
            tasks = click_tasks(self.statistics[stale])
            found = posterior_moments(self.prior.design, tasks, moments=False)
            self._precise[stale], self._error[stale] = found.log_evidence, found.error
            self._is_stale[stale] = False
        return self._precise.copy()

    def update(self, tasks: Int[Array, " m"], observed: tuple[Array, ...]) -> None:
        super().update(tasks, observed)
        self._is_stale[tasks] = True

    def add_tasks(self, n: int) -> None:
        super().add_tasks(n)
        self._ceiling, self._precise = (
            np.pad(array, ((0, n), (0, 0))) for array in (self._ceiling, self._precise)
        )
        self._is_stale = np.pad(self._is_stale, (0, n))
