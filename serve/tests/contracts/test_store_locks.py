"""PostgreSQL: a neighbour that keeps rows locked, or a database that hangs, holds up only its own.

A replica that is stopped within a transaction keeps its locks; so does anybody with ``psql``.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from mixts_serve import Decide, Decider, Decision, DecisionStore, Receipt, Reward
from mixts_serve import writer as writing
from mixts_serve.offers import checked_request
from mixts_serve.rules import Policy
from mixts_serve.store import _postgres_connections as connecting
from mixts_serve.store import postgres as locking
from mixts_serve.store.tables import ActionSet

from mixts.errors import StoreUnavailableError, TaskLockedError
from serve.tests.contracts.stores import ACTIONS, Opener, arms, linear

pytestmark = pytest.mark.parametrize("address", ["postgres"], indirect=True)

BOUND_SECONDS = 5.0
"""Far below the ten seconds of a table's lock, also on a busy machine."""


@pytest.fixture
def decider(store: DecisionStore) -> Iterator[Decider]:
    with Decider(arms(), store, seed=0) as decider:
        decider.decide_many([Decide("held"), Decide("free")])
        yield decider


@contextmanager
def neighbour(address: str, sql: str, *parameters: Any) -> Iterator[None]:
    """Somebody who executes a statement and does not end the transaction."""
    with psycopg.connect(address, options="-c search_path=mixts") as connection:
        connection.execute(sql, parameters)
        yield
        connection.rollback()


HOLD = "SELECT 1 FROM tasks WHERE name = 'held' FOR UPDATE"


def test_only_the_locked_task_is_refused(decider: Decider, address: str) -> None:
    before = decider.decide("held")
    with neighbour(address, HOLD):
        started = time.monotonic()
        refused, made = decider.decide_many([Decide("held"), Decide("free")])
        assert isinstance(refused, TaskLockedError)
        assert "'held'" in str(refused)
        assert isinstance(made, Decision)
        with pytest.raises(TaskLockedError):
            decider.reward(before.id, 1)
        assert decider.reward(made.id, 1) == Receipt(duplicate=False)
        assert time.monotonic() - started < BOUND_SECONDS
        assert decider.ready()
    assert decider.reward(before.id, 1) == Receipt(duplicate=False)
    assert decider.task("held").decisions == 2


def test_the_next_batches_do_not_wait_at_all(decider: Decider, address: str) -> None:
    with neighbour(address, HOLD):
        decider.decide_many([Decide("held"), Decide("free")])
        others = decider.store.backend.connections  # type: ignore[attr-defined]
        others._writer.execute("SET lock_timeout TO 0")  # whoever waits now, waits for ever
        refused, made = decider.decide_many([Decide("held"), Decide("free")])
        assert isinstance(refused, TaskLockedError)
        assert isinstance(made, Decision)


def test_a_task_that_a_neighbour_is_creating(decider: Decider, address: str) -> None:
    create = (
        "INSERT INTO tasks (name, decisions, rewards, late, certainty, version, first_at, last_at, "
        "statistics, defaults, deferred) VALUES ('new', 0, 0, 0, 0, 0, 0, 0, '', 0, 0)"
    )
    with neighbour(address, create):
        results = decider.decide_many([Decide("new"), Decide("newer"), Decide("free")])
        assert [type(result) for result in results] == [TaskLockedError, Decision, Decision]
    assert decider.decide("new").task == "new"
    assert decider.store.totals().tasks == 4


def test_an_action_set_that_a_neighbour_is_storing(address: str, opened: Opener) -> None:
    with Decider(linear(), opened(), seed=0) as decider:
        other = [[1.0, 0.0], [0.0, 1.0]]
        decider.decide("free", other)
        stored = ActionSet.of(linear_rows(), None)
        create = (
            "INSERT INTO action_sets (digest, n_actions, n_features, body) VALUES (%s, %s, %s, %s)"
        )
        with neighbour(
            address, create, stored.digest, stored.n_actions, stored.n_features, stored.body
        ):
            requests = [Decide("a", ACTIONS), Decide("b", other), Decide("c", ACTIONS)]
            results = decider.decide_many(requests)
            assert [type(r) for r in results] == [TaskLockedError, Decision, TaskLockedError]
        assert isinstance(decider.decide("a", ACTIONS), Decision)


def linear_rows() -> Any:
    return checked_request(Decide("a", ACTIONS), linear(), Policy("ts")).offer.actions


