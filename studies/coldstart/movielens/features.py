"""Films as vectors, learned from the ratings of training users only.

A film is first described by a vector z: its genres, its year, the number of training users who
rated it, and how much better than average they rated it. Each training user has coefficients on
these descriptions; one Gaussian with mean m and covariance S is fitted to them. With R R' = S and a
standard normal e, a user rates a film ``m'z + (R e)'z``: the common opinion, and the differences
between people. The features are 1, ``m'z``, and the first principal components of ``R'z``, the
combinations of the description about which people disagree most.

When a training rating is predicted, the features of its film are computed without that rating.
Otherwise the features of a film with few ratings would contain the very rating to be predicted. The
noise would be underestimated, and the prior would be overconfident for new users, whose ratings are
not in the features.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mixts.families import LinearGaussian, LinearStatistics
from mixts.learning import learn, statistics_of
from studies._shared import Array
from studies.coldstart.movielens.ratings import Ratings

N_DIRECTIONS = 9
"""Number of principal components; with the constant and the common opinion, 11 features."""
FILM_SHRINKAGE = 2.0
"""Number of average ratings that are added to the ratings of every film."""
USER_SHRINKAGE = 5.0
"""Number of average ratings that are added to the ratings of every user."""
_SWEEPS = 10
"""Alternating updates of the users' and the films' means; after these they hardly change."""


@dataclass(frozen=True)
class FilmFeatures:
    """Features of films for new users, and for the ratings of training users."""

    films: Array
    """Features of every film; the first feature is the constant 1."""
    rows: Array
    """Features of the film of each training rating, computed without that rating."""

    @property
    def n_features(self) -> int:
        return self.films.shape[1]


def learn_features(
    ratings: Ratings, training: Array, n_directions: int = N_DIRECTIONS
) -> FilmFeatures:
    """Learn the features from the users where ``training`` is true, and only from them."""
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
    # eigh sorts the largest last. The sign of an eigenvector is arbitrary: make it reproducible.
    main = np.linalg.eigh(disagreement)[1][:, ::-1][:, :n_directions]
    main = main * np.where(main[np.abs(main).argmax(axis=0), np.arange(main.shape[1])] < 0, -1, 1)
    projection = np.column_stack([common, root @ main])
    scale = (rows @ projection).std(axis=0)
    projection = projection / np.where(scale > 0, scale, 1.0)
    return FilmFeatures(_with_constant(described @ projection), _with_constant(rows @ projection))


def task_statistics(features: Array, rewards: Array, tasks: Array) -> LinearStatistics:
    """Return the statistics of the tasks that occur in ``tasks``, in increasing order."""
    order = np.argsort(tasks, kind="stable")
    ends = np.flatnonzero(np.diff(tasks[order])) + 1
    histories = [(features[part], rewards[part]) for part in np.split(order, ends)]
    statistics = statistics_of(histories, LinearGaussian.standard(features.shape[1], 1.0))
    assert isinstance(statistics, LinearStatistics)
    return statistics


def _with_constant(features: Array) -> Array:
    return np.column_stack([np.ones(len(features)), features])


def _descriptions(ratings: Ratings, seen: Array) -> tuple[Array, Array]:
    """Return the description of every film, and of the film of each training rating without it.

    Both are standardised by the means and deviations over training ratings.
    """
    films = ratings.films[seen]
    mean, mean_without = _film_means(ratings, seen)
    count = np.bincount(films, minlength=ratings.n_films).astype(float)
    # The genres of a film have a norm of one.
    genres = ratings.genres / np.sqrt(np.maximum(ratings.genres.sum(axis=1, keepdims=True), 1))
    known = np.column_stack([genres, ratings.years])
    described = np.column_stack([mean, np.log1p(count), known])
    rows = np.column_stack([mean_without, np.log(count[films]), known[films]])
    middle, scale = rows.mean(axis=0), rows.std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    return (described - middle) / scale, (rows - middle) / scale


def _film_means(ratings: Ratings, seen: Array) -> tuple[Array, Array]:
    """Return how much better than average each film is rated, and the same without each rating."""
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
