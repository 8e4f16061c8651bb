"""Axes: which numbers and times stand at them, and where a value is, in percent of the axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from mixts.service.dashboard import wording

_STEPS = (
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200,
    86400, 172800, 432000, 864000, 1728000, 4320000, 8640000,
)  # fmt: skip
"""Seconds between times that people count in; up to a hundred days."""
_DAY = 86400
_LARGEST = 1e300
"""Beyond it, differences could overflow."""


@dataclass(frozen=True)
class Tick:
    """A number at an axis."""

    place: float
    """In percent of the axis."""
    label: str


@dataclass(frozen=True)
class Scale:
    """From numbers to percent of an axis: ``low`` is at 0 and ``high`` at 100."""

    low: float
    high: float
    ticks: tuple[Tick, ...] = ()

    def place(self, value: float) -> float:
        """Where a value is; beyond the ends it stays at them."""
        share = (value - self.low) / ((self.high - self.low) or 1.0)
        return round(100 * min(max(share, 0.0), 1.0), 2)


def number_scale(values: Sequence[float], most: int = 4, *, zero: bool = False) -> Scale:
    """A scale around values, from tick to tick, with about ``most`` steps; ``zero``: from zero on.

    A step is 1, 2 or 5 times a power of ten.
    """
    finite = [min(max(value, -_LARGEST), _LARGEST) for value in values if math.isfinite(value)]
    low, high = min(finite, default=0.0), max(finite, default=1.0)
    if zero:
        low, high = min(low, 0.0), max(high, 0.0)
    if high - low <= 1e-6 * max(abs(low), abs(high)):
        # As good as one value: room around it, in its own size.
        room = abs(high) / 2 or 1.0
        low, high = low - (0.0 if zero else room), high + room
    step = _nice_step((high - low) / most)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    bare = Scale(first * step, last * step)
    ticks = [Tick(bare.place(i * step), _label(i * step, step)) for i in range(first, last + 1)]
    return Scale(bare.low, bare.high, tuple(ticks))


def time_scale(start: float, end: float, most: int = 5) -> Scale:
    """From one moment to another, with at most ``most`` round times between them."""
    step = next((step for step in _STEPS if (end - start) / step <= most), _STEPS[-1])
    first, last = math.ceil(start / step), math.floor(end / step)
    bare = Scale(start, end)
    ticks = [Tick(bare.place(i * step), time_label(i * step, step)) for i in range(first, last + 1)]
    return Scale(start, end, tuple(ticks))


def time_label(at: float, step: float) -> str:
    """A time beside others that are ``step`` seconds apart: no more of it than changes."""
    if at % _DAY == 0:
        return wording.day(at)
    return wording.clock(at) if step < 60 else wording.minute(at)


def count_scale(first: int, last: int, most: int = 5) -> Scale:
    """Whole numbers, each with a slot of its own: ``first`` begins at 0, ``last`` ends at 100."""
    width = last - first + 1
    step = max(1, round(_nice_step(width / most)))
    bare = Scale(first, last + 1)
    numbers = range(step * math.ceil(first / step), last + 1, step)
    return Scale(
        first, last + 1, tuple(Tick(bare.place(n + 0.5), wording.count(n)) for n in numbers)
    )


def _nice_step(least: float) -> float:
    """The smallest of 1, 2 and 5 times a power of ten that is not below ``least``."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(m * power for m in (1, 2, 5, 10) if m * power >= least * (1 - 1e-9))


def _label(value: float, step: float) -> str:
    """A number with as many digits as tell it from the next tick."""
    size = max(abs(value), step)
    if size >= 1e6 or step < 1e-5:
        digits = max(3, math.ceil(math.log10(size / step)) + 1)
        text = f"{value:.{digits}g}"
    else:
        decimals = max(0, -math.floor(math.log10(step) + 1e-9))
        text = f"{value + 0.0:,.{decimals}f}"
    return text.replace("-", wording.MINUS)
