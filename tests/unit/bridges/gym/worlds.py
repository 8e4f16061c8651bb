"""Environments of gymnasium for the tests of the bridge to it."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

END = 5
"""The walk's absorbing state, after its five positions."""


class Walk(gymnasium.Env[int, int]):
    """Walk with steps of -1, 0 or 1 on the positions 10 to 14; reward and end are arguments."""

    def __init__(self, ends: int = 14, limit: int | None = None, pay: float = 1.0) -> None:
        self.observation_space = spaces.Discrete(5, start=10)
        self.action_space = spaces.Discrete(3, start=-1)
        self.ends, self.limit, self.pay = ends, limit, pay
        self.seeds: list[int | None] = []
        self.n_steps = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict]:
        super().reset(seed=seed)
        self.seeds.append(seed)
        self.position, self.n_steps = 12, 0
        return self.position, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict]:
        assert action in self.action_space
        self.position = int(np.clip(self.position + action, 10, 14))
        self.n_steps += 1
        reward = self.pay if self.position in (13, 14) else 0.0
        return self.position, reward, self.position == self.ends, self.n_steps == self.limit, {}


def frozen_lake(desc: list[str] | None = None) -> gymnasium.Env[Any, Any]:
    return gymnasium.make("FrozenLake-v1", desc=desc, is_slippery=True)
