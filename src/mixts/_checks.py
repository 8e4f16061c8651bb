"""Checks of arguments. Messages name what was expected, the value received, and a remedy.

Functions that return an array or a number convert the argument; the others only raise.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from mixts._typing import Array, ArrayLike
from mixts.errors import (
    CovarianceError,
    MaskError,
    MixtsError,
    ParameterError,
    TaskError,
    WeightsError,
)

SUM_TOLERANCE = 1e-9
"""Largest allowed distance of a sum of weights from one."""

PSD_TOLERANCE = 1e-10
"""Largest asymmetry, and largest negative eigenvalue, that count as rounding errors, relative to
the largest entry of the matrix."""


LARGEST_PARAMETER = 1e75
"""Largest mean, count or rate of a prior: rewards beyond it are refused, too."""


MOST_SHOWN = 20
"""Names that a message lists."""


def some_names(names: Sequence[str], *, quote: bool = True) -> str:
    """Return the first names as text, and how many more there are."""
    shown = ", ".join(map(repr if quote else str, names[:MOST_SHOWN]))
    more = len(names) - MOST_SHOWN
    return shown + (f" and {more:,} more" if more > 0 else "")


def known_options(given: Iterable[str], known: Iterable[str]) -> None:
    """Raise ``TypeError`` for the first name that is no option, and list the options."""
    options = tuple(known)
    for name in given:
        if name not in options:
            raise TypeError(f"unknown option {name!r}; options: {', '.join(options)}")


def parameter_array(
    value: ArrayLike, name: str, n_dims: int, largest: float = LARGEST_PARAMETER
) -> Array:
    """Return a ``real_array`` of a prior's parameters, which are small enough to compute with."""
    array = real_array(value, name, n_dims)
    bad = np.abs(array) > largest
    if bad.any():
        where = tuple(int(i) for i in np.argwhere(bad)[0])
        raise ParameterError(
            f"{name} must be numbers up to {largest:g} in size, got {array[where]:g} at index "
            f"{where}: larger ones are too large to compute with"
        )
    return array


def real_array(value: ArrayLike, name: str, n_dims: int) -> Array:
    """Return a finite, read-only float array of ``n_dims`` axes; always a copy."""
    array = np.array(numbers(value, f"{name} must be an array of numbers", ParameterError))
    if array.ndim != n_dims:
        raise ParameterError(
            f"{name} must have {n_dims} axes (components first), got shape {array.shape}"
        )
    if array.size == 0:
        raise ParameterError(f"{name} is empty: shape {array.shape}")
    if not np.isfinite(array).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise ParameterError(f"{name} must be finite, got {array[where]} at index {where}")
    array.flags.writeable = False
    return array


def numbers(value: Any, expected: str, error: type[MixtsError]) -> Array:
    """Return the value as a float array, or raise an error whose message begins with ``expected``.

    The array is writable and contiguous, as the compiled core needs it.
    """
    array = _array(value, expected, error)
    if array.dtype == np.float64:
        return array if array.flags.carray else array.copy()
    if array.dtype.kind not in "fiub":
        raise error(f"{expected}, got type {array.dtype}")
    return array.astype(float, order="C")


def integers(value: Any, expected: str, error: type[MixtsError]) -> Array:
    """Return the value as an array of 64-bit integers, otherwise like :func:`numbers`."""
    array = _array(value, expected, error)
    if array.dtype == np.int64:
        return array if array.flags.carray else array.copy()
    if array.dtype.kind not in "iu" and array.size:
        raise error(f"{expected}, got type {array.dtype}")
    return array.astype(np.int64, order="C")


def _array(value: Any, expected: str, error: type[MixtsError]) -> Array:
    try:
        return np.asarray(value)
    except (TypeError, ValueError) as reason:
        raise error(f"{expected}: {reason}") from reason


def positive(array: Array, name: str, *, zero: bool = False) -> None:
    """Raise unless every entry is above zero (with ``zero``: at least zero)."""
    bad = array < 0 if zero else array <= 0
    if bad.any():
        where = tuple(int(i) for i in np.argwhere(bad)[0])
        least = "at least 0" if zero else "above 0"
        raise ParameterError(f"{name} must be {least}, got {array[where]} at index {where}")


def positive_number(value: Any, name: str) -> float:
    """Return a number above zero whose square neither underflows nor overflows."""
    try:
        number = float(value)
    except (TypeError, ValueError) as error:
        raise ParameterError(f"{name} must be a number above 0, got {value!r}") from error
    if not 1e-75 <= number <= 1e75:
        raise ParameterError(f"{name} must be a number between 1e-75 and 1e75, got {value!r}")
    return number


def count(value: Any, name: str, *, least: int = 1) -> int:
    """Return a whole number that is at least ``least``."""
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, (bool, np.bool_))
    if not whole or value < least:
        raise ParameterError(f"{name} must be a whole number, at least {least}, got {value!r}")
    return int(value)


