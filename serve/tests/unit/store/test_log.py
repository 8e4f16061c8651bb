"""The log of a SQLite store is emptied beside decisions, which go on where it cannot be."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import apsw
import pytest
from mixts_serve import Decide, Decider, DecisionStore, Reward
from mixts_serve.store import _sqlite_log as sqlite_log

from mixts.errors import StoreUnavailableError
from serve.tests.unit.store.faulty_store import FAULTS, PRIOR, Running, running, wait_until

__all__ = ["running"]

pytestmark = pytest.mark.usefixtures("unchecked")


@pytest.mark.parametrize(("moves", "resets"), [(5, 10**6), (10**6, 5)], ids=["beside", "itself"])
@pytest.mark.parametrize(("act", "error", "reason"), FAULTS)
def test_decisions_go_on_while_the_log_cannot_be_emptied(
    moves: int, resets: int, act: str, error: type, reason: str, running: Running,
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    monkeypatch.setattr(sqlite_log, "CHECKPOINT_PAGES", moves)
    monkeypatch.setattr(sqlite_log, "RESET_PAGES", resets)
    running.store.backend._log._begin()
    running.disk.fail(act, error, ".db")
    with caplog.at_level(logging.WARNING, "mixts_serve"):
        for i in range(10):
            running.decider.decide(f"task {i}")
            if i == 6:  # later decisions must find a failed checkpoint, and cause another
                assert wait_until(lambda: running.disk.n_failures > 0)
        assert wait_until(lambda: running.disk.n_failures > 1)
        if act == "write":
            assert n_without_log(running) == 0
        running.assert_whole(10, 0)
        running.disk.mend()
        for i in range(10, 20):
            running.decider.decide(f"task {i}")
        assert wait_until(lambda: n_without_log(running) >= 10)
        assert wait_until(lambda: "work again" in caplog.messages[-1])
    assert "checkpoint failed" in caplog.messages[0]
    running.assert_whole(20, 0)


def test_pages_whose_sync_failed_are_moved_again_without_readers(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    # SQLite counts pages as moved that the system may have forgotten. It must read its log from
    # the beginning, which takes that nobody else has it open.
    monkeypatch.setattr(sqlite_log, "RESET_PAGES", 5)
    monkeypatch.setattr(sqlite_log, "REOPEN_RETRY_SECONDS", 0.0)
    running.store.backend._log._begin()
    running.disk.fail("sync", apsw.IOError, ".db")
    made = []
    while not running.disk.n_failures:
        made.append(running.decider.decide("a"))
    first = running.store.backend._connections.writer()
    with closing(running.store.backend.scan("SELECT id FROM decisions")) as rows:
        next(rows)
        made += [running.decider.decide("b") for _ in range(5)]
        running.disk.mend()
        made += [running.decider.decide("c") for _ in range(5)]
        assert running.disk.n_failures == 1  # with the same connections it is not tried again
        assert running.store.backend._connections.writer() is first
    made += [running.decider.decide("d") for _ in range(5)]
    assert running.store.backend._connections.writer() is not first
    assert n_without_log(running) >= len(made) - 5
    running.assert_whole(len(made), 0)


def test_a_log_that_may_be_needed_again_is_kept(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_log, "RESET_PAGES", 5)
    running.store.backend._log._begin()
    running.disk.fail("sync", apsw.IOError, ".db")
    made = []
    while not running.disk.n_failures:
        made.append(running.decider.decide("a"))
    running.disk.mend()
    running.decider.close()
    running.store.close()  # which would move it into the file, where it is not doubtful
    log = running.path.with_name(running.path.name + "-wal")
    assert log.stat().st_size > 0
    with DecisionStore(running.path) as store:
        assert [row.id for row in store.history("a")] == [decision.id for decision in made]
    assert not log.exists()


def test_reads_go_on_while_connections_are_renewed(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_log, "RESET_PAGES", 5)
    running.store.backend._log._begin()
    running.decider.decide("a")
    stop = threading.Event()

    def read() -> int:
        n = 0
        while not stop.is_set():
            assert running.store.totals().tasks > 0
            n += 1
        return n

    with ThreadPoolExecutor(2) as pool:
        readers = [pool.submit(read) for _ in range(2)]
        writers = []  # the objects: a number of one that is gone may come again
        for round_ in range(3):
            running.disk.fail("sync", apsw.IOError, ".db")
            for i in range(5):
                running.decider.decide(f"task {round_} {i}")
            running.disk.mend()
            for i in range(15):
                running.decider.decide(f"task {round_} {i}")
            writers.append(running.store.backend._connections.writer())
        stop.set()
        assert min(reader.result(10) for reader in readers) > 0
    assert len({id(writer) for writer in writers}) > 1
    running.assert_whole(61, 0)


def n_without_log(running: Running) -> int:
    """The decisions that the file itself has."""
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    with running.store.backend._log._checkpointing:
        file = apsw.Connection(f"file:{running.path}?immutable=1", flags=flags)
        with closing(file):
            return file.execute("SELECT COUNT(*) FROM decisions").get


def test_the_log_restarts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_log, "CHECKPOINT_PAGES", 20)
    monkeypatch.setattr(sqlite_log, "RESET_PAGES", 60)
    path = tmp_path / "decisions.db"
    with DecisionStore(path) as store, Decider(PRIOR, store, seed=1) as decider:
        made = [decider.decide(f"task {i}") for i in range(60)]
        log = path.with_name("decisions.db-wal").stat().st_size
        decider.reward_many([Reward(decision.id, 1.0) for decision in made])
    # Sixty commits of several pages each, in a log of seventy pages and what one commit adds.
    assert log < 100 * 4120


def test_a_long_read_does_not_stop_decisions(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_log, "RESET_PAGES", 10)
    monkeypatch.setattr(sqlite_log, "RESET_SECONDS", 0.01)
    running.store.backend._log._begin()
    for i in range(5):
        running.decider.decide(f"task {i}")
    with closing(running.store.backend.scan("SELECT id FROM decisions ORDER BY seq")) as rows:
        next(rows)
        for i in range(20):
            running.decider.decide(f"task {i}")
        assert len(list(rows)) == 4
    running.assert_whole(25, 0)


def test_a_checkpoint_needs_no_room_on_a_full_disk(running: Running) -> None:
    # The file has room for all pages of the log, before the log has the pages.
    running.decider.decide_many([Decide(f"task {i}") for i in range(300)])
    ((n_pages,),) = running.store.backend.query("PRAGMA page_count")
    assert n_without_log(running) == 0
    assert running.path.stat().st_size >= n_pages * 4096


def test_the_log_gives_its_room_back_when_the_disk_is_full(running: Running) -> None:
    running.decider.decide_many([Decide(f"task {i}") for i in range(300)])
    log = running.path.with_name(running.path.name + "-wal")
    before = log.stat().st_size
    running.disk.fail("write", apsw.FullError, "-wal")
    with pytest.raises(StoreUnavailableError, match="the disk is full"):
        running.decider.decide("a")
    running.disk.mend()
    running.decider.decide("a")
    assert log.stat().st_size < before / 2
    running.assert_whole(301, 0)
