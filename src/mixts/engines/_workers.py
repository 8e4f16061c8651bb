"""Worker processes and threads.

A worker process has one BLAS thread, no interrupts, and no life after its parent's. Threads are for
compiled loops that release the interpreter's lock.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing import connection
from multiprocessing.context import SpawnContext, SpawnProcess
from typing import TypeVar

from mixts import _checks
from mixts.errors import ParameterError

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def n_processors() -> int:
    """Return the number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


_start_lock = threading.Lock()
"""Held while a process starts: the whole program shares environment variables and ``__main__``."""


class ScriptWorkerProcess(SpawnProcess):
    """A process with one BLAS thread that imports the user's script, as new processes do.

    So the script must be guarded by ``if __name__ == "__main__":``.
    """

    def start(self) -> None:
        with _start_lock, environment_variables(ONE_THREAD), _no_interrupts():
            super().start()


class WorkerProcess(SpawnProcess):
    """A process with one BLAS thread that does not import the user's script."""

    def start(self) -> None:
        with _start_lock, environment_variables(ONE_THREAD), _hidden_script(), _no_interrupts():
            super().start()


class _ScriptWorkerContext(SpawnContext):
    Process = ScriptWorkerProcess


class _WorkerContext(SpawnContext):
    Process = WorkerProcess


class WorkerPool(ProcessPoolExecutor):
    """Worker processes for several simulations: ``simulate(..., engine=pool)``.

    Use it in a ``with`` statement, or call ``shutdown``.

    Parameters
    ----------
    n_workers
        Number of processes; by default one for each processor.
    imports_script
        Whether workers import the script: for agents that are defined in the script itself.
    """

    def __init__(self, n_workers: int | None = None, *, imports_script: bool = False) -> None:
        n = n_processors() if n_workers is None else _checks.count(n_workers, "n_workers")
        self.imports_script = imports_script
        context = _ScriptWorkerContext() if imports_script else _WorkerContext()
        super().__init__(n, mp_context=context, initializer=_end_with_parent)

    def check_script(self) -> None:
        """Raise ``ParameterError`` if the workers do not know what the script defines."""
        if not self.imports_script:
            raise ParameterError(
                "an agent, the environment or another function is defined in the script itself: "
                "move it into a module, or make the pool with imports_script=True"
            )

    def abandon(self) -> None:
        """End the workers at once, whatever they are doing."""
        processes = list((self._processes or {}).values())
        self.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.terminate()


@contextmanager
def environment_variables(variables: dict[str, str]) -> Iterator[None]:
    """Set variables for processes that start meanwhile: BLAS reads them when it is loaded."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _end_with_parent() -> None:
    """End this worker when its parent is killed; otherwise it would wait for work for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_wait_and_end, args=(parent.sentinel,), daemon=True).start()


def _wait_and_end(sentinel: int) -> None:
    connection.wait([sentinel])
    os._exit(1)


@contextmanager
def _no_interrupts() -> Iterator[None]:
    """Block Ctrl-C in processes that start meanwhile: the program ends its workers itself."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _hidden_script() -> Iterator[None]:
    """Hide where the main module came from, so that a process that starts does not import it."""
    main = sys.modules["__main__"]
    spec, file = main.__spec__, getattr(main, "__file__", None)
    main.__spec__ = main.__file__ = None
    try:
        yield
    finally:
        main.__spec__ = spec
        if file is None:
            del main.__file__
        else:
            main.__file__ = file


# -- threads --------------------------------------------------------------------------------------

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
