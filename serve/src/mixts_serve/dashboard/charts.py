"""Charts of pages that are brought up to date: SVG that needs no script.

Functions here turn numbers into positions in percent of the drawing; ``charts.html.jinja`` writes
them down. A chart is as wide as its page and its text keeps its size: lines and bands are drawn in
a box of 100 by 100 units that is stretched, with strokes that are not.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mixts.pages import formats, position, spread

N_COLOURS = 8
"""Colours of the style sheet that readers can tell apart."""
REST = "rest"
"""Look of all kinds that have no colour of their own."""
LONGEST_LABEL = 15
"""Characters that there is room for beside a chart."""
LABEL_HEIGHT = 9.0
"""Height of a label beside a line, in percent of a chart's height."""
_TIME_STEPS = (
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200,
    86400, 172800, 432000, 864000, 1728000, 4320000, 8640000,
)  # fmt: skip
"""Round numbers of seconds, up to a hundred days."""
_DAY = 86400
_LONGEST_UNDATED_BIN = 600
"""Seconds. Charts with longer bins cover a day or more, so their labels include the date."""
_LEAST_LABELLED = 0.05
"""Share from which on a band has a label."""
_LARGEST = 1e300
"""Differences of larger numbers could overflow."""


# -- axes -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tick:
    """A labelled position on an axis, in percent."""

    place: float
    label: str


@dataclass(frozen=True)
class Scale:
    """Linear map from numbers to percent of an axis: ``low`` is at 0 and ``high`` at 100."""

    low: float
    high: float
    ticks: tuple[Tick, ...] = ()

    def place(self, value: float) -> float:
        """Return the position of a value; values beyond the ends are placed at the ends."""
        return position(value, self.low, self.high)

    def height(self, value: float) -> float:
        """Return the position of a value on an upright axis, from the top down as SVG counts."""
        return round(100 - self.place(value), 2)


def number_scale(values: Sequence[float], most: int = 4, *, zero: bool = False) -> Scale:
    """Return a scale that covers values, from tick to tick.

    Parameters
    ----------
    values
        Numbers to cover; those that are not finite are ignored.
    most
        About how many steps there are. A step is 1, 2 or 5 times a power of ten.
    zero
        Whether to cover zero too.
    """
    finite = [min(max(value, -_LARGEST), _LARGEST) for value in values if math.isfinite(value)]
    low, high = min(finite, default=0.0), max(finite, default=1.0)
    if zero:
        low, high = min(low, 0.0), max(high, 0.0)
    if high - low <= 1e-6 * max(abs(low), abs(high)):
        # All values are nearly equal: leave room around them in proportion to their size.
        room = abs(high) / 2 or 1.0
        low, high = low - (0.0 if zero else room), high + room
    step = _round_step((high - low) / most)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    bare = Scale(first * step, last * step)
    ticks = [Tick(bare.place(i * step), _label(i * step, step)) for i in range(first, last + 1)]
    return Scale(bare.low, bare.high, tuple(ticks))


def time_scale(start: float, end: float, most: int = 5) -> Scale:
    """Return a scale between two moments, with at most ``most`` round times as ticks."""
    step = next((step for step in _TIME_STEPS if (end - start) / step <= most), _TIME_STEPS[-1])
    first, last = math.ceil(start / step), math.floor(end / step)
    bare = Scale(start, end)
    ticks = [Tick(bare.place(i * step), time_label(i * step, step)) for i in range(first, last + 1)]
    return Scale(start, end, tuple(ticks))


def time_label(at: float, step: float) -> str:
    """Return a time among others ``step`` seconds apart: the day, or the time of day."""
    if at % _DAY == 0:
        return formats.day(at)
    return formats.clock(at) if step < 60 else formats.minute(at)


def bin_label(start: float, size: float) -> str:
    """Return the begin of a bin, with the day if the chart covers more than one."""
    time = time_label(start, size)
    dated = size > _LONGEST_UNDATED_BIN and ":" in time
    return f"{formats.day(start)}, {time}" if dated else time


def count_scale(first: int, last: int, most: int = 5) -> Scale:
    """Return a scale of whole numbers with slots of equal width."""
    width = last - first + 1
    step = max(1, round(_round_step(width / most)))
    bare = Scale(first, last + 1)
    numbers = range(step * math.ceil(first / step), last + 1, step)
    return Scale(
        first, last + 1, tuple(Tick(bare.place(n + 0.5), formats.count(n)) for n in numbers)
    )


