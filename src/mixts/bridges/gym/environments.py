"""The environments of mixts as environments of gymnasium."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec

from mixts import _checks, _random
from mixts._typing import Array, ArrayLike, Float, Int
from mixts.environments import (
    BanditEnvironment,
    Choices,
    Environment,
    MDPEnvironment,
    RiverSwim,
)
from mixts.environments.bandit import ActionSource, BanditProblem
from mixts.environments.base import Streams
from mixts.environments.mdp import play_episodes
from mixts.errors import ActionError, ParameterError
from mixts.planning import MDP
from mixts.prior import MixturePrior

ENVIRONMENT_ID = "mixts/Environment-v0"
ENTRY_POINTS = {
    "mixts/RiverSwim-v0": f"{__name__}:river_swim",
    "mixts/MDP-v0": f"{__name__}:mdp",
    "mixts/Bandit-v0": f"{__name__}:bandit",
    ENVIRONMENT_ID: f"{__name__}:to_gymnasium",
}
"""Functions that make the registered environments."""


class TaskEnv(gymnasium.Env[Any, Any], ABC):
    """A mixts environment as a ``gymnasium.Env``, one task at a time.

    ``reset`` begins an episode. Its option ``new_task`` decides whether to draw a new task or keep
    the current one; with a ``seed`` the task is always new. Every task has its own random streams:
    a seed gives the same tasks with the same luck, whatever the actions are.

    ``info["latent"]`` is the task's latent state and ``info["means"]`` the true mean rewards of the
    actions that can be taken now. Regret is computed by simulations, not here.

    Parameters
    ----------
    environment
        The environment that draws the tasks.
    n_steps
        Steps after which an episode is truncated; no episode terminates.
    settings
        Further arguments of ``to_gymnasium`` that make another environment like this one.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": []}  # type: ignore[misc]
    keeps_task: ClassVar[bool]
    """Whether ``reset`` keeps the task by default."""

    def __init__(self, environment: Environment, n_steps: int, settings: Mapping[str, Any]) -> None:
        self.environment = environment
        self.n_steps = n_steps
        # Describes how to make an equal environment; gymnasium.make replaces it by its own spec.
        self.spec = EnvSpec(
            ENVIRONMENT_ID,
            ENTRY_POINTS[ENVIRONMENT_ID],
            kwargs={"environment": environment, **settings},
        )
        self.latent = -1
        self._steps_left = 0

    @abstractmethod
    def _draw_task(self, streams: Streams) -> int:
        """Draw a new task and return its latent state."""

    @abstractmethod
    def _begin(self) -> tuple[Any, dict[str, Any]]:
        """Begin an episode; return the first observation and further info."""

    @abstractmethod
    def _take(self, action: int) -> tuple[Any, float]:
        """Carry out an action; return the next observation and the reward."""

    @abstractmethod
    def _means(self) -> Any:
        """Return the true mean rewards of the actions that can be taken now, in a new array."""

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode of a new task or of the same one; return observation and info."""
        fresh = self._wants_new_task(seed, options or {})
        super().reset(seed=seed)
        if fresh:
            entropy = int(self.np_random.integers(2**63))
            self.latent = self._draw_task(partial(_random.stream, entropy))
        observation, more = self._begin()
        self._steps_left = self.n_steps
        return observation, {**self._info(), **more}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take an action; the last step truncates the episode, and no step terminates it."""
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
            raise ParameterError(
                "a seed begins with a new task: give either a seed or new_task=False, not both"
            )
        return bool(wanted) or self.latent < 0


