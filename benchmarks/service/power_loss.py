"""Check that a power loss at any moment loses no acknowledged operation.

    python benchmarks/service/power_loss.py [--seeds 500] [--failing 0.1]

Each seed is a store on a disk (a SQLite VFS) that remembers what was not synced. The power is lost
at a random write, sync or change of a name, in a third of the runs after the process was killed and
started again; of what was not synced some is then there, in torn sectors and in any order, and the
store is opened again. With ``synchronous=NORMAL``, which syncs only at checkpoints, something must
be lost, or this would measure nothing. In the last line one sync in ten fails as well, and the
system forgets what it did not write.
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from serve.tests.power_loss_runs import run


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seeds", type=int, default=500)
    parser.add_argument("--failing", type=float, default=0.1, help="the share of syncs that fail")
    options = parser.parse_args()
    # That a disk without power cannot be written to is no news here.
    logging.getLogger("mixts_serve").setLevel(logging.CRITICAL)
    print(
        "| synchronous | syncs that fail | losses of power | acknowledged | lost | losing runs "
        "| anything else wrong | seconds |\n|---|---|---|---|---|---|---|---|"
    )
    for synchronous, failing in (("FULL", 0.0), ("NORMAL", 0.0), ("FULL", options.failing)):
        print(line(synchronous, failing, options.seeds), flush=True)


def line(synchronous: str, failing: float, n_seeds: int) -> str:
    """Return the outcome of this many stores as a line of the table."""
    began = time.perf_counter()
    acknowledged, lost, losing, wrong = 0, 0, 0, Counter[str]()
    for seed in range(n_seeds):
        with tempfile.TemporaryDirectory(prefix="mixts-power-") as folder:
            outcome = run(seed, Path(folder), synchronous, failing)
        acknowledged += outcome.acknowledged
        lost += outcome.lost
        losing += outcome.lost > 0
        wrong += outcome.wrong
    others = ", ".join(f"{n} {what}" for what, n in wrong.items()) or "nothing"
    seconds = time.perf_counter() - began
    return (
        f"| {synchronous} | {failing:.0%} | {n_seeds} | {acknowledged:,} "
        f"| {lost:,} | {losing} | {others} | {seconds:.0f} |"
    )


if __name__ == "__main__":
    main()
