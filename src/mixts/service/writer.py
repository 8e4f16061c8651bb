"""The writer: operations that wait together are written together, in one transaction.

The writer has a thread of its own. An event loop that submits operations also writes small batches
itself, as long as that is quick: two threads that both compute hand the interpreter to each other
at every SQL statement (docs/decisions.md has the measurements). The event loop cannot serve other
requests meanwhile, so the thread writes large batches, batches that would have to wait for another
process or a server, and for a while everything that follows slow batches.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence, Sized
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from mixts.errors import (
    MixtsError,
    OverloadedError,
    ParameterError,
    StoreError,
    StoreUnavailableError,
)
from mixts.service.records import Decide, Operation, Result
from mixts.service.store.base import WouldWaitError

Done = Callable[[list[Result]], None]
"""Called once, with a result for each operation that was submitted."""

Perform = Callable[[list[Operation], bool], list[Result]]
"""Performs a batch in one transaction. Where the flag is false, it raises ``WouldWaitError`` rather
than wait for another process."""

CallSoon = Callable[[Callable[[], object]], object]
"""An event loop's ``call_soon``."""

log = logging.getLogger("mixts.service")

MAX_BATCH = 256
"""Operations in one transaction; a submission is never split, so a larger one is its own batch."""

LOOP_SIZE = 64
"""Operations and offered actions of the largest batch that an event loop writes."""

SLOW_SECONDS = 0.01
"""If batches take longer on average, an event loop does not write them."""

LOOP_PAUSE_SECONDS = 1.0
"""How long the thread then writes everything."""

PROBE_SECONDS = 1.0
"""Seconds between attempts to write to a store that failed, while nobody asks."""


@dataclass(frozen=True, slots=True)
class Submission:
    """Operations that were admitted together, and the callback for their results."""

    operations: Sequence[Operation]
    done: Done
    size: int
    alone: bool = False
    """Whether to write it in a batch of its own, because a batch that contained it failed."""

    @property
    def is_small(self) -> bool:
        """Whether an event loop may write it."""
        return self.size <= LOOP_SIZE and not self.alone


@dataclass(frozen=True, slots=True)
class Job:
    """Any other work for the writer's thread."""

    work: Callable[[], Any]
    future: Future[Any]


