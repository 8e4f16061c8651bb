"""Blocks of runs: a block is played in lockstep, as the tasks of one agent.

A block has its own random streams, and its size belongs to the simulation, so the numbers do not
depend on where and when a block is played.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from mixts import _random
from mixts._typing import Array, Float, Int
from mixts.agents import BeliefAgent, policy_named
from mixts.environments import Environment
from mixts.environments.base import Offer, Outcome, Problem
from mixts.errors import ParameterError
from mixts.prior import MixturePrior
from mixts.simulation.observe import Observer, Recorder, Round

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


# -- specs of agents ------------------------------------------------------------------------------
#
# Every block is played by its own agent, possibly in another process. So simulations take a
# description of an agent: a prior, which the simulation's policy plays, or a function that makes
# the agent.

AgentSpec = MixturePrior | Callable[..., Any]
"""A prior, or a function that takes ``n_tasks``, ``seed`` and perhaps other keywords."""

_REQUIRED = ("n_tasks", "seed")
_OFFERED = (*_REQUIRED, "n_rounds", "latent")
"""Keywords that a block offers; ``latent`` has the true latent states, for :class:`Oracle`."""


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


def read_specs(agents: Mapping[str, AgentSpec], policy: str = "ts") -> dict[str, Recipe]:
    """Check all specs before anything is played; a prior is played with this policy."""
    kind = policy_named(policy)
    if not isinstance(agents, Mapping) or not agents:
        raise ParameterError(f'agents must be a dictionary {{"name": spec, ...}}, got {agents!r}')
    for name in agents:
        if not isinstance(name, str) or not name:
            raise ParameterError(f"agents must be named by non-empty strings, got {name!r}")
    return {name: _read(name, spec, kind) for name, spec in agents.items()}


def _read(name: str, spec: Any, policy: type[BeliefAgent]) -> Recipe:
    if isinstance(spec, MixturePrior):
        return Recipe(partial(policy, spec), _REQUIRED)
    if callable(getattr(spec, "act", None)) and not inspect.isclass(spec):
        kind = type(spec).__name__
        raise ParameterError(
            f"agent {name!r} is a {kind} that exists already, but every block of runs needs its "
            f"own: give functools.partial({kind}, ...) with all arguments but n_tasks and seed"
        )
    if not callable(spec):
        raise ParameterError(
            f"agent {name!r} must be a MixturePrior, or something to call such as "
            f"functools.partial(mixts.MixTS, prior), got {type(spec).__name__}"
        )
    return Recipe(spec, _accepted(name, spec))


def _accepted(name: str, spec: Callable[..., Any]) -> tuple[str, ...]:
    """Return the offered keywords that the signature names and that are not bound already.

    ``**kwargs`` gets the required keywords only: the function behind it may not know the others.
    """
    try:
        parameters = inspect.signature(spec).parameters
    except (TypeError, ValueError) as error:
        raise ParameterError(f"agent {name!r}: {spec!r} has no readable signature") from error
    bound = spec.keywords if isinstance(spec, partial) else {}
    by_name = {
        key: parameter
        for key, parameter in parameters.items()
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    }
    anything = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    for key in _REQUIRED:
        if key in bound or not (key in by_name or anything):
            state = "binds" if key in bound else "does not accept"
            raise ParameterError(
                f"agent {name!r} {state} {key!r}: simulate passes it, with a new value for every "
                "block of runs"
            )
    missing = [
        key
        for key, parameter in parameters.items()
        if parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        and not (key in _OFFERED and key in by_name)
    ]
    if missing:
        raise ParameterError(
            f"agent {name!r} needs {', '.join(missing)}, which simulate does not know: bind it "
            "with functools.partial"
        )
    return tuple(
        key
        for key in _OFFERED
        if key not in bound and (key in by_name or (anything and key in _REQUIRED))
    )


# -- blocks ---------------------------------------------------------------------------------------


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
            watched = self._watched(name, block, agent, problem)
            for t in range(self.n_rounds):
                offer = problem.next_round()
                actions, mask = offer
                chosen = agent.act(actions) if mask is None else agent.act(actions, mask=mask)
                outcome = problem.play(chosen)
                if watched is None:
                    agent.update(*outcome.feedback)
                else:
                    watched.update(offer, chosen, outcome)
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
            None if watched is None else watched.recorder.arrays(),
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

    def _watched(self, name: str, block: int, agent: Any, problem: Problem) -> _Watched | None:
        if name not in self.observers:
            return None
        # A child of a copy of the agent's seed: the agent's own numbers stay the same.
        rng = np.random.default_rng(self._seed(name, block).spawn(1)[0])
        return _Watched(self.observers[name].start(agent, problem), agent, rng)


class _Watched:
    """An agent whose rounds a recorder sees."""

    def __init__(self, recorder: Recorder, agent: Any, rng: np.random.Generator) -> None:
        self.recorder = recorder
        self._agent = agent
        self._rng = rng

    def update(self, offer: Offer, chosen: Any, outcome: Outcome) -> None:
        """Show the round to the recorder before and after the agent learns from it."""
        agent = self._agent
        belief, sampled = getattr(agent, "belief", None), getattr(agent, "last_latent", None)
        round_ = Round(self._rng, belief, sampled, offer, chosen, outcome)
        self.recorder.before_update(round_)
        agent.update(*outcome.feedback)
        self.recorder.after_update(round_)


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
