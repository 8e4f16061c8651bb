"""Aggregates of a lazy table: the groups of its rows, and the ranges of tasks in which they come.

Expressions are those of narwhals, so all engines go one way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from mixts._numbers import LARGEST
from mixts._typing import Array, Float
from mixts.errors import ParameterError
from mixts.logs.lazy import (
    Groups,
    LazyLog,
    asking,
    choose,
    infinite,
    is_missing,
    is_number,
    is_text,
    key,
    missing_number,
    values_named,
)
from mixts.logs.schema import FileSchema

GROUPS_PER_ROW = 16
"""Groups that may come back at a time, in units of ``batch_rows``: by default two million, of about
100 bytes each, and so much again while they are counted."""

BINARY, OTHER, UNSUPPORTED, NOT_FINITE, MISSING = range(5)
"""Kinds of rewards in columns of numbers; those that are 0 or 1 are the first kind."""

_EPOCH = datetime(1970, 1, 1)


@dataclass(frozen=True)
class Totals:
    """First aggregate of a lazy table."""

    n_rows: int
    pivot: float
    """Average of the rewards that are neither 0 nor 1: moments are taken around it."""
    n_other: int
    """Number of usable rewards, neither 0 nor 1, of rows with a task, an arm and features."""


@dataclass(frozen=True)
class Query:
    """Aggregates of one lazy table for one schema."""

    log: LazyLog
    schema: FileSchema

    @property
    def keys(self) -> tuple[str, ...]:
        """Columns that the rows of a group have in common."""
        arm = () if self.schema.arm is None else (self.schema.arm,)
        names = self.schema.feature_columns
        features = (self.schema.renamed.get(name, name) for name in names)
        return (self.schema.task, *arm, *features)

    @property
    def limit(self) -> int:
        """Number of groups that may come back at a time."""
        return GROUPS_PER_ROW * self.schema.batch_rows

    @asking
    def totals(self) -> Totals:
        """Return the first aggregate."""
        import narwhals.stable.v2 as nw

        other = nw.when(nw.col("kind") == OTHER).then(nw.col("reward"))
        rows = self._prepared().with_columns(other.alias("other"))
        if not self.has_kinds:
            n = self.log.collected(rows.select(nw.len().alias("n")))["n"][0].as_py()
            return Totals(n, 0.0, 0)
        found = self.log.collected(
            rows.group_by("kind", "whole").agg(
                nw.len().alias("n"), nw.col("other").mean().alias("mean")
            )
        ).to_pylist()
        # One entry at most.
        others = [one for one in found if one["whole"] and one["kind"] == OTHER]
        return Totals(
            sum(one["n"] for one in found),
            others[0]["mean"] if others else 0.0,
            sum(one["n"] for one in others),
        )

    def ranges(self, totals: Totals) -> list[tuple[Any, Any]]:
        """Return ranges of tasks, each with at most as many groups as may come back at a time."""
        ends = self._ends(totals)
        return list(zip([None, *ends], [*ends, None], strict=True))

    @asking
    def block(self, low: Any, high: Any, totals: Totals) -> tuple[dict[str, Any], Groups]:
        """Return the groups of the tasks above ``low``, up to ``high``; None and None are all."""
        import narwhals.stable.v2 as nw

        rows, task = self._prepared(), nw.col("k0")
        if high is not None:
            # Tasks without a name come with the first range.
            first = task.is_null() if low is None else nw.lit(False)
            rows = rows.filter((task <= nw.lit(high)) | first)
        if low is not None:
            rows = rows.filter(task > nw.lit(low))
        return self._groups(rows, totals)

    @asking
    def all_tasks(self, totals: Totals) -> tuple[dict[str, Any], Groups]:
        """Return the groups of all rows with a task, as if they were of one task."""
        import narwhals.stable.v2 as nw

        task = is_missing(nw.col("k0"), self.log.rows.collect_schema()[self.schema.task])
        rows = self._prepared().filter(~task).with_columns(nw.lit("all").alias("k0"))
        return self._groups(rows, totals)

    @asking
    def amounts(self, most: int) -> list[float]:
        """Return some different rewards above 0 of rows that can be used, at most so many."""
        import narwhals.stable.v2 as nw

        c, kind = nw.col("reward"), nw.col("kind")
        rows = self._prepared().filter(nw.col("whole") & (kind <= OTHER) & (c > 0))
        found = self.log.collected(rows.select("reward").unique().head(most))
        return [float(value) for value in found["reward"].to_pylist()]

    # -- the steps of a query -----------------------------------------------------------------

    @property
    def has_kinds(self) -> bool:
        """Whether the engine sorts rewards by kind; otherwise a group has one reward.

        Counts need all of their values, because ln y! is no aggregate. Text is parsed here.
        """
        kind = self.log.rows.collect_schema()[self.schema.reward]
        return bool(kind.is_numeric()) and self.schema.family != "poisson"

    @property
    def is_truth(self) -> bool:
        """Whether rewards are true or false."""
        import narwhals.stable.v2 as nw

        return bool(self.log.rows.collect_schema()[self.schema.reward] == nw.Boolean)

    def _prepared(self) -> Any:
        """Return the keys, the reward and its kind, and the time of all rows."""
        import narwhals.stable.v2 as nw

        kinds = self.log.rows.collect_schema()
        given = kinds[self.schema.reward]
        if not (is_number(given) or is_text(given)):
            raise ParameterError(f"the column of the reward must have numbers, got {given}")
        columns = [key(name, kinds[name]).alias(f"k{i}") for i, name in enumerate(self.keys)]
        reward, time = nw.col(self.schema.reward), self.schema.time
        if self.has_kinds:
            columns.append(reward.cast(nw.Float64).alias("given"))
        else:
            columns.append(key(self.schema.reward, given).alias("reward"))
        if time is not None:
            columns.append(nw.col(time).alias("time"))
            columns.append(self._time_kind(kinds[time]).alias("time_kind"))
        rows = self.log.rows.select(*columns)
        if time is not None and self.schema.before is not None:
            boundary = _moment(self.schema.before, kinds[time])
            rows = rows.filter(nw.col("time") < nw.lit(boundary))
        if not self.has_kinds:
            return rows.with_columns(nw.lit(OTHER).alias("kind"))
        given = limited = nw.col("given")
        if self.schema.clip is not None:
            low, high = self.schema.clip
            unknown = (missing_number(given) | infinite(given), given)  # they stay what they are
            beyond = [unknown, (given < low, nw.lit(low)), (given > high, nw.lit(high))]
            limited = choose(beyond, given)
        rows = rows.with_columns(limited.alias("reward"))
        return rows.with_columns(self._kind().alias("kind"), self._whole(kinds).alias("whole"))

    def _kind(self) -> Any:
        """Return the kind of each reward; each comparison is false for NaN where it matters."""
        import narwhals.stable.v2 as nw

        given, c = nw.col("given"), nw.col("reward")
        unsupported = (c > LARGEST) | (c < -LARGEST)
        if self.schema.family == "spend":
            unsupported = unsupported | (c < 0)
        cases = [
            (missing_number(given), MISSING), (infinite(given), NOT_FINITE),
            (unsupported, UNSUPPORTED), ((c == 0) | (c == 1), BINARY),
        ]  # fmt: skip
        return choose([(when, nw.lit(kind)) for when, kind in cases], nw.lit(OTHER))

    def _whole(self, kinds: Mapping[str, Any]) -> Any:
        """Return whether each row has a task, an arm, all features and a time."""
        import narwhals.stable.v2 as nw

        facts = self.schema.space.facts if self.schema.space else tuple(self.schema.person)
        whole = nw.lit(True)
        facts = tuple(self.schema.renamed.get(name, name) for name in facts)
        for i, name in enumerate(self.keys):
            if name not in facts:
                whole = whole & ~is_missing(nw.col(f"k{i}"), kinds[name])
            if name not in facts and is_text(kinds[name]):
                whole = whole & (nw.col(f"k{i}") != "")
        if self.schema.time is not None:
            whole = whole & (nw.col("time_kind") == 0)
        if self.schema.arms is not None:
            arms = values_named(self.schema.arms, kinds[str(self.schema.arm)])
            whole = whole & (nw.col("k1").is_in(arms) if arms else nw.lit(False))
        return whole

    def _time_kind(self, kind: Any) -> Any:
        """Return 1 for rows without a time, 2 for a time that is not finite, otherwise 0."""
        import narwhals.stable.v2 as nw

        time = nw.col(str(self.schema.time))
        if not (kind.is_numeric() or kind in (nw.Date, nw.Datetime)):
            raise ParameterError(
                f"the column of the time of a lazy table must have numbers or dates, got {kind}: "
                "CAST it to TIMESTAMP in the query, or read the table into memory"
            )
        cases = [(is_missing(time, kind), nw.lit(1))]
        if kind.is_float():
            cases.append((infinite(time), nw.lit(2)))
        return choose(cases, nw.lit(0))

    def _groups(self, rows: Any, totals: Totals) -> tuple[dict[str, Any], Groups]:
        """Group rows; return the columns of the keys, the reward and the time, and the groups."""
        import narwhals.stable.v2 as nw

        c, kind = nw.col("reward"), nw.col("kind")
        keys = [*(f"k{i}" for i in range(len(self.keys))), "kind" if self.has_kinds else "reward"]
        wanted = [nw.len().alias("n")]
        if self.schema.time is not None:
            keys.append("time_kind")
            wanted += [nw.col("time").min().alias("first"), nw.col("time").max().alias("last")]
        if self.has_kinds:
            rows = rows.with_columns(choose([(c == 1, nw.lit(1))], nw.lit(0)).alias("one"))
            wanted += [c.min().alias("low"), c.max().alias("high")]
            wanted.append(nw.col("one").sum().alias("won"))
        if self.has_kinds and totals.n_other and self.schema.family not in _COUNTED:
            # PostgreSQL refuses squares that overflow, and logarithms of 0.
            usual = nw.when(kind == OTHER).then(c - totals.pivot).otherwise(nw.lit(0.0))
            rows = rows.with_columns(usual.alias("usual"))
            wanted += _moments("usual")
            if self.schema.arm is not None and self.schema.family in ("auto", "spend"):
                positive = nw.when((kind == OTHER) & (c > 0)).then(c).otherwise(nw.lit(1.0))
                rows = rows.with_columns(positive.log().alias("log"))
                wanted += _moments("log")
        return self._received(self.log.collected(rows.group_by(*keys).agg(*wanted)), totals.pivot)

    def _received(self, table: Any, pivot: float) -> tuple[dict[str, Any], Groups]:
        """Return the columns of the keys, the reward and the time, and the groups."""
        columns = {name: _flat(table[f"k{i}"]) for i, name in enumerate(self.keys)}
        columns[self.schema.reward] = _flat(table["low" if self.has_kinds else "reward"])
        last = None
        if self.schema.time is not None:
            columns[self.schema.time], last = _flat(table["first"]), _flat(table["last"])
        n = _floats(table, "n")
        kinds, low, high = (_floats(table, name) for name in ("kind", "low", "high"))
        return columns, Groups(
            n.astype(np.int64),
            np.where(kinds == BINARY, _floats(table, "won"), -1).astype(np.int64),
            np.where((kinds <= OTHER) & (low < high), high, np.nan),
            _floats(table, "usual_mean") + pivot,
            _floats(table, "usual_variance") * n,
            _floats(table, "log_mean"),
            _floats(table, "log_variance") * n,
            last,
        )

    @asking
    def _ends(self, totals: Totals) -> list[Any]:
        """Return the last task of each range but the last one, in the order of the engine."""
        import narwhals.stable.v2 as nw

        kinds = self.log.rows.collect_schema()
        kind = kinds[self.schema.task]
        is_number = kind.is_integer() or kind.is_float()
        orders = is_number or kind in (nw.String, nw.Date, nw.Datetime)
        # Frames of Dask have no order.
        if totals.n_rows <= self.limit or not orders or self.log.engine == "Dask":
            return []
        n, task = nw.col("n"), nw.col("k0")
        rows = self.log.rows.select(key(self.schema.task, kind).alias("k0"))
        rows = rows.filter(~is_missing(task, kind)).group_by("k0").agg(nw.len().alias("n"))
        rows = rows.with_columns(n.cast(nw.Int64).alias("n"))  # polars counts in 32 bits
        if self.schema.arm is not None and self.has_kinds:
            # A task has at most a group for each arm and for each of the usual kinds of rewards.
            arms = self.log.rows.select(nw.col(self.schema.arm).alias("k1")).unique()
            n_arms = self.log.collected(arms.select(nw.len().alias("n")))["n"][0].as_py()
            most = n_arms * (2 if totals.n_other else 1)
            rows = rows.with_columns(choose([(n > most, nw.lit(most))], n).alias("n"))
        rows = rows.with_columns(n.cum_sum().over(order_by="k0").alias("total"))
        rows = rows.with_columns((nw.col("total") // self.limit).alias("range"))
        rows = rows.group_by("range").agg(task.max().alias("end"))
        ends = self.log.collected(rows).select(["range", "end"]).to_pylist()
        return [one["end"] for one in sorted(ends, key=lambda one: one["range"])][:-1]


_COUNTED = ("bernoulli", "logistic")
"""Families whose rewards are only counted."""


def _moments(name: str) -> list[Any]:
    """Return average and variance of a column.

    Engines compute variances by Welford's method, or by sums of squares: hence the pivot.
    """
    import narwhals.stable.v2 as nw

    column = nw.col(name)
    return [column.mean().alias(f"{name}_mean"), column.var(ddof=0).alias(f"{name}_variance")]


def _floats(table: Any, name: str) -> Float[Array, " m"]:
    """Return a column of numbers, NaN for null; all are NaN if there is no such column."""
    if name not in table.column_names:
        return np.full(table.num_rows, np.nan)
    whole = _flat(table[name]).cast("double", safe=False).fill_null(float("nan"))
    return np.array(whole.to_numpy(zero_copy_only=False))


def _flat(column: Any) -> Any:
    """Return a column as one array of Arrow."""
    flat = column.combine_chunks()
    return flat.chunk(0) if hasattr(flat, "chunk") and flat.num_chunks == 1 else flat


def _moment(time: float, kind: Any) -> Any:
    """Return a time, a number or microseconds since 1970, as a value of a column of times."""
    import narwhals.stable.v2 as nw

    if kind.is_numeric():
        return time
    found = _EPOCH + timedelta(microseconds=int(time))
    if kind == nw.Date:
        return found.date()
    return found if kind.time_zone is None else found.replace(tzinfo=UTC)
