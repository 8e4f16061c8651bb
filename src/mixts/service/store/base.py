"""The interface of a store to its database.

``batch`` says what operations mean; a backend only finds, locks and writes rows, in bulk and in one
transaction. Times are whole microseconds since 1970, arrays are bytes.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import numpy as np

from mixts._typing import Array, ArrayLike, Float
from mixts.service import clock
from mixts.service.records import (
    Changes,
    KnownReward,
    LoggedDecision,
    OpenWindow,
    TaskEntry,
    WaitingDecision,
)

Row = tuple[Any, ...]

CountedTask = tuple[int, int, int, int, int, int, bytes]
"""Number of a task, its decisions, rewards, late rewards, defaults and deferred decisions, and its
statistics."""

SPAN_US = 10_000_000
"""Activity is counted in spans of ten seconds."""

COUNTS_OF_THE_LOG = """
    SELECT s.span, d.at - d.at % s.span, CASE WHEN d.action_set IS NULL THEN d.action ELSE -1 END,
        d.version, d.policy, '', MIN(d.at), MAX(d.at), COUNT(*),
        SUM(CASE WHEN d.deferred = 1 AND a.decision IS NULL THEN 1 ELSE 0 END),
        COUNT(r.decision), COALESCE(SUM(r.is_default), 0),
        COALESCE(SUM(r.late), 0) + COUNT(l.decision),
        COALESCE(SUM(r.value), 0.0), COALESCE(SUM(r.value * r.value), 0.0)
    FROM decisions d CROSS JOIN (SELECT 600000000 AS span UNION ALL SELECT 86400000000) s
    LEFT JOIN rewards r ON r.decision = d.seq
    LEFT JOIN activated a ON a.decision = d.seq LEFT JOIN late_rewards l ON l.decision = d.seq
    GROUP BY 1, 2, 3, 4, 5
"""
"""Rows of ``counts`` as they follow from the log. A migration uses this statement: if the tables
change, keep a copy for it."""

NEXT_LIFE = """
    INSERT INTO meta (name, value)
    SELECT 'lives', CAST(COUNT(*) AS TEXT) FROM (SELECT 1 FROM decisions LIMIT 1) d WHERE true
    ON CONFLICT (name) DO UPDATE SET value = CAST(CAST(meta.value AS BIGINT) + 1 AS TEXT)
    RETURNING value
