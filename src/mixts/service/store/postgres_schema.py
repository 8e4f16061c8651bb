"""The tables in PostgreSQL. A version is only ever added: old ones are migrated step by step."""

from __future__ import annotations

LOCK = 0x4D695854
"""Of the advisory lock under which tables are made: replicas may start at the same moment."""

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
)
"""``MIGRATIONS[n]`` takes a database of version n to version n + 1; version 0 has no tables."""
