"""Split the users of MovieLens: learn priors from some of them, and decide for the others."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

import numpy as np

from mixts import MixturePrior
from mixts.agents import MixIDS
from mixts.environments import ReplayBandit
from mixts.errors import ParameterError
from mixts.extend import Array, random
from mixts.families import LinearGaussian, LinearStatistics
from mixts.learning import (
    Learned,
    flat_family,
    gaussian_of_estimates,
    learn,
    mixture_evidence,
    mixture_of_estimates,
    one_blas_thread,
    ridge_estimates,
)
from mixts.simulation import AgentSpec, simulate
from mixts_paper.experiments.base import Arrays, Blocks
from mixts_paper.studies import BESTSELLER, IDS, bestseller
from mixts_paper.studies.movielens.ratings import (
    FilmFeatures,
    Ratings,
    learn_features,
    task_statistics,
)

FLAT, UNI, TWO_STAGE, ONE, MIXTURE = "TS", "UniTS", "MixTS, two-stage", "TS, evidence", "MixTS"
AGENTS = (FLAT, UNI, TWO_STAGE, ONE, MIXTURE)

MAX_COMPONENTS = 8
N_RESTARTS = 3
TOLERANCE = 1e-4
"""Least gain of evidence per task in an iteration of learning. It is ten times the default, which
halves the time, and a tenth of the differences between numbers of components."""

RIDGES = (1e-3, 1e-2, 1e-1)
COMPONENTS = (1, 2, 3, 5, 8)
"""Candidates for the two-stage prior, compared by cross-validation over training users."""
N_FOLDS = 5
SCALES = np.geomspace(0.1, 10.0, 41)
"""Candidates for the standard deviation of the flat prior."""


Priors = dict[str, MixturePrior]
"""The prior of each agent, by name."""


def learn_priors(tasks: LinearStatistics, seed: int) -> Priors:
    """Learn the priors of all agents, and make all choices, from training users only."""
    learned = learn_mixture(tasks, seed)
    noise = _noise_std(tasks)
    scores = _two_stage_scores(tasks, noise, seed)
    best = max(scores, key=lambda one: scores[one])
    ridge = max(RIDGES, key=lambda one: scores[one, 1])
    return {
        FLAT: flat_prior(tasks, noise),
        UNI: _two_stage(tasks, ridge, 1, noise, seed),
        TWO_STAGE: _two_stage(tasks, *best, noise, seed),
        ONE: learned.unimodal,
        MIXTURE: learned.prior,
    }


def learn_mixture(tasks: LinearStatistics, seed: int) -> Learned:
    """Learn a mixture by the evidence, the smallest within one standard error of the best."""
    return learn(
        tasks, "auto",
        seed=seed, max_components=MAX_COMPONENTS, n_restarts=N_RESTARTS, tolerance=TOLERANCE,
        n_folds=N_FOLDS, select="one-standard-error", engine=1,
    )  # fmt: skip


def flat_prior(tasks: LinearStatistics, noise_std: float) -> MixturePrior:
    """Return N(0, s^2 I) with the s of the largest evidence: the best flat prior for the tasks."""
    mean = np.zeros((1, *tasks.shape))
    candidates = [
        MixturePrior(LinearGaussian(mean, [scale**2], noise_std, "spherical")) for scale in SCALES
    ]
    return max(candidates, key=lambda one: float(mixture_evidence(one, tasks).sum()))


def _noise_std(tasks: LinearStatistics) -> float:
    """Return the noise that the library's two-stage method estimates."""
    noise_std = flat_family(tasks).noise_std
    assert noise_std is not None
    return noise_std


def _two_stage(
    tasks: LinearStatistics, ridge: float, n_components: int, noise_std: float, seed: int
) -> MixturePrior:
    estimates = ridge_estimates(tasks, ridge)
    if n_components == 1:
        return gaussian_of_estimates(estimates, noise_std)
    # scikit-learn accepts seeds of 32 bits.
    state = int(random.seed_sequence(seed, "two-stage").generate_state(1)[0])
    return mixture_of_estimates(estimates, n_components, noise_std, state, weights="fitted")


