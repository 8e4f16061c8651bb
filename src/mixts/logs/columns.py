"""Columns of a file as names and numbers, and which of their entries are neither."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

import numpy as np

from mixts._typing import Array, Bool, Float, Int
from mixts.errors import ParameterError
from mixts.logs.pieces import pyarrow

_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_NOT_FINITE = r"(?i)^[+-]?(nan|inf|infinity)$"
_TRUTH = r"(?i)^(true|false)$"


def coded_names(column: Any, what: str) -> tuple[Int[Array, " m"], list[str]]:
    """Each entry as an index into names, -1 where there is none, and the names.

    Names are text: a number 1, a number 1.0 and the text "1" are the same name, whichever file they
    come from, but the texts "01" and "1.0" are others. Dates are written as in ISO 8601. Nothing,
    an empty text and NaN are no name.
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
    names = [_name(value) for value in coded.dictionary.to_pylist()]
    codes = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    # Two values may have one name (0.0 and -0.0), and some have none.
    first: dict[str, int] = {}
    index = [first.setdefault(name, i) if name else -1 for i, name in enumerate(names)]
    if index != list(range(len(names))):
        codes = np.array([*index, -1])[codes]
    return codes, names


def _name(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        if not np.isfinite(value):
            return ""
        return str(int(value)) if value.is_integer() else repr(value)
    if isinstance(value, (date, datetime)):
        return value.isoformat()
    return str(value)


def numbers(
    column: Any, what: str
) -> tuple[Float[Array, " m"], Bool[Array, " m"], Bool[Array, " m"]]:
    """The numbers of a column, which entries are missing, and which are there but no numbers.

    "true" and "false" are 1 and 0. What is not a number is NaN in the first.
    """
    arrow = pyarrow()
    types = arrow.types
    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = column.type
    if types.is_string(kind) or types.is_large_string(kind):
        return _parsed(column)
    if not (
        types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)
        or types.is_boolean(kind) or types.is_null(kind)
    ):  # fmt: skip
        raise ParameterError(f"the column of the {what} must have numbers, got {kind}")
    values = column.cast(arrow.float64(), safe=False)
    missing = column.is_null().to_numpy(zero_copy_only=False)
    return _array(values), missing, np.zeros(len(missing), bool)


def _parsed(
    column: Any,
) -> tuple[Float[Array, " m"], Bool[Array, " m"], Bool[Array, " m"]]:
    arrow = pyarrow()
    compute = arrow.compute
    if not column.null_count:
        # As a rule all are numbers, and this is all there is to do.
        try:
            values = _array(column.cast(arrow.float64()))
        except arrow.ArrowInvalid:
            pass
        else:
            none = np.zeros(len(values), bool)
            return values, none, none
    text = compute.utf8_trim_whitespace(column)
    text = compute.if_else(compute.equal(text, ""), None, text)
    truth = compute.match_substring_regex(text, _TRUTH)
    as_number = compute.if_else(compute.equal(compute.utf8_lower(text), "true"), "1", "0")
    text = compute.if_else(truth, as_number, text)
    good = compute.or_(
        compute.match_substring_regex(text, _NUMBER),
        compute.match_substring_regex(text, _NOT_FINITE),
    )
    values = compute.if_else(good, text, None).cast(arrow.float64())
    missing = text.is_null().to_numpy(zero_copy_only=False)
    broken = ~missing & ~good.fill_null(False).to_numpy(zero_copy_only=False)
    return _array(values), missing, broken


def _array(values: Any) -> Float[Array, " m"]:
    """Arrow's numbers as an array of our own, NaN where there are none."""
    return np.array(values.fill_null(float("nan")).to_numpy(zero_copy_only=False), order="C")
