"""When a refit is deployed: at once, on a click, or by evidence; and whether a canary stays.

A refit carries its wish in its row, so all replicas follow the same one. Each transition is a row
of ``activations``, written in a transaction that finds the last row as it was when it was judged:
one replica makes it, and whatever a person did meanwhile wins.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from msgspec import Struct, json

from mixts.errors import MixtsError, ParameterError
from mixts_serve.challenger import ContestWatch, waiting_version
from mixts_serve.lift import Difference, Lift
from mixts_serve.records import Deployment, Pedigree
from mixts_serve.store import DecisionStore
from mixts_serve.store.base import LAST_ACTIVATION
from mixts_serve.trials import CANARY, TREATED
from mixts_serve.versions import LoadedPrior
from mixts_serve.worth import Contrast, compare_rewards

log = logging.getLogger("mixts_serve")

AT_ONCE, ASK = "refit", "ask"

CANARY_TASKS = 5_000
"""Tasks of the canary, with rewards, after which it is promoted if it has not lost: see
``benchmarks/service/canaries.py`` for the losses that are found by then."""

CANARY_DAYS = 14.0
"""Days after which it is promoted if it has not lost, however few tasks it had."""

_NOTE = "promotion"
_DAY = 86_400.0

_REFIT = "SELECT pedigree FROM priors WHERE version = ?"
_REST = 20.0
"""Pause after reading the sides, in times of its duration."""

Deploy = Callable[[int, int, float, str], bool]
"""See ``Decider.deploy``."""


class Promotion(Struct, frozen=True):
    """When a refit that passed its checks is deployed, and for which share of tasks at first."""

    rule: str = AT_ONCE
    """"refit": at once; "ask": by a person; or the evidence that it must reach, such as "100"."""
    canary: float = 0.0
    """Share of the new tasks that try it before it is activated; 0: none."""

    @classmethod
    def checked(cls, rule: Any, canary: Any = 0.0) -> Promotion:
        """Return the settings; raise ``ParameterError`` for wrong ones."""
        is_number = isinstance(rule, int | float | np.number) and not isinstance(rule, bool)
        if is_number and 1 < rule < math.inf:
            rule = f"{rule:g}"
        if rule not in (AT_ONCE, ASK) and not (isinstance(rule, str) and _number(rule) > 1):
            raise ParameterError(
                f"promote must be 'refit', 'ask' or a number above 1, such as 100, got {rule!r}"
            )
        real = isinstance(canary, int | float | np.number) and not isinstance(canary, bool)
        if not real or not 0 <= canary < 1:
            raise ParameterError(
                f"canary must be a share of the new tasks from 0 to below 1, got {canary!r}"
            )
        return cls(rule, float(canary))

    @classmethod
    def of(cls, store: DecisionStore) -> Promotion:
        """Return the settings of the service that was started last on a store."""
        text = store.note(_NOTE)
        return cls() if text is None else json.decode(text, type=cls)

    def keep(self, transaction: Any) -> None:
        """Write the settings to the store: refits follow them unless they are told otherwise."""
        transaction.set_note(_NOTE, json.encode(self).decode())

    @property
    def is_at_once(self) -> bool:
        """Whether a refit is activated by the transaction that stores it."""
        return self.rule == AT_ONCE and not self.canary

    @property
    def limit(self) -> float | None:
        """The evidence that a refit must reach; None if a person decides."""
        return {AT_ONCE: 0.0, ASK: None}.get(self.rule, _number(self.rule))


def _number(text: str) -> float:
    """Return a finite number above 1, or 0."""
    try:
        found = float(text)
    except ValueError:
        return 0.0
    return found if 1 < found < math.inf else 0.0


class Trial(Struct, frozen=True):
    """A canary, and how its tasks compare with those of the active version."""

    deployment: Deployment
    rewards: Lift
    """The canary's tasks, compared with the others that were born since it began."""
    days: float
    """Days since it began whose decisions are final."""

    @property
    def tasks(self) -> int:
        """Number of the canary's tasks with a final reward."""
        return self.rewards.treated.tasks

    @property
    def reward(self) -> Difference | None:
        """Mean reward of a decision, compared; None while a side has no task."""
        return self.rewards.per_decision

    @property
    def verdict(self) -> tuple[bool, str] | None:
        """Whether the canary is promoted, and why; None while it goes on.

        It is withdrawn when the interval of the difference is below zero, and promoted when it is
        above zero, or after so many tasks or days, unless no rewards tell anything.
        """
        direction = 0 if self.reward is None else self.reward.direction
        if direction < 0:
            return False, f"it earns less than version {self.deployment.version}: {self.words}"
        if direction > 0:
            return True, f"it earns more than version {self.deployment.version}: {self.words}"
        if self.tasks >= CANARY_TASKS:
            return True, f"it has not lost in {self.tasks:,} tasks: {self.words}"
        if self.days >= CANARY_DAYS:
            if self.reward is None:
                return False, f"no rewards tell in {CANARY_DAYS:g} days what it earns"
            return True, f"it has not lost in {CANARY_DAYS:g} days: {self.words}"
        return None

    @property
    def words(self) -> str:
        """The comparison in words."""
        if self.reward is None:
            return "no rewards to compare"
        words = f"reward a decision {self.reward.treated:.4g} against {self.reward.control:.4g}"
        if self.reward.interval is None:
            return f"{words}, too few tasks to compare"
        low, high = self.reward.interval
        return f"{words}, difference {low:+.3g} to {high:+.3g}"


