"""What an environment is: it draws problems, offers actions, and answers choices.

It never counts regret: it only says what choices are truly worth, and simulation compares. An
action is whatever agents choose: an arm, a row of an action set, or a policy whose outcome is a
trajectory.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from mixts._typing import Array, Bool, Float, Int
from mixts.errors import ActionError

Streams = Callable[[str], np.random.Generator]
"""The generator of a role: the same role, the same numbers, whichever agent plays."""


class Offer(NamedTuple):
    """What agents may choose from in one round: the arguments of ``agent.act``."""

    actions: Array | None = None
    """Action sets, (K, d) or (n, K, d); None where the actions are fixed."""
    mask: Bool[Array, "n K"] | None = None
    """True where an action is available; None where all are."""


class Outcome(NamedTuple):
    """What one round gave, for each run."""

    feedback: tuple[Any, ...]
    """All that the agent is told: the arguments of ``agent.update``."""
    rewards: Float[Array, " n"]
    values: Float[Array, " n"]
    """The true mean reward of what was chosen."""
    best: Float[Array, " n"]
    """The largest true mean reward that could have been chosen."""


class Problem(ABC):
    """A batch of runs, one sampled problem for each, played in lockstep round by round."""

    latent: Int[Array, " n"]
    """The true latent state of each run; -1 where there is none."""

    @abstractmethod
    def next_round(self) -> Offer:
        """Move on to the next round: what may be chosen in it."""

    @abstractmethod
    def play(self, chosen: Any) -> Outcome:
        """Carry out what ``agent.act`` chose; takes equally many random numbers whatever it was."""


class Environment(ABC):
    """A distribution of problems; immutable, and picklable where worker processes play it."""

    @property
    @abstractmethod
    def task_bytes(self) -> int:
        """About how much memory an agent that knows the problem's prior needs for one run."""

    @abstractmethod
    def start(self, streams: Streams, n_tasks: int) -> Problem:
        """Draw a problem for each of ``n_tasks`` runs; equal streams give equal problems."""


def checked_choice(chosen: Any, n_tasks: int, n_actions: int) -> Int[Array, " n"]:
    """One action for each run; choices of agents that are not ours may be anything."""
    index = np.asarray(chosen)
    good = index.shape == (n_tasks,) and index.dtype.kind in "iu"
    if not good or index.min() < 0 or index.max() >= n_actions:
        raise ActionError(
            f"act must choose one of {n_actions} actions for each of {n_tasks} tasks: {n_tasks} "
            f"integers from 0 to {n_actions - 1}; got {chosen!r}"
        )
    return index
