"""Tabular MDPs with a finite horizon: Beta priors on mean rewards, Dirichlet on transitions."""

from __future__ import annotations

from typing import Any, ClassVar, Self, cast

import numpy as np
import scipy  # loads a submodule when it is first used

from mixts import _checks, _program
from mixts._typing import Array, ArrayLike, Bool, Float, Int
from mixts.errors import (
    ActionError,
    OutcomeError,
    ParameterError,
    StatisticsError,
    TrajectoryError,
)
from mixts.families._core_tabular import CoreTabularPosterior, core_evidence
from mixts.families.base import Family, Posterior
from mixts.families.bernoulli import LEAST_SHAPE
from mixts.families.special import log_rising
from mixts.families.statistics import Statistics, stored
from mixts.families.tabular_posterior import (
    TabularPosterior,
    collapse_rows,
    draw_parameters,
    row_means,
    row_variances,
)
from mixts.families.trajectory import Trajectory
from mixts.planning import MDP, state_distribution

LEAST_COUNT, LARGEST_COUNT = 1e-75, 1e75
"""Limits of the prior counts that are not zero."""


class TabularStatistics(Statistics):
    """Counts of the rewards and next states of every pair of state and action.

    ``rewards`` (tasks, X, A, 2) counts ones first; ``transitions`` (tasks, X, A, X). The last step
    of an episode may have a reward and no transition. Histories merge by adding the counts.
    """

    kind: ClassVar[str] = "tabular-mdp"
    fields: ClassVar[dict[str, Any]] = {"rewards": np.int64, "transitions": np.int64}
    support: ClassVar[str] = "0 or 1"

    @classmethod
    def array_shapes(cls, shape: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
        return {"rewards": (*shape, 2), "transitions": (*shape, shape[0])}

    def _check(self) -> None:
        rewards, transitions = self.array("rewards"), self.array("transitions")
        good = rewards.ndim == 4 and rewards.shape[3] == 2 and 0 not in rewards.shape[1:]
        if not good or transitions.shape != (*rewards.shape[:3], rewards.shape[1]):
            raise StatisticsError(
                "expected rewards (tasks, X, A, 2) and transitions (tasks, X, A, X), got "
                f"{rewards.shape} and {transitions.shape}"
            )
        if (rewards < 0).any() or (transitions < 0).any():
            raise StatisticsError("counts must be at least 0")
        if (transitions.sum(axis=3) > rewards.sum(axis=3)).any():
            raise StatisticsError(
                "every step has a reward, so no pair of state and action can have more "
                "transitions than rewards"
            )

    rewards = stored("rewards", "Number of rewards 1 and 0 of each pair, (..., X, A, 2).")
    transitions = stored("transitions", "Number of transitions to each state, (..., X, A, X).")

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the statistics of a task: (n_states, n_actions)."""
        return self.array("rewards").shape[1:3]

    @property
    def n_observations(self) -> Any:
        """Number of steps of each task."""
        return self._view(self.array("rewards").sum(axis=(1, 2, 3)))

    def observations(self, actions: Any, outcomes: Any) -> tuple[Array, ...]:
        """Return the arrays of m episodes: states, actions, rewards, lengths."""
        if not isinstance(actions, Trajectory) or outcomes is not None:
            raise TrajectoryError(
                "an MDP is updated with a mixts.Trajectory(states, actions, rewards) alone, got "
                f"{type(actions).__name__}"
                + ("" if outcomes is None else f" and {type(outcomes).__name__}")
            )
        arrays: tuple[Array, ...] = (actions.states, actions.actions, actions.rewards)
        if actions.single:
            arrays = tuple(array[None] for array in arrays)
        if actions.lengths is not None:
            return (*arrays, np.atleast_1d(actions.lengths))
        lengths = np.empty(len(arrays[0]), np.int64)
        lengths.fill(actions.n_steps)
        return (*arrays, lengths)

    def check_episodes(self, observed: tuple[Array, ...]) -> None:
        """Raise an error that names the first number out of range, its episode and step."""
        states, actions, rewards, lengths = observed
        ends = np.where(lengths > 0, lengths + states.shape[1] - actions.shape[1], 0)
        wrong = [
            _outside(states, ends, self.shape[0]),
            _outside(actions, lengths, self.shape[1]),
            _outside(np.where(np.isin(rewards, (0.0, 1.0)), 0, 1), lengths, 1),
        ]
        bad = np.logical_or.reduce([each.any(axis=1) for each in wrong])
        if not bad.any():
            return
        episode = int(np.argmax(bad))
        for each, values, expected, kind in (
            (wrong[0], states, f"states are 0 to {self.shape[0] - 1}", TrajectoryError),
            (wrong[1], actions, f"actions are 0 to {self.shape[1] - 1}", ActionError),
            (wrong[2], rewards, "rewards of an MDP are 0 or 1", OutcomeError),
        ):
            if each[episode].any():
                step = int(np.argmax(each[episode]))
                got = f"got {values[episode, step]} (episode {episode}, step {step})"
                raise kind(f"{expected}, {got}")

    def _observe(self, tasks: Int[Array, " m"], observed: tuple[Array, ...]) -> None:
        self.check_episodes(observed)
        states, actions, rewards, lengths = observed
        episode, step = np.nonzero(np.arange(actions.shape[1]) < lengths[:, None])
        task, x, a = tasks[episode], states[episode, step], actions[episode, step]
        np.add.at(self.array("rewards"), (task, x, a, 1 - rewards[episode, step].astype(int)), 1)
        # The history holds the transition after the last step only if its next state is given.
        moved = step + 1 < lengths[episode] + states.shape[1] - actions.shape[1]
        y = states[episode[moved], step[moved] + 1]
        np.add.at(self.array("transitions"), (task[moved], x[moved], a[moved], y), 1)


class TabularMDP(Family):
    """Family of MDPs with rewards 0 or 1, for L components  [paper: Sec. 5.2].

    The mean reward of each pair of state and action is Beta(alpha^R), its row of transition
    probabilities Dirichlet(alpha^T).

    *Log evidence*: the sum of the following over all these rows of counts, with prior counts
    alpha_y and counts n_y of the outcomes y, their sums alpha and n, and the gamma function G::

        sum_y ln [G(alpha_y + n_y) / G(alpha_y)] - ln [G(alpha + n) / G(alpha)]

    An outcome with alpha_y = 0 adds 0 if it was not seen, and -inf if it was.

    *Posterior*: add the counts, Beta(alpha^R + counts) and Dirichlet(alpha^T + counts).
    ``tabular_posterior`` has its means (Eq. 7 and 8 of the paper), covariances and draws.

    The parameters theta of an MDP are a row of numbers: its mean rewards (X, A), then its
    transition probabilities (X, A, X); :meth:`mdp` converts them. An action is a policy (h, X), an
    observation a :class:`Trajectory`. A count of exactly zero makes the outcome impossible under
    that component; every pair needs at least one positive count of each kind.

    Parameters
    ----------
    reward
        Beta counts alpha^R of every pair of state and action, (L, X, A, 2), the count of reward 1
        first.
    transition
        Dirichlet counts alpha^T of the next states of every pair, (L, X, A, X).
    horizon
        Number of steps of an episode, h.
    initial
        Distribution of the first state, (X,), or the one state where episodes start.

    Examples
    --------
    >>> import numpy as np
    >>> import mixts
    >>> reward, transition = np.ones((2, 3, 2, 2)), np.ones((2, 3, 2, 3))
    >>> reward[0, :, 0, 0] = reward[1, :, 1, 0] = 9  # which action is rewarded depends on the kind
    >>> family = mixts.TabularMDP(reward, transition, horizon=4, initial=0)
    >>> agent = mixts.MixTS(mixts.MixturePrior(family), seed=1)
    >>> policy = agent.act()
    >>> policy.shape
    (4, 3)
    """

    kind: ClassVar[str] = "tabular-mdp"
    array_names: ClassVar[tuple[str, ...]] = ("reward", "transition", "initial")
    common_arrays = ("initial",)
    statistics_type: ClassVar[type[Statistics]] = TabularStatistics
    posterior_type: ClassVar[type[Posterior]] = TabularPosterior
    plans: ClassVar[bool] = True
    reward_range: ClassVar[tuple[float, float] | None] = (0.0, 1.0)

    def __init__(
        self, reward: ArrayLike, transition: ArrayLike, horizon: int, initial: ArrayLike
    ) -> None:
        self.reward: Float[Array, "L X A 2"] = _checks.real_array(reward, "reward", 4)
        self.transition: Float[Array, "L X A X"] = _checks.real_array(transition, "transition", 4)
        shape = self.reward.shape
        if shape[3] != 2 or self.transition.shape != (*shape[:3], shape[1]):
            raise ParameterError(
                "reward must have shape (L, X, A, 2) and transition (L, X, A, X), "
                f"got {shape} and {self.transition.shape}"
            )
        _usable_counts(self.reward, "reward")
        _usable_counts(self.transition, "transition")
        self.horizon = _checks.count(horizon, "horizon")
        self.initial: Float[Array, " X"] = state_distribution(initial, shape[1])

        flat = [part.reshape(self.n_components, -1) for part in self.arrays_of_counts]
        self.flat_prior = np.concatenate(flat, axis=1)
        """Counts of each component as one row: rewards, then transitions."""
        least = min(float(part.max(axis=3).min()) for part in self.arrays_of_counts)
        self.never_underflows = least >= LEAST_SHAPE
        """Whether no row of counts is so small that all its gamma variables could underflow."""

    @classmethod
    def uniform(
        cls,
        n_states: int,
        n_actions: int,
        horizon: int,
        initial: ArrayLike | None = None,
        support: ArrayLike | None = None,
    ) -> Self:
        """Return the uninformed prior of PSRL, one component: Beta(1, 1), Dirichlet(1, ..., 1).

        MixTS with this prior is PSRL  [paper: Sec. 5.1].

        Parameters
        ----------
        n_states, n_actions, horizon
            Sizes of the MDP.
        initial
            Distribution of the first state; uniform if None.
        support
            Boolean (X, A, X), true where a transition is possible; everywhere if None.

        Returns
        -------
        TabularMDP
            A family of one component.
        """
        n_states = _checks.count(n_states, "n_states")
        shape = (1, n_states, _checks.count(n_actions, "n_actions"))
        transition = np.ones((*shape, n_states))
        if support is not None:
            mask = np.asarray(support)
            if mask.dtype != np.bool_ or mask.shape != transition.shape[1:]:
                raise ParameterError(
                    f"support must be boolean of shape {transition.shape[1:]}, true where a "
                    f"transition is possible, got {mask.dtype} of shape {mask.shape}"
                )
            transition *= mask
        if initial is None:
            initial = np.full(n_states, 1.0 / n_states)
        return cls(np.ones((*shape, 2)), transition, horizon, initial)

    @classmethod
    def from_means(cls, mdps: MDP, strength: float) -> Self:
        """Return components whose mean MDPs are given.

        Parameters
        ----------
        mdps
            A batch of L MDPs, or one. An outcome of mean zero is impossible.
        strength
            Total count of every pair's rewards and of its transitions: the prior is worth this many
            observations of each pair.

        Returns
        -------
        TabularMDP
            A family of L components.
        """
        if not isinstance(mdps, MDP) or len(mdps.shape) > 1:
            raise ParameterError(f"mdps must be an MDP, or a batch with one axis, got {mdps!r}")
        total = _checks.positive_number(strength, "strength")
        rewards, transitions = mdps.rewards, mdps.transitions
        if not mdps.shape:
            rewards, transitions = rewards[None], transitions[None]
        if (rewards < 0).any() or (rewards > 1).any():
            raise ParameterError("mean rewards must be between 0 and 1: they are probabilities")
        both = np.stack([rewards, 1 - rewards], axis=-1)
        return cls(total * both, total * transitions, mdps.horizon, mdps.initial)

    # -- sizes and files ----------------------------------------------------------------------

    @property
    def n_components(self) -> int:
        """Number of components, L."""
        return self.reward.shape[0]

    @property
    def n_states(self) -> int:
        """Number of states, ``|X|``."""
        return self.reward.shape[1]

    @property
    def n_actions(self) -> int:
        """Number of actions, ``|A|``."""
        return self.reward.shape[2]

    @property
    def min_pseudo_count(self) -> float:
        """Lambda_0,min: the least total count of a pair's rewards or transitions  [paper: Thm 2].

        The least over all components: the prior is worth at least this many observations
        everywhere.
        """
        return min(float(part.sum(axis=3).min()) for part in self.arrays_of_counts)

    @property
    def arrays_of_counts(self) -> tuple[Array, Array]:
        """Reward and transition counts."""
        return self.reward, self.transition

    @property
    def statistics_shape(self) -> tuple[int, ...]:
        """Shape of the statistics of a task: (n_states, n_actions)."""
        return (self.n_states, self.n_actions)

    @property
    def task_bytes(self) -> int:
        return 8 * (self.n_components + 3 * self.flat_prior.shape[1])

    def settings(self) -> dict[str, Any]:
        return {"horizon": self.horizon}

    def learning_settings(self) -> dict[str, Any]:
        return {"horizon": self.horizon, "initial": self.initial}

    def _with_counts(self, reward: Array, transition: Array) -> TabularMDP:
        return TabularMDP(reward, transition, self.horizon, self.initial)

    def __repr__(self) -> str:
        return (
            f"TabularMDP({self.n_components} components, {self.n_states} states, "
            f"{self.n_actions} actions, horizon {self.horizon})"
        )

    def mdp(self, parameters: ArrayLike) -> MDP:
        """Return the MDPs that parameters (..., p) describe, checked and copied."""
        array = _checks.numbers(parameters, "parameters must be numbers", ParameterError)
        size = self.n_states * self.n_actions * (1 + self.n_states)
        if array.shape[-1:] != (size,):
            raise ParameterError(
                f"parameters of this family are {size} numbers for each MDP, got {array.shape}"
            )
        mdp = self._view(array)
        return MDP(mdp.rewards, mdp.transitions, self.horizon, self.initial)

    def _view(self, parameters: Float[Array, "... p"]) -> MDP:
        """Return the MDPs of checked parameters, without a copy."""
        return MDP.of_parameters(
            parameters, self.n_states, self.n_actions, self.horizon, self.initial
        )

    # -- moments of the prior -----------------------------------------------------------------

    def parameter_means(self) -> Float[Array, "L p"]:
        """Return the prior mean of rewards and transitions under each component."""
        return self._as_parameters(row_means(self.reward), row_means(self.transition))

    def parameter_variances(self) -> Float[Array, "L p"]:
        """Return the prior variance of rewards and transitions under each component."""
        return self._as_parameters(row_variances(self.reward), row_variances(self.transition))

    def parameter_quantiles(self, probability: float) -> Float[Array, "L p"]:
        """Return a prior quantile of rewards and transitions under each component."""

        def quantiles(counts: Array) -> Array:
            rest = counts.sum(axis=3, keepdims=True) - counts
            inside = scipy.special.betaincinv(np.maximum(counts, 1e-75), rest + 1e-75, probability)
            return np.where(counts == 0, 0.0, np.where(rest == 0, 1.0, inside))

        return self._as_parameters(quantiles(self.reward), quantiles(self.transition))

    def _as_parameters(self, reward: Array, transition: Array) -> Float[Array, "L p"]:
        flat = [part.reshape(self.n_components, -1) for part in (reward[..., 0], transition)]
        return np.concatenate(flat, axis=1)

    # -- learning -----------------------------------------------------------------------------

    def posterior(
        self, statistics: Statistics, log_weights: Float[Array, " L"], *, allow_dormant: bool = True
    ) -> TabularPosterior:
        self.check_statistics(statistics)
        counts = cast(TabularStatistics, statistics)
        kind = TabularPosterior if _program.core is None else CoreTabularPosterior
        return kind(self, counts, log_weights, allow_dormant=allow_dormant)

    def log_evidence(self, statistics: Statistics) -> Float[Array, "n L"]:
        """Return log p(history | s), -inf where a component rules it out  [paper: Sec. 5.2].

        The history is ordered, so there are no multinomial coefficients; the class has the formula.
        """
        self.check_statistics(statistics)
        if _program.core is not None:
            return core_evidence(self, statistics)
        out = np.zeros((len(statistics), self.n_components))
        for prior, counts in zip(self.arrays_of_counts, statistics.stored, strict=True):
            n = counts.sum(axis=-1)
            for s, a in enumerate(prior):
                known = np.where(a > 0, log_rising(np.where(a > 0, a, 1.0), counts), 0.0)
                each = np.where((a == 0) & (counts > 0), -np.inf, known).sum(axis=-1)
                out[:, s] += (each - log_rising(a.sum(axis=-1), n)).sum(axis=(1, 2))
        return out

    def collapse(self, weights: Float[Array, " L"]) -> TabularMDP:
        """Return one component that keeps every pair's moments but not their correlations.

        Rewards keep mean and variance. A row of transitions keeps its mean, with the total count
        that matches the sum of the variances, at least 0.01. Outcomes that are certain in all
        components stay certain, and a zero remains only where every component has it.
        """
        return self._with_counts(
            collapse_rows(self.reward, weights), collapse_rows(self.transition, weights)
        )

    def broaden(self, weights: Float[Array, " L"], factor: float) -> TabularMDP:
        """Return one count for every outcome that any component thinks possible."""
        reward, transition = (
            (part > 0).any(axis=0, keepdims=True).astype(float) for part in self.arrays_of_counts
        )
        return self._with_counts(reward, transition)

    # -- acting and simulating ----------------------------------------------------------------

    def draw(self, rng: np.random.Generator, latent: Int[Array, " n"]) -> Float[Array, "n p"]:
        """Draw MDPs from the prior of each given component."""
        return draw_parameters(self, rng, self.flat_prior[latent])

    def mean_rewards(
        self, parameters: Float[Array, "... p"], actions: Array | None = None
    ) -> Float[Array, "... X A"]:
        """Return the mean reward of every pair of state and action."""
        return self._view(parameters).rewards

    def best_action(
        self,
        rng: np.random.Generator,
        parameters: Float[Array, "m p"],
        actions: Array | None = None,
        mask: Bool[Array, "m K"] | None = None,
    ) -> Int[Array, "m h X"]:
        """Return argmax_pi V_M(pi) by backward induction, ties at random  [paper: Sec. 5.1]."""
        return self._view(parameters).best_policy(rng)

    def outcomes(self, rng: np.random.Generator, means: Float[Array, " n"]) -> Float[Array, " n"]:
        return (rng.random(means.shape) < means).astype(float)

    def action_sets(self, actions: ArrayLike | None, n_rows: int) -> tuple[Array | None, int]:
        """Refuse actions: policies are planned."""
        if actions is not None:
            raise ActionError(
                f"the action of a TabularMDP is a policy over its {self.n_actions} actions: "
                "leave actions out"
            )
        return None, self.n_actions


def _outside(values: Int[Array, "m i"], lengths: Int[Array, " m"], size: int) -> Bool[Array, "m i"]:
    """Return where numbers of the steps that count are not from 0 to ``size - 1``."""
    counts = np.arange(values.shape[1]) < lengths[:, None]
    return np.asarray(counts & ((values < 0) | (values >= size)))


def _usable_counts(counts: Array, name: str) -> None:
    _checks.positive(counts, name, zero=True)
    # Their sums and quotients must neither overflow nor vanish.
    bad = (counts > LARGEST_COUNT) | ((counts > 0) & (counts < LEAST_COUNT))
    if bad.any():
        where = tuple(int(i) for i in np.argwhere(bad)[0])
        raise ParameterError(
            f"{name} must be 0 or from {LEAST_COUNT:g} to {LARGEST_COUNT:g}, got "
            f"{counts[where]} at index {where}"
        )
    empty = counts.sum(axis=3) <= 0
    if empty.any():
        s, x, a = (int(i) for i in np.argwhere(empty)[0])
        raise ParameterError(
            f"{name} must have a positive count for every pair: component {s}, state {x}, "
            f"action {a} has only zeros, so that nothing could happen there"
        )
