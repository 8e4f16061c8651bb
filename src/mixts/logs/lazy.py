"""Lazy tables: the engine that holds the logs groups their rows, and only the groups come back.

A group has the task, the arm or the features, and the kind of reward in common, so each reason for
which a row is bad holds for a whole group. All else is done by the code that reads rows: names,
levels, bad rows. A table with more groups than fit into memory comes back in ranges of tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from mixts._numbers import LARGEST
from mixts._tables import lazy_frame
from mixts._typing import Array, Float, Int
from mixts.errors import FormatError, MixtsError, ParameterError

if TYPE_CHECKING:
    from mixts.logs.schema import FileSchema

GROUPS_PER_ROW = 16
"""Groups that may come back at a time, in units of ``batch_rows``: by default two million, of about
100 bytes each, and so much again while they are counted."""

_ENGINES = {
    "duckdb": "DuckDB", "polars": "polars", "pyspark": "Spark", "dask": "Dask", "ibis": "Ibis",
}  # fmt: skip
"""Names of engines; others have that of their module."""

BINARY, OTHER, UNSUPPORTED, NOT_FINITE, MISSING = range(5)
"""Kinds of rewards in columns of numbers; those that are 0 or 1 are the first kind."""

R = TypeVar("R")

_LARGEST_FLOAT = float(np.finfo(float).max)
_EPOCH = datetime(1970, 1, 1)


_LONGEST_ERROR = 300
"""Largest number of characters of an engine's own message: some print the whole query."""


def _asking(method: Callable[..., R]) -> Callable[..., R]:
    """Let a method that asks an engine say which engine failed."""

    @wraps(method)
    def asked(self: Any, *arguments: Any) -> R:
        try:
            return method(self, *arguments)
        except MixtsError:
            raise
        except Exception as error:  # each engine has its own tree of errors
            log = getattr(self, "log", self)
            said = " ".join(str(error).split())[:_LONGEST_ERROR]
            raise FormatError(
                f"{log.name} cannot be read, {log.engine} failed: {said} "
                f"({type(error).__name__}). Nothing was kept: correct the table or the connection, "
                "and start again"
            ) from error

    return asked


@dataclass(frozen=True)
class Groups:
    """Rows of each group, and moments of its rewards; a record of rows instead of single ones."""

    n: Int[Array, " m"]
    """Number of rows."""
    won: Int[Array, " m"]
    """Number of rewards 1 in a group of rewards 0 and 1; -1 for other groups."""
    high: Float[Array, " m"]
    """Largest reward; NaN if all rewards of a group are the same."""
    average: Float[Array, " m"]
    """Average reward, where rewards are neither 0 nor 1 and differ."""
    squares: Float[Array, " m"]
    """Sum of squared deviations from it."""
    log_average: Float[Array, " m"]
    """Average logarithm of the rewards above 0, where rewards differ."""
    log_squares: Float[Array, " m"]
    """Sum of squared deviations from it."""
    last: Any = None
    """Column of the last times; None without a column of times."""

    @property
    def differ(self) -> Array:
        """Whether each group has different rewards that are neither 0 nor 1."""
        return ~np.isnan(self.high) & (self.won < 0)

    def at(self, rows: Int[Array, " k"]) -> Groups:
        """Return some of the groups."""
        arrays = {
            each.name: getattr(self, each.name)[rows]
            for each in fields(self)
            if each.name != "last"
        }
        last = None if self.last is None else self.last.take(rows)
        return Groups(**arrays, last=last)


@dataclass(frozen=True)
class Totals:
    """First aggregate of a lazy table."""

    n_rows: int
    pivot: float
    """Average of the rewards that are neither 0 nor 1: moments are taken around it."""
    least: float
    """Smallest usable reward of the rows that have a task, an arm and features."""
    n_other: int
    """Number of usable rewards of these rows that are neither 0 nor 1."""


