"""Runs in blocks: inside one, in lockstep as the tasks of one agent.

A block has its own random streams and its size belongs to the simulation, so who plays which block,
and when, changes no number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from mixts import _random
from mixts._typing import Array, Float, Int
from mixts.environments import Environment
from mixts.simulation.specs import Recipe

# Lockstep shares Python's cost of a round among the runs of a block, while small blocks keep more
# workers busy. Microseconds for a decision by the size of blocks, with executor=1, best of three:
#
#     size                                        1     4    16    32    50    64   128   256
#     30 Gaussian arms, L = 30                   58    19   6.0   4.0   3.5   3.2   2.6   2.3
#     linear, L = d = 30, one variance           78    25    11   8.3   6.9   8.7   8.7   9.8
#     linear, L = d = 30, full covariances      137    67    69    77    78    81
#     linear, L = d = 100, full covariances    1240  1280  1230
#
# Where a decision is slow by itself lockstep gains nothing and only takes memory: such runs are
# played few at a time, or one by one.

LARGEST_BLOCK = 50
"""Runs in lockstep: most of what it gains, and several blocks in the usual hundreds of runs."""

BLOCK_BYTES = 1 << 22
"""Of the posteriors of one block: 29 runs in the third line of the table, one in the last."""

Advance = Callable[[int], None]
"""Is told how many decisions were made since the last call."""


def _ignore(n_decisions: int) -> None:
    return None


_REPORTS = 20
"""How often a block reports its advance for each agent."""


@dataclass(frozen=True)
class Block:
    """What one block of runs gave; every array has the runs first."""

    start: int
    """The index of its first run."""
    latent: Int[Array, " n"]
    regret: dict[str, Float[Array, "n t"]]
    reward: dict[str, Float[Array, "n t"]]


def natural_block_size(environment: Environment) -> int:
    """How many runs to play in lockstep: a function of the problem, never of the machine."""
    return min(LARGEST_BLOCK, max(1, BLOCK_BYTES // environment.task_bytes))


@dataclass(frozen=True)
class Simulation:
    """All that determines the numbers; goes to workers as it is."""

    recipes: dict[str, Recipe]
    environment: Environment
    n_rounds: int
    n_runs: int
    seed: int
    block_size: int

    @property
    def settings(self) -> dict[str, Any]:
        """What determines the numbers besides the agents."""
        return {
            "environment": repr(self.environment),
            "n_rounds": self.n_rounds,
            "n_runs": self.n_runs,
            "seed": self.seed,
            "block_size": self.block_size,
        }

    @property
    def n_blocks(self) -> int:
        return -(-self.n_runs // self.block_size)

    def width(self, block: int) -> int:
        """How many runs the block has; the last may be smaller."""
        return min(self.block_size, self.n_runs - block * self.block_size)

    def play(self, block: int, advance: Advance = _ignore) -> Block:
        """One block, by one agent after another: each on the same problems, with the same luck."""
        played = {name: self._play(name, block, advance) for name in self.recipes}
        latent = next(iter(played.values()))[0]
        return Block(
            block * self.block_size,
            latent,
            {name: regret for name, (_, regret, _) in played.items()},
            {name: reward for name, (_, _, reward) in played.items()},
        )

    def _play(self, name: str, block: int, advance: Advance) -> tuple[Array, Array, Array]:
        """Latent states, and regret and reward (n, t), of one agent."""
        n = self.width(block)
        # The environment's streams leave the agent out.
        problem = self.environment.start(partial(_random.stream, self.seed, "simulate", block), n)
        regret, reward = np.empty((self.n_rounds, n)), np.empty((self.n_rounds, n))
        interval = max(1, self.n_rounds // _REPORTS)
        t = 0
        try:
            agent = self._agent(name, block, problem.latent)
            for t in range(self.n_rounds):
                actions, mask = problem.next_round()
                chosen = agent.act(actions) if mask is None else agent.act(actions, mask=mask)
                outcome = problem.play(chosen)
                agent.update(*outcome.feedback)
                regret[t] = outcome.best - outcome.values
                reward[t] = outcome.rewards
                if (t + 1) % interval == 0:
                    advance(interval * n)
        except Exception as error:
            error.add_note(f"(agent {name!r}, block {block} of {n} runs, round {t})")
            raise
        advance(self.n_rounds % interval * n)
        return problem.latent, np.ascontiguousarray(regret.T), np.ascontiguousarray(reward.T)

    def _agent(self, name: str, block: int, latent: Int[Array, " n"]) -> Any:
        return self.recipes[name].build(
            n_tasks=len(latent),
            seed=_random.seed_sequence(self.seed, "simulate", block, "agent", name),
            n_rounds=self.n_rounds,
            latent=latent.copy(),
        )


def play_blocks(simulation: Simulation, blocks: Iterable[int]) -> list[Block]:
    """What a worker is asked to do."""
    return [simulation.play(block) for block in blocks]