def same_shape(first: Array, second: Array, names: str) -> None:
    """Raise unless two parameters of a family have the same shape."""
    if first.shape != second.shape:
        raise ParameterError(
            f"{names} must have the same shape, got {first.shape} and {second.shape}"
        )


def covariance_stack(covariance: Array, name: str) -> None:
    """Raise unless each matrix is symmetric and, up to rounding, positive semi-definite."""
    for index, matrix in enumerate(covariance):
        scale = float(np.abs(matrix).max())
        gap = float(np.abs(matrix - matrix.T).max())
        if gap > PSD_TOLERANCE * scale:
            raise CovarianceError(
                f"{name}[{index}] must be symmetric, but it differs from its transpose by {gap:.3g}"
            )
        smallest = float(np.linalg.eigvalsh((matrix + matrix.T) / 2)[0])
        if smallest < -PSD_TOLERANCE * scale:
            raise CovarianceError(
                f"{name}[{index}] must be positive semi-definite, but its smallest eigenvalue is "
                f"{smallest:.3g}; add at least {-smallest:.3g} to its diagonal"
            )


def weight_vector(weights: ArrayLike | None, n_components: int) -> Array:
    """Return weights that sum to one: the given ones, rescaled, or uniform weights for None."""
    if weights is None:
        array = np.full(n_components, 1.0 / n_components)
        array.flags.writeable = False
        return array
    array = np.array(numbers(weights, "weights must be numbers", WeightsError))
    if array.shape != (n_components,):
        raise WeightsError(
            f"weights must have shape ({n_components},), one for each component, got {array.shape}"
        )
    if not np.isfinite(array).all() or (array < 0).any():
        raise WeightsError(f"weights must be finite and at least 0, got {array}")
    total = float(array.sum())
    if abs(total - 1) > SUM_TOLERANCE:
        raise WeightsError(
            f"weights must sum to 1 within {SUM_TOLERANCE:g}, got {total!r}; "
            "divide them by their sum"
        )
    # Weights that already sum to one, up to rounding, stay exactly as they are.
    if abs(total - 1) > 1e-15 * n_components:
        array /= total
    array.flags.writeable = False
    return array


def distribution(array: Array, name: str) -> None:
    """Raise unless the last axis holds probabilities that sum to one."""
    positive(array, name, zero=True)
    totals = array.sum(axis=-1)
    bad = ~(np.abs(totals - 1) <= SUM_TOLERANCE)
    if bad.any():
        where = tuple(int(i) for i in np.argwhere(bad)[0])
        at = f" at index {where}" if where else ""
        raise ParameterError(
            f"{name} must be probabilities that sum to 1 within {SUM_TOLERANCE:g}, "
            f"got {totals[where]!r}{at}"
        )


def name_list(names: Sequence[str] | None, length: int, what: str) -> tuple[str, ...] | None:
    """Return the names of components or arms, which must be distinct strings; None stays None."""
    if names is None:
        return None
    plain = isinstance(names, Sequence) and not isinstance(names, str)
    if not plain or not all(isinstance(name, str) for name in names):
        raise ParameterError(f"{what} must be a sequence of strings, got {names!r}")
    if len(names) != length:
        raise ParameterError(f"{what} must have {length} entries, got {len(names)}")
    if len(set(names)) != length:
        twice = next(name for k, name in enumerate(names) if name in names[:k])
        raise ParameterError(f"{what} must be distinct, but {twice!r} occurs twice")
    return tuple(names)


def task_indices(tasks: ArrayLike, n_tasks: int) -> Array:
    """Return indices of existing tasks as a one-dimensional integer array."""
    expected = "tasks must be a one-dimensional array of integers"
    array = integers(tasks, expected, TaskError)
    if array.ndim != 1:
        raise TaskError(f"{expected}, got shape {array.shape}")
    if array.size and (array.min() < 0 or array.max() >= n_tasks):
        bad = int(array[(array < 0) | (array >= n_tasks)][0])
        raise TaskError(
            f"tasks must be between 0 and {n_tasks - 1}, got {bad}; add_tasks makes new tasks"
        )
    return np.ascontiguousarray(array)


def action_mask(mask: ArrayLike, n_rows: int, n_actions: int) -> Array:
    """Return a mask (n_rows, n_actions), true where an action is available."""
    expected = "mask must be boolean (true: available)"
    array = _array(mask, expected, MaskError)
    if not array.size:
        raise MaskError("mask is empty: at least one action must be available")
    if array.dtype != np.bool_:
        raise MaskError(f"{expected}, got type {array.dtype}")
    if array.shape not in ((n_actions,), (n_rows, n_actions)):
        raise MaskError(
            f"mask must have shape ({n_actions},) or ({n_rows}, {n_actions}), got {array.shape}"
        )
    array = np.array(np.broadcast_to(array, (n_rows, n_actions)), order="C")
    empty = ~array.any(axis=1)
    if empty.any():
        raise MaskError(
            f"mask leaves no action for decision {int(np.argmax(empty))}: at least one must be true"
        )
    return array
