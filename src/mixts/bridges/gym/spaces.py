"""Numbering of the elements of gymnasium's discrete spaces."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np
from gymnasium import spaces

from mixts.errors import ObservationError, ParameterError


class Numbering:
    """Numbering of a discrete space's elements, from 0 to ``size - 1``.

    Entries of ``MultiDiscrete`` and ``Tuple`` spaces are digits of a number, the last one fastest.

    Parameters
    ----------
    space
        A ``Discrete`` or ``MultiDiscrete`` space, or a ``Tuple`` of such.
    role
        Name of the space in messages.
    """

    def __init__(self, space: spaces.Space[Any], role: str = "given") -> None:
        self.space = space
        self._role = role
        self._ranges = list(self._entries(space))
        self.size = prod(n for n, _ in self._ranges)

    def _entries(self, space: spaces.Space[Any]) -> Iterator[tuple[int, int]]:
        """Yield the number of values of each entry, and the least value."""
        if isinstance(space, spaces.Discrete):
            yield int(space.n), int(space.start)
        elif isinstance(space, spaces.MultiDiscrete):
            yield from zip(space.nvec.ravel().tolist(), space.start.ravel().tolist(), strict=True)
        elif isinstance(space, spaces.Tuple):
            for part in space.spaces:
                yield from self._entries(part)
        else:
            raise ParameterError(
                f"the {self._role} space must be discrete (Discrete, MultiDiscrete or a Tuple of "
                f"such), got {space}; a wrapper of gymnasium can divide it into cells"
            )

    def index(self, element: Any) -> int:
        """Return the number of an element."""
        number = 0
        try:
            digits = list(_digits(self.space, element))
            for (n, start), digit in zip(self._ranges, digits, strict=True):
                if not start <= digit < start + n:
                    raise ValueError
                number = number * n + digit - start
        except (TypeError, ValueError) as error:
            raise ObservationError(
                f"expected an element of the {self._role} space {self.space}, got {element!r}"
            ) from error
        return number

    def element(self, index: int) -> Any:
        """Return the element with a number."""
        if not 0 <= index < self.size:
            raise ParameterError(f"expected a number from 0 to {self.size - 1}, got {index}")
        digits = []
        for n, start in reversed(self._ranges):
            index, digit = divmod(index, n)
            digits.append(start + digit)
        return _assembled(self.space, reversed(digits))


def _digits(space: spaces.Space[Any], element: Any) -> Iterator[int]:
    if isinstance(space, spaces.Tuple):
        for part, entry in zip(space.spaces, element, strict=True):
            yield from _digits(part, entry)
    elif isinstance(space, spaces.MultiDiscrete):
        array = np.asarray(element)
        if array.shape != space.shape:
            raise ValueError
        yield from map(operator.index, array.ravel().tolist())
    else:
        yield operator.index(element)


def _assembled(space: spaces.Space[Any], digits: Iterator[int]) -> Any:
    if isinstance(space, spaces.Tuple):
        return tuple(_assembled(part, digits) for part in space.spaces)
    if isinstance(space, spaces.MultiDiscrete):
        flat = [next(digits) for _ in range(space.nvec.size)]
        return np.array(flat, space.dtype).reshape(space.shape)
    return next(digits)
