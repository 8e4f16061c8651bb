"""What episodes of a tabular MDP are reduced to: counts."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from mixts.errors import StatisticsError
from mixts.families.statistics import Statistics


class TabularStatistics(Statistics):
    """How often each pair of state and action gave a reward of 1 or 0, and led to each state.

    ``rewards`` (tasks, X, A, 2), ones first; ``transitions`` (tasks, X, A, X). After the last step
    of an episode a pair may have a reward and no transition.
    """

    kind: ClassVar[str] = "tabular-mdp"
    fields: ClassVar[dict[str, Any]] = {"rewards": np.int64, "transitions": np.int64}

    def _check(self) -> None:
        rewards, transitions = self.array("rewards"), self.array("transitions")
        good = rewards.ndim == 4 and rewards.shape[3] == 2 and 0 not in rewards.shape[1:]
        if not good or transitions.shape != (*rewards.shape[:3], rewards.shape[1]):
            raise StatisticsError(
                "expected rewards (tasks, X, A, 2) and transitions (tasks, X, A, X), got "
                f"{rewards.shape} and {transitions.shape}"
            )
        if self.single and len(rewards) != 1:
            raise StatisticsError(f"single statistics hold one task, got {len(rewards)}")
        if (rewards < 0).any() or (transitions < 0).any():
            raise StatisticsError("counts must be at least 0")
        if (transitions.sum(axis=3) > rewards.sum(axis=3)).any():
            raise StatisticsError(
                "every step has a reward, so no pair of state and action can have more "
                "transitions than rewards"
            )

    @property
    def rewards(self) -> Any:
        """How often each pair gave 1 and gave 0, (..., X, A, 2)."""
        return self._view(self.array("rewards"))

    @property
    def transitions(self) -> Any:
        """How often each pair led to each state, (..., X, A, X)."""
        return self._view(self.array("transitions"))

    @property
    def shape(self) -> tuple[int, ...]:
        """(n_states, n_actions)."""
        return self.array("rewards").shape[1:3]

    @property
    def n_observations(self) -> Any:
        """How many steps each task has seen."""
        return self._view(self.array("rewards").sum(axis=(1, 2, 3)))
