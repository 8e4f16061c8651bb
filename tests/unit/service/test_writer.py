"""Who performs groups: the writer's thread, or the one that submits and calls functions later."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import numpy as np
import pytest

import mixts
from mixts.errors import MixtsError, StoreError, StoreUnavailableError
from mixts.service import Decide
from mixts.service import writer as writing
from mixts.service.records import Operation, Receipt, Result
from mixts.service.store.base import WouldWaitError
from mixts.service.writer import BatchWriter
from tests.unit.service.written_batches import Loop, Told, Work


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


def test_what_waits_together_is_performed_together_in_the_loops_thread(
    writer: BatchWriter, work: Work
) -> None:
    loop, told = Loop(), Told()
    writer.submit([ONE], told, loop.call_soon)
    loop.turn()
    writer.submit([TWO], told, loop.call_soon)  # what arrives a turn later comes along
    assert not told.results
    loop.turn()
    told.wait(2)
    assert work.batches == [[ONE, TWO]]
    assert work.threads == [LOOP]
    assert not loop.calls
    assert writer.pending == 0


def test_without_a_loop_the_thread_performs(writer: BatchWriter, work: Work) -> None:
    told = Told()
    writer.submit([ONE], told)
    told.wait()
    assert work.threads == [THREAD]


def test_a_loop_that_has_ended_is_not_waited_for(writer: BatchWriter, work: Work) -> None:
    """What it left is performed with what another submits, and on closing."""
    ended, loop, told = Loop(), Loop(), Told()
    writer.submit([ONE], told, ended.call_soon)
    writer.submit([TWO], told, loop.call_soon)
    loop.turns()
    told.wait(2)
    assert work.batches == [[ONE, TWO]]
    writer.submit([ONE], told, ended.call_soon)
    writer.close()
    told.wait()
    assert work.threads == [LOOP, THREAD]


def test_what_would_wait_is_left_to_the_thread_and_the_next_is_not(
    writer: BatchWriter, work: Work
) -> None:
    loop, told = Loop(), Told()
    work.would_wait = True
    writer.submit([ONE], told, loop.call_soon)
    loop.turns()
    told.wait()
    assert work.threads == [THREAD]
    work.would_wait = False
    writer.submit([TWO], told, loop.call_soon)
    loop.turns()
    told.wait()
    assert work.threads == [THREAD, LOOP]


def test_slow_groups_are_left_to_the_thread_for_a_while(
    writer: BatchWriter, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, told = Loop(), Told()
    now = [1000.0]
    monkeypatch.setattr(writing.time, "monotonic", lambda: now[0])
    perform = writer._perform

    def slowly(operations: list[Operation], wait: bool) -> list[Result]:
        now[0] += 5 * writing.SLOW_SECONDS
        return perform(operations, wait)

    monkeypatch.setattr(writer, "_perform", slowly)
    while not (work.threads and work.threads[-1] == THREAD):
        writer.submit([ONE], told, loop.call_soon)
        loop.turns()
        told.wait()
        assert len(work.threads) < 10
    assert work.threads.count(LOOP) > 1, "a single slow one may be chance"
    monkeypatch.setattr(writer, "_perform", perform)
    now[0] += writing.LOOP_PAUSE_SECONDS
    writer.submit([ONE], told, loop.call_soon)
    loop.turns()
    told.wait()
    assert work.threads[-1] == LOOP


def test_a_loop_does_not_wait_for_the_thread(writer: BatchWriter, work: Work) -> None:
    """While that does something else, the loop goes on; what was submitted is performed after."""
    loop, told, gate, begun = Loop(), Told(), threading.Event(), threading.Event()

    def job() -> None:
        begun.set()
        gate.wait(10)

    busy = threading.Thread(target=writer.run, args=(job,))
    busy.start()
    begun.wait(10)
    writer.submit([ONE], told, loop.call_soon)
    loop.turns()
    assert not told.results
    gate.set()
    busy.join()
    told.wait()
    assert work.threads == [THREAD]


def test_a_loop_that_is_turned_away_leaves_it_to_the_thread(
    writer: BatchWriter, work: Work
) -> None:
    """The thread may have found that nothing waits, and not have given its turn back yet."""
    loop, told = Loop(), Told()
    with writer._turn:
        writer.submit([ONE], told, loop.call_soon)
        loop.turns()
        assert not told.results
    told.wait()
    assert work.threads == [THREAD]


def test_what_would_wait_is_put_back(writer: BatchWriter, work: Work) -> None:
    loop, told = Loop(), Told()
    work.would_wait = True
    writer.submit([ONE], told, loop.call_soon)
    writer.submit([TWO], told, loop.call_soon)
    loop.turns()
    told.wait(2)
    assert work.batches == [[ONE, TWO]]
    assert writer.pending == 0


def test_an_interrupt_loses_nothing(writer: BatchWriter, work: Work) -> None:
    loop, told = Loop(), Told()
    work.interrupt = True
    writer.submit([ONE], told, loop.call_soon)
    with pytest.raises(KeyboardInterrupt):
        loop.turns()
    told.wait()
    assert work.batches == [[ONE]]
    assert writer.pending == 0


@pytest.mark.parametrize(
    "large", [[ONE] * (writing.LOOP_SIZE + 1), [Decide("one", np.ones((writing.LOOP_SIZE, 2)))]]
)
def test_what_is_large_is_the_threads(
    writer: BatchWriter, work: Work, large: list[Operation]
) -> None:
    loop, told = Loop(), Told()
    writer.submit(large, told, loop.call_soon)
    told.wait()
    with writer._turn:  # the thread waits for its turn, and something small comes before
        writer.submit(large, told, loop.call_soon)
        writer.submit([ONE], told, loop.call_soon)
        loop.turns()
    told.wait(2)
    writer.submit([ONE], told, loop.call_soon)
    loop.turns()
    told.wait()
    assert set(work.threads[:-1]) == {THREAD}
    assert work.threads[-1] == LOOP


def test_groups_have_a_largest_size(writer: BatchWriter, work: Work) -> None:
    loop, told, n = Loop(), Told(), 2 * writing.MAX_BATCH + 1
    for _ in range(n):
        writer.submit([ONE], told, loop.call_soon)
    loop.turns()
    told.wait(n)
    assert max(map(len, work.batches)) == writing.LOOP_SIZE
    work.batches.clear()
    with writer._turn:
        for _ in range(n):
            writer.submit([ONE], told)
    told.wait(n)
    assert max(map(len, work.batches)) == writing.MAX_BATCH


def test_a_loop_that_refuses_is_done_without(writer: BatchWriter, work: Work) -> None:
    def ended(function: Callable[[], object]) -> None:
        raise RuntimeError("the event loop is closed")

    told = Told()
    writer.submit([ONE], told, ended)
    writer.submit([TWO], told, ended)
    told.wait(2)
    assert set(work.threads) == {THREAD}


def test_what_a_loop_left_behind_is_found(
    writer: BatchWriter, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More than one group of it, where somebody else waits for an answer."""
    monkeypatch.setattr(writing, "PROBE_SECONDS", 0.01)
    ended, left, told = Loop(), Told(), Told()
    for _ in range(writing.MAX_BATCH + 1):
        writer.submit([ONE], left, ended.call_soon)
    writer.submit([TWO], told)
    told.wait()
    left.wait(writing.MAX_BATCH + 1)
    assert writer.pending == 0


