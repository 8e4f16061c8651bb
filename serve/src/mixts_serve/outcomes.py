"""What becomes of the decisions in the log: rewards, activations, and the ends of reward windows.

A decision gets one reward that is learned from. It is the first that comes within its window or,
if none comes and the decision has a default reward, that default. Whether a reward came in time
depends on its own time only: a reward that comes after the window, but before the default was
written, makes the batch write the default first. So a belief follows from the events and their
times, whenever the service was running.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from mixts.errors import ConflictError, MixtsError, OutcomeError, UnknownDecisionError
from mixts.extend import checks
from mixts_serve.locked import LockedTasks, task_locked
from mixts_serve.records import (
    Activate,
    Expire,
    KnownReward,
    LateReward,
    LoggedActivation,
    LoggedDecision,
    LoggedReward,
    Operation,
    Receipt,
    Result,
    Reward,
    WaitingDecision,
)
from mixts_serve.rules import Rules
from mixts_serve.store.base import Changes, FeatureSets, Transaction, find_features

Outcome = Reward | Activate | Expire
"""Operations about a decision that is in the log."""


class Outcomes:
    """The rewards, the activations and the ends of windows in one batch.

    The *place* of an operation is its index in the batch. Results are written to ``results``, by
    place, and rows to ``changes``.
    """

    def __init__(
        self,
        transaction: Transaction,
        rules: Rules,
        now: int,
        changes: Changes,
        results: dict[int, Result],
    ) -> None:
        self._transaction = transaction
        self._rules = rules
        self._now = now
        self._changes = changes
        self._results = results
        self._operations: list[tuple[int, Outcome, int]] = []
        """Place, operation, and ``seq`` of the decision."""
        self._decisions: dict[int, LoggedDecision] = {}
        """By ``seq``."""
        self._known: dict[int, KnownReward] = {}

    def match(self, operations: Sequence[Operation]) -> list[int]:
        """Find the decisions in the log, and return the numbers of their tasks.

        The result of an operation whose decision is not in the log is an error.
        """
        found = {
            place: (parse_id(operation.decision), operation)
            for place, operation in enumerate(operations)
            if isinstance(operation, Outcome)
        }
        ids = [id for id, _ in found.values() if id is not None]
        logged = self._transaction.find_decisions(ids) if ids else {}
        for place, (id, operation) in found.items():
            if id in logged:
                decision = logged[id]
                self._decisions[decision.seq] = decision
                self._operations.append((place, operation, decision.seq))
            else:
                self._results[place] = UnknownDecisionError(
                    f"no decision {operation.decision!r} was made in this store"
                )
        return sorted({decision.task for decision in self._decisions.values()})

    def perform(self, tasks: LockedTasks) -> None:
        """Perform the operations in their order, after their tasks were locked."""
        if not self._operations:
            return
        for place, _, seq in self._operations:
            if not tasks.holds(self._decisions[seq].task):
                self._results[place] = task_locked(self._decisions[seq].task)
        self._operations = [each for each in self._operations if each[0] not in self._results]
        self._decisions = {seq: self._decisions[seq] for _, _, seq in self._operations}
        # Another writer may have activated a decision, or rewarded it, before the tasks were
        # locked.
        inactive = [d.id for d in self._decisions.values() if not d.is_active]
        again = self._transaction.find_decisions(inactive) if inactive else {}
        self._decisions |= {decision.seq: decision for decision in again.values()}
        self._known = self._transaction.find_rewards(list(self._decisions))
        features = find_features(self._transaction, self._decisions.values())
        for place, operation, seq in self._operations:
            decision = self._decisions[seq]
            try:
                if isinstance(operation, Reward):
                    receipt = self._reward(decision, operation.value, tasks, features)
                elif isinstance(operation, Activate):
                    receipt = self._activate(decision, tasks)
                else:
                    receipt = self._expire(decision, tasks, features)
                self._results[place] = receipt
            except MixtsError as error:
                self._results[place] = error

    def activated(self) -> list[WaitingDecision]:
        """Return the decisions that this batch has activated."""
        decisions = [self._decisions[row.decision] for row in self._changes.activated]
        return [WaitingDecision(d.seq, d.task, d.action, d.action_set) for d in decisions]

    # -- rewards ------------------------------------------------------------------------------

    def _reward(
        self, decision: LoggedDecision, value: float, tasks: LockedTasks, features: FeatureSets
    ) -> Receipt:
        known = self._known.get(decision.seq)
        if known is not None and not known.is_default:
            return _duplicate(decision, value, known.value, known.late)
        if known is not None and known.late_value is not None:
            return _duplicate(decision, value, known.late_value, late=True)
        if known is None and not self._is_missed(decision):
            late = self._is_late(decision)
            tasks.observe(decision, features, value, late=late)
            if not decision.is_active:  # its action was shown, since it has a reward
                self._activate(decision, tasks)
            tasks.count_reward(decision, self._now, late=late)
            self._log(decision, LoggedReward(decision.seq, self._now, _stored(value), int(late)))
            return Receipt(duplicate=False, late=late)
        tasks.observe(decision, features, value, late=True)
        if known is None:
            known = self._write_default(decision, tasks, features)
        tasks.count_late(decision, self._now)
        self._changes.late_rewards.append(LateReward(decision.seq, self._now, _stored(value)))
        self._changes.tally.late += 1
        self._changes.count_late(decision)
        self._known[decision.seq] = known._replace(late_value=_stored(value))
        return Receipt(duplicate=False, late=True)

    def _is_late(self, decision: LoggedDecision) -> bool:
        if not decision.is_active:
            return False
        due = decision.due
        if due is None:  # it was made without a window: that of today applies
            due = self._rules.due(decision.activated_at or decision.at)
        return due is not None and self._now > due

    def _is_missed(self, decision: LoggedDecision) -> bool:
        """Return whether a decision's window has ended, and it has a default reward."""
        due = decision.due
        return decision.default_reward is not None and due is not None and self._now > due

    def _log(self, decision: LoggedDecision, reward: LoggedReward) -> KnownReward:
        """Log the reward that a decision is counted with, and close its window."""
        decision = self._decisions[decision.seq]
        self._changes.rewards.append(reward)
        self._changes.count_reward(decision, reward)
        if decision.window is not None:
            self._changes.closed.append(decision.window)
        tally = self._changes.tally
        tally.rewards += 1
        tally.late += reward.late
        tally.defaults += reward.is_default
        known = KnownReward(reward.value, bool(reward.late), bool(reward.is_default))
        self._known[decision.seq] = known
        return known

    # -- windows ------------------------------------------------------------------------------

    def _expire(
        self, decision: LoggedDecision, tasks: LockedTasks, features: FeatureSets
    ) -> Receipt:
        """Write the default reward, unless a reward has come or the window is still open."""
        if decision.seq in self._known or not self._is_missed(decision):
            return Receipt(duplicate=True)
        self._write_default(decision, tasks, features)
        return Receipt(duplicate=False)

    def _write_default(
        self, decision: LoggedDecision, tasks: LockedTasks, features: FeatureSets
    ) -> KnownReward:
        value, due = decision.default_reward, decision.due
        assert value is not None
        assert due is not None
        tasks.observe(decision, features, value, late=False)
        tasks.count_default(decision)
        # Not the time of writing: the service may have been down when the window ended.
        return self._log(decision, LoggedReward(decision.seq, due, value, late=0, is_default=1))

    def _activate(self, decision: LoggedDecision, tasks: LockedTasks) -> Receipt:
        """Begin the window of a deferred decision."""
        if decision.is_active:
            return Receipt(duplicate=True)
        due = self._rules.due(self._now)
        default = self._rules.default_reward
        active = replace(decision, activated_at=self._now, due=due, default_reward=default)
        self._decisions[decision.seq] = active
        self._changes.activated.append(LoggedActivation(decision.seq, self._now, due, default))
        if active.window is not None:
            self._changes.opened.append(active.window)
        self._changes.tally.deferred -= 1
        self._changes.count_activation(decision)
        tasks.count_activation(decision, self._now)
        return Receipt(duplicate=False)


def _stored(value: float) -> float:
    """Return a checked reward as databases return it: they have no -0.0."""
    return float(value) + 0.0


def parse_id(text: object) -> bytes | None:
    """Return the bytes of a decision's id, or None if the text cannot be an id."""
    if not isinstance(text, str) or len(text) != 32 or not text.isascii() or not text.isalnum():
        return None
    try:
        return bytes.fromhex(text)
    except ValueError:
        return None


def _duplicate(decision: LoggedDecision, value: float, known: float, late: bool) -> Receipt:
    """Return the receipt of a repeated reward; raise if its value is another one."""
    given = checks.numbers(value, "a reward must be a number", OutcomeError)
    if given.ndim or float(given) != known:
        raise ConflictError(
            f"decision {decision.id.hex()} has the reward {known!r}, which stays; got {value!r}"
        )
    return Receipt(duplicate=True, late=late)
