"""Benchmarks of reinforcement learning: an episode is sample, plan, play and update."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import river
from benchmark import Benchmark
from problems import Array

N_EPISODES = 500
N_LAST = 100
N_WARM = 20


class Played(NamedTuple):
    """What a chunk of runs gave."""

    seconds: float
    """Per episode of one run."""
    returns: Array
    """(runs,), mean over the last episodes."""
    tables: river.Tables
    """The MDPs of the runs."""


@dataclass(frozen=True, kw_only=True)
class EpisodeBenchmark(Benchmark):
    """``ours`` and ``peer`` are given a chunk's number and how many episodes; fresh agents play
    them in MDPs of their own. One core for either side."""

    ours: Callable[[int, int], Played]
    peer: Callable[[int, int], Played]
    our_threads: int | None = 1
    peer_threads: tuple[int, ...] = (1,)

    @property
    def labels(self) -> tuple[str, ...]:
        return (f"mean of {N_EPISODES} episodes",)

    def chunk(self, side: str, index: int) -> dict[str, Any]:
        play = self.ours if side == "ours" else self.peer
        play(index + 1, N_WARM)
        gc.collect()
        played = play(index, N_EPISODES)
        return {
            "seconds": dict.fromkeys(self.labels, played.seconds),
            "regret": river.relative_regret(played.tables, played.returns),
        }

    def fingerprint(self) -> list[float]:
        return river.fingerprint()
