"""An engine that runs jobs on the workers of a session of Spark, which stays open.

A job depends on nothing but its arguments, so Spark may run it again after a worker died.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from mixts.engines.base import JOBS_PER_WORKER, Engine
from mixts.engines.dask import Versions, play, versions
from mixts.engines.local import _pickled
from mixts.errors import ParameterError


class SparkEngine(Engine):
    """The workers of a session of Spark.

    Parameters
    ----------
    session
        A ``pyspark.sql.SparkSession`` that is not one of Spark Connect. Its workers need mixts, and
        the files that jobs name at the same paths.
    """

    def __init__(self, session: Any) -> None:
        try:
            self._context = session.sparkContext
        except Exception as error:
            raise ParameterError(
                "Spark Connect has no workers for functions of Python: give a classic session, "
                "such as SparkSession.builder.master(...).getOrCreate()"
            ) from error
        self.window = JOBS_PER_WORKER * self._context.defaultParallelism
        self.name = f"Spark at {self._context.master}"
        # A Spark action blocks its thread until the job is done.
        self._threads = ThreadPoolExecutor(self.window, "mixts-spark")

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        job = _pickled((versions(), function, arguments), "the work")
        return self._threads.submit(self._collect, job)

    def _collect(self, job: bytes) -> Any:
        (result,) = self._context.parallelize([job], 1).map(play_pickled).collect()
        return result

    def close(self, *, abandon: bool) -> None:
        self._threads.shutdown(wait=not abandon, cancel_futures=abandon)


def play_pickled(job: bytes) -> Any:
    """Run a job on a worker, if the worker has the same versions."""
    found: tuple[Versions, Callable[..., Any], tuple[Any, ...]] = pickle.loads(job)
    expected, function, arguments = found
    return play(expected, function, *arguments)
