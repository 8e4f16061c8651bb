"""Where work runs: in this process, in worker processes, on an executor, on a Dask cluster."""

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
