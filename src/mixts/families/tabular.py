"""Tabular finite-horizon MDPs: Beta priors on mean rewards, Dirichlet priors on transitions."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np

from mixts import _checks
from mixts._typing import Array, ArrayLike, Bool, Float, Int
from mixts.errors import ActionError, ParameterError, TrajectoryError
from mixts.families.base import Family
from mixts.families.statistics import Statistics
from mixts.families.tabular_moments import collapse_rows
from mixts.families.tabular_posterior import TAME, TabularPosterior, draw_parameters
from mixts.families.tabular_statistics import TabularStatistics
from mixts.families.trajectory import Trajectory
from mixts.planning import MDP
from mixts.planning.mdp import state_distribution

LEAST_COUNT, LARGEST_COUNT = 1e-75, 1e75
"""Of the prior counts that are not zero."""


class TabularMDP(Family):
    """MDPs with rewards 0 or 1, for L components  [paper: Sec. 5.2].

    ``reward`` (L, X, A, 2) are the Beta counts of every pair of state and action, that of reward 1
    first; ``transition`` (L, X, A, X) the Dirichlet counts of its next states; ``initial`` (X,) the
    distribution of the first state, or the one state where episodes start. A count of exactly zero
    makes the outcome impossible under that component; every pair needs one positive count of each
    kind.

    Parameters are a row of numbers for each MDP, its mean rewards (X, A), then its transition
    probabilities (X, A, X): :meth:`mdp` reads them. The action of this family is a policy (h, X),
    the best one of an MDP, and its observation a :class:`Trajectory`.
    """

    kind: ClassVar[str] = "tabular-mdp"
    statistics_type: ClassVar[type[Statistics]] = TabularStatistics
    plans: ClassVar[bool] = True

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
        self._prepare()

    def _prepare(self) -> None:
        """The prior as compiled loops take it."""
        flat = [part.reshape(self.n_components, -1) for part in (self.reward, self.transition)]
        self.flat_prior = np.concatenate(flat, axis=1)
        last = [np.array(np.moveaxis(part, 0, -1), order="C") for part in self.arrays_of_counts]
        self.loop_prior: tuple[Array, ...] = (
            last[0],
            last[0].sum(axis=2),
            last[1],
            last[1].sum(axis=2),
        )
        least = min(float(part.max(axis=3).min()) for part in self.arrays_of_counts)
        self.tame = least >= TAME
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
        """One component that knows nothing, the prior of PSRL: Beta(1, 1), Dirichlet(1, ..., 1).

        MixTS with it is PSRL  [paper: Sec. 5.1]. ``support`` (X, A, X) is true where a transition
        is possible: PSRL that is told which states are neighbours. Without ``initial`` every first
        state is equally likely.
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
        """Components whose mean MDPs are those of a batch of L (or the one) given.

        ``strength`` is the total count of every pair's rewards and of its transitions: what the
        prior knows is worth so many observations. What has mean zero is impossible.
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

    # -- what it is ---------------------------------------------------------------------------

    @property
    def n_components(self) -> int:
        """L."""
        return self.reward.shape[0]

    @property
    def n_states(self) -> int:
        """|X|."""
        return self.reward.shape[1]

    @property
    def n_actions(self) -> int:
        """|A|."""
        return self.reward.shape[2]

    @property
    def min_pseudo_count(self) -> float:
        """Lambda_0,min: the least total count of a pair's rewards or transitions  [paper: Thm 2].

        Over all components: the prior is worth at least so many observations everywhere.
        """
        return min(float(part.sum(axis=3).min()) for part in self.arrays_of_counts)

    @property
    def arrays_of_counts(self) -> tuple[Array, Array]:
        """The two stacked priors."""
        return self.reward, self.transition

    @property
    def task_bytes(self) -> int:
        return 8 * (self.n_components + 3 * self.flat_prior.shape[1])

    def arrays(self) -> dict[str, Array]:
        return {"reward": self.reward, "transition": self.transition, "initial": self.initial}

    def settings(self) -> dict[str, Any]:
        return {"horizon": self.horizon}

    def select(self, components: ArrayLike) -> TabularMDP:
        index = np.asarray(components)
        return TabularMDP(self.reward[index], self.transition[index], self.horizon, self.initial)

    def __repr__(self) -> str:
        return (
            f"TabularMDP({self.n_components} components, {self.n_states} states, "
            f"{self.n_actions} actions, horizon {self.horizon})"
        )

    def mdp(self, parameters: ArrayLike) -> MDP:
        """The MDPs that parameters (..., p) describe, checked and copied."""
        array = _checks.numbers(parameters, "parameters must be numbers", ParameterError)
        size = self.n_states * self.n_actions * (1 + self.n_states)
        if array.shape[-1:] != (size,):
            raise ParameterError(
                f"parameters of this family are {size} numbers for each MDP, got {array.shape}"
            )
        mdp = self._view(array)
        return MDP(mdp.rewards, mdp.transitions, self.horizon, self.initial)

    def _view(self, parameters: Float[Array, "... p"]) -> MDP:
        """The same of parameters that are known to be right, without a copy."""
        return MDP.of_parameters(
            parameters, self.n_states, self.n_actions, self.horizon, self.initial
        )

    @property
    def mean_mdps(self) -> MDP:
        """The mean MDP of each component, a batch of L."""
        rewards = self.reward[..., 0] / self.reward.sum(axis=3)
        transitions = self.transition / self.transition.sum(axis=3, keepdims=True)
        return MDP(rewards, transitions, self.horizon, self.initial)

    # -- learning -----------------------------------------------------------------------------

    def observations(self, actions: Any, outcomes: Any) -> tuple[Array, ...]:
        """The arrays of m episodes: states, actions, rewards, lengths."""
        if not isinstance(actions, Trajectory) or outcomes is not None:
            raise TrajectoryError(
                "an MDP is updated with a mixts.Trajectory(states, actions, rewards) alone, got "
                f"{type(actions).__name__}"
                + ("" if outcomes is None else f" and {type(outcomes).__name__}")
            )
        steps = actions.n_steps
        if steps > self.horizon or (actions.lengths is None and steps != self.horizon):
            raise TrajectoryError(
                f"an episode has {self.horizon} steps, got {steps}; say with lengths= how many "
                "steps of a shorter one count"
            )
        arrays: tuple[Array, ...] = (actions.states, actions.actions, actions.rewards)
        if actions.single:
            arrays = tuple(array[None] for array in arrays)
        if actions.lengths is None:
            return (*arrays, np.full(len(arrays[0]), steps))
        return (*arrays, np.atleast_1d(actions.lengths))

    def empty_statistics(self, n_tasks: int | None) -> TabularStatistics:
        """The statistics of tasks with no history."""
        rows = 1 if n_tasks is None else _checks.count(n_tasks, "n_tasks", least=0)
        shape = (rows, self.n_states, self.n_actions)
        return TabularStatistics(
            single=n_tasks is None,
            rewards=np.zeros((*shape, 2), np.int64),
            transitions=np.zeros((*shape, self.n_states), np.int64),
        )

    def posterior(
        self, statistics: Statistics, log_weights: Float[Array, " L"], *, allow_dormant: bool = True
    ) -> TabularPosterior:
        """The posteriors; counts are cheap, so no component ever sleeps."""
        return TabularPosterior(self, statistics, log_weights)

    def collapse(self, weights: Float[Array, " L"]) -> TabularMDP:
        """One component that keeps every pair's moments; which go together is lost.

        Of rewards the mean and variance; of a row of transitions the mean, with the total count
        that matches the sum of the variances, at least 0.01. What is equal and certain in all
        components stays certain, and a zero remains only where every component has it.
        """
        return TabularMDP(
            collapse_rows(self.reward, weights),
            collapse_rows(self.transition, weights),
            self.horizon,
            self.initial,
        )

    # -- acting and simulating ----------------------------------------------------------------

    def draw(self, rng: np.random.Generator, latent: Int[Array, " n"]) -> Float[Array, "n p"]:
        """MDPs from the prior of each given component."""
        return draw_parameters(self, rng, self.flat_prior[latent])

    def mean_rewards(
        self, parameters: Float[Array, "... p"], actions: Array | None = None
    ) -> Float[Array, "... X A"]:
        """The mean reward of every pair of state and action."""
        return self._view(parameters).rewards

    def best_action(
        self,
        rng: np.random.Generator,
        parameters: Float[Array, "m p"],
        actions: Array | None = None,
        mask: Bool[Array, "m K"] | None = None,
    ) -> Int[Array, "m h X"]:
        """argmax_pi V_M(pi) by backward induction, ties at random  [paper: Sec. 5.1]."""
        return self._view(parameters).best_policy(rng)

    def outcomes(self, rng: np.random.Generator, means: Float[Array, " n"]) -> Float[Array, " n"]:
        return (rng.random(means.shape) < means).astype(float)

    def action_sets(self, actions: ArrayLike | None, n_rows: int) -> tuple[Array | None, int]:
        """Policies are planned: nothing may be given."""
        if actions is not None:
            raise ActionError(
                f"the action of a TabularMDP is a policy over its {self.n_actions} actions: "
                "leave actions out"
            )
        return None, self.n_actions


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
