"""Disks that are full or fail: a reason is given, nothing is lost or half done, it recovers."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path

import apsw
import pytest
from mixts_serve import Decide, Decider, Decision, DecisionStore, Reward, writer
from mixts_serve.http.app import Service
from mixts_serve.records import Health
from mixts_serve.store import sqlite

from mixts.errors import StoreError, StoreUnavailableError
from serve.tests.faulty_disk import FaultyDisk
from serve.tests.unit.http.calls import get, post
from serve.tests.unit.store.faulty_store import (
    BROKEN,
    FAULTS,
    FULL,
    OTHER,
    PRIOR,
    Running,
    refusals,
    running,
    wait_until,
)

__all__ = ["running"]

pytestmark = pytest.mark.usefixtures("unchecked")

# -- writes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("act", "error", "reason"), FAULTS)
def test_a_write_is_refused_and_everything_else_goes_on(
    act: str, error: type, reason: str, running: Running
) -> None:
    made = running.decider.decide("a", key="k")
    running.disk.fail(act, error, "-wal")
    with pytest.raises(StoreUnavailableError, match=reason) as refused:
        running.decider.decide("b")
    assert str(running.path) in str(refused.value)
    assert len(refusals(running.decider.reward_many([Reward(made.id, 1.0)] * 2))) == 2
    assert running.decider.health() == Health(False, str(refused.value), 0)
    # Reading goes on, and sees what was acknowledged and no more.
    assert running.decider.task("a").decisions == 1
    assert [row.id for row in running.store.history("a")] == [made.id]
    assert running.store.task("b") is None
    assert running.decider.posterior("a").mean[0] > 0

    running.disk.mend()
    assert running.decider.decide("a", key="k").id == made.id
    assert not running.decider.reward(made.id, 1.0).duplicate
    assert running.decider.health().writable
    running.assert_whole(1, 1)


@pytest.mark.parametrize(("act", "error", "reason"), FAULTS)
def test_it_recovers_without_requests(
    act: str, error: type, reason: str, running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "PROBE_SECONDS", 0.01)
    running.disk.fail(act, error, "-wal")
    with pytest.raises(StoreUnavailableError, match=reason):
        running.decider.decide("a")
    assert wait_until(lambda: running.disk.n_failures > 3)  # it probes, in vain
    assert not running.decider.health().writable
    running.disk.mend()
    assert wait_until(lambda: running.decider.health().writable)
    assert running.decider.health().reason is None
    running.assert_whole(0, 0)


@pytest.mark.parametrize("error", [apsw.FullError, apsw.IOError])
def test_a_commit_that_breaks_off_anywhere_leaves_nothing(error: type, running: Running) -> None:
    made = running.decider.decide_many([Decide(f"task {i}") for i in range(3)])
    group = [Decide(f"task {i}", key="again") for i in range(2, 6)]
    n_broken = 0
    for after in range(100):
        running.disk.fail("write", error, "-wal", after)
        results = running.decider.decide_many(group)
        running.disk.mend()
        if not refusals(results):
            break
        n_broken += 1
        assert len(refusals(results)) == 4
        assert running.store.totals().tasks == 3
        assert running.store.totals().decisions == 3
    assert n_broken > 10
    assert all(isinstance(result, Decision) for result in results)
    running.decider.reward_many([Reward(decision.id, 1.0) for decision in [*made, *results]])
    running.assert_whole(7, 7)


def test_a_transaction_that_breaks_off_leaves_nothing(running: Running) -> None:
    def break_off() -> None:
        with running.store.backend.transaction() as transaction:
            transaction.mark()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        break_off()
    assert running.store.backend.query("SELECT * FROM meta WHERE name = 'probe'") == []
    running.decider.decide("a")
    running.assert_whole(1, 0)


def test_a_prior_is_not_changed_by_halves(running: Running) -> None:
    running.disk.fail("write", apsw.FullError, "-wal")
    with pytest.raises(StoreUnavailableError, match=FULL):
        running.decider.upload_prior(OTHER)
    assert len(running.decider.priors()) == 1
    running.disk.mend()
    version = running.decider.upload_prior(OTHER)
    running.disk.fail("sync", apsw.IOError, "-wal")
    with pytest.raises(StoreUnavailableError, match=BROKEN):
        running.decider.activate_prior(version)
    running.disk.mend()
    assert running.decider.prior_version == 1
    assert running.decider.decide("a").prior_version == 1
    running.decider.activate_prior(version)
    assert running.decider.decide("a").prior_version == 2
    running.assert_whole(2, 0)


def test_a_full_database_is_a_full_disk(running: Running) -> None:
    # SQLite's own error, made by SQLite itself.
    writer = running.store.backend._connections.writer()
    writer.pragma("max_page_count", 1)  # it takes as many as there are
    made: list = []
    while not refusals(made):
        n = len(made)
        assert n < 1000
        made += running.decider.decide_many([Decide(f"task {n}")])
    assert FULL in str(made.pop())
    assert not running.decider.health().writable
    assert running.store.totals().decisions == n > 0
    writer.pragma("max_page_count", 2**30)
    running.decider.reward(made[-1].id, 1.0)
    assert running.decider.health().writable
    running.assert_whole(n, 1)


def test_an_input_error_without_room_is_a_full_disk(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite reports it so where it maps a file to memory, or reserves room."""
    full = shutil.disk_usage(running.path.parent)._replace(free=4096)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: full)
    running.disk.fail("write", apsw.IOError, "-wal")
    with pytest.raises(StoreUnavailableError) as refused:
        running.decider.decide("a")
    assert f"{FULL}: 4,096 bytes are free in {running.path.parent} (" in str(refused.value)