class BatchWriter:
    """Takes the operations that wait, writes them in one transaction and passes the results on.

    A batch never waits to be filled: it is what waits when the writer is free. Under load batches
    grow, and one sync of the disk serves all of their operations.
    """

    def __init__(self, perform: Perform, probe: Callable[[], None], max_pending: int) -> None:
        self._perform = perform
        self._probe = probe
        self._max_pending = max_pending
        self._waiting: deque[Submission | Job] = deque()
        self._pending = 0
        self._changed = threading.Condition()
        self._turn = threading.Lock()
        """Held by the thread that writes."""
        self._wanted = False
        """Whether the thread has something to do."""
        self._closed = False
        self._scheduled: CallSoon | None = None
        """The event loop that will write the next batch, if the thread does not."""
        self._no_loop_before = 0.0
        self._usual_seconds = 0.0
        self.failure: str | None = None
        """Why the last write failed; None if it did not."""
        self.batches = 0
        self.batch_operations = 0
        self._thread = threading.Thread(target=self._run, name="mixts-writer", daemon=True)
        self._thread.start()

    @property
    def pending(self) -> int:
        """Number of operations that were admitted and have no result yet."""
        return self._pending

    def submit(
        self, operations: Sequence[Operation], done: Done, call_soon: CallSoon | None = None
    ) -> None:
        """Admit all of the operations, or raise and admit none.

        With ``call_soon``, the event loop that calls this may write them, in a later turn.
        """
        if len(operations) > self._max_pending:
            raise ParameterError(
                f"at most {self._max_pending:,} operations are taken at once, got "
                f"{len(operations):,}: send them in parts, or raise max_pending"
            )
        with self._changed:
            self._check_open()
            if self._pending + len(operations) > self._max_pending:
                raise OverloadedError(
                    f"{self._pending:,} operations are waiting and at most {self._max_pending:,} "
                    f"may: {len(operations):,} more were not taken on; try again later"
                )
            submission = Submission(operations, done, _size(operations))
            self._pending += len(operations)
            self._waiting.append(submission)
            self._schedule(call_soon if submission.is_small else None)

    def run(self, work: Callable[[], Any]) -> Any:
        """Call a function in the writer's thread, and return its result."""
        future: Future[Any] = Future()
        with self._changed:
            self._check_open()
            self._waiting.append(Job(work, future))
            self._wake()
        return future.result()

    def close(self) -> None:
        """Write what was admitted, and end the thread."""
        with self._changed:
            self._closed = True
            self._wake()
        self._thread.join()

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError("the decider is closed")

    # -- who writes; callers hold the lock of ``_changed`` ------------------------------------

    def _schedule(self, call_soon: CallSoon | None) -> None:
        """Make sure that the event loop or the thread writes what waits."""
        if call_soon is None or time.monotonic() < self._no_loop_before:
            self._wake()
        elif call_soon != self._scheduled:
            try:
                # Not in the loop's next turn but in the one after: requests that arrive until then
                # are part of the batch.
                call_soon(partial(call_soon, partial(self._write_in_loop, call_soon)))
                self._scheduled = call_soon
            except RuntimeError:  # the loop is closed
                self._wake()

    def _wake(self) -> None:
        self._wanted = True
        self._changed.notify()

    # -- in the event loop's thread -----------------------------------------------------------

    def _write_in_loop(self, call_soon: CallSoon) -> None:
        """Write a batch, unless that is the thread's work."""
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
        self._judge(time.monotonic() - started)
        with self._changed:
            if self._waiting:
                in_loop = not would_wait and self._next_is_small()
                self._schedule(call_soon if in_loop else None)

    def _judge(self, seconds: float) -> None:
        """Leave everything to the thread for a while if batches are slow on average."""
        self._usual_seconds += 0.1 * (seconds - self._usual_seconds)
        if self._usual_seconds > SLOW_SECONDS:
            self._usual_seconds = 0.0
            self._no_loop_before = time.monotonic() + LOOP_PAUSE_SECONDS

    def _next_is_small(self) -> bool:
        first = self._waiting[0] if self._waiting else None
        return isinstance(first, Submission) and first.is_small

    # -- in the writer's thread ---------------------------------------------------------------

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._wanted:
                    # Operations may wait for an event loop that has ended.
                    timeout = PROBE_SECONDS if self.failure or self._waiting else None
                    if not self._changed.wait(timeout):
                        break
                self._wanted = False
                closed = self._closed
            with self._turn:
                if self.failure and not self._waiting:
                    self._retry_store()
                self._work(closed)
            if closed:
                return

    def _work(self, closed: bool) -> None:
        """Write what waits, until an event loop does."""
        is_first = True
        while self._waiting:
            first = self._waiting[0]
            if isinstance(first, Job):
                self._waiting.popleft()
                self._do(first)
                continue
            if self._scheduled and first.is_small and not is_first and not closed:
                return  # the loop writes it, which is quicker
            self._write(wait=True)
            is_first = False

    def _do(self, job: Job) -> None:
        try:
            job.future.set_result(job.work())
        except BaseException as error:
            job.future.set_exception(error)

    # -- writing; callers hold ``_turn`` ------------------------------------------------------

    def _take(self, wait: bool) -> list[Submission]:
        """Remove the next batch from what waits; small ones, if the writer must not wait."""
        batch: list[Submission] = []
        n = size = 0
        with self._changed:
            while self._waiting:
                first = self._waiting[0]
                if isinstance(first, Job):
                    break
                n, size = n + len(first.operations), size + first.size
                is_full = n > MAX_BATCH or (size > LOOP_SIZE and not wait) or first.alone
                if batch and is_full:
                    break
                self._waiting.popleft()
                batch.append(first)
                if first.alone:
                    break
        return batch

    def _put_back(self, batch: list[Submission]) -> None:
        """Undo ``_take``, and leave the batch to the thread."""
        with self._changed:
            self._waiting.extendleft(reversed(batch))
            self._wake()

    def _write(self, *, wait: bool) -> None:
        """Perform the next batch and pass the results on."""
        batch = self._take(wait)
        operations = [operation for part in batch for operation in part.operations]
        try:
            results = self._perform(operations, wait)
            self.failure = None
        except StoreUnavailableError as error:
            self._note(str(error))
            results = [error] * len(operations)
        except WouldWaitError:
            self._put_back(batch)
            raise
        except Exception as error:
            if len(batch) > 1:
                # One submission is at fault: write each by itself, so that the others succeed.
                self._put_back([replace(part, alone=True) for part in batch])
                return
            log.exception("a batch of %d operations failed", len(operations))
            internal = MixtsError(f"internal error: {type(error).__name__}")
            results = [error if isinstance(error, StoreError) else internal] * len(operations)
        except BaseException:
            self._put_back(batch)
            raise
        self.batches += 1
        self.batch_operations += len(results)
        with self._changed:
            self._pending -= len(results)
        _pass_on(batch, results)

    def _retry_store(self) -> None:
        try:
            self._probe()
            self.failure = None
            log.warning("the store can be written to again")
        except Exception as error:  # any: without this thread, no request would get a response
            self._note(str(error) or type(error).__name__)

    def _note(self, reason: str) -> None:
        if self.failure is None:
            log.error("the store cannot be written to: %s", reason)
        with self._changed:
            self.failure = reason
            self._changed.notify()  # the thread begins to probe the store


def _pass_on(batch: Sequence[Submission], results: list[Result]) -> None:
    start = 0
    for part in batch:
        end = start + len(part.operations)
        try:
            part.done(results[start:end])
        except Exception:
            log.exception("could not pass on the results of %d operations", end - start)
        start = end


def _size(operations: Sequence[Operation]) -> int:
    """Estimate the work: the number of operations and of actions that are offered."""
    n = len(operations)
    for operation in operations:
        if isinstance(operation, Decide) and isinstance(operation.actions, Sized):
            n += len(operation.actions)
    return n
