"""A thread that does the same work again and again, beside the requests."""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from typing import ClassVar

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
                    log.warning("%s: %s", self.trouble, error)
                seconds, has_failed = self.pause(), True
