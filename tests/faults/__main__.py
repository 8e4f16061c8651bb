"""Inject deliberate faults, one at a time, and check that the tests notice each of them.

    python -m tests.faults            every fault, some ten minutes
    python -m tests.faults sampler    the faults whose name contains a word

A test that cannot fail is a defect. Each fault runs the tests that should notice it, and stops at
the first failure. The table shows which test noticed which fault; the exit status is 1 if a fault
goes unnoticed, or if the code that it should change is not there. The tests must pass without a
fault first. pytest does not collect these modules: ``make slow`` runs them.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.faults import FAULTS

ROOT = Path(__file__).parents[2]


def run(tests: tuple[str, ...], fault: str | None) -> subprocess.CompletedProcess[str]:
    """Run tests with a fault, compiling all loops anew: numba would not notice that a loop that
    another loop calls has changed."""
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "-m", "pytest", "-q", "-x", "--tb=no", "-p", "no:cacheprovider"]
        if fault is not None:
            environment |= {"MIXTS_FAULT": fault, "NUMBA_CACHE_DIR": cache}
            command += ["-p", "tests.faults.plugin"]
        return subprocess.run(
            [*command, *tests],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )


def first_failure(output: str) -> str:
    """Return the first test that failed, from pytest's summary."""
    failed = re.search(r"^(?:FAILED|ERROR) tests/(.+?)(?: - .*)?$", output, re.MULTILINE)
    return failed.group(1) if failed else ""


def main(words: list[str]) -> int:
    chosen = [fault for fault in FAULTS.values() if all(word in fault.name for word in words)]
    if not chosen:
        print(f"no fault has {' '.join(words)!r} in its name")
        return 1
    tests = tuple(sorted({test for fault in chosen for test in fault.tests}))
    whole = run(tests, None)
    if whole.returncode != 0:
        print(f"the tests fail without a fault:\n{whole.stdout[-2000:]}")
        return 1
    width, unnoticed = max(len(fault.name) for fault in chosen), 0
    print(f"{'fault':{width}} | seconds | noticed by")
    for fault in chosen:
        start = time.monotonic()
        result = run(fault.tests, fault.name)
        test = first_failure(result.stdout)
        if result.returncode not in (0, 1):
            test = ""
            print(f"{fault.name}: {(result.stdout + result.stderr)[-1000:]}")
        unnoticed += not test
        seconds = time.monotonic() - start
        print(f"{fault.name:{width}} | {seconds:7.0f} | {test or 'NOTHING'}", flush=True)
    print(f"{len(chosen) - unnoticed} of {len(chosen)} noticed")
    return int(unnoticed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
