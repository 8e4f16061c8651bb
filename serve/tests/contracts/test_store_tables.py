"""Tables and statements are made from the fields of records, for both databases."""

from __future__ import annotations

import shlex
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import get_type_hints

import pytest
from mixts_serve import Decider, DecisionStore
from mixts_serve.records import LoggedDecision, TaskEntry
from mixts_serve.store.base import LOGGED_COUNTS
from mixts_serve.store.rebuild import rebuild
from mixts_serve.store.tables import COUNTS, DECISIONS, TABLES, TASK, Table

from mixts.errors import ParameterError, StoreError
from serve.tests import postgres_server
from serve.tests.contracts.stores import arms, decide_and_reward

SET_VERSION = {
    "SQLite": "PRAGMA user_version = 2",
    "PostgreSQL": "UPDATE schema_version SET version = 2",
}


def test_a_store_of_another_version_is_refused(address: str) -> None:
    with DecisionStore(address) as store, Decider(arms(), store) as decider:
        decide_and_reward(decider, "a", [1.0])
        assert store.backend.schema_version() == 1
        with store.backend.transaction() as transaction:
            transaction._execute(SET_VERSION[store.backend.database])
    for _ in range(2):
        with pytest.raises(StoreError, match=r"version 2 of the tables.*uses version 1"):
            DecisionStore(address)


def test_several_may_begin_at_once(address: str) -> None:
    def begin(number: int) -> int:
        with DecisionStore(address) as store:
            store.backend.probe()
            return store.totals().decisions

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(begin, range(4))) == [0] * 4


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_a_table_has_the_fields_of_its_record(table: Table, store: DecisionStore) -> None:
    key = [table.key] if isinstance(table.key, str) else []
    checksum = ["checksum"] * (store.backend.database == "SQLite" and bool(key))
    columns = sorted({*key, *table.columns, *checksum})
    assert set(get_type_hints(table.record)) - table.derived <= set(columns)
    names = store.backend.query(
        f"SELECT name FROM pragma_table_info('{table.name}')"
        if store.backend.database == "SQLite"
        else "SELECT column_name FROM information_schema.columns "
        f"WHERE table_schema = 'mixts' AND table_name = '{table.name}'"
    )
    assert sorted(name for (name,) in names) == columns


def test_values_belong_to_columns_by_name() -> None:
    decision = LoggedDecision(
        seq=7, id=b"id", task=2, at=3, version=4, action=5, propensity=0.5, weights=b"w",
        request=None, action_set=None, policy="ts", key="k", activated_at=9,
    )  # fmt: skip
    found = dict(zip(DECISIONS.columns, DECISIONS.values(decision), strict=True))
    assert found.items() >= {"id": b"id", "task": 2, "at": 3, "key": "k", "money": None}.items()
    assert found.keys().isdisjoint({"seq", "activated_at"})
    task = TaskEntry(1, "a", 10, 20, decisions=3, statistics=b"s")
    assert TASK.read(tuple(getattr(task, name) for name in TASK.expressions)) == task


def test_counts_of_the_log_have_all_columns() -> None:
    assert sorted(LOGGED_COUNTS) == sorted(COUNTS.columns)


def test_a_task_with_everything_is_read_as_it_was_written(store: DecisionStore) -> None:
    with Decider(arms(), store) as decider:
        decider.decide("a")
    with store.backend.transaction() as transaction:
        (entry,), _ = transaction.lock_tasks(["a"], [], 0)
        values = range(1, 6)
        entry.decisions, entry.rewards, entry.late, entry.defaults, entry.deferred = values
        entry.latent, entry.certainty, entry.version, entry.statistics = 1, 0.25, 3, b"bytes"
        entry.last_at += 5
        transaction.save_tasks([entry])
    with store.backend.transaction() as transaction:
        assert transaction.lock_tasks(["a"], [], 0) == ([entry], 0)


def test_a_copy_is_restored(address: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Of a store with erased tasks, whose copy is checked and then goes on."""
    copy = str(tmp_path / "copy.db")
    with DecisionStore(address) as store, Decider(arms(), store, seed=1) as decider:
        made = decide_and_reward(decider, "a", [1.0, 0.0])
        decide_and_reward(decider, "b", [1.0])
        decider.erase("b")
        if store.backend.database == "SQLite":
            store.backend.backup(Path(copy))
        else:
            with pytest.raises(ParameterError) as refused:
                store.backend.backup(Path(copy))
            assert not Path(copy).exists()
            words = shlex.split(str(refused.value).partition("pg_dump ")[2].partition(" (and")[0])
            programs = postgres_server.find()
            assert programs is not None
            subprocess.run([programs / "pg_dump", *words[:-1], address], check=True)
            server = request.getfixturevalue("postgres")
            new = postgres_server.database(server, f"restored{time.monotonic_ns()}")
            words = ["--exit-on-error", f"--dbname={new}", copy]
            subprocess.run([programs / "pg_restore", *words], check=True)
            copy = new
        decide_and_reward(decider, "a", [1.0])  # after the copy
    with DecisionStore(copy, create=False) as store:
        found = rebuild(store, write=False)
        assert (found.tasks, found.decisions, found.n_differences, found.damage) == (1, 2, 0, ())
        with Decider(None, store, seed=2) as decider:
            assert decider.reward(made[0].id, 1.0).duplicate
            decide_and_reward(decider, "b", [1.0])
        assert rebuild(store, write=False).n_differences == 0
