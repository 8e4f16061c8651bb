"""Measure what an operation costs the service and its database, by the number of replicas.

    python benchmarks/service/scaling.py [--replicas 1 2 4] [--operations 40000] [--statements 12]

Decisions and rewards, one to one, in a closed loop, on a PostgreSQL server that the benchmark
starts; a row for one service on a SQLite file comes first. Statements and bytes of the write-ahead
log an operation do not depend on what else the machine does, CPU seconds do a little, and
operations a second do most. The second table says what the database's processes that serve the
replicas were seen to do, in samples of ``pg_stat_activity``.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
from generator import Generator
from mixts_serve import DecisionStore
from problem import N_TASKS, make_prior, true_means
from serving import Server, clean_up_when_terminated, new_server
from traffic import Traffic

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from serve.tests import postgres_server

SETTINGS = """
shared_preload_libraries = 'pg_stat_statements'
pg_stat_statements.max = 10000
track_wal_io_timing = on
"""
WARM_UP = 4_000
"""Operations before the measurement: most tasks are created, code is loaded."""
GLANCE = 0.02
"""Seconds between two looks at the database's processes."""
TICKS = os.sysconf("SC_CLK_TCK")


class Cost(NamedTuple):
    """What a number of operations cost."""

    seconds: float
    service: float
    """CPU seconds of all replicas, of the database, and of the load generator."""
    database: float
    generator: float
    batches: int = 0
    statements: int = 0
    wal_bytes: int = 0
    syncs: int = 0


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--replicas", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--operations", type=int, default=40_000)
    parser.add_argument("--connections", type=int, default=64, help="to each replica")
    parser.add_argument("--tasks", type=int, default=N_TASKS)
    parser.add_argument("--statements", type=int, default=0, help="print so many of the costliest")
    options = parser.parse_args()
    clean_up_when_terminated()
    if postgres_server.find() is None:
        raise SystemExit("no PostgreSQL server is installed: there is nothing to measure")
    print(
        "| store | replicas | operations a second | service, us | database, us | generator, us "
        "| operations a transaction | statements | WAL, bytes | syncs |"
    )
    print("|---" * 10 + "|", flush=True)
    with tempfile.TemporaryDirectory(prefix="mixts-scaling-") as folder:
        cost, size = measure(Path(folder), str(Path(folder) / "decisions.db"), 1, options)
        print(row("SQLite", 1, options.operations, cost), flush=True)
        waits = []
        with postgres_server.running(settings=SETTINGS) as url:
            for n in options.replicas:
                database = postgres_server.database(url, f"replicas_{n}")
                watch = Watch(database)
                cost, size = measure(Path(folder), database, n, options, watch)
                print(row("PostgreSQL", n, options.operations, cost), flush=True)
                waits.append((n, watch.seen))
                if options.statements:
                    watch.print_statements(options.statements, options.operations)
    print(f"\nAfter the last row: {size}.\n")
    kinds = sorted({kind for _, seen in waits for kind in seen})
    print(f"| replicas | {' | '.join(kinds)} |")
    print("|---" * (1 + len(kinds)) + "|")
    for n, seen in waits:
        total = max(sum(seen.values()), 1)
        print(f"| {n} | {' | '.join(f'{seen[kind] / total:.0%}' for kind in kinds)} |")


def row(store: str, replicas: int, n: int, cost: Cost) -> str:
    """Return the row of a table."""
    words = [store, str(replicas), f"{n / cost.seconds:,.0f}"]
    words += [f"{1e6 * cpu / n:.0f}" for cpu in (cost.service, cost.database, cost.generator)]
    if cost.batches:
        words += [f"{n / cost.batches:.1f}", f"{cost.statements / n:.2f}"]
        words += [f"{cost.wal_bytes / n:,.0f}", f"{cost.syncs / n:.3f}"]
    else:
        words += [""] * 4
    return f"| {' | '.join(words)} |"


def measure(
    folder: Path, store: str, replicas: int, options: argparse.Namespace, watch: Watch | None = None
) -> tuple[Cost, str]:
    """Return the cost of operations under load, and how large the store became."""
    traffic = Traffic(true_means(make_prior(), options.tasks))
    servers = [new_server(folder, store, f"replica-{i}") for i in range(replicas)]
    try:
        for server in servers:
            server.start()
        for server in servers:
            server.wait()
        n_connections = options.connections * replicas
        generator = Generator([each.address for each in servers], n_connections, traffic)
        generator.run_while(lambda now: traffic.n_acknowledged < WARM_UP)
        if watch is not None:
            watch.start()
        before = [read(servers, watch), traffic.n_acknowledged]
        end = before[1] + options.operations
        generator.run_while(lambda now: traffic.n_acknowledged < end)
        after = read(servers, watch)
        if watch is not None:
            watch.stop()
        generator.finish()
    finally:
        for server in servers:
            server.stop()
    if traffic.contradictions:
        raise SystemExit(f"contradictions: {traffic.contradictions[:5]}")
    with DecisionStore(store) as opened:
        totals, size = opened.totals(), opened.backend.n_bytes()
    told = f"{size / 1e6:.1f} MB of {totals.decisions:,} decisions and {totals.tasks:,} tasks"
    if watch is not None:
        n_bytes = watch.table_bytes()
        a_task = n_bytes["tasks"] / totals.tasks
        a_decision = (n_bytes["decisions"] + n_bytes["rewards"]) / totals.decisions
        told += f"; {a_task:,.0f} bytes a task, {a_decision:,.0f} a decision with its reward"
    return Cost(*(b - a for a, b in zip(before[0], after, strict=True))), told


