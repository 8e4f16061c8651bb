"""``mixts fit``: learn a prior from logs, check it on held-out tasks, and compare policies."""

from __future__ import annotations

import argparse
import os
import shlex
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, get_args

from mixts._progress import show_steps, step
from mixts.cli import add_engine_options, engine_from, share
from mixts.diagnostics import PolicyComparison, advise, compare_policies
from mixts.engines import engine_of
from mixts.errors import ParameterError
from mixts.learning import PriorCheck, Rule
from mixts.learning.options import NoiseRule
from mixts.logs.connect import opened, without_password
from mixts.logs.fit import fit_logs
from mixts.logs.fitted import SELECT_FROM, Fit
from mixts.logs.held_out import MOST_HELD_OUT
from mixts.logs.levels import MOST_LEVELS
from mixts.logs.schema import FAMILIES
from mixts.pages import check_installed
from mixts.pages.fit import FitRun, agent_class, described, fit_kinds, write_fit_page
from mixts.pages.policies import policy_sources, policy_table, policy_verdict
from mixts.plots import new_axes
from mixts.prior import MixturePrior

_DESCRIPTION = f"""\
Read logs of past tasks, with a row for each choice and its reward; learn which kinds of task there
are; check the result on held-out tasks; compare what policies would have earned there with the
bestseller; and write the prior to a file that agents start from. At most {MOST_HELD_OUT:,} tasks
are held out. With --held-out 0 the prior is learned from all tasks, and nothing is checked or
compared."""

_FILES = "CSV or Parquet files, patterns or folders; or one database, see --table and --query"
_WIDTH = 100

_ALWAYS = ("task", "reward", "seed")
"""Options that the command line of the same fit has even where they are the usual ones."""


