"""Posteriors of tabular MDPs by the compiled core: the numbers of ``TabularPosterior``, faster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mixts import _program
from mixts._typing import Array, Bool, Float, Int
from mixts.families.tabular_posterior import TabularPosterior
from mixts.families.trajectory import Trajectory

if TYPE_CHECKING:
    from mixts.families.statistics import Statistics
    from mixts.families.tabular import TabularMDP, TabularStatistics


def core_evidence(family: TabularMDP, statistics: Statistics) -> Float[Array, "n L"]:
    """Return log p(history | s) of tasks, computed from their counts."""
    n = len(statistics)
    evidence, n_since = np.zeros((n, family.n_components)), np.zeros(n, np.int64)
    rewards, transitions = statistics.stored
    tasks = _program.core.TabularTasks(
        rewards, transitions, family.flat_prior, np.zeros(family.n_components), evidence, n_since,
        family.horizon,
    )  # fmt: skip
    tasks.refresh(np.arange(n))
    return evidence


class CoreTabularPosterior(TabularPosterior):
    """Posteriors whose counts and evidence the core updates step by step, in numpy's arrays."""

    last_latent = -1
    """Component that ``act_one`` drew."""
    _tasks: Any = None
    """The core's view of the statistics and the evidence; None: not made since they changed."""

    def __init__(
        self, prior: Any, statistics: Any, log_weights: Any, *, allow_dormant: bool
    ) -> None:
        super().__init__(prior, statistics, log_weights, allow_dormant=allow_dormant)
        self._n_since = np.zeros(len(statistics), np.int64)
        """Steps of each task since its evidence was computed from its counts."""

    def __getstate__(self) -> dict[str, Any]:
        """Leave the core's object out: it is made again when it is needed."""
        return {**self.__dict__, "_tasks": None}

    @property
    def statistics(self) -> TabularStatistics:
        """Statistics of the tasks, which the core changes in place."""
        return self._statistics

    @statistics.setter
    def statistics(self, statistics: TabularStatistics) -> None:
        self._statistics, self._tasks = statistics, None

    def _core(self) -> Any:
        if self._tasks is None:
            rewards, transitions = self._statistics.stored
            self._tasks = _program.core.TabularTasks(
                rewards, transitions, self.prior.flat_prior, self._log_weights,
                self.relative_evidence, self._n_since, self.prior.horizon,
            )  # fmt: skip
        return self._tasks

    def update(self, tasks: Int[Array, " m"], observed: tuple[Array, ...]) -> None:
        """Count episodes and update the evidence in one pass, all or none."""
        if not self._core().observe(tasks, *observed):
            self.statistics.check_episodes(observed)
            raise self._refused(tasks, observed)

    # -- one task, see ``Posterior.quick``

    def quick(self) -> Any:
        """Return this: its own methods are as quick."""
        return self

    def act_one(self, rng: np.random.Generator, actions: Any) -> Any:
        """Return the policy of one draw; -1 where the general path must decide."""
        if actions is not None or not self.prior.never_underflows:
            return -1
        policy = np.empty((self.prior.horizon, self.prior.n_states), np.int64)
        self.last_latent = (self._tasks or self._core()).act_one(rng, policy)
        return policy

    def update_one(self, actions: Any, outcomes: Any) -> bool:
        """Learn from whole episodes; return false where the general path must learn or refuse."""
        if type(actions) is not Trajectory or outcomes is not None or actions.lengths is not None:
            return False
        tasks = self._tasks or self._core()
        return bool(tasks.update_one(actions.states, actions.actions, actions.rewards))

    # -- many tasks

    def sample(
        self, rng: np.random.Generator, tasks: Int[Array, " m"], latent: Int[Array, " m"]
    ) -> Float[Array, "m p"]:
        """Draw MDPs given the one component of each task."""
        if not self.prior.never_underflows:
            return super().sample(rng, tasks, latent)
        shape = self.prior.n_states, self.prior.n_actions
        drawn = np.empty((len(tasks), shape[0] * shape[1] * (1 + shape[0])))
        self._core().sample(rng, tasks, latent, drawn)
        return drawn

    def _counts(self, tasks: Array, latent: Array) -> Float[Array, "m q"]:
        counts = np.empty((len(tasks), self.prior.flat_prior.shape[1]))
        self._core().posterior_counts(tasks, latent, counts)
        return counts

    def decide(
        self,
        rng: np.random.Generator,
        log_weights: Float[Array, " L"],
        tasks: Int[Array, " m"],
        mask: Bool[Array, "m K"] | None,
        actions: Array | None = None,
    ) -> tuple[Int[Array, "m h X"], Int[Array, " m"]] | None:
        """Draw a component and an MDP for each task, and plan, in one pass."""
        if not self.prior.never_underflows:
            return None
        latent = np.empty(len(tasks), np.int64)
        policy = np.empty((len(tasks), self.prior.horizon, self.prior.n_states), np.int64)
        self._core().act(rng, tasks, latent, policy)
        return policy, latent

    def add_tasks(self, n: int) -> None:
        """Append tasks without observations."""
        super().add_tasks(n)
        self._n_since = np.pad(self._n_since, (0, n))
