"""Engines that run work: this process, worker processes, an executor, Dask or Spark."""

from mixts.engines._workers import WorkerPool, n_processors
from mixts.engines.base import Engine
from mixts.engines.local import (
    EngineLike,
    ExecutorEngine,
    engine_of,
)

__all__ = [
    "Engine",
    "EngineLike",
    "ExecutorEngine",
    "WorkerPool",
    "engine_of",
    "n_processors",
]
