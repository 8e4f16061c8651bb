"""``mixts store``: show, report, check, rebuild, back up, ingest, export, archive, or erase."""

from __future__ import annotations

import argparse
import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from mixts.cli import FAILED
from mixts.errors import ParameterError
from mixts_serve.commands.serve import seconds

_SHOW = "Print the number of tasks, decisions and rewards, and the versions of the prior."
_CHECK = """\
Check the content of a SQLite file row by row with checksums, and compare all statistics with those
that follow from the log. Nothing is changed. The exit status is 0 if the store is sound, and 1 if
it is not. No other process can write meanwhile: check a copy of a store that is in use."""
_REBUILD = """\
Recompute all statistics from the log, in its order, and correct those that differ. None differ
unless another program changed the store. No other process can write meanwhile. A damaged store is
refused."""
_BACKUP = """\
Copy a SQLite file to a new one; the service may go on meanwhile. The copy has everything that was
acknowledged before the command began."""

_REPORT = """\
Compare the tasks that the service decides with those that a holdback left to a baseline, and write
a page about it; the service may go on meanwhile. Decisions count when their reward windows have
ended."""
_ERASE = """\
Erase tasks with everything about them: decisions, rewards, and the actions that only they were
offered. The counts are then those without them. The service may go on meanwhile. Names that the
store does not know are counted, so the command may be repeated."""
_ARCHIVE = """\
Move decisions that are older than --keep to Parquet files, which `mixts fit` reads. What was
learned from them stays. The service may go on meanwhile, and a run that was killed is completed by
the next one."""

_INGEST = """\
Read rewards, and decisions that were made elsewhere, from JSON lines (.jsonl, .jsonl.gz), Parquet
or standard input, and count each once, however often it is read. The service may go on meanwhile,
and a run that was killed is completed by the next one: the store knows how far each file was read.
From standard input, a line of JSON says after each transaction how many lines are safe. The exit
status is 1 if rows were set aside."""

_SHOWN = 100
"""Number of damages that are listed."""
_EXPORT = """\
Write decisions with their propensities and rewards to one file: Parquet or CSV, which `mixts fit`
reads, with the names of Open Bandit Pipeline, or the dsjson of Vowpal Wabbit. The name of the file
decides. CSV holds lists, such as the probabilities of all actions, as JSON text. The service may go
on meanwhile."""


def register(parser: argparse.ArgumentParser) -> None:
    """Add the actions of the command."""
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    named = {}
    for name, run, text, description in (
        ("show", run_show, "print a summary", _SHOW),
        ("report", run_report, "tell what the service is worth", _REPORT),
        ("check", run_check, "look for damage, and compare statistics with the log", _CHECK),
        ("rebuild", run_rebuild, "recompute all statistics from the log", _REBUILD),
        ("backup", run_backup, "copy a store that is in use", _BACKUP),
        ("ingest", run_ingest, "read rewards from files or a stream", _INGEST),
        ("export", run_export, "write decisions to a file", _EXPORT),
        ("archive", run_archive, "move old decisions to files", _ARCHIVE),
        ("erase", run_erase, "erase tasks by their names", _ERASE),
    ):
        named[name] = actions.add_parser(name, help=text, description=description)
        named[name].set_defaults(run=run)
        where = "a SQLite file" + ", or postgresql://..." * (name != "backup")
        named[name].add_argument("store", metavar="STORE", help=where)
    page = named["report"].add_argument
    page("--out", type=Path, metavar="FILE", help="write the page to this file (default: none)")
    page("--json", action="store_true", help="print JSON instead of words")
    named["backup"].add_argument("to", type=Path, metavar="TO", help="a file that does not exist")
    add = named["ingest"].add_argument
    add("files", nargs="*", metavar="FILE", help="files; - or none for standard input")
    rejects = "append rows that are refused to this file (default: stop at the first)"
    add("--rejects", type=Path, metavar="FILE", help=rejects)
    add("--again", action="store_true", help="read files from their beginning")
    wait = "time for which a reward waits for a decision that is not known yet (default 10m)"
    add("--wait", type=seconds, metavar="TIME", help=wait)
    add = named["export"].add_argument
    add("out", type=Path, metavar="OUT", help="file to write: .parquet, .csv, .csv.gz or .dsjson")
    moment = "2024-05-31 or 2024-05-31T18:30:00+02:00; UTC unless given"
    add("--since", type=_moment, metavar="TIME", help=f"only decisions from this time on: {moment}")
    add("--until", type=_moment, metavar="TIME", help="only decisions before this time")
    missing = "dsjson: reward of decisions without one (default: leave them out)"
    add("--missing-reward", type=float, metavar="NUMBER", help=missing)
    add("--force", action="store_true", help="overwrite a file that exists")
    add = named["archive"].add_argument
    kept = "age from which on decisions are moved, such as 400d"
    add("--keep", type=seconds, metavar="TIME", required=True, help=kept)
    add("--to", type=Path, metavar="FOLDER", required=True, help="folder of the files")
    add = named["erase"].add_argument
    add("names", nargs="*", metavar="NAME", help="names of tasks")
    add("--file", metavar="FILE", help="file of more names, one a line; - for standard input")
    archived = "also erase them from the files of `mixts store archive` in this folder"
    add("--archive", type=Path, metavar="FOLDER", help=archived)


