"""Posteriors of tabular MDPs, and the moments of Dirichlet rows that they need."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mixts._numbers import softmax
from mixts._typing import Array, Float, Int
from mixts.errors import StatisticsError, TrajectoryError
from mixts.families._kernels.tabular import evidence, gather, normalise, observe
from mixts.families.base import Posterior
from mixts.families.bernoulli import LEAST_SHAPE

if TYPE_CHECKING:
    from mixts.families.tabular import TabularMDP, TabularStatistics


_REFRESH = 4096
"""Steps of a task after which its evidence is recomputed from the counts, so that rounding errors
of single steps do not add up: 4096 steps lose about 1e-11."""


def draw_parameters(
    family: TabularMDP, rng: np.random.Generator, counts: Float[Array, "m q"]
) -> Float[Array, "m p"]:
    """Draw an MDP for each row of counts (rewards, then transitions), by gamma variables.

    A count of zero gives exactly zero. ``counts`` is overwritten.
    """
    if family.never_underflows:
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
    """Draw rows of counts so small that all their gamma variables may underflow by logarithms.

    ``ln G(a) = ln G(a + 1) + ln U / a`` for uniform U; only the row's ratios matter.
    """
    for block, given, size in (
        (weights[:, : 2 * n_pairs], counts[:, : 2 * n_pairs], 2),
        (weights[:, 2 * n_pairs :], counts[:, 2 * n_pairs :], n_states),
    ):
        rows = block.reshape(len(block), n_pairs, size)
        shapes = given.reshape(rows.shape)
        tiny = shapes.max(axis=2) < LEAST_SHAPE
        a = shapes[tiny]
        with np.errstate(divide="ignore"):
            logs = np.log(rng.standard_gamma(a + 1)) + np.log(rng.random(a.shape)) / a
        logs[a == 0] = -np.inf
        fresh = rows.copy()
        fresh[tiny] = softmax(logs)
        block[...] = fresh.reshape(block.shape)


LEAST_TOTAL = 0.01
"""Least total count of a collapsed row: components certain of different outcomes leave none."""


def row_means(counts: Float[Array, "... k"]) -> Float[Array, "... k"]:
    """Return E[p] of each row of Dirichlet counts; a Beta distribution is a row of two."""
    return np.asarray(counts / counts.sum(axis=-1, keepdims=True))


def row_variances(counts: Float[Array, "... k"]) -> Float[Array, "... k"]:
    """Return Var[p] of each entry, m (1 - m) / (total + 1)."""
    mean = row_means(counts)
    return np.asarray(mean * (1 - mean) / (counts.sum(axis=-1, keepdims=True) + 1))


def row_covariances(counts: Float[Array, "... k"]) -> Float[Array, "... k k"]:
    """Return Cov[p] of each row, (diag m - m m') / (total + 1)."""
    mean = row_means(counts)
    outer = mean[..., :, None] * mean[..., None, :]
    diagonal = mean[..., :, None] * np.eye(counts.shape[-1])
    return np.asarray((diagonal - outer) / (counts.sum(axis=-1)[..., None, None] + 1))


def collapse_rows(counts: Float[Array, "L ..."], weights: Float[Array, " L"]) -> Array:
    """Return one row for the mixture of each row's L distributions, (1, ...).

    The row keeps the mean m. Its total count is ``sum m (1 - m) / sum v - 1``, where v are the
    entries' variances under the mixture: for two entries that is the Beta distribution of the same
    variance. A row that is certain of one outcome in all components stays certain.
    """
    share = weights.reshape(-1, *[1] * (counts.ndim - 1))
    each = row_means(counts)
    mean = (share * each).sum(axis=0, keepdims=True)
    # Where all components agree, take their mean exactly: rounding must not make zeros positive.
    alike = (np.where(share > 0, each, each[np.argmax(weights)]) == each[np.argmax(weights)]).all(0)
    mean = np.where(alike, each[np.argmax(weights)], mean)
    between = (share * (each - mean) ** 2).sum(axis=0, keepdims=True)
    variance = (share * row_variances(counts)).sum(axis=0, keepdims=True) + between
    spread = (mean * (1 - mean)).sum(axis=-1, keepdims=True)
    noise = variance.sum(axis=-1, keepdims=True)
    usual = (share * counts.sum(axis=-1, keepdims=True)).sum(axis=0, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        total = np.where(noise > 0, np.maximum(spread / noise - 1, LEAST_TOTAL), usual)
    return np.asarray(mean * total)


def _impossible(task: int, episode: int, step: int, observed: tuple[Array, ...]) -> TrajectoryError:
    """Return the error for a step that no component of its task allows."""
    states, actions, rewards, lengths = observed
    seen = step + 1 < lengths[episode] + states.shape[1] - actions.shape[1]
    led = f", which led to state {states[episode, step + 1]}" if seen else ""
    return TrajectoryError(
        f"impossible under every component that is left for task {task}: state "
        f"{states[episode, step]}, action {actions[episode, step]}, reward "
        f"{rewards[episode, step]:g}{led} (episode {episode}, step {step}); prior counts of zero "
        "rule it out. Nothing was learned from this update"
    )


class TabularPosterior(Posterior):
    """Posteriors of MDPs: only the statistics and L numbers per task are stored."""

    def __init__(
        self,
        prior: TabularMDP,
        statistics: TabularStatistics,
        log_weights: Float[Array, " L"],
        *,
        allow_dormant: bool,
    ) -> None:
        super().__init__(prior, statistics, log_weights, allow_dormant=allow_dormant)
        # A writable copy: numba would compile the loops again for read-only arrays.
        self._log_weights = np.array(log_weights)
        self.relative_evidence = np.zeros((len(statistics), prior.n_components))
        self._since_refresh = np.zeros(len(statistics), np.int64)
        seen = np.flatnonzero(statistics.array("rewards").any(axis=(1, 2, 3)))
        if len(seen):
            self._recompute(seen)
            self._refuse_impossible(seen)

    def _recompute(self, tasks: Int[Array, " m"]) -> None:
        evidence(tasks, self.statistics.stored, self.prior.loop_prior, self.relative_evidence)
        self._since_refresh[tasks] = 0

    def _refuse_impossible(self, tasks: Int[Array, " m"]) -> None:
        reachable = self.relative_evidence[tasks][:, self._log_weights > -np.inf] > -np.inf
        if not reachable.any(axis=1).all():
            task = int(tasks[np.argmin(reachable.any(axis=1))])
            raise StatisticsError(
                f"the observations of task {task} are impossible under every component of "
                f"{self.prior!r}: prior counts of zero rule them out; make those counts positive, "
                "or leave the task out"
            )

    def observations(self, actions: Any, outcomes: Any) -> tuple[Array, ...]:
        """Return the arrays of m episodes, none longer than the horizon."""
        observed = self.statistics.observations(actions, outcomes)
        steps, horizon = actions.n_steps, self.prior.horizon
        if steps > horizon or (actions.lengths is None and steps != horizon):
            raise TrajectoryError(
                f"an episode has {horizon} steps, got {steps}; say with lengths= how many "
                "steps of a shorter one count"
            )
        return observed

    def update(self, tasks: Int[Array, " m"], observed: tuple[Array, ...]) -> None:
        """Count episodes and update the evidence in one compiled pass, all or none."""
        before = self.relative_evidence.take(tasks, axis=0)  # a third of the time of an index
        episode, step = observe(
            tasks, observed, self.statistics.stored, self.prior.loop_prior,
            self._log_weights, self.relative_evidence, self._since_refresh,
        )  # fmt: skip
        if episode >= 0:
            self.relative_evidence[tasks] = before
            self.statistics.check_episodes(observed)
            raise _impossible(int(tasks[episode]), episode, step, observed)
        if step >= _REFRESH:
            self._recompute(np.unique(tasks[self._since_refresh[tasks] >= _REFRESH]))

    def log_evidence(self) -> Float[Array, "n L"]:
        """Return log p(history | s) of the ordered history: no multinomial coefficients."""
        return self.relative_evidence.copy()

    def sample(
        self, rng: np.random.Generator, tasks: Int[Array, " m"], latent: Int[Array, " m"]
    ) -> Float[Array, "m p"]:
        """Draw MDPs given the one component of each task  [paper: Sec. 5.2]."""
        return draw_parameters(self.prior, rng, self._counts(tasks, latent))

    def _counts(self, tasks: Array, latent: Array) -> Float[Array, "m q"]:
        """Return posterior counts of the drawn component of each task."""
        n_pairs = self.prior.n_states * self.prior.n_actions
        rewards, transitions = self.statistics.stored
        rewards = rewards.reshape(len(rewards), 2 * n_pairs)
        transitions = transitions.reshape(len(transitions), n_pairs * self.prior.n_states)
        counts = np.empty((len(tasks), self.prior.flat_prior.shape[1]))
        gather(tasks, latent, rewards, transitions, self.prior.flat_prior, counts)
        return counts

    def _posterior_counts(self, tasks: Int[Array, " m"]) -> Float[Array, "k q"]:
        components = np.arange(self.prior.n_components)
        return self._counts(np.repeat(tasks, len(components)), np.tile(components, len(tasks)))

    def component_means(self, tasks: Int[Array, " m"]) -> Float[Array, "m L p"]:
        """Return the mean MDP of each component  [paper: Eq. 7]  [paper: Eq. 8]."""
        means = _normalised(self.prior, self._posterior_counts(tasks))
        return means.reshape(len(tasks), self.prior.n_components, means.shape[1])

    def component_covariances(self, tasks: Int[Array, " m"]) -> Float[Array, "m L p p"]:
        """Return Cov[M | history, s]: rewards' variances and a block per row of transitions.

        For each task and component (X A (1 + X))^2 numbers, most of them zero.
        """
        n_states, n_pairs = self.prior.n_states, self.prior.n_states * self.prior.n_actions
        counts = self._posterior_counts(tasks)
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
        """Return the posterior of one task as a prior."""
        prior = self.prior
        # Impossible outcomes stay impossible even if seen: the component then has weight 0.
        reward, transition = (
            np.where(before > 0, before + seen[task], 0.0)
            for before, seen in zip(prior.arrays_of_counts, self.statistics.stored, strict=True)
        )
        return type(prior)(reward, transition, prior.horizon, prior.initial)

    def add_tasks(self, n: int) -> None:
        """Append tasks without observations."""
        self.statistics = self.statistics.extend(n)
        self.relative_evidence = np.pad(self.relative_evidence, ((0, n), (0, 0)))
        self._since_refresh = np.pad(self._since_refresh, (0, n))
