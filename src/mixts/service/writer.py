"""The writer: collects the operations that wait and writes them in one transaction.

The writer has its own thread, but an event loop that submits operations writes small batches
itself. This is faster, because two busy threads pass the interpreter's lock back and forth at every
SQL statement (docs/decisions.md has the measurements). While it writes, the event loop cannot serve
other requests. The thread therefore writes

- large submissions;
- batches that would have to wait for another process or for a database server;
- all batches for a second, after batches were slow on average, as on a slow disk.

The thread writes a large submission in pieces, and small ones that wait between two pieces: nobody
waits for much longer than one piece takes. A decision that is larger than a piece is computed
before its piece is written (``aside``), while others are written.

A store can also be silent: a disk or a database that neither completes a write nor refuses it. A
second thread therefore watches how long the store takes to answer.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from mixts.errors import (
    MixtsError,
    OverloadedError,
    ParameterError,
    StoreError,
    StoreUnavailableError,
    TaskLockedError,
)
from mixts.service.aside import LONG_SIZE, Aside, ComputeAsideError, Lane, MoreWorkError
from mixts.service.records import Operation, Result
from mixts.service.store.base import WouldWaitError

Done = Callable[[list[Result]], None]
"""Callback of a submission: called once, with one result for each operation."""

Perform = Callable[[list[Operation], bool, Aside | None], list[Result]]
"""Function that performs a batch in one transaction and returns the results.

The second argument says whether it may wait for another process. If it may not but would have to,
it raises ``WouldWaitError``. The third one is there if the batch is one long decision: the function
raises ``ComputeAsideError`` until the decision is computed. If the batch is more work than its size
says, it raises ``MoreWorkError``, and sizes are right after that.
"""

CallSoon = Callable[[Callable[[], object]], object]
"""An event loop's ``call_soon``."""

log = logging.getLogger("mixts.service")

MAX_BATCH = 256
"""Most work in a batch: 256 operations, unless they are large; see ``Decider``. One operation that
is larger is a batch by itself, and computed aside."""

LOOP_SIZE = 64
"""Most work in a batch that an event loop writes."""

SLOW_SECONDS = 0.05
"""If an event loop needs longer for a batch on average, it stops writing for a while.

Half of the 100 ms for which others may have to wait. A full batch of ``LOOP_SIZE`` takes more than
10 ms in the loop (benchmarks/service/parts.py), and longer in the thread, which shares the
interpreter's lock with the loop.
"""

LOOP_PAUSE_SECONDS = 1.0
"""Time for which the thread then writes all batches."""

MAX_WORK = 100_000
"""Most work that may wait for the writer, and of one batch, by default: seconds of it."""

MAX_LONG = 4
"""Most single decisions with more work than ``LONG_SIZE`` that may wait. They take seconds, or
minutes, each: all others would be refused while they wait, if they counted as work."""

CLOSE_SECONDS = 5.0
"""Time for long decisions to be computed when the writer is closed."""

PROBE_SECONDS = 1.0
"""Time between attempts to write to a failed store while no operations arrive."""

WATCH_SECONDS = 0.5
"""Time between looks at the store."""

SLOW_STORE_SECONDS = 3.0
"""If the store does not answer for longer, the service is not ready."""

SILENT_SECONDS = 15.0
"""If the store does not answer for longer, all operations are refused, although those of the batch
that is being written may yet succeed.

Longer than the ten seconds after which either database gives up by itself.
"""


@dataclass(slots=True, eq=False)
class Submission:
    """Operations that were submitted together, and the callback for their results."""

    operations: Sequence[Operation]
    done: Done
    size: int
    """Estimate of the work."""
    alone: bool = False
    """True after a batch with this submission failed: the next batch has only this submission."""
    results: list[Result] = field(default_factory=list)
    """Results of the operations that were written."""
    answered: bool = False
    """True if the callback was called."""
    aside: Aside | None = None
    """The next operation, if it is a long decision that has been begun."""

    @property
    def is_small(self) -> bool:
        """True if an event loop may write this submission."""
        return self.size <= LOOP_SIZE and not self.alone

    @property
    def is_large(self) -> bool:
        """True if small submissions need not wait for this one."""
        return self.size > LOOP_SIZE

    @property
    def is_long(self) -> bool:
        """True for a single decision that takes so long that only a few may wait."""
        return self.size > LONG_SIZE and len(self.operations) == 1


class Piece(NamedTuple):
    """The operations of a submission that are in one batch."""

    submission: Submission
    operations: Sequence[Operation]


