"""Many runs, many agents, one problem: ``simulate``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import Executor
from typing import Any

import numpy as np

from mixts import _checks, _random
from mixts._progress import progress_bars
from mixts.environments import Environment
from mixts.errors import ParameterError
from mixts.simulation.blocks import Block, Simulation, natural_block_size
from mixts.simulation.executors import played_blocks
from mixts.simulation.results import Results
from mixts.simulation.specs import AgentSpec, read_specs


def simulate(
    agents: Mapping[str, AgentSpec],
    environment: Environment,
    n_rounds: int,
    n_runs: int,
    seed: int,
    executor: Executor | int | None = None,
    progress: bool = False,
    *,
    block_size: int | None = None,
) -> Results:
    """Play every agent on the same sampled problems, with the same luck.

    ``agents`` are named specs. A :class:`MixturePrior` stands for :class:`MixTS` with it. Anything
    else is called, for each block of runs, with those of the keywords ``n_tasks``, ``seed``,
    ``n_rounds`` and ``latent`` (the true latent states) that it accepts: for example
    ``functools.partial(mixts.Oracle, prior)``.

    Runs are played in blocks, and ``executor`` says where: a number of worker processes (1 is this
    process), or an executor of ``concurrent.futures``. With None the first block is played here;
    the others are played in processes if they will take much longer than processes take to start,
    and if specs and environment can be pickled and are not defined in the script itself.

    The numbers depend on ``seed`` and ``block_size`` (by default a function of the problem's size),
    never on the executor. More agents change nothing for the others, and more runs nothing for
    blocks that were full. ``progress=True`` shows a bar (extra ``progress``).
    """
    simulation = prepare(agents, environment, n_rounds, n_runs, seed, block_size=block_size)
    where = _checked_executor(executor)
    n_decisions = len(simulation.recipes) * simulation.n_runs * simulation.n_rounds
    with progress_bars(progress) as bars:
        advance = bars.add("simulating", n_decisions).advance
        return assemble(simulation, played_blocks(simulation, where, advance))


def prepare(
    agents: Mapping[str, AgentSpec],
    environment: Environment,
    n_rounds: int,
    n_runs: int,
    seed: int,
    *,
    block_size: int | None = None,
) -> Simulation:
    """Check what ``simulate`` was given: a simulation whose blocks can be played anywhere."""
    recipes = read_specs(agents)
    if not isinstance(environment, Environment):
        raise ParameterError(
            f"environment must be a mixts Environment such as BanditEnvironment(prior), got "
            f"{type(environment).__name__}"
        )
    _random.seed_sequence(seed)  # refuses what is not a seed
    if block_size is None:
        block_size = natural_block_size(environment)
    return Simulation(
        recipes,
        environment,
        _checks.count(n_rounds, "n_rounds"),
        _checks.count(n_runs, "n_runs"),
        int(seed),
        _checks.count(block_size, "block_size"),
    )


def assemble(simulation: Simulation, blocks: Iterable[Block]) -> Results:
    """All blocks, in any order, as one result."""
    shape = (simulation.n_runs, simulation.n_rounds)
    latent = np.empty(simulation.n_runs, np.int64)
    regret = {name: np.empty(shape) for name in simulation.recipes}
    reward = {name: np.empty(shape) for name in simulation.recipes}
    for block in blocks:
        runs = slice(block.start, block.start + len(block.latent))
        latent[runs] = block.latent
        for name in simulation.recipes:
            regret[name][runs] = block.regret[name]
            reward[name][runs] = block.reward[name]
    return Results(regret, reward, latent, simulation.settings)


def _checked_executor(executor: Any) -> Executor | int | None:
    if executor is None or isinstance(executor, Executor):
        return executor
    if isinstance(executor, (int, np.integer)) and not isinstance(executor, bool) and executor > 0:
        return int(executor)
    raise ParameterError(
        "executor must be None, a number of worker processes, or a concurrent.futures executor, "
        f"got {executor!r}"
    )
