"""Threads of this process, for compiled loops that release the interpreter's lock."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from mixts.engines._workers import ONE_THREAD, n_processors

T = TypeVar("T")


def n_threads() -> int:
    """Return the number of threads that a loop may use.

    It is the number of processors, unless one of the variables that limit the threads of numerical
    libraries is smaller. Worker processes share the processors already, so each has one thread.
    """
    if multiprocessing.parent_process() is not None:
        return 1
    limits = [os.environ.get(name, "") for name in ONE_THREAD]
    return max(1, min([n_processors(), *(int(limit) for limit in limits if limit.isdigit())]))


def in_threads(work: Callable[[int, int], T], n: int, size: int) -> list[T]:
    """Call ``work(first, last)`` for blocks of range(n) on threads; return its results in order.

    The blocks do not depend on the number of threads, so the results do not either. A thread that
    is done takes the next block, since blocks may differ in their work.

    Parameters
    ----------
    work
        A function that releases the interpreter's lock.
    n
        Length of the range.
    size
        Length of a block; at least a millisecond of work, a hundred times what it takes to hand out
        a block.
    """
    firsts = range(0, n, size)
    lasts = [min(first + size, n) for first in firsts]
    n_workers = min(len(firsts), n_threads())
    if n_workers <= 1:
        return [work(first, last) for first, last in zip(firsts, lasts, strict=True)]
    with ThreadPoolExecutor(n_workers) as pool:
        return list(pool.map(work, firsts, lasts))
