"""MDPs drawn from a prior, played an episode at a time."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from mixts._typing import Array, Int
from mixts.environments._kernels import play_episodes
from mixts.environments.base import Environment, Offer, Outcome, Problem, Streams
from mixts.errors import ActionError, ParameterError
from mixts.families.tabular import TabularMDP
from mixts.families.trajectory import Trajectory
from mixts.planning import MDP
from mixts.planning.mdp import shaped_policy
from mixts.prior import MixturePrior


class MDPEnvironment(Environment):
    """MDPs whose latent state and parameters are drawn from ``prior``  [paper: Sec. 5].

    A round is an episode: agents choose a policy (h, X) for each run, and learn from its
    trajectory. The true value of a policy is computed exactly, never sampled.

    Parameters
    ----------
    prior
        A prior of :class:`TabularMDP`.
    last_state
        Whether trajectories include the state after the last step; the paper's history does not.

    Examples
    --------
    >>> import mixts
    >>> prior = mixts.RiverSwim(n_states=4, horizon=8).prior
    >>> environment = mixts.MDPEnvironment(prior)
    >>> results = mixts.simulate({"MixTS": prior}, environment, n_rounds=5, n_runs=3, seed=1)
    >>> results.reward["MixTS"].shape
    (3, 5)
    """

    def __init__(self, prior: MixturePrior, *, last_state: bool = True) -> None:
        if not isinstance(prior, MixturePrior) or not prior.family.plans:
            raise ParameterError(f"prior must be a MixturePrior of a TabularMDP, got {prior!r}")
        self.prior = prior
        self.family = cast(TabularMDP, prior.family)
        self.last_state = bool(last_state)

    def __repr__(self) -> str:
        return f"MDPEnvironment({self.family!r})"

    @property
    def task_bytes(self) -> int:
        return self.family.task_bytes

    def start(self, streams: Streams, n_tasks: int) -> MDPProblem:
        """Draw MDPs from the prior; episodes have a stream of their own."""
        latent, parameters = self._tasks().draw(streams("tasks"), n_tasks)
        mdps = self.family.mdp(parameters)
        return MDPProblem(latent, mdps, streams("episodes"), self.last_state)

    def _tasks(self) -> MixturePrior:
        """Return the distribution of tasks."""
        return self.prior


class MDPProblem(Problem):
    """One MDP for each run."""

    def __init__(
        self,
        latent: Int[Array, " n"],
        mdps: MDP,
        rng: np.random.Generator,
        last_state: bool = True,
    ) -> None:
        self.latent = latent
        self.mdps = mdps
        self._rng = rng
        self._n_states = mdps.horizon + last_state
        self.best_policy = mdps.plan().policy
        """pi*, the best policy of each run."""
        self._best = mdps.value(self.best_policy)

    def next_round(self) -> Offer:
        return Offer()

    def play(self, chosen: Any) -> Outcome:
        """Play an episode of each run, and compute the exact value of its policy."""
        mdps = self.mdps
        policy = self._shaped(chosen)
        try:  # before the policies are followed: this finds actions that do not exist
            values = mdps.values_of(policy)[:, 0].dot(mdps.initial)
        except ParameterError as error:
            raise self._refused(error) from error
        n, horizon = len(mdps), mdps.horizon
        uniform = self._rng.random((n, 2 * horizon + 1))
        states = np.empty((n, self._n_states), np.int64)
        actions, rewards = np.empty((n, horizon), np.int64), np.empty((n, horizon))
        play_episodes(
            mdps.rows, mdps.initial, mdps.n_actions, policy, uniform, states, actions, rewards
        )
        trajectory = Trajectory.of_checked(states, actions, rewards)
        return Outcome((trajectory,), np.add.reduce(rewards, axis=1), values, self._best)

    @property
    def _shape(self) -> tuple[int, int, int]:
        return len(self.mdps), self.mdps.horizon, self.mdps.n_states

    def _shaped(self, chosen: Any) -> Int[Array, "n h X"]:
        """Return a policy for each run; one policy may serve all of them."""
        mdps, shape = self.mdps, self._shape
        try:
            policy = shaped_policy(chosen, mdps.horizon, mdps.n_states, mdps.n_actions)
        except ParameterError as error:
            raise self._refused(error) from error
        if policy.ndim == 2:
            one = policy[None]
            policy = one if shape[0] == 1 else np.array(np.broadcast_to(one, shape), order="C")
        if policy.shape != shape:
            raise self._refused(f"got {policy.shape}")
        return policy

    def _refused(self, reason: Any) -> ActionError:
        return ActionError(f"act must choose policies of shape {self._shape}: {reason}")
