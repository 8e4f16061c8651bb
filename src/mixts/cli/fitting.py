"""What ``mixts fit`` does with the logs it has read: hold tasks out, learn, check."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from mixts import _checks, _random
from mixts._typing import Array, Int
from mixts.engines import Engine
from mixts.errors import ConvergenceWarning, ParameterError
from mixts.families import Statistics
from mixts.families.linear import CovarianceType
from mixts.learning import Learned, Method, learn, robust_prior
from mixts.learning.check import PriorCheck, check_prior
from mixts.logs import TaskLogs
from mixts.pages.kinds import Kind, kinds_of
from mixts.prior import MixturePrior

SELECT_FROM = 1000
"""Tasks are enough to compare numbers of kinds, and it is learned anew from all with the best."""
MOST_HELD_OUT = 1000
"""Tasks are enough for a check."""


@dataclass(frozen=True)
class Settings:
    """How to learn and check."""

    components: int | str
    method: Method
    noise_std: float | None
    covariance: CovarianceType | None
    robust: float
    held_out: float
    seed: int
    select_from: int

    def __post_init__(self) -> None:
        if not 0 <= self.held_out < 1:
            raise ParameterError(
                f"--held-out must be a fraction from 0 to below 1, got {self.held_out:g}"
            )
        if not 0 <= self.robust < 1:
            raise ParameterError(
                f"--robust must be a weight from 0 to below 1, got {self.robust:g}"
            )
        _checks.count(self.select_from, "--select-from")
        if self.components != "auto":
            _checks.count(self.components, "--components")


@dataclass(frozen=True)
class Fitted:
    """A prior with all that is known of it."""

    logs: TaskLogs
    settings: Settings
    learned: Learned
    prior: MixturePrior
    """The learned one with names, and the broad component where one was asked for."""
    training: Int[Array, " n"]
    """The tasks that it was learned from."""
    held_out: Int[Array, " m"]
    check: PriorCheck | None
    converged: bool
    n_compared: int
    """Tasks that numbers of kinds were compared on; 0 where none was."""

    @property
    def n_items(self) -> int:
        """Arms or features."""
        return len(self.items)

    @property
    def items(self) -> tuple[str, ...]:
        """Their names."""
        return self.logs.arms or self.logs.features or ()

    @property
    def n_kinds(self) -> int:
        """Components that were learned."""
        return self.learned.prior.n_components

    @cached_property
    def kinds(self) -> tuple[Kind, ...]:
        """What they are, in words."""
        tasks = self.logs.statistics[self.training]
        return kinds_of(self.prior, tasks, self.items, self.n_kinds)

    @property
    def outcome(self) -> str:
        """How many kinds were found, and how that went."""
        number = "1 kind" if self.n_kinds == 1 else f"{self.n_kinds} kinds"
        parts = [f"{number} of task, learned from {len(self.training):,} tasks"]
        if self.learned.selection is not None:
            last = self.learned.selection.candidates[-1]
            on = "" if self.n_compared == len(self.training) else f" on {self.n_compared:,} tasks"
            parts.append(f"1 to {last} kinds compared{on}")
        if self.learned.history is not None:
            n = self.learned.history.n_iterations
            word = "converged after" if self.converged else "NOT CONVERGED after"
            parts.append(f"{word} {n} iteration{'s' * (n != 1)}")
        return "; ".join(parts)


def fit(logs: TaskLogs, settings: Settings, engine: Engine | None) -> Fitted:
    """Learn from most tasks, and check on those that were held out."""
    training, held_out = _split(len(logs.tasks), settings)
    tasks = logs.statistics[training]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        learned, n_compared = _learned(tasks, settings, engine)
    for warning in caught:
        if not issubclass(warning.category, ConvergenceWarning):
            warnings.warn_explicit(
                warning.message, warning.category, warning.filename, warning.lineno
            )
    converged = learned.history is None or learned.history.converged
    n = learned.prior.n_components
    names = [f"kind {s + 1}" for s in range(n)]
    prior = _named(learned.prior, names, logs)
    if settings.robust:
        prior = robust_prior(prior, settings.robust)
    check = None
    if len(held_out):
        unimodal = _named(learned.unimodal, None, logs)
        check = check_prior(prior, logs.statistics[held_out], unimodal=unimodal, seed=settings.seed)
    return Fitted(logs, settings, learned, prior, training, held_out, check, converged, n_compared)


def _split(n_tasks: int, settings: Settings) -> tuple[Array, Array]:
    """Tasks to learn from and tasks to check on, at random."""
    n = min(int(settings.held_out * n_tasks), MOST_HELD_OUT)
    order = _random.stream(settings.seed, "fit", "held out").permutation(n_tasks)
    return np.sort(order[n:]), np.sort(order[:n])


def _learned(tasks: Statistics, settings: Settings, engine: Engine | None) -> tuple[Learned, int]:
    options: dict[str, Any] = {
        "method": settings.method, "seed": settings.seed, "noise_std": settings.noise_std,
        "covariance_type": settings.covariance, "engine": engine,
    }  # fmt: skip
    number: Any = settings.components
    if number != "auto":
        return learn(tasks, number, **options), 0
    if len(tasks) <= settings.select_from:
        return learn(tasks, "auto", **options), len(tasks)
    some = _random.stream(settings.seed, "fit", "selection").permutation(len(tasks))
    compared = learn(tasks[np.sort(some[: settings.select_from])], "auto", **options)
    learned = learn(tasks, compared.prior.n_components, **options)
    return replace(learned, selection=compared.selection), settings.select_from


def _named(prior: MixturePrior, names: list[str] | None, logs: TaskLogs) -> MixturePrior:
    return MixturePrior(prior.family, prior.weights, names, logs.arms)
