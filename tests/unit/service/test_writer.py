"""The batch writer: which thread writes a batch, an event loop's or the writer's own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import pytest

import mixts
from mixts.errors import (
    MixtsError,
    OverloadedError,
    ParameterError,
    StoreError,
    StoreUnavailableError,
)
from mixts.service import Decide
from mixts.service import writer as writing
from mixts.service.aside import Aside, TaskMark
from mixts.service.records import Operation, Receipt, Result
from mixts.service.store.base import WouldWaitError
from mixts.service.writer import BatchWriter
from tests.unit.service.written_batches import Callback, Loop, Work


@pytest.fixture
def work() -> Work:
    return Work()


@pytest.fixture
def writer(work: Work) -> Iterator[BatchWriter]:
    writer = BatchWriter(work, lambda: None, 10_000)
    yield writer
    writer.close()


LOOP = threading.current_thread().name
THREAD = "mixts-writer"
ONE, TWO = Decide("one"), Decide("two")


def test_the_loop_writes_waiting_operations_in_one_batch(writer: BatchWriter, work: Work) -> None:
    loop, callback = Loop(), Callback()
    writer.submit([ONE], callback, loop.call_soon)
    loop.turn()
    writer.submit([TWO], callback, loop.call_soon)  # arrives one turn later, and joins the batch
    assert not callback.results
    loop.turn()
    callback.wait(2)
    assert work.batches == [[ONE, TWO]]
    assert work.threads == [LOOP]
    assert not loop.calls
    assert writer.pending == 0


def test_the_thread_writes_submissions_without_a_loop(writer: BatchWriter, work: Work) -> None:
    callback = Callback()
    writer.submit([ONE], callback)
    callback.wait()
    assert work.threads == [THREAD]


def test_operations_of_an_ended_loop_are_written(writer: BatchWriter, work: Work) -> None:
    """They are written with the next batch of another loop, or when the writer closes."""
    ended, loop, callback = Loop(), Loop(), Callback()
    writer.submit([ONE], callback, ended.call_soon)
    writer.submit([TWO], callback, loop.call_soon)
    loop.turns()
    callback.wait(2)
    assert work.batches == [[ONE, TWO]]
    writer.submit([ONE], callback, ended.call_soon)
    writer.close()
    callback.wait()
    assert work.threads == [LOOP, THREAD]


def test_the_thread_writes_only_the_batch_that_would_wait(writer: BatchWriter, work: Work) -> None:
    loop, callback = Loop(), Callback()
    work.would_wait = True
    writer.submit([ONE], callback, loop.call_soon)
    loop.turns()
    callback.wait()
    assert work.threads == [THREAD]
    work.would_wait = False
    writer.submit([TWO], callback, loop.call_soon)
    loop.turns()
    callback.wait()
    assert work.threads == [THREAD, LOOP]


def test_the_thread_writes_for_a_while_after_slow_batches(
    writer: BatchWriter, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, callback = Loop(), Callback()
    now = [1000.0]
    monkeypatch.setattr(writing.time, "monotonic", lambda: now[0])
    perform = writer._perform

    def slowly(operations: list[Operation], wait: bool, aside: Aside | None) -> list[Result]:
        now[0] += 5 * writing.SLOW_SECONDS
        return perform(operations, wait, aside)

    monkeypatch.setattr(writer, "_perform", slowly)
    while not (work.threads and work.threads[-1] == THREAD):
        writer.submit([ONE], callback, loop.call_soon)
        loop.turns()
        callback.wait()
        assert len(work.threads) < 10
    assert work.threads.count(LOOP) > 1, "a single slow one may be chance"
    monkeypatch.setattr(writer, "_perform", perform)
    now[0] += writing.LOOP_PAUSE_SECONDS
    writer.submit([ONE], callback, loop.call_soon)
    loop.turns()
    callback.wait()
    assert work.threads[-1] == LOOP


def test_a_loop_does_not_wait_for_the_thread(writer: BatchWriter, work: Work) -> None:
    """While the thread runs a job, the loop goes on; the thread writes the batch afterwards."""
    loop, callback, gate, begun = Loop(), Callback(), threading.Event(), threading.Event()

    def job() -> None:
        begun.set()
        gate.wait(10)

    busy = threading.Thread(target=writer.run, args=(job,))
    busy.start()
    begun.wait(10)
    writer.submit([ONE], callback, loop.call_soon)
    loop.turns()
    assert not callback.results
    gate.set()
    busy.join()
    callback.wait()
    assert work.threads == [THREAD]


def test_the_thread_writes_if_the_loop_finds_it_writing(writer: BatchWriter, work: Work) -> None:
    """The thread may still hold the lock after it has found the queue empty."""
    loop, callback = Loop(), Callback()
    with writer._turn:
        writer.submit([ONE], callback, loop.call_soon)
        loop.turns()
        assert not callback.results
    callback.wait()
    assert work.threads == [THREAD]


def test_a_batch_that_would_wait_is_put_back(writer: BatchWriter, work: Work) -> None:
    loop, callback = Loop(), Callback()
    work.would_wait = True
    writer.submit([ONE], callback, loop.call_soon)
    writer.submit([TWO], callback, loop.call_soon)
    loop.turns()
    callback.wait(2)
    assert work.batches == [[ONE, TWO]]
    assert writer.pending == 0


def test_an_interrupt_loses_nothing(writer: BatchWriter, work: Work) -> None:
    loop, callback = Loop(), Callback()
    work.interrupt = True
    writer.submit([ONE], callback, loop.call_soon)
    with pytest.raises(KeyboardInterrupt):
        loop.turns()
    callback.wait()
    assert work.batches == [[ONE]]
    assert writer.pending == 0


def sized(operation: Operation) -> int:
    """The size of tests: a request that offers actions is as large as their number."""
    return 1 if getattr(operation, "actions", None) is None else len(operation.actions)


@pytest.fixture
def sizing(work: Work) -> Iterator[BatchWriter]:
    """A writer that knows the sizes of requests."""
    writer = BatchWriter(work, lambda: None, 10_000, size_of=sized, max_work=10_000)
    yield writer
    writer.close()


def offering(n: int, task: str = "large") -> Decide:
    return Decide(task, [[1.0]] * n)


@pytest.mark.parametrize("large", [[ONE] * (writing.LOOP_SIZE + 1), [offering(100)]])
def test_the_thread_writes_large_batches(
    sizing: BatchWriter, work: Work, large: list[Operation]
) -> None:
    writer, loop, callback = sizing, Loop(), Callback()
    writer.submit(large, callback, loop.call_soon)
    callback.wait()
    with writer._turn:  # the thread waits for the lock while a small submission arrives
        writer.submit(large, callback, loop.call_soon)
        writer.submit([ONE], callback, loop.call_soon)
        loop.turns()
    callback.wait(2)
    writer.submit([ONE], callback, loop.call_soon)
    loop.turns()
    callback.wait()
    assert set(work.threads[:-1]) == {THREAD}
    assert work.threads[-1] == LOOP


def test_batches_have_a_largest_size(writer: BatchWriter, work: Work) -> None:
    loop, callback, n = Loop(), Callback(), 2 * writing.MAX_BATCH + 1
    for _ in range(n):
        writer.submit([ONE], callback, loop.call_soon)
    loop.turns()
    callback.wait(n)
    assert max(map(len, work.batches)) == writing.LOOP_SIZE
    work.batches.clear()
    with writer._turn:
        for _ in range(n):
            writer.submit([ONE], callback)
    callback.wait(n)
    assert max(map(len, work.batches)) == writing.MAX_BATCH


def test_a_large_submission_is_written_in_pieces(sizing: BatchWriter, work: Work) -> None:
    callback = Callback()
    sizes = (100, 100, 100, 1000, 100, 1)
    sizing.submit([offering(n, str(n)) for n in sizes], callback)
    callback.wait()
    assert [[sized(one) for one in batch] for batch in work.batches] == [
        [100, 100], [100], [1000], [100, 1],
    ]  # fmt: skip
    assert len(callback.results) == len(sizes)
    assert sizing.pending == 0


def test_others_wait_for_one_piece_only(sizing: BatchWriter, work: Work) -> None:
    """A small submission comes after the piece that is being written, a large one after its own."""
    callback = Callback()
    with sizing._turn:
        for task in ("a", "b"):
            sizing.submit([offering(300, task) for _ in range(3)], callback)
        for _ in range(3):
            sizing.submit([ONE], callback)
        sizing.submit([TWO] * writing.LOOP_SIZE, callback)
    callback.wait(6)
    first, *rest = work.batches
    assert first == [ONE, ONE, ONE, *[TWO] * writing.LOOP_SIZE]
    assert [batch[0].task for batch in rest] == ["a", "b"] * 3


def test_small_submissions_and_pieces_take_turns(sizing: BatchWriter, work: Work) -> None:
    callback, large = Callback(), [offering(300) for _ in range(2)]

    def again(results: list[Result]) -> None:
        if len(work.batches) < 6:
            sizing.submit([ONE], again)
        callback(results)

    with sizing._turn:
        sizing.submit(large, callback)
        sizing.submit([ONE], again)
    callback.wait(4)
    kinds = ["large" if batch[0] != ONE else "small" for batch in work.batches]
    assert kinds[:4] == ["small", "large", "small", "large"]


def test_the_work_that_waits_is_limited_but_not_for_small_submissions(
    sizing: BatchWriter, work: Work
) -> None:
    callback = Callback()
    with sizing._turn:
        sizing.submit([offering(6_000)], callback)
        with pytest.raises(OverloadedError, match="6,000 units of work are waiting"):
            sizing.submit([offering(6_000)], callback)
        sizing.submit([ONE], callback)
    callback.wait(2)
    sizing.submit([offering(6_000)], callback)
    callback.wait()
    with pytest.raises(ParameterError, match="at most 10,000 units of work"):
        sizing.submit([offering(6_000)] * 2, callback)
    assert sizing.pending == sizing._large_work == 0


def test_a_piece_that_fails_does_not_affect_the_others(sizing: BatchWriter, work: Work) -> None:
    good, work.bad = offering(300, "good"), offering(300, "bad")
    callback = Callback()
    sizing.submit([good, work.bad, good], callback)
    callback.wait()
    assert [type(result) for result in callback.results] == [Receipt, MixtsError, Receipt]


def test_a_long_decision_that_was_refused_is_not_computed(work: Work) -> None:
    """The store was silent for too long when its batch ran for the first time."""
    computed: list[object] = []

    def perform(operations: list[Operation], wait: bool, aside: Aside | None) -> list[Result]:
        if aside is None:
            return work(operations, wait, aside)
        writer._refuse_all(StoreUnavailableError("away"))
        return aside.choice(TaskMark(1, 0, 0, 0, 0, 0), lambda: lambda: computed.append(1))

    writer, callback = BatchWriter(perform, lambda: None, 10_000, size_of=sized), Callback()
    writer.submit([offering(1_000)], callback)
    callback.wait()
    assert [str(result) for result in callback.results] == ["away"]
    writer.submit([ONE], callback)
    callback.wait()
    writer.close()
    assert not computed
    assert len(callback.results) == 2
    assert writer.pending == writer._large_work == 0


def test_the_thread_writes_if_the_loop_is_closed(writer: BatchWriter, work: Work) -> None:
    def ended(function: Callable[[], object]) -> None:
        raise RuntimeError("the event loop is closed")

    callback = Callback()
    writer.submit([ONE], callback, ended)
    writer.submit([TWO], callback, ended)
    callback.wait(2)
    assert set(work.threads) == {THREAD}


def test_the_thread_finds_operations_of_an_ended_loop(
    writer: BatchWriter, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It writes more than one batch of them, and a submission without a loop."""
    monkeypatch.setattr(writing, "PROBE_SECONDS", 0.01)
    ended, left, callback = Loop(), Callback(), Callback()
    for _ in range(writing.MAX_BATCH + 1):
        writer.submit([ONE], left, ended.call_soon)
    writer.submit([TWO], callback)
    callback.wait()
    left.wait(writing.MAX_BATCH + 1)
    assert writer.pending == 0


