"""The four measures of information of MixIDS, on random mixtures."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

import mixts
from mixts.simulation import AgentSpec, simulate
from studies._shared import Array, stream
from studies.coldstart.movielens.ratings import Ratings
from studies.coldstart.movielens.splits import UserSplit
from studies.policies.agents import BESTSELLER, bestseller
from studies.policies.tables import Comparison

MEASURES = ("variance", "best-action", "latent-and-best-action", "mutual-information")
N_COMPONENTS, N_ARMS, N_FEATURES = 5, 10, 4
ROUNDS = (20, 100, 200)
"""Short and long runs: regret is shown after so many rounds."""
N_PRIORS = 10
"""Random mixtures of each sort; the runs are divided among them."""
SKEWED = 0.5 ** np.arange(N_COMPONENTS)
"""Weights of components, each half as likely as the one before."""


def unit_vectors(rng: np.random.Generator, n_tasks: int) -> Array:
    """Draw the actions of a round of the linear bandit: random directions."""
    rows = rng.standard_normal((n_tasks, N_ARMS, N_FEATURES))
    return np.asarray(rows / np.linalg.norm(rows, axis=2, keepdims=True))


def random_family(sort: str, rng: np.random.Generator) -> mixts.families.Family:
    """Draw the components of a mixture; their means differ more than tasks of one component."""
    shape = (N_COMPONENTS, N_ARMS)
    if sort == "Bernoulli arms":
        rates = rng.beta(1.0, 2.0, shape).clip(0.02, 0.98)
        return mixts.BernoulliArms(10 * rates, 10 * (1 - rates))
    if sort == "Gaussian arms":
        return mixts.GaussianArms(rng.standard_normal(shape), np.full(shape, 0.5**2), 1.0)
    if sort == "Poisson arms":
        means = rng.gamma(2.0, 0.5, shape).clip(0.05)
        return mixts.PoissonArms(5 * means, np.full(shape, 5.0))
    means = rng.standard_normal((N_COMPONENTS, N_FEATURES))
    spread = np.full(N_COMPONENTS, 0.3**2)
    return mixts.LinearGaussian(means, spread, 0.5, covariance_type="spherical")


SORTS = ("Bernoulli arms", "Gaussian arms", "Poisson arms", "linear rewards")


def mixtures(sort: str, seed: int, skewed: bool) -> Iterator[mixts.MixturePrior]:
    """Yield the random mixtures of a sort; skewed ones have the same components."""
    for i in range(N_PRIORS):
        family = random_family(sort, stream(seed, "information", sort, i))
        yield mixts.MixturePrior(family, SKEWED / SKEWED.sum() if skewed else None)


def measured_agents(prior: mixts.MixturePrior) -> dict[str, AgentSpec]:
    """Return MixTS, and MixIDS with each measure."""
    agents: dict[str, AgentSpec] = {"MixTS": partial(mixts.MixTS, prior)}
    for measure in MEASURES:
        agents[measure] = partial(mixts.MixIDS, prior, information=measure)
    return agents


def measures_for_films(
    ratings: Ratings, split: UserSplit, prior: mixts.MixturePrior
) -> tuple[Array, dict[str, AgentSpec]]:
    """Return the features of films, and the bestseller beside the measures."""
    return split.features.films, {BESTSELLER: bestseller(prior), **measured_agents(prior)}


def play_sort(
    name: str, priors: list[mixts.MixturePrior], n_runs: int, seed: int, workers: int
) -> Comparison:
    """Play all measures on the same tasks of some priors."""
    regret: dict[str, list[Array]] = {}
    n_each = max(2, n_runs // len(priors))
    for i, prior in enumerate(priors):
        linear = prior.family.n_arms is None
        environment = mixts.BanditEnvironment(prior, unit_vectors if linear else None)
        results = simulate(
            measured_agents(prior), environment, ROUNDS[-1], n_each,
            int(stream(seed, "information", name, "tasks", i).integers(2**63)), engine=workers,
        )  # fmt: skip
        for agent in results.agents:
            regret.setdefault(agent, []).append(results.regret[agent])
    runs = np.arange(n_each * len(priors))
    return Comparison(
        name,
        {key: np.concatenate(all_) for key, all_ in regret.items()},
        ROUNDS,
        # Runs on one prior are alike. A single prior is the problem itself, not a sample of priors.
        clusters=(runs, runs // n_each) if len(priors) > 1 else None,
    )


def compared_measures(n_runs: int, seed: int, workers: int) -> Iterator[Comparison]:
    """Yield the comparison of the measures on every sort of mixture, and without a mixture."""
    for sort in SORTS:
        for skewed in (False, True):
            name = f"{sort}, {'skewed' if skewed else 'equal'} weights"
            yield play_sort(name, list(mixtures(sort, seed, skewed)), n_runs, seed, workers)
    flat = mixts.MixturePrior(mixts.BernoulliArms.uniform(n_arms=N_ARMS))
    yield play_sort("flat Bernoulli arms", [flat], n_runs, seed, workers)
