"""The tasks that a batch has locked, and the outcomes of their decisions.

Outcomes are rewards, activations, and the ends of reward windows. A decision gets one reward that
is learned from. It is the first that comes within its window or, if none comes and the decision has
a default reward, that default. Whether a reward came in time depends on its own time only: a reward
that comes after the window, but before the default was written, makes the batch write the default
first. So a belief follows from the events and their times, whenever the service was running.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec.structs import replace

from mixts import MixturePrior, errors
from mixts.extend import Array, Float, Int
from mixts.families import Statistics
from mixts_serve import records
from mixts_serve.rules import Rules
from mixts_serve.store.base import Changes, FeatureSets, Transaction, find_features
from mixts_serve.versions import LoadedPrior

MOST_WAITING = 100
"""Last decisions of a task among which those without a reward count as waiting.

A task whose rewards never come would otherwise make every decision slower than the one before it.
With the imagined outcomes of a hundred decisions, a task is decided as one that is well known.
"""


class LockedTasks:
    """The locked tasks of a batch and their statistics, which rewards update in place."""

    def __init__(self, entries: list[records.TaskEntry], active: LoadedPrior) -> None:
        self._entries = entries
        self._family = active.prior.family
        self._codec = active.codec
        self._by_name = {entry.name: row for row, entry in enumerate(entries)}
        self._by_number = {entry.number: row for row, entry in enumerate(entries)}
        self._statistics = active.codec.decode([entry.statistics for entry in entries])
        self._observed: set[int] = set()
        """Rows whose statistics have changed."""
        self._touched: set[int] = set()
        """Rows that must be saved."""

    def holds(self, task: str | int) -> bool:
        """Return whether a task is locked, by its name or its number."""
        return task in self._by_name or task in self._by_number

    def rows(self, names: list[str]) -> tuple[Int[Array, " m"], Statistics]:
        """Return the row of each named task, and the statistics to which the rows refer."""
        rows = np.array([self._by_name[name] for name in names])
        if self._family.n_arms is not None:
            return rows, self._statistics
        # The belief of a linear task is slow to compute: leave out tasks that need no decision.
        distinct, inverse = np.unique(rows, return_inverse=True)
        return inverse, self._statistics[distinct]

    def waiting_counts(self, names: Iterable[str]) -> dict[int, int]:
        """Return the numbers of tasks with decisions that may wait for a reward, and how many."""
        entries = [self._entries[self._by_name[name]] for name in names]
        return {
            entry.number: entry.decisions - entry.rewards - entry.deferred
            for entry in entries
            if entry.decisions > entry.rewards + entry.deferred
        }

    def n_decided(self, row_of: dict[str, int], n_rows: int) -> Int[Array, " n"]:
        """Return the number of decisions of each task that may have been shown, by row."""
        counts = np.zeros(n_rows, np.int64)
        for name, row in row_of.items():
            entry = self._entries[self._by_name[name]]
            counts[row] = entry.decisions - entry.deferred
        return counts

    def observed_arms(self, name: str) -> set[int]:
        """Return the arms of which a task has rewards."""
        row = np.array([self._by_name[name]])
        return set(np.flatnonzero(self._statistics[row].pulls[0]).tolist())

    def first_at(self, name: str) -> int:
        """Return the time at which a task was born."""
        return self._entries[self._by_name[name]].first_at

    def n_bytes(self, name: str) -> int:
        """Return the size of a task's statistics before this batch."""
        return len(self._entries[self._by_name[name]].statistics)

    def number(self, name: str) -> int:
        """Return the number of a task."""
        return self._entries[self._by_name[name]].number

    def are_possible(self, actions: Sequence[Any], values: Sequence[Any]) -> bool:
        """Return whether all of these rewards are possible, whatever their tasks' histories."""
        if self._family.n_arms is None or not all(type(value) is float for value in values):
            return False
        observed = self._statistics.observations(np.array(actions), np.array(values))
        try:
            self._family.empty_statistics(1).observe(np.zeros(len(values), np.int64), observed)
            return True
        except errors.ObservationError:
            return False

    def observe(self, task: int, action: Any, value: float, *, late: bool) -> None:
        """Learn from a reward, or only check it if it is late; raise if it is impossible."""
        observed = self._statistics.observations(action, value)
        if late:
            self._family.empty_statistics(1).observe(np.zeros(1, np.int64), observed)
        else:
            row = self._by_number[task]
            self._statistics.observe(np.array([row]), observed)
            self._observed.add(row)

    def observe_many(
        self, tasks: Sequence[int], actions: Sequence[Any], values: Sequence[float]
    ) -> None:
        """Learn from possible rewards, in their order."""
        rows = [self._by_number[task] for task in tasks]
        observed = self._statistics.observations(np.array(actions), np.array(values))
        self._statistics.observe(np.array(rows), observed)
        self._observed.update(rows)

    def touch(self, task: str | int) -> records.TaskEntry:
        """Return a task by its name or its number, to be changed and saved."""
        row = self._by_name[task] if isinstance(task, str) else self._by_number[task]
        self._touched.add(row)
        return self._entries[row]

    def changed(self) -> list[records.TaskEntry]:
        """Return the tasks to save, with their new statistics."""
        observed = sorted(self._observed)
        if observed:
            encoded = self._codec.encode(self._statistics, observed)
            for row, content in zip(observed, encoded, strict=True):
                self._entries[row].statistics = content
        return [self._entries[row] for row in sorted(self._touched)]


