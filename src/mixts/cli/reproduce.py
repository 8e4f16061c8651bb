"""``mixts reproduce``: run experiments, draw their figures, write the report."""

from __future__ import annotations

import argparse
import shutil
import sys
import textwrap
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from mixts.cli.main import INTERRUPTED
from mixts.engines import Engine
from mixts.errors import ParameterError
from mixts.experiments import Reproduction, reproduce

_DESCRIPTION = """\
Run experiments, draw their figures and write report.html. Results are kept block by block: an
interrupted command is simply repeated. The numbers depend on the seed, never on who plays."""


def register(commands: Any) -> None:
    """Add the command."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "reproduce",
        help="run experiments, the paper's or others, and write a report",
        description=_DESCRIPTION,
    )
    add = parser.add_argument
    add("ids", nargs="*", metavar="ID", help="experiments, or a group of them (default: paper)")
    add("--runs", type=int, help="of each simulation (default: the paper's)")
    add("--rounds", type=int, help="of each run (default: the paper's)")
    add("--seed", type=int, default=1, help="of everything random (default 1)")
    add("--quick", action="store_true", help="few runs and rounds: see that it works")
    add("--out", type=Path, help="the output folder (default reproduction, or reproduction-quick)")
    add("--workers", type=int, help="processes (default: one for each processor)")
    add("--engine", choices=("local", "dask"), default="local", help="where blocks are played")
    add("--scheduler", metavar="ADDRESS", help="of a Dask cluster, tcp://host:8786")
    add("--features", type=Path, metavar="FILE", help="image features for paper/images (npz)")
    add("--option", action="append", default=[], metavar="NAME=VALUE",
        help="an option of an experiment's own; may be repeated")  # fmt: skip
    add("--quiet", action="store_true", help="no progress, only errors")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Reproduce, and say where the report is."""
    out = options.out or Path("reproduction-quick" if options.quick else "reproduction")
    choices = _choices(options)
    say = _silent if options.quiet else _say
    try:
        done = reproduce(
            options.ids, out,
            n_runs=options.runs, n_rounds=options.rounds, seed=options.seed, quick=options.quick,
            engine=_engine(options), progress=False if options.quiet else None, say=say, **choices,
        )  # fmt: skip
    except KeyboardInterrupt:
        print(
            f"\nmixts: stopped. Finished blocks are in {out}: the same command goes on from there.",
            file=sys.stderr,
        )
        return INTERRUPTED
    if not options.quiet:
        print(summary(done))
    return 0


def _choices(options: argparse.Namespace) -> dict[str, Any]:
    """Return the options that belong to single experiments."""
    choices = {} if options.features is None else {"features": options.features}
    for word in options.option:
        name, equals, value = word.partition("=")
        if not (name and equals):
            raise ParameterError(f"--option must be NAME=VALUE, got {word!r}")
        choices[name] = value
    return choices


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _silent(line: str) -> None:
    return None


def _engine(options: argparse.Namespace) -> Callable[[], Engine] | int | None:
    if options.engine == "dask":
        from mixts.engines.dask import DaskEngine

        # A cluster is asked for only if there is something to play.
        return partial(DaskEngine, options.scheduler, options.workers)
    if options.scheduler is not None:
        raise ParameterError("--scheduler is the address of a Dask cluster: add --engine dask")
    workers: int | None = options.workers
    return workers


def summary(done: Reproduction) -> str:
    """Every claim with its verdict, and where to read more."""
    width = min(100, shutil.get_terminal_size().columns)
    lines = []
    for section in done.sections:
        lines.append(f"\n{section.id}  {section.title} ({section.place})")
        for claim in section.claims:
            head = f"  {claim.verdict.upper()}: "
            text = f"{claim.claim} Measured: {claim.measured}."
            lines += textwrap.wrap(
                text, width, initial_indent=head, subsequent_indent="    ", break_on_hyphens=False
            )
    played = f"{done.n_blocks} blocks played" if done.n_blocks else "nothing was left to play"
    lines.append(f"\n{played}, {done.seconds:.0f} s. Report: {done.report}")
    return "\n".join(lines)
