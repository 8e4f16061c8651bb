"""Read the files of logs again: the rows before a time, or the rows of some tasks."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from mixts import _checks
from mixts._typing import Array, ArrayLike, Float, Int
from mixts.engines import EngineLike, engine_of
from mixts.errors import ParameterError
from mixts.families import Statistics
from mixts.logs.files import Piece, batches_of
from mixts.logs.groups import task_table
from mixts.logs.lazy import LazyLog
from mixts.logs.read import TaskLogs, pieces_to_read, read_tally
from mixts.logs.rows import Observations, observations
from mixts.logs.schema import FileSchema


def read_before(
    logs: TaskLogs, time: float, engine: EngineLike = None
) -> tuple[Int[Array, " n"], Statistics]:
    """Read the rows before a time again.

    Parameters
    ----------
    logs
        Result of :func:`mixts.logs.read_logs` with a column of times. Its files are read again.
    time
        Rows at this time and later ones are left out.
    engine
        Where files are read, as in :func:`mixts.logs.read_logs`.

    Returns
    -------
    tuple
        Indices of the tasks that have earlier rows, into ``logs.tasks``, and their statistics.
    """
    schema = replace(logs.schema, family=logs.family, arms=logs.arms, before=time)
    tally, _, _ = read_tally(logs.files, schema, engine)
    index = {name: i for i, name in enumerate(logs.tasks)}
    found = np.array([index[name] for name in tally.tasks], dtype=np.int64)
    order = np.argsort(found)
    return found[order], tally.counted(order).statistics


@dataclass(frozen=True)
class TaskRows:
    """Observations of some tasks, in the order of the files; the result of :func:`read_rows`."""

    tasks: Int[Array, " m"]
    """Task of each row: its position among the tasks that were asked for."""
    arms: Int[Array, " a"]
    """Arm of each row, an index into ``TaskLogs.arms``; empty for linear tasks."""
    features: Float[Array, "m d"]
    """Features of each row, as in ``TaskLogs.features``; no columns for arms."""
    rewards: Float[Array, " m"]


def read_rows(logs: TaskLogs, tasks: ArrayLike, engine: EngineLike = None) -> TaskRows:
    """Read the rows of some tasks: statistics do not keep single rewards.

    Parameters
    ----------
    logs
        Result of :func:`mixts.logs.read_logs`. Its files are read again.
    tasks
        Indices of different tasks, into ``logs.tasks``.
    engine
        Where files are read, as in :func:`mixts.logs.read_logs`.

    Returns
    -------
    TaskRows
        The good rows of these tasks, in the order of files and rows, whatever the engine.
    """
    wanted = _checks.integers(tasks, "tasks must be indices of tasks", ParameterError)
    n_tasks = len(logs.tasks)
    inside = wanted.ndim == 1 and ((wanted >= 0) & (wanted < n_tasks)).all()
    if not inside or len(np.unique(wanted)) < len(wanted):
        raise ParameterError(
            f"tasks must be different indices from 0 to {n_tasks - 1}, got {tasks!r}"
        )
    task_index = {logs.tasks[task]: i for i, task in enumerate(wanted)}
    arm_index = {name: k for k, name in enumerate(logs.arms or ())}
    with engine_of(1 if engine is None else engine) as where:
        index = where.share((task_index, arm_index))
        names = list(task_index)
        files = [
            task_table(log, names, logs.schema) if isinstance(log, LazyLog) else log
            for log in logs.files
        ]
        jobs = (
            (piece, used, logs.schema, index) for piece, used in pieces_to_read(files, logs.schema)
        )
        parts = [rows for part in where.map(read_piece_rows, jobs) for rows in part]
        return _joined_rows(parts, logs)


def read_piece_rows(
    piece: Piece, delimiter: str, schema: FileSchema, index: tuple[dict[str, int], dict[str, int]]
) -> list[TaskRows]:
    """Return the rows of one piece that belong to the tasks in the index, batch by batch."""
    task_index, arm_index = index
    found = []
    for batch in batches_of(piece, schema.columns, delimiter, schema.batch_rows):
        if batch.columns:
            rows = _selected(observations(batch, schema, piece.path), task_index, arm_index)
            found += [rows] if len(rows.tasks) else []
    return found


def _selected(
    rows: Observations, task_index: dict[str, int], arm_index: dict[str, int]
) -> TaskRows:
    tasks = _places(rows.task_names, task_index)[rows.tasks]
    kept = tasks >= 0
    arms = rows.arms
    if len(rows.arm_names):
        arms = _places(rows.arm_names, arm_index)[rows.arms]
        kept &= arms >= 0  # a new arm: the files changed after they were read
        arms = arms[kept]
    return TaskRows(tasks[kept], arms, rows.features[kept], rows.rewards[kept])


def _places(names: list[str], index: dict[str, int]) -> Int[Array, " n"]:
    return np.array([index.get(name, -1) for name in names], dtype=np.int64)


def _joined_rows(parts: list[TaskRows], logs: TaskLogs) -> TaskRows:
    nothing = np.empty(0, np.int64)
    none = TaskRows(nothing, nothing, np.empty((0, len(logs.features or ()))), np.empty(0))
    every = [none, *parts]
    return TaskRows(
        np.concatenate([part.tasks for part in every]),
        np.concatenate([part.arms for part in every]),
        np.concatenate([part.features for part in every]),
        np.concatenate([part.rewards for part in every]),
    )
