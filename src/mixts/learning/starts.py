"""Where learning starts: groups of tasks that look alike."""

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
"""Pseudo-tasks of all components together: few enough that a hundred real tasks outweigh them, and
enough that no component collapses."""
_HELD = 10
"""Improvements in which tasks stay in their groups. The first components are as broad as all tasks
together, and would share every task: they must become as narrow as their groups before they may."""
_KMEANS_ITERATIONS = 20
_LINKED = 2000
"""Tasks that are linked pair by pair; of more, so many at random stand for all."""


def digests(statistics: Statistics) -> list[bytes]:
    """What each task is, in sixteen bytes."""
    arrays = [
        np.ascontiguousarray(statistics.array(name).reshape(len(statistics), -1))
        for name in statistics.fields
    ]
    return [
        hashlib.blake2b(b"".join(a[i].tobytes() for a in arrays), digest_size=16).digest()
        for i in range(len(statistics))
    ]


def canonical(statistics: Statistics) -> Int[Array, " n"]:
    """An order of the tasks that depends on what they are, not on where they stand.

    Summed in this order, the same tasks give the same prior to the bit, however they are given.
    """
    found = digests(statistics)
    return np.array(sorted(range(len(found)), key=found.__getitem__), np.int64)


def start(
    model: Model, pooled: MixturePrior, n_components: int, number: int, rng: np.random.Generator
) -> tuple[MixturePrior, Model]:
    """Components of groups of tasks that are near each other.

    By turns in what is believed of them, where tasks of which little is known are all alike, and
    in estimates, where they are not: which is better depends on the tasks. The first two starts
    link tasks by Ward's method, which finds many small groups best; further ones are k-means from
    random tasks. The model that is returned has the pooled prior for its centre.
    """
    centred = model.about(pooled.family, PSEUDO / n_components)
    view = model.estimates if number % 2 else model.points
    groups = _groups(view(pooled.family), n_components, rng, linked=number < 2)
    share = np.zeros((len(groups), n_components))
    share[np.arange(len(groups)), groups] = 1.0
    family = pooled.family.select([0] * n_components)
    for _ in range(_HELD):
        family = centred.improve(family, share)
    weights = share.sum(axis=0) + centred.pseudo
    return MixturePrior(family, weights / weights.sum()), centred


def _groups(
    points: Float[Array, "n p"], n: int, rng: np.random.Generator, *, linked: bool
) -> Int[Array, " n"]:
    distinct = len(np.unique(points, axis=0))
    if distinct <= n:
        # Nothing to tell tasks apart by: some of them at random.
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
