"""The statements of one transaction in PostgreSQL; whole groups at a time, to save round trips."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import astuple

from mixts.service.records import LoggedDecision, LoggedReward, Tally, TaskEntry
from mixts.service.store.backend import SPAN_US, Row, Transaction

if TYPE_CHECKING:
    import psycopg

# Names in order: two replicas that make the same tasks wait for each other, never both at once.
_NEW_TASKS = (
    "INSERT INTO tasks (name, decisions, rewards, late, latent, certainty, version, first_at, "
    "last_at, statistics) SELECT name, 0, 0, 0, NULL, 0, 0, %(now)s, %(now)s, ''::bytea "
    "FROM unnest(%(names)s::text[]) AS wanted (name) "
    "WHERE NOT EXISTS (SELECT 1 FROM tasks t WHERE t.name = wanted.name) ORDER BY name "
    "ON CONFLICT (name) DO NOTHING"
)
_LOCK_TASKS = (
    "SELECT number, name, decisions, rewards, late, latent, certainty, version, first_at, last_at, "
    "statistics FROM tasks WHERE name = ANY(%s) OR number = ANY(%s) ORDER BY number FOR UPDATE"
)
_SAVE_TASK = (
    "UPDATE tasks SET decisions = %s, rewards = %s, late = %s, latent = %s, certainty = %s, "
    "version = %s, last_at = %s, statistics = %s WHERE number = %s"
)
_DECISIONS_BY_ID = (
    "SELECT seq, id, task, at, version, action, propensity, weights, request, action_set "
    "FROM decisions WHERE id = ANY(%s)"
)
_DECISIONS_BY_KEY = (
    "SELECT seq, id, task, at, d.version, action, propensity, weights, request, action_set, "
    "wanted.name, wanted.key FROM unnest(%s::text[], %s::text[]) AS wanted (name, key) "
    "JOIN tasks t ON t.name = wanted.name JOIN decisions d ON d.task = t.number "
    "AND d.key = wanted.key"
)
_NEW_DECISION = (
    "INSERT INTO decisions (id, task, at, version, action, propensity, weights, request, "
    "action_set, key, probabilities) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
)
_NEW_REWARD = "INSERT INTO rewards (decision, at, value, late) VALUES (%s, %s, %s, %s)"
_ACTIVITY = (
    "INSERT INTO activity AS a (start, writer, tasks, decisions, rewards, reward_sum, late) "
    "VALUES (%s, %s, %s, %s, %s, %s, %s) ON CONFLICT (start, writer) DO UPDATE SET "
    "tasks = a.tasks + excluded.tasks, decisions = a.decisions + excluded.decisions, "
    "rewards = a.rewards + excluded.rewards, reward_sum = a.reward_sum + excluded.reward_sum, "
    "late = a.late + excluded.late"
)


class PostgresTransaction(Transaction):
    """Holds locks on the rows of its tasks."""

    def __init__(self, connection: psycopg.Connection[Row], writer: str) -> None:
        self._connection = connection
        self._execute = connection.execute
        self._writer = writer

    def active_version(self) -> int | None:
        return self._one("SELECT version FROM activations ORDER BY seq DESC LIMIT 1")

    def is_active(self, version: int) -> bool:
        return self.active_version() == version

    def find_decisions(self, ids: Sequence[bytes]) -> dict[bytes, LoggedDecision]:
        rows = self._execute(_DECISIONS_BY_ID, (list(ids),))
        return {row[1]: LoggedDecision(*row) for row in rows}

    def lock_tasks(
        self, names: Sequence[str], numbers: Sequence[int], now: int
    ) -> tuple[list[TaskEntry], int]:
        n_new = 0
        if names:
            made = self._execute(_NEW_TASKS, {"now": now, "names": list(names)})
            n_new = made.rowcount
        rows = self._execute(_LOCK_TASKS, (list(names), list(numbers)))
        return [TaskEntry(*row) for row in rows], n_new

    def find_keys(self, pairs: Sequence[tuple[str, str]]) -> dict[tuple[str, str], LoggedDecision]:
        names, keys = ([pair[i] for pair in pairs] for i in (0, 1))
        rows = self._execute(_DECISIONS_BY_KEY, (names, keys))
        return {(row[10], row[11]): LoggedDecision(*row[:10]) for row in rows}

    def find_rewards(self, decisions: Sequence[int]) -> dict[int, tuple[float, bool]]:
        sql = "SELECT decision, value, late FROM rewards WHERE decision = ANY(%s)"
        rows = self._execute(sql, (list(decisions),))
        return {decision: (value, bool(late)) for decision, value, late in rows}

    def action_set(self, digest: bytes, n_actions: int, n_features: int, body: bytes) -> int:
        # Another replica may add the same set: its row is waited for, and found afterwards.
        find = "SELECT number FROM action_sets WHERE digest = %s"
        number = self._one(find, digest)
        if number is None:
            self._execute(
                "INSERT INTO action_sets (digest, n_actions, n_features, body) "
                "VALUES (%s, %s, %s, %s) ON CONFLICT (digest) DO NOTHING",
                (digest, n_actions, n_features, body),
            )
            number = self._one(find, digest)
        return int(number)

    def find_action_sets(self, numbers: Sequence[int]) -> dict[int, tuple[int, int, bytes]]:
        sql = "SELECT number, n_actions, n_features, body FROM action_sets WHERE number = ANY(%s)"
        rows = self._execute(sql, (list(numbers),))
        return {number: (n_actions, n, body) for number, n_actions, n, body in rows}

    def add(
        self,
        rewards: Sequence[LoggedReward],
        decisions: Sequence[LoggedDecision],
        tasks: Sequence[TaskEntry],
        tally: Tally,
        now: int,
    ) -> None:
        with self._connection.pipeline(), self._connection.cursor() as cursor:
            for reward in rewards:
                cursor.execute(_NEW_REWARD, astuple(reward))
            for decision in decisions:
                cursor.execute(_NEW_DECISION, astuple(decision)[1:])
            for t in tasks:
                cursor.execute(
                    _SAVE_TASK,
                    (
                        t.decisions, t.rewards, t.late, t.latent, t.certainty, t.version,
                        t.last_at, t.statistics, t.number,
                    ),
                )  # fmt: skip
            cursor.execute(_ACTIVITY, (now - now % SPAN_US, self._writer, *astuple(tally)))

    def freeze(self) -> None:
        self._execute("LOCK TABLE tasks IN EXCLUSIVE MODE")

    def replace_tasks(self, rows: Sequence[tuple[int, int, int, int, bytes]]) -> None:
        with self._connection.cursor() as cursor:
            cursor.executemany(
                "UPDATE tasks SET decisions = %s, rewards = %s, late = %s, statistics = %s "
                "WHERE number = %s",
                [(*rest, number) for number, *rest in rows],
            )

    def add_prior(
        self, digest: bytes, now: int, family: str, n_components: int, body: bytes
    ) -> tuple[int, bool]:
        # One at a time: whoever adds one holds the lock of `shape`.
        known = self._one("SELECT version FROM priors WHERE digest = %s", digest)
        if known is not None:
            return int(known), False
        made = self._one(
            "INSERT INTO priors (digest, uploaded_at, family, n_components, body) "
            "VALUES (%s, %s, %s, %s, %s) RETURNING version",
            digest, now, family, n_components, body,
        )  # fmt: skip
        return int(made), True

    def activate(self, version: int, now: int, shape: str) -> None:
        self._execute("INSERT INTO activations (version, at) VALUES (%s, %s)", (version, now))
        self._execute(
            "INSERT INTO meta (name, value) VALUES ('shape', %s) "
            "ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            (shape,),
        )

    def shape(self) -> str | None:
        # A row to lock must be there: replicas that start together shall not both be first.
        self._execute(
            "INSERT INTO meta (name, value) VALUES ('shape', '') ON CONFLICT (name) DO NOTHING"
        )
        value = self._one("SELECT value FROM meta WHERE name = 'shape' FOR UPDATE")
        return str(value) or None

    def mark(self) -> None:
        """Write something that changes nothing."""
        self._execute(
            "INSERT INTO meta (name, value) VALUES ('probe', '') "
            "ON CONFLICT (name) DO UPDATE SET value = excluded.value"
        )

    def _one(self, sql: str, *parameters: Any) -> Any:
        row = self._execute(sql, parameters).fetchone()
        return None if row is None else row[0]
