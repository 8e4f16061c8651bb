"""Times of rows: numbers or dates, and the first and last time of each task."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np

from mixts._typing import Array, Bool, Float, Int
from mixts.errors import ParameterError
from mixts.logs.files import pyarrow

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def moments(
    column: Any,
) -> tuple[Float[Array, " m"], Bool[Array, " m"], Bool[Array, " m"], Bool[Array, " m"]]:
    """Return the times of a column; which are missing, neither numbers nor dates, and dates.

    Numbers stay as they are. Dates become microseconds since 1970, which float64 holds exactly;
    those without a time zone are in UTC. Texts are numbers, or dates as in ISO 8601. Other entries
    are NaN.
    """
    arrow = pyarrow()
    types, kind = arrow.types, column.type
    if types.is_dictionary(kind):
        column = column.cast(kind.value_type)
        kind = column.type
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        values = _floats(column.cast(arrow.float64(), safe=False))
        return values, np.isnan(values), np.zeros(len(values), bool), np.zeros(len(values), bool)
    if types.is_date(kind) or types.is_timestamp(kind):
        zone = getattr(kind, "tz", None)
        exact = column.cast(arrow.timestamp("us", zone), safe=False).cast(arrow.int64())
        values = _floats(exact.cast(arrow.float64(), safe=False))
        return values, np.isnan(values), np.zeros(len(values), bool), ~np.isnan(values)
    if types.is_string(kind) or types.is_large_string(kind) or types.is_null(kind):
        return _parsed(column)
    raise ParameterError(f"the column of the time must have numbers or dates, got {kind}")


def _floats(column: Any) -> Float[Array, " m"]:
    return np.array(column.fill_null(float("nan")).to_numpy(zero_copy_only=False))


def _parsed(
    column: Any,
) -> tuple[Float[Array, " m"], Bool[Array, " m"], Bool[Array, " m"], Bool[Array, " m"]]:
    coded = column.dictionary_encode()
    texts = [(text or "").strip() for text in coded.dictionary.to_pylist()]
    found = [_parsed_text(text) for text in texts]
    # The last entry stands for null.
    values = np.array([*(value for value, _ in found), np.nan])
    dates = np.array([*(is_date for _, is_date in found), False])
    empty = np.array([*(text.lower() in ("", "nan") for text in texts), True])
    codes = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    return values[codes], empty[codes], (np.isnan(values) & ~empty)[codes], dates[codes]


def _parsed_text(text: str) -> tuple[float, bool]:
    """Return the time that a text stands for, NaN if none, and whether it is a date."""
    try:
        return float(text), False
    except ValueError:
        pass
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return np.nan, False
    return microseconds(found), True


def microseconds(moment: datetime) -> float:
    """Return the microseconds since 1970; a date without a time zone is in UTC."""
    zoned = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return float((zoned - _EPOCH) // _MICROSECOND)


def time_text(value: float, dates: bool) -> str:
    """Return a time as sentences show it."""
    if not dates:
        return f"{value:,.0f}" if value == int(value) else f"{value:g}"
    found = _EPOCH + int(value) * _MICROSECOND
    midnight = found.time() == datetime.min.time()
    return date.isoformat(found.date()) if midnight else found.strftime("%Y-%m-%d %H:%M:%S")


class TaskTimes:
    """First and last time of each task, which grows by rows or by merging."""

    def __init__(self) -> None:
        self.first: Float[Array, " n"] = np.empty(0)
        self.last: Float[Array, " n"] = np.empty(0)
        self.n_dates = 0
        self.n_numbers = 0

    def add(self, tasks: Int[Array, " m"], times: Float[Array, " m"], n_dates: int) -> None:
        """Note the times of rows, and how many of them are dates."""
        self._note(tasks, times, times)
        self.n_dates += n_dates
        self.n_numbers += len(times) - n_dates

    def merge(self, other: TaskTimes, tasks: Int[Array, " n"]) -> None:
        """Note the times of other tasks, whose indices here are given."""
        self._note(tasks, other.first, other.last)
        self.n_dates += other.n_dates
        self.n_numbers += other.n_numbers

    def _note(
        self, tasks: Int[Array, " m"], first: Float[Array, " m"], last: Float[Array, " m"]
    ) -> None:
        more = max(0, int(np.max(tasks, initial=-1)) + 1 - len(self.first))
        if more:
            more = max(more, len(self.first))  # at least twice as much as before
            self.first = np.concatenate([self.first, np.full(more, np.inf)])
            self.last = np.concatenate([self.last, np.full(more, -np.inf)])
        np.minimum.at(self.first, tasks, first)
        np.maximum.at(self.last, tasks, last)

    def ordered(self, tasks: Int[Array, " n"]) -> TaskTimes:
        """Return the times of these tasks, in their order."""
        found = TaskTimes()
        found.first, found.last = self.first[tasks], self.last[tasks]
        found.n_dates, found.n_numbers = self.n_dates, self.n_numbers
        return found
