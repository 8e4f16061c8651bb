"""A store that neither writes nor refuses: it is noticed, and nobody waits for ever."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Iterator

import pytest
from mixts_serve import Decide
from mixts_serve import writer as writing
from mixts_serve.commands import serve
from mixts_serve.http import endpoints
from mixts_serve.http.endpoints import Readers
from mixts_serve.records import Operation, Receipt, Result
from mixts_serve.writer import BatchWriter

from mixts.errors import StoreUnavailableError, TaskLockedError
from serve.tests.unit.written_batches import Callback, Work

ONE, TWO = Decide("one"), Decide("two")


class SilentStore(Work):
    """Performs a batch only when a test opens the gate."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.begun = threading.Event(), threading.Event()
        self.seconds = 0.0

    def __call__(self, operations: list[Operation], wait: bool) -> list[Result]:
        self.begun.set()
        assert self.gate.wait(10)
        self.seconds = 0.0
        return super().__call__(operations, wait)

    def watch(self) -> float:
        return self.seconds


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[SilentStore]:
    monkeypatch.setattr(writing, "WATCH_SECONDS", 0.01)
    store = SilentStore()
    yield store
    store.gate.set()


@pytest.fixture
def writer(store: SilentStore) -> BatchWriter:
    return BatchWriter(store, lambda: None, 10, watch=store.watch)


def test_a_slow_store_is_not_ready(writer: BatchWriter, store: SilentStore) -> None:
    callback = Callback()
    writer.submit([ONE], callback)
    assert writer.trouble is None
    store.seconds = writing.SLOW_STORE_SECONDS + 1
    assert writer.trouble == "the store has not answered for 4 s"
    store.gate.set()
    callback.wait()
    assert writer.trouble is None
    assert callback.results == [Receipt(duplicate=False)]
    writer.close()


def test_all_operations_of_a_silent_store_are_refused(
    writer: BatchWriter, store: SilentStore
) -> None:
    written, waiting = Callback(), Callback()
    writer.submit([ONE], written)
    assert store.begun.wait(10)
    writer.submit([TWO], waiting)
    refused_jobs: list[StoreUnavailableError] = []

    def run_job() -> None:
        try:
            writer.run(int)
        except StoreUnavailableError as error:
            refused_jobs.append(error)

    job = threading.Thread(target=run_job)
    job.start()
    store.seconds = writing.SILENT_SECONDS + 1
    for callback in (written, waiting):
        callback.wait()
        (refused,) = callback.results
        assert isinstance(refused, StoreUnavailableError)
        assert "may still be carried out" in str(refused)
    job.join(10)
    assert len(refused_jobs) == 1
    assert writer.pending == 0
    with pytest.raises(StoreUnavailableError):  # at once
        writer.submit([ONE], written)
    # The batch is written after all, and nobody is told twice.
    store.seconds = 0.0
    store.gate.set()
    writer.close()
    assert store.batches == [[ONE]]
    assert len(written.results) == len(waiting.results) == 1


def test_a_silent_store_does_not_keep_the_writer_from_closing(
    writer: BatchWriter, store: SilentStore
) -> None:
    writer.submit([ONE], Callback())
    store.seconds = writing.SILENT_SECONDS + 1
    with pytest.raises(StoreUnavailableError, match="has not answered for 16 s"):
        writer.close()


def test_others_do_not_wait_after_a_slow_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next batches would wait as long for the store, each of them."""
    gate, n_batches = threading.Event(), 0

    def fail_slowly(operations: list[Operation], wait: bool) -> list[Result]:
        nonlocal n_batches
        n_batches += 1
        assert gate.wait(10)
        time.sleep(0.02)
        raise StoreUnavailableError("away")

    monkeypatch.setattr(writing, "SLOW_STORE_SECONDS", 0.01)
    monkeypatch.setattr(writing, "MAX_BATCH", 1)
    writer, callback = BatchWriter(fail_slowly, lambda: None, 10), Callback()
    for operation in (ONE, TWO, ONE):
        writer.submit([operation], callback)
    gate.set()
    callback.wait(3)
    assert n_batches == 1
    writer.close()


def test_a_locked_task_is_no_failure_of_the_store() -> None:
    gate = threading.Event()

    def perform(operations: list[Operation], wait: bool) -> list[Result]:
        assert gate.wait(10)
        if TWO in operations:
            raise TaskLockedError("locked")
        return [Receipt(duplicate=False) for _ in operations]

    writer = BatchWriter(perform, lambda: None, 10)
    first, callbacks = Callback(), (Callback(), Callback())
    writer.submit([ONE], first)
    for operation, callback in zip((ONE, TWO), callbacks, strict=True):  # one batch
        writer.submit([operation], callback)
    gate.set()
    for callback in (first, *callbacks):
        callback.wait()
    assert callbacks[0].results == [Receipt(duplicate=False)]
    assert isinstance(callbacks[1].results[0], TaskLockedError)
    assert writer.trouble is None
    writer.close()


def test_readers_that_hang_do_not_keep_the_service_from_closing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(endpoints, "CLOSE_SECONDS", 0.05)
    readers, gate = Readers(), threading.Event()

    async def read() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(readers.run(gate.wait, 10), 0.05)

    asyncio.run(read())
    started = time.monotonic()
    readers.close()
    assert time.monotonic() - started < 5
    gate.set()


def test_the_process_ends_with_words_if_closing_hangs(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    left, statuses = threading.Event(), []
    monkeypatch.setattr(serve, "CLOSE_SECONDS", 0.01)
    monkeypatch.setattr(os, "_exit", lambda status: (statuses.append(status), left.set()))
    with serve._exit_if_closing_hangs() as serving_ends:
        serving_ends()
        assert left.wait(10)
    assert statuses == [1]
    assert "the store has not answered" in caplog.text


def test_a_process_that_closes_in_time_ends_as_usual(monkeypatch: pytest.MonkeyPatch) -> None:
    left = threading.Event()
    monkeypatch.setattr(serve, "CLOSE_SECONDS", 0.05)
    monkeypatch.setattr(os, "_exit", lambda status: left.set())
    with serve._exit_if_closing_hangs() as serving_ends:
        serving_ends()
    assert not left.wait(0.1)


def test_a_failed_store_is_not_probed_when_the_writer_closes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A probe of a silent store takes long, and nobody wants to know the answer."""
    monkeypatch.setattr(writing, "PROBE_SECONDS", 1000.0)
    work, probed = Work(), threading.Event()
    work.is_away = True
    writer, callback = BatchWriter(work, probed.set, 10), Callback()
    writer.submit([ONE], callback)
    callback.wait()
    time.sleep(0.05)  # the thread waits for the time of its next probe
    writer.close()
    assert not probed.is_set()
