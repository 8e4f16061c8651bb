"""Columns of features: numbers that may be scaled, and levels of text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import date
from functools import cached_property
from math import isfinite
from sys import float_info
from typing import Any, ClassVar

import numpy as np

from mixts import _checks
from mixts._checks import some_names
from mixts._typing import Array, Int
from mixts.errors import ActionError, ParameterError

BEYOND = 10.0
"""A number this many times as large as any that the prior was learned from is refused: cents for
euros are 100 times too large, and a linear prior extrapolates without limit."""

LARGEST = float_info.max
"""Largest finite number."""

UNKNOWN = -2
"""Place of a text that is not a level."""
_REFERENCE = -1
"""Place of the reference level, which has no number."""


@dataclass(frozen=True)
class NumberFeature:
    """A number x, which is (x - centre) / scale in a row.

    Parameters
    ----------
    name
        Name of the feature.
    centre, scale
        Numbers to subtract and to divide by; the scale is above 0.
    learned
        Smallest and largest number that a prior was learned from, which ``mixts fit`` fills in.
        Numbers more than ten times as large as both are refused. None, the default, takes all
        numbers. Features that differ in this only are equal.

    Examples
    --------
    >>> import mixts
    >>> price = mixts.NumberFeature("price", centre=3.0, scale=0.5)
    >>> mixts.Features([price]).rows([{"price": 4.0}])
    array([[2.]])
    """

    name: str
    centre: float = 0.0
    scale: float = 1.0
    learned: tuple[float, float] | None = field(default=None, compare=False)

    kind: ClassVar[str] = "number"
    n_numbers: ClassVar[int] = 1
    """Numbers of a row."""

    def __post_init__(self) -> None:
        _check_name(self.name)
        for what in ("centre", "scale"):
            value = getattr(self, what)
            if not is_number(value) or not isfinite(value):
                raise ParameterError(
                    f"{what} of feature {self.name!r} must be a finite number, got {value!r}"
                )
            freeze(self, **{what: float(value)})
        if not 1e-75 <= self.scale <= 1e75:
            raise ParameterError(
                f"scale of feature {self.name!r} must be between 1e-75 and 1e75, got {self.scale!r}"
            )
        if self.learned is not None:
            freeze(self, learned=_checked_range(self.learned, self.name))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the numbers of a row."""
        return (self.name,)

    @property
    def expected(self) -> str:
        """Values that the feature takes, in words."""
        return "a finite number"

    @property
    def example(self) -> float:
        """A value that the feature takes."""
        return 1.0 if self.learned is None or self.largest >= 1 else self.learned[1]

    @cached_property
    def largest(self) -> float:
        """Largest size of a number that is not refused."""
        size = 0.0 if self.learned is None else max(map(abs, self.learned))
        return min(BEYOND * size, LARGEST) if size else LARGEST

    def fill(self, row: Array, value: Any, start: int = 0) -> None:
        """Write a value into its part of a row.

        Parameters
        ----------
        row
            The row, which changes.
        value
            A finite number.
        start
            Place of its number in the row.
        """
        if type(value) is not float or not -self.largest <= value <= self.largest:
            if not is_number(value) or not isfinite(value):
                raise ActionError(f"feature {self.name!r} must be {self.expected}, got {value!r}")
            if abs(value) > self.largest:
                raise self._far(value)
            value = float(value)
        row[start] = (value - self.centre) / self.scale

    def _far(self, value: float) -> ActionError:
        """Return the error for a number that is far outside the learned range."""
        assert self.learned is not None  # without a range, no number is refused
        low, high = self.learned
        return ActionError(
            f"feature {self.name!r} must be about as large as what the prior was learned from, "
            f"from {low:g} to {high:g}, got {value:g}: is it in the same unit? If it is right, "
            "learn the prior again from logs with such values"
        )

    def value(self, row: Array) -> float | None:
        """Return the value of its part of a row.

        Parameters
        ----------
        row
            The part of the row, (1,).

        Returns
        -------
        float or None
            The value; None if no value gives these numbers.
        """
        number = float(row[0] * self.scale + self.centre)
        return number if isfinite(number) else None


