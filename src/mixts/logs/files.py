"""Files and tables of logs: the pieces that are read independently, and their record batches.

A piece is a run of row groups of a Parquet file, of whole lines of a CSV file, or of rows of a
table in memory. Pieces depend on the logs alone, not on the workers that read them, so the numbers
do not depend on them either.
"""

from __future__ import annotations

import csv
import glob
import io
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal
from urllib.parse import unquote

import numpy as np

from mixts._tables import arrow_table, frame, is_lazy, is_table
from mixts._typing import Array, Int
from mixts.errors import FormatError, MissingExtraError, ParameterError
from mixts.logs.bad_rows import RAGGED, BadRows, Example, of_reason, shortened
from mixts.logs.lazy import Groups, LazyLog

PIECE_BYTES = 1 << 26
"""Size of a piece of a CSV file: some million rows, about a second of work."""
PIECE_ROWS = 1 << 21
"""Largest number of rows of a piece of a Parquet file, unless one row group has more."""

_SCAN_BYTES = 1 << 24
_SUFFIXES = (".parquet", ".csv", ".tsv", ".csv.gz", ".tsv.gz")

Paths = Any
"""A path, a pattern, a folder, a table, a lazy table, or a list of these."""


@dataclass(frozen=True, eq=False)
class LogTable:
    """Table in memory that is read as a file is."""

    name: str
    """Name for messages, and to tell tables from each other."""
    header: tuple[str, ...]
    """Names of all columns."""
    rows: Any = field(repr=False)
    """The ``pyarrow.Table`` of the columns to read."""

    def __str__(self) -> str:
        return self.name


EXPORTED = frozenset({"pscore", "action_dist", "prior_version"})
"""Columns by which an exported file of decisions is recognised."""

Log = str | LogTable | LazyLog
"""One file or table of logs."""


@dataclass(frozen=True)
class Piece:
    """Bytes of a CSV file, row groups of a Parquet file, rows of a table, or a lazy table."""

    path: str
    format: Literal["csv", "parquet", "table", "lazy"]
    start: int
    """First byte, row group or row."""
    stop: int | None
    """None means the end of the file."""
    header: tuple[str, ...]
    """Names of the columns of the file."""
    rows: Any = field(default=None, repr=False)
    """Rows of a table, a ``pyarrow.Table``, or a :class:`LazyLog`; None for files."""


def pyarrow() -> Any:
    """Import pyarrow, which reads the files, or say how to install it."""
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.csv
        import pyarrow.parquet
    except ImportError as error:
        raise MissingExtraError("reading logs needs pyarrow: pip install 'mixts[logs]'") from error
    return pyarrow


def given_logs(paths: Paths) -> list[Any]:
    """Return a list of what was given: paths, patterns, folders and tables."""
    if isinstance(paths, (str, os.PathLike)) or is_table(paths):
        return [paths]
    if isinstance(paths, Mapping) or not isinstance(paths, Iterable):
        raise ParameterError(f"{_EXPECTED}, got {type(paths).__name__}")
    return list(paths)


def log_files(paths: Paths, columns: Collection[str]) -> tuple[Log, ...]:
    """Return these columns of tables, and the files of paths, patterns (``*.csv``) and folders."""
    given = given_logs(paths)
    found: dict[Log, None] = {}
    for number, entry in enumerate(given, 1):
        if is_table(entry):
            name = "the table" if len(given) == 1 else f"table {number}"
            if is_lazy(entry):
                found[LazyLog.of(name, entry)] = None
                continue
            table = frame(entry)
            header = tuple(table.columns)
            rows = arrow_table(table, [column for column in header if column in columns])
            found[LogTable(name, header, rows)] = None
            continue
        if not isinstance(entry, (str, os.PathLike)):
            raise ParameterError(f"{_EXPECTED}, got {type(entry).__name__}")
        name = os.fspath(entry)
        if os.path.isdir(name):
            files = sorted(str(p) for p in Path(name).rglob("*") if _is_log(p, Path(name)))
            if not files:
                raise ParameterError(f"the folder {name} has no files {', '.join(_SUFFIXES)}")
        elif os.path.isfile(name):
            files = [name]
        else:
            files = sorted(file for file in glob.glob(name, recursive=True) if os.path.isfile(file))
            if not files:
                raise ParameterError(f"there is no file {name}, and none that this pattern matches")
        found |= dict.fromkeys(files)
    if not found:
        raise ParameterError("paths must name at least one file, got none")
    return tuple(found)


_EXPECTED = (
    "logs must be files (paths, patterns, folders), tables of pandas, polars or pyarrow, lazy "
    "tables of DuckDB, polars, Spark, Dask or Ibis, or a list of these"
)


