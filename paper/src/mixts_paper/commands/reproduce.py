"""``mixts reproduce``: list or run experiments, draw their figures, write the report."""

from __future__ import annotations

import argparse
import logging
import shutil
import sys
import textwrap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mixts.cli import INTERRUPTED, add_engine_options, engine_from
from mixts.errors import ParameterError
from mixts_paper.experiments import Experiment, Reproduction, reproduce
from mixts_paper.experiments.base import chosen

_DESCRIPTION = """\
Run experiments, draw their figures and write report.html. Finished blocks of runs are kept: to
continue after an interruption, run the same command again. The numbers depend on the seed, and not
on where or on how many processes the blocks run."""

OLD_RESULTS = 3
"""Exit status: the report has numbers of other code than the present one."""


def register(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.description = _DESCRIPTION
    add = parser.add_argument
    add("ids", nargs="*", metavar="ID",
        help="experiments (paper/width), a group of them (paper, beyond), or modules with "
        "experiments (mixts_paper.studies.movielens); default: paper and beyond")  # fmt: skip
    add("--list", action="store_true", help="list the experiments and their scale, and run none")
    add("--runs", type=int, help="runs of each simulation (default: the experiment's own)")
    add("--rounds", type=int, help="rounds of each run (default: the experiment's own)")
    add("--seed", type=int, default=1, help="seed of all random numbers (default 1)")
    add("--quick", action="store_true", help="few runs and rounds, to see that it works")
    add("--out", type=Path, help="output folder (default reproduction, or reproduction-quick)")
    add_engine_options(parser, "one for each processor")
    add("--features", type=Path, metavar="FILE",
        help="image features (npz) for paper/images and beyond/policies")  # fmt: skip
    add("--option", action="append", default=[], metavar="NAME=VALUE",
        help="another option of an experiment; may be repeated")  # fmt: skip
    add("--quiet", action="store_true", help="print errors only")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the experiments, print a summary and return the exit status."""
    if options.list:
        print(listing(chosen(options.ids)))
        return 0
    out = options.out or Path("reproduction-quick" if options.quick else "reproduction")
    try:
        with _messages(options.quiet):
            done = reproduce(
                options.ids, out,
                n_runs=options.runs, n_rounds=options.rounds, seed=options.seed,
                quick=options.quick, engine=engine_from(options),
                progress=False if options.quiet else None, **_choices(options),
            )  # fmt: skip
    except KeyboardInterrupt:
        print(
            f"\nmixts: stopped. Finished blocks are in {out}: to continue, run the same command "
            "again.",
            file=sys.stderr,
        )
        return INTERRUPTED
    if not options.quiet:
        print(summary(done))
    if done.stale:
        print(
            f"mixts: the numbers of {', '.join(done.stale)} come from other code or libraries than "
            f"the present ones. To compute them again, remove these folders in {out}",
            file=sys.stderr,
        )
    return OLD_RESULTS if done.stale else 0


def listing(experiments: Mapping[str, Experiment]) -> str:
    """Return a table with one line for each experiment."""
    rows = [("id", "runs", "rounds", "place in the paper", "what")]
    for id, experiment in experiments.items():
        scale = experiment.scale
        rows.append(
            (id, f"{scale.n_runs:,}", f"{scale.n_rounds:,}", experiment.place, experiment.title)
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(
            cell.rjust(width) if i in (1, 2) else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
    return "\n".join(line.rstrip() for line in lines)


@contextmanager
def _messages(quiet: bool) -> Iterator[None]:
    """Print messages about the progress to standard error, unless quiet."""
    log = logging.getLogger("mixts_paper.experiments")
    handler = logging.StreamHandler(sys.stderr)
    level = log.level
    if not quiet:
        log.addHandler(handler)
        log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(level)


def _choices(options: argparse.Namespace) -> dict[str, Any]:
    """Return the options that belong to single experiments."""
    choices = {} if options.features is None else {"features": options.features}
    for word in options.option:
        name, equals, value = word.partition("=")
        if not (name and equals):
            raise ParameterError(f"--option must be NAME=VALUE, got {word!r}")
        choices[name] = value
    return choices


def summary(done: Reproduction) -> str:
    """Return every claim with its verdict, and the path of the report."""
    width = min(100, shutil.get_terminal_size().columns)
    lines = []
    for section in done.sections:
        old = " [OLD RESULTS]" if section.id in done.stale else ""
        lines.append(f"\n{section.id}  {section.title} ({section.place}){old}")
        for claim in section.claims:
            head = f"  {claim.verdict.upper()}: "
            text = f"{claim.claim} Measured: {claim.measured}."
            lines += textwrap.wrap(
                text, width, initial_indent=head, subsequent_indent="    ", break_on_hyphens=False
            )
    blocks = f"{done.n_blocks} blocks simulated" if done.n_blocks else "no block was missing"
    lines.append(f"\n{blocks}, {done.seconds:.0f} s. Report: {done.report}")
    return "\n".join(lines)
