"""A piece of a file as record batches, with the number of each row and the lines left out."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mixts._typing import Array, Int
from mixts.errors import FormatError
from mixts.logs.bad_rows import RAGGED, BadRows, Example, of_reason, shortened
from mixts.logs.pieces import Piece, pyarrow

_BYTES_PER_ROW = 64
"""Of a CSV file, roughly: blocks are counted in bytes there."""


@dataclass(frozen=True)
class Batch:
    """Some rows: columns by name, each row's number in the piece (from 1), and ragged lines."""

    columns: dict[str, Any]
    rows: Int[Array, " m"]
    ragged: BadRows

    def __len__(self) -> int:
        return len(self.rows)


def batches_of(
    piece: Piece, columns: Sequence[str], delimiter: str, batch_rows: int
) -> Iterator[Batch]:
    """The rows of a piece in its order, no more than a batch of them in memory."""
    read = _parquet_batches if piece.format == "parquet" else _csv_batches
    try:
        yield from read(piece, list(columns), delimiter, batch_rows)
    except (pyarrow().ArrowException, OSError) as error:
        encoding = "; files must be in UTF-8" if "UTF8" in str(error) else ""
        raise FormatError(f"{piece.path} cannot be read: {error}{encoding}") from error


def _parquet_batches(
    piece: Piece, columns: list[str], delimiter: str, batch_rows: int
) -> Iterator[Batch]:
    groups = range(piece.start, piece.stop or 0)
    done = 0
    with pyarrow().parquet.ParquetFile(piece.path) as file:
        found = file.iter_batches(batch_rows, list(groups), columns, use_threads=False)
        for batch in found:
            rows = np.arange(done + 1, done + 1 + batch.num_rows)
            done += batch.num_rows
            yield Batch({name: batch.column(name) for name in columns}, rows, BadRows())


def _csv_batches(
    piece: Piece, columns: list[str], delimiter: str, batch_rows: int
) -> Iterator[Batch]:
    arrow = pyarrow()
    lines = _RaggedLines(piece)

    def skip(row: Any) -> str:
        lines.add(row)
        return "skip"

    # Every column is text: what is no number is then a bad row, and "007" stays what it is. In one
    # thread rows have numbers, and it is as fast.
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
        with reader:
            for batch in reader:
                rows, ragged = lines.between(batch.num_rows)
                yield Batch({name: batch.column(name) for name in columns}, rows, ragged)
    yield Batch({}, np.arange(0), lines.rest())


def _stream(piece: Piece) -> Any:
    arrow = pyarrow()
    if piece.start == 0 and piece.stop is None:
        return arrow.input_stream(piece.path, compression="detect")
    return arrow.PythonFile(io.BufferedReader(_Range(piece), 1 << 20), mode="r")


class _Range(io.RawIOBase):
    """The bytes of a file from one place to another."""

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
    """Lines that were skipped, and by that the numbers of those that were not."""

    def __init__(self, piece: Piece) -> None:
        self._file = os.path.basename(piece.path)
        self._header = 1 if piece.start == 0 else 0
        self._next = 1
        self._waiting: list[tuple[int, str]] = []

    def add(self, row: Any) -> None:
        columns = f"{row.actual_columns} instead of {row.expected_columns}: "
        self._waiting.append((row.number - self._header, columns + shortened(row.text)))

    def between(self, n_rows: int) -> tuple[Int[Array, " n_rows"], BadRows]:
        """The numbers of the next rows, and the lines skipped between them."""
        end, n_skipped = self._next + n_rows, 0
        # Lines come in order; each below the end is not one of these rows, which moves the end.
        while n_skipped < len(self._waiting) and self._waiting[n_skipped][0] < end:
            end += 1
            n_skipped += 1
        passed, self._waiting = self._waiting[:n_skipped], self._waiting[n_skipped:]
        numbers = np.arange(self._next, end)
        self._next = end
        skipped = np.array([number for number, _ in passed], dtype=np.int64)
        return np.setdiff1d(numbers, skipped, assume_unique=True), self._found(passed)

    def rest(self) -> BadRows:
        """What was skipped after the last row."""
        return self._found(self._waiting)

    def _found(self, lines: list[tuple[int, str]]) -> BadRows:
        if not lines:
            return BadRows()
        examples = (Example(self._file, number, text) for number, text in lines)
        return of_reason(RAGGED, len(lines), examples)
