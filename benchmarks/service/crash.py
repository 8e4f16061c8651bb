"""Check that ``kill -9`` at any moment neither loses nor doubles an acknowledged operation.

    python benchmarks/service/crash.py [--kills 200] [--operations 100000] [--seed 1]

The benchmark kills one server under load many times, each time after a random number of operations
and a random pause of a few milliseconds, and restarts it. It repeats unacknowledged requests with
the same key, as a client does. At the end the store must have every acknowledged decision and
reward once, with the acknowledged values, and statistics that equal a count of its log.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from audit import audit, summary
from generator import Generator
from mixts_serve import DecisionStore
from problem import N_TASKS, make_prior, true_means
from serving import clean_up_when_terminated, new_server
from traffic import Traffic

TARGET = 2.0
"""Seconds in which a killed server must respond again."""
LONGEST_PAUSE = 0.02
"""Largest random delay of a kill, in seconds."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--operations", type=int, default=100_000, help="at least so many")
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--tasks", type=int, default=N_TASKS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", help="where the store is made")
    options = parser.parse_args()
    clean_up_when_terminated()
    traffic = Traffic(true_means(make_prior(), options.tasks), seed=options.seed, delay=0.05)
    rng = np.random.default_rng(options.seed)
    with tempfile.TemporaryDirectory(prefix="mixts-crash-", dir=options.folder) as name:
        store = str(Path(name) / "decisions.db")
        server = new_server(Path(name), store)
        generator = Generator([server.address], options.connections, traffic)
        restarts = []
        try:
            for kill in range(options.kills + 1):
                server.start()
                restarts.append(server.wait())
                left = options.operations - traffic.n_acknowledged
                if kill == options.kills:  # the last server finishes the work
                    run_until(generator, max(left, 1))
                    break
                share = max(left, 1) / (options.kills - kill)
                run_until(generator, 1 + int(rng.uniform(0, 2 * share)))
                generator.run_closed(rng.uniform(0, LONGEST_PAUSE))
                server.kill()
                generator.hear_out(0)
                if sys.stderr.isatty():
                    print(f"\rkill {kill + 1}", end="", file=sys.stderr)
            generator.finish()
        finally:
            server.stop()
        with DecisionStore(store) as opened:
            wrong = audit(opened, traffic)
    rewarded = sum(decided.reward is not None for decided in traffic.decided.values())
    slowest = max(restarts)
    print(
        "| kills | acknowledged | decisions | rewards | asked for again | restart, s: median, max |"
    )
    print("|---|---|---|---|---|---|")
    print(
        f"| {options.kills} | {traffic.n_acknowledged:,} | {len(traffic.decided):,} | {rewarded:,} "
        f"| {generator.failures['broken connection']:,} "
        f"| {np.median(restarts):.2f}, {slowest:.2f} ({TARGET:g}: {met(slowest <= TARGET)}) |\n"
    )
    print(summary(wrong))


def met(good: bool) -> str:
    return "met" if good else "MISSED"


def run_until(generator: Generator, n: int) -> None:
    """Run until this many more operations are acknowledged."""
    end = generator.traffic.n_acknowledged + n
    started = time.perf_counter()
    generator.run_while(lambda now: generator.traffic.n_acknowledged < end and now - started < 60)


if __name__ == "__main__":
    main()
