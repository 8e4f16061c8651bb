"""Check that replicas of one PostgreSQL database stay consistent while they are killed.

    python benchmarks/service/replicas.py [--replicas 4] [--operations 100000] [--every 5]

The benchmark starts its own PostgreSQL server. It sends one operation of twenty to two replicas at
once, kills and restarts a replica every few seconds, and repeats unacknowledged requests at any
replica that runs. At the end the log, the statistics and the responses to clients must agree.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
import time
from pathlib import Path

from audit import audit, summary
from generator import Generator
from mixts_serve import DecisionStore
from problem import N_TASKS, make_prior, true_means
from serving import Server, clean_up_when_terminated, new_server
from traffic import Traffic

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from serve.tests import postgres_server

TWICE = 0.05
"""The share of operations that are sent to two replicas."""


class Killer:
    """Kills one replica after another, at most ``most`` times, and restarts each at once."""

    def __init__(
        self, servers: list[Server], generator: Generator, every: float, most: float = math.inf
    ) -> None:
        self._servers, self._generator, self._every = servers, generator, every
        self._most = most
        self._next = time.perf_counter() + every
        self._answers = [0] * len(servers)
        self.kills = 0

    def look(self, now: float) -> None:
        victim = self.kills % len(self._servers)
        is_up = self._generator.answers[victim] > self._answers[victim]
        if now < self._next or not is_up or self.is_done:
            return
        self._servers[victim].kill()
        self._generator.hear_out(victim)
        self._answers[victim] = self._generator.answers[victim]
        self._servers[victim].start()
        self.kills += 1
        self._next = now + self._every

    @property
    def is_done(self) -> bool:
        """Whether there were as many kills as wanted."""
        return self.kills >= self._most


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--replicas", type=int, default=4)
    parser.add_argument("--operations", type=int, default=100_000, help="acknowledged, at least")
    parser.add_argument("--every", type=float, default=5.0, help="seconds between kills")
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--tasks", type=int, default=N_TASKS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--no-fsync", action="store_true", help="a PostgreSQL that does not sync")
    options = parser.parse_args()
    clean_up_when_terminated()
    if postgres_server.find() is None:
        raise SystemExit("no PostgreSQL server is installed: there is nothing to measure")
    means = true_means(make_prior(), options.tasks)
    traffic = Traffic(means, seed=options.seed, delay=0.05, twice=TWICE)
    with (
        postgres_server.running(fsync=not options.no_fsync) as url,
        tempfile.TemporaryDirectory(prefix="mixts-replicas-") as folder,
    ):
        servers = [new_server(Path(folder), url, f"replica-{i}") for i in range(options.replicas)]
        generator = Generator([s.address for s in servers], options.connections, traffic)
        try:
            seconds, kills = run(servers, generator, options)
        finally:
            for server in servers:
                server.kill()
        with DecisionStore(url) as store:
            wrong = audit(store, traffic)
    n = traffic.n_acknowledged
    rewarded = sum(decided.reward is not None for decided in traffic.decided.values())
    print(
        "| replicas | kills | acknowledged | a second | decisions | rewards | sent twice | again |"
    )
    print("|---|---|---|---|---|---|---|---|")
    print(
        f"| {options.replicas} | {kills} | {n:,} | {n / seconds:,.0f} | {len(traffic.decided):,} "
        f"| {rewarded:,} | {generator.n_copies:,} | {generator.failures.total():,} |\n"
    )
    print(summary(wrong))


def run(
    servers: list[Server], generator: Generator, options: argparse.Namespace
) -> tuple[float, int]:
    """Return the seconds under load, and the number of kills."""
    for server in servers:
        server.start()
    for server in servers:
        server.wait()
    killer = Killer(servers, generator, options.every)
    started = time.perf_counter()

    def goes_on(now: float) -> bool:
        killer.look(now)
        return generator.traffic.n_acknowledged < options.operations

    generator.run_while(goes_on)
    generator.finish()
    return time.perf_counter() - started, killer.kills


if __name__ == "__main__":
    main()
