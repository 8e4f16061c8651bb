"""Refits from time to time, each in a process of its own that gives way to the service."""

from __future__ import annotations

import logging
import subprocess
import sys
from functools import partial

from mixts_serve.periodic import CLOSE_SECONDS, Periodic
from mixts_serve.refits import RefitNote, note_of, set_note
from mixts_serve.store import DecisionStore
from mixts_serve.store.base import Transaction

log = logging.getLogger("mixts_serve")

LOOK_SECONDS = 60.0
"""Largest time between looks at the store for the time of the last refit."""
_POLL_SECONDS = 0.2
_COMMAND = (
    "import os, sys; getattr(os, 'nice', int)(19); from mixts.cli import main; "
    "sys.exit(main(sys.argv[1:]))"
)


class Refitter(Periodic):
    """Runs ``mixts refit`` when the last refit of the store is so many seconds old.

    The time of the last one is in the store: restarts do not postpone a refit, and of several
    replicas the first that finds it due runs it.
    """

    thread_name = "mixts-refits"
    trouble = "the refit waits until the store can be used"

    def __init__(self, store: DecisionStore, address: str, period: float) -> None:
        super().__init__()
        self._store, self._address, self._period = store, address, period

    def work(self) -> float:
        """Run a refit if one is due; return the seconds until the next look."""
        left = self._store.backend.transact(partial(_claim, period=self._period))
        if left > 0:
            return min(left, LOOK_SECONDS)
        self._run_refit()
        return min(self._period, LOOK_SECONDS)

    def pause(self) -> float:
        """Return the seconds after a failure until the next look."""
        return LOOK_SECONDS

    def _run_refit(self) -> None:
        words = [sys.executable, "-c", _COMMAND, "refit", self._address]
        with subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as process:
            while process.poll() is None:
                if self._closed.wait(_POLL_SECONDS):
                    process.terminate()
                    process.wait(CLOSE_SECONDS)
                    return
            assert process.stdout is not None
            text = process.stdout.read().strip()
        log.log(logging.WARNING if process.returncode else logging.INFO, "%s", text)


def _claim(transaction: Transaction, period: float) -> float:
    """Return the seconds until a refit is due; if one is, note that it begins now."""
    transaction.shape()  # locks: one replica claims it
    now, note = transaction.now_us() / 1e6, note_of(transaction)
    if note is not None and note.at + period > now:
        return note.at + period - now
    result = "" if note is None else note.result
    set_note(transaction, RefitNote(now, result))
    return period if note is None else 0.0
