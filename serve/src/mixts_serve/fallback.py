"""What a client decides by itself while the service is away, and what it sends afterwards.

Nothing here waits or needs a network: the clients ask for a decision, put what must be sent into
the queue, and take it out again when the service is back.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from itertools import islice, takewhile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mixts import MixturePrior, errors
from mixts.agents import BeliefAgent
from mixts_serve.offers import checked_request, is_named, offered_ids
from mixts_serve.records import Decide, Decision, MadeDecision, Receipt, Reward
from mixts_serve.rules import Policy
from mixts_serve.shards import slot_of

log = logging.getLogger("mixts_serve")

NAME = "fallback"
"""Policy of the client's own decisions."""

LAST = "last"
"""A fallback: the active prior of the service, as this client last fetched it."""

MARK = bytes.fromhex("fa11bacc")
"""What follows the time in the ids of a client's own decisions: digits 13 to 20 are fa11bacc."""

MAX_QUEUED_BYTES = 64 << 20
"""Decisions and rewards that may wait for the service, as they will be sent: about 400,000."""

MOST_SENT, MOST_SENT_BYTES = 250, 1_000_000
"""Size of one request: it takes a service that has just come back a few tenths of a second."""

ASK_SECONDS = 60.0
"""Pause after the active prior was asked for in vain: canaries decide by other versions."""

_GREEDY = Policy("greedy", explore=0.0)

FallbackLike = MixturePrior | os.PathLike[str] | str | int


class Queued(Receipt, frozen=True, omit_defaults=True):
    """Receipt of a reward that the client keeps until the service is back; not durable yet."""


class Kept(NamedTuple):
    """A decision or a reward that waits for the service."""

    body: bytes
    id: str
    """Id of the decision that this is, or that the reward is of."""
    decision: Decision | None = None
    """The decision; None: a reward."""
    key: tuple[str, str] | None = None
    """The task and the caller's key of the decision."""