"""
"""Number of the next decider with a seed. A store from before they were counted had one."""

WORD = 8
"""Bytes of every number: 64-bit integers and doubles, little-endian."""

_SECOND = 1_000_000


def pack(values: ArrayLike) -> bytes:
    """Return the doubles of an array, one after the other."""
    return np.ascontiguousarray(values, "<f8").tobytes()


def unpack(content: bytes) -> Float[Array, " n"]:
    """Return the doubles that ``pack`` packed, as a writable array."""
    return np.frombuffer(content, "<f8").astype(float)


_SPARSE = b"\x01"
_HEAD = 5
"""Bytes before the entries of a sparse law: the mark, and the number of actions."""
_FEWEST_SPARSE = 100
"""Laws of fewer actions are always dense: there is little to save."""


def pack_law(law: Float[Array, " K"]) -> bytes:
    """Return the probabilities of actions: all of them, or only the positive ones if that is short.

    All of them are doubles, as ``pack`` writes them. A sparse law is a mark of one byte, the number
    of actions (32 bits), the indices of m actions (32 bits each) and their m doubles: 5 + 12 m
    bytes, which is no multiple of 8, so that the length tells the two apart.
    """
    if len(law) < _FEWEST_SPARSE:
        return pack(law)
    places = np.flatnonzero(law)
    if _HEAD + 12 * len(places) > 4 * len(law):
        return pack(law)
    numbers = np.concatenate([[len(law)], places]).astype("<u4")
    return _SPARSE + numbers.tobytes() + pack(law[places])


def law_size(length: int, head: bytes) -> int:
    """Return the number of actions of a law by its length in bytes and its first five bytes."""
    return length // WORD if length % WORD == 0 else int.from_bytes(head[1:_HEAD], "little")


def unpack_law(content: bytes) -> Float[Array, " K"]:
    """Return the probabilities that ``pack_law`` or, before there was that, ``pack`` packed."""
    if len(content) % WORD == 0:
        return unpack(content)
    m = (len(content) - _HEAD) // 12
    law = np.zeros(law_size(len(content), content[:_HEAD]))
    law[np.frombuffer(content, "<u4", m, _HEAD)] = np.frombuffer(content, "<f8", m, _HEAD + 4 * m)
    return law


class ActionSet(NamedTuple):
    """A row of ``action_sets``: actions that were offered together."""

    n_actions: int
    n_features: int
    body: bytes
    ids: str | None
    """Ids of the actions, a JSON list; None if they have none."""

    @classmethod
    def of(cls, rows: Float[Array, "K d"], ids: Sequence[str] | None) -> ActionSet:
        """Return the set of these rows, whose actions may have ids."""
        n_actions, n_features = rows.shape
        names = None if ids is None else json.dumps(list(ids))
        return cls(n_actions, n_features, pack(rows), names)

    @property
    def rows(self) -> Float[Array, "K d"]:
        """Features of the actions."""
        return unpack(bytes(self.body)).reshape(self.n_actions, self.n_features)

    @property
    def names(self) -> tuple[str, ...] | None:
        """Ids of the actions."""
        return None if self.ids is None else tuple(json.loads(self.ids))

    @property
    def digest(self) -> bytes:
        """Digest of the whole set."""
        head = f"{self.n_actions} {self.n_features} ".encode()
        return hashlib.sha256(head + self.body + (self.ids or "").encode()).digest()


# -- a database -----------------------------------------------------------------------------------


class WouldWaitError(Exception):
    """A transaction that must not wait would have had to wait; it has not begun."""


class TransactionConflictError(Exception):
    """The transaction conflicted with another writer's; nothing was changed, so retry it."""


