"""A store of decisions, in SQLite or PostgreSQL, and everything that can be read from it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

from msgspec import Struct
from msgspec.structs import astuple

from mixts.errors import ParameterError, StoreError
from mixts.service.records import (
    COUNT_SPANS,
    ActionRow,
    Activity,
    ArmEarnings,
    ArmTraffic,
    DecisionRow,
    Earnings,
    PriorVersion,
    Share,
    TaskRow,
    Totals,
    Unrewarded,
    VersionEarnings,
)
from mixts.service.store.base import ActionSet, Backend, Row, unpack

_SECOND = 1_000_000

_POSTGRES = ("postgresql://", "postgres://")

_SETTLED_US = 3600 * _SECOND
_NEVER = 2**62

_FEWEST_REWARDS, _LOOKED_AT = 200, 1_000
"""Number of rewards from which on ``only_value`` judges, and of the last ones that it looks at."""

_TASK = (
    "SELECT name, decisions, rewards, late, latent, certainty, version, first_at, last_at, "
    "defaults, deferred FROM tasks"
)
_HISTORY = (
    "SELECT d.id, d.at, d.action, d.propensity, d.weights, d.version, r.value, r.at, r.late, "
    "d.policy, r.is_default, l.value, d.deferred, a.at, COALESCE(a.due, d.due), s.ids "
    "FROM (SELECT * FROM decisions WHERE task = (SELECT number FROM tasks WHERE name = ?) "
    "ORDER BY seq DESC LIMIT ?) d LEFT JOIN rewards r ON r.decision = d.seq "
    "LEFT JOIN late_rewards l ON l.decision = d.seq "
    "LEFT JOIN activated a ON a.decision = d.seq "
    "LEFT JOIN action_sets s ON s.number = d.action_set ORDER BY d.seq"
)
_ACTIONS = (
    "SELECT d.action, COUNT(*), COUNT(r.value), COALESCE(SUM(r.value), 0) "
    "FROM (SELECT seq, action FROM decisions WHERE task = (SELECT number FROM tasks WHERE name = ?)"
    " ORDER BY seq DESC LIMIT ?) d LEFT JOIN rewards r ON r.decision = d.seq "
    "GROUP BY d.action ORDER BY d.action"
)
_ACTIVITY = (
    "SELECT span, SUM(decisions), SUM(rewards), SUM(reward_sum), SUM(late), SUM(defaults) FROM "
    "(SELECT start / ? AS span, decisions, rewards, reward_sum, late, defaults FROM activity "
    "WHERE start >= ?) a GROUP BY span ORDER BY span"
)
_EARNED = (
    "SUM(decisions), SUM(deferred), SUM(rewards), SUM(defaults), SUM(late), SUM(reward_sum), "
    "SUM(reward_squares)"
)
_ARMS = f"SELECT arm, {_EARNED} FROM counts WHERE span = ? AND start >= ? GROUP BY arm"
_TRAFFIC = (
    "SELECT bin, arm, SUM(decisions) FROM (SELECT start / ? AS bin, {} AS arm, decisions "
    "FROM counts WHERE span = ? AND start >= ? {}) c GROUP BY 1, 2 ORDER BY 1, 2"
)
_VERSIONS = (
    f"SELECT version, policy, MIN(first_at), MAX(last_at), {_EARNED} FROM counts "
    "WHERE span = ? GROUP BY version, policy ORDER BY version, policy"
)
_COUNTS = (
    "SELECT COALESCE(SUM(tasks), 0), COALESCE(SUM(decisions), 0), COALESCE(SUM(rewards), 0), "
    "COALESCE(SUM(late), 0), COALESCE(SUM(defaults), 0), COALESCE(SUM(deferred), 0) "
    "FROM activity WHERE start >= ? AND start < ?"
)
_WINDOWS = (
    "SELECT has_default, CASE WHEN due < ? THEN 1 ELSE 0 END, COUNT(*) FROM open_windows "
    "GROUP BY 1, 2"
)
_DUE = (
    "SELECT d.id FROM (SELECT due, decision FROM open_windows WHERE has_default = 1 AND due < ? "
    "ORDER BY due, decision LIMIT ?) w JOIN decisions d ON d.seq = w.decision "
    "ORDER BY w.due, w.decision"
)
_LAST_VALUES = (
    "SELECT COUNT(*), MIN(value), MAX(value) FROM "
    "(SELECT value FROM rewards ORDER BY seq DESC LIMIT ?) r"
)
_SPLIT = (
    "SELECT latent, COUNT(*), SUM(CASE WHEN certainty >= 0.9 THEN 1 ELSE 0 END) FROM tasks "
    "WHERE version = ? GROUP BY latent ORDER BY latent"
)
_LAST_OFFER = (
    "SELECT a.n_actions, a.n_features, a.body, a.ids FROM decisions d "
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
    unrewarded: Unrewarded
    only_value: float | None
    """The one value of all rewards, if the log looks like one of clicks only; else None."""


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
    >>> import mixts
    >>> with mixts.DecisionStore("decisions.db") as store:
    ...     store.totals()
    Totals(tasks=0, decisions=0, rewards=0, late=0, defaults=0, deferred=0)
    """

    def __init__(self, path_or_url: str | os.PathLike[str], *, create: bool = True) -> None:
        self._use(_open(path_or_url, create))

    @classmethod
    def on(cls, backend: Backend) -> Self:
        """Return a store on a database that is already open.

        Parameters
        ----------
        backend : Backend
            The database.

        Returns
        -------
        DecisionStore
            The store.
        """
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
        """Reserve the store for a decider; raise ``StoreError`` if another one writes to it.

        Parameters
        ----------
        decider : object
            The decider.
        """
        if self._decider is not None:
            raise StoreError(f"{self.name} has a Decider already: close that one first")
        self._decider = decider

    def release(self, decider: object) -> None:
        """Let another decider claim the store.

        Parameters
        ----------
        decider : object
            The decider that claimed it.
        """
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

    def now(self) -> float:
        """Return the present time of the store's clock, in seconds since 1970.

        Decisions and rewards have their times by this clock. The clock of a store in PostgreSQL is
        the server's, so that all replicas have the same.

        Returns
        -------
        float
            The time.
        """
        return self.backend.now_us() / _SECOND

    def summary(self) -> Summary:
        """Return the database, its size, the totals and the priors.

        Returns
        -------
        Summary
            The summary.
        """
        backend = self.backend
        return Summary(
            self.name, backend.database, backend.schema_version(), backend.n_bytes(),
            self.totals(), self.priors(), self.unrewarded(), self.only_value(),
        )  # fmt: skip

    def totals(self) -> Totals:
        """Return the number of tasks, decisions, rewards, and rewards of each kind.

        Returns
        -------
        Totals
            The numbers.
        """
        before, old = self._settled
        recent = self._counts(before, _NEVER)
        now = int(time.time() * _SECOND)
        if now - before > 2 * _SETTLED_US:
            # Counts older than an hour change no more: add them up once, not at every call. The
            # last decision tells the time of the writers, whose clocks may differ from this one
            # and from those of earlier writers.
            found = self._query("SELECT at FROM decisions ORDER BY seq DESC LIMIT 1")
            until = min(now, int(found[0][0]) if found else 0) - _SETTLED_US
            if until > before:
                self._settled = (until, _sum(old, self._counts(before, until)))
        return _sum(old, recent)

    def _counts(self, since: int, until: int) -> Totals:
        (row,) = self._query(_COUNTS, (since, until))
        return Totals(*(int(count) for count in row))

    def unrewarded(self, now: float | None = None) -> Unrewarded:
        """Return the number of decisions without a reward, by reason.

        Parameters
        ----------
        now : float, optional
            The time, in seconds since 1970; by default, the present time of the store's clock.

        Returns
        -------
        Unrewarded
            Decisions from before there was a reward window count as waiting.
        """
        moment = int((self.now() if now is None else now) * _SECOND)
        windows = {(row[0], row[1]): int(row[2]) for row in self._query(_WINDOWS, (moment,))}
        totals = self.totals()
        given_up, due = windows.get((0, 1), 0), windows.get((1, 1), 0)
        rest = totals.decisions - totals.rewards - totals.deferred - given_up - due
        return Unrewarded(max(rest, 0), totals.deferred, given_up, due)

    def due(self, now: int, limit: int) -> list[str]:
        """Return ids of decisions with a default reward whose window ended without another reward.

        Parameters
        ----------
        now : int
            The time in microseconds since 1970: windows that ended before it count.
        limit : int
            Largest number of ids.

        Returns
        -------
        list of str
            The ids; first those whose window ended first.
        """
        return [bytes(id).hex() for (id,) in self._query(_DUE, (now, limit))]

    def has_open_defaults(self) -> bool:
        """Return whether some decision will get a default reward unless another comes."""
        return bool(self._query("SELECT 1 FROM open_windows WHERE has_default = 1 LIMIT 1"))

    def only_value(self) -> float | None:
        """Return the one value of all recent rewards, if silence seems to mean another value.

        A log of clicks only has many rewards that are all equal and not zero, while most decisions
        have none. Its beliefs are wrong: an arm that is clicked on in 6 % of the cases looks like
        one that always is.

        Returns
        -------
        float or None
            None if the log does not look like one of clicks only.
        """
        totals = self.totals()
        shown = totals.decisions - totals.deferred
        if totals.rewards < _FEWEST_REWARDS or 2 * totals.rewards > shown:
            return None
        ((n, low, high),) = self._query(_LAST_VALUES, (_LOOKED_AT,))
        alike = n >= _FEWEST_REWARDS and low == high and low != 0
        return float(low) if alike else None

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
            Activity(int(span) * bin_seconds, int(n), int(m), float(total), int(late), int(missed))
            for span, n, m, total, late, missed in rows
        ]

    def arms(self, since: float, bin_seconds: int) -> list[ArmEarnings]:
        """Return what the decisions since some time earned, by the arm that they took.

        Rewards count in the span in which their decision was made.

        Parameters
        ----------
        since : float
            The first moment, in seconds since 1970: the begin of a span.
        bin_seconds : int
            The length of a span: a multiple of 600, up to a day.

        Returns
        -------
        list of ArmEarnings
            A row for each arm and span.
        """
        rows = self._query(_ARMS, (_count_span(bin_seconds), int(since * _SECOND)))
        return [ArmEarnings(int(arm), _earnings(row)) for arm, *row in rows]

    def traffic(self, since: float, bin_seconds: int, arms: Sequence[int]) -> list[ArmTraffic]:
        """Return how many decisions took some arms over time, and how many any arm.

        Parameters
        ----------
        since, bin_seconds
            As for :meth:`arms`.
        arms : sequence of int
            Arms of interest.

        Returns
        -------
        list of ArmTraffic
            ``arm`` is None for all arms together. Spans without decisions are left out.
        """
        width = bin_seconds * _SECOND
        values = (width, _count_span(bin_seconds), int(since * _SECOND))
        found = self._query(_TRAFFIC.format("NULL", ""), values)
        if arms:
            wanted = f"AND arm IN ({', '.join('?' * len(arms))})"
            found += self._query(_TRAFFIC.format("arm", wanted), (*values, *arms))
        return [
            ArmTraffic(int(span) * bin_seconds, None if arm is None else int(arm), int(n))
            for span, arm, n in found
        ]

    def versions(self) -> list[VersionEarnings]:
        """Return what all decisions earned, by version of the prior and by policy.

        Returns
        -------
        list of VersionEarnings
            A row for each version and policy.
        """
        return [
            VersionEarnings(version, policy, first / _SECOND, last / _SECOND, _earnings(row))
            for version, policy, first, last, *row in self._query(_VERSIONS, (COUNT_SPANS[-1],))
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
            The tasks.
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
            The task; None if it is unknown.
        """
        rows = self._query(_TASK + " WHERE name = ?", (name,))
        return _task_row(rows[0]) if rows else None

    def statistics(self, names: Sequence[str]) -> dict[str, bytes]:
        """Return the statistics of tasks as they are stored; unknown tasks are left out.

        Parameters
        ----------
        names : sequence of str
            Names of tasks.

        Returns
        -------
        dict
            The bytes of each task's statistics, by name.
        """
        if not names:
            return {}
        sql = f"SELECT name, statistics FROM tasks WHERE name IN ({', '.join('?' * len(names))})"
        return {name: bytes(content) for name, content in self._query(sql, tuple(names))}

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
            The decisions with their rewards, oldest first.
        """
        return [
            DecisionRow(
                bytes(id).hex(), at / _SECOND, action, propensity,
                tuple(unpack(bytes(weights)).tolist()), version, value,
                _seconds(rewarded), bool(late), policy, bool(is_default), late_value,
                bool(deferred), _seconds(activated), _seconds(due),
                None if ids is None else json.loads(ids)[action],
            )
            for (
                id, at, action, propensity, weights, version, value, rewarded, late, policy,
                is_default, late_value, deferred, activated, due, ids,
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
            A row for each action that was taken.
        """
        return [
            ActionRow(action, int(n), int(m), float(total))
            for action, n, m, total in self._query(_ACTIONS, (name, limit))
        ]

    def last_offer(self, name: str) -> ActionSet | None:
        """Return the actions that a task was offered last.

        Parameters
        ----------
        name : str
            The task's name.

        Returns
        -------
        ActionSet or None
            The actions; None if the task had no offer.
        """
        rows = self._query(_LAST_OFFER, (name,))
        return ActionSet(*rows[0]) if rows else None

    # -- priors -------------------------------------------------------------------------------

    def active_version(self) -> int | None:
        """Return the active version of the prior, or None if the store has no prior.

        Returns
        -------
        int or None
            The version; None if there is none.
        """
        rows = self._query("SELECT version FROM activations ORDER BY seq DESC LIMIT 1")
        return int(rows[0][0]) if rows else None

    def priors(self) -> list[PriorVersion]:
        """Return every version of the prior.

        Returns
        -------
        list of PriorVersion
            The versions, oldest first.
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
        """Return the file of a version of the prior.

        Parameters
        ----------
        version : int
            The version.

        Returns
        -------
        bytes or None
            Content of the file; None if there is no such version.
        """
        rows = self._query("SELECT body FROM priors WHERE version = ?", (version,))
        return bytes(rows[0][0]) if rows else None


def _task_row(row: Row) -> TaskRow:
    *before, first_at, last_at, defaults, deferred = row
    seconds = (first_at / _SECOND, last_at / _SECOND)
    return TaskRow(*(*before, *seconds, defaults, deferred))


def _seconds(moment: int | None) -> float | None:
    return None if moment is None else moment / _SECOND


def _count_span(bin_seconds: int) -> int:
    """Return the longest span of ``counts`` of which a bin consists."""
    width = bin_seconds * _SECOND
    fitting = [span for span in COUNT_SPANS if width % span == 0]
    if not fitting:
        raise ParameterError(f"bin_seconds must be a multiple of 600, got {bin_seconds!r}")
    return max(fitting)


def _earnings(row: Sequence[Any]) -> Earnings:
    decisions, deferred, rewards, defaults, late = (int(n) for n in row[:5])
    return Earnings(decisions, deferred, rewards, defaults, late, float(row[5]), float(row[6]))


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
