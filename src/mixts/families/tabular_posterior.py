"""The posteriors of tabular MDPs: the tasks' counts, and L numbers a task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from mixts._numbers import softmax
from mixts._typing import Array, Bool, Float, Int
from mixts.errors import ActionError, OutcomeError, StatisticsError, TrajectoryError
from mixts.families._kernels.tabular import (
    absorb,
    evidence,
    first_malformed,
    gather,
    normalise,
)
from mixts.families.base import Posterior
from mixts.families.statistics import Statistics
from mixts.families.tabular_moments import row_covariances
from mixts.families.tabular_statistics import TabularStatistics

if TYPE_CHECKING:
    from mixts.families.tabular import TabularMDP


_REFRESH = 4096
"""Steps of a task after which its evidence is computed from the counts, so that the rounding of
single steps does not pile up: 4096 of them lose about 1e-11."""

TAME = 0.1
"""A gamma variable of this shape underflows with a probability of 1e-31."""


def draw_parameters(
    family: TabularMDP, rng: np.random.Generator, counts: Float[Array, "m q"]
) -> Float[Array, "m p"]:
    """An MDP for each row of counts (rewards, then transitions), as quotients of gamma variables.

    A count of zero gives exactly zero. The caller gives ``counts`` away.
    """
    if family.tame:
        return _normalised(family, rng.standard_gamma(counts, out=counts))
    weights = rng.standard_gamma(counts)
    _redraw_tiny(rng, counts, weights, family.n_states, family.n_states * family.n_actions)
    return _normalised(family, weights)


def _normalised(family: TabularMDP, weights: Float[Array, "m q"]) -> Float[Array, "m p"]:
    n_pairs = family.n_states * family.n_actions
    out = np.empty((len(weights), n_pairs * (1 + family.n_states)))
    normalise(weights, family.n_states, n_pairs, out)
    return out


def _redraw_tiny(
    rng: np.random.Generator, counts: Array, weights: Array, n_states: int, n_pairs: int
) -> None:
    """Rows of such small counts that all their gamma variables may underflow: by logarithms.

    ``ln G(a) = ln G(a + 1) + ln U / a`` for uniform U; only the row's ratios matter.
    """
    for block, given, size in (
        (weights[:, : 2 * n_pairs], counts[:, : 2 * n_pairs], 2),
        (weights[:, 2 * n_pairs :], counts[:, 2 * n_pairs :], n_states),
    ):
        rows = block.reshape(len(block), n_pairs, size)
        shapes = given.reshape(rows.shape)
        tiny = shapes.max(axis=2) < TAME
        a = shapes[tiny]
        with np.errstate(divide="ignore"):
            logs = np.log(rng.standard_gamma(a + 1)) + np.log(rng.random(a.shape)) / a
        logs[a == 0] = -np.inf
        fresh = rows.copy()
        fresh[tiny] = softmax(logs)
        block[...] = fresh.reshape(block.shape)


class TabularPosterior(Posterior):
    """Nothing is kept but the statistics and L numbers a task; MDPs are made when drawn."""

    statistics: TabularStatistics

    def __init__(
        self, prior: TabularMDP, statistics: Statistics, log_weights: Float[Array, " L"]
    ) -> None:
        if not isinstance(statistics, TabularStatistics) or statistics.shape != (
            prior.n_states, prior.n_actions,
        ):  # fmt: skip
            raise StatisticsError(
                f"{prior!r} needs TabularStatistics of {prior.n_states} states and "
                f"{prior.n_actions} actions, got {statistics!r}"
            )
        self.prior = prior
        self.statistics = statistics
        # A writable copy: compiled loops are compiled anew for read-only arrays.
        self._log_weights = np.array(log_weights)
        self.relative = np.zeros((len(statistics), prior.n_components))
        self._since_refresh = np.zeros(len(statistics), np.int64)
        seen = np.flatnonzero(statistics.array("rewards").any(axis=(1, 2, 3)))
        if len(seen):
            self._recompute(seen)
            self._refuse_impossible(seen)

    def _recompute(self, tasks: Int[Array, " m"]) -> None:
        given: Any = (tasks, *self.statistics.stored, *self.prior.loop_prior, self.relative)
        evidence(*given)
        self._since_refresh[tasks] = 0

    def _refuse_impossible(self, tasks: Int[Array, " m"]) -> None:
        reachable = self.relative[tasks][:, self._log_weights > -np.inf] > -np.inf
        if not reachable.any(axis=1).all():
            task = int(tasks[np.argmin(reachable.any(axis=1))])
            raise StatisticsError(
                f"task {task} has seen what is impossible under every component of {self.prior!r}: "
                "prior counts of zero rule it out; make them positive, or leave the task out"
            )

    def update(self, tasks: Int[Array, " m"], observed: tuple[Array, ...]) -> None:
        """Absorb episodes in one compiled pass, all or none."""
        prior = self.prior
        states, actions, rewards, lengths = observed
        bad = first_malformed(states, actions, rewards, lengths, prior.n_states, prior.n_actions)
        if bad >= 0:
            n = int(lengths[bad])
            end = n + states.shape[1] - actions.shape[1]
            self._refuse(bad, states[bad, :end], actions[bad, :n], rewards[bad, :n])
        before = self.relative[tasks]
        counts = (*self.statistics.stored, *prior.loop_prior)
        evidence_so_far = (self._log_weights, self.relative, self._since_refresh)
        given: Any = (tasks, *observed, *counts, *evidence_so_far)
        episode, step = absorb(*given)
        if episode >= 0:
            self.relative[tasks] = before
            seen = step < lengths[episode] - 1 + states.shape[1] - actions.shape[1]
            led = f", which led to state {states[episode, step + 1]}" if seen else ""
            raise TrajectoryError(
                f"impossible under every component that is left for task {int(tasks[episode])}: "
                f"state {states[episode, step]}, action {actions[episode, step]}, reward "
                f"{rewards[episode, step]:g}{led} (episode {episode}, step {step}); prior counts "
                "of zero rule it out. Nothing was learned from this update"
            )
        stale = self._since_refresh[tasks] >= _REFRESH
        if stale.any():
            self._recompute(np.unique(tasks[stale]))

    def _refuse(self, episode: int, states: Array, actions: Array, rewards: Array) -> NoReturn:
        where = f"(episode {episode}, step %d)"
        for name, values, size, kind in (
            ("states", states, self.prior.n_states, TrajectoryError),
            ("actions", actions, self.prior.n_actions, ActionError),
        ):
            outside = (values < 0) | (values >= size)
            if outside.any():
                step = int(np.argmax(outside))
                raise kind(f"{name} are 0 to {size - 1}, got {values[step]} {where % step}")
        step = int(np.argmax((rewards != 0) & (rewards != 1)))
        raise OutcomeError(f"rewards of an MDP are 0 or 1, got {rewards[step]} {where % step}")

    def log_evidence(self) -> Float[Array, "n L"]:
        """log p(history | s), of the ordered history: no multinomial coefficients."""
        return self.relative.copy()

    def sample(
        self, rng: np.random.Generator, tasks: Int[Array, " m"], latent: Int[Array, " m"]
    ) -> Float[Array, "m p"]:
        """MDPs given the one component of each task  [paper: Sec. 5.2]."""
        return draw_parameters(self.prior, rng, self._counts(tasks, latent))

    def _counts(self, tasks: Array, latent: Array) -> Float[Array, "m q"]:
        """Posterior counts, for the drawn component only."""
        n_pairs = self.prior.n_states * self.prior.n_actions
        n, (rewards, transitions) = len(self.statistics), self.statistics.stored
        rewards = rewards.reshape(n, 2 * n_pairs)
        transitions = transitions.reshape(n, n_pairs * self.prior.n_states)
        counts = np.empty((len(tasks), self.prior.flat_prior.shape[1]))
        gather(tasks, latent, rewards, transitions, self.prior.flat_prior, counts)
        return counts

    def _all(self, tasks: Int[Array, " m"]) -> Float[Array, "k q"]:
        components = np.arange(self.prior.n_components)
        return self._counts(np.repeat(tasks, len(components)), np.tile(components, len(tasks)))

    def component_means(self, tasks: Int[Array, " m"]) -> Float[Array, "m L p"]:
        """The mean MDP of each component  [paper: Eq. 7]  [paper: Eq. 8]."""
        means = _normalised(self.prior, self._all(tasks))
        return means.reshape(len(tasks), self.prior.n_components, means.shape[1])

    def component_covariances(self, tasks: Int[Array, " m"]) -> Float[Array, "m L p p"]:
        """Cov[M | history, s]: a block for each row of transitions, and the rewards' variances.

        For each task and component (X A (1 + X))^2 numbers, most of them zero.
        """
        n_states, n_pairs = self.prior.n_states, self.prior.n_states * self.prior.n_actions
        counts = self._all(tasks)
        n_rows = len(counts)
        rewards = counts[:, : 2 * n_pairs].reshape(n_rows, n_pairs, 2)
        blocks = row_covariances(counts[:, 2 * n_pairs :].reshape(n_rows, n_pairs, n_states))
        size = n_pairs * (1 + n_states)
        result = np.zeros((n_rows, size, size))
        pairs = np.arange(n_pairs)
        result[:, pairs, pairs] = row_covariances(rewards)[..., 0, 0]
        for pair in range(n_pairs):
            part = slice(n_pairs + pair * n_states, n_pairs + (pair + 1) * n_states)
            result[:, part, part] = blocks[:, pair]
        return result.reshape(len(tasks), self.prior.n_components, size, size)

    def family(self, task: int) -> TabularMDP:
        """The posterior of one task as a prior."""
        prior = self.prior
        # What was impossible under a component stays so, also where it was seen: its weight is 0.
        reward, transition = (
            np.where(before > 0, before + seen[task], 0.0)
            for before, seen in zip(prior.arrays_of_counts, self.statistics.stored, strict=True)
        )
        return type(prior)(reward, transition, prior.horizon, prior.initial)

    def best_action_probabilities(
        self,
        rng: np.random.Generator,
        tasks: Int[Array, " m"],
        weights: Float[Array, "m L"],
        actions: Array | None,
        mask: Bool[Array, "m K"],
        n_samples: int,
    ) -> Any:
        """Refused: there are A^(h X) policies."""
        raise ActionError(
            "the action of an MDP is a policy, one of far too many to give each a probability: "
            "use act(), or draw policies with it and count"
        )

    def add_tasks(self, n: int) -> None:
        """Append tasks with no history."""
        self.statistics = self.statistics.extend(n)
        self.relative = np.pad(self.relative, ((0, n), (0, 0)))
        self._since_refresh = np.pad(self._since_refresh, (0, n))
