"""Learn a prior from logs and check it: read, hold tasks out, select, learn, name, check.

This is what ``mixts fit`` does; the command only parses options and prints a :class:`Fit`.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mixts import _random
from mixts._progress import report_steps, step
from mixts._typing import Array, Float, Int, Seed
from mixts.engines import EngineLike
from mixts.errors import ConvergenceWarning, MixtsError, ParameterError
from mixts.families import Statistics
from mixts.learning.check import PriorCheck, check_prior
from mixts.learning.histories import mapped, scaling, unmapped
from mixts.learning.learn import Learned, flat_family, learn, robust_prior, seed_number
from mixts.learning.measures import MORE_TASKS, Evidence, Remedies
from mixts.learning.models import has_noise
from mixts.learning.models.predictive import mixture_evidence
from mixts.learning.noise import NoiseChoice, common_noise, compare_noise
from mixts.learning.options import Noise
from mixts.learning.pooled import LearnedPooled, alternate, with_offsets
from mixts.learning.refit import refit
from mixts.learning.stack import component_names
from mixts.logs.files import Paths
from mixts.logs.fitted import EARLIER, Fit, FitSettings
from mixts.logs.held_out import divide
from mixts.logs.read import TaskLogs, read_logs
from mixts.logs.review import NO_KINDS, review
from mixts.logs.row_faults import LogWarning
from mixts.logs.schema import KINDS
from mixts.prior import MixturePrior

MIN_EXPECTED_REPEATS, MAX_REPEAT_RATIO, MAX_REPEATED_SHARE = 20.0, 0.05, 0.01
"""Arms are taken once if chance would make this many pairs of rows with the same task and arm, the
logs have less than this share of them, and less than this share of rows repeats an arm."""
_OF_LEARNING_ANEW = frozenset({"few-tasks", NO_KINDS, "short-tasks", "rare-arms"})
"""Warnings that mean nothing in a refit: kinds and rare arms are those of the earlier prior."""
_LOG_FAMILIES = {statistics.kind: name for name, statistics in KINDS.items()}
"""Families of logs, by the kind of their statistics."""


def fit_logs(
    logs: TaskLogs | Paths,
    columns: Mapping[str, Any] | None = None,
    *,
    seed: Seed = None,
    engine: EngineLike = None,
    progress: Callable[[str], None] | None = None,
    on_learned: Callable[[Fit], None] | None = None,
    **settings: Any,
) -> Fit:
    """Learn a prior from logs of past tasks, and check it on tasks that were held out.

    Parameters
    ----------
    logs
        CSV or Parquet files (a path, a pattern, a folder), a table of pandas, polars or pyarrow, a
        lazy table whose rows its own engine counts, or a list of these; or the result of
        :func:`mixts.logs.read_logs`.
    columns
        Fields of :class:`mixts.logs.LogSchema`, needed for files and tables: ``task``,
        ``reward``, ``arm`` or ``features``, and options such as ``family`` or ``delimiter``.
    seed
        Seed of all that is random.
    engine
        Where files are read and restarts run, as in :func:`mixts.learn_prior`.
    progress
        Function that is called with a line of text when a step begins, and about every ten seconds
        while it lasts.
    on_learned
        Function that is called with the fit when its prior is learned, before the check: what it
        saves survives a check that fails.
    **settings
        Further settings: the fields of :class:`mixts.logs.fitted.FitSettings`, such as
        ``n_components``, ``noise``, ``robust``, ``held_out``, ``select`` or ``start``.

    Returns
    -------
    Fit
        The prior, the check, how the number of components was chosen, the log's summary, and
        warnings about logs that may be wrong. Logs from which nothing can be learned raise
        :class:`mixts.errors.LogsError`.
        Components are named "kind 1", "kind 2" ... by weight, or "kind 1a", "kind 1b" ... where
        several describe one kind; arms have the names of the logs.

    Examples
    --------
    Clicks of 200 users on two items; users of one kind like the first item, others the second.

    >>> import numpy as np
    >>> import mixts
    >>> user, item = np.repeat(np.arange(200), 20), np.tile([0, 1], 2000)
    >>> clicked = np.random.default_rng(1).random(4000) < np.where((user + item) % 2, 0.8, 0.2)
    >>> rows = np.c_[user, item, clicked]
    >>> np.savetxt("clicks.csv", rows, "%d", ",", header="user,item,clicked", comments="")
    >>> columns = {"task": "user", "arm": "item", "reward": "clicked"}
    >>> fit = mixts.fit_logs("clicks.csv", columns, n_components=2, seed=1)
    >>> fit.prior.weights.round(1)
    array([0.5, 0.5])
    >>> fit.check.findings[0]
    'Held-out evidence: better than UniTS and TS, flat (by two standard errors).'
    """
    chosen = FitSettings.of(seed=seed_number(seed), **settings)
    with report_steps(progress):
        return _fitted(_read(logs, columns, chosen.start, engine), chosen, engine, on_learned)


def _fitted(
    tasks: TaskLogs,
    settings: FitSettings,
    engine: EngineLike,
    on_learned: Callable[[Fit], None] | None,
) -> Fit:
    found, start = review(tasks), settings.start
    if settings.is_refit:
        found = tuple(warning for warning in found if warning.code not in _OF_LEARNING_ANEW)
    elif tasks.schema.exported:
        found = (*found, LogWarning("service-log", _SERVICE_LOG))
    divided = divide(tasks, settings.held_out, settings.seed, engine)
    matrix = _matrix(tasks, divided.statistics, settings)
    shown = all(warning.code != NO_KINDS for warning in found)
    n_compared, choice = 0, None
    effects: tuple[tuple[str, float], ...] = ()
    if start is not None and settings.is_refit:
        learned = refit(start, divided.statistics, n_tasks=settings.start_tasks)
    else:
        if tasks.schema.is_pooled:
            settings = replace(settings, offset=True)
        if tasks.is_open:
            found_effects, n_compared, choice = _with_pooled(
                tasks, mapped(divided.statistics, matrix), settings, shown, engine
            )
            beta, learned = found_effects.coefficients, found_effects.learned
            effects = _effects(tasks, divided.statistics, beta)
            tasks = tasks.with_pooled(beta)
            divided = replace(divided, statistics=with_offsets(divided.statistics, beta))
            matrix = _matrix(tasks, divided.statistics, settings)
        else:
            observed = mapped(divided.statistics, matrix)
            learned, n_compared, choice = _learned(observed, settings, shown, engine)
        learned = replace(
            learned,
            prior=unmapped(learned.prior, matrix),
            unimodal=unmapped(learned.unimodal, matrix),
        )
    once = _once(tasks, settings)
    prior = _named(learned.prior, learned.prior.names or component_names(learned.prior), tasks)
    prior = prior.replace(repeatable=not once)
    if settings.robust:
        prior = robust_prior(prior, settings.robust)
    fit = Fit(
        tasks, settings, learned, prior, divided.training, divided.held_out, None, n_compared,
        divided.statistics, (*found, *([] if divided.warning is None else [divided.warning])),
        choice, once, effects=effects,
    )  # fmt: skip
    if on_learned is not None:
        on_learned(fit)
    if not len(divided.held_out):
        return fit
    return replace(fit, check=_check(fit, matrix), against_start=_against_start(fit))


def _matrix(
    tasks: TaskLogs, observed: Statistics, settings: FitSettings
) -> Float[Array, "d d"] | None:
    """Return the matrix that gives features a common scale; None for arms."""
    if tasks.space is None:
        return None
    # Without a mean to subtract, a diagonal covariance of the scaled rows stays diagonal.
    return scaling(tasks.space, observed, centred=settings.covariance_type != "diag")


def _with_pooled(
    tasks: TaskLogs,
    observed: Statistics,
    settings: FitSettings,
    shown: bool,
    engine: EngineLike,
) -> tuple[LearnedPooled, int, NoiseChoice | None]:
    """Learn pooled effects and the mixture in turn; what is compared is compared once."""
    compared: list[tuple[int, NoiseChoice | None]] = []

    def mixture(known: Statistics, before: Learned | None) -> Learned:
        if before is not None:
            return _relearned(known, settings, before, compared[0][1], engine)
        learned, n_compared, choice = _learned(known, settings, shown, engine)
        compared.append((n_compared, choice))
        return learned

    assert tasks.space is not None and tasks.space.pooled is not None  # noqa: PT018
    n_pooled = tasks.space.pooled.n_numbers
    return alternate(observed, n_pooled, mixture, seed=settings.seed), *compared[0]


def _effects(
    tasks: TaskLogs, observed: Statistics, beta: Float[Array, " p"]
) -> tuple[tuple[str, float], ...]:
    """Return the size of each pooled term: the root mean square of what it adds to a reward."""
    space = tasks.space
    assert space is not None and space.pooled is not None  # noqa: PT018
    squares = observed.feature_squares[space.n_own :, space.n_own :]
    mean = squares / max(int(np.sum(observed.n_observations)), 1)
    found: list[tuple[str, float]] = []
    for name, part in space.pooled.parts:
        square = float(beta[part] @ mean[part, part] @ beta[part])
        found.append((name, math.sqrt(max(square, 0.0))))
    return tuple(sorted(found, key=lambda one: -one[1]))


def _against_start(fit: Fit) -> Evidence | None:
    """Compare a prior with the earlier one on held-out tasks; None unless learning went on."""
    if fit.settings.start is None or not fit.settings.is_refit:
        return None
    held = fit.logs.statistics[fit.held_out]
    both = {"this prior": fit.prior, EARLIER: fit.settings.start}
    values = {name: mixture_evidence(one, held) for name, one in both.items()}
    return Evidence(values, np.asarray(held.n_observations))


def _check(fit: Fit, matrix: Float[Array, "d d"] | None) -> PriorCheck:
    """Check a prior on the held-out tasks; ``matrix`` gives features a common scale."""
    step(f"checking the prior on {len(fit.held_out):,} held-out tasks")
    held = fit.logs.statistics[fit.held_out]
    flat = flat_family(mapped(held, matrix), **fit.prior.family.learning_settings())
    check = check_prior(
        fit.prior,
        held,
        unimodal=_named(fit.learned.unimodal, None, fit.logs),
        flat=unmapped(MixturePrior(flat), matrix),
        seed=fit.settings.seed,
    )
    return check.with_remedies(_remedies(fit.settings, fit.logs, fit.noise, fit.n_kinds))


def _remedies(
    settings: FitSettings, logs: TaskLogs, choice: NoiseChoice | None, n_kinds: int
) -> Remedies:
    """Return the remedies that are left: what was given is not proposed again."""
    if settings.noise_std is not None:  # a wrong noise causes all faults: begin with it
        learned = "leave --noise-std out, so that the noise is learned"
        return Remedies(learned, learned, learned, learned, learned, n_kinds)
    unusual = MORE_TASKS if settings.robust else f"add --robust, or {MORE_TASKS}"
    noise = shape = MORE_TASKS
    schema, free = logs.schema, settings.noise != "per-task"
    if free and choice is None and has_noise(logs.statistics):
        noise = "try --noise per-task"
    least = min(logs.reward_range[0], schema.missing_reward or 0.0)
    if logs.family == "gaussian" and free and schema.family == "auto" and least == 0:
        shape = f"try --family spend, or {MORE_TASKS}"
    return Remedies(unusual, unusual, MORE_TASKS, noise, shape, n_kinds)


def _once(logs: TaskLogs, settings: FitSettings) -> str:
    """Return why an action is taken at most once in a task; "" if it may be taken again."""
    repeatable = settings.repeatable
    if repeatable is None and settings.start is not None:
        repeatable = settings.start.repeatable
    if repeatable is not None:
        given = "as was given: --once (repeatable=False), or an earlier prior that says so"
        return "" if repeatable else f"Agents take an action at most once in a task, {given}."
    if logs.arms is None:
        return ""
    pulls = logs.statistics.pulls
    sizes, rows = pulls.sum(axis=1).astype(float), pulls.sum(axis=0).astype(float)
    n = int(rows.sum())
    pairs = (float(np.einsum("nk,nk->", pulls, pulls)) - n) / 2
    by_chance = float((sizes * (sizes - 1)).sum() / 2 * ((rows / n) ** 2).sum())
    repeated = n - int(np.count_nonzero(pulls))
    often = pairs > MAX_REPEAT_RATIO * by_chance or repeated > MAX_REPEATED_SHARE * n
    if by_chance < MIN_EXPECTED_REPEATS or often:
        return ""
    return (
        f"Tasks take an arm at most once: {repeated:,} of {n:,} rows have an arm that their task "
        f"took before, where chance would make {by_chance:,.0f} pairs of such rows. So agents with "
        "this prior never take an arm twice in a task; if they may, fit with --repeatable "
        "(repeatable=True)."
    )


_SERVICE_LOG = (
    "These logs are a service's own decisions. Arms that it hardly showed would be guessed from "
    "the arms that it showed, which are the better ones. Go on from the prior in force: --from "
    "PRIOR (start=prior). Or give the past logs, too, from which that prior was learned."
)


def _like(start: MixturePrior, columns: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns with the arms or the features, and the family, of an earlier prior.

    A prior can replace another one only if both have the same statistics.
    """
    family, given = start.family, dict(columns)
    what = "features" if family.n_arms is None else "arms"
    names = start.features if what == "features" else start.arm_names
    if names is None:
        raise ParameterError(
            f"start must be a prior that names its {what}, got {family!r} without names: "
            f"prior.replace({'features' if what == 'features' else 'arm_names'}=...) names them"
        )
    if given.get(what) is not None:
        raise ParameterError(f"{what} are those of the earlier prior: leave them out")
    given[what] = names if what == "features" else start  # its arms may have no rows
    kind = family.statistics_type.kind
    if kind not in _LOG_FAMILIES:
        raise ParameterError(f"start must be a prior of arms or of features, got {family!r}")
    if given.get("family") not in (None, "auto", _LOG_FAMILIES[kind]):
        raise ParameterError(
            f"family is that of the earlier prior, {_LOG_FAMILIES[kind]!r}: leave it out"
        )
    given["family"] = _LOG_FAMILIES[kind]
    if given.get("decimals") is None:
        given["decimals"] = family.settings().get("decimals")
    return given


