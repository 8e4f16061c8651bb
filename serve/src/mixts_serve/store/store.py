"""A store of decisions, in SQLite or PostgreSQL, and everything that can be read from it."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any, Self, get_type_hints

from msgspec.json import decode
from msgspec.structs import asdict, replace

from mixts.errors import ParameterError, StoreError
from mixts_serve.records import COUNTED, Deployment, Pedigree, PriorActivation, PriorVersion
from mixts_serve.store import views
from mixts_serve.store.base import (
    COUNT_SPANS,
    DEPLOYED,
    ERASED_START,
    FIND_META,
    Backend,
    deployment_of,
)
from mixts_serve.store.tables import OFFERED, ActionSet, Query, Row, unpack

_SECOND = 1_000_000


_POSTGRES = ("postgresql://", "postgres://")

_SETTLED_US = 3600 * _SECOND
_NEVER = 2**62

_TEN_MINUTES, _DAY = COUNT_SPANS
MOST_LOGGED = 10_000
"""Most decisions whose rewards are read from the log, which takes a few hundredths of a second."""

_FEWEST_REWARDS, _LOOKED_AT = 200, 1_000
"""Number of rewards from which on ``only_value`` judges, and of the last ones that it looks at."""


def _seconds(column: str) -> str:
    """Return the SQL for a time in seconds."""
    return f"{column} / CAST({_SECOND} AS DOUBLE PRECISION)"


def _total(numbers: str) -> str:
    """Return the SQL for a sum of whole numbers, which PostgreSQL would return as a decimal."""
    return f"CAST(COALESCE(SUM({numbers}), 0) AS BIGINT)"


_COUNTS = {name: _total(name) for name in COUNTED}
_TASK = Query(
    views.TaskRow,
    {
        **{name: name for name in get_type_hints(views.TaskRow)}, "task": "name",
        "first_at": _seconds("first_at"), "last_at": _seconds("last_at"),
    },
    "tasks",
)  # fmt: skip
_HISTORY = Query(
    views.DecisionRow,
    {
        "id": "d.id", "at": _seconds("d.at"), "action": "d.action", "propensity": "d.propensity",
        "weights": "d.weights", "prior_version": "d.version", "policy": "d.policy",
        "side": "d.side", "value": "r.value", "rewarded_at": _seconds("r.at"), "late": "r.late",
        "is_default": "r.is_default", "late_value": "l.value", "deferred": "d.deferred",
        "activated_at": _seconds("a.at"), "due": _seconds("COALESCE(a.due, d.due)"), "arm": "s.ids",
    },
    "(SELECT * FROM decisions WHERE task = (SELECT number FROM tasks WHERE name = ?) "
    "ORDER BY seq DESC LIMIT ?) d LEFT JOIN rewards r ON r.decision = d.seq "
    "LEFT JOIN late_rewards l ON l.decision = d.seq "
    "LEFT JOIN activated a ON a.decision = d.seq "
    "LEFT JOIN action_sets s ON s.number = d.action_set",
)  # fmt: skip
_ACTIONS = Query(
    views.ActionRow,
    {
        "action": "d.action", "decisions": "COUNT(*)", "rewards": "COUNT(r.value)",
        "reward_sum": "COALESCE(SUM(r.value), 0.0)",
    },
    "(SELECT seq, action, at FROM decisions WHERE task = (SELECT number FROM tasks WHERE name = ?)"
    " ORDER BY seq DESC LIMIT ?) d LEFT JOIN rewards r ON r.decision = d.seq AND d.at < ? "
    "GROUP BY d.action ORDER BY d.action",
)  # fmt: skip
_ACTIVITY = Query(
    views.Activity,
    {"start": _seconds("(start - start % ?)"), **_COUNTS},
    f"activity WHERE start >= ? AND start < {ERASED_START} GROUP BY 1 ORDER BY 1",
)
_LONGEST_WAIT = """
    SELECT MAX(wait) FROM (
        SELECT wait FROM (
            SELECT CASE WHEN default_reward IS NULL THEN NULL ELSE due - at END AS wait
            FROM decisions ORDER BY seq DESC LIMIT 1
        ) l
        UNION ALL
        SELECT o.due - d.at FROM (
            SELECT decision, due FROM open_windows WHERE has_default = 1 ORDER BY due DESC LIMIT 1
        ) o JOIN decisions d ON d.seq = o.decision
        UNION ALL
        SELECT o.due - d.at FROM (
            SELECT decision, due FROM open_windows WHERE has_default = 1 ORDER BY decision LIMIT 1
        ) o JOIN decisions d ON d.seq = o.decision
        UNION ALL
        SELECT a.due - d.at FROM (
            SELECT decision, due, default_reward FROM activated ORDER BY seq DESC LIMIT 1000
        ) a JOIN decisions d ON d.seq = a.decision WHERE a.default_reward IS NOT NULL AND a.due > ?
    ) w
