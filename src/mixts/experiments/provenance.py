"""Which code and which libraries made a number."""

from __future__ import annotations

import hashlib
import platform
import sys
from functools import cache
from importlib import metadata
from pathlib import Path

from mixts._version import __version__

_NUMERICAL = (
    "agents", "environments", "families", "learning", "planning", "simulation", "diagnostics",
    "prior.py", "belief.py", "_tasks.py", "_random.py", "_compiled.py", "_numbers.py", "_checks.py",
)  # fmt: skip
"""The layers that determine what is measured; those above only say what it means."""

_LIBRARIES = ("numpy", "scipy", "numba", "scikit-learn")


@cache
def versions() -> dict[str, str]:
    """Of Python, of mixts and of the libraries that compute."""
    found = {"python": platform.python_version(), "mixts": __version__}
    for name in _LIBRARIES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def system() -> dict[str, str]:
    """Of the machine, for the reader: numbers are the same to the bit on equal ones only."""
    return {"system": f"{platform.system()} {platform.machine()}"}


def code_of(experiment: type) -> str:
    """A short hash of all sources that determine an experiment's numbers."""
    root = Path(__file__).parents[1]
    files = [path for name in _NUMERICAL for path in _sources(root / name)]
    digest = hashlib.sha256()
    for path in [*files, *_own_sources(experiment, root / "experiments")]:
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def _own_sources(experiment: type, package: Path) -> list[Path]:
    """Everything in its folder but ``analysis.py``, and what its group shares; elsewhere its file.

    Of one that was typed at the prompt nothing is known.
    """
    file = getattr(sys.modules[experiment.__module__], "__file__", None)
    if file is None:
        return []
    own = Path(file)
    if package not in own.parents:
        return [own]
    shared = [package / "base.py", package / "parts.py", *sorted(own.parent.parent.glob("*.py"))]
    return [path for path in [*_sources(own.parent), *shared] if path.stem != "analysis"]


def _sources(path: Path) -> list[Path]:
    return sorted(path.rglob("*.py")) if path.is_dir() else [path]
