"""Code compiled from other sources is never run: the cache follows the content of all loops."""

from __future__ import annotations

import shutil
from pathlib import Path

import numba
import pytest

from mixts import _compiled
from mixts.families._kernels import linear


def test_the_folder_follows_every_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sources = tmp_path / "mixts"
    shutil.copytree(Path(_compiled.__file__).parent, sources, ignore=shutil.ignore_patterns("__*"))
    monkeypatch.setattr(_compiled, "_HERE", sources)
    before = _compiled._digest()
    assert _compiled._digest() == before
    for name in (
        "families/_kernels/roots.py",
        "families/_kernels/dormant.py",
        "planning/_kernels.py",
        "_compiled.py",
    ):
        path = sources / name
        path.write_text(path.read_text() + "# changed\n")
        after = _compiled._digest()
        assert after != before
        before = after


def test_loops_are_kept_there_and_numbas_setting_is_left_alone() -> None:
    kept = Path(linear.observe.stats.cache_path)
    assert _compiled._FOLDER in kept.as_posix()
    assert numba.config.CACHE_DIR != _compiled._FOLDER
