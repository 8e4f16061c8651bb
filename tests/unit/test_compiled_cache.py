"""Code compiled from other sources is never run: the cache follows the content of all loops."""

from __future__ import annotations

import shutil
from pathlib import Path

import numba
import pytest

from mixts import compiled
from mixts.families.kernels import linear


def test_the_folder_follows_every_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sources = tmp_path / "mixts"
    shutil.copytree(Path(compiled.__file__).parent, sources, ignore=shutil.ignore_patterns("__*"))
    monkeypatch.setattr(compiled, "_HERE", sources)
    before = compiled._digest()
    assert compiled._digest() == before
    for name in (
        "families/kernels/roots.py",
        "families/kernels/sleep.py",
        "planning/kernels.py",
        "compiled.py",
    ):
        path = sources / name
        path.write_text(path.read_text() + "# changed\n")
        after = compiled._digest()
        assert after != before
        before = after


def test_loops_are_kept_there_and_numbas_setting_is_left_alone() -> None:
    kept = Path(linear.observe.stats.cache_path)
    assert compiled._FOLDER in kept.as_posix()
    assert numba.config.CACHE_DIR != compiled._FOLDER
