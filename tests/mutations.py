"""Break the code in plausible ways, one at a time, and see that the tests notice.

    python tests/mutations.py            all of them, some ten minutes
    python tests/mutations.py sampler    those whose name contains a word

A test that cannot fail is a defect. Each mutation replaces a piece of text in a copy of ``src`` and
runs a fast part of the tests on the copy, stopping at the first red one. The table says which test
killed which mutation; a survivor, or a text that is no longer there, makes the exit status 1. The
unbroken copy goes first and must be green. Not collected by pytest: ``make slow`` runs it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from mutation_table import MUTATIONS, Mutation

ROOT = Path(__file__).parents[1]


class Copy:
    """A copy of ``src`` that is broken and mended, with compiled code that follows it.

    The compiled code of the unbroken copy serves every file that a mutation leaves alone. numba
    does not notice that a loop calls one of another file which has changed: all the files that a
    mutation names are compiled again.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__"))

    def run(self, tests: tuple[str, ...], cache: str) -> subprocess.CompletedProcess[str]:
        environment = {
            **os.environ,
            "PYTHONPATH": str(self.folder / "src"),
            "NUMBA_CACHE_DIR": str(self.folder / cache),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        where = [sys.executable, "-c", "import mixts; print(mixts.__file__)"]
        found = subprocess.run(where, env=environment, capture_output=True, text=True, check=False)
        if not found.stdout.startswith(str(self.folder)) and "Error" not in found.stderr:
            raise RuntimeError(f"the tests would not see the copy, but {found.stdout.strip()}")
        command = [sys.executable, "-m", "pytest", "-q", "-x", "--tb=no", "-p", "no:cacheprovider"]
        return subprocess.run(
            [*command, *tests],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )

    def broken(self, mutation: Mutation) -> tuple[str, float]:
        """Which test goes red, or an empty text; and how long it took."""
        paths = sorted((self.folder / "src" / "mixts").glob(mutation.files))
        texts = {path: path.read_text(encoding="utf-8") for path in paths}
        found = sum(text.count(mutation.old) for text in texts.values())
        if found != mutation.count:
            raise LookupError(f"expected {mutation.count} in {mutation.files}, found {found}")
        again = self.folder / "again"
        shutil.copytree(self.folder / "compiled", again)
        for index in (i for path in paths for i in again.rglob(f"{path.stem}.*.nbi")):
            index.unlink()
        start = time.monotonic()
        try:
            for path, text in texts.items():
                path.write_text(text.replace(mutation.old, mutation.new), encoding="utf-8")
            result = self.run(mutation.tests, "again")
        finally:
            for path, text in texts.items():
                path.write_text(text, encoding="utf-8")
            shutil.rmtree(again)
        if result.returncode not in (0, 1):
            raise RuntimeError(f"pytest ended with {result.returncode}:\n{result.stdout[-2000:]}")
        return killer(result.stdout), time.monotonic() - start


def killer(output: str) -> str:
    """The first test that failed, from pytest's summary."""
    red = re.search(r"^(?:FAILED|ERROR) tests/(.+?)(?: - .*)?$", output, re.MULTILINE)
    return red.group(1) if red else ""


def main(words: list[str]) -> int:
    chosen = [m for m in MUTATIONS if all(word in m.name for word in words)]
    tests = tuple(sorted({test for mutation in chosen for test in mutation.tests}))
    width, survivors = max(len(mutation.name) for mutation in chosen), 0
    with tempfile.TemporaryDirectory() as folder:
        copy = Copy(Path(folder).resolve())
        start = time.monotonic()
        whole = copy.run(tests, "compiled")
        if whole.returncode != 0:
            print(f"the unbroken copy is not green:\n{whole.stdout[-2000:]}")
            return 1
        print(f"{'mutation':{width}} | seconds | killed by")
        print(f"{'none':{width}} | {time.monotonic() - start:7.0f} | nothing, as it should be")
        for mutation in chosen:
            try:
                red, seconds = copy.broken(mutation)
            except LookupError as error:
                red, seconds = "", 0.0
                print(f"{mutation.name:{width}} | the text to replace is not there: {error}")
            survivors += not red
            print(f"{mutation.name:{width}} | {seconds:7.0f} | {red or 'NOTHING'}", flush=True)
    print(f"{len(chosen) - survivors} of {len(chosen)} killed")
    return int(survivors > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
