"""The command line: ``mixts``, with a module for each sub-command, and options they share."""

from __future__ import annotations

import argparse
import difflib
import os
import signal
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from mixts._version import __version__
from mixts.errors import MissingExtraError, MixtsError, ParameterError

if TYPE_CHECKING:
    from mixts.engines import EngineLike

__all__ = [
    "FAILED",
    "INTERRUPTED",
    "add_engine_options",
    "engine_from",
    "main",
    "share",
]

GROUP = "mixts.commands"
"""Entry points of this group are sub-commands. Each names a module with ``register(parser)``, which
adds the options and sets ``run``; the first line of its docstring says what the command does."""


class Command(NamedTuple):
    """One of our sub-commands, for the help without its import."""

    purpose: str
    package: str
    examples: tuple[str, ...]


COMMANDS = {
    "fit": Command(
        "learn a prior from logs of past tasks", "mixts",
        (
            "mixts fit clicks.csv --task user --arm item --reward clicked",
            "mixts fit shop.parquet --task user --features item --person age --reward spent",
        ),
    ),
    "arms": Command(
        "list, add, retire or rename the arms of a prior or a service", "mixts",
        ("mixts arms list prior.json", "mixts arms add prior.json 'winter sale'"),
    ),
    "serve": Command(
        "serve decisions for live tasks over HTTP", "mixts-serve",
        (
            "mixts serve --prior prior.json --store decisions.db",
            "mixts serve --store decisions.db --holdback 5% --refit 1d",
        ),
    ),
    "refit": Command(
        "learn the prior of a store again, and activate it", "mixts-serve",
        ("mixts refit decisions.db", "mixts refit decisions.db --exclude 2026-03-01..2026-03-07"),
    ),
    "store": Command(
        "show, check, rebuild, back up or export a store of decisions", "mixts-serve",
        ("mixts store show decisions.db", "mixts store export decisions.db log.parquet"),
    ),
    "reproduce": Command(
        "run experiments, the paper's or others, and write a report", "mixts-paper",
        ("mixts reproduce --out reproduction", "mixts reproduce --list"),
    ),
}  # fmt: skip

FAILED = 1
"""Exit status: the system refused something, such as writing to a full disk."""
WRONG_USE = 2
"""Exit status: arguments or files are wrong; argparse uses the same."""
INTERRUPTED = 130
"""Exit status: the command was interrupted by Ctrl-C or another signal."""


class _Formatter(argparse.HelpFormatter):
    """Keeps the lines of examples, and wraps all other text."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if text.startswith("examples:"):
            return "\n".join(f"{indent}{line}" for line in text.splitlines())
        return super()._fill_text(text, width, indent)


class _Parser(argparse.ArgumentParser):
    """Says in one line what is wrong; the usage of a command has thirty."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{"formatter_class": _Formatter, **settings})

    def error(self, message: str) -> NoReturn:
        self.exit(WRONG_USE, f"{self.prog}: {message} (see {self.prog} --help)\n")


def parser(names: Iterable[str] | None = None) -> argparse.ArgumentParser:
    """Return the parser of all commands, with the options of some; import only their modules.

    Parameters
    ----------
    names
        The commands that need their options; None: all that are installed.
    """
    found = _installed()
    wanted = found if names is None else names
    top = _Parser(prog="mixts", description="Thompson sampling with a mixture prior.")
    top.add_argument("--version", action="version", version=f"mixts {__version__}")
    commands = top.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name in {**COMMANDS, **found}:
        ours = COMMANDS.get(name)
        command = commands.add_parser(
            name, help=_summary(found[name]) if ours is None else ours.purpose
        )
        if ours is not None:
            command.epilog = "\n  ".join(("examples:", *ours.examples))
        if name in wanted:
            if name not in found:
                assert ours is not None
                raise MissingExtraError(
                    f"mixts {name} is a command of {ours.package}: pip install {ours.package}"
                )
            found[name].load().register(command)
    return top


@cache
def _installed() -> dict[str, Any]:
    """Return the installed commands by name; to find them reads the metadata of every package.

    They are entry points of the standard library, or of a package that has taken its place.
    """
    return {entry.name: entry for entry in entry_points(group=GROUP)}