def run_show(options: argparse.Namespace) -> int:
    """Print a summary of a store."""
    from mixts_serve.periodic import silence_warning
    from mixts_serve.refitter import note_of
    from mixts_serve.shards import kept_shard

    with _opened(options.store) as store:
        backend, totals, unrewarded = store.backend, store.totals(), store.unrewarded()
        version, size = backend.schema_version(), _size(backend.n_bytes())
        priors, only_value, refitted = store.priors(), store.only_value(), note_of(store)
        shard = kept_shard(store)
    print(f"{store.name}: {backend.database}, tables of version {version}, {size}")
    if shard is not None:
        print(f"has the tasks of shard {shard}")
    print(_counted(totals))
    if totals.defaults or unrewarded.deferred or unrewarded.given_up:
        print(_without_reward(unrewarded))
    for row in priors:
        uploaded = datetime.fromtimestamp(row.uploaded_at, UTC).strftime("%Y-%m-%d %H:%M")
        kinds = f"{row.n_components} component{'s' * (row.n_components != 1)}"
        active = ", active" * row.active
        print(f"prior version {row.version}: {row.family}, {kinds}, from {uploaded} UTC{active}")
        if row.pedigree is not None:
            print(f"  {row.pedigree.sentence}")
    if not priors:
        print("no prior yet: mixts serve --prior brings one")
    if refitted is not None and refitted.result:
        when = datetime.fromtimestamp(refitted.at, UTC).strftime("%Y-%m-%d %H:%M")
        print(f"last refit, {when} UTC: {refitted.result.splitlines()[0]}")
    if only_value is not None:
        print(f"warning: {silence_warning(only_value)}")
    return 0


def run_report(options: argparse.Namespace) -> int:
    """Print what the service is worth, and write a page about it."""
    from msgspec import json

    from mixts.extend import files
    from mixts_serve.challenger import read_account
    from mixts_serve.dashboard import contest
    from mixts_serve.dashboard import worth as words
    from mixts_serve.promotion import read_trial
    from mixts_serve.worth import read_worth

    with _opened(options.store) as store:
        made, name = store.now(), store.name
        worth = read_worth(store, made)
        rivals = read_account(store), read_trial(store)
    if options.out is not None:
        with files.replacing(options.out) as part:
            part.write_text(
                words.report_page(worth, name, made, contest.report_lines(*rivals)),
                encoding="utf-8",
            )
    if options.json:
        found = {**(words.as_json(worth) or {}), **contest.as_json(*rivals)}
        print(json.format(json.encode(found)).decode())
        return 0
    if worth is None:
        print("nothing was held back: mixts serve --holdback 5% compares the service")
    else:
        for title, one in words.tiles(worth):
            print(f"{title}: {one.line}")
        for warning in worth.warnings:
            print(f"warning: {warning}")
    for line in contest.report_lines(*rivals):
        print(line)
    if options.out is not None:
        print(f"{options.out} has the page")
    return 0


