"""A store of decisions in PostgreSQL, which several replicas of the service may share.

The isolation level READ COMMITTED is enough: every batch first locks the rows of its tasks, in
order, and unique indices reject whatever else must not happen twice. The store replaces a lost
connection at the next use.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from msgspec.structs import astuple

from mixts.errors import MissingExtraError, StoreError, StoreUnavailableError
from mixts.service.records import (
    Changes,
    KnownReward,
    LoggedDecision,
    OpenWindow,
    TaskEntry,
    WaitingDecision,
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

try:
    import psycopg
    import psycopg.conninfo
except ImportError as error:  # pragma: no cover - the extra is always there in tests
    raise MissingExtraError(
        "a store of decisions in PostgreSQL needs the extra 'postgres': "
        "pip install 'mixts[postgres]'"
    ) from error

CONNECT_SECONDS = 10

_TIMEOUTS: dict[str, Any] = {
    "keepalives_idle": 15,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
"""Drop a connection when the server is silent for half a minute; libpq's default is hours."""

MOST_IDLE = 8
"""Most idle connections that are kept for readers."""

_TABLE_BYTES = (
    "SELECT COALESCE(SUM(pg_total_relation_size(c.oid)), 0) FROM pg_class c "
    "JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'mixts' AND c.relkind = 'r'"
)

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
    "SELECT d.seq, d.task, d.action, d.action_set FROM unnest(%s::bigint[]) AS wanted (task) "
    "CROSS JOIN LATERAL (SELECT seq, task, at, action, action_set, deferred, due FROM decisions "
    "WHERE task = wanted.task ORDER BY seq DESC LIMIT %s) d "
    "LEFT JOIN activated a ON a.decision = d.seq "
    "WHERE (d.deferred = 0 OR a.at IS NOT NULL) "
    "AND COALESCE(a.due, d.due, d.at + %s::bigint) >= %s "
    "AND NOT EXISTS (SELECT 1 FROM rewards r WHERE r.decision = d.seq) ORDER BY d.seq"
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

    def __init__(self, connection: psycopg.Connection[Row], writer: str) -> None:
        self._connection = connection
        self._execute = connection.execute
        self._writer = writer

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
        n_new = 0
        if names:
            n_new = self._execute(_NEW_TASKS, {"now": now, "names": list(names)}).rowcount
        rows = self._execute(_LOCK_TASKS, (list(names), list(numbers)))
        return [TaskEntry(*row) for row in rows], n_new

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

    def action_set(self, digest: bytes, actions: ActionSet) -> int:
        # If another replica is adding the same set, the INSERT waits, and then the SELECT finds it.
        find = "SELECT number FROM action_sets WHERE digest = %s"
        number = self._scalar(find, digest)
        if number is None:
            self._execute(
                "INSERT INTO action_sets (digest, n_actions, n_features, body, ids) "
                "VALUES (%s, %s, %s, %s, %s) ON CONFLICT (digest) DO NOTHING",
                (digest, *actions),
            )
            number = self._scalar(find, digest)
        return int(number)

    def find_action_sets(self, numbers: Sequence[int]) -> dict[int, ActionSet]:
        rows = self._execute(_ACTION_SETS, (list(numbers),))
        return {number: ActionSet(*rest) for number, *rest in rows}

    def add(self, changes: Changes, now: int) -> None:
        opened = [decision.id for decision in changes.decisions if decision.window is not None]
        with self._connection.pipeline(), self._connection.cursor() as cursor:
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

    def __init__(self, url: str, *, create: bool = True) -> None:
        self._url = url
        self.name = without_secrets(url)
        self._writer_id = uuid.uuid4().hex[:8]
        self._writer: psycopg.Connection[Row] | None = None
        self._idle: list[psycopg.Connection[Row]] = []
        self._lock = threading.Lock()
        self._closed = False
        try:
            with self._connect() as connection:
                self._prepare(connection, create)
        except psycopg.Error as error:
            raise StoreError(f"{self.name} cannot be used: {_first_line(error)}") from error

    def _connect(self) -> psycopg.Connection[Row]:
        connection = psycopg.connect(
            self._url, autocommit=True, connect_timeout=CONNECT_SECONDS, application_name="mixts",
            **_TIMEOUTS,
        )  # fmt: skip
        connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
        # Do not rely on the server's defaults: sync every commit, and limit the wait for locks.
        connection.execute("SET synchronous_commit TO on")
        connection.execute("SET lock_timeout TO '10s'")
        connection.execute("SET search_path TO mixts")
        return connection

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
        try:
            if self._closed:
                raise StoreError(f"{self.name} is closed")
            if self._writer is None or self._writer.closed:
                self._writer = self._connect()
            with self._writer.transaction():
                yield PostgresTransaction(self._writer, self._writer_id)
        except _CONFLICTS as error:
            raise TransactionConflictError(_first_line(error)) from error
        except _INVALID_ROWS:
            raise  # an error in this code; the database works
        except psycopg.Error as error:
            self._drop_writer()
            raise StoreUnavailableError(_unavailable_message(self.name, error)) from error

    def _drop_writer(self) -> None:
        """Close the writer's connection after a failure, since it may be broken."""
        writer, self._writer = self._writer, None
        if writer is not None:
            with suppress(psycopg.Error):
                writer.close()

    def probe(self) -> None:
        with self.transaction() as transaction:
            transaction.mark()

    # -- reading ------------------------------------------------------------------------------

    def query(self, sql: str, parameters: Sequence[Any] = ()) -> list[Row]:
        statement = placeholders(sql)
        for attempt in (1, 2):
            connection, is_new = self._borrow()
            try:
                rows = connection.execute(statement, tuple(parameters)).fetchall()
            except psycopg.Error as error:
                with suppress(psycopg.Error):
                    connection.close()
                # The server may have closed an idle connection: retry once with a new one.
                if is_new or attempt == 2 or not isinstance(error, psycopg.OperationalError):
                    raise StoreUnavailableError(_unavailable_message(self.name, error)) from error
                self._close_idle()
                continue
            self._give_back(connection)
            return rows
        raise AssertionError("unreachable")

    def scan(self, sql: str, parameters: Sequence[Any] = ()) -> Iterator[Row]:
        try:
            with (
                self._connect() as connection,
                connection.transaction(),
                connection.cursor("mixts_scan") as cursor,
            ):
                cursor.itersize = 10_000
                cursor.execute(placeholders(sql), tuple(parameters))
                yield from cursor
        except psycopg.Error as error:
            raise StoreUnavailableError(_unavailable_message(self.name, error)) from error

    def schema_version(self) -> int:
        ((version,),) = self.query("SELECT MAX(version) FROM schema_version")
        return int(version)

    def n_bytes(self) -> int:
        ((size,),) = self.query(_TABLE_BYTES)
        return int(size)

    def _borrow(self) -> tuple[psycopg.Connection[Row], bool]:
        """Return a connection for one read, and whether it is new."""
        with self._lock:
            if self._closed:
                raise StoreError(f"{self.name} is closed")
            if self._idle:
                return self._idle.pop(), False
        try:
            return self._connect(), True
        except psycopg.Error as error:
            raise StoreUnavailableError(_unavailable_message(self.name, error)) from error

    def _give_back(self, connection: psycopg.Connection[Row]) -> None:
        with self._lock:
            if not self._closed and len(self._idle) < MOST_IDLE:
                self._idle.append(connection)
                return
        connection.close()

    def _close_idle(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            with suppress(psycopg.Error):
                connection.close()

    def close(self) -> None:
        with self._lock:
            self._closed = True
        self._drop_writer()
        self._close_idle()


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


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__


def _unavailable_message(name: str, error: Exception) -> str:
    reason = "the database refuses"
    if isinstance(error, psycopg.errors.DiskFull):
        reason = "the disk is full"
    elif isinstance(error, psycopg.OperationalError):
        reason = "the database cannot be reached, or is in trouble"
    return f"{name}: {reason} ({_first_line(error)}); nothing was acknowledged"
