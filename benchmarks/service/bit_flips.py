"""Check that no flipped bit in the files of a store passes unnoticed.

    python benchmarks/service/bit_flips.py [--flips 400] [--decisions 150] [--seed 1]

One random bit at a time is flipped, first in the write-ahead log that a killed service left, then
in the file of a service that was stopped. A bit is *refused* if the store does not open, *reported*
if ``rebuild`` reports damage, *harmless* if all rows are as they were, and *missed* otherwise.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np

import mixts
from mixts.errors import MixtsError
from mixts.service import Decider
from mixts.service.store.rebuild import rebuild

ENDS = ("", "-wal", "-shm")
Files = dict[str, bytes]


def read(path: Path) -> Files:
    """Return the files of a store by the ends of their names."""
    found = {end: path.with_name(path.name + end) for end in ENDS}
    return {end: file.read_bytes() for end, file in found.items() if file.exists()}


def rows(store: mixts.DecisionStore) -> dict[str, list[object]]:
    """Return everything that is in a store."""
    names = store.backend.query("SELECT name FROM sqlite_schema WHERE type = 'table'")
    return {name: store.backend.query(f"SELECT * FROM {name}") for (name,) in names}


def outcome(path: Path, files: Files, right: dict[str, list[object]]) -> str:
    """Return what becomes of a store with these files."""
    for end in ENDS:
        path.with_name(path.name + end).unlink(missing_ok=True)
    for end, content in files.items():
        path.with_name(path.name + end).write_bytes(content)
    try:
        with mixts.DecisionStore(path) as store:
            found = rebuild(store, write=False)
            if found.damage or found.differing or found.windows or found.counts:
                return "reported"
            return "harmless" if rows(store) == right else "missed"
    except MixtsError:
        return "refused"


def make(path: Path, n_decisions: int) -> tuple[Files, Files, dict[str, list[object]]]:
    """Return the files after a kill and after a stop, and all rows."""
    alpha, beta = np.random.default_rng(0).uniform(1, 5, (2, 3, 5))
    prior = mixts.MixturePrior(mixts.BernoulliArms(alpha, beta))
    with mixts.DecisionStore(path) as store:
        with Decider(prior, store, seed=1) as decider:
            for i in range(n_decisions):
                made = decider.decide(f"task {i % 50}")
                if i % 2:
                    decider.reward(made.id, i % 3 == 0)
            killed = read(path)
        right = rows(store)
    return killed, read(path), right


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--flips", type=int, default=400)
    parser.add_argument("--decisions", type=int, default=150)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    rng, missed = np.random.default_rng(options.seed), 0
    print("| bit in | bytes | flips | refused | reported | harmless | missed |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="mixts-bench-") as folder:
        path = Path(folder) / "decisions.db"
        killed, stopped, right = make(path, options.decisions)
        for name, end, files in (("the log", "-wal", killed), ("the file", "", stopped)):
            content, counts = files[end], Counter[str]()
            for _ in range(options.flips):
                damaged = bytearray(content)
                damaged[rng.integers(len(content))] ^= 1 << int(rng.integers(8))
                counts[outcome(path, files | {end: bytes(damaged)}, right)] += 1
            kinds = [str(counts[kind]) for kind in ("refused", "reported", "harmless", "missed")]
            print(
                f"| {name} | {len(content):,} | {options.flips} | {' | '.join(kinds)} |", flush=True
            )
            missed += counts["missed"]
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