class WaitingActions:
    """Actions whose rewards have not come, by the row of their task: the last ones of each."""

    def __init__(self) -> None:
        self._actions: dict[int, deque[Any]] = {}

    def add(self, row: int, action: Any) -> None:
        """Add an arm, or a row of features, to those of a task."""
        self._actions.setdefault(row, deque(maxlen=MOST_WAITING)).append(action)

    def of(self, rows: Iterable[int]) -> tuple[Array, Array] | None:
        """Return what waits in these rows, as agents take it; None if nothing does."""
        distinct = dict.fromkeys(rows)
        found = [(row, made) for row in distinct for made in self._actions.get(row, ())]
        if not found:
            return None
        tasks, actions = zip(*found, strict=True)
        return np.array(actions), np.array(tasks)


def task_locked(task: str | int) -> errors.TaskLockedError:
    """Return the error for a task that another writer keeps locked."""
    named = f"task {task!r}" if isinstance(task, str) else "the task of this decision"
    return errors.TaskLockedError(
        f"another writer keeps {named} locked: nothing was changed; try again later"
    )


def taken(decision: records.LoggedDecision | records.WaitingDecision, features: FeatureSets) -> Any:
    """Return the action of a decision as statistics take it: an arm, or a row of features."""
    if decision.action_set is None:
        return decision.action
    return features[decision.action_set][decision.action]


def likeliest_kinds(prior: MixturePrior, weights: Float[Array, "m L"]) -> list[tuple[int, float]]:
    """Return the heaviest component of each task's most probable kind, and the kind's weight."""
    by_kind = prior.sum_by_kind(weights)
    best = by_kind.argmax(axis=1)
    if prior.kinds is not None:
        is_best = np.array(prior.kind_indices) == best[:, None]
        weights = np.where(is_best, weights, -1.0)
    certainty = np.take_along_axis(by_kind, best[:, None], axis=1)[:, 0]
    return list(zip(weights.argmax(axis=1).tolist(), certainty.tolist(), strict=True))


# -- outcomes -------------------------------------------------------------------------------------

