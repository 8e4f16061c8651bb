"""Play the blocks that are missing, on any engine, and keep each as soon as it is there."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from mixts._progress import progress_bars
from mixts.engines import Engine
from mixts.experiments.base import Arrays, Part
from mixts.experiments.store import Store

_JOB_SECONDS = 1.0
"""Blocks that take less are sent together: a job costs milliseconds of its own."""

Played = list[tuple[int, Arrays, float]]
"""Blocks with their arrays and seconds."""
Advance = Callable[[str, float], None]
"""Called with an experiment's id and the cost of each block of it that was kept."""


@dataclass(frozen=True)
class Job:
    """Some blocks of one part."""

    store: Store
    name: str
    part: Part
    blocks: tuple[int, ...]

    @property
    def cost(self) -> float:
        return self.part.cost * len(self.blocks)


def play(part: Part, blocks: Iterable[int]) -> Played:
    """What a worker is asked to do."""
    played = []
    for block in blocks:
        started = time.perf_counter()
        try:
            arrays = part.play(block)
        except Exception as error:
            error.add_note(f"(block {block})")
            raise
        played.append((block, arrays, time.perf_counter() - started))
    return played


def jobs_of(store: Store, parts: dict[str, Part]) -> list[Job]:
    """What is still to be done of an experiment."""
    jobs = []
    for name, part in parts.items():
        missing = store.missing(name, part.n_blocks)
        size = max(1, round(_JOB_SECONDS / max(part.cost, 1e-3)))
        for first in range(0, len(missing), size):
            jobs.append(Job(store, name, part, tuple(missing[first : first + size])))
    return jobs


@contextmanager
def job_bars(jobs: Sequence[Job], show: bool | None) -> Iterator[Advance]:
    """Show a progress bar for each experiment and one for all of them; give what advances both."""
    costs: dict[str, float] = {}
    for job in jobs:
        costs[job.store.id] = costs.get(job.store.id, 0.0) + job.cost
    with progress_bars(show) as bars:
        total = bars.add("all", sum(costs.values()))
        # Only the whole has a remaining time: experiments are played in no fixed order.
        each = {id: bars.add(f"  {id}", cost, remaining=False) for id, cost in costs.items()}

        def advance(id: str, cost: float) -> None:
            total.advance(cost)
            each[id].advance(cost)

        yield advance


def run(jobs: Sequence[Job], engine: Engine, advance: Advance = lambda id, cost: None) -> None:
    """Play all jobs; whatever was finished stays on disk, also when this is interrupted."""
    shared: dict[int, Any] = {}
    under_way: dict[Future[Played], Job] = {}
    waiting = _in_order(jobs)
    try:
        while True:
            while len(under_way) < engine.window and (job := next(waiting, None)) is not None:
                if id(job.part) not in shared:
                    shared[id(job.part)] = engine.share(job.part)
                under_way[engine.submit(play, shared[id(job.part)], job.blocks)] = job
            if not under_way:
                return
            finished, _ = wait(under_way, return_when=FIRST_COMPLETED)
            # Those that failed last: what the others gave is kept first.
            for future in sorted(finished, key=lambda one: one.exception() is not None):
                job = under_way.pop(future)
                for block, arrays, seconds in _result(future, job):
                    job.store.write(job.name, block, arrays, seconds)
                    advance(job.store.id, job.part.cost)
    except BrokenProcessPool as error:
        error.add_note(
            "A worker process died, perhaps for lack of memory. What was finished is kept: the "
            "same command goes on from there; --workers 1 needs least memory."
        )
        raise
    finally:
        engine.forget(under_way)


def _result(future: Future[Played], job: Job) -> Played:
    try:
        return future.result()
    except Exception as error:
        error.add_note(f"({job.store.id}, part {job.name!r})")
        raise


def _in_order(jobs: Sequence[Job]) -> Iterator[Job]:
    """The longest first, but to begin with one of each experiment.

    Experiments of different families make workers compile different loops, at the same time.
    """
    longest = sorted(jobs, key=lambda job: -job.cost)
    begun: set[int] = set()
    first = []
    for job in longest:
        if id(job.store) not in begun:
            begun.add(id(job.store))
            first.append(job)
    yield from first
    chosen = {id(job) for job in first}
    yield from (job for job in longest if id(job) not in chosen)
