"""Evidence of tasks under a prior, and beside other priors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy import special

from mixts._numbers import Estimate, estimate
from mixts._typing import Array, Bool, Float, Int
from mixts.families import Statistics
from mixts.prior import MixturePrior


def mixture_evidence(prior: MixturePrior, statistics: Statistics) -> Float[Array, " n"]:
    """Compute ln sum_s w_s p(task | s) for each task.

    Parameters
    ----------
    prior
        The prior.
    statistics
        Statistics of tasks, of the prior's family.

    Returns
    -------
    array
        One number for each task; -inf where every component rules the task out.
    """
    joint = prior.log_weights + prior.family.log_evidence(statistics)
    return np.asarray(special.logsumexp(joint, axis=1))


@dataclass(frozen=True)
class Evidence:
    """Held-out log evidence, task by task, of a prior and of the priors beside it.

    Means are over the tasks that all priors can explain; ``impossible`` counts the others.
    """

    log_evidence: Mapping[str, Float[Array, " n"]]
    """Log evidence of each task by name of the prior; the checked prior comes first."""
    n_observations: Int[Array, " n"]

    @property
    def names(self) -> list[str]:
        """Names of the priors; the checked one comes first."""
        return list(self.log_evidence)

    @property
    def compared(self) -> Bool[Array, " n"]:
        """Tasks that every prior can explain."""
        every = np.stack(list(self.log_evidence.values()))
        return np.asarray(np.isfinite(every).all(axis=0))

    def impossible(self, name: str) -> int:
        """Return how many tasks are impossible under this prior."""
        return int((~np.isfinite(self.log_evidence[name])).sum())

    def a_task(self, name: str) -> Estimate:
        """Return the mean log evidence of a task."""
        return estimate(self.log_evidence[name][self.compared])

    def an_observation(self, name: str) -> Estimate:
        """Return the log evidence of all tasks divided by the number of observations.

        The standard error is that of a ratio of means.
        """
        value, n = self.log_evidence[name][self.compared], self.n_observations[self.compared]
        if not n.sum():
            return Estimate(np.nan, np.nan)
        ratio = value.sum() / n.sum()
        return Estimate(float(ratio), estimate((value - ratio * n) / n.mean()).error)

    def gain(self, name: str) -> Estimate:
        """Return the checked prior's mean gain of log evidence over this one, task by task."""
        own = self.log_evidence[self.names[0]]
        return estimate(own[self.compared] - self.log_evidence[name][self.compared])
