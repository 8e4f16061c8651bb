"""Measure how logs of many tasks become statistics in blocks, and these a prior; print one table.

    python benchmarks/lakes.py FOLDER [--rows 1000000 10000000] [--ways duckdb polars eager spark]

FOLDER takes the logs, Parquet files that are made on first use (5 bytes a row), and the statistics
in blocks. Logs are clicks on 20 arms of tasks of five kinds, a hundred rows a task in random order.

Each measurement is a process of its own. Lazy ways let an engine count, write the statistics to a
folder and learn from it on two worker processes; "eager" reads all rows and learns in memory.
Memory is the largest sum of the resident memory of the process and all that it started, also
where they share pages; processor seconds are theirs, too.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

COLUMNS = {"task": "user", "arm": "item", "reward": "clicked"}
WAYS = ("duckdb", "polars", "spark", "eager")
ENGINE_MEMORY = "1500MB"
"""Memory that DuckDB may take."""
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


# -- one measurement, in its own process -----------------------------------------------------------


def lazy_table(way: str, logs: Path) -> Any:
    """Return the logs as a lazy table of an engine."""
    if way == "duckdb":
        import duckdb

        connection = duckdb.connect()
        connection.execute(f"SET memory_limit = '{ENGINE_MEMORY}'; SET threads = 2")
        connection.execute(f"SET temp_directory = '{logs.parent / 'spilled'}'")
        return connection.read_parquet(f"{logs}/*.parquet")
    if way == "polars":
        import polars

        return polars.scan_parquet(f"{logs}/*.parquet")
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.memory", "4g").config("spark.sql.shuffle.partitions", 8)
    builder = builder.config("spark.driver.bindAddress", "127.0.0.1")
    return builder.config("spark.driver.host", "127.0.0.1").getOrCreate().read.parquet(str(logs))


def measure(way: str, logs: Path, folder: Path) -> None:
    """Print a line when a stage begins, and what was learned at the end."""
    import mixts
    from mixts.learning import TaskFolder
    from mixts.logs import read_logs, task_blocks

    print("statistics", flush=True)
    if way == "eager":
        tasks: Any = read_logs(str(logs), **COLUMNS).statistics
    else:
        found = task_blocks(lazy_table(way, logs), **COLUMNS)
        tasks = TaskFolder.write(folder, (block.statistics for block in found))
        del found  # the engine gives its memory back
    print("prior", flush=True)
    prior = mixts.learn_prior(tasks, N_KINDS, seed=1, engine=2)
    print("end", flush=True)
    family: Any = prior.family
    means = family.alpha / (family.alpha + family.beta)
    print(json.dumps([prior.weights.tolist(), means.tolist()]))


# -- what a measurement takes ----------------------------------------------------------------------


class Watched:
    """The memory and the processor time of a process and of all that it started, by stage."""

    def __init__(self, pid: int) -> None:
        self.stage = "imports"
        self.peak: dict[str, float] = defaultdict(float)
        self.seconds: dict[str, float] = defaultdict(float)
        self._pid, self._of_pid = pid, {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(0.1):
            total = 0.0
            for pid, (seconds, memory) in of_tree(self._pid).items():
                self.seconds[self.stage] += seconds - self._of_pid.get(pid, 0.0)
                self._of_pid[pid] = seconds
                total += memory
            self.peak[self.stage] = max(self.peak[self.stage], total)


def of_tree(root: int) -> dict[int, tuple[float, float]]:
    """Return processor seconds and resident MB of a process and its descendants."""
    tick, page = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE") / 1e6
    parents, found = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:  # it just ended
                continue
            parents[int(entry.name)] = int(fields[1])
            used = (int(fields[11]) + int(fields[12])) / tick
            found[int(entry.name)] = used, int(fields[21]) * page
    inside = {root}
    while more := {pid for pid, parent in parents.items() if parent in inside} - inside:
        inside |= more
    return {pid: found[pid] for pid in inside if pid in found}


def measured(way: str, logs: Path, n_rows: int) -> tuple[dict[str, Any], list[Any]]:
    """Run a measurement; return a row of the table, and the prior."""
    folder = logs.with_name(f"tasks-{way}-{n_rows}")
    shutil.rmtree(folder, ignore_errors=True)
    command = [sys.executable, __file__, str(logs), "--measure", way, "--tasks", str(folder)]
    found, times = [], {}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        watched = Watched(process.pid)
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("["):
                found = json.loads(line)
            else:
                watched.stage = line.strip()
                times[watched.stage] = time.perf_counter()
        watched.stop()
    if process.returncode:
        return {"rows": f"{n_rows:,}", "way": way, "statistics, s": "failed"}, []
    size = sum(path.stat().st_size for path in folder.rglob("*")) if folder.exists() else 0
    shutil.rmtree(folder, ignore_errors=True)
    row: dict[str, Any] = {"rows": f"{n_rows:,}", "way": way}
    for stage, end in (("statistics", "prior"), ("prior", "end")):
        row[f"{stage}, s"] = f"{times[end] - times[stage]:.1f}"
        row[f"{stage}, processor s"] = f"{watched.seconds[stage]:.1f}"
        row[f"{stage}, MB"] = f"{watched.peak[stage]:,.0f}"
    row["in all, s"] = f"{times['end'] - times['statistics']:.0f}"
    row["folder, MB"] = f"{size / 1e6:,.0f}" if size else ""
    return row, found


def difference(one: list[Any], other: list[Any]) -> float:
    """Return the largest difference of the weights and means of two priors."""
    return max(float(np.abs(np.subtract(a, b)).max()) for a, b in zip(one, other, strict=True))


def main() -> None:
    """Measure all ways and sizes that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000, 10_000_000])
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=["duckdb", "eager"])
    parser.add_argument("--measure", choices=WAYS, help=argparse.SUPPRESS)
    parser.add_argument("--tasks", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        measure(options.measure, options.folder, options.tasks)
        return
    header = False
    for n_rows in options.rows:
        if not (logs := options.folder / f"logs-{n_rows}").exists():
            write_logs(logs, n_rows)
        first: list[Any] = []
        for way in options.ways:
            row, found = measured(way, logs, n_rows)
            first = first or found
            row["difference"] = f"{difference(first, found):.1g}" if found else ""
            if not header:
                print(f"| {' | '.join(row)} |\n|{'---|' * len(row)}")
                header = True
            print(f"| {' | '.join(map(str, row.values()))} |", flush=True)


if __name__ == "__main__":
    main()
