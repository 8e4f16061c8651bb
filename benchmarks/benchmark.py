"""What a benchmark is: a problem, our player, the peer's player and what is asked of the ratio."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from problems import N_ROUNDS, Problem


class Player(NamedTuple):
    """One fresh agent: ``act(actions) -> index`` and ``update(actions, index, reward)``."""

    act: Callable[[Any], int]
    update: Callable[[Any, int, float], None]


@dataclass(frozen=True)
class Benchmark:
    """One problem and the two sides that play it.

    ``ours`` and ``peer`` are given the task's number as their seed and make a fresh
    player. They import their library when called: no process has both.
    """

    name: str
    title: str
    problem: Problem
    ours: Callable[[int], Player]
    peer: Callable[[int], Player]
    peer_name: str
    target: float | None
    windows: tuple[tuple[str, int], ...] = (
        ("first 20 rounds", 20),
        (f"mean of {N_ROUNDS} rounds", N_ROUNDS),
    )


WHOLE_RUN = ((f"mean of {N_ROUNDS} rounds", N_ROUNDS),)
