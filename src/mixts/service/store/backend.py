"""What a database must do for the decision service: bulk reads and writes in one transaction.

What operations mean is written once, in ``service.group``; a backend only finds, locks and writes
rows. Times are whole microseconds since 1970, arrays are bytes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

from mixts.service.records import LoggedDecision, LoggedReward, Tally, TaskEntry

Row = tuple[Any, ...]

SPAN_US = 10_000_000
"""Activity is counted in spans of ten seconds."""


class Transaction(ABC):
    """One transaction; everything it does is durable when its context ends, or never was."""

    @abstractmethod
    def active_version(self) -> int | None:
        """The version of the prior that was activated last."""

    @abstractmethod
    def is_active(self, version: int) -> bool:
        """Whether this version, which was read in this transaction, still is."""

    @abstractmethod
    def find_decisions(self, ids: Sequence[bytes]) -> dict[bytes, LoggedDecision]:
        """Those of the decisions that were made."""

    @abstractmethod
    def lock_tasks(
        self, names: Sequence[str], numbers: Sequence[int], now: int
    ) -> tuple[list[TaskEntry], int]:
        """The tasks of these names, made where they are missing, and of these numbers.

        Nobody else changes them before the transaction ends. Also how many are new.
        """

    @abstractmethod
    def find_keys(self, pairs: Sequence[tuple[str, str]]) -> dict[tuple[str, str], LoggedDecision]:
        """Decisions by the names of their tasks and their keys."""

    @abstractmethod
    def find_rewards(self, decisions: Sequence[int]) -> dict[int, tuple[float, bool]]:
        """The rewards of decisions, by ``seq``: value and whether it was late."""

    @abstractmethod
    def action_set(self, digest: bytes, n_actions: int, n_features: int, body: bytes) -> int:
        """The number of a set of actions, which is kept once."""

    @abstractmethod
    def find_action_sets(self, numbers: Sequence[int]) -> dict[int, tuple[int, int, bytes]]:
        """Sets of actions: how many, how many features, and the numbers."""

    @abstractmethod
    def add(
        self,
        rewards: Sequence[LoggedReward],
        decisions: Sequence[LoggedDecision],
        tasks: Sequence[TaskEntry],
        tally: Tally,
        now: int,
    ) -> None:
        """Log rewards, then decisions, and save the tasks."""

    @abstractmethod
    def freeze(self) -> None:
        """Nobody else writes anything before the transaction ends."""

    @abstractmethod
    def replace_tasks(self, rows: Sequence[tuple[int, int, int, int, bytes]]) -> None:
        """Set (number, decisions, rewards, late, statistics) of tasks: what a rebuild found."""

    @abstractmethod
    def add_prior(
        self, digest: bytes, now: int, family: str, n_components: int, body: bytes
    ) -> tuple[int, bool]:
        """The version of a prior, and whether it is new; one that is there keeps its version.

        ``shape`` comes first, for its lock.
        """

    @abstractmethod
    def activate(self, version: int, now: int, shape: str) -> None:
        """From now on decisions are made with this prior, whose statistics have this shape."""

    @abstractmethod
    def shape(self) -> str | None:
        """The shape of the tasks' statistics; locked until the transaction ends."""


class Backend(ABC):
    """A database that holds decisions."""

    name: str
    """What messages call it."""

    @abstractmethod
    def transaction(self, *, wait: bool = True) -> AbstractContextManager[Transaction]:
        """A transaction of the one writer; a failure raises StoreUnavailableError.

        With ``wait=False`` one that cannot begin at once raises :class:`WouldWaitError`.
        Conflicts with other writers are the backend's to avoid (locks) or to report as
        :class:`TransactionConflictError`, after which the group is tried again.
        """

    @abstractmethod
    def query(self, sql: str, parameters: Sequence[Any] = ()) -> list[Row]:
        """Read, from any thread; statements have ``?`` for parameters."""

    @abstractmethod
    def scan(self, sql: str, parameters: Sequence[Any] = ()) -> Iterator[Row]:
        """Read row by row, from one moment's state."""

    @abstractmethod
    def probe(self) -> None:
        """Write something that changes nothing, to see whether writing works."""

    @abstractmethod
    def close(self) -> None:
        """Let go of everything."""


class WouldWaitError(Exception):
    """A transaction that may not wait would have to; it has not begun."""


class TransactionConflictError(Exception):
    """Another writer was in the way; nothing was changed, and it may be tried again."""