@dataclass(frozen=True, slots=True)
class Job:
    """A function for the writer's thread to call."""

    work: Callable[[], Any]
    future: Future[Any]


class BatchWriter:
    """Queue of operations, and the thread that writes them in batches.

    A batch is everything that waits at the moment when the writer is free; the writer never waits
    for more. Under load batches grow, and a batch needs only one sync of the disk.
    """

    def __init__(
        self,
        perform: Perform,
        probe: Callable[[], None],
        max_pending: int,
        watch: Callable[[], float] = lambda: 0.0,
        size_of: Callable[[Operation], int] = lambda operation: 1,
        max_work: int = MAX_WORK,
    ) -> None:
        self._perform = perform
        self._probe = probe
        self._max_pending = max_pending
        self._size_of = size_of
        """Estimates the work of an operation; 1 is an ordinary one."""
        self._max_work = max_work
        self._watch = watch
        """Returns for how many seconds the store has not answered."""
        self._waiting: deque[Submission | Job] = deque()
        self._large: deque[Submission] = deque()
        """Submissions that are written in pieces, in turn with those of ``_waiting``."""
        self._is_large_turn = False
        self._aside: list[Submission] = []
        """Large submissions whose next operation is being computed aside."""
        self._is_aside_over = False
        """True if the writer closes, and waits for no computation any more."""
        self._lanes = Lane("mixts-aside"), Lane("mixts-aside-long")
        self._pending = 0
        self._n_long = 0
        """Number of long submissions that have no result yet."""
        self._large_work = 0
        """Work of the other large submissions that have no result yet."""
        self._changed = threading.Condition()
        self._turn = threading.Lock()
        """Lock of the thread, the writer's or an event loop's, that writes a batch."""
        self._wanted = False
        """True if the thread has work to do."""
        self._closed = False
        self._is_silent = False
        self._ended = threading.Event()
        """Set when nothing is left to watch."""
        self._in_flight: Sequence[Submission | Job] = ()
        """The submissions of the batch, or the job, that runs now."""
        self._scheduled: CallSoon | None = None
        """``call_soon`` of the event loop that will write the next batch; None: the thread will."""
        self._no_loop_before = 0.0
        """Time before which event loops do not write."""
        self._mean_seconds = 0.0
        """Moving average of the time that an event loop needs for a batch."""
        self.failure: str | None = None
        """Reason why the last write failed; None if it succeeded."""
        self.batches = 0
        self.batch_operations = 0
        self._thread = threading.Thread(target=self._run, name="mixts-writer", daemon=True)
        self._thread.start()
        threading.Thread(target=self._watch_store, name="mixts-watch", daemon=True).start()

    @property
    def pending(self) -> int:
        """Number of operations that were admitted and have no result yet."""
        return self._pending

    def submit(
        self, operations: Sequence[Operation], done: Done, call_soon: CallSoon | None = None
    ) -> None:
        """Put the operations in the queue: all of them or, if this raises an error, none.

        If the caller is an event loop that gives its ``call_soon``, it may write them itself, in a
        later iteration of the loop.
        """
        if len(operations) > self._max_pending:
            raise ParameterError(
                f"at most {self._max_pending:,} operations are taken at once, got "
                f"{len(operations):,}: send them in parts, or raise max_pending"
            )
        size = sum(map(self._size_of, operations))
        if size > self._max_work and len(operations) > 1:
            raise ParameterError(
                f"at most {self._max_work:,} units of work are taken at once, got {size:,}: an "
                "operation is one unit, and more with many actions, arms, features or components; "
                "send them in parts, or raise max_work (mixts serve --max-work)"
            )
        if self._is_silent:
            raise self._silent()
        with self._changed:
            self._check_open()
            if self._pending + len(operations) > self._max_pending:
                raise OverloadedError(
                    f"{self._pending:,} operations are waiting and at most {self._max_pending:,} "
                    f"may: {len(operations):,} more were not taken on; try again later"
                )
            submission = Submission(operations, done, size)
            self._check_work(submission)
            self._count(submission, 1)
            self._pending += len(operations)
            self._queue(submission).append(submission)
            self._schedule(call_soon if submission.is_small else None)

    def _check_work(self, submission: Submission) -> None:
        """Refuse a large submission if too much work waits; small ones need not wait for it."""
        size = submission.size
        if submission.is_long and self._n_long >= MAX_LONG:
            raise OverloadedError(
                f"{self._n_long} decisions with more than {LONG_SIZE:,} units of work are waiting, "
                "and no more may: this one was not taken on; try again later"
            )
        # If nothing waits, one operation of any size is taken on.
        counts = submission.is_large and not submission.is_long and self._large_work
        if counts and self._large_work + size > self._max_work:
            raise OverloadedError(
                f"{self._large_work:,} units of work are waiting and at most {self._max_work:,} "
                f"may: {size:,} more were not taken on; try again later"
            )

    def _count(self, submission: Submission, sign: int) -> None:
        """Count a submission among those that wait, or no more."""
        if submission.is_long:
            self._n_long += sign
        elif submission.is_large:
            self._large_work += sign * submission.size

    def _queue(self, submission: Submission) -> deque[Any]:
        return self._large if submission.is_large else self._waiting

    def run(self, work: Callable[[], Any]) -> Any:
        """Call a function in the writer's thread, and return its result."""
        future: Future[Any] = Future()
        with self._changed:
            self._check_open()
            self._waiting.append(Job(work, future))
            self._wake()
        return future.result()

    def close(self) -> None:
        """Write everything in the queue, and end the threads.

        Long decisions are refused if they are not computed soon. Raise ``StoreUnavailableError`` if
        the store stays silent.
        """
        with self._changed:
            self._closed = True
            self._wake()
            self._changed.wait_for(lambda: not (self._aside or self._large), CLOSE_SECONDS)
            self._is_aside_over = True
            late = list(self._aside)
            self._aside.clear()
            self._drop(late, _CLOSED)
            self._wake()
        _tell(late, _CLOSED)
        for lane in self._lanes:
            lane.close()
        while self._thread.is_alive() and self._watch() <= SILENT_SECONDS:
            self._thread.join(WATCH_SECONDS)
        self._ended.set()
        if self._thread.is_alive():
            raise self._silent()

    @property
    def trouble(self) -> str | None:
        """Reason why operations cannot be written at present; None if they can."""
        if self.failure is not None:
            return self.failure
        seconds = self._watch()
        if seconds <= SLOW_STORE_SECONDS:
            return None
        return f"the store has not answered for {seconds:.0f} s"

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError("the decider is closed")

    # -- schedule the next batch; callers hold the lock of ``_changed`` -----------------------

    def _schedule(self, call_soon: CallSoon | None) -> None:
        """Leave the next batch to the event loop if it may write, else to the thread."""
        if call_soon is None or time.monotonic() < self._no_loop_before:
            self._wake()
        elif call_soon != self._scheduled:
            try:
                # Wait for two iterations of the loop: requests that arrive in the first one become
                # part of the batch.
                call_soon(partial(call_soon, partial(self._write_in_loop, call_soon)))
                self._scheduled = call_soon
            except RuntimeError:  # the loop is closed
                self._wake()

    def _wake(self) -> None:
        self._wanted = True
        self._changed.notify_all()

    # -- in the event loop's thread -----------------------------------------------------------

    def _write_in_loop(self, call_soon: CallSoon) -> None:
        """Write a batch, unless the thread is writing or the next batch is too large."""
        self._scheduled = None
        if not self._turn.acquire(blocking=False):
            with self._changed:
                self._wake()  # the thread may just have found that nothing waits
            return
        started = time.monotonic()
        would_wait = False
        try:
            if self._next_is_small():
                self._write(wait=False)
        except WouldWaitError:
            would_wait = True
        finally:
            self._turn.release()
        self._note_duration(time.monotonic() - started)
        with self._changed:
            if self._waiting or self._large:
                in_loop = not would_wait and self._next_is_small()
                self._schedule(call_soon if in_loop else None)

    def _note_duration(self, seconds: float) -> None:
        """Update the average; if it is too long, leave all batches to the thread for a while."""
        self._mean_seconds += 0.1 * (seconds - self._mean_seconds)
        if self._mean_seconds > SLOW_SECONDS:
            self._mean_seconds = 0.0
            self._no_loop_before = time.monotonic() + LOOP_PAUSE_SECONDS

    def _next_is_small(self) -> bool:
        first = self._first()
        return isinstance(first, Submission) and first.is_small

    def _first(self) -> Submission | Job | None:
        """Return what is written next; the thread that watches may empty the queues at any time."""
        queues: list[deque[Any]] = [self._waiting, self._large]
        for queue in reversed(queues) if self._is_large_turn else queues:
            try:
                return queue[0]
            except IndexError:
                continue
        return None

    # -- in the writer's thread ---------------------------------------------------------------

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._wanted:
                    # Look again after a while: the event loop that should write may have ended.
                    unwritten = self._waiting or self._large
                    timeout = PROBE_SECONDS if self.failure or unwritten else None
                    if not self._changed.wait(timeout):
                        break
                self._wanted = False
                closed = self._closed
            with self._turn:
                if self.failure and self._first() is None and not closed:
                    self._retry_store()
                self._write_all(closed)
            with self._changed:
                if closed and not self._aside and self._first() is None:
                    return

    def _write_all(self, closed: bool) -> None:
        """Write batch after batch, until the queue is empty or an event loop takes over."""
        is_first = True
        while (first := self._first()) is not None:
            if closed and self.failure:
                self._refuse_all(StoreUnavailableError(self.failure))
                return
            if isinstance(first, Job):
                self._run_job(first)
                continue
            loop_writes = self._scheduled and first.is_small and not self._large
            if loop_writes and not is_first and not closed:
                return  # the event loop writes this one, which is faster
            self._write(wait=True)
            is_first = False

    def _run_job(self, job: Job) -> None:
        with self._changed:
            if self._first() is not job:
                return
            self._waiting.popleft()
            self._in_flight = (job,)
        try:
            result = job.work()
            if not job.future.done():
                job.future.set_result(result)
        except BaseException as error:
            if not job.future.done():
                job.future.set_exception(error)

    # -- in the thread that watches -----------------------------------------------------------

    def _watch_store(self) -> None:
        while not self._ended.wait(WATCH_SECONDS):
            self._is_silent = self._watch() > SILENT_SECONDS
            if self._is_silent and (self._in_flight or self._first()):
                self._note_failure(str(self._silent()))
                self._refuse_all(self._silent())

    def _silent(self) -> StoreUnavailableError:
        return StoreUnavailableError(
            f"the store has not answered for {self._watch():.0f} s: the operation may still be "
            "carried out; repeat it, a decision with the same key"
        )

    def _refuse_all(self, error: StoreError) -> None:
        """Refuse all operations that wait or are being written."""
        with self._changed:
            refused = [*self._in_flight, *self._waiting, *self._large]
            self._in_flight = ()
            self._waiting.clear()
            self._large.clear()
            self._drop(refused, error)
        _tell(refused, error)

    def _drop(self, refused: Sequence[Submission | Job], error: StoreError) -> None:
        """Give an error to what was removed from the queues; the caller holds the lock."""
        for submission in refused:
            if isinstance(submission, Submission):
                if submission.aside is not None:
                    submission.aside.drop()
                n = len(submission.operations) - len(submission.results)
                self._add_results(submission, [error] * n)

    # -- long decisions, which threads of their own compute -----------------------------------

    def _compute(self, submission: Submission) -> None:
        """Have the next operation of a submission computed, and leave the rest until then."""
        with self._changed:
            self._in_flight = ()
            aside = submission.aside
            if submission.answered or aside is None:  # it was refused, because it took too long
                return
            is_late = self._is_aside_over
            if is_late:
                self._drop([submission], _CLOSED)
            else:
                self._aside.append(submission)
        if is_late:
            _tell([submission], _CLOSED)
            return
        size = self._size_of(submission.operations[len(submission.results)])
        self._lanes[size > LONG_SIZE].put(aside, partial(self._go_on, submission))

    def _go_on(self, submission: Submission) -> None:
        """Write the decision that was computed, before others that wait."""
        with self._changed:
            if submission in self._aside:  # else it was refused
                self._aside.remove(submission)
                self._large.appendleft(submission)
            self._wake()

    # -- write a batch; callers hold ``_turn`` ------------------------------------------------

    def _take(self, wait: bool) -> list[Piece]:
        """Remove the next batch from a queue; a small one, if the writer must not wait."""
        batch: list[Piece] = []
        size, most = 0, MAX_BATCH if wait else LOOP_SIZE
        with self._changed:
            first = self._first()
            is_large = isinstance(first, Submission) and first.is_large
            queue: deque[Any] = self._large if is_large else self._waiting
            while queue and not isinstance(queue[0], Job):
                submission: Submission = queue[0]
                fits = size + submission.size <= most and not submission.results
                if batch and (submission.alone or not fits):
                    break
                queue.popleft()
                operations = submission.operations if fits else self._cut(submission, most)
                batch.append(Piece(submission, operations))
                size += submission.size
                if submission.alone or not fits:
                    break
            self._in_flight = [piece.submission for piece in batch]
        return batch

    def _cut(self, submission: Submission, most: int) -> Sequence[Operation]:
        """Return the next operations of a submission, no more work than this, but at least one."""
        start = end = len(submission.results)
        size = 0
        while end < len(submission.operations):
            size += self._size_of(submission.operations[end])
            if size > most and end > start:
                break
            end += 1
        return submission.operations[start:end]

    def _put_back(self, batch: list[Piece], *, alone: bool = False, resize: bool = False) -> None:
        """Put a batch back at the front of its queue, and leave it to the thread."""
        with self._changed:
            self._in_flight = ()
            for submission, _ in reversed(batch):
                if not submission.answered:
                    submission.alone = submission.alone or alone
                    if resize:
                        self._count(submission, -1)
                        submission.size = sum(map(self._size_of, submission.operations))
                        self._count(submission, 1)
                    self._queue(submission).appendleft(submission)
            self._wake()

    def _add_results(self, submission: Submission, results: list[Result]) -> bool:
        """Keep results; return whether all are there. The caller holds the lock."""
        submission.results += results
        self._pending -= len(results)
        submission.answered = len(submission.results) == len(submission.operations)
        submission.aside = None
        if submission.answered:
            self._count(submission, -1)
        return submission.answered

    def _write(self, *, wait: bool) -> None:
        """Perform the next batch, and pass the results to the callbacks."""
        batch = self._take(wait)
        if not batch:
            return
        operations = [operation for piece in batch for operation in piece.operations]
        self._is_large_turn = not batch[0].submission.is_large
        started = time.monotonic()
        try:
            results = self._perform(operations, wait, self._aside_of(batch))
            self.failure = None
        except ComputeAsideError:
            self._compute(batch[0].submission)
            return
        except MoreWorkError:
            self._put_back(batch, resize=True)
            return
        except StoreUnavailableError as error:
            self._note_failure(str(error))
            results = [error] * len(operations)
        except WouldWaitError:
            self._put_back(batch)
            raise
        except Exception as error:
            if len(batch) > 1:
                # Some submission made the batch fail: write each alone, so that others succeed.
                self._put_back(batch, alone=True)
                return
            if not isinstance(error, TaskLockedError):
                log.exception("a batch of %d operations failed", len(operations))
            internal = MixtsError(f"internal error: {type(error).__name__}")
            results = [error if isinstance(error, StoreError) else internal] * len(operations)
        except BaseException:
            self._put_back(batch)
            raise
        self.batches += 1
        self.batch_operations += len(results)
        self._answer(batch, results)
        if self.failure and time.monotonic() - started > SLOW_STORE_SECONDS:
            # The store was silent. The others would wait as long, one batch after the other.
            self._refuse_all(StoreUnavailableError(self.failure))

    def _aside_of(self, batch: list[Piece]) -> Aside | None:
        """Return the computation of a batch that is one large operation; None for others."""
        submission, operations = batch[0]
        is_one = submission.is_large and len(batch) == len(operations) == 1
        if not is_one or self._size_of(operations[0]) <= MAX_BATCH:
            return None
        if submission.aside is None:
            submission.aside = Aside()
        return submission.aside

    def _answer(self, batch: list[Piece], results: list[Result]) -> None:
        """Call back the submissions that are complete, and put the others back."""
        complete: list[Submission] = []
        start = 0
        with self._changed:
            self._in_flight = ()
            for submission, operations in batch:
                end = start + len(operations)
                if not submission.answered:  # else it was refused, because it took too long
                    is_complete = self._add_results(submission, results[start:end])
                    (complete if is_complete else self._large).append(submission)
                start = end
            if self._closed:
                self._changed.notify_all()
        for submission in complete:
            _call_back(submission)

    def _retry_store(self) -> None:
        try:
            self._probe()
            self.failure = None
            log.warning("the store can be written to again")
        except Exception as error:  # of any type: the thread must go on to serve requests
            self._note_failure(str(error) or type(error).__name__)

    def _note_failure(self, reason: str) -> None:
        if self.failure is None:
            log.error("the store cannot be written to: %s", reason)
        with self._changed:
            self.failure = reason
            self._changed.notify()  # the thread begins to probe the store


_CLOSED = StoreUnavailableError(
    "the decider was closed before this decision was made: nothing was changed"
)


def _tell(refused: Sequence[Submission | Job], error: StoreError) -> None:
    """Call back for what was refused."""
    for part in refused:
        if isinstance(part, Submission):
            _call_back(part)
        elif not part.future.done():
            part.future.set_exception(error)


def _call_back(submission: Submission) -> None:
    """Call a submission's callback with the results of its operations."""
    try:
        submission.done(submission.results)
    except Exception:
        n = len(submission.operations)
        log.exception("could not pass on the results of %d operations", n)
