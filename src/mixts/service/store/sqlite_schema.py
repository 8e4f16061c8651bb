"""The tables in SQLite. A version is only ever added: old files are migrated step by step."""

from __future__ import annotations

APPLICATION_ID = 0x4D695854
"""In the file's header, "MiXT": a database of somebody else's is not touched."""

MIGRATIONS: tuple[str, ...] = (
    """
    CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE priors (
        version INTEGER PRIMARY KEY, digest BLOB NOT NULL UNIQUE, uploaded_at INTEGER NOT NULL,
        family TEXT NOT NULL, n_components INTEGER NOT NULL, body BLOB NOT NULL
    ) STRICT;
    CREATE TABLE activations (
        seq INTEGER PRIMARY KEY, version INTEGER NOT NULL REFERENCES priors, at INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE tasks (
        number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE,
        decisions INTEGER NOT NULL, rewards INTEGER NOT NULL, late INTEGER NOT NULL,
        latent INTEGER, certainty REAL NOT NULL, version INTEGER NOT NULL,
        first_at INTEGER NOT NULL, last_at INTEGER NOT NULL, statistics BLOB NOT NULL
    ) STRICT;
    CREATE INDEX tasks_by_activity ON tasks (last_at);
    CREATE INDEX tasks_by_kind ON tasks (version, latent, certainty);
    CREATE TABLE action_sets (
        number INTEGER PRIMARY KEY, digest BLOB NOT NULL UNIQUE,
        n_actions INTEGER NOT NULL, n_features INTEGER NOT NULL, body BLOB NOT NULL
    ) STRICT;
    CREATE TABLE decisions (
        seq INTEGER PRIMARY KEY, id BLOB NOT NULL UNIQUE,
        task INTEGER NOT NULL REFERENCES tasks, key TEXT, request BLOB,
        at INTEGER NOT NULL, version INTEGER NOT NULL REFERENCES priors, action INTEGER NOT NULL,
        propensity REAL NOT NULL CHECK (propensity > 0),
        probabilities BLOB NOT NULL, weights BLOB NOT NULL,
        action_set INTEGER REFERENCES action_sets
    ) STRICT;
    CREATE INDEX decisions_by_task ON decisions (task);
    CREATE UNIQUE INDEX decisions_by_key ON decisions (task, key) WHERE key IS NOT NULL;
    CREATE TABLE rewards (
        seq INTEGER PRIMARY KEY, decision INTEGER NOT NULL UNIQUE REFERENCES decisions,
        at INTEGER NOT NULL, value REAL NOT NULL, late INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE activity (
        start INTEGER NOT NULL, writer TEXT NOT NULL,
        tasks INTEGER NOT NULL, decisions INTEGER NOT NULL, rewards INTEGER NOT NULL,
        reward_sum REAL NOT NULL, late INTEGER NOT NULL, PRIMARY KEY (start, writer)
    ) STRICT, WITHOUT ROWID;
    """,
)
"""``MIGRATIONS[n]`` takes a file of version n to version n + 1; version 0 is an empty file."""
