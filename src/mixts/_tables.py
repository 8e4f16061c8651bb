"""Tables of other libraries: pandas, polars, pyarrow and all others that narwhals knows.

Nothing is imported before a table comes. Row labels of pandas (the index) are no data, and are left
out.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mixts._typing import Array
from mixts.errors import ActionError, MissingExtraError, ParameterError

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

_MARKS = ("__arrow_c_stream__", "__dataframe__", "__narwhals_dataframe__", "__narwhals_lazyframe__")
"""Attributes by which tables are recognised before narwhals is imported."""
_NO_TABLES = (np.ndarray, np.generic, str, bytes, int, float, list, tuple, Mapping)
_LIBRARIES = {"pandas": "pandas", "polars": "polars", "pyarrow": "table"}
"""Libraries of tables, and the extra that installs each."""


_LAZY_LIBRARIES = frozenset({"duckdb", "_duckdb", "pyspark", "ibis", "dask", "sqlframe"})
"""Modules of tables that engines hold; frames of Dask look like those of pandas."""


def is_lazy(value: Any) -> bool:
    """Return whether an object is a table whose rows an engine holds."""
    if hasattr(value, "collect") and hasattr(value, "collect_schema"):
        return True  # a lazy frame of polars or of narwhals
    of_engine = type(value).__module__.partition(".")[0] in _LAZY_LIBRARIES
    return of_engine and hasattr(value, "columns")


def is_table(value: Any) -> bool:
    """Return whether an object is a table: it has columns with names."""
    if value is None or isinstance(value, _NO_TABLES):
        return False
    if is_lazy(value):
        return True
    # Single columns of polars and pyarrow have the first mark, too, but no names of columns.
    named = hasattr(value, "columns") or hasattr(value, "column_names")
    return named and any(hasattr(value, mark) for mark in _MARKS)


def lazy_frame(table: Any) -> Any:
    """Return a lazy table as a lazy frame of narwhals, whatever its engine."""
    return _known(table)


def frame(table: Any) -> Any:
    """Return a table as an eager data frame of narwhals.

    Lazy tables are collected: these are descriptions of actions. Logs stay where they are.
    """
    found = _known(table)
    return found.collect() if is_lazy(table) else found


def _known(table: Any) -> Any:
    """Return a table as narwhals knows it."""
    try:
        import narwhals.stable.v2 as nw
    except ImportError as error:
        raise MissingExtraError(
            "a table of pandas, polars or pyarrow needs narwhals: pip install 'mixts[table]'"
        ) from error
    try:
        return nw.from_native(table)
    except (TypeError, ValueError) as error:
        # Two columns of the same name, for example.
        raise ParameterError(
            f"expected a table of pandas, polars, pyarrow or another library that narwhals knows, "
            f"got {type(table).__name__}: {error}"
        ) from error


def arrow_table(table: Any, columns: list[str] | None = None) -> Any:
    """Return some columns of a table, or all, as a ``pyarrow.Table``."""
    whole = frame(table)
    unnamed = [name for name in whole.columns if not isinstance(name, str)]
    if unnamed:
        raise ParameterError(f"the names of a table's columns must be text, got {unnamed}")
    chosen = list(whole.columns) if columns is None else columns
    try:
        # Without select, pyarrow would add the labels of pandas' rows.
        return whole.select(chosen).to_arrow().select(chosen)
    except (TypeError, ValueError, NotImplementedError, OverflowError) as error:
        # pyarrow's errors are subclasses of these.
        raise ParameterError(
            f"a column of the table has values of several types, or of a type that Arrow does not "
            f"have: {error}; if it mixes numbers and text, make all of its values text"
        ) from error


def matrix(table: Any) -> Array:
    """Return the numbers of a table, (rows, columns)."""
    whole = frame(table)
    import narwhals.stable.v2 as nw

    # pandas would make objects of numbers beside true and false.
    truths = [column for column in whole.iter_columns() if column.dtype == nw.Boolean]
    if truths:
        whole = whole.with_columns(*(column.cast(nw.UInt8) for column in truths))
    return np.asarray(whole.to_numpy())


def records(table: Any) -> list[dict[str, Any]]:
    """Return the rows of a table as dictionaries by column."""
    return list(frame(table).rows(named=True))


class HasTable(ABC):
    """Objects whose ``table()`` is a dictionary of columns, as tables of other libraries."""

    @abstractmethod
    def table(self) -> dict[str, Array]:
        """Return a table as a dictionary of columns."""

    def to_pandas(self) -> pandas.DataFrame:
        """Return the table as a pandas data frame (extra ``pandas``)."""
        return _imported("pandas").DataFrame(self.table())

    def to_polars(self) -> polars.DataFrame:
        """Return the table as a polars data frame (extra ``polars``)."""
        return _imported("polars").DataFrame(self.table())

    def to_arrow(self) -> pyarrow.Table:
        """Return the table as a ``pyarrow.Table`` (extra ``table``)."""
        return _imported("pyarrow").table(self.table())


def _imported(library: str) -> Any:
    try:
        return importlib.import_module(library)
    except ImportError as error:
        raise MissingExtraError(
            f"a {library} table needs {library}: pip install 'mixts[{_LIBRARIES[library]}]' "
            "(table() needs nothing)"
        ) from error


def described_rows(actions: Any, features: Any) -> Any:
    """Replace descriptions of actions by rows of numbers, if features give any; all else stays."""
    if actions is None or isinstance(actions, np.ndarray):
        return actions
    if is_table(actions):
        return matrix(actions) if features is None else features.rows(actions)
    first = actions
    while isinstance(first, (list, tuple)) and first:
        first = first[0]
    if is_table(first):
        return _stacked_rows(actions, features)
    if not isinstance(first, Mapping):
        return actions
    if features is None:
        raise ActionError(
            "this prior does not name its features, so an action must be a row of numbers, got "
            f"{first!r}; name them by MixturePrior(..., features=...)"
        )
    if isinstance(actions, Mapping):
        return features.row(actions)
    if isinstance(actions[0], Mapping):
        return features.rows(actions)
    return _stacked_rows(actions, features)


def _stacked_rows(actions: Sequence[Any], features: Any) -> Array:
    """Return the action sets of several decisions as one array."""
    sets = [described_rows(one, features) for one in actions]
    if len({len(one) for one in sets}) > 1:
        raise ActionError(
            "all decisions of one call must offer equally many actions, got "
            f"{[len(one) for one in sets]}: pad the sets, and mask the padding"
        )
    return np.stack(sets)
