"""``mixts``: one command, with a module for each sub-command."""

from __future__ import annotations

import argparse
import gc
import os
import signal
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from mixts._version import __version__
from mixts.errors import MixtsError

COMMANDS = {
    "list": "list the experiments",
    "reproduce": "run experiments, the paper's or others, and write a report",
    "fit": "learn a prior from logs of past tasks",
    "serve": "serve decisions for live tasks over HTTP",
    "store": "show, rebuild, export or salvage a store of decisions",
    "arms": "list, add, retire or rename the arms of a prior or a service",
    "warmup": "compile the loops of families, so that first decisions are fast",
}
"""Sub-commands and what they do; each is the module of the same name."""

FAILED = 1
"""Exit status: the system refused something, such as writing to a full disk."""
WRONG_USE = 2
"""Exit status: arguments or files are wrong; argparse uses the same."""
INTERRUPTED = 130
"""Exit status: the command was interrupted by Ctrl-C or another signal."""


def parser(names: Iterable[str] = tuple(COMMANDS)) -> argparse.ArgumentParser:
    """Return the parser of all commands, with the options of some; import only their modules."""
    top = argparse.ArgumentParser(
        prog="mixts", description="Thompson sampling with a mixture prior."
    )
    top.add_argument("--version", action="version", version=f"mixts {__version__}")
    commands = top.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, purpose in COMMANDS.items():
        command = commands.add_parser(name, help=purpose)
        if name in names:
            _import(name).register(command)
    return top


def _import(name: str) -> Any:
    """Import a command with what it needs; searches for garbage on the way would find none."""
    is_enabled = gc.isenabled()
    gc.disable()
    try:
        return import_module(f"mixts.cli.{name}")
    finally:
        if is_enabled:
            gc.enable()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status; errors are printed to standard error."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    # Import one command only: a service shall not wait for the plotting library.
    named = [word for word in words if word in COMMANDS][:1]
    if "serve" in named:
        with _holding_back("SIGHUP"):
            return _run(words, named)
    return _run(words, named)


def _run(words: list[str], named: list[str]) -> int:
    options = parser(named).parse_args(words)
    try:
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
