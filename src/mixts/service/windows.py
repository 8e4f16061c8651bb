"""The thread that ends reward windows: it asks for the default rewards of silent decisions.

The thread finds what is due in the store, a bounded number at a time, and submits it like any other
operation. The batch checks again, under the locks of the tasks, that no reward has come. So several
replicas may do the same work: each default is written once.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import TypeVar

from mixts.errors import MixtsError, TaskLockedError
from mixts.service.records import Expire, Operation, Receipt, Result
from mixts.service.store import DecisionStore

log = logging.getLogger("mixts.service")

WINDOW_BATCH = 64
"""Most windows that are ended in one transaction: others wait for it for a few milliseconds."""

POLL_SECONDS = 1.0
"""Mean time between searches for windows that have ended."""

CLOSE_SECONDS = 2.0
"""Time to wait for the thread when it ends; what it does can be done again by the next service."""

LOOK_SECONDS = 60.0
"""Time between looks at the values of rewards, while there is no default reward."""

Value = TypeVar("Value")
Submit = Callable[[Sequence[Operation], Callable[[list[Result]], None]], None]


class WindowCloser:
    """Ends windows in its own thread, from ``start`` to ``close``."""

    def __init__(self, store: DecisionStore, submit: Submit, has_default: bool) -> None:
        self._store = store
        self._submit = submit
        self._has_default = has_default
        self._closed = threading.Event()
        self._has_failed = False
        self.only_value: float | None = None
        """The one value of all rewards, if the log looks like one of clicks only."""
        self._thread = threading.Thread(target=self._run, name="mixts-windows", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def close(self) -> None:
        """End the thread, after the transaction that it waits for, unless the store is silent."""
        self._closed.set()
        if self._thread.is_alive():
            self._thread.join(CLOSE_SECONDS)

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

    # -- in the thread ------------------------------------------------------------------------

    def _run(self) -> None:
        # Windows of an earlier service, with other settings, end as they were meant to.
        polls = self._has_default or self._try(self._store.has_open_defaults) is not False
        look_at = 0.0
        while True:
            if polls:
                self._try(self.end_windows)
            if not self._has_default and time.monotonic() >= look_at:
                self._try(self._look_at_values)
                look_at = time.monotonic() + LOOK_SECONDS
            # Replicas that wake at different times seldom find the same windows.
            pause = (POLL_SECONDS if polls else LOOK_SECONDS) * random.uniform(0.5, 1.5)
            if self._closed.wait(pause):
                return

    def _try(self, work: Callable[[], Value]) -> Value | None:
        """Call a function; log the first error of a row, after which the next poll tries again."""
        try:
            value = work()
        except Exception as error:
            if not self._has_failed and not self._closed.is_set():
                log.warning("default rewards wait until the store can be used: %s", error)
            self._has_failed = True
            return None
        self._has_failed = False
        return value

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
