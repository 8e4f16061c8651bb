"""Bridge to gymnasium: give mixts environments to its agents, and its environments to mixts agents.

Importing this module registers ``mixts/RiverSwim-v0``, ``mixts/MDP-v0``, ``mixts/Bandit-v0`` and
``mixts/Environment-v0``; ``gymnasium.make("mixts.bridges.gym:mixts/RiverSwim-v0")`` imports it
first. Needs the extra ``gym``.
"""

from __future__ import annotations

from mixts.errors import MissingExtraError

try:
    import gymnasium
except ImportError as error:
    raise MissingExtraError(
        "mixts.bridges.gym needs gymnasium: pip install 'mixts[gym]'"
    ) from error

from mixts.bridges.gym.environments import (
    ENTRY_POINTS,
    BanditEnv,
    MDPEnv,
    TaskEnv,
    to_gymnasium,
)
from mixts.bridges.gym.player import EpisodePlayer, Numbering, RewardScale, tabular_model

__all__ = [
    "BanditEnv",
    "EpisodePlayer",
    "MDPEnv",
    "Numbering",
    "RewardScale",
    "TaskEnv",
    "tabular_model",
    "to_gymnasium",
]

for _id, _entry_point in ENTRY_POINTS.items():
    if _id not in gymnasium.registry:
        gymnasium.register(_id, _entry_point)
