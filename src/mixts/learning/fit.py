"""Learn a prior from logs and check it: read, hold tasks out, select, learn, name, check.

This is what ``mixts fit`` does; the command only parses options and prints a :class:`Fit`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

import numpy as np

from mixts import _checks, _random
from mixts._progress import report_steps, step
from mixts._typing import Array, Float, Int, Seed
from mixts.engines import EngineLike
from mixts.errors import ConvergenceWarning, MixtsError, ParameterError
from mixts.families import LinearBernoulli, Statistics
from mixts.families.linear import CovarianceType
from mixts.learning.check import PriorCheck, check_prior
from mixts.learning.coordinates import mapped, scaling, unmapped
from mixts.learning.evidence import Evidence, mixture_evidence
from mixts.learning.held_out import divide
from mixts.learning.learn import Learned, Method, flat_family, learn, robust_prior, seed_number
from mixts.learning.measures import MORE_TASKS, Remedies
from mixts.learning.models import Noise, has_noise
from mixts.learning.noise import NoiseChoice, NoiseRule, common_noise, compare_noise
from mixts.learning.refit import origin_of, refit
from mixts.learning.select import Rule
from mixts.learning.stack import component_names
from mixts.logs import LogWarning, TaskLogs, read_logs, review
from mixts.logs.files import Paths
from mixts.logs.read import LogFamily
from mixts.logs.review import NO_KINDS
from mixts.prior import MixturePrior

SELECT_FROM = 1000
"""Default number of tasks on which numbers of components are compared."""
FEWEST_REPEATS, LEAST_REPEATED, NEARLY_NONE = 20.0, 0.05, 0.01
"""Arms are taken once if chance would make this many pairs of rows with the same task and arm, the
logs have less than this share of them, and less than this share of rows repeats an arm."""
EARLIER = "the earlier prior"
_FEWEST_COMPARED = 10
"""With fewer held-out tasks, a standard error is not to be trusted."""
_OF_LEARNING_ANEW = frozenset({"few-tasks", NO_KINDS, "short-tasks", "rare-arms"})
"""Warnings that mean nothing in a refit: kinds and rare arms are those of the earlier prior."""
_LOG_FAMILIES: dict[str, LogFamily] = {
    "bernoulli-arms": "bernoulli", "gaussian-arms": "gaussian", "poisson-arms": "poisson",
    "spend-arms": "spend", "linear-gaussian": "linear", "linear-bernoulli": "logistic",
}  # fmt: skip
"""Families of logs, by the kind of their statistics."""


@dataclass(frozen=True)
class FitSettings:
    """Settings of learning a prior from logs and of its check; see :func:`fit_logs`."""

    n_components: int | Literal["auto"] = "auto"
    method: Method = "evidence"
    noise_std: float | None = None
    covariance_type: CovarianceType | None = None
    robust: float = 0.0
    held_out: float = 0.2
    select_from: int = SELECT_FROM
    seed: int = 1
    select: Rule = "stack"
    noise: NoiseRule = "auto"
    repeatable: bool | None = None
    start: MixturePrior | None = field(default=None, repr=False)
    start_tasks: float | None = None

    @property
    def is_refit(self) -> bool:
        """Whether learning goes on from an earlier prior; False if that counts as no task."""
        return self.start is not None and self.start_tasks != 0

    def __post_init__(self) -> None:
        if not 0 <= self.held_out < 1:
            raise ParameterError(
                f"held_out must be a fraction from 0 to below 1, got {self.held_out:g}"
            )
        if not 0 <= self.robust < 1:
            raise ParameterError(f"robust must be a weight from 0 to below 1, got {self.robust:g}")
        if self.noise not in get_args(NoiseRule):
            raise ParameterError(f"noise must be one of {get_args(NoiseRule)}, got {self.noise!r}")
        _checks.count(self.select_from, "select_from")
        if self.n_components != "auto":
            _checks.count(self.n_components, "n_components")
        if self.start_tasks is not None:
            if self.start is None:
                raise ParameterError("start_tasks needs an earlier prior: give start, too")
            if self.start_tasks != 0:
                _checks.positive_number(self.start_tasks, "start_tasks")
        if self.is_refit:
            self._check_refit()

    def _check_refit(self) -> None:
        """Raise for options of learning anew: a refit keeps the form of the earlier prior."""
        for name in (
            "n_components", "method", "noise_std", "noise", "covariance_type", "robust", "select",
            "select_from",
        ):  # fmt: skip
            if getattr(self, name) != FitSettings.__dataclass_fields__[name].default:
                raise ParameterError(
                    f"{name} has no meaning where learning goes on from an earlier prior, which "
                    "keeps its kinds and its form: leave it out, or count the earlier prior as 0 "
                    "tasks and learn anew, from past logs and new ones together"
                )


@dataclass(frozen=True)
class Fit:
    """Prior learned from logs, its check, and the record of both."""

    logs: TaskLogs
    """Tasks that were read: statistics, names, bad rows."""
    settings: FitSettings
    """Settings of learning and of the check."""
    learned: Learned
    """Course of learning, and the comparison of numbers of components."""
    prior: MixturePrior
    """Learned prior with names, and with the broad component if ``robust`` asked for one."""
    training: Int[Array, " n"]
    """Indices of the tasks that the prior was learned from."""
    held_out: Int[Array, " m"]
    """Indices of the tasks that the prior was checked on."""
    check: PriorCheck | None
    """Check on the held-out tasks; None if no tasks were held out."""
    n_compared: int
    """Number of tasks on which numbers of components were compared; 0 if the number was given."""
    training_tasks: Statistics = field(repr=False)
    """Statistics of the tasks that the prior was learned from."""
    warnings: tuple[LogWarning, ...] = ()
    """Signs that the logs are not what they should be; none for healthy logs."""
    noise: NoiseChoice | None = None
    """Comparison of one noise for all tasks with a noise of each; None if nothing was compared."""
    once: str = ""
    """Why agents take an action at most once in a task, in a sentence; "" if they may repeat it."""
    against_start: Evidence | None = None
    """Evidence of the held-out tasks beside that of the earlier prior, "the earlier prior"; None
    unless learning went on from one."""

    @property
    def n_components(self) -> int:
        """Number of learned components, without the broad one."""
        return self._learned_prior.n_components

    @property
    def n_kinds(self) -> int:
        """Number of kinds of task, without the broad one; each has one or more components."""
        return len(self._learned_prior.kind_names)

    @property
    def _learned_prior(self) -> MixturePrior:
        """The prior without the broad component that an earlier prior may have had."""
        prior = self.learned.prior
        if not self.settings.is_refit or prior.origin is None:
            return prior
        return prior.select(np.flatnonzero(prior.origin.learned))

    @property
    def converged(self) -> bool:
        """Whether learning ended because the objective stopped improving."""
        return self.learned.converged

    @property
    def n_earlier(self) -> float:
        """Number of tasks that the earlier prior counts for; 0 if learning did not go on."""
        if self.settings.start is None or not self.settings.is_refit:
            return 0.0
        return origin_of(self.settings.start, self.settings.start_tasks).n_tasks

    @property
    def is_compared(self) -> bool:
        """Whether there were enough held-out tasks to compare it with the earlier prior."""
        return self.against_start is not None and len(self.held_out) >= _FEWEST_COMPARED

    @property
    def comparison(self) -> str:
        """Comparison with the earlier prior in a sentence; "" if there was none."""
        if self.against_start is None:
            return ""
        gain, verdict = self.against_start.gain(EARLIER), self.against_start.verdict(EARLIER)
        n = len(self.held_out)
        if n < _FEWEST_COMPARED:
            few = "1 held-out task is" if n == 1 else f"{n} held-out tasks are"
            return f"{few} too few to compare it with the earlier prior."
        words = {"better": "better than", "worse": "worse than", "no different": "as well as"}
        return (
            f"It predicts {n:,} held-out tasks {words[verdict]} the earlier prior (log evidence of "
            f"a task {gain.mean:+.3f} ± {gain.error:.3f})."
        )

    @property
    def items(self) -> tuple[str, ...]:
        """Names of the arms, or of the features."""
        return self.logs.arms or self.logs.features or ()

    @property
    def outcome(self) -> str:
        """Number of kinds, the comparison and the convergence, in a line."""
        n, selection = self.n_kinds, self.learned.selection
        number = "1 kind" if n == 1 else f"{n} kinds"
        made_of = [f"{self.n_components} components"] if self.n_components > n else []
        compared = []
        if selection is not None:
            on = "" if self.n_compared == len(self.training) else f" on {self.n_compared:,} tasks"
            compared = [f"1 to {selection.candidates[-1]} kinds compared{on}"]
            members = list(map(str, selection.members))
            if len(members) > 1:
                made_of.append(f"mixtures of {', '.join(members[:-1])} and {members[-1]} joined")
        why = f" ({': '.join(made_of)})" if made_of else ""
        tasks = "1 task" if len(self.training) == 1 else f"{len(self.training):,} tasks"
        if self.settings.is_refit:
            tasks += f", and from the earlier prior, which counts as {self.n_earlier:,.0f} tasks"
        parts = [f"{number} of task{why}, learned from {tasks}", *compared]
        if self.learned.history is not None:
            n_iterations = self.learned.history.n_iterations
            word = "converged after" if self.converged else "NOT CONVERGED after"
            parts.append(f"{word} {n_iterations} iteration{'s' * (n_iterations != 1)}")
        return "; ".join(parts)


def fit_logs(
    logs: TaskLogs | Paths,
    columns: Mapping[str, Any] | None = None,
    *,
    n_components: int | Literal["auto"] = "auto",
    method: Method = "evidence",
    noise_std: float | None = None,
    noise: NoiseRule = "auto",
    covariance_type: CovarianceType | None = None,
    robust: float = 0.0,
    held_out: float = 0.2,
    select: Rule = "stack",
    select_from: int = SELECT_FROM,
    repeatable: bool | None = None,
    seed: Seed = None,
    start: MixturePrior | None = None,
    start_tasks: float | None = None,
    engine: EngineLike = None,
    progress: Callable[[str], None] | None = None,
    on_learned: Callable[[Fit], None] | None = None,
) -> Fit:
    """Learn a prior from logs of past tasks, and check it on tasks that were held out.

    Parameters
    ----------
    logs
        CSV or Parquet files (a path, a pattern, a folder), a table of pandas, polars or pyarrow, or
        a list of these; or the result of :func:`mixts.logs.read_logs`.
    columns
        Arguments of :func:`mixts.logs.read_logs`, needed for files and tables: ``task``,
        ``reward``, ``arm`` or ``features``, and options such as ``family`` or ``delimiter``.
    n_components, method, noise_std
        As in :func:`mixts.learn_prior`.
    noise
        For Gaussian and linear rewards: "common" noise of all tasks, a noise "per-task", or "auto":
        whichever predicts a fifth of the tasks better by two standard errors, else common. With
        ``noise_std`` the noise is common. Rewards that repeat exactly in a task count as if they
        had the typical noise.
    covariance_type
        As in :func:`mixts.learn_prior`.
    robust
        Weight of an additional broad component; 0 adds none.
    held_out
        Fraction of tasks to check on, at most 1,000 tasks; 0 learns from all tasks and skips the
        check. If the columns name a ``time``, the latest tasks are held out, and the prior is
        learned from rows before they begin; otherwise random tasks are held out.
    select
        As in :func:`mixts.learn_prior`.
    select_from
        With "auto": largest number of tasks on which numbers of components are compared. The
        selected mixtures are then learned from all tasks.
    repeatable
        Whether an action may be taken again in a task, see :class:`mixts.MixturePrior`. None: arms
        may not, if tasks of the logs hardly ever took an arm again where chance would often have
        done so (``Fit.once`` says it); all other actions may.
    seed
        Seed of all that is random.
    start
        Earlier prior to go on from, such as the prior in force of a service that made the logs.
        The new prior has its arms, features and family, so that it can replace it; it keeps its
        kinds, and what no new task says anything about, see :func:`mixts.learning.refit_prior`. The
        earlier prior must not have been learned from these logs.
    start_tasks
        Number of tasks that the earlier prior counts for; None takes that of ``start.origin``. With
        0 only its arms, features and family are taken, and the prior is learned anew.
    engine
        Where files are read and restarts run, as in :func:`mixts.learn_prior`.
    progress
        Function that is called with a line of text when a step begins, and about every ten seconds
        while it lasts.
    on_learned
        Function that is called with the fit when its prior is learned, before the check: what it
        saves survives a check that fails.

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
    settings = FitSettings(
        n_components, method, noise_std, covariance_type, robust, held_out, select_from,
        seed_number(seed), select, noise, repeatable, start, start_tasks,
    )  # fmt: skip
    with report_steps(progress):
        return _fitted(_read(logs, columns, start, engine), settings, engine, on_learned)


