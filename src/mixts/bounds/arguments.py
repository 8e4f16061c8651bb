"""What every bound checks of its arguments."""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np

from mixts import checks
from mixts.errors import ParameterError
from mixts.typing import Array, ArrayLike, Float

Form = Literal["statement", "appendix"]
"""Where a bound is read: in the theorem's statement, or at the end of its proof."""


def rounds(n: ArrayLike) -> Float[Array, "..."]:
    """Numbers of rounds or episodes, one or any array of them, for a curve."""
    expected = "n must be a number of rounds or episodes, or an array of them, at least 1"
    array = checks.numbers(n, expected, ParameterError)
    good = np.isfinite(array) & (array >= 1)
    if np.asarray(n).dtype.kind == "b" or not good.all():
        bad = n if array.ndim == 0 else array[~good][:1]
        raise ParameterError(f"{expected}, got {bad}")
    return array


def form(value: Any) -> Form:
    """One of the two forms."""
    if value not in get_args(Form):
        raise ParameterError(f'form must be "statement" or "appendix", got {value!r}')
    return value
