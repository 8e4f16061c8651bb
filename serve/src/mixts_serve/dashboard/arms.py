"""The panel of arms: which are shown, how often over time, and what they earn."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from scipy import special

from mixts.pages import formats
from mixts_serve.agreement import Agreement, Agreements
from mixts_serve.dashboard import charts
from mixts_serve.dashboard.charts import REST, Chart, Label, Scale, Slot
from mixts_serve.dashboard.layout import ARM_ROWS, PriorFacts
from mixts_serve.store import DecisionStore
from mixts_serve.store.views import ArmTraffic, Earnings

MOST_ARM_ROWS = 500
"""Most arms that the table shows; a search finds the others."""
MOST_BANDS = 7
"""Arms that have a band of their own in the chart."""
_BINS = (600, 3600, 14_400, 86_400)
"""Seconds that a bin of the chart may have; the store counts by ten minutes and by days."""
_MOST_BINS = 48
_MANY_ARMS = 500
"""With more arms, periods longer than a day are read from the counts by days."""
_DAY = 86_400
_LEVEL = 0.9
"""Probability inside an interval."""


@dataclass(frozen=True)
class Period:
    """Period that the panel covers, in seconds since 1970."""

    begin: float
    now: float
    final: float = math.inf
    """Decisions before this time are final: only they count in means."""


@dataclass(frozen=True)
class Interval:
    """Mean reward and an interval around it, as numbers and as text."""

    low: float
    mean: float
    high: float

    @property
    def text(self) -> formats.Bounds:
        return formats.bounds(self.low, self.mean, self.high)

    @property
    def words(self) -> str:
        """The ends; nothing for a point, which says nothing of what comes."""
        return f"{self.text.low} to {self.text.high}" if self.low < self.high else ""


@dataclass(frozen=True)
class ArmLine:
    """A row of the table of arms."""

    index: int
    name: str
    look: str
    """Class of its colour; the look of all others if it has no band in the chart."""
    retired: bool
    new: bool
    """Whether the arm was added, and no prior has been learned from its data since."""
    earned: Earnings
    share: float
    """Share of all decisions."""
    interval: Interval | None
    """None if no final decision of the arm has a reward."""
    agreement: Agreement | None = None
    """What the active prior expected of the arm; None if no decision under it is final."""


@dataclass(frozen=True)
class ArmsView:
    """Everything that the panel of arms shows."""

    since: float
    total: Earnings
    lines: tuple[ArmLine, ...]
    n_found: int
    """Number of arms that the search finds; all without a search."""
    n_arms: int
    search: str
    rows: int
    """Number of rows that were asked for."""
    scale: Scale
    chart: Chart | None

    @property
    def n_new(self) -> int:
        """Number of new arms that the table shows after the others."""
        return max(0, len(self.lines) - self.rows)

    @property
    def more(self) -> int:
        """Number of rows to ask for next; 0 if there are no more."""
        if self.n_found <= len(self.lines) or self.rows >= MOST_ARM_ROWS:
            return 0
        return min(MOST_ARM_ROWS, 5 * self.rows)


def read_arms(
    store: DecisionStore, facts: PriorFacts, period: Period, search: str = "",
    rows: int = ARM_ROWS, agreements: Agreements | None = None,
) -> ArmsView | None:  # fmt: skip
    """Read what the panel of arms shows; None for priors without arms.

    Parameters
    ----------
    store, facts
        Store, and the active prior.
    period
        Period that the panel covers.
    search
        Part of a name of arms, in any case; empty for all arms.
    rows
        Most rows of the table.
    agreements
        What the active prior expected.
    """
    if facts.n_arms is None:
        return None
    size = bin_size(period.now - period.begin, facts.n_arms)
    since = size * math.floor(period.begin / size)
    found_arms = store.arms(since, size, period.final)
    earned = {arm: own for arm, own in found_arms.items() if arm >= 0}
    found = _found_arms(facts, earned, search)
    bands = charts.colours([k for k in found[:MOST_BANDS] if k in earned])
    total = Earnings(
        decisions=sum(own.decisions for own in earned.values()),
        defaults=sum(own.defaults for own in earned.values()),
    )
    # A new arm has few decisions, but it is what its owner looks for.
    also = [k for k in found[rows:] if facts.is_new(k)][:ARM_ROWS]
    expected = {} if agreements is None else agreements.arms
    lines = tuple(
        replace(_line(k, facts, earned, bands, total), agreement=expected.get(k))
        for k in (*found[:rows], *also)
    )
    ends = [x for one in lines if one.interval for x in (one.interval.low, one.interval.high)]
    traffic = store.traffic(since, size, list(bands)) if bands else []
    return ArmsView(
        since, total, lines, len(found), facts.n_arms, search, rows,
        charts.number_scale(ends, 3, zero=True),
        traffic_chart(traffic, since, size, period.now, bands, facts) if traffic else None,
    )  # fmt: skip


def bin_size(seconds: float, n_arms: int) -> int:
    """Return the seconds of a bin, so that a chart has few and the store reads little."""
    if n_arms > _MANY_ARMS and seconds > _DAY:
        return _DAY
    return next((size for size in _BINS if seconds / size <= _MOST_BINS), _DAY)


def _found_arms(facts: PriorFacts, earned: dict[int, Earnings], search: str) -> list[int]:
    """Return the arms whose names contain the search, those with most decisions first."""
    # A store may know arms that the prior of a mistaken upload lacks: they are counted, too.
    arms = range(max([facts.n_arms or 0, *(k + 1 for k in earned)]))
    wanted = search.casefold()
    found = [k for k in arms if wanted in facts.action(k).casefold()] if wanted else list(arms)
    none = Earnings()
    return sorted(found, key=lambda k: (-earned.get(k, none).decisions, k))


def _line(
    k: int, facts: PriorFacts, earned: dict[int, Earnings], bands: dict[int, int], total: Earnings
) -> ArmLine:
    own = earned.get(k, Earnings())
    return ArmLine(
        index=k,
        name=facts.action(k),
        look=f"c{bands[k]}" if k in bands else REST,
        retired=facts.is_retired(k),
        new=facts.is_new(k),
        earned=own,
        share=own.decisions / total.decisions if total.decisions else 0.0,
        interval=mean_interval(own, facts.least_reward),
    )


def arm_choices(view: ArmsView, facts: PriorFacts) -> tuple[tuple[str, bool], ...]:
    """Return the arms that a form offers, each with whether it is retired.

    They are all arms in their order or, of very many, those of the table. Arms without names cannot
    be changed by name, so there is nothing to offer.
    """
    names = facts.arm_names or ()
    shown: Sequence[int] = range(len(names))
    if len(names) > MOST_ARM_ROWS:
        shown = sorted(line.index for line in view.lines if line.index < len(names))
    return tuple((names[k], facts.is_retired(k)) for k in shown)


# -- numbers --------------------------------------------------------------------------------------


def mean_interval(earned: Earnings, least: float = -math.inf) -> Interval | None:
    """Return the mean reward with a central 90 % interval, or None if there is no reward.

    Rewards that are all 0 or 1: Jeffreys' interval, which reaches to 0 or to 1 if all are equal
    (Brown, Cai and DasGupta, 2001). Other rewards: Student's. One such reward alone has no
    interval but itself. No interval reaches below ``least``, the least reward that can come.
    """
    n, total, squares = earned.counted, earned.reward_sum, earned.reward_squares
    if not n:
        return None
    mean, tail = total / n, (1 - _LEVEL) / 2
    if total == squares and 0 <= total <= n and total == int(total):
        low = special.betaincinv(total + 0.5, n - total + 0.5, tail) if total > 0 else 0.0
        high = special.betaincinv(total + 0.5, n - total + 0.5, 1 - tail) if total < n else 1.0
    else:
        variance = max(0.0, squares - total * mean) / max(n - 1, 1)
        reach = special.stdtrit(n - 1, 1 - tail) * math.sqrt(variance / n) if n > 1 else 0.0
        low, high = max(mean - reach, least), mean + reach
    return Interval(min(float(low), mean), mean, max(float(high), mean))


# -- the chart ------------------------------------------------------------------------------------


def traffic_chart(
    traffic: Sequence[ArmTraffic], since: float, size: int, now: float,
    bands: dict[int, int], facts: PriorFacts,
) -> Chart:  # fmt: skip
    """Draw the share of decisions that took each arm, stacked to one, bin by bin.

    Parameters
    ----------
    traffic
        Decisions of each bin: those of some arms, and all of them (``arm`` is None).
    since, size, now
        Begin of the first bin, seconds of a bin, and the time.
    bands
        Colours of the arms that have a band, from the top down.
    facts
        The active prior.
    """
    n = max(1, math.ceil((now - since) / size))
    counts: dict[int, list[int]] = {k: [0] * n for k in bands}
    all_ = [0] * n
    for row in traffic:
        i = round((row.start - since) / size)
        if 0 <= i < n:
            (all_ if row.arm is None else counts[row.arm])[i] += row.decisions
    shares = {k: [c / t if t else 0.0 for c, t in zip(own, all_, strict=True)]
              for k, own in counts.items()}  # fmt: skip
    x = Scale(0, n)
    looks = {f"c{bands[k]}": own for k, own in shares.items()}
    end = since + n * size
    return Chart(
        title="Share of decisions that took each arm",
        description=_in_words(counts, all_, since, now, facts),
        bands=tuple(charts.stacked(looks, [float(t > 0) for t in all_], 0, x)),
        labels=_labels(shares, all_, bands, facts),
        x_ticks=charts.time_scale(since, end).ticks,
        y_ticks=charts.SHARE_TICKS,
        slots=tuple(
            Slot(
                x.place(i),
                round(100 / n, 2),
                f"{charts.bin_label(since + i * size, size)}: {words}",
            )
            for i, words in enumerate(_bins_in_words(counts, all_, facts))
        ),
    )


def _labels(
    shares: dict[int, list[float]], all_: list[int], bands: dict[int, int], facts: PriorFacts
) -> tuple[Label, ...]:
    """Return labels for the bands, if high enough, of the last bin that has decisions."""
    last = max((i for i, t in enumerate(all_) if t), default=None)
    if last is None:
        return ()
    parts = [(facts.action(k), own[last], f"c{bands[k]}") for k, own in shares.items()]
    return charts.stacked_labels(parts, "other arms")


def _bins_in_words(
    counts: dict[int, list[int]], all_: list[int], facts: PriorFacts
) -> Iterator[str]:
    """Yield the decisions of each bin, with the arms that most of them took."""
    for i, total in enumerate(all_):
        best = [k for k in sorted(counts, key=lambda k: -counts[k][i])[:3] if counts[k][i]]
        words = [
            f"{formats.visible(facts.action(k))} {formats.percent(counts[k][i] / total)}"
            for k in best
        ]
        arms = f"; {', '.join(words)}" if words else ""
        yield f"{formats.plural(total, 'decision')}{arms}"


def _in_words(
    counts: dict[int, list[int]], all_: list[int], since: float, now: float, facts: PriorFacts
) -> str:
    total = sum(all_) or 1
    words = [
        f"{formats.visible(facts.action(k))} {formats.percent(sum(own) / total)}"
        for k, own in counts.items()
    ]
    left = 1 - sum(sum(own) for own in counts.values()) / total
    words += [f"other arms {formats.percent(left)}"] if left > 1e-9 else []
    return (
        f"From {formats.moment(since)} to {formats.moment(now)} UTC, of "
        f"{formats.plural(sum(all_), 'decision')}: {', '.join(words)}."
    )
