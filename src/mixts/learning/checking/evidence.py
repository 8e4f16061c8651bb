"""The evidence of held-out tasks under a prior and under those that it is compared with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy import special

from mixts._numbers import Estimate, estimate
from mixts._typing import Array, Bool, Float, Int
from mixts.families import Statistics
from mixts.prior import MixturePrior


def component_evidence(prior: MixturePrior, statistics: Statistics) -> Float[Array, "n L"]:
    """ln p(task | s) with all constants; -inf where a component rules the task out."""
    return prior.family.log_evidence(statistics)


def fitting(prior: MixturePrior, statistics: Statistics) -> None:
    """Statistics of the prior's kind and shape, or an error that says what they are."""
    prior.family.check_statistics(statistics)


def mixture_evidence(prior: MixturePrior, statistics: Statistics) -> Float[Array, " n"]:
    """ln sum_s w_s p(task | s)."""
    joint = prior.log_weights + component_evidence(prior, statistics)
    return np.asarray(special.logsumexp(joint, axis=1))


@dataclass(frozen=True)
class Evidence:
    """Held-out log evidence, task by task, of a prior and of those it is compared with.

    Means are over the tasks that all of them can explain; ``impossible`` says how many each cannot.
    """

    log_evidence: Mapping[str, Float[Array, " n"]]
    """By name; the first is the prior that is checked."""
    n_observations: Int[Array, " n"]

    @property
    def names(self) -> list[str]:
        """The prior that is checked, then the others."""
        return list(self.log_evidence)

    @property
    def compared(self) -> Bool[Array, " n"]:
        """The tasks that every prior can explain."""
        every = np.stack(list(self.log_evidence.values()))
        return np.asarray(np.isfinite(every).all(axis=0))

    def impossible(self, name: str) -> int:
        """How many tasks have seen what this prior holds to be impossible."""
        return int((~np.isfinite(self.log_evidence[name])).sum())

    def a_task(self, name: str) -> Estimate:
        """The mean log evidence of a task."""
        return estimate(self.log_evidence[name][self.compared])

    def an_observation(self, name: str) -> Estimate:
        """All log evidence over all observations: a quotient of means, with its standard error."""
        value, n = self.log_evidence[name][self.compared], self.n_observations[self.compared]
        if not n.sum():
            return Estimate(np.nan, np.nan)
        ratio = value.sum() / n.sum()
        return Estimate(float(ratio), estimate((value - ratio * n) / n.mean()).error)

    def gain(self, name: str) -> Estimate:
        """By how much more the checked prior says of a task, from differences task by task."""
        own = self.log_evidence[self.names[0]]
        return estimate(own[self.compared] - self.log_evidence[name][self.compared])
