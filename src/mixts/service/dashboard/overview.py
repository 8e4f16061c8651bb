"""The overview: rates of decisions and rewards, kinds of task, versions of the prior, all tasks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from mixts.pages import charts, formats
from mixts.pages.charts import Chart, Scale, Slot
from mixts.service.dashboard.layout import (
    ADDRESS,
    DEFAULT_SPAN,
    Tile,
    decide_command,
    render,
    reward_command,
)
from mixts.service.dashboard.source import DeciderReader, PriorFacts, StoreReader, prior_facts
from mixts.service.records import Activity, Health, PriorVersion, Share, TaskRow, Totals

MOST_KINDS = 8
"""Kinds that have a row of their own; all others share one."""
MOST_VERSIONS = 4
PAGE_ROWS = 25
LONGEST_SEARCH = 256
"""Characters; no name has more."""
_FURTHEST = 10_000_000
_RECENT, _MINUTE, _ENOUGH = 10, 60, 10
"""The store counts in bins of ten seconds. The present rate is that of the last whole bin and the
one that has begun or, with fewer than ten operations in them, that of the last minute."""
_TABLE_ROWS = 12
_DECISIONS, _REWARDS = "c0", "c5 dashed"
"""Looks of the two lines: classes of the style sheet."""
_DATED = 600
"""Seconds: longer bins have a date in their text, since their chart is longer than a day."""


@dataclass(frozen=True)
class Span:
    """Period that a chart covers, and the length of its bins."""

    seconds: int
    bin_seconds: int
    label: str
    words: str


SPANS = {
    "quarter": Span(900, 10, "15 min", "the last 15 minutes"),
    "hour": Span(3600, 30, "1 hour", "the last hour"),
    "day": Span(86400, 900, "1 day", "the last day"),
    "week": Span(7 * 86400, 7200, "7 days", "the last 7 days"),
    "month": Span(30 * 86400, 8 * 3600, "30 days", "the last 30 days"),
}
"""Bins are multiples of the ten seconds in which the store counts."""


@dataclass(frozen=True)
class Bin:
    """Decisions and rewards of some seconds."""

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


@dataclass(frozen=True)
class KindShare:
    """A component's share of the tasks, beside the share that the prior expects."""

    name: str
    component: int | None
    """None for several components together."""
    tasks: int
    sure: int
    share: float
    prior: float

    @property
    def sure_share(self) -> float:
        """Share of all tasks that are surely of this component."""
        return self.share * self.sure / self.tasks if self.tasks else 0.0


@dataclass(frozen=True)
class Split:
    """Split of the tasks over the components."""

    kinds: tuple[KindShare, ...]
    decided: int
    """Tasks with a decision under the active prior: shares are shares of these."""
    waiting: int
    """Tasks without one."""
    sure: int


@dataclass(frozen=True)
class Listing:
    """A page of the list of tasks."""

    rows: tuple[TaskRow, ...]
    search: str
    offset: int
    more: bool


@dataclass(frozen=True)
class Overview:
    """Everything that the overview shows."""

    now: float
    health: Health
    prior: PriorFacts
    versions: tuple[PriorVersion, ...]
    totals: Totals
    recent: Bin
    span: str
    bins: tuple[Bin, ...]
    split: Split
    listing: Listing

    @property
    def whole(self) -> Bin:
        """All bins of the charts merged into one."""
        return merged(self.bins)


def overview_page(
    decider: DeciderReader,
    store: StoreReader,
    *,
    now: float,
    search: str = "",
    offset: int | str = 0,
    span: str = "",
    address: str = ADDRESS,
    token: bool = False,
) -> str:
    """Render the overview: rates, rewards, kinds of task, and a page of the list of tasks."""
    view = read_overview(decider, store, now, search, offset, span)
    mean = view.whole.mean_reward
    return render(
        "overview",
        view=view,
        token=token,
        tiles=_tiles(view),
        rates=rate_chart(view.bins),
        rewards=None if mean is None else reward_chart(view.bins, mean),
        table=_table(view.bins),
        caption=_caption(view.listing, view.totals.tasks),
        decide=decide_command(address, "u17", view.prior, token),
        reward=reward_command(address, None, token),
        spans=SPANS,
        default_span=DEFAULT_SPAN,
        page_rows=PAGE_ROWS,
        longest_search=LONGEST_SEARCH,
    )


# -- contents -------------------------------------------------------------------------------------


