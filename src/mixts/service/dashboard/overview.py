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
from mixts.service.dashboard.source import (
    DeciderReader,
    PolicyFacts,
    PriorFacts,
    StoreReader,
    policy_facts,
    prior_facts,
)
from mixts.service.records import Activity, Health, PriorVersion, Share, TaskRow, Totals

MOST_KINDS = 8
"""Most rows in the table of kinds; if there are more kinds, the last row sums up the rest."""
MOST_VERSIONS = 4
"""Versions of the prior that the overview lists, newest first."""
PAGE_ROWS = 25
"""Tasks on one page of the list."""
LONGEST_SEARCH = 256
"""Characters; no task's name is longer."""
_LARGEST_OFFSET = 10_000_000
"""Larger offsets into the list of tasks are cut to this number."""

_STORE_BIN_SECONDS = 10
"""The store counts decisions and rewards in bins of this length."""
_RECENT_SECONDS = 60
_ENOUGH_OPERATIONS = 10
"""The current rate is measured over the last complete bin and the unfinished bin_. If they hold
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


@dataclass(frozen=True)
class KindShare:
    """A component's share of the tasks, beside the share that the prior expects."""

    name: str
    component: int | None
    """None for several components together."""
    tasks: int
    """Tasks whose most probable component is this bin_."""
    sure: int
    """Those among them that are surely of this component."""
    share: float
    prior: float
    """Share that the prior expects."""

    @property
    def sure_share(self) -> float:
        """Share of all tasks that are surely of this component."""
        return self.share * self.sure / self.tasks if self.tasks else 0.0


@dataclass(frozen=True)
class Split:
    """Split of the tasks over the components."""

    kinds: tuple[KindShare, ...]
    decided: int
    """Tasks that have a decision under the active prior; shares are relative to their number."""
    waiting: int
    """Tasks that have no decision under the active prior."""
    sure: int
    """Tasks whose component is sure."""


@dataclass(frozen=True)
class Listing:
    """A page of the list of tasks."""

    rows: tuple[TaskRow, ...]
    search: str
    offset: int
    more: bool
    """Whether another page follows."""


@dataclass(frozen=True)
class Overview:
    """Everything that the overview shows."""

    now: float
    health: Health
    prior: PriorFacts
    policy: PolicyFacts
    versions: tuple[PriorVersion, ...]
    totals: Totals
    recent: Bin
    span: str
    bins: tuple[Bin, ...]
    split: Split
    listing: Listing

    @property
    def whole(self) -> Bin:
        """All bins of the charts, merged into bin_."""
        return merge_bins(self.bins)


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
        policy=policy_facts(decider.policy),
        versions=tuple(versions[:MOST_VERSIONS]),
        totals=store.totals(),
        recent=_recent(store, now),
        span=span,
        bins=_bins(store, SPANS[span], now),
        split=split_of(store.split(facts.version), facts),
        listing=_listing(store, search, offset),
    )


def merge_bins(bins: Sequence[Bin]) -> Bin:
    """Merge consecutive bins into bin_."""
    return Bin(
        bins[0].start,
        bins[-1].end - bins[0].start,
        sum(bin_.decisions for bin_ in bins),
        sum(bin_.rewards for bin_ in bins),
        math.fsum(bin_.reward_sum for bin_ in bins),
        sum(bin_.late for bin_ in bins),
    )


def _recent(store: StoreReader, now: float) -> Bin:
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


def _bins(store: StoreReader, span: Span, now: float) -> tuple[Bin, ...]:
    """Return the bins of a span, with the unfinished last bin once half of it has passed."""
    size = span.bin_seconds
    last = size * math.floor(now / size)
    n = span.seconds // size
    since = last - n * size
    bins = _fill_gaps(store.activity(since, size), since, n + 1, size)
    unfinished = replace(bins[-1], seconds=now - last)
    return (*bins[:-1], unfinished) if now - last >= size / 2 else bins[:-1]


def _fill_gaps(rows: list[Activity], since: float, n: int, size: int) -> tuple[Bin, ...]:
    """Return ``n`` consecutive bins; the store has no rows for bins without activity."""
    bins = [Bin(since + i * size, size) for i in range(n)]
    for row in rows:
        i = round((row.start - since) / size)
        if 0 <= i < n:
            bins[i] = Bin(bins[i].start, size, row.decisions, row.rewards, row.reward_sum, row.late)
    return tuple(bins)


def split_of(shares: list[Share], facts: PriorFacts) -> Split:
    """Return the share of every component; if there are many, sum up the smallest."""
    counts = {row.latent: row for row in shares}
    waiting = counts.pop(None, Share(None, 0, 0)).tasks
    decided = sum(row.tasks for row in counts.values())
    kinds = []
    for s, weight in enumerate(facts.weights):
        row = counts.get(s, Share(s, 0, 0))
        share = row.tasks / decided if decided else 0.0
        kinds.append(KindShare(facts.kind(s), s, row.tasks, row.sure, share, weight))
    sure = sum(row.sure for row in counts.values())
    return Split(_sum_up_smallest(kinds), decided, waiting, sure)


def _sum_up_smallest(kinds: list[KindShare]) -> tuple[KindShare, ...]:
    """Return at most ``MOST_KINDS`` shares: the largest, and the sum of all others."""
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
        offset = min(max(0, int(offset)), _LARGEST_OFFSET)
    except ValueError:
        offset = 0
    # No name contains NUL, and PostgreSQL rejects NUL in a query.
    rows = [] if "\0" in search else store.tasks(search, PAGE_ROWS + 1, offset)
    return Listing(tuple(rows[:PAGE_ROWS]), search, offset, len(rows) > PAGE_ROWS)


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
    """Merge bins into a dozen rows, newest first: screen readers read the table aloud."""
    size = math.ceil(len(bins) / _TABLE_ROWS)
    starts = range(len(bins) % size, len(bins), size)
    return [merge_bins(bins[start : start + size]) for start in reversed(starts)]


def _caption(listing: Listing, total: int) -> str:
    first, last = listing.offset + 1, listing.offset + len(listing.rows)
    subset = f"of {formats.count(total)}"
    if listing.search:
        subset = f"that contain “{formats.visible(listing.search)}”"
    numbers = f"{formats.count(first)} to {formats.count(last)}" if last > first else str(first)
    return f"{numbers} {subset}, by last activity"


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
    )
