"""Follow MixTS through a simulation and keep what the confidence sets are made of."""

from __future__ import annotations

from typing import Any

import numpy as np

from mixts import _checks
from mixts._typing import Array, Int
from mixts.diagnostics.confidence.episodes import EpisodeMeasure
from mixts.diagnostics.confidence.measures import (
    BernoulliMeasure,
    GaussianMeasure,
    LinearMeasure,
    Measure,
)
from mixts.diagnostics.confidence.sets import ConfidenceSets
from mixts.environments.base import Environment
from mixts.errors import ParameterError
from mixts.families import BernoulliArms, GaussianArms, LinearGaussian, TabularMDP
from mixts.prior import MixturePrior
from mixts.simulation.followers import Follower, check_latent
from mixts.simulation.simulate import simulate


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
    n_samples = _checks.count(n_samples, "n_samples", least=2)
    measure = _measure(prior, _checks.count(n_rounds, "n_rounds"), n_samples)
    followers: list[Follower] = []

    def follower(n_tasks: int, seed: Any, latent: Int[Array, " n"]) -> Follower:
        check_latent(latent, prior)
        followers.append(Follower(prior, measure, n_tasks, seed))
        return followers[-1]

    # In this process: block after block in order, and the followers can be asked afterwards.
    results = simulate(
        {name: follower}, environment, n_rounds, n_runs, seed, 1, progress, block_size=block_size
    )
    blocks = zip(*(one.columns for one in followers), strict=True)
    sampled, excess, width, error = (np.concatenate(column) for column in blocks)
    return ConfidenceSets(
        sampled, excess, width, error, measure.radius_factor, prior.n_components, results
    )


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
