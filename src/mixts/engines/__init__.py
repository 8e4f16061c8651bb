"""Engines that run work: this process, worker processes, an executor, or a Dask cluster."""

from mixts.engines.base import Engine
from mixts.engines.local import (
    EngineLike,
    ExecutorEngine,
    WorkerPool,
    engine_of,
    local_engine,
    n_processors,
)

__all__ = [
    "Engine",
    "EngineLike",
    "ExecutorEngine",
    "WorkerPool",
    "engine_of",
    "local_engine",
    "n_processors",
]
