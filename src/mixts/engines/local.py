"""Engines of one machine, and :func:`engine_of`, which accepts every way to name an engine."""

from __future__ import annotations

import multiprocessing
import pickle
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from mixts.engines._workers import WorkerPool, n_processors
from mixts.engines.base import JOBS_PER_WORKER, Engine, Flow, Job, Work
from mixts.errors import ParameterError

EngineLike = Engine | Executor | Callable[[], Engine] | int | str | Any | None
"""Arguments that :func:`engine_of` accepts."""

WORTHWHILE_SECONDS = 10.0
"""Worker processes must import mixts, 2 to 3 seconds: below this much work they hardly pay."""


def engine_of(
    engine: EngineLike = None, *, n_jobs: int | None = None
) -> AbstractContextManager[Engine]:
    """Return a context manager that gives the engine, and closes it if it was made here.

    Parameters
    ----------
    engine
        None: begin in this process, and start worker processes if more than
        10 seconds of work are left. An integer: that many worker processes; 1 is this process. An
        :class:`Engine` or an executor of ``concurrent.futures``, which stays open. The address of
        a Dask scheduler, such as ``"tcp://host:8786"``, a Dask client, or ``"dask"`` for a cluster
        that is started on this machine. A session of Spark. A function without arguments that makes
        an engine.
    n_jobs
        With None: number of jobs to expect, if they come in several calls.

    Returns
    -------
    context manager
        ``with engine_of(engine) as where: ...``
    """
    if engine is None:
        return AutoEngine(n_jobs)
    if isinstance(engine, Engine):
        return nullcontext(engine)
    if isinstance(engine, Executor):
        return ExecutorEngine(engine)
    if isinstance(engine, (int, np.integer)) and not isinstance(engine, bool) and engine > 0:
        return InlineEngine() if engine == 1 else PoolEngine(int(engine))
    if _is_dask(engine):
        from mixts.engines.dask import DaskEngine

        return DaskEngine(None if engine == "dask" else engine)
    if _library_of(engine) == "pyspark":
        from mixts.engines.spark import SparkEngine

        return SparkEngine(engine)
    if callable(engine):
        made = engine()
        if isinstance(made, Engine):
            return made
    raise ParameterError(
        "engine must be None, a number of worker processes (at least 1), a concurrent.futures "
        "executor, a mixts.engines.Engine, a Dask client, the address of a Dask scheduler or a "
        f"session of Spark, got {engine!r}"
    )


def _is_dask(engine: Any) -> bool:
    """Return whether this is an address of a Dask scheduler, "dask", or a Dask client."""
    if isinstance(engine, str):
        return engine == "dask" or ":" in engine
    return _library_of(engine) == "distributed"


def _library_of(engine: Any) -> str:
    return type(engine).__module__.partition(".")[0]


# -- engines --------------------------------------------------------------------------------------


class InlineEngine(Engine):
    """Engine that runs every job immediately, in this process."""

    name = "this process"
    window = 1

    def _run(self, work: Work) -> Iterator[tuple[Job, Any]]:
        for job in work.jobs:
            yield job, work.function(*_opened(job), **work.keywords)

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        future: Future[Any] = Future()
        # An interrupt must stop the program, not become the job's result.
        try:
            future.set_result(function(*arguments))
        except Exception as error:
            future.set_exception(error)
        return future


class ExecutorEngine(Engine):
    """An engine of an executor of ``concurrent.futures``, which stays open at the end.

    Parameters
    ----------
    executor
        The executor.
    window
        Number of jobs to keep under way; by default two for each worker of the executor.
    """

    def __init__(self, executor: Executor, *, window: int | None = None) -> None:
        self._executor = executor
        workers = getattr(executor, "_max_workers", None) or n_processors()
        self.window = JOBS_PER_WORKER * workers if window is None else window
        self.name = type(executor).__name__

    def check(self, parts: Mapping[str, Any]) -> None:
        if isinstance(self._executor, ProcessPoolExecutor):
            in_script = _check_pickles(parts)
            if isinstance(self._executor, WorkerPool) and in_script:
                self._executor.check_script()

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        return self._executor.submit(function, *arguments)


class PoolEngine(Engine):
    """An engine of worker processes of its own, which start with the first job."""

    def __init__(self, n_workers: int) -> None:
        self._n_workers = n_workers
        self._pool: WorkerPool | None = None
        self.name = f"{n_workers} processes"
        self.window = JOBS_PER_WORKER * n_workers

    def start(self, *, imports_script: bool) -> WorkerPool:
        """Start the workers, unless they are there; the user's script is imported on request."""
        if self._pool is None:
            main = sys.modules["__main__"]
            interactive = getattr(main, "__file__", None) is None and main.__spec__ is None
            if imports_script and interactive:
                raise ParameterError(
                    "worker processes cannot see what an interactive session defines: put the "
                    "functions of agents and environment into a module, or use engine=1"
                )
            self._pool = WorkerPool(self._n_workers, imports_script=imports_script)
        if imports_script:
            self._pool.check_script()
        return self._pool

    def check(self, parts: Mapping[str, Any]) -> None:
        self.start(imports_script=_check_pickles(parts))

    def share(self, value: Any) -> Any:
        return SharedPickle(value)

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        # Pickled here, a job that cannot be pickled, or that a worker cannot read, is an ordinary
        # error instead of a broken pool.
        pickled = _pickled((function, arguments), "the work")
        pool = self.start(imports_script=_names_script(pickled))
        return pool.submit(_run_pickled, pickled)

    def forget(self, jobs: Iterable[Future[Any]]) -> None:
        # The pool ends them all; a job that was cancelled besides would break its bookkeeping.
        return None

    def close(self, *, abandon: bool) -> None:
        if self._pool is not None:
            if abandon:
                self._pool.abandon()
            else:
                self._pool.shutdown()


