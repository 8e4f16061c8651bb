"""Blocks of runs: a block is played in lockstep, as the tasks of one agent.

A block has its own random streams, and its size belongs to the simulation, so the numbers do not
depend on where and when a block is played.

Observers watch an agent meanwhile. An observer is sent to workers with the simulation; for every
block it starts a recorder, which sees each round before and after the agent learns from it, and
which changes nothing. The arrays that recorders return are in ``results.observed``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from mixts import _random
from mixts._typing import Array, Float, Int
from mixts.environments import Environment
from mixts.environments.base import Choices, Outcome, Problem
from mixts.errors import ParameterError
from mixts.prior import MixturePrior

# -- observers ------------------------------------------------------------------------------------


class Round(NamedTuple):
    """A round of all runs of a block, after its outcomes are known."""

    rng: np.random.Generator
    """Generator for what a recorder samples; the agent has its own."""
    belief: Any
    """The agent's belief; None if the agent has none."""
    sampled: Any
    """S_t, the latent states that the agent sampled; None if it samples none."""
    choices: Choices
    """The action sets and masks from which the agent chose."""
    chosen: Any
    """The agent's choice."""
    outcome: Outcome
    """Feedback, rewards and true means."""


class Recorder(ABC):
    """Record of one block of runs; subclasses choose what to keep."""

    def before_update(self, round_: Round) -> None:
        """Record a round before the agent learns from it."""
        return None

    def after_update(self, round_: Round) -> None:
        """Record a round after the agent has learned from it."""
        return None

    @abstractmethod
    def arrays(self) -> dict[str, Array]:
        """Return the recorded arrays, by name; their first axis is the runs."""


class RoundRecorder(Recorder):
    """Recorder that keeps some numbers of each round and run, measured before the update."""

    def __init__(self) -> None:
        self._rounds: list[dict[str, Array]] = []

    @abstractmethod
    def measure(self, round_: Round) -> dict[str, Array]:
        """Return arrays with an entry for each run."""

    def before_update(self, round_: Round) -> None:
        self._rounds.append(self.measure(round_))

    def arrays(self) -> dict[str, Array]:
        """Return what was measured, each array of shape (n, n_rounds)."""
        return {
            name: np.stack([one[name] for one in self._rounds], axis=1) for name in self._rounds[0]
        }


class Observer(ABC):
    """Something to watch in a simulation: ``simulate(..., observe=observer)``.

    Observers must be picklable where worker processes play.
    """

    @abstractmethod
    def start(self, agent: Any, problem: Problem) -> Recorder:
        """Return a recorder for one block of runs.

        Parameters
        ----------
        agent
            The agent that plays the block; its belief is the prior.
        problem
            The block's sampled problems, with the true latent states.
        """


def check_latent(latent: Int[Array, " n"], prior: MixturePrior) -> None:
    """Raise ``ParameterError`` for true latent states that are not components of the prior."""
    outside = (latent < 0) | (latent >= prior.n_components)
    if outside.any():
        raise ParameterError(
            f"the environment's latent states must be the prior's components, 0 to "
            f"{prior.n_components - 1}, got {int(latent[np.argmax(outside)])}: give the prior "
            "that the environment draws from, or one with the same components"
        )


# -- blocks ---------------------------------------------------------------------------------------
#
# Lockstep shares Python's cost of a round among the runs of a block, while small blocks keep more
# workers busy. Microseconds for a decision by the size of blocks, with engine=1, best of three:
#
#     size                                        1     4    16    32    50    64   128   256
#     30 Gaussian arms, L = 30                   58    19   6.0   4.0   3.5   3.2   2.6   2.3
#     linear, L = d = 30, one variance           78    25    11   8.3   6.9   8.7   8.7   9.8
#     linear, L = d = 30, full covariances      137    67    69    77    78    81
#     linear, L = d = 100, full covariances    1240  1280  1230
#
# Where a single decision is slow, lockstep gains nothing and takes memory: such runs are played a
# few at a time, or one by one.

LARGEST_BLOCK = 50
"""Runs in lockstep: most of the gain, and several blocks in the usual hundreds of runs."""

BLOCK_BYTES = 1 << 22
"""Memory for the posteriors of a block: 29 runs in the third line of the table, 1 in the last."""

Advance = Callable[[float], None]
"""Called with the number of decisions made since the last call."""

_REPORTS = 20
"""Number of times that a block reports its advance for each agent."""


def _ignore(n_decisions: float) -> None:
    return None


@dataclass(frozen=True)
class Recipe:
    """A checked spec: the function to call, and which of the offered keywords it takes."""

    make: Callable[..., Any]
    keywords: tuple[str, ...]

    def build(self, **offered: Any) -> Any:
        """Return an agent for one block of runs."""
        agent = self.make(**{name: offered[name] for name in self.keywords})
        if not (callable(getattr(agent, "act", None)) and callable(getattr(agent, "update", None))):
            raise ParameterError(f"the spec must make an agent with act and update, got {agent!r}")
        return agent


@dataclass(frozen=True)
class Block:
    """Results of one block of runs; every array has the runs first."""

    start: int
    """Index of the first run."""
    latent: Int[Array, " n"]
    regret: dict[str, Float[Array, "n t"]]
    reward: dict[str, Float[Array, "n t"]]
    observed: dict[str, dict[str, Array]] = field(default_factory=dict)
    """By agent: what its observer recorded."""


