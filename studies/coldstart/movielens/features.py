"""Films as vectors, learned from the ratings of training users only.

A film is first described by what is known of it: its genres, its year, how many training users
rated it, and how much better than usual. One Gaussian is learned of the training users'
coefficients on these descriptions, mean m and covariance S. With R R' = S a user rates a film z as
``m'z + (R e)'z``, e standard normal: what everybody thinks of it, and the ways in which people
differ. The features are 1, ``m'z``, and the principal components of ``R'z``: of all combinations of
the description, those about which people disagree most.

A training user's own rating is left out of the features of the film it is of. Otherwise a film that
few have seen would seem to be known from the very rating that is to be predicted, coefficients and
noise would be learned from films that are described too well, and the prior would be far too sure
of itself for other users, whose ratings are in no feature.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mixts.families import LinearGaussian, LinearStatistics
from mixts.learning import learn, statistics_of
from studies._shared import Array
from studies.coldstart.movielens.ratings import Ratings

N_DIRECTIONS = 9
"""In which people differ; with the constant and what everybody thinks, 11 features."""
FILM_SHRINKAGE = 2.0
"""A film's mean is that of its ratings and so many more that say it is like all others."""
USER_SHRINKAGE = 5.0
"""The same of users, whose mean is taken off before films are compared."""
_SWEEPS = 10
"""Of the means of users and films in turn: after that they hardly change."""


@dataclass(frozen=True)
class FilmFeatures:
    """What films look like to users who are new, and what they looked like to training users."""

    films: Array
    """Of every film; the first is the constant 1."""
    rows: Array
    """Of the film of each training rating, learned without that rating."""

    @property
    def n_features(self) -> int:
        return self.films.shape[1]


def learn_features(
    ratings: Ratings, training: Array, n_directions: int = N_DIRECTIONS
) -> FilmFeatures:
    """From the users of whom ``training`` is true; nothing else of the others is looked at."""
    seen = training[ratings.users]
    described, rows = _descriptions(ratings, seen)
    values, users = ratings.ratings[seen], ratings.users[seen]
    statistics = task_statistics(_with_constant(rows), values, users)
    family = learn(statistics, 1, seed=0, engine=1).prior.family
    assert isinstance(family, LinearGaussian)
    common, covariance = family.mean[0, 1:], family.full_covariances()[0, 1:, 1:]
    variance, axes = np.linalg.eigh(covariance)
    root = axes * np.sqrt(np.maximum(variance, 0))
    disagreement = np.cov(rows @ root, rowvar=False).reshape(len(common), len(common))
    # The largest last; eigenvectors have no sign of their own.
    main = np.linalg.eigh(disagreement)[1][:, ::-1][:, :n_directions]
    main = main * np.where(main[np.abs(main).argmax(axis=0), np.arange(main.shape[1])] < 0, -1, 1)
    turn = np.column_stack([common, root @ main])
    scale = (rows @ turn).std(axis=0)
    turn = turn / np.where(scale > 0, scale, 1.0)
    return FilmFeatures(_with_constant(described @ turn), _with_constant(rows @ turn))


def task_statistics(features: Array, rewards: Array, tasks: Array) -> LinearStatistics:
    """Of the tasks that occur, in the order of their numbers."""
    order = np.argsort(tasks, kind="stable")
    ends = np.flatnonzero(np.diff(tasks[order])) + 1
    histories = [(features[part], rewards[part]) for part in np.split(order, ends)]
    statistics = statistics_of(histories)
    assert isinstance(statistics, LinearStatistics)
    return statistics


def _with_constant(features: Array) -> Array:
    return np.column_stack([np.ones(len(features)), features])


def _descriptions(ratings: Ratings, seen: Array) -> tuple[Array, Array]:
    """Of every film, and of the film of each training rating without it; standardised."""
    films = ratings.films[seen]
    mean, mean_without = _film_means(ratings, seen)
    count = np.bincount(films, minlength=ratings.n_films).astype(float)
    # A film of many genres has less of each.
    genres = ratings.genres / np.sqrt(np.maximum(ratings.genres.sum(axis=1, keepdims=True), 1))
    known = np.column_stack([genres, ratings.years])
    described = np.column_stack([mean, np.log1p(count), known])
    rows = np.column_stack([mean_without, np.log(count[films]), known[films]])
    middle, scale = rows.mean(axis=0), rows.std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    return (described - middle) / scale, (rows - middle) / scale


def _film_means(ratings: Ratings, seen: Array) -> tuple[Array, Array]:
    """How much better than usual each film is rated, and the same without each rating."""
    users, films, values = ratings.users[seen], ratings.films[seen], ratings.ratings[seen]
    n_users, n_films = ratings.n_users, ratings.n_films
    of_user = np.bincount(users, minlength=n_users) + USER_SHRINKAGE
    of_film = np.bincount(films, minlength=n_films) + FILM_SHRINKAGE
    rest = values - values.mean()
    film = np.zeros(n_films)
    for _ in range(_SWEEPS):
        user = np.bincount(users, rest - film[films], minlength=n_users) / of_user
        film = np.bincount(films, rest - user[users], minlength=n_films) / of_film
    own = rest - user[users]
    without = (film[films] * of_film[films] - own) / (of_film[films] - 1)
    return film, without