def test_the_thread_probes_the_store_after_a_failure_in_the_loop(
    work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No request may arrive any more, so the thread must find out by itself when writes work."""
    monkeypatch.setattr(writing, "PROBE_SECONDS", 0.01)
    probed = threading.Event()
    writer = BatchWriter(work, probed.set, 10)
    loop, callback = Loop(), Callback()
    work.is_away = True
    writer.submit([ONE], callback, loop.call_soon)
    loop.turns()
    callback.wait()
    assert isinstance(callback.results[0], StoreUnavailableError)
    assert probed.wait(10), "the thread does not probe the store"
    writer.close()
    assert writer.failure is None


def test_a_callback_that_fails_does_not_affect_others(writer: BatchWriter, work: Work) -> None:
    loop, callback = Loop(), Callback()
    writer.submit([ONE], lambda results: 1 / 0, loop.call_soon)
    writer.submit([TWO], callback, loop.call_soon)
    loop.turns()
    callback.wait()
    assert writer.pending == 0


def test_a_callback_may_submit_again(writer: BatchWriter, work: Work) -> None:
    loop, callback = Loop(), Callback()
    writer.submit(
        [ONE], lambda results: writer.submit([TWO], callback, loop.call_soon), loop.call_soon
    )
    loop.turns()
    callback.wait()
    assert work.batches == [[ONE], [TWO]]
    assert work.threads == [LOOP, LOOP]


def test_closing_waits_for_a_batch_in_the_loop(writer: BatchWriter, work: Work) -> None:
    loop, callback = Loop(), Callback()
    closing = threading.Thread(target=writer.close)

    def close_meanwhile(results: list[Result]) -> None:
        closing.start()
        closing.join(0.2)
        assert closing.is_alive(), "the writer closed before the callback was called"
        callback(results)

    writer.submit([ONE], close_meanwhile, loop.call_soon)
    loop.turns()
    callback.wait()
    closing.join(10)
    assert not closing.is_alive()


def test_no_operation_is_lost_between_loop_and_thread(writer: BatchWriter, work: Work) -> None:
    """Loop and thread compete for batches while another thread runs jobs."""
    loop, callback, n = Loop(), Callback(), 2000
    stop = threading.Event()

    def disturb() -> None:
        while not stop.is_set():
            writer.run(lambda: None)

    other = threading.Thread(target=disturb)
    other.start()
    for i in range(n):
        writer.submit([ONE], callback, loop.call_soon if i % 3 else None)
        loop.turns()
    callback.wait(n)
    stop.set()
    other.join()
    assert sum(map(len, work.batches)) == len(callback.results) == n
    assert set(work.threads) == {LOOP, THREAD}
    assert writer.pending == 0


def test_a_bad_submission_does_not_affect_the_rest_of_its_batch(
    writer: BatchWriter, work: Work
) -> None:
    loop, callback, failed = Loop(), Callback(), Callback()
    work.bad = TWO
    writer.submit([ONE], callback, loop.call_soon)
    writer.submit([TWO], failed, loop.call_soon)
    loop.turns()
    callback.wait()
    failed.wait()
    assert isinstance(callback.results[0], Receipt)
    assert isinstance(failed.results[0], MixtsError)
    assert work.threads == [THREAD], "the thread writes the submissions again, one by one"
    assert writer.pending == 0


def test_blocking_in_the_loops_thread_is_no_deadlock(tmp_path: Path) -> None:
    """The writer's thread writes what the blocked loop cannot."""
    prior = mixts.MixturePrior(mixts.BernoulliArms.uniform(2))
    loop, callback = Loop(), Callback()
    with (
        mixts.DecisionStore(tmp_path / "decisions.db") as store,
        mixts.Decider(prior, store) as decider,
    ):
        decider.submit([ONE], callback, loop.call_soon)
        made = decider.decide("two")
        callback.wait()
        loop.turns()
        assert store.totals().decisions == 2
    assert made.task == "two"


def test_a_transaction_that_may_not_wait_does_not(tmp_path: Path) -> None:
    path = tmp_path / "decisions.db"
    with mixts.DecisionStore(path) as store:
        other = apsw.Connection(str(path))
        with store.backend.transaction():
            pass  # the first one prepares the log
        other.execute("BEGIN IMMEDIATE")
        with (
            pytest.raises(WouldWaitError, match="another process"),
            store.backend.transaction(wait=False),
        ):
            raise AssertionError("the transaction has begun")
        other.execute("ROLLBACK")
        with store.backend.transaction(wait=False) as transaction:
            assert transaction.active_version() is None
        other.close()


def test_a_closed_writer_refuses_submissions(work: Work) -> None:
    writer = BatchWriter(work, lambda: None, 10)
    writer.close()
    with pytest.raises(StoreError, match="closed"):
        writer.submit([ONE], Callback(), Loop().call_soon)
