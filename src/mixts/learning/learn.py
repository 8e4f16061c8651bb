"""Learn a mixture prior from the statistics of past tasks."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain, count
from typing import Any, Literal

import numpy as np

from mixts import _checks, _random
from mixts._progress import step
from mixts._typing import ArrayLike, Seed
from mixts.engines import Engine, EngineLike, engine_of
from mixts.errors import ConvergenceWarning, ParameterError, StatisticsError
from mixts.families import Family, Statistics
from mixts.learning.climbing import History, Restart, best, climb
from mixts.learning.em import (
    about_pooled,
    canonical,
    pooled_restart,
    refined,
    run_all,
    with_arm_prior,
    with_origin,
)
from mixts.learning.folder import TaskFolder
from mixts.learning.histories import observed_tasks, statistics_of
from mixts.learning.models import Model, check_options, has_noise, model_of
from mixts.learning.models.student import showing_noise, typical_noise, with_noise
from mixts.learning.options import LearningOptions, Method
from mixts.learning.passes import Passes
from mixts.learning.select import Selection, Training, compare
from mixts.learning.stack import by_weight, drop_few, merge_same, union, with_kinds
from mixts.prior import MixturePrior

_PASSES = 20
"""Passes over all tasks that a fit usually takes, by which an engine is chosen: 17 for a million
tasks with clicks on 20 arms, see benchmarks/lakes.py."""

BROADER = 9.0
"""Factor between the variances of the broad component and those of the whole mixture."""


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
    engine: EngineLike = None,
    **options: Any,
) -> MixturePrior:
    """Learn a mixture prior from past tasks.

    The prior describes which kinds of task there are, and how tasks of one kind vary.

    Parameters
    ----------
    tasks
        Statistics of past tasks (``belief.statistics``), a list of statistics, or a list of
        histories: see :func:`mixts.learning.statistics_of`. Tasks may differ in length; tasks
        without observations are ignored. Or a :class:`mixts.learning.TaskFolder`, which holds more
        tasks than memory.
    n_components
        Number of components; or "auto", which compares mixtures of 1, 2, 3 ... components by the
        evidence of held-out tasks, cross-validated over tasks; or the ``selection`` of such a
        comparison on other tasks.
    method
        "evidence" maximises the exact marginal likelihood of the tasks, with a weak hyperprior;
        "two-stage" is the paper's method: a point estimate of each task, then a mixture of the
        estimates [paper: Sec. 6.2].
    seed
        Seed of all that is random.
    noise_std
        Noise of Gaussian rewards; learned unless given.
    horizon, initial, support
        For MDPs: the length of an episode (required), the distribution of the first state, and
        which transitions are possible, boolean (X, A, X).
    engine
        Where restarts run, as in :func:`mixts.engines.engine_of`: a number of processes, an
        executor, an engine; None starts worker processes if that saves time. The result does not
        depend on it.
    **options
        Further options: the fields of :class:`mixts.learning.LearningOptions`.

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
        tasks, n_components, method, seed=seed, engine=engine, noise_std=noise_std,
        horizon=horizon, initial=initial, support=support, **options,
    ).prior  # fmt: skip


def learn(
    tasks: Any,
    n_components: int | Literal["auto"] | Selection,
    method: Method = "evidence",
    *,
    seed: Seed = None,
    engine: EngineLike = None,
    **options: Any,
) -> Learned:
    """Learn a mixture prior, and return it with how it was learned.

    Parameters
    ----------
    tasks, n_components, method, seed, engine
        As in :func:`mixts.learn_prior`.
    **options
        Further options: the fields of :class:`LearningOptions`.

    Returns
    -------
    Learned
        The prior, the course of its restarts and the comparison of numbers of components.
    """
    given, number = LearningOptions.of(method=method, **options), seed_number(seed)
    sample = tasks.sample(number) if isinstance(tasks, TaskFolder) else tasks
    training = Training(_observed(sample, given.of_model), given, number)
    selection = n_components if isinstance(n_components, Selection) else None
    members = _checked_numbers(n_components, len(training.statistics))
    by_method = _by_two_stages if method == "two-stage" else _by_evidence
    n_kinds = None if selection is None else selection.n_kinds
    is_given = members is not None and selection is None
    with _elsewhere(tasks, training, engine) as (training, where):
        learned = by_method(training, members, n_kinds, is_given, where)
        model = training.whole
        prior, unimodal = (
            with_origin(model, with_arm_prior(model, one))
            for one in (learned.prior, learned.unimodal)
        )
    learned = replace(learned, prior=prior, unimodal=unimodal)
    if selection is not None:
        learned = replace(learned, selection=selection)
    if given.robust:
        return replace(learned, prior=robust_prior(learned.prior, given.robust))
    return learned


