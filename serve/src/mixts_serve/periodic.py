"""Threads beside the requests: ``Periodic``, and the one that ends reward windows.

``WindowCloser`` finds windows that are due in the store, a bounded number at a time, and submits
their ends like any other operation. The batch checks again, under the locks of the tasks, that no
reward has come. So several replicas may do the same work: each default is written once.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import ClassVar

from mixts.errors import MixtsError, TaskLockedError
from mixts_serve.logs import described
from mixts_serve.records import Expire, Operation, Receipt, Result
from mixts_serve.store import DecisionStore

log = logging.getLogger("mixts_serve")

CLOSE_SECONDS = 2.0
"""Time to wait for the thread when it ends; what it does can be done again by the next service."""


class Periodic(ABC):
    """Works in its own thread, from ``start`` to ``close``."""

    thread_name: ClassVar[str]
    trouble: ClassVar[str]
    """What a failure means, for the log."""

    def __init__(self, delay: float = 0.0) -> None:
        self._delay = delay
        """Seconds from the start to the first call."""
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name=self.thread_name, daemon=True)

    @abstractmethod
    def work(self) -> float:
        """Do some work; return the seconds until the next call."""

    @abstractmethod
    def pause(self) -> float:
        """Return the seconds after a failure until the next call."""

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def close(self) -> None:
        """End the thread; do not wait for a store that is silent."""
        self._closed.set()
        if self._thread.is_alive():
            self._thread.join(CLOSE_SECONDS)

    def _run(self) -> None:
        seconds, has_failed = self._delay, False
        while not self._closed.wait(seconds):
            try:
                seconds, has_failed = self.work(), False
            except Exception as error:
                if not has_failed and not self._closed.is_set():  # the first of a row
                    log.warning("%s: %s", self.trouble, described(error))
                seconds, has_failed = self.pause(), True


# -- reward windows -------------------------------------------------------------------------------

WINDOW_BATCH = 64
"""Most windows that are ended in one transaction: others wait for it for a few milliseconds."""

POLL_SECONDS = 1.0
"""Mean time between searches for windows that have ended."""

LOOK_SECONDS = 60.0
"""Time between looks at the values of rewards, while there is no default reward."""

Submit = Callable[[Sequence[Operation], Callable[[list[Result]], None]], None]


class WindowCloser(Periodic):
    """Ends windows in its own thread."""

    thread_name = "mixts-windows"
    trouble = "default rewards wait until the store can be used"

    def __init__(self, store: DecisionStore, submit: Submit, has_default: bool) -> None:
        super().__init__()
        self._store = store
        self._submit = submit
        self._has_default = has_default
        self._ends_windows: bool | None = None
        """Whether some windows end with a default reward; None: not known yet."""
        self._look_at = 0.0
        """Time of the next look at the values."""
        self.only_value: float | None = None
        """The one value of all rewards, if the log looks like one of clicks only."""

    def end_windows(self) -> int:
        """End all windows that are due; return how many default rewards were written."""
        n_written = 0
        while not self._closed.is_set():
            ids = self._store.due(self._store.backend.now_us(), WINDOW_BATCH)
            if not ids:
                break
            future: Future[list[Result]] = Future()
            self._submit([Expire(id) for id in ids], future.set_result)
            results = future.result()
            for result in results:
                if isinstance(result, MixtsError) and not isinstance(result, TaskLockedError):
                    raise result
            n_written += sum(isinstance(r, Receipt) and not r.duplicate for r in results)
            n_ended = sum(isinstance(r, Receipt) for r in results)
            if len(ids) < WINDOW_BATCH or not n_ended:
                break
        return n_written

    def work(self) -> float:
        """End windows, and look at the values of rewards."""
        if self._ends_windows is None:
            # Windows of an earlier service, with other settings, end as they were meant to.
            self._ends_windows = self._has_default or self._store.has_open_defaults()
        if not self._has_default and time.monotonic() >= self._look_at:
            self._look_at_values()
            self._look_at = time.monotonic() + LOOK_SECONDS
        if self._ends_windows:
            self.end_windows()
        return self.pause() if self._ends_windows else LOOK_SECONDS

    def pause(self) -> float:
        """Return a random time: replicas that wake at different times find different windows."""
        return POLL_SECONDS * random.uniform(0.5, 1.5)

    def _look_at_values(self) -> None:
        """Log a warning if rewards seem to come for clicks only."""
        before, self.only_value = self.only_value, self._store.only_value()
        if self.only_value is not None and before is None:
            log.warning("%s", silence_warning(self.only_value))


def silence_warning(value: float) -> str:
    """Return the warning about a log whose rewards all have one value."""
    return (
        f"every reward that came is {value:g}, and most decisions have none: if rewards only come "
        "for clicks, beliefs are far too high; set --reward-window and --default-reward 0"
    )
