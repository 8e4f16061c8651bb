"""The overview: how much is going on, what comes of it, and which kinds of task there are."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from mixts.service.dashboard.source import Believer, PriorFacts, Reader, prior_facts
from mixts.service.records import Activity, Health, PriorVersion, Share, TaskRow, Totals

MOST_KINDS = 8
"""That have a line of their own; all others share one."""
MOST_VERSIONS = 4
PAGE_ROWS = 25
LONGEST_SEARCH = 256
"""Characters; no name has more."""
_FURTHEST = 10_000_000
_RECENT, _MINUTE, _ENOUGH = 10, 60, 10
"""The rate now is of the last ten seconds and those that have begun, in which the store counts; or,
with fewer operations than this in them, of a minute."""


@dataclass(frozen=True)
class Span:
    """How far back a chart goes, and how it is cut."""

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
"""Bins are whole tens of seconds, in which the store counts."""
DEFAULT_SPAN = "hour"


@dataclass(frozen=True)
class Bin:
    """What happened in some seconds."""

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
    """A latent state among the tasks, beside what the prior expects of it."""

    name: str
    latent: int | None
    """None for several together."""
    tasks: int
    sure: int
    share: float
    prior: float

    @property
    def sure_share(self) -> float:
        """Of all tasks, as ``share`` is."""
        return self.share * self.sure / self.tasks if self.tasks else 0.0


@dataclass(frozen=True)
class Split:
    """How the tasks split over the latent states."""

    kinds: tuple[KindShare, ...]
    decided: int
    """Tasks that were decided for under the active prior: shares are of these."""
    waiting: int
    """Tasks that were not yet."""
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
    """All that the overview shows."""

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
        """All that the charts show as one."""
        return merged(self.bins)


def read_overview(
    decider: Believer, store: Reader, now: float, search: str, offset: int | str, span: str
) -> Overview:
    """Ask for all that the overview shows."""
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
    """Neighbouring bins as one."""
    return Bin(
        bins[0].start,
        bins[-1].end - bins[0].start,
        sum(one.decisions for one in bins),
        sum(one.rewards for one in bins),
        math.fsum(one.reward_sum for one in bins),
        sum(one.late for one in bins),
    )


def _recent(store: Reader, now: float) -> Bin:
    last = _RECENT * math.floor(now / _RECENT)
    since, n = last - _MINUTE, _MINUTE // _RECENT
    *over, begun = _filled(store.activity(since, _RECENT), since, n + 1, _RECENT)
    begun = replace(begun, seconds=now - last)
    few = merged((over[-1], begun))
    return few if few.decisions + few.rewards >= _ENOUGH else merged((*over, begun))


def _bins(store: Reader, span: Span, now: float) -> tuple[Bin, ...]:
    """The bins of a span; the one that is not over counts when half of it is."""
    size = span.bin_seconds
    last = size * math.floor(now / size)
    n = span.seconds // size
    bins = _filled(store.activity(last - n * size, size), last - n * size, n + 1, size)
    unfinished = replace(bins[-1], seconds=now - last)
    return (*bins[:-1], unfinished) if now - last >= size / 2 else bins[:-1]


def _filled(rows: list[Activity], since: float, n: int, size: int) -> tuple[Bin, ...]:
    """All bins, also those that nothing happened in, which the store leaves out."""
    bins = [Bin(since + i * size, size) for i in range(n)]
    for row in rows:
        i = round((row.start - since) / size)
        if 0 <= i < n:
            bins[i] = Bin(bins[i].start, size, row.decisions, row.rewards, row.reward_sum, row.late)
    return tuple(bins)


def split_of(shares: list[Share], facts: PriorFacts) -> Split:
    """The shares of all latent states, also of those without a task; the smallest as one."""
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
    order = sorted(kinds, key=lambda kind: (-kind.tasks, -kind.prior, kind.latent))
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


def _listing(store: Reader, search: str, offset: int | str) -> Listing:
    search = search[:LONGEST_SEARCH]
    try:
        offset = min(max(0, int(offset)), _FURTHEST)
    except ValueError:
        offset = 0
    # No name has NUL, and not every database can be asked for it.
    rows = [] if "\0" in search else store.tasks(search, PAGE_ROWS + 1, offset)
    return Listing(tuple(rows[:PAGE_ROWS]), search, offset, len(rows) > PAGE_ROWS)
