"""Read past tasks from log files, one piece at a time, here or on workers."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from mixts._progress import step
from mixts._typing import Array, Float, Int
from mixts.engines import Engine, EngineLike, engine_of
from mixts.errors import FormatError, LogsError
from mixts.families import Statistics
from mixts.features import Features
from mixts.learning.pooled import with_offsets
from mixts.logs.bad_rows import OTHER_ARM, BadRows, unusable_rewards, without_reward
from mixts.logs.decisions import feature_column
from mixts.logs.files import Log, Paths, Piece, delimiter_of, log_files, pieces_of
from mixts.logs.groups import SampledTasks, read_lazy
from mixts.logs.levels import find_features
from mixts.logs.pieces import (
    PieceCounts,
    RowSample,
    Spans,
    TaskTimes,
    read_piece,
    tally_of,
)
from mixts.logs.rows import sorted_order
from mixts.logs.schema import FileSchema, LogFamily, LogSchema, check_arms, schema_of_files
from mixts.logs.tally import Tally


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
    """Files, tables in memory and lazy tables, in the order in which they were read."""
    schema: FileSchema = field(repr=False)
    """Columns that were read, to read the rows of some tasks again; its features have the ranges of
    an earlier prior only."""

    engine_rows: Mapping[str, int] = field(default_factory=dict, repr=False)
    """Number of rows that each engine of lazy tables counted; empty for files and tables."""

    @property
    def counted(self) -> str:
        """Engines that counted rows of lazy tables, in words; "" if there are none."""
        parts = [
            f"{engine} counted {n:,} row{'s' * (n != 1)}" for engine, n in self.engine_rows.items()
        ]
        return ", ".join(parts)

    @property
    def space(self) -> Features | None:
        """Features, with their levels and the ranges of the rows; None for arms."""
        known = self.schema.space
        return None if known is None else known.learned_from(self.spans.low, self.spans.high)

    @property
    def is_open(self) -> bool:
        """Whether rows have numbers of pooled effects, whose coefficients are not known yet."""
        space = self.schema.space
        return space is not None and space.pooled is not None and not space.pooled.is_learned

    def with_pooled(self, coefficients: Float[Array, " p"]) -> TaskLogs:
        """Return the same logs with the coefficients of their pooled effects.

        Parameters
        ----------
        coefficients
            Coefficient of each number of the pooled effects.

        Returns
        -------
        TaskLogs
            Logs whose rows end with the sum of the pooled effects.
        """
        assert self.schema.space is not None
        space = self.schema.space.learned_pooled(coefficients)
        return replace(
            self,
            statistics=with_offsets(self.statistics, coefficients),
            features=space.names,
            schema=replace(self.schema, features=space),
        )

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


def read_logs(paths: Paths, *, engine: EngineLike = None, **columns: Any) -> TaskLogs:
    """Read the statistics of past tasks from CSV or Parquet files of any size, or from tables.

    Tasks and arms are identified by their names as text: the number 1 and the text "1" are the same
    task in all files. Both are sorted, so the result depends neither on the order of rows and files
    nor on ``batch_rows`` (counts exactly, real numbers to rounding). Needs pyarrow (extra
    ``logs``).

    Parameters
    ----------
    paths
        A file, a pattern such as ``"logs/*.parquet"``, a folder, a table of pandas, polars or
        pyarrow, or a list of these. The rows of a lazy table are counted by its own engine: a
        ``LazyFrame`` of polars, a relation of DuckDB, a frame of Spark or Dask, or an expression of
        Ibis.
    engine
        Where files are read, as in :func:`mixts.engines.engine_of`: a number of processes, an
        executor, an engine; None is this process. Workers must find the files at the same paths.
    **columns
        Columns and how to read them: the fields of :class:`mixts.logs.LogSchema`. ``task``,
        ``reward``, and either ``arm`` or ``features`` are needed.

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
    try:
        inspect.signature(LogSchema).bind(**columns)
    except TypeError as error:
        raise TypeError(f"read_logs() {error}") from None
    schema = FileSchema.of(LogSchema(**columns))
    files = log_files(paths, {*schema.columns, *map(feature_column, schema.feature_columns)})
    return _task_logs(*read_tally(files, schema, engine), files)


