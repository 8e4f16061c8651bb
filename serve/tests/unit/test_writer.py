"""The batch writer: what a batch contains, whose turn it is, and that nothing is lost."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from mixts_serve import Decide
from mixts_serve import writer as writing
from mixts_serve.records import Operation, Receipt, Result
from mixts_serve.writer import BatchWriter, MoreWorkError

from mixts.errors import (
    MixtsError,
    OverloadedError,
    ParameterError,
    StoreError,
    StoreUnavailableError,
)
from serve.tests.unit.written_batches import Callback, Work

ONE, TWO = Decide("one"), Decide("two")


def sized(operation: Operation) -> int:
    """The size of tests: a request that offers actions is as large as their number."""
    return 1 if getattr(operation, "actions", None) is None else len(operation.actions)


def offering(n: int, task: str = "large") -> Decide:
    return Decide(task, [[1.0]] * n)


@pytest.fixture
def work() -> Work:
    return Work()


@pytest.fixture
def writer(work: Work) -> Iterator[BatchWriter]:
    writer = BatchWriter(work, lambda: None, 10_000, 10_000, size_of=sized)
    yield writer
    writer.close()


@contextmanager
def busy(writer: BatchWriter) -> Iterator[None]:
    """Keep the writer's thread busy, so that what is submitted meanwhile waits."""
    gate, begun = threading.Event(), threading.Event()

    def wait() -> None:
        begun.set()
        assert gate.wait(10)

    caller = threading.Thread(target=writer.run, args=(wait,))
    caller.start()
    assert begun.wait(10)
    try:
        yield
    finally:
        gate.set()
        caller.join()


# -- batches --------------------------------------------------------------------------------------


def test_operations_that_wait_are_one_batch(writer: BatchWriter, work: Work) -> None:
    callback = Callback()
    with busy(writer):
        writer.submit([ONE], callback)
        writer.submit([TWO, TWO], callback)
        assert writer.pending == 4  # with the call that keeps the writer busy
    callback.wait(2)
    assert work.batches == [[ONE, TWO, TWO]]
    assert work.threads == ["mixts-writer"]
    assert writer.pending == 0
    assert writer.batches == (1, 3)


def test_batches_have_a_largest_size(writer: BatchWriter, work: Work) -> None:
    callback, n = Callback(), 2 * writing.MAX_BATCH + 1
    with busy(writer):
        for _ in range(n):
            writer.submit([ONE], callback)
    callback.wait(n)
    assert [len(batch) for batch in work.batches] == [writing.MAX_BATCH, writing.MAX_BATCH, 1]


def test_a_submission_without_operations_is_answered(writer: BatchWriter, work: Work) -> None:
    callback = Callback()
    writer.submit([], callback)
    callback.wait()
    assert not work.batches


def test_a_large_submission_takes_several_batches(writer: BatchWriter, work: Work) -> None:
    callback = Callback()
    sizes = (100, 100, 100, 1000, 100, 1)
    writer.submit([offering(n, str(n)) for n in sizes], callback)
    callback.wait()
    assert [[sized(one) for one in batch] for batch in work.batches] == [
        [100, 100], [100], [1000], [100, 1],
    ]  # fmt: skip
    assert len(callback.results) == len(sizes)
    assert writer.pending == 0


def test_small_submissions_do_not_wait_for_large_ones(writer: BatchWriter, work: Work) -> None:
    callback = Callback()
    with busy(writer):
        for task in ("a", "b"):
            writer.submit([offering(300, task) for _ in range(3)], callback)
        for _ in range(3):
            writer.submit([ONE], callback)
    callback.wait(5)
    assert work.batches[0] == [ONE, ONE, ONE]
    assert [batch[0].task for batch in work.batches[1:]] == ["a"] * 3 + ["b"] * 3


def test_a_small_submission_does_not_wait_for_many_large_ones(work: Work) -> None:
    """It comes when some of them have been written."""
    callback = Callback()

    def perform(operations: list[Operation], wait: bool) -> list[Result]:
        if len(work.batches) == 5:
            writer.submit([ONE], callback)
        return work(operations, wait)

    writer = BatchWriter(perform, lambda: None, 100, size_of=sized)
    with busy(writer):
        for _ in range(20):
            writer.submit([offering(300)], callback)
    callback.wait(21)
    writer.close()
    assert [batch[0].task for batch in work.batches].index("one") == 6


def test_a_small_submission_comes_between_two_batches_of_a_large_one(work: Work) -> None:
    callback = Callback()

    def perform(operations: list[Operation], wait: bool) -> list[Result]:
        if not work.batches:
            writer.submit([ONE], callback)
        return work(operations, wait)

    writer = BatchWriter(perform, lambda: None, 10, size_of=sized)
    writer.submit([offering(300) for _ in range(3)], callback)
    callback.wait(2)
    writer.close()
    assert [one.task for batch in work.batches for one in batch] == ["large", "one"] + ["large"] * 2


