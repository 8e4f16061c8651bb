"""One side of a benchmark, a process of its own: plays one chunk for each line on its input.

    python side.py ours|peer BENCHMARK

It answers in JSON lines: first what it is (versions, the problem's fingerprint), once everything is
imported and warm; then, for each chunk number it reads, the seconds a round or an episode and
the regret.
"""

from __future__ import annotations

import json
import sys
import warnings
from importlib.metadata import PackageNotFoundError, version

from catalogue import BENCHMARKS

PACKAGES = {
    "ours": ("mixts", "numpy", "scipy"),
    "peer": (
        "bayesianbandits", "mabwiser", "vowpalwabbit", "rlberry", "rlberry-scool", "gymnasium",
        "scikit-learn", "joblib", "numba", "numpy", "scipy",
    ),
}  # fmt: skip


def versions(side: str) -> dict[str, str]:
    found = {"python": sys.version.split()[0]}
    for package in PACKAGES[side]:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def main() -> None:
    side, name = sys.argv[1:]
    # A peer's deprecation warnings are its own affair, and printing them costs time.
    warnings.filterwarnings("ignore")
    benchmark = BENCHMARKS[name]
    benchmark.chunk(side, 0)
    hello = {"versions": versions(side), "fingerprint": benchmark.fingerprint()}
    print(json.dumps(hello), flush=True)
    for line in sys.stdin:
        print(json.dumps(benchmark.chunk(side, int(line))), flush=True)


if __name__ == "__main__":
    main()
