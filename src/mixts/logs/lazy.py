"""Lazy tables: the engine that holds the logs groups their rows, and only the groups come back.

A group has the task, the arm or the features, and the kind of reward in common, so each reason for
which a row is bad holds for a whole group. All else is done by the code that reads rows: names,
levels, bad rows. A table with more groups than fit into memory comes back in ranges of tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from datetime import date, datetime
from decimal import Decimal
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from mixts._numbers import LARGEST
from mixts._tables import known
from mixts._typing import Array, Float, Int
from mixts.errors import FormatError, MixtsError
from mixts.features import name_of
from mixts.logs.connect import without_password

if TYPE_CHECKING:
    from mixts.logs.schema import FileSchema

_ENGINES = {
    "duckdb": "DuckDB", "polars": "polars", "pyspark": "Spark", "dask": "Dask",
    "postgres": "PostgreSQL", "bigquery": "BigQuery", "snowflake": "Snowflake",
}  # fmt: skip
"""Names of engines; others have that of their module, or of their backend of Ibis."""

R = TypeVar("R")

_LARGEST_FLOAT = float(np.finfo(float).max)

_LONGEST_ERROR = 300
"""Largest number of characters of an engine's own message: some print the whole query."""


def asking(method: Callable[..., R]) -> Callable[..., R]:
    """Let a method that asks an engine say which engine failed."""

    @wraps(method)
    def asked(self: Any, *arguments: Any) -> R:
        try:
            return method(self, *arguments)
        except MixtsError:
            raise
        except Exception as error:  # each engine has its own tree of errors
            log = getattr(self, "log", self)
            said = without_password(" ".join(str(error).split()))[:_LONGEST_ERROR]
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
        import narwhals.stable.v2 as nw

        rows = known(table)
        log = cls(name, (), rows)
        kinds = log.kinds()
        # In polars, columns of nulls, which may be anything; elsewhere UUIDs, whose text is a name.
        unknown = [key for key, kind in kinds.items() if kind == nw.Unknown]
        if unknown:
            instead = nw.Float64 if log.engine == "polars" else nw.String
            rows = rows.with_columns(*(nw.col(key).cast(instead) for key in unknown))
        return cls(name, tuple(kinds.names()), rows)

    def __str__(self) -> str:
        return self.name

    @property
    def engine(self) -> str:
        """Name of the engine that holds the table."""
        native = self.rows.to_native()
        module = type(native).__module__.partition(".")[0].lstrip("_")
        name: str = native.get_backend().name if module == "ibis" else module
        return _ENGINES.get(name, name) + (" (through Ibis)" if module == "ibis" else "")

    @asking
    def kinds(self) -> Any:
        """Return the types of the columns, by name; the files of a table may be missing."""
        return self.rows.collect_schema()

    def numbers(self) -> frozenset[str]:
        """Return the columns that are declared as numbers."""
        kinds = self.kinds()
        return frozenset(name for name in self.header if is_number(kinds[name]))

    def collected(self, query: Any) -> Any:
        """Return the result of a query as a ``pyarrow.Table``."""
        options = {"engine": "streaming"} if self.engine == "polars" else {}
        return query.collect(backend="pyarrow", **options).to_native()

    @asking
    def values_of(self, name: str, most: int | None) -> Any:
        """Return the different values of a column and their numbers of rows, at most so many."""
        import narwhals.stable.v2 as nw

        column = key(name, self.rows.collect_schema()[name]).alias("value")
        query = self.rows.select(column).group_by("value").agg(nw.len().alias("n"))
        return self.collected(query if most is None else query.head(most))

    @asking
    def summary_of(self, name: str) -> tuple[int, int, float, float, float, float]:
        """Return how many numbers a column has, and how many of them are usable.

        Then follow the mean of the usable ones, the sum of their squared distances from it, the
        smallest and the largest.
        """
        import narwhals.stable.v2 as nw

        y, n = nw.col("y"), nw.len().alias("n")
        rows = self.rows.select(nw.col(name).cast(nw.Float64).alias("y"))
        rows = rows.filter(~missing_number(y))
        usable = rows.filter((y <= LARGEST) & (y >= -LARGEST))
        n_numbers = self.collected(rows.select(n))["n"][0].as_py()
        ends = (y.min().alias("low"), y.max().alias("high"))
        found = self.collected(usable.select(n, y.mean().alias("mean"), *ends)).to_pylist()[0]
        if not found["n"]:
            return n_numbers, 0, 0.0, 0.0, np.inf, -np.inf
        distances = usable.select((y - found["mean"]).alias("y")).select(y.var(ddof=0))
        squares = found["n"] * self.collected(distances)["y"][0].as_py()
        return n_numbers, found["n"], found["mean"], squares, found["low"], found["high"]

    @asking
    def rows_of(self, names: Sequence[str], schema: FileSchema, most: int | None = None) -> Any:
        """Return the rows of some tasks as a ``pyarrow.Table``, in the order of the engine."""
        import narwhals.stable.v2 as nw

        kind = self.rows.collect_schema()[schema.task]
        values = values_named(names, kind)
        columns = list(dict.fromkeys(schema.columns))
        query = self.rows.filter(nw.col(schema.task).is_in(values)).select(columns)
        return self.collected(query if most is None else query.head(most)).select(columns)


def choose(cases: Sequence[tuple[Any, Any]], otherwise: Any) -> Any:
    """Return the value of the first case that is true of a row."""
    import narwhals.stable.v2 as nw

    found = otherwise
    for when, value in reversed(cases):
        found = nw.when(when).then(value).otherwise(found)
    return found


def key(name: str, kind: Any) -> Any:
    """Return a column by which rows are grouped, without its categories and its negative zero."""
    import narwhals.stable.v2 as nw

    column = nw.col(name)
    if kind.is_float():
        return column + 0.0  # Dask fails where 0.0 and -0.0 are keys
    return column.cast(nw.String) if is_text(kind) and kind != nw.String else column


def is_text(kind: Any) -> bool:
    """Return whether a column of this type has text."""
    import narwhals.stable.v2 as nw

    return bool(kind in (nw.String, nw.Categorical, nw.Enum))


def is_number(kind: Any) -> bool:
    """Return whether a column of this type has numbers, or true and false."""
    import narwhals.stable.v2 as nw

    return bool(kind.is_numeric() or kind == nw.Boolean)


def is_missing(column: Any, kind: Any) -> Any:
    """Return which values of a column of this type are missing."""
    missing = column.is_null()
    return missing | column.is_nan() if kind.is_float() else missing


def missing_number(column: Any) -> Any:
    """Return which floating-point numbers are missing."""
    return column.is_null() | column.is_nan()


def infinite(column: Any) -> Any:
    """Return which numbers are infinite; NaN may be among them, for engines sort it last."""
    return (column > _LARGEST_FLOAT) | (column < -_LARGEST_FLOAT)


def values_named(names: Sequence[str], kind: Any) -> list[Any]:
    """Return the values with these names in a column of this type; some names may have none."""
    found = []
    for name in names:
        try:
            value = _value(name, kind)
        except (ValueError, ArithmeticError):  # ArithmeticError: of decimals
            continue
        found += [value] if name_of(value) == name else []
    return found


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
