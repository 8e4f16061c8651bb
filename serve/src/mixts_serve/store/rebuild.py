"""Recomputation of all statistics from the log, and comparison with the stored ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
from msgspec.structs import replace

from mixts.errors import StoreError
from mixts.extend import Array, Family, Int, Statistics
from mixts_serve.records import COUNTED, OpenWindow, TaskBase, TaskEntry
from mixts_serve.store.base import ALL_COUNTS, LOGGED_COUNTS, MERGED_COUNTS, WINDOWS_OF, Transaction
from mixts_serve.store.store import DecisionStore
from mixts_serve.store.tables import BASE, COUNTS, OPEN_WINDOWS, TASK, ActionSet, Row
from mixts_serve.versions import LoadedPrior

SetsOf = Callable[[Sequence[int]], Mapping[int, ActionSet]]
"""Function that reads sets of actions by their numbers."""

CHUNK = 20_000
"""Number of rewards that are learned from at a time, and of tasks that are compared."""

_SHOWN = 10
"""Number of differing tasks that are named."""

_NUMBERS = "SELECT number FROM tasks ORDER BY number"
_BASES = f"{BASE.sql} ORDER BY b.task"
_DECISIONS = "SELECT d.task, COUNT(*) FROM decisions d WHERE {where} GROUP BY d.task"
_DEFERRED = (
    "SELECT d.task, COUNT(*) FROM decisions d LEFT JOIN activated a ON a.decision = d.seq "
    "WHERE d.deferred = 1 AND a.decision IS NULL AND {where} GROUP BY d.task"
)
_LATE = (
    "SELECT d.task, COUNT(*) FROM late_rewards l JOIN decisions d ON d.seq = l.decision "
    "WHERE {where} GROUP BY d.task"
)
_TASKS = f"{TASK.sql} ORDER BY number"
_REWARDS = (
    "SELECT d.task, d.action, d.action_set, r.value, r.late, r.is_default FROM rewards r "
    "JOIN decisions d ON d.seq = r.decision WHERE {where} ORDER BY r.seq"
)
_SUMS = ("reward_sum", "reward_squares")
_BOUNDS = ("first_at", "last_at")
_STORED_COUNTS = f"{MERGED_COUNTS.format('counts')} HAVING SUM(decisions) <> 0"
_STORED_WINDOWS = f"SELECT {', '.join(OPEN_WINDOWS.key)} FROM open_windows"
_LOGGED_WINDOWS = (
    f"{WINDOWS_OF} LEFT JOIN rewards r ON r.decision = d.seq "
    "WHERE r.decision IS NULL AND COALESCE(a.due, d.due) IS NOT NULL"
)


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """Result of a rebuild."""

    tasks: int
    decisions: int
    rewards: int
    late: int
    differing: int
    """Number of tasks whose stored statistics or counts differ from the log."""
    examples: tuple[str, ...]
    """Names of the first of these tasks."""
    defaults: int = 0
    windows: int = 0
    """Number of open reward windows that differ from the log."""
    counts: int = 0
    """Number of counts over time (of an arm, a version and a policy) that differ from the log."""
    damage: tuple[str, ...] = ()
    """What is wrong with the content of the store: rows that differ from their checksums."""
    archived_tasks: int = 0
    """Number of tasks whose first decisions are archived: their statistics begin with those that
    the archived rewards gave, and are compared from there on."""
    archived_decisions: int = 0

    @property
    def n_differences(self) -> int:
        """Number of tasks, windows and counts that differ from the log."""
        return self.differing + self.windows + self.counts


def rebuild(store: DecisionStore, *, write: bool = True) -> Rebuilt:
    """Recompute every task and the open reward windows from the log, and correct what differs.

    The rebuild learns from rewards one by one in the order of the log, as the service did, so
    statistics agree to the bit. No other process can write meanwhile.

    Parameters
    ----------
    store : DecisionStore
    write : bool
        Correct the tasks that differ (True), or only report them (False).

    Returns
    -------
    Rebuilt
    """
    active = active_prior(store)
    damage = tuple(store.backend.check())
    if damage and write:
        raise StoreError(
            f"{store.name} is damaged, and a rebuild would learn from damaged rows: bring it back "
            f"from a copy; nothing was changed. What is wrong: {'; '.join(damage[:_SHOWN])}"
        )
    try:
        return _rebuild(store, active, damage, write)
    except (ValueError, KeyError, IndexError, StoreError) as error:
        if not damage:
            raise
        # What was found says more than how reading it failed.
        raise StoreError(f"{store.name} is damaged: {'; '.join(damage[:_SHOWN])}") from error


def _rebuild(
    store: DecisionStore, active: LoadedPrior, damage: tuple[str, ...], write: bool
) -> Rebuilt:
    with store.backend.transaction() as transaction:
        transaction.freeze()
        numbers = np.array([row[0] for row in store.backend.scan(_NUMBERS)], np.int64)
        bases = [BASE.read(row) for row in store.backend.scan(_BASES)]
        log = Replay(numbers, active.prior.family, bases)
        log.read(store.backend.scan, "1 = 1", transaction.find_action_sets)
        examples: list[str] = []
        n_differing = 0
        for wrong in _differences(store, active, log):
            n_differing += len(wrong)
            examples += [task.name for task in wrong[: _SHOWN - len(examples)]]
            if write:
                transaction.save_tasks(wrong)
        n_windows = _compare_windows(store, transaction, write)
        n_counts = _compare_counts(store, transaction, write)
    return Rebuilt(
        len(numbers), int(log.decisions.sum()), int(log.rewards.sum()), int(log.late.sum()),
        n_differing, tuple(examples), int(log.defaults.sum()), n_windows, n_counts, damage,
        len(bases), sum(base.decisions for base in bases),
    )  # fmt: skip


def _compare_windows(store: DecisionStore, transaction: Transaction, write: bool) -> int:
    """Return the number of open windows that differ from the log, after correcting them."""
    scan = store.backend.scan
    wrong = [OpenWindow(*row) for row in scan(f"{_STORED_WINDOWS} EXCEPT {_LOGGED_WINDOWS}")]
    missing = [OpenWindow(*row) for row in scan(f"{_LOGGED_WINDOWS} EXCEPT {_STORED_WINDOWS}")]
    if write:
        transaction.replace_windows(wrong, missing)
    return len(wrong) + len(missing)


def _compare_counts(store: DecisionStore, transaction: Transaction, write: bool) -> int:
    """Return the number of counts over time that differ from the log, after correcting them."""
    stored, logged = (_counts(store, sql) for sql in (_STORED_COUNTS, ALL_COUNTS))
    # Sums depend on the order of the rewards, in their last digits.
    same = [
        key
        for key, (counts, (first, last), sums) in logged.items()
        if key in stored
        and stored[key][0] == counts
        # The first and the last of the decisions may have been erased.
        and stored[key][1][0] <= first <= last <= stored[key][1][1]
        and np.allclose(stored[key][2], sums, rtol=1e-9, atol=1e-9)
    ]
    n_wrong = len(stored.keys() | logged.keys()) - len(same)
    if write and n_wrong:
        transaction.replace_counts()
    return n_wrong


def _counts(store: DecisionStore, sql: str) -> dict[Row, tuple[list[int], list[int], list[float]]]:
    """Return numbers, first and last times, and sums of the rows of ``counts`` by their keys."""
    found = {}
    for row in store.backend.scan(sql):
        value = dict(zip(LOGGED_COUNTS, row, strict=True))
        key = tuple(value.pop(name) for name in COUNTS.key)
        sums = [float(value.pop(name)) for name in _SUMS]
        bounds = [int(value.pop(name)) for name in _BOUNDS]
        found[key] = ([int(number) for number in value.values()], bounds, sums)
    return found


class Replay:
    """Tasks as they follow from the log, after what archived rows left."""

    def __init__(
        self, numbers: Int[Array, " n"], family: Family, bases: Sequence[TaskBase]
    ) -> None:
        self._numbers = numbers
        self._family = family
        self._sets: dict[int, Array] = {}
        before = {base.task: bytes(base.statistics) for base in bases}
        self.statistics: Statistics = family.empty_statistics(0).decode(
            [before.get(number, b"") for number in numbers.tolist()]
        )
        self._counts = np.zeros((len(COUNTED), len(numbers)), np.int64)
        for base in bases:
            self._counts[:, self.rows([base.task])[0]] = [getattr(base, name) for name in COUNTED]
        self.decisions, self.rewards, self.late, self.defaults, self.deferred = self._counts

    def rows(self, tasks: list[int]) -> Int[Array, " m"]:
        """Return the rows of tasks with these numbers."""
        return np.searchsorted(self._numbers, tasks)

    def counts(self, row: int) -> dict[str, int]:
        """Return the counts of a task, by the names of its fields."""
        return dict(zip(COUNTED, self._counts[:, row].tolist(), strict=True))

    def read(self, rows_of: Callable[[str], Iterable[Row]], where: str, sets_of: SetsOf) -> None:
        """Count the decisions of the log with a condition, and learn from their rewards."""
        for counts, sql in (
            (self.decisions, _DECISIONS), (self.deferred, _DEFERRED), (self.late, _LATE),
        ):  # fmt: skip
            for task, n in rows_of(sql.format(where=where)):
                counts[self.rows([task])] += n
        rewards = iter(rows_of(_REWARDS.format(where=where)))
        while chunk := list(islice(rewards, CHUNK)):
            self._learn(chunk, sets_of)

    def _learn(self, chunk: list[Row], sets_of: SetsOf) -> None:
        """Learn from the next rewards of the log."""
        tasks, actions, sets, values, late, defaults = zip(*chunk, strict=True)
        rows, is_late = self.rows(list(tasks)), np.array(late, bool)
        np.add.at(self.rewards, rows, 1)
        np.add.at(self.late, rows, is_late)
        np.add.at(self.defaults, rows, np.array(defaults, np.int64))
        learned = np.flatnonzero(~is_late)
        if not len(learned):
            return
        if self._family.n_arms is None:
            self._find_sets({sets[i] for i in learned}, sets_of)
            taken: Array = np.stack([self._sets[sets[i]][actions[i]] for i in learned])
        else:
            taken = np.array([actions[i] for i in learned], np.int64)
        observed = self.statistics.observations(taken, np.array(values, float)[learned])
        self.statistics.observe(rows[learned], observed)

    def _find_sets(self, numbers: set[int], sets_of: SetsOf) -> None:
        if len(self._sets) > CHUNK:
            self._sets.clear()
        missing = sorted(numbers - self._sets.keys())
        for number, actions in sets_of(missing).items():
            self._sets[number] = actions.rows


def _differences(
    store: DecisionStore, active: LoadedPrior, log: Replay
) -> Iterator[list[TaskEntry]]:
    """Yield the tasks that differ as they should be, a chunk at a time."""
    stored = map(TASK.read, store.backend.scan(_TASKS))
    start = 0
    while chunk := list(islice(stored, CHUNK)):
        rows = range(start, start + len(chunk))
        start += len(chunk)
        right = active.codec.encode(log.statistics[rows.start : rows.stop])
        contents = active.codec.decode([bytes(task.statistics) for task in chunk])
        kept = active.codec.encode(contents)
        corrected = [
            replace(task, statistics=content, **log.counts(row))
            for task, row, content in zip(chunk, rows, right, strict=True)
        ]
        yield [
            new
            for old, content, new in zip(chunk, kept, corrected, strict=True)
            if replace(old, statistics=content) != new
        ]


def active_prior(store: DecisionStore) -> LoadedPrior:
    """Return the active prior of a store; raise ``StoreError`` if it has none."""
    version = store.active_version()
    body = None if version is None else store.prior_body(version)
    if version is None or body is None:
        raise StoreError(f"{store.name} has no prior yet, and so no tasks: there is nothing to do")
    return LoadedPrior.load(version, body)
