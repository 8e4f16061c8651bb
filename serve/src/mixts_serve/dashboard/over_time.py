"""Decisions and rewards over time: the bins of the charts, and the charts of rates and means.

Rates count rewards when they arrive. Means count them when their decision was made, and only those
of decisions that are final: while windows are open, the clicks have come and the zeros have not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, replace

from mixts.pages import formats
from mixts_serve.dashboard import charts
from mixts_serve.dashboard.charts import Chart, Scale, Slot
from mixts_serve.store import DecisionStore
from mixts_serve.store.views import Activity, SpanEarnings

_STORE_BIN_SECONDS = 10
"""The store counts decisions and rewards in bins of this length."""
_RECENT_SECONDS = 60
"""The current rate is measured over the last minute."""

_FINE_DECISIONS = 20_000
"""Means of shorter bins than ten minutes are read from the log, decision by decision, if there are
at most so many."""
_COARSE_BIN = 600
_BIN_SECONDS = (10, 30, 60, 120, 300, 600, 1200, 2400, 3600, 7200, 14_400, 28_800)
"""Bins of a service that is younger than the span."""
_FEWEST_BINS, _MOST_BINS = 12, 120
_TABLE_ROWS = 12
_DECISIONS_STYLE, _REWARDS_STYLE = "c0", "c5 dashed"
"""Classes in the style sheet of the two lines."""


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
    "day": Span(86400, 1200, "1 day", "the last day"),
    "week": Span(7 * 86400, 7200, "7 days", "the last 7 days"),
    "month": Span(30 * 86400, 8 * 3600, "30 days", "the last 30 days"),
}
"""Spans by the name in the address; bins are multiples of the store's ten seconds, and those of a
day or more of its ten minutes."""


def usual_span(open_seconds: float) -> str:
    """Return the name of the span of a page that asks for none: half of it is final, or more."""
    least = max(3600, 1.9 * open_seconds)  # not 2: default rewards are a little late
    found = (name for name, one in SPANS.items() if one.seconds >= least)
    return next(found, "month")


def begun_span(span: Span, begin: float, now: float) -> Span:
    """Return the part of a span since ``begin``, the first decision, with bins that suit it."""
    if begin <= now - span.seconds:
        return span
    fitting = (size for size in _BIN_SECONDS if (now - begin) / size <= _MOST_BINS)
    size = min(next(fitting, span.bin_seconds), span.bin_seconds)
    n = max(_FEWEST_BINS, math.ceil((now - begin) / size))
    return replace(span, seconds=min(n * size, span.seconds), bin_seconds=size)


@dataclass(frozen=True)
class Bin:
    """Decisions and rewards within some seconds."""

    start: float
    seconds: float
    decisions: int = 0
    rewards: int = 0
    """Number of rewards that came then."""
    late: int = 0
    counted: int = 0
    """Number of rewards of the final decisions that were made then."""
    reward_sum: float = 0.0
    """Their sum."""

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
    def mean(self) -> float | None:
        """Mean reward of the final decisions that were made then."""
        return self.reward_sum / self.counted if self.counted else None


def merge_bins(bins: Sequence[Bin]) -> Bin:
    """Merge consecutive bins into one."""
    counts = [sum(column) for column in zip(*(astuple(one)[2:] for one in bins), strict=True)]
    return Bin(bins[0].start, bins[-1].end - bins[0].start, *counts)


@dataclass(frozen=True)
class Means:
    """Mean rewards over time, and which decisions they are of."""

    bins: tuple[Bin, ...]
    final: float
    """Decisions before this time are final; infinite if no decision waits for a default reward."""
    now: float

    @property
    def whole(self) -> Bin:
        """All bins merged into one."""
        return merge_bins(self.bins)

    @property
    def is_open(self) -> bool:
        """Whether some decisions of the period are not final."""
        return self.final < self.now

    @property
    def closes(self) -> float:
        """Time at which all decisions made until now are final."""
        return 2 * self.now - self.final


def read_recent(store: DecisionStore, now: float) -> Bin:
    """Return the activity of the last minute."""
    return merge_bins(_bins(store, _RECENT_SECONDS, _STORE_BIN_SECONDS, now))


def read_bins(store: DecisionStore, span: Span, now: float) -> tuple[Bin, ...]:
    """Return the bins of a span; the last one is unfinished."""
    return _bins(store, span.seconds, span.bin_seconds, now)


def _bins(store: DecisionStore, seconds: int, size: int, now: float) -> tuple[Bin, ...]:
    last = size * math.floor(now / size)
    n = seconds // size
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
            bins[i] = Bin(bins[i].start, size, row.decisions, row.rewards, row.late)
    return tuple(bins)


def read_means(store: DecisionStore, bins: Sequence[Bin], final: float, now: float) -> Means:
    """Return the mean rewards of decisions that were made in the period of some bins."""
    size = int(bins[0].seconds)
    if size % _COARSE_BIN and sum(bin_.decisions for bin_ in bins) > _FINE_DECISIONS:
        size = _COARSE_BIN
    return _means(store, bins[0].start, size, final, now)


def _means(store: DecisionStore, begin: float, size: int, final: float, now: float) -> Means:
    first = size * math.floor(begin / size)
    rows = {round(row.start): row for row in store.earnings(first, size, final)}
    found = []
    for start in range(first, math.ceil(now), size):
        row = rows.get(start, SpanEarnings(start, 0, 0.0))
        found.append(
            Bin(start, min(size, now - start), counted=row.rewards, reward_sum=row.reward_sum)
        )
    return Means(tuple(found), final, now)


def read_table(store: DecisionStore, bins: Sequence[Bin], final: float, now: float) -> list[Bin]:
    """Return the period of some bins in about a dozen rows, newest first.

    Screen readers read the table aloud. Rows begin at whole multiples of ten minutes.
    """
    seconds = bins[-1].end - bins[0].start
    size = _COARSE_BIN * math.ceil(seconds / _TABLE_ROWS / _COARSE_BIN)
    means = _means(store, bins[0].start, size, final, now).bins
    first = means[0].start
    counts = _fill_gaps(store.activity(first, size), first, len(means), size)
    return [
        replace(one, decisions=count.decisions, rewards=count.rewards, late=count.late)
        for one, count in zip(means, counts, strict=True)
    ][::-1]


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


def reward_chart(means: Means, mean: float) -> Chart:
    """Draw the mean reward over time, and the mean of all rewards as a reference line.

    The period of decisions that are not final is shaded.
    """
    bins = means.bins
    values = [one.mean for one in bins]
    known = [value for value in values if value is not None]
    x = charts.time_scale(bins[0].start, bins[-1].end)
    y = charts.number_scale(known)
    points = list(zip(map(_middle, bins), values, strict=True))
    words = f" {open_words(means)}" if means.is_open else ""
    return Chart(
        title="Mean reward",
        description=(
            f"{_between(bins)}: {_range_in_words(known)}. Mean of all: {formats.number(mean)}."
            f"{words}"
        ),
        lines=(charts.line(_DECISIONS_STYLE, points, x, y),),
        labels=charts.labels([(f"mean {formats.number(mean)}", y.height(mean), "reference")]),
        x_ticks=x.ticks,
        y_ticks=y.ticks,
        slots=_slots(bins, x, lambda one: _reward_in_words(one, means.final)),
        reference=y.height(mean),
        shade=x.place(means.final) if means.is_open else None,
    )


def _slots(bins: Sequence[Bin], x: Scale, words: Callable[[Bin], str]) -> tuple[Slot, ...]:
    """Return the texts that a chart shows when the pointer is over a bin."""
    size = bins[0].seconds
    return tuple(
        Slot(left, round(x.place(one.end) - left, 2), f"{time}: {words(one)}")
        for one in bins
        for left, time in [(x.place(one.start), charts.bin_label(one.start, size))]
    )


def _middle(bin_: Bin) -> float:
    return bin_.start + bin_.seconds / 2


# -- words ----------------------------------------------------------------------------------------


def rate_words(per_second: float) -> tuple[str, str]:
    """Return a rate as text, and its unit."""
    unit = formats.rate_unit(per_second)
    return formats.number(per_second * unit.seconds), unit.name


def open_words(means: Means) -> str:
    """Return which decisions are not final, and when they will be."""
    since, closes = (near_moment(at, means.now) for at in (means.final, means.closes))
    return (
        f"Reward windows of decisions since {since} are open: clicks have come, zeros have not, "
        f"so their mean is not known. All of them are final at {closes}."
    )


def near_moment(at: float, now: float) -> str:
    """Return the time of day, after the day if that is not today."""
    is_today = formats.day(at) == formats.day(now)
    return formats.minute(at) if is_today else formats.brief_moment(at)


def _between(bins: Sequence[Bin]) -> str:
    return f"From {formats.moment(bins[0].start)} to {formats.moment(bins[-1].end)} UTC"


def _range_in_words(values: Sequence[float]) -> str:
    low, high, last = (formats.number(value) for value in (min(values), max(values), values[-1]))
    return f"between {low} and {high}, last {last}"


def _reward_in_words(one: Bin, final: float) -> str:
    if one.mean is None:
        return "reward windows are open" if one.end > final else "no rewards"
    return f"{formats.number(one.mean)}, the mean of {formats.plural(one.counted, 'reward')}"