def _fitted(
    tasks: TaskLogs,
    settings: FitSettings,
    engine: EngineLike,
    on_learned: Callable[[Fit], None] | None,
) -> Fit:
    found, start = review(tasks), settings.start
    if settings.is_refit:
        found = tuple(warning for warning in found if warning.code not in _OF_LEARNING_ANEW)
    elif tasks.request.exported:
        found = (*found, LogWarning("service-log", _SERVICE_LOG))
    divided = divide(tasks, settings.held_out, settings.seed, engine)
    observed, matrix = divided.statistics, None
    if tasks.space is not None:
        # Without a mean to subtract, a diagonal covariance of the scaled rows stays diagonal.
        matrix = scaling(tasks.space, observed, centred=settings.covariance_type != "diag")
    shown = all(warning.code != NO_KINDS for warning in found)
    n_compared, choice = 0, None
    if start is not None and settings.is_refit:
        learned = refit(start, observed, n_tasks=settings.start_tasks)
    else:
        learned, n_compared, choice = _learned(mapped(observed, matrix), settings, shown, engine)
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
        choice, once,
    )  # fmt: skip
    if on_learned is not None:
        on_learned(fit)
    if not len(divided.held_out):
        return fit
    return replace(fit, check=_check(fit, matrix), against_start=_against_start(fit))


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
    request, free = logs.request, settings.noise != "per-task"
    if free and choice is None and has_noise(logs.statistics):
        noise = "try --noise per-task"
    least = min(logs.reward_range[0], request.missing_reward or 0.0)
    if logs.family == "gaussian" and free and not request.family_is_given and least == 0:
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
    often = pairs > LEAST_REPEATED * by_chance or repeated > NEARLY_NONE * n
    if by_chance < FEWEST_REPEATS or often:
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
    if isinstance(family, LinearBernoulli) and given.get("decimals") is None:
        given["decimals"] = family.decimals
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
    options: dict[str, Any] = {"covariance_type": settings.covariance_type, "engine": engine}
    n = number if isinstance(number, int) else number.account or number.chosen
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        try:
            choice = compare_noise(tasks, n, settings.seed, settings.select_from, options)
            if choice is not None and choice.chosen == "per-task":
                learned = learn(
                    tasks, number, settings.method, seed=settings.seed, noise="per-task",
                    select=settings.select, **options,
                )  # fmt: skip
        except (MixtsError, ArithmeticError, np.linalg.LinAlgError) as error:
            choice = common_noise(f"a noise of each could not be learned ({error})")
    return learned, n_compared, choice