class Fallback:
    """The decisions of one client while its service is away; threads may share it."""

    def __init__(self, source: FallbackLike, encode: Callable[[Any], bytes]) -> None:
        self.lock = threading.RLock()
        self.is_away = False
        """Whether the service was away when it was last asked."""
        self.asks_for_prior = False
        """Whether to ask which prior is active, and to fetch it."""
        self._asks_at = 0.0
        """Monotonic time before which nothing is asked."""
        self.version = 0
        """Version of the prior that decides; 0: it is none of the service's that is known."""
        self._follows = source == LAST
        self._encode = encode
        self._agent: BeliefAgent | None = None
        self._arm: str | int | None = None
        self._decisions: dict[str, Kept] = {}
        self._by_key: dict[tuple[str, str], str] = {}
        self._rewards: deque[Kept] = deque()
        self._n_bytes = 0
        self._is_full = False
        self._use(source)

    def _use(self, source: FallbackLike) -> None:
        if isinstance(source, os.PathLike):
            source = MixturePrior.load(source)
        if isinstance(source, MixturePrior):
            self.learn(source, 0)
        elif isinstance(source, str) and source != LAST:
            if Path(source).is_file():
                raise errors.ParameterError(
                    f"fallback is the name of an arm, and {source!r} is a file: give "
                    "pathlib.Path(...) for the file of a prior"
                )
            self._arm = source
        elif isinstance(source, int) and not isinstance(source, bool) and source >= 0:
            self._arm = source
        elif source != LAST:
            raise errors.ParameterError(
                "fallback must be a MixturePrior, the pathlib.Path of its file, 'last', or an arm, "
                f"by name or by index, got {source!r}"
            )

    # -- the prior ----------------------------------------------------------------------------

    def learn(self, prior: MixturePrior, version: int) -> None:
        """Decide by this prior from now on."""
        agent = _GREEDY.resume(prior, prior.family.empty_statistics(1), None)
        agent.belief.weights  # noqa: B018  # computed now, not in the first decision
        with self.lock:
            self._agent, self.version, self.asks_for_prior = agent, version, False

    def rest(self) -> None:
        """Ask for no prior for a while: there is no other one, or it cannot be had."""
        with self.lock:
            self._asks_at, self.asks_for_prior = time.monotonic() + ASK_SECONDS, False

    def note(self, decision: Decision) -> bool:
        """Note the version that decided; return whether to ask for the active prior."""
        is_other = self._follows and decision.prior_version != self.version
        if is_other and time.monotonic() >= self._asks_at:
            self.asks_for_prior = True
        return self.asks_for_prior

    # -- deciding -----------------------------------------------------------------------------

    def decide(self, request: Decide, error: errors.MixtsError) -> Decision:
        """Return a decision, and keep it; raise what the service's absence means without one."""
        with self.lock:
            key = None if request.key is None else (request.task, request.key)
            known = None if key is None else self._by_key.get(key)
            if known is not None:
                kept = self._decisions[known].decision
                assert kept is not None
                return kept
            try:
                decision, law = self._choose(request)
            except errors.MixtsError as reason:
                raise errors.StoreUnavailableError(f"{error}; fallback: {reason}") from error
            # By its index, which an arm keeps when it is renamed, if that is known.
            action: Any = decision.action if decision.action >= 0 else decision.arm
            made = MadeDecision(
                **{name: getattr(request, name) for name in Decide.__struct_fields__},
                id=decision.id, action=action,                 probabilities=law,
            )  # fmt: skip
            if self._keep(Kept(self._encode(made), decision.id, decision, key)) and key is not None:
                self._by_key[key] = decision.id
            return decision

    def _choose(self, request: Decide) -> tuple[Decision, list[float] | None]:
        """Return a new decision, and the probabilities if the action was not certain."""
        if request.top is not None or request.defer:
            raise errors.ParameterError("it supports neither top nor defer")
        at = (time.time_ns() // 1_000_000).to_bytes(6, "big")
        id = at + MARK + os.urandom(4) + slot_of(request.task)
        if self._arm is not None:
            action, arm = _fixed(self._arm, request)
            return Decision(id.hex(), request.task, action, 1.0, (), 0, arm, policy=NAME), None
        agent = self._agent
        if agent is None:
            raise errors.ParameterError("no prior was fetched from the service yet")
        prior = agent.belief.prior
        asked = checked_request(request, prior, _GREEDY)
        choice = agent.decide(asked.offer)
        action, law = int(choice.actions.reshape(-1)[0]), choice.probabilities.reshape(-1)
        names = prior.arm_names if asked.ids is None else asked.ids
        decision = Decision(
            id.hex(), request.task, action, float(law[action]),
            tuple(np.ravel(agent.belief.weights).tolist()), self.version,
            None if names is None else names[action], policy=NAME,
        )  # fmt: skip
        return decision, None if law[action] == 1 else law.tolist()

    # -- the queue ----------------------------------------------------------------------------

    @property
    def n_queued(self) -> int:
        """Number of decisions and rewards that wait."""
        return len(self._decisions) + len(self._rewards)

    @property
    def is_idle(self) -> bool:
        """Whether the service is there, and nothing is to be sent or fetched."""
        return not (self.is_away or self.n_queued or self.asks_for_prior)

    def warn_if_lost(self) -> None:
        """Say what will never be sent."""
        if self.n_queued:
            log.error("%d decisions and rewards were not sent to the service", self.n_queued)

    def must_keep(self, reward: Reward) -> bool:
        """Return whether a reward cannot be sent now."""
        return self.is_away or reward.decision in self._decisions

    def keep(self, reward: Reward, error: errors.MixtsError) -> Receipt:
        """Keep a reward; raise what the service's absence means if there is no room."""
        with self.lock:
            if not self._keep(Kept(self._encode(reward), reward.decision)):
                raise errors.StoreUnavailableError(f"{error}; the client's queue is full")
        return Queued(duplicate=False)

    def _keep(self, kept: Kept) -> bool:
        if self._n_bytes + len(kept.body) > MAX_QUEUED_BYTES:
            if not self._is_full:
                log.error("the client's queue is full: what comes now will not be sent")
            self._is_full = True
            return False
        self._n_bytes += len(kept.body)
        if kept.decision is None:
            self._rewards.append(kept)
        else:
            self._decisions[kept.id] = kept
        return True

    def next_part(self) -> list[Kept]:
        """Return what to send next: rewards, if the service knows their decisions, or decisions.

        Once a decision is logged, its reward window may end within a minute.
        """
        with self.lock:
            part: list[Kept] = []
            size = 0
            known = takewhile(lambda kept: kept.id not in self._decisions, self._rewards)
            rewards = list(islice(known, MOST_SENT))
            waiting: Iterable[Kept] = rewards or self._decisions.values()
            for kept in waiting:
                size += len(kept.body) + 1
                if part and (len(part) == MOST_SENT or size > MOST_SENT_BYTES):
                    break
                part.append(kept)
            return part

    def settle(self, part: list[Kept], results: list[Any]) -> bool:
        """Forget what the service has answered; return False if it asks to try later."""
        again = (errors.StoreUnavailableError, errors.OverloadedError, errors.TaskLockedError)
        refused: list[Any] = []
        with self.lock:
            left: list[Kept] = []
            for kept, result in zip(part, results, strict=True):
                if isinstance(result, again):
                    left.append(kept)
                    continue
                self._n_bytes -= len(kept.body)
                if isinstance(result, errors.MixtsError):
                    refused.append(result)
                if kept.decision is not None:
                    del self._decisions[kept.id]
                if kept.key is not None:
                    self._by_key.pop(kept.key, None)
            if part and part[0].decision is None:
                for _ in part:
                    self._rewards.popleft()
                self._rewards.extendleft(reversed(left))
            self._is_full = False
        if refused:
            kinds = ", ".join(sorted({type(each).__name__ for each in refused}))
            log.error("the service refused %d of the client's reports: %s", len(refused), kinds)
        return not left


def _fixed(arm: str | int, request: Decide) -> tuple[int, str | None]:
    """Return the index and the name of a fixed arm in a request; -1 if its index is not known."""
    mask, names = request.mask, offered_ids(request.actions)
    if isinstance(arm, str):
        index = names.index(arm) if names and arm in names else -1
        if names and index < 0:
            raise errors.ActionError(f"arm {arm!r} is not offered")
    else:
        index = arm
        if request.actions is not None and arm >= len(request.actions):
            raise errors.ActionError(f"arm {arm} is not offered")
    name = arm if isinstance(arm, str) else (names[arm] if names else None)
    if mask is None:
        return index, name
    if is_named(mask):
        if name is None:
            raise errors.MaskError(f"mask has names, and the name of arm {arm} is not known")
        is_available = name in mask
    elif index < 0:
        raise errors.MaskError(f"mask has no names, and the index of arm {arm!r} is not known")
    else:
        is_available = index < len(mask) and bool(mask[index])
    if not is_available:
        raise errors.MaskError(f"mask leaves out arm {arm!r}")
    return index, name
