"""The examples of the gallery: each ends well, without warnings, and draws a labelled figure."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.programs import CORE
from tests.requirements import require

GALLERY = Path(__file__).parents[2] / "examples" / "gallery"
SLOW = (
    "clicks", "features", "frozen_lake", "households", "late_feedback", "new_items", "refits",
    "revenue", "riverswim", "route_models",
)  # fmt: skip
"""The longer examples; `make test` runs the others, each in less than a second."""

RUN = """
import contextlib, io, json, runpy, sys, traceback
import matplotlib.pyplot as plt

def run(path):
    shown = []
    plt.show = lambda: shown.extend(map(plt.figure, plt.get_fignums()))
    runpy.run_path(path, run_name="__main__")
    assert len(shown) == 1, f"expected one figure, got {len(shown)}"
    shown[0].canvas.draw()
    axes = shown[0].get_axes()
    assert any(ax.get_ylabel() for ax in axes), "no vertical axis has a label"
    assert any(ax.get_xlabel() for ax in axes), "no horizontal axis has a label"
    assert all(ax.has_data() for ax in axes), "some axes are empty"

said = {}
for path in sys.argv[1:]:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), plt.rc_context():
        try:
            run(path)
        except BaseException:
            traceback.print_exc()
        plt.close("all")
    said[path] = out.getvalue(), err.getvalue()
print(json.dumps(said))
"""
"""Runs examples one after the other: to import what all of them need takes longer than most."""

PATHS = {path.stem.removeprefix("plot_"): path for path in sorted(GALLERY.glob("plot_*.py"))}
assert len(PATHS) >= 12
assert set(SLOW) <= set(PATHS)

Said = dict[str, tuple[str, str]]
"""What each example wrote to stdout and stderr."""


def run(names: list[str], folder: Path) -> Said:
    require("core", CORE is not None, "the examples take minutes in the plain program")
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", RUN, *(str(PATHS[name]) for name in names)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=folder,
        env={**os.environ, "MPLBACKEND": "Agg"},
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    said = json.loads(done.stdout)
    return {name: said[str(PATHS[name])] for name in names}


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Said:
    return run([name for name in PATHS if name not in SLOW], tmp_path_factory.mktemp("examples"))


def check(said: tuple[str, str]) -> None:
    printed, complaints = said
    assert complaints == ""
    assert any(character.isdigit() for character in printed)


@pytest.mark.parametrize("name", [name for name in PATHS if name not in SLOW])
def test_example(name: str, quick: Said) -> None:
    check(quick[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW)
def test_longer_example(name: str, tmp_path: Path) -> None:
    check(run([name], tmp_path)[name])
