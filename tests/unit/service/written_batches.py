"""A loop, work and somebody to tell, for tests of who performs groups."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from mixts.errors import StoreUnavailableError
from mixts.service.records import Operation, Receipt, Result
from mixts.service.store.base import WouldWaitError


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
        self.batches: list[list[Operation]] = []
        self.threads: list[str] = []
        self.would_wait = self.is_away = False
        self.bad: Operation | None = None
        self.interrupt = False

    def __call__(self, operations: list[Operation], wait: bool) -> list[Result]:
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
