"""``learn_prior``: from the statistics of past tasks to a mixture prior."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import partial
from typing import Any, Literal, get_args

import numpy as np

from mixts import _checks, _random
from mixts._typing import ArrayLike, Seed
from mixts.errors import ConvergenceWarning, ParameterError, StatisticsError
from mixts.families import Family, Statistics, TabularStatistics
from mixts.families.linear import CovarianceType
from mixts.learning.em import Patience
from mixts.learning.learned import Learned, Method
from mixts.learning.models import Model, model_of
from mixts.learning.models.counts import checked_support
from mixts.learning.raw import statistics_of
from mixts.learning.robust import robust_prior
from mixts.learning.search import Search, Where, best, pooled_fit
from mixts.learning.selection import Comparison, compare, restart_jobs
from mixts.learning.starts import canonical
from mixts.learning.two_stage import two_stage
from mixts.prior import MixturePrior

N_RESTARTS, N_FOLD_RESTARTS = 5, 2
"""Unless said otherwise: of all tasks, and of all but those of one fold."""
MAX_ITERATIONS = 1000
TOLERANCE = 1e-5
"""Less gain of the objective than this, for each task, in one iteration ends it."""


def learn(
    tasks: Any,
    n_components: int | Literal["auto"],
    method: Method = "evidence",
    *,
    seed: Seed = None,
    noise_std: float | None = None,
    horizon: int | None = None,
    initial: ArrayLike | None = None,
    support: ArrayLike | None = None,
    covariance_type: CovarianceType | None = None,
    n_restarts: int | None = None,
    max_iterations: int | None = None,
    tolerance: float | None = None,
    max_components: int = 10,
    n_folds: int = 5,
    robust: float = 0.0,
    engine: Where = None,
) -> Learned:
    """:func:`learn_prior` with all that is known about how the prior was found."""
    if method not in get_args(Method):
        raise ParameterError(f"method must be one of {get_args(Method)}, got {method!r}")
    observed = _observed(tasks, support)
    make = partial(
        model_of, noise_std=noise_std, covariance_type=covariance_type, horizon=horizon,
        initial=initial, support=support,
    )  # fmt: skip
    given = Comparison(
        observed,
        make,
        _number(seed),
        Patience(
            MAX_ITERATIONS if max_iterations is None
            else _checks.count(max_iterations, "max_iterations"),
            TOLERANCE if tolerance is None else _checks.positive_number(tolerance, "tolerance"),
        ),
        N_RESTARTS if n_restarts is None else _checks.count(n_restarts, "n_restarts"),
        N_FOLD_RESTARTS if n_restarts is None else n_restarts,
        _checks.count(max_components, "max_components"),
        _checks.count(n_folds, "n_folds", least=2),
    )  # fmt: skip
    if robust < 0 or robust >= 1:
        raise ParameterError(f"robust must be a weight from 0 to below 1, got {robust!r}")
    wanted = _checked_number(n_components, len(observed))
    if method == "two-stage":
        learned = _two_stage(given, wanted, engine)
    else:
        learned = _evidence(given, wanted, engine)
    return replace(learned, prior=robust_prior(learned.prior, robust)) if robust else learned


def learn_prior(
    tasks: Any,
    n_components: int | Literal["auto"],
    method: Method = "evidence",
    *,
    seed: Seed = None,
    noise_std: float | None = None,
    horizon: int | None = None,
    initial: ArrayLike | None = None,
    support: ArrayLike | None = None,
    covariance_type: CovarianceType | None = None,
    n_restarts: int | None = None,
    max_iterations: int | None = None,
    tolerance: float | None = None,
    max_components: int = 10,
    n_folds: int = 5,
    robust: float = 0.0,
    engine: Where = None,
) -> MixturePrior:
    """A mixture prior from past tasks: what kinds of task there are, and how tasks of a kind vary.

    ``tasks`` are the statistics of past tasks, as ``belief.statistics`` gives them, a list of such
    statistics, or a list of histories (see :func:`mixts.learning.raw.statistics_of`); they may be
    of very different length, and those without observations say nothing. ``n_components`` is a
    number, or "auto": the smallest whose held-out evidence, cross-validated over tasks, is within
    one standard error of the best.

    "evidence" maximises ``sum over tasks of ln sum_s w_s p(task | s)``, the exact marginal
    likelihood, and a weak hyperprior, so that every task counts by how much was observed of it.
    "two-stage" is the paper's: a point estimate of each task, then a mixture of the estimates
    [paper: Sec. 6.2]; with "auto" it has as many components as the evidence finds. Restarts,
    iterations and tolerance are of "evidence" only.

    ``noise_std`` is that of Gaussian rewards, learned where it is not given; ``covariance_type``
    of linear tasks is "full" (unless given), "tied" or "diag". MDPs need their ``horizon``, and
    take ``initial`` and ``support`` (X, A, X), true where a transition is possible: learned counts
    are exactly zero only outside of it. ``robust`` is the weight of a broad component for tasks of
    a kind that was never seen (:func:`mixts.learning.robust_prior`). Restarts run where ``engine``
    says, with the same result: a number of processes, an executor, an engine; None decides by how
    long they take.

    Components come in the order of their weights. :func:`mixts.learning.learn` takes the same
    arguments and also tells how the prior was found.
    """
    return learn(
        tasks, n_components, method,
        seed=seed, noise_std=noise_std, horizon=horizon, initial=initial, support=support,
        covariance_type=covariance_type, n_restarts=n_restarts, max_iterations=max_iterations,
        tolerance=tolerance, max_components=max_components, n_folds=n_folds, robust=robust,
        engine=engine,
    ).prior  # fmt: skip


def flat_family(
    tasks: Any,
    *,
    noise_std: float | None = None,
    horizon: int | None = None,
    initial: ArrayLike | None = None,
    support: ArrayLike | None = None,
) -> Family:
    """One component that knows the scale of these tasks' rewards and nothing else: plain TS.

    Beta(1, 1), Gamma(1, 1 / mean), a normal distribution as wide as the arms' averages, Dirichlet
    counts of 1; of linear coefficients one about those that serve all tasks best, so wide that
    every feature explains its part of what these leave.
    """
    model = model_of(
        _observed(tasks, support),
        noise_std=noise_std,
        horizon=horizon,
        initial=initial,
        support=support,
    )
    return model.centre


# -- the two methods ----------------------------------------------------------------------------


def _evidence(given: Comparison, n_components: int | None, engine: Where) -> Learned:
    n_expected = given.n_restarts * (1 if n_components else (given.n_folds + 1) * 3)
    with Search(engine, n_expected) as search:
        selection = None
        if n_components is None:
            selection, chosen, fits, pooled = compare(given, search)
        else:
            model = given.make(given.statistics)
            pooled = pooled_fit(model, given.patience)
            if n_components == 1:
                fits = (pooled,)
            else:
                fits = tuple(search.fits(restart_jobs(model, pooled, n_components, given)))
            chosen = best(fits)
    if not chosen.history.converged:
        warnings.warn(
            f"learning stopped after {chosen.history.n_iterations} iterations although it still "
            "gained: give a larger max_iterations, or a larger tolerance",
            ConvergenceWarning,
            stacklevel=4,
        )
    order = np.argsort(-chosen.prior.weights, kind="stable")
    return Learned(
        chosen.prior.select(order),
        pooled.prior,
        "evidence",
        chosen.history,
        tuple(fit.history for fit in fits),
        selection,
    )


def _two_stage(given: Comparison, n_components: int | None, engine: Where) -> Learned:
    selection = None
    if n_components is None:
        with Search(engine, given.n_restarts * (given.n_folds + 1) * 3) as search:
            selection = compare(given, search)[0]
        n_components = selection.chosen
    model: Model = given.make(given.statistics)
    prior, unimodal = two_stage(model, n_components, given.seed)
    order = np.argsort(-prior.weights, kind="stable")
    return Learned(prior.select(order), unimodal, "two-stage", selection=selection)


# -- what was given -----------------------------------------------------------------------------


def _observed(tasks: Any, support: ArrayLike | None) -> Statistics:
    """The tasks that have any observation, in their canonical order."""
    statistics = statistics_of(tasks)
    if statistics.single:
        statistics = statistics[np.array([0])]
    seen = np.flatnonzero(np.atleast_1d(statistics.n_observations) > 0)
    if not len(seen):
        raise StatisticsError(
            f"a prior is learned from tasks that were observed, but none of {len(statistics)} was"
        )
    if support is not None and isinstance(statistics, TabularStatistics):
        checked_support(support, statistics)  # here, where tasks have the numbers that were given
    statistics = statistics[seen]
    return statistics[canonical(statistics)]


def _checked_number(n_components: Any, n_tasks: int) -> int | None:
    """The number of components, None where it is to be found."""
    if isinstance(n_components, str):
        if n_components != "auto":
            raise ParameterError(f"n_components must be a number or 'auto', got {n_components!r}")
        return None if n_tasks > 1 else 1
    n = _checks.count(n_components, "n_components")
    if n > n_tasks:
        raise ParameterError(
            f"{n} components need at least as many observed tasks, got {n_tasks}: ask for fewer, "
            "or for 'auto'"
        )
    return n


def _number(seed: Seed) -> int:
    """A seed for streams by name; anything else than a number is asked for one."""
    if isinstance(seed, (int, np.integer)) and not isinstance(seed, bool):
        _random.seed_sequence(int(seed))
        return int(seed)
    return int(_random.generator(seed, "learn").integers(2**63))
