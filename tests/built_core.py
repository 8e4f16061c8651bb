"""Build the compiled core from any sources, and run mixts with that build.

An editable install finds its own core whatever PYTHONPATH says, so a build is put in its place
before mixts is imported. MIXTS_TEST_CORE names its file for another process.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[1]
VARIABLE = "MIXTS_TEST_CORE"


def missing_tools() -> list[str]:
    """Return what is missing here to build the core."""
    missing = [name for name in ("g++", "cmake", "ninja") if shutil.which(name) is None]
    return missing + ["nanobind"] * (importlib.util.find_spec("nanobind") is None)


def build(sources: Path, folder: Path, *options: str) -> Path:
    """Build the core of a project once, or again if it changed; return the module's file."""
    configure = [
        "cmake", "-S", sources, "-B", folder, "-G", "Ninja", "-DMIXTS_BASELINE_ONLY=ON",
        f"-DPython_EXECUTABLE={sys.executable}", *options,
    ]  # fmt: skip
    for command in (configure, ["cmake", "--build", folder]):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{command} failed:\n{done.stdout[-3000:]}\n{done.stderr[-1000:]}")
    (built,) = (path for path in folder.glob("_core.*") if path.suffix in (".so", ".pyd"))
    return built


def install() -> ModuleType | None:
    """Let mixts run with the core that MIXTS_TEST_CORE names; return that core, if there is one."""
    path = os.environ.get(VARIABLE)
    if path is None:
        return None
    if "mixts._program" in sys.modules:
        raise RuntimeError("mixts was imported before its core was chosen")
    spec = importlib.util.spec_from_file_location("mixts._core", path)
    assert spec is not None
    assert spec.loader is not None
    core = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(core)
    sys.modules["mixts._core"] = core
    sys.modules["mixts._core_v3"] = None  # type: ignore[assignment]  # importing it fails
    return core
