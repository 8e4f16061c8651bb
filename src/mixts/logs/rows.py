"""Rows of logs: columns as names, numbers and times, and bad rows counted by reason."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np

from mixts._numbers import LARGEST
from mixts._typing import Array, Bool, Float, Int
from mixts.errors import ParameterError
from mixts.features import (
    UNKNOWN,
    Feature,
    Features,
    LevelFeature,
    NumberFeature,
    Pooled,
    name_of,
)
from mixts.logs.bad_rows import (
    A_NUMBER,
    BAD_REWARD,
    N_EXAMPLES,
    NO_ARM,
    NO_REWARD,
    NO_TASK,
    NO_TIME,
    OTHER_ARM,
    UNKNOWN_LEVEL,
    BadRows,
    Example,
    of_reason,
    shortened,
)
from mixts.logs.files import RowBatch, are_numbers, pyarrow
from mixts.logs.schema import FileSchema, support, unsupported

_WHOLE = re.compile(r"-?[0-9]+")
_DIGITS = re.compile(r"([0-9]+)")
_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_NOT_FINITE = r"(?i)^[+-]?(nan|inf|infinity)$"
_TRUTH = r"(?i)^(true|false)$"


def sorted_order(names: Sequence[str]) -> list[int]:
    """Return the indices that sort names, numbers in them by size: "item 2" before "item 10"."""
    if all(_WHOLE.fullmatch(name) for name in names):
        return sorted(range(len(names)), key=lambda i: (int(names[i]), names[i]))
    return sorted(range(len(names)), key=lambda i: (_natural(names[i]), names[i]))


def _natural(name: str) -> list[str | int]:
    # Text and numbers alternate, so that equal positions have equal types.
    return [int(part) if i % 2 else part for i, part in enumerate(_DIGITS.split(name))]


def coded_names(column: Any, what: str) -> tuple[Int[Array, " m"], list[str]]:
    """Return each entry as an index into names, -1 for a missing entry, and the names.

    Names are text: the numbers 1 and 1.0 and the text "1" are the same name in every file, but the
    texts "01" and "1.0" are different names. Dates are written as in ISO 8601. Null, an empty text
    and NaN are missing.
    """
    arrow = pyarrow()
    types = arrow.types
    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = column.type
    simple = (
        types.is_string(kind) or types.is_large_string(kind) or types.is_integer(kind)
        or types.is_floating(kind) or types.is_decimal(kind) or types.is_boolean(kind)
        or types.is_date(kind) or types.is_timestamp(kind) or types.is_null(kind)
    )  # fmt: skip
    if not simple:
        raise ParameterError(
            f"the column of the {what} must have text, numbers or dates, got {kind}"
        )
    if types.is_null(kind):
        return np.full(len(column), -1), []
    coded = column.dictionary_encode()
    names = [name_of(value) for value in coded.dictionary.to_pylist()]
    codes = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    # Two values may have the same name (0.0 and -0.0), and some have none.
    first: dict[str, int] = {}
    index = [first.setdefault(name, i) if name else -1 for i, name in enumerate(names)]
    if index != list(range(len(names))):
        codes = np.array([*index, -1])[codes]
    return codes, names


def is_number(text: str) -> bool:
    """Return whether :func:`numbers` reads a text as a number, finite or not."""
    return any(re.match(known, text.strip()) for known in (_NUMBER, _NOT_FINITE, _TRUTH))


def numbers(
    column: Any, what: str
) -> tuple[Float[Array, " m"], Bool[Array, " m"], Bool[Array, " m"]]:
    """Return the numbers of a column, which entries are missing, and which are not numbers.

    "true" and "false" are 1 and 0. Null, an empty text and NaN are missing. Missing entries and
    entries that are not numbers are NaN.
    """
    arrow = pyarrow()
    types = arrow.types
    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = column.type
    if types.is_string(kind) or types.is_large_string(kind):
        return _parsed(column)
    if not are_numbers(kind):
        raise ParameterError(f"the column of the {what} must have numbers, got {kind}")
    values = _array(column.cast(arrow.float64(), safe=False))
    return values, np.isnan(values), np.zeros(len(values), bool)


def _parsed(
    column: Any,
) -> tuple[Float[Array, " m"], Bool[Array, " m"], Bool[Array, " m"]]:
    arrow = pyarrow()
    compute = arrow.compute
    if not column.null_count:
        # The common case: all entries are numbers.
        try:
            values = _array(column.cast(arrow.float64()))
        except arrow.ArrowInvalid:
            pass
        else:
            return values, np.isnan(values), np.zeros(len(values), bool)
    text = compute.utf8_trim_whitespace(column)
    text = compute.if_else(compute.equal(text, ""), None, text)
    truth = compute.match_substring_regex(text, _TRUTH)
    as_number = compute.if_else(compute.equal(compute.utf8_lower(text), "true"), "1", "0")
    text = compute.if_else(truth, as_number, text)
    good = compute.or_(
        compute.match_substring_regex(text, _NUMBER),
        compute.match_substring_regex(text, _NOT_FINITE),
    )
    values = _array(compute.if_else(good, text, None).cast(arrow.float64()))
    broken = ~good.fill_null(True).to_numpy(zero_copy_only=False)
    return values, np.isnan(values) & ~broken, broken


def _array(values: Any) -> Float[Array, " m"]:
    """Copy Arrow's numbers to an array, with NaN for nulls."""
    return np.array(values.fill_null(float("nan")).to_numpy(zero_copy_only=False), order="C")


