"""Measure the operations a second that the service handles, decisions and rewards one to one.

    python benchmarks/service/load.py [--seconds 60] [--connections 64] [--folder DIR]

Closed loop: every connection sends its next operation when the last is acknowledged. The load
generator runs on the same machine. ``--folder`` says where the store is, and so which disk it is.
"""

from __future__ import annotations

import argparse
import time

from generator import Generator
from problem import N_TASKS, make_prior, true_means
from serving import clean_up_when_terminated, serving
from traffic import Traffic

TARGET = 2_000
WARM_UP = 3.0
"""Seconds before the measurement: tasks are created, code is loaded."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--tasks", type=int, default=N_TASKS)
    parser.add_argument("--folder", help="where the store is made")
    options = parser.parse_args()
    clean_up_when_terminated()
    traffic = Traffic(true_means(make_prior(), options.tasks))
    with serving(folder=options.folder) as server:
        ready = server.megabytes()
        generator = Generator([server.address], options.connections, traffic)
        generator.run_closed(WARM_UP)
        before = traffic.n_acknowledged
        server_cpu, own_cpu = server.cpu_seconds(), time.process_time()
        started = time.perf_counter()
        generator.run_closed(options.seconds)
        generator.finish()
        seconds = time.perf_counter() - started
        n = traffic.n_acknowledged - before
        loaded = server.megabytes()
        server_cpu, own_cpu = server.cpu_seconds() - server_cpu, time.process_time() - own_cpu
    print("| seconds | connections | operations a second | target | met? | refused or broken |")
    print("|---|---|---|---|---|---|")
    rate = n / seconds
    verdict = "yes" if rate >= TARGET and not generator.failures else "MISSED"
    print(
        f"| {seconds:.1f} | {options.connections} | {rate:,.0f} | {TARGET:,} | {verdict} "
        f"| {generator.failures.total()} |"
    )
    print(
        f"\nCPU seconds: server {server_cpu:.1f} ({1e6 * server_cpu / n:.0f} us an operation), "
        f"generator {own_cpu:.1f} ({1e6 * own_cpu / n:.0f} us an operation)."
    )
    print(f"Memory of the server: {ready:.0f} MB when ready, {loaded:.0f} MB under load.")
    if traffic.contradictions:
        raise SystemExit(f"contradictions: {traffic.contradictions[:5]}")


if __name__ == "__main__":
    main()
