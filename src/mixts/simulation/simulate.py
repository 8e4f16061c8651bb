"""Many runs, many agents, one problem: ``simulate``."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor
from functools import partial
from typing import Any

import numpy as np

from mixts import _checks, _random
from mixts._progress import progress_bars
from mixts._typing import Array
from mixts.agents import BeliefAgent, policy_named
from mixts.engines import Engine, EngineLike, engine_of, n_processors
from mixts.environments import Environment
from mixts.errors import ParameterError
from mixts.prior import MixturePrior
from mixts.simulation._blocks import (
    Advance,
    Block,
    Observer,
    Recipe,
    Simulation,
    jobs_of,
    natural_block_size,
    play_blocks,
)
from mixts.simulation.results import Results

Observers = Observer | Mapping[str, Observer]
"""One observer for all agents, or one for each of some agents, by name."""


AgentSpec = MixturePrior | Callable[..., Any]
"""A prior, or a function that takes ``n_tasks``, ``seed`` and perhaps other keywords: every block
of runs is played by an agent of its own, possibly in another process."""

_REQUIRED = ("n_tasks", "seed")
_OFFERED = (*_REQUIRED, "n_rounds", "latent")
"""Keywords that a block offers; ``latent`` has the true latent states, for :class:`Oracle`."""


def simulate(
    agents: Mapping[str, AgentSpec],
    environment: Environment,
    n_rounds: int,
    n_runs: int,
    seed: int,
    executor: Executor | int | None = None,
    progress: bool = False,
    *,
    engine: EngineLike = None,
    block_size: int | None = None,
    observe: Observers | None = None,
    policy: str = "ts",
) -> Results:
    """Play every agent on the same sampled problems, with the same luck.

    The numbers depend on ``seed`` and ``block_size``, never on the engine. More agents change
    nothing for the others, and more runs change nothing for blocks that were full.

    Parameters
    ----------
    agents
        Specs by name. A :class:`MixturePrior` is played with ``policy``. Anything else is called,
        for each block of runs, with those of the keywords ``n_tasks``, ``seed``, ``n_rounds`` and
        ``latent`` (the true latent states) that it accepts: for example
        ``functools.partial(mixts.Oracle, prior)``.
    environment
        Where problems come from, such as :class:`BanditEnvironment`.
    n_rounds, n_runs
        Rounds of a run, and number of runs.
    seed
        Non-negative integer.
    executor
        The same as ``engine``: give one of the two.
    progress
        Whether to show a progress bar (extra ``progress``).
    engine
        Where blocks of runs are played. None: the first block in this process, and the others in
        worker processes if they will take more than 10 seconds, and if agents and environment can
        be pickled and are not defined in the script itself. An integer: that many worker processes;
        1 is this process. Or an executor of ``concurrent.futures``, a
        :class:`mixts.engines.Engine`, a Dask client, or the address of a Dask scheduler.
    block_size
        Number of runs that are played in lockstep; by default it follows from the problem's size.
    observe
        An :class:`Observer` of all agents, or observers by the agents' names. What they record is
        in ``results.observed``.
    policy
        How a spec that is a prior decides: "ts" (:class:`MixTS`), "ids" (:class:`MixIDS`), "greedy"
        or "ucb" (:class:`BayesUCB`).

    Returns
    -------
    Results
        Regret and reward of every round of every run, by agent.

    Examples
    --------
    >>> import mixts
    >>> prior = mixts.MixturePrior(mixts.BernoulliArms([[9, 1], [1, 9]], [[1, 9], [9, 1]]))
    >>> environment = mixts.BanditEnvironment(prior)
    >>> results = mixts.simulate({"MixTS": prior}, environment, n_rounds=20, n_runs=10, seed=1)
    >>> results.regret["MixTS"].shape
    (10, 20)
    """
    simulation = prepare(
        agents,
        environment,
        n_rounds,
        n_runs,
        seed,
        block_size=block_size,
        observe=observe,
        policy=policy,
    )
    if executor is not None:
        if engine is not None:
            raise ParameterError("engine and executor mean the same: give one of them")
        engine = executor
    with engine_of(engine) as where, progress_bars(progress) as bars:
        bar = bars.add("simulating", simulation.n_decisions())
        return assemble(simulation, _played(simulation, where, bar.advance))


def prepare(
    agents: Mapping[str, AgentSpec],
    environment: Environment,
    n_rounds: int,
    n_runs: int,
    seed: int,
    *,
    block_size: int | None = None,
    observe: Observers | None = None,
    policy: str = "ts",
) -> Simulation:
    """Check the arguments of :func:`simulate`, and return blocks that can be played anywhere.

    Parameters
    ----------
    agents, environment, n_rounds, n_runs, seed, block_size, observe, policy
        As in :func:`simulate`.

    Returns
    -------
    Simulation
        Its ``play(block)`` plays one block of runs.
    """
    recipes = read_specs(agents, policy)
    if not isinstance(environment, Environment):
        raise ParameterError(
            f"environment must be a mixts Environment such as BanditEnvironment(prior), got "
            f"{type(environment).__name__}"
        )
    _random.seed_sequence(seed)  # raises an error if it is not a seed
    if block_size is None:
        block_size = natural_block_size(environment)
    return Simulation(
        recipes,
        environment,
        _checks.count(n_rounds, "n_rounds"),
        _checks.count(n_runs, "n_runs"),
        int(seed),
        _checks.count(block_size, "block_size"),
        _observers(observe, recipes),
    )


def assemble(simulation: Simulation, blocks: Iterable[Block]) -> Results:
    """Join all blocks of a simulation, in any order, to its results.

    Raise ``ParameterError`` unless every run is there once.
    """
    n_runs, names = simulation.n_runs, list(simulation.recipes)
    shape = (n_runs, simulation.n_rounds)
    regret = {name: np.empty(shape) for name in names}
    reward = {name: np.empty(shape) for name in names}
    latent, times = np.empty(n_runs, np.int64), np.zeros(n_runs, np.int64)
    observed: dict[str, dict[str, Array]] = {}
    for block in blocks:
        runs = slice(block.start, block.start + len(block.latent))
        times[runs] += 1
        latent[runs] = block.latent
        for name in names:
            regret[name][runs] = block.regret[name]
            reward[name][runs] = block.reward[name]
        for name, arrays in block.observed.items():
            kept = observed.setdefault(name, {})
            for key, array in arrays.items():
                if key not in kept:
                    kept[key] = np.empty((n_runs, *array.shape[1:]), array.dtype)
                kept[key][runs] = array
    if (times != 1).any():
        run = int(np.argmax(times != 1))
        raise ParameterError(
            f"expected every run from 0 to {n_runs - 1} once, got run {run} {times[run]} times"
        )
    return Results(regret, reward, latent, simulation.settings, observed)


def _played(simulation: Simulation, where: Engine, advance: Advance) -> Iterator[Block]:
    """Yield all blocks, in any order, each as soon as the engine has played it."""
    where.check(
        {
            **{f"agent {name!r}": recipe for name, recipe in simulation.recipes.items()},
            "the environment": simulation.environment,
            **{f"the observer of {name!r}": one for name, one in simulation.observers.items()},
        }
    )
    shared = where.share(simulation)
    jobs = [
        (shared, blocks) for blocks in jobs_of(simulation, max(where.window, 2 * n_processors()))
    ]
    finished = where.as_completed(
        play_blocks, jobs, size=lambda job: simulation.n_decisions(job[1]), advance=advance
    )
    for _, blocks in finished:
        yield from blocks


def _observers(observe: Any, recipes: Mapping[str, Any]) -> dict[str, Observer]:
    if observe is None:
        return {}
    given = observe if isinstance(observe, Mapping) else dict.fromkeys(recipes, observe)
    for name, one in given.items():
        if name not in recipes:
            raise ParameterError(f"no agent {name!r} to observe; agents: {list(recipes)}")
        if not isinstance(one, Observer):
            raise ParameterError(
                f"observe must be an Observer, or observers by agent, got {type(one).__name__}"
            )
    return dict(given)


# -- specs of agents ------------------------------------------------------------------------------


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
