"""Posteriors of arms by the compiled core: evidence is updated observation by observation."""

from __future__ import annotations

from typing import Any

import numpy as np

from mixts import _program
from mixts._typing import Array, Bool, Float, Int
from mixts.families.arms import ArmPosterior
from mixts.families.base import Posterior
from mixts.families.choice import NO_MASK
from mixts.families.spend import SpendPosterior
from mixts.families.student import StudentPosterior

_RECOMPUTE_COST = 4
"""Recomputing one arm's evidence costs about this many incremental updates of it."""

_THREAD_DECISIONS = 2000
"""Decisions at a time of a thread: a millisecond of work or two."""


def _restored(prior: Any, statistics: Any, log_weights: Array) -> Any:
    """Return the posterior that the program of this process has for the family."""
    return prior.posterior(statistics, log_weights)


class CoreArmPosterior(ArmPosterior):
    """The same posteriors as ``ArmPosterior``, whose arrays an object of the core works on."""

    _arms: Any = None
    _arrays: tuple[Array, ...] = ()
    """The arrays that the core's object works on."""

    def __init__(
        self, prior: Any, statistics: Any, log_weights: Float[Array, " L"], *, allow_dormant: bool
    ) -> None:
        super().__init__(prior, statistics, log_weights, allow_dormant=allow_dormant)
        self.log_weights = log_weights

    def __reduce__(self) -> tuple[Any, ...]:
        """Leave the core's object out: another process may even run the plain program."""
        state = {k: v for k, v in self.__dict__.items() if k not in ("_arms", "_arrays")}
        return _restored, (self.prior, self.statistics, self.log_weights), state

    def core(self) -> Any:
        """Return the core's object, a new one where arrays were replaced."""
        arrays = (*self._sums(), *self.statistics.stored)
        if len(arrays) != len(self._arrays) or any(
            new is not old for new, old in zip(arrays, self._arrays, strict=True)
        ):
            kind = getattr(_program.core, self.prior.core_class)
            both, shared = self.prior.core_parameters
            by_arm = (np.ascontiguousarray(parameter.T) for parameter in both)
            self._arms = kind(self.log_weights, *arrays, *both, *by_arm, *shared)
            self._arrays = arrays
        return self._arms

    def _sums(self) -> tuple[Array, ...]:
        """Return what the core sums for each task and component: the log evidence first."""
        return (self.relative_evidence,)

    def quick(self) -> Any:
        return self.core()

    def _recompute(self, tasks: Int[Array, " m"]) -> None:
        self.core().recompute(tasks)

    def update(self, tasks: Int[Array, " m"], observed: tuple[Array, ...]) -> None:
        """Count observations and update the evidence in one pass, all or none."""
        arms = self.core()
        if len(observed[0]) > _RECOMPUTE_COST * self.prior.n_arms * len(self.relative_evidence):
            # A long batch is counted first and its evidence computed once for each task.
            self.statistics._observe(tasks, observed)
            arms.recompute(np.unique(tasks))
            return
        bad = arms.observe(tasks, *observed)
        if bad >= 0:
            self.statistics.refuse(observed, bad)

    def decide(
        self,
        rng: np.random.Generator,
        log_weights: Float[Array, " L"],
        tasks: Int[Array, " m"],
        mask: Bool[Array, "m K"] | None,
        actions: Array | None = None,
    ) -> tuple[Int[Array, " m"], Int[Array, " m"]]:
        """Draw components and best arms in one pass.

        Every decision has random numbers of its own, so that the number of threads changes nothing.
        """
        arms, n, chosen = self.core(), len(tasks), np.empty((2, len(tasks)), np.int64)
        available = NO_MASK if mask is None else np.ascontiguousarray(mask)
        word = arms.word(rng)

        def work(first: int, last: int) -> None:
            arms.decide(word, first, last, tasks, available, chosen)

        if n <= _THREAD_DECISIONS:
            work(0, n)
        else:
            from mixts.engines._workers import in_threads  # not needed for a few decisions

            in_threads(work, n, _THREAD_DECISIONS)
        return chosen[0], chosen[1]


class CoreStudentPosterior(CoreArmPosterior, StudentPosterior):
    """Posteriors of Student arms; the core sums the squared misfits too."""

    _misfit: Array | None = None

    def _sums(self) -> tuple[Array, ...]:
        evidence = self.relative_evidence
        if self._misfit is None:  # the evidence is computed with it, at its first use
            self._misfit = np.zeros_like(evidence)
        return evidence, self._misfit

    def add_tasks(self, n: int) -> None:
        """Append tasks without observations."""
        super().add_tasks(n)
        if self._misfit is not None:
            self._misfit = np.pad(self._misfit, ((0, n), (0, 0)))


class CoreSpendPosterior(CoreArmPosterior, SpendPosterior):
    """Posteriors of spend arms, whose decisions numpy draws."""

    def decide(self, *arguments: Any) -> None:  # type: ignore[override]
        return None


CORE_POSTERIORS: dict[type[Posterior], type[Posterior]] = {
    ArmPosterior: CoreArmPosterior,
    StudentPosterior: CoreStudentPosterior,
    SpendPosterior: CoreSpendPosterior,
}
"""The posterior by the core for each plain one."""
