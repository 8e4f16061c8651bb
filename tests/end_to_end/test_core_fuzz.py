"""Hostile arguments never crash the compiled core, nor do they lead it out of its arrays."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import built_core
from tests.programs import CORE

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
N_ROUNDS = 2000
"""Hostile calls of each function."""


def fuzz(n_rounds: int, log: Path, **environment: str) -> None:
    """Run the fuzzer in another process; fail, and show the last call, if it crashes."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.core_fuzz", "1", str(n_rounds), str(log)],
        cwd=ROOT, env=os.environ | environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    last = log.read_text()[:4000] if log.exists() else ""
    assert done.returncode == 0, f"{done.stdout[-1000:]}\n{done.stderr[-4000:]}\n{last}"
    assert " accepted, recorded" in done.stdout


@pytest.mark.skipif(CORE is None, reason="the compiled core is not installed")
def test_hostile_arguments_raise_exceptions_and_nothing_else(tmp_path: Path) -> None:
    fuzz(N_ROUNDS, tmp_path / "last_call")


def library(name: str) -> str:
    """Return the path of a library of the compiler; its bare name if there is none."""
    found = subprocess.run(
        ["g++", f"-print-file-name={name}"], capture_output=True, text=True, check=True
    )
    return found.stdout.strip()


@pytest.fixture
def sanitized(tmp_path: Path) -> Path:
    """Return the file of a core that checks addresses and undefined behaviour."""
    missing = built_core.missing_tools()
    if missing:
        pytest.skip(f"the core cannot be built here without {missing}")
    if not Path(library("libasan.so")).is_absolute():
        pytest.skip("the compiler has no address sanitizer")
    return built_core.build(ROOT, tmp_path / "build", "-DMIXTS_SANITIZE=ON")


def test_the_core_stays_inside_its_arrays(sanitized: Path, tmp_path: Path) -> None:
    # The sanitizer replaces the exceptions of the standard library, which must be there before.
    preloaded = " ".join(map(library, ("libasan.so", "libstdc++.so")))
    fuzz(
        N_ROUNDS // 4, tmp_path / "last_call",
        LD_PRELOAD=preloaded,
        ASAN_OPTIONS="detect_leaks=0:allocator_may_return_null=1",
        UBSAN_OPTIONS="print_stacktrace=1",
        **{built_core.VARIABLE: str(sanitized)},
    )  # fmt: skip
