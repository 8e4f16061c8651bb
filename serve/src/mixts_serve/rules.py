"""The settings that every batch follows: policy, reward window, default reward, holdback."""

from __future__ import annotations

import math
from inspect import signature
from typing import Any

import numpy as np
from msgspec import Struct, json

from mixts import MixturePrior
from mixts.agents import BeliefAgent, MixTS, NewShare, policy_named
from mixts.errors import MixtsError, ParameterError
from mixts.extend import Array, Float, Seed, checks
from mixts.families import Statistics
from mixts_serve.shards import Shard, kept_shard
from mixts_serve.store import DecisionStore
from mixts_serve.store.base import Transaction
from mixts_serve.trials import Holdback

DEFAULT_POLICY = "ids"
"""Policy if none is named: information-directed sampling, which earns more than Thompson sampling
while a task is new."""


DEFAULT_EXPLORE = 0.01
"""Share of the decisions drawn evenly if none is given. It costs at most this share of rewards that
are not negative, and lets a log say what other policies would have earned."""


_NOTE = "reward window"
"""Name of the note with the reward window, in microseconds, and the default reward."""
_NO_WINDOW = "[null,null]"
"""What a store without this note means."""


class Policy(Struct, frozen=True):
    """A policy of ``mixts.agents.POLICIES`` with its settings; the same for every task."""

    name: str
    horizon: int | None = None
    """Expected number of decisions of a task; None: no end in sight."""
    explore: float = DEFAULT_EXPLORE
    """Share of the decisions that is drawn evenly among the available actions."""
    new_item_share: NewShare | None = None
    """Smallest and largest probability of all new arms together; None: no limit."""

    @classmethod
    def checked(
        cls,
        name: Any,
        horizon: Any = None,
        explore: Any = DEFAULT_EXPLORE,
        new_item_share: Any = None,
    ) -> Policy:
        """Return the policy; raise ``ParameterError`` if it cannot be served."""
        agent = policy_named(name)
        if not _is_number(explore) or not 0 <= explore <= 1:
            raise ParameterError(f"explore must be a number between 0 and 1, got {explore!r}")
        if agent.deterministic and explore == 0:
            raise ParameterError(
                f"policy {name!r} always takes its best action, so the logged propensities would "
                "be 0 and 1, which support no off-policy evaluation: draw a share of the decisions "
                "evenly, such as explore=0.01 (mixts serve --explore 1%)"
            )
        if horizon is not None:
            horizon = checks.count(horizon, "horizon")
            if "horizon" not in signature(agent).parameters:
                raise ParameterError(
                    f"policy {name!r} does not explore, so it has no use for a horizon: leave the "
                    "horizon out"
                )
        share = None if new_item_share is None else NewShare.checked(new_item_share)
        return cls(name, horizon, float(explore), share)

    @property
    def uses_waiting(self) -> bool:
        """Whether decisions depend on earlier ones whose rewards have not come.

        Those of Thompson sampling do only with a horizon, in which the earlier ones are counted.
        """
        return policy_named(self.name) is not MixTS or self.horizon is not None

    def resume(self, prior: MixturePrior, statistics: Statistics, seed: Seed) -> BeliefAgent:
        """Return an agent with this policy that continues from statistics of tasks."""
        settings = {} if self.horizon is None else {"horizon": self.horizon}
        return policy_named(self.name).resume(prior, statistics, seed, **settings)


class Rules(Struct, frozen=True):
    """Settings of the decider that every batch follows."""

    policy: Policy
    window_us: int | None = None
    """Microseconds after a decision in which its reward is on time; None: always."""
    default_reward: float | None = None
    """Reward of a decision if no other comes within the window; None: there is none."""
    holdback: Holdback | None = None
    """The control group; None: there is none."""
    shard: Shard | None = None
    """The tasks that this store has; None: all."""

    @classmethod
    def checked(
        cls,
        policy: Policy,
        reward_window: float | None = None,
        default_reward: float | None = None,
        holdback: float = 0.0,
        baseline: str | None = None,
        shard: str | None = None,
    ) -> Rules:
        """Return the settings, from times in seconds; raise ``ParameterError`` for wrong ones."""
        window = _window(reward_window)
        if default_reward is not None:
            default_reward = _default(default_reward)
            if window is None:
                raise ParameterError(
                    "default_reward needs a reward_window, after which silence counts: give both, "
                    "such as reward_window=1800 (mixts serve --reward-window 30m)"
                )
        window_us = None if window is None else max(1, round(window * 1e6))
        held, part = Holdback.checked(holdback, baseline), Shard.checked(shard)
        return cls(policy, window_us, default_reward, held, part)

    @classmethod
    def of(cls, source: Transaction | DecisionStore) -> Rules:
        """Return the shard, and the reward window and default reward of the last service."""
        window_us, default = json.decode(source.note(_NOTE) or _NO_WINDOW)
        return cls(Policy(DEFAULT_POLICY), window_us, default, shard=kept_shard(source))

    def keep(self, transaction: Transaction) -> None:
        """Write the reward window and the default reward to the store, for other writers."""
        transaction.set_note(_NOTE, self._note)

    def is_kept(self, store: DecisionStore) -> bool:
        """Return whether a store has this reward window and this default reward."""
        return (store.note(_NOTE) or _NO_WINDOW) == self._note

    @property
    def _note(self) -> str:
        return json.encode([self.window_us, self.default_reward]).decode()

    def check(self, prior: MixturePrior) -> None:
        """Raise ``ParameterError`` for a prior that these settings do not fit."""
        if self.holdback is not None:
            self.holdback.arm(prior)
        if self.default_reward is None:
            return
        statistics, actions = prior.family.empty_statistics(1), trial_actions(prior)
        try:
            observed = statistics.observations(
                0 if actions is None else actions[0], self.default_reward
            )
            statistics.observe(np.zeros(1, np.int64), observed)
        except MixtsError as error:
            raise ParameterError(
                f"default_reward must be a possible reward of {prior.family!r}: {error}"
            ) from error

    def due(self, start: int) -> int | None:
        """Return the end of a window that begins at ``start``, or None if there is no window."""
        return None if self.window_us is None else start + self.window_us


def _is_number(value: Any) -> bool:
    real = isinstance(value, (int, float, np.integer, np.floating))
    return real and not isinstance(value, bool)


def _window(given: float | None) -> float | None:
    """Return the window in seconds; raise ``ParameterError`` if it is not a positive time."""
    if given is not None and (not _is_number(given) or not 0 < given < 1e9):
        raise ParameterError(f"reward_window must be seconds above 0, got {given!r}")
    return given


def _default(given: float) -> float:
    if not _is_number(given) or not math.isfinite(given):
        raise ParameterError(f"default_reward must be a finite number, got {given!r}")
    return float(given) + 0.0  # -0.0 is stored as 0.0


def trial_actions(prior: MixturePrior) -> Float[Array, "2 d"] | None:
    """Return two actions for a trial decision, or None for a prior of arms."""
    n_features = prior.family.n_features
    return None if n_features is None else np.eye(2, n_features)
