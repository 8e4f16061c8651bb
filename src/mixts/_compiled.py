"""The decorator of all compiled loops: compile at the first call and cache the code on disk.

numba invalidates a cached loop only when the loop's own file changes, but our loops call loops of
other files. So the name of the cache folder is a hash of all kernel sources (``_kernels.py`` and
``_kernels/*.py`` of every package) and of this file: after any edit or upgrade all loops are
compiled again.
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
    """Return numba's configured folder, else one beside the sources, else the user's cache."""
    if config.CACHE_DIR:
        base = Path(config.CACHE_DIR)
    elif os.access(_HERE, os.W_OK):
        base = _HERE / "__pycache__"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mixts"
    return base / f"loops-{_digest()}"


_FOLDER = str(_folder())


def compiled(**options: Any) -> Callable[[F], F]:
    """Return ``numba.njit`` with the shared cache.

    Division by zero gives infinity or NaN as in numpy: checking for it would make loops with
    divisions several times slower. Functions whose name begins with an underscore can be called
    from other loops only: without an entry point for Python they compile faster.
    """

    def decorate(function: F) -> F:
        before = config.CACHE_DIR
        config.CACHE_DIR = _FOLDER
        try:
            if function.__name__.startswith("_"):
                options.update(no_cpython_wrapper=True, no_cfunc_wrapper=True)
            loop: F = njit(cache=True, error_model="numpy", **options)(function)
        finally:
            config.CACHE_DIR = before
        return loop

    return decorate
