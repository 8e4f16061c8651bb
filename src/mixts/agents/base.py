"""What every agent does: act, update, and say with which probabilities it acts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from mixts import _checks, _random
from mixts._tasks import TaskAxis
from mixts._typing import Array, ArrayLike, Bool, Float, Int, Seed
from mixts.errors import ParameterError
from mixts.families.trajectory import Trajectory
from mixts.prior import MixturePrior


class Agent(ABC):
    """Decides for one task or many, and learns from what comes back.

    The four verbs are the same for all agents, and one conformance suite runs over all of them.
    """

    def __init__(self, n_tasks: int | None, seed: Seed) -> None:
        self._axis = TaskAxis(n_tasks)
        self._rng = _random.generator(seed, "agent")
        self.last_latent: Any = None
        """The latent states that the last ``act`` drew, or None where none was drawn."""

    @property
    def n_tasks(self) -> int | None:
        """None for one task without a task axis."""
        return self._axis.n_tasks

    @abstractmethod
    def act(
        self,
        actions: ArrayLike | None = None,
        tasks: ArrayLike | None = None,
        mask: ArrayLike | None = None,
    ) -> Any:
        """Choose an action for each task, or one independent decision for each entry of ``tasks``.

        Arms: the arm's index. Linear: the row of ``actions``, (K, d) or one set a decision. MDPs:
        the policy of an episode, (h, X).
        ``mask`` (..., K) is true where an action is available.
        """

    @abstractmethod
    def update(
        self,
        actions: ArrayLike | Trajectory,
        outcomes: ArrayLike | None = None,
        tasks: ArrayLike | None = None,
    ) -> None:
        """Learn from outcomes; a refused update changes nothing."""

    @abstractmethod
    def _probabilities(
        self, index: Int[Array, " m"], actions: Array | None, mask: Bool[Array, "m K"]
    ) -> tuple[Float[Array, "m K"], Float[Array, "m K"]]:
        """The probabilities of the actions and their standard errors; checked input.

        Both are zero where the mask is false.
        """

    @abstractmethod
    def _action_sets(self, actions: ArrayLike | None, n_rows: int) -> tuple[Array | None, int]:
        """Check action sets: what to use, and how many actions there are."""

    def _available(
        self, mask: ArrayLike | None, n_rows: int, n_actions: int
    ) -> Bool[Array, "m K"] | None:
        """The checked mask, or None where everything is available."""
        return None if mask is None else _checks.action_mask(mask, n_rows, n_actions)

    def _full_mask(self, mask: ArrayLike | None, n_rows: int, n_actions: int) -> Bool[Array, "m K"]:
        available = self._available(mask, n_rows, n_actions)
        return np.ones((n_rows, n_actions), bool) if available is None else available

    def action_probabilities(
        self,
        actions: ArrayLike | None = None,
        tasks: ArrayLike | None = None,
        mask: ArrayLike | None = None,
    ) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
        """The probability of each action in the next decision, and its standard error.

        Exact numbers have standard error 0; estimates are unbiased.
        """
        index = self._axis.decisions(tasks)
        sets, n_actions = self._action_sets(actions, len(index))
        available = self._full_mask(mask, len(index), n_actions)
        probabilities, errors = self._probabilities(index, sets, available)
        return self._axis.squeeze(probabilities), self._axis.squeeze(errors)

    def act_with_probabilities(
        self,
        actions: ArrayLike | None = None,
        tasks: ArrayLike | None = None,
        mask: ArrayLike | None = None,
        floor: float = 0.0,
    ) -> tuple[Any, Float[Array, "..."], Float[Array, "..."]]:
        """Draw the action from the very probabilities that are returned, fit to be logged.

        Where they are estimated, the number is the true propensity given the draws behind it, and
        over those the action still follows the agent's law exactly. ``floor`` is the least
        probability of every available action: with ``floor > 0``, and only then, the support is
        full.
        """
        index = self._axis.decisions(tasks)
        sets, n_actions = self._action_sets(actions, len(index))
        available = self._full_mask(mask, len(index), n_actions)
        room = _room_above(floor, available)
        probabilities, errors = self._probabilities(index, sets, available)
        if floor > 0:
            probabilities = np.where(available, floor + room * probabilities, 0.0)
            errors = room * errors
        chosen = draw_rows(self._rng, probabilities)
        self.last_latent = None
        self._remember(index, sets, chosen, probabilities)
        return (
            self._axis.squeeze(chosen),
            self._axis.squeeze(probabilities),
            self._axis.squeeze(errors),
        )

    def _remember(
        self,
        index: Int[Array, " m"],
        actions: Array | None,
        chosen: Int[Array, " m"],
        probabilities: Float[Array, "m K"],
    ) -> None:
        """Keep what an update will need of these decisions; most agents need nothing."""
        return None


def without_retired(
    prior: MixturePrior, mask: ArrayLike | None, n_rows: int, n_actions: int
) -> ArrayLike | None:
    """The mask without the prior's retired arms."""
    if not prior.has_retired:
        return mask
    return (
        ~prior.retired
        if mask is None
        else (_checks.action_mask(mask, n_rows, n_actions) & ~prior.retired)
    )


def _room_above(floor: float, available: Bool[Array, "m K"]) -> float | Float[Array, "m 1"]:
    """What is left to share when every available action has its floor."""
    number = isinstance(floor, (int, float, np.number)) and not isinstance(floor, bool)
    if number and floor == 0:
        return 1.0
    n_available = available.sum(axis=1, keepdims=True)
    most = int(n_available.max(initial=1))
    if not number or not 0 <= floor <= 1 / most:
        raise ParameterError(f"floor must be between 0 and 1 / {most} actions, got {floor!r}")
    return 1.0 - floor * n_available


def draw_rows(rng: np.random.Generator, probabilities: Float[Array, "m K"]) -> Int[Array, " m"]:
    """One index for each row of probabilities; never one of probability zero."""
    total = np.cumsum(probabilities, axis=1)
    threshold = rng.random(len(probabilities)) * total[:, -1]
    # The first index whose cumulative sum exceeds the threshold has a positive probability.
    return np.asarray((total > threshold[:, None]).argmax(axis=1))
