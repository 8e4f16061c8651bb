"""The clock of stores in a file: the wall clock, without its jumps.

A store in PostgreSQL has the server's clock instead, because replicas on several machines share it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

log = logging.getLogger("mixts_serve")

CORRECTION = 0.1
"""Largest rate at which a difference from the wall clock is made up for: 6 seconds a minute."""

JUMP_US = 10_000_000
"""Difference from the wall clock, in microseconds, from which on a warning is logged."""


class SteadyClock:
    """Microseconds since 1970 that never jump and never go back.

    The clock starts with the wall clock and follows it, but each second of it lasts between 0.9 and
    1.1 seconds of the machine's monotonic clock. If the wall clock jumps by a day, a reward window
    ends at most 10 % too early or too late. Small corrections, as those of NTP, are followed at
    once. Several threads may read the clock.

    Parameters
    ----------
    wall, monotonic : callable
        The two clocks, in nanoseconds.
    """

    def __init__(
        self,
        wall: Callable[[], int] = time.time_ns,
        monotonic: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._wall, self._monotonic = wall, monotonic
        self._lock = threading.Lock()
        self._read_at = monotonic()
        self._now = float(wall()) / 1000
        self._has_warned = False

    def now_us(self) -> int:
        """Return microseconds since 1970."""
        with self._lock:
            read_at = self._monotonic()
            elapsed = (read_at - self._read_at) / 1000
            self._read_at = read_at
            behind = self._wall() / 1000 - (self._now + elapsed)
            most = CORRECTION * elapsed
            self._now += elapsed + min(max(behind, -most), most)
            self._warn(behind)
            return int(self._now)

    def _warn(self, behind: float) -> None:
        """Log a warning when the wall clock has jumped, once until both clocks agree again."""
        if abs(behind) < JUMP_US:
            self._has_warned = False
        elif not self._has_warned:
            self._has_warned = True
            log.warning(
                "the system's clock jumped %s by %.0f seconds: times and reward windows follow it "
                "by 6 seconds a minute; after a restart the system's clock counts",
                "forward" if behind > 0 else "back", abs(behind) / 1e6,
            )  # fmt: skip


_CLOCK = SteadyClock()
"""The clock of all deciders of this process."""


def now_us() -> int:
    """Return microseconds since 1970, which do not follow jumps of the system's clock."""
    return _CLOCK.now_us()
