"""Measure how logs of many tasks become statistics in blocks, and these a prior; print one table.

    python benchmarks/lakes.py FOLDER [--rows 1000000 10000000] [--ways duckdb eager] [--keep]

FOLDER takes the logs, Parquet files that are made on first use (about 3 bytes a row), and the
blocks. Logs are clicks on 20 arms of tasks of five kinds, a hundred rows a task in random order.
Each measurement runs in a process of its own, with its peak of memory and that of its workers.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

N_ARMS, N_KINDS, ROWS_A_TASK, FILE_ROWS = 20, 5, 100, 2_000_000


def write_logs(folder: Path, n_rows: int) -> None:
    """Write clicks on arms as Parquet files of two million rows, with arms as a dictionary."""
    import pyarrow
    from pyarrow import parquet

    rng, n_tasks = np.random.default_rng(1), n_rows // ROWS_A_TASK
    mean = rng.beta(1, 6, (N_KINDS, N_ARMS))
    kind = rng.choice(N_KINDS, n_tasks, p=[0.4, 0.25, 0.2, 0.1, 0.05])
    rate = rng.beta(20 * mean[kind], 20 * (1 - mean[kind])).astype(np.float32)
    names = pyarrow.array([f"item {k}" for k in range(N_ARMS)])
    part = folder.with_name(f"{folder.name}.part")
    part.mkdir(parents=True)
    for number, start in enumerate(range(0, n_rows, FILE_ROWS)):
        n = min(FILE_ROWS, n_rows - start)
        user, item = rng.integers(n_tasks, size=n), rng.integers(N_ARMS, size=n)
        clicked = rng.random(n, np.float32) < rate[user, item]
        items = pyarrow.DictionaryArray.from_arrays(item.astype(np.int8), names)
        columns: dict[str, Any] = {
            "user": user.astype(np.int32), "item": items, "clicked": clicked.astype(np.int8),
        }  # fmt: skip
        parquet.write_table(pyarrow.table(columns), part / f"{number:04}.parquet")
    part.rename(folder)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000, 10_000_000])
    options = parser.parse_args()
    for n_rows in options.rows:
        if not (logs := options.folder / f"logs-{n_rows}").exists():
            write_logs(logs, n_rows)
