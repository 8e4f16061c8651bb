"""One climb of expectation maximisation: steps and leaps, from a start to a maximum nearby."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Any

import numpy as np
from scipy import special

from mixts._typing import Array, Float
from mixts.errors import StatisticsError
from mixts.families import Family
from mixts.families.base import FAMILIES
from mixts.learning.models import Model
from mixts.learning.options import LearningOptions
from mixts.prior import MixturePrior

_FIRST_REACH = 4.0
"""Longest leap at first, as a multiple of the last step."""
_REACH_FACTOR = 4.0
"""Factor by which a successful leap lengthens the next one, and a refused leap shortens it."""
_LARGEST_REACH = 4.0**6


@dataclass(frozen=True)
class Patience:
    """Stopping rule of one restart."""

    max_iterations: int = LearningOptions.max_iterations
    tolerance: float = LearningOptions.tolerance
    """Stop when an iteration improves the objective, divided by the number of tasks, by less."""


@dataclass(frozen=True)
class History:
    """Course of one restart: both parts of the objective, after each iteration."""

    log_evidence: Float[Array, " t"]
    """sum over tasks of ln sum_s w_s p(task | s); the first entry is that of the start."""
    log_hyperprior: Float[Array, " t"]
    """Log density of the hyperprior, up to a constant; it keeps components with few tasks from
    collapsing."""
    converged: bool
    """Whether the restart ended because the objective stopped improving."""

    @property
    def objective(self) -> Float[Array, " t"]:
        """Sum of both parts, which never falls."""
        return np.asarray(self.log_evidence + self.log_hyperprior)

    @property
    def n_iterations(self) -> int:
        """Number of iterations."""
        return len(self.log_evidence) - 1


@dataclass(frozen=True)
class Restart:
    """Result of one start: the mixture that it led to."""

    prior: MixturePrior
    history: History
    centre: Family | None = None
    """Centre of the hyperprior, where it was learned: the population of arms, for every arm."""
    is_refined: bool = False
    """Whether a quick approximation led near to this mixture, and the model itself to the end."""

    @property
    def objective(self) -> float:
        """Final value of the objective."""
        return float(self.history.objective[-1])


def best(restarts: Sequence[Restart]) -> Restart:
    """Return the restart with the largest objective; the first of equals.

    Objectives of quick approximations cannot be compared with those of the model itself: the
    restart that was refined is the best.
    """
    return max(restarts, key=lambda restart: (restart.is_refined, restart.objective))


@dataclass(frozen=True)
class Climbing:
    """Where a climb is: all that it needs to go on."""

    family: Family
    weights: Float[Array, " L"]
    reach: float
    course: tuple[tuple[float, float], ...] = ()
    """Both parts of the objective after each iteration."""
    converged: bool = False

    def bundle(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return what a file stores."""
        family = self.family
        header = {
            "family": family.kind, "settings": family.settings(), "reach": self.reach,
            "converged": self.converged,
        }  # fmt: skip
        arrays = {f"family.{name}": array for name, array in family.arrays().items()}
        return header, {**arrays, "weights": self.weights, "course": np.array(self.course)}

    @classmethod
    def of(cls, header: Mapping[str, Any], arrays: Mapping[str, Array]) -> Climbing:
        """Return what a file stored."""
        own = {k.removeprefix("family."): v for k, v in arrays.items() if k.startswith("family.")}
        family = FAMILIES[header["family"]].restore(header["settings"], own)
        course = tuple((float(one), float(other)) for one, other in arrays["course"])
        return cls(family, arrays["weights"], header["reach"], course, bool(header["converged"]))


def climb(model: Model, family: Family, weights: Float[Array, " L"], patience: Patience) -> Restart:
    """Improve a mixture until an iteration gains less than the tolerance.

    The E step computes each task's posterior over components, its shares. The M step sets a
    component's weight to its share of all tasks and pseudo-tasks, and lets the model improve its
    parameters. Two such steps show a direction; a leap along it is kept if the objective does not
    fall. That is SQUAREM by Varadhan and Roland, and it saves most of the many small steps.
    """
    at, memory = Climbing(family, weights, _FIRST_REACH), None
    if model.elsewhere is not None:
        memory = model.elsewhere.memory_of(model, at, astuple(patience))
        at = memory.load() or at
    now = None
    while not at.converged and len(at.course) <= patience.max_iterations:
        now = now or _State.at(model, at.family, at.weights)
        now, at = _iterated(model, now, at, patience)
        if memory is not None:
            memory.save(at)
    evidence, hyperprior = np.array(at.course).T
    history = History(evidence, hyperprior, at.converged)
    return Restart(MixturePrior(at.family, at.weights), history)


