"""The decorator of all compiled loops: compile at the first call, keep the code on disk.

numba checks a cached loop against its own file only, but loops here call loops of other files. So
the cache's folder is named after the content of them all (a layer's ``_kernels``, a file or a
folder) and of this file: after an upgrade, or an edit of any, nothing old is run.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba import njit

F = TypeVar("F", bound=Callable[..., Any])

config: Any = numba.config
_HERE = Path(__file__).parent


def _digest() -> str:
    content = hashlib.sha256()
    sources = [*_HERE.glob("*/_kernels.py"), *_HERE.glob("*/_kernels/*.py"), _HERE / "_compiled.py"]
    for source in sorted(sources):
        content.update(source.read_bytes())
    return content.hexdigest()[:16]


def _folder() -> Path:
    """In numba's own folder where one is set, beside the sources, or in the user's cache."""
    if config.CACHE_DIR:
        base = Path(config.CACHE_DIR)
    elif os.access(_HERE, os.W_OK):
        base = _HERE / "__pycache__"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mixts"
    return base / f"loops-{_digest()}"


_FOLDER = str(_folder())


def compiled(**options: Any) -> Callable[[F], F]:
    """``numba.njit`` with a cache that all loops share.

    A division by zero is infinite or NaN as in numpy: looking out for it would make loops with
    divisions several times slower.
    """

    def decorate(function: F) -> F:
        before = config.CACHE_DIR
        config.CACHE_DIR = _FOLDER
        try:
            loop: F = njit(cache=True, error_model="numpy", **options)(function)
        finally:
            config.CACHE_DIR = before
        return loop

    return decorate
