"""Which program runs: the compiled core, or the plain one that specifies it.

Code that has a fast path asks ``_program.core`` when it is called, so that one process can run
both: tests compare them. ``MIXTS_PLAIN=1`` chooses the plain program for a whole process.
"""

from __future__ import annotations

import importlib
import logging
import multiprocessing
import os
from typing import Any

__all__ = ["core", "identity"]


def _load() -> Any:
    """Return the build of the core for this processor; None for the plain program."""
    if os.environ.get("MIXTS_PLAIN", "") not in ("", "0"):
        return None
    try:
        baseline = importlib.import_module("mixts._core")
    except ImportError as error:
        if multiprocessing.parent_process() is None:  # warn once, not in every worker
            logging.getLogger("mixts").warning(
                "mixts runs without its compiled core: beliefs and probabilities are the same, "
                "decisions are slower. To get the core, install a C++ compiler and install mixts "
                "again; MIXTS_PLAIN=1 says that the plain program is wanted (%s)",
                error,
            )
        return None
    if not baseline.runs_avx2():
        return baseline
    try:
        return importlib.import_module("mixts._core_v3")
    except ImportError:
        return baseline


core: Any = _load()
"""The compiled core; None: plain numpy and scipy."""


def identity() -> str:
    """Return what tells this program from others that may draw other random numbers."""
    return "plain" if core is None else str(core.sources_hash)
