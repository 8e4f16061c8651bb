"""Measure the parts of a batch of operations, in process: where the time of the service goes.

    python benchmarks/service/parts.py [--sizes 1 2 64] [--batches 400] [--folder DIR]

Half of the operations of a batch are decisions with keys, and half are rewards of earlier ones.
Nothing of HTTP is in these times. ``--folder /dev/shm`` shows them without a disk.
"""

from __future__ import annotations

import argparse
import functools
import tempfile
import time
from collections import Counter, deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from mixts_serve import Decider, Decision, DecisionStore, batch, tasks
from mixts_serve.records import Decide, Operation, Reward
from mixts_serve.store import _sqlite_log, sqlite
from problem import N_TASKS, make_prior

WARM_UP = 300
"""Batches before the measurement."""

PARTS = {
    "choose the actions": (batch, "_choose"),
    "log the decisions": (batch.Batch, "_log_group"),
    "lock and decode the tasks": (batch.Batch, "_lock"),
    "find earlier decisions of the keys": (sqlite.SQLiteTransaction, "find_keys"),
    "find the decisions of rewards": (tasks.Outcomes, "match"),
    "learn from rewards": (tasks.Outcomes, "perform"),
    "write the rows": (sqlite.SQLiteTransaction, "add"),
    "commit": (_sqlite_log.WriteAheadLog, "commit"),
}


class Clock:
    """Adds up the time of functions."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()

    def watch(self, title: str, owner: Any, name: str) -> None:
        """Replace a function of a class or a module by one that is timed."""
        function: Callable[..., Any] = getattr(owner, name)

        @functools.wraps(function)
        def timed(*arguments: Any, **options: Any) -> Any:
            started = time.perf_counter()
            try:
                return function(*arguments, **options)
            finally:
                self.seconds[title] += time.perf_counter() - started

        setattr(owner, name, timed)


def measure(size: int, n_batches: int, folder: str | None, clock: Clock) -> dict[str, float]:
    """Return the seconds of a batch, in all and by part."""
    rng = np.random.default_rng(1)
    unrewarded: deque[str] = deque()
    n_made = 0

    def next_batch() -> list[Operation]:
        nonlocal n_made
        operations: list[Operation] = []
        for _ in range(size):
            if n_made % 2 and unrewarded:
                operations.append(Reward(unrewarded.popleft(), float(rng.random() < 0.3)))
            else:
                operations.append(Decide(f"task {rng.integers(N_TASKS)}", key=f"key {n_made}"))
            n_made += 1
        return operations

    with (
        tempfile.TemporaryDirectory(prefix="mixts-parts-", dir=folder) as name,
        DecisionStore(Path(name) / "decisions.db") as store,
        Decider(make_prior(), store, seed=1) as decider,
    ):

        def perform(n: int) -> float:
            elapsed = 0.0
            for _ in range(n):
                operations = next_batch()
                started = time.perf_counter()
                results = decider._perform(operations, wait=True)
                elapsed += time.perf_counter() - started
                unrewarded.extend(r.id for r in results if isinstance(r, Decision))
            return elapsed

        decider._writer.run(lambda: perform(WARM_UP))
        clock.seconds.clear()
        elapsed = decider._writer.run(lambda: perform(n_batches))
    found = {"a batch": elapsed, **{title: clock.seconds[title] for title in PARTS}}
    found["the rest"] = 2 * elapsed - sum(found.values())
    return {title: seconds / n_batches for title, seconds in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[1, 2, 64])
    parser.add_argument("--batches", type=int, default=400)
    parser.add_argument("--folder", help="where the store is made")
    options = parser.parse_args()
    clock = Clock()
    for title, (owner, name) in PARTS.items():
        clock.watch(title, owner, name)
    columns = [measure(size, options.batches, options.folder, clock) for size in options.sizes]
    print(f"| us of a batch of | {' | '.join(map(str, options.sizes))} |")
    print("|---" * (1 + len(columns)) + "|")
    for title in columns[0]:
        print(f"| {title} | {' | '.join(f'{1e6 * column[title]:,.0f}' for column in columns)} |")


if __name__ == "__main__":
    main()
