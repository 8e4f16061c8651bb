"""Bandits as environments of gymnasium, with arms or with features."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

import numpy as np
from gymnasium import spaces

from mixts import _checks, _random
from mixts._typing import Array, Float, Int
from mixts.bridges.gym.task import TaskEnv
from mixts.environments import BanditEnvironment, Offer
from mixts.environments.bandit import BanditProblem
from mixts.environments.base import Streams
from mixts.errors import ActionError


class BanditEnv(TaskEnv):
    """A bandit drawn from the environment's prior; an episode is ``n_rounds`` rounds, then cut off.

    With arms there is nothing to observe: ``Discrete(1)``. With features the observation is the
    action set (K, d), constant or of the coming round, in a ``Box``; those need bounds, so no
    feature may be larger than ``feature_bound`` in size. Actions are the K rows, or the arms that
    are not retired: action k is arm ``arms[k]``.

    Every ``reset()`` draws a new task; ``reset(options={"new_task": False})`` goes on with the one
    there is.
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
        # How many actions a function of actions offers, it alone knows.
        offer = environment.start(partial(_random.stream, 0), 1).next_round()
        if offer.actions is None:
            self.arms: Int[Array, " K"] = np.flatnonzero(~environment.prior.retired)
            self.observation_space: spaces.Space[Any] = spaces.Discrete(1)
        else:
            shape = offer.actions.shape[-2:]
            self.arms = np.arange(shape[0])
            self.observation_space = spaces.Box(-self._bound, self._bound, shape, np.float64)
            self._checked(offer)
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

    def _checked(self, offer: Offer) -> Float[Array, "K d"] | None:
        """The action set of a round, which must fit the observation space."""
        if offer.actions is None:
            return None
        actions: Array = offer.actions.reshape(offer.actions.shape[-2:])
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
