"""``mixts warmup``: compile the loops of families into the cache."""

from __future__ import annotations

import argparse
import sys
from time import perf_counter

from mixts import _compiled
from mixts._progress import progress_bars
from mixts.agents.rehearsal import EXAMPLES, SHARING, rehearse_family
from mixts.cli import FAILED
from mixts.engines import engine_of, n_processors
from mixts.errors import ParameterError

_DESCRIPTION = f"""\
Compile the loops that decisions and updates need, and keep them in the cache, so that no program
and no service waits for the compiler. Loops that are in the cache already are only loaded. The
families are {", ".join(EXAMPLES)}."""


def register(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.description = _DESCRIPTION
    parser.set_defaults(run=run)
    parser.add_argument("families", nargs="*", metavar="FAMILY", help="default: all of them")


def run(options: argparse.Namespace) -> int:
    """Compile, and print how long each family took and where its code is."""
    unknown = [name for name in options.families if name not in EXAMPLES]
    if unknown:
        raise ParameterError(f"the families are {', '.join(EXAMPLES)}, got {unknown[0]!r}")
    if _compiled.FOLDER is None:  # the log has said why
        return FAILED
    names = options.families or list(EXAMPLES)
    jobs = [tuple(name for name in group if name in names) for group in SHARING]
    jobs = [job for job in jobs if job]
    started = perf_counter()
    with engine_of(min(len(jobs), n_processors())) as engine, progress_bars() as bars:
        bar = bars.add("compiling", len(jobs))
        for job, seconds in engine.as_completed(_rehearse, jobs):
            bar.advance(1)
            print(f"mixts: {', '.join(job)}: {seconds:.1f} s", file=sys.stderr, flush=True)
    taken = perf_counter() - started
    print(f"compiled loops of {', '.join(names)} are in {_compiled.FOLDER} ({taken:.1f} s)")
    return 0


def _rehearse(*names: str) -> float:
    """Rehearse families and return the seconds that they took."""
    started = perf_counter()
    for name in names:
        rehearse_family(name)
    return perf_counter() - started
