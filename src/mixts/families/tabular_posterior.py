"""Posteriors of tabular MDPs, and the moments of Dirichlet rows that they need."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from mixts._numbers import softmax
from mixts._typing import Array, Float, Int
from mixts.errors import StatisticsError, TrajectoryError
from mixts.families.base import Posterior
from mixts.families.bernoulli import LEAST_SHAPE
from mixts.families.special import draw_log_gamma

if TYPE_CHECKING:
    from mixts.families.tabular import TabularMDP, TabularStatistics


def draw_parameters(
    family: TabularMDP, rng: np.random.Generator, counts: Float[Array, "m q"]
) -> Float[Array, "m p"]:
    """Draw an MDP for each row of counts: rewards, then transitions.

    ``p_y = g_y / sum g`` with ``g_y ~ Gamma(alpha_y, 1)`` is Dirichlet(alpha). A count of zero
    gives exactly zero. ``counts`` is overwritten.
    """
    if family.never_underflows:
        return _normalised(family, rng.standard_gamma(counts, out=counts))
    weights = rng.standard_gamma(counts)
    _redraw_tiny(rng, counts, weights, family.n_states, family.n_states * family.n_actions)
    return _normalised(family, weights)


def _normalised(family: TabularMDP, weights: Float[Array, "m q"]) -> Float[Array, "m p"]:
    """Turn positive weights into mean rewards and transition probabilities."""
    n_pairs = family.n_states * family.n_actions
    n, size = len(weights), n_pairs * family.n_states
    pairs = weights[:, : 2 * n_pairs].reshape(n, n_pairs, 2)
    rows = weights[:, 2 * n_pairs :].reshape(n, n_pairs, family.n_states)
    # Sums in order, as those of the compiled core.
    rows = rows / rows.cumsum(axis=2)[..., -1:]
    means = pairs[..., 0] / (pairs[..., 0] + pairs[..., 1])
    return np.concatenate([means, rows.reshape(n, size)], axis=1)


def _redraw_tiny(
    rng: np.random.Generator, counts: Array, weights: Array, n_states: int, n_pairs: int
) -> None:
    """Redraw on the log scale rows of so small counts that all gamma variables may underflow.

    Only the row's ratios matter.
    """
    for block, given, size in (
        (weights[:, : 2 * n_pairs], counts[:, : 2 * n_pairs], 2),
        (weights[:, 2 * n_pairs :], counts[:, 2 * n_pairs :], n_states),
    ):
        rows = block.reshape(len(block), n_pairs, size)
        shapes = given.reshape(rows.shape)
        tiny = shapes.max(axis=2) < LEAST_SHAPE
        fresh = rows.copy()
        with np.errstate(divide="ignore"):
            fresh[tiny] = softmax(draw_log_gamma(rng, shapes[tiny]))
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
        self._log_weights = log_weights
        self.relative_evidence = prior.log_evidence(statistics)
        reachable = (self.relative_evidence + log_weights > -np.inf).any(axis=1)
        if not reachable.all():
            task = int(np.argmin(reachable))
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
        """Count episodes and compute the evidence of their tasks, all or none."""
        known, index = np.unique(tasks, return_inverse=True)
        part = self.statistics[known]
        part.observe(index, observed)
        evidence = self.prior.log_evidence(part)
        if not (evidence + self._log_weights > -np.inf).any(axis=1).all():
            raise self._refused(tasks, observed)
        self.relative_evidence[known] = evidence
        for array, new in zip(self.statistics.stored, part.stored, strict=True):
            array[known] = new

    def _refused(self, tasks: Int[Array, " m"], observed: tuple[Array, ...]) -> TrajectoryError:
        """Return the error for the first step that no component of its task allows."""
        states, actions, rewards, lengths = observed
        possible = self.relative_evidence + self._log_weights > -np.inf
        for i, task in enumerate(tasks.tolist()):
            for j in range(lengths[i]):
                x, a, reward = states[i, j], actions[i, j], rewards[i, j]
                possible[task] &= self.prior.reward[:, x, a, 1 - int(reward)] > 0
                led = ""
                if j + 1 < lengths[i] + states.shape[1] - actions.shape[1]:
                    possible[task] &= self.prior.transition[:, x, a, states[i, j + 1]] > 0
                    led = f", which led to state {states[i, j + 1]}"
                if not possible[task].any():
                    return TrajectoryError(
                        f"impossible under every component that is left for task {task}: state "
                        f"{x}, action {a}, reward {reward:g}{led} (episode {i}, step {j}); prior "
                        "counts of zero rule it out. Nothing was learned from this update"
                    )
        raise AssertionError("every step is possible")

    def log_evidence(self) -> Float[Array, "n L"]:
        """Return log p(history | s) of the ordered history: no multinomial coefficients."""
        return self.relative_evidence.copy()

    def sample(
        self, rng: np.random.Generator, tasks: Int[Array, " m"], latent: Int[Array, " m"]
    ) -> Float[Array, "m p"]:
        """Draw MDPs given the one component of each task  [paper: Sec. 5.2]."""
        return draw_parameters(self.prior, rng, self._counts(tasks, latent))

    def _counts(self, tasks: Array, latent: Array) -> Float[Array, "m q"]:
        """Return posterior counts of the drawn component of each task; zeros of the prior stay."""
        before = self.prior.flat_prior[latent]
        rewards, transitions = (
            part.reshape(len(part), math.prod(part.shape[1:])) for part in self.statistics.stored
        )
        seen = np.concatenate([rewards[tasks], transitions[tasks]], axis=1)
        return np.where(before > 0, before + seen, 0.0)

    def _posterior_counts(self, tasks: Int[Array, " m"]) -> Float[Array, "k q"]:
        components = np.arange(self.prior.n_components)
        return self._counts(np.repeat(tasks, len(components)), np.tile(components, len(tasks)))

    def component_means(self, tasks: Int[Array, " m"]) -> Float[Array, "m L p"]:
        """Return the mean MDP of each component.

        Its rewards are ``r_t = (alpha^R_t)_1 / |alpha^R_t|_1`` [paper: Eq. 7] and its transitions
        ``p_t = alpha^T_t / |alpha^T_t|_1`` [paper: Eq. 8], where ``alpha_t = alpha_0 + counts``.
        """
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