@dataclass(frozen=True, eq=False)
class LazyLog:
    """Lazy table that its own engine groups."""

    name: str
    """Name for messages."""
    header: tuple[str, ...]
    """Names of all columns."""
    rows: Any = field(repr=False)
    """The lazy frame of narwhals."""

    @classmethod
    def of(cls, name: str, table: Any) -> LazyLog:
        """Return the log of a lazy table."""
        rows = lazy_frame(table)
        return cls(name, tuple(rows.collect_schema().names()), rows)

    def __str__(self) -> str:
        return self.name

    @property
    def engine(self) -> str:
        """Name of the engine that holds the table."""
        native = self.rows.to_native()
        module = type(native).__module__.partition(".")[0].lstrip("_")
        name = _ENGINES.get(module, module)
        backend = native.get_backend().name if module == "ibis" else ""
        return f"{_ENGINES.get(backend, backend)}, through Ibis" if backend else name

    def numbers(self) -> frozenset[str]:
        """Return the columns that are declared as numbers."""
        kinds = self.rows.collect_schema()
        return frozenset(name for name in self.header if _is_number(kinds[name]))

    def collected(self, query: Any) -> Any:
        """Return the result of a query as a ``pyarrow.Table``."""
        options = {"engine": "streaming"} if self.engine == "polars" else {}
        return query.collect(backend="pyarrow", **options).to_native()

    @_asking
    def values_of(self, name: str, most: int | None) -> Any:
        """Return the different values of a column and their numbers of rows, at most so many."""
        import narwhals.stable.v2 as nw

        column = _key(name, self.rows.collect_schema()[name]).alias("value")
        query = self.rows.select(column).group_by("value").agg(nw.len().alias("n"))
        return self.collected(query if most is None else query.head(most))

    @_asking
    def summary_of(self, name: str) -> tuple[int, int, float, float, float, float]:
        """Return how many finite and infinite numbers a column has.

        Then follow the sum of the finite ones, that of their squares, the smallest and the largest.
        """
        import narwhals.stable.v2 as nw

        y = nw.col("y")
        rows = self.rows.select(nw.col(name).cast(nw.Float64).alias("y"))
        rows = rows.filter(~_missing_number(y)).with_columns(
            _choose([(_infinite(y), nw.lit(1))], nw.lit(0)).alias("infinite"),
            _choose([(_infinite(y), nw.lit(0.0))], y * y).alias("square"),
        )
        found = self.collected(
            rows.group_by("infinite").agg(
                nw.len().alias("n"), y.sum().alias("sum"), nw.col("square").sum().alias("squares"),
                y.min().alias("low"), y.max().alias("high"),
            )
        )  # fmt: skip
        finite, others = 0, 0
        sums = (0.0, 0.0, np.inf, -np.inf)
        for one in found.to_pylist():
            if one["infinite"]:
                others = one["n"]
            else:
                finite = one["n"]
                sums = (one["sum"], one["squares"], one["low"], one["high"])
        return (finite, others, *sums)

    @_asking
    def rows_of(self, names: Sequence[str], schema: FileSchema, most: int | None = None) -> Any:
        """Return the rows of some tasks as a ``pyarrow.Table``, in the order of the engine."""
        import narwhals.stable.v2 as nw

        kind = self.rows.collect_schema()[schema.task]
        values = [_value(name, kind) for name in names]
        columns = list(dict.fromkeys(schema.columns))
        query = self.rows.filter(nw.col(schema.task).is_in(values)).select(columns)
        return self.collected(query if most is None else query.head(most)).select(columns)


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

    @_asking
    def totals(self) -> Totals:
        """Return the first aggregate."""
        import narwhals.stable.v2 as nw

        c, kind = nw.col("reward"), nw.col("kind")
        other = nw.when(kind == OTHER).then(c)
        rows = self._prepared().with_columns(other.alias("other"))
        if not self.has_kinds:
            n = self.log.collected(rows.select(nw.len().alias("n")))["n"][0].as_py()
            return Totals(n, 0.0, np.nan, 0)
        found = self.log.collected(
            rows.group_by("kind", "whole").agg(
                nw.len().alias("n"), c.min().alias("low"), nw.col("other").mean().alias("mean")
            )
        ).to_pylist()
        whole = [one for one in found if one["whole"] and one["kind"] <= OTHER]
        others = [one for one in whole if one["kind"] == OTHER]  # one entry at most
        return Totals(
            sum(one["n"] for one in found),
            others[0]["mean"] if others else 0.0,
            min((one["low"] for one in whole), default=np.nan),
            sum(one["n"] for one in others),
        )

    def blocks(self, totals: Totals) -> Iterator[tuple[dict[str, Any], Groups]]:
        """Yield the groups of all tasks, one range of tasks at a time."""
        ends = self._ends(totals)
        for low, high in zip([None, *ends], [*ends, None], strict=True):
            yield self._block(low, high, totals)

    @_asking
    def _block(self, low: Any, high: Any, totals: Totals) -> tuple[dict[str, Any], Groups]:
        """Return the groups of the tasks above ``low``, up to ``high``."""
        import narwhals.stable.v2 as nw

        rows, task = self._prepared(), nw.col("k0")
        if high is not None:
            # Tasks without a name come with the first range.
            first = task.is_null() if low is None else nw.lit(False)
            rows = rows.filter((task <= nw.lit(high)) | first)
        if low is not None:
            rows = rows.filter(task > nw.lit(low))
        return self._groups(rows, totals)

    @_asking
    def all_tasks(self, totals: Totals) -> tuple[dict[str, Any], Groups]:
        """Return the groups of all rows with a task, as if they were of one task."""
        import narwhals.stable.v2 as nw

        task = _is_missing(nw.col("k0"), self.log.rows.collect_schema()[self.schema.task])
        rows = self._prepared().filter(~task).with_columns(nw.lit("all").alias("k0"))
        return self._groups(rows, totals)

    @_asking
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
        if not (_is_number(given) or given in (nw.String, nw.Categorical, nw.Enum, nw.Unknown)):
            raise ParameterError(f"the column of the reward must have numbers, got {given}")
        columns = [_key(name, kinds[name]).alias(f"k{i}") for i, name in enumerate(self.keys)]
        reward, time = nw.col(self.schema.reward), self.schema.time
        if self.has_kinds:
            columns.append(reward.cast(nw.Float64).alias("given"))
        else:
            columns.append(_key(self.schema.reward, given).alias("reward"))
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
            unknown = (_missing_number(given) | _infinite(given), given)  # they stay what they are
            beyond = [unknown, (given < low, nw.lit(low)), (given > high, nw.lit(high))]
            limited = _choose(beyond, given)
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
            (_missing_number(given), MISSING), (_infinite(given), NOT_FINITE),
            (unsupported, UNSUPPORTED), ((c == 0) | (c == 1), BINARY),
        ]  # fmt: skip
        return _choose([(when, nw.lit(kind)) for when, kind in cases], nw.lit(OTHER))

    def _whole(self, kinds: Mapping[str, Any]) -> Any:
        """Return whether each row has a task, an arm, all features and a time."""
        import narwhals.stable.v2 as nw

        facts = self.schema.space.facts if self.schema.space else tuple(self.schema.person)
        whole = nw.lit(True)
        for i, name in enumerate(self.keys):
            if name not in facts:
                whole = whole & ~_is_missing(nw.col(f"k{i}"), kinds[name])
        if self.schema.time is not None:
            whole = whole & (nw.col("time_kind") == 0)
        if self.schema.arms is not None and kinds[str(self.schema.arm)] == nw.String:
            whole = whole & nw.col("k1").is_in(list(self.schema.arms))
        return whole

    def _time_kind(self, kind: Any) -> Any:
        """Return 1 for rows without a time, 2 for a time that is not finite, otherwise 0."""
        import narwhals.stable.v2 as nw

        time = nw.col(str(self.schema.time))
        if not (kind.is_numeric() or kind in (nw.Date, nw.Datetime, nw.Unknown)):
            raise ParameterError(
                f"the column of the time of a lazy table must have numbers or dates, got {kind}: "
                "CAST it to TIMESTAMP in the query, or read the table into memory"
            )
        cases = [(_is_missing(time, kind), nw.lit(1))]
        if kind.is_float():
            cases.append((_infinite(time), nw.lit(2)))
        return _choose(cases, nw.lit(0))

    def _groups(self, rows: Any, totals: Totals) -> tuple[dict[str, Any], Groups]:
        """Group rows; return the columns of the keys, the reward and the time, and the groups."""
        import narwhals.stable.v2 as nw

        c, kind = nw.col("reward"), nw.col("kind")
        keys = [f"k{i}" for i in range(len(self.keys))]
        wanted = [nw.len().alias("n")]
        moments = self.has_kinds and totals.n_other > 0 and self.schema.family not in _COUNTED
        logs = moments and self.schema.arm is not None and totals.least >= 0
        if self.schema.time is not None:
            keys.append("time_kind")
            wanted += [nw.col("time").min().alias("first"), nw.col("time").max().alias("last")]
        if self.has_kinds:
            keys.append("kind")
            won = _choose([(c == 1, nw.lit(1))], nw.lit(0))
            rows = rows.with_columns(won.alias("one"))
            wanted += [
                c.min().alias("low"),
                c.max().alias("high"),
                nw.col("one").sum().alias("won"),
            ]
        else:
            keys.append("reward")
        if moments:
            # PostgreSQL refuses squares that overflow, and logarithms of 0.
            usual = nw.when(kind == OTHER).then(c - totals.pivot).otherwise(nw.lit(0.0))
            rows = rows.with_columns(usual.alias("usual"))
            wanted += _moments("usual")
        if logs:
            positive = nw.when((kind == OTHER) & (c > 0)).then(c).otherwise(nw.lit(1.0))
            rows = rows.with_columns(positive.log().alias("log"))
            wanted += _moments("log")
        table = self.log.collected(rows.group_by(*keys).agg(*wanted)).combine_chunks()
        columns = {name: _flat(table[f"k{i}"]) for i, name in enumerate(self.keys)}
        columns[self.schema.reward] = _flat(table["low" if self.has_kinds else "reward"])
        n = _floats(table["n"]).astype(np.int64)
        same, won = np.full(len(n), np.nan), np.full(len(n), -1)
        high = same
        if self.has_kinds:
            kinds = _floats(table["kind"])
            low, high = _floats(table["low"]), _floats(table["high"])
            high = np.where((kinds <= OTHER) & (low < high), high, np.nan)
            won = np.where(kinds == BINARY, _floats(table["won"]), -1).astype(np.int64)
        average, variance = _moments_of(table, "usual") if moments else (same, same)
        log_average, log_variance = _moments_of(table, "log") if logs else (same, same)
        last = None
        if self.schema.time is not None:
            columns[self.schema.time], last = _flat(table["first"]), _flat(table["last"])
        moments_of_groups = average + totals.pivot, variance * n, log_average, log_variance * n
        return columns, Groups(n, won, high, *moments_of_groups, last)

    @_asking
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
        rows = self.log.rows.select(_key(self.schema.task, kind).alias("k0"))
        rows = rows.filter(~_is_missing(task, kind)).group_by("k0").agg(nw.len().alias("n"))
        if self.schema.arm is not None and self.has_kinds:
            # A task has at most a group for each arm and for each of the usual kinds of rewards.
            arms = self.log.rows.select(nw.col(self.schema.arm).alias("k1")).unique()
            n_arms = self.log.collected(arms.select(nw.len().alias("n")))["n"][0].as_py()
            most = n_arms * (2 if totals.n_other else 1)
            rows = rows.with_columns(_choose([(n > most, nw.lit(most))], n).alias("n"))
        rows = rows.with_columns(n.cum_sum().over(order_by="k0").alias("total"))
        rows = rows.with_columns((nw.col("total") // self.limit).alias("range"))
        rows = rows.group_by("range").agg(task.max().alias("end"))
        ends = self.log.collected(rows).select(["range", "end"]).to_pylist()
        return [one["end"] for one in sorted(ends, key=lambda one: one["range"])][:-1]


_COUNTED = ("bernoulli", "logistic")
"""Families whose rewards are only counted."""


def _choose(cases: Sequence[tuple[Any, Any]], otherwise: Any) -> Any:
    """Return the value of the first case that is true of a row."""
    import narwhals.stable.v2 as nw

    found = otherwise
    for when, value in reversed(cases):
        found = nw.when(when).then(value).otherwise(found)
    return found


def _moments(name: str) -> list[Any]:
    """Return average and variance of a column.

    Engines compute variances by Welford's method, or by sums of squares: hence the pivot.
    """
    import narwhals.stable.v2 as nw

    column = nw.col(name)
    return [column.mean().alias(f"{name}_mean"), column.var(ddof=0).alias(f"{name}_variance")]


def _moments_of(table: Any, name: str) -> tuple[Array, Array]:
    return _floats(table[f"{name}_mean"]), _floats(table[f"{name}_variance"])


def _floats(column: Any) -> Float[Array, " m"]:
    """Return numbers of Arrow as an array, NaN for null."""
    whole = _flat(column).cast("double", safe=False).fill_null(float("nan"))
    return np.array(whole.to_numpy(zero_copy_only=False))


def _flat(column: Any) -> Any:
    """Return a column as one array of Arrow."""
    flat = column.combine_chunks()
    return flat.chunk(0) if hasattr(flat, "chunk") and flat.num_chunks == 1 else flat


def _key(name: str, kind: Any) -> Any:
    import narwhals.stable.v2 as nw

    column = nw.col(name)
    if kind.is_float():
        return column + 0.0  # Dask fails where 0.0 and -0.0 are keys
    return column.cast(nw.String) if kind in (nw.Categorical, nw.Enum) else column


def _is_number(kind: Any) -> bool:
    import narwhals.stable.v2 as nw

    return bool(kind.is_numeric() or kind == nw.Boolean)


def _is_missing(column: Any, kind: Any) -> Any:
    missing = column.is_null()
    return missing | column.is_nan() if kind.is_float() else missing


def _missing_number(column: Any) -> Any:
    return column.is_null() | column.is_nan()


def _infinite(column: Any) -> Any:
    """Return which numbers are infinite; NaN may be among them, for engines sort it last."""
    return (column > _LARGEST_FLOAT) | (column < -_LARGEST_FLOAT)


def _moment(time: float, kind: Any) -> Any:
    """Return a time, a number or microseconds since 1970, as a value of a column of times."""
    import narwhals.stable.v2 as nw

    if kind.is_numeric():
        return time
    found = _EPOCH + timedelta(microseconds=int(time))
    if kind == nw.Date:
        return found.date()
    return found if kind.time_zone is None else found.replace(tzinfo=UTC)


def _value(name: str, kind: Any) -> Any:
    """Return the value whose name in a column of this type is given."""
    import narwhals.stable.v2 as nw

    if kind.is_integer():
        return int(name)
    if kind.is_float():
        return float(name)
    if kind.is_decimal():
        return Decimal(name)
    if kind == nw.Boolean:
        return name == "true"
    if kind == nw.Date:
        return date.fromisoformat(name)
    return datetime.fromisoformat(name) if kind == nw.Datetime else name