def register(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.description = _DESCRIPTION
    columns: dict[str, argparse.Action] = {}
    settings: dict[str, argparse.Action] = {}
    parser.set_defaults(run=run, columns=columns, settings=settings)
    _add_columns(parser.add_argument_group("the logs"), columns)
    _add_settings(parser.add_argument_group("learning"), settings)
    add_engine_options(parser, "chosen by the work")
    _add_output(parser.add_argument_group("output"))


def _add_columns(logs: Any, columns: dict[str, argparse.Action]) -> None:
    logs.add_argument("logs", nargs="+", metavar="FILE", help=_FILES)
    source = logs.add_mutually_exclusive_group()
    held = (
        "table of a DuckDB file or of a database (postgresql://...), which counts its rows itself"
    )
    source.add_argument("--table", metavar="NAME", help=held)
    source.add_argument("--query", metavar="SQL", help="the same for the rows of a query")
    add = _adder(logs, columns)
    add("--task", required=True, metavar="COLUMN", help="task of a row: a user, a session")
    add("--arm", metavar="COLUMN", help="arm that was chosen")
    described = "or columns that describe the choice, numbers or text"
    add("--features", type=_names, metavar="A,B,...", help=described)
    facts = "facts about the person, whose effects are the same for everybody"
    add("--person", type=_names, default=(), metavar="A,B,...", help=facts)
    pairs = "products with such effects, as age:item (default: each fact with each feature)"
    add("--cross", type=_names, default=(), metavar="A:B,...", help=pairs)
    other = "prediction of another model: log odds of a click, or the reward; its slope is learned"
    add("--score", metavar="COLUMN", help=other)
    names = "features that are text although they look like numbers"
    add("--text", type=_names, default=(), metavar="A,B,...", help=names)
    top = f"keep N levels of each text feature; the rest are one (default: all, max {MOST_LEVELS})"
    add("--top-levels", type=int, metavar="N", help=top)
    fewer = "round features: the family logistic counts each distinct row (default: not at all)"
    add("--round-features", dest="decimals", type=int, metavar="DECIMALS", help=fewer)
    add("--intercept", action="store_true", help="add a first feature that is always 1")
    add("--reward", required=True, metavar="COLUMN", help="reward of the choice, a number")
    empty = "reward of rows that have none, for example 0 (default: such rows are bad)"
    add("--missing-reward", type=float, metavar="REWARD", help=empty)
    limits = "count rewards beyond LOW and HIGH as LOW and HIGH; write --clip=-5,100"
    add("--clip", type=_limits, metavar="LOW,HIGH", help=limits)
    when = "time of the choice: hold out the latest tasks instead of random ones"
    add("--time", metavar="COLUMN", help=when)
    add("--arms", type=_names, metavar="A,B,...", help="use only these arms, in this order")
    kinds = "of rewards (default: by the data)"
    add("--family", choices=FAMILIES, default="auto", help=kinds)
    comma = "of CSV columns (default , or tab in .tsv)"
    add("--delimiter", metavar="CHARACTER", help=comma)
    add("--allow-bad-rows", action="store_true", help="accept more than half of the rows as bad")


def _add_settings(learning: Any, settings: dict[str, argparse.Action]) -> None:
    add = _adder(learning, settings)
    start = "go on from this prior with new logs: the same arms or features, family and kinds"
    add("--from", dest="start", type=Path, metavar="PRIOR", help=start)
    count = "tasks that it counts as (default: those that it was learned from; 0: learn anew)"
    add("--from-tasks", dest="start_tasks", type=float, metavar="N", help=count)
    add(
        "--components", dest="n_components", type=_components, default="auto", metavar="auto|N",
        help="number of kinds",
    )  # fmt: skip
    rules = "what auto makes of the mixtures it compares: join several, or take one (default stack)"
    add("--select", choices=get_args(Rule), default="stack", help=rules)
    most = f"most tasks on which auto compares numbers of kinds (default {SELECT_FROM:,})"
    add("--select-from", type=int, default=SELECT_FROM, metavar="N", help=most)
    add("--method", choices=("evidence", "two-stage"), default="evidence")
    add("--noise-std", type=float, metavar="SIGMA", help="noise of rewards (default: learned)")
    noise = "of all tasks, of each task, or what predicts better (default auto)"
    add("--noise", choices=get_args(NoiseRule), default="auto", help=noise)
    shape = "of features (default full)"
    add("--covariance", dest="covariance_type", choices=("full", "tied", "diag"), help=shape)
    broad = "add a broad component for other tasks (weight 0.01 if none is given)"
    add("--robust", type=share, nargs="?", const=0.01, default=0.0, metavar="WEIGHT", help=broad)
    checked = "tasks to check on (default 20%%)"
    add("--held-out", type=share, default=0.2, metavar="SHARE", help=checked)
    add("--seed", type=int, default=1, help="random seed (default 1)")
    again = learning.add_mutually_exclusive_group()
    never = "an arm or an item is taken at most once in a task (default: as arms are in the logs)"
    add = _adder(again, settings)
    add("--once", action="store_true", help=never)
    add("--repeatable", action="store_true", help="it may be taken again")


def _add_output(output: Any) -> None:
    add = output.add_argument
    add("--out", type=Path, default=Path("prior.json"), metavar="FILE", help="file of the prior")
    add("--report", type=Path, metavar="FILE", help="page about it (default: --out as .html)")
    add("--no-report", action="store_true", help="write no page")
    add("--statistics", type=Path, metavar="FILE", help="also save the tasks' statistics")
    add("--force", action="store_true", help="overwrite files that exist")
    add("--quiet", action="store_true", help="print nothing but errors")


def _adder(group: Any, found: dict[str, argparse.Action]) -> Callable[..., None]:
    """Return a function that adds an option to a group, and notes it by its parameter's name."""

    def add(*words: str, **details: Any) -> None:
        action = group.add_argument(*words, **details)
        found[action.dest] = action

    return add


def run(options: argparse.Namespace) -> int:
    """Read, learn, check, write the files, and print a summary."""
    started = time.perf_counter()
    page = None if options.no_report else options.report or options.out.with_suffix(".html")
    _check_outputs(options, page)
    where = engine_from(options)
    with (
        nullcontext() if where is None else engine_of(where) as engine,  # None: each step chooses
        show_steps(not options.quiet),
        _saving(options) as save,
    ):
        fit = described(_fit(options, engine, save))
        comparison = _comparison(fit, engine)
        fit = advise(fit, comparison).recorded(fit)
        fit.prior.save(options.out)
        if page is not None:
            seconds = time.perf_counter() - started
            made = FitRun(options.out, options.reward, command_of(options), seconds)
            write_fit_page(fit, page, made, comparison)
    if not options.quiet:
        print(summary(fit, options.out, page, comparison))
    return 0


def _fit(options: argparse.Namespace, engine: Any, save: Callable[[Fit], None]) -> Fit:
    columns = {name: getattr(options, name) for name in options.columns}
    settings = {name: getattr(options, name) for name in options.settings if name != "once"}
    settings |= {"start": _earlier(options.start), "repeatable": _repeatable(options)}
    try:
        logs = opened(options.logs, options.table, options.query)
        return fit_logs(logs, columns, **settings, engine=engine, on_learned=save)
    except ParameterError as error:
        # Messages begin with the name of the parameter; here it is an option, if it was given.
        name, _, rest = str(error).partition(" ")
        action = {**options.columns, **options.settings}.get(name)
        if action is None:
            raise
        if _is_given(options, action):
            raise ParameterError(f"{action.option_strings[0]} {rest}") from None
        raise ParameterError(f"learning from these logs failed: {error}") from error


def _earlier(path: Path | None) -> MixturePrior | None:
    """Return the prior to go on from."""
    try:
        return None if path is None else MixturePrior.load(path)
    except OSError as error:
        raise ParameterError(f"--from {path}: {error.strerror}") from None


def _repeatable(options: argparse.Namespace) -> bool | None:
    """Return whether an action may be taken again, if an option says so."""
    return bool(options.repeatable) if options.once or options.repeatable else None


@contextmanager
def _saving(options: argparse.Namespace) -> Iterator[Callable[[Fit], None]]:
    """Give the function that saves a learned prior; if a later step fails, say where it is."""
    is_saved = False

    def save(fit: Fit) -> None:
        nonlocal is_saved
        described(fit).prior.save(options.out)
        is_saved = True
        if options.statistics is not None:
            fit.logs.statistics.save(options.statistics)

    try:
        yield save
    except BaseException as stopped:
        if is_saved:
            stopped.add_note(f"The prior was learned before that, and saved to {options.out}.")
        raise


def _comparison(fit: Fit, engine: Any) -> PolicyComparison | None:
    """Compare policies on the held-out tasks; None if there are none."""
    if not len(fit.held_out):
        return None
    step("comparing policies")
    return compare_policies(fit, engine=engine)


def summary(
    fit: Fit, out: Path, page: Path | None, comparison: PolicyComparison | None = None
) -> str:
    """Return the verdict, what policies earn, the logs, the kinds and the files in a few lines.

    Warnings come first: if the logs are wrong, so is all that follows. How numbers were measured
    and checked is on the page; without a page it is here.
    """
    logs, advice = fit.logs, advise(fit, comparison)
    items = f"{len(fit.items):,} {'arms' if logs.arms is not None else 'features'}"
    bad = logs.bad_rows.total
    lines = [row for warning in fit.warnings for row in _wrapped(f"warning: {warning}")]
    lines += _wrapped(str(advice))
    if comparison is not None:
        words = policy_verdict(comparison, usable=advice.answer != "no")
        lines += _wrapped(" ".join(words).replace("`", ""))
        lines += policy_table(comparison)
    lines += [
        f"{logs.n_rows:,} rows, {len(logs.tasks):,} task{'s' * (len(logs.tasks) != 1)}, {items}, "
        f"{f'{bad:,}' if bad else 'no'} bad row{'s' * (bad != 1)}",
        *_indented(logs.bad_rows.lines()),
        *([logs.missing] if logs.missing else []),
        *([logs.counted] if logs.counted else []),
        f"{logs.family}: {logs.why}",
        fit.outcome,
        *_wrapped(fit.pooled),
        *([] if fit.noise is None else _wrapped(fit.noise.sentence)),
        *_wrapped(fit.once),
        *_indented(f"{kind}".replace("`", "") for kind in fit_kinds(fit)),
    ]
    if fit.check is None:
        lines.append("not checked: no tasks were held out")
    elif page is None:
        lines += _method_lines(fit, fit.check, comparison)
    report = "" if page is None else f", and the page about it to {page}"
    code = agent_code(out, comparison)
    written = f"wrote the prior to {out}{report}"
    start = [f"{written}; start with", f"  agent = {code}"]
    lines += [written] if advice.answer == "no" else start
    return "\n".join(lines)


def _method_lines(fit: Fit, check: PriorCheck, comparison: PolicyComparison | None) -> list[str]:
    """Say how the prior was checked, and how earnings were measured."""
    drawn = (
        "drawn at random; --time COLUMN holds out the latest tasks and looks for drift"
        if fit.logs.times is None
        else f"the latest by {fit.logs.schema.time!r}"
    )
    sources = [] if comparison is None else policy_sources(comparison)
    return [
        *_wrapped(f"on {check.n_tasks:,} held-out tasks, {drawn}"),
        *_indented([*check.findings, *([fit.comparison] if fit.comparison else [])]),
        *_indented(sentence.replace("`", "") for sentence in sources),
    ]


def agent_code(out: Path, comparison: PolicyComparison | None = None) -> str:
    """Return the expression that makes an agent from a prior file."""
    return f"mixts.{agent_class(comparison)}(mixts.MixturePrior.load({str(out)!r}))"


def _indented(lines: Iterable[str]) -> list[str]:
    return [row for line in lines for row in _wrapped(line, "  ")]


def _wrapped(line: str, indent: str = "") -> list[str]:
    rest = indent + "  "
    return textwrap.wrap(
        line, _WIDTH, initial_indent=indent, subsequent_indent=rest, break_on_hyphens=False
    )


def command_of(options: argparse.Namespace) -> str:
    """Return the command line that makes the same fit again."""
    words = ["mixts", "fit", *map(without_password, options.logs)]
    for source in ("table", "query"):
        if getattr(options, source) is not None:
            words += [f"--{source}", getattr(options, source)]
    for name, action in {**options.columns, **options.settings}.items():
        value, option = getattr(options, name), action.option_strings[0]
        if not _is_given(options, action) and name not in _ALWAYS:
            continue
        if name == "clip":  # with "=", because LOW may be negative
            words.append(f"--clip={value[0]!r},{value[1]!r}")
            continue
        words.append(option)
        if value is not True:
            words.append(",".join(value) if isinstance(value, tuple) else str(value))
    words += ["--out", str(options.out)]
    return shlex.join(words)


# -- options --------------------------------------------------------------------------------------


def _is_given(options: argparse.Namespace, action: argparse.Action) -> bool:
    value = getattr(options, action.dest)
    return not (value is None or value is False or value == action.default)


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _limits(text: str) -> tuple[float, float]:
    try:
        low, high = map(float, text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"expected the smallest and the largest reward, such as 0,500, got {text!r}"
        ) from None
    return low, high


def _components(text: str) -> int | str:
    if text == "auto":
        return text
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected auto or a number, got {text!r}") from None


def _check_outputs(options: argparse.Namespace, page: Path | None) -> None:
    """Refuse missing libraries and unusable files before anything takes long."""
    if page is not None:
        check_installed()
        new_axes()  # refuses a missing matplotlib
    named = {"--out": options.out, "--report": page, "--statistics": options.statistics}
    paths = {name: path for name, path in named.items() if path is not None}
    if len({path.resolve() for path in paths.values()}) < len(paths):
        raise ParameterError(f"{' and '.join(paths)} must be different files")
    for name, path in paths.items():
        if path.exists() and not (options.force and path.is_file()):
            raise ParameterError(f"{path} exists: choose another {name}, or add --force")
        if not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
            raise ParameterError(
                f"{path.parent} is not a folder that can be written to: choose another {name}"
            )