def test_a_large_submission_is_not_kept_waiting_for_ever(work: Work) -> None:
    """However many small ones come: each is answered, and the next one comes."""
    callback = Callback()

    def again(results: list[Result]) -> None:
        callback(results)
        if len(work.batches) < 1_000:
            writer.submit([offering(10, "small")], again)

    writer = BatchWriter(work, lambda: None, 10, size_of=sized)
    with busy(writer):
        writer.submit([offering(300)], lambda results: None)
        writer.submit([offering(10, "small")], again)
    writer.run(lambda: None)
    while not any(batch[0].task == "large" for batch in work.batches):
        callback.wait()
    before = [batch[0].task for batch in work.batches].index("large")
    writer.close()
    assert before == 58, "the two share the time, so each of the others brings it 5 units nearer"


def test_a_batch_that_finds_more_work_is_cut_again(work: Work) -> None:
    sizes = {"one": 1}

    def perform(operations: list[Operation], wait: bool) -> list[Result]:
        if sizes["one"] == 1:
            sizes["one"] = 200
            raise MoreWorkError
        return work(operations, wait)

    writer = BatchWriter(perform, lambda: None, 10, size_of=lambda one: sizes[one.task])
    callback = Callback()
    writer.submit([ONE, ONE, ONE], callback)
    callback.wait()
    writer.close()
    assert work.batches == [[ONE]] * 3
    assert len(callback.results) == 3


# -- limits ---------------------------------------------------------------------------------------


def test_the_operations_that_wait_are_limited(work: Work) -> None:
    writer, callback = BatchWriter(work, lambda: None, 3), Callback()
    with pytest.raises(ParameterError, match="at most 3 operations are taken at once, got 4"):
        writer.submit([ONE] * 4, callback)
    with busy(writer):
        writer.submit([ONE, TWO], callback)
        with pytest.raises(OverloadedError, match="3 operations are waiting and at most 3 may"):
            writer.submit([ONE], callback)
    callback.wait()
    writer.close()
    assert work.batches == [[ONE, TWO]]


def test_the_work_that_waits_is_limited_but_not_for_small_submissions(
    writer: BatchWriter, work: Work
) -> None:
    callback = Callback()
    with busy(writer):
        writer.submit([offering(6_000)], callback)
        with pytest.raises(OverloadedError, match="6,000 units of work are waiting"):
            writer.submit([offering(6_000)], callback)
        writer.submit([offering(writing.SMALL)], callback)
    callback.wait(2)
    writer.submit([offering(6_000)], callback)
    callback.wait()
    assert writer.pending == writer._waiting_work == 0


@pytest.mark.parametrize(
    ("operations", "advice"),
    [([offering(6_000)] * 2, "send them in parts"), ([offering(12_000)], "offer fewer actions")],
)
def test_more_work_than_the_limit_is_refused(
    writer: BatchWriter, work: Work, operations: list[Operation], advice: str
) -> None:
    words = f"at most 10,000 units of work are taken at once, got 12,000: .*; {advice}, or raise"
    with pytest.raises(ParameterError, match=words):
        writer.submit(operations, Callback())
    assert writer.pending == 0
    assert not work.batches


# -- failures -------------------------------------------------------------------------------------


def test_a_bad_submission_does_not_affect_the_rest_of_its_batch(
    writer: BatchWriter, work: Work
) -> None:
    callback, failed = Callback(), Callback()
    work.bad = TWO
    with busy(writer):
        writer.submit([ONE], callback)
        writer.submit([TWO], failed)
    callback.wait()
    failed.wait()
    assert isinstance(callback.results[0], Receipt)
    assert isinstance(failed.results[0], MixtsError)
    assert writer.pending == 0


def test_a_part_that_fails_does_not_affect_the_others(writer: BatchWriter, work: Work) -> None:
    good, work.bad = offering(300, "good"), offering(300, "bad")
    callback = Callback()
    writer.submit([good, work.bad, good], callback)
    callback.wait()
    assert [type(result) for result in callback.results] == [Receipt, MixtsError, Receipt]


def test_the_error_of_a_call_is_raised(writer: BatchWriter) -> None:
    with pytest.raises(ZeroDivisionError):
        writer.run(lambda: 1 / 0)
    assert writer.run(lambda: 3) == 3
    assert writer.trouble is None


