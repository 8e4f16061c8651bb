"""Tables to files, atomically: a file is either the old one or the whole new one."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from mixts._files import replacing
from mixts._typing import Array
from mixts.errors import MissingExtraError

_ROWS_AT_ONCE = 1 << 16


def write_csv(path: str | os.PathLike[str], table: Mapping[str, Array]) -> None:
    """Columns to CSV with a header; floats in the shortest form that reads back exactly."""
    n_rows = len(next(iter(table.values())))
    with replacing(path) as part, part.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(table)
        for start in range(0, n_rows, _ROWS_AT_ONCE):
            rows = slice(start, start + _ROWS_AT_ONCE)
            columns = [column[rows].tolist() for column in table.values()]
            writer.writerows(zip(*columns, strict=True))


def write_parquet(
    path: str | os.PathLike[str], table: Mapping[str, Array], settings: Mapping[str, Any]
) -> None:
    """Columns to Parquet, text columns by dictionary, settings as JSON in the metadata."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise MissingExtraError(
            "writing Parquet needs pyarrow: pip install 'mixts[table]' (to_csv needs nothing)"
        ) from error
    columns = {}
    for name, column in table.items():
        if column.dtype.kind == "U":
            words, codes = np.unique(column, return_inverse=True)
            columns[name] = pyarrow.DictionaryArray.from_arrays(codes, words.tolist())
        else:
            columns[name] = pyarrow.array(column)
    arrow = pyarrow.table(columns)
    arrow = arrow.replace_schema_metadata({"mixts": json.dumps(dict(settings))})
    with replacing(path) as part:
        parquet.write_table(arrow, part)
