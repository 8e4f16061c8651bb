"""Engines of one machine."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from mixts import checks
from mixts.simulation.engines.base import Engine, ExecutorEngine
from mixts.simulation.workers import WorkerPool, n_processors


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


def local_engine(n_workers: int | None = None) -> Engine:
    """Worker processes, as many as processors unless said otherwise; 1 is this process."""
    n = n_processors() if n_workers is None else checks.count(n_workers, "workers")
    if n == 1:
        return InlineEngine()
    return ExecutorEngine(WorkerPool(n), owned=True, name=f"{n} processes")
