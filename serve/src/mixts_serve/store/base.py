"""The interface of a store to its database, and what all databases do alike.

``batch`` says what operations mean; a transaction only finds, locks and writes rows, in bulk. Times
are whole microseconds since 1970, arrays are bytes.
"""

from __future__ import annotations

import os
import shlex
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from msgspec import Struct
from msgspec import field as struct_field
from msgspec.structs import replace

from mixts.errors import ParameterError, StoreUnavailableError
from mixts.extend import Array, Float
from mixts_serve import records
from mixts_serve.store import tables
from mixts_serve.store.tables import Record

SPAN_US = 10_000_000
"""Activity is counted in spans of ten seconds."""

COUNT_SPANS = (600_000_000, 86_400_000_000)
"""Decisions are counted by ten minutes and by days, in microseconds."""

NO_ARM = -1
"""Stands for the rows of features that a decision chose from: their indices mean nothing."""

LOGGED_COUNTS = {
    "span": "s.span",
    "start": "d.at - d.at % s.span",
    "arm": f"CASE WHEN d.action_set IS NULL THEN d.action ELSE {NO_ARM} END",
    "version": "d.version",
    "policy": "d.policy",
    "writer": "''",
    "first_at": "MIN(d.at)",
    "last_at": "MAX(d.at)",
    "decisions": "COUNT(*)",
    "deferred": "SUM(CASE WHEN d.deferred = 1 AND a.decision IS NULL THEN 1 ELSE 0 END)",
    "rewards": "COUNT(r.decision)",
    "defaults": "COALESCE(SUM(r.is_default), 0)",
    "late": "COALESCE(SUM(r.late), 0) + COUNT(l.decision)",
    "reward_sum": "COALESCE(SUM(r.value), 0.0)",
    "reward_squares": "COALESCE(SUM(r.value * r.value), 0.0)",
}
_COUNTS_OF = f"""
    SELECT {", ".join(f"{sql} AS {name}" for name, sql in LOGGED_COUNTS.items())}
    FROM decisions d
    CROSS JOIN (SELECT {COUNT_SPANS[0]} AS span UNION ALL SELECT {COUNT_SPANS[1]}) s
    LEFT JOIN rewards r ON r.decision = d.seq
    LEFT JOIN activated a ON a.decision = d.seq LEFT JOIN late_rewards l ON l.decision = d.seq
    {{where}} GROUP BY 1, 2, 3, 4, 5
"""
COUNTS_OF_THE_LOG = _COUNTS_OF.format(where="")
"""Rows of ``counts`` as they follow from the log."""
_ADDED = tuple(name for name in tables.COUNTS.columns if name not in tables.COUNTS.key)
MERGED_COUNTS = "SELECT {} FROM {{}} c GROUP BY {}".format(
    ", ".join(
        {"first_at": "MIN(first_at)", "last_at": "MAX(last_at)", "writer": "''"}.get(
            name, f"SUM({name})" if name in _ADDED else name
        )
        for name in LOGGED_COUNTS
    ),
    ", ".join(name for name in tables.COUNTS.key if name != "writer"),
)
"""Rows of a table of counts, those of all writers together."""
ALL_COUNTS = MERGED_COUNTS.format(
    f"({COUNTS_OF_THE_LOG} UNION ALL SELECT {', '.join(LOGGED_COUNTS)} FROM archived_counts)"
)
"""Rows of ``counts`` as they follow from the log and from the archived part of it."""