class AutoEngine(InlineEngine):
    """An engine that begins in this process and starts worker processes if they pay.

    The first job runs here. If it shows that the others will take longer than
    ``WORTHWHILE_SECONDS``, and they can be sent to processes that do not import the user's script,
    worker processes run them; otherwise this process does.

    Parameters
    ----------
    n_jobs
        Number of jobs to expect, if they come in several calls of ``map`` or ``as_completed``.
    """

    def __init__(self, n_jobs: int | None = None) -> None:
        self._n_jobs = n_jobs
        self._undecided = True
        self._workers: PoolEngine | None = None

    def _run(self, work: Work) -> Iterator[tuple[Job, Any]]:
        waiting = list(work.jobs) if self._undecided else []
        if waiting:
            first, *rest = waiting
            work = work._replace(jobs=rest)
            trial = _Trial(self, work, first, self._n_jobs)
            yield first, trial.run()
            if trial.flow is not None:
                yield from trial.flow.results()
                return
        if self._workers is not None:
            yield from self._workers._run(work)
        else:
            yield from super()._run(work)

    def share(self, value: Any) -> Any:
        return SharedPickle(value)

    def start_workers(self, work: Work, first: Job) -> Flow | None:
        """Start worker processes for jobs like the first, if that is possible."""
        self._undecided = False
        if n_processors() < 2 or multiprocessing.parent_process() is not None:
            return None
        workers = PoolEngine(n_processors())
        try:
            if _names_script(_pickled((work.function, first), "the work")):
                return None
            workers.start(imports_script=False)
        except (ParameterError, ImportError, NotImplementedError, OSError):
            # The work cannot be pickled, or the system has no worker processes. The caller did not
            # ask for them, so the work goes on in this process.
            return None
        self._workers = workers
        flow = Flow(workers, work)
        flow.fill()
        return flow

    def close(self, *, abandon: bool) -> None:
        if self._workers is not None:
            self._workers.close(abandon=abandon)


class _Trial:
    """The first job of an :class:`AutoEngine`: it shows how long the others will take."""

    def __init__(self, engine: AutoEngine, work: Work, first: Job, n_jobs: int | None) -> None:
        self.flow: Flow | None = None
        """The other jobs, once worker processes have begun them."""
        self._engine, self._work, self._first = engine, work, first
        self._remaining = sum(map(work.size, work.jobs)) if n_jobs is None else n_jobs - 1
        self._undecided = self._remaining > 0
        self._since: float | None = None
        self._done = 0.0

    def run(self) -> Any:
        """Run the first job here, and return its result."""
        arguments = _opened(self._first)
        if self._work.advance is not None:
            result = self._work.function(*arguments, advance=self._advance)
        else:
            started = time.perf_counter()
            result = self._work.function(*arguments)
            self._decide(time.perf_counter() - started, self._work.size(self._first))
        self._engine._undecided = False
        return result

    def _advance(self, amount: float) -> None:
        assert self._work.advance is not None
        self._work.advance(amount)
        if self.flow is not None:
            self.flow.fill()
        elif self._undecided:
            now = time.perf_counter()
            if self._since is None:  # until here compiled code was loaded
                self._since = now
            else:
                self._done += amount
                self._decide(now - self._since, self._done)

    def _decide(self, seconds: float, amount: float) -> None:
        if self._undecided and seconds / max(1, amount) * self._remaining > WORTHWHILE_SECONDS:
            self._undecided = False
            self.flow = self._engine.start_workers(self._work, self._first)


# -- arguments of worker processes ----------------------------------------------------------------


class SharedPickle:
    """A value that is pickled once and arrives at workers as the value itself."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self._pickled: bytes | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        if self._pickled is None:
            self._pickled = pickle.dumps(self.value)
        return pickle.loads, (self._pickled,)


def _opened(job: Job) -> Job:
    """Return the arguments for a call in this process."""
    return tuple(one.value if isinstance(one, SharedPickle) else one for one in job)


def _run_pickled(pickled: bytes) -> Any:
    function, arguments = pickle.loads(pickled)
    return function(*arguments)


def _pickled(value: Any, what: str) -> bytes:
    try:
        return pickle.dumps(value)
    except Exception as error:
        raise ParameterError(
            f"{what} cannot be sent to a worker process ({error}): use functions of a module "
            "and functools.partial instead of lambdas and inner functions, or engine=1"
        ) from error


def _check_pickles(parts: Mapping[str, Any]) -> bool:
    """Return whether a part is defined in the script; raise for a part that cannot be pickled."""
    pickled = [_pickled(part, what) for what, part in parts.items()]
    return any(map(_names_script, pickled))


def _names_script(pickled: bytes) -> bool:
    return b"__main__" in pickled
