"""``mixts store``: show, rebuild, export or salvage a store of decisions."""

from __future__ import annotations

import argparse
import os
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from mixts.cli.main import FAILED
from mixts.errors import ParameterError

_SHOW = "Print the number of tasks, decisions and rewards, and the versions of the prior."
_REBUILD = """\
Recompute all statistics from the log, in its order, and correct those that differ. None differ
unless another program changed the store. No other process can write meanwhile. With --check nothing
is changed, and the exit status is 1 if something differs. The content of a SQLite file is checked
first, row by row with checksums."""

_SHOWN = 100
"""Number of damages that are listed."""
_EXPORT = """\
Write decisions with their propensities and rewards to one file: Parquet or CSV, which `mixts fit`
reads, with the names of Open Bandit Pipeline, or the dsjson of Vowpal Wabbit. The name of the file
decides. CSV holds lists, such as the probabilities of all actions, as JSON text. The service may go
on meanwhile."""

_SALVAGE = """\
Make a SQLite file usable again whose write-ahead log is damaged, after a copy of all of its files.
Everything in the log is kept if the file is whole with it; otherwise everything from the damage on
is dropped. Stop the service first."""


def register(parser: argparse.ArgumentParser) -> None:
    """Add the actions of the command."""
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    show = actions.add_parser("show", help="print a summary", description=_SHOW)
    show.set_defaults(run=run_show)
    rebuild = actions.add_parser(
        "rebuild", help="recompute all statistics from the log", description=_REBUILD
    )
    rebuild.set_defaults(run=run_rebuild)
    rebuild.add_argument("--check", action="store_true", help="compare only; change nothing")
    export = actions.add_parser("export", help="write decisions to a file", description=_EXPORT)
    export.set_defaults(run=run_export)
    salvage = actions.add_parser(
        "salvage", help="rescue a file whose log is damaged", description=_SALVAGE
    )
    salvage.set_defaults(run=run_salvage)
    for action in (show, rebuild, export, salvage):
        action.add_argument("store", metavar="STORE", help="a SQLite file, or postgresql://...")
    add = export.add_argument
    add("out", type=Path, metavar="OUT", help="file to write: .parquet, .csv, .csv.gz or .dsjson")
    add("--format", choices=("parquet", "csv", "vw"), help="of a file with another name")
    moment = "2024-05-31 or 2024-05-31T18:30:00+02:00; UTC unless given"
    add("--since", type=_moment, metavar="TIME", help=f"only decisions from this time on: {moment}")
    add("--until", type=_moment, metavar="TIME", help="only decisions before this time")
    missing = "dsjson: reward of decisions without one (default: leave them out)"
    add("--missing-reward", type=float, metavar="NUMBER", help=missing)
    add("--force", action="store_true", help="overwrite a file that exists")


def run_show(options: argparse.Namespace) -> int:
    """Print a summary of a store."""
    from mixts.service.windows import silence_warning

    with _opened(options.store) as store:
        found = store.summary()
    totals = found.totals
    print(f"{found.name}: {found.database}, tables of version {found.schema_version}, ", end="")
    print(_size(found.n_bytes))
    print(_counted(totals))
    if totals.defaults or found.unrewarded.deferred or found.unrewarded.given_up:
        print(_without_reward(found.unrewarded))
    for row in found.priors:
        uploaded = datetime.fromtimestamp(row.uploaded_at, UTC).strftime("%Y-%m-%d %H:%M")
        kinds = f"{row.n_components} component{'s' * (row.n_components != 1)}"
        active = ", active" * row.active
        print(f"prior version {row.version}: {row.family}, {kinds}, from {uploaded} UTC{active}")
    if not found.priors:
        print("no prior yet: mixts serve --prior brings one")
    if found.only_value is not None:
        print(f"warning: {silence_warning(found.only_value)}")
    return 0


def run_rebuild(options: argparse.Namespace) -> int:
    """Recompute the statistics, and print what differed."""
    from mixts.service.store.rebuild import rebuild

    with _opened(options.store) as store:
        found = rebuild(store, write=not options.check)
    print(_counted(found))
    for damage in found.damage[:_SHOWN]:
        print(f"damaged: {damage}")
    if len(found.damage) > _SHOWN:
        print(f"damaged: {len(found.damage) - _SHOWN:,} more")
    if found.windows:
        print(f"{found.windows:,} open reward windows differ from the log")
    if found.counts:
        print(f"{found.counts:,} counts over time differ from the log")
    if not found.differing:
        print("every task's statistics are those of the log, to the bit")
        wrong = found.windows + found.counts + len(found.damage)
        return FAILED if options.check and wrong else 0
    one = found.differing == 1
    which = "1 task differs" if one else f"{found.differing:,} tasks differ"
    names = ", ".join(repr(name) for name in found.examples)
    more = ", ..." * (found.differing > len(found.examples))
    print(f"{which} from the log: {names}{more}")
    if found.written:
        print("it was replaced" if one else "they were replaced")
    return FAILED if options.check else 0