ERASED_START = 2**61
"""Begin of the span of ``activity`` with what was erased, negative. No other span is that late: all
sums since some time include it, so that sums of earlier spans may be kept."""
WINDOWS_OF = (
    "SELECT CASE WHEN COALESCE(a.default_reward, d.default_reward) IS NULL THEN 0 ELSE 1 END, "
    "COALESCE(a.due, d.due), d.seq FROM decisions d LEFT JOIN activated a ON a.decision = d.seq"
)
_ARCHIVE = (
    "INSERT INTO meta (name, value) VALUES ('archive', ?) "
    "ON CONFLICT (name) DO UPDATE SET value = meta.value RETURNING value"
)
_ARCHIVABLE = """
    SELECT d.id, d.seq, d.task, CASE WHEN r.late = 0 THEN r.seq END FROM decisions d
    LEFT JOIN rewards r ON r.decision = d.seq LEFT JOIN activated a ON a.decision = d.seq
    WHERE d.id > ? AND d.id < ? AND (
        r.decision IS NOT NULL OR COALESCE(a.due, d.due) IS NULL
        OR (COALESCE(a.due, d.due) < ? AND COALESCE(a.default_reward, d.default_reward) IS NULL)
    ) ORDER BY d.id LIMIT ?
"""
_UNUSED_SETS = "NOT EXISTS (SELECT 1 FROM decisions d WHERE d.action_set = action_sets.number)"
_OF_DECISIONS = (tables.REWARDS, tables.LATE_REWARDS, tables.ACTIVATED, tables.METRICS)
"""Tables whose rows belong to decisions."""

_SAVED = tuple(name for name in tables.TASKS.columns if name not in ("name", "first_at"))
"""Columns of a task that change."""
_SET_META = (
    f"{tables.META.insert('name', 'value')} ON CONFLICT (name) DO UPDATE SET value = excluded.value"
)
TRIAL_KEY = "trial_key"
FIND_META = "SELECT value FROM meta WHERE name = ?"
_FIND_PRIOR = "SELECT version FROM priors WHERE digest = ?"
_NEW_KEY = f"{tables.META.insert('name', 'value')} ON CONFLICT (name) DO NOTHING"
_NEXT_LIFE = """
    INSERT INTO meta (name, value) VALUES ('lives', '0')
    ON CONFLICT (name) DO UPDATE SET value = CAST(CAST(meta.value AS BIGINT) + 1 AS TEXT)
    RETURNING value
"""
_OPEN_WINDOWS = (
    "INSERT INTO open_windows (has_default, due, decision) "
    "SELECT CASE WHEN default_reward IS NULL THEN 0 ELSE 1 END, due, seq FROM decisions"
)

DEPLOYED = (
    "SELECT version, share, at FROM activations WHERE seq >= "
    "(SELECT seq FROM activations WHERE share = 1 ORDER BY seq DESC LIMIT 1) ORDER BY seq"
)
"""The last activation of a version for all tasks, and the canaries since."""

LAST_ACTIVATION = "SELECT COALESCE(MAX(seq), 0) FROM activations"

WAITING = (
    "SELECT d.seq, d.task, d.action, d.action_set FROM {source} "
    "(SELECT seq, task, at, action, action_set, deferred, due FROM decisions "
    "WHERE task = {task} ORDER BY seq DESC LIMIT ?) d "
    "LEFT JOIN activated a ON a.decision = d.seq "
    "WHERE (d.deferred = 0 OR a.at IS NOT NULL) "
    "AND COALESCE(a.due, d.due, d.at + {window}) >= ? "
    "AND NOT EXISTS (SELECT 1 FROM rewards r WHERE r.decision = d.seq)"
)
"""Decisions that wait, among the last ones of a task; databases differ in how tasks are given."""


def deployment_of(rows: Sequence[tables.Row]) -> records.Deployment | None:
    """Return what rows of ``DEPLOYED`` mean; None for no rows."""
    if not rows:
        return None
    active, (last, share, at) = rows[0][0], rows[-1]
    if len(rows) == 1 or share == 0:
        return records.Deployment(active)
    return records.Deployment(active, last, share, at)


# -- what a batch writes --------------------------------------------------------------------------

CountKey = tuple[int, int, int, int, str]
"""Microseconds of a span, its start, an arm (``NO_ARM`` for features), a version and a policy."""