"""
"""Longest time from a decision to the end of its window, of those that may still be open: of the
last decision, of the open ones that was made first and whose window ends last (they differ if the
length of windows was changed), and of deferred decisions activated lately."""
_FINAL = """
    SELECT {}, CAST(SUM(rewards) AS BIGINT), SUM(reward_sum), SUM(reward_squares) FROM (
        SELECT start, arm, version, policy, rewards, reward_sum, reward_squares FROM counts
        WHERE span = ? AND start >= ? AND start < ?
        UNION ALL
        SELECT start, arm, version, policy, rewards, reward_sum, reward_squares FROM counts
        WHERE span = ? AND start >= ? AND start < ?
        UNION ALL
        SELECT d.at, CASE WHEN d.action_set IS NULL THEN d.action ELSE -1 END, d.version, d.policy,
            1, r.value, r.value * r.value
        FROM decisions d JOIN rewards r ON r.decision = d.seq WHERE d.id >= ? AND d.id < ?
    ) f GROUP BY {}
"""
"""Rewards of decisions by days, then by ten minutes, then one by one. Ids begin with the time."""
_SUMS = ("counted", "reward_sum", "reward_squares")
"""Fields of ``Earnings`` that the last columns of ``_FINAL`` are."""
_EARNED = ", ".join(_COUNTS.values())
_ARMS = (
    f"SELECT arm, {_EARNED} FROM counts WHERE span = ? AND start >= ? GROUP BY arm "
    "HAVING SUM(decisions) > 0"  # the others were erased
)
_TRAFFIC = (
    f"SELECT {_seconds('bin')}, arm, {_total('decisions')} FROM (SELECT start - start % ? AS bin, "
    "{} AS arm, decisions FROM counts WHERE span = ? AND start >= ? {}) c "
    "GROUP BY 1, 2 HAVING SUM(decisions) > 0 ORDER BY 1, 2"
)
_VERSIONS = (
    f"SELECT version, policy, MIN(first_at), MAX(last_at), {_EARNED} FROM counts "
    "WHERE span = ? GROUP BY version, policy HAVING SUM(decisions) > 0 ORDER BY version, policy"
)
_TOTALS = Query(
    views.Totals, {"tasks": _total("tasks"), **_COUNTS}, "activity WHERE start >= ? AND start < ?"
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
_SPLIT = Query(
    views.Share,
    {
        "latent": "latent", "tasks": "COUNT(*)",
        "sure": _total("CASE WHEN certainty >= 0.9 THEN 1 ELSE 0 END"),
    },
    "tasks WHERE version = ? GROUP BY latent ORDER BY latent",
)  # fmt: skip
_TRANSITIONS = Query(
    PriorActivation, {name: name for name in get_type_hints(PriorActivation)},
    "activations WHERE reason <> '' ORDER BY seq DESC LIMIT ?",
)  # fmt: skip
_LAST_OFFER = (
    " JOIN decisions d ON d.action_set = s.number "
    "WHERE d.task = (SELECT number FROM tasks WHERE name = ?) ORDER BY d.seq DESC LIMIT 1"
)


class DecisionStore:
    """Append-only log of decisions and rewards, and the tasks' statistics, which agree with it.

    A file that is damaged, belongs to another program or comes from a newer mixts is refused and
    left as it is. Reads never wait for the writer; all methods may be called from any thread.

    Parameters
    ----------
    path_or_url : str, path or Backend
        A path is a SQLite file; ``postgresql://...`` is the address of a PostgreSQL database,
        which several processes may share. A backend is a database that is already open.
    create : bool
        If the store does not exist, create it (True) or raise ``StoreError`` (False).

    Examples
    --------
    >>> import mixts
    >>> from mixts_serve import DecisionStore
    >>> with DecisionStore("decisions.db") as store:
    ...     store.totals()
    Totals(tasks=0, decisions=0, rewards=0, late=0, defaults=0, deferred=0)
    """

    def __init__(
        self, path_or_url: str | os.PathLike[str] | Backend, *, create: bool = True
    ) -> None:
        if not isinstance(path_or_url, Backend):
            path_or_url = _open(path_or_url, create)
        self.backend = path_or_url
        self._settled = (0, views.Totals())
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

    def __exit__(self, *_: object) -> None:
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

    def totals(self) -> views.Totals:
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
            last = self.backend.value("SELECT at FROM decisions ORDER BY seq DESC LIMIT 1")
            until = min(now, last or 0) - _SETTLED_US
            if until > before:
                self._settled = (until, _sum(old, self._counts(before, until)))
        return _sum(old, recent)

    def _counts(self, since: int, until: int) -> views.Totals:
        (totals,) = self.backend.read(_TOTALS, (since, until))
        return totals

    def unrewarded(self, now: float | None = None) -> views.Unrewarded:
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
        windows = {
            (has_default, is_due): n
            for has_default, is_due, n in self.backend.query(_WINDOWS, (moment,))
        }
        totals = self.totals()
        given_up, due = windows.get((0, 1), 0), windows.get((1, 1), 0)
        rest = totals.decisions - totals.rewards - totals.deferred - given_up - due
        return views.Unrewarded(max(rest, 0), totals.deferred, given_up, due)

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
        return [bytes(id).hex() for (id,) in self.backend.query(_DUE, (now, limit))]

    def has_open_defaults(self) -> bool:
        """Return whether some decision will get a default reward unless another comes."""
        return bool(self.backend.value("SELECT 1 FROM open_windows WHERE has_default = 1 LIMIT 1"))

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
        ((n, low, high),) = self.backend.query(_LAST_VALUES, (_LOOKED_AT,))
        alike = n >= _FEWEST_REWARDS and low == high and low != 0
        return float(low) if alike else None

    def activity(self, since: float, bin_seconds: int) -> list[views.Activity]:
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
        return self.backend.read(_ACTIVITY, (width, int(since * _SECOND)))

    def final_until(self, now: float) -> float:
        """Return the time before which all decisions are final: no reward changes their mean.

        While reward windows are open, clicks have come and the zeros of the same decisions have
        not. So a decision is final when its window has ended, not when its reward has come.

        Parameters
        ----------
        now : float
            The time, in seconds since 1970.

        Returns
        -------
        float
            In seconds since 1970; infinite if no decision waits for a default reward.
        """
        moment = int(now * _SECOND)
        wait = self.backend.value(_LONGEST_WAIT, (moment,))
        if wait is None:
            return math.inf
        return (self.ended_until(moment) - wait) / _SECOND

    def ended_until(self, now: int) -> int:
        """Return the time before which all windows have ended that end with a default reward.

        After a pause of the service, default rewards that are due have not been written yet.

        Parameters
        ----------
        now : int
            The time in microseconds since 1970.

        Returns
        -------
        int
            In microseconds since 1970, ``now`` or earlier.
        """
        first = "SELECT due FROM open_windows WHERE has_default = 1 ORDER BY due LIMIT 1"
        return min(now, self.backend.value(first) or now)

    def earnings(
        self, since: float, bin_seconds: int, final: float = math.inf
    ) -> list[views.SpanEarnings]:
        """Return the rewards of decisions over time, by the time of the decision.

        Parameters
        ----------
        since : float
            The first moment, in seconds since 1970: the begin of a span.
        bin_seconds : int
            The length of a span. Unless it is a multiple of 600, all rewards are read from the log:
            ask for at most some ten thousand decisions.
        final : float
            Only decisions before this time count, see :meth:`final_until`.

        Returns
        -------
        list of SpanEarnings
            Spans without rewards are left out.
        """
        width = bin_seconds * _SECOND
        found = self._final(
            f"start / {width}", since, final, by_days=False, logged=width % _TEN_MINUTES > 0
        )
        return [
            views.SpanEarnings(span * bin_seconds, sums["counted"], sums["reward_sum"])
            for (span,), sums in sorted(found.items())
        ]

    def _final(
        self, key: str, since: float, final: float, *, by_days: bool, logged: bool = False
    ) -> dict[Row, dict[str, Any]]:
        """Return number, sum and sum of squares of final decisions' rewards, by some columns.

        What is older than the last whole ten minutes (or days) before ``final`` has been counted.
        The rest is read from the log, unless there is too much of it: then it waits.
        """
        begin, end = _moment(since), _moment(final)
        days = max(begin, end - end % _DAY) if by_days else begin
        minutes = begin if logged else max(days, end - end % _TEN_MINUTES)
        rest = (first_id(minutes), first_id(end))
        if final == math.inf and not logged:
            days, minutes, rest = (_NEVER if by_days else begin), _NEVER, (b"", b"")
        elif not logged:
            n = self.backend.value(
                "SELECT COUNT(*) FROM (SELECT 1 FROM decisions WHERE id >= ? AND id < ? LIMIT ?) d",
                (*rest, MOST_LOGGED + 1),
            )
            rest = rest if n <= MOST_LOGGED else (b"", b"")
        rows = self.backend.query(
            _FINAL.format(key, key),
            (_DAY, begin, days, _TEN_MINUTES, days, minutes, *rest),
        )
        n = len(_SUMS)
        return {row[:-n]: dict(zip(_SUMS, row[-n:], strict=True)) for row in rows}

    def arms(
        self, since: float, bin_seconds: int, final: float = math.inf
    ) -> dict[int, views.Earnings]:
        """Return what the decisions since some time earned, by the arm that they took.

        Rewards count in the span in which their decision was made.

        Parameters
        ----------
        since : float
            The first moment, in seconds since 1970: the begin of a span.
        bin_seconds : int
            The length of a span: a multiple of 600, up to a day.
        final : float
            Only decisions before this time count in the sums, see :meth:`final_until`.

        Returns
        -------
        dict of int to Earnings
            By arm; -1 stands for all rows of features.
        """
        span = _count_span(bin_seconds)
        rows = self.backend.query(_ARMS, (span, int(since * _SECOND)))
        sums = self._final("arm", since, final, by_days=span == _DAY)
        return {arm: _earnings(counts, sums.get((arm,), {})) for arm, *counts in rows}

    def traffic(
        self, since: float, bin_seconds: int, arms: Sequence[int]
    ) -> list[views.ArmTraffic]:
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
        found = self.backend.query(_TRAFFIC.format("NULL", ""), values)
        if arms:
            wanted = f"AND arm IN ({', '.join('?' * len(arms))})"
            found += self.backend.query(_TRAFFIC.format("arm", wanted), (*values, *arms))
        return [views.ArmTraffic(start, arm, n) for start, arm, n in found]

    def versions(self, final: float = math.inf) -> list[views.VersionEarnings]:
        """Return what all decisions earned, by version of the prior and by policy.

        Parameters
        ----------
        final : float
            Only decisions before this time count in the sums, see :meth:`final_until`.

        Returns
        -------
        list of VersionEarnings
            A row for each version and policy.
        """
        sums = self._final("version, policy", 0.0, final, by_days=True)
        return [
            views.VersionEarnings(
                version, policy, first / _SECOND, last / _SECOND,
                _earnings(counts, sums.get((version, policy), {})),
            )
            for version, policy, first, last, *counts in self.backend.query(_VERSIONS, (_DAY,))
        ]  # fmt: skip

    def split(self, version: int) -> list[views.Share]:
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
        shares = self.backend.read(_SPLIT, (version,))
        others = self.totals().tasks - sum(share.tasks for share in shares)
        return [*shares, views.Share(None, others, 0)] if others > 0 else shares

    # -- tasks --------------------------------------------------------------------------------

    def tasks(
        self,
        search: str = "",
        limit: int = 50,
        offset: int = 0,
        among: views.Among | None = None,
    ) -> list[views.TaskRow]:
        """Return tasks, those with the latest activity first.

        Parameters
        ----------
        search : str
            A part of the name, in any case; empty for all tasks.
        limit, offset : int
            The number of tasks to return, and of those to skip.
        among : Among, optional
            Only tasks of some kinds, or that took some arm.

        Returns
        -------
        list of TaskRow
            The tasks.
        """
        conditions, values = _limits(among)
        if search:
            # The database lowers both sides: databases differ in how much of Unicode they lower.
            pattern = "".join(f"\\{c}" if c in "\\%_" else c for c in search)
            conditions.append("lower(name) LIKE lower(?) ESCAPE '\\'")
            values.append(f"%{pattern}%")
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        order = " ORDER BY last_at DESC, number DESC LIMIT ? OFFSET ?"
        return self.backend.read(_TASK, (*values, limit, offset), where + order)

    def task(self, name: str) -> views.TaskRow | None:
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
        return next(iter(self.backend.read(_TASK, (name,), " WHERE name = ?")), None)

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
        return {name: bytes(content) for name, content in self.backend.query(sql, tuple(names))}

    def history(self, name: str, limit: int = 200) -> list[views.DecisionRow]:
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
        return list(
            map(_decision_row, self.backend.read(_HISTORY, (name, limit), " ORDER BY d.seq"))
        )

    def actions(
        self, name: str, limit: int = 10_000, final: float = math.inf
    ) -> list[views.ActionRow]:
        """Return how often a task's last decisions took each action, and the rewards.

        Parameters
        ----------
        name : str
            The task's name.
        limit : int
            The number of decisions to count.
        final : float
            Only rewards of decisions before this time count, see :meth:`final_until`.

        Returns
        -------
        list of ActionRow
            A row for each action that was taken.
        """
        return self.backend.read(_ACTIONS, (name, limit, _moment(final)))

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
        return next(iter(self.backend.read(OFFERED, (name,), _LAST_OFFER)), None)

    # -- priors -------------------------------------------------------------------------------

    def active_version(self) -> int | None:
        """Return the active version of the prior, or None if the store has no prior.

        Returns
        -------
        int or None
            The version; None if there is none.
        """
        found = self.deployment()
        return None if found is None else found.version

    def deployment(self) -> Deployment | None:
        """Return the versions of the prior that decide: the active one, and the canary.

        Returns
        -------
        Deployment or None
            None if the store has no prior.
        """
        return deployment_of(self.backend.query(DEPLOYED))

    def priors(self) -> list[PriorVersion]:
        """Return every version of the prior.

        Returns
        -------
        list of PriorVersion
            The versions, oldest first.
        """
        active = self.active_version()
        rows = self.backend.query(
            "SELECT version, uploaded_at, family, n_components, pedigree FROM priors "
            "ORDER BY version"
        )
        return [
            PriorVersion(
                version, at / _SECOND, version == active, family, n,
                decode(pedigree, type=Pedigree) if pedigree else None,
            )
            for version, at, family, n, pedigree in rows
        ]  # fmt: skip

    def transitions(self, limit: int) -> list[PriorActivation]:
        """Return the last deployments that the service made by itself, newest first.

        Parameters
        ----------
        limit : int
            The largest number of them.

        Returns
        -------
        list of PriorActivation
            Each with its reason.
        """
        return self.backend.read(_TRANSITIONS, (limit,))

    def note(self, name: str) -> str | None:
        """Return a note that the store keeps under a name, such as "refit".

        Parameters
        ----------
        name : str
            The name.

        Returns
        -------
        str or None
            None if there is none.
        """
        return self.backend.value(FIND_META, (name,))

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
        body = self.backend.value("SELECT body FROM priors WHERE version = ?", (version,))
        return None if body is None else bytes(body)


def _limits(among: views.Among | None) -> tuple[list[str], list[Any]]:
    """Return the conditions of a list of tasks, and their parameters."""
    if among is None:
        return [], []
    conditions, values = ["version = ?"], [among.version, *among.components]
    if among.components:
        conditions.append(f"latent IN ({', '.join('?' * len(among.components))})")
    if among.arm is not None:
        conditions.append(
            "EXISTS (SELECT 1 FROM decisions d WHERE d.task = tasks.number AND d.action = ? "
            "AND d.action_set IS NULL)"
        )
        values.append(among.arm)
    return conditions, values


def _decision_row(row: Any) -> views.DecisionRow:
    """Return a decision as callers see it: its id, weights and action's id are encoded in rows."""
    return replace(
        row, id=bytes(row.id).hex(), weights=tuple(unpack(bytes(row.weights)).tolist()),
        late=bool(row.late), is_default=bool(row.is_default), deferred=bool(row.deferred),
        arm=None if row.arm is None else json.loads(row.arm)[row.action],
    )  # fmt: skip


