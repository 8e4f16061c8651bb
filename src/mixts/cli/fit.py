"""``mixts fit``: from logs of past tasks to a prior, checked on tasks that were held out."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import textwrap
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from mixts.cli.fit_page import write_page
from mixts.cli.fitting import MOST_HELD_OUT, SELECT_FROM, Fitted, Settings, fit
from mixts.engines import Engine, local_engine
from mixts.errors import ParameterError
from mixts.logs import read_logs
from mixts.pages import check_installed
from mixts.plots import new_axes

_DESCRIPTION = f"""\
Read logs of past tasks, a row for each choice and what came of it, learn which kinds of task there
are, check that on tasks that were held out, and write the prior to a file that agents start from.
At most {MOST_HELD_OUT:,} tasks are held out. The prior that is written is the one that was checked:
with --held-out 0 it is learned from all tasks, and not checked."""

_WIDTH = 100


def register(commands: Any) -> None:
    """Add the command."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "fit", help="learn a prior from logs of past tasks", description=_DESCRIPTION
    )
    parser.set_defaults(run=run)
    logs = parser.add_argument_group("the logs")
    add = logs.add_argument
    add("logs", nargs="+", metavar="FILE", help="CSV or Parquet files, patterns or folders")
    add("--task", required=True, metavar="COLUMN", help="which task a row is of: a user, a session")
    add("--arm", metavar="COLUMN", help="what was chosen")
    add("--features", type=_names, metavar="A,B,...", help="or columns that describe it")
    add("--intercept", action="store_true", help="put a feature before them that is always 1")
    add("--reward", required=True, metavar="COLUMN", help="what came of it: a number")
    add("--arms", type=_names, metavar="A,B,...", help="the only arms, in this order")
    families = ("auto", "bernoulli", "gaussian", "poisson", "linear")
    add("--family", choices=families, default="auto", help="of rewards (default: as they look)")
    add("--delimiter", metavar="CHARACTER", help="of CSV files (default a comma, in .tsv a tab)")
    add("--allow-bad-rows", action="store_true", help="also if more than half of the rows are bad")
    learning = parser.add_argument_group("learning")
    add = learning.add_argument
    add("--components", type=_components, default="auto", metavar="auto|N", help="kinds of task")
    most = f"tasks on which auto compares numbers of kinds, at most (default {SELECT_FROM:,})"
    add("--select-from", type=int, default=SELECT_FROM, metavar="N", help=most)
    add("--method", choices=("evidence", "two-stage"), default="evidence")
    add("--noise-std", type=float, metavar="SIGMA", help="of rewards (default: learned)")
    add("--covariance", choices=("full", "tied", "diag"), help="with features (default full)")
    broad = "add a broad component for other tasks (0.01 unless said otherwise)"
    add("--robust", type=float, nargs="?", const=0.01, default=0.0, metavar="WEIGHT", help=broad)
    add("--held-out", type=float, default=0.2, metavar="FRACTION", help="of tasks (default 0.2)")
    add("--seed", type=int, default=1, help="of everything random (default 1)")
    add("--workers", type=int, help="processes (default: as many as it pays)")
    add("--engine", choices=("local", "dask"), default="local", help="where the work is done")
    add("--scheduler", metavar="ADDRESS", help="of a Dask cluster, tcp://host:8786")
    output = parser.add_argument_group("output")
    add = output.add_argument
    add("--out", type=Path, default=Path("prior.json"), metavar="FILE", help="the prior")
    add("--report", type=Path, metavar="FILE", help="the page about it (default: beside it, .html)")
    add("--no-report", action="store_true", help="no page")
    add("--statistics", type=Path, metavar="FILE", help="also save the tasks' statistics")
    add("--force", action="store_true", help="overwrite files that exist")
    add("--quiet", action="store_true", help="print nothing but errors")


