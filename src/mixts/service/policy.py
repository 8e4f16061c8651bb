"""The policy of a decider: how it acts on a belief, for how long, and with which floor."""

from __future__ import annotations

from inspect import signature
from typing import Any

import numpy as np
from msgspec import Struct

from mixts import _checks
from mixts._typing import Seed
from mixts.agents import BeliefAgent, MixTS, policy_named
from mixts.agents.new_arms import NewShare
from mixts.errors import ParameterError
from mixts.families import Statistics
from mixts.prior import MixturePrior

DEFAULT_POLICY = "ids"
"""Policy of a decider and of ``mixts serve`` that name none: information-directed sampling, which
earns more than Thompson sampling while a task is new."""


class Policy(Struct, frozen=True):
    """A policy of ``mixts.agents.POLICIES`` with its settings; the same for every task."""

    name: str
    horizon: int | None = None
    """Expected number of decisions of a task; None: no end in sight."""
    floor: float = 0.0
    """Smallest probability that an available action may have."""
    new_item_share: NewShare | None = None
    """Smallest and largest probability of all new arms together; None: no limit."""

    @classmethod
    def checked(
        cls, name: Any, horizon: Any = None, floor: Any = 0.0, new_item_share: Any = None
    ) -> Policy:
        """Return the policy; raise ``ParameterError`` if it cannot be served."""
        agent = policy_named(name)
        number = isinstance(floor, (int, float, np.number)) and not isinstance(floor, bool)
        if not number or not 0 <= floor <= 1:
            raise ParameterError(f"floor must be a number between 0 and 1, got {floor!r}")
        if agent.deterministic and floor == 0:
            raise ParameterError(
                f"policy {name!r} always takes its best action, so the logged propensities would "
                "be 0 and 1, which support no off-policy evaluation: give a floor above 0, such "
                "as floor=0.01 (mixts serve --floor 1%)"
            )
        if horizon is not None:
            horizon = _checks.count(horizon, "horizon")
            if "horizon" not in signature(agent).parameters:
                raise ParameterError(
                    f"policy {name!r} does not explore, so it has no use for a horizon: leave the "
                    "horizon out"
                )
        share = None if new_item_share is None else NewShare.checked(new_item_share)
        return cls(name, horizon, float(floor), share)

    @property
    def uses_waiting(self) -> bool:
        """Whether decisions depend on earlier ones whose rewards have not come.

        Those of Thompson sampling do so only at a horizon: there they count as made.
        """
        return policy_named(self.name) is not MixTS or self.horizon is not None

    def resume(self, prior: MixturePrior, statistics: Statistics, seed: Seed) -> BeliefAgent:
        """Return an agent with this policy that continues from statistics of tasks."""
        settings = {} if self.horizon is None else {"horizon": self.horizon}
        return policy_named(self.name).resume(prior, statistics, seed, **settings)

    def check_floor(self, prior: MixturePrior) -> None:
        """Raise ``ParameterError`` if the arms of a prior cannot all have the floor."""
        n_arms = prior.family.n_arms
        if n_arms is not None and self.floor > 1 / n_arms:
            raise ParameterError(f"floor must be at most 1 / {n_arms} arms, got {self.floor!r}")
