"""Microseconds of a decision in batches: 100,000 tasks of 30 arms with 30 components.

    python benchmarks/batches.py
    python benchmarks/batches.py --other ../before/.venv/bin/python

A batch is one ``act`` for all tasks, after the rewards of the batches before. Each interpreter runs
in turns with the others in a process of its own, on one thread and on all. The fastest batch
counts, since noise can only add; the time is that of the wall.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from time import perf_counter

N_TASKS, N_BATCHES, N_TURNS = 100_000, 5, 3
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


def measure() -> None:
    """Print the microseconds of a decision among Bernoulli and among Gaussian arms."""
    import numpy as np
    from arms import bernoulli_prior, gaussian_prior

    import mixts

    for prior in (bernoulli_prior(), gaussian_prior()):
        agent, rng, fastest = mixts.MixTS(prior, N_TASKS, seed=1), np.random.default_rng(2), np.inf
        agent.act()  # compiles
        for _ in range(N_BATCHES):
            started = perf_counter()
            arms = agent.act()
            fastest = min(fastest, perf_counter() - started)
            agent.update(arms, (rng.random(N_TASKS) < 0.5).astype(float))
        print(1e6 * fastest / N_TASKS)


def run(python: str, threads: int | None) -> list[float]:
    """Measure in a process of an interpreter."""
    limits = {} if threads is None else dict.fromkeys(THREADS, str(threads))
    done = subprocess.run(
        [python, __file__, "--measure"],
        env={**os.environ, **limits},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return [float(line) for line in done.stdout.split()]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--other", action="append", default=[], help="another Python to compare")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        measure()
        return
    found: dict[tuple[str, str], list[list[float]]] = {}
    for _ in range(N_TURNS):
        for python in (*options.other, sys.executable):
            for name, threads in (("one", 1), ("all", None)):
                found.setdefault((python, name), []).append(run(python, threads))
    print("| interpreter | threads | Bernoulli, us | Gaussian, us |\n|---|---|---|---|")
    for (python, name), turns in found.items():
        best = [min(times) for times in zip(*turns, strict=True)]
        print(f"| {python} | {name} | {best[0]:.2f} | {best[1]:.2f} |")


if __name__ == "__main__":
    main()
