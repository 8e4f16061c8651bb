"""What a group of operations means: read, decide, learn, log, in one transaction.

Rewards come first, then decisions: all of a group were asked for before any was answered, so any
order is right, and this one lets decisions know the most.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

import numpy as np
from msgspec.structs import replace

from mixts import _checks
from mixts._typing import Array, Float
from mixts.agents import MixTS
from mixts.errors import (
    ConflictError,
    MixtsError,
    OutcomeError,
    ParameterError,
    UnknownDecisionError,
)
from mixts.service.encoding import new_id, pack, parse_id, unpack
from mixts.service.offers import Offer, Rules, checked_offer, digest_of, stacked
from mixts.service.records import (
    Decide,
    Decision,
    LoggedDecision,
    LoggedReward,
    Operation,
    Receipt,
    Result,
    Reward,
    Tally,
    TaskEntry,
    checked_name,
)
from mixts.service.store.backend import Transaction, TransactionConflictError
from mixts.service.tasks import Tasks
from mixts.service.versions import ActivePrior


class Group:
    """One group of operations in one transaction."""

    def __init__(
        self,
        transaction: Transaction,
        active: ActivePrior,
        version: Callable[[int], ActivePrior],
        rules: Rules,
        rng: np.random.Generator,
        now: int,
    ) -> None:
        self._transaction = transaction
        self._active = active
        self._version = version
        self._rules = rules
        self._rng = rng
        self._now = now
        self._tally = Tally()
        self._results: dict[int, Result] = {}

    def perform(self, operations: Sequence[Operation]) -> list[Result]:
        """A result for each operation; what is refused leaves no trace."""
        rewards = self._find(operations)
        offers, keyed = self._check(operations)
        numbers = sorted({decision.task for _, decision, _ in rewards})
        names = list(dict.fromkeys(offer.task for offer in offers))
        entries: list[TaskEntry] = []
        if names or numbers:
            entries, self._tally.tasks = self._transaction.lock_tasks(names, numbers, self._now)
            if not self._transaction.is_active(self._active.version):
                # Somebody activated another one before the locks were ours: tasks may be wider.
                raise TransactionConflictError("the prior has changed")
        tasks = Tasks(entries, self._active)
        # Only now: whoever else might have answered these keys or decisions held the same locks.
        before = self._transaction.find_keys(keyed) if keyed else {}
        new_rewards = self._learn(rewards, tasks)
        new_decisions = self._decide(self._unanswered(offers, before), tasks)
        changed = tasks.changed()
        if changed:
            self._transaction.add(new_rewards, new_decisions, changed, self._tally, self._now)
        self._repeat(operations, before)
        return [self._results[place] for place in range(len(operations))]

    # -- rewards ------------------------------------------------------------------------------

    def _find(self, operations: Sequence[Operation]) -> list[tuple[int, LoggedDecision, float]]:
        """The rewards whose decisions were made."""
        asked = {
            place: parse_id(operation.decision)
            for place, operation in enumerate(operations)
            if isinstance(operation, Reward)
        }
        ids = [id for id in asked.values() if id is not None]
        logged = self._transaction.find_decisions(ids) if ids else {}
        found = []
        for place, id in asked.items():
            operation = operations[place]
            assert isinstance(operation, Reward)
            if id in logged:
                found.append((place, logged[id], operation.value))
            else:
                self._results[place] = UnknownDecisionError(
                    f"no decision {operation.decision!r} was made in this store"
                )
        return found

    def _learn(
        self, rewards: list[tuple[int, LoggedDecision, float]], tasks: Tasks
    ) -> list[LoggedReward]:
        if not rewards:
            return []
        known = self._transaction.find_rewards([decision.seq for _, decision, _ in rewards])
        features = self._features([decision for _, decision, _ in rewards])
        new = []
        for place, decision, value in rewards:
            try:
                if decision.seq in known:
                    self._results[place] = _again(decision, value, *known[decision.seq])
                    continue
                window = self._rules.window_us
                late = window is not None and self._now - decision.at > window
                tasks.observe(decision, features, value, self._now, late)
            except MixtsError as error:
                self._results[place] = error
                continue
            new.append(LoggedReward(decision.seq, self._now, float(value), int(late)))
            known[decision.seq] = (float(value), late)
            self._results[place] = Receipt(duplicate=False, late=late)
            self._tally.rewards += 1
            self._tally.late += late
            self._tally.reward_sum += float(value)
        return new

    def _features(self, decisions: list[LoggedDecision]) -> dict[int, Float[Array, "K d"]]:
        numbers = sorted({d.action_set for d in decisions if d.action_set is not None})
        if not numbers:
            return {}
        sets = self._transaction.find_action_sets(numbers)
        return {
            number: unpack(body).reshape(n_actions, n_features)
            for number, (n_actions, n_features, body) in sets.items()
        }

    # -- decisions ----------------------------------------------------------------------------

    def _check(self, operations: Sequence[Operation]) -> tuple[list[Offer], list[tuple[str, str]]]:
        """The offers that can be decided on, and all keys that may have been answered before."""
        offers, keyed = [], []
        for place, operation in enumerate(operations):
            if not isinstance(operation, Decide):
                continue
            try:
                task = checked_name(operation.task, "task")
                if operation.key is not None:
                    keyed.append((task, checked_name(operation.key, "key")))
                offers.append(checked_offer(place, operation, self._active.prior, self._rules))
            except MixtsError as error:
                self._results[place] = error
        return offers, keyed

    def _unanswered(
        self, offers: list[Offer], before: dict[tuple[str, str], LoggedDecision]
    ) -> list[Offer]:
        """Of several offers with one key, the first; none whose key has its decision already."""
        seen: set[tuple[str, str]] = set()
        left = []
        for offer in offers:
            if offer.key is not None:
                pair = (offer.task, offer.key)
                if pair in before or pair in seen:
                    continue
                seen.add(pair)
            left.append(offer)
        return left

    def _decide(self, offers: list[Offer], tasks: Tasks) -> list[LoggedDecision]:
        """Draw the actions; offers with as many actions are one call of the agent."""
        alike: dict[int, list[Offer]] = {}
        for offer in offers:
            alike.setdefault(offer.n_actions, []).append(offer)
        return [new for group in alike.values() for new in self._decide_alike(group, tasks)]

    def _decide_alike(self, offers: list[Offer], tasks: Tasks) -> list[LoggedDecision]:
        active = self._active
        rows, statistics = tasks.rows([offer.task for offer in offers])
        agent = MixTS.resume(active.prior, statistics, self._rng)
        actions, mask = stacked(offers)
        chosen, probabilities, _ = agent.act_with_probabilities(
            actions, rows, mask, self._rules.floor
        )
        weights = agent.belief.weights[rows]
        sound = np.asarray(np.isfinite(probabilities).all(axis=1))
        new = []
        for offer, action, law, belief, is_sound in zip(
            offers, chosen.tolist(), probabilities, weights, sound.tolist(), strict=True
        ):
            if not (is_sound and law[action] > 0):
                self._results[offer.place] = ParameterError(
                    f"version {active.version} of the prior has no probabilities for this task: "
                    "its parameters are too large, or too small, to compute with"
                )
                continue
            entry = tasks.decided(offer.task, belief, active.version, self._now)
            number = self._action_set(offer)
            made = LoggedDecision(
                0, new_id(self._now), entry.number, self._now, active.version, action,
                float(law[action]), pack(belief), offer.request if offer.key else None, number,
                offer.key, pack(law),
            )  # fmt: skip
            new.append(made)
            self._results[offer.place] = Decision(
                made.id.hex(), offer.task, action, made.propensity, tuple(belief.tolist()),
                active.version, active.arm_name(action),
            )  # fmt: skip
        self._tally.decisions += len(new)
        return new

    def _action_set(self, offer: Offer) -> int | None:
        if offer.actions is None:
            return None
        body = pack(offer.actions)
        n_actions, n_features = offer.actions.shape
        digest = hashlib.sha256(f"{n_actions} {n_features} ".encode() + body).digest()
        return self._transaction.action_set(digest, n_actions, n_features, body)

    def _repeat(
        self,
        operations: Sequence[Operation],
        before: dict[tuple[str, str], LoggedDecision],
    ) -> None:
        """Return the decisions that keys stand for."""
        made: dict[tuple[str, str], tuple[bytes, Decision]] = {}
        for place, operation in enumerate(operations):
            if not isinstance(operation, Decide) or not isinstance(operation.key, str):
                continue
            if not isinstance(operation.task, str):
                continue
            pair = (operation.task, operation.key)
            result = self._results.get(place)
            if pair in before:
                self._results[place] = self._earlier(operation, before[pair], result)
            elif isinstance(result, Decision):
                made[pair] = (digest_of(operation), result)
            elif result is None and pair in made:
                digest, decision = made[pair]
                same = digest == digest_of(operation)
                self._results[place] = replace(decision, repeated=True) if same else _taken(pair)

    def _earlier(self, operation: Decide, logged: LoggedDecision, result: Result | None) -> Result:
        if logged.request != digest_of(operation):
            return (
                result
                if isinstance(result, MixtsError)
                else _taken((operation.task, operation.key or ""))
            )
        version = self._version(logged.version)
        return Decision(
            logged.id.hex(), operation.task, logged.action, logged.propensity,
            tuple(unpack(logged.weights).tolist()), logged.version,
            version.arm_name(logged.action), repeated=True,
        )  # fmt: skip


def _again(decision: LoggedDecision, value: float, before: float, late: bool) -> Receipt:
    given = _checks.numbers(value, "a reward must be a number", OutcomeError)
    if given.ndim or float(given) != before:
        raise ConflictError(
            f"decision {decision.id.hex()} has the reward {before!r}, which stays; got {value!r}"
        )
    return Receipt(duplicate=True, late=late)


def _taken(pair: tuple[str, str]) -> ConflictError:
    return ConflictError(
        f"key {pair[1]!r} of task {pair[0]!r} was used for a request with other actions or another "
        "mask: take a new key for a new decision"
    )
