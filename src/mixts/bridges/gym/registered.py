"""Our environments under gymnasium's ids."""

from __future__ import annotations

from typing import Any

from mixts._typing import ArrayLike
from mixts.bridges.gym.bandit import BanditEnv
from mixts.bridges.gym.mdp import MDPEnv
from mixts.bridges.gym.task import ENVIRONMENT_ID, FACTORY, TaskEnv
from mixts.environments import BanditEnvironment, Environment, MDPEnvironment, RiverSwim
from mixts.environments.bandit import ActionSource
from mixts.errors import ParameterError
from mixts.prior import MixturePrior

ENTRY_POINTS = {
    "mixts/RiverSwim-v0": f"{__name__}:river_swim",
    "mixts/MDP-v0": f"{__name__}:mdp",
    "mixts/Bandit-v0": f"{__name__}:bandit",
    ENVIRONMENT_ID: FACTORY,
}


def to_gymnasium(environment: Environment, **settings: Any) -> TaskEnv:
    """An environment of ours as a ``gymnasium.Env``, without wrappers.

    Settings are those of :class:`BanditEnv`, ``n_rounds`` and ``feature_bound``; an
    :class:`MDPEnv` has none, its prior knows the horizon. ``gymnasium.make`` with the id
    ``mixts/Environment-v0`` and the same arguments adds gymnasium's usual wrappers.
    """
    if isinstance(environment, MDPEnvironment):
        if settings:
            raise ParameterError(f"an MDP's episodes need no settings, got {', '.join(settings)}")
        return MDPEnv(environment)
    if isinstance(environment, BanditEnvironment):
        if "n_rounds" not in settings:
            raise ParameterError("a bandit needs n_rounds: after so many an episode is truncated")
        return BanditEnv(environment, **settings)
    raise ParameterError(
        f"expected a BanditEnvironment or an MDPEnvironment, got {type(environment).__name__}"
    )


def river_swim(**settings: Any) -> MDPEnv:
    """``mixts/RiverSwim-v0``: arguments as :class:`mixts.RiverSwim` has them."""
    return MDPEnv(RiverSwim(**settings))


def mdp(prior: MixturePrior) -> MDPEnv:
    """``mixts/MDP-v0``: MDPs drawn from a prior."""
    return MDPEnv(MDPEnvironment(prior))


def bandit(
    prior: MixturePrior, actions: ArrayLike | ActionSource | None = None, **settings: Any
) -> TaskEnv:
    """``mixts/Bandit-v0``: bandits drawn from a prior; settings as :class:`BanditEnv` has them."""
    return to_gymnasium(BanditEnvironment(prior, actions), **settings)
