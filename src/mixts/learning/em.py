"""Climbs to the largest penalised evidence, from several starts, here or on workers."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import special
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.cluster.vq import kmeans2

from mixts import _random
from mixts._progress import step
from mixts._typing import Array, Float, Int
from mixts.engines import Engine
from mixts.families import Family, Statistics
from mixts.families.population import arm_population
from mixts.learning.climbing import Patience, Restart, climb
from mixts.learning.models import Model
from mixts.origin import Origin
from mixts.prior import MixturePrior

# -- starts: components made from groups of similar tasks ------------------------------------------

PSEUDO = 0.3
"""Number of pseudo-tasks of all components together: few enough that a hundred real tasks outweigh
them, and enough that no component collapses."""
_HELD = 10
"""Number of improvements in which tasks stay in their groups. The first components are as broad as
all tasks together and would share every task; first they become as narrow as their groups."""
_KMEANS_ITERATIONS = 20
_LINKED = 1000
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


def about_pooled(model: Model, pooled: MixturePrior, n_components: int) -> Model:
    """Return the model with the pooled centre, for this number of components."""
    return model.about(pooled.family, PSEUDO / n_components)


def start(
    model: Model, pooled: MixturePrior, n_components: int, groups: Int[Array, " n"]
) -> tuple[MixturePrior, Model]:
    """Return components of these groups of tasks, and the model with the pooled centre."""
    centred = about_pooled(model, pooled, n_components)
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
    if _has_few(points, n):
        # Too few distinct points: assign tasks at random.
        return rng.permutation(np.arange(len(points)) % n)
    if linked:
        some = points[rng.permutation(len(points))[:_LINKED]]
        groups = fcluster(linkage(some, "ward"), n, "maxclust")
        centres = [some[groups == g].mean(axis=0) for g in np.unique(groups)]
        if len(centres) == n:
            return _means(points, np.stack(centres), "matrix", rng)
    return _means(points, n, "++", rng)


def _has_few(points: Float[Array, "n p"], n: int) -> bool:
    """Return whether no more than n points are distinct; the first points mostly tell."""
    return all(len(np.unique(some, axis=0)) <= n for some in (points[: 10 * n], points))


def _means(
    points: Float[Array, "n p"], start: Any, kind: str, rng: np.random.Generator
) -> Int[Array, " n"]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a group may be left with no task
        _, groups = kmeans2(points, start, iter=_KMEANS_ITERATIONS, minit=kind, seed=rng)
    return np.asarray(groups, np.int64)


_REFINEMENTS, _REFINED_TOLERANCE = 30, 1e-4
"""Limits of climbing on after a quick approximation. An improvement of 1e-4 a task is less than the
error of its evidence, and some tens of iterations go further than that error allows to see."""
_POPULATION_ROUNDS = 2
"""Number of times that one component is learned about the arms' population. In the first round the
population itself still suffers from rarely tried arms, which resemble the broad hyperprior."""


# -- several restarts -----------------------------------------------------------------------------


@dataclass(frozen=True)
class RestartSpec:
    """One restart: its tasks, its number of components and its random stream."""

    model: Model
    pooled: Restart
    n_components: int
    seed: int
    part: str
    """Name of the set of tasks, for the random stream."""
    number: int
    patience: Patience


def pooled_restart(model: Model, patience: Patience, of_sample: Restart | None = None) -> Restart:
    """Learn one component from all tasks; rarely tried arms resemble the others.

    The hyperprior is first as broad as the data, then the population of arms that was found; or
    first that of a sample of the tasks, which is no longer broad, so that one round is enough.
    """
    quick, first, rounds = model.quick(), model.centre, _POPULATION_ROUNDS
    begin = quick or model
    if of_sample is not None:
        first, rounds = of_sample.prior.family, 1
        if of_sample.centre is not None:
            begin = model.about(of_sample.centre, model.pseudo)
    restart = climb(begin, first, np.ones(1), patience)
    if quick is not None:
        return refined(model, restart, patience)
    for _ in range(rounds):
        found = population(model, restart.prior)
        if found is None:
            break
        centre = found.every_arm
        first = found.replaced(restart.prior.family)
        again = climb(model.about(centre, model.pseudo), first, np.ones(1), patience)
        restart = replace(again, centre=centre)
    return restart


def points_of(spec: RestartSpec) -> Float[Array, "n p"]:
    """Return a point for each task, by which a restart groups the tasks.

    Even starts group the tasks' posteriors, in which tasks with few observations are alike; odd
    starts group estimates, in which they are not: which is better depends on the tasks.
    """
    view = spec.model.estimates if spec.number % 2 else spec.model.points
    return view(spec.pooled.prior.family)


def groups_of(spec: RestartSpec, points: Float[Array, "n p"]) -> Int[Array, " n"]:
    """Return the groups of similar tasks from which a restart begins, numbered by first tasks.

    The first two starts link tasks by Ward's method, which finds many small groups best; later ones
    are k-means from random tasks.
    """
    rng = _random.stream(spec.seed, "learn", spec.part, spec.n_components, spec.number)
    groups = _groups(points, spec.n_components, rng, linked=spec.number < 2)
    _, first, group = np.unique(groups, return_index=True, return_inverse=True)
    return np.asarray(np.argsort(np.argsort(first))[group])


def run(spec: RestartSpec, groups: Int[Array, " n"]) -> Restart:
    """Run one restart, on a worker or here."""
    first, centred = start(spec.model, spec.pooled.prior, spec.n_components, groups)
    return climb(centred.quick() or centred, first.family, first.weights, spec.patience)


def refine(spec: RestartSpec, restart: Restart) -> Restart:
    """Climb on from the result of a quick approximation with the model itself."""
    centred = about_pooled(spec.model, spec.pooled.prior, spec.n_components)
    return refined(centred, restart, spec.patience)


def refined(model: Model, restart: Restart, patience: Patience) -> Restart:
    """Climb on with the model itself from where its quick approximation led."""
    found = restart.prior
    limits = Patience(
        min(patience.max_iterations, _REFINEMENTS),
        max(patience.tolerance, _REFINED_TOLERANCE),
    )
    return replace(climb(model, found.family, found.weights, limits), is_refined=True)


def run_all(specs: Sequence[RestartSpec], where: Engine, label: str) -> list[Restart]:
    """Run restarts and return their results in the order of the specs; show them by the label.

    Restarts that begin with the same groups of the same tasks have one result: it is computed once.
    If a model has a quick approximation, restarts use it, and only the best restart for each part
    of the tasks and number of components is refined.
    """
    kinds = []
    distinct: dict[tuple[str, int, bytes], tuple[RestartSpec, Array]] = {}
    views: dict[tuple[str, int], Array] = {}
    for spec in specs:
        view = spec.part, spec.number % 2
        if view not in views:
            views[view] = points_of(spec)
        groups = groups_of(spec, views[view])
        kinds.append((spec.part, spec.n_components, groups.tobytes()))
        distinct.setdefault(kinds[-1], (spec, groups))
    refines = [(spec.part, spec.n_components) for spec in specs if spec.model.quick() is not None]
    bar = step(label, len(distinct) + len(set(refines)))
    results = {}
    for kind, restart in zip(distinct, where.map(run, list(distinct.values())), strict=True):
        results[kind] = restart
        bar.advance(1)
    found = [results[kind] for kind in kinds]
    leaders: dict[tuple[str, int], int] = {}
    for i, spec in enumerate(specs):
        if (spec.part, spec.n_components) in refines:
            first = leaders.setdefault((spec.part, spec.n_components), i)
            if found[i].objective > found[first].objective:
                leaders[spec.part, spec.n_components] = i
    refined = where.map(refine, [(specs[i], found[i]) for i in leaders.values()])
    for i, restart in zip(leaders.values(), refined, strict=True):
        found[i] = restart
        bar.advance(1)
    return found


# -- the arms of each component: rarely tried arms resemble the others -----------------------------


@dataclass(frozen=True)
class Population:
    """Distribution of the arms of each component, as far as the tasks show it."""

    arm_prior: Family
    """One arm: the distribution of a new arm's parameters under each component."""
    known: Float[Array, "L K"]
    """Number of tasks from which each component knows each arm; see ``tasks_known``."""

    @property
    def every_arm(self) -> Family:
        """The arm prior for each arm."""
        return self.arm_prior.as_arms.arms([0] * self.known.shape[1])

    def replaced(self, family: Family, least: float = 0.0) -> Family:
        """Return the family with the arm prior where no more than this many tasks are known."""
        new, unknown = self.every_arm.arrays(), self.known <= least
        arrays = {
            k: np.where(unknown, new[k], old) if old.ndim > 1 else old
            for k, old in family.arrays().items()
        }
        return family.restore(family.settings(), arrays)


