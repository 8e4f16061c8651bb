"""Inject deliberate faults, one at a time, and check that the tests notice each of them.

    python -m tests.faults            every fault, some ten minutes
    python -m tests.faults sampler    the faults whose name contains a word

A test that cannot fail is a defect. Each fault runs the tests that should notice it, and stops at
the first failure. The table shows which test noticed which fault, and why. The exit status is 1 if
a fault goes unnoticed, or if the code that it should change is not there. The tests must pass
without a fault first. pytest does not collect these modules: ``make slow`` runs them.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

from tests.faults import FAULTS, Fault

ROOT = Path(__file__).parents[2]

MOST_SECONDS = 1200
"""Time for the tests of one fault; a fault that makes them wait forever is not noticed."""


def run(tests: tuple[str, ...], fault: Fault | None = None) -> tuple[int | None, str]:
    """Run tests with a fault; return pytest's exit status, None if time ran out, and its output."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "--tb=no", "-p", "no:cacheprovider"]
    # pytest cuts the reasons of failures at this width.
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "400"}
    if fault is not None:
        environment["MIXTS_FAULT"] = fault.name
        command += ["-p", "tests.faults.plugin"]
    try:
        done = subprocess.run(
            [*command, *tests],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=MOST_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return None, f"no result after {MOST_SECONDS} seconds"
    return done.returncode, done.stdout + done.stderr


def first_failure(output: str) -> tuple[str, str]:
    """Return the first test that failed and the reason, from pytest's summary."""
    failed = re.search(
        r"^(?:FAILED|ERROR) ((?:serve/|paper/)?tests/.+?)(?: - (.*))?$", output, re.MULTILINE
    )
    return (failed.group(1), failed.group(2) or "") if failed else ("NOTHING", "")


def main(words: list[str]) -> int:
    """Print the table of the chosen faults; return 1 if one of them goes unnoticed."""
    chosen = [fault for fault in FAULTS.values() if all(word in fault.name for word in words)]
    if not chosen:
        print(f"no fault has {' '.join(words)!r} in its name")
        return 1
    tests = tuple(sorted({test for fault in chosen for test in fault.tests}))
    status, output = run(tests)
    if status != 0:
        print(f"the tests fail without a fault:\n{output[-2000:]}")
        return 1
    width, unnoticed = max(len(fault.name) for fault in chosen), 0
    print(f"{'fault':{width}} | seconds | noticed by")
    for fault in chosen:
        start = time.monotonic()
        status, output = run(fault.tests, fault)
        test, reason = first_failure(output) if status == 1 else ("NOTHING", output[-1000:])
        unnoticed += test == "NOTHING"
        seconds = time.monotonic() - start
        print(f"{fault.name:{width}} | {seconds:7.0f} | {test}: {reason}", flush=True)
    print(f"{len(chosen) - unnoticed} of {len(chosen)} noticed")
    return int(unnoticed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