class Transaction(ABC):
    """One transaction: when its context ends, all of its changes are durable, or none was made."""

    def now_us(self) -> int:
        """Return the time of the operations; see :meth:`Backend.now_us`."""
        return clock.now_us()

    @abstractmethod
    def active_version(self) -> int | None:
        """Return the version of the prior that was activated last."""

    @abstractmethod
    def is_active(self, version: int) -> bool:
        """Return whether this version, read earlier in this transaction, is still active."""

    @abstractmethod
    def find_decisions(self, ids: Sequence[bytes]) -> dict[bytes, LoggedDecision]:
        """Return the decisions with these ids that are in the log."""

    @abstractmethod
    def lock_tasks(
        self, names: Sequence[str], numbers: Sequence[int], now: int
    ) -> tuple[list[TaskEntry], int]:
        """Lock tasks by name, creating missing ones, and by number, until the transaction ends.

        Returns the tasks, and how many of them are new. Tasks that another writer keeps locked for
        too long are left out.
        """

    @abstractmethod
    def find_keys(self, pairs: Sequence[tuple[str, str]]) -> dict[tuple[str, str], LoggedDecision]:
        """Return the decisions for pairs of a task's name and a key."""

    @abstractmethod
    def find_slate(self, slate: bytes) -> list[LoggedDecision]:
        """Return the decisions that are shown together, by position."""

    @abstractmethod
    def find_rewards(self, decisions: Sequence[int]) -> dict[int, KnownReward]:
        """Return the rewards of decisions, by ``seq``."""

    @abstractmethod
    def find_waiting(
        self, tasks: Mapping[int, int], last: int, now: int, window: int
    ) -> list[WaitingDecision]:
        """Return the decisions of tasks that wait for a reward, oldest first.

        ``tasks`` are numbers, each with an upper bound on its decisions that wait. Only the last
        decisions of each task count, ``last`` of them. Deferred decisions that are not activated do
        not wait, nor do those whose window has ended; ``window`` is that of decisions without one.
        """

    @abstractmethod
    def find_taken(self, tasks: Sequence[int]) -> list[tuple[int, int]]:
        """Return the number of a task and an action, for each action that one of the tasks took.

        All decisions count: deferred ones may be shown, and rewards may never come.
        """

    @abstractmethod
    def action_set(self, digest: bytes, actions: ActionSet) -> int:
        """Return the number of a set of actions, storing the set if it is new.

        Raise ``TaskLockedError`` if another writer stores the same set and does not finish.
        """

    @abstractmethod
    def find_action_sets(self, numbers: Sequence[int]) -> dict[int, ActionSet]:
        """Return sets of actions, by their numbers."""

    @abstractmethod
    def add(self, changes: Changes, now: int) -> None:
        """Log rewards, activations and decisions, open and close windows, and save the tasks."""

    @abstractmethod
    def freeze(self) -> None:
        """Keep all other writers out until the transaction ends."""

    @abstractmethod
    def replace_tasks(self, rows: Sequence[CountedTask]) -> None:
        """Overwrite the counts and the statistics of tasks."""

    @abstractmethod
    def replace_windows(self, wrong: Sequence[OpenWindow], missing: Sequence[OpenWindow]) -> None:
        """Remove wrong rows of ``open_windows``, and insert missing ones."""

    @abstractmethod
    def replace_counts(self) -> None:
        """Make all rows of ``counts`` again, from the log."""

    @abstractmethod
    def add_prior(
        self, digest: bytes, now: int, family: str, n_components: int, body: bytes
    ) -> tuple[int, bool]:
        """Return the version of a prior, and whether it is new; a known prior keeps its version.

        Call ``shape`` first, for its lock.
        """

    @abstractmethod
    def activate(self, version: int, now: int, shape: str) -> None:
        """Make this version the active one; its tasks' statistics have this shape."""

    @abstractmethod
    def begin_life(self) -> int:
        """Return how many deciders with a seed wrote to this store before, and count one more."""

    @abstractmethod
    def shape(self) -> str | None:
        """Return the shape of the tasks' statistics, locked until the transaction ends."""


FeatureSets = dict[int, Float[Array, "K d"]]
"""Feature rows by the number of their action set."""


def find_features(
    transaction: Transaction, decisions: Iterable[LoggedDecision | WaitingDecision]
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
    settle_us = 0
    """Microseconds after which an operation's rows are visible, with those of smaller numbers."""

    def now_us(self) -> int:
        """Return microseconds since 1970, by the one clock of all writers of this database."""
        return clock.now_us()

    @abstractmethod
    def transaction(self, *, wait: bool = True) -> AbstractContextManager[Transaction]:
        """Begin a transaction of the one writer; raise ``StoreUnavailableError`` if that fails.

        With ``wait=False``, raise :class:`WouldWaitError` if it cannot begin at once. Conflicts
        with other writers are the backend's to avoid (locks) or to report as
        :class:`TransactionConflictError`, after which the batch is retried.
        """

    @abstractmethod
    def query(self, sql: str, parameters: Sequence[Any] = ()) -> list[Row]:
        """Read, from any thread; statements have ``?`` for parameters."""

    @abstractmethod
    def scan(self, sql: str, parameters: Sequence[Any] = ()) -> Iterator[Row]:
        """Read row by row from one snapshot."""

    @abstractmethod
    def probe(self) -> None:
        """Write a row without a meaning, to test that the database accepts writes."""

    def check(self, *, full: bool = False) -> Iterator[list[str]]:
        """Check the content of the database, a few rows at a time; yield what is wrong with them.

        With ``full``, check first that tables and indices fit together, which takes long.
        A database with checksums of its own yields nothing.
        """
        del full
        yield from ()

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