class Changes(Struct):
    """Rows that a batch writes."""

    tally: records.Tally = struct_field(default_factory=records.Tally)
    rewards: list[records.LoggedReward] = struct_field(default_factory=list)
    late_rewards: list[records.LoggedReward] = struct_field(default_factory=list)
    activated: list[records.LoggedActivation] = struct_field(default_factory=list)
    metrics: list[records.LoggedMetric] = struct_field(default_factory=list)
    decisions: list[records.LoggedDecision] = struct_field(default_factory=list)
    opened: list[records.OpenWindow] = struct_field(default_factory=list)
    """Windows of deferred decisions; those of other decisions follow from ``decisions``."""
    closed: list[records.OpenWindow] = struct_field(default_factory=list)
    """Windows of decisions that now have a reward."""
    tasks: list[records.TaskEntry] = struct_field(default_factory=list)
    counts: dict[CountKey, records.SpanCount] = struct_field(default_factory=dict)
    """Counts of the shortest spans."""

    def count(
        self, decision: records.LoggedDecision, task: records.TaskEntry,
        value: float | None = None, *,
        decisions: int = 0, rewards: int = 0, late: int = 0, defaults: int = 0, deferred: int = 0,
    ) -> None:  # fmt: skip
        """Add to the counts of the task, of this moment, and of the time of the decision.

        ``value`` is the reward that the decision is counted with.
        """
        span = self._span_of(decision)
        counted: tuple[records.Counts, ...] = (task, self.tally, span)
        for record in counted:
            record.decisions += decisions
            record.rewards += rewards
            record.late += late
            record.defaults += defaults
            record.deferred += deferred
        if value is not None:
            span.reward_sum += value
            span.reward_squares += value**2

    def _span_of(self, decision: records.LoggedDecision) -> records.SpanCount:
        at, arm = decision.at, decision.action if decision.action_set is None else NO_ARM
        key = (COUNT_SPANS[0], at - at % COUNT_SPANS[0], arm, decision.version, decision.policy)
        count = self.counts.get(key)
        if count is None:
            count = self.counts[key] = records.SpanCount(*key, at, at)
        # A batch may reward an earlier decision of the span before it makes another.
        elif at < count.first_at:
            count.first_at = at
        elif at > count.last_at:
            count.last_at = at
        return count

    def all_counts(self) -> list[records.SpanCount]:
        """Return each count once for every length of span, to be added up for the longer spans."""
        return [
            replace(count, span=span, start=count.start - count.start % span)
            for count in self.counts.values()
            for span in COUNT_SPANS
        ]


# -- a database -----------------------------------------------------------------------------------


Value = TypeVar("Value")

_ATTEMPTS = 8
"""Attempts to complete a transaction that conflicts with those of other writers."""


class TransactionConflictError(Exception):
    """The transaction conflicted with another writer's; nothing was changed, so retry it."""


class WouldWaitError(Exception):
    """A transaction that must not wait for another process or a server would have to."""


