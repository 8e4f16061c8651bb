"""A store of decisions, in SQLite or PostgreSQL, and everything that can be read from it."""

from __future__ import annotations

import os
import time
from types import TracebackType
from typing import Self

from msgspec import Struct
from msgspec.structs import astuple

from mixts._typing import Array, Float
from mixts.errors import StoreError
from mixts.service.records import (
    ActionRow,
    Activity,
    DecisionRow,
    PriorVersion,
    Share,
    TaskRow,
    Totals,
)
from mixts.service.store.base import Backend, Row, unpack

_SECOND = 1_000_000

_POSTGRES = ("postgresql://", "postgres://")

_SETTLED_US = 3600 * _SECOND
_NEVER = 2**62

_TASK = (
    "SELECT name, decisions, rewards, late, latent, certainty, version, first_at, last_at "
    "FROM tasks"
)
_HISTORY = (
    "SELECT d.id, d.at, d.action, d.propensity, d.weights, d.version, r.value, r.at, r.late, "
    "d.policy "
    "FROM (SELECT * FROM decisions WHERE task = (SELECT number FROM tasks WHERE name = ?) "
    "ORDER BY seq DESC LIMIT ?) d LEFT JOIN rewards r ON r.decision = d.seq ORDER BY d.seq"
)
_ACTIONS = (
    "SELECT d.action, COUNT(*), COUNT(r.value), COALESCE(SUM(r.value), 0) "
    "FROM (SELECT seq, action FROM decisions WHERE task = (SELECT number FROM tasks WHERE name = ?)"
    " ORDER BY seq DESC LIMIT ?) d LEFT JOIN rewards r ON r.decision = d.seq "
    "GROUP BY d.action ORDER BY d.action"
)
_ACTIVITY = (
    "SELECT span, SUM(decisions), SUM(rewards), SUM(reward_sum), SUM(late) FROM "
    "(SELECT start / ? AS span, decisions, rewards, reward_sum, late FROM activity "
    "WHERE start >= ?) a GROUP BY span ORDER BY span"
)
_COUNTS = (
    "SELECT COALESCE(SUM(tasks), 0), COALESCE(SUM(decisions), 0), COALESCE(SUM(rewards), 0), "
    "COALESCE(SUM(late), 0) FROM activity WHERE start >= ? AND start < ?"
)
_SPLIT = (
    "SELECT latent, COUNT(*), SUM(CASE WHEN certainty >= 0.9 THEN 1 ELSE 0 END) FROM tasks "
    "WHERE version = ? GROUP BY latent ORDER BY latent"
)
_LAST_OFFER = (
    "SELECT a.n_actions, a.n_features, a.body FROM decisions d "
    "JOIN action_sets a ON a.number = d.action_set "
    "WHERE d.task = (SELECT number FROM tasks WHERE name = ?) ORDER BY d.seq DESC LIMIT 1"
)


class Summary(Struct, frozen=True):
    """Summary of a store, as ``mixts store show`` prints it."""

    name: str
    database: str
    schema_version: int
    n_bytes: int
    """Size of the tables and their indices; of a file, with its write-ahead log."""
    totals: Totals
    priors: list[PriorVersion]


