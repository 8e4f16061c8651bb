"""``mixts``: one command, a file for each of its sub-commands."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import mixts
from mixts.cli import features, fit, listing, reproduce
from mixts.cli.status import FAILED, INTERRUPTED, WRONG_USE
from mixts.errors import MixtsError


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    top = argparse.ArgumentParser(
        prog="mixts", description="Thompson sampling with a mixture prior."
    )
    top.add_argument("--version", action="version", version=f"mixts {mixts.__version__}")
    commands = top.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in (listing, reproduce, features, fit):
        command.register(commands)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; messages go to standard error, and a number says how it ended."""
    options = parser().parse_args(arguments)
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
