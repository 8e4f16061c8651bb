"""An event loop, a function that performs batches and a callback, for tests of the writer."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from mixts.errors import StoreUnavailableError
from mixts.service.aside import Aside
from mixts.service.records import Operation, Receipt, Result
from mixts.service.store.base import WouldWaitError


class Loop:
    """Event loop that calls functions only when a test turns it."""

    def __init__(self) -> None:
        self.calls: deque[Callable[[], None]] = deque()

    def call_soon(self, function: Callable[[], None]) -> None:
        self.calls.append(function)

    def turn(self) -> None:
        """Call every function that is scheduled now."""
        for _ in range(len(self.calls)):
            self.calls.popleft()()

    def turns(self) -> None:
        """Turn until no function is scheduled."""
        while self.calls:
            self.turn()


class Work:
    """Performs batches, and records them and the threads that wrote them."""

    def __init__(self) -> None:
        self.batches: list[list[Operation]] = []
        self.threads: list[str] = []
        self.would_wait = self.is_away = False
        self.bad: Operation | None = None
        self.interrupt = False

    def __call__(
        self, operations: list[Operation], wait: bool, aside: Aside | None
    ) -> list[Result]:
        if self.is_away:
            raise StoreUnavailableError("the disk is away")
        if self.would_wait and not wait:
            raise WouldWaitError("somebody else writes")
        if self.interrupt:
            self.interrupt = False
            raise KeyboardInterrupt
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
