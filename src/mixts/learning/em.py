"""Expectation and maximisation: the penalised evidence of all tasks, which never falls."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special

from mixts.families import Family
from mixts.learning.learned import History
from mixts.learning.models.base import Model
from mixts.mixture import MixturePrior
from mixts.typing import Array, Float


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
    """From a start, to where nothing more is gained.

    Each task's shares are its posterior over components (E step). A component's weight is its part
    of all tasks and pseudo-tasks, its parameters are improved by the model (M step).
    """
    evidence, penalty = [], []
    converged = False
    while True:
        share, total = _shares(model.log_evidence(family), weights)
        evidence.append(total)
        penalty.append(model.log_hyperprior(family) + model.pseudo * float(np.log(weights).sum()))
        if len(evidence) > 1:
            gain = evidence[-1] + penalty[-1] - evidence[-2] - penalty[-2]
            converged = gain <= patience.tolerance * model.n_tasks
        if converged or len(evidence) > patience.max_iterations:
            break
        tasks = share.sum(axis=0) + model.pseudo
        weights = tasks / tasks.sum()
        family = model.improve(family, share)
    history = History(np.array(evidence), np.array(penalty), converged)
    return Fit(MixturePrior(family, weights), history)


def _shares(
    log_evidence: Float[Array, "n L"], weights: Float[Array, " L"]
) -> tuple[Float[Array, "n L"], float]:
    """P(s | task), and the log evidence of all tasks."""
    joint = np.log(weights) + log_evidence
    task: Array = special.logsumexp(joint, axis=1, keepdims=True)
    return np.exp(joint - task), float(task.sum())