class Transaction(ABC):
    """One transaction: when its context ends, all of its changes are durable, or none was made."""

    writer = ""
    """Name of the writer in the rows of ``activity`` and ``counts``."""

    # -- how a database does it ---------------------------------------------------------------

    @abstractmethod
    def _execute(self, sql: str, parameters: Sequence[Any] = ()) -> list[tables.Row]:
        """Execute one statement, and return its rows."""

    @abstractmethod
    def _execute_where(
        self, sql: str, columns: tuple[str, ...], keys: Sequence[tables.Row], end: str = ""
    ) -> list[tables.Row]:
        """Execute a statement for the rows whose columns are equal to one of the keys."""

    @abstractmethod
    def _execute_each(self, sql: str, rows: Sequence[tables.Row]) -> None:
        """Execute a statement for each of several rows of parameters; it returns nothing."""

    @abstractmethod
    def _append(self, table: tables.Table, records: Sequence[Any]) -> Any:
        """Insert records into a table whose rows are numbered."""

    @abstractmethod
    def _update(
        self, table: tables.Table, columns: tuple[str, ...], records: Sequence[Any]
    ) -> None:
        """Save columns of records that have numbers."""

    def _together(self) -> AbstractContextManager[Any]:
        """Send statements that return nothing without waiting for each."""
        return nullcontext()

    @abstractmethod
    def now_us(self) -> int:
        """Return the time of the operations; see :meth:`Backend.now_us`."""

    @abstractmethod
    def is_deployed(self, deployment: records.Deployment) -> bool:
        """Return whether this deployment, read earlier in this transaction, is still in force."""

    @abstractmethod
    def lock_tasks(
        self, names: Sequence[str], numbers: Sequence[int], now: int
    ) -> tuple[list[records.TaskEntry], int]:
        """Lock tasks by name, creating missing ones, and by number, until the transaction ends.

        Returns the tasks, and how many of them are new. Tasks that another writer keeps locked for
        too long are left out.
        """

    @abstractmethod
    def find_waiting(
        self, tasks: Mapping[int, int], last: int, now: int, window: int
    ) -> list[records.WaitingDecision]:
        """Return the decisions of tasks that wait for a reward, oldest first.

        ``tasks`` are numbers, each with an upper bound on its decisions that wait. Only the last
        decisions of each task count, ``last`` of them. Deferred decisions that are not activated do
        not wait, nor do those whose window has ended; ``window`` is that of decisions without one.
        """

    @abstractmethod
    def action_set(self, digest: bytes, actions: tables.ActionSet) -> int:
        """Return the number of a set of actions, storing the set if it is new.

        Raise ``TaskLockedError`` if another writer stores the same set and does not finish.
        """

    def take_time(self) -> None:
        """Lift the limits on the time of the transaction."""
        return None

    @abstractmethod
    def freeze(self) -> None:
        """Keep all other writers out until the transaction ends."""

    @abstractmethod
    def shape(self) -> str | None:
        """Return the shape of the tasks' statistics, locked until the transaction ends."""

    @abstractmethod
    def _among(self, numbers: Sequence[int]) -> tuple[str, Any]:
        """Return the condition that a column is one of these numbers, and its parameter."""

    def _delete(self, table: tables.Table, column: str, numbers: Sequence[int]) -> Sequence[int]:
        """Delete the rows with these numbers in a column; return the rows' own numbers."""
        among, parameter = self._among(numbers)
        sql = f"DELETE FROM {table.name} WHERE {column} {among} RETURNING {table.key}"
        return [number for (number,) in self._execute(sql, (parameter,))]

    # -- finding ------------------------------------------------------------------------------

    def _one(self, sql: str, *parameters: Any) -> Any:
        """Return the first value of a statement, or None."""
        rows = self._execute(sql, parameters)
        return rows[0][0] if rows else None

    def _find(self, query: tables.Query[Record], column: str, keys: Iterable[Any]) -> list[Record]:
        rows = self._execute_where(query.sql, (column,), [(key,) for key in keys])
        return list(map(query.read, rows))

    def deployment(self) -> records.Deployment | None:
        """Return the versions of the prior that decide; None before there is one."""
        return deployment_of(self._execute(DEPLOYED))

    def last_activation(self) -> int:
        """Return the number of the last row of ``activations``; 0 if there is none."""
        return int(self._one(LAST_ACTIVATION))

    def active_version(self) -> int | None:
        """Return the version of the prior that was activated last."""
        found = self.deployment()
        return None if found is None else found.version

    def find_decisions(self, ids: Sequence[bytes]) -> dict[bytes, records.LoggedDecision]:
        """Return the decisions with these ids that are in the log."""
        return {found.id: found for found in self._find(tables.DECISION, "d.id", ids)}

    def find_keys(
        self, pairs: Sequence[tuple[str, str]]
    ) -> dict[tuple[str, str], records.LoggedDecision]:
        """Return the decisions for pairs of a task's name and a key."""
        rows = self._execute_where(tables.DECISION_OF_TASK.sql, ("t.name", "d.key"), pairs)
        found = map(tables.DECISION_OF_TASK.read, rows)
        return {(each.task_name, each.key): each for each in found if each.key}

    def find_slate(self, slate: bytes) -> list[records.LoggedDecision]:
        """Return the decisions that are shown together, by position."""
        sql = f"{tables.DECISION.sql} WHERE d.slate = ? ORDER BY d.position"
        return [tables.DECISION.read(row) for row in self._execute(sql, (slate,))]

    def find_rewards(self, decisions: Sequence[int]) -> dict[int, records.LoggedReward]:
        """Return the rewards of decisions, by ``seq``."""
        found = self._find(tables.REWARD, "r.decision", decisions)
        return {reward.decision: reward for reward in found}

    def find_metrics(self, decisions: Sequence[int]) -> dict[tuple[int, str], float]:
        """Return the metrics of decisions, by ``seq`` and name."""
        found = self._find(tables.METRIC, "m.decision", decisions)
        return {(metric.decision, metric.name): metric.value for metric in found}

    def find_taken(self, tasks: Sequence[int]) -> list[tables.Row]:
        """Return the number of a task and an action, for each action that one of the tasks took.

        All decisions count: deferred ones may be shown, and rewards may never come.
        """
        sql = "SELECT DISTINCT task, action FROM decisions"
        return self._execute_where(sql, ("task",), [(task,) for task in tasks])

    def find_action_sets(self, numbers: Sequence[int]) -> dict[int, tables.ActionSet]:
        """Return sets of actions, by their numbers."""
        return {found.number: found for found in self._find(tables.OFFERED, "s.number", numbers)}

    # -- erasing and archiving ----------------------------------------------------------------

    FOR_UPDATE = ""
    """End of a statement that locks the tasks that it finds."""

    def erase(self, names: Sequence[str]) -> records.Erased:
        """Erase tasks with everything about them, and take them out of all counts."""
        entries = [
            tables.TASK.read(row)
            for row in self._execute_where(
                tables.TASK.sql, ("t.name",), [(name,) for name in names], self.FOR_UPDATE
            )
        ]
        tasks = [entry.number for entry in entries]
        among, parameter = self._among(tasks)
        rows = self._execute(f"SELECT seq FROM decisions WHERE task {among}", (parameter,))
        decisions = [seq for (seq,) in rows]
        counts = [_negative(count) for count in self.logged_counts(decisions)]
        tally = records.Tally(start=ERASED_START, writer=self.writer, tasks=-len(tasks))
        for name in records.COUNTED:
            setattr(tally, name, -sum(getattr(entry, name) for entry in entries))
        n_archived = sum(base.decisions for base in self.find_bases(tasks))
        self.remove_decisions(decisions)
        self._delete(tables.BASES, "task", tasks)
        self._delete(tables.TASKS, "number", tasks)
        self.add_counts(tables.COUNTS, counts)
        self._execute_each(tables.ACTIVITY.count, [tables.ACTIVITY.values(tally)] if tasks else [])
        return records.Erased(len(tasks), len(decisions), len(names) - len(tasks), n_archived)

    def find_bases(self, tasks: Sequence[int]) -> list[records.TaskBase]:
        """Return what archived rows left of tasks."""
        return self._find(tables.BASE, "b.task", tasks)

    def begin_archive(self, name: str) -> str:
        """Return the name of the archive and the number of its files; lock both.

        ``name`` is that of the archive if the store has none yet.
        """
        return str(self._one(_ARCHIVE, f"{name} 0"))

    def find_archivable(
        self, ids: tuple[bytes, bytes], now: int, limit: int
    ) -> list[ArchivableDecision]:
        """Return decisions with ids in a range, oldest first, that wait for nothing.

        They have a reward, or a window that has ended without one, or they have no window.
        """
        return [ArchivableDecision(*row) for row in self._execute(_ARCHIVABLE, (*ids, now, limit))]

    def first_rewards_of_others(self, decisions: Sequence[int], last: int) -> dict[int, int]:
        """Return the first reward up to ``last`` that a task learned for any other decision."""
        among, parameter = self._among(decisions)
        rows = self._execute(
            "SELECT d.task, MIN(r.seq) FROM rewards r JOIN decisions d ON d.seq = r.decision "
            f"WHERE r.seq <= ? AND r.late = 0 AND NOT d.seq {among} GROUP BY d.task",
            (last, parameter),
        )
        return dict(rows)

    def archive(
        self, decisions: Sequence[int], bases: Sequence[records.TaskBase], archive: str
    ) -> None:
        """Delete decisions that a file has, and keep what they add to counts and statistics."""
        self.add_counts(tables.ARCHIVED_COUNTS, self.logged_counts(decisions))
        self.remove_decisions(decisions)
        self._append(tables.BASES, [base for base in bases if not base.seq])
        known = [base for base in bases if base.seq]
        self._update(tables.BASES, tables.BASES.columns, known)
        self._set(records.MetaEntry("archive", archive))

    def rows_among(self, sql: str, decisions: Sequence[int]) -> list[tables.Row]:
        """Read rows of these decisions: ``sql`` has ``{where}`` for the condition on ``d.seq``."""
        among, parameter = self._among(decisions)
        return self._execute(sql.format(where=f"d.seq {among}"), (parameter,))

    def remove_decisions(self, decisions: Sequence[int]) -> None:
        """Delete decisions, what belongs to them, and the actions that only they chose from."""
        among, parameter = self._among(decisions)
        self._execute(
            "DELETE FROM open_windows WHERE (has_default, due, decision) IN "
            f"({WINDOWS_OF} WHERE d.seq {among})",
            (parameter,),
        )
        for table in _OF_DECISIONS:
            self._delete(table, "decision", decisions)
        offers = self._execute(
            f"SELECT DISTINCT action_set FROM decisions WHERE seq {among} "
            "AND action_set IS NOT NULL",
            (parameter,),
        )
        self._delete(tables.DECISIONS, "seq", decisions)
        among, parameter = self._among([number for (number,) in offers])
        unused = f"SELECT number FROM action_sets WHERE number {among} AND {_UNUSED_SETS}"
        numbers = [number for (number,) in self._execute(unused, (parameter,))]
        self._delete(tables.ACTION_SETS, "number", numbers)

    def logged_counts(self, decisions: Sequence[int]) -> list[records.SpanCount]:
        """Return what decisions add to the counts over time."""
        among, parameter = self._among(decisions)
        rows = self._execute(_COUNTS_OF.format(where=f"WHERE d.seq {among}"), (parameter,))
        return [records.SpanCount(**dict(zip(LOGGED_COUNTS, row, strict=True))) for row in rows]

    def add_counts(self, table: tables.Table, counts: Sequence[records.SpanCount]) -> None:
        """Add counts to those of a table."""
        for count in counts:
            count.writer = self.writer
        self._execute_each(table.count, list(map(table.values, counts)))

    # -- writing ------------------------------------------------------------------------------

    def add(self, changes: Changes, now: int) -> None:
        """Log rewards, activations and decisions, open and close windows, and save the tasks."""
        tally = changes.tally
        tally.start, tally.writer = now - now % SPAN_US, self.writer
        with self._together():
            self._append(tables.REWARDS, changes.rewards)
            self._append(tables.LATE_REWARDS, changes.late_rewards)
            self._append(tables.ACTIVATED, changes.activated)
            self._append(tables.METRICS, changes.metrics)
            self._log(changes.decisions)
            self.replace_windows(changes.closed, changes.opened)
            self.save_tasks(changes.tasks)
            self.add_counts(tables.COUNTS, changes.all_counts())
            self._execute_each(tables.ACTIVITY.count, [tables.ACTIVITY.values(tally)])

    def _log(self, decisions: Sequence[records.LoggedDecision]) -> None:
        """Log decisions, and open the windows of those that have one."""
        self._append(tables.DECISIONS, decisions)
        opened = [(decision.id,) for decision in decisions if decision.due is not None]
        if opened:
            self._execute_where(_OPEN_WINDOWS, ("id",), opened)

    def save_tasks(self, tasks: Sequence[records.TaskEntry]) -> None:
        """Save the counts, the belief and the statistics of tasks."""
        self._update(tables.TASKS, _SAVED, tasks)

    def replace_windows(
        self, closed: Sequence[records.OpenWindow], opened: Sequence[records.OpenWindow]
    ) -> None:
        """Remove rows of ``open_windows``, and insert others."""
        # A batch may activate a decision and reward it.
        self._execute_each(
            tables.OPEN_WINDOWS.insert(), list(map(tables.OPEN_WINDOWS.values, opened))
        )
        self._execute_each(
            tables.OPEN_WINDOWS.delete, list(map(tables.OPEN_WINDOWS.values, closed))
        )

    def replace_counts(self) -> None:
        """Make all rows of ``counts`` again, from the log and its archived part."""
        self._execute("DELETE FROM counts")
        self._execute(f"INSERT INTO counts ({', '.join(LOGGED_COUNTS)}) {ALL_COUNTS}")

    def add_prior(self, prior: records.LoggedPrior) -> tuple[int, bool]:
        """Return the version of a prior, and whether it is new; a known prior keeps its version.

        Call ``shape`` first, for its lock.
        """
        known = self.find_prior(prior.digest)
        if known is not None:
            return known, False
        self._append(tables.PRIORS, [prior])
        return int(self._one(_FIND_PRIOR, prior.digest)), True

    def find_prior(self, digest: bytes) -> int | None:
        """Return the version of a prior that is known, or None."""
        known = self._one(_FIND_PRIOR, digest)
        return None if known is None else int(known)

    def activate(self, version: int, now: int, shape: str, reason: str = "") -> None:
        """Make this version the active one; its tasks' statistics have this shape."""
        row = records.PriorActivation(version, now, reason=reason)
        self._append(tables.ACTIVATIONS, [row])
        self._set(records.MetaEntry("shape", shape))

    def set_canary(self, version: int, now: int, share: float, reason: str = "") -> None:
        """Let a version decide for a share of the new tasks; for none, end its canary.

        Call ``shape`` first, for its lock.
        """
        row = records.PriorActivation(version, now, share, reason)
        self._append(tables.ACTIVATIONS, [row])

    def trial_key(self) -> bytes:
        """Return the key by which tasks are drawn for trials; make it if the store has none."""
        self._execute(_NEW_KEY, (TRIAL_KEY, os.urandom(16).hex()))
        return bytes.fromhex(self._one(FIND_META, TRIAL_KEY))

    def begin_life(self) -> int:
        """Return how many deciders with a seed wrote to this store before, and count one more."""
        return int(self._one(_NEXT_LIFE))

    def note(self, name: str) -> str | None:
        """Return a note that the store keeps under a name."""
        value = self._one(FIND_META, name)
        return None if value is None else str(value)

    def set_note(self, name: str, value: str) -> None:
        """Keep a note under a name."""
        self._set(records.MetaEntry(name, value))

    def mark(self) -> None:
        """Write a row without a meaning, to test that the database accepts writes."""
        self._set(records.MetaEntry("probe", ""))

    def _set(self, entry: records.MetaEntry) -> None:
        self._execute(_SET_META, tables.META.values(entry))


