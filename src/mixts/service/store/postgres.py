"""A store of decisions in PostgreSQL, which several replicas of the service may share.

The isolation level READ COMMITTED is enough: every batch first locks the rows of its tasks, in
order, and unique indices reject whatever else must not happen twice. The store replaces a lost
connection at the next use.

A transaction waits for locks of others only briefly. If it waits in vain, the batch is repeated
with the tasks that are free, and for some seconds all batches leave out tasks that are locked.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from msgspec.structs import astuple

from mixts.errors import StoreError, TaskLockedError
from mixts.service.records import (
    Changes,
    KnownReward,
    LoggedDecision,
    OpenWindow,
    TaskEntry,
    WaitingDecision,
)
from mixts.service.store._postgres_connections import (
    LOCK_SECONDS,
    TRANSACTION_SECONDS,
    Connections,
    first_line,
    unavailable,
    write_limits,
)
from mixts.service.store.base import (
    COUNTS_OF_THE_LOG,
    NEXT_LIFE,
    SPAN_US,
    ActionSet,
    Backend,
    CountedTask,
    Row,
    Transaction,
    TransactionConflictError,
    WouldWaitError,
)

import psycopg  # isort: skip  # the module above explains how to install it

SKIP_SECONDS = 5.0
"""Time for which batches leave out locked tasks after one has waited for locks in vain."""

OTHER_LOCK_MS = 1000
"""Time that such a batch waits for locks of anything else."""

_MOMENT_MS = 50
_PAUSES = (0.01, 0.02, 0.02)
"""A task that is free again within such a time is not left out: a replica that works locked it."""

_CREATE_SECONDS = 0.25
"""Time to find out which new tasks another writer is just creating."""

_TABLE_BYTES = (
    "SELECT COALESCE(SUM(pg_total_relation_size(c.oid)), 0) FROM pg_class c "
    "JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'mixts' AND c.relkind = 'r'"
)

_CLOCK = "SELECT (EXTRACT(EPOCH FROM clock_timestamp()) * 1000000)::bigint"
"""The server's clock: replicas on machines whose clocks are wrong agree when windows end."""

_INVALID_ROWS = (psycopg.IntegrityError, psycopg.DataError)
_CONFLICTS = (psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure)


# -- the tables: never edit a migration, append a new one ------------------------------------------

LOCK = 0x4D695854
"""Advisory lock that lets only one of several starting replicas create the tables."""

