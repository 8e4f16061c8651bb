"""Measure the latency of decisions and rewards at a given rate.

    python benchmarks/service/latency.py [--rate 1000] [--seconds 60] [--connections 64]

Open loop: arrivals are a Poisson process, and each time counts from the arrival, so that a pause
of the service counts for everything that arrived meanwhile.
"""

from __future__ import annotations

import argparse

import numpy as np
from generator import Generator
from problem import N_TASKS, make_prior, true_means
from serving import clean_up_when_terminated, serving
from traffic import Traffic

WARM_UP = 5.0
QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999, "max": 1.0}
TARGETS = {"p50": 3.0, "p99": 15.0}
"""Milliseconds."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rate", type=float, default=1000.0, help="operations a second")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--tasks", type=int, default=N_TASKS)
    parser.add_argument("--folder", help="where the store is made")
    options = parser.parse_args()
    clean_up_when_terminated()
    traffic = Traffic(true_means(make_prior(), options.tasks))
    rng = np.random.default_rng(1)
    with serving(folder=options.folder) as server:
        generator = Generator([server.address], options.connections, traffic)
        generator.run_open(options.rate, WARM_UP, rng)
        generator.forget()
        generator.run_open(options.rate, options.seconds, rng)
    print(f"Open loop, {options.rate:,.0f} operations a second for {options.seconds:.0f} s; ms.\n")
    print(f"| what | n | {' | '.join(QUANTILES)} |")
    print("|---" * (2 + len(QUANTILES)) + "|")
    both = np.concatenate([np.array(times) for times in generator.latencies.values()])
    measured = {**generator.latencies, "both": both}
    for what, times in (*measured.items(), ("sent late by", generator.lateness)):
        row = milliseconds(times)
        print(f"| {what} | {len(times):,} | {' | '.join(f'{row[q]:.2f}' for q in QUANTILES)} |")
    found = milliseconds(both)
    for name, target in TARGETS.items():
        print(f"\n{name} <= {target:g} ms: {'yes' if found[name] <= target else 'MISSED'}", end="")
    print(f"\nrefused or broken: {generator.failures.total()}")
    if traffic.contradictions:
        raise SystemExit(f"contradictions: {traffic.contradictions[:5]}")


def milliseconds(times: object) -> dict[str, float]:
    values = 1e3 * np.quantile(np.array(times), list(QUANTILES.values()))
    return dict(zip(QUANTILES, values.tolist(), strict=True))


if __name__ == "__main__":
    main()