@dataclass(frozen=True, init=False)
class LevelFeature:
    """A text with a few levels: a row has a number for each level, 1 for the level of the action.

    Parameters
    ----------
    name
        Name of the feature.
    levels
        All levels, in the order of their numbers.
    reference
        Level without a number: the coefficients of the others say how they differ from it. A prior
        with an intercept needs one, or else the intercept and the levels say the same.
    other
        Level that stands for all texts that are not levels; by default such texts are refused.

    Examples
    --------
    >>> import mixts
    >>> brand = mixts.LevelFeature("brand", ("acme", "bolt", "other"), other="other")
    >>> brand.names
    ('brand=acme', 'brand=bolt', 'brand=other')
    >>> mixts.Features([brand]).rows([{"brand": "bolt"}, {"brand": "unheard of"}])
    array([[0., 1., 0.],
           [0., 0., 1.]])
    """

    name: str
    levels: tuple[str, ...]
    reference: str | None = None
    other: str | None = None

    kind: ClassVar[str] = "level"

    def __init__(
        self,
        name: str,
        levels: Sequence[str],
        reference: str | None = None,
        other: str | None = None,
    ) -> None:
        _check_name(name)
        what = f"levels of feature {name!r}"
        n = len(levels) if isinstance(levels, Sequence) else 0
        found = _checks.name_list(levels, n, what)
        freeze(self, name=name, levels=found, reference=reference, other=other)
        if not self.numbered:
            raise ParameterError(
                f"{what} must be at least {1 if self.reference is None else 2}, got "
                f"{list(self.levels)}: leave out a feature that never changes"
            )
        for role in ("reference", "other"):
            level = getattr(self, role)
            if level is not None and level not in self.levels:
                raise ParameterError(
                    f"{role} of feature {self.name!r} must be one of its levels, "
                    f"{some_names(self.levels)}, got {level!r}"
                )

    @cached_property
    def numbered(self) -> tuple[str, ...]:
        """Levels that have a number in a row."""
        return tuple(level for level in self.levels if level != self.reference)

    @property
    def n_numbers(self) -> int:
        """Numbers of a row."""
        return len(self.numbered)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the numbers of a row."""
        return tuple(f"{self.name}={level}" for level in self.numbered)

    @property
    def expected(self) -> str:
        """Values that the feature takes, in words."""
        return f"one of the levels {some_names(self.levels)}"

    @property
    def example(self) -> str:
        """A value that the feature takes."""
        return self.levels[0]

    @cached_property
    def _places(self) -> dict[str, int]:
        places = {level: i for i, level in enumerate(self.numbered)}
        return places if self.reference is None else {**places, self.reference: _REFERENCE}

    def places(self, levels: Sequence[str]) -> Int[Array, " n"]:
        """Return the place of each level's number in a row.

        Parameters
        ----------
        levels
            Texts.

        Returns
        -------
        array
            Place of each level, (n,): -1 for the reference, -2 for an unknown level.
        """
        unknown = UNKNOWN if self.other is None else self._places[self.other]
        return np.array([self._places.get(level, unknown) for level in levels], np.int64)

    def fill(self, row: Array, value: Any, start: int = 0) -> None:
        """Write a value into its part of a row.

        Parameters
        ----------
        row
            The row, which changes; all zeros in the part of the feature.
        value
            A level; a number stands for its text, 30 and 30.0 for "30", as in logs.
        start
            Place of its first number in the row.
        """
        text = name_of(value) if isinstance(value, str) or is_number(value) else None
        place = self._places.get(text or "")
        if place is None:
            if not text or self.other is None:
                hint = "; learn the prior again to add a level" if text else ""
                raise ActionError(
                    f"feature {self.name!r} must be {self.expected}, got {value!r}{hint}"
                )
            place = self._places[self.other]
        if place >= 0:
            row[start + place] = 1.0

    def value(self, row: Array) -> str | None:
        """Return the level of its part of a row.

        Parameters
        ----------
        row
            The part of the row, (n_numbers,).

        Returns
        -------
        str or None
            The level; None if no level gives these numbers.
        """
        ones = np.flatnonzero(row)
        if len(ones) == 0:
            return self.reference
        return self.numbered[ones[0]] if len(ones) == 1 and row[ones[0]] == 1.0 else None


Feature = NumberFeature | LevelFeature

_KINDS: dict[str, type[NumberFeature] | type[LevelFeature]] = {
    kind.kind: kind for kind in (NumberFeature, LevelFeature)
}


def column_header(column: Feature) -> dict[str, Any]:
    """Return a column as plain values."""
    values = {f.name: plain(getattr(column, f.name)) for f in fields(column)}
    if values.get("learned", 0) is None:  # a file has no entry for a range that is not known
        del values["learned"]
    return {"kind": column.kind, **values}


def column_of(entry: Mapping[str, Any]) -> Feature:
    """Return the column of plain values."""
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in entry.items()
    }
    kind = _KINDS.get(str(values.pop("kind", None)))
    if kind is None:
        raise ParameterError(
            f"unknown kind of feature {entry.get('kind')!r}; known: {sorted(_KINDS)}"
        )
    return kind(**values)


def name_of(value: Any) -> str:
    """Return the text by which files and requests name a value: 1, 1.0 and "1" share a name.

    Parameters
    ----------
    value
        A text, a number or a date.

    Returns
    -------
    str
        The name. Dates are written as in ISO 8601. Numbers that are not finite have no name: "".

    Examples
    --------
    >>> from mixts.features import name_of
    >>> name_of(1.0), name_of("1.0"), name_of(True)
    ('1', '1.0', 'true')
    """
    if type(value) is str:
        return value
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        if not isfinite(value):
            return ""
        return str(int(value)) if value.is_integer() else repr(value)
    return value.isoformat() if isinstance(value, date) else str(value)


def freeze(record: object, **values: Any) -> None:
    """Set the fields of a frozen record while it is made."""
    for name, value in values.items():
        object.__setattr__(record, name, value)


def plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def is_number(value: Any) -> bool:
    return isinstance(value, (float, int, np.integer, np.floating, np.bool_))


def _checked_range(given: Any, name: str) -> tuple[float, float]:
    numbers = isinstance(given, (tuple, list)) and all(is_number(x) and isfinite(x) for x in given)
    if not numbers or len(given) != 2 or given[0] > given[1]:
        raise ParameterError(
            f"learned range of feature {name!r} must be its smallest and largest number, got "
            f"{given!r}"
        )
    return float(given[0]), float(given[1])


def _check_name(name: Any) -> None:
    if not isinstance(name, str) or not name:
        raise ParameterError(f"the name of a feature must be a text, got {name!r}")
