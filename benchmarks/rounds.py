"""Benchmarks of bandits: a round is one decision for one task, act and update."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from benchmark import Benchmark
from problems import N_ROUNDS, Array, Problem, Task, regret, uniform_regret

N_LAST = 100
N_WARM = 40


class Player(NamedTuple):
    """One fresh agent: ``act(actions) -> index`` and ``update(actions, index, reward)``."""

    act: Callable[[Any], int]
    update: Callable[[Any, int, float], None]


@dataclass(frozen=True, kw_only=True)
class BanditBenchmark(Benchmark):
    """``ours`` and ``peer`` are given the task's number as their seed and make a fresh player."""

    problem: Problem
    ours: Callable[[int], Player]
    peer: Callable[[int], Player]
    windows: tuple[tuple[str, int], ...] = (
        ("first 20 rounds", 20),
        (f"mean of {N_ROUNDS} rounds", N_ROUNDS),
    )

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(label for label, _ in self.windows)

    def chunk(self, side: str, index: int) -> dict[str, Any]:
        """A whole task with a fresh agent, after a few rounds with another that warm the caches."""
        make = self.ours if side == "ours" else self.peer
        task = self.problem.task(index)
        play(make(index + 1), task, N_WARM)
        player = make(index)
        gc.collect()
        seconds, choices = play(player, task, N_ROUNDS)
        return {
            "seconds": {label: float(seconds[:n].mean()) for label, n in self.windows},
            "regret": float(regret(task, choices)[-N_LAST:].mean()) / uniform_regret(task),
        }

    def fingerprint(self) -> list[float]:
        return self.problem.fingerprint()


WHOLE_RUN = ((f"mean of {N_ROUNDS} rounds", N_ROUNDS),)


def play(player: Player, task: Task, n_rounds: int) -> tuple[Array, Any]:
    """Seconds of act + update in every round, and the choices. Rewards are not timed."""
    act, update = player
    seconds = np.empty(n_rounds)
    choices = np.empty(n_rounds, dtype=np.int64)
    for round_ in range(n_rounds):
        actions = task.actions(round_)
        asked = perf_counter()
        choice = act(actions)
        acted = perf_counter()
        reward = task.reward(round_, choice)
        told = perf_counter()
        update(actions, choice, reward)
        seconds[round_] = perf_counter() - told + acted - asked
        choices[round_] = choice
    return seconds, choices