def flat_family(tasks: Any, **options: Any) -> Family:
    """Return one component that knows the scale of these tasks' rewards and nothing else.

    That is the prior of plain Thompson sampling: Beta(1, 1), Gamma(1, 1 / mean), a normal
    distribution as wide as the arms' averages, Dirichlet counts of 1. For tasks with features it is
    centred on the coefficients that fit all tasks best, and so wide that every feature explains its
    part of what these leave unexplained; of clicks, its part of a variance of 3.3 of the log odds.

    Parameters
    ----------
    tasks
        As in :func:`mixts.learn_prior`.
    **options
        Options of the tasks' family: ``noise_std``, ``noise``, ``horizon``, ``initial`` and
        ``support`` of :class:`LearningOptions`.

    Returns
    -------
    Family
        A family of one component.
    """
    given = LearningOptions.of(**options).of_model
    return model_of(_observed(tasks, given), **given).centre


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
    name = None if prior.names is None else unused_name("other", prior.names)
    return prior.append(broad, share, name)


def unused_name(name: str, taken: tuple[str, ...]) -> str:
    """Return the name, or the name with the first number from 2 on that nothing has."""
    numbered = (f"{name} {number}" for number in count(2))
    return next(each for each in chain([name], numbered) if each not in taken)


# -- the two methods ------------------------------------------------------------------------------


Members = dict[int, float]
"""Numbers of components of the mixtures to join, with the weight of each mixture."""


def _by_evidence(
    training: Training,
    members: Members | None,
    n_kinds: int | None,
    is_given: bool,
    engine: EngineLike,
) -> Learned:
    # A comparison runs its restarts in several calls, and given numbers of components in one.
    n_expected = None if members else training.n_expected
    selection = None
    with engine_of(engine, n_jobs=n_expected) as where:
        if members is None:
            comparison = compare(training, where)
            selection, pooled = comparison.selection, comparison.pooled
            members, n_kinds = selection.members, selection.n_kinds
            restarts = comparison.restarts
        else:
            numbers = sorted({*members, n_kinds or 1})
            pooled, restarts = _restarts(training, numbers, where)
    found = {n: best(restarts[n]) for n in members}
    if training.elsewhere is not None:
        pooled, found = _on_all(training, pooled, found)
    heaviest = max(members, key=lambda n: members[n])
    for restart in found.values():
        if not restart.history.converged:
            warnings.warn(
                f"learning stopped after {restart.history.n_iterations} iterations although it "
                "still gained: give a larger max_iterations, or a larger tolerance",
                ConvergenceWarning,
                stacklevel=4,
            )
    prior = _joined(training, {n: found[n].prior for n in members}, members, is_given)
    if n_kinds is not None and list(members) != [n_kinds]:
        prior = with_kinds(prior, best(restarts[n_kinds]).prior, training.statistics)
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
    training: Training, numbers: list[int], where: Engine
) -> tuple[Restart, dict[int, tuple[Restart, ...]]]:
    """Learn mixtures of these numbers of components from all tasks; one component comes first."""
    model = training.model
    noise = ", each with its own noise" * (model.noise == "per-task")
    of = f"from {len(training.statistics):,} tasks{noise}"
    step(f"learning 1 kind {of}")
    pooled = pooled_restart(model, training.patience)
    specs = [spec for n in numbers if n > 1 for spec in training.restarts(model, pooled, n)]
    label = f"learning {' and '.join(str(n) for n in numbers if n > 1)} kinds {of}"
    results = run_all(specs, where, label) if specs else []
    found: dict[int, tuple[Restart, ...]] = {1: (pooled,)}
    for n in set(numbers) - {1}:
        pairs = zip(specs, results, strict=True)
        found[n] = tuple(restart for spec, restart in pairs if spec.n_components == n)
    return pooled, found


