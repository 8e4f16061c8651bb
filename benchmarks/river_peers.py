"""RiverSwim played by rlberry, one run at a time, in its fastest configuration.

Rewards are 0 or 1, so that PSRL need not binarise them by another draw, and nothing is logged. The
environment is plain Python on lists, which is faster here than small arrays.
"""

from __future__ import annotations

import random
import sys
from bisect import bisect
from collections.abc import Callable
from functools import cache
from time import perf_counter
from typing import Any

import numpy as np
from river import HORIZON, N_LAST, START, Played, Tables, drawn_tables


@cache
def swim_class() -> Any:
    import gymnasium
    from rlberry.spaces import Discrete

    class Swim(gymnasium.Env):  # type: ignore[misc, unused-ignore]
        """One MDP, with the sum of its rewards so far."""

        reward_range = (0.0, 1.0)

        def __init__(self, tables: Tables, seed: int) -> None:
            n_states, n_actions = tables.rewards.shape
            self.observation_space = Discrete(n_states)
            self.action_space = Discrete(n_actions)
            self.means = tables.rewards.tolist()
            # Without the last entry of the cumulative sums, rounding cannot give a state too large.
            self.rows = np.cumsum(tables.transitions, axis=-1)[..., :-1].tolist()
            self.random = random.Random(seed).random
            self.total = 0.0

        def reset(self, *, seed: Any = None, options: Any = None) -> tuple[int, dict[str, Any]]:
            self.state = START
            return START, {}

        def step(self, action: Any) -> tuple[int, float, bool, bool, dict[str, Any]]:
            state = self.state
            reward = 1.0 if self.random() < self.means[state][action] else 0.0
            self.state = state = bisect(self.rows[state][action], self.random())
            self.total += reward
            return state, reward, False, False, {}

    return Swim


def psrl(environment: Any, seed: int) -> Any:
    """Return PSRL with our prior: Beta(1, 1) rewards and Dirichlet(1, ..., 1) transitions."""
    from rlberry.agents.psrl import PSRLAgent

    return PSRLAgent(
        environment,
        horizon=HORIZON,
        scale_prior_reward=1.0,
        scale_prior_transition=1.0,
        bernoullized_reward=False,
        copy_env=False,
        seeder=seed,
    )


def ucbvi(environment: Any, seed: int) -> Any:
    from rlberry.agents.ucbvi import UCBVIAgent

    return UCBVIAgent(environment, horizon=HORIZON, copy_env=False, seeder=seed)


def scool_ucbvi(environment: Any, seed: int) -> Any:
    """Return UCBVI of rlberry-scool.

    rlberry-scool imports a module by the name that it had in earlier releases of rlberry. UCBVI
    does not use that module.
    """
    from rlberry.envs.finite import finite_mdp

    sys.modules.setdefault("rlberry.envs.finite_mdp", finite_mdp)
    from rlberry_scool.agents.ucbvi import UCBVIAgent

    return UCBVIAgent(environment, horizon=HORIZON, copy_env=False, seeder=seed)


def player(make: Callable[[Any, int], Any], n_runs: int) -> Callable[[int, int], Played]:
    """Return a function that plays runs one after the other, each with its own agent and MDP."""

    def play(index: int, n_episodes: int) -> Played:
        tables = drawn_tables(range(index * n_runs, (index + 1) * n_runs))
        n_last = min(N_LAST, n_episodes)
        seconds, returns = 0.0, np.empty(n_runs)
        for run in range(n_runs):
            seed = index * n_runs + run
            environment = swim_class()(Tables(tables.rewards[run], tables.transitions[run]), seed)
            agent = make(environment, seed)
            agent.set_writer(None)
            started = perf_counter()
            agent.fit(n_episodes - n_last)
            earlier = environment.total
            agent.fit(n_last)
            seconds += perf_counter() - started
            returns[run] = (environment.total - earlier) / n_last
        return Played(seconds / (n_runs * n_episodes), returns, tables)

    return play
