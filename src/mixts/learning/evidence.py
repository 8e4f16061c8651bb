"""Log evidence of tasks under a prior, and its comparison with other priors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import special

from mixts._numbers import Estimate, estimate
from mixts._typing import Array, Bool, Float, Int
from mixts.families import Statistics
from mixts.prior import MixturePrior


def mixture_evidence(prior: MixturePrior, statistics: Statistics) -> Float[Array, " n"]:
    """Compute each task's log evidence under the mixture, ln sum_s w_s p(task | s).

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
    """Log evidence of held-out tasks under a checked prior and the priors that it is compared with.

    Means are over the tasks that are possible under every prior; ``impossible`` counts the others.
    """

    log_evidence: Mapping[str, Float[Array, " n"]]
    """Log evidence of each task, by name of the prior; the checked prior comes first."""
    n_observations: Int[Array, " n"]
    """Number of observations of each task."""

    @property
    def names(self) -> list[str]:
        """Names of the priors; the checked prior comes first."""
        return list(self.log_evidence)

    @property
    def compared(self) -> Bool[Array, " n"]:
        """Mask of the tasks that are possible under every prior."""
        finite = [np.isfinite(one) for one in self.log_evidence.values()]
        return np.asarray(np.all(finite, axis=0))

    def impossible(self, name: str) -> int:
        """Return the number of tasks that are impossible under this prior."""
        return int((~np.isfinite(self.log_evidence[name])).sum())

    def a_task(self, name: str) -> Estimate:
        """Return the mean log evidence per task under this prior."""
        return estimate(self.log_evidence[name][self.compared])

    def an_observation(self, name: str) -> Estimate:
        """Return the mean log evidence per observation under this prior.

        The mean is the sum over tasks divided by their number of observations; the standard error
        is that of a ratio of means.
        """
        value, n = self.log_evidence[name][self.compared], self.n_observations[self.compared]
        if not n.sum():
            return Estimate(np.nan, np.nan)
        ratio = value.sum() / n.sum()
        return Estimate(float(ratio), estimate((value - ratio * n) / n.mean()).error)

    def verdict(self, name: str) -> Literal["better", "worse", "no different"]:
        """Compare the checked prior with this one, by two standard errors of the gain.

        A prior that calls a task impossible which the other explains is worse, whatever the gain on
        other tasks.
        """
        ours, theirs = (np.isfinite(self.log_evidence[one]) for one in (self.names[0], name))
        if (~ours & theirs).any():
            return "worse"
        mean, error = self.gain(name)
        if (ours & ~theirs).any() and not mean < 0:
            return "better"
        if not np.isfinite(error) or abs(mean) <= 2 * error:
            return "no different"
        return "better" if mean > 0 else "worse"

    def gain(self, name: str) -> Estimate:
        """Return the mean over tasks of the checked prior's log evidence minus this prior's."""
        checked = self.log_evidence[self.names[0]]
        return estimate(checked[self.compared] - self.log_evidence[name][self.compared])