def test_a_failure_in_the_loop_is_followed_by_the_thread(
    work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody may ask any more: who can be written to must be found out without."""
    monkeypatch.setattr(writing, "PROBE_SECONDS", 0.01)
    probed = threading.Event()
    writer = BatchWriter(work, probed.set, 10)
    loop, told = Loop(), Told()
    work.is_away = True
    writer.submit([ONE], told, loop.call_soon)
    loop.turns()
    told.wait()
    assert isinstance(told.results[0], StoreUnavailableError)
    assert probed.wait(10), "the thread does not look again"
    writer.close()
    assert writer.failure is None


def test_whoever_cannot_be_told_does_no_harm(writer: BatchWriter, work: Work) -> None:
    loop, told = Loop(), Told()
    writer.submit([ONE], lambda results: 1 / 0, loop.call_soon)
    writer.submit([TWO], told, loop.call_soon)
    loop.turns()
    told.wait()
    assert writer.pending == 0


def test_who_is_told_may_submit_again(writer: BatchWriter, work: Work) -> None:
    loop, told = Loop(), Told()
    writer.submit([ONE], lambda results: writer.submit([TWO], told, loop.call_soon), loop.call_soon)
    loop.turns()
    told.wait()
    assert work.batches == [[ONE], [TWO]]
    assert work.threads == [LOOP, LOOP]


def test_closing_waits_for_a_group_in_the_loop(writer: BatchWriter, work: Work) -> None:
    loop, told = Loop(), Told()
    closing = threading.Thread(target=writer.close)

    def tell(results: list[Result]) -> None:
        closing.start()
        closing.join(0.2)
        assert closing.is_alive(), "it ended before everybody was told"
        told(results)

    writer.submit([ONE], tell, loop.call_soon)
    loop.turns()
    told.wait()
    closing.join(10)
    assert not closing.is_alive()


def test_nothing_is_forgotten_between_the_two(writer: BatchWriter, work: Work) -> None:
    """Whoever of loop and thread takes a group, and whenever the other looks."""
    loop, told, n = Loop(), Told(), 2000
    stop = threading.Event()

    def disturb() -> None:
        while not stop.is_set():
            writer.run(lambda: None)

    other = threading.Thread(target=disturb)
    other.start()
    for i in range(n):
        writer.submit([ONE], told, loop.call_soon if i % 3 else None)
        loop.turns()
    told.wait(n)
    stop.set()
    other.join()
    assert sum(map(len, work.batches)) == len(told.results) == n
    assert set(work.threads) == {LOOP, THREAD}
    assert writer.pending == 0


def test_one_at_fault_does_not_harm_the_others_in_its_group(
    writer: BatchWriter, work: Work
) -> None:
    loop, told, failed = Loop(), Told(), Told()
    work.bad = TWO
    writer.submit([ONE], told, loop.call_soon)
    writer.submit([TWO], failed, loop.call_soon)
    loop.turns()
    told.wait()
    failed.wait()
    assert isinstance(told.results[0], Receipt)
    assert isinstance(failed.results[0], MixtsError)
    assert work.threads == [THREAD], "once more, one by one, and not in the loop"
    assert writer.pending == 0


def test_whoever_waits_in_the_loops_thread_is_answered(tmp_path: Path) -> None:
    """Blocking there is unwise, and no deadlock: the thread performs what the loop cannot."""
    prior = mixts.MixturePrior(mixts.BernoulliArms.uniform(2))
    loop, told = Loop(), Told()
    with (
        mixts.DecisionStore(tmp_path / "decisions.db") as store,
        mixts.Decider(prior, store) as decider,
    ):
        decider.submit([ONE], told, loop.call_soon)
        made = decider.decide("two")
        told.wait()
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
            raise AssertionError("it has begun")
        other.execute("ROLLBACK")
        with store.backend.transaction(wait=False) as transaction:
            assert transaction.active_version() is None
        other.close()


def test_a_closed_writer_takes_nothing(work: Work) -> None:
    writer = BatchWriter(work, lambda: None, 10)
    writer.close()
    with pytest.raises(StoreError, match="closed"):
        writer.submit([ONE], Told(), Loop().call_soon)
