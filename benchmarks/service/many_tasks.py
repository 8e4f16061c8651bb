"""Measure the time of a decision in a store of a million tasks, and in one of a thousand.

    python benchmarks/service/many_tasks.py [--tasks 1000 1000000] [--seconds 20] [--rounds 3]

Every task has a decision and its reward: rows of one real task, copied. Decisions are for tasks at
random, open loop, and the stores take turns, so that what else the machine does meets both.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import apsw
import numpy as np
from generator import Generator
from mixts_serve import Decider, DecisionStore
from problem import N_ARMS, make_prior
from serving import clean_up_when_terminated, new_server
from traffic import Traffic

TARGET = 1.5
WARM_UP = 3.0
NAMED = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) "
COPY = {
    "tasks": NAMED + "INSERT INTO tasks SELECT NULL, 'task ' || i, {tasks} FROM tasks, n "
    "WHERE number = 1",
    "decisions": "INSERT INTO decisions SELECT NULL, randomblob(16), t.number, {decisions} "
    "FROM decisions d, tasks t WHERE d.seq = 1 AND t.number > 1",
    "rewards": "INSERT INTO rewards SELECT NULL, d.seq, {rewards} "
    "FROM rewards r, decisions d WHERE r.seq = 1 AND d.seq > 1",
}
"""Statements that copy the first row of each table for every task."""
N_FIRST = {"tasks": 2, "decisions": 3, "rewards": 2}
"""Number of first columns of each table that the statements set instead of copying."""


def fill(path: Path, n_tasks: int) -> None:
    """Create a store with this many tasks."""
    with (
        DecisionStore(path) as store,
        Decider(make_prior(), store) as decider,
    ):
        decider.reward(decider.decide(Traffic.task_name(0), key="first").id, 1.0)
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA synchronous = OFF")
    source = {"tasks": "tasks", "decisions": "d", "rewards": "r"}
    with connection:
        for table, sql in COPY.items():
            columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
            copied = ", ".join(f"{source[table]}.{c}" for c in columns[N_FIRST[table] :])
            given = (n_tasks - 1,) if table == "tasks" else ()
            connection.execute(sql.format(**{table: copied}), given)
    connection.close()


def measure(path: Path, n_tasks: int, rate: float, seconds: float) -> np.ndarray:
    """Return the seconds that each decision took."""
    server = new_server(path.parent, str(path), f"server-{n_tasks}")
    traffic = Traffic(np.empty((n_tasks, N_ARMS)), seed=time.time_ns(), rewards=False)
    server.start()
    try:
        server.wait()
        generator = Generator([server.address], 16, traffic)
        rng = np.random.default_rng(1)
        generator.run_open(rate, WARM_UP, rng)
        generator.forget()
        generator.run_open(rate, seconds, rng)
    finally:
        server.stop()
    return np.array(generator.latencies["decide"])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--tasks", type=int, nargs=2, default=[1_000, 1_000_000])
    parser.add_argument("--rate", type=float, default=300.0, help="decisions a second")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", help="where the stores are made")
    options = parser.parse_args()
    clean_up_when_terminated()
    times: dict[int, list[np.ndarray]] = {n: [] for n in options.tasks}
    with tempfile.TemporaryDirectory(prefix="mixts-tasks-", dir=options.folder) as name:
        paths = {n: Path(name) / f"{n}.db" for n in options.tasks}
        for n, path in paths.items():
            fill(path, n)
        sizes = {n: path.stat().st_size / 2**20 for n, path in paths.items()}
        for _ in range(options.rounds):
            for n, path in paths.items():
                times[n].append(measure(path, n, options.rate, options.seconds))
    print("| tasks | file, MB | decisions | p50, ms (of each round) | p99, ms |")
    print("|---|---|---|---|---|")
    for n, found in times.items():
        rounds = ", ".join(f"{1e3 * np.median(t):.2f}" for t in found)
        p50, p99 = 1e3 * np.quantile(np.concatenate(found), (0.5, 0.99))
        total = sum(map(len, found))
        print(f"| {n:,} | {sizes[n]:.0f} | {total:,} | {p50:.2f} ({rounds}) | {p99:.2f} |")
    few, many = (np.median(np.concatenate(found)) for found in times.values())
    verdict = "met" if many / few <= TARGET else "MISSED"
    print(f"\nratio of p50: {many / few:.2f} (at most {TARGET:g}: {verdict})")


if __name__ == "__main__":
    main()
