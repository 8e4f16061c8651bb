"""Who plays which block; the numbers do not depend on it."""

from __future__ import annotations

import multiprocessing
import pickle
import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager

from mixts.engines.workers import WorkerPool, n_processors
from mixts.errors import ParameterError
from mixts.simulation.blocks import Advance, Block, Simulation, play_blocks

Job = Future[list[Block]]
"""Some of the blocks, on their way."""

WORTHWHILE_SECONDS = 10.0
"""Worker processes must import mixts, 2 to 3 seconds: below this much work they hardly pay."""

_JOBS_PER_WORKER = 4
"""Enough to even out jobs of different length, few enough that sending the problem costs little."""


def played_blocks(
    simulation: Simulation, executor: Executor | int | None, advance: Advance
) -> Iterator[Block]:
    """All blocks, in any order, each as soon as it is there."""
    blocks = range(simulation.n_blocks)
    if isinstance(executor, Executor):
        if isinstance(executor, ProcessPoolExecutor):
            in_script = _lives_in_script(_pickled(simulation))
            if in_script and isinstance(executor, WorkerPool) and not executor.imports_script:
                raise ParameterError(
                    "an agent or the environment is defined in the script itself: move it into a "
                    "module, or make the pool with imports_script=True"
                )
        yield from _collect(simulation, _submit(simulation, blocks, executor), advance)
    elif executor is None:
        yield from _play_where_it_pays(simulation, advance)
    elif executor == 1:
        yield from _play_here(simulation, blocks, advance)
    else:
        with _own_pool(simulation, min(executor, len(blocks))) as pool:
            yield from _collect(simulation, _submit(simulation, blocks, pool), advance)


def _play_here(simulation: Simulation, blocks: range, advance: Advance) -> Iterator[Block]:
    for block in blocks:
        yield simulation.play(block, advance)


def _play_where_it_pays(simulation: Simulation, advance: Advance) -> Iterator[Block]:
    """The first block here; the others in processes as soon as it is clear that this pays."""
    rest = range(1, simulation.n_blocks)
    with ExitStack() as pools:
        relief = _Relief(simulation, rest, advance, pools)
        yield simulation.play(0, relief)
        if relief.jobs:
            yield from _collect(simulation, relief.jobs, advance)
        else:
            yield from _play_here(simulation, rest, advance)


class _Relief:
    """Watches the first block, and calls worker processes for the others once that pays."""

    def __init__(
        self, simulation: Simulation, rest: range, advance: Advance, pools: ExitStack
    ) -> None:
        self.jobs: list[Job] = []
        self._simulation = simulation
        self._rest = rest
        self._advance = advance
        self._pools = pools
        self._possible = len(rest) > 0 and n_processors() > 1
        self._since: float | None = None
        self._done = 0

    def __call__(self, n_decisions: int) -> None:
        self._advance(n_decisions)
        if not self._possible:
            return
        now = time.perf_counter()
        if self._since is None:  # until here compiled code was loaded
            self._since = now
            return
        self._done += n_decisions
        seconds = (now - self._since) / max(1, self._done)
        if seconds * _n_decisions(self._simulation, self._rest) > WORTHWHILE_SECONDS:
            self._possible = False
            if _can_leave(self._simulation):
                self._call()

    def _call(self) -> None:
        n_workers = min(n_processors(), len(self._rest))
        try:
            pool = self._pools.enter_context(_own_pool(self._simulation, n_workers))
        except (ImportError, NotImplementedError, OSError):
            return  # a system without processes or what they need: nobody asked for them
        self.jobs = _submit(self._simulation, self._rest, pool)


def _can_leave(simulation: Simulation) -> bool:
    """Whether another process can be given the problem, whatever the user's script looks like."""
    if multiprocessing.parent_process() is not None:
        return False
    try:
        return not _lives_in_script(_pickled(simulation))
    except ParameterError:
        return False


def _n_decisions(simulation: Simulation, blocks: Iterable[int]) -> int:
    n_runs = sum(simulation.width(block) for block in blocks)
    return n_runs * simulation.n_rounds * len(simulation.recipes)


def _submit(simulation: Simulation, blocks: range, executor: Executor) -> list[Job]:
    n_jobs = min(len(blocks), _JOBS_PER_WORKER * n_processors())
    return [executor.submit(play_blocks, simulation, blocks[i::n_jobs]) for i in range(n_jobs)]


def _collect(simulation: Simulation, jobs: list[Job], advance: Advance) -> Iterator[Block]:
    try:
        for job in as_completed(jobs):
            for block in job.result():
                advance(len(block.latent) * simulation.n_rounds * len(simulation.recipes))
                yield block
    except BrokenProcessPool as error:
        error.add_note(
            "A worker process of mixts.simulate died. A script that defines agents must call "
            'simulate under `if __name__ == "__main__":`. With executor=1 there are no processes.'
        )
        raise
    finally:
        for job in jobs:
            job.cancel()


@contextmanager
def _own_pool(simulation: Simulation, n_workers: int) -> Iterator[Executor]:
    in_script = _lives_in_script(_pickled(simulation))
    main = sys.modules["__main__"]
    if in_script and getattr(main, "__file__", None) is None and main.__spec__ is None:
        raise ParameterError(
            "worker processes cannot see what an interactive session defines: put the functions of "
            "agents and environment into a module, or use executor=1"
        )
    pool = WorkerPool(n_workers, imports_script=in_script)
    try:
        yield pool
    except BaseException:
        # Whoever sees the error need not wait for blocks that nobody wants any more.
        pool.abandon()
        raise
    pool.shutdown()


def _pickled(simulation: Simulation) -> bytes:
    """The whole of it as worker processes get it; says which part of it cannot be sent."""
    parts = {f"agent {name!r}": recipe for name, recipe in simulation.recipes.items()}
    for what, part in {**parts, "the environment": simulation.environment}.items():
        try:
            pickle.dumps(part)
        except Exception as error:
            raise ParameterError(
                f"{what} cannot be sent to a worker process ({error}): use functions of a module "
                "and functools.partial instead of lambdas and inner functions, or executor=1"
            ) from error
    return pickle.dumps(simulation)


def _lives_in_script(pickled: bytes) -> bool:
    return b"__main__" in pickled
