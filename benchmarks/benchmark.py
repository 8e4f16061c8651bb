"""What a benchmark is: two sides that play one problem, and what is asked of the ratio."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Benchmark(ABC):
    """One problem and the two sides that play it. Each imports its library only when it is asked
    to play: no process has both."""

    name: str
    title: str
    peer_name: str
    target: float | None
    """How many times as fast as the peer; None: for information."""
    target_time: float | None = None
    """Seconds that a round or an episode of ours may take; None: no matter."""
    our_threads: int | None = None
    """None leaves every library at its own default."""
    peer_threads: tuple[int, ...] = (1, 2)
    """The settings to try; the fastest is compared with."""

    @property
    @abstractmethod
    def labels(self) -> tuple[str, ...]:
        """What is timed, a row of the table each."""

    @abstractmethod
    def chunk(self, side: str, index: int) -> dict[str, Any]:
        """Play chunk ``index`` as ``"ours"`` or ``"peer"``: ``seconds`` by label, and ``regret``
        late in the chunk relative to uniform play."""

    @abstractmethod
    def fingerprint(self) -> list[float]:
        """A few numbers that differ if anything in the problem differs."""
