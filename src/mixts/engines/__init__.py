"""Where jobs run: in this process, in worker processes, on a cluster, on any executor."""

from mixts.engines.base import Engine, ExecutorEngine
from mixts.engines.local import local_engine

__all__ = ["Engine", "ExecutorEngine", "local_engine"]