MIGRATIONS: tuple[str, ...] = (
    """
    CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL);
    CREATE TABLE priors (
        version BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, digest BYTEA NOT NULL UNIQUE,
        uploaded_at BIGINT NOT NULL, family TEXT NOT NULL, n_components BIGINT NOT NULL,
        body BYTEA NOT NULL
    );
    CREATE TABLE activations (
        seq BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        version BIGINT NOT NULL REFERENCES priors, at BIGINT NOT NULL
    );
    CREATE TABLE tasks (
        number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name TEXT NOT NULL UNIQUE,
        decisions BIGINT NOT NULL, rewards BIGINT NOT NULL, late BIGINT NOT NULL,
        latent BIGINT, certainty DOUBLE PRECISION NOT NULL, version BIGINT NOT NULL,
        first_at BIGINT NOT NULL, last_at BIGINT NOT NULL, statistics BYTEA NOT NULL
    );
    CREATE INDEX tasks_by_activity ON tasks (last_at);
    CREATE INDEX tasks_by_kind ON tasks (version, latent, certainty);
    CREATE TABLE action_sets (
        number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, digest BYTEA NOT NULL UNIQUE,
        n_actions BIGINT NOT NULL, n_features BIGINT NOT NULL, body BYTEA NOT NULL
    );
    CREATE TABLE decisions (
        seq BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, id BYTEA NOT NULL UNIQUE,
        task BIGINT NOT NULL REFERENCES tasks, key TEXT, request BYTEA,
        at BIGINT NOT NULL, version BIGINT NOT NULL REFERENCES priors, action BIGINT NOT NULL,
        propensity DOUBLE PRECISION NOT NULL CHECK (propensity > 0),
        probabilities BYTEA NOT NULL, weights BYTEA NOT NULL,
        action_set BIGINT REFERENCES action_sets
    );
    CREATE INDEX decisions_by_task ON decisions (task, seq);
    CREATE UNIQUE INDEX decisions_by_key ON decisions (task, key) WHERE key IS NOT NULL;
    CREATE TABLE rewards (
        seq BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        decision BIGINT NOT NULL UNIQUE REFERENCES decisions,
        at BIGINT NOT NULL, value DOUBLE PRECISION NOT NULL, late BIGINT NOT NULL
    );
    CREATE TABLE activity (
        start BIGINT NOT NULL, writer TEXT NOT NULL,
        tasks BIGINT NOT NULL, decisions BIGINT NOT NULL, rewards BIGINT NOT NULL,
        reward_sum DOUBLE PRECISION NOT NULL, late BIGINT NOT NULL, PRIMARY KEY (start, writer)
    );
    """,
    # Before there was a choice, every decision was Thompson sampling.
    "ALTER TABLE decisions ADD COLUMN policy TEXT NOT NULL DEFAULT 'ts'",
    # Default rewards and deferred decisions. open_windows is derived: a rebuild makes it again.
    """
    ALTER TABLE decisions ADD COLUMN deferred BIGINT NOT NULL DEFAULT 0,
        ADD COLUMN due BIGINT, ADD COLUMN default_reward DOUBLE PRECISION;
    ALTER TABLE rewards ADD COLUMN is_default BIGINT NOT NULL DEFAULT 0;
    CREATE TABLE late_rewards (
        seq BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        decision BIGINT NOT NULL UNIQUE REFERENCES decisions,
        at BIGINT NOT NULL, value DOUBLE PRECISION NOT NULL
    );
    CREATE TABLE activated (
        seq BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        decision BIGINT NOT NULL UNIQUE REFERENCES decisions,
        at BIGINT NOT NULL, due BIGINT, default_reward DOUBLE PRECISION
    );
    CREATE TABLE open_windows (
        has_default BIGINT NOT NULL, due BIGINT NOT NULL,
        decision BIGINT NOT NULL REFERENCES decisions, PRIMARY KEY (has_default, due, decision)
    );
    ALTER TABLE tasks ADD COLUMN defaults BIGINT NOT NULL DEFAULT 0,
        ADD COLUMN deferred BIGINT NOT NULL DEFAULT 0;
    ALTER TABLE activity ADD COLUMN defaults BIGINT NOT NULL DEFAULT 0,
        ADD COLUMN deferred BIGINT NOT NULL DEFAULT 0;
    """,
    # What each arm, version and policy earned over time. It is derived: a rebuild makes it again.
    f"""
    CREATE TABLE counts (
        span BIGINT NOT NULL, start BIGINT NOT NULL, arm BIGINT NOT NULL,
        version BIGINT NOT NULL, policy TEXT NOT NULL, writer TEXT NOT NULL,
        first_at BIGINT NOT NULL, last_at BIGINT NOT NULL, decisions BIGINT NOT NULL,
        deferred BIGINT NOT NULL, rewards BIGINT NOT NULL, defaults BIGINT NOT NULL,
        late BIGINT NOT NULL, reward_sum DOUBLE PRECISION NOT NULL,
        reward_squares DOUBLE PRECISION NOT NULL,
        PRIMARY KEY (span, start, arm, version, policy, writer)
    );
    INSERT INTO counts {COUNTS_OF_THE_LOG};
    """,
    # Ids of the actions, a JSON list in their order; actions that are rows of numbers have none.
    "ALTER TABLE action_sets ADD COLUMN ids TEXT",
    # Decisions that are shown together, and the values and costs by which they were made.
    """
    ALTER TABLE decisions ADD COLUMN slate BYTEA;
    ALTER TABLE decisions ADD COLUMN position BIGINT NOT NULL DEFAULT 0;
    ALTER TABLE decisions ADD COLUMN money BYTEA;
    CREATE INDEX decisions_by_slate ON decisions (slate) WHERE slate IS NOT NULL;
    """,
    # Rows in a SQLite file get checksums; PostgreSQL has checksums of its pages.
    "SELECT 1",
)
"""``MIGRATIONS[n]`` upgrades a database from version n to n + 1; version 0 has no tables."""

# -- a transaction --------------------------------------------------------------------------------

