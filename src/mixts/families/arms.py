"""Families of independent arms: what Bernoulli, Gaussian and Poisson arms share.

A concrete family gives its parameters, its two compiled loops and its marginal distribution (the
posterior of one arm's mean); everything else is here.
"""

from __future__ import annotations

import functools
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np

from mixts import _checks
from mixts._typing import Array, ArrayLike, Bool, Float, Int
from mixts.errors import ActionError, OutcomeError, ParameterError, StatisticsError
from mixts.families.base import Family, Posterior
from mixts.families.quadrature import Marginal, best_arm_probabilities
from mixts.families.statistics import Statistics

_RECOMPUTE_COST = 4
"""Recomputing one arm's evidence costs about this many incremental updates of it."""


class ArmStatistics(Statistics):
    """Statistics with one entry per task and arm in every array."""

    def _check(self) -> None:
        shapes = {self.array(name).shape for name in self.fields}
        shape = self.array(next(iter(self.fields))).shape
        if len(shapes) != 1 or len(shape) != 2:
            raise StatisticsError(f"expected arrays of one shape (tasks, arms), got {shapes}")
        if self.single and shape[0] != 1:
            raise StatisticsError(f"single statistics hold one task, got {shape[0]}")

    @property
    def shape(self) -> tuple[int, ...]:
        """(n_arms,)."""
        return self.array(next(iter(self.fields))).shape[1:]

    @property
    def n_observations(self) -> Any:
        """How many observations each task has."""
        return self._view(self._pulls().sum(axis=1))

    @abstractmethod
    def _pulls(self) -> Int[Array, "n K"]:
        """How often each arm was observed."""

    def with_arms(self, n: int) -> Self:
        """The same histories with ``n`` more arms, never observed."""
        widened = {name: np.pad(self.array(name), ((0, 0), (0, n))) for name in self.fields}
        return type(self)(single=self.single, **widened)


def by_arm(parameters: Float[Array, "L K"]) -> Float[Array, "K L"]:
    """As the loops read them, the components of an arm side by side.

    Always a copy: one component's transpose would be the read-only original, for which loops would
    be compiled once more.
    """
    return np.array(parameters.T, order="C")


