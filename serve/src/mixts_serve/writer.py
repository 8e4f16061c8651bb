"""The writer: performs all operations, those that wait together in one transaction.

A batch is what waits when nobody writes, up to ``MAX_BATCH`` units of work; the writer never waits
for more. Under load batches grow, and a batch needs only one sync of the disk.

One rule says who writes. An event loop writes the small submissions of its own, if the store can
begin at once and is quick; a thread writes all others. Two busy threads would pass the
interpreter's lock back and forth at every SQL statement (docs/decisions.md has the measurements).

The queue is fair (weighted fair queueing). The turns are those in which submissions would be done
if all that wait shared the writer's time equally. So a small one does not wait for large ones that
came before it, and a large one is not kept waiting for ever. A batch may hold the first operations
of a large submission; the others keep their turn.

A store can be silent: a disk or a database that neither completes a write nor refuses it. A second
thread watches how long the store takes to answer, and refuses what waits.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
import time
from asyncio import AbstractEventLoop
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from mixts.errors import (
    MixtsError,
    OverloadedError,
    ParameterError,
    StoreError,
    StoreUnavailableError,
    TaskLockedError,
)
from mixts_serve.logs import described
from mixts_serve.records import Operation, Result
from mixts_serve.store.base import WouldWaitError

Done = Callable[[list[Result]], None]
"""Callback of a submission: called once, with one result for each operation."""

log = logging.getLogger("mixts_serve")

MAX_BATCH = 256
"""Most work in a batch: 256 ordinary operations; see ``Sizes``. One operation that is larger is a
batch by itself."""

SMALL = 64
"""Work of a submission that is taken on however much work waits: it does not wait for that. An
event loop writes no larger batch."""

SLOW_SECONDS = 0.05
"""If an event loop needs longer for a batch, it serves nobody else for too long: the thread writes
for a while. An ordinary batch takes 1 to 10 ms."""

PAUSE_SECONDS = 1.0
"""Time for which the thread then writes."""

MAX_WORK = 20_000
"""Most work of a submission, and of all larger than ``SMALL`` that wait: two to four seconds."""

PROBE_SECONDS = 1.0
"""Time between attempts to write to a failed store while no operations arrive, and for an event
loop to write."""

WATCH_SECONDS = 0.5
"""Time between looks at the store."""

SLOW_STORE_SECONDS = 3.0
"""If the store does not answer for longer, the service is not ready."""

SILENT_SECONDS = 15.0
"""If the store does not answer for longer, all operations are refused, although those of the batch
that is being written may yet succeed.