def run_check(options: argparse.Namespace) -> int:
    """Print what is wrong with a store, and a verdict."""
    from mixts_serve.store.rebuild import rebuild

    with _opened(options.store) as store:
        found = rebuild(store, write=False)
    print(_counted(found))
    if found.archived_tasks:
        print(
            f"{found.archived_decisions:,} of these decisions, of {found.archived_tasks:,} tasks, "
            "are archived: what they left is taken as it is"
        )
    for damage in found.damage[:_SHOWN]:
        print(f"damaged: {damage}")
    if len(found.damage) > _SHOWN:
        print(f"damaged: {len(found.damage) - _SHOWN:,} more")
    _print_differences(found)
    if found.damage:
        print("DAMAGED: stop the service and bring the store back from a copy")
    elif found.n_differences:
        print("DIFFERENT: 'mixts store rebuild' corrects what differs from the log")
    else:
        print("sound: all rows are as they were written, all statistics are those of the log")
    return FAILED if found.damage or found.n_differences else 0


def run_rebuild(options: argparse.Namespace) -> int:
    """Recompute the statistics, and print what differed."""
    from mixts_serve.store.rebuild import rebuild

    with _opened(options.store) as store:
        found = rebuild(store)
    print(_counted(found))
    _print_differences(found)
    print("corrected" if found.n_differences else "nothing differed from the log")
    return 0


def _print_differences(found: Any) -> None:
    if found.differing:
        which = "1 task differs" if found.differing == 1 else f"{found.differing:,} tasks differ"
        names = ", ".join(repr(name) for name in found.examples)
        more = ", ..." * (found.differing > len(found.examples))
        print(f"{which} from the log: {names}{more}")
    if found.windows:
        print(f"{found.windows:,} open reward windows differ from the log")
    if found.counts:
        print(f"{found.counts:,} counts over time differ from the log")


def run_backup(options: argparse.Namespace) -> int:
    """Copy a store to a new file, and print its size."""
    with _opened(options.store) as store:
        store.backend.backup(options.to)
    print(f"{options.to} is a copy of {options.store}: {_size(options.to.stat().st_size)}")
    return 0


def run_ingest(options: argparse.Namespace) -> int:
    """Read rewards and decisions into a store, and print how many."""
    from msgspec import json

    from mixts_serve.ingest import WAIT_SECONDS, Ingest, Progress
    from mixts_serve.sources import opened

    def acknowledge(progress: Progress) -> None:
        print(json.encode(progress).decode(), flush=True)

    sources = [opened(name) for name in options.files or ["-"]]
    taken = {Path(name).resolve() for name in (options.store, *(each.name for each in sources))}
    if options.rejects is not None and options.rejects.resolve() in taken:
        raise ParameterError(f"{options.rejects} is read, or is the store: choose another file")
    with _opened(options.store) as store:
        wait = options.wait or WAIT_SECONDS
        ingest = Ingest(
            store, options.rejects, wait=wait, again=options.again, acknowledge=acknowledge
        )
        counts = ingest.run(sources)
    # Whoever reads standard output of a stream expects JSON.
    out = sys.stdout if all(source.is_file for source in sources) else sys.stderr
    remarks = [source.remark for source in sources if source.remark]
    print("\n".join([*counts.lines(), *remarks]), file=out)
    return FAILED if counts.n_refused else 0


