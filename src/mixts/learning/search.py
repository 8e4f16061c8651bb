"""Restarts, here or on workers: the best of several starts is what was learned."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import Executor, Future, wait
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np

from mixts import _checks, _random
from mixts.engines import Engine, ExecutorEngine, local_engine, n_processors
from mixts.engines.local import InlineEngine
from mixts.errors import ParameterError
from mixts.learning.em import Fit, Patience, climb
from mixts.learning.models import Model
from mixts.learning.starts import start

Where = Engine | Executor | int | None
"""Where restarts run; None decides by how long they take."""

_WORTH = 10.0
"""Seconds of work that is left, from which on processes are worth being started."""


@dataclass(frozen=True)
class Job:
    """One restart: of which tasks, with how many components, and its random stream."""

    model: Model
    pooled: Fit
    n_components: int
    seed: int
    part: str
    """Of which tasks, for the stream."""
    number: int
    patience: Patience


def pooled_fit(model: Model, patience: Patience) -> Fit:
    """One component: what all tasks have in common."""
    return climb(model, model.centre, np.ones(1), patience)


def run(job: Job) -> Fit:
    """What a worker is asked to do."""
    rng = _random.stream(job.seed, "learn", job.part, job.n_components, job.number)
    first, centred = start(job.model, job.pooled.prior, job.n_components, job.number, rng)
    return climb(centred, first.family, first.weights, job.patience)


class Search:
    """Runs restarts, and keeps to the place that it was told or found worth while."""

    def __init__(self, engine: Where, n_expected: int) -> None:
        self._engine: Engine | None = None
        self._decided = engine is not None
        self._given = engine
        self._left = n_expected
        self._closing: AbstractContextManager[Any] = nullcontext()

    def __enter__(self) -> Search:
        if self._decided:
            self._open(_engine(self._given))
        return self

    def _open(self, engine: Engine) -> None:
        # An engine that was given is its giver's to close.
        self._closing = nullcontext() if engine is self._given else engine
        self._engine = engine
        self._closing.__enter__()

    def __exit__(self, *error: Any) -> None:
        self._closing.__exit__(*error)

    def fits(self, jobs: Sequence[Job]) -> list[Fit]:
        """The results of jobs, in their order, wherever they ran."""
        done = [self._timed(jobs[0])] if jobs and not self._decided else []
        rest = jobs[len(done) :]
        if self._engine is None:
            return [*done, *map(run, rest)]
        under_way: list[Future[Fit]] = []
        try:
            for job in rest:
                _wait_for_room(under_way, self._engine.window)
                under_way.append(self._engine.submit(run, job))
            return [*done, *(future.result() for future in under_way)]
        except BaseException:
            self._engine.forget(under_way)
            raise

    def _timed(self, job: Job) -> Fit:
        """The first job runs here, and says whether the others deserve processes."""
        started = time.perf_counter()
        fit = run(job)
        seconds = time.perf_counter() - started
        self._left -= 1
        if seconds * self._left > _WORTH and n_processors() > 1:
            self._open(local_engine())
        self._decided = True
        return fit


def _wait_for_room(under_way: list[Future[Fit]], window: int) -> None:
    while len(waiting := [future for future in under_way if not future.done()]) >= window:
        wait(waiting, return_when="FIRST_COMPLETED")


def _engine(engine: Where) -> Engine:
    if isinstance(engine, Engine):
        return engine
    if isinstance(engine, Executor):
        return ExecutorEngine(engine)
    if isinstance(engine, (int, np.integer)) and not isinstance(engine, bool):
        n = _checks.count(engine, "engine")
        return InlineEngine() if n == 1 else local_engine(n)
    raise ParameterError(
        "engine must be None, a number of processes, a concurrent.futures executor or a "
        f"mixts.engines.Engine, got {engine!r}"
    )


def best(fits: Sequence[Fit]) -> Fit:
    """The largest objective; the first of equals."""
    return max(fits, key=lambda fit: fit.objective)