Outcome = records.Reward | records.Activate | records.Expire
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
        results: dict[int, records.Result],
    ) -> None:
        self._transaction = transaction
        self._rules = rules
        self._now = now
        self._changes = changes
        self._results = results
        self._operations: list[tuple[int, Outcome, int]] = []
        """Place, operation, and ``seq`` of the decision."""
        self._decisions: dict[int, records.LoggedDecision] = {}
        """By ``seq``."""
        self._known: dict[int, records.LoggedReward] = {}
        self._metrics: dict[tuple[int, str], float] = {}
        """Metrics of the decisions, by ``seq`` and name."""
        self._features: FeatureSets = {}
        self._are_checked = False
        """Whether all rewards of the batch are known to be possible."""
        self._observed: list[tuple[int, int, float]] = []
        """Task, arm and value of rewards to learn from together, in a tenth of the time."""

    def match(self, operations: Sequence[records.Operation]) -> list[int]:
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
                self._results[place] = errors.UnknownDecisionError(
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
        reports = [each for _, each, _ in self._operations if isinstance(each, records.Reward)]
        if any(report.metrics for report in reports):
            self._metrics = self._transaction.find_metrics(list(self._decisions))
        self._features = find_features(self._transaction, self._decisions.values())
        self._are_checked = self._check_all(tasks)
        for place, operation, seq in self._operations:
            decision = self._decisions[seq]
            try:
                if isinstance(operation, records.Reward):
                    receipt = self._report(decision, operation, tasks)
                elif isinstance(operation, records.Activate):
                    receipt = self._activate(decision, tasks)
                else:
                    receipt = self._expire(decision, tasks)
                self._results[place] = receipt
            except errors.MixtsError as error:
                self._results[place] = error
        if self._observed:
            tasks.observe_many(*zip(*self._observed, strict=True))

    def _check_all(self, tasks: LockedTasks) -> bool:
        """Check all rewards at once; return False if each must be checked by itself."""
        rewards: list[tuple[Any, Any]] = []
        for _, operation, seq in self._operations:
            decision = self._decisions[seq]
            if isinstance(operation, records.Reward) and operation.value is not None:
                rewards.append((decision.action, operation.value))
            if decision.default_reward is not None:
                rewards.append((decision.action, decision.default_reward))
        return len(rewards) > 1 and tasks.are_possible(*zip(*rewards, strict=True))

    def _observe(
        self, decision: records.LoggedDecision, value: float, tasks: LockedTasks, *, late: bool
    ) -> None:
        """Learn from a reward, now or together with the others; only check it if it is late."""
        if not self._are_checked:
            tasks.observe(decision.task, taken(decision, self._features), value, late=late)
        elif not late:
            self._observed.append((decision.task, decision.action, value))

    def activated(self) -> list[records.WaitingDecision]:
        """Return the decisions that this batch has activated."""
        decisions = [self._decisions[row.decision] for row in self._changes.activated]
        return [records.WaitingDecision(d.seq, d.task, d.action, d.action_set) for d in decisions]

    # -- rewards ------------------------------------------------------------------------------

    def _report(
        self, decision: records.LoggedDecision, report: records.Reward, tasks: LockedTasks
    ) -> records.Receipt:
        """Log the reward and the other metrics of a decision, both or neither."""
        metrics = self._new_metrics(decision, records.checked_metrics(report))
        receipt = records.Receipt(duplicate=True)
        if report.value is not None:
            receipt = self._reward(decision, report.value, tasks)
        if not metrics:
            return receipt
        self._changes.metrics += metrics
        self._metrics |= {(metric.decision, metric.name): metric.value for metric in metrics}
        tasks.touch(decision.task).last_at = self._now
        return replace(receipt, duplicate=False)

    def _new_metrics(
        self, decision: records.LoggedDecision, given: Mapping[str, float]
    ) -> list[records.LoggedMetric]:
        """Return the metrics that the decision does not have; raise if one has another value."""
        new = []
        for name, number in given.items():
            value = _stored(number)
            known = self._metrics.get((decision.seq, name))
            if known is None:
                new.append(records.LoggedMetric(decision.seq, name, self._now, value))
            elif known != value:
                raise errors.ConflictError(
                    f"decision {decision.id.hex()} has the metric {name!r} with the value "
                    f"{known!r}, which stays; got {value!r}"
                )
        return new

    def _reward(
        self, decision: records.LoggedDecision, value: float, tasks: LockedTasks
    ) -> records.Receipt:
        known = self._known.get(decision.seq)
        if known is not None and not known.is_default:
            return _duplicate(decision, value, known.value, late=bool(known.late))
        if known is not None and known.late_value is not None:
            return _duplicate(decision, value, known.late_value, late=True)
        if known is None and not self._is_missed(decision):
            late = self._is_late(decision)
            self._observe(decision, value, tasks, late=late)
            if not decision.is_active:  # its action was shown, since it has a reward
                self._activate(decision, tasks)
            tasks.touch(decision.task).last_at = self._now
            reward = records.LoggedReward(decision.seq, self._now, _stored(value), int(late))
            self._log(decision, reward, tasks)
            return records.Receipt(duplicate=False, late=late)
        self._observe(decision, value, tasks, late=True)
        if known is None:
            known = self._write_default(decision, tasks)
        entry = tasks.touch(decision.task)
        entry.last_at = self._now
        self._changes.late_rewards.append(
            records.LoggedReward(decision.seq, self._now, _stored(value))
        )
        self._changes.count(decision, entry, late=1)
        self._known[decision.seq] = replace(known, late_value=_stored(value))
        return records.Receipt(duplicate=False, late=True)

    def _is_late(self, decision: records.LoggedDecision) -> bool:
        if not decision.is_active:
            return False
        due = decision.due
        if due is None:  # it was made without a window: that of today applies
            due = self._rules.due(decision.activated_at or decision.at)
        return due is not None and self._now > due

    def _is_missed(self, decision: records.LoggedDecision) -> bool:
        """Return whether a decision's window has ended, and it has a default reward."""
        due = decision.due
        return decision.default_reward is not None and due is not None and self._now > due

    def _log(
        self, decision: records.LoggedDecision, reward: records.LoggedReward, tasks: LockedTasks
    ) -> records.LoggedReward:
        """Log the reward that a decision is counted with, and close its window."""
        decision = self._decisions[decision.seq]
        self._changes.rewards.append(reward)
        if decision.window is not None:
            self._changes.closed.append(decision.window)
        self._changes.count(
            decision, tasks.touch(decision.task), reward.value,
            rewards=1, late=reward.late, defaults=reward.is_default,
        )  # fmt: skip
        self._known[decision.seq] = reward
        return reward

    # -- windows ------------------------------------------------------------------------------

    def _expire(self, decision: records.LoggedDecision, tasks: LockedTasks) -> records.Receipt:
        """Write the default reward, unless a reward has come or the window is still open."""
        if decision.seq in self._known or not self._is_missed(decision):
            return records.Receipt(duplicate=True)
        self._write_default(decision, tasks)
        return records.Receipt(duplicate=False)

    def _write_default(
        self, decision: records.LoggedDecision, tasks: LockedTasks
    ) -> records.LoggedReward:
        value, due = decision.default_reward, decision.due
        assert value is not None
        assert due is not None
        self._observe(decision, value, tasks, late=False)
        # Not the time of writing: the service may have been down when the window ended.
        return self._log(
            decision, records.LoggedReward(decision.seq, due, value, is_default=1), tasks
        )

    def _activate(self, decision: records.LoggedDecision, tasks: LockedTasks) -> records.Receipt:
        """Begin the window of a deferred decision."""
        if decision.is_active:
            return records.Receipt(duplicate=True)
        due = self._rules.due(self._now)
        default = self._rules.default_reward
        active = replace(decision, activated_at=self._now, due=due, default_reward=default)
        self._decisions[decision.seq] = active
        self._changes.activated.append(
            records.LoggedActivation(decision.seq, self._now, due, default)
        )
        if active.window is not None:
            self._changes.opened.append(active.window)
        entry = tasks.touch(decision.task)
        entry.last_at = self._now
        self._changes.count(decision, entry, deferred=-1)
        return records.Receipt(duplicate=False)


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


def _duplicate(
    decision: records.LoggedDecision, value: float, known: float, late: bool
) -> records.Receipt:
    """Return the receipt of a repeated reward; raise if its value is another one."""
    if records.checked_outcome(value, "a reward must be a number") != known:
        raise errors.ConflictError(
            f"decision {decision.id.hex()} has the reward {known!r}, which stays; got {value!r}"
        )
    return records.Receipt(duplicate=True, late=late)