def test_the_thread_probes_the_store_after_a_failure(
    work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No request may arrive any more, so the thread must find out by itself when writes work."""
    monkeypatch.setattr(writing, "PROBE_SECONDS", 0.01)
    probed = threading.Event()
    writer, callback = BatchWriter(work, probed.set, 10), Callback()
    work.is_away = True
    writer.submit([ONE], callback)
    callback.wait()
    assert isinstance(callback.results[0], StoreUnavailableError)
    assert probed.wait(10), "the thread does not probe the store"
    writer.close()
    assert writer.trouble is None


def test_a_callback_that_fails_does_not_affect_others(writer: BatchWriter, work: Work) -> None:
    callback = Callback()
    with busy(writer):
        writer.submit([ONE], lambda results: 1 / 0)
        writer.submit([TWO], callback)
    callback.wait()
    assert writer.pending == 0


def test_a_callback_may_submit_again(writer: BatchWriter, work: Work) -> None:
    callback = Callback()
    writer.submit([ONE], lambda results: writer.submit([TWO], callback))
    callback.wait()
    assert work.batches == [[ONE], [TWO]]


# -- closing --------------------------------------------------------------------------------------


def test_closing_writes_what_waits(writer: BatchWriter, work: Work) -> None:
    callback = Callback()
    with busy(writer):
        writer.submit([ONE], callback)
        writer.submit([offering(300), offering(300)], callback)
        closing = threading.Thread(target=writer.close)
        closing.start()
        closing.join(0.05)
        assert closing.is_alive()
    callback.wait(2)
    closing.join(10)
    assert not closing.is_alive()
    assert writer.pending == 0


def test_closing_a_failed_store_refuses_what_waits(work: Work) -> None:
    writer, callback, gate = BatchWriter(work, lambda: None, 10), Callback(), threading.Event()

    def fail() -> None:
        assert gate.wait(10)
        raise StoreUnavailableError("the disk is full")

    def run() -> None:
        with pytest.raises(StoreError):
            writer.run(fail)

    failing = threading.Thread(target=run)
    failing.start()
    while not writer.pending:
        time.sleep(0.001)
    writer.submit([ONE], callback)
    closing = threading.Thread(target=writer.close)
    closing.start()
    closing.join(0.05)
    gate.set()
    callback.wait()
    for thread in (failing, closing):
        thread.join(10)
    assert [str(result) for result in callback.results] == ["the disk is full"]
    assert not work.batches


def test_a_closed_writer_refuses_submissions(work: Work) -> None:
    writer = BatchWriter(work, lambda: None, 10)
    writer.close()
    with pytest.raises(StoreError, match="closed"):
        writer.submit([ONE], Callback())
    with pytest.raises(StoreError, match="closed"):
        writer.run(int)


def test_no_operation_is_lost_between_threads(writer: BatchWriter, work: Work) -> None:
    callback, n = Callback(), 500
    stop = threading.Event()

    def disturb() -> None:
        while not stop.is_set():
            writer.run(lambda: None)

    def submit() -> None:
        for _ in range(n):
            writer.submit([ONE, TWO], callback)

    threads = [threading.Thread(target=each) for each in (disturb, submit, submit, submit)]
    for thread in threads:
        thread.start()
    for thread in threads[1:]:
        thread.join()
    callback.wait(3 * n)
    stop.set()
    threads[0].join()
    assert sum(map(len, work.batches)) == len(callback.results) == 6 * n
    assert writer.pending == 0


# -- event loops ----------------------------------------------------------------------------------

LOOP, THREAD = "MainThread", "mixts-writer"


async def submitted(writer: BatchWriter, *operations: Operation) -> list[Result]:
    """Submit operations from an event loop, and wait for the results."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[list[Result]] = loop.create_future()

    def done(results: list[Result]) -> None:
        loop.call_soon_threadsafe(future.set_result, results)

    writer.submit(operations, done, loop)
    return await asyncio.wait_for(future, 10)


def test_an_event_loop_writes_small_submissions(writer: BatchWriter, work: Work) -> None:
    async def submit() -> None:
        await asyncio.gather(*(submitted(writer, ONE) for _ in range(20)))
        await submitted(writer, *[TWO] * writing.SMALL)

    asyncio.run(submit())
    assert work.batches == [[ONE] * 20, [TWO] * writing.SMALL], "a batch has what waits"
    assert work.threads == [LOOP, LOOP]


def test_the_thread_writes_what_is_large(writer: BatchWriter, work: Work) -> None:
    asyncio.run(submitted(writer, *[ONE] * (writing.SMALL + 1)))
    writer.submit([TWO], Callback())
    writer.run(lambda: None)
    assert work.threads == [THREAD, THREAD]


def test_the_thread_writes_a_batch_that_must_wait(writer: BatchWriter, work: Work) -> None:
    async def submit() -> None:
        work.must_wait = True
        await submitted(writer, ONE)
        work.must_wait = False
        await submitted(writer, TWO)

    asyncio.run(submit())
    assert work.batches == [[ONE], [TWO]]
    assert work.threads == [THREAD, LOOP]


def test_the_thread_writes_for_a_while_after_a_slow_batch(
    work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "SLOW_SECONDS", 0.01)
    monkeypatch.setattr(writing, "PAUSE_SECONDS", 0.5)

    def perform(operations: list[Operation], wait: bool) -> list[Result]:
        time.sleep(0.02 if operations == [ONE] else 0.0)
        return work(operations, wait)

    async def submit() -> None:
        await submitted(writer, ONE)
        await submitted(writer, TWO)
        await asyncio.sleep(0.6)
        await submitted(writer, TWO)

    writer = BatchWriter(perform, lambda: None, 10)
    asyncio.run(submit())
    writer.close()
    assert work.threads == [LOOP, THREAD, LOOP]


def test_the_event_loop_writes_when_the_thread_has_written(writer: BatchWriter, work: Work) -> None:
    async def submit() -> None:
        with busy(writer):
            results = asyncio.ensure_future(submitted(writer, ONE))
            await asyncio.sleep(0.05)
            assert work.batches == [], "one of them writes at a time"
        await results

    asyncio.run(submit())
    assert work.threads == [LOOP]


def test_an_event_loop_that_ends_leaves_its_submissions_to_the_thread(
    writer: BatchWriter, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "PROBE_SECONDS", 0.05)
    callback = Callback()
    loop = asyncio.new_event_loop()
    loop.call_soon(lambda: (writer.submit([ONE], callback, loop), loop.stop()))
    loop.run_forever()
    loop.close()
    callback.wait()
    assert work.threads == [THREAD]


def test_the_thread_probes_the_store_after_a_failure_in_an_event_loop(
    work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "PROBE_SECONDS", 0.02)
    probed = threading.Event()
    writer = BatchWriter(work, probed.set, 10)
    work.is_away = True
    (result,) = asyncio.run(submitted(writer, ONE))
    assert isinstance(result, StoreUnavailableError)
    assert probed.wait(10)
    writer.close()


def test_an_event_loop_does_not_write_during_a_probe(
    work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "PROBE_SECONDS", 0.02)
    probing, gate = threading.Event(), threading.Event()

    def probe() -> None:
        probing.set()
        assert gate.wait(10)

    async def submit() -> None:
        work.is_away = True
        await submitted(writer, ONE)
        work.is_away = False
        assert await asyncio.to_thread(probing.wait, 10)
        results = asyncio.ensure_future(submitted(writer, TWO))
        await asyncio.sleep(0.05)
        assert work.batches == []
        gate.set()
        await results

    writer = BatchWriter(work, probe, 10)
    asyncio.run(submit())
    writer.close()
    assert work.batches == [[TWO]]


def test_the_thread_writes_what_turned_out_to_be_large(work: Work) -> None:
    sizes = {"one": 1}

    def perform(operations: list[Operation], wait: bool) -> list[Result]:
        if sizes["one"] == 1:
            sizes["one"] = 2 * writing.SMALL
            raise MoreWorkError
        return work(operations, wait)

    writer = BatchWriter(perform, lambda: None, 10, size_of=lambda one: sizes[one.task])
    asyncio.run(submitted(writer, ONE))
    writer.close()
    assert work.threads == [THREAD]


def test_no_operation_is_lost_between_loops_and_threads(work: Work) -> None:
    callback, n = Callback(), 300
    overlaps, is_writing = [], threading.Lock()

    def perform(operations: list[Operation], wait: bool) -> list[Result]:
        if not is_writing.acquire(blocking=False):
            overlaps.append(operations)
            is_writing.acquire()
        time.sleep(0)  # another thread may run
        work.must_wait = not work.must_wait
        try:
            return work(operations, wait)
        finally:
            is_writing.release()

    async def submit_from_loop() -> None:
        for _ in range(n):
            await asyncio.gather(*(submitted(writer, ONE) for _ in range(3)))

    def submit() -> None:
        for _ in range(n):
            writer.submit([TWO], callback)
            writer.run(lambda: None)

    writer = BatchWriter(perform, lambda: None, 10_000)
    threads = [threading.Thread(target=submit) for _ in range(2)]
    threads += [threading.Thread(target=asyncio.run, args=(submit_from_loop(),)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    callback.wait(2 * n)
    assert sum(map(len, work.batches)) == 2 * n + 2 * 3 * n
    assert not overlaps
    assert writer.pending == 0
    writer.close()
