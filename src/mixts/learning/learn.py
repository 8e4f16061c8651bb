"""Learn a mixture prior from the statistics of past tasks."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, get_args

import numpy as np

from mixts import _checks, _random
from mixts._progress import step
from mixts._typing import ArrayLike, Seed
from mixts.engines import Engine, EngineLike, engine_of
from mixts.errors import ConvergenceWarning, ParameterError, StatisticsError
from mixts.families import Family, Statistics
from mixts.families.linear import CovarianceType
from mixts.learning.em import History, Patience, Restart, best, pooled_restart, run_all
from mixts.learning.histories import statistics_of
from mixts.learning.models import Model, Noise, check_options, has_noise, model_of
from mixts.learning.models.student import with_noise
from mixts.learning.population import with_arm_prior, with_origin
from mixts.learning.select import Problem, Rule, Selection, compare
from mixts.learning.stack import by_weight, drop_few, merge_same, union, with_kinds
from mixts.learning.starts import canonical
from mixts.prior import MixturePrior

Method = Literal["evidence", "two-stage"]

BROADER = 9.0
"""Factor between the variances of the broad component and those of the whole mixture."""

N_RESTARTS, N_FOLD_RESTARTS = 5, 2
"""Default number of restarts on all tasks, and on all tasks but those of one fold."""
MAX_ITERATIONS = 1000
TOLERANCE = 1e-5
"""Stop when an iteration improves the objective, divided by the number of tasks, by less."""


@dataclass(frozen=True)
class Learned:
    """A learned prior, and how it was learned."""

    prior: MixturePrior
    unimodal: MixturePrior
    """One component, learned from the same tasks by the same method: the prior of UniTS."""
    method: Method
    history: History | None = None
    """Course of the best restart; None for the method "two-stage", which does not iterate. If the
    prior joins mixtures, of that with the largest weight."""
    restarts: tuple[History, ...] = ()
    """Courses of all restarts with this number of components."""
    selection: Selection | None = None
    """Comparison of numbers of components; None where the number was given."""
    converged: bool = True
    """Whether learning ended because the objective stopped improving, for all joined mixtures."""
    centre: Family | None = None
    """Centre of the hyperprior of ``unimodal`` by evidence: arms like the others; None without
    arms."""


def learn_prior(
    tasks: Any,
    n_components: int | Literal["auto"] | Selection,
    method: Method = "evidence",
    *,
    seed: Seed = None,
    noise_std: float | None = None,
    horizon: int | None = None,
    initial: ArrayLike | None = None,
    support: ArrayLike | None = None,
    covariance_type: CovarianceType | None = None,
    noise: Noise = "common",
    n_restarts: int | None = None,
    max_iterations: int | None = None,
    tolerance: float | None = None,
    select: Rule = "stack",
    max_components: int = 10,
    n_folds: int = 5,
    robust: float = 0.0,
    engine: EngineLike = None,
) -> MixturePrior:
    """Learn a mixture prior from past tasks.

    The prior describes which kinds of task there are, and how tasks of one kind vary.

    Parameters
    ----------
    tasks
        Statistics of past tasks (``belief.statistics``), a list of statistics, or a list of
        histories: see :func:`mixts.learning.statistics_of`. Tasks may differ in length; tasks
        without observations are ignored.
    n_components
        Number of components; or "auto", which compares mixtures of 1, 2, 3 ... components by the
        evidence of held-out tasks, cross-validated over tasks; or the ``selection`` of such a
        comparison on other tasks.
    method
        "evidence" maximises ``sum over tasks of ln sum_s w_s p(task | s)``, the exact marginal
        likelihood, with a weak hyperprior; every task counts by how much was observed of it. For
        clicks with features the likelihood is that of the family, known to its own small error.
        "two-stage" is the paper's method: a point estimate of each task, then a mixture of the
        estimates [paper: Sec. 6.2]; with "auto" it uses the number of components that the evidence
        selects.
    seed
        Seed of all that is random.
    noise_std
        Noise of Gaussian rewards; learned unless given.
    horizon, initial, support
        For MDPs: the length of an episode (required), the distribution of the first state, and
        which transitions are possible, boolean (X, A, X). Learned counts are exactly zero only
        where ``support`` is false.
    covariance_type
        For tasks with features: "full" (the default), "tied" or "diag".
    noise
        For Gaussian and linear rewards: "common" if all tasks have the same noise, or "per-task"
        if each has its own. With "per-task" the prior is of :class:`mixts.StudentArms` or
        :class:`mixts.LinearStudent`, with between 2.1 and 10,000 degrees of freedom.
    n_restarts, max_iterations, tolerance
        For "evidence": number of starts, iterations of each, and the improvement of the objective
        per task below which a restart stops.
    select
        For "auto": "stack" joins the mixtures that together predict held-out tasks best, with the
        weights that do; "best" takes the one that predicts best; "one-standard-error" takes the
        smallest that is within one standard error of the best.
    max_components, n_folds
        For "auto": largest number of components that is compared, and number of folds of the
        cross-validation.
    robust
        Weight of an additional broad component for tasks unlike any seen, see
        :func:`mixts.learning.robust_prior`; 0 adds none.
    engine
        Where restarts run, as in :func:`mixts.engines.engine_of`: a number of processes, an
        executor, an engine; None starts worker processes if that saves time. The result does not
        depend on it.

    Returns
    -------
    MixturePrior
        Components are ordered by weight, the largest first. If mixtures were joined, several
        components may describe one kind of task: ``prior.kinds`` says which, and components are
        ordered by the weight of their kind first.

    See Also
    --------
    mixts.learning.learn : The same, and how the prior was learned.

    Examples
    --------
    >>> import mixts
    >>> from mixts.families import BernoulliStatistics
    >>> clicks = BernoulliStatistics(
    ...     successes=[[9, 1], [8, 0], [1, 9], [0, 7]], failures=[[1, 9], [2, 9], [9, 1], [9, 2]]
    ... )
    >>> prior = mixts.learn_prior(clicks, 2, seed=1)
    >>> prior.weights.round(1)
    array([0.5, 0.5])
    """
    return learn(
        tasks, n_components, method,
        seed=seed, noise_std=noise_std, noise=noise, horizon=horizon, initial=initial,
        support=support, covariance_type=covariance_type, n_restarts=n_restarts,
        max_iterations=max_iterations, tolerance=tolerance, select=select,
        max_components=max_components, n_folds=n_folds,
        robust=robust, engine=engine,
    ).prior  # fmt: skip


def learn(
    tasks: Any,
    n_components: int | Literal["auto"] | Selection,
    method: Method = "evidence",
    *,
    seed: Seed = None,
    noise_std: float | None = None,
    horizon: int | None = None,
    initial: ArrayLike | None = None,
    support: ArrayLike | None = None,
    covariance_type: CovarianceType | None = None,
    noise: Noise = "common",
    n_restarts: int | None = None,
    max_iterations: int | None = None,
    tolerance: float | None = None,
    select: Rule = "stack",
    max_components: int = 10,
    n_folds: int = 5,
    robust: float = 0.0,
    engine: EngineLike = None,
) -> Learned:
    """Learn a mixture prior, and return it with how it was learned.

    Parameters
    ----------
    tasks, n_components, method, ...
        As in :func:`mixts.learn_prior`.

    Returns
    -------
    Learned
        The prior, the course of its restarts and the comparison of numbers of components.
    """
    if method not in get_args(Method):
        raise ParameterError(f"method must be one of {get_args(Method)}, got {method!r}")
    if select not in get_args(Rule):
        raise ParameterError(f"select must be one of {get_args(Rule)}, got {select!r}")
    options: dict[str, Any] = {
        "noise_std": noise_std, "noise": noise, "covariance_type": covariance_type,
        "horizon": horizon, "initial": initial, "support": support,
    }  # fmt: skip
    observed = _observed(tasks, options)
    problem = Problem(
        observed,
        partial(model_of, **options),
        seed_number(seed),
        Patience(
            MAX_ITERATIONS if max_iterations is None
            else _checks.count(max_iterations, "max_iterations"),
            TOLERANCE if tolerance is None else _checks.positive_number(tolerance, "tolerance"),
        ),
        N_RESTARTS if n_restarts is None else _checks.count(n_restarts, "n_restarts"),
        N_FOLD_RESTARTS if n_restarts is None else n_restarts,
        _checks.count(max_components, "max_components"),
        _checks.count(n_folds, "n_folds", least=2),
        select,
    )  # fmt: skip
    if robust < 0 or robust >= 1:
        raise ParameterError(f"robust must be a weight from 0 to below 1, got {robust!r}")
    selection = n_components if isinstance(n_components, Selection) else None
    members = _checked_numbers(n_components, len(observed))
    by_method = _by_two_stages if method == "two-stage" else _by_evidence
    account = None if selection is None else selection.account
    given = members is not None and selection is None
    learned = by_method(problem, members, account, given, engine)
    model = problem.make(observed)
    prior, unimodal = (
        with_origin(model, with_arm_prior(model, one)) for one in (learned.prior, learned.unimodal)
    )
    learned = replace(learned, prior=prior, unimodal=unimodal)
    if selection is not None:
        learned = replace(learned, selection=selection)
    return replace(learned, prior=robust_prior(learned.prior, robust)) if robust else learned


def flat_family(
    tasks: Any,
    *,
    noise_std: float | None = None,
    horizon: int | None = None,
    initial: ArrayLike | None = None,
    support: ArrayLike | None = None,
    noise: Noise = "common",
) -> Family:
    """Return one component that knows the scale of these tasks' rewards and nothing else.

    That is the prior of plain Thompson sampling: Beta(1, 1), Gamma(1, 1 / mean), a normal
    distribution as wide as the arms' averages, Dirichlet counts of 1. For tasks with features it is
    centred on the coefficients that fit all tasks best, and so wide that every feature explains its
    part of what these leave unexplained; of clicks, its part of a variance of 3.3 of the log odds.

    Parameters
    ----------
    tasks, noise_std, noise, horizon, initial, support
        As in :func:`mixts.learn_prior`.

    Returns
    -------
    Family
        A family of one component.
    """
    options: dict[str, Any] = {
        "noise_std": noise_std, "noise": noise, "horizon": horizon, "initial": initial,
        "support": support,
    }  # fmt: skip
    return model_of(_observed(tasks, options), **options).centre


def robust_prior(prior: MixturePrior, weight: float = 0.01) -> MixturePrior:
    """Add a broad component with a small weight, for tasks unlike any seen before.

    A task that no other component explains is then learned from scratch, instead of being forced
    into a kind that it is not. If the components have names, the new one is called "other".

    Parameters
    ----------
    prior
        The prior to extend.
    weight
        Weight of the broad component, between 0 and 1.

    Returns
    -------
    MixturePrior
        The prior with one more component, the last one. For Bernoulli arms it is Beta(1, 1), for
        MDPs one count for everything that any component thinks possible; for other families it has
        the mean of the whole mixture and nine times its variance.
    """
    share = _checks.positive_number(weight, "weight")
    if share >= 1:
        raise ParameterError(f"weight must be between 0 and 1, got {weight!r}")
    broad = prior.family.broaden(prior.weights, BROADER)
    name = None if prior.names is None else _unused("other", prior.names)
    return prior.append(broad, share, name)


def _unused(name: str, taken: tuple[str, ...]) -> str:
    return name if name not in taken else _unused(f"{name}'", taken)


# -- the two methods ------------------------------------------------------------------------------


Members = dict[int, float]
"""Numbers of components of the mixtures to join, with the weight of each mixture."""


def _by_evidence(
    problem: Problem, members: Members | None, account: int | None, given: bool, engine: EngineLike
) -> Learned:
    # A comparison runs its restarts in several calls, and given numbers of components in one.
    n_expected = None if members else problem.n_restarts * (problem.n_folds + 1) * 3
    selection = None
    with engine_of(engine, n_jobs=n_expected) as where:
        if members is None:
            comparison = compare(problem, where)
            selection, pooled = comparison.selection, comparison.pooled
            members, account = selection.members, selection.account
            restarts = comparison.restarts
        else:
            numbers = sorted({*members, account or 1})
            pooled, restarts = _restarts(problem, numbers, where)
    found = {n: best(restarts[n]) for n in members}
    heaviest = max(members, key=lambda n: members[n])
    for restart in found.values():
        if not restart.history.converged:
            warnings.warn(
                f"learning stopped after {restart.history.n_iterations} iterations although it "
                "still gained: give a larger max_iterations, or a larger tolerance",
                ConvergenceWarning,
                stacklevel=4,
            )
    prior = _joined(problem, {n: found[n].prior for n in members}, members, given)
    if account is not None and list(members) != [account]:
        prior = with_kinds(prior, best(restarts[account]).prior, problem.statistics)
    return Learned(
        prior,
        pooled.prior,
        "evidence",
        found[heaviest].history,
        tuple(restart.history for restart in restarts[heaviest]),
        selection,
        all(restart.history.converged for restart in found.values()),
        pooled.centre,
    )


def _restarts(
    problem: Problem, numbers: list[int], where: Engine
) -> tuple[Restart, dict[int, tuple[Restart, ...]]]:
    """Learn mixtures of these numbers of components from all tasks; one component comes first."""
    model = problem.make(problem.statistics)
    noise = ", each with its own noise" * (model.noise == "per-task")
    of = f"from {len(problem.statistics):,} tasks{noise}"
    step(f"learning 1 kind {of}")
    pooled = pooled_restart(model, problem.patience)
    jobs = [job for n in numbers if n > 1 for job in problem.restart_jobs(model, pooled, n)]
    label = f"learning {' and '.join(str(n) for n in numbers if n > 1)} kinds {of}"
    results = run_all(jobs, where, label) if jobs else []
    found: dict[int, tuple[Restart, ...]] = {1: (pooled,)}
    for n in set(numbers) - {1}:
        pairs = zip(jobs, results, strict=True)
        found[n] = tuple(restart for job, restart in pairs if job.n_components == n)
    return pooled, found


def _by_two_stages(
    problem: Problem, members: Members | None, account: int | None, given: bool, engine: EngineLike
) -> Learned:
    selection = None
    if members is None:
        n_expected = problem.n_restarts * (problem.n_folds + 1) * 3
        with engine_of(engine, n_jobs=n_expected) as where:
            selection = compare(problem, where).selection
        members, account = selection.members, selection.account
    model: Model = problem.make(problem.statistics)
    # scikit-learn takes 32 bits.
    state = _random.seed_sequence(problem.seed, "learn", "two-stage").generate_state(1)
    found = {n: model.two_stage(n, int(state[0])) for n in members}
    _, unimodal = found[max(members, key=lambda n: members[n])]
    prior = _joined(problem, {n: mixture for n, (mixture, _) in found.items()}, members, given)
    if account is not None and list(members) != [account]:
        kinds = found[account] if account in found else model.two_stage(account, int(state[0]))
        prior = with_kinds(prior, kinds[0], problem.statistics)
    return Learned(prior, unimodal, "two-stage", selection=selection)


def _joined(
    problem: Problem, mixtures: dict[int, MixturePrior], members: Members, given: bool
) -> MixturePrior:
    """Return the mixtures as one prior, without components that are practically the same.

    Unless the number of components was given, components of few tasks are left out. Of mixtures
    that then have equally many, the one that had most says most about the other tasks: it stays.
    """
    if given:
        return by_weight(mixtures[next(iter(members))])
    kept: dict[int, MixturePrior] = {}
    weights: dict[int, float] = {}
    for n in sorted(members):
        mixture = drop_few(mixtures[n], len(problem.statistics))
        size = mixture.n_components
        kept[size], weights[size] = mixture, weights.get(size, 0.0) + members[n]
    if len(kept) == 1:
        return by_weight(next(iter(kept.values())))
    return merge_same(union(list(kept.values()), list(weights.values())), problem.statistics)


# -- arguments ------------------------------------------------------------------------------------


def _observed(tasks: Any, options: dict[str, Any]) -> Statistics:
    """Return the tasks that have observations, in their canonical order; all show noise."""
    statistics = statistics_of(tasks)
    if statistics.single:
        statistics = statistics[np.array([0])]
    seen = np.flatnonzero(np.atleast_1d(statistics.n_observations) > 0)
    if not len(seen):
        raise StatisticsError(
            f"a prior is learned from tasks that were observed, but none of {len(statistics)} was"
        )
    # Checked before sorting, so that messages number the tasks as the caller does.
    check_options(statistics, options)
    statistics = statistics[seen]
    if has_noise(statistics) and options["noise_std"] is None:
        statistics, _ = with_noise(statistics, options["noise"])
    return statistics[canonical(statistics)]


def _checked_numbers(n_components: Any, n_tasks: int) -> Members | None:
    """Return the mixtures to learn, or None where they are to be selected."""
    if isinstance(n_components, Selection):
        members = n_components.members
    elif isinstance(n_components, str):
        if n_components != "auto":
            raise ParameterError(f"n_components must be a number or 'auto', got {n_components!r}")
        return None if n_tasks > 1 else {1: 1.0}
    else:
        members = {_checks.count(n_components, "n_components"): 1.0}
    n = max(members)
    if n > n_tasks:
        raise ParameterError(
            f"{n} components need at least as many observed tasks, got {n_tasks}: ask for fewer, "
            "or for 'auto'"
        )
    return members


def seed_number(seed: Seed) -> int:
    """Return a seed that is a number as it is, and draw a number from any other seed."""
    if isinstance(seed, (int, np.integer)) and not isinstance(seed, bool):
        _random.seed_sequence(int(seed))
        return int(seed)
    return int(_random.generator(seed, "learn").integers(2**63))