def test_a_decider_does_not_start_on_a_full_disk(tmp_path: Path) -> None:
    with FaultyDisk() as disk, disk.store(tmp_path / "decisions.db") as store:
        disk.fail("write", apsw.FullError, "-wal")
        with pytest.raises(StoreUnavailableError, match=FULL):
            Decider(PRIOR, store)


@pytest.mark.parametrize("act", ["open", "write", "sync"])
@pytest.mark.parametrize("after", range(3))
def test_a_store_is_made_whole_or_not_at_all(act: str, after: int, tmp_path: Path) -> None:
    path = tmp_path / "decisions.db"
    with FaultyDisk() as disk:
        disk.fail(act, apsw.FullError, after=after)
        with pytest.raises(StoreError, match=r"decisions\.db cannot be used"):
            disk.store(path)
        assert list(tmp_path.iterdir()) == []
    with DecisionStore(path) as store:
        assert store.totals().tasks == 0


# -- reads ----------------------------------------------------------------------------------------


def test_a_read_that_fails_has_a_reason(running: Running) -> None:
    running.decider.decide("a")
    running.disk.fail("read", apsw.IOError)
    with pytest.raises(StoreUnavailableError, match=BROKEN):
        running.store.history("a")
    with pytest.raises(StoreUnavailableError, match=BROKEN):
        list(running.store.backend.scan("SELECT * FROM decisions"))
    running.disk.mend()
    assert len(running.store.history("a")) == 1


# -- other misfortunes ----------------------------------------------------------------------------


def test_another_process_may_keep_it_locked(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "BUSY_SECONDS", 0)
    other = apsw.Connection(str(running.path))
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailableError, match="another process keeps it locked"):
        running.decider.decide("a")
    other.execute("ROLLBACK")
    other.close()
    running.decider.decide("a")
    running.assert_whole(1, 0)


def test_a_file_that_was_taken_away_is_not_written_to(running: Running) -> None:
    running.decider.decide("a")
    elsewhere = running.path.with_name("elsewhere.db")
    running.path.rename(elsewhere)
    with pytest.raises(StoreUnavailableError, match="removed or replaced"):
        running.decider.decide("a")
    running.path.write_bytes(b"something else")
    with pytest.raises(StoreUnavailableError, match="removed or replaced"):
        running.decider.decide("a")
    elsewhere.replace(running.path)
    running.decider.decide("a")
    running.assert_whole(2, 0)


@pytest.mark.parametrize("end", ["-wal", "-shm"])
def test_a_log_that_was_taken_away_is_not_written_to(end: str, running: Running) -> None:
    made = [running.decider.decide("a").id for _ in range(3)]
    beside = running.path.with_name(running.path.name + end)
    elsewhere = running.path.with_name("elsewhere")
    beside.rename(elsewhere)
    with pytest.raises(StoreUnavailableError, match=f"{end} was removed or replaced"):
        running.decider.decide("a")
    elsewhere.rename(beside)  # brought back
    made.append(running.decider.decide("a").id)
    beside.unlink()
    with pytest.raises(StoreUnavailableError, match=f"{end} was removed.*restart the service"):
        running.decider.decide("a")
    assert not running.decider.ready()
    # Killed now: all that was acknowledged is in the file.
    copy = running.path.with_name("copy.db")
    copy.write_bytes(running.path.read_bytes())
    with DecisionStore(copy) as store:
        assert [row.id for row in store.history("a")] == made


def test_a_decider_can_be_closed_while_nothing_can_be_written(running: Running) -> None:
    made = running.decider.decide("a")
    running.disk.fail("write", apsw.FullError)
    running.disk.fail("sync", apsw.IOError)
    results: list = []
    running.decider.submit([Reward(made.id, 1.0)], results.extend)
    running.decider.close()
    assert len(refusals(results)) == 1
    running.store.close()
    with DecisionStore(running.path) as store:
        assert store.history("a")[0].id == made.id
        assert store.totals().rewards == 0


# -- over HTTP ------------------------------------------------------------------------------------


def test_clients_get_503_and_may_read(running: Running) -> None:
    with closing(Service(running.decider, running.store)) as service:
        made = post(service, "/v1/decide", {"task": "a", "key": "k"})
        assert made.status == 200
        running.disk.fail("write", apsw.FullError, "-wal")
        for path, body in [
            ("/v1/decide", {"task": "b"}),
            ("/v1/reward", {"id": made.json["id"], "value": 1}),
        ]:
            refused = post(service, path, body)
            assert refused.status == 503
            assert refused.error["code"] == "store_unavailable"
            assert FULL in refused.error["message"]
            assert int(refused.headers["retry-after"]) > 0
        ready = get(service, "/readyz")
        assert (ready.status, FULL in ready.error["message"]) == (503, True)
        for path in ("/healthz", "/v1/tasks/a", "/metrics", "/", "/tasks?name=a", "/v1/prior"):
            assert get(service, path).status == 200
        running.disk.mend()
        again = post(service, "/v1/decide", {"task": "a", "key": "k"})
        assert again.json["id"] == made.json["id"]
        assert get(service, "/readyz").status == 200
    running.assert_whole(1, 0)