def _is_log(path: Path, folder: Path) -> bool:
    """Return whether a file of a folder has the suffix of a log and is not hidden."""
    hidden = any(part.startswith((".", "_")) for part in path.relative_to(folder).parts)
    return path.is_file() and not hidden and path.name.lower().endswith(_SUFFIXES)


def pieces_of(path: Log, delimiter: str) -> list[Piece]:
    """Return the pieces of one file or table, in its order."""
    if isinstance(path, LogTable):
        return _slices(path)
    if isinstance(path, LazyLog):
        return [Piece(path.name, "lazy", 0, None, path.header, path)]
    with open(path, "rb") as stream:
        if stream.read(4) == b"PAR1":
            return _row_groups(path)
    header = _csv_header(path, delimiter)
    ends = [*_line_ends(path), None]
    starts = [0, *(end for end in ends if end is not None)]
    return [Piece(path, "csv", a, b, header) for a, b in zip(starts, ends, strict=True)]


def number_columns(piece: Piece) -> frozenset[str]:
    """Return the columns that the file itself declares as numbers; CSV files declare nothing."""
    if piece.format == "csv":
        return frozenset()
    if piece.format == "lazy":
        return frozenset(piece.rows.numbers())
    if piece.format == "table":
        return frozenset(field.name for field in piece.rows.schema if are_numbers(field.type))
    with pyarrow().parquet.ParquetFile(piece.path) as file:
        return frozenset(field.name for field in file.schema_arrow if are_numbers(field.type))


def are_numbers(kind: Any, *, text: bool = False) -> bool:
    """Return whether a column of this type has numbers (with ``text``: or text with numbers)."""
    types = pyarrow().types
    if types.is_dictionary(kind):
        kind = kind.value_type
    return bool(
        types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)
        or types.is_boolean(kind) or types.is_null(kind)
        or (text and (types.is_string(kind) or types.is_large_string(kind)))
    )  # fmt: skip


def delimiter_of(path: Log) -> str:
    """Return the usual delimiter: a tab for ``.tsv`` files and a comma for others."""
    return "\t" if str(path).lower().removesuffix(".gz").endswith(".tsv") else ","


def _slices(table: LogTable) -> list[Piece]:
    return [
        Piece(table.name, "table", start, None, table.header, table.rows.slice(start, PIECE_ROWS))
        for start in range(0, max(table.rows.num_rows, 1), PIECE_ROWS)
    ]


def _row_groups(path: str) -> list[Piece]:
    try:
        file = pyarrow().parquet.ParquetFile(path)
    except (pyarrow().ArrowException, OSError) as error:
        raise FormatError(f"{path} is not a Parquet file, or is damaged: {error}") from error
    with file:
        rows = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
        names = file.schema_arrow.names
    header = (*names, *(name for name in partitions_of(path) if name not in names))
    starts, in_piece = [0], 0
    for i, n in enumerate(rows):
        if in_piece and in_piece + n > PIECE_ROWS:
            starts.append(i)
            in_piece = 0
        in_piece += n
    stops = [*starts[1:], len(rows)]
    return [Piece(path, "parquet", a, b, header) for a, b in zip(starts, stops, strict=True)]


def partitions_of(path: str) -> dict[str, str | None]:
    """Return the columns that the folders of a file name: ``day=2024-05-01/part.parquet``."""
    named = (part.partition("=") for part in Path(path).parts[:-1])
    found = {name: unquote(value) for name, mark, value in named if name and mark}
    return {name: None if value == _NO_PARTITION else value for name, value in found.items()}


_NO_PARTITION = "__HIVE_DEFAULT_PARTITION__"
"""Folder of the rows that have no value of a column."""


def _csv_header(path: str, delimiter: str) -> tuple[str, ...]:
    stream = pyarrow().input_stream(path, compression="detect")
    with stream, io.TextIOWrapper(stream, "utf-8-sig", newline="") as text:
        try:
            names = next((row for row in csv.reader(text, delimiter=delimiter) if row), None)
        except (UnicodeDecodeError, csv.Error, OSError) as error:
            raise FormatError(
                f"{path} is neither Parquet nor CSV in UTF-8: save it as one of them ({error})"
            ) from error
    if names is None:
        raise FormatError(f"{path} is empty: a CSV file begins with the names of its columns")
    return tuple(names)


