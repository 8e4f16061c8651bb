"""Benchmarks: two sides play the same problem, and the table shows the ratio of their times."""

from __future__ import annotations

import gc
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from problems import N_ROUNDS, Array, Problem, Task, regret, uniform_regret


@dataclass(frozen=True, kw_only=True)
class Benchmark(ABC):
    """One problem and the two sides that play it. A side imports its library only when it plays:
    no process has both."""

    name: str
    title: str
    peer_name: str
    target: float | None
    """Required ratio of the peer's time to ours; None: for information."""
    target_time: float | None = None
    """Most seconds that our round or episode may take; None: no limit."""
    our_threads: int | None = None
    """None leaves every library at its default."""
    peer_threads: tuple[int, ...] = (1, 2)
    """Settings to try for the peer; the fastest counts."""
    peer_is_ours: bool = False
    """Whether the peer is another policy of mixts, played by our interpreter."""

    @property
    @abstractmethod
    def labels(self) -> tuple[str, ...]:
        """Names of the timings, one row of the table each."""

    @abstractmethod
    def chunk(self, side: str, index: int) -> dict[str, Any]:
        """Play chunk ``index`` as ``"ours"`` or ``"peer"``. Return ``seconds`` by label, ``regret``
        late in the chunk, relative to uniform play, and perhaps ``medians`` of rounds by label."""

    @abstractmethod
    def fingerprint(self) -> list[float]:
        """Return a few numbers that differ if anything in the problem differs."""


# -- bandits: a round is one decision for one task, act and update --------------------------------

N_LAST = 100
N_WARM = 40


class Player(NamedTuple):
    """One fresh agent: ``act(actions) -> index`` and ``update(actions, index, reward)``."""

    act: Callable[[Any], int]
    update: Callable[[Any, int, float], None]


@dataclass(frozen=True, kw_only=True)
class BanditBenchmark(Benchmark):
    """A benchmark of single decisions. ``ours`` and ``peer`` make a fresh player from a seed, the
    number of the task. The ``clock`` may be that of the processor if each side has one thread."""

    problem: Problem
    ours: Callable[[int], Player]
    peer: Callable[[int], Player]
    windows: tuple[tuple[str, int], ...] = (
        ("first 20 rounds", 20),
        (f"mean of {N_ROUNDS} rounds", N_ROUNDS),
    )
    clock: Callable[[], float] = perf_counter

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(label for label, _ in self.windows)

    def chunk(self, side: str, index: int) -> dict[str, Any]:
        """Play a task with a fresh agent, after another agent has warmed the caches."""
        make = self.ours if side == "ours" else self.peer
        task = self.problem.task(index)
        play(make(index + 1), task, N_WARM)
        player = make(index)
        gc.collect()
        seconds, choices = play(player, task, N_ROUNDS, self.clock)
        return {
            "seconds": {label: float(seconds[:n].mean()) for label, n in self.windows},
            "medians": {label: float(np.median(seconds[:n])) for label, n in self.windows},
            "regret": float(regret(task, choices)[-N_LAST:].mean()) / uniform_regret(task),
        }

    def fingerprint(self) -> list[float]:
        return self.problem.fingerprint()


WHOLE_RUN = ((f"mean of {N_ROUNDS} rounds", N_ROUNDS),)


def play(
    player: Player, task: Task, n_rounds: int, clock: Callable[[], float] = perf_counter
) -> tuple[Array, Any]:
    """Return the seconds of act and update in every round (not of rewards), and the choices."""
    act, update = player
    seconds = np.empty(n_rounds)
    choices = np.empty(n_rounds, dtype=np.int64)
    for round_ in range(n_rounds):
        actions = task.actions(round_)
        started = clock()
        choice = act(actions)
        acted = clock()
        reward = task.reward(round_, choice)
        rewarded = clock()
        update(actions, choice, reward)
        seconds[round_] = clock() - rewarded + acted - started
        choices[round_] = choice
    return seconds, choices
