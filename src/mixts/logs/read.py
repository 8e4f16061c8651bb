"""Read past tasks from log files, one piece at a time, here or on workers."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from mixts import _checks
from mixts._checks import some_names
from mixts._progress import step
from mixts._typing import Array, ArrayLike, Float, Int
from mixts.engines import EngineLike, engine_of
from mixts.errors import FormatError, LogsError, ParameterError
from mixts.families import Statistics
from mixts.features import Features
from mixts.logs.bad_rows import OTHER_ARM, BadRows, unusable_rewards, without_reward
from mixts.logs.decisions import feature_column
from mixts.logs.files import Log, Paths, Piece, batches_of, delimiter_of, log_files, pieces_of
from mixts.logs.levels import find_features
from mixts.logs.pieces import (
    PieceCounts,
    RowSample,
    Spans,
    TaskTimes,
    read_piece,
    tally_of,
)
from mixts.logs.rows import Observations, observations, sorted_order
from mixts.logs.schema import (
    BATCH_ROWS,
    LogFamily,
    LogSchema,
    log_schema,
    schema_of_files,
    with_options,
)
from mixts.logs.tally import Tally
from mixts.prior import MixturePrior


@dataclass(frozen=True)
class TaskLogs:
    """Past tasks read from logs; the result of :func:`read_logs`."""

    statistics: Statistics
    """Statistics of tasks in the order of ``tasks``, with columns as ``arms`` or ``features``."""
    tasks: tuple[str, ...]
    """Names of tasks, sorted; numbers in names are compared by size."""
    arms: tuple[str, ...] | None
    """Names of arms, as given or sorted like tasks; None with features."""
    features: tuple[str, ...] | None
    """Names of the numbers in a row of features: "intercept" first if there is one, "price",
    "brand=acme"; None for arms."""
    family: LogFamily
    why: str
    """Reason for this family, in words."""
    n_rows: int
    """Number of rows, including bad ones."""
    bad_rows: BadRows
    n_missing: int
    """Number of rows without a reward that count as the ``missing_reward`` that was given."""
    reward_range: tuple[float, float]
    """Smallest and largest reward in the files; ``missing_reward`` is none of them."""
    times: TaskTimes | None = field(repr=False)
    """First and last time of each task; None without a column of times."""
    sample: RowSample = field(repr=False)
    """Rows of some tasks, all of them if the logs are small; indices as in ``tasks``, ``arms``."""
    spans: Spans = field(repr=False)
    """Ranges of the numbers in a row of features."""
    files: tuple[Log, ...] = field(repr=False)
    """Files, and tables in memory, in the order in which they were read."""
    schema: LogSchema = field(repr=False)
    """Columns that were read, to read the rows of some tasks again; its features have the ranges of
    an earlier prior only."""

    @property
    def space(self) -> Features | None:
        """Features, with their levels and the ranges of the rows; None for arms."""
        known = self.schema.space
        return None if known is None else known.learned_from(self.spans.low, self.spans.high)

    @property
    def missing(self) -> str:
        """Number of rows without a reward and what they count as, in words; "" if there are none.

        Rows without a reward are bad, unless :func:`read_logs` got a ``missing_reward``.
        """
        if not self.n_missing:
            return ""
        rows = "1 row had" if self.n_missing == 1 else f"{self.n_missing:,} rows had"
        count = "counts" if self.n_missing == 1 else "count"
        return f"{rows} no reward and {count} as {self.schema.missing_reward:g} (--missing-reward)"


def read_logs(
    paths: Paths,
    *,
    task: str,
    reward: str,
    arm: str | None = None,
    features: Sequence[str] | Features | None = None,
    family: Literal["auto"] | LogFamily = "auto",
    intercept: bool = False,
    arms: Sequence[str] | MixturePrior | None = None,
    missing_reward: float | None = None,
    clip: tuple[float, float] | None = None,
    time: str | None = None,
    delimiter: str | None = None,
    allow_bad_rows: bool = False,
    batch_rows: int = BATCH_ROWS,
    text: Sequence[str] = (),
    top_levels: int | None = None,
    decimals: int | None = None,
    engine: EngineLike = None,
) -> TaskLogs:
    """Read the statistics of past tasks from CSV or Parquet files of any size, or from tables.

    Tasks and arms are identified by their names as text: the number 1 and the text "1" are the same
    task in all files. Both are sorted, so the result depends neither on the order of rows and files
    nor on ``batch_rows`` (counts exactly, real numbers to rounding). Needs pyarrow (extra
    ``logs``).

    Parameters
    ----------
    paths
        A file, a pattern such as ``"logs/*.parquet"``, a folder, a table of pandas, polars or
        pyarrow, or a list of these.
    task, reward
        Columns of the task and of the reward.
    arm, features
        Column of the chosen arm, or columns of the features of the choice: one of the two. Numbers
        stay as they are. A column most of whose values are no numbers is text, and each of its
        levels is a number that is 0 or 1; if the rows have an intercept or the levels of an earlier
        feature, the first level has none: it is the reference. A :class:`mixts.Features`, such as
        ``prior.features``, gives the same rows as an earlier prior.
    family
        With features "logistic", which is :class:`mixts.LinearBernoulli`, or "linear"; with arms
        "bernoulli", "gaussian", "poisson" or "spend". "auto" is "logistic" with features and
        "bernoulli" with arms if every reward is 0 or 1. Otherwise it is "linear" with features;
        with arms it is "spend" if no reward is negative, more than 3% are 0 and the others have
        more than 24 different values, and "gaussian" if not.
    intercept
        Whether to add a first feature that is always 1.
    arms
        Names of the only arms, in their order, each of which must occur in the logs; or an earlier
        prior, whose arms may have no rows, so that the new prior can replace it. By default all
        arms of the logs, sorted.
    missing_reward
        Reward of the rows that have none (null, NaN, an empty text), for example 0 where only
        clicks are recorded. By default these rows are bad.
    clip
        Smallest and largest reward. Rewards beyond them count as these, so that a few huge rewards
        do not decide what is learned. By default rewards stay as they are.
    time
        Column of the time of each row: numbers, or dates as in ISO 8601 (without a zone: UTC).
        :func:`mixts.fit_logs` then holds out the latest tasks.
    delimiter
        Column separator of CSV files; by default a tab for ``.tsv`` files and a comma for others.
    allow_bad_rows
        Whether to accept logs in which more than half of the rows are bad.
    batch_rows
        Approximate number of rows in memory at a time.
    text
        Features that are text even if they look like numbers, such as postal codes.
    top_levels
        Keep so many levels of each text feature, the most frequent ones; the rest are one level,
        "other". By default all are kept, and more than 50 are refused.
    decimals
        Decimals to which features are rounded; by default they are not. The family "logistic"
        counts each distinct row of a task, at most 10,000: rounded features have fewer.
    engine
        Where files are read, as in :func:`mixts.engines.engine_of`: a number of processes, an
        executor, an engine; None is this process. Workers must find the files at the same paths.

    Returns
    -------
    TaskLogs
        Statistics of the tasks, the names of tasks and arms, and bad rows by reason.

    Examples
    --------
    >>> from mixts.logs import read_logs
    >>> logs = read_logs("clicks.csv", task="user", arm="item", reward="clicked")  # doctest: +SKIP
    >>> prior = mixts.learn_prior(logs.statistics, "auto", seed=1)  # doctest: +SKIP
    """
    schema = with_options(
        log_schema(task, reward, arm, features, family, intercept, arms),
        batch_rows=batch_rows, delimiter=delimiter, missing_reward=missing_reward, text=text,
        top_levels=top_levels, time=time, clip=clip, decimals=decimals,
    )  # fmt: skip
    files = log_files(paths, {*schema.columns, *map(feature_column, schema.features)})
    tally, found, schema = _read(files, schema, engine)
    return _task_logs(tally, found, schema, files, allow_bad_rows)


def _read(
    files: Sequence[Log], schema: LogSchema, engine: EngineLike
) -> tuple[Tally, PieceCounts, LogSchema]:
    """Count the rows of all files, in order; also return the schema with its features."""
    jobs = pieces_to_read(files, schema)
    schema = schema_of_files(schema, jobs)
    path, above = "", 0
    names = list(dict.fromkeys(piece.path for piece, _ in jobs))
    bar = step(f"reading {names[0] if len(names) == 1 else f'{len(names):,} files'}", len(jobs))
    with engine_of(1 if engine is None else engine) as where:
        if schema.arm is None and schema.space is None:
            schema = replace(schema, space=find_features(jobs, schema, where))
        tally = tally_of(schema)
        found = PieceCounts(spans=Spans(len(schema.feature_names)))
        parts = where.map(read_piece, ((piece, used, schema) for piece, used in jobs))
        for (piece, _), part in zip(jobs, parts, strict=True):
            above = above if piece.path == path else 0
            path = piece.path
            tasks, arms = tally.merge(part.counted)
            if schema.time is not None:
                found.times.merge(part.times, tasks)
            found.spans.merge(part.spans, tasks)
            found = found.plus(replace(part, sample=part.sample.moved(tasks, arms)), above)
            above += part.n_rows
            bar.advance(1)
    return tally, found, schema


def pieces_to_read(files: Sequence[Log], schema: LogSchema) -> list[tuple[Piece, str]]:
    """Return the pieces of all files in order, each with its delimiter."""
    delimiters = {file: delimiter_of(file, schema.delimiter) for file in files}
    return [(piece, used) for file, used in delimiters.items() for piece in pieces_of(file, used)]


# -- the result -----------------------------------------------------------------------------------


def _task_logs(
    tally: Tally,
    found: PieceCounts,
    schema: LogSchema,
    files: tuple[Log, ...],
    allow_bad_rows: bool,
) -> TaskLogs:
    n_good = found.n_rows - found.bad.total
    _, remedy = unusable_rewards(found.bad, schema.family)
    reasons = "".join(f"\n  {line}" for line in (*found.bad.lines(), remedy) if line)
    if not found.n_rows:
        raise FormatError(f"no rows below the names of the columns in {', '.join(map(str, files))}")
    _check_arms(schema, found.arm_names)
    if n_good == 0:
        raise FormatError(f"none of {found.n_rows:,} rows can be used{reasons}")
    # Arms that are not listed are left out as asked for; nobody asked so by an earlier prior.
    n_unlisted = 0 if schema.arms_may_lack_rows else found.bad.counts.get(OTHER_ARM, 0)
    if 2 * n_good < found.n_rows - n_unlisted and not allow_bad_rows:
        silent = without_reward(found.bad, found.reward_range, refused=True)
        if silent:
            raise LogsError(f"{silent}{reasons}")
        raise FormatError(
            f"{found.bad.total:,} of {found.n_rows:,} rows are bad, which is more than half: are "
            "the columns the right ones? If so, add --allow-bad-rows (allow_bad_rows=True)"
            f"{reasons}"
        )
    tasks = np.array(sorted_order(tuple(tally.tasks)), dtype=np.int64)
    arms = None
    if schema.arm is not None and schema.arms is None:
        arms = np.array(sorted_order(tuple(tally.arms)), dtype=np.int64)
    counted = tally.counted(tasks, arms)
    if counted.too_large and not found.n_other:
        raise LogsError(counted.too_large)
    family: Any = counted.family
    statistics = counted.statistics
    if counted.spends is not None and found.amounts.are_spends(n_good):
        family, statistics = "spend", counted.spends
    return TaskLogs(
        statistics,
        counted.tasks,
        None if schema.arm is None else counted.arms,
        schema.feature_names or None,
        family,
        _why(family, schema, found, n_good),
        found.n_rows,
        found.bad,
        found.n_missing,
        found.reward_range,
        None if schema.time is None else _task_times(found.times, tasks),
        found.sample.moved(np.argsort(tasks), np.argsort(() if arms is None else arms)),
        found.spans,
        files,
        schema,
    )


def _check_arms(schema: LogSchema, seen: frozenset[str]) -> None:
    """Refuse listed arms that no row has: a misspelt name would be an arm of its own."""
    unknown = [name for name in schema.arms or () if name not in seen]
    if not unknown or schema.arms_may_lack_rows:
        return
    names = [name for name in seen if name]
    names = [names[i] for i in sorted_order(names)]
    known = {name.strip().casefold(): name for name in names}
    similar = difflib.get_close_matches(unknown[0].strip().casefold(), known, n=1)
    hint = (
        f": did you mean {known[similar[0]]!r}?"
        if similar
        else f". Its arms are {some_names(names)}."
    )
    raise ParameterError(
        f"arms must occur in the logs, and {unknown[0]!r} does not{hint} To have an arm without "
        "rows, take the arms of an earlier prior (--from PRIOR, arms=prior), or add the arm to "
        "the learned prior (mixts arms add, prior.add_arms)"
    )


def _task_times(times: TaskTimes, order: Int[Array, " n"]) -> TaskTimes:
    """Return the times of tasks in an order, unless numbers and dates are mixed."""
    if times.n_dates and times.n_numbers:
        raise FormatError(
            f"{times.n_dates:,} times are dates and {times.n_numbers:,} are numbers: one of them "
            "is wrong"
        )
    return times.ordered(order)


def _why(family: LogFamily, schema: LogSchema, found: PieceCounts, n_good: int) -> str:
    if schema.family != "auto":
        return "it was asked for"
    if family in ("bernoulli", "logistic"):
        return "every reward is 0 or 1"
    if family == "spend":
        n, amounts = n_good - found.amounts.n_zeros, found.amounts
        return (
            f"{n:,} of {n_good:,} rewards are above 0 and range from {amounts.least:g} to "
            f"{found.reward_range[1]:g}: purchases and spends"
        )
    return (
        f"{found.n_other:,} of {n_good:,} rewards are neither 0 nor 1, the first in {found.other}"
    )


# -- reading again --------------------------------------------------------------------------------


def read_before(
    logs: TaskLogs, time: float, engine: EngineLike = None
) -> tuple[Int[Array, " n"], Statistics]:
    """Read the rows before a time again.

    Parameters
    ----------
    logs
        Result of :func:`read_logs` with a column of times. Its files are read again.
    time
        Rows at this time and later ones are left out.
    engine
        Where files are read, as in :func:`read_logs`.

    Returns
    -------
    tuple
        Indices of the tasks that have earlier rows, into ``logs.tasks``, and their statistics.
    """
    schema = replace(logs.schema, family=logs.family, arms=logs.arms, before=time)
    tally, _, _ = _read(logs.files, schema, engine)
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
        jobs = (
            (piece, used, logs.schema, index)
            for piece, used in pieces_to_read(logs.files, logs.schema)
        )
        parts = [rows for part in where.map(read_piece_rows, jobs) for rows in part]
        return _joined_rows(parts, logs)


def read_piece_rows(
    piece: Piece, delimiter: str, schema: LogSchema, index: tuple[dict[str, int], dict[str, int]]
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