def _iterated(
    model: Model, now: _State, at: Climbing, patience: Patience
) -> tuple[_State, Climbing]:
    """Take a step; unless it gains too little, also a second step, and try the leap."""
    course, reach = at.course or (now.objective_parts,), at.reach
    step = _State.at(model, *now.improved(model))
    course = (*course, step.objective_parts)
    converged = step.objective - now.objective <= patience.tolerance * model.n_tasks
    if converged or len(course) > patience.max_iterations:
        return step, Climbing(step.family, step.weights, reach, course, converged)
    further = step.improved(model)
    leap = _leap(model, now, step, further, reach)
    if leap is None:
        now, reach = _State.at(model, *further), max(_FIRST_REACH, reach / _REACH_FACTOR)
    else:
        now, reach = leap, min(_LARGEST_REACH, reach * _REACH_FACTOR)
    return now, Climbing(now.family, now.weights, reach, (*course, now.objective_parts))


@dataclass(frozen=True)
class _State:
    """A mixture, the tasks' shares in it, and both parts of the objective."""

    family: Family
    weights: Float[Array, " L"]
    share: Float[Array, "n L"] | None
    """None where memory does not hold all tasks."""
    sums: Any
    """What the M step must know of all tasks, then."""
    tasks: Float[Array, " L"]
    """Sums of shares."""
    objective_parts: tuple[float, float]

    @classmethod
    def at(cls, model: Model, family: Family, weights: Float[Array, " L"]) -> _State:
        """Run the E step."""
        share = sums = None
        if model.elsewhere is None:
            share, evidence = _shares(model, family, weights)
            tasks = share.sum(axis=0)
        else:
            evidence, tasks, sums = model.total(_expected, family, weights)
        hyperprior = model.log_hyperprior(family)
        hyperprior += float((model.pseudo_weights * np.log(weights)).sum())
        return cls(family, weights, share, sums, tasks, (evidence, hyperprior))

    @property
    def objective(self) -> float:
        return sum(self.objective_parts)

    def improved(self, model: Model) -> tuple[Family, Float[Array, " L"]]:
        """Run the M step."""
        tasks = self.tasks + model.pseudo_weights
        if self.share is not None:
            return model.improve(self.family, self.share), tasks / tasks.sum()
        if self.sums is None:
            raise StatisticsError(
                "no component explains some of the tasks: their numbers are too far from those of "
                "the sample that learning began with; take a larger one (in_memory)"
            )
        return model.improved(self.family, self.sums), tasks / tasks.sum()


def _shares(
    model: Model, family: Family, weights: Float[Array, " L"]
) -> tuple[Float[Array, "n L"], float]:
    """Compute the shares of the tasks in the components, and the evidence of all."""
    joint = np.log(weights) + model.log_evidence(family)
    largest = joint.max(axis=1, keepdims=True)
    with np.errstate(invalid="ignore"):  # the M step refuses a task that no component explains
        share = np.exp(joint - largest)
    total = share.sum(axis=1, keepdims=True)
    return share / total, float((largest + np.log(total)).sum())


def _expected(
    model: Model, family: Family, weights: Float[Array, " L"]
) -> tuple[float, Float[Array, " L"], Any]:
    """Compute the evidence of some tasks, and their sums for the M step."""
    share, evidence = _shares(model, family, weights)
    sums = model.sums(family, share) if np.isfinite(evidence) else None
    return evidence, share.sum(axis=0), sums


def _leap(
    model: Model,
    start: _State,
    step: _State,
    further: tuple[Family, Float[Array, " L"]],
    reach: float,
) -> _State | None:
    """Return the state that the two steps point to, or None if its objective is lower."""
    points = [
        np.concatenate([np.log(weights), model.pack(family)])
        for family, weights in ((start.family, start.weights), (step.family, step.weights), further)
    ]
    first = points[1] - points[0]
    turn = points[2] - points[1] - first
    length = float(np.linalg.norm(first))
    times = min(reach, length / max(float(np.linalg.norm(turn)), 1e-300))
    if times <= 1:
        return None
    target = points[0] + 2 * times * first + times**2 * turn
    n = len(start.weights)
    family = model.unpack(target[n:], n)
    if family is None:
        return None
    leap = _State.at(model, family, np.asarray(special.softmax(target[:n])))
    # An objective that is NaN fails this comparison, too.
    return leap if leap.objective >= step.objective else None
