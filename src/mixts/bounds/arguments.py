"""What every bound checks of its arguments."""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np

from mixts import _checks
from mixts._typing import Array, ArrayLike, Float
from mixts.bounds.terms import BoundTerms
from mixts.errors import ParameterError

Form = Literal["statement", "appendix"]
"""Where a bound is read: in the theorem's statement, or at the end of its proof."""


def rounds(n: ArrayLike) -> Float[Array, "..."]:
    """Numbers of rounds or episodes, one or any array of them, for a curve."""
    expected = "n must be a number of rounds or episodes, or an array of them, at least 1"
    array = _checks.numbers(n, expected, ParameterError)
    good = np.isfinite(array) & (array >= 1)
    if np.asarray(n).dtype.kind == "b" or not good.all():
        bad = n if array.ndim == 0 else array[~good][:1]
        raise ParameterError(f"{expected}, got {bad}")
    return array


def at_least_zero(value: Any, name: str) -> float:
    """A number that may be zero."""
    array = _checks.numbers(value, f"{name} must be a number", ParameterError)
    if array.ndim != 0 or not 0 <= array < np.inf:
        raise ParameterError(f"{name} must be a finite number, at least 0, got {value!r}")
    return float(array)


def as_given(terms: BoundTerms) -> BoundTerms:
    """Plain numbers where n was one."""
    return BoundTerms(*map(plain, terms))


def plain(value: Any) -> Any:
    """A plain number where nothing that was given is an array."""
    return float(value) if np.ndim(value) == 0 else value


def form(value: Any) -> Form:
    """One of the two forms."""
    if value not in get_args(Form):
        raise ParameterError(f'form must be "statement" or "appendix", got {value!r}')
    return value