def _count_span(bin_seconds: int) -> int:
    """Return the longest span of ``counts`` of which a bin consists."""
    width = bin_seconds * _SECOND
    fitting = [span for span in COUNT_SPANS if width % span == 0]
    if not fitting:
        raise ParameterError(f"bin_seconds must be a multiple of 600, got {bin_seconds!r}")
    return max(fitting)


def _earnings(counts: Sequence[int], sums: Mapping[str, Any]) -> views.Earnings:
    return views.Earnings(**dict(zip(COUNTED, counts, strict=True)), **sums)


def _moment(seconds: float) -> int:
    return _NEVER if seconds == math.inf else int(seconds * _SECOND)


def first_id(moment: int) -> bytes:
    """Return what the ids of decisions from a moment on are not less than: see ``new_id``."""
    return min(max(moment // 1000, 0), 2**48 - 1).to_bytes(6, "big")


def _sum(one: views.Totals, other: views.Totals) -> views.Totals:
    return views.Totals(**{name: n + getattr(other, name) for name, n in asdict(one).items()})


def _open(path_or_url: str | os.PathLike[str], create: bool) -> Backend:
    if isinstance(path_or_url, str) and path_or_url.startswith(_POSTGRES):
        from mixts_serve.store.postgres import PostgresBackend

        return PostgresBackend(path_or_url, create=create)
    if isinstance(path_or_url, str) and "://" in path_or_url:
        raise StoreError(
            "a store is a path or an address that begins with postgresql://, "
            f"got one that begins with {path_or_url.partition('://')[0]}://"
        )
    if not create and not os.path.exists(path_or_url):
        raise StoreError(
            f"there is no store {os.fspath(path_or_url)}: mixts serve --store makes one"
        )
    from mixts_serve.store.sqlite import SQLiteBackend

    return SQLiteBackend(path_or_url)