def read_trial(store: DecisionStore) -> Trial | None:
    """Return the canary of a store and its comparison; None if there is none.

    Parameters
    ----------
    store : DecisionStore
        The store.

    Returns
    -------
    Trial or None
        Tasks that were born since the canary began, and their final decisions.
    """
    deployment = store.deployment()
    if deployment is None or deployment.canary is None:
        return None
    now, since = store.backend.now_us(), deployment.since
    final = store.final_until(now / 1e6)
    contrast = Contrast(((since, None),), TREATED, (CANARY,), only_new=True)
    rewards = compare_rewards(store, contrast, final)
    return Trial(deployment, rewards, max(min(now / 1e6, final) - since / 1e6, 0.0) / _DAY)


class Promoter(ContestWatch):
    """Deploys refits by their wishes, and judges canaries, in the thread that keeps the account."""

    thread_name = "mixts-promotion"
    trouble = "refits wait for their deployment until the store can be used"

    def __init__(
        self, store: DecisionStore, load: Callable[[int], LoadedPrior], deploy: Deploy
    ) -> None:
        super().__init__(store, load)
        self._deploy = deploy
        self.trial: Trial | None = None
        """The canary, as it was compared last."""

    def work(self) -> float:
        """Read a piece of the account; after the last one, deploy what is due."""
        if not self.poll():
            return self.rest()
        started = time.monotonic()
        self.judge()
        return max(self.pause(), _REST * (time.monotonic() - started))

    def judge(self) -> None:
        """Judge the canary, or deploy the refit that waits, if its time has come."""
        # Read first: everything that a person does later makes the transition void.
        last = self._store.backend.value(LAST_ACTIVATION)
        self.trial = read_trial(self._store)
        if self.trial is not None:
            self._end(self.trial, last)
        else:
            self._begin(last)

    def _end(self, trial: Trial, last: int) -> None:
        version, verdict = trial.deployment.canary, trial.verdict
        if verdict is None or version is None:
            return
        promoted, reason = verdict
        if self._deploy(last, version, float(promoted), reason):
            self.trial = None
            log.warning(
                "version %d of the prior was %s: %s", version,
                "promoted after its canary" if promoted else "withdrawn", reason,
            )  # fmt: skip

    def _begin(self, last: int) -> None:
        """Deploy the refit that waits, if it has the evidence it needs.

        One that did not pass its checks has the wish that a person decides.
        """
        version = waiting_version(self._store)
        text = None if version is None else self._store.backend.value(_REFIT, (version,))
        if version is None or not text:
            return  # nothing waits, or a person uploaded it and will activate it
        made = json.decode(text, type=Pedigree)
        wish = Promotion(made.promote or AT_ONCE, made.canary)
        if made.change != "refit" or wish.limit is None or wish.is_at_once:
            return
        reason = "its refit passed its checks"
        if wish.limit:
            account = self.account
            if account is None or account.contest.challenger != version:
                return
            if account.log_evidence < math.log(wish.limit):
                return
            reason = account.words
        share = wish.canary or 1.0
        try:
            is_done = self._deploy(last, version, share, reason)
        except ParameterError as error:
            raise MixtsError(f"version {version} cannot be deployed: {error}") from error
        if is_done:
            tries = f"decides for {share:.3g} of the new tasks" if share < 1 else "was activated"
            log.warning("version %d of the prior %s: %s", version, tries, reason)