def population(model: Model, prior: MixturePrior) -> Population | None:
    """Return the population of arms in the model's tasks, or None if the family has no arms."""
    family = prior.family
    if family.n_arms is None:
        return None
    known = known_tasks(model, prior)
    return Population(arm_population(family, known), known)


def with_arm_prior(model: Model, prior: MixturePrior) -> MixturePrior:
    """Return a learned prior with its arm prior; arms that a component does not know come from it.

    The hyperprior of several components makes an arm resemble itself in all tasks. Where its
    pseudo-tasks say more about an arm than the tasks do, the other arms of the component know
    better. Arms that no task tried are marked as new.
    """
    found = population(model, prior)
    if found is None:
        return prior
    n = prior.n_components
    family = found.replaced(prior.family, PSEUDO / n if n > 1 else 0.0)
    result = prior.replace(family=family, arm_prior=found.arm_prior)
    return result.mark_new(np.flatnonzero(model.total(_pulls) == 0).tolist())


def _pulls(model: Model) -> Int[Array, " K"]:
    return np.asarray(model.statistics.pulls.sum(axis=0))


def known_tasks(model: Model, prior: MixturePrior) -> Float[Array, "L *K"]:
    """Return from how many of the model's tasks each arm of each component is known."""
    return np.asarray(model.total(_known, prior))


def _known(model: Model, prior: MixturePrior) -> Float[Array, "L *K"]:
    share = np.ones((model.n_tasks, 1))
    if prior.n_components > 1:
        share = special.softmax(prior.log_weights + model.log_evidence(prior.family), axis=1)
    return model.tasks_known(prior.family, share)


def with_origin(model: Model, prior: MixturePrior) -> MixturePrior:
    """Return a prior that was learned from the model's tasks with its origin."""
    return prior.replace(origin=Origin(model.n_tasks, known_tasks(model, prior)))
