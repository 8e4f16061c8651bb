"""Files of decisions: stores export them, and bridges to off-policy evaluation read them.

A row holds one decision with its propensity and its reward. Columns that Open Bandit Pipeline also
has go by its names: ``action``, ``reward``, ``pscore``, ``action_dist``, ``action_context``,
``n_actions``. Parquet files also hold the types of the columns and a header; CSV files hold lists
as JSON text, and text that a spreadsheet would take for a formula after an apostrophe.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import isfinite
from typing import Any, Literal

import numpy as np

from mixts._tables import arrow_table, is_table
from mixts._typing import Array, Bool, Float, Int
from mixts.errors import FormatError, ParameterError
from mixts.logs.files import guarded, is_formula, pyarrow

FORMAT = "mixts/decisions"
VERSION = 1
"""Version of the format; readers refuse newer versions."""

FEATURES = "action_context"
"""Column of the actions' features, which only files of linear priors have."""

FileFormat = Literal["parquet", "csv"]
SUFFIXES: Mapping[str, FileFormat] = {".parquet": "parquet", ".csv": "csv", ".csv.gz": "csv"}
"""Formats of files by the end of their names."""

BATCH_ROWS = 1 << 14
"""Rows that a reader takes into memory at a time."""

Source = Any
"""Path of a file, or a table of pandas, polars or pyarrow with its columns, such as some rows."""


_PREFIX = "feature_"


def feature_column(name: str) -> str:
    """Return the column of a named feature of the chosen action: its name, if that is free.

    A name that a spreadsheet would take for a formula is not, nor one that could be the column of
    another feature.
    """
    is_taken = name in schema(True, {}).names or is_formula(name) or name.startswith(_PREFIX)
    return f"{_PREFIX}{name}" if is_taken else name


def schema(
    has_features: bool, about: Mapping[str, Any], named: Mapping[str, type] | None = None
) -> Any:
    """Return the columns of a file; its metadata hold ``about`` as the header.

    ``named`` features of the chosen action have columns of their own: of ``str``, or of ``float``.
    """
    pa = pyarrow()
    number, vector, moment = pa.float64(), pa.list_(pa.float64()), pa.timestamp("us", tz="UTC")
    columns = [
        pa.field("id", pa.string(), nullable=False),
        pa.field("task", pa.string(), nullable=False),
        pa.field("timestamp", moment, nullable=False),
        pa.field("action", pa.int64(), nullable=False),
        pa.field("arm", pa.string()),
        pa.field("n_actions", pa.int64(), nullable=False),
        pa.field("reward", number),
        pa.field("rewarded_at", moment),
        pa.field("late", pa.bool_(), nullable=False),
        pa.field("pscore", number, nullable=False),
        pa.field("action_dist", vector, nullable=False),
        pa.field("weights", vector, nullable=False),
        pa.field("prior_version", pa.int64(), nullable=False),
        pa.field("policy", pa.string(), nullable=False),
        pa.field("reward_is_default", pa.bool_(), nullable=False),
        pa.field("late_reward", number),
        pa.field("late_rewarded_at", moment),
        pa.field("deferred", pa.bool_(), nullable=False),
        pa.field("activated_at", moment),
        pa.field("slate", pa.string()),
        pa.field("position", pa.int64(), nullable=False),
        pa.field("values", vector),
        pa.field("costs", vector),
        pa.field("side", pa.string()),
        pa.field("metrics", pa.string()),
    ]
    if has_features:
        columns.append(pa.field(FEATURES, pa.list_(vector), nullable=False))
    for name, kind in (named or {}).items():
        columns.append(pa.field(feature_column(name), pa.string() if kind is str else number))
    header = {"format": FORMAT, "version": VERSION, **about}
    return pa.schema(columns, {"mixts": json.dumps(header)})


# -- writing --------------------------------------------------------------------------------------