def read_overview(
    decider: DeciderReader,
    store: StoreReader,
    now: float,
    search: str,
    offset: int | str,
    span: str,
) -> Overview:
    """Read everything that the overview shows."""
    span = span if span in SPANS else DEFAULT_SPAN
    facts = prior_facts(decider.prior, decider.prior_version)
    versions = sorted(decider.priors(), key=lambda row: -row.version)
    return Overview(
        now=now,
        health=decider.health(),
        prior=facts,
        versions=tuple(versions[:MOST_VERSIONS]),
        totals=store.totals(),
        recent=_recent(store, now),
        span=span,
        bins=_bins(store, SPANS[span], now),
        split=split_of(store.split(facts.version), facts),
        listing=_listing(store, search, offset),
    )


def merged(bins: tuple[Bin, ...]) -> Bin:
    """Merge neighbouring bins into one."""
    return Bin(
        bins[0].start,
        bins[-1].end - bins[0].start,
        sum(one.decisions for one in bins),
        sum(one.rewards for one in bins),
        math.fsum(one.reward_sum for one in bins),
        sum(one.late for one in bins),
    )


def _recent(store: StoreReader, now: float) -> Bin:
    last = _RECENT * math.floor(now / _RECENT)
    since, n = last - _MINUTE, _MINUTE // _RECENT
    *over, begun = _filled(store.activity(since, _RECENT), since, n + 1, _RECENT)
    begun = replace(begun, seconds=now - last)
    few = merged((over[-1], begun))
    return few if few.decisions + few.rewards >= _ENOUGH else merged((*over, begun))


def _bins(store: StoreReader, span: Span, now: float) -> tuple[Bin, ...]:
    """Return the bins of a span; the unfinished last bin counts once half of it has passed."""
    size = span.bin_seconds
    last = size * math.floor(now / size)
    n = span.seconds // size
    bins = _filled(store.activity(last - n * size, size), last - n * size, n + 1, size)
    unfinished = replace(bins[-1], seconds=now - last)
    return (*bins[:-1], unfinished) if now - last >= size / 2 else bins[:-1]


def _filled(rows: list[Activity], since: float, n: int, size: int) -> tuple[Bin, ...]:
    """Return all bins, with those without activity, which the store leaves out."""
    bins = [Bin(since + i * size, size) for i in range(n)]
    for row in rows:
        i = round((row.start - since) / size)
        if 0 <= i < n:
            bins[i] = Bin(bins[i].start, size, row.decisions, row.rewards, row.reward_sum, row.late)
    return tuple(bins)


def split_of(shares: list[Share], facts: PriorFacts) -> Split:
    """Return the shares of all components; of many, the smallest together."""
    counts = {row.latent: row for row in shares}
    waiting = counts.pop(None, Share(None, 0, 0)).tasks
    decided = sum(row.tasks for row in counts.values())
    kinds = []
    for s, weight in enumerate(facts.weights):
        row = counts.get(s, Share(s, 0, 0))
        share = row.tasks / decided if decided else 0.0
        kinds.append(KindShare(facts.kind(s), s, row.tasks, row.sure, share, weight))
    sure = sum(row.sure for row in counts.values())
    return Split(_largest(kinds), decided, waiting, sure)


def _largest(kinds: list[KindShare]) -> tuple[KindShare, ...]:
    if len(kinds) <= MOST_KINDS:
        return tuple(kinds)
    order = sorted(kinds, key=lambda kind: (-kind.tasks, -kind.prior, kind.component))
    rest = order[MOST_KINDS - 1 :]
    others = KindShare(
        f"{len(rest)} others",
        None,
        sum(kind.tasks for kind in rest),
        sum(kind.sure for kind in rest),
        math.fsum(kind.share for kind in rest),
        math.fsum(kind.prior for kind in rest),
    )
    return (*order[: MOST_KINDS - 1], others)


def _listing(store: StoreReader, search: str, offset: int | str) -> Listing:
    search = search[:LONGEST_SEARCH]
    try:
        offset = min(max(0, int(offset)), _FURTHEST)
    except ValueError:
        offset = 0
    # No name has NUL, and not every database accepts it in a query.
    rows = [] if "\0" in search else store.tasks(search, PAGE_ROWS + 1, offset)
    return Listing(tuple(rows[:PAGE_ROWS]), search, offset, len(rows) > PAGE_ROWS)


# -- charts ---------------------------------------------------------------------------------------