def _line_ends(path: str) -> list[int]:
    """Return where to cut a large CSV file: after line ends, if no value contains one.

    A value with a line end is quoted, and one of its lines has an odd number of quotes. A file with
    such a value is read in one piece, and so is a compressed file.
    """
    size = os.path.getsize(path)
    if size <= PIECE_BYTES or path.lower().endswith((".gz", ".bz2", ".zst", ".lz4")):
        return []
    cuts: list[int] = []
    for position, line_ends, odd in _scanned(path):
        if odd:
            return []
        wanted = PIECE_BYTES * (len(cuts) + 1)
        index = int(np.searchsorted(line_ends, wanted - position))
        if index < len(line_ends):
            end = position + int(line_ends[index]) + 1
            cuts += [end] if end < size else []
    return cuts


def _scanned(path: str) -> Iterator[tuple[int, Any, bool]]:
    """Yield each block's position, its line ends, and whether a line has an odd quote count."""
    n_quotes = 0
    with open(path, "rb") as stream:
        position = 0
        while block := stream.read(_SCAN_BYTES):
            characters = np.frombuffer(block, np.uint8)
            line_ends = np.flatnonzero(characters == ord("\n"))
            quotes = np.flatnonzero(characters == ord('"'))
            before = n_quotes + np.searchsorted(quotes, line_ends)
            yield position, line_ends, bool((before % 2).any())
            n_quotes += len(quotes)
            position += len(block)


_BYTES_PER_ROW = 64
"""Approximate size of a row of CSV: pyarrow measures blocks in bytes."""


@dataclass(frozen=True)
class RowBatch:
    """Rows of a piece: columns by name, the number of each row (from 1), and ragged lines.

    With ``groups`` each row stands for a group of rows, and its number is its place, from 0.
    """

    columns: dict[str, Any]
    rows: Int[Array, " m"]
    ragged: BadRows
    groups: Groups | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def number(self, row: int) -> int:
        """Return the number of a row for messages; 0 for a group."""
        return int(self.rows[row]) if self.groups is None else 0

    def count(self, rows: Int[Array, " k"]) -> int:
        """Return how many rows of the logs these are."""
        return len(rows) if self.groups is None else int(self.groups.n[rows].sum())


def batches_of(
    piece: Piece, columns: Sequence[str], delimiter: str, batch_rows: int
) -> Iterator[RowBatch]:
    """Yield the rows of a piece in its order, one batch at a time."""
    read = {"parquet": _parquet_batches, "csv": _csv_batches, "table": _table_batches}[piece.format]
    try:
        yield from read(piece, list(columns), delimiter, batch_rows)
    except (pyarrow().ArrowException, OSError) as error:
        encoding = "; save it in UTF-8" if "UTF8" in str(error) else ""
        raise FormatError(f"{piece.path} cannot be read: {error}{encoding}") from error


def _parquet_batches(
    piece: Piece, columns: list[str], delimiter: str, batch_rows: int
) -> Iterator[RowBatch]:
    pa, groups = pyarrow(), range(piece.start, piece.stop or 0)
    with pa.parquet.ParquetFile(piece.path) as file:
        own = [name for name in columns if name in file.schema_arrow.names]
        rest = [name for name in columns if name not in own]  # the folders have these
        found = file.iter_batches(batch_rows, list(groups), own, use_threads=False)
        values = {name: pa.scalar(partitions_of(piece.path)[name], pa.string()) for name in rest}
        for batch in _numbered(found, own):
            named = {name: pa.repeat(value, len(batch)) for name, value in values.items()}
            yield replace(batch, columns=batch.columns | named)


def _table_batches(
    piece: Piece, columns: list[str], delimiter: str, batch_rows: int
) -> Iterator[RowBatch]:
    # Levels of a categorical column may differ from chunk to chunk of a table.
    whole = piece.rows.select(columns).unify_dictionaries().combine_chunks()
    yield from _numbered(whole.to_batches(batch_rows), columns)


def _numbered(batches: Iterable[Any], columns: list[str]) -> Iterator[RowBatch]:
    """Number the rows of record batches."""
    done = 0
    for batch in batches:
        rows = np.arange(done + 1, done + 1 + batch.num_rows)
        done += batch.num_rows
        yield RowBatch({name: batch.column(name) for name in columns}, rows, BadRows())