def run_export(options: argparse.Namespace) -> int:
    """Write the decisions to a file, and print how many."""
    from mixts.bridges.vw import write_dsjson
    from mixts.service.store.export import export

    out: Path = options.out
    span = {"since": options.since, "until": options.until}
    left_out = 0
    chosen = _checked_format(options)
    with _opened(options.store) as store:
        if chosen != "vw":
            done = export(store, out, **span, file_format=chosen)
        else:
            with TemporaryDirectory(prefix=".mixts-", dir=out.parent) as folder:
                table = Path(folder) / "decisions.parquet"
                done = export(store, table, **span)
                events = write_dsjson(table, out, missing_reward=options.missing_reward)
            left_out = events.n_without_reward
    counts = _rewards(done.n_rewards, done.n_late, done.n_defaults)
    print(f"{done.n_rows:,} decisions, {counts}")
    if left_out:
        print(f"{left_out:,} decisions without a reward were left out")
    print(f"{out} has them: {_size(out.stat().st_size)}")
    return 0


def run_salvage(options: argparse.Namespace) -> int:
    """Rescue a store whose log is damaged, and print what was done."""
    if "://" in options.store:
        raise ParameterError("only a SQLite file has a log that can be salvaged, got an address")
    _check_there(options.store)
    from mixts.service.store.salvage import salvage

    found = salvage(Path(options.store))
    if found is None:
        print(f"the log of {options.store} is not damaged: nothing was changed")
        return 0
    print(f"{found.copy} and the files beside it are a copy of the damaged store")
    if found.dropped:
        print(f"{found.dropped:,} of {found.damage.written:,} pages of the log were dropped: the")
        print("decisions and rewards in them are lost, although they were acknowledged")
    else:
        print(f"all {found.damage.written:,} pages of the log were kept, and the file is whole")
    print(f"now run: mixts store rebuild --check {options.store}")
    return 0


def _size(n_bytes: int) -> str:
    """Return the size of a file in words."""
    return f"{n_bytes / 1e6:,.1f} MB" if n_bytes >= 1e6 else f"{n_bytes / 1e3:,.0f} kB"


# -- options --------------------------------------------------------------------------------------


def _opened(name: str) -> Any:
    """Open an existing store; raise an error instead of creating one."""
    _check_there(name)
    from mixts.service.store import DecisionStore

    return DecisionStore(name, create=False)


def _check_there(name: str) -> None:
    if "://" not in name and not os.path.lexists(name):
        raise ParameterError(f"there is no store {name}: mixts serve --store makes one")


def _checked_format(options: argparse.Namespace) -> Any:
    """Return the format of the output; raise an error if it cannot be written."""
    from mixts.logs.decisions import SUFFIXES, format_of

    out: Path = options.out
    if "://" not in options.store and out.resolve() == Path(options.store).resolve():
        raise ParameterError(f"{out} is the store itself: choose another file")
    if out.exists() and not (options.force and out.is_file()):
        raise ParameterError(f"{out} exists: choose another file, or add --force")
    if not out.parent.is_dir() or not os.access(out.parent, os.W_OK):
        raise ParameterError(f"{out.parent} is not a folder that can be written to")
    chosen = options.format or format_of(out, {**SUFFIXES, ".dsjson": "vw"})
    if options.missing_reward is not None and chosen != "vw":
        raise ParameterError(
            "--missing-reward is for --format vw: in other files a reward that never came is null, "
            "and `mixts fit --missing-reward` replaces it"
        )
    return chosen


def _moment(text: str) -> float:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"expected a time as in 2024-05-31 or 2024-05-31T18:30:00+02:00, got {text!r}"
        ) from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _counted(found: Any) -> str:
    counts = _rewards(found.rewards, found.late, found.defaults)
    return f"{found.tasks:,} tasks, {found.decisions:,} decisions, {counts}"


def _rewards(n: int, late: int, defaults: int) -> str:
    if not defaults:
        return f"{n:,} rewards" + (f", {late:,} of them late" if late else "")
    after = f"; {late:,} rewards came late" if late else ""
    return f"{n:,} rewards, {defaults:,} of them defaults{after}"


def _without_reward(found: Any) -> str:
    counts = {
        "wait for one": found.waiting + found.due,
        "were deferred and not activated": found.deferred,
        "have waited longer than the reward window": found.given_up,
    }
    listed = ", ".join(f"{n:,} {what}" for what, n in counts.items() if n)
    return f"decisions without a reward: {listed or 'none'}"
