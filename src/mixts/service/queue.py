"""One writer, many callers: what waits together is committed together."""

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
from mixts.service.store.backend import WouldWaitError

Done = Callable[[list[Result]], None]
Take = Callable[[], list[Operation]]
Later = Callable[[Callable[[], object]], object]

log = logging.getLogger("mixts.service")

MAX_GROUP = 256
"""Operations in one commit; a submission is never split, so a larger one is a group of its own."""

HERE_SIZE = 64
"""Operations and offered actions of a group in somebody else's thread, which it holds up."""

SLOW_SECONDS = 0.01
"""Where groups take longer, on average, they have nothing to do in somebody else's thread."""

THREAD_SECONDS = 1.0
"""How long they are left to the writer's thread then."""

PROBE_SECONDS = 1.0
"""How often a store that failed is tried again while nobody asks."""


@dataclass(frozen=True, slots=True)
class Submission:
    """Operations that were admitted together, and whom to tell."""

    operations: Sequence[Operation]
    done: Done
    size: int
    alone: bool = False
    """Whether it shall be a group of its own, because one that it was in failed."""


@dataclass(frozen=True, slots=True)
class Job:
    """Anything else that the writer must do, by itself."""

    work: Callable[[], Any]
    future: Future[Any]


class GroupWriter:
    """Takes all that waits, performs it in one transaction and then tells everybody.

    Nobody waits for company: a group is what came before its transaction had begun. Under load
    groups grow, and one sync of the disk serves them all. ``perform`` is given a function that
    takes the group, to be called as late as can be (calling it again gives the same), and whether
    it may wait for others. It is called in a thread of its own, or in those of who submits.
    """

    def __init__(
        self,
        perform: Callable[[Take, bool], list[Result]],
        probe: Callable[[], None],
        max_pending: int,
    ) -> None:
        self._perform = perform
        self._probe = probe
        self._max_pending = max_pending
        self._waiting: deque[Submission | Job] = deque()
        self._pending = 0
        self._changed = threading.Condition()
        self._turn = threading.Lock()
        """Held by whoever writes."""
        self._wanted = False
        """Whether the thread is asked to perform what waits."""
        self._closed = False
        self._scheduled: Later | None = None
        """Where a group is to be performed, if not by the thread."""
        self._not_here_before = 0.0
        self._usual_seconds = 0.0
        self.failure: str | None = None
        """Why the last write failed; None when it did not."""
        self.groups = 0
        self.group_operations = 0
        self._thread = threading.Thread(target=self._run, name="mixts-writer", daemon=True)
        self._thread.start()

    @property
    def pending(self) -> int:
        """Operations that were admitted and not yet answered."""
        return self._pending

    def submit(
        self, operations: Sequence[Operation], done: Done, later: Later | None = None
    ) -> None:
        """Admit all of the operations, or raise and admit none.

        ``later`` calls a function later in the calling thread, where they are performed then. What
        is large, what would wait for others, and for a while all that follows slow groups, is left
        to the writer's thread.
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
            one = Submission(operations, done, _size(operations))
            self._pending += len(operations)
            self._waiting.append(one)
            self._arrange(later if one.size <= HERE_SIZE else None)

    def run(self, work: Callable[[], Any]) -> Any:
        """Do something in the writer's thread, and wait for it."""
        future: Future[Any] = Future()
        with self._changed:
            self._check_open()
            self._waiting.append(Job(work, future))
            self._wake()
        return future.result()

    def close(self) -> None:
        """Finish what was admitted, and end."""
        with self._changed:
            self._closed = True
            self._wake()
        self._thread.join()

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError("the decider is closed")

    # -- who writes; all with the lock of ``_changed`` ----------------------------------------

    def _arrange(self, later: Later | None) -> None:
        """See to it that somebody performs what waits."""
        if later is None or time.monotonic() < self._not_here_before:
            self._wake()
        elif later != self._scheduled:
            try:
                # Not at the next turn but one later: requests that arrive before it come along.
                later(partial(later, partial(self._write_here, later)))
                self._scheduled = later
            except RuntimeError:  # whoever it was has ended
                self._wake()

    def _wake(self) -> None:
        self._wanted = True
        self._changed.notify()

    # -- somebody else's thread ---------------------------------------------------------------

    def _write_here(self, later: Later) -> None:
        """Perform a group, unless it is the thread's business."""
        self._scheduled = None
        if not self._turn.acquire(blocking=False):
            with self._changed:
                self._wake()  # it may just have found that nothing waits
            return
        started = time.monotonic()
        would_wait = False
        try:
            if self._waiting and _is_light(self._waiting[0]):
                self._write([], wait=False)
        except WouldWaitError:
            would_wait = True
        finally:
            self._turn.release()
        self._judge(time.monotonic() - started)
        with self._changed:
            if self._waiting:
                here = not would_wait and _is_light(self._waiting[0])
                self._arrange(later if here else None)

    def _judge(self, seconds: float) -> None:
        """One that is slow may be chance; of several, or a very slow one, it is not."""
        self._usual_seconds += 0.1 * (seconds - self._usual_seconds)
        if self._usual_seconds > SLOW_SECONDS:
            self._usual_seconds = 0.0
            self._not_here_before = time.monotonic() + THREAD_SECONDS

    # -- the thread ---------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._wanted:
                    # Something may wait for a loop that has ended.
                    look_again = PROBE_SECONDS if self.failure or self._waiting else None
                    if not self._changed.wait(look_again):
                        break
                self._wanted = False
                closed = self._closed
            with self._turn:
                if self.failure and not self._waiting:
                    self._try_again()
                self._work(closed)
            if closed:
                return

    def _work(self, closed: bool) -> None:
        """Perform what waits, until somebody else does."""
        is_first = True
        while self._waiting:
            first = self._waiting[0]
            if isinstance(first, Job):
                self._waiting.popleft()
                self._do(first)
                continue
            if self._scheduled and _is_light(first) and not is_first and not closed:
                return  # and is quicker
            self._write([], wait=True)
            is_first = False

    def _take(self, group: list[Submission], wait: bool) -> list[Operation]:
        """The operations of a group, which is what waits now unless it was taken before."""
        if not group:
            n = size = 0
            with self._changed:
                while self._waiting:
                    first = self._waiting[0]
                    if isinstance(first, Job):
                        break
                    n, size = n + len(first.operations), size + first.size
                    is_full = n > MAX_GROUP or (size > HERE_SIZE and not wait) or first.alone
                    if group and is_full:
                        break
                    self._waiting.popleft()
                    group.append(first)
                    if first.alone:
                        break
        return [operation for part in group for operation in part.operations]

    def _put_back(self, group: list[Submission]) -> None:
        """As if it had not been taken, for the thread."""
        with self._changed:
            self._waiting.extendleft(reversed(group))
            self._wake()

    def _do(self, job: Job) -> None:
        try:
            job.future.set_result(job.work())
        except BaseException as error:
            job.future.set_exception(error)

    def _write(self, group: list[Submission], *, wait: bool) -> None:
        """Perform a group, which is what waits when it is taken, and tell everybody."""
        try:
            results = self._perform(partial(self._take, group, wait), wait)
            self.failure = None
        except StoreUnavailableError as error:
            self._note(str(error))
            results = [error] * len(self._take(group, wait))
        except WouldWaitError:
            self._put_back(group)
            raise
        except Exception as error:
            n = len(self._take(group, wait))
            if len(group) > 1:
                # One of them is at fault: the others shall not suffer from it.
                self._put_back([replace(part, alone=True) for part in group])
                return
            log.exception("a group of %d operations failed", n)
            what = MixtsError(f"internal error: {type(error).__name__}")
            results = [error if isinstance(error, StoreError) else what] * n
        except BaseException:
            self._put_back(group)
            raise
        self.groups += 1
        self.group_operations += len(results)
        with self._changed:
            self._pending -= len(results)
        start = 0
        for part in group:
            end = start + len(part.operations)
            try:
                part.done(results[start:end])
            except Exception:
                log.exception("whoever asked could not be told")
            start = end

    def _try_again(self) -> None:
        try:
            self._probe()
            self.failure = None
            log.warning("the store can be written to again")
        except Exception as error:  # whatever it is: without this thread nobody is answered
            self._note(str(error) or type(error).__name__)

    def _note(self, reason: str) -> None:
        if self.failure is None:
            log.error("the store cannot be written to: %s", reason)
        with self._changed:
            self.failure = reason
            self._changed.notify()  # from now on the thread looks again and again


def _size(operations: Sequence[Operation]) -> int:
    """How much work it is, roughly: actions that are offered count each."""
    n = len(operations)
    for operation in operations:
        if isinstance(operation, Decide) and isinstance(operation.actions, Sized):
            n += len(operation.actions)
    return n


def _is_light(first: Submission | Job) -> bool:
    """Whether somebody else's thread may perform it."""
    return isinstance(first, Submission) and first.size <= HERE_SIZE and not first.alone
