"""The compiled loops that a program has called, whether it compiled them or found them compiled.

Other functions are compiled as parts of these: to count loops needs no empty cache, and no time.
"""

from __future__ import annotations

import sys
from collections import Counter

from numba.core.caching import FunctionCache
from numba.core.dispatcher import Dispatcher


def loaded_loops() -> Counter[str]:
    """Return for how many types of arguments each loop of mixts is in this process."""
    return Counter(
        {
            f"{module}.{name}": len(loop.signatures)
            for module in [name for name in sys.modules if name.startswith("mixts.")]
            for name, loop in vars(sys.modules[module]).items()
            if isinstance(loop, Dispatcher)
            and isinstance(loop._cache, FunctionCache)
            and loop.py_func.__module__ == module
            and loop.signatures
        }
    )
