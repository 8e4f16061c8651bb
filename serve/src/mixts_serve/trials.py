"""Trials: which tasks are held back for a baseline, and which ones try a challenger.

Tasks are drawn by a keyed hash of their name. So a task stays on its side, in all replicas, after
restarts and under every prior, and nobody who does not know the key can choose a side. Every
decision is logged with its side; all decisions are learned from.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from typing import Any

import numpy as np
from msgspec import Struct, json

from mixts import Greedy, MixturePrior
from mixts.agents import Offer
from mixts.errors import ParameterError
from mixts.extend import Array, Float, RewardBelief, Seed
from mixts_serve.records import Deployment

CONTROL, TREATED, CANARY = "control", "treated", "canary"
"""Sides: decided by the baseline, by the active prior, and by the challenger."""

NO_TRIAL = ""

BESTSELLER, UNIFORM, FIXED = "bestseller", "uniform", "fixed"
"""Baselines, and the policies of their decisions in the log."""

ARM = "arm:"

_NOTE = "holdback"


def place(key: bytes, purpose: str, task: str) -> float:
    """Return the place of a task among all tasks, uniform in [0, 1), for one purpose."""
    content = f"{purpose}\0{task}".encode()
    digest = hashlib.blake2b(content, digest_size=8, key=key).digest()
    return (int.from_bytes(digest, "big") >> 11) / 2**53


class Holdback(Struct, frozen=True):
    """A control group of tasks, decided by what the shop would do without a bandit."""

    share: float
    """Share of the tasks."""
    baseline: str = BESTSELLER
    """How they are decided: "bestseller", "uniform", or "arm:" and the name of an arm."""

    @classmethod
    def checked(cls, share: Any, baseline: Any = None) -> Holdback | None:
        """Return the control group, or None for a share of 0."""
        real = isinstance(share, (int, float, np.number)) and not isinstance(share, bool)
        if not real or not 0 <= share < 1:
            raise ParameterError(
                f"holdback must be a share of the tasks from 0 to below 1, got {share!r}"
            )
        if baseline is not None and share == 0:
            raise ParameterError(
                "a baseline needs a holdback: give the share of tasks that it decides, such as "
                "holdback=0.05 (mixts serve --holdback 5%)"
            )
        name = BESTSELLER if baseline is None else baseline
        is_arm = isinstance(name, str) and name.startswith(ARM) and name != ARM
        if name not in (BESTSELLER, UNIFORM) and not is_arm:
            raise ParameterError(
                "baseline must be 'bestseller', 'uniform', or 'arm:' and the name of an arm, got "
                f"{baseline!r}"
            )
        return cls(float(share), name) if share else None

    @property
    def policy(self) -> str:
        """Name of the baseline in the log."""
        return FIXED if self.baseline.startswith(ARM) else self.baseline

    def arm(self, prior: MixturePrior) -> int | None:
        """Return the fixed arm; None for other baselines. Raise if the prior has no such arm."""
        if self.policy != FIXED:
            return None
        name, names = self.baseline.removeprefix(ARM), prior.arm_names
        if names is None or name not in names:
            known = "the prior names no arms" if names is None else f"arms: {', '.join(names)}"
            raise ParameterError(
                f"the baseline of the holdback is the arm {name!r}, which the prior does not have "
                f"({known}): give another --baseline"
            )
        return names.index(name)


class HoldbackTimes(Struct, frozen=True):
    """When the holdback that was on last was on: only then do both sides live at the same time.

    Another share or another baseline begins anew. Rewards change with time, and a share that
    changed would compare the rewards of one time with those of another.
    """

    holdback: Holdback | None = None
    """None if there never was one."""
    spans: tuple[tuple[int, int | None], ...] = ()
    """Begin and end of each time, in microseconds since 1970; the last has no end if it is on."""

    @classmethod
    def of(cls, source: Any) -> HoldbackTimes:
        """Return what a store, or a transaction, has noted."""
        text = source.note(_NOTE)
        return cls() if text is None else json.decode(text, type=cls)

    @classmethod
    def note(cls, transaction: Any, holdback: Holdback | None) -> None:
        """Note that a decider with this holdback, or with none, decides from now on."""
        now = cls.of(transaction).after(holdback, transaction.now_us())
        transaction.set_note(_NOTE, json.encode(now).decode())

    @property
    def is_on(self) -> bool:
        """Whether tasks are held back at present."""
        return bool(self.spans) and self.spans[-1][1] is None

    def after(self, holdback: Holdback | None, now: int) -> HoldbackTimes:
        """Return the times after a decider with this holdback, or with none, has started."""
        if holdback is None:
            if not self.is_on:
                return self
            return HoldbackTimes(self.holdback, (*self.spans[:-1], (self.spans[-1][0], now)))
        if holdback != self.holdback:
            return HoldbackTimes(holdback, ((now, None),))
        return self if self.is_on else HoldbackTimes(holdback, (*self.spans, (now, None)))


class Sides(Struct, frozen=True):
    """The trials that are on: they say on which side a task is."""

    holdback: Holdback | None
    deployment: Deployment
    key: bytes

    @property
    def are_on(self) -> bool:
        """Whether there is a trial."""
        return self.holdback is not None or self.deployment.canary is not None

    def of(self, task: str, first_at: int) -> str:
        """Return the side of a task that was born at some time."""
        if not self.are_on:
            return NO_TRIAL
        if self.holdback is not None and place(self.key, CONTROL, task) < self.holdback.share:
            return CONTROL
        now = self.deployment
        if now.canary is None or first_at < now.since:
            return TREATED
        # Each canary draws anew: the tasks of an earlier one are not on the same side again.
        drawn = place(self.key, f"{CANARY} {now.canary} {now.since}", task)
        return CANARY if drawn < now.share else TREATED


class Baseline(Greedy):
    """The policy of the control group: it sees every task as a new one.

    The bestseller is the action with the highest mean reward of a new task under the prior; with
    features, that is the mean of the model of all tasks together. A fixed arm that is not
    available, or that another replica has renamed, is replaced by the bestseller.
    """

    def __init__(self, prior: MixturePrior, n_tasks: int, seed: Seed, holdback: Holdback) -> None:
        super().__init__(prior, n_tasks, seed)
        self._is_uniform = holdback.policy == UNIFORM
        self._arm: int | None = None
        with suppress(ParameterError):  # a replica without this holdback may have renamed the arm
            self._arm = holdback.arm(prior)

    def scores(self, rewards: RewardBelief, offer: Offer) -> Float[Array, "m K"]:
        """Return the score of each action: its mean, unless the baseline says otherwise."""
        means = rewards.means()
        if self._is_uniform:
            return np.zeros_like(means)
        if self._arm is not None:
            means = means.copy()
            means[:, self._arm] = np.inf
        return means
