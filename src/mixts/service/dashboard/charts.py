"""Charts as places: numbers in, percent of the drawing out; templates only write them down.

Every chart is as wide as its page: places are in percent, and text keeps its size. Lines and bands
are in a box of 100 by 100 units that is stretched, with strokes that are not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mixts._spacing import spread
from mixts.service.dashboard import wording
from mixts.service.dashboard.overview import Bin
from mixts.service.dashboard.scales import Scale, Tick, number_scale, time_label, time_scale

FIRST, SECOND = "c0", "c5 dashed"
"""The looks of lines, as classes of the style sheet: colours of kinds, and dashes."""
LABEL_HEIGHT = 9.0
"""Of a label beside a line, in percent of a chart's height."""
_DATED = 600
"""Bins that are longer are told with their date: a chart of them is longer than a day."""


@dataclass(frozen=True)
class Label:
    """Words at the right of a chart; ``mark`` is where what they name ends."""

    text: str
    place: float
    mark: float
    look: str


@dataclass(frozen=True)
class Line:
    """A line with gaps where there is no value; a value alone between gaps is a dot."""

    look: str
    path: str
    dots: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Slot:
    """A part of the width, and what a pointer reads there."""

    x: float
    width: float
    text: str


@dataclass(frozen=True)
class LineChart:
    """Lines over time."""

    title: str
    description: str
    lines: tuple[Line, ...]
    labels: tuple[Label, ...]
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    slots: tuple[Slot, ...]
    reference: float | None = None
    """Where a line for comparison lies."""


def line(look: str, points: Sequence[tuple[float, float | None]], x: Scale, y: Scale) -> Line:
    """The line through points, from numbers to places."""
    runs: list[list[tuple[float, float]]] = [[]]
    for at, value in points:
        if value is None or not math.isfinite(value):
            runs.append([])
        else:
            runs[-1].append((x.place(at), round(100 - y.place(value), 2)))
    path = "".join(
        "M" + "L".join(f"{px:g} {py:g}" for px, py in run) for run in runs if len(run) > 1
    )
    return Line(look, path, tuple(run[0] for run in runs if len(run) == 1))


def labels(
    marks: Sequence[tuple[str, float, str]], size: float = LABEL_HEIGHT
) -> tuple[Label, ...]:
    """Labels at these heights, moved apart where they would touch; marks are text, place, look."""
    places = spread([mark for _, mark, _ in marks], [size] * len(marks), 0.0, 100.0)
    return tuple(
        Label(text, round(place, 2), mark, look)
        for (text, mark, look), place in zip(marks, places, strict=True)
    )


def rate_chart(bins: Sequence[Bin]) -> LineChart:
    """Decisions and rewards a second (or a minute, or an hour), over time."""
    fastest = max(max(one.decision_rate, one.reward_rate) for one in bins)
    unit = wording.rate_unit(fastest)
    series: dict[str, tuple[str, Callable[[Bin], float]]] = {
        "decisions": (FIRST, lambda one: one.decision_rate * unit.seconds),
        "rewards": (SECOND, lambda one: one.reward_rate * unit.seconds),
    }
    x = time_scale(bins[0].start, bins[-1].end)
    y = number_scale([fastest * unit.seconds], zero=True)
    lines, marks, said = [], [], []
    for name, (look, rate) in series.items():
        values = [rate(one) for one in bins]
        lines.append(line(look, list(zip(map(_middle, bins), values, strict=True)), x, y))
        marks.append((name, round(100 - y.place(values[-1]), 2), look))
        said.append(f"{name}: {_told(values)}")
    return LineChart(
        title=f"Decisions and rewards {unit.name}",
        description=f"{_between(bins)}, {unit.name}. {_sentences(said)}",
        lines=tuple(lines),
        labels=labels(marks),
        x_ticks=x.ticks,
        y_ticks=y.ticks,
        slots=_slots(
            bins,
            x,
            lambda one: (
                f"{wording.number(one.decision_rate * unit.seconds)} decisions, "
                f"{wording.number(one.reward_rate * unit.seconds)} rewards {unit.name}"
            ),
        ),
    )


def reward_chart(bins: Sequence[Bin], mean: float) -> LineChart:
    """The mean of the rewards that came, over time, beside the mean of them all."""
    values = [one.mean_reward for one in bins]
    known = [value for value in values if value is not None]
    x = time_scale(bins[0].start, bins[-1].end)
    y = number_scale(known)
    points = list(zip(map(_middle, bins), values, strict=True))
    level = round(100 - y.place(mean), 2)
    return LineChart(
        title="Mean reward",
        description=f"{_between(bins)}: {_told(known)}. Over all of it: {wording.number(mean)}.",
        lines=(line(FIRST, points, x, y),),
        labels=labels([(f"mean {wording.number(mean)}", level, "reference")]),
        x_ticks=x.ticks,
        y_ticks=y.ticks,
        slots=_slots(bins, x, _reward_words),
        reference=level,
    )


def _reward_words(one: Bin) -> str:
    if one.mean_reward is None:
        return "no rewards"
    word = "reward" if one.rewards == 1 else "rewards"
    return f"{wording.number(one.mean_reward)}, the mean of {wording.count(one.rewards)} {word}"


def _slots(bins: Sequence[Bin], x: Scale, words: Callable[[Bin], str]) -> tuple[Slot, ...]:
    size = bins[0].seconds
    found = []
    for one in bins:
        left, right = x.place(one.start), x.place(one.end)
        when = time_label(one.start, size)
        if size > _DATED and ":" in when:
            when = f"{wording.day(one.start)}, {when}"
        text = f"{when}: {words(one)}"
        found.append(Slot(left, round(right - left, 2), text))
    return tuple(found)


def _middle(one: Bin) -> float:
    return one.start + one.seconds / 2


def _between(bins: Sequence[Bin]) -> str:
    return f"From {wording.moment(bins[0].start)} to {wording.moment(bins[-1].end)} UTC"


def _told(values: Sequence[float]) -> str:
    """A series in words."""
    low, high, last = (wording.number(value) for value in (min(values), max(values), values[-1]))
    return f"between {low} and {high}, last {last}"


def _sentences(parts: Sequence[str]) -> str:
    return " ".join(f"{part[0].upper()}{part[1:]}." for part in parts)