def _negative(count: records.SpanCount) -> records.SpanCount:
    """Return counts that take others away."""
    added = {name: -getattr(count, name) for name in _ADDED if not name.endswith("_at")}
    return replace(count, **added)


class ArchivableDecision(NamedTuple):
    """A decision that may be archived."""

    id: bytes
    seq: int
    task: int
    reward: int | None
    """Number of its reward; None if it has none that was learned from."""


FeatureSets = dict[int, Float[Array, "K d"]]
"""Feature rows by the number of their action set."""


def find_features(
    transaction: Transaction, decisions: Iterable[records.LoggedDecision | records.WaitingDecision]
) -> FeatureSets:
    """Return the features of the actions that these decisions chose from."""
    numbers = sorted({d.action_set for d in decisions if d.action_set is not None})
    sets = transaction.find_action_sets(numbers) if numbers else {}
    return {number: actions.rows for number, actions in sets.items()}


class Backend(ABC):
    """A database that holds decisions."""

    name: str
    """The path or address that messages show."""
    database: str
    """Name of the database system."""
    is_quick = False
    """Whether a write waits for no server, so that an event loop may write."""
    settle_us = 0
    """Microseconds after which an operation's rows are visible, with those of smaller numbers."""

    @abstractmethod
    def now_us(self) -> int:
        """Return microseconds since 1970, by the one clock of all writers of this database."""

    def __init__(self) -> None:
        self._lock = threading.RLock()

    @contextmanager
    def transaction(self, wait: bool = True) -> Iterator[Transaction]:
        """Begin a transaction of the one writer; raise ``StoreUnavailableError`` if that fails.

        Threads take turns. With ``wait=False``, raise :class:`WouldWaitError` if it cannot begin at
        once.
        """
        if not self._lock.acquire(blocking=wait):
            raise WouldWaitError(f"another thread writes to {self.name}")
        try:
            with self._transaction(wait) as transaction:
                yield transaction
        finally:
            self._lock.release()

    @abstractmethod
    def _transaction(self, wait: bool) -> AbstractContextManager[Transaction]:
        """Begin a transaction.

        Conflicts with other writers are the backend's to avoid (locks) or to report as
        :class:`TransactionConflictError`, after which the batch is retried.
        """

    def transact(self, work: Callable[[Transaction], Value], wait: bool = True) -> Value:
        """Call a function in one transaction; retry after a conflict with another writer."""
        for _ in range(_ATTEMPTS):
            try:
                with self.transaction(wait) as transaction:
                    return work(transaction)
            except TransactionConflictError as error:
                conflict = error
        raise StoreUnavailableError(
            f"{self.name}: {_ATTEMPTS} attempts conflicted with other writers ({conflict}); "
            "nothing was changed"
        ) from conflict

    @abstractmethod
    def query(self, sql: str, parameters: Sequence[Any] = ()) -> list[tables.Row]:
        """Read, from any thread; statements have ``?`` for parameters."""

    def read(
        self, query: tables.Query[Record], parameters: Sequence[Any] = (), end: str = ""
    ) -> list[Record]:
        """Read records, from any thread; ``end`` is the end of the statement."""
        return list(map(query.read, self.query(query.sql + end, parameters)))

    def value(self, sql: str, parameters: Sequence[Any] = ()) -> Any:
        """Return the first value that a statement reads, or None."""
        rows = self.query(sql, parameters)
        return rows[0][0] if rows else None

    @abstractmethod
    def scan(self, sql: str, parameters: Sequence[Any] = ()) -> Iterator[tables.Row]:
        """Read row by row from one snapshot."""

    @abstractmethod
    def probe(self) -> None:
        """Write a row without a meaning, to test that the database accepts writes."""

    def check(self) -> Iterator[str]:
        """Check the content of the database; yield what is wrong with it.

        A database with checksums of its own yields nothing.
        """
        yield from ()

    def purge(self) -> bool:
        """Overwrite deleted rows where the database leaves their bytes in its files.

        Return False if a long read prevents it. A server does this in its own time.
        """
        return True

    def backup(self, path: Path) -> None:
        """Copy the database to a new file, while it is in use."""
        raise ParameterError(
            f"mixts copies SQLite files only. Copy this store with PostgreSQL's own tool: "
            f"pg_dump --format=custom --schema=mixts --file={shlex.quote(str(path))} "
            f"{shlex.quote(self.name)} (and a password); pg_restore brings it back"
        )

    @abstractmethod
    def watch(self) -> float:
        """Return for how many seconds a write has waited for the database.

        A decider calls this regularly; it may also end what takes too long.
        """

    @abstractmethod
    def schema_version(self) -> int:
        """Return the version of the tables."""

    @abstractmethod
    def n_bytes(self) -> int:
        """Return the size of the tables and their indices; of a file, with its write-ahead log."""

    @abstractmethod
    def close(self) -> None:
        """Close all connections."""
