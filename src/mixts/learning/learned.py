"""What learning gives: the prior, how it was found, and how many components were compared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from mixts._typing import Array, Float
from mixts.prior import MixturePrior

Method = Literal["evidence", "two-stage"]


@dataclass(frozen=True)
class History:
    """The course of one restart: both parts of what is maximised, after each iteration."""

    log_evidence: Float[Array, " t"]
    """sum over tasks of ln sum_s w_s p(task | s); its first entry is that of the start."""
    log_hyperprior: Float[Array, " t"]
    """What keeps components with few tasks from collapsing, up to a constant."""
    converged: bool
    """Whether it ended because nothing more was gained."""

    @property
    def objective(self) -> Float[Array, " t"]:
        """The sum of both, which never falls."""
        return np.asarray(self.log_evidence + self.log_hyperprior)

    @property
    def n_iterations(self) -> int:
        """How often all components were improved."""
        return len(self.log_evidence) - 1


@dataclass(frozen=True)
class Selection:
    """Numbers of components, compared by what they say of tasks that they were not learned from."""

    candidates: tuple[int, ...]
    held_out: Float[Array, "c n"]
    """The held-out log evidence of every task under each candidate."""
    bic: Float[Array, " c"]
    """Of the fit to all tasks: -2 log evidence + parameters times ln(tasks); less is better."""
    chosen: int
    n_folds: int

    @property
    def mean(self) -> Float[Array, " c"]:
        """The mean held-out log evidence of a task."""
        return np.asarray(self.held_out.mean(axis=1))

    @property
    def best(self) -> int:
        """The index of the candidate with the largest mean."""
        return int(np.argmax(self.mean))

    @property
    def gap(self) -> Float[Array, " c"]:
        """How much less than the best each candidate says of a task, on average."""
        return np.asarray(self.mean[self.best] - self.mean)

    @property
    def standard_error(self) -> Float[Array, " c"]:
        """Of the gap; see :func:`gap_error`."""
        return gap_error(self.held_out, self.n_folds)


def gap_error(held_out: Float[Array, "c n"], n_folds: int) -> Float[Array, " c"]:
    """The standard error of each candidate's mean difference from the best one's, task by task.

    Folds share most of their training tasks, so that their errors go together: Nadeau and Bengio's
    correction (2003) makes it sqrt(1 + k / (k - 1)) times that of independent differences.
    """
    n = held_out.shape[1]
    if n < 2:
        return np.zeros(len(held_out))
    difference = held_out[np.argmax(held_out.mean(axis=1))] - held_out
    plain = difference.std(axis=1, ddof=1) / np.sqrt(n)
    return np.asarray(plain * np.sqrt(1 + n_folds / (n_folds - 1)))


@dataclass(frozen=True)
class Learned:
    """A learned prior with all that is known about how it was learned."""

    prior: MixturePrior
    unimodal: MixturePrior
    """One component, learned from the same tasks in the same way: UniTS's prior."""
    method: Method
    history: History | None = None
    """Of the restart that was best; None where nothing is iterated."""
    restarts: tuple[History, ...] = ()
    """Of all restarts with the chosen number of components."""
    selection: Selection | None = None
    """Where the number of components was found by comparison."""