def rate_chart(bins: Sequence[Bin]) -> Chart:
    """Draw decisions and rewards per second (or minute, or hour) over time."""
    fastest = max(max(one.decision_rate, one.reward_rate) for one in bins)
    unit = formats.rate_unit(fastest)
    series: dict[str, tuple[str, Callable[[Bin], float]]] = {
        "decisions": (_DECISIONS, lambda one: one.decision_rate * unit.seconds),
        "rewards": (_REWARDS, lambda one: one.reward_rate * unit.seconds),
    }
    x = charts.time_scale(bins[0].start, bins[-1].end)
    y = charts.number_scale([fastest * unit.seconds], zero=True)
    lines, marks, words = [], [], []
    for name, (look, rate) in series.items():
        values = [rate(one) for one in bins]
        lines.append(charts.line(look, list(zip(map(_middle, bins), values, strict=True)), x, y))
        marks.append((name, y.height(values[-1]), look))
        words.append(f"{name.capitalize()}: {_range_in_words(values)}.")
    return Chart(
        title=f"Decisions and rewards {unit.name}",
        description=f"{_between(bins)}, {unit.name}. {' '.join(words)}",
        lines=tuple(lines),
        labels=charts.labels(marks),
        x_ticks=x.ticks,
        y_ticks=y.ticks,
        slots=_slots(
            bins,
            x,
            lambda one: (
                f"{formats.number(one.decision_rate * unit.seconds)} decisions, "
                f"{formats.number(one.reward_rate * unit.seconds)} rewards {unit.name}"
            ),
        ),
    )


def reward_chart(bins: Sequence[Bin], mean: float) -> Chart:
    """Draw the mean reward over time, beside the mean of all rewards."""
    values = [one.mean_reward for one in bins]
    known = [value for value in values if value is not None]
    x = charts.time_scale(bins[0].start, bins[-1].end)
    y = charts.number_scale(known)
    points = list(zip(map(_middle, bins), values, strict=True))
    return Chart(
        title="Mean reward",
        description=(
            f"{_between(bins)}: {_range_in_words(known)}. Mean of all: {formats.number(mean)}."
        ),
        lines=(charts.line(_DECISIONS, points, x, y),),
        labels=charts.labels([(f"mean {formats.number(mean)}", y.height(mean), "reference")]),
        x_ticks=x.ticks,
        y_ticks=y.ticks,
        slots=_slots(bins, x, _reward_in_words),
        reference=y.height(mean),
    )


def _slots(bins: Sequence[Bin], x: Scale, words: Callable[[Bin], str]) -> tuple[Slot, ...]:
    size = bins[0].seconds
    found = []
    for one in bins:
        left, right = x.place(one.start), x.place(one.end)
        when = charts.time_label(one.start, size)
        if size > _DATED and ":" in when:
            when = f"{formats.day(one.start)}, {when}"
        found.append(Slot(left, round(right - left, 2), f"{when}: {words(one)}"))
    return tuple(found)


def _middle(one: Bin) -> float:
    return one.start + one.seconds / 2


# -- words ----------------------------------------------------------------------------------------


def _tiles(view: Overview) -> list[Tile]:
    totals, mean = view.totals, view.whole.mean_reward
    late = f"{formats.percent(totals.late / totals.rewards)} of rewards" if totals.rewards else ""
    return [
        ("Decisions", *_rate(view.recent.decision_rate), f"{totals.decisions:,} in total"),
        ("Rewards", *_rate(view.recent.reward_rate), f"{totals.rewards:,} in total"),
        ("Mean reward", "–" if mean is None else formats.number(mean), "", SPANS[view.span].words),
        ("Tasks", formats.count(totals.tasks), "", f"{view.split.sure:,} have a sure kind"),
        ("Late rewards", formats.count(totals.late), "", late or "logged, not learned from"),
    ]


def _rate(per_second: float) -> tuple[str, str]:
    unit = formats.rate_unit(per_second)
    return formats.number(per_second * unit.seconds), unit.name


def _table(bins: tuple[Bin, ...]) -> list[Bin]:
    """Merge bins into a dozen rows, newest first: few enough to be read aloud."""
    size = -(-len(bins) // _TABLE_ROWS)
    starts = range(len(bins) % size, len(bins), size)
    return [merged(bins[start : start + size]) for start in reversed(starts)]


def _caption(listing: Listing, total: int) -> str:
    first, last = listing.offset + 1, listing.offset + len(listing.rows)
    whole = f"of {formats.count(total)}"
    if listing.search:
        whole = f"that contain “{formats.visible(listing.search)}”"
    which = f"{formats.count(first)} to {formats.count(last)}" if last > first else str(first)
    return f"{which} {whole}, by last activity"


def _between(bins: Sequence[Bin]) -> str:
    return f"From {formats.moment(bins[0].start)} to {formats.moment(bins[-1].end)} UTC"


def _range_in_words(values: Sequence[float]) -> str:
    low, high, last = (formats.number(value) for value in (min(values), max(values), values[-1]))
    return f"between {low} and {high}, last {last}"


def _reward_in_words(one: Bin) -> str:
    if one.mean_reward is None:
        return "no rewards"
    return f"{formats.number(one.mean_reward)}, the mean of {formats.plural(one.rewards, 'reward')}"
