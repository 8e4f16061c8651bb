"""One writer, many callers: what waits together is committed together."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any

from mixts.errors import (
    MixtsError,
    OverloadedError,
    ParameterError,
    StoreError,
    StoreUnavailableError,
)
from mixts.service.records import Operation, Result

Done = Callable[[list[Result]], None]
Take = Callable[[], list[Operation]]

log = logging.getLogger("mixts.service")

MAX_GROUP = 256
"""Operations in one commit; a submission is never split, so a larger one is a group of its own."""

PROBE_SECONDS = 1.0
"""How often a store that failed is tried again while nobody asks."""


@dataclass(frozen=True, slots=True)
class Submission:
    """Operations that were admitted together, and whom to tell."""

    operations: Sequence[Operation]
    done: Done


@dataclass(frozen=True, slots=True)
class Job:
    """Anything else that the writer must do, by itself."""

    work: Callable[[], Any]
    future: Future[Any]


class GroupWriter:
    """A thread that takes all that waits, performs it in one transaction and then tells everybody.

    Nobody waits for company: a group is what came before its transaction had begun. Under load
    groups grow, and one sync of the disk serves them all. ``perform`` is given a function that
    takes the group, to be called as late as can be; calling it again gives the same.
    """

    def __init__(
        self,
        perform: Callable[[Take], list[Result]],
        probe: Callable[[], None],
        max_pending: int,
    ) -> None:
        self._perform = perform
        self._probe = probe
        self._max_pending = max_pending
        self._waiting: deque[Submission | Job] = deque()
        self._pending = 0
        self._changed = threading.Condition()
        self._closed = False
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

    def submit(self, operations: Sequence[Operation], done: Done) -> None:
        """Admit all of the operations, or raise and admit none."""
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
            self._pending += len(operations)
            self._waiting.append(Submission(operations, done))
            self._changed.notify()

    def run(self, work: Callable[[], Any]) -> Any:
        """Do something in the writer's thread, and wait for it."""
        future: Future[Any] = Future()
        with self._changed:
            self._check_open()
            self._waiting.append(Job(work, future))
            self._changed.notify()
        return future.result()

    def close(self) -> None:
        """Finish what was admitted, and end."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError("the decider is closed")

    # -- the thread ---------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._waiting:
                    if self._closed:
                        return
                    quiet = self._changed.wait(PROBE_SECONDS if self.failure else None)
                    if not quiet:
                        break
                first = self._waiting[0] if self._waiting else None
                if isinstance(first, Job):
                    self._waiting.popleft()
            if isinstance(first, Job):
                self._do(first)
            elif first:
                self._write([])
            elif self.failure:
                self._try_again()

    def _take(self, group: list[Submission]) -> list[Operation]:
        """The operations of a group, which is what waits now unless it was taken before."""
        if not group:
            n = 0
            with self._changed:
                while self._waiting:
                    first = self._waiting[0]
                    if isinstance(first, Job):
                        break
                    n += len(first.operations)
                    if group and n > MAX_GROUP:
                        break
                    self._waiting.popleft()
                    group.append(first)
        return [operation for part in group for operation in part.operations]

    def _do(self, job: Job) -> None:
        try:
            job.future.set_result(job.work())
        except BaseException as error:
            job.future.set_exception(error)

    def _write(self, group: list[Submission]) -> None:
        """Perform a group, or what waits when it is taken, and tell everybody."""
        try:
            results = self._perform(partial(self._take, group))
            self.failure = None
        except StoreUnavailableError as error:
            self._note(str(error))
            results = [error] * len(self._take(group))
        except Exception as error:
            n = len(self._take(group))
            if len(group) > 1:
                # One of them is at fault: the others shall not suffer from it.
                for part in group:
                    self._write([part])
                return
            log.exception("a group of %d operations failed", n)
            results = [MixtsError(f"internal error: {type(error).__name__}")] * n
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
        self.failure = reason
