"""Follow MixTS through a simulation and keep what the confidence sets are made of."""

from __future__ import annotations

from typing import Any

import numpy as np

from mixts import checks
from mixts.agents import MixTS
from mixts.environments.base import Environment
from mixts.errors import ParameterError
from mixts.families import BernoulliArms, GaussianArms, LinearGaussian, TabularMDP
from mixts.mixture import MixturePrior
from mixts.simulation.confidence.episodes import EpisodeMeasure
from mixts.simulation.confidence.measures import (
    BernoulliMeasure,
    Decided,
    GaussianMeasure,
    LinearMeasure,
    Measure,
)
from mixts.simulation.confidence.sets import ConfidenceSets
from mixts.simulation.simulate import simulate
from mixts.typing import Array, Int


class Follower:
    """MixTS for a block of runs, with a measure that looks at each round before it is learned."""

    def __init__(
        self, agent: MixTS, measure: Measure, rng: np.random.Generator, n_rounds: int
    ) -> None:
        self._agent, self._measure, self._rng = agent, measure, rng
        n = agent.n_tasks or 0
        self.sampled = np.empty((n_rounds, n), np.int64)
        self.promises = np.empty((n_rounds, 3, n))
        self._round = 0
        self._chosen: Any = None

    def act(self, actions: Any = None, tasks: Any = None, mask: Any = None) -> Any:
        """MixTS's own decision."""
        self._chosen = self._agent.act(actions, tasks, mask)
        return self._chosen

    def update(self, *feedback: Any) -> None:
        """Measure with the belief as it was when the decision was made, then learn."""
        agent, t = self._agent, self._round
        latent = agent.last_latent
        self.sampled[t] = latent
        decided = Decided(self._rng, agent.belief, latent, self._chosen, feedback)
        self.promises[t] = self._measure(decided)
        self._round += 1
        agent.update(*feedback)


def follow_confidence_sets(
    prior: MixturePrior,
    environment: Environment,
    n_rounds: int,
    n_runs: int,
    seed: int,
    *,
    n_samples: int = 32,
    name: str = "MixTS",
    block_size: int | None = None,
    progress: bool = False,
) -> ConfidenceSets:
    """Play MixTS and record the latent confidence sets of the proofs  [paper: Sec. 4.1].

    The runs are, to the bit, those of ``simulate({name: prior}, environment, n_rounds, n_runs,
    seed)``: the diagnostic has random numbers of its own. The environment's latent states must be
    the prior's components.

    With :class:`LinearGaussian`, :class:`GaussianArms` (the linear bandit of the unit vectors) and
    :class:`BernoulliArms` (an MDP of one state and one step) all numbers are exact. With a
    :class:`TabularMDP` the mean value of the episode's policy under the sampled component is an
    average over ``n_samples`` MDPs from its posterior, whose standard error is kept.
    """
    if not isinstance(prior, MixturePrior):
        raise ParameterError(f"prior must be a MixturePrior, got {type(prior).__name__}")
    n_samples = checks.count(n_samples, "n_samples", least=2)
    measure = _measure(prior, checks.count(n_rounds, "n_rounds"), n_samples)
    followers: list[Follower] = []

    def follower(n_tasks: int, seed: Any, n_rounds: int, latent: Int[Array, " n"]) -> Follower:
        _check_latent(latent, prior)
        # A child of the agent's seed is independent of it, and what the agent draws stays the same.
        rng = np.random.default_rng(seed.spawn(1)[0])
        followers.append(Follower(MixTS(prior, n_tasks, seed), measure, rng, n_rounds))
        return followers[-1]

    # In this process: block after block in order, and the followers can be asked afterwards.
    results = simulate(
        {name: follower}, environment, n_rounds, n_runs, seed, 1, progress, block_size=block_size
    )
    sampled = np.concatenate([one.sampled for one in followers], axis=1)
    promises = np.concatenate([one.promises for one in followers], axis=2)
    excess, width, error = (np.ascontiguousarray(promises[:, i].T) for i in range(3))
    return ConfidenceSets(
        np.ascontiguousarray(sampled.T), excess, width, error,
        measure.radius_factor, prior.n_components, results,
    )  # fmt: skip


def _measure(prior: MixturePrior, n_rounds: int, n_samples: int) -> Measure:
    family = prior.family
    if isinstance(family, TabularMDP):
        return EpisodeMeasure(prior, n_rounds, n_samples)
    if isinstance(family, LinearGaussian):
        return LinearMeasure(prior, n_rounds)
    if isinstance(family, GaussianArms):
        return GaussianMeasure(prior, n_rounds)
    if isinstance(family, BernoulliArms):
        return BernoulliMeasure(prior, n_rounds)
    raise ParameterError(
        f"the proofs have no confidence width for {family!r}: its rewards are neither bounded nor "
        "Gaussian. Sets are defined for LinearGaussian, GaussianArms, BernoulliArms and TabularMDP"
    )


def _check_latent(latent: Int[Array, " n"], prior: MixturePrior) -> None:
    outside = (latent < 0) | (latent >= prior.n_components)
    if outside.any():
        raise ParameterError(
            f"the environment's latent states must be the prior's components, 0 to "
            f"{prior.n_components - 1}, got {int(latent[np.argmax(outside)])}: give the prior "
            "that the environment draws from, or one with the same components"
        )
