"""Splits of the users: learn priors from some of them, and play agents with the others."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

import numpy as np

from mixts.agents import MixIDS
from mixts.environments import ReplayBandit
from mixts.errors import ParameterError
from mixts.experiments.base import Arrays, Part
from mixts.families import LinearGaussian, LinearStatistics
from mixts.learning import mixture_evidence
from mixts.learning.two_stage import one_blas_thread
from mixts.prior import MixturePrior
from mixts.simulation import AgentSpec, Results, simulate
from studies._shared import Array, stream
from studies.coldstart.movielens.features import (
    FilmFeatures,
    learn_features,
    task_statistics,
)
from studies.coldstart.movielens.priors import (
    AGENTS,
    MAX_COMPONENTS,
    Priors,
    learn_priors,
)
from studies.coldstart.movielens.ratings import Ratings
from studies.policies.agents import BESTSELLER, IDS, bestseller

NAME = "coldstart/movielens"
N_HELD_OUT = 180
LARGEST_SHARE = 0.6
"""Largest share of the eligible users to hold out, for data with few of them."""
LEAST_RATINGS = 60
N_OFFERED = 10
N_PLAYS = 4
"""Number of times that each agent plays each held-out user; results are means over these."""
N_KNOWN = 300
"""Number of well-known films, those with the most ratings; tables name only these."""
N_NAMED = 3
"""Number of films that a table names for each kind of people."""


def held_out_users(ratings: Ratings, split: int, seed: int) -> Array:
    """Draw users from those with enough ratings; all others train."""
    enough = np.flatnonzero(np.bincount(ratings.users) >= LEAST_RATINGS)
    n = min(N_HELD_OUT, int(LARGEST_SHARE * len(enough)))
    if n < 2:
        raise ParameterError(
            f"at least 4 users with {LEAST_RATINGS} ratings are needed, got {len(enough)}"
        )
    rng = stream(seed, NAME, split, "held out")
    return np.sort(rng.choice(enough, n, replace=False))


class SplitsPart(Part):
    """Splits of the users, one in each block.

    The first axis of an array is the held-out users, or has length one.
    """

    cost = 40.0

    def __init__(self, ratings: Ratings, n_splits: int, n_rounds: int, seed: int) -> None:
        self._ratings = ratings
        self._n_splits, self._n_rounds, self._seed = n_splits, n_rounds, seed

    @property
    def n_blocks(self) -> int:
        return self._n_splits

    def play(self, block: int) -> Arrays:
        ratings = self._ratings
        with one_blas_thread():
            split = split_users(ratings, block, self._seed)
            priors = learn_priors(split.past, split.seed)
            features, seen = split.features, split.seen
            return {
                "latent": split.held_out,
                "split": np.full(len(split.held_out), block),
                **_evidence(ratings, features, priors, ~seen),
                **_played(ratings, split, priors, self._n_rounds),
                **_found(priors),
                **kinds_of(ratings, features, priors.learned.prior, seen),
            }


class UserSplit(NamedTuple):
    """Held-out users, and what the other users teach."""

    held_out: Array
    seen: Array
    """Whether each rating is one of a training user."""
    features: FilmFeatures
    past: LinearStatistics
    """Statistics of the training users."""
    seed: int
    """Seed of everything random in this split."""


def split_users(ratings: Ratings, split: int, seed: int) -> UserSplit:
    """Hold out users; learn features and statistics from the other users."""
    held_out = held_out_users(ratings, split, seed)
    training = np.ones(ratings.n_users, bool)
    training[held_out] = False
    seen = training[ratings.users]
    features = learn_features(ratings, training)
    past = task_statistics(features.rows, ratings.ratings[seen], ratings.users[seen])
    own_seed = int(stream(seed, NAME, split, "seed").integers(2**62))
    return UserSplit(held_out, seen, features, past, own_seed)


def _evidence(ratings: Ratings, features: FilmFeatures, priors: Priors, test: Array) -> Arrays:
    """Return the log evidence of each held-out user's ratings under each prior."""
    films, values, users = ratings.films[test], ratings.ratings[test], ratings.users[test]
    tasks = task_statistics(features.films[films], values, users)
    arrays: Arrays = {"n_ratings": np.array(tasks.n_observations)}
    totals = np.bincount(users, values, minlength=ratings.n_users)
    counts = np.bincount(users, minlength=ratings.n_users)
    arrays["mean_rating"] = (totals / np.maximum(counts, 1))[counts > 0]
    for name in AGENTS:
        arrays[f"evidence/{name}"] = mixture_evidence(priors.by_agent[name], tasks)
    return arrays