class ArmFamily(Family):
    """Independent arms given the component; parameters are the arms' mean rewards."""

    statistics_type: ClassVar[type[ArmStatistics]]
    support: ClassVar[str]
    """Which rewards are possible, for error messages."""
    gather_loop: ClassVar[Callable[..., None]]
    observe_loop: ClassVar[Callable[..., int]]
    evidence_loop: ClassVar[Callable[..., None]]

    @property
    @abstractmethod
    def dimensions(self) -> tuple[int, int]:
        """(L, K)."""

    @property
    @abstractmethod
    def loop_parameters(self) -> tuple[Any, ...]:
        """The prior as the compiled loops take it: arrays (K, L) and numbers."""

    @abstractmethod
    def marginal(self, parameters: Float[Array, "2 ... K"]) -> Marginal:
        """The distributions with these two parameters for each arm."""

    @abstractmethod
    def evidence_constant(self, statistics: Statistics) -> Float[Array, " n"]:
        """The part of the log evidence that all components share."""

    @classmethod
    @abstractmethod
    def match(cls, mean: Array, variance: Array, settings: dict[str, Any]) -> Self:
        """The family whose arms have these means and variances, (L, K)."""

    @classmethod
    @abstractmethod
    def from_parameters(cls, parameters: Float[Array, "2 L K"], settings: dict[str, Any]) -> Self:
        """The family whose components have these two parameters for each arm."""

    @functools.cached_property
    def _expected(self) -> str:
        return f"actions must be arm indices (integers from 0 to {self.n_arms - 1})"

    @functools.cached_property
    def n_components(self) -> int:
        """L."""
        return self.dimensions[0]

    @functools.cached_property
    def n_arms(self) -> int:
        """K."""
        return self.dimensions[1]

    def __repr__(self) -> str:
        settings = "".join(f", {k}={v!r}" for k, v in self.settings().items())
        return (
            f"{type(self).__name__}({self.n_components} components, {self.n_arms} arms{settings})"
        )

    def with_arms(self, other: Family) -> Self:
        """These arms, then the other family's, component by component."""
        if type(other) is not type(self) or other.settings() != self.settings():
            raise ParameterError(f"expected arms of {self!r}'s kind and settings, got {other!r}")
        if other.n_components != self.n_components:
            raise ParameterError(
                f"new arms need parameters for each of the {self.n_components} components, "
                f"got {other.n_components}"
            )
        theirs = other.arrays()
        joined = {k: np.concatenate([v, theirs[k]], axis=1) for k, v in self.arrays().items()}
        return type(self)(**joined, **self.settings())

    def marginals(self, statistics: Statistics, tasks: Array, latent: Array) -> Marginal:
        """The distributions of the arms' means for tasks and components, which broadcast."""
        if tasks.shape != latent.shape:
            tasks, latent = (x.copy() for x in np.broadcast_arrays(tasks, latent))
        parameters = np.empty((2, latent.size, self.n_arms))
        self.gather_loop(
            tasks.ravel(), latent.ravel(), *statistics.stored, *self.loop_parameters, parameters
        )
        return self.marginal(parameters.reshape(2, *latent.shape, self.n_arms))

    def prior_marginal(self, latent: Array) -> Marginal:
        """The prior distributions of the arms' means under components."""
        return self.marginals(self.empty_statistics(1), np.zeros(1, np.int64), latent)

    def collapse(self, weights: Float[Array, " L"]) -> Self:
        """Keep each arm's marginal mean and variance; the correlation between arms is lost."""
        prior = self.prior_marginal(np.arange(self.n_components))
        w = weights[:, None]
        mean = (w * prior.mean()).sum(axis=0, keepdims=True)
        spread = (w * (prior.mean() - mean) ** 2).sum(axis=0, keepdims=True)
        variance = (w * prior.variance()).sum(axis=0, keepdims=True) + spread
        return self.match(mean, variance, self.settings())

    def observations(
        self, actions: ArrayLike, outcomes: ArrayLike
    ) -> tuple[Int[Array, " m"], Float[Array, " m"]]:
        """Arm indices and rewards as arrays of m observations."""
        arms = _checks.integers(actions, self._expected, ActionError)
        rewards = _checks.numbers(outcomes, "outcomes must be numbers", OutcomeError)
        if arms.ndim > 1 or arms.shape != rewards.shape:
            raise ActionError(
                "actions and outcomes must be two numbers, or two arrays of one length, "
                f"got shapes {arms.shape} and {rewards.shape}"
            )
        return arms.reshape(-1), rewards.reshape(-1)

    def empty_statistics(self, n_tasks: int | None) -> ArmStatistics:
        """The statistics of tasks with no history."""
        kind = self.statistics_type
        rows = 1 if n_tasks is None else _checks.count(n_tasks, "n_tasks", least=0)
        empty = {name: np.zeros((rows, self.n_arms), dtype) for name, dtype in kind.fields.items()}
        return kind(single=n_tasks is None, **empty)

    def absorb(
        self, statistics: Statistics, tasks: Int[Array, " m"], observed: tuple[Array, ...]
    ) -> None:
        """Count, and nothing else."""
        nothing = np.empty((0, self.n_components))
        bad = self.observe_loop(
            tasks, *observed, False, *statistics.stored, *self.loop_parameters, nothing
        )
        if bad >= 0:
            self.refuse(int(observed[0][bad]), float(observed[1][bad]), bad)

    def refuse(self, arm: int, outcome: float, index: int) -> None:
        """Say what is wrong with an observation."""
        if not 0 <= arm < self.n_arms:
            raise ActionError(
                f"arms are numbered from 0 to {self.n_arms - 1}, got {arm} (observation {index})"
            )
        raise OutcomeError(
            f"rewards of {type(self).__name__} must be {self.support}, "
            f"got {outcome} (observation {index})"
        )

    def posterior(
        self, statistics: Statistics, log_weights: Float[Array, " L"], *, allow_dormant: bool = True
    ) -> ArmPosterior:
        """The posteriors; arms are cheap, so no component ever sleeps."""
        return ArmPosterior(self, statistics)

    def draw(self, rng: np.random.Generator, latent: Int[Array, " n"]) -> Float[Array, "n p"]:
        """Mean rewards from the prior of each given component."""
        return self.prior_marginal(latent).sample(rng)

    def mean_rewards(
        self, parameters: Float[Array, "... p"], actions: Array | None = None
    ) -> Float[Array, "... K"]:
        """The parameters themselves."""
        return parameters

    def action_sets(self, actions: ArrayLike | None, n_rows: int) -> tuple[Array | None, int]:
        """Arms are fixed: nothing may be given."""
        if actions is not None:
            raise ActionError(
                f"{type(self).__name__} has {self.n_arms} fixed arms: leave actions out "
                "(a mask says which are available)"
            )
        return None, self.n_arms