def read(servers: list[Server], watch: Watch | None) -> Cost:
    """Return what was spent so far."""
    service = sum(server.cpu_seconds() for server in servers)
    now, own = time.perf_counter(), time.process_time()
    if watch is None:
        return Cost(now, service, 0.0, own)
    return Cost(now, service, watch.cpu_seconds(), own, *watch.counts())


# -- the database ---------------------------------------------------------------------------------


def cpu_seconds(pid: int) -> float:
    """Return the CPU seconds of a process and of its children that ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / TICKS


_OWN = "WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database())"


class Watch:
    """Statistics of a database, and what its processes are seen to do."""

    def __init__(self, url: str) -> None:
        self._connection = psycopg.connect(url, autocommit=True)
        self._connection.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
        self._url = url
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self.seen: Counter[str] = Counter()
        """Samples by what a process that serves a replica did."""

    def _query(self, sql: str, *parameters: Any) -> list[Any]:
        return self._connection.execute(sql, parameters).fetchall()

    def cpu_seconds(self) -> float:
        """Return the CPU time of all processes of the server, ended ones included."""
        own = self._connection.info.backend_pid
        main = int(Path(f"/proc/{own}/stat").read_text().rpartition(")")[2].split()[1])
        children = Path(f"/proc/{main}/task/{main}/children").read_text().split()
        return cpu_seconds(main) + sum(cpu_seconds(int(pid)) for pid in children if int(pid) != own)

    def counts(self) -> tuple[int, int, int, int]:
        """Return transactions that changed something, statements, bytes and syncs of the WAL."""
        [(commits, calls)] = self._query(
            "SELECT SUM(CASE WHEN query = 'COMMIT' THEN calls ELSE 0 END), SUM(calls) "
            f"FROM pg_stat_statements {_OWN}"
        )
        [(wal, syncs)] = self._query("SELECT wal_bytes, wal_sync FROM pg_stat_wal")
        return int(commits or 0), int(calls or 0), int(wal), int(syncs)

    def table_bytes(self) -> dict[str, int]:
        """Return the bytes of tables with their indices, after a vacuum."""
        self._connection.execute("VACUUM FULL")
        return dict(
            self._query(
                "SELECT relname, pg_total_relation_size(oid)::bigint FROM pg_class"
                " WHERE relnamespace = 'mixts'::regnamespace AND relkind = 'r'"
            )
        )

    def print_statements(self, most: int, n: int) -> None:
        """Print the statements that took the server longest."""
        rows = self._query(
            "SELECT calls, total_exec_time, wal_bytes, query FROM pg_stat_statements "
            f"{_OWN} ORDER BY total_exec_time DESC LIMIT %s", most,
        )  # fmt: skip
        for calls, milliseconds, wal, query in rows:
            words = " ".join(query.split())[:70]
            print(
                f"    {calls:7d} calls {1e3 * milliseconds / n:6.1f} us "
                f"{wal / n:7.0f} WAL bytes an operation: {words}"
            )

    def start(self) -> None:
        """Begin to look at the server's processes, and count its statements from now on."""
        # Plans made for empty tables last until the tables are analysed, as autovacuum does soon.
        with psycopg.connect(self._url, autocommit=True) as connection:
            connection.execute("ANALYZE")
        self._query("SELECT pg_stat_statements_reset()")
        self._thread.start()

    def stop(self) -> None:
        """End it."""
        self._done.set()
        self._thread.join()

    def _look(self) -> None:
        with psycopg.connect(self._url, autocommit=True) as connection:
            while not self._done.wait(GLANCE):
                rows = connection.execute(
                    "SELECT state, wait_event_type, wait_event FROM pg_stat_activity"
                    " WHERE datname = current_database() AND application_name = 'mixts'"
                    " AND xact_start IS NOT NULL"
                ).fetchall()
                self.seen.update(_activity(*found) for found in rows)


def _activity(state: str, kind: str | None, event: str | None) -> str:
    """Return what a process does, in words."""
    if state == "idle in transaction":
        return "waits for the service"
    if kind is None:
        return "computes"
    return "waits for the service" if kind == "Client" else f"{kind}: {event}"


if __name__ == "__main__":
    main()