def _read(
    logs: TaskLogs | Paths,
    columns: Mapping[str, Any] | None,
    start: MixturePrior | None,
    engine: EngineLike,
) -> TaskLogs:
    if isinstance(logs, TaskLogs):
        if columns is not None:
            raise ParameterError(
                "columns are for files and tables: leave them out for logs that were read"
            )
        if start is not None and (logs.arms, logs.space) != (start.arm_names, start.features):
            raise ParameterError(
                "logs that were read must have the arms or the features of the earlier prior: read "
                "them with arms=prior or features=prior.features"
            )
        return logs
    if columns is None:
        raise ParameterError(
            "columns are needed to read files and tables: {'task': ..., 'reward': ..., 'arm': ...}"
        )
    if start is not None:
        columns = _like(start, columns)
    return read_logs(logs, **columns, engine=engine)


def _learned(
    tasks: Statistics, settings: FitSettings, kinds_show: bool, engine: EngineLike
) -> tuple[Learned, int, NoiseChoice | None]:
    """Learn from tasks; also return the number of tasks on which candidates were compared.

    Both kinds of noise are compared with the number of components that was chosen with a common
    noise, so that only the last step is repeated. If that fails, the common noise stays.
    """
    compares = settings.noise == "auto" and settings.noise_std is None and has_noise(tasks)
    noise: Noise = "per-task" if settings.noise == "per-task" else "common"
    learned, n_compared = _learned_with(tasks, settings, noise, kinds_show, engine)
    if not compares:
        return learned, n_compared, None
    number = learned.selection or learned.prior.n_components
    n = number if isinstance(number, int) else number.n_kinds or number.chosen
    options = {
        "covariance_type": settings.covariance_type,
        "offset": settings.offset,
        "engine": engine,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        try:
            choice = compare_noise(tasks, n, settings.seed, settings.select_from, options)
            if choice is not None and choice.chosen == "per-task":
                learned = learn(tasks, number, **settings.learning("per-task"), engine=engine)
        except (MixtsError, ArithmeticError, np.linalg.LinAlgError) as error:
            choice = common_noise(f"a noise of each could not be learned ({error})")
    return learned, n_compared, choice


def _learned_with(
    tasks: Statistics, settings: FitSettings, noise: Noise, kinds_show: bool, engine: EngineLike
) -> tuple[Learned, int]:
    """Learn with one kind of noise.

    If tasks are too short to show kinds, "auto" is one component.
    """
    options = {**settings.learning(noise), "engine": engine}
    with warnings.catch_warnings():
        # `Fit.converged` and `Fit.outcome` report it.
        warnings.simplefilter("ignore", ConvergenceWarning)
        if settings.n_components == "auto" and not kinds_show:
            return learn(tasks, 1, **options), 0
        if settings.n_components != "auto":
            return learn(tasks, settings.n_components, **options), 0
        if len(tasks) <= settings.select_from:
            return learn(tasks, "auto", **options), len(tasks)
        some = _random.stream(settings.seed, "fit", "selection").permutation(len(tasks))
        compared = learn(tasks[np.sort(some[: settings.select_from])], "auto", **options)
        # A selection of None: only one of the tasks had observations.
        return learn(tasks, compared.selection or 1, **options), settings.select_from


def learn_from(
    fit: Fit, tasks: Int[Array, " n"], engine: EngineLike = None
) -> tuple[MixturePrior, MixturePrior]:
    """Learn a prior from other tasks of the same logs, with what a fit found out.

    The number of kinds and the noise are those of the fit: they are not compared again.

    Parameters
    ----------
    fit
        Result of :func:`fit_logs`.
    tasks
        Indices of tasks to learn from.
    engine
        Where restarts run, as in :func:`mixts.learn_prior`.

    Returns
    -------
    tuple
        The prior, and the prior with one component.
    """
    settings, logs = fit.settings, fit.logs
    observed = logs.statistics[tasks]
    if settings.start is not None and settings.is_refit:
        learned = refit(settings.start, observed, n_tasks=settings.start_tasks)
        return _again(learned, fit), learned.unimodal
    matrix = _matrix(logs, observed, settings)
    learned = _relearned(mapped(observed, matrix), settings, fit.learned, fit.noise, engine)
    learned = replace(learned, prior=unmapped(learned.prior, matrix))
    return _again(learned, fit), unmapped(learned.unimodal, matrix)


def _relearned(
    tasks: Statistics,
    settings: FitSettings,
    before: Learned,
    choice: NoiseChoice | None,
    engine: EngineLike,
) -> Learned:
    """Learn from other tasks, or beside other offsets, with the kinds and the noise of before."""
    per_task = settings.noise == "per-task" if choice is None else choice.chosen == "per-task"
    number = before.selection or before.prior.n_components
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return learn(
            tasks, number, **settings.learning("per-task" if per_task else "common"), engine=engine
        )


def _again(learned: Learned, fit: Fit) -> MixturePrior:
    """Return a prior like that of a fit, learned from other tasks."""
    prior = _named(learned.prior, None, fit.logs).replace(repeatable=fit.prior.repeatable)
    return robust_prior(prior, fit.settings.robust) if fit.settings.robust else prior


def _named(prior: MixturePrior, names: Sequence[str] | None, logs: TaskLogs) -> MixturePrior:
    return prior.replace(names=names, arm_names=logs.arms, features=logs.space)
