"""Observers: they watch an agent while a simulation plays it, round by round.

An observer is sent to workers with the simulation. For every block of runs it starts a recorder,
which sees each round twice, before and after the agent learns from it, and which changes nothing.
The arrays that recorders return are in ``results.observed``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np

from mixts._typing import Array, Int
from mixts.environments.base import Offer, Outcome, Problem
from mixts.errors import ParameterError
from mixts.prior import MixturePrior


class Round(NamedTuple):
    """A round of all runs of a block, after its outcomes are known."""

    rng: np.random.Generator
    """Generator for what a recorder samples; the agent has its own."""
    belief: Any
    """The agent's belief; None if the agent has none."""
    sampled: Any
    """S_t, the latent states that the agent sampled; None if it samples none."""
    offer: Offer
    """The action sets and masks from which the agent chose."""
    chosen: Any
    """The agent's choice."""
    outcome: Outcome
    """Feedback, rewards and true means."""


class Recorder(ABC):
    """Record of one block of runs; subclasses choose what to keep."""

    def before_update(self, round_: Round) -> None:
        """Record a round before the agent learns from it."""
        return None

    def after_update(self, round_: Round) -> None:
        """Record a round after the agent has learned from it."""
        return None

    @abstractmethod
    def arrays(self) -> dict[str, Array]:
        """Return the recorded arrays, by name; their first axis is the runs."""


class RoundRecorder(Recorder):
    """Recorder that keeps some numbers of each round and run, measured before the update."""

    def __init__(self) -> None:
        self._rounds: list[dict[str, Array]] = []

    @abstractmethod
    def measure(self, round_: Round) -> dict[str, Array]:
        """Return arrays with an entry for each run."""

    def before_update(self, round_: Round) -> None:
        self._rounds.append(self.measure(round_))

    def arrays(self) -> dict[str, Array]:
        """Return what was measured, each array of shape (n, n_rounds)."""
        return {
            name: np.stack([one[name] for one in self._rounds], axis=1) for name in self._rounds[0]
        }


class Observer(ABC):
    """Something to watch in a simulation: ``simulate(..., observe=observer)``.

    Observers must be picklable where worker processes play.
    """

    @abstractmethod
    def start(self, agent: Any, problem: Problem) -> Recorder:
        """Return a recorder for one block of runs.

        Parameters
        ----------
        agent
            The agent that plays the block; its belief is the prior.
        problem
            The block's sampled problems, with the true latent states.
        """


def check_latent(latent: Int[Array, " n"], prior: MixturePrior) -> None:
    """Raise ``ParameterError`` for true latent states that are not components of the prior."""
    outside = (latent < 0) | (latent >= prior.n_components)
    if outside.any():
        raise ParameterError(
            f"the environment's latent states must be the prior's components, 0 to "
            f"{prior.n_components - 1}, got {int(latent[np.argmax(outside)])}: give the prior "
            "that the environment draws from, or one with the same components"
        )