def run_export(options: argparse.Namespace) -> int:
    """Write the decisions to a file, and print how many."""
    from mixts.bridges.vw import write_dsjson
    from mixts_serve.store.export import export

    out: Path = options.out
    span = {"since": options.since, "until": options.until}
    left_out = 0
    chosen = _checked_format(options)
    with _opened(options.store) as store:
        if chosen != "vw":
            done = export(store, out, **span)
        else:
            with TemporaryDirectory(prefix=".mixts-", dir=out.parent) as folder:
                table = Path(folder) / "decisions.parquet"
                done = export(store, table, **span)
                events = write_dsjson(table, out, missing_reward=options.missing_reward)
            left_out = events.n_without_reward
    print(f"{done.n_rows:,} decisions, {done.n_rewards:,} rewards")
    if left_out:
        print(f"{left_out:,} decisions without a reward were left out")
    print(f"{out} has them: {_size(out.stat().st_size)}")
    return 0


def run_archive(options: argparse.Namespace) -> int:
    """Move old decisions to files, and print how many."""
    from mixts_serve.store.archive import archive

    with _opened(options.store) as store:
        done = archive(store, options.to, options.keep)
    which = "1 file" if done.files == 1 else f"{done.files:,} files"
    print(f"{done.decisions:,} decisions moved to {which} in {options.to}")
    return 0


def run_erase(options: argparse.Namespace) -> int:
    """Erase tasks, and print how many."""
    from mixts.pages import formats
    from mixts_serve.store.archive import erase

    names = [*options.names, *_lines(options.file)]
    if not names:
        raise ParameterError("erase needs names of tasks: give some, or a --file of them")
    with _opened(options.store) as store:
        done = erase(store, names, options.archive)
    tasks, decisions = (
        formats.plural(done.tasks, "task"),
        formats.plural(done.decisions, "decision"),
    )
    print(f"{tasks} with {decisions} erased, {done.unknown:,} unknown")
    if done.archived:
        where = "the store" if options.archive is None else f"the store and {options.archive}"
        print(
            f"ARCHIVED: files outside {where} have {done.archived:,} more of their decisions, "
            "unless you removed them: repeat with --archive FOLDER"
        )
    if not done.overwritten:
        print(
            "NOT OVERWRITTEN: a long read, such as an export, keeps erased bytes in the "
            "write-ahead log: repeat when it has ended"
        )
    return 0 if done.overwritten and not done.archived else FAILED


def _lines(path: str | None) -> list[str]:
    """Return the lines of a file of names that are not empty."""
    if path is None:
        return []
    try:
        content = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
        text = content.decode("utf-8-sig")  # editors of Windows write a mark at the beginning
    except (OSError, UnicodeDecodeError) as error:
        raise ParameterError(f"{path} cannot be read as UTF-8 text: {error}") from error
    return [name for line in text.split("\n") if (name := line.removesuffix("\r"))]


def _size(n_bytes: int) -> str:
    """Return the size of a file in words."""
    return f"{n_bytes / 1e6:,.1f} MB" if n_bytes >= 1e6 else f"{n_bytes / 1e3:,.0f} kB"


# -- options --------------------------------------------------------------------------------------


def _opened(name: str) -> Any:
    """Open an existing store; raise an error instead of creating one."""
    from mixts_serve.store import DecisionStore

    return DecisionStore(name, create=False)


def _checked_format(options: argparse.Namespace) -> Any:
    """Return the format of the output; raise an error if it cannot be written."""
    from mixts.logs import decisions

    out: Path = options.out
    if "://" not in options.store and out.resolve() == Path(options.store).resolve():
        raise ParameterError(f"{out} is the store itself: choose another file")
    if out.exists() and not (options.force and out.is_file()):
        raise ParameterError(f"{out} exists: choose another file, or add --force")
    if not out.parent.is_dir() or not os.access(out.parent, os.W_OK):
        raise ParameterError(f"{out.parent} is not a folder that can be written to")
    chosen = decisions.format_of(out, {**decisions.SUFFIXES, ".dsjson": "vw"})
    if options.missing_reward is not None and chosen != "vw":
        raise ParameterError(
            "--missing-reward is for .dsjson: in other files a reward that never came is null, "
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
    from mixts.pages import formats

    tasks = formats.plural(found.tasks, "task")
    decisions = formats.plural(found.decisions, "decision")
    return f"{tasks}, {decisions}, {_rewards(found.rewards, found.late, found.defaults)}"


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
