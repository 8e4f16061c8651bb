"""Lets our agents act in gymnasium's environments with discrete spaces."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from mixts import _checks, _random
from mixts._typing import Array, ArrayLike, Int, Seed
from mixts.bridges.gym.model import tabular_model
from mixts.bridges.gym.rewards import RewardScale
from mixts.bridges.gym.spaces import Numbering
from mixts.errors import ActionError, ParameterError
from mixts.families.tabular import TabularMDP
from mixts.families.trajectory import Trajectory
from mixts.planning import MDP
from mixts.planning.mdp import checked_policy
from mixts.prior import MixturePrior

KNOWN = 1e6
"""The prior count of what is certain: as good as known, where certainty is not 0 or 1."""


class EpisodePlayer:
    """Plays policies (h, X) in a ``gymnasium.Env``, and tells what happened as a trajectory.

    States and actions are numbered (:class:`Numbering`), and one state is added, the last: an
    episode that terminates enters it, and stays in it with reward 0 to the horizon. Truncation just
    ends counting: the trajectory's ``lengths`` say how many steps there were. Rewards are 0 or 1,
    or drawn as ``binarize=(low, high)`` says, which changes the likelihood: :class:`RewardScale`.

    With ``seed`` the environment is reset with a seed before the first episode, and never again, so
    that whatever an environment draws with its seed stays the same.
    """

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        horizon: int,
        binarize: tuple[float, float] | None = None,
        seed: Seed = None,
    ) -> None:
        if not isinstance(env, gymnasium.Env):
            raise ParameterError(f"env must be one gymnasium.Env, got {type(env).__name__}")
        self.env = env
        self.horizon = _checks.count(horizon, "horizon")
        self.states = Numbering(env.observation_space, "observation")
        self.actions = Numbering(env.action_space, "action")
        self.n_actions = self.actions.size
        self.n_states = self.states.size + 1
        """The environment's, and the absorbing one."""
        self.absorbing = self.states.size
        """The state after the end of an episode."""
        self.scale = RewardScale(binarize)
        self.last_return: float | None = None
        """The sum of the last episode's rewards as the environment gave them."""
        self.last_length: int | None = None
        """How many steps the last episode made in the environment."""
        self._rng = _random.generator(seed, "player")
        self._seed = None if seed is None else int(self._rng.integers(2**31))

    def play(self, policy: ArrayLike) -> Trajectory:
        """One episode; its states are h + 1, with the one after the last step."""
        choices = self._checked(policy)
        states = np.full(self.horizon + 1, self.absorbing)
        actions, rewards = choices[:, self.absorbing].copy(), np.zeros(self.horizon)
        observation, _ = self.env.reset(seed=self._seed)
        self._seed = None
        total, n_steps, terminated, truncated = 0.0, 0, False, False
        while not terminated and not truncated and n_steps < self.horizon:
            x = self.states.index(observation)
            a = int(choices[n_steps, x])
            taken = self.actions.element(a)
            observation, reward, terminated, truncated, _ = self.env.step(taken)
            states[n_steps], actions[n_steps] = x, a
            rewards[n_steps] = self.scale.draw(reward, self._rng)
            total += float(reward)
            n_steps += 1
        self.last_return, self.last_length = total, n_steps
        if terminated:
            for i in range(n_steps, self.horizon):
                rewards[i] = self.scale.draw(0.0, self._rng)
            return Trajectory(states, actions, rewards)
        states[n_steps] = self.states.index(observation)
        return Trajectory(states, actions, rewards, None if n_steps == self.horizon else n_steps)

    def uniform_prior(self) -> MixturePrior:
        """One component that knows the absorbing state and nothing else: the prior of PSRL.

        Any first state of the environment is equally likely.
        """
        flat = TabularMDP.uniform(self.n_states, self.n_actions, self.horizon)
        first = np.append(np.full(self.states.size, 1 / self.states.size), 0.0)
        return MixturePrior(self._absorbed(flat.reward, flat.transition, first))

    def with_absorbing(self, prior: MixturePrior) -> MixturePrior:
        """A prior over the environment's own states, with the absorbing one added.

        For environments that never terminate, such as ours: nothing leads to the state.
        """
        family = prior.family
        own = (self.states.size, self.n_actions, self.horizon)
        if not isinstance(family, TabularMDP) or own != (
            family.n_states, family.n_actions, family.horizon,
        ):  # fmt: skip
            raise ParameterError(
                f"expected a prior of a TabularMDP of {own[0]} states, {own[1]} actions and "
                f"horizon {own[2]}, got {family!r}"
            )
        reward = np.pad(family.reward, [(0, 0), (0, 1), (0, 0), (0, 0)])
        transition = np.pad(family.transition, [(0, 0), (0, 1), (0, 0), (0, 1)])
        added = self._absorbed(reward, transition, np.append(family.initial, 0.0))
        return MixturePrior(added, prior.weights, prior.names)

    def _absorbed(self, reward: Array, transition: Array, initial: Array) -> TabularMDP:
        """Counts in which the last state is known: it stays, and gives what 0 is."""
        reward, transition = reward.copy(), transition.copy()
        zero = self.scale.mean(0.0)
        reward[:, self.absorbing] = KNOWN * zero, KNOWN * (1 - zero)
        transition[:, self.absorbing] = 0.0
        transition[:, self.absorbing, :, self.absorbing] = KNOWN
        return TabularMDP(reward, transition, self.horizon, initial)

    def model(self) -> MDP:
        """The MDP that is played, where the environment shows it: :func:`tabular_model`."""
        return tabular_model(self.env, self.horizon, self.scale.binarize)

    def _checked(self, policy: ArrayLike) -> Int[Array, "h X"]:
        array = checked_policy(policy, self.horizon, self.n_states, self.n_actions, ActionError)
        if array.ndim != 2:
            raise ActionError(f"an episode has one policy (h, X), got shape {array.shape}")
        return array
