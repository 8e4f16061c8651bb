"""Measure decisions and episodes of mixts and of its peers; print one table of ratios.

    python benchmarks/run.py --peers PEERS_PYTHON [--quick] [--only NAME] [--out FILE]

PEERS_PYTHON is the interpreter of an environment with what ``peers.txt`` lists, as ``make bench``
makes it; without it only our own times are taken. A missed target is reported, not an error.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from alternation import measure
from catalogue import BENCHMARKS
from table import report

N_CHUNKS = 20
N_CHUNKS_QUICK = 4


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--peers", help="the Python of the peers' environment")
    parser.add_argument("--quick", action="store_true", help="fewer chunks, rougher numbers")
    parser.add_argument("--only", nargs="+", choices=BENCHMARKS, metavar="NAME", help="these only")
    parser.add_argument("--out", type=Path, help="write the report to this file as well")
    return parser.parse_args()


def main() -> None:
    options = parse()
    n_chunks = N_CHUNKS_QUICK if options.quick else N_CHUNKS
    measurements = []
    for name in options.only or BENCHMARKS:
        print(f"{name} ...", file=sys.stderr, flush=True)
        measurements.append(measure(BENCHMARKS[name], sys.executable, options.peers, n_chunks))
    text = report(measurements, n_chunks)
    print(text, end="")
    if options.out:
        options.out.write_text(text)


if __name__ == "__main__":
    main()
