"""Who performs groups: the writer's thread, or the one that submits and calls functions later."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import pytest

import mixts
from mixts.errors import MixtsError, StoreError
from mixts.service import Decide, queue
from mixts.service.queue import GroupWriter, Take
from mixts.service.records import Operation, Receipt, Result
from mixts.service.store.backend import WouldWaitError


class Loop:
    """Calls functions when it is told to, as an event loop would."""

    def __init__(self) -> None:
        self.calls: deque[Callable[[], None]] = deque()

    def call_soon(self, function: Callable[[], None]) -> None:
        self.calls.append(function)

    def turn(self) -> None:
        """Once around."""
        for _ in range(len(self.calls)):
            self.calls.popleft()()

    def turns(self) -> None:
        """As often as somebody is to be called."""
        while self.calls:
            self.turn()


class Work:
    """Performs operations, and notes where and together with which others."""

    def __init__(self) -> None:
        self.groups: list[list[Operation]] = []
        self.threads: list[str] = []
        self.would_wait = False
        self.bad: Operation | None = None

    def __call__(self, take: Take, wait: bool) -> list[Result]:
        if self.would_wait and not wait:
            raise WouldWaitError("somebody else writes")
        group = take()
        if self.bad in group:
            raise ZeroDivisionError
        self.groups.append(list(group))
        self.threads.append(threading.current_thread().name)
        return [Receipt(duplicate=False, late=False) for _ in group]


@pytest.fixture
def work() -> Work:
    return Work()


@pytest.fixture
def writer(work: Work) -> Iterator[GroupWriter]:
    writer = GroupWriter(work, lambda: None, 10_000)
    yield writer
    writer.close()


class Told:
    """Whom to tell; ``wait`` until all were."""

    def __init__(self) -> None:
        self.results: list[Result] = []
        self._told = threading.Semaphore(0)

    def __call__(self, results: list[Result]) -> None:
        self.results += results
        self._told.release()

    def wait(self, times: int = 1) -> None:
        for _ in range(times):
            assert self._told.acquire(timeout=10), "nobody was told"


HERE = threading.current_thread().name
THREAD = "mixts-writer"
ONE, TWO = Decide("one"), Decide("two")


def test_what_waits_together_is_performed_together_in_the_loops_thread(
    writer: GroupWriter, work: Work
) -> None:
    loop, told = Loop(), Told()
    writer.submit([ONE], told, loop.call_soon)
    loop.turn()
    writer.submit([TWO], told, loop.call_soon)  # what arrives a turn later comes along
    assert not told.results
    loop.turn()
    told.wait(2)
    assert work.groups == [[ONE, TWO]]
    assert work.threads == [HERE]
    assert not loop.calls
    assert writer.pending == 0


def test_without_a_loop_the_thread_performs(writer: GroupWriter, work: Work) -> None:
    told = Told()
    writer.submit([ONE], told)
    told.wait()
    assert work.threads == [THREAD]


def test_a_loop_that_has_ended_is_not_waited_for(writer: GroupWriter, work: Work) -> None:
    """What it left is performed with what another submits, and on closing."""
    ended, loop, told = Loop(), Loop(), Told()
    writer.submit([ONE], told, ended.call_soon)
    writer.submit([TWO], told, loop.call_soon)
    loop.turns()
    told.wait(2)
    assert work.groups == [[ONE, TWO]]
    writer.submit([ONE], told, ended.call_soon)
    writer.close()
    told.wait()
    assert work.threads == [HERE, THREAD]


def test_what_would_wait_is_left_to_the_thread_and_the_next_is_not(
    writer: GroupWriter, work: Work
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
    assert work.threads == [THREAD, HERE]


def test_slow_groups_are_left_to_the_thread_for_a_while(
    writer: GroupWriter, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, told = Loop(), Told()
    now = [1000.0]
    monkeypatch.setattr(queue.time, "monotonic", lambda: now[0])
    perform = writer._perform

    def slowly(take: Take, wait: bool) -> list[Result]:
        now[0] += 5 * queue.SLOW_SECONDS
        return perform(take, wait)

    monkeypatch.setattr(writer, "_perform", slowly)
    while not (work.threads and work.threads[-1] == THREAD):
        writer.submit([ONE], told, loop.call_soon)
        loop.turns()
        told.wait()
        assert len(work.threads) < 10
    assert work.threads.count(HERE) > 1, "a single slow one may be chance"
    monkeypatch.setattr(writer, "_perform", perform)
    now[0] += queue.THREAD_SECONDS
    writer.submit([ONE], told, loop.call_soon)
    loop.turns()
    told.wait()
    assert work.threads[-1] == HERE


def test_a_loop_does_not_wait_for_the_thread(writer: GroupWriter, work: Work) -> None:
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


def test_nothing_is_forgotten_between_the_two(writer: GroupWriter, work: Work) -> None:
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
    assert sum(map(len, work.groups)) == len(told.results) == n
    assert set(work.threads) == {HERE, THREAD}
    assert writer.pending == 0


def test_one_at_fault_does_not_harm_the_others_in_its_group(
    writer: GroupWriter, work: Work
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
    writer = GroupWriter(work, lambda: None, 10)
    writer.close()
    with pytest.raises(StoreError, match="closed"):
        writer.submit([ONE], Told(), Loop().call_soon)
