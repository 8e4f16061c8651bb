"""The first pass over features: which columns hold numbers, and the levels of those with text.

Counts merge, and levels are sorted, so the result depends neither on the order of rows and files
nor on the processes that read them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from mixts._typing import Array, Int
from mixts.engines import Engine
from mixts.errors import ParameterError
from mixts.features import Feature, Features, LevelFeature, NumberFeature, Pooled
from mixts.logs.bad_rows import BadRows
from mixts.logs.files import Piece, RowBatch, are_numbers, batches_of, number_columns
from mixts.logs.lazy import LazyLog
from mixts.logs.rows import coded_names, is_number, numbers, sorted_order
from mixts.logs.schema import LogSchema

MOST_LEVELS = 50
"""Largest number of levels of a text feature: each is a coefficient that tasks must learn."""

OTHER = "other"
"""Name of the level that stands for all levels that were not kept."""

MAX_MIXED_LEVELS = 24
"""So few different values, one of them a text, are levels: 20, 30, 40, 50plus."""

MISSING = frozenset({"", "-", ".", "?", "n.a.", "n/a", "na", "nil", "none", "null"})
"""Texts, in lower case, by which files mark a missing value; "nan" is read as a number."""

_MOST_COUNTED = 20_000
"""Distinct values of a column that are kept: a column of numbers may have one in each row."""


@dataclass(frozen=True)
class Values:
    """Values of a column: how many there are, how many are numbers, and how often each occurs."""

    n: int = 0
    n_numbers: int = 0
    counts: Counter[str] | None = None
    """None if there are too many different values to be levels."""
    sums: tuple[float, float] = (0.0, 0.0)
    """Sum of the finite numbers, and of their squares."""
    ends: tuple[float, float] = (np.inf, -np.inf)
    """Smallest and largest finite number."""
    n_finite: int = 0
    """Number of finite numbers."""

    def __add__(self, other: Values) -> Values:
        both = None
        if self.counts is not None and other.counts is not None:
            both = self.counts + other.counts
            both = both if len(both) <= _MOST_COUNTED else None
        return Values(
            self.n + other.n, self.n_numbers + other.n_numbers, both,
            (self.sums[0] + other.sums[0], self.sums[1] + other.sums[1]),
            (min(self.ends[0], other.ends[0]), max(self.ends[1], other.ends[1])),
            self.n_finite + other.n_finite,
        )  # fmt: skip

    @property
    def are_numbers(self) -> bool:
        """Whether the column holds numbers; its other values make bad rows.

        A few different values with a text among them are levels, and so are values most of which
        are texts. A sign of a missing value is no such text.
        """
        if self.counts is not None and len(self.counts) <= MAX_MIXED_LEVELS:
            texts = (name.strip().lower() for name in self.counts if not is_number(name))
            if not MISSING.issuperset(texts):
                return False
        return 2 * self.n_numbers >= self.n


def find_features(jobs: Sequence[tuple[Piece, str]], schema: LogSchema, engine: Engine) -> Features:
    """Return the features of logs: columns of numbers as they are, and the levels of the others.

    Parameters
    ----------
    jobs
        The pieces of the logs, each with its delimiter.
    schema
        Columns of the features, and how to treat text.
    engine
        Where files are read.
    """
    known = [number_columns(piece) for piece in {piece.path: piece for piece, _ in jobs}.values()]
    terms = schema.terms
    pooled = [name for name in schema.feature_columns if any(name in term for term in terms)]
    unclear = tuple(
        name
        for name in schema.feature_columns
        if name in (*schema.text, *pooled) or not all(name in names for names in known)
    )
    found = {name: Values(counts=Counter()) for name in unclear}
    if unclear:
        arguments = ((piece, used, unclear, schema.batch_rows) for piece, used in jobs)
        for part in engine.map(count_values, arguments):
            found = {name: found[name] + part[name] for name in unclear}
    columns: list[Feature] = []
    has_constant = schema.intercept
    numbers = {name for name in schema.feature_columns if _are_numbers(name, found, schema)}
    for name in cast("tuple[str, ...]", schema.features or ()):
        if name in numbers:
            columns.append(NumberFeature(name))
            continue
        # A constant and all levels of a feature would say the same: the first level goes.
        columns.append(_level_feature(name, found[name], schema.top_levels, has_constant))
        has_constant = True
    if not terms:
        return Features(columns, schema.intercept)
    made = [_pooled_column(name, found[name], name in numbers, schema) for name in pooled]
    means = [mean for _, means in made for mean in means]
    effects = Pooled([column for column, _ in made], terms, tuple(schema.person), means)
    return Features(columns, schema.intercept, effects)


def _are_numbers(name: str, found: Mapping[str, Values], schema: LogSchema) -> bool:
    return name not in found or (name not in schema.text and found[name].are_numbers)


def _pooled_column(
    name: str, values: Values, is_number: bool, schema: LogSchema
) -> tuple[Feature, list[float]]:
    """Return a column of pooled effects, and the means of its numbers."""
    if not is_number:
        column = _level_feature(name, values, schema.top_levels, has_constant=False)
        assert values.counts is not None  # or it would have been refused
        known = [values.counts[level] for level in column.levels]
        if column.other is not None:
            known[column.levels.index(column.other)] += values.n - sum(known)
        return column, [count / max(values.n, 1) for count in known]
    n = max(values.n_finite, 1)
    mean = values.sums[0] / n
    spread = math.sqrt(max(values.sums[1] / n - mean**2, 0.0))
    low, high = values.ends
    if not low < high:
        raise ParameterError(f"{name!r} is the same in all rows: leave it out")
    return NumberFeature(name, mean, spread or high - low, (low, high)), [0.0]


def count_values(
    piece: Piece, delimiter: str, columns: tuple[str, ...], batch_rows: int
) -> dict[str, Values]:
    """Count the values of some columns of a piece, one batch at a time."""
    if piece.format == "lazy":
        return {name: _lazy_values(piece.rows, name) for name in columns}
    found = {name: Values(counts=Counter()) for name in columns}
    for batch in batches_of(piece, columns, delimiter, batch_rows):
        if batch.columns:
            found = {name: found[name] + _values(batch, name) for name in columns}
    return found


def _lazy_values(log: LazyLog, name: str) -> Values:
    """Count the values of a column of a lazy table, by one or two of its aggregates."""
    number = name in log.numbers()
    table = log.values_of(name, _MOST_COUNTED + 1 if number else None)
    if number and table.num_rows > _MOST_COUNTED:
        n, n_infinite, *numbers = log.summary_of(name)
        total, squares, low, high = numbers
        return Values(n, n + n_infinite, None, (total, squares), (low, high), n)
    n_rows = np.asarray(table["n"].to_numpy(), np.int64)
    columns = {name: table["value"].combine_chunks()}
    return _values(RowBatch(columns, np.arange(len(n_rows)), BadRows()), name, n_rows)


def _values(batch: RowBatch, name: str, n_rows: Int[Array, " m"] | None = None) -> Values:
    """Count the values of a column; each stands for one row, or for ``n_rows`` rows."""
    column = batch.columns[name]
    weights = np.ones(len(batch), np.int64) if n_rows is None else n_rows
    codes, names = coded_names(column, f"feature {name!r}")
    named = codes >= 0
    used = np.bincount(codes[named], weights[named], len(names)).astype(np.int64)
    n_numbers, finite, some = 0, np.empty(0, np.int64), np.empty(0)
    if are_numbers(column.type, text=True):
        found, missing, broken = numbers(column, f"feature {name!r}")
        n_numbers = int(weights[~(missing | broken)].sum())
        known = np.isfinite(found)
        finite, some = weights[known], found[known]
    counts = None
    if len(names) <= _MOST_COUNTED:
        counts = Counter({name: n for name, n in zip(names, used.tolist(), strict=True) if n})
    ends = (float(some.min(initial=np.inf)), float(some.max(initial=-np.inf)))
    sums = (float((finite * some).sum()), float((finite * some**2).sum()))
    return Values(int(weights[named].sum()), n_numbers, counts, sums, ends, int(finite.sum()))


def _level_feature(
    name: str, values: Values, top_levels: int | None, has_constant: bool
) -> LevelFeature:
    counts = values.counts
    n = f"more than {_MOST_COUNTED:,}" if counts is None else f"{len(counts):,}"
    most = MOST_LEVELS if top_levels is None else top_levels
    if counts is None or (top_levels is None and len(counts) > most):
        keep = (
            f"Keep the most frequent ones and call the rest {OTHER!r} (--top-levels N, "
            "top_levels=N), or leave"
        )
        raise ParameterError(
            f"feature {name!r} is text with {n} levels, and each would be a coefficient; expected "
            f"at most {MOST_LEVELS}. {'Leave' if counts is None else keep} the feature out"
        )
    if len(counts) < 2:
        raise ParameterError(
            f"feature {name!r} is text and has {'only the level ' if counts else 'no value'}"
            f"{', '.join(map(repr, counts))}: leave it out"
        )
    levels = [level for level in counts if level != OTHER or len(counts) <= most]
    other = None
    if len(counts) > most:
        levels = sorted(levels, key=lambda level: (-counts[level], level))[:most]
        other = OTHER
    ordered = [levels[i] for i in sorted_order(levels)] + [OTHER] * (other is not None)
    return LevelFeature(name, ordered, ordered[0] if has_constant else None, other)
