"""Worker processes: one BLAS thread each, and from any script."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import connection
from multiprocessing.context import SpawnContext, SpawnProcess

from mixts import _checks

ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"
)
_start_lock = threading.Lock()


class ScriptWorkerProcess(SpawnProcess):
    """Starts with one BLAS thread, and imports the user's script as new processes do.

    So the script must be guarded by ``if __name__ == "__main__":``.
    """

    def start(self) -> None:
        with _start_lock, environment_variables(ONE_THREAD), _no_interrupts():
            super().start()


class WorkerProcess(SpawnProcess):
    """Starts with one BLAS thread, and without the user's script: it need not be guarded."""

    def start(self) -> None:
        with _start_lock, environment_variables(ONE_THREAD), _hidden_script(), _no_interrupts():
            super().start()


class _ScriptWorkerContext(SpawnContext):
    Process = ScriptWorkerProcess


class _WorkerContext(SpawnContext):
    Process = WorkerProcess


class WorkerPool(ProcessPoolExecutor):
    """Worker processes for several simulations, as ``simulate(..., executor=pool)``.

    As many as there are processors unless said otherwise. ``imports_script`` is for agents that are
    defined in the script itself. Use it in a ``with`` statement, or call ``shutdown``.
    """

    def __init__(self, n_workers: int | None = None, *, imports_script: bool = False) -> None:
        n = n_processors() if n_workers is None else _checks.count(n_workers, "n_workers")
        self.imports_script = imports_script
        context = _ScriptWorkerContext() if imports_script else _WorkerContext()
        super().__init__(n, mp_context=context, initializer=_end_with_parent)

    def abandon(self) -> None:
        """End the workers at once, whatever they are doing."""
        processes = list((self._processes or {}).values())
        self.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.terminate()


def n_processors() -> int:
    """How many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def environment_variables(variables: dict[str, str]) -> Iterator[None]:
    """Variables that a process inherits when it starts: BLAS reads them when it is loaded."""
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
    """A worker whose parent was killed would wait for work for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_wait_and_end, args=(parent.sentinel,), daemon=True).start()


def _wait_and_end(sentinel: int) -> None:
    connection.wait([sentinel])
    os._exit(1)


@contextmanager
def _no_interrupts() -> Iterator[None]:
    """Ctrl-C is for the program, which ends its workers itself; they inherit what is blocked."""
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
    """While a process starts, the main module does not say where it came from."""
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
