"""Decisions and rewards over time: the bins of the charts, and the charts of rates and means."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from mixts.pages import charts, formats
from mixts.pages.charts import Chart, Scale, Slot
from mixts.service.dashboard.source import StoreReader
from mixts.service.records import Activity

_STORE_BIN_SECONDS = 10
"""The store counts decisions and rewards in bins of this length."""
_RECENT_SECONDS = 60
_ENOUGH_OPERATIONS = 10
"""The current rate is measured over the last complete bin and the unfinished one. If they hold
fewer operations than this, it is measured over the last minute."""

_TABLE_ROWS = 12
_DECISIONS_STYLE, _REWARDS_STYLE = "c0", "c5 dashed"
"""Classes in the style sheet of the two lines."""
_LONGEST_UNDATED_BIN = 600
"""Seconds. Charts with longer bins cover a day or more, so their labels include the date."""


@dataclass(frozen=True)
class Span:
    """Period that a chart covers, and the length of its bins."""

    seconds: int
    bin_seconds: int
    label: str
    """Text of the button that selects the span."""
    words: str
    """The span as part of a sentence."""


SPANS = {
    "quarter": Span(900, 10, "15 min", "the last 15 minutes"),
    "hour": Span(3600, 30, "1 hour", "the last hour"),
    "day": Span(86400, 900, "1 day", "the last day"),
    "week": Span(7 * 86400, 7200, "7 days", "the last 7 days"),
    "month": Span(30 * 86400, 8 * 3600, "30 days", "the last 30 days"),
}
"""Spans by the name in the address; bins are multiples of the store's ten seconds."""


@dataclass(frozen=True)
class Bin:
    """Number of decisions and rewards within some seconds."""

    start: float
    seconds: float
    decisions: int = 0
    rewards: int = 0
    reward_sum: float = 0.0
    late: int = 0

    @property
    def end(self) -> float:
        return self.start + self.seconds

    @property
    def decision_rate(self) -> float:
        return self.decisions / self.seconds

    @property
    def reward_rate(self) -> float:
        return self.rewards / self.seconds

    @property
    def mean_reward(self) -> float | None:
        return self.reward_sum / self.rewards if self.rewards else None


def merge_bins(bins: Sequence[Bin]) -> Bin:
    """Merge consecutive bins into one."""
    return Bin(
        bins[0].start,
        bins[-1].end - bins[0].start,
        sum(bin_.decisions for bin_ in bins),
        sum(bin_.rewards for bin_ in bins),
        math.fsum(bin_.reward_sum for bin_ in bins),
        sum(bin_.late for bin_ in bins),
    )


def read_recent(store: StoreReader, now: float) -> Bin:
    """Return the latest activity: ten to twenty seconds of it, or a minute if there is little."""
    size = _STORE_BIN_SECONDS
    last = size * math.floor(now / size)
    since = last - _RECENT_SECONDS
    n_complete = _RECENT_SECONDS // size
    *complete, unfinished = _fill_gaps(store.activity(since, size), since, n_complete + 1, size)
    unfinished = replace(unfinished, seconds=now - last)
    latest = merge_bins((complete[-1], unfinished))
    if latest.decisions + latest.rewards >= _ENOUGH_OPERATIONS:
        return latest
    return merge_bins((*complete, unfinished))


def read_bins(store: StoreReader, span: Span, now: float) -> tuple[Bin, ...]:
    """Return the bins of a span; the last one is unfinished."""
    size = span.bin_seconds
    last = size * math.floor(now / size)
    n = span.seconds // size
    since = last - n * size
    bins = _fill_gaps(store.activity(since, size), since, n + 1, size)
    return (*bins[:-1], replace(bins[-1], seconds=now - last))


def drawn_bins(bins: tuple[Bin, ...]) -> tuple[Bin, ...]:
    """Return the bins of a chart: the unfinished one is among them once half of it has passed."""
    return bins if bins[-1].seconds >= bins[0].seconds / 2 else bins[:-1]


def _fill_gaps(rows: list[Activity], since: float, n: int, size: int) -> tuple[Bin, ...]:
    """Return ``n`` consecutive bins; the store has no rows for bins without activity."""
    bins = [Bin(since + i * size, size) for i in range(n)]
    for row in rows:
        i = round((row.start - since) / size)
        if 0 <= i < n:
            bins[i] = Bin(bins[i].start, size, row.decisions, row.rewards, row.reward_sum, row.late)
    return tuple(bins)


