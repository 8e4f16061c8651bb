"""Families of independent arms: the code that Bernoulli, Gaussian, Poisson and spend arms share.

A concrete family adds its parameters, the log evidence of its statistics, the parameters of an
arm's posterior, and its marginal distribution (the posterior of one arm's mean).
"""

from __future__ import annotations

import functools
from abc import abstractmethod
from typing import Any, ClassVar, NoReturn, Self

import numpy as np

from mixts import _checks, _program
from mixts._numbers import LARGEST
from mixts._typing import Array, ArrayLike, Bool, Float, Int
from mixts.errors import ActionError, OutcomeError, ParameterError, StatisticsError
from mixts.families.base import Family, Posterior, Waiting
from mixts.families.choice import best_rows
from mixts.families.marginals import MeanDistribution
from mixts.families.rewards import IndependentRewards, RewardBelief
from mixts.families.statistics import Statistics, turns

_BLOCK = 1 << 20
"""Terms of the log evidence that are computed at a time: tasks times components times arms."""

Moments = tuple[Array, ...]
"""Counts, averages and sums of squared deviations of each arm, (tasks, arms)."""


class ArmStatistics(Statistics):
    """Statistics with one entry per task and arm in every array."""

    may_grow: ClassVar[bool] = True
    core_count: ClassVar[str]
    """Name of the core's function that counts in the same way; a subclass does not inherit it."""

    @classmethod
    def array_shapes(cls, shape: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
        return dict.fromkeys(cls.fields, shape)

    def _check(self) -> None:
        shapes = {self.array(name).shape for name in self.fields}
        shape = self.array(next(iter(self.fields))).shape
        if len(shapes) != 1 or len(shape) != 2:
            raise StatisticsError(f"expected arrays of one shape (tasks, arms), got {shapes}")
        for name in self.fields:
            if name != "average" and (self.array(name) < 0).any():
                raise StatisticsError(f"{name} must be at least 0")

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the statistics of a task: (n_arms,)."""
        return self.stored[0].shape[1:]

    @property
    def n_observations(self) -> Any:
        """Number of observations of each task."""
        return self._view(self.pulls.sum(axis=1))

    @property
    def pulls(self) -> Int[Array, "n K"]:
        """Number of observations of each arm, task axis first."""
        return self.array("count")

    @functools.cached_property
    def _expected(self) -> str:
        return f"actions must be arm indices (integers from 0 to {self.shape[0] - 1})"

    def observations(
        self, actions: ArrayLike, outcomes: ArrayLike
    ) -> tuple[Int[Array, " m"], Float[Array, " m"]]:
        """Return arm indices and rewards as arrays of m observations."""
        # One plain observation is by far the most frequent case.
        plain = isinstance(outcomes, float) or (type(outcomes) is int and abs(outcomes) <= LARGEST)
        if plain and type(actions) is int and 0 <= actions < self.stored[0].shape[1]:
            # numpy takes twice the time to convert a list.
            arm, reward = np.empty(1, np.int64), np.empty(1)
            arm[0], reward[0] = actions, outcomes
            return arm, reward
        arms = _checks.integers(actions, self._expected, ActionError)
        rewards = _checks.numbers(outcomes, "outcomes must be numbers", OutcomeError)
        if arms.ndim > 1 or arms.shape != rewards.shape:
            raise ActionError(
                "actions and outcomes must be two numbers, or two arrays of one length, "
                f"got shapes {arms.shape} and {rewards.shape}"
            )
        return arms.reshape(-1), rewards.reshape(-1)

    def checked_actions(self, actions: ArrayLike) -> Int[Array, " m"]:
        """Return the arms of decisions without outcomes."""
        arms = _checks.integers(actions, self._expected, ActionError)
        if arms.ndim > 1 or ((arms < 0) | (arms >= self.shape[0])).any():
            raise ActionError(f"{self._expected}, got {actions!r}")
        return arms.reshape(-1)

    @abstractmethod
    def accepts(self, rewards: Float[Array, " m"]) -> Bool[Array, " m"]:
        """Return which of these rewards are possible.

        Parameters
        ----------
        rewards
            Rewards, (m,); any number, NaN too.

        Returns
        -------
        array
            True where a reward is possible, (m,).
        """

    @abstractmethod
    def count_rewards(
        self, at: tuple[Int[Array, " m"], Int[Array, " m"]], rewards: Float[Array, " m"]
    ) -> None:
        """Count possible rewards in place.

        Parameters
        ----------
        at
            The task and the arm of each reward: an index of the arrays (tasks, arms).
        rewards
            Rewards, (m,).
        """

    def _observe(self, tasks: Int[Array, " m"], observed: tuple[Array, ...]) -> None:
        arms, rewards = observed
        core_count = type(self).__dict__.get("core_count")
        if _program.core is not None and core_count is not None:
            count = getattr(_program.core, core_count)
            bad = count(tasks, arms, rewards, *self.stored)
            if bad >= 0:
                self.refuse(observed, bad)
            return
        good = self._possible(tasks, arms, rewards)
        if not good.all():
            self.refuse(observed, int(good.argmin()))
        self.count_rewards((tasks, arms), rewards)

    def _possible(self, tasks: Array, arms: Array, rewards: Array) -> Bool[Array, " m"]:
        """Return which observations have a known arm and a possible reward."""
        return np.asarray((arms >= 0) & (arms < self.shape[0]) & self.accepts(rewards))

    def refuse(self, observed: tuple[Array, ...], index: int) -> NoReturn:
        """Raise `ActionError` or `OutcomeError` for one of the observations."""
        arm, n_arms = int(observed[0][index]), self.shape[0]
        if not 0 <= arm < n_arms:
            raise ActionError(
                f"arms are numbered from 0 to {n_arms - 1}, got {arm} (observation {index})"
            )
        raise OutcomeError(
            f"rewards of {self.kind.replace('-', ' ').capitalize()} must be {self.support}, "
            f"got {float(observed[1][index])} (observation {index})"
        )

    def with_arms(self, n: int) -> Self:
        """Return the same histories with ``n`` more arms without observations."""
        widened = {name: np.pad(self.array(name), ((0, 0), (0, n))) for name in self.fields}
        return type(self)(single=self.single, **widened)


def merge_moments(ours: Moments, theirs: Moments) -> Moments:
    """Merge counts n, averages y and squared deviations M2 by Chan's formula.

    ::

        n = n1 + n2
        y = y1 + (y2 - y1) n2 / n
        M2 = M2_1 + M2_2 + (y2 - y1)^2 n1 n2 / n

    Rewards near 1000 keep their digits, which a difference of sums of squares would lose.
    """
    count = ours[0] + theirs[0]
    share = theirs[0] / np.maximum(count, 1)
    gap = theirs[1] - ours[1]
    # An arm that only one side has observed keeps that side's average exactly.
    average = np.where(share == 1, theirs[1], ours[1] + gap * share)
    return count, average, ours[2] + theirs[2] + gap * gap * share * ours[0]


def count_moments(
    moments: Moments, at: tuple[Int[Array, " m"], Int[Array, " m"]], values: Float[Array, " m"]
) -> None:
    """Add values to counts, averages and squared deviations in place, one after the other."""
    for turn in turns(np.ravel_multi_index(at, moments[0].shape)):
        rows = at[0][turn], at[1][turn]
        one = np.ones(len(turn), dtype=np.int64), values[turn], np.zeros(len(turn))
        merged = merge_moments(tuple(array[rows] for array in moments), one)
        for array, entries in zip(moments, merged, strict=True):
            array[rows] = entries


class ArmPosterior(Posterior):
    """Posteriors of arms, computed from the statistics at each call; only log evidence is kept.

    Arms are cheap, so no component becomes dormant.
    """

    rewards_type: ClassVar[Any] = IndependentRewards
    """Belief about the mean rewards of arms, made of weights and distributions."""
    _evidence: Array | None = None
    """Log evidence, once it is computed."""

    @property
    def relative_evidence(self) -> Float[Array, "n L"]:  # type: ignore[override]
        """log p(history | s) up to a constant per task, computed at the first use."""
        if self._evidence is None:
            self._evidence = np.zeros((len(self.statistics), self.prior.n_components))
            self._recompute(np.flatnonzero(self.statistics.pulls.any(axis=1)))
        return self._evidence

    def _recompute(self, tasks: Int[Array, " m"]) -> None:
        """Compute the log evidence of these tasks from their statistics."""
        assert self._evidence is not None
        size = max(1, _BLOCK // self._evidence.shape[1] // self.prior.n_arms)
        for start in range(0, len(tasks), size):
            some = tasks[start : start + size]
            self._evidence[some] = self.prior.relative_evidence(self.statistics[some])

    def update(self, tasks: Int[Array, " m"], observed: tuple[Array, ...]) -> None:
        """Count observations, all or none, and compute the evidence of their tasks again."""
        self.statistics._observe(tasks, observed)
        if self._evidence is not None:
            self._recompute(np.unique(tasks))

    def log_evidence(self) -> Float[Array, "n L"]:
        """Return log p(history | s), with all constants."""
        return self.relative_evidence + self.prior.evidence_constant(self.statistics)[:, None]

    def sample(
        self, rng: np.random.Generator, tasks: Int[Array, " m"], latent: Int[Array, " m"]
    ) -> Float[Array, "m p"]:
        """Draw mean rewards of all arms, given the one component of each task."""
        return self.prior.marginals(self.statistics, tasks, latent).sample(rng)

    def draw_best(
        self,
        rng: np.random.Generator,
        tasks: Int[Array, " m"],
        latent: Int[Array, " m"],
        actions: Array | None,
        mask: Bool[Array, "m K"] | None,
    ) -> Int[Array, " m"]:
        """Draw mean rewards on a scale that keeps small differences; return the best arms."""
        drawn = self.prior.marginals(self.statistics, tasks, latent).sample_mapped(rng)
        return best_rows(rng, drawn, mask)

    def _marginals(self, tasks: Int[Array, " m"]) -> Any:
        """Return the distributions of the arms' means for these tasks and all components."""
        every = np.arange(self.prior.n_components)
        return self.prior.marginals(self.statistics, tasks[:, None], every)

    def component_means(self, tasks: Int[Array, " m"]) -> Float[Array, "m L p"]:
        """Return E[theta | history, s]."""
        return self._marginals(tasks).mean()

    def component_covariances(self, tasks: Int[Array, " m"]) -> Float[Array, "m L p p"]:
        """Return Cov[theta | history, s], which is diagonal."""
        variance = self._marginals(tasks).variance()
        return variance[..., None] * np.eye(self.prior.n_arms)

    def family(self, task: int) -> ArmFamily:
        """Return the posterior of one task as a prior."""
        parameters = self._marginals(np.array([task])).parameters[:, 0]
        return self.prior.from_parameters(parameters, self.prior.settings())

    def rewards(
        self,
        tasks: Int[Array, " m"],
        weights: Float[Array, "m L"],
        actions: Array | None,
        waiting: Waiting | None = None,
    ) -> RewardBelief:
        """Return the belief about the mean rewards of the arms."""
        belief: Any = self.rewards_type(weights, self._marginals(tasks))
        if waiting is None or not len(waiting.tasks):
            return belief
        distinct, rows = np.unique(tasks, return_inverse=True)
        counts = np.zeros((len(distinct), self.prior.n_arms), np.int64)
        np.add.at(counts, tuple(waiting.among(distinct)), 1)
        return belief.expecting(counts[rows])

    def add_tasks(self, n: int) -> None:
        """Append tasks without observations."""
        self.statistics = self.statistics.extend(n)
        if self._evidence is not None:
            self._evidence = np.pad(self._evidence, ((0, n), (0, 0)))


class ArmFamily(Family):
    """Independent arms given the component; parameters are the arms' mean rewards."""

    statistics_type: ClassVar[type[ArmStatistics]]
    posterior_type: ClassVar[type[Posterior]] = ArmPosterior
    core_class: ClassVar[str]
    """Name of the core's class of these arms; a subclass, which may have other formulas, does not
    inherit it."""

    @property
    def as_arms(self) -> Self:
        """This family."""
        return self

    def posterior(
        self, statistics: Statistics, log_weights: Float[Array, " L"], *, allow_dormant: bool = True
    ) -> Any:
        """Return the posteriors given statistics, computed by the core if it knows the family."""
        self.check_statistics(statistics)
        kind = self.posterior_type
        if _program.core is not None and "core_class" in type(self).__dict__:
            from mixts.families._core_arms import CORE_POSTERIORS

            kind = CORE_POSTERIORS[kind]
        return kind(self, statistics, log_weights, allow_dormant=allow_dormant)

    @property
    def core_parameters(self) -> tuple[tuple[Array, ...], tuple[Any, ...]]:
        """The two parameters of each arm, (L, K), and those that all arms share, for the core."""
        first, second = self.arrays().values()
        return (first, second), ()

    @abstractmethod
    def relative_evidence(self, statistics: Any) -> Float[Array, "n L"]:
        """Return log p(history | s) of each task, without ``evidence_constant``.

        Parameters
        ----------
        statistics
            Statistics of n tasks.

        Returns
        -------
        array
            Log evidence, (n, L), computed from the statistics alone.
        """

    @abstractmethod
    def posterior_parameters(
        self, statistics: Any, tasks: Int[Array, "..."], latent: Int[Array, "..."]
    ) -> Float[Array, "q ... K"]:
        """Return the parameters of every arm's posterior, as ``marginal`` takes them.

        Parameters
        ----------
        statistics
            Statistics of the tasks.
        tasks, latent
            Indices of tasks and of components, which broadcast.

        Returns
        -------
        array
            The q parameters of each arm's distribution, (q, ..., K).
        """

    @abstractmethod
    def marginal(self, parameters: Float[Array, "q ... K"]) -> MeanDistribution:
        """Return the distributions with these parameters for each arm.

        Parameters
        ----------
        parameters
            The q parameters of each arm's distribution, (q, ..., K).

        Returns
        -------
        MeanDistribution
            The distributions.
        """

    def evidence_constant(self, statistics: Statistics) -> Float[Array, " n"]:
        """Return the part of the log evidence that all components share.

        Parameters
        ----------
        statistics
            Statistics of n tasks.

        Returns
        -------
        array
            The part of each task, (n,).
        """
        return np.zeros(len(statistics))

    @classmethod
    @abstractmethod
    def match(cls, mean: Array, variance: Array, settings: dict[str, Any]) -> Self:
        """Return the family whose arms have these means and variances.

        Parameters
        ----------
        mean, variance
            Moments of the arms' mean rewards, (L, K).
        settings
            The constructor's other arguments, as :meth:`settings` returns them.

        Returns
        -------
        ArmFamily
            The family.
        """

    def like(self, mean: Float[Array, "L k"], variance: Float[Array, "L k"]) -> ArmFamily:
        """Return arms with these moments that otherwise resemble the arms of each component.

        Parameters
        ----------
        mean, variance
            Moments of the arms' mean rewards, (L, k).

        Returns
        -------
        ArmFamily
            The family of k arms.
        """
        return self.match(mean, variance, self.settings())

    @classmethod
    def from_parameters(cls, parameters: Float[Array, "q L K"], settings: dict[str, Any]) -> Self:
        """Return the family whose components have these parameters for each arm.

        Parameters
        ----------
        parameters
            The q parameters of each arm's distribution, (q, L, K).
        settings
            The constructor's other arguments, as :meth:`settings` returns them.

        Returns
        -------
        ArmFamily
            The family.
        """
        return cls(*parameters, **settings)

    @functools.cached_property
    def n_components(self) -> int:
        """Number of components, L."""
        return len(next(iter(self.arrays().values())))

    @functools.cached_property
    def n_arms(self) -> int:
        """Number of arms, K."""
        return int(next(iter(self.arrays().values())).shape[1])

    @property
    def statistics_shape(self) -> tuple[int, ...]:
        """Shape of the statistics of a task: (n_arms,)."""
        return (self.n_arms,)

    def __repr__(self) -> str:
        settings = "".join(f", {k}={v!r}" for k, v in self.settings().items())
        return (
            f"{type(self).__name__}({self.n_components} components, {self.n_arms} arms{settings})"
        )

    def arms(self, index: ArrayLike) -> Self:
        """Return the family of these arms, in this order, repeats allowed.

        Parameters
        ----------
        index
            Indices of arms.

        Returns
        -------
        ArmFamily
            The family of these arms.
        """
        chosen = np.asarray(index, np.int64)
        some = {k: v[:, chosen] if v.ndim > 1 else v for k, v in self.arrays().items()}
        return type(self)(**some, **self.settings())

    def shared(self) -> dict[str, Any]:
        """Return the parameters that all arms share: settings, and arrays without an axis of arms.

        New arms must have the same.
        """
        own = {k: v.tolist() for k, v in self.arrays().items() if v.ndim == 1}
        return {**own, **self.settings()}

    def with_arms(self, other: Family) -> Self:
        """Return these arms followed by the other family's, component by component.

        Parameters
        ----------
        other
            A family of the same kind with as many components.

        Returns
        -------
        ArmFamily
            The family of all arms.
        """
        if type(other) is not type(self) or other.settings() != self.settings():
            raise ParameterError(f"expected arms of {self!r}'s kind and settings, got {other!r}")
        if other.n_components != self.n_components:
            raise ParameterError(
                f"new arms need parameters for each of the {self.n_components} components, "
                f"got {other.n_components}"
            )
        if other.shared() != self.shared():
            raise ParameterError(
                f"all arms of a task share its noise: expected {self.shared()}, got "
                f"{other.shared()}"
            )
        theirs = other.arrays()
        joined = {
            k: np.concatenate([v, theirs[k]], axis=1) if v.ndim > 1 else v
            for k, v in self.arrays().items()
        }
        return type(self)(**joined, **self.settings())

    def marginals(self, statistics: Statistics, tasks: Array, latent: Array) -> MeanDistribution:
        """Return the distributions of the arms' means for tasks and components.

        Parameters
        ----------
        statistics
            Statistics of the tasks.
        tasks, latent
            Indices of tasks and of components, which broadcast.

        Returns
        -------
        MeanDistribution
            The distributions for each pair of a task and a component.
        """
        return self.marginal(self.posterior_parameters(statistics, tasks, latent))

    def prior_marginal(self, latent: Array) -> MeanDistribution:
        """Return the prior distributions of the arms' means under components.

        Parameters
        ----------
        latent
            Indices of components.

        Returns
        -------
        MeanDistribution
            The distributions for each component.
        """
        return self.marginals(self.empty_statistics(1), np.zeros(1, np.int64), latent)

    def _prior(self) -> MeanDistribution:
        return self.prior_marginal(np.arange(self.n_components))

    def parameter_means(self) -> Float[Array, "L p"]:
        """Return the prior mean of every arm under each component."""
        return self._prior().mean()

    def parameter_variances(self) -> Float[Array, "L p"]:
        """Return the prior variance of every arm's mean under each component."""
        return self._prior().variance()

    def parameter_quantiles(self, probability: float) -> Float[Array, "L p"]:
        """Return a prior quantile of every arm's mean under each component."""
        return self._prior().quantile(probability)

    def collapse(self, weights: Float[Array, " L"]) -> Self:
        """Return one component with each arm's mean and variance, without correlation of arms."""
        prior = self._prior()
        w = weights[:, None]
        mean = (w * prior.mean()).sum(axis=0, keepdims=True)
        spread = (w * (prior.mean() - mean) ** 2).sum(axis=0, keepdims=True)
        variance = (w * prior.variance()).sum(axis=0, keepdims=True) + spread
        return self.match(mean, variance, self.settings())

    def broaden(self, weights: Float[Array, " L"], factor: float) -> Family:
        """Return one component with the mixture's means and ``factor`` times its variances."""
        one = self.collapse(weights)._prior()
        return self.match(one.mean(), factor * one.variance(), self.settings())

    def _reward_moments(self, statistics: Statistics, actions: Array) -> tuple[Array, Array]:
        rows, every = np.arange(len(actions))[:, None], np.arange(self.n_components)
        marginal = self.marginals(statistics, rows, every)
        return marginal.mean()[rows, :, actions], marginal.variance()[rows, :, actions]

    def draw(self, rng: np.random.Generator, latent: Int[Array, " n"]) -> Float[Array, "n p"]:
        """Draw mean rewards from the prior of each given component."""
        return self.prior_marginal(latent).sample(rng)

    def mean_rewards(
        self, parameters: Float[Array, "... p"], actions: Array | None = None
    ) -> Float[Array, "... K"]:
        """Return the parameters: they are the mean rewards."""
        return parameters

    def action_sets(self, actions: ArrayLike | None, n_rows: int) -> tuple[Array | None, int]:
        """Refuse actions: the arms are fixed."""
        if actions is not None:
            raise ActionError(
                f"{type(self).__name__} has {self.n_arms} fixed arms: leave actions out "
                "(a mask says which are available)"
            )
        return None, self.n_arms