class DecisionStore:
    """Append-only log of decisions and rewards, and the tasks' statistics, which agree with it.

    A file that is damaged, belongs to another program or comes from a newer mixts is refused and
    left as it is. Reads never wait for the writer; all methods may be called from any thread.

    Parameters
    ----------
    path_or_url : str or path
        A path is a SQLite file; ``postgresql://...`` is the address of a PostgreSQL database,
        which several processes may share.
    create : bool
        If the store does not exist, create it (True) or raise ``StoreError`` (False).

    Examples
    --------
    >>> with mixts.DecisionStore("decisions.db") as store:  # doctest: +SKIP
    ...     store.totals()
    Totals(tasks=0, decisions=0, rewards=0, late=0)
    """

    def __init__(self, path_or_url: str | os.PathLike[str], *, create: bool = True) -> None:
        self._use(_open(path_or_url, create))

    @classmethod
    def on(cls, backend: Backend) -> Self:
        """Return a store on a database that is already open."""
        store = cls.__new__(cls)
        store._use(backend)
        return store

    def _use(self, backend: Backend) -> None:
        self.backend = backend
        self._query = backend.query
        self._settled = (0, Totals(0, 0, 0, 0))
        self._decider: object | None = None

    @property
    def name(self) -> str:
        """The path, or the address without its password."""
        return self.backend.name

    def claim(self, decider: object) -> None:
        """Reserve the store for a decider; raise ``StoreError`` if another one writes to it."""
        if self._decider is not None:
            raise StoreError(f"{self.name} has a Decider already: close that one first")
        self._decider = decider

    def release(self, decider: object) -> None:
        """Let another decider claim the store."""
        if self._decider is decider:
            self._decider = None

    def close(self) -> None:
        """Close the database; close the decider on it first."""
        self.backend.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"DecisionStore({self.name!r})"

    # -- the whole store ----------------------------------------------------------------------

    def summary(self) -> Summary:
        """Return the database, its size, the totals and the priors.

        Returns
        -------
        Summary
        """
        backend = self.backend
        return Summary(
            self.name, backend.database, backend.schema_version(), backend.n_bytes(),
            self.totals(), self.priors(),
        )  # fmt: skip

    def totals(self) -> Totals:
        """Return the number of tasks, decisions, rewards and late rewards.

        Returns
        -------
        Totals
        """
        before, old = self._settled
        recent = self._counts(before, _NEVER)
        now = int(time.time() * _SECOND)
        if now - before > 2 * _SETTLED_US:
            # Counts older than an hour change no more: add them up once, not at every call.
            until = now - _SETTLED_US
            self._settled = (until, _sum(old, self._counts(before, until)))
        return _sum(old, recent)

    def _counts(self, since: int, until: int) -> Totals:
        (row,) = self._query(_COUNTS, (since, until))
        return Totals(*(int(count) for count in row))

    def activity(self, since: float, bin_seconds: int) -> list[Activity]:
        """Return counts of decisions and rewards over time.

        Parameters
        ----------
        since : float
            The first moment, in seconds since 1970.
        bin_seconds : int
            The length of each span of time; a multiple of ten.

        Returns
        -------
        list of Activity
            Spans in which nothing happened are left out.
        """
        width = bin_seconds * _SECOND
        rows = self._query(_ACTIVITY, (width, int(since * _SECOND)))
        return [
            Activity(int(span) * bin_seconds, int(n), int(m), float(total), int(late))
            for span, n, m, total, late in rows
        ]

    def split(self, version: int) -> list[Share]:
        """Return how many tasks have each component of a version as their most probable one.

        Parameters
        ----------
        version : int
            A version of the prior.

        Returns
        -------
        list of Share
            The last one, with ``latent`` None, counts tasks without a decision by this version.
        """
        shares = [
            Share(latent, int(n), int(sure)) for latent, n, sure in self._query(_SPLIT, (version,))
        ]
        others = self.totals().tasks - sum(share.tasks for share in shares)
        return [*shares, Share(None, others, 0)] if others > 0 else shares

    # -- tasks --------------------------------------------------------------------------------

    def tasks(self, search: str = "", limit: int = 50, offset: int = 0) -> list[TaskRow]:
        """Return tasks, those with the latest activity first.

        Parameters
        ----------
        search : str
            A part of the name, in any case; empty for all tasks.
        limit, offset : int
            The number of tasks to return, and of those to skip.

        Returns
        -------
        list of TaskRow
        """
        order = " ORDER BY last_at DESC, number DESC LIMIT ? OFFSET ?"
        if not search:
            return [_task_row(row) for row in self._query(_TASK + order, (limit, offset))]
        # The database lowers both sides: databases differ in how much of Unicode they lower.
        pattern = "".join(f"\\{c}" if c in "\\%_" else c for c in search)
        sql = _TASK + " WHERE lower(name) LIKE lower(?) ESCAPE '\\'" + order
        return [_task_row(row) for row in self._query(sql, (f"%{pattern}%", limit, offset))]

    def task(self, name: str) -> TaskRow | None:
        """Return one task, or None if it has no decisions.

        Parameters
        ----------
        name : str
            The task's name.

        Returns
        -------
        TaskRow or None
        """
        rows = self._query(_TASK + " WHERE name = ?", (name,))
        return _task_row(rows[0]) if rows else None

    def statistics(self, name: str) -> bytes | None:
        """Return a task's statistics as they are stored, or None if there is no such task."""
        rows = self._query("SELECT statistics FROM tasks WHERE name = ?", (name,))
        return bytes(rows[0][0]) if rows else None

    def history(self, name: str, limit: int = 200) -> list[DecisionRow]:
        """Return the last decisions of a task with their rewards, oldest first.

        Parameters
        ----------
        name : str
            The task's name.
        limit : int
            The largest number of decisions.

        Returns
        -------
        list of DecisionRow
        """
        return [
            DecisionRow(
                bytes(id).hex(), at / _SECOND, action, propensity,
                tuple(unpack(bytes(weights)).tolist()), version, value,
                None if rewarded is None else rewarded / _SECOND, bool(late), policy,
            )
            for (
                id, at, action, propensity, weights, version, value, rewarded, late, policy,
            ) in self._query(_HISTORY, (name, limit))
        ]  # fmt: skip

    def actions(self, name: str, limit: int = 10_000) -> list[ActionRow]:
        """Return how often a task's last decisions took each action, and the rewards.

        Parameters
        ----------
        name : str
            The task's name.
        limit : int
            The number of decisions to count.

        Returns
        -------
        list of ActionRow
        """
        return [
            ActionRow(action, int(n), int(m), float(total))
            for action, n, m, total in self._query(_ACTIONS, (name, limit))
        ]

    def last_offer(self, name: str) -> Float[Array, "K d"] | None:
        """Return the feature rows that a task was offered last, or None."""
        rows = self._query(_LAST_OFFER, (name,))
        if not rows:
            return None
        n_actions, n_features, body = rows[0]
        return unpack(bytes(body)).reshape(n_actions, n_features)

    # -- priors -------------------------------------------------------------------------------

    def active_version(self) -> int | None:
        """Return the active version of the prior, or None if the store has no prior.

        Returns
        -------
        int or None
        """
        rows = self._query("SELECT version FROM activations ORDER BY seq DESC LIMIT 1")
        return int(rows[0][0]) if rows else None

    def priors(self) -> list[PriorVersion]:
        """Return every version of the prior.

        Returns
        -------
        list of PriorVersion
        """
        active = self.active_version()
        rows = self._query(
            "SELECT version, uploaded_at, family, n_components FROM priors ORDER BY version"
        )
        return [
            PriorVersion(version, at / _SECOND, version == active, family, n)
            for version, at, family, n in rows
        ]

    def prior_body(self, version: int) -> bytes | None:
        """Return the file of a version, or None if there is no such version."""
        rows = self._query("SELECT body FROM priors WHERE version = ?", (version,))
        return bytes(rows[0][0]) if rows else None


def _task_row(row: Row) -> TaskRow:
    name, decisions, rewards, late, latent, certainty, version, first_at, last_at = row
    seconds = first_at / _SECOND, last_at / _SECOND
    return TaskRow(name, decisions, rewards, late, latent, certainty, version, *seconds)


def _sum(one: Totals, other: Totals) -> Totals:
    return Totals(*(a + b for a, b in zip(astuple(one), astuple(other), strict=True)))


def _open(path_or_url: str | os.PathLike[str], create: bool) -> Backend:
    if isinstance(path_or_url, str) and path_or_url.startswith(_POSTGRES):
        from mixts.service.store.postgres import PostgresBackend

        return PostgresBackend(path_or_url, create=create)
    if isinstance(path_or_url, str) and "://" in path_or_url:
        raise StoreError(
            "a store is a path or an address that begins with postgresql://, "
            f"got one that begins with {path_or_url.partition('://')[0]}://"
        )
    if not create and not os.path.exists(path_or_url):
        raise StoreError(f"{os.fspath(path_or_url)} does not exist")
    from mixts.service.store.sqlite import SQLiteBackend

    return SQLiteBackend(path_or_url)