def _on_all(
    training: Training, pooled: Restart, found: dict[int, Restart]
) -> tuple[Restart, dict[int, Restart]]:
    """Go on from mixtures of a sample with all tasks; one component comes first."""
    model, patience = training.whole, training.patience
    step(f"learning 1 kind from all {model.n_tasks:,} tasks")
    pooled, everywhere = pooled_restart(model, patience, pooled), {}
    for n, restart in found.items():
        if n == 1:
            everywhere[n] = pooled
            continue
        step(f"learning {n} kinds from all {model.n_tasks:,} tasks")
        prior, centred = restart.prior, about_pooled(model, pooled.prior, n)
        climbing = centred.quick() or centred
        everywhere[n] = climb(climbing, prior.family, prior.weights, patience)
        if climbing is not centred:
            everywhere[n] = refined(centred, everywhere[n], patience)
    return pooled, everywhere


def _by_two_stages(
    training: Training,
    members: Members | None,
    n_kinds: int | None,
    is_given: bool,
    engine: EngineLike,
) -> Learned:
    selection = None
    if members is None:
        with engine_of(engine, n_jobs=training.n_expected) as where:
            selection = compare(training, where).selection
        members, n_kinds = selection.members, selection.n_kinds
    model: Model = training.model
    # scikit-learn takes 32 bits.
    state = _random.seed_sequence(training.seed, "learn", "two-stage").generate_state(1)
    found = {n: model.two_stage(n, int(state[0])) for n in members}
    _, unimodal = found[max(members, key=lambda n: members[n])]
    prior = _joined(training, {n: mixture for n, (mixture, _) in found.items()}, members, is_given)
    if n_kinds is not None and list(members) != [n_kinds]:
        kinds = found[n_kinds] if n_kinds in found else model.two_stage(n_kinds, int(state[0]))
        prior = with_kinds(prior, kinds[0], training.statistics)
    return Learned(prior, unimodal, "two-stage", selection=selection)


def _joined(
    training: Training, mixtures: dict[int, MixturePrior], members: Members, is_given: bool
) -> MixturePrior:
    """Return the mixtures as one prior, without components that are practically the same.

    Unless the number of components was given, components of few tasks are left out. Of mixtures
    that then have equally many, the one that had most says most about the other tasks: it stays.
    """
    if is_given:
        return by_weight(mixtures[next(iter(members))])
    kept: dict[int, MixturePrior] = {}
    weights: dict[int, float] = {}
    for n in sorted(members):
        mixture = drop_few(mixtures[n], len(training.statistics))
        size = mixture.n_components
        kept[size], weights[size] = mixture, weights.get(size, 0.0) + members[n]
    if len(kept) == 1:
        return by_weight(next(iter(kept.values())))
    return merge_same(union(list(kept.values()), list(weights.values())), training.statistics)


# -- arguments ------------------------------------------------------------------------------------


@contextmanager
def _elsewhere(
    tasks: Any, training: Training, engine: EngineLike
) -> Iterator[tuple[Training, EngineLike]]:
    """Yield the training with all tasks of a folder, and the engine; else what was given."""
    if not isinstance(tasks, TaskFolder):
        yield training, engine
        return
    if training.options.method == "two-stage":
        raise ParameterError(
            "method 'two-stage' needs all tasks in memory, and a TaskFolder is read in parts: use "
            "the method 'evidence', or give the statistics of a sample"
        )
    if training.options.offset:
        raise ParameterError(
            "tasks with an offset are learned in memory: give statistics, not a TaskFolder"
        )
    if has_noise(training.statistics) and training.options.noise_std is None:
        tasks = _showing_noise(tasks, training)
    with engine_of(engine, n_jobs=_PASSES * len(tasks.sizes)) as where:
        # Restarts on the sample are other work: whether it pays to start workers is decided anew.
        yield replace(training, elsewhere=Passes(tasks, where)), None if engine is None else where


def _showing_noise(tasks: TaskFolder, training: Training) -> TaskFolder:
    """Return tasks that all show noise, as those of the sample do."""
    sample = tasks.sample(training.seed)
    if training.options.noise == "per-task":
        return tasks.changed(showing_noise, typical_noise(sample))
    if with_noise(sample, "common")[0] is not sample:
        raise StatisticsError(
            f"no task of a sample of {len(sample):,} shows any noise: the same choice always had "
            "the same reward. Give noise_std"
        )
    return tasks


def _observed(tasks: Any, options: dict[str, Any]) -> Statistics:
    """Return the tasks that have observations, in their canonical order; all show noise."""
    given = statistics_of(tasks)
    statistics = observed_tasks(given)
    # Checked before sorting, so that messages number the tasks as the caller does.
    check_options(given, options)
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
