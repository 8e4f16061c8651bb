"""Threads of this process, for compiled loops that release the interpreter's lock."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from mixts.engines._workers import ONE_THREAD, n_processors


def n_threads() -> int:
    """Return the number of threads that a loop may use.

    It is the number of processors, unless one of the variables that limit the threads of numerical
    libraries is smaller: in workers, they are all one.
    """
    limits = [os.environ.get(name, "") for name in ONE_THREAD]
    return max(1, min([n_processors(), *(int(limit) for limit in limits if limit.isdigit())]))


def in_threads(work: Callable[[int, int], None], n: int, least: int) -> None:
    """Call ``work(first, last)`` for parts of range(n), one for each thread, at the same time.

    Parameters
    ----------
    work
        A function whose results do not depend on how the range is divided.
    n
        Length of the range.
    least
        Length of a part that is worth a thread.
    """
    n_parts = max(1, min(n_threads(), n // least))
    edges = [n * part // n_parts for part in range(n_parts + 1)]
    if n_parts == 1:
        work(0, n)
        return
    with ThreadPoolExecutor(n_parts) as pool:
        list(pool.map(work, edges[:-1], edges[1:]))