def test_other_rows_that_a_neighbour_locks(decider: Decider, address: str) -> None:
    """The reward of a decision needs its row; other rewards of the same moment do not."""
    held, free = (decider.decide(task) for task in ("held", "free"))
    lock = "SELECT 1 FROM decisions WHERE id = %s FOR UPDATE"
    results: dict[str, Any] = {}
    with neighbour(address, lock, bytes.fromhex(held.id)):
        done = threading.Semaphore(0)
        gate = threading.Event()
        job = threading.Thread(target=decider._writer.run, args=(gate.wait,))
        job.start()
        for made in (held, free):  # both wait, and become one batch

            def collect(result: list[Any], task: str = made.task) -> None:
                results[task] = result[0]
                done.release()

            decider.submit([Reward(made.id, 1)], collect)
        gate.set()
        job.join()
        for _ in range(2):
            assert done.acquire(timeout=10)
    assert isinstance(results["held"], TaskLockedError)
    assert results["free"] == Receipt(duplicate=False)
    assert decider.ready()


def test_a_locked_table_is_waited_for(
    decider: Decider, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locking, "LOCK_SECONDS", 1)
    with (
        neighbour(address, "LOCK TABLE tasks IN EXCLUSIVE MODE"),
        pytest.raises(StoreUnavailableError, match="keeps the tables locked"),
    ):
        decider.decide("free")
    assert decider.decide("free").task == "free"


def test_the_server_ends_a_replica_that_stops_within_a_transaction(
    decider: Decider, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = decider.store.backend
    assert isinstance(backend, locking.PostgresBackend)
    with backend.transaction() as transaction:
        ((idle,),) = transaction._execute("SHOW idle_in_transaction_session_timeout")
        ((statement,),) = transaction._execute("SHOW statement_timeout")
    assert (idle, statement) == ("30s", "10s")


# -- a database that hangs ------------------------------------------------------------------------


@pytest.fixture
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lose patience with the database after a second."""
    monkeypatch.setattr(connecting, "WRITE_SECONDS", 1.0)
    monkeypatch.setattr(connecting, "GRACE_SECONDS", 0.0)
    monkeypatch.setattr(connecting, "write_limits", lambda connection: {})
    monkeypatch.setattr(writing, "WATCH_SECONDS", 0.05)
    monkeypatch.setattr(writing, "SLOW_STORE_SECONDS", 0.3)


@contextmanager
def frozen(decider: Decider) -> Iterator[None]:
    """Stop the server's process behind the writer."""
    connections = decider.store.backend.connections  # type: ignore[attr-defined]
    process = connections._writer.info.backend_pid
    os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process, signal.SIGCONT)


@pytest.mark.usefixtures("quickly")
def test_a_batch_is_given_up_when_the_database_hangs(store: DecisionStore) -> None:
    with Decider(arms(), store, seed=0) as decider:
        decider.decide("a")
        results: list[Any] = []
        done = threading.Event()

        def collect(result: list[Any]) -> None:
            results.extend(result)
            done.set()

        with frozen(decider):
            decider.submit([Decide("a")], collect)
            while decider.ready():
                assert not done.wait(0.05), "it was refused before it was seen to hang"
            assert "has not answered" in str(decider.health().reason)
            assert done.wait(BOUND_SECONDS)
            (refused,) = results
            assert isinstance(refused, StoreUnavailableError)
            # A new connection has a process of its own, which works.
            assert decider.decide("a").task == "a"
        assert decider.ready()
        assert decider.task("a").decisions == 2


@pytest.mark.usefixtures("quickly")
def test_a_decider_closes_although_the_database_hangs(store: DecisionStore) -> None:
    decider = Decider(arms(), store, seed=0)
    decider.decide("a")
    with frozen(decider):
        decider.submit([Decide("a")], lambda results: None)
        started = time.monotonic()
        decider.close()
        assert time.monotonic() - started < BOUND_SECONDS


@pytest.mark.usefixtures("quickly")
def test_a_read_is_given_up_when_the_database_hangs(
    store: DecisionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connecting, "READ_SECONDS", 1)
    with Decider(arms(), store, seed=0):
        backend = store.backend
        ((process,),) = backend.query("SELECT pg_backend_pid()")
        os.kill(process, signal.SIGSTOP)
        try:
            ((other,),) = backend.query("SELECT pg_backend_pid()")  # the second attempt
        finally:
            os.kill(process, signal.SIGCONT)
        assert other != process
