"""One side of a benchmark, a process of its own: plays one task for each line on its input.

    python side.py ours|peer BENCHMARK

It answers in JSON lines: first what it is (versions, the problem's fingerprint), once everything is
imported and compiled; then, for each task number it reads, the seconds a round in each
window and the regret.
"""

from __future__ import annotations

import gc
import json
import sys
import warnings
from importlib.metadata import PackageNotFoundError, version
from time import perf_counter
from typing import Any

import numpy as np
from benchmark import Benchmark, Player
from catalogue import BENCHMARKS
from problems import N_ROUNDS, Array, Task, regret, uniform_regret

N_LAST = 100
N_WARM = 40
PACKAGES = {
    "ours": ("mixts", "numba", "numpy", "scipy"),
    "peer": ("bayesianbandits", "mabwiser", "scikit-learn", "joblib", "numpy", "scipy"),
}


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


def chunk(benchmark: Benchmark, side: str, index: int) -> dict[str, Any]:
    """A whole task with a fresh agent, after a few rounds with another that warm the caches."""
    make = benchmark.ours if side == "ours" else benchmark.peer
    task = benchmark.problem.task(index)
    play(make(index + 1), task, N_WARM)
    player = make(index)
    gc.collect()
    seconds, choices = play(player, task, N_ROUNDS)
    return {
        "seconds": {label: float(seconds[:n].mean()) for label, n in benchmark.windows},
        "regret": float(regret(task, choices)[-N_LAST:].mean()) / uniform_regret(task),
    }


def versions(side: str) -> dict[str, str]:
    found = {"python": sys.version.split()[0]}
    for package in PACKAGES[side]:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def main() -> None:
    side, name = sys.argv[1:]
    # A peer's deprecation warnings are its own affair, and printing them costs time.
    warnings.filterwarnings("ignore")
    benchmark = BENCHMARKS[name]
    chunk(benchmark, side, 0)
    hello = {"versions": versions(side), "fingerprint": benchmark.problem.fingerprint()}
    print(json.dumps(hello), flush=True)
    for line in sys.stdin:
        print(json.dumps(chunk(benchmark, side, int(line))), flush=True)


if __name__ == "__main__":
    main()