def _played(ratings: Ratings, split: UserSplit, priors: Priors, n_rounds: int) -> Arrays:
    """Return the reward and regret of each agent with each held-out user, means over plays."""
    mixture = priors.learned.prior
    agents: dict[str, AgentSpec] = {
        **priors.by_agent, BESTSELLER: bestseller(mixture), IDS: partial(MixIDS, mixture),
    }  # fmt: skip
    played = play_held_out(ratings, split, split.features.films, agents, n_rounds)
    arrays: Arrays = {}
    for name, (reward, regret) in played.items():
        arrays[f"reward/{name}"], arrays[f"regret/{name}"] = reward, regret
    return arrays


def play_held_out(
    ratings: Ratings,
    split: UserSplit,
    films: Array,
    agents: Mapping[str, AgentSpec],
    n_rounds: int,
) -> dict[str, tuple[Array, Array]]:
    """Play every held-out user several times.

    Parameters
    ----------
    ratings, split
        The ratings, and which of them are held out.
    films
        Features of every film, as agents see them.
    agents
        Specs of agents, by name.
    n_rounds
        Number of rounds of a play.

    Returns
    -------
    dict
        Reward and regret of each agent, (n_users, n_rounds) each: means over the plays of a user.
    """
    test = ~split.seen
    users, tasks = np.unique(ratings.users[test], return_inverse=True)
    environment = ReplayBandit(films[ratings.films[test]], ratings.ratings[test], tasks, N_OFFERED)
    n = len(users)
    # A block has as many runs as there are users, and plays each user once.
    results = simulate(
        agents, environment, n_rounds, N_PLAYS * n, split.seed, engine=1, block_size=n
    )
    return {
        name: (
            _by_task(results, results.reward[name], n),
            _by_task(results, results.regret[name], n),
        )
        for name in agents
    }


def _by_task(results: Results, values: Array, n_tasks: int) -> Array:
    """Return means over the plays of each task."""
    order = np.argsort(results.latent, kind="stable")
    return values[order].reshape(n_tasks, -1, values.shape[1]).mean(axis=1)


def _found(priors: Priors) -> Arrays:
    """Return one row: the choices, the evidence that decided them, and the noise of each agent."""
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


# -- kinds of people -----------------------------------------------------------------------------


def well_known(ratings: Ratings) -> Array:
    """Return the films with the most ratings, in decreasing order."""
    counts = np.bincount(ratings.films, minlength=ratings.n_films)
    return np.argsort(-counts, kind="stable")[:N_KNOWN]


def kinds_of(ratings: Ratings, features: FilmFeatures, prior: MixturePrior, seen: Array) -> Arrays:
    """Return the kinds of people of a prior, one row of each, padded with NaN.

    Means are over the films of training ratings; a film counts as often as it was rated. ``spread``
    is the standard deviation between members of a kind of their opinion of a film, the root of the
    mean of x' S x. ``taste`` is the standard deviation between films of the kind's mean opinion.
    ``named`` are the well-known films that the kind likes most, compared with other kinds.
    """
    family = prior.family
    assert isinstance(family, LinearGaussian)
    n = prior.n_components
    films = ratings.films[seen]
    rows = features.films[films]
    predicted = rows @ family.mean.T
    gram = rows.T @ rows / len(rows)
    spread = np.sqrt([np.sum(gram * one) for one in family.full_covariances()])
    genre = ratings.genres[films].astype(float)
    by_genre = (predicted.T @ genre) / np.maximum(genre.sum(axis=0), 1)
    known = features.films[well_known(ratings)] @ family.mean.T
    liking = known - known.mean(axis=0)
    liking = liking - (liking @ prior.weights)[:, None]
    order = np.argsort(-liking, axis=0, kind="stable")[:N_NAMED].T
    return {
        "kinds/weight": _padded(prior.weights),
        "kinds/mean": _padded(predicted.mean(axis=0)),
        "kinds/spread": _padded(spread),
        "kinds/taste": _padded(predicted.std(axis=0)),
        "kinds/genre": _padded(by_genre),
        "kinds/named": _padded(order.astype(float).reshape(n, -1)),
    }


def _padded(values: Array) -> Array:
    whole = np.full((1, MAX_COMPONENTS, *values.shape[1:]), np.nan)
    whole[0, : len(values)] = values
    return whole