# Sort the names: two replicas that create the same tasks wait for each other, but never deadlock.
_NEW_TASKS = (
    "INSERT INTO tasks (name, decisions, rewards, late, latent, certainty, version, first_at, "
    "last_at, statistics) SELECT name, 0, 0, 0, NULL, 0, 0, %(now)s, %(now)s, ''::bytea "
    "FROM unnest(%(names)s::text[]) AS wanted (name) "
    "WHERE NOT EXISTS (SELECT 1 FROM tasks t WHERE t.name = wanted.name) ORDER BY name "
    "ON CONFLICT (name) DO NOTHING"
)
_LOCK_TASKS = (
    "SELECT number, name, decisions, rewards, late, latent, certainty, version, first_at, last_at, "
    "statistics, defaults, deferred FROM tasks WHERE name = ANY(%s) OR number = ANY(%s) "
    "ORDER BY number FOR UPDATE"
)
_LOCK_FREE_TASKS = _LOCK_TASKS + " SKIP LOCKED"
_SAVE_TASK = (
    "UPDATE tasks SET decisions = %s, rewards = %s, late = %s, latent = %s, certainty = %s, "
    "version = %s, last_at = %s, statistics = %s, defaults = %s, deferred = %s WHERE number = %s"
)
_DECISION = (
    "SELECT d.seq, a.at, d.id, d.task, d.at, d.version, d.action, d.propensity, d.weights, "
    "d.request, d.action_set, d.policy, d.deferred, COALESCE(a.due, d.due), "
    "COALESCE(a.default_reward, d.default_reward), d.slate, d.position"
)
_DECISIONS_BY_ID = (
    _DECISION + " FROM decisions d LEFT JOIN activated a ON a.decision = d.seq WHERE id = ANY(%s)"
)
_DECISIONS_BY_SLATE = (
    _DECISION + " FROM decisions d LEFT JOIN activated a ON a.decision = d.seq "
    "WHERE d.slate = %s ORDER BY d.position"
)
_DECISIONS_BY_KEY = (
    _DECISION + ", wanted.name, wanted.key "
    "FROM unnest(%s::text[], %s::text[]) AS wanted (name, key) "
    "JOIN tasks t ON t.name = wanted.name JOIN decisions d ON d.task = t.number "
    "AND d.key = wanted.key LEFT JOIN activated a ON a.decision = d.seq"
)
_NEW_DECISION = (
    "INSERT INTO decisions (id, task, at, version, action, propensity, weights, request, "
    "action_set, policy, deferred, due, default_reward, slate, position, key, "
    "probabilities, money) "
    "VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
)
_WAITING = (
    "SELECT d.seq, d.task, d.action, d.action_set, COALESCE(a.at, d.at) "
    "FROM unnest(%s::bigint[]) AS wanted (task) "
    "CROSS JOIN LATERAL (SELECT seq, task, at, action, action_set, deferred, due FROM decisions "
    "WHERE task = wanted.task ORDER BY seq DESC LIMIT %s) d "
    "LEFT JOIN activated a ON a.decision = d.seq "
    "WHERE (d.deferred = 0 OR a.at IS NOT NULL) "
    "AND COALESCE(a.due, d.due, d.at + %s::bigint) >= %s "
    "AND NOT EXISTS (SELECT 1 FROM rewards r WHERE r.decision = d.seq) ORDER BY d.seq"
)
_NEW_ACTION_SET = (
    "INSERT INTO action_sets (digest, n_actions, n_features, body, ids) "
    "VALUES (%s, %s, %s, %s, %s) ON CONFLICT (digest) DO NOTHING"
)
_ACTION_SETS = (
    "SELECT number, n_actions, n_features, body, ids FROM action_sets WHERE number = ANY(%s)"
)
_REWARDS = (
    "SELECT r.decision, r.value, r.late, r.is_default, l.value FROM rewards r "
    "LEFT JOIN late_rewards l ON l.decision = r.decision WHERE r.decision = ANY(%s)"
)
_NEW_REWARD = (
    "INSERT INTO rewards (decision, at, value, late, is_default) VALUES (%s, %s, %s, %s, %s)"
)
_NEW_LATE_REWARD = "INSERT INTO late_rewards (decision, at, value) VALUES (%s, %s, %s)"
_NEW_ACTIVATION = (
    "INSERT INTO activated (decision, at, due, default_reward) VALUES (%s, %s, %s, %s)"
)
_OPEN_WINDOW = "INSERT INTO open_windows (has_default, due, decision) VALUES (%s, %s, %s)"
_OPEN_WINDOWS = (
    "INSERT INTO open_windows (has_default, due, decision) "
    "SELECT CASE WHEN default_reward IS NULL THEN 0 ELSE 1 END, due, seq FROM decisions "
    "WHERE id = ANY(%s)"
)
_CLOSE_WINDOW = "DELETE FROM open_windows WHERE has_default = %s AND due = %s AND decision = %s"
_ACTIVITY = (
    "INSERT INTO activity AS a (start, writer, tasks, decisions, rewards, reward_sum, late, "
    "defaults, deferred) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s) "
    "ON CONFLICT (start, writer) DO UPDATE SET "
    "tasks = a.tasks + excluded.tasks, decisions = a.decisions + excluded.decisions, "
    "rewards = a.rewards + excluded.rewards, reward_sum = a.reward_sum + excluded.reward_sum, "
    "late = a.late + excluded.late, defaults = a.defaults + excluded.defaults, "
    "deferred = a.deferred + excluded.deferred"
)
_COUNT = (
    "INSERT INTO counts AS c VALUES "
    "(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s) "
    "ON CONFLICT (span, start, arm, version, policy, writer) DO UPDATE SET "
    "first_at = LEAST(c.first_at, excluded.first_at), "
    "last_at = GREATEST(c.last_at, excluded.last_at), "
    "decisions = c.decisions + excluded.decisions, deferred = c.deferred + excluded.deferred, "
    "rewards = c.rewards + excluded.rewards, defaults = c.defaults + excluded.defaults, "
    "late = c.late + excluded.late, reward_sum = c.reward_sum + excluded.reward_sum, "
    "reward_squares = c.reward_squares + excluded.reward_squares"
)


