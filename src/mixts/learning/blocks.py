"""Blocks of linear tasks on all processors: their evidence, and sums of their posterior moments.

The blocks and the order in which their sums are added do not depend on the number of threads, so
the results do not either.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np

from mixts._typing import Array, Float
from mixts.engines import n_processors
from mixts.learning._kernels.gaussian import (
    LinearSums,
    LinearTasks,
    linear_evidence,
    posterior_moments,
)

T = TypeVar("T")

BLOCK_TASKS = 512
"""Tasks at a time: about a millisecond of work, a hundred times what it takes to hand it out."""


def on_blocks(n_tasks: int, work: Callable[[slice], T]) -> list[T]:
    """Return the results of all blocks in order; ``work`` must release the interpreter's lock.

    Worker processes share the processors already, so each has one thread.
    """
    blocks = [slice(i, i + BLOCK_TASKS) for i in range(0, n_tasks, BLOCK_TASKS)]
    in_worker = multiprocessing.parent_process() is not None
    n_threads = 1 if in_worker else min(len(blocks), n_processors())
    if n_threads <= 1:
        return [work(block) for block in blocks]
    with ThreadPoolExecutor(n_threads) as pool:
        return list(pool.map(work, blocks))


def evidence_of_blocks(
    tasks: LinearTasks,
    mean: Float[Array, "L d"],
    precision: Float[Array, "G d d"],
    half_log_det: Float[Array, " G"],
    noise: float,
) -> tuple[Float[Array, "n L"], Float[Array, "n L"]]:
    """Return what ``linear_evidence`` computes for all tasks."""
    out, squares = np.empty((2, len(tasks.factor), len(mean)))

    def work(block: slice) -> None:
        some = LinearTasks(tasks.factor[block], tasks.gram[block])
        linear_evidence(some, mean, precision, half_log_det, noise, out[block], squares[block])

    on_blocks(len(out), work)
    return out, squares


def moments_of_blocks(
    tasks: LinearTasks,
    share: Float[Array, "n L"],
    sharp: Float[Array, "n L"],
    mean: Float[Array, "L d"],
    precision: Float[Array, "G d d"],
    noise: float,
) -> tuple[float, LinearSums]:
    """Return the misfit and the sums that ``posterior_moments`` computes for all tasks."""

    def work(block: slice) -> tuple[float, LinearSums]:
        sums = new_sums(mean.shape, len(precision))
        some = LinearTasks(tasks.factor[block], tasks.gram[block])
        part = posterior_moments(some, share[block], sharp[block], mean, precision, noise, sums)
        return part, sums

    misfit, total = 0.0, new_sums(mean.shape, len(precision))
    for part, sums in on_blocks(len(share), work):
        misfit += part
        for whole, one in zip(total, sums, strict=True):
            whole += one
    return misfit, total


def new_sums(shape: tuple[int, ...], n_precisions: int) -> LinearSums:
    """Return sums over tasks, to which nothing was added yet, for means of this shape (L, d)."""
    n, d = shape
    return LinearSums(np.zeros((n, d)), np.zeros((n, d, d)), np.zeros((n_precisions, d, d)))
