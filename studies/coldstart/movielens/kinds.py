"""What kinds of people a prior knows: by the ratings that a typical one of each kind gives."""

from __future__ import annotations

import numpy as np

from mixts.experiments.base import Arrays
from mixts.families import LinearGaussian
from mixts.prior import MixturePrior
from studies._shared import Array
from studies.coldstart.movielens.features import FilmFeatures
from studies.coldstart.movielens.priors import MAX_COMPONENTS
from studies.coldstart.movielens.ratings import Ratings

N_KNOWN = 300
"""Films that most people have rated, and of which some are named."""
N_NAMED = 3


def well_known(ratings: Ratings) -> Array:
    """The films with most ratings, the one with most of them first."""
    counts = np.bincount(ratings.films, minlength=ratings.n_films)
    return np.argsort(-counts, kind="stable")[:N_KNOWN]


def kinds_of(ratings: Ratings, features: FilmFeatures, prior: MixturePrior, seen: Array) -> Arrays:
    """One row of each, padded with NaN to the largest number of components.

    Means are over the films of training ratings, each as often as it was rated. ``spread`` is how
    much members of a kind differ in what they think of a film: the root of the mean of x' S x, and
    ``taste`` is the same of the prediction itself, how much a typical one likes some films more
    than others. ``named`` are the well-known films that a kind likes most, compared with others.
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