def run(options: argparse.Namespace) -> int:
    """Read, learn, check, write, and say what came out."""
    started = time.perf_counter()
    page = None if options.no_report else options.report or options.out.with_suffix(".html")
    _check_outputs(options, page)
    settings = Settings(
        options.components, options.method, options.noise_std, options.covariance, options.robust,
        options.held_out, options.seed, options.select_from,
    )  # fmt: skip
    say = _silent if options.quiet else _say
    with _engine(options) as engine:
        say(f"reading {', '.join(options.logs)}")
        logs = read_logs(
            options.logs, task=options.task, reward=options.reward, arm=options.arm,
            features=options.features, family=options.family, intercept=options.intercept,
            arms=options.arms, delimiter=options.delimiter, allow_bad_rows=options.allow_bad_rows,
            engine=engine,
        )  # fmt: skip
        say(f"learning from {len(logs.tasks):,} tasks")
        fitted = fit(logs, settings, engine)
    if options.statistics is not None:
        logs.statistics.save(options.statistics)
    fitted.prior.save(options.out)
    if page is not None:
        seconds = time.perf_counter() - started
        write_page(fitted, page, options.out, options.reward, command_of(options), seconds)
    if not options.quiet:
        print(summary(fitted, options.out, page))
    return 0


def summary(fitted: Fitted, out: Path, page: Path | None) -> str:
    """What was done and what came out, in a few lines."""
    logs = fitted.logs
    items = f"{len(logs.arms)} arms" if logs.arms is not None else f"{fitted.n_items} features"
    bad = logs.bad_rows.total
    lines = [
        f"{logs.n_rows:,} rows, {len(logs.tasks):,} tasks, {items}, "
        f"{f'{bad:,}' if bad else 'no'} bad row{'s' * (bad != 1)}",
        *_indented(logs.bad_rows.lines()),
        f"{logs.family}: {logs.why}",
        fitted.outcome,
        *_indented(f"{kind}".replace("`", "") for kind in fitted.kinds),
    ]
    if fitted.check is None:
        lines.append("not checked: no tasks were held out")
    else:
        lines.append(f"on {fitted.check.n_tasks:,} held-out tasks")
        lines += _indented(fitted.check.findings)
    told = "" if page is None else f", {page} tells of it"
    lines += [f"{out} has the prior{told}; begin with", f"  agent = {agent_code(out)}"]
    return "\n".join(lines)


def agent_code(out: Path) -> str:
    """The expression that makes an agent of a prior file."""
    return f"mixts.MixTS(mixts.MixturePrior.load({str(out)!r}))"


def _indented(lines: Any) -> list[str]:
    return [
        row
        for line in lines
        for row in textwrap.wrap(
            line, _WIDTH, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False
        )
    ]


def command_of(options: argparse.Namespace) -> str:
    """The command line that does the same again, but for where."""
    words = ["mixts", "fit", *options.logs]
    names = (
        "task", "arm", "features", "intercept", "reward", "arms", "family", "delimiter",
        "allow_bad_rows", "components", "select_from", "method", "noise_std", "covariance",
        "robust", "held_out", "seed", "out",
    )  # fmt: skip
    usual = {
        "family": "auto", "components": "auto", "select_from": SELECT_FROM, "method": "evidence",
        "robust": 0.0, "held_out": 0.2,
    }  # fmt: skip
    for name in names:
        value = getattr(options, name)
        if value is None or value is False or value == usual.get(name):
            continue
        words.append("--" + name.replace("_", "-"))
        if value is not True:
            words.append(",".join(value) if isinstance(value, tuple) else str(value))
    return shlex.join(words)


# -- options --------------------------------------------------------------------------------------


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _components(text: str) -> int | str:
    if text == "auto":
        return text
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected auto or a number, got {text!r}") from None


def _engine(options: argparse.Namespace) -> Any:
    """Where the work is done; None leaves it to those who do it."""
    if options.engine == "dask":
        from mixts.engines.dask import DaskEngine

        return DaskEngine(options.scheduler, options.workers)
    if options.scheduler is not None:
        raise ParameterError("--scheduler is the address of a Dask cluster: add --engine dask")
    workers: Engine | None = None if options.workers is None else local_engine(options.workers)
    return nullcontext() if workers is None else workers


def _check_outputs(options: argparse.Namespace, page: Path | None) -> None:
    """Refuse early, before anything takes long."""
    if page is not None:
        check_installed()
        new_axes()  # and so for its figures
    named = {"--out": options.out, "--report": page, "--statistics": options.statistics}
    paths = {name: path for name, path in named.items() if path is not None}
    if len({path.resolve() for path in paths.values()}) < len(paths):
        raise ParameterError(f"{' and '.join(paths)} must be different files")
    for name, path in paths.items():
        if path.exists() and not (options.force and path.is_file()):
            raise ParameterError(f"{path} exists: choose another {name}, or say --force")
        if not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
            raise ParameterError(
                f"{path.parent} is not a folder that can be written to: choose another {name}"
            )


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _silent(line: str) -> None:
    return None
