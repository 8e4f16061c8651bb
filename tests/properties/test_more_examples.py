"""Whatever is tested on made-up examples once more, on three times as many as the fast run has."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = [
    str(path.relative_to(ROOT))
    for path in sorted((ROOT / "tests").rglob("test_*.py"))
    if "\n@given(" in path.read_text(encoding="utf-8")
]


@pytest.mark.slow
@pytest.mark.parametrize("file", FILES)
def test_more_examples(file: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not slow"]
    done = subprocess.run(
        [*command, "--hypothesis-profile=more", file],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:]
