"""Play MixTS and take its regret apart: block by block, here or anywhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mixts._progress import progress_bars
from mixts._typing import Array, Int
from mixts.diagnostics.decomposition.components import components_of
from mixts.diagnostics.decomposition.inequalities import PriorScales
from mixts.diagnostics.decomposition.measure import Parts, PartsMeasure
from mixts.diagnostics.decomposition.result import Decomposition
from mixts.environments import BanditEnvironment, Environment
from mixts.environments.bandit import BanditProblem
from mixts.environments.base import Streams
from mixts.errors import ParameterError
from mixts.prior import MixturePrior
from mixts.simulation.blocks import Advance, Simulation
from mixts.simulation.followers import Follower, check_latent
from mixts.simulation.results import Results
from mixts.simulation.simulate import prepare
from mixts.simulation.specs import read_specs


def decompose_regret(
    prior: MixturePrior,
    environment: BanditEnvironment,
    n_rounds: int,
    n_runs: int,
    seed: int,
    *,
    block_size: int | None = None,
    name: str = "MixTS",
    progress: bool = False,
) -> Decomposition:
    """Play MixTS and measure the two expectations whose sum is its Bayes regret  [paper: Eq. 1].

    The runs are, to the bit, those of ``simulate({name: prior}, environment, n_rounds, n_runs,
    seed)``. The prior is of :class:`GaussianArms` (the linear bandit of the unit vectors) or
    :class:`LinearGaussian`, and its components are the environment's latent states. All numbers
    are exact. Linear families take long: every component's posterior is worked out in each round.

    :func:`prepare_decomposition` gives the blocks one by one, for worker processes.
    """
    decomposed = prepare_decomposition(
        prior, environment, n_rounds, n_runs, seed, block_size=block_size, name=name
    )
    simulation = decomposed.simulation
    with progress_bars(progress) as bars:
        advance = bars.add("simulating", simulation.n_runs * simulation.n_rounds).advance
        blocks = [decomposed.play(block, advance) for block in range(decomposed.n_blocks)]
    return decomposed.assemble(blocks)


def prepare_decomposition(
    prior: MixturePrior,
    environment: BanditEnvironment,
    n_rounds: int,
    n_runs: int,
    seed: int,
    *,
    block_size: int | None = None,
    name: str = "MixTS",
) -> DecomposedSimulation:
    """Check what ``decompose_regret`` was given: blocks that can be played anywhere."""
    ours = components_of(prior).linear.n_features
    if not isinstance(environment, BanditEnvironment):
        raise ParameterError(
            "environment must be a BanditEnvironment, which knows the mean of every action, got "
            f"{type(environment).__name__}"
        )
    theirs = environment.prior.family
    same = type(theirs) is type(prior.family)
    if not same or components_of(environment.prior).linear.n_features != ours:
        raise ParameterError(
            f"prior must be of the environment's actions, {theirs!r}, got {prior.family!r}"
        )
    simulation = prepare({name: prior}, environment, n_rounds, n_runs, seed, block_size=block_size)
    return DecomposedSimulation(simulation, prior)


@dataclass(frozen=True)
class DecomposedSimulation:
    """All that determines the numbers of a decomposition; goes to workers as it is."""

    simulation: Simulation
    """The one that is followed, with MixTS as its only agent."""
    prior: MixturePrior

    @property
    def name(self) -> str:
        """MixTS's name in the simulation, which its random numbers depend on."""
        return next(iter(self.simulation.recipes))

    @property
    def n_blocks(self) -> int:
        """How many blocks there are to play."""
        return self.simulation.n_blocks

    def play(self, block: int, advance: Advance = lambda n: None) -> dict[str, Array]:
        """One block, as plain arrays with the runs first: what :meth:`assemble` takes."""
        stage = _Stage(self.simulation.environment)
        followed: list[tuple[Follower, PartsMeasure]] = []

        def follower(n_tasks: int, seed: Any, latent: Int[Array, " n"]) -> Follower:
            check_latent(latent, self.prior)
            measure = PartsMeasure(components_of(self.prior), stage.problem)
            followed.append((Follower(self.prior, measure, n_tasks, seed), measure))
            return followed[-1][0]

        recipes = read_specs({self.name: follower})
        played = replace(self.simulation, recipes=recipes, environment=stage).play(block, advance)
        ((one, measure),) = followed
        sampled, *parts = one.columns
        return {
            "run": played.start + np.arange(len(played.latent)),
            "latent": played.latent,
            "sampled": sampled,
            "regret": played.regret[self.name],
            "reward": played.reward[self.name],
            **dict(zip(Parts._fields, parts, strict=True)),
            "squared_norms": measure.squared_norms,
            "largest_norms": measure.largest_norms,
            "kappa": measure.kappa,
            "log_determinant_ratios": components_of(self.prior).log_determinant_ratios(
                one.belief.statistics
            ),
        }

    def assemble(self, blocks: Iterable[Mapping[str, Array]]) -> Decomposition:
        """All blocks, in any order, as one result."""
        given = list(blocks)
        runs = np.concatenate([block["run"] for block in given]) if given else np.empty(0)
        order = np.argsort(runs, kind="stable")
        if not np.array_equal(runs[order], np.arange(self.simulation.n_runs)):
            raise ParameterError(
                f"expected every run from 0 to {self.simulation.n_runs - 1} once, got "
                f"{len(runs)} runs in {len(given)} blocks"
            )
        joined = {
            name: np.concatenate([block[name] for block in given])[order]
            for name in given[0]
            if name != "run"
        }
        regret, reward = ({self.name: joined.pop(name)} for name in ("regret", "reward"))
        results = Results(regret, reward, joined.pop("latent"), self.simulation.settings)
        scales = PriorScales.of(components_of(self.prior).linear)
        return Decomposition(results=results, scales=scales, **joined)


class _Stage(Environment):
    """The same environment, and a way to look at the problem that it started."""

    problem: BanditProblem

    def __init__(self, environment: Environment) -> None:
        self._environment = environment

    @property
    def task_bytes(self) -> int:
        return self._environment.task_bytes

    def start(self, streams: Streams, n_tasks: int) -> BanditProblem:
        problem = self._environment.start(streams, n_tasks)
        assert isinstance(problem, BanditProblem)
        self.problem = problem
        return problem