# -- times ----------------------------------------------------------------------------------------

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
        values = _array(column.cast(arrow.float64(), safe=False))
        return values, np.isnan(values), np.zeros(len(values), bool), np.zeros(len(values), bool)
    if types.is_date(kind) or types.is_timestamp(kind):
        zone = getattr(kind, "tz", None)
        exact = column.cast(arrow.timestamp("us", zone), safe=False).cast(arrow.int64())
        values = _array(exact.cast(arrow.float64(), safe=False))
        return values, np.isnan(values), np.zeros(len(values), bool), ~np.isnan(values)
    if types.is_string(kind) or types.is_large_string(kind) or types.is_null(kind):
        return _parsed_times(column)
    raise ParameterError(f"the column of the time must have numbers or dates, got {kind}")


def _parsed_times(
    column: Any,
) -> tuple[Float[Array, " m"], Bool[Array, " m"], Bool[Array, " m"], Bool[Array, " m"]]:
    coded = column.dictionary_encode()
    texts = [(text or "").strip() for text in coded.dictionary.to_pylist()]
    found = [_parsed_time(text) for text in texts]
    # The last entry stands for null.
    values = np.array([*(value for value, _ in found), np.nan])
    dates = np.array([*(is_date for _, is_date in found), False])
    empty = np.array([*(text.lower() in ("", "nan") for text in texts), True])
    codes = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    return values[codes], empty[codes], (np.isnan(values) & ~empty)[codes], dates[codes]