class PostgresTransaction(Transaction):
    """A transaction that locks the rows of its tasks.

    Its methods read and write whole batches, to save round trips to the server.
    """

    def __init__(
        self, connection: psycopg.Connection[Row], backend: PostgresBackend, skips: bool
    ) -> None:
        self._connection = connection
        self._backend = backend
        self._writer = backend.writer_id
        self._skips = skips
        """True if the transaction leaves out tasks that are locked, instead of waiting."""
        self._locked_sets: set[bytes] = set()
        self.has_tasks = False
        """True if a transaction that skips has locked the tasks that are free."""

    def _execute(self, sql: str, parameters: Any = None) -> psycopg.Cursor[Row]:
        with self._backend.connections.writing():
            return self._connection.execute(sql, parameters)

    def now_us(self) -> int:
        return int(self._scalar(_CLOCK))

    def active_version(self) -> int | None:
        return self._scalar("SELECT version FROM activations ORDER BY seq DESC LIMIT 1")

    def is_active(self, version: int) -> bool:
        return self.active_version() == version

    def find_decisions(self, ids: Sequence[bytes]) -> dict[bytes, LoggedDecision]:
        rows = self._execute(_DECISIONS_BY_ID, (list(ids),))
        return {row[2]: LoggedDecision(*row) for row in rows}

    def lock_tasks(
        self, names: Sequence[str], numbers: Sequence[int], now: int
    ) -> tuple[list[TaskEntry], int]:
        if self._skips:
            return self._lock_free_tasks(names, numbers, now)
        n_new = 0
        if names:
            n_new = self._execute(_NEW_TASKS, {"now": now, "names": list(names)}).rowcount
        rows = self._execute(_LOCK_TASKS, (list(names), list(numbers)))
        return [TaskEntry(*row) for row in rows], n_new

    def _lock_free_tasks(
        self, names: Sequence[str], numbers: Sequence[int], now: int
    ) -> tuple[list[TaskEntry], int]:
        """Lock the tasks that no other writer has locked for longer than a moment."""
        left_names, left_numbers = set(names), set(numbers)
        entries: list[TaskEntry] = []

        def lock() -> None:
            # This waits for locks of whole tables only.
            rows = self._execute(_LOCK_FREE_TASKS, (list(left_names), list(left_numbers)))
            for row in rows:
                entries.append(TaskEntry(*row))
                left_names.discard(entries[-1].name)
                left_numbers.discard(entries[-1].number)

        lock()
        n_new = self._create_tasks(sorted(left_names), now) if left_names else 0
        for wait in (0.0, *_PAUSES):
            if left_names or left_numbers:
                time.sleep(wait)
                lock()
        self._execute(f"SET LOCAL lock_timeout TO '{OTHER_LOCK_MS}ms'")
        self.has_tasks = True
        if left_names or left_numbers:
            self._backend.note_locks()
        # A name and a number may belong to the same task.
        return list({entry.number: entry for entry in entries}.values()), n_new

    def _create_tasks(self, names: list[str], now: int) -> int:
        """Create missing tasks, except those that another writer is just creating."""
        together = self._unless_locked(_NEW_TASKS, {"now": now, "names": names})
        if together is not None:
            return together.rowcount
        n_new, until = 0, time.monotonic() + _CREATE_SECONDS
        for name in names:
            if time.monotonic() > until:
                break
            alone = self._unless_locked(_NEW_TASKS, {"now": now, "names": [name]})
            n_new += 0 if alone is None else alone.rowcount
        return n_new

    def _unless_locked(self, sql: str, parameters: Any) -> psycopg.Cursor[Row] | None:
        """Execute a statement; return None if it would have to wait for another transaction."""
        try:
            with self._connection.transaction():  # a savepoint
                self._execute(f"SET LOCAL lock_timeout TO '{_MOMENT_MS}ms'")
                return self._execute(sql, parameters)
        except psycopg.errors.LockNotAvailable:
            return None

    def find_keys(self, pairs: Sequence[tuple[str, str]]) -> dict[tuple[str, str], LoggedDecision]:
        names = [name for name, _ in pairs]
        keys = [key for _, key in pairs]
        rows = self._execute(_DECISIONS_BY_KEY, (names, keys))
        return {(row[-2], row[-1]): LoggedDecision(*row[:-2]) for row in rows}

    def find_slate(self, slate: bytes) -> list[LoggedDecision]:
        return [LoggedDecision(*row) for row in self._execute(_DECISIONS_BY_SLATE, (slate,))]

    def find_rewards(self, decisions: Sequence[int]) -> dict[int, KnownReward]:
        rows = self._execute(_REWARDS, (list(decisions),))
        return {
            decision: KnownReward(value, bool(late), bool(is_default), late_value)
            for decision, value, late, is_default, late_value in rows
        }

    def find_waiting(
        self, tasks: Mapping[int, int], last: int, now: int, window: int
    ) -> list[WaitingDecision]:
        rows = self._execute(_WAITING, (list(tasks), last, window, now))
        return [WaitingDecision(*row) for row in rows]

    def find_taken(self, tasks: Sequence[int]) -> list[tuple[int, int]]:
        sql = "SELECT DISTINCT task, action FROM decisions WHERE task = ANY(%s)"
        return list(self._execute(sql, (list(tasks),)))

    def action_set(self, digest: bytes, actions: ActionSet) -> int:
        # If another replica is adding the same set, the INSERT waits, and then the SELECT finds it.
        find = "SELECT number FROM action_sets WHERE digest = %s"
        number = self._scalar(find, digest)
        if number is None and not self._skips:
            self._execute(_NEW_ACTION_SET, (digest, *actions))
            number = self._scalar(find, digest)
        elif number is None and digest not in self._locked_sets:
            self._unless_locked(_NEW_ACTION_SET, (digest, *actions))
            number = self._scalar(find, digest)
        if number is None:
            self._locked_sets.add(digest)
            self._backend.note_locks()
            raise TaskLockedError(
                "another writer is storing the same actions and does not finish: nothing was "
                "changed; try again later"
            )
        return int(number)

    def find_action_sets(self, numbers: Sequence[int]) -> dict[int, ActionSet]:
        rows = self._execute(_ACTION_SETS, (list(numbers),))
        return {number: ActionSet(*rest) for number, *rest in rows}

    def add(self, changes: Changes, now: int) -> None:
        opened = [decision.id for decision in changes.decisions if decision.window is not None]
        writing = self._backend.connections.writing()
        with writing, self._connection.pipeline(), self._connection.cursor() as cursor:
            for reward in changes.rewards:
                cursor.execute(_NEW_REWARD, astuple(reward))
            for late in changes.late_rewards:
                cursor.execute(_NEW_LATE_REWARD, astuple(late))
            for activation in changes.activated:
                cursor.execute(_NEW_ACTIVATION, astuple(activation))
            for window in changes.opened:
                cursor.execute(_OPEN_WINDOW, window)
            for decision in changes.decisions:
                cursor.execute(_NEW_DECISION, astuple(decision)[2:])
            if opened:
                cursor.execute(_OPEN_WINDOWS, (opened,))
            for window in changes.closed:
                cursor.execute(_CLOSE_WINDOW, window)
            for t in changes.tasks:
                cursor.execute(
                    _SAVE_TASK,
                    (
                        t.decisions, t.rewards, t.late, t.latent, t.certainty, t.version,
                        t.last_at, t.statistics, t.defaults, t.deferred, t.number,
                    ),
                )  # fmt: skip
            for key, count in changes.counts.items():
                cursor.execute(_COUNT, (*key, self._writer, *astuple(count)))
            cursor.execute(_ACTIVITY, (now - now % SPAN_US, self._writer, *astuple(changes.tally)))

    def freeze(self) -> None:
        # A rebuild takes as long as it takes.
        for name in write_limits(self._connection):
            self._execute(f"SET LOCAL {name} TO 0")
        self._execute(f"SET LOCAL lock_timeout TO '{LOCK_SECONDS}s'")
        self._execute("LOCK TABLE tasks IN EXCLUSIVE MODE")

    def replace_tasks(self, rows: Sequence[CountedTask]) -> None:
        with self._connection.cursor() as cursor:
            cursor.executemany(
                "UPDATE tasks SET decisions = %s, rewards = %s, late = %s, defaults = %s, "
                "deferred = %s, statistics = %s WHERE number = %s",
                [(*rest, number) for number, *rest in rows],
            )

    def replace_windows(self, wrong: Sequence[OpenWindow], missing: Sequence[OpenWindow]) -> None:
        with self._connection.cursor() as cursor:
            cursor.executemany(_CLOSE_WINDOW, wrong)
            cursor.executemany(_OPEN_WINDOW, missing)

    def replace_counts(self) -> None:
        self._execute("DELETE FROM counts")
        self._execute(f"INSERT INTO counts {COUNTS_OF_THE_LOG}")

    def add_prior(
        self, digest: bytes, now: int, family: str, n_components: int, body: bytes
    ) -> tuple[int, bool]:
        # The caller has locked the row of `shape`, so no other transaction adds a prior.
        known = self._scalar("SELECT version FROM priors WHERE digest = %s", digest)
        if known is not None:
            return int(known), False
        new = self._scalar(
            "INSERT INTO priors (digest, uploaded_at, family, n_components, body) "
            "VALUES (%s, %s, %s, %s, %s) RETURNING version",
            digest, now, family, n_components, body,
        )  # fmt: skip
        return int(new), True

    def activate(self, version: int, now: int, shape: str) -> None:
        self._execute("INSERT INTO activations (version, at) VALUES (%s, %s)", (version, now))
        self._execute(
            "INSERT INTO meta (name, value) VALUES ('shape', %s) "
            "ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            (shape,),
        )

    def shape(self) -> str | None:
        # Create the row if it is missing: replicas that start together must lock the same row.
        self._execute(
            "INSERT INTO meta (name, value) VALUES ('shape', '') ON CONFLICT (name) DO NOTHING"
        )
        value = self._scalar("SELECT value FROM meta WHERE name = 'shape' FOR UPDATE")
        return str(value) or None

    def begin_life(self) -> int:
        return int(self._scalar(NEXT_LIFE))

    def mark(self) -> None:
        """Write a row without a meaning, to test that the database accepts writes."""
        self._execute(
            "INSERT INTO meta (name, value) VALUES ('probe', '') "
            "ON CONFLICT (name) DO UPDATE SET value = excluded.value"
        )

    def _scalar(self, sql: str, *parameters: Any) -> Any:
        row = self._execute(sql, parameters).fetchone()
        return None if row is None else row[0]