class BanditEnv(TaskEnv):
    """Bandits drawn from the environment's prior, as a ``gymnasium.Env``.

    With arms the observation carries no information: ``Discrete(1)``. With features it is the
    action set (K, d) of the coming round, in a ``Box``. Actions are the K rows, or the arms that
    are not retired: action k is arm ``arms[k]``. Every ``reset()`` draws a new task;
    ``reset(options={"new_task": False})`` keeps the current one.

    Parameters
    ----------
    environment
        The environment that draws the bandits.
    n_rounds
        Rounds of an episode, which is then truncated.
    feature_bound
        Bound of the ``Box``: the largest absolute value of a feature.
    """

    environment: BanditEnvironment
    keeps_task: ClassVar[bool] = False

    def __init__(
        self, environment: BanditEnvironment, n_rounds: int, feature_bound: float = 1e6
    ) -> None:
        self._bound = _checks.positive_number(feature_bound, "feature_bound")
        n_rounds = _checks.count(n_rounds, "n_rounds")
        settings = {"n_rounds": n_rounds, "feature_bound": feature_bound}
        super().__init__(environment, n_rounds, settings)
        self._problem: BanditProblem
        self._actions: Float[Array, "K d"] | None = None
        # The number of actions of a function of action sets shows only when it is called.
        choices = environment.start(partial(_random.stream, 0), 1).next_round()
        if choices.actions is None:
            self.arms: Int[Array, " K"] = np.flatnonzero(~environment.prior.arms.retired)
            self.observation_space: spaces.Space[Any] = spaces.Discrete(1)
        else:
            shape = choices.actions.shape[-2:]
            self.arms = np.arange(shape[0])
            self.observation_space = spaces.Box(-self._bound, self._bound, shape, np.float64)
            self._checked(choices)
        self.action_space = spaces.Discrete(len(self.arms))

    def _draw_task(self, streams: Streams) -> int:
        self._problem = self.environment.start(streams, 1)
        return int(self._problem.latent[0])

    def _begin(self) -> tuple[Any, dict[str, Any]]:
        return self._observe(), {}

    def _take(self, action: int) -> tuple[Any, float]:
        outcome = self._problem.play(self.arms[[action]])
        return self._observe(), float(outcome.rewards[0])

    def _observe(self) -> Any:
        self._actions = self._checked(self._problem.next_round())
        return 0 if self._actions is None else self._actions.copy()

    def _checked(self, choices: Choices) -> Float[Array, "K d"] | None:
        """Return the action set of a round, which must fit the observation space."""
        if choices.actions is None:
            return None
        actions: Array = choices.actions.reshape(choices.actions.shape[-2:])
        if len(actions) != len(self.arms):
            raise ActionError(
                f"gymnasium's spaces are constant: expected {len(self.arms)} actions in every "
                f"round, got {len(actions)}; pad the smaller sets by repeating an action"
            )
        if np.abs(actions).max() > self._bound:
            raise ActionError(
                f"expected features of at most {self._bound:g} in size, got "
                f"{np.abs(actions).max():g}; raise feature_bound"
            )
        return actions

    def _means(self) -> Float[Array, " K"]:
        sets = None if self._actions is None else self._actions[None]
        means = self.environment.prior.family.mean_rewards(self._problem.parameters, sets)
        return np.array(means[0, self.arms])


class MDPEnv(TaskEnv):
    """MDPs drawn from the environment's prior, as a ``gymnasium.Env``.

    States and actions are ``Discrete``, and an episode is truncated at the horizon. ``reset()``
    begins another episode of the same MDP; ``reset(seed=...)`` and
    ``reset(options={"new_task": True})`` draw another MDP. Its info also holds the true
    ``rewards`` (X, A) and ``transitions`` (X, A, X).

    Parameters
    ----------
    environment
        The environment that draws the MDPs.
    """

    environment: MDPEnvironment
    keeps_task: ClassVar[bool] = True

    def __init__(self, environment: MDPEnvironment) -> None:
        family = environment.family
        super().__init__(environment, family.horizon, {})
        self.observation_space = spaces.Discrete(family.n_states)
        self.action_space = spaces.Discrete(family.n_actions)
        # Row x puts all probability on state x: a step from x is an episode that starts there.
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
        # Draw all random numbers of an episode at once, as a simulation does: actions in one
        # episode do not change the luck of the next.
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
        """Play one step as simulations do; return two states and a reward."""
        policy = np.full((1, 1, self._mdps.n_states), action)
        episode = play_episodes(self._mdps, initial, policy, np.array([luck]))
        return episode.states[0], float(episode.rewards[0, 0])

    def _means(self) -> Float[Array, " A"]:
        return np.array(self._mdps.rewards[0, self._state])


def to_gymnasium(environment: Environment, **settings: Any) -> TaskEnv:
    """Return a mixts environment as a ``gymnasium.Env``, without wrappers.

    ``gymnasium.make`` with the id ``mixts/Environment-v0`` and the same arguments adds gymnasium's
    usual wrappers.

    Parameters
    ----------
    environment
        A :class:`BanditEnvironment` or an :class:`MDPEnvironment`.
    **settings
        ``n_rounds`` and ``feature_bound`` of :class:`BanditEnv`; an :class:`MDPEnv` takes none.
    """
    if isinstance(environment, MDPEnvironment):
        if settings:
            raise ParameterError(f"an MDP's episodes need no settings, got {', '.join(settings)}")
        return MDPEnv(environment)
    if isinstance(environment, BanditEnvironment):
        if "n_rounds" not in settings:
            raise ParameterError("a bandit needs n_rounds: the rounds of an episode")
        return BanditEnv(environment, **settings)
    raise ParameterError(
        f"expected a BanditEnvironment or an MDPEnvironment, got {type(environment).__name__}"
    )


def river_swim(**settings: Any) -> MDPEnv:
    """Make ``mixts/RiverSwim-v0``; the arguments are those of :class:`mixts.RiverSwim`."""
    return MDPEnv(RiverSwim(**settings))


def mdp(prior: MixturePrior) -> MDPEnv:
    """Make ``mixts/MDP-v0``: MDPs drawn from a prior."""
    return MDPEnv(MDPEnvironment(prior))


def bandit(
    prior: MixturePrior, actions: ArrayLike | ActionSource | None = None, **settings: Any
) -> TaskEnv:
    """Make ``mixts/Bandit-v0``: bandits drawn from a prior, with settings of :class:`BanditEnv`."""
    return to_gymnasium(BanditEnvironment(prior, actions), **settings)
