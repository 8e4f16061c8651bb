"""How many components: what mixtures say of tasks that they were not learned from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import special

from mixts import _random
from mixts._typing import Array, Float, Int
from mixts.families import Statistics
from mixts.learning.em import Fit, Patience
from mixts.learning.learned import Selection, gap_error
from mixts.learning.models import Model
from mixts.learning.search import Job, Search, best, pooled_fit
from mixts.learning.starts import digests
from mixts.prior import MixturePrior

ENOUGH = 2
"""Candidates in a row that are no better than the best before them end the comparison."""
LEAST_TASKS = 3
"""For each component of a candidate, on average."""


@dataclass(frozen=True)
class Comparison:
    """What comparing needs to know."""

    statistics: Statistics
    make: Callable[[Statistics], Model]
    seed: int
    patience: Patience
    n_restarts: int
    n_fold_restarts: int
    """Fewer, for folds are many."""
    max_components: int
    n_folds: int


def task_evidence(prior: MixturePrior, model: Model) -> Float[Array, " n"]:
    """ln p(task) under the mixture, of each task of the model."""
    joint = prior.log_weights + model.log_evidence(prior.family)
    return np.asarray(special.logsumexp(joint, axis=1))


def folds(n_tasks: int, n_folds: int, seed: int) -> Int[Array, " n"]:
    """The fold of each task, at random, of equal sizes but for one."""
    order = _random.stream(seed, "learn", "folds").permutation(n_tasks)
    return np.asarray(order % n_folds)


def compare(given: Comparison, search: Search) -> tuple[Selection, Fit, tuple[Fit, ...], Fit]:
    """Candidates from one component upwards; also the chosen fit, its restarts, and the pooled.

    The chosen one is the smallest whose held-out evidence is within one standard error of the
    best, the error being that of their difference task by task.
    """
    n = len(given.statistics)
    n_folds = max(2, min(given.n_folds, n))
    parts = folds(n, n_folds, given.seed)
    whole = given.make(given.statistics)
    pooled = pooled_fit(whole, given.patience)
    training = [_Fold.of(given, parts == k) for k in range(int(parts.max()) + 1)]
    held_out, bic, fits = [], [], []
    # Equal tasks cannot be of two kinds; their differences have no error to compare a gain with.
    n_distinct = len(set(digests(given.statistics)))
    limit = max(1, min(given.max_components, n // LEAST_TASKS, n_distinct))
    for candidate in range(1, limit + 1):
        scores = np.empty(n)
        found = _fit_all(given, candidate, whole, pooled, training, search)
        for part, fit in zip(training, found[0], strict=True):
            scores[part.inside] = task_evidence(fit.prior, part.test)
        held_out.append(scores)
        fits.append(found[1])
        bic.append(_bic(best(found[1]), whole, candidate))
        means = np.array([one.mean() for one in held_out])
        if candidate - 1 - int(np.argmax(means)) >= ENOUGH:
            break
    chosen = one_standard_error(np.array(held_out), n_folds)
    selection = Selection(
        tuple(range(1, len(fits) + 1)), np.array(held_out), np.array(bic), chosen + 1, n_folds
    )
    return selection, best(fits[chosen]), fits[chosen], pooled


def one_standard_error(held_out: Float[Array, "c n"], n_folds: int) -> int:
    """The first candidate whose mean is within one standard error of the best one's."""
    mean = held_out.mean(axis=1)
    return int(np.argmax(mean.max() - mean <= gap_error(held_out, n_folds)))


@dataclass(frozen=True)
class _Fold:
    """The tasks of one fold, and all others with what those have in common."""

    inside: Array
    test: Model
    train: Model
    pooled: Fit

    @classmethod
    def of(cls, given: Comparison, inside: Array) -> _Fold:
        train = given.make(given.statistics[~inside])
        return cls(
            inside, given.make(given.statistics[inside]), train, pooled_fit(train, given.patience)
        )


def _fit_all(
    given: Comparison,
    n_components: int,
    whole: Model,
    pooled: Fit,
    training: list[_Fold],
    search: Search,
) -> tuple[list[Fit], tuple[Fit, ...]]:
    """The best fit without each fold, and all fits of all tasks."""
    if n_components == 1:
        return [part.pooled for part in training], (pooled,)
    jobs = [
        Job(part.train, part.pooled, n_components, given.seed, f"fold {k}", r, given.patience)
        for k, part in enumerate(training)
        for r in range(given.n_fold_restarts)
    ]
    jobs += restart_jobs(whole, pooled, n_components, given)
    fits = search.fits(jobs)
    n = given.n_fold_restarts
    by_fold = [best(fits[k * n : (k + 1) * n]) for k in range(len(training))]
    return by_fold, tuple(fits[len(training) * n :])


def restart_jobs(model: Model, pooled: Fit, n_components: int, given: Comparison) -> list[Job]:
    """The restarts of a mixture of all tasks."""
    return [
        Job(model, pooled, n_components, given.seed, "all", r, given.patience)
        for r in range(given.n_restarts)
    ]


def _bic(fit: Fit, model: Model, n_components: int) -> float:
    evidence = float(fit.history.log_evidence[-1])
    return -2 * evidence + model.n_parameters(n_components) * float(np.log(model.n_tasks))
