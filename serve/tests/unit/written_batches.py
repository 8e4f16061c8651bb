"""A function that performs batches, and a callback, for tests of the writer."""

from __future__ import annotations

import threading

from mixts_serve.records import Operation, Receipt, Result
from mixts_serve.store.base import WouldWaitError

from mixts.errors import StoreUnavailableError


class Work:
    """Performs batches, and records them and the threads that wrote them."""

    def __init__(self) -> None:
        self.batches: list[list[Operation]] = []
        self.threads: list[str] = []
        self.is_away = False
        self.bad: Operation | None = None
        self.must_wait = False
        """Whether a batch that must not wait is refused."""

    def __call__(self, operations: list[Operation], wait: bool) -> list[Result]:
        if self.must_wait and not wait:
            raise WouldWaitError
        if self.is_away:
            raise StoreUnavailableError("the disk is away")
        if self.bad in operations:
            raise ZeroDivisionError
        self.batches.append(list(operations))
        self.threads.append(threading.current_thread().name)
        return [Receipt(duplicate=False, late=False) for _ in operations]


class Callback:
    """Callback of submissions that collects their results."""

    def __init__(self) -> None:
        self.results: list[Result] = []
        self._calls = threading.Semaphore(0)

    def __call__(self, results: list[Result]) -> None:
        self.results += results
        self._calls.release()

    def wait(self, times: int = 1) -> None:
        """Wait until the callback was called this many times."""
        for _ in range(times):
            assert self._calls.acquire(timeout=10), "the callback was not called"
