"""One split of the users: who is held out, what is learned from the others, and who plays."""

from __future__ import annotations

import numpy as np

from mixts.environments import ReplayBandit
from mixts.errors import ParameterError
from mixts.experiments.base import Arrays, Part
from mixts.learning.two_stage import one_blas_thread
from mixts.simulation import Results, simulate
from studies._shared import Array, mixture_evidence, stream
from studies.coldstart.movielens.features import (
    FilmFeatures,
    learn_features,
    task_statistics,
)
from studies.coldstart.movielens.kinds import kinds_of
from studies.coldstart.movielens.priors import (
    AGENTS,
    MAX_COMPONENTS,
    Priors,
    learn_priors,
)
from studies.coldstart.movielens.ratings import Ratings

NAME = "coldstart/movielens"
N_HELD_OUT = 180
LARGEST_SHARE = 0.6
"""Of the users who may be held out, at most so many are: where there are few of them."""
LEAST_RATINGS = 60
N_OFFERED = 10
N_PLAYS = 4
"""Of each held-out user by each agent, of which the mean is kept: an agent's luck is not the
user's, and costs little to average out."""


def held_out_users(ratings: Ratings, split: int, seed: int) -> Array:
    """Drawn from those with enough ratings; all others train."""
    enough = np.flatnonzero(np.bincount(ratings.users) >= LEAST_RATINGS)
    n = min(N_HELD_OUT, int(LARGEST_SHARE * len(enough)))
    if n < 2:
        raise ParameterError(
            f"at least 4 users with {LEAST_RATINGS} ratings are needed, got {len(enough)}"
        )
    rng = stream(seed, NAME, split, "held out")
    return np.sort(rng.choice(enough, n, replace=False))


class SplitsPart(Part):
    """A block is a split; the arrays of a block have its held-out users first, or just one row."""

    cost = 40.0

    def __init__(self, ratings: Ratings, n_splits: int, n_rounds: int, seed: int) -> None:
        self._ratings = ratings
        self._n_splits, self._n_rounds, self._seed = n_splits, n_rounds, seed

    @property
    def n_blocks(self) -> int:
        return self._n_splits

    def play(self, block: int) -> Arrays:
        ratings = self._ratings
        held_out = held_out_users(ratings, block, self._seed)
        training = np.ones(ratings.n_users, bool)
        training[held_out] = False
        # Streams by name, which the simulation and the learning have of their own.
        seed = int(stream(self._seed, NAME, block, "seed").integers(2**62))
        with one_blas_thread():
            features = learn_features(ratings, training)
            seen = training[ratings.users]
            past = task_statistics(features.rows, ratings.ratings[seen], ratings.users[seen])
            priors = learn_priors(past, seed)
            return {
                "latent": held_out,
                "split": np.full(len(held_out), block),
                **_evidence(ratings, features, priors, ~seen),
                **_played(ratings, features, priors, ~seen, self._n_rounds, seed),
                **_found(priors),
                **kinds_of(ratings, features, priors.learned.prior, seen),
            }


def _evidence(ratings: Ratings, features: FilmFeatures, priors: Priors, test: Array) -> Arrays:
    """What each prior says of all ratings of each held-out user."""
    films, values, users = ratings.films[test], ratings.ratings[test], ratings.users[test]
    tasks = task_statistics(features.films[films], values, users)
    arrays: Arrays = {"n_ratings": np.array(tasks.n_observations)}
    totals = np.bincount(users, values, minlength=ratings.n_users)
    counts = np.bincount(users, minlength=ratings.n_users)
    arrays["mean_rating"] = (totals / np.maximum(counts, 1))[counts > 0]
    for name in AGENTS:
        arrays[f"evidence/{name}"] = mixture_evidence(priors.by_agent[name], tasks)
    return arrays


def _played(
    ratings: Ratings,
    features: FilmFeatures,
    priors: Priors,
    test: Array,
    n_rounds: int,
    seed: int,
) -> Arrays:
    """Reward and regret of each agent with each held-out user, means over plays."""
    films, values = ratings.films[test], ratings.ratings[test]
    users, tasks = np.unique(ratings.users[test], return_inverse=True)
    environment = ReplayBandit(features.films[films], values, tasks, N_OFFERED)
    n = len(users)
    # As many runs in a block as there are users: each is played once in every block.
    results = simulate(
        priors.by_agent, environment, n_rounds, N_PLAYS * n, seed, executor=1, block_size=n
    )
    arrays: Arrays = {}
    for name in AGENTS:
        arrays[f"reward/{name}"] = _by_task(results, results.reward[name], n)
        arrays[f"regret/{name}"] = _by_task(results, results.regret[name], n)
    return arrays


def _by_task(results: Results, values: Array, n_tasks: int) -> Array:
    """Means over the plays of each task."""
    order = np.argsort(results.latent, kind="stable")
    return values[order].reshape(n_tasks, -1, values.shape[1]).mean(axis=1)


def _found(priors: Priors) -> Arrays:
    """One row: what was chosen, the held-out evidence by which, and the noise of each agent."""
    selection = priors.learned.selection
    assert selection is not None
    gap, error = np.full((1, MAX_COMPONENTS), np.nan), np.full((1, MAX_COMPONENTS), np.nan)
    n = len(selection.candidates)
    gap[0, :n], error[0, :n] = selection.gap, selection.standard_error
    ridge, components = priors.two_stage
    noise = [priors.by_agent[name].family.settings()["noise_std"] for name in AGENTS]
    return {
        "chosen": np.array([selection.chosen]),
        "selection/gap": gap,
        "selection/error": error,
        "two_stage/ridge": np.array([ridge]),
        "two_stage/components": np.array([components]),
        "noise": np.array([noise]),
    }
