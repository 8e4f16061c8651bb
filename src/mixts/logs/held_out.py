"""Tasks to learn from and tasks to check on: at random, or the later tasks by time.

A check leaks if the prior was learned from something that happened after a held-out task began.
With times there is a boundary: held-out tasks begin at it or later, and the prior is learned from
rows before it. So nothing leaks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mixts import _random
from mixts._typing import Array, Int
from mixts.engines import EngineLike
from mixts.errors import LogsError
from mixts.families import Statistics
from mixts.logs.again import read_before
from mixts.logs.read import TaskLogs
from mixts.logs.row_faults import LogWarning
from mixts.logs.rows import time_text

MOST_HELD_OUT = 1000
"""Largest number of held-out tasks: more would not make the check more certain."""


@dataclass(frozen=True)
class Division:
    """Tasks to learn from, and tasks to check on."""

    training: Int[Array, " n"]
    """Indices of the tasks to learn from."""
    held_out: Int[Array, " m"]
    """Indices of the tasks to check on."""
    statistics: Statistics
    """Statistics of the tasks to learn from: with times, of their rows before the boundary."""
    warning: LogWarning | None = None


def divide(logs: TaskLogs, fraction: float, seed: int, engine: EngineLike = None) -> Division:
    """Divide tasks into tasks to learn from and tasks to check on.

    Parameters
    ----------
    logs
        Result of :func:`mixts.logs.read_logs`; with a column of times the latest tasks are held
        out, otherwise random ones.
    fraction
        Fraction of tasks to hold out, at most 1,000 tasks.
    seed
        Seed of the random choice.
    engine
        Where files are read again, if tasks reach beyond the boundary.
    """
    held_out, training = split(len(logs.tasks), fraction, seed)
    if logs.times is not None and len(held_out):
        order = np.concatenate([held_out, training])
        return _divide_by_time(logs, order, len(held_out), engine)
    training = np.sort(training)
    return Division(training, np.sort(held_out), logs.statistics[training])


def split(n_tasks: int, fraction: float, seed: int) -> tuple[Int[Array, " m"], Int[Array, " n"]]:
    """Return random tasks to hold out, and the other tasks, both in random order."""
    n = min(int(fraction * n_tasks), MOST_HELD_OUT)
    order = _random.stream(seed, "fit", "held out").permutation(n_tasks)
    return order[:n], order[n:]


def _divide_by_time(
    logs: TaskLogs, order: Int[Array, " n"], n_held_out: int, engine: EngineLike
) -> Division:
    """Hold out the tasks that begin last; among those that begin together, take random ones."""
    assert logs.times is not None  # the caller knows
    first, last = logs.times.first, logs.times.last
    boundary = float(np.sort(first)[-n_held_out])
    training = np.flatnonzero(first < boundary)
    if not len(training):
        when = time_text(boundary, logs.times.n_dates > 0)
        raise LogsError(
            f"no task begins before {when}, so there is nothing to learn from before the held-out "
            f"tasks begin: leave out --time, and random tasks are held out, or check that "
            f"{logs.schema.time!r} is the time of the choice"
        )
    later = order[first[order] >= boundary]
    later = later[np.argsort(first[later] == boundary, kind="stable")]
    held_out = np.sort(later[:n_held_out])
    over = training[last[training] >= boundary]
    if not len(over):
        return Division(training, held_out, logs.statistics[training])
    found, statistics = read_before(logs, boundary, engine)
    return Division(found, held_out, statistics, _warning(logs, boundary, over, found, statistics))


def _warning(
    logs: TaskLogs, boundary: float, over: Array, training: Array, earlier: Statistics
) -> LogWarning:
    assert logs.times is not None  # the caller knows
    whole = logs.statistics[training]
    n_rows = int(np.sum(whole.n_observations))
    n_left = n_rows - int(np.sum(earlier.n_observations))
    share = n_left / n_rows
    said = (
        f"{len(over):,} of {len(training):,} tasks to learn from go on after "
        f"{time_text(boundary, logs.times.n_dates > 0)}, when the first held-out task begins. "
        f"Their later rows ({n_left:,} of {n_rows:,}) are left out, so that nothing is learned "
        "from the future."
    )
    if share > 0.5:
        said += (
            " That is most of the data: tasks live long. Without --time, random tasks are held "
            "out and all rows of the others are used."
        )
    numbers = {"n_tasks": len(over), "n_left_out": n_left, "n_rows": n_rows, "boundary": boundary}
    return LogWarning("tasks-over-boundary", said, numbers)
