"""Measure the time and memory in which logs become statistics and a prior; print one table.

    python benchmarks/logs.py [--rows 1000000 4000000] [--tasks 10000] [--learn]

Each measurement runs in its own process, which imports the library, reads a small file (so that
everything is imported when the clock starts), and then the large file. Memory is the peak of the
whole process, beside the peak after the imports. ``--learn`` also learns a prior of three
components. Logs are clicks on arms, rewards of features, and clicks with a few features.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

N_ARMS, N_FEATURES, N_CLICK_FEATURES, N_KINDS = 20, 10, 3, 3
N_WARM = 1000
COLUMNS: dict[str, dict[str, Any]] = {
    "arms": {"task": "user", "arm": "item", "reward": "clicked"},
    "linear": {
        "task": "user",
        "features": [f"f{k}" for k in range(N_FEATURES)],
        "reward": "spent",
        "intercept": True,
    },
    "clicks": {
        "task": "user",
        "features": [f"f{k}" for k in range(N_CLICK_FEATURES)],
        "reward": "clicked",
        "intercept": True,
    },
}


def write_logs(folder: Path, family: str, n_rows: int, n_tasks: int) -> None:
    """Write rows of tasks of three components in random order, as CSV and Parquet."""
    import pyarrow
    from pyarrow import csv, parquet

    rng = np.random.default_rng(1)
    user = rng.integers(n_tasks, size=n_rows)
    kind = rng.choice(N_KINDS, n_tasks)
    columns: dict[str, Any] = {"user": user}
    if family == "arms":
        mean = rng.beta(1, 6, (N_KINDS, N_ARMS))
        rate = rng.beta(20 * mean[kind], 20 * (1 - mean[kind]))
        item = rng.integers(N_ARMS, size=n_rows)
        columns["item"] = np.array([f"item {k}" for k in range(N_ARMS)])[item]
        columns["clicked"] = (rng.random(n_rows) < rate[user, item]).astype(int)
    else:
        d = N_FEATURES if family == "linear" else N_CLICK_FEATURES
        theta = rng.standard_normal((N_KINDS, d))[kind]
        theta = theta + 0.3 * rng.standard_normal(theta.shape)
        features = rng.standard_normal((n_rows, d)).round(4 if family == "linear" else 0)
        columns |= {f"f{k}": features[:, k] for k in range(d)}
        signal = (features * theta[user]).sum(axis=1)
        if family == "linear":
            columns["spent"] = (2 + signal + 0.5 * rng.standard_normal(n_rows)).round(4)
        else:
            rate = 1 / (1 + np.exp(1.5 - signal))
            columns["clicked"] = (rng.random(n_rows) < rate).astype(int)
    table = pyarrow.table(columns)
    csv.write_csv(table, folder / f"{family}-{n_rows}.csv")
    parquet.write_table(table, folder / f"{family}-{n_rows}.parquet")


def peak() -> float:
    """Return the peak memory of this process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(path: Path, warm: Path, family: str, learns: bool) -> None:
    """Measure one file in this process and print the measurements as JSON."""
    from mixts.learning import learn
    from mixts.logs import read_logs

    imported = peak()
    small = read_logs(warm, **COLUMNS[family])
    started = time.perf_counter()
    logs = read_logs(path, **COLUMNS[family])
    found = {"read": time.perf_counter() - started, "imported": imported, "peak": peak()}
    stored = getattr(logs.statistics, "stored", ())  # tables of clicks have no fixed size
    found["statistics"] = sum(array.nbytes for array in stored) / 2**20
    if learns:
        learn(small.statistics, N_KINDS, seed=1)
        started = time.perf_counter()
        learn(logs.statistics, N_KINDS, seed=1)
        found["learn"] = time.perf_counter() - started
    print(json.dumps(found))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000])
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--learn", action="store_true", help="also learn a prior")
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--write", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.write:
        folder, family, n_rows = options.write
        write_logs(Path(folder), family, int(n_rows), options.tasks)
        return
    if options.measure:
        path, warm, family = options.measure
        measure(Path(path), Path(warm), family, options.learn)
        return
    print(
        "| logs | rows | read, s | rows a second | statistics, MB | peak, MB (imports) | learn, s |"
    )
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        for family in COLUMNS:
            # A forked child would begin with its parent's peak of memory: start a new process.
            for n_rows in (N_WARM, *options.rows):
                words = ["--write", name, family, str(n_rows), "--tasks", str(options.tasks)]
                subprocess.run([sys.executable, __file__, *words], check=True)
            for n_rows in options.rows:
                for suffix in ("csv", "parquet"):
                    print(row(Path(name), family, n_rows, suffix, options.learn), flush=True)


def row(folder: Path, family: str, n_rows: int, suffix: str, learns: bool) -> str:
    """Return a line of the table."""
    files = [str(folder / f"{family}-{n}.{suffix}") for n in (n_rows, N_WARM)]
    command = [sys.executable, __file__, "--measure", *files, family]
    done = subprocess.run(
        command + ["--learn"] * learns, capture_output=True, text=True, check=True
    )
    found = json.loads(done.stdout)
    learned = f"{found['learn']:.1f}" if learns else ""
    size = f"{found['statistics']:.1f}" if found["statistics"] else ""
    return (
        f"| {family}, {suffix} | {n_rows:,} | {found['read']:.2f} | {n_rows / found['read']:,.0f} "
        f"| {size} | {found['peak']:.0f} ({found['imported']:.0f}) | {learned} |"
    )


if __name__ == "__main__":
    main()
