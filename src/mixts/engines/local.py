"""Engines of one machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Any

from mixts import _checks
from mixts.engines.base import Engine, ExecutorEngine
from mixts.engines.workers import WorkerPool, n_processors


class InlineEngine(Engine):
    """Every job here and now."""

    name = "this process"
    window = 1

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        future: Future[Any] = Future()
        # An interrupt must stop the program, not become the job's result.
        try:
            future.set_result(function(*arguments))
        except Exception as error:
            future.set_exception(error)
        return future


class PoolEngine(ExecutorEngine):
    """Worker processes of its own."""

    def __init__(self, n_workers: int) -> None:
        self._pool = WorkerPool(n_workers)
        super().__init__(self._pool, name=f"{n_workers} processes")

    def forget(self, jobs: Iterable[Future[Any]]) -> None:
        # The pool ends them all; one that was cancelled besides would break its bookkeeping.
        return None

    def close(self, *, abandon: bool) -> None:
        if abandon:
            self._pool.abandon()
        else:
            self._pool.shutdown()


def local_engine(n_workers: int | None = None) -> Engine:
    """Worker processes, as many as processors unless said otherwise; 1 is this process."""
    n = n_processors() if n_workers is None else _checks.count(n_workers, "workers")
    return InlineEngine() if n == 1 else PoolEngine(n)
