"""When a request is sent again: how often, after what pause, and until when."""

from __future__ import annotations

import random
from collections.abc import Callable

from mixts.errors import MixtsError

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 2.0
"""Seconds: the most before the first repetition, doubled each time up to the longest."""


class Attempts:
    """The attempts of one call, at most ``retries`` + 1 and none after ``deadline`` seconds.

    Pauses are exponential with full jitter, so that many clients do not come back at once, and
    begin where the service's Retry-After ends. A pause that would end after the deadline is not
    made: whoever calls learns at once.
    """

    def __init__(
        self, retries: int, timeout: float, deadline: float, clock: Callable[[], float]
    ) -> None:
        self._retries, self._timeout = retries, timeout
        self._clock = clock
        self._end = clock() + deadline
        self._made = 0

    def timeout(self) -> float:
        """How long the next attempt may wait for the network."""
        return max(min(self._timeout, self._end - self._clock()), 0.001)

    def pause(self, error: MixtsError, retry_after: str | None = None) -> float:
        """How long to wait before the next attempt; the error itself if there is none."""
        self._made += 1
        longest = min(FIRST_PAUSE * 2 ** (self._made - 1), LONGEST_PAUSE)
        seconds = _seconds(retry_after) + random.uniform(0, longest)
        if self._made > self._retries or self._clock() + seconds >= self._end:
            if self._made > 1:
                error.add_note(f"after {self._made} attempts")
            raise error
        return seconds


def _seconds(retry_after: str | None) -> float:
    """Of a Retry-After header; a date or anything else counts as none."""
    text = (retry_after or "").strip()
    return float(text) if text.isascii() and text.isdigit() else 0.0
