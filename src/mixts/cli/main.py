"""``mixts``: one command, a file for each of its sub-commands."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module

from mixts._version import __version__
from mixts.cli.status import FAILED, INTERRUPTED, WRONG_USE
from mixts.errors import MixtsError

COMMANDS = {
    "list": "listing",
    "reproduce": "reproduce",
    "fit": "fit",
    "serve": "serve",
    "store": "store",
}
"""The sub-commands, and the modules that know them."""


def parser(names: Iterable[str] = COMMANDS) -> argparse.ArgumentParser:
    """The command line with these commands; those of others are not imported."""
    top = argparse.ArgumentParser(
        prog="mixts", description="Thompson sampling with a mixture prior."
    )
    top.add_argument("--version", action="version", version=f"mixts {__version__}")
    commands = top.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name in names:
        import_module(f"mixts.cli.{COMMANDS[name]}").register(commands)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; messages go to standard error, and a number says how it ended."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    # A service that is started again shall not wait for what draws figures.
    named = words[:1] if words and words[0] in COMMANDS else COMMANDS
    options = parser(named).parse_args(words)
    try:
        with _interrupted_by("SIGTERM", "SIGHUP"):
            status: int = options.run(options)
        sys.stdout.flush()
    except MixtsError as error:
        print("\n".join([f"mixts: {error}", *getattr(error, "__notes__", [])]), file=sys.stderr)
        return WRONG_USE
    except KeyboardInterrupt:
        print("mixts: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # before OSError, of which it is one
        # Whoever read our output has had enough of it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        print(f"mixts: {error}", file=sys.stderr)
        return FAILED
    return status


@contextmanager
def _interrupted_by(*names: str) -> Iterator[None]:
    """To be told to end is to be interrupted: what is finished is kept, workers are ended."""
    known = [getattr(signal, name) for name in names if hasattr(signal, name)]
    # As nohup has it: what is ignored stays so.
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