def table_rows(bins: tuple[Bin, ...]) -> list[Bin]:
    """Merge bins into a dozen rows, newest first: screen readers read the table aloud."""
    size = math.ceil(len(bins) / _TABLE_ROWS)
    starts = range(len(bins) % size, len(bins), size)
    return [merge_bins(bins[start : start + size]) for start in reversed(starts)]


# -- charts ---------------------------------------------------------------------------------------


def rate_chart(bins: Sequence[Bin]) -> Chart:
    """Draw decisions and rewards per second (or minute, or hour) over time."""
    fastest = max(max(bin_.decision_rate, bin_.reward_rate) for bin_ in bins)
    unit = formats.rate_unit(fastest)
    series: dict[str, tuple[str, Callable[[Bin], float]]] = {
        "decisions": (_DECISIONS_STYLE, lambda bin_: bin_.decision_rate * unit.seconds),
        "rewards": (_REWARDS_STYLE, lambda bin_: bin_.reward_rate * unit.seconds),
    }
    x = charts.time_scale(bins[0].start, bins[-1].end)
    y = charts.number_scale([fastest * unit.seconds], zero=True)
    lines, labels, words = [], [], []
    for name, (style, rate) in series.items():
        values = [rate(bin_) for bin_ in bins]
        lines.append(charts.line(style, list(zip(map(_middle, bins), values, strict=True)), x, y))
        labels.append((name, y.height(values[-1]), style))
        words.append(f"{name.capitalize()}: {_range_in_words(values)}.")
    return Chart(
        title=f"Decisions and rewards {unit.name}",
        description=f"{_between(bins)}, {unit.name}. {' '.join(words)}",
        lines=tuple(lines),
        labels=charts.labels(labels),
        x_ticks=x.ticks,
        y_ticks=y.ticks,
        slots=_slots(
            bins,
            x,
            lambda bin_: (
                f"{formats.number(bin_.decision_rate * unit.seconds)} decisions, "
                f"{formats.number(bin_.reward_rate * unit.seconds)} rewards {unit.name}"
            ),
        ),
    )


def reward_chart(bins: Sequence[Bin], mean: float) -> Chart:
    """Draw the mean reward over time, and the mean of all rewards as a reference line."""
    values = [bin_.mean_reward for bin_ in bins]
    known = [value for value in values if value is not None]
    x = charts.time_scale(bins[0].start, bins[-1].end)
    y = charts.number_scale(known)
    points = list(zip(map(_middle, bins), values, strict=True))
    return Chart(
        title="Mean reward",
        description=(
            f"{_between(bins)}: {_range_in_words(known)}. Mean of all: {formats.number(mean)}."
        ),
        lines=(charts.line(_DECISIONS_STYLE, points, x, y),),
        labels=charts.labels([(f"mean {formats.number(mean)}", y.height(mean), "reference")]),
        x_ticks=x.ticks,
        y_ticks=y.ticks,
        slots=_slots(bins, x, _reward_in_words),
        reference=y.height(mean),
    )


def _slots(bins: Sequence[Bin], x: Scale, words: Callable[[Bin], str]) -> tuple[Slot, ...]:
    """Return the texts that a chart shows when the pointer is over a bin."""
    size = bins[0].seconds
    slots = []
    for bin_ in bins:
        left, right = x.place(bin_.start), x.place(bin_.end)
        time = charts.time_label(bin_.start, size)
        if size > _LONGEST_UNDATED_BIN and ":" in time:
            time = f"{formats.day(bin_.start)}, {time}"
        slots.append(Slot(left, round(right - left, 2), f"{time}: {words(bin_)}"))
    return tuple(slots)


def _middle(bin_: Bin) -> float:
    return bin_.start + bin_.seconds / 2


# -- words ----------------------------------------------------------------------------------------


def rate_words(per_second: float) -> tuple[str, str]:
    """Return a rate as text, and its unit."""
    unit = formats.rate_unit(per_second)
    return formats.number(per_second * unit.seconds), unit.name


def _between(bins: Sequence[Bin]) -> str:
    return f"From {formats.moment(bins[0].start)} to {formats.moment(bins[-1].end)} UTC"


def _range_in_words(values: Sequence[float]) -> str:
    low, high, last = (formats.number(value) for value in (min(values), max(values), values[-1]))
    return f"between {low} and {high}, last {last}"


def _reward_in_words(bin_: Bin) -> str:
    if bin_.mean_reward is None:
        return "no rewards"
    return (
        f"{formats.number(bin_.mean_reward)}, the mean of {formats.plural(bin_.rewards, 'reward')}"
        f"; {formats.plural(bin_.decisions, 'decision')}"
    )
