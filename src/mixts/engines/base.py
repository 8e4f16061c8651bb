"""The interface of an engine: it runs jobs and yields their results."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, NamedTuple

Job = tuple[Any, ...]
"""The arguments of one call."""

JOBS_PER_WORKER = 2
"""One job that runs, and one that waits for the worker to be free."""

_BUFFERED_WINDOWS = 8
"""Results that :meth:`Engine.map` keeps for a slow first job, in multiples of the window."""


class Work(NamedTuple):
    """A series of jobs, the calls of one function, and how their progress is reported."""

    function: Callable[..., Any]
    jobs: Iterable[Job]
    in_order: bool
    """Whether results come in the order of the jobs, or as soon as they are there."""
    size: Callable[[Job], float] = lambda job: 1.0
    """Amount of work of a job."""
    advance: Callable[[float], None] | None = None
    """Called with the amount of work done since the last call."""

    @property
    def keywords(self) -> dict[str, Any]:
        """Keywords for a function that runs in this process and reports its progress itself."""
        return {} if self.advance is None else {"advance": self.advance}


class Engine(AbstractContextManager["Engine"], ABC):
    """A place where jobs run. A ``with`` statement closes it.

    A job is a call of a function with a tuple of arguments. Results never depend on the engine.
    """

    name: str
    """Description for people, such as "2 processes"."""
    window: int
    """Number of jobs to keep under way: enough for all workers, few enough to stop soon."""

    def map(self, function: Callable[..., Any], jobs: Iterable[Job]) -> Iterator[Any]:
        """Yield the result of every job, in the order of the jobs.

        Parameters
        ----------
        function
            A function of a module.
        jobs
            The arguments of each call, as tuples. They are read as the engine needs them.

        Returns
        -------
        iterator
            The results. An error of a job is raised, and the jobs still waiting are cancelled.
        """
        for _, result in self._run(Work(function, jobs, in_order=True)):
            yield result

    def as_completed(
        self,
        function: Callable[..., Any],
        jobs: Iterable[Job],
        *,
        size: Callable[[Job], float] | None = None,
        advance: Callable[[float], None] | None = None,
    ) -> Iterator[tuple[Job, Any]]:
        """Yield each job with its result as soon as it is finished.

        Parameters
        ----------
        function, jobs
            As in :meth:`map`.
        size
            Amount of work of a job; 1 by default.
        advance
            Called with the amount of work done since the last call. A function that runs in this
            process gets it as the keyword ``advance`` and calls it; for a job that ran elsewhere
            the engine calls it with the size of the job.

        Returns
        -------
        iterator
            Pairs ``(job, result)``. Of jobs that finish together, those that failed come last.
        """
        work = Work(function, jobs, in_order=False, advance=advance)
        yield from self._run(work if size is None else work._replace(size=size))

    def _run(self, work: Work) -> Iterator[tuple[Job, Any]]:
        yield from Flow(self, work).results()

    def check(self, parts: Mapping[str, Any]) -> None:
        """Raise ``ParameterError`` for an argument that cannot be sent to the engine's workers.

        Parameters
        ----------
        parts
            Arguments of jobs by the names that the error message uses: ``"agent 'x'"``.
        """
        return None

    def share(self, value: Any) -> Any:
        """Return a replacement for a large argument of several jobs, so that it is pickled once."""
        return value

    @abstractmethod
    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Begin a job."""

    def forget(self, jobs: Iterable[Future[Any]]) -> None:
        """Cancel jobs whose results are no longer needed."""
        for job in jobs:
            job.cancel()

    def close(self, *, abandon: bool) -> None:
        """Release the engine's resources; with ``abandon`` without waiting for jobs."""
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close(abandon=error is not None)


class Flow:
    """Work on an engine, which runs at most a window of its jobs at a time."""

    def __init__(self, engine: Engine, work: Work) -> None:
        self._engine, self._work = engine, work
        self._jobs = iter(work.jobs)
        self._under_way: dict[Future[Any], Job] = {}

    def fill(self) -> list[Future[Any]]:
        """Submit jobs until the window is full, and return those that were not done before."""
        window = self._engine.window
        running = [future for future in self._under_way if not future.done()]
        room = min(window - len(running), _BUFFERED_WINDOWS * window - len(self._under_way))
        for job in itertools.islice(self._jobs, max(0, room)):
            future = self._engine.submit(self._work.function, *job)
            self._under_way[future] = job
            running.append(future)
        return running

    def results(self) -> Iterator[tuple[Job, Any]]:
        """Yield jobs with their results; cancel the others when the caller stops."""
        try:
            while True:
                self.fill()
                if not self._under_way:
                    return
                for future in self._finished():
                    job = self._under_way.pop(future)
                    result = future.result()
                    if self._work.advance is not None:
                        self._work.advance(self._work.size(job))
                    yield job, result
        except BrokenProcessPool as error:
            error.add_note(
                "A worker process died, perhaps for lack of memory. A script that defines agents "
                "or other functions for workers must start the work under `if __name__ == "
                '"__main__":`. With engine=1 there are no worker processes.'
            )
            raise
        finally:
            self._engine.forget(list(self._under_way))

    def _finished(self) -> list[Future[Any]]:
        """Wait for the first job in order, or for any; failed jobs last."""
        if self._work.in_order:
            first = next(iter(self._under_way))
            # Other jobs that finish meanwhile make room for new ones, also those that finish
            # before the wait begins.
            while not first.done():
                wait(self.fill(), return_when=FIRST_COMPLETED)
            return [first]
        finished, _ = wait(self._under_way, return_when=FIRST_COMPLETED)
        return sorted(finished, key=lambda future: future.exception() is not None)
