"""Which program runs: the compiled core, or the plain one that specifies it.

Code that has a fast path asks ``_program.core`` when it is called, so that one process can run
both: tests compare them.
"""

from __future__ import annotations

import importlib
import os
from typing import Any

__all__ = ["core"]


def _load() -> Any:
    """Return the build of the core for this processor; None for the plain program."""
    if os.environ.get("MIXTS_PLAIN", "") not in ("", "0"):
        return None
    try:
        baseline = importlib.import_module("mixts._core")
    except ImportError:
        return None
    if not baseline.runs_avx2():
        return baseline
    try:
        return importlib.import_module("mixts._core_v3")
    except ImportError:
        return baseline


core: Any = _load()
"""The compiled core; None: plain numpy and scipy."""
