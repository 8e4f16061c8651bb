"""``mixts refit``: learn the prior of a store again, and activate it."""

from __future__ import annotations

import argparse
import sys

from mixts.cli import FAILED
from mixts_serve.commands.serve import seconds

_DESCRIPTION = """\
Learn the prior again from all tasks of a store, together with all that the last uploaded prior was
learned from, and activate the result unless it predicts worse than the prior in force. The service
may go on meanwhile. A second run without new tasks or rewards changes nothing, so a timer may run
the command daily. The exit status is 0 if all is well, 1 if the new prior predicts worse and was
not activated, and 2 if nothing was learned, for example because data of some days look wrong."""


def register(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.description = _DESCRIPTION
    parser.set_defaults(run=run)
    add = parser.add_argument
    add("store", metavar="STORE", help="a SQLite file, or postgresql://...")
    days = (
        "days to leave out, such as 2026-03-01 or 2026-03-01..2026-03-07, besides those of the "
        "last refit; may be repeated; 'none' takes those back"
    )
    add("--exclude", action="append", default=[], metavar="DAYS", help=days)
    wish = (
        "when to activate the new prior: refit (at once), ask (a person does), or a number such as "
        "100: when the evidence for it reaches that (default: as the service was told)"
    )
    add("--promote", type=_promotion, metavar="WHEN", help=wish)
    window = (
        "also try only tasks that are no older, such as 60d, and use that where it predicts the "
        "newest tasks better"
    )
    add("--window", type=seconds, metavar="TIME", help=window)
    root = "number of tasks that the uploaded prior counts for, if it does not say it itself"
    add("--root-tasks", type=float, metavar="N", help=root)
    add("--seed", type=int, default=1, metavar="N", help="seed of all that is random (default 1)")
    force = "learn from data that look wrong, and activate a prior that predicts worse"
    add("--force", action="store_true", help=force)
    add("--json", action="store_true", help="print the result as JSON")


def run(options: argparse.Namespace) -> int:
    """Refit the prior of a store, and print what changed."""
    from msgspec.json import encode

    from mixts_serve.refits import refit
    from mixts_serve.store import DecisionStore

    with DecisionStore(options.store, create=False) as store:
        found = refit(
            store, exclude=options.exclude, promote=options.promote, window=options.window,
            root_tasks=options.root_tasks, seed=options.seed, force=options.force,
        )  # fmt: skip
    if options.json:
        sys.stdout.write(encode(found).decode() + "\n")
    else:
        print("\n".join(found.lines))
    return FAILED if found.status == "refused" else 0


def _promotion(text: str) -> str | float:
    if text in ("refit", "ask"):
        return text
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"expected refit, ask or a number such as 100, got {text!r}"
        ) from None
