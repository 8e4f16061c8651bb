"""The thread that checks the content of the store, a few rows at a time.

A piece takes about two milliseconds and is followed by a pause, so that the check costs at most one
percent of a core, whatever the size of the store. At most one pass a day.
"""

from __future__ import annotations

import logging
import threading
import time

from mixts.errors import MixtsError
from mixts.service.store import DecisionStore

log = logging.getLogger("mixts.service")

PAUSE_SECONDS = 0.2
"""Time between two pieces: of 250 rows each, about 100 million rows are checked in a day."""

PASS_SECONDS = 86_400.0
"""Time from the begin of a pass to the begin of the next one."""

CLOSE_SECONDS = 5.0
"""Longest time to wait for the end of a piece, which only reads."""

_SHOWN = 3
"""Number of damages in the warning."""


class StoreChecker:
    """Checks a store in its own thread, from ``start`` to ``close``."""

    def __init__(self, store: DecisionStore) -> None:
        self._store = store
        self._closed = threading.Event()
        self._found: dict[str, None] = {}
        self.passes = 0
        """Number of passes through the whole store."""
        self._thread = threading.Thread(target=self._run, name="mixts-checker", daemon=True)

    @property
    def n_damages(self) -> int:
        """Number of damages that were found, such as a row that differs from its checksum."""
        return len(self._found)

    @property
    def warning(self) -> str | None:
        """What is wrong with the store, and what to do; None if nothing was found."""
        if not self._found:
            return None
        found = list(self._found)
        more = f", and {len(found) - _SHOWN:,} more" if len(found) > _SHOWN else ""
        return (
            f"the store is damaged: {'; '.join(found[:_SHOWN])}{more}. Stop the service and bring "
            "the store back from a copy; 'mixts store rebuild --check' lists all that is wrong"
        )

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def close(self) -> None:
        """End the thread; do not wait for a disk that hangs."""
        self._closed.set()
        if self._thread.is_alive():
            self._thread.join(CLOSE_SECONDS)

    def _run(self) -> None:
        while not self._closed.wait(PAUSE_SECONDS):
            started, n_pieces = time.monotonic(), 0
            try:
                for wrong in self._store.backend.check():
                    n_pieces += 1
                    self._note(wrong)
                    if self._closed.wait(PAUSE_SECONDS):
                        return
                self.passes += n_pieces > 0  # PostgreSQL has checks of its own
            except MixtsError:  # the store cannot be read: requests are told why
                pass
            except Exception:
                log.exception("the check of the store failed")
            if self._closed.wait(max(PASS_SECONDS - (time.monotonic() - started), 0.0)):
                return

    def _note(self, wrong: list[str]) -> None:
        for damage in wrong:
            if damage not in self._found:
                log.error("%s is damaged: %s", self._store.name, damage)
                self._found[damage] = None
