"""What a store is, at a glance."""

from __future__ import annotations

from dataclasses import dataclass

from mixts.service.records import PriorVersion, Totals
from mixts.service.store.store import DecisionStore

_POSTGRES_VERSION = "SELECT MAX(version) FROM schema_version"
_POSTGRES_BYTES = (
    "SELECT COALESCE(SUM(pg_total_relation_size(c.oid)), 0) FROM pg_class c "
    "JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'mixts' AND c.relkind = 'r'"
)


@dataclass(frozen=True, slots=True)
class Summary:
    """Of a store."""

    name: str
    database: str
    schema_version: int
    n_bytes: int
    """Of the tables and their indices; of a file, with its write-ahead log."""
    totals: Totals
    priors: list[PriorVersion]


def summary(store: DecisionStore) -> Summary:
    """What is in a store, and in what."""
    from mixts.service.store.sqlite import SQLiteBackend

    backend = store.backend
    if isinstance(backend, SQLiteBackend):
        database, ((version,),) = "SQLite", backend.query("PRAGMA user_version")
        files = (backend.path, backend.path.with_name(backend.path.name + "-wal"))
        n_bytes = sum(file.stat().st_size for file in files if file.exists())
    else:
        database, ((version,),) = "PostgreSQL", backend.query(_POSTGRES_VERSION)
        ((n_bytes,),) = backend.query(_POSTGRES_BYTES)
    return Summary(store.name, database, int(version), int(n_bytes), store.totals(), store.priors())