def _summary(entry: Any) -> str:
    """Return the first line of the docstring of another package's command."""
    try:
        text = entry.load().__doc__ or entry.value
    except ImportError as error:
        # Another package's mistake is no reason to refuse our commands.
        text = f"cannot be imported: {error}"
    return text.strip().splitlines()[0]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status; errors are printed to standard error."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    # Import one command only: a service shall not wait for the plotting library.
    named = [word for word in words if not word.startswith("-")][:1]
    known = {**COMMANDS, **_installed()}
    if named and named[0] not in known:
        similar = difflib.get_close_matches(named[0], known, n=1)
        hint = f"did you mean {similar[0]}?" if similar else f"known: {', '.join(known)}"
        print(f"mixts: there is no command {named[0]!r}: {hint}", file=sys.stderr)
        return WRONG_USE
    if "serve" in named:
        with _holding_back("SIGHUP"):
            return _run(words, named)
    return _run(words, named)


def _run(words: list[str], named: list[str]) -> int:
    try:
        options = parser(named).parse_args(words)
        with _interrupted_by("SIGTERM", "SIGHUP"):
            status: int = options.run(options)
        sys.stdout.flush()
    except MixtsError as error:
        _print_error(error, str(error))
        return WRONG_USE
    except KeyboardInterrupt as interrupt:
        _print_error(interrupt, "interrupted")
        return INTERRUPTED
    except BrokenPipeError:  # a kind of OSError, so it comes first
        # The reader of our output, such as head, has closed the pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        _print_error(error, str(error))
        return FAILED
    return status


def _print_error(error: BaseException, message: str) -> None:
    """Print a message, and then what was added to the error on its way."""
    print("\n".join([f"mixts: {message}", *getattr(error, "__notes__", [])]), file=sys.stderr)


@contextmanager
def _holding_back(name: str) -> Iterator[None]:
    """Let a signal wait until the service handles it: imports take seconds."""
    if not hasattr(signal, name) or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {getattr(signal, name)})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _interrupted_by(*names: str) -> Iterator[None]:
    """Turn signals into KeyboardInterrupt: finished work is kept, and workers end."""
    known = [getattr(signal, name) for name in names if hasattr(signal, name)]
    # Signals that are ignored stay ignored, such as SIGHUP under nohup.
    known = [number for number in known if signal.getsignal(number) is not signal.SIG_IGN]
    if threading.current_thread() is not threading.main_thread():
        known = []

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in known}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


# -- options of several commands ------------------------------------------------------------------


def add_engine_options(parser: Any, default: str) -> None:
    """Add ``--workers``, ``--engine`` and ``--scheduler`` to a parser or a group of options.

    Parameters
    ----------
    parser
        An ``argparse`` parser or group.
    default
        What happens without ``--workers``, for the help.
    """
    add = parser.add_argument
    add("--workers", type=int, help=f"number of worker processes (default: {default})")
    add("--engine", choices=("local", "dask"), default="local", help="where the work runs")
    add("--scheduler", metavar="ADDRESS", help="address of a Dask cluster, tcp://host:8786")


def engine_from(options: argparse.Namespace) -> EngineLike:
    """Return the ``engine=`` of the options; a Dask cluster is not started before its first use."""
    if options.engine == "dask":
        from mixts.engines.dask import DaskEngine

        return partial(DaskEngine, options.scheduler, options.workers)
    if options.scheduler is not None:
        raise ParameterError("--scheduler is the address of a Dask cluster: add --engine dask")
    if options.workers is None:
        return None
    from mixts import _checks  # imports numpy, for which `mixts --help` need not wait

    return _checks.count(options.workers, "workers")


def share(text: str) -> float:
    """Return a share that is written as a percentage or as a number.

    Parameters
    ----------
    text
        Text of an option, such as "5%" or "0.05".

    Returns
    -------
    float
        The share. The caller checks that it is between 0 and 1.
    """
    digits = text.removesuffix("%")
    try:
        return float(digits) / (1 if digits == text else 100)
    except ValueError:
        expected = "expected a share such as 5% or 0.05"
        raise argparse.ArgumentTypeError(f"{expected}, got {text!r}") from None
