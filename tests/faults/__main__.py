"""Inject deliberate faults, one at a time, and check that the tests notice each of them.

    python -m tests.faults            every fault, some twenty minutes
    python -m tests.faults sampler    the faults whose name contains a word

A test that cannot fail is a defect. Each fault runs the tests that should notice it, and stops at
the first failure. The table shows which test noticed which fault, and why. The exit status is 1 if
a fault goes unnoticed, or if the code that it should change is not there. The tests must pass
without a fault first. A fault of the compiled core needs a compiler: the core is built with it.
pytest does not collect these modules: ``make slow`` runs them.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests import built_core
from tests.built_core import ROOT
from tests.faults import FAULTS, Fault
from tests.faults.inject import CoreEdit

MOST_SECONDS = 1200
"""Time for the tests of one fault; a fault that makes them wait forever is not noticed."""


def core_with(fault: Fault, folder: Path) -> dict[str, str]:
    """Build the core with a fault, again only what changes; return the variable that names it."""
    edits = {change.path: change for change in fault.changes if isinstance(change, CoreEdit)}
    if not edits:
        return {}
    for source in (ROOT / "CMakeLists.txt", *(ROOT / "src" / "core").iterdir()):
        copy, edit = folder / source.relative_to(ROOT), edits.get(source.name)
        text = edit.changed_text() if edit else source.read_text(encoding="utf-8")
        copy.parent.mkdir(parents=True, exist_ok=True)
        if not copy.exists() or copy.read_text(encoding="utf-8") != text:
            copy.write_text(text, encoding="utf-8")
    options = ("-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_CXX_FLAGS_DEBUG=-O1")
    return {built_core.VARIABLE: str(built_core.build(folder, folder / "build", *options))}


def run(tests: tuple[str, ...], fault: Fault | None = None, **core: str) -> tuple[int | None, str]:
    """Run tests with a fault; return pytest's exit status, None if time ran out, and its output."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "--tb=no", "-p", "no:cacheprovider"]
    # pytest cuts the reasons of failures at this width.
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "400", **core}
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
    with tempfile.TemporaryDirectory() as folder:
        for fault in chosen:
            start = time.monotonic()
            try:
                status, output = run(fault.tests, fault, **core_with(fault, Path(folder)))
            except (
                LookupError,
                OSError,
                RuntimeError,
            ) as error:  # the core cannot be built with it
                status, output = None, str(error)
            test, reason = first_failure(output) if status == 1 else ("NOTHING", output[-1000:])
            unnoticed += test == "NOTHING"
            seconds = time.monotonic() - start
            print(f"{fault.name:{width}} | {seconds:7.0f} | {test}: {reason}", flush=True)
    print(f"{len(chosen) - unnoticed} of {len(chosen)} noticed")
    return int(unnoticed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