def _round_step(least: float) -> float:
    """Return the smallest of 1, 2 and 5 times a power of ten that is at least ``least``."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(m * power for m in (1, 2, 5, 10) if m * power >= least * (1 - 1e-9))


def _label(value: float, step: float) -> str:
    """Return a number with as many digits as tell it from the next tick."""
    size = max(abs(value), step)
    if size >= 1e6 or step < 1e-5:
        digits = max(3, math.ceil(math.log10(size / step)) + 1)
        text = f"{value:.{digits}g}"
    else:
        decimals = max(0, -math.floor(math.log10(step) + 1e-9))
        text = f"{value + 0.0:,.{decimals}f}"
    return formats.signed(text)


SHARE_TICKS = tuple(Tick(float(at), f"{at} %") for at in (0, 50, 100))
"""Ticks of an upright axis for shares."""


# -- lines, bands and labels ----------------------------------------------------------------------


@dataclass(frozen=True)
class Line:
    """A line with gaps where there is no value; a value alone between gaps is a dot."""

    look: str
    path: str
    dots: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Band:
    """An area from the top of a share down to the bottom; later bands lie on top of it."""

    look: str
    path: str


@dataclass(frozen=True)
class Label:
    """Words at the right of a chart; ``mark`` is the height of the end of the line they name."""

    text: str
    place: float
    mark: float
    look: str


@dataclass(frozen=True)
class Slot:
    """A part of the width, with the text that a pointer shows there."""

    x: float
    width: float
    text: str


@dataclass(frozen=True)
class Chart:
    """Lines or bands over a common axis, with a description for readers who cannot see them."""

    title: str
    description: str
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    labels: tuple[Label, ...]
    slots: tuple[Slot, ...]
    lines: tuple[Line, ...] = ()
    bands: tuple[Band, ...] = ()
    reference: float | None = None
    """Height of a level line for comparison."""
    shade: float | None = None
    """Place from which on the chart is shaded: what is there is not known yet."""


def line(look: str, points: Sequence[tuple[float, float | None]], x: Scale, y: Scale) -> Line:
    """Return the line through points on two scales."""
    runs: list[list[tuple[float, float]]] = [[]]
    for at, value in points:
        if value is None or not math.isfinite(value):
            runs.append([])
        else:
            runs[-1].append((x.place(at), y.height(value)))
    path = "".join(
        "M" + "L".join(f"{px:g} {py:g}" for px, py in run) for run in runs if len(run) > 1
    )
    return Line(look, path, tuple(run[0] for run in runs if len(run) == 1))


def staircase(tops: Sequence[float], first: int, x: Scale) -> str:
    """Return the path of the area below a staircase with a step for each whole number."""
    heights = [round(100 - max(top, 0.0), 1) for top in tops]
    path = f"M{x.place(first):g} 100V{heights[0]:g}"
    for i, (before, after) in enumerate(itertools.pairwise(heights)):
        if after != before:
            path += f"H{x.place(first + i + 1):g}V{after:g}"
    return f"{path}H{x.place(first + len(heights)):g}V100Z"


def labels(
    marks: Sequence[tuple[str, float, str]], size: float = LABEL_HEIGHT
) -> tuple[Label, ...]:
    """Return labels moved apart where they would touch; marks are (text, height, look).

    Long names are shortened so that they can be told apart.
    """
    texts = formats.short_names([text for text, _, _ in marks], LONGEST_LABEL)
    places = spread([mark for _, mark, _ in marks], [size] * len(marks), 0.0, 100.0)
    return tuple(
        Label(text, round(place, 2), mark, look)
        for (_, mark, look), text, place in zip(marks, texts, places, strict=True)
    )


def stacked(
    shares: Mapping[str, Sequence[float]], totals: Sequence[float], first: int, x: Scale
) -> list[Band]:
    """Return bands of shares, by their looks from the top down, then one for the rest.

    ``totals`` are 1, or 0 where there is nothing to share.
    """
    tops, found = [100 * total for total in totals], []
    for look, own in shares.items():
        found.append(Band(look, staircase(tops, first, x)))
        tops = [top - 100 * share for top, share in zip(tops, own, strict=True)]
    if max(tops) > 1e-6:
        found.append(Band(REST, staircase(tops, first, x)))
    return found


def stacked_labels(parts: Sequence[tuple[str, float, str]], rest: str) -> tuple[Label, ...]:
    """Return labels beside bands that are high enough; parts are (text, share, look)."""
    marks, top = [], 0.0
    for text, share, look in (*parts, (rest, 1 - sum(share for _, share, _ in parts), REST)):
        if share >= _LEAST_LABELLED:
            marks.append((text, round(100 * (top + share / 2), 2), look))
        top += share
    return labels(marks)


# -- colours --------------------------------------------------------------------------------------


def colour(component: int) -> int:
    """Return the number of a component's colour where it stands alone."""
    return component % N_COLOURS


def colours(components: Sequence[int]) -> dict[int, int]:
    """Return the colours of components side by side: their own, or else the next free one."""
    taken: dict[int, int] = {}
    for component in sorted(components):
        own = [(colour(component) + step) % N_COLOURS for step in range(N_COLOURS)]
        taken[component] = next((c for c in own if c not in taken.values()), own[0])
    return taken