def format_of(path: str | os.PathLike[str], suffixes: Mapping[str, str] = SUFFIXES) -> Any:
    """Return the format that the name of a file asks for."""
    name = os.fspath(path)
    for suffix, found in suffixes.items():
        if name.lower().endswith(suffix):
            return found
    *most, last = suffixes
    raise ParameterError(
        f"the name of a file of decisions must end in {', '.join(most)} or {last}, which is its "
        f"format, got {name}: choose such a name"
    )


@contextmanager
def writing(
    path: str | os.PathLike[str], columns: Any, file_format: FileFormat, *, compressed: bool = False
) -> Iterator[Callable[[Any], None]]:
    """Open a file of decisions with a schema; yield the function that appends a table to it.

    A table is a row group of a Parquet file. A CSV file is ``compressed`` by gzip if asked for.
    """
    pa = pyarrow()
    if file_format == "parquet":
        with pa.parquet.ParquetWriter(path, columns, compression="zstd") as file:
            yield lambda table: file.write_table(table, row_group_size=table.num_rows)
        return
    is_list = [pa.types.is_list(kind) for kind in columns.types]
    flat = pa.schema(
        [
            pa.field(column.name, pa.string()) if nested else column
            for column, nested in zip(columns, is_list, strict=True)
        ]
    )

    def append(table: Any) -> None:
        # Text takes several times the memory of its numbers: so only a part of the table at a time.
        for part in table.to_batches(max_chunksize=1 + table.num_rows // 16):
            columns_of = zip(part.columns, is_list, strict=True)
            texts = [
                _as_json(column) if nested else guarded(column) for column, nested in columns_of
            ]
            csv.write_batch(pa.record_batch(texts, schema=flat))

    with (
        pa.output_stream(path, compression="gzip" if compressed else None) as stream,
        pa.csv.CSVWriter(stream, flat) as csv,
    ):
        yield append


def _as_json(lists: Any) -> Any:
    """Return lists of numbers, or lists of such lists, as a column of JSON text."""
    pa = pyarrow()
    inner = lists.flatten()
    texts = _as_json(inner) if pa.types.is_list(inner.type) else inner.cast(pa.string())
    lengths = pa.compute.list_value_length(lists).fill_null(0)
    ends = np.concatenate([[0], np.cumsum(np.asarray(lengths))]).astype(np.int32)
    joined = pa.compute.binary_join(pa.ListArray.from_arrays(ends, texts), ",")
    text = pa.compute.binary_join_element_wise("[", joined, "]", "")
    return pa.compute.if_else(lists.is_valid(), text, None)


# -- reading --------------------------------------------------------------------------------------


class DecisionLog:
    """Reader of the decisions in a file or a table, some rows at a time."""

    def __init__(self, source: Source) -> None:
        self._table: Any = None
        if is_table(source):
            self.name, self._table = "the table", arrow_table(source)
            columns, self.n_rows = self._table.schema, self._table.num_rows
        elif not isinstance(source, str | os.PathLike):
            raise ParameterError(
                "expected a file that `mixts store export` wrote, or a table of its rows, got "
                f"{type(source).__name__}"
            )
        else:
            self.name = os.fspath(source)
            with self._open() as file:
                columns, self.n_rows = file.schema_arrow, file.metadata.num_rows
        self._check(columns)
        if self._table is not None:
            self._table = self._typed(self._table)
        self.has_features = FEATURES in columns.names
        self._columns = tuple(columns.names)
        self.about = self._header(columns)
        """Header of the file: the store, the family, the versions of the prior, the time."""

    def batches(self, columns: Sequence[str]) -> Iterator[Any]:
        """Yield the rows in order, as ``pyarrow.RecordBatch`` objects of some rows.

        With rewards come the columns that tell which decisions were never shown.
        """
        pa = pyarrow()
        if "reward" in columns:
            columns = [*columns, "deferred", "activated_at"]
        if self._table is not None:
            yield from self._table.select(list(columns)).to_batches(BATCH_ROWS)
            return
        try:
            with self._open() as file:
                for group in range(file.num_row_groups):
                    yield from file.iter_batches(
                        BATCH_ROWS, [group], list(columns), use_threads=False
                    )
        except (pa.ArrowException, OSError) as error:
            raise FormatError(f"{self.name} cannot be read: {error}") from error

    def arm_names(self, version: int) -> Sequence[str] | None:
        """Return the names of the arms of one version of the prior; None if the header has none."""
        priors: Mapping[str, Mapping[str, Any]] = self.about.get("priors", {})
        names: Sequence[str] | None = priors.get(str(version), {}).get("arm_names")
        return names

    @property
    def facts(self) -> dict[str, str]:
        """Columns of the facts of the person, by the names of the facts."""
        priors: Mapping[str, Mapping[str, Any]] = self.about.get("priors", {})
        found: dict[str, str] = {}
        for prior in priors.values():
            pooled = (prior.get("features") or {}).get("pooled") or {}
            found |= {name: feature_column(name) for name in pooled.get("person", ())}
        return {name: column for name, column in found.items() if column in self._columns}

    def _open(self) -> Any:
        pa = pyarrow()
        try:
            return pa.parquet.ParquetFile(self.name)
        except FileNotFoundError:
            raise ParameterError(f"there is no file {self.name}") from None
        except (pa.ArrowException, OSError) as error:
            raise FormatError(
                f"{self.name} is not a Parquet file as `mixts store export` writes it, or is "
                f"damaged: {error}"
            ) from error

    def _check(self, columns: Any) -> None:
        expected = schema(False, {})
        missing = [name for name in expected.names if name not in columns.names]
        if missing:
            raise FormatError(
                f"{self.name} has no column {', '.join(missing)}: expected a file that "
                "`mixts store export` wrote, or a table of some of its rows with all columns"
            )

    def _typed(self, table: Any) -> Any:
        """Return a table with the types of a file's columns: other libraries have other lists."""
        expected = schema(FEATURES in table.column_names, {})
        known = [name for name in expected.names if name in table.column_names]
        for name in known:
            place, kind = table.schema.get_field_index(name), expected.field(name).type
            if table.schema.field(place).type != kind:
                try:
                    column = table.column(place).cast(kind)
                except pyarrow().ArrowException as error:
                    raise FormatError(
                        f"column {name} of {self.name} must be {kind}, got "
                        f"{table.schema.field(place).type}: {error}"
                    ) from error
                table = table.set_column(place, name, column)
        return table

    def _header(self, columns: Any) -> dict[str, Any]:
        header: dict[str, Any] = json.loads((columns.metadata or {}).get(b"mixts", b"{}"))
        if header.get("version", 0) > VERSION:
            raise FormatError(
                f"{self.name} has format version {header['version']}; this mixts reads up to "
                f"{VERSION}: upgrade mixts"
            )
        return header


# -- columns as arrays ----------------------------------------------------------------------------


def rewards_of(batch: Any, missing: float | None) -> tuple[Float[Array, " n"], Bool[Array, " n"]]:
    """Return the rewards of decisions, and which of them count.

    A number ``missing`` replaces the rewards that never came; with None, those decisions do not
    count. Deferred decisions that were never activated do not count either way.
    """
    column = batch.column("reward")
    came = np.asarray(column.is_valid())
    if missing is None:
        return np.asarray(column.fill_null(0.0), float), came
    deferred, active = batch.column("deferred"), batch.column("activated_at")
    shown = ~np.asarray(deferred) | np.asarray(active.is_valid())
    return np.asarray(column.fill_null(missing), float), shown


def vectors_of(column: Any) -> tuple[Float[Array, " m"], Int[Array, " n"]]:
    """Return the numbers of all lists in a column, concatenated, and where each list ends."""
    values = np.asarray(column.flatten(), float)
    return values, np.cumsum(np.asarray(column.value_lengths()), dtype=np.int64)


def check_missing(missing: Any) -> float | None:
    """Return the value of a missing reward: a number, or None to leave the decision out."""
    if missing is None:
        return None
    if isinstance(missing, bool) or not isinstance(missing, (int, float)) or not isfinite(missing):
        raise ParameterError(
            "missing_reward must be a number, which replaces rewards that never came, or None, "
            f"which leaves those decisions out; got {missing!r}"
        )
    return float(missing)
