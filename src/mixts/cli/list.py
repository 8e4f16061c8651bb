"""``mixts list``: list the experiments."""

from __future__ import annotations

import argparse

from mixts.experiments import all_experiments


def register(parser: argparse.ArgumentParser) -> None:
    """Describe the command."""
    parser.description = "List the experiments and their scale."
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print one line for each experiment."""
    rows = [("id", "runs", "rounds", "place in the paper", "what")]
    for id, experiment in all_experiments().items():
        scale = experiment.scale
        rows.append(
            (id, f"{scale.n_runs:,}", f"{scale.n_rounds:,}", experiment.place, experiment.title)
        )
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        cells = [
            cell.rjust(width) if i in (1, 2) else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        print("  ".join(cells).rstrip())
    return 0
