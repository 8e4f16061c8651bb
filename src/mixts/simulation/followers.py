"""MixTS as simulations play it, followed round by round: what diagnostics are made of.

A follower is an agent to a simulation and decides, to the bit, as MixTS would. Before each outcome
is learned a measure is shown the round, with the belief by which it was decided.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from mixts._typing import Array, Int
from mixts.agents import MixTS
from mixts.belief import Belief
from mixts.errors import ParameterError
from mixts.prior import MixturePrior


class Decided(NamedTuple):
    """A round of all runs after its outcomes are known, and before they are learned."""

    rng: np.random.Generator
    """For what a measure samples; the agents have their own."""
    belief: Belief
    latent: Int[Array, " n"]
    """S_t, the latent states that were sampled."""
    chosen: Any
    feedback: tuple[Any, ...]
    actions: Any = None
    """The action sets on offer; None where the actions are fixed."""


Measurement = Callable[[Decided], tuple[Array, ...]]
"""Reads the belief before a round's update and changes nothing; its arrays have an entry a run."""


class Follower:
    """MixTS for a block of runs, with a measure that looks at each round before it is learned."""

    def __init__(
        self,
        prior: MixturePrior,
        measure: Measurement,
        n_tasks: int,
        seed: np.random.SeedSequence,
    ) -> None:
        # A child of the agent's seed is independent of it, and what the agent draws stays the same.
        self._rng = np.random.default_rng(seed.spawn(1)[0])
        self._agent = MixTS(prior, n_tasks, seed)
        self._measure = measure
        self._rounds: list[tuple[Array, ...]] = []
        self._chosen: Any = None
        self._actions: Any = None

    @property
    def belief(self) -> Belief:
        """What is believed now."""
        return self._agent.belief

    def act(self, actions: Any = None, tasks: Any = None, mask: Any = None) -> Any:
        """MixTS's own decision."""
        self._actions = actions
        self._chosen = self._agent.act(actions, tasks, mask)
        return self._chosen

    def update(self, *feedback: Any) -> None:
        """Measure with the belief as it was when the decision was made, then learn."""
        agent = self._agent
        latent = agent.last_latent
        decided = Decided(self._rng, agent.belief, latent, self._chosen, feedback, self._actions)
        self._rounds.append((latent, *self._measure(decided)))
        agent.update(*feedback)

    @property
    def columns(self) -> list[Array]:
        """S_t and then what was measured, each (n, n_rounds)."""
        return [np.stack(column, axis=1) for column in zip(*self._rounds, strict=True)]


def check_latent(latent: Int[Array, " n"], prior: MixturePrior) -> None:
    """Refuse true latent states that are none of the prior's components."""
    outside = (latent < 0) | (latent >= prior.n_components)
    if outside.any():
        raise ParameterError(
            f"the environment's latent states must be the prior's components, 0 to "
            f"{prior.n_components - 1}, got {int(latent[np.argmax(outside)])}: give the prior "
            "that the environment draws from, or one with the same components"
        )
