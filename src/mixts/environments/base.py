"""The interface of an environment: it draws problems, offers actions and returns outcomes.

An environment never counts regret: it reports the true mean of each choice, and simulation
compares. An action is whatever agents choose: an arm, a row of an action set, or a policy whose
outcome is a trajectory.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from mixts._typing import Array, ArrayLike, Bool, Float, Int
from mixts.errors import ActionError, ParameterError

Streams = Callable[[str], np.random.Generator]
"""Returns the generator of a role; a role's numbers are the same for every agent."""


class Choices(NamedTuple):
    """The choices of one round: the arguments of ``agent.act``."""

    actions: Array | None = None
    """Action sets, (K, d) or (n, K, d); None where the actions are fixed."""
    mask: Bool[Array, "n K"] | None = None
    """True where an action is available; None where all are."""


class Outcome(NamedTuple):
    """The outcome of one round, for each run."""

    feedback: tuple[Any, ...]
    """The arguments of ``agent.update``."""
    rewards: Float[Array, " n"]
    values: Float[Array, " n"]
    """True mean reward of the choice."""
    best: Float[Array, " n"]
    """Largest true mean reward of any available choice."""


class Problem(ABC):
    """A batch of runs, each with its own sampled problem, played in lockstep."""

    latent: Int[Array, " n"]
    """True latent state of each run; -1 for a run without one."""

    @abstractmethod
    def next_round(self) -> Choices:
        """Begin the next round, and return its choices."""

    @abstractmethod
    def play(self, chosen: Any) -> Outcome:
        """Play the agent's choice; the number of random draws does not depend on it."""


class Environment(ABC):
    """A distribution of problems. Immutable; picklable where worker processes play it."""

    @property
    @abstractmethod
    def task_bytes(self) -> int:
        """Approximate memory of an agent that knows the problem's prior, for one run."""

    @abstractmethod
    def start(self, streams: Streams, n_tasks: int) -> Problem:
        """Draw a problem for each run.

        Parameters
        ----------
        streams
            Returns the generator of a role; equal streams give equal problems.
        n_tasks
            Number of runs.

        Returns
        -------
        Problem
            The problems of all runs.
        """


def checked_choice(
    chosen: Any, shape: tuple[int, ...], mask: Bool[Array, "n K"] | None = None
) -> Int[Array, " n"]:
    """Return one available action for each run; raise ``ActionError`` for anything else."""
    index, (n_tasks, n_actions) = np.asarray(chosen), shape
    good = index.shape == (n_tasks,) and index.dtype.kind in "iu"
    if not good or index.min() < 0 or index.max() >= n_actions:
        raise ActionError(
            f"act must choose one of {n_actions} actions for each of {n_tasks} tasks: {n_tasks} "
            f"integers from 0 to {n_actions - 1}; got {chosen!r}"
        )
    if mask is not None and not mask[np.arange(n_tasks), index].all():
        run = int(np.argmin(mask[np.arange(n_tasks), index]))
        raise ActionError(
            f"act chose action {index[run]} in run {run}, which the mask says is not available"
        )
    return index


def checked_indices(
    values: ArrayLike, n: int, name: str, noun: str = "row of features"
) -> Int[Array, " n"]:
    """Return n indices from 0; raise ``ParameterError`` for anything else."""
    given = np.asarray(values)
    if given.shape != (n,) or given.dtype.kind not in "iu" or given.min(initial=0) < 0:
        raise ParameterError(
            f"{name} must be {n} integers from 0, one for each {noun}, got shape {given.shape} of "
            f"type {given.dtype}"
        )
    return given.astype(np.int64)