def _two_stage_scores(
    tasks: LinearStatistics, noise_std: float, seed: int
) -> dict[tuple[float, int], float]:
    """Return the cross-validated log evidence of all tasks, by ridge and number of components."""
    fold = random.stream(seed, "folds").permutation(len(tasks)) % N_FOLDS
    scores = {}
    for ridge in RIDGES:
        for n_components in COMPONENTS:
            if n_components > max(1, len(tasks) // 10):
                continue
            total = 0.0
            for k in range(N_FOLDS):
                inside, outside = np.flatnonzero(fold == k), np.flatnonzero(fold != k)
                prior = _two_stage(tasks[outside], ridge, n_components, noise_std, seed)
                total += float(mixture_evidence(prior, tasks[inside]).sum())
            scores[ridge, n_components] = total
    return scores


# -- splits of the users --------------------------------------------------------------------------


NAME = "coldstart/movielens"
"""First name of the random streams."""
N_HELD_OUT = 180
LARGEST_SHARE = 0.6
"""Largest share of the eligible users to hold out, for data with few of them."""
LEAST_RATINGS = 60
N_OFFERED = 10
N_PLAYS = 4
"""Number of times that each agent plays each held-out user; results are means over these."""


def held_out_users(ratings: Ratings, split: int, seed: int) -> Array:
    """Draw users from those with enough ratings; all others train."""
    enough = np.flatnonzero(np.bincount(ratings.users) >= LEAST_RATINGS)
    n = min(N_HELD_OUT, int(LARGEST_SHARE * len(enough)))
    if n < 2:
        raise ParameterError(
            f"at least 4 users with {LEAST_RATINGS} ratings are needed, got {len(enough)}"
        )
    rng = random.stream(seed, NAME, split, "held out")
    return np.sort(rng.choice(enough, n, replace=False))


class SplitBlocks(Blocks):
    """Splits of the users, one in each block.

    The first axis of an array is the held-out users, or has length one.
    """

    cost = 40.0

    def __init__(self, ratings: Ratings, n_splits: int, n_rounds: int, seed: int) -> None:
        self._ratings, self._n_rounds, self._seed = ratings, n_rounds, seed
        self.n_blocks = n_splits

    def play(self, block: int) -> Arrays:
        with one_blas_thread():
            split = split_users(self._ratings, block, self._seed)
            priors = learn_priors(split.past, split.seed)
            return {
                "latent": split.held_out,
                "split": np.full(len(split.held_out), block),
                **_evidence(self._ratings, split, priors),
                **_played(self._ratings, split, priors, self._n_rounds),
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
    own_seed = int(random.stream(seed, NAME, split, "seed").integers(2**62))
    return UserSplit(held_out, seen, features, past, own_seed)


def _evidence(ratings: Ratings, split: UserSplit, priors: Priors) -> Arrays:
    """Return the log evidence of each held-out user's ratings under each prior."""
    test = ~split.seen
    rows = split.features.films[ratings.films[test]]
    tasks = task_statistics(rows, ratings.ratings[test], ratings.users[test])
    evidence = {f"evidence/{name}": mixture_evidence(priors[name], tasks) for name in AGENTS}
    return {"n_ratings": np.array(tasks.n_observations), **evidence}


def _played(ratings: Ratings, split: UserSplit, priors: Priors, n_rounds: int) -> Arrays:
    """Return the reward and regret of each agent with each held-out user, means over plays."""
    mixture = priors[MIXTURE]
    rivals = {BESTSELLER: bestseller(mixture), IDS: partial(MixIDS, mixture)}
    played = play_held_out(ratings, split, {**priors, **rivals}, n_rounds)
    rewards = {f"reward/{name}": reward for name, (reward, _) in played.items()}
    return {**rewards, **{f"regret/{name}": regret for name, (_, regret) in played.items()}}


def play_held_out(
    ratings: Ratings, split: UserSplit, agents: Mapping[str, AgentSpec], n_rounds: int
) -> dict[str, tuple[Array, Array]]:
    """Play every held-out user several times.

    Returns
    -------
    dict
        Reward and regret of each agent, (n_users, n_rounds) each: means over the plays of a user.
    """
    test = ~split.seen
    users, tasks = np.unique(ratings.users[test], return_inverse=True)
    rows = split.features.films[ratings.films[test]]
    environment = ReplayBandit(rows, ratings.ratings[test], tasks, N_OFFERED)
    n = len(users)
    # A block has as many runs as there are users, and plays each user once.
    results = simulate(
        agents, environment, n_rounds, N_PLAYS * n, split.seed, engine=1, block_size=n
    )
    order = np.argsort(results.latent, kind="stable")

    def by_user(values: Array) -> Array:
        return values[order].reshape(n, -1, n_rounds).mean(axis=1)

    return {name: (by_user(results.reward[name]), by_user(results.regret[name])) for name in agents}
