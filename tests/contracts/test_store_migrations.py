"""Tables are brought up to date step by step: with all that is in them, or not at all."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

import mixts
from mixts.errors import StoreError
from mixts.service.store import _sqlite_file as sqlite_file
from mixts.service.store import postgres
from mixts.service.store.rebuild import rebuild
from tests.contracts.stores import arms, decide_and_reward

NEXT = (
    "ALTER TABLE tasks ADD COLUMN note TEXT NOT NULL DEFAULT 'none'; "
    "CREATE TABLE notes (name TEXT PRIMARY KEY)"
)
BROKEN = "CREATE TABLE extra (name TEXT PRIMARY KEY); INSERT INTO nowhere VALUES (1)"

Upgrade = Callable[..., None]


@pytest.fixture
def upgrade(monkeypatch: pytest.MonkeyPatch) -> Upgrade:
    """A mixts that knows more steps; with none, the one of today."""
    known = {module: module.MIGRATIONS for module in (postgres, sqlite_file)}

    def to(*steps: str) -> None:
        for module, migrations in known.items():
            monkeypatch.setattr(module, "MIGRATIONS", (*migrations, *steps))

    return to


@pytest.fixture
def filled(address: str) -> str:
    """The address of a store with decisions, as today's mixts writes them."""
    with mixts.DecisionStore(address) as store, mixts.Decider(arms(), store, seed=1) as decider:
        decide_and_reward(decider, "a", [1.0, 0.0, 1.0])
        decider.decide("b", key="k")
    return address


def test_a_step_keeps_what_is_there(filled: str, upgrade: Upgrade) -> None:
    with mixts.DecisionStore(filled) as store:
        history, totals = store.history("a"), store.totals()
    upgrade(NEXT)
    for _ in range(2):  # the second time there is nothing to do
        with mixts.DecisionStore(filled) as store, mixts.Decider(None, store) as decider:
            assert store.history("a") == history
            assert store.totals() == totals
            assert store.backend.query("SELECT note FROM tasks") == [("none",), ("none",)]
            assert store.backend.query("SELECT * FROM notes") == []
            assert decider.decide("b", key="k").repeated
            assert rebuild(store, write=False).differing == 0
    with mixts.DecisionStore(filled) as store, mixts.Decider(None, store) as decider:
        decide_and_reward(decider, "c", [1.0])
        assert store.totals().decisions == totals.decisions + 1


def test_a_step_that_fails_leaves_everything_as_it_was(filled: str, upgrade: Upgrade) -> None:
    upgrade(NEXT, BROKEN)
    with pytest.raises(StoreError, match=r"cannot be used: .*nowhere"):
        mixts.DecisionStore(filled)
    upgrade()
    with mixts.DecisionStore(filled) as store, mixts.Decider(None, store) as decider:
        assert store.totals().decisions == 4
        decide_and_reward(decider, "a", [1.0])
        assert rebuild(store, write=False).differing == 0
    upgrade(NEXT)  # would fail, had the first step been kept
    with mixts.DecisionStore(filled) as store:
        assert store.totals().decisions == 5


def test_a_newer_store_is_refused_and_left_alone(filled: str, upgrade: Upgrade) -> None:
    upgrade(NEXT)
    mixts.DecisionStore(filled).close()
    upgrade()
    known = len(sqlite_file.MIGRATIONS)
    refusal = rf"has version {known + 1} .* knows up to {known}: upgrade mixts"
    with pytest.raises(StoreError, match=refusal):
        mixts.DecisionStore(filled)
    upgrade(NEXT)
    with mixts.DecisionStore(filled) as store:
        assert store.totals().decisions == 4


VERSION = {
    "SQLite": "PRAGMA user_version = 1",
    "PostgreSQL": "UPDATE schema_version SET version = 1",
}
"""Statements that mark the tables as those of the first version."""

UNDO = (
    "DROP INDEX decisions_by_slate",
    *(f"ALTER TABLE decisions DROP COLUMN {name}" for name in ("slate", "position", "money")),
    "ALTER TABLE action_sets DROP COLUMN ids",
    *(f"ALTER TABLE decisions DROP COLUMN {name}" for name in ("deferred", "due")),
    "ALTER TABLE decisions DROP COLUMN default_reward",
    "ALTER TABLE rewards DROP COLUMN is_default",
    *(f"DROP TABLE {name}" for name in ("late_rewards", "activated", "open_windows", "counts")),
    *(
        f"ALTER TABLE {table} DROP COLUMN {name}"
        for table in ("tasks", "activity")
        for name in ("defaults", "deferred")
    ),
    "ALTER TABLE decisions DROP COLUMN policy",
)
"""Statements that undo all steps but the first."""


def test_decisions_from_before_policies_are_thompson_sampling(filled: str) -> None:
    with mixts.DecisionStore(filled) as store, store.backend.transaction() as transaction:
        if store.backend.database == "SQLite":
            for table in ("priors", "activations", "tasks", "action_sets", "decisions", "rewards"):
                transaction._execute(f"ALTER TABLE {table} DROP COLUMN checksum")
        for statement in UNDO:
            transaction._execute(statement)
        transaction._execute(VERSION[store.backend.database])
    with (
        mixts.DecisionStore(filled) as store,
        mixts.Decider(None, store, policy="greedy", floor=0.01) as decider,
    ):
        assert [row.policy for row in store.history("a")] == ["ts"] * 3
        again = decider.decide("b", key="k")
        assert (again.repeated, again.policy) == (True, "ts")
        assert decider.decide("b").policy == "greedy"
        assert [row.policy for row in store.history("b")] == ["ts", "greedy"]
        assert store.backend.schema_version() == len(sqlite_file.MIGRATIONS)
        assert rebuild(store, write=False).differing == 0


def test_both_databases_have_the_same_number_of_steps() -> None:
    assert len(sqlite_file.MIGRATIONS) == len(postgres.MIGRATIONS)


def test_several_may_begin_at_once(address: str, upgrade: Upgrade) -> None:
    def begin(number: int) -> int:
        with mixts.DecisionStore(address) as store:
            store.backend.probe()
            return store.totals().decisions

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(begin, range(4))) == [0] * 4
        upgrade(NEXT)
        assert list(pool.map(begin, range(4))) == [0] * 4
