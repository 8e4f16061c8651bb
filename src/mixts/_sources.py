"""The source files that determine numbers: results are kept under a hash of them.

One list serves two purposes. Results on disk carry the hash, so that blocks of different code are
never mixed. Machines of a cluster compare it, so that all of them compute the same numbers. Every
module counts unless it is listed in :data:`PRESENTATION`, so that a new module counts by default.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

PRESENTATION = {
    "bridges": "adapters to other libraries; no simulation calls them",
    "cli": "parses arguments and prints",
    "experiments/registry.py": "finds experiments by name",
    "experiments/report.py": "writes reports about finished results",
    "experiments/verdicts.py": "judges finished results",
    "pages": "sets finished results as web pages",
    "plots": "draws finished results",
    "service": "the web service; no simulation calls it",
    "_progress.py": "draws progress bars",
}
"""Files and folders that do not change any number, each with the reason."""

ROOT = Path(__file__).parent


def numerical_sources() -> list[Path]:
    """Return every source file of the package that may change a number, in a fixed order."""
    return [path for path in sorted(ROOT.rglob("*.py")) if not is_presentation(path)]


def is_presentation(path: Path) -> bool:
    """Return whether a file of the package is listed in :data:`PRESENTATION`."""
    name = path.relative_to(ROOT).as_posix()
    return any(name == entry or name.startswith(f"{entry}/") for entry in PRESENTATION)


def sources_hash(paths: Iterable[Path]) -> str:
    """Return a short hash of the names and contents of source files."""
    digest = hashlib.sha256()
    for path in paths:
        inside = path.is_relative_to(ROOT)
        name = path.relative_to(ROOT).as_posix() if inside else path.name
        digest.update(name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]
