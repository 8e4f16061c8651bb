"""Logs that are read in tests: one table, in files of every kind."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.csv
import pyarrow.parquet

ARMS = {"task": "user", "arm": "item", "reward": "clicked"}
LINEAR = {"task": "user", "features": ["age", "price"], "reward": "spent"}
N = 600


def table() -> pyarrow.Table:
    """Rows of users 1 to 12 in random order, rewards of several kinds."""
    rng = np.random.default_rng(1)
    return pyarrow.table(
        {
            "user": rng.integers(1, 13, N),
            "item": rng.choice(["shoes", "books", "item 2", "item 10"], N),
            "clicked": rng.integers(0, 2, N),
            "age": rng.standard_normal(N),
            "price": 1 + rng.random(N),
            "spent": 1000 + 0.001 * rng.standard_normal(N),
            "visits": rng.poisson(3.0, N),
        }
    )


def write_files(table: pyarrow.Table, folder: Path) -> None:
    """The table as one CSV, one Parquet file of several row groups, and parts in a folder."""
    pyarrow.csv.write_csv(table, folder / "all.csv")
    pyarrow.parquet.write_table(table, folder / "all.parquet", row_group_size=100)
    (folder / "parts").mkdir()
    pyarrow.csv.write_csv(table.slice(0, 150), folder / "parts" / "b.csv")
    pyarrow.parquet.write_table(table.slice(150, 300), folder / "parts" / "a.parquet")
    # Another order of columns, another type of id, compressed.
    rest = table.slice(450).select(["clicked", "visits", "spent", "price", "age", "item", "user"])
    rest = rest.set_column(6, "user", rest["user"].cast(pyarrow.string()))
    pyarrow.csv.write_csv(rest, folder / "rest.csv")
    (folder / "parts" / "c.csv.gz").write_bytes(
        gzip.compress((folder / "rest.csv").read_bytes(), mtime=0)
    )


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path
