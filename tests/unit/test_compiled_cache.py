"""The cache of compiled loops follows their sources, and every command works without a cache."""

from __future__ import annotations

import ctypes
import gc
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numba
import numba.extending
import pytest
from numba.core.types.functions import BaseFunction

from mixts import _compiled
from mixts.families._kernels import rows

PACKAGE = Path(_compiled.__file__).parent


def copy_of_the_sources(folder: Path) -> Path:
    """Copy the package without its compiled loops, and return the copy."""
    ignored = shutil.ignore_patterns("loops-*")
    return Path(shutil.copytree(PACKAGE, folder / "mixts", ignore=ignored))


def test_the_folder_follows_every_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sources = copy_of_the_sources(tmp_path)
    monkeypatch.setattr(_compiled, "_HERE", sources)
    before = _compiled._digest()
    assert _compiled._digest() == before
    for name in (
        "families/_kernels/roots.py",
        "families/_kernels/rows.py",
        "_compiled.py",
        "_inner_functions.py",
    ):
        path = sources / name
        path.write_text(path.read_text() + "# changed\n")
        after = _compiled._digest()
        assert after != before
        before = after


def test_loops_are_kept_there_and_numbas_setting_is_left_alone() -> None:
    kept = Path(rows.count_rows.stats.cache_path)
    assert _compiled.FOLDER is not None
    assert _compiled.FOLDER in kept.as_posix()
    assert numba.config.CACHE_DIR != _compiled.FOLDER


# -- folders that cannot be written to ------------------------------------------------------------

COMMAND = """
from mixts import cli
from mixts._compiled import compiled

assert compiled()(lambda x: x + 1)(1) == 2
cli.main(["arms", "--help"])
"""


def obey_permissions() -> None:
    """Take from root, in a new process, the right to write wherever it likes."""
    if os.geteuid() == 0:
        drop_from_bounding_set, override = 24, 1  # PR_CAPBSET_DROP, CAP_DAC_OVERRIDE
        ctypes.CDLL(None).prctl(drop_from_bounding_set, override, 0, 0, 0)


@pytest.mark.skipif(sys.platform != "linux", reason="takes rights from root as Linux does")
def test_a_command_works_and_advises_where_nothing_can_be_written(tmp_path: Path) -> None:
    copy_of_the_sources(tmp_path)
    home = tmp_path / "home"
    (home / ".cache").mkdir(parents=True)
    folders = [inner for inner in (tmp_path, *tmp_path.rglob("*")) if inner.is_dir()]
    for folder in folders:
        folder.chmod(0o555)
    try:
        done = subprocess.run(
            [sys.executable, "-c", COMMAND],
            env={"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONPATH": str(tmp_path)},
            cwd="/",
            capture_output=True,
            text=True,
            preexec_fn=obey_permissions,
        )
    finally:
        for folder in folders:
            folder.chmod(0o755)
    assert done.returncode == 0, done.stderr
    assert "usage: mixts arms" in done.stdout
    (advice,) = done.stderr.splitlines()
    assert "set NUMBA_CACHE_DIR" in advice


@pytest.fixture
def blocked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A path below which no folder can be made, also by root; the package's cache is there, too."""
    sources = tmp_path / "mixts"
    sources.mkdir()
    for name in ("_compiled.py", "_inner_functions.py", "__pycache__"):
        (sources / name).touch()
    monkeypatch.setattr(_compiled, "_HERE", sources)
    monkeypatch.setattr(_compiled.config, "CACHE_DIR", "")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return sources / "__pycache__"


def test_the_users_cache_comes_after_the_sources(blocked: Path, tmp_path: Path) -> None:
    folder = _compiled._folder()
    assert folder is not None
    assert Path(folder).parent == tmp_path / "home" / ".cache" / "mixts"


@pytest.mark.parametrize("case", ["home", "cache", "configured", "unknown user"])
def test_loops_stay_in_memory_without_a_folder(
    case: str, blocked: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    if case == "home":
        monkeypatch.setenv("HOME", str(blocked))
    elif case == "cache":
        monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    elif case == "configured":
        monkeypatch.setattr(_compiled.config, "CACHE_DIR", str(blocked))
    else:
        monkeypatch.delenv("HOME")
        monkeypatch.setattr(os, "getuid", lambda: 987654321)
    assert _compiled._folder() is None
    (record,) = caplog.records
    assert str(blocked) in record.getMessage()


def test_folders_of_another_user_inside_are_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "arms_1234").mkdir()
    assert _compiled._is_writable(tmp_path)
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert not _compiled._is_writable(tmp_path)


# -- versions of numba that were not tried --------------------------------------------------------

BELIEF = """
import numba

numba.version_info = numba.version_info._replace(short=(99, 0))

import mixts
from mixts import _compiled

assert _compiled._private_options(is_inner=True, borrows=True) == {}
agent = mixts.MixTS(mixts.MixturePrior(mixts.BernoulliArms([[8, 2]], [[2, 8]])), seed=1)
arm = 0
"""
UPDATE = """
agent.update(arm, 1)
again = agent.prior.condition(agent.belief.statistics)  # by a loop that calls inner functions
assert abs(again.log_evidence - agent.belief.log_evidence).max() < 1e-12
print(again.mean_rewards().sum())
"""
PROGRAMS = {"belief": BELIEF + UPDATE, "decision": BELIEF + "arm = agent.act()" + UPDATE}


@pytest.mark.parametrize("program", ["belief", pytest.param("decision", marks=pytest.mark.slow)])
def test_loops_compile_without_numbas_private_parts(program: str, tmp_path: Path) -> None:
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAMS[program]], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) == pytest.approx(0.2 + 9 / 11)


# -- versions of numba that were tried ------------------------------------------------------------


@pytest.mark.parametrize("collects", [True, False])
def test_compiling_leaves_numba_and_the_collector_as_they_were(
    collects: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_compiled, "FOLDER", None)  # a function from the cache is not compiled
    before, was_enabled = BaseFunction.get_call_type, gc.isenabled()
    during = []

    def note() -> None:
        """Have numba call back while it compiles."""

    @numba.extending.overload(note)
    def noted() -> Any:
        during.append((BaseFunction.get_call_type, gc.isenabled()))
        return lambda: None

    @_compiled.compiled(borrows=True)
    def good(x: float) -> float:
        note()
        return x + 1.0

    @_compiled.compiled()
    def bad(x: float) -> float:
        return x + "1"

    (gc.enable if collects else gc.disable)()
    try:
        assert good(1.0) == 2.0
        with pytest.raises(numba.TypingError):
            bad(1.0)
        assert gc.isenabled() is collects
    finally:
        (gc.enable if was_enabled else gc.disable)()
    assert BaseFunction.get_call_type is before
    (method, collected) = during[0]
    assert method is not before
    assert not collected
