"""Expectation and maximisation: the penalised evidence of all tasks, which never falls."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special

from mixts._typing import Array, Float
from mixts.families import Family
from mixts.learning.learned import History
from mixts.learning.models.base import Model
from mixts.prior import MixturePrior

_FIRST_REACH = 4.0
"""How many times the last step a leap may be long, at first."""
_LONGER = 4.0
"""Leaps that succeed may be so much longer the next time."""
_LARGEST_REACH = 4.0**6


@dataclass(frozen=True)
class Patience:
    """When to stop."""

    max_iterations: int = 1000
    tolerance: float = 1e-5
    """Less gain than this, for each task on average, in one iteration is none."""


@dataclass(frozen=True)
class Fit:
    """Where one start led to."""

    prior: MixturePrior
    history: History

    @property
    def objective(self) -> float:
        return float(self.history.objective[-1])


def climb(model: Model, family: Family, weights: Float[Array, " L"], patience: Patience) -> Fit:
    """From a start, to where an iteration gains nothing any more.

    Each task's shares are its posterior over components (E step). A component's weight is its part
    of all tasks and pseudo-tasks, its parameters are improved by the model (M step). Two such steps
    show where they lead, and a leap goes there at once, if the objective does not fall by it:
    Varadhan and Roland's SQUAREM, which saves most of the many small steps.
    """
    now = _State.at(model, family, weights)
    course = [now.objective_parts]
    converged, reach = False, _FIRST_REACH
    while not converged and len(course) <= patience.max_iterations:
        step = _State.at(model, *now.improved(model))
        course.append(step.objective_parts)
        converged = step.objective - now.objective <= patience.tolerance * model.n_tasks
        if converged or len(course) > patience.max_iterations:
            now = step
            break
        further = step.improved(model)
        leap = _leap(model, now, step, further, reach)
        if leap is None:
            now, reach = _State.at(model, *further), max(_FIRST_REACH, reach / _LONGER)
        else:
            now, reach = leap, min(_LARGEST_REACH, reach * _LONGER)
        course.append(now.objective_parts)
    evidence, hyperprior = np.array(course).T
    return Fit(MixturePrior(now.family, now.weights), History(evidence, hyperprior, converged))


@dataclass(frozen=True)
class _State:
    """A mixture, the tasks' shares in it, and both parts of the objective."""

    family: Family
    weights: Float[Array, " L"]
    share: Float[Array, "n L"]
    objective_parts: tuple[float, float]

    @classmethod
    def at(cls, model: Model, family: Family, weights: Float[Array, " L"]) -> _State:
        """The E step."""
        joint = np.log(weights) + model.log_evidence(family)
        largest = joint.max(axis=1, keepdims=True)
        with np.errstate(invalid="ignore"):  # a task that all rule out: the M step will say so
            share = np.exp(joint - largest)
        total = share.sum(axis=1, keepdims=True)
        evidence = float((largest + np.log(total)).sum())
        hyperprior = model.log_hyperprior(family) + model.pseudo * float(np.log(weights).sum())
        return cls(family, weights, share / total, (evidence, hyperprior))

    @property
    def objective(self) -> float:
        return sum(self.objective_parts)

    def improved(self, model: Model) -> tuple[Family, Float[Array, " L"]]:
        """The M step."""
        tasks = self.share.sum(axis=0) + model.pseudo
        return model.improve(self.family, self.share), tasks / tasks.sum()


def _leap(
    model: Model,
    start: _State,
    step: _State,
    further: tuple[Family, Float[Array, " L"]],
    reach: float,
) -> _State | None:
    """Where the two steps lead to, or None where the objective would fall."""
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
    # Not a number is not at least anything.
    return leap if leap.objective >= step.objective else None
