"""Statistics of a lazy table in blocks of tasks, where all of them do not fit into memory."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from mixts._tables import is_lazy
from mixts.engines.local import InlineEngine
from mixts.errors import ParameterError
from mixts.logs.groups import read_groups, read_lazy
from mixts.logs.lazy import LazyLog, Query
from mixts.logs.levels import find_features
from mixts.logs.pieces import MAX_RATING_LEVELS, Amounts, PieceCounts, Spans, tally_of
from mixts.logs.read import pieces_to_read
from mixts.logs.rows import sorted_order
from mixts.logs.schema import FileSchema, LogSchema, schema_of_files
from mixts.logs.tally import Counted


@dataclass
class TaskBlocks:
    """Statistics of a lazy table, one block of tasks at a time; the result of `task_blocks`.

    All blocks have the same family, arms and features, and no task is in two of them. Iterating
    again asks the engine again.

    Attributes
    ----------
    log
        The table and its engine.
    schema
        Columns to read, with the family, the arms and the features of all blocks.
    counts
        Rows, bad rows and ranges of the blocks so far.
    """

    log: LazyLog
    schema: FileSchema
    counts: PieceCounts = field(default_factory=PieceCounts, repr=False)

    def __iter__(self) -> Iterator[Counted]:
        self.counts = PieceCounts(spans=Spans(len(self.schema.feature_names)))
        for part in read_lazy(self.log, self.schema):
            tally = tally_of(self.schema)
            assert part.counted is not None
            tally.merge(part.counted)
            self.counts = self.counts.plus(part)
            yield tally.counted(np.array(sorted_order(tuple(tally.tasks)), dtype=np.int64))


def task_blocks(table: Any, **columns: Any) -> TaskBlocks:
    """Return the statistics of a lazy table, one block of tasks at a time.

    Parameters
    ----------
    table
        A polars ``LazyFrame``, a relation of DuckDB, a frame of PySpark or Dask, or an expression
        of Ibis.
    **columns
        Columns and how to read them: the fields of :class:`mixts.logs.LogSchema`. At most 16 times
        ``batch_rows`` groups of rows come back at a time.

    Returns
    -------
    TaskBlocks
        An iterable of blocks. The family, the arms and the features are known beforehand.

    Examples
    --------
    >>> from mixts.logs import task_blocks
    >>> clicks = duckdb.sql("select * from 'clicks/*.parquet'")  # doctest: +SKIP
    >>> for block in task_blocks(clicks, task="user", arm="item", reward="clicked"):
    ...     print(len(block.tasks), block.statistics)  # doctest: +SKIP
    """
    try:
        inspect.signature(LogSchema).bind(**columns)
    except TypeError as error:
        raise TypeError(f"task_blocks() {error}") from None
    if not is_lazy(table):
        raise ParameterError(
            "expected one lazy table, such as a relation of DuckDB or a LazyFrame of polars, got "
            f"{type(table).__name__}: read_logs reads files and tables in memory"
        )
    log = LazyLog.of("the table", table)
    schema = FileSchema.of(LogSchema(**columns))
    jobs = pieces_to_read([log], schema)
    schema = schema_of_files(schema, jobs)
    if schema.arm is None and schema.space is None:
        schema = replace(schema, features=find_features(jobs, schema, InlineEngine()))
    return TaskBlocks(log, _settled(log, schema))


def _settled(log: LazyLog, schema: FileSchema) -> FileSchema:
    """Return the schema with a family and arms, by an aggregate over all tasks."""
    query = Query(log, schema)
    totals = query.totals()
    if schema.arm is None:
        if schema.family != "auto":
            return schema
        if not query.has_kinds and not query.is_truth:
            raise ParameterError(
                f"family must be named, because the rewards {schema.reward!r} are text: "
                'family="linear" or family="logistic"'
            )
        return replace(schema, family="linear" if totals.n_other else "logistic")
    if schema.family != "auto" and schema.arms is not None:
        return schema
    found = read_groups(*query.all_tasks(totals), schema, log.name)
    counted = found.counted
    assert counted is not None
    family: Any = schema.family
    if family == "auto":
        family = counted.family
        amounts = found.amounts
        if counted.spends is not None and totals.n_other:
            amounts += Amounts(some=frozenset(query.amounts(MAX_RATING_LEVELS + 1)))
        n_good = found.n_rows - found.bad.total
        if counted.spends is not None and amounts.are_spends(n_good):
            family = "spend"
    arms = schema.arms
    if arms is None:
        arms = tuple(counted.arms[i] for i in sorted_order(counted.arms))
    return replace(schema, family=family, arms=arms)
