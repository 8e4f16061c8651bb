"""Starts of learning: components made from groups of similar tasks."""

from __future__ import annotations

import hashlib
import warnings
from typing import Any

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.cluster.vq import kmeans2

from mixts._typing import Array, Float, Int
from mixts.families import Statistics
from mixts.learning.models import Model
from mixts.prior import MixturePrior

PSEUDO = 0.3
"""Number of pseudo-tasks of all components together: few enough that a hundred real tasks outweigh
them, and enough that no component collapses."""
_HELD = 10
"""Number of improvements in which tasks stay in their groups. The first components are as broad as
all tasks together and would share every task; first they become as narrow as their groups."""
_KMEANS_ITERATIONS = 20
_LINKED = 2000
"""Largest number of tasks that are linked pair by pair; of more tasks, a random sample."""


def digests(statistics: Statistics) -> list[bytes]:
    """Return a digest of each task's statistics, sixteen bytes."""
    return [hashlib.blake2b(task, digest_size=16).digest() for task in statistics.encode()]


def canonical(statistics: Statistics) -> Int[Array, " n"]:
    """Return an order of the tasks that depends only on their statistics.

    Sums in this order give the same prior to the bit, whatever the order of the tasks.
    """
    found = digests(statistics)
    return np.array(sorted(range(len(found)), key=found.__getitem__), np.int64)


def groups_of_tasks(
    model: Model, pooled: MixturePrior, n_components: int, number: int, rng: np.random.Generator
) -> Int[Array, " n"]:
    """Return a group of similar tasks for every task; groups are numbered by their first tasks.

    Even starts group the tasks' posteriors, in which tasks with few observations are alike; odd
    starts group estimates, in which they are not: which is better depends on the tasks. The first
    two starts link tasks by Ward's method, which finds many small groups best; later ones are
    k-means from random tasks.
    """
    view = model.estimates if number % 2 else model.points
    groups = _groups(view(pooled.family), n_components, rng, linked=number < 2)
    _, first, group = np.unique(groups, return_index=True, return_inverse=True)
    return np.asarray(np.argsort(np.argsort(first))[group])


def start(
    model: Model, pooled: MixturePrior, n_components: int, groups: Int[Array, " n"]
) -> tuple[MixturePrior, Model]:
    """Return components of these groups of tasks, and the model with the pooled centre."""
    centred = model.about(pooled.family, PSEUDO / n_components)
    share = np.zeros((len(groups), n_components))
    share[np.arange(len(groups)), groups] = 1.0
    family, improving = pooled.family.select([0] * n_components), centred.quick() or centred
    for _ in range(_HELD):
        family = improving.improve(family, share)
    weights = share.sum(axis=0) + centred.pseudo
    return MixturePrior(family, weights / weights.sum()), centred


def _groups(
    points: Float[Array, "n p"], n: int, rng: np.random.Generator, *, linked: bool
) -> Int[Array, " n"]:
    distinct = len(np.unique(points, axis=0))
    if distinct <= n:
        # Too few distinct points: assign tasks at random.
        return rng.permutation(np.arange(len(points)) % n)
    if linked:
        some = points[rng.permutation(len(points))[:_LINKED]]
        groups = fcluster(linkage(some, "ward"), n, "maxclust")
        centres = [some[groups == g].mean(axis=0) for g in np.unique(groups)]
        if len(centres) == n:
            return _means(points, np.stack(centres), "matrix", rng)
    return _means(points, n, "++", rng)


def _means(
    points: Float[Array, "n p"], start: Any, kind: str, rng: np.random.Generator
) -> Int[Array, " n"]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a group may be left with no task
        _, groups = kmeans2(points, start, iter=_KMEANS_ITERATIONS, minit=kind, seed=rng)
    return np.asarray(groups, np.int64)