def read_tally(
    files: Sequence[Log], schema: FileSchema, engine: EngineLike
) -> tuple[Tally, PieceCounts, FileSchema]:
    """Count the rows of all files, in order; also return the schema with its features."""
    jobs = pieces_to_read(files, schema)
    schema = schema_of_files(schema, jobs)
    path, above = "", 0
    names = list(dict.fromkeys(piece.path for piece, _ in jobs))
    bar = step(f"reading {names[0] if len(names) == 1 else f'{len(names):,} files'}", len(jobs))
    with engine_of(1 if engine is None else engine) as where:
        if schema.arm is None and schema.space is None:
            schema = replace(schema, features=find_features(jobs, schema, where))
        tally = tally_of(schema)
        found = PieceCounts(spans=Spans(len(schema.feature_names)))
        sampled = {piece.rows: SampledTasks() for piece, _ in jobs if piece.format == "lazy"}
        engine_rows = Counter[str]()
        for piece, part in _parts(jobs, schema, where):
            above = above if piece.path == path else 0
            path = piece.path
            assert part.counted is not None
            tasks, arms = tally.merge(part.counted)
            if schema.time is not None:
                found.times.merge(part.times, tasks)
            found.spans.merge(part.spans, tasks)
            found = found.plus(replace(part, sample=part.sample.moved(tasks, arms)), above)
            above += part.n_rows
            if piece.format == "lazy":
                sampled[piece.rows].add(part.counted)
                engine_rows[piece.rows.engine] += part.n_rows
            bar.advance(1)
        found = replace(found, engine_rows=engine_rows)
    if schema.before is None:
        for log, some in sampled.items():
            found = replace(found, sample=found.sample + some.rows(log, schema, tally))
    return tally, found, schema


def _parts(
    jobs: Sequence[tuple[Piece, str]], schema: FileSchema, engine: Engine
) -> Iterator[tuple[Piece, PieceCounts]]:
    """Yield the counts of pieces in order; lazy tables are counted by their own engine."""
    if all(piece.format != "lazy" for piece, _ in jobs):
        parts = engine.map(read_piece, ((piece, used, schema) for piece, used in jobs))
        yield from zip((piece for piece, _ in jobs), parts, strict=True)
        return
    for piece, used in jobs:
        lazy = piece.format == "lazy"
        for part in read_lazy(piece.rows, schema) if lazy else [read_piece(piece, used, schema)]:
            yield piece, part


def pieces_to_read(files: Sequence[Log], schema: FileSchema) -> list[tuple[Piece, str]]:
    """Return the pieces of all files in order, each with its delimiter."""
    delimiters = {file: schema.delimiter or delimiter_of(file) for file in files}
    return [(piece, used) for file, used in delimiters.items() for piece in pieces_of(file, used)]


# -- the result -----------------------------------------------------------------------------------


def _task_logs(
    tally: Tally, found: PieceCounts, schema: FileSchema, files: tuple[Log, ...]
) -> TaskLogs:
    _refuse_bad_rows(found, schema, files)
    n_good = found.n_rows - found.bad.total
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
        found.engine_rows,
    )


def _refuse_bad_rows(found: PieceCounts, schema: FileSchema, files: tuple[Log, ...]) -> None:
    """Raise an error if there are no good rows, too few of them, or none of a listed arm."""
    n_good = found.n_rows - found.bad.total
    _, remedy = unusable_rewards(found.bad, schema.family)
    reasons = "".join(f"\n  {line}" for line in (*found.bad.lines(), remedy) if line)
    if not found.n_rows:
        raise FormatError(f"no rows below the names of the columns in {', '.join(map(str, files))}")
    seen = [name for name in found.arm_names if name]
    check_arms(schema, [seen[i] for i in sorted_order(seen)])
    if n_good == 0:
        raise FormatError(f"none of {found.n_rows:,} rows can be used{reasons}")
    # Arms that are not listed are left out as asked for; nobody asked so by an earlier prior.
    n_unlisted = 0 if schema.arms_may_lack_rows else found.bad.counts.get(OTHER_ARM, 0)
    if 2 * n_good < found.n_rows - n_unlisted and not schema.allow_bad_rows:
        silent = without_reward(found.bad, found.reward_range, refused=True)
        if silent:
            raise LogsError(f"{silent}{reasons}")
        raise FormatError(
            f"{found.bad.total:,} of {found.n_rows:,} rows are bad, which is more than half: are "
            "the columns the right ones? If so, add --allow-bad-rows (allow_bad_rows=True)"
            f"{reasons}"
        )


def _task_times(times: TaskTimes, order: Int[Array, " n"]) -> TaskTimes:
    """Return the times of tasks in an order, unless numbers and dates are mixed."""
    if times.n_dates and times.n_numbers:
        raise FormatError(
            f"{times.n_dates:,} times are dates and {times.n_numbers:,} are numbers: one of them "
            "is wrong"
        )
    return times.ordered(order)


def _why(family: LogFamily, schema: FileSchema, found: PieceCounts, n_good: int) -> str:
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