Longer than the ten seconds after which either database gives up by itself.
"""


class MoreWorkError(Exception):
    """A batch has found more work than the estimates said; nothing was changed, and they now do."""


class Call(NamedTuple):
    """A function that the thread calls between two batches."""

    function: Callable[[], Any]


@dataclass(slots=True, eq=False)
class Submission:
    """Operations that were submitted together, and the callback for their results."""

    operations: Sequence[Any]
    """Operations, or one call."""
    done: Done
    size: int
    """Estimate of the work."""
    turn: tuple[float, int] = (0.0, 0)
    """Place in the queue: the end of its work, and the number of the submission."""
    alone: bool = False
    """Whether no other submission may be in the same batch: one that failed had both."""
    results: list[Any] = field(default_factory=list)
    """Results of the first operations."""

    def __lt__(self, other: Submission) -> bool:
        return self.turn < other.turn

    @property
    def is_complete(self) -> bool:
        """Whether every operation has a result."""
        return len(self.results) == len(self.operations)

    def rest(self, most: int, size_of: Callable[[Any], int], *, at_least: int) -> Slice:
        """Return the next operations, with at most so much work, or so many if one is larger."""
        start = len(self.results)
        if start == 0 and self.size <= most:
            return Slice(self, self.operations, self.size)
        size = 0
        taken: list[Any] = []
        for operation in self.operations[start:]:
            more = size_of(operation)
            if size + more > most and len(taken) >= at_least:
                break
            size += more
            taken.append(operation)
        return Slice(self, taken, size)

    @property
    def work(self) -> int:
        """Work that counts towards the limit of waiting work: none of a small submission."""
        return self.size if self.size > SMALL else 0


class Slice(NamedTuple):
    """The operations of a submission that are in one batch."""

    submission: Submission
    operations: Sequence[Any]
    size: int
    """Estimate of the work."""


class BatchWriter:
    """The queue of operations, and the thread that writes what no event loop does.

    ``perform`` performs operations in one transaction and returns their results; it may raise
    ``MoreWorkError``, and ``WouldWaitError`` if its second argument, whether the store may wait
    for others, is false. ``probe`` tests a failed store. ``watch`` returns for how many seconds the
    store has not answered. ``size_of`` estimates the work of an operation; 1 is an ordinary one.
    """

    def __init__(
        self,
        perform: Callable[[list[Operation], bool], list[Result]],
        probe: Callable[[], None],
        max_pending: int,
        max_work: int = MAX_WORK,
        watch: Callable[[], float] = lambda: 0.0,
        size_of: Callable[[Operation], int] = lambda operation: 1,
    ) -> None:
        self._perform, self._probe, self._watch = perform, probe, watch
        self._max_pending, self._max_work, self._size_of = max_pending, max_work, size_of
        # The lock of this condition guards all that follows.
        self._changed = threading.Condition()
        self._queue: list[Submission] = []
        """Heap of submissions, by their turns."""
        self._batch: list[Slice] = []
        """What is being written."""
        self._numbers = itertools.count()
        self._pending = 0
        """Number of operations that have no result yet."""
        self._waiting_work = 0
        self._shared_work = 0.0
        """Work that every submission would have got so far, if all shared the writer's time."""
        self._n_batches = self._n_written = 0
        self._failure: str | None = None
        """Reason why the last write failed; None if it succeeded."""
        self._silence = 0.0
        """Seconds for which the store had not answered at the last look."""
        self._is_writing = False
        """Whether the thread or an event loop writes now."""
        self._loop_is_next = False
        """Whether an event loop was told to write the next batch."""
        self._appointed_at = 0.0
        self._waiting_loop: AbstractEventLoop | None = None
        """The event loop that writes when the thread has written its batch."""
        self._no_loop_before = 0.0
        """Time before which the thread writes all batches."""
        self._is_closed = False
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="mixts-writer", daemon=True)
        self._thread.start()
        threading.Thread(target=self._watch_store, name="mixts-watch", daemon=True).start()

    @property
    def pending(self) -> int:
        """Number of operations that were admitted and have no result yet."""
        with self._changed:
            return self._pending

    @property
    def batches(self) -> tuple[int, int]:
        """Number of batches that were written, and of operations in all of them."""
        with self._changed:
            return self._n_batches, self._n_written

    @property
    def trouble(self) -> str | None:
        """Reason why operations cannot be written at present; None if they can."""
        with self._changed:
            failure = self._failure
        seconds = self._watch()
        if failure is not None or seconds <= SLOW_STORE_SECONDS:
            return failure
        return f"the store has not answered for {seconds:.0f} s"

    def submit(
        self, operations: Sequence[Operation], done: Done, loop: AbstractEventLoop | None = None
    ) -> None:
        """Put operations in the queue: all of them or, if this raises an error, none.

        An event loop that submits names itself. ``done`` is called by the thread or the event loop
        that writes.
        """
        if not operations:
            done([])
            return
        n, size = len(operations), sum(map(self._size_of, operations))
        if n > self._max_pending:
            raise ParameterError(
                f"at most {self._max_pending:,} operations are taken at once, got {n:,}: send them "
                "in parts, or raise max_pending"
            )
        if size > self._max_work:
            raise ParameterError(
                f"at most {self._max_work:,} units of work are taken at once, got {size:,}: an "
                "operation is one unit, and more with many actions, arms, features or components; "
                + ("send them in parts" if n > 1 else "offer fewer actions")
                + ", or raise max_work (mixts serve --max-work)"
            )
        submission = Submission(operations, done, size)
        with self._changed:
            if self._silence > SILENT_SECONDS:
                raise _silent(self._silence)
            if self._pending + n > self._max_pending:
                raise OverloadedError(
                    f"{self._pending:,} operations are waiting and at most {self._max_pending:,} "
                    f"may: {n:,} more were not taken on; try again later"
                )
            if submission.work and self._waiting_work + size > self._max_work:
                raise OverloadedError(
                    f"{self._waiting_work:,} units of work are waiting and at most "
                    f"{self._max_work:,} may: {size:,} more were not taken on; try again later"
                )
            self._put(submission, loop)

    def run(self, function: Callable[[], Any]) -> Any:
        """Call a function in the thread, and return its result."""
        future: Future[list[Any]] = Future()
        with self._changed:
            self._put(Submission([Call(function)], future.set_result, 0, alone=True))
        (result,) = future.result()
        if isinstance(result, BaseException):
            raise result
        return result

    def _put(self, submission: Submission, loop: AbstractEventLoop | None = None) -> None:
        """Put a new submission in the queue; the caller holds the lock."""
        if self._is_closed:
            raise StoreError("the decider is closed")
        submission.turn = self._shared_work + submission.size, next(self._numbers)
        self._pending += len(submission.operations)
        self._waiting_work += submission.work
        heapq.heappush(self._queue, submission)
        self._appoint(None if submission.work else loop)

    def _appoint(self, loop: AbstractEventLoop | None) -> None:
        """Tell an event loop, or else the thread, to write next; the caller holds the lock."""
        if self._loop_is_next:
            return
        if loop is not None and time.monotonic() >= self._no_loop_before:
            # After two passes of the loop: requests that arrive in the first one join the batch.
            loop.call_soon(loop.call_soon, self._write_in_loop, loop)
            self._loop_is_next, self._appointed_at = True, time.monotonic()
        else:
            self._changed.notify()

    def close(self) -> None:
        """Write everything in the queue, and end the threads.

        Raise ``StoreUnavailableError`` if the store stays silent.
        """
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        while self._thread.is_alive() and self._watch() <= SILENT_SECONDS:
            self._thread.join(WATCH_SECONDS)
        self._ended.set()
        if self._thread.is_alive():
            raise _silent(self._watch())

    # -- in an event loop ---------------------------------------------------------------------

    def _write_in_loop(self, loop: AbstractEventLoop) -> None:
        """Write the next batch, unless it is large; after the thread, if that is writing."""
        with self._changed:
            if self._is_writing:
                self._waiting_loop = loop
                return
            is_small = bool(self._queue) and not (self._queue[0].work or self._queue[0].alone)
            if not (self._loop_is_next and is_small):
                self._loop_is_next = False
                self._changed.notify()
                return
            batch = self._begin(SMALL)
        started = time.monotonic()
        is_written = self._write(batch, wait=False)
        with self._changed:
            self._loop_is_next = False
            if time.monotonic() - started > SLOW_SECONDS:
                self._no_loop_before = time.monotonic() + PAUSE_SECONDS
            if self._queue:
                self._appoint(loop if is_written else None)
            elif self._is_closed:
                self._changed.notify()

    # -- in the thread that watches -----------------------------------------------------------

    def _watch_store(self) -> None:
        while not self._ended.wait(WATCH_SECONDS):
            silence = self._watch()
            with self._changed:
                self._silence = silence
                waited = time.monotonic() - self._appointed_at
                if self._loop_is_next and not self._is_writing and waited > PROBE_SECONDS:
                    self._loop_is_next = False  # its loop has ended, or is busy
                    self._changed.notify()
                has_waiting = bool(self._batch or self._queue)
            if silence > SILENT_SECONDS and has_waiting:
                self._note(str(_silent(silence)))
                self._refuse_all(_silent(silence))

    def _refuse_all(self, error: StoreError) -> None:
        """Refuse all operations that wait or are being written."""
        with self._changed:
            refused = [*(each.submission for each in self._batch), *self._queue]
            self._batch, self._queue = [], []
            for submission in refused:
                n_left = len(submission.operations) - len(submission.results)
                self._add_results(submission, [error] * n_left)
        _call_back(refused)

    # -- in the thread ------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            with self._changed:
                self._wait()
                failure, is_closed = self._failure, self._is_closed
                if is_closed and not self._queue:
                    return
                refuses = bool(is_closed and failure)
                batch = [] if refuses else self._begin(MAX_BATCH)
            if batch:
                self._write(batch, wait=True)
            elif refuses:
                self._refuse_all(StoreUnavailableError(failure))
            else:
                with self._writing():
                    self._retry_store()

    def _wait(self) -> None:
        """Wait until it is the thread's turn, or time to probe the store."""
        while self._is_writing or self._loop_is_next or not (self._queue or self._is_closed):
            is_notified = self._changed.wait(PROBE_SECONDS if self._failure else None)
            if not (is_notified or self._is_writing):
                return

    # -- in either ----------------------------------------------------------------------------

    def _begin(self, most: int) -> list[Slice]:
        """Take the next batch, to write it; the caller holds the lock."""
        self._batch = self._take(most)
        self._is_writing = True
        return self._batch

    def _take(self, left: int) -> list[Slice]:
        """Remove the next batch, with at most so much work, from the queue."""
        batch: list[Slice] = []
        while self._queue and left >= 0 and not (batch and self._queue[0].alone):
            first = self._queue[0]
            piece = first.rest(left, self._work_of, at_least=0 if batch else 1)
            if not piece.operations:
                break
            left -= piece.size
            batch.append(piece)
            heapq.heappop(self._queue)
            if first.alone or len(first.results) + len(piece.operations) < len(first.operations):
                break
        return batch

    def _work_of(self, operation: Any) -> int:
        return 0 if isinstance(operation, Call) else self._size_of(operation)

    def _write(self, batch: list[Slice], *, wait: bool) -> bool:
        """Perform a batch and pass the results to the callbacks; return False if it must wait."""
        with self._writing():
            return self._try_to_write(batch, wait)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Let nobody else write inside the ``with`` block; ``_begin`` has begun it."""
        try:
            yield
        finally:
            with self._changed:
                self._is_writing = False
                loop, self._waiting_loop = self._waiting_loop, None
                if loop is not None:
                    with suppress(RuntimeError):  # the loop has ended
                        loop.call_soon_threadsafe(self._write_in_loop, loop)

    def _try_to_write(self, batch: list[Slice], wait: bool) -> bool:
        operations = [operation for each in batch for operation in each.operations]
        failure: str | None = None
        results: list[Any]
        started = time.monotonic()
        try:
            is_call = isinstance(operations[0], Call)
            results = [operations[0].function()] if is_call else self._perform(operations, wait)
            self._note(None)
        except MoreWorkError:
            self._put_back(batch, alone=False)
            return True
        except WouldWaitError:
            self._put_back(batch, alone=False)
            return False
        except StoreUnavailableError as error:
            failure, results = str(error), [error] * len(operations)
            self._note(failure)
        except Exception as error:
            if len(batch) > 1:
                # Some submission made the batch fail: write each alone, so that others succeed.
                self._put_back(batch, alone=True)
                return True
            results = [_reported(error, operations)] * len(operations)
        self._answer(batch, results)
        if failure and time.monotonic() - started > SLOW_STORE_SECONDS:
            # The store was silent. The others would wait as long, one batch after the other.
            self._refuse_all(StoreUnavailableError(failure))
        return True

    def _put_back(self, batch: list[Slice], *, alone: bool) -> None:
        with self._changed:
            self._batch = []
            for submission, _, _ in batch:
                submission.alone = submission.alone or alone
                before = submission.work
                submission.size = sum(map(self._work_of, submission.operations))
                self._waiting_work += submission.work - before
                if not submission.is_complete:
                    heapq.heappush(self._queue, submission)

    def _answer(self, batch: list[Slice], results: list[Any]) -> None:
        """Call back the submissions that are complete, and put the others back."""
        complete: list[Submission] = []
        left = iter(results)
        with self._changed:
            self._batch = []
            n_waiting = len(batch) + len(self._queue)
            if not isinstance(batch[0].operations[0], Call):
                self._n_batches += 1
                self._n_written += len(results)
            for submission, operations, size in batch:
                found = list(itertools.islice(left, len(operations)))
                self._shared_work += size / n_waiting
                if submission.is_complete:  # it was refused, because it took too long
                    continue
                self._add_results(submission, found)
                if submission.is_complete:
                    complete.append(submission)
                else:
                    heapq.heappush(self._queue, submission)
        _call_back(complete)

    def _add_results(self, submission: Submission, results: list[Any]) -> None:
        """Keep results of a submission; the caller holds the lock."""
        submission.results += results
        self._pending -= len(results)
        if results and submission.is_complete:
            self._waiting_work -= submission.work

    def _retry_store(self) -> None:
        try:
            self._probe()
            self._note(None)
            log.warning("the store can be written to again")
        except Exception as error:  # of any type: the thread must go on to serve requests
            self._note(described(error))

    def _note(self, failure: str | None) -> None:
        """Remember why the store cannot be written to; None: it can."""
        with self._changed:
            before, self._failure = self._failure, failure
            if failure is not None and before is None:
                self._changed.notify()  # the thread probes the store from now on
        if failure is not None and before is None:
            log.error("the store cannot be written to: %s", failure)


def _silent(seconds: float) -> StoreUnavailableError:
    return StoreUnavailableError(
        f"the store has not answered for {seconds:.0f} s: the operation may still be carried out; "
        "repeat it, a decision with the same key"
    )


def _reported(error: Exception, operations: Sequence[Any]) -> Exception:
    """Return the error that callers get for one of any type."""
    if isinstance(operations[0], Call) or isinstance(error, TaskLockedError):
        return error
    log.error("a batch of %d operations failed", len(operations), exc_info=error)
    if isinstance(error, StoreError):
        return error
    return MixtsError(f"internal error: {type(error).__name__}")


def _call_back(submissions: Sequence[Submission]) -> None:
    """Call the callbacks of submissions that have all their results."""
    for submission in submissions:
        try:
            submission.done(submission.results)
        except Exception:
            n = len(submission.operations)
            log.exception("could not pass on the results of %d operations", n)