def _parsed_time(text: str) -> tuple[float, bool]:
    """Return the time that a text stands for, NaN if none, and whether it is a date."""
    try:
        return float(text), False
    except ValueError:
        pass
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return np.nan, False
    zoned = found if found.tzinfo is not None else found.replace(tzinfo=UTC)
    return float((zoned - _EPOCH) // _MICROSECOND), True


def time_text(value: float, dates: bool) -> str:
    """Return a time as sentences show it."""
    if not dates:
        return f"{value:,.0f}" if value == int(value) else f"{value:g}"
    found = _EPOCH + int(value) * _MICROSECOND
    midnight = found.time() == datetime.min.time()
    return date.isoformat(found.date()) if midnight else found.strftime("%Y-%m-%d %H:%M:%S")


# -- observations ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Observations:
    """Good rows of a batch: indices into names, rewards, and features of tasks with features."""

    tasks: Int[Array, " m"]
    task_names: list[str]
    arms: Int[Array, " a"]
    """Arm of every row; empty with features."""
    arm_names: list[str]
    rewards: Float[Array, " m"]
    features: Float[Array, "m d"]
    bad: BadRows
    rows: Int[Array, " m"]
    """Number of each row in its piece."""
    missing: Bool[Array, " m"]
    """Whether each row had no reward, and got the schema's ``missing_reward``."""
    times: Float[Array, " m"]
    """Time of each row; NaN without a column of times."""
    n_dates: int
    """Number of times that are dates; the others are numbers."""


def observations(batch: RowBatch, schema: FileSchema, path: str) -> Observations:
    """Return the observations of a batch; each bad row counts for its first reason."""
    found = _Reasons(batch, os.path.basename(path))
    tasks, task_names = coded_names(batch.columns[schema.task], "task")
    found.note(NO_TASK, tasks < 0)
    arms = np.empty(0, np.int64)
    arm_names: list[str] = []
    if schema.arm is not None:
        arms, arm_names = coded_names(batch.columns[schema.arm], "arm")
        found.note(NO_ARM, arms < 0)
        if schema.arms is not None:
            listed = np.array([*(name in schema.arms for name in arm_names), False])
            found.note(OTHER_ARM, ~listed[arms], lambda i: arm_names[arms[i]])
    rewards, missing = found.numbers(schema.reward, "reward", NO_REWARD, schema.missing_reward)
    if schema.clip is not None:
        rewards = np.clip(rewards, *schema.clip)
    outside = unsupported(rewards, schema.family)
    found.note(f"{BAD_REWARD} {support(schema.family)}", outside, lambda i: f"{rewards[i]:g}")
    features = np.empty((len(batch), 0))
    if schema.space is not None:
        features = found.rows(schema.space, schema.renamed)
    if schema.space is not None:
        if schema.decimals is not None:
            features = np.round(features, schema.decimals)
        size = np.abs(features).sum(axis=1) + np.abs(rewards)
        found.note(f"features and reward beyond {LARGEST:g}", ~(size <= LARGEST))
    times, dates = found.times(schema.time)
    good = found.good if schema.before is None else found.good & (times < schema.before)
    return Observations(
        tasks[good], task_names, arms if schema.arm is None else arms[good], arm_names,
        rewards[good], features[good], found.bad, batch.rows[good], missing[good],
        times[good], int(dates[good].sum()),
    )  # fmt: skip


class _Reasons:
    """Rows of a batch that are still good, and the reasons of the others."""

    def __init__(self, batch: RowBatch, file: str) -> None:
        self._batch = batch
        self._file = file
        self.good: Bool[Array, " m"] = np.ones(len(batch), bool)
        self.bad = batch.ragged

    def note(
        self, reason: str, wrong: Bool[Array, " m"], value: Callable[[Any], Any] = lambda i: ""
    ) -> None:
        """Mark rows that were good so far as bad for a reason."""
        where = np.flatnonzero(self.good & wrong)
        if len(where):
            examples = [
                Example(self._file, self._batch.number(i), shortened(value(i)))
                for i in where[:N_EXAMPLES]
            ]
            self.bad += of_reason(reason, self._batch.count(where), examples)
            self.good[where] = False

    def numbers(
        self, name: str, what: str, missing_reason: str, instead: float | None = None
    ) -> tuple[Float[Array, " m"], Bool[Array, " m"]]:
        """Return a column of finite numbers, and which of them were missing; mark rows without one.

        A number ``instead`` replaces missing numbers.
        """
        column = self._batch.columns[name]
        values, missing, broken = numbers(column, what)
        if instead is None:
            self.note(missing_reason, missing)
        else:
            values = np.where(missing, instead, values)
        self.note(f"{what} is not {A_NUMBER}", broken, lambda i: column[int(i)])
        self.note(f"{what} is not finite", ~np.isfinite(values), lambda i: values[i])
        return values, missing

    def rows(self, space: Features, renamed: Mapping[str, str]) -> Float[Array, "m d"]:
        """Return the rows of features; mark those without a value that the features take."""
        rows = np.zeros((len(self._batch), space.n_numbers))
        rows[:, : int(space.intercept)] = 1.0
        for column, part in space.parts:
            source = renamed.get(column.name, column.name)
            if isinstance(column, NumberFeature):
                name = f"feature {column.name!r}"
                values, _ = self.numbers(source, name, f"no {name}")
                rows[:, part.start] = (values - column.centre) / column.scale
            else:
                places = self._places(column, source)
                numbered = np.flatnonzero(places >= 0)
                rows[numbered, part.start + places[numbered]] = 1.0
        if space.pooled is not None:
            rows[:, space.n_own :] = self._pooled(space.pooled, renamed)
        return rows

    def _pooled(self, pooled: Pooled, renamed: Mapping[str, str]) -> Float[Array, "m p"]:
        """Return the numbers of pooled effects; mark rows without a value that is needed.

        A fact of the person may be missing.
        """

        def filled(column: Feature, block: Float[Array, "m k"]) -> Bool[Array, " m"]:
            source, is_fact = renamed.get(column.name, column.name), column.name in pooled.person
            name = f"feature {column.name!r}"
            if isinstance(column, NumberFeature):
                if is_fact:
                    values, _, broken = numbers(self._batch.columns[source], name)
                    entries = self._batch.columns[source]
                    self.note(f"{name} is not {A_NUMBER}", broken, lambda i: entries[int(i)])
                else:
                    values, _ = self.numbers(source, name, f"no {name}")
                known = np.isfinite(values)
                block[:, 0] = np.where(known, (values - column.centre) / column.scale, 0.0)
                return known
            codes, levels = coded_names(self._batch.columns[source], name)
            places = np.array([*column.places(levels), UNKNOWN])[codes]
            known = places != UNKNOWN
            if not is_fact:
                self.note(f"{name} {UNKNOWN_LEVEL}", ~known, lambda i: levels[codes[i]])
            numbered = np.flatnonzero(places >= 0)
            block[numbered, places[numbered]] = 1.0
            return known

        return pooled.numbers(filled, len(self._batch))

    def _places(self, column: LevelFeature, source: str) -> Int[Array, " m"]:
        """Return the place of each row's level; mark rows without a known level."""
        name = f"feature {column.name!r}"
        codes, levels = coded_names(self._batch.columns[source], name)
        self.note(f"no {name}", codes < 0)
        places = np.array([*column.places(levels), UNKNOWN])[codes]
        self.note(f"{name} {UNKNOWN_LEVEL}", places == UNKNOWN, lambda i: levels[codes[i]])
        return places

    def times(self, name: str | None) -> tuple[Float[Array, " m"], Bool[Array, " m"]]:
        """Return a column of times, and which of them are dates; mark rows without a time."""
        if name is None:
            return np.full(len(self._batch), np.nan), np.zeros(len(self._batch), bool)
        column = self._batch.columns[name]
        values, missing, broken, dates = moments(column)
        self.note(NO_TIME, missing)
        self.note("time is neither a number nor a date", broken, lambda i: column[int(i)])
        self.note("time is not finite", ~np.isfinite(values), lambda i: values[i])
        return values, dates
