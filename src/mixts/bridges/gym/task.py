"""What our environments have in common as gymnasium's: tasks that are drawn, and how they end."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec

from mixts import _random
from mixts.environments import Environment
from mixts.environments.base import Streams
from mixts.errors import ActionError, ParameterError

ENVIRONMENT_ID = "mixts/Environment-v0"
FACTORY = "mixts.bridges.gym.registered:to_gymnasium"


class TaskEnv(gymnasium.Env[Any, Any], ABC):
    """One task of an environment at a time, for agents that know gymnasium's interface.

    ``reset`` begins an episode, and before it draws a new task or keeps the one there is, as its
    option ``new_task`` says; with a ``seed`` the task is always new. Every task has random streams
    of its own: a seed gives the same tasks with the same luck, whatever is done in them.

    ``info["latent"]`` is the task's latent state and ``info["means"]`` the true mean rewards of the
    actions that can be taken now. Regret is for simulations to compute: nothing here does.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": []}  # type: ignore[misc]
    keeps_task: ClassVar[bool]
    """Whether ``reset`` goes on with the same task unless it is told otherwise."""

    def __init__(self, environment: Environment, n_steps: int, settings: Mapping[str, Any]) -> None:
        self.environment = environment
        self.n_steps = n_steps
        """After so many steps an episode is truncated; none ever terminates."""
        # How another one like this is made; gymnasium.make puts its own in this place.
        self.spec = EnvSpec(
            ENVIRONMENT_ID, FACTORY, kwargs={"environment": environment, **settings}
        )
        self.latent = -1
        self._steps_left = 0

    @abstractmethod
    def _draw_task(self, streams: Streams) -> int:
        """Replace the task; returns its latent state."""

    @abstractmethod
    def _begin(self) -> tuple[Any, dict[str, Any]]:
        """Begin an episode: its first observation, and what its info has besides the rest."""

    @abstractmethod
    def _take(self, action: int) -> tuple[Any, float]:
        """Carry out an action: the next observation, and the reward."""

    @abstractmethod
    def _means(self) -> Any:
        """The true mean rewards of the actions that can be taken now, in a new array."""

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode, of a new task or of the same one."""
        fresh = self._wants_new_task(seed, options or {})
        super().reset(seed=seed)
        if fresh:
            entropy = int(self.np_random.integers(2**63))
            self.latent = self._draw_task(partial(_random.stream, entropy))
        observation, more = self._begin()
        self._steps_left = self.n_steps
        return observation, {**self._info(), **more}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take an action; at the end of the episode it is truncated, never terminated."""
        if self._steps_left == 0:
            raise ActionError("no episode is under way: call reset() first")
        if action not in self.action_space:
            raise ActionError(f"expected an action of {self.action_space}, got {action!r}")
        observation, reward = self._take(int(action))
        self._steps_left -= 1
        return observation, reward, False, self._steps_left == 0, self._info()

    def _info(self) -> dict[str, Any]:
        return {"latent": self.latent, "means": self._means()}

    def _wants_new_task(self, seed: int | None, options: Mapping[str, Any]) -> bool:
        unknown = set(options) - {"new_task"}
        wanted = options.get("new_task", seed is not None or not self.keeps_task)
        if unknown or not isinstance(wanted, (bool, np.bool_)):
            raise ParameterError(
                f"the only option is new_task, true or false, got {dict(options)!r}"
            )
        if seed is not None and not wanted:
            raise ParameterError("a seed begins with a new task: leave out either it or new_task")
        return bool(wanted) or self.latent < 0
