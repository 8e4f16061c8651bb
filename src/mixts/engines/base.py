"""What an engine is: it takes jobs, and says how many it wants under way."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from concurrent.futures import Executor, Future
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any

from mixts.engines.workers import n_processors

JOBS_PER_WORKER = 2
"""One to play and one that waits for the worker to be free."""


class Engine(AbstractContextManager["Engine"], ABC):
    """Runs functions of modules on picklable arguments; closed at the end of a ``with``."""

    name: str
    """For people: "2 processes"."""
    window: int
    """How many jobs to have under way: enough that nobody waits, few enough to stop soon."""

    def share(self, value: Any) -> Any:
        """A large argument of several jobs, to be given to ``submit`` in the value's place."""
        return value

    @abstractmethod
    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Begin a job."""

    def forget(self, jobs: Iterable[Future[Any]]) -> None:
        """Nobody waits for these any more."""
        for job in jobs:
            job.cancel()

    def close(self, *, abandon: bool) -> None:
        """Let go of what the engine holds; ``abandon`` what is under way."""
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close(abandon=error is not None)


class ExecutorEngine(Engine):
    """An executor of ``concurrent.futures``, which stays open at the end."""

    def __init__(
        self,
        executor: Executor,
        *,
        window: int | None = None,
        name: str | None = None,
    ) -> None:
        self._executor = executor
        workers = getattr(executor, "_max_workers", None) or n_processors()
        self.window = JOBS_PER_WORKER * workers if window is None else window
        self.name = type(executor).__name__ if name is None else name

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        return self._executor.submit(function, *arguments)
