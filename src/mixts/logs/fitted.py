"""The record of a fit: its settings, the prior that was learned from logs, and its check."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Literal, get_args

import numpy as np

from mixts import _checks
from mixts._typing import Array, Int
from mixts.errors import ParameterError
from mixts.families import Statistics
from mixts.learning.check import PriorCheck
from mixts.learning.learn import Learned
from mixts.learning.measures import FEWEST, Evidence
from mixts.learning.noise import NoiseChoice
from mixts.learning.options import LearningOptions, Noise, NoiseRule
from mixts.learning.refit import origin_of
from mixts.logs.read import TaskLogs
from mixts.logs.row_faults import LogWarning
from mixts.prior import MixturePrior

SELECT_FROM = 1000
"""Default number of tasks on which numbers of components are compared."""
EARLIER = "the earlier prior"
"""Name of the prior that learning went on from, in ``Fit.against_start``."""


@dataclass(frozen=True, kw_only=True)
class FitSettings(LearningOptions):
    """Settings of learning a prior from logs and of its check: keyword arguments of `fit_logs`.

    Attributes
    ----------
    n_components
        As in :func:`mixts.learn_prior`.
    noise
        As in :class:`LearningOptions`, or "auto": whichever predicts a fifth of the tasks better by
        two standard errors, else common. With ``noise_std`` the noise is common. Rewards that
        repeat exactly in a task count as if they had the typical noise.
    held_out
        Fraction of tasks to check on, at most 1,000 tasks; 0 learns from all tasks and skips the
        check. If the columns name a ``time``, the latest tasks are held out, and the prior is
        learned from rows before they begin; otherwise random tasks are held out.
    select_from
        With "auto": largest number of tasks on which numbers of components are compared. The
        selected mixtures are then learned from all tasks.
    seed
        Seed of all that is random, a number.
    repeatable
        Whether an action may be taken again in a task, see :class:`mixts.MixturePrior`. None: arms
        may not, if tasks of the logs hardly ever took an arm again where chance would often have
        done so (``Fit.once`` says it); all other actions may.
    start
        Earlier prior to go on from, such as the prior in force of a service that made the logs.
        The new prior has its arms, features and family, so that it can replace it; it keeps its
        kinds, and what no new task says anything about, see :func:`mixts.learning.refit_prior`. The
        earlier prior must not have been learned from these logs.
    start_tasks
        Number of tasks that the earlier prior counts for; None takes that of ``start.origin``. With
        0 only its arms, features and family are taken, and the prior is learned anew.
    """

    n_components: int | Literal["auto"] = "auto"
    noise: NoiseRule = "auto"
    held_out: float = 0.2
    select_from: int = SELECT_FROM
    seed: int = 1
    repeatable: bool | None = None
    start: MixturePrior | None = field(default=None, repr=False)
    start_tasks: float | None = None

    @property
    def is_refit(self) -> bool:
        """Whether learning goes on from an earlier prior; False if that counts as no task."""
        return self.start is not None and self.start_tasks != 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.held_out < 1:
            raise ParameterError(
                f"held_out must be a fraction from 0 to below 1, got {self.held_out:g}"
            )
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
        anew = {each.name for each in fields(LearningOptions)} | {"n_components", "select_from"}
        for each in fields(self):
            if each.name in anew and getattr(self, each.name) != each.default:
                raise ParameterError(
                    f"{each.name} has no meaning where learning goes on from an earlier prior, "
                    "which keeps its kinds and its form: leave it out, or count the earlier prior "
                    "as 0 tasks and learn anew, from past logs and new ones together"
                )

    def learning(self, noise: Noise) -> dict[str, Any]:
        """Return the options of :func:`learn`, without the broad component, which is added last."""
        names = [each.name for each in fields(LearningOptions)]
        options = {name: getattr(self, name) for name in names}
        return {**options, "noise": noise, "robust": 0.0, "seed": self.seed}


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
        return self.against_start is not None and len(self.held_out) >= FEWEST

    @property
    def comparison(self) -> str:
        """Comparison with the earlier prior in a sentence; "" if there was none."""
        return "" if self.against_start is None else self.against_start.comparison(EARLIER)

    @property
    def items(self) -> tuple[str, ...]:
        """Names of the arms, or of the features."""
        return self.logs.arms or self.logs.features or ()

    @property
    def effects(self) -> tuple[tuple[str, float], ...]:
        """Pooled terms with what they usually add to a reward or to log odds, the largest first.

        Empty without pooled effects, and in a refit, which keeps those of the earlier prior.
        """
        effects = None if self.prior.features is None else self.prior.features.pooled
        if effects is None or effects.sizes is None or self.settings.is_refit:
            return ()
        named = [name for name, _ in effects.parts]
        return tuple(sorted(zip(named, effects.sizes, strict=True), key=lambda one: -one[1]))

    @property
    def pooled(self) -> str:
        """Pooled effects with their sizes in a sentence; "" if none were learned."""
        if not self.effects:
            return ""
        if not self.effects[0][1]:
            return (
                "No effects that are the same for everybody: held-out tasks are predicted best "
                f"without {', '.join(name for name, _ in self.effects)}."
            )
        unit = "log odds" if self.logs.family == "logistic" else "reward"
        sizes = ", ".join(f"{name} {size:.2g}" for name, size in self.effects)
        return (
            f"Effects that are the same for everybody, by what they usually add to the {unit}: "
            f"{sizes}."
        )

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