def _learned_with(
    tasks: Statistics, settings: FitSettings, noise: Noise, kinds_show: bool, engine: EngineLike
) -> tuple[Learned, int]:
    """Learn with one kind of noise.

    If tasks are too short to show kinds, "auto" is one component.
    """
    options: dict[str, Any] = {
        "noise": noise,
        "method": settings.method, "seed": settings.seed, "noise_std": settings.noise_std,
        "covariance_type": settings.covariance_type, "select": settings.select, "engine": engine,
    }  # fmt: skip
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
    matrix = None
    if logs.space is not None:
        matrix = scaling(logs.space, observed, centred=settings.covariance_type != "diag")
    per_task = settings.noise == "per-task" if fit.noise is None else fit.noise.chosen == "per-task"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        learned = learn(
            mapped(observed, matrix), fit.learned.selection or fit.learned.prior.n_components,
            settings.method, seed=settings.seed, noise_std=settings.noise_std,
            noise="per-task" if per_task else "common", covariance_type=settings.covariance_type,
            select=settings.select, engine=engine,
        )  # fmt: skip
    learned = replace(learned, prior=unmapped(learned.prior, matrix))
    return _again(learned, fit), unmapped(learned.unimodal, matrix)


def _again(learned: Learned, fit: Fit) -> MixturePrior:
    """Return a prior like that of a fit, learned from other tasks."""
    prior = _named(learned.prior, None, fit.logs).replace(repeatable=fit.prior.repeatable)
    return robust_prior(prior, fit.settings.robust) if fit.settings.robust else prior


def _named(prior: MixturePrior, names: Sequence[str] | None, logs: TaskLogs) -> MixturePrior:
    return prior.replace(names=names, arm_names=logs.arms, features=logs.space)
