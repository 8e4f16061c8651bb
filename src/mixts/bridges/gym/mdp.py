"""MDPs drawn from a prior, and RiverSwim, as environments of gymnasium."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from gymnasium import spaces

from mixts._typing import Array, Float
from mixts.bridges.gym.task import TaskEnv
from mixts.environments import MDPEnvironment
from mixts.environments._kernels import play_episodes
from mixts.environments.base import Streams
from mixts.planning import MDP


class MDPEnv(TaskEnv):
    """An MDP drawn from the environment's prior: states and actions are ``Discrete``.

    An episode is truncated at the horizon. A task has many of them, as in simulations:
    ``reset()`` begins another episode of the same MDP, ``reset(seed=...)`` and
    ``reset(options={"new_task": True})`` draw another MDP. Reset's info also has the whole truth,
    ``rewards`` (X, A) and ``transitions`` (X, A, X).
    """

    environment: MDPEnvironment
    keeps_task: ClassVar[bool] = True

    def __init__(self, environment: MDPEnvironment) -> None:
        family = environment.family
        super().__init__(environment, family.horizon, {})
        self.observation_space = spaces.Discrete(family.n_states)
        self.action_space = spaces.Discrete(family.n_actions)
        # The loop that plays episodes takes the distribution of the first state: here, any one.
        self._at = np.eye(family.n_states)
        self._at.flags.writeable = False
        self._mdps: MDP
        self._rng: np.random.Generator
        self._luck: Float[Array, " k"]
        self._state = 0

    def _draw_task(self, streams: Streams) -> int:
        problem = self.environment.start(streams, 1)
        self._mdps = problem.mdps
        self._rng = streams("episodes")
        return int(problem.latent[0])

    def _begin(self) -> tuple[int, dict[str, Any]]:
        # All of an episode's luck at once, as a simulation draws it: what is done in one episode,
        # or left undone, does not change the next.
        self._luck = self._rng.random(2 * self.n_steps + 1)
        mdp = self._mdps[0]
        states, _ = self._play(mdp.initial, 0, self._luck[0], 0.0, 0.0)
        self._state = int(states[0])
        tables = {"rewards": mdp.rewards.copy(), "transitions": mdp.transitions.copy()}
        return self._state, tables

    def _take(self, action: int) -> tuple[int, float]:
        i = 2 * (self.n_steps - self._steps_left)
        states, reward = self._play(
            self._at[self._state], action, 0.0, self._luck[i + 1], self._luck[i + 2]
        )
        self._state = int(states[1])
        return self._state, reward

    def _play(self, initial: Float[Array, " X"], action: int, *luck: float) -> tuple[Array, float]:
        """An episode of one step, by the very loop of simulations: two states and a reward."""
        mdps = self._mdps
        policy = np.full((1, 1, mdps.n_states), action)
        states, actions = np.empty((1, 2), np.int64), np.empty((1, 1), np.int64)
        rewards = np.empty((1, 1))
        play_episodes(
            mdps.rows, initial, mdps.n_actions, policy, np.array([luck]),
            states, actions, rewards,
        )  # fmt: skip
        return states[0], float(rewards[0, 0])

    def _means(self) -> Float[Array, " A"]:
        return np.array(self._mdps.rewards[0, self._state])
