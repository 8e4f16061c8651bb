"""The examples of the gallery: each ends well, without warnings, and draws a labelled figure."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

GALLERY = Path(__file__).parents[2] / "examples" / "gallery"
SLOW = ("features", "households", "late_feedback", "refits", "revenue", "route_models")
"""The longer examples; `make test` runs the others, each in a few seconds."""

RUN = """
import runpy, sys
import matplotlib.pyplot as plt

shown = []
plt.show = lambda: shown.extend(map(plt.figure, plt.get_fignums()))
runpy.run_path(sys.argv[1], run_name="__main__")
assert len(shown) == 1, f"expected one figure, got {len(shown)}"
shown[0].canvas.draw()
axes = shown[0].get_axes()
assert any(ax.get_ylabel() for ax in axes), "no vertical axis has a label"
assert any(ax.get_xlabel() for ax in axes), "no horizontal axis has a label"
assert all(ax.has_data() for ax in axes), "some axes are empty"
"""


def examples() -> list[object]:
    """Return all examples; the slow ones are marked."""
    paths = sorted(GALLERY.glob("plot_*.py"))
    assert len(paths) >= 12
    names = [path.stem.removeprefix("plot_") for path in paths]
    assert set(SLOW) <= set(names)
    return [
        pytest.param(path, id=name, marks=[pytest.mark.slow] if name in SLOW else [])
        for path, name in zip(paths, names, strict=True)
    ]


@pytest.mark.parametrize("example", examples())
def test_example(example: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", RUN, str(example)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "MPLBACKEND": "Agg"},
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert any(character.isdigit() for character in done.stdout)
