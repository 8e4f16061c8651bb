"""What can be read of a store, the same for every database: statements with ``?``, and records."""

from __future__ import annotations

import time

from msgspec.structs import astuple

from mixts.service.encoding import unpack
from mixts.service.records import (
    ActionRow,
    Activity,
    DecisionRow,
    PriorVersion,
    Share,
    TaskRow,
    Totals,
)
from mixts.service.store.backend import Backend, Row

_SECOND = 1_000_000
_SETTLED_US = 3600 * _SECOND
_NEVER = 2**62

_TASK = (
    "SELECT name, decisions, rewards, late, latent, certainty, version, first_at, last_at "
    "FROM tasks"
)
_HISTORY = (
    "SELECT d.id, d.at, d.action, d.propensity, d.weights, d.version, r.value, r.at, r.late "
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
_SPLIT = (
    "SELECT latent, COUNT(*), SUM(CASE WHEN certainty >= 0.9 THEN 1 ELSE 0 END) FROM tasks "
    "WHERE version = ? GROUP BY latent ORDER BY latent"
)
_LAST_OFFER = (
    "SELECT a.n_actions, a.n_features, a.body FROM decisions d "
    "JOIN action_sets a ON a.number = d.action_set "
    "WHERE d.task = (SELECT number FROM tasks WHERE name = ?) ORDER BY d.seq DESC LIMIT 1"
)


class Reading:
    """Reads that never wait for the writer."""

    def __init__(self, backend: Backend) -> None:
        self._query = backend.query
        self._settled = (0, Totals(0, 0, 0, 0))

    def totals(self) -> Totals:
        """Counts of everything."""
        before, old = self._settled
        recent = self._counts(before, _NEVER)
        now = int(time.time() * _SECOND)
        if now - before > 2 * _SETTLED_US:
            # What is an hour old changes no more: it is added up once, not at every look.
            until = now - _SETTLED_US
            self._settled = (until, _sum(old, self._counts(before, until)))
        return _sum(old, recent)

    def _counts(self, since: int, until: int) -> Totals:
        (row,) = self._query(
            "SELECT COALESCE(SUM(tasks), 0), COALESCE(SUM(decisions), 0), "
            "COALESCE(SUM(rewards), 0), COALESCE(SUM(late), 0) FROM activity "
            "WHERE start >= ? AND start < ?",
            (since, until),
        )
        return Totals(*(int(count) for count in row))

    def activity(self, since: float, bin_seconds: int) -> list[Activity]:
        """What happened since a moment, in spans of so many seconds (a multiple of ten)."""
        width = bin_seconds * _SECOND
        rows = self._query(_ACTIVITY, (width, int(since * _SECOND)))
        return [
            Activity(int(span) * bin_seconds, int(n), int(m), float(total), int(late))
            for span, n, m, total, late in rows
        ]

    def split(self, version: int) -> list[Share]:
        """How the tasks split over the latent states of a version of the prior."""
        shares = [
            Share(latent, int(n), int(sure)) for latent, n, sure in self._query(_SPLIT, (version,))
        ]
        others = self.totals().tasks - sum(share.tasks for share in shares)
        return [*shares, Share(None, others, 0)] if others > 0 else shares

    def tasks(self, search: str = "", limit: int = 50, offset: int = 0) -> list[TaskRow]:
        """Tasks whose name contains a text, those with the latest activity first."""
        order = " ORDER BY last_at DESC, number DESC LIMIT ? OFFSET ?"
        if not search:
            return [_task_row(row) for row in self._query(_TASK + order, (limit, offset))]
        # Lowered by the database, on both sides: how much of Unicode it lowers is its own affair.
        pattern = "".join(f"\\{c}" if c in "\\%_" else c for c in search)
        sql = _TASK + " WHERE lower(name) LIKE lower(?) ESCAPE '\\'" + order
        return [_task_row(row) for row in self._query(sql, (f"%{pattern}%", limit, offset))]

    def task(self, name: str) -> TaskRow | None:
        """One task, or None."""
        rows = self._query(_TASK + " WHERE name = ?", (name,))
        return _task_row(rows[0]) if rows else None

    def statistics(self, name: str) -> bytes | None:
        """A task's statistics as they are stored, or None where there is no such task."""
        rows = self._query("SELECT statistics FROM tasks WHERE name = ?", (name,))
        return bytes(rows[0][0]) if rows else None

    def history(self, name: str, limit: int = 200) -> list[DecisionRow]:
        """The last decisions of a task with what came of them, oldest first."""
        return [
            DecisionRow(
                bytes(id).hex(), at / _SECOND, action, propensity,
                tuple(unpack(bytes(weights)).tolist()), version, value,
                None if rewarded is None else rewarded / _SECOND, bool(late),
            )
            for id, at, action, propensity, weights, version, value, rewarded, late in self._query(
                _HISTORY, (name, limit)
            )
        ]  # fmt: skip

    def actions(self, name: str, limit: int = 10_000) -> list[ActionRow]:
        """The actions of a task's last decisions, counted."""
        return [
            ActionRow(action, int(n), int(m), float(total))
            for action, n, m, total in self._query(_ACTIONS, (name, limit))
        ]

    def last_offer(self, name: str) -> tuple[int, int, bytes] | None:
        """The actions that a task was last offered: how many, how many features, the numbers."""
        rows = self._query(_LAST_OFFER, (name,))
        return (rows[0][0], rows[0][1], bytes(rows[0][2])) if rows else None

    def active_version(self) -> int | None:
        """The version of the prior in force."""
        rows = self._query("SELECT version FROM activations ORDER BY seq DESC LIMIT 1")
        return int(rows[0][0]) if rows else None

    def priors(self) -> list[PriorVersion]:
        """Every version of the prior."""
        active = self.active_version()
        rows = self._query(
            "SELECT version, uploaded_at, family, n_components FROM priors ORDER BY version"
        )
        return [
            PriorVersion(version, at / _SECOND, version == active, family, n)
            for version, at, family, n in rows
        ]

    def prior_body(self, version: int) -> bytes | None:
        """The file of a version, or None."""
        rows = self._query("SELECT body FROM priors WHERE version = ?", (version,))
        return bytes(rows[0][0]) if rows else None


def _task_row(row: Row) -> TaskRow:
    name, decisions, rewards, late, latent, certainty, version, first_at, last_at = row
    seconds = first_at / _SECOND, last_at / _SECOND
    return TaskRow(name, decisions, rewards, late, latent, certainty, version, *seconds)


def _sum(one: Totals, other: Totals) -> Totals:
    return Totals(*(a + b for a, b in zip(astuple(one), astuple(other), strict=True)))
