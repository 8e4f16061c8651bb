"""The source files that determine numbers: results are kept under a hash of them.

One list serves two purposes. Results on disk carry the hash, so that blocks of different code are
never mixed. Machines of a cluster compare it, so that all of them compute the same numbers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from mixts import _program

__all__ = ["LIBRARY", "Sources", "sources_hash"]


@dataclass(frozen=True)
class Sources:
    """The source files of a package. Every file counts, unless it is listed as presentation.

    Parameters
    ----------
    root
        The folder of the package.
    presentation
        Files and folders that do not change any number, each with the reason.
    """

    root: Path
    presentation: Mapping[str, str]

    def numerical(self) -> list[Path]:
        """Return every source file that may change a number, in a fixed order."""
        return [path for path in sorted(self.root.rglob("*.py")) if not self.only_presents(path)]

    def only_presents(self, path: Path) -> bool:
        """Return whether a file belongs to the package and is listed as presentation."""
        if not path.is_relative_to(self.root):
            return False
        name = path.relative_to(self.root).as_posix()
        return any(name == entry or name.startswith(f"{entry}/") for entry in self.presentation)


LIBRARY = Sources(
    Path(__file__).parent,
    {
        "bridges": "adapters to other libraries; no simulation calls them",
        "extend": "gives authors names of other modules, and checks their classes",
        "cli": "parses arguments and prints",
        "pages": "sets finished results as web pages",
        "plots": "draws finished results",
        "_progress.py": "draws progress bars",
    },
)
"""The source files of mixts."""


def sources_hash(paths: Iterable[Path]) -> str:
    """Return a short hash of source files: names, from their packages on, and contents.

    It also tells the plain program from the compiled core, and one core from another: seeds are
    reproducible in each of them, but not across.
    """
    digest = hashlib.sha256(_program.identity().encode())
    for path in paths:
        digest.update(_name(path).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def _name(path: Path) -> str:
    """Return the path of a file from the outermost package that contains it."""
    outside = path.parent
    while (outside / "__init__.py").exists():
        outside = outside.parent
    return path.relative_to(outside).as_posix()