class ArmPosterior(Posterior):
    """The posteriors of arms: nothing is kept but the statistics and L numbers a task."""

    statistics: ArmStatistics

    def __init__(self, prior: ArmFamily, statistics: Statistics) -> None:
        if type(statistics) is not prior.statistics_type or statistics.shape != (prior.n_arms,):
            raise StatisticsError(
                f"{prior!r} needs {prior.statistics_type.__name__} of {prior.n_arms} arms, "
                f"got {statistics!r}"
            )
        self.prior = prior
        self.statistics = statistics
        self._lazy: Array | None = None

    @property
    def relative(self) -> Float[Array, "n L"]:  # type: ignore[override]
        """log p(history | s) up to a constant per task, computed when first asked for."""
        if self._lazy is None:
            self._lazy = np.zeros((len(self.statistics), self.prior.n_components))
            seen = self.statistics._pulls().any(axis=1)
            self._recompute(np.flatnonzero(seen))
        return self._lazy

    def _recompute(self, tasks: Int[Array, " m"]) -> None:
        self.prior.evidence_loop(
            tasks, *self.statistics.stored, *self.prior.loop_parameters, self._lazy
        )

    def update(self, tasks: Int[Array, " m"], observed: tuple[Array, ...]) -> None:
        """Absorb observations in one compiled pass, all or none."""
        actions, outcomes = observed
        work = len(actions)
        # A long batch is counted first and its evidence computed once for each task.
        incremental = work <= _RECOMPUTE_COST * self.prior.n_arms * len(self.statistics)
        bad = self.prior.observe_loop(
            tasks, actions, outcomes, incremental,
            *self.statistics.stored, *self.prior.loop_parameters, self.relative,
        )  # fmt: skip
        if bad >= 0:
            self.prior.refuse(int(actions[bad]), float(outcomes[bad]), bad)
        if not incremental:
            self._recompute(np.unique(tasks))

    def log_evidence(self) -> Float[Array, "n L"]:
        """log p(history | s), with all constants."""
        return self.relative + self.prior.evidence_constant(self.statistics)[:, None]

    def sample(
        self, rng: np.random.Generator, tasks: Int[Array, " m"], latent: Int[Array, " m"]
    ) -> Float[Array, "m p"]:
        """Mean rewards of all arms, given the one component of each task."""
        return self.prior.marginals(self.statistics, tasks, latent).sample(rng)

    def _all(self, tasks: Int[Array, " m"]) -> Marginal:
        pairs = np.empty((2, len(tasks), self.prior.n_components), np.int64)
        pairs[0], pairs[1] = tasks[:, None], np.arange(self.prior.n_components)
        return self.prior.marginals(self.statistics, pairs[0], pairs[1])

    def component_means(self, tasks: Int[Array, " m"]) -> Float[Array, "m L p"]:
        """E[theta | history, s]."""
        return self._all(tasks).mean()

    def component_covariances(self, tasks: Int[Array, " m"]) -> Float[Array, "m L p p"]:
        """Cov[theta | history, s]: diagonal."""
        variance = self._all(tasks).variance()
        return variance[..., None] * np.eye(self.prior.n_arms)

    def family(self, task: int) -> ArmFamily:
        """The posterior of one task as a prior."""
        parameters = self._all(np.array([task])).parameters[:, 0]
        return self.prior.from_parameters(parameters, self.prior.settings())

    def best_action_probabilities(
        self,
        rng: np.random.Generator,
        tasks: Int[Array, " m"],
        weights: Float[Array, "m L"],
        actions: Array | None,
        mask: Bool[Array, "m K"],
        n_samples: int,
    ) -> tuple[Float[Array, "m K"], Float[Array, "m K"]]:
        """By quadrature: errors are 0, or what its sums are off by where it did not converge.

        Means that round to exactly 0 or 1 (priors far below Beta(0.1, 0.1)) are ties to ``act``,
        which breaks them at random, and not to the quadrature.
        """
        result, error = best_arm_probabilities(self._all(tasks), weights, mask)
        return result, np.where(mask, error[:, None], 0.0)

    def add_tasks(self, n: int) -> None:
        """Append tasks with no history."""
        self.statistics = self.statistics.extend(n)
        if self._lazy is not None:
            self._lazy = np.pad(self._lazy, ((0, n), (0, 0)))
