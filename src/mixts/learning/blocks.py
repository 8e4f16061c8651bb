"""Blocks of linear tasks on all processors: their evidence, and sums of their posterior moments.

Sums of blocks are added in their order, so that the number of threads changes no bit.
"""

from __future__ import annotations

import numpy as np

from mixts._typing import Array, Float
from mixts.engines.threads import in_threads
from mixts.learning._kernels.gaussian import (
    LinearSums,
    LinearTasks,
    linear_evidence,
    posterior_moments,
)

BLOCK_TASKS = 512
"""Tasks at a time: about a millisecond of work."""


def evidence_of_blocks(
    tasks: LinearTasks,
    mean: Float[Array, "L d"],
    precision: Float[Array, "G d d"],
    half_log_det: Float[Array, " G"],
    noise: float,
) -> tuple[Float[Array, "n L"], Float[Array, "n L"], float]:
    """Return what ``linear_evidence`` computes for all tasks, and the largest squared residual."""
    out, squares = np.empty((2, len(tasks.factor), len(mean)))

    def work(first: int, last: int) -> float:
        block = slice(first, last)
        some = LinearTasks(tasks.factor[block], tasks.gram[block])
        some_out, some_squares = out[block], squares[block]
        return linear_evidence(some, mean, precision, half_log_det, noise, some_out, some_squares)

    largest = max(in_threads(work, len(out), BLOCK_TASKS), default=0.0)
    return out, squares, noise * largest


def moments_of_blocks(
    tasks: LinearTasks,
    share: Float[Array, "n L"],
    sharp: Float[Array, "n L"],
    mean: Float[Array, "L d"],
    precision: Float[Array, "G d d"],
    noise: float,
) -> tuple[float, LinearSums]:
    """Return the misfit and the sums that ``posterior_moments`` computes for all tasks."""

    def work(first: int, last: int) -> tuple[float, LinearSums]:
        block, sums = slice(first, last), new_sums(mean.shape, len(precision))
        some = LinearTasks(tasks.factor[block], tasks.gram[block])
        part = posterior_moments(some, share[block], sharp[block], mean, precision, noise, sums)
        return part, sums

    misfit, total = 0.0, new_sums(mean.shape, len(precision))
    for part, sums in in_threads(work, len(share), BLOCK_TASKS):
        misfit += part
        for whole, one in zip(total, sums, strict=True):
            whole += one
    return misfit, total


def new_sums(shape: tuple[int, ...], n_precisions: int) -> LinearSums:
    """Return sums over tasks, to which nothing was added yet, for means of this shape (L, d)."""
    n, d = shape
    return LinearSums(np.zeros((n, d)), np.zeros((n, d, d)), np.zeros((n_precisions, d, d)))