def natural_block_size(environment: Environment) -> int:
    """Return how many runs to play in lockstep: a function of the problem, not of the machine."""
    return min(LARGEST_BLOCK, max(1, BLOCK_BYTES // environment.task_bytes))


@dataclass(frozen=True)
class Simulation:
    """A checked simulation, which determines all numbers; it is sent to workers as it is."""

    recipes: dict[str, Recipe]
    environment: Environment
    n_rounds: int
    n_runs: int
    seed: int
    block_size: int
    observers: dict[str, Observer] = field(default_factory=dict)
    """By agent: its observer, if it has one."""

    @property
    def settings(self) -> dict[str, Any]:
        """Everything but the agents that determines the numbers."""
        return {
            "environment": repr(self.environment),
            "n_rounds": self.n_rounds,
            "n_runs": self.n_runs,
            "seed": self.seed,
            "block_size": self.block_size,
        }

    @property
    def n_blocks(self) -> int:
        """Number of blocks."""
        return -(-self.n_runs // self.block_size)

    def width(self, block: int) -> int:
        """Return the number of runs of a block; the last may be smaller."""
        return min(self.block_size, self.n_runs - block * self.block_size)

    def n_decisions(self, blocks: Iterable[int] | None = None) -> int:
        """Return the number of decisions of some blocks, or of all."""
        n_runs = self.n_runs if blocks is None else sum(map(self.width, blocks))
        return n_runs * self.n_rounds * len(self.recipes)

    def play(self, block: int, advance: Advance = _ignore) -> Block:
        """Play one block with one agent after the other, on the same problems, with the same luck.

        Parameters
        ----------
        block
            Index of the block.
        advance
            Called as decisions are made, with their number.

        Returns
        -------
        Block
            Regret, reward and observations of the block's runs.
        """
        played = {name: self._play(name, block, advance) for name in self.recipes}
        return Block(
            block * self.block_size,
            next(iter(played.values())).latent,
            {name: one.regret for name, one in played.items()},
            {name: one.reward for name, one in played.items()},
            {name: one.observed for name, one in played.items() if one.observed is not None},
        )

    def _play(self, name: str, block: int, advance: Advance) -> _Played:
        n = self.width(block)
        # The environment's streams leave the agent out.
        problem = self.environment.start(partial(_random.stream, self.seed, "simulate", block), n)
        regret, reward = np.empty((self.n_rounds, n)), np.empty((self.n_rounds, n))
        interval = max(1, self.n_rounds // _REPORTS)
        t = 0
        try:
            agent = self._agent(name, block, problem.latent)
            observer = self.observers.get(name)
            recorder = None if observer is None else observer.start(agent, problem)
            # A child of a copy of the agent's seed: the agent's own numbers stay the same.
            rng = np.random.default_rng(self._seed(name, block).spawn(1)[0])
            for t in range(self.n_rounds):
                choices = problem.next_round()
                actions, mask = choices
                chosen = agent.act(actions) if mask is None else agent.act(actions, mask=mask)
                outcome = problem.play(chosen)
                if recorder is None:
                    agent.update(*outcome.feedback)
                else:
                    belief, sampled = (getattr(agent, n, None) for n in ("belief", "last_latent"))
                    round_ = Round(rng, belief, sampled, choices, chosen, outcome)
                    recorder.before_update(round_)
                    agent.update(*outcome.feedback)
                    recorder.after_update(round_)
                regret[t] = outcome.best - outcome.values
                reward[t] = outcome.rewards
                if (t + 1) % interval == 0:
                    advance(interval * n)
        except Exception as error:
            error.add_note(f"(agent {name!r}, block {block} of {n} runs, round {t})")
            raise
        advance(self.n_rounds % interval * n)
        return _Played(
            problem.latent,
            np.ascontiguousarray(regret.T),
            np.ascontiguousarray(reward.T),
            None if recorder is None else recorder.arrays(),
        )

    def _seed(self, name: str, block: int) -> np.random.SeedSequence:
        return _random.seed_sequence(self.seed, "simulate", block, "agent", name)

    def _agent(self, name: str, block: int, latent: Int[Array, " n"]) -> Any:
        return self.recipes[name].build(
            n_tasks=len(latent),
            seed=self._seed(name, block),
            n_rounds=self.n_rounds,
            latent=latent.copy(),
        )


class _Played(NamedTuple):
    """One agent's part of a block."""

    latent: Int[Array, " n"]
    regret: Float[Array, "n t"]
    reward: Float[Array, "n t"]
    observed: dict[str, Array] | None


def play_blocks(
    simulation: Simulation, blocks: Iterable[int], advance: Advance = _ignore
) -> list[Block]:
    """Play some blocks: the job of a worker."""
    return [simulation.play(block, advance) for block in blocks]


def jobs_of(simulation: Simulation, window: int) -> list[tuple[int, ...]]:
    """Divide the blocks into jobs for an engine that keeps ``window`` of them under way.

    The first block is a job of its own, by which an engine can judge how long the others take.
    There are enough jobs to even out their lengths, and few enough that sending the problem costs
    little.
    """
    rest = range(1, simulation.n_blocks)
    n_jobs = min(len(rest), 2 * window)
    return [(0,), *(tuple(rest[i::n_jobs]) for i in range(n_jobs))]