def _csv_batches(
    piece: Piece, columns: list[str], delimiter: str, batch_rows: int
) -> Iterator[RowBatch]:
    arrow = pyarrow()
    lines = _RaggedLines(piece)

    def skip(row: Any) -> str:
        lines.add(row)
        return "skip"

    # Every column is read as text, so that a value that is no number makes a bad row, and "007"
    # stays "007". One thread numbers the rows, and is as fast.
    first = piece.start == 0
    with _stream(piece) as stream:
        reader = arrow.csv.open_csv(
            stream,
            read_options=arrow.csv.ReadOptions(
                use_threads=False,
                block_size=max(_BYTES_PER_ROW * batch_rows, 1 << 10),
                column_names=None if first else list(piece.header),
            ),
            parse_options=arrow.csv.ParseOptions(
                delimiter=delimiter, newlines_in_values=True, invalid_row_handler=skip
            ),
            convert_options=arrow.csv.ConvertOptions(
                include_columns=columns,
                column_types=dict.fromkeys(columns, arrow.string()),
                strings_can_be_null=True,
                null_values=[""],
            ),
        )
        read = _unguarded if EXPORTED.issubset(piece.header) else lambda column: column
        with reader:
            for batch in reader:
                rows, ragged = lines.between(batch.num_rows)
                yield RowBatch({name: read(batch.column(name)) for name in columns}, rows, ragged)
    yield RowBatch({}, np.arange(0), lines.rest())


# -- formulas -------------------------------------------------------------------------------------

_FORMULA = r"^'*[=+\-@\t\r]"
_NUMBER = r"^'*[+\-]([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+\-]?[0-9]+)?$"
"""Numbers with a sign are no formulas. Text of a formula after apostrophes counts as one, so that
it can be told from a formula that got its apostrophe here."""


def guarded(column: Any) -> Any:
    """Return a column in which text that spreadsheets take for a formula follows an apostrophe."""
    compute, kind = pyarrow().compute, pyarrow().types
    if not kind.is_string(column.type):
        return column
    with_mark = compute.binary_join_element_wise("'", column, "")
    return compute.if_else(_are_formulas(column), with_mark, column)


def _unguarded(column: Any) -> Any:
    """Return a column as it was before :func:`guarded`."""
    compute = pyarrow().compute
    rest = compute.utf8_slice_codeunits(column, 1)
    has_mark = compute.and_(compute.starts_with(column, "'"), _are_formulas(rest))
    return compute.if_else(has_mark, rest, column)


def _are_formulas(column: Any) -> Any:
    compute = pyarrow().compute
    plain = compute.match_substring_regex(column, _NUMBER)
    return compute.and_not(compute.match_substring_regex(column, _FORMULA), plain)


def is_formula(text: str) -> bool:
    """Return whether a spreadsheet would take text for a formula."""
    return bool(re.match(_FORMULA, text)) and not re.match(_NUMBER, text)


def _stream(piece: Piece) -> Any:
    arrow = pyarrow()
    if piece.start == 0 and piece.stop is None:
        return arrow.input_stream(piece.path, compression="detect")
    return arrow.PythonFile(io.BufferedReader(_Range(piece), 1 << 20), mode="r")


class _Range(io.RawIOBase):
    """Bytes of a file from one position to another, as a stream."""

    def __init__(self, piece: Piece) -> None:
        self._file = open(piece.path, "rb", buffering=0)  # noqa: SIM115 - closed with this
        self._file.seek(piece.start)
        stop = os.path.getsize(piece.path) if piece.stop is None else piece.stop
        self._left = stop - piece.start

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        n = self._file.readinto(memoryview(buffer)[: self._left]) or 0
        self._left -= n
        return n

    def close(self) -> None:
        self._file.close()
        super().close()


class _RaggedLines:
    """Lines that pyarrow skipped; they determine the numbers of the other rows."""

    def __init__(self, piece: Piece) -> None:
        self._file = os.path.basename(piece.path)
        self._header = 1 if piece.start == 0 else 0
        self._next = 1
        self._waiting: list[tuple[int, str]] = []

    def add(self, row: Any) -> None:
        columns = f"{row.actual_columns} instead of {row.expected_columns}: "
        self._waiting.append((row.number - self._header, columns + shortened(row.text)))

    def between(self, n_rows: int) -> tuple[Int[Array, " n_rows"], BadRows]:
        """Return the numbers of the next rows, and the lines skipped between them."""
        end, n_skipped = self._next + n_rows, 0
        # Skipped lines come in order; each one before the end moves the end by one.
        while n_skipped < len(self._waiting) and self._waiting[n_skipped][0] < end:
            end += 1
            n_skipped += 1
        passed, self._waiting = self._waiting[:n_skipped], self._waiting[n_skipped:]
        numbers = np.arange(self._next, end)
        self._next = end
        skipped = np.array([number for number, _ in passed], dtype=np.int64)
        return np.setdiff1d(numbers, skipped, assume_unique=True), self._found(passed)

    def rest(self) -> BadRows:
        """Return the lines skipped after the last row."""
        return self._found(self._waiting)

    def _found(self, lines: list[tuple[int, str]]) -> BadRows:
        if not lines:
            return BadRows()
        examples = (Example(self._file, number, text) for number, text in lines)
        return of_reason(RAGGED, len(lines), examples)