# -- the database ---------------------------------------------------------------------------------


class PostgresBackend(Backend):
    """The schema ``mixts`` of a database; with ``create``, made if it is missing."""

    database = "PostgreSQL"
    settle_us = TRANSACTION_SECONDS * 1_000_000
    """Replicas number their rows before they commit, and commit in another order."""

    def __init__(self, url: str, *, create: bool = True) -> None:
        self.name = without_secrets(url)
        self.connections = Connections(url, self.name)
        self.writer_id = uuid.uuid4().hex[:8]
        self._skip_until = 0.0
        try:
            with self.connections.connect() as connection:
                self._prepare(connection, create)
        except psycopg.Error as error:
            raise StoreError(f"{self.name} cannot be used: {first_line(error)}") from error

    def _prepare(self, connection: psycopg.Connection[Row], create: bool) -> None:
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
            row = connection.execute("SELECT to_regclass('mixts.schema_version')").fetchone()
            if row is None or row[0] is None:
                if not create:
                    raise StoreError(f"{self.name} has no store of decisions")
                connection.execute("CREATE SCHEMA IF NOT EXISTS mixts")
                connection.execute("CREATE TABLE schema_version (version BIGINT PRIMARY KEY)")
            row = connection.execute("SELECT MAX(version) FROM schema_version").fetchone()
            version = int(row[0]) if row is not None and row[0] is not None else 0
            if version > len(MIGRATIONS):
                raise StoreError(
                    f"{self.name} has version {version} of the tables, this mixts knows up to "
                    f"{len(MIGRATIONS)}: upgrade mixts"
                )
            for step in MIGRATIONS[version:]:
                connection.execute(step)
            if version < len(MIGRATIONS):
                connection.execute("INSERT INTO schema_version VALUES (%s)", (len(MIGRATIONS),))

    # -- writing ------------------------------------------------------------------------------

    @contextmanager
    def transaction(self, *, wait: bool = True) -> Iterator[PostgresTransaction]:
        if not wait:
            raise WouldWaitError(f"{self.name} is a server")
        skips, transaction = time.monotonic() < self._skip_until, None
        try:
            with self.connections.transaction() as connection:
                if skips:
                    connection.execute(f"SET LOCAL lock_timeout TO '{LOCK_SECONDS}s'")
                transaction = PostgresTransaction(connection, self, skips)
                yield transaction
        except psycopg.errors.LockNotAvailable as error:
            self.note_locks()
            if not skips:
                raise TransactionConflictError(first_line(error)) from error
            if transaction is not None and transaction.has_tasks:
                raise TaskLockedError(
                    f"{self.name}: another program keeps rows locked that this operation needs "
                    f"({first_line(error)}); nothing was changed"
                ) from error
            raise unavailable(self.name, error) from error
        except _CONFLICTS as error:
            raise TransactionConflictError(first_line(error)) from error
        except _INVALID_ROWS:
            raise  # an error in this code; the database works
        except psycopg.Error as error:
            self.connections.drop_writer()
            raise unavailable(self.name, error) from error

    def note_locks(self) -> None:
        """Leave out tasks that are locked, for a while."""
        self._skip_until = time.monotonic() + SKIP_SECONDS

    def watch(self) -> float:
        return self.connections.watch()

    def probe(self) -> None:
        with self.transaction() as transaction:
            transaction.mark()

    # -- reading ------------------------------------------------------------------------------

    def query(self, sql: str, parameters: Sequence[Any] = ()) -> list[Row]:
        try:
            return self.connections.read(placeholders(sql), tuple(parameters))
        except psycopg.Error as error:
            raise unavailable(self.name, error) from error

    def scan(self, sql: str, parameters: Sequence[Any] = ()) -> Iterator[Row]:
        try:
            with (
                self.connections.connect() as connection,
                connection.transaction(),
                connection.cursor("mixts_scan") as cursor,
            ):
                cursor.itersize = 10_000
                cursor.execute(placeholders(sql), tuple(parameters))
                yield from cursor
        except psycopg.Error as error:
            raise unavailable(self.name, error) from error

    def now_us(self) -> int:
        ((now,),) = self.query(_CLOCK)
        return int(now)

    def schema_version(self) -> int:
        ((version,),) = self.query("SELECT MAX(version) FROM schema_version")
        return int(version)

    def n_bytes(self) -> int:
        ((size,),) = self.query(_TABLE_BYTES)
        return int(size)

    def close(self) -> None:
        self.connections.close()


def placeholders(sql: str) -> str:
    """Convert ``?`` to psycopg's placeholders; no statement has ``?`` or ``%`` in a string."""
    return sql.replace("%", "%%").replace("?", "%s")


def without_secrets(url: str) -> str:
    """Return the address of a database without its password and other secrets."""
    try:
        parts = psycopg.conninfo.conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        # psycopg's message may quote the address with its password.
        raise StoreError(
            "the address of the database cannot be read: expected "
            "postgresql://user:password@host:port/name, with special characters percent-encoded"
        ) from None
    user = f"{parts['user']}@" if parts.get("user") else ""
    port = f":{parts['port']}" if parts.get("port") else ""
    return f"postgresql://{user}{parts.get('host', '')}{port}/{parts.get('dbname', '')}"
