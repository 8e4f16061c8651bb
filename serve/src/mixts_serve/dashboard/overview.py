"""The overview: rates of decisions and rewards, kinds of task, versions of the prior, all tasks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from mixts.pages import formats
from mixts_serve.agreement import Agreement, Agreements
from mixts_serve.dashboard import charts
from mixts_serve.dashboard.arms import (
    ARM_ROWS,
    ArmsView,
    Interval,
    Period,
    arm_choices,
    mean_interval,
    read_arms,
    row_count,
)
from mixts_serve.dashboard.layout import (
    ADDRESS,
    Query,
    Tile,
    decide_command,
    render,
    reward_command,
    unrewarded_words,
)
from mixts_serve.dashboard.over_time import (
    SPANS,
    Bin,
    Earned,
    Means,
    begun_span,
    drawn_bins,
    merge_bins,
    near_moment,
    open_words,
    rate_chart,
    rate_words,
    read_bins,
    read_means,
    read_recent,
    read_table,
    reward_chart,
    usual_span,
)
from mixts_serve.dashboard.source import (
    DeciderReader,
    PolicyFacts,
    PriorFacts,
    StoreReader,
    policy_facts,
    prior_facts,
)
from mixts_serve.records import Health, PriorVersion
from mixts_serve.rules import Rules
from mixts_serve.store.views import Earnings, Share, TaskRow, Totals, Unrewarded, VersionEarnings

MOST_KINDS = 8
"""Most rows in the table of kinds; if there are more kinds, the last row sums up the rest."""
MOST_VERSIONS = 4
"""Versions of the prior that the overview lists, newest first."""
PAGE_ROWS = 25
"""Tasks on one page of the list."""
LONGEST_SEARCH = 256
"""Characters; no task's name is longer."""
_NO_QUERY = Query()
_LARGEST_OFFSET = 10_000_000
"""Larger offsets into the list of tasks are cut to this number."""


@dataclass(frozen=True)
class KindShare:
    """A kind's share of the tasks, beside the share that the prior expects."""

    name: str
    kind: int | None
    """Index of the kind; None for several kinds together."""
    tasks: int
    """Tasks whose most probable kind is this one."""
    sure: int
    """Those among them that are surely of this kind."""
    share: float
    prior: float
    """Share that the prior expects."""
    about: str = ""
    """A sentence about the kind."""
    agreement: Agreement | None = None
    """What the prior expected of the kind's decisions; None for several kinds together."""

    @property
    def sure_share(self) -> float:
        """Share of all tasks that are surely of this kind."""
        return self.share * self.sure / self.tasks if self.tasks else 0.0


@dataclass(frozen=True)
class Split:
    """Split of the tasks over the kinds."""

    kinds: tuple[KindShare, ...]
    decided: int
    """Tasks that have a decision under the active prior; shares are relative to their number."""
    waiting: int
    """Tasks that have no decision under the active prior."""
    sure: int
    """Tasks whose kind is sure."""


@dataclass(frozen=True)
class TaskLine:
    """A task of the list, with the belief that its own page shows."""

    row: TaskRow
    kind: str
    colour: int | None
    """None if the active prior cannot compute with the task's history."""
    certainty: float
    """Present probability of the kind."""


@dataclass(frozen=True)
class Listing:
    """A page of the list of tasks."""

    rows: tuple[TaskLine, ...]
    search: str
    offset: int
    more: bool
    """Whether another page follows."""


@dataclass(frozen=True)
class VersionLine:
    """A version of the prior, and what its decisions by one policy earned."""

    prior: PriorVersion
    policy: str | None
    """None if the version has not made a decision."""
    first_at: float
    last_at: float
    earned: Earnings
    interval: Interval | None
    agreement: Agreement | None = None
    """What the version expected of the decisions of all policies."""


@dataclass(frozen=True)
class Overview:
    """Everything that the overview shows."""

    now: float
    health: Health
    prior: PriorFacts
    policy: PolicyFacts
    rules: Rules
    versions: tuple[VersionLine, ...]
    totals: Totals
    unrewarded: Unrewarded
    recent: Bin
    bins: tuple[Bin, ...]
    means: Means
    table: list[tuple[Bin, Earned]]
    split: Split
    arms: ArmsView | None
    listing: Listing
    query: Query
    span: str
    """Name of the period that the charts cover."""

    @property
    def whole(self) -> Bin:
        """All bins merged into one: everything until now."""
        return merge_bins(self.bins)


def overview_page(
    decider: DeciderReader,
    store: StoreReader,
    *,
    now: float,
    search: str = "",
    offset: int | str = 0,
    span: str = "",
    arm: str = "",
    arms: int | str = ARM_ROWS,
    address: str = ADDRESS,
    token: bool = False,
    changes: bool = False,
) -> str:
    """Render the overview: rates, rewards, kinds, arms, versions, and a page of the tasks."""
    query = Query(search, _offset(offset), span, arm, row_count(arms))
    view = read_overview(decider, store, now, query)
    mean = view.means.whole.mean
    return render(
        "overview",
        view=view,
        token=token,
        changes=changes and view.prior.arm_names is not None,
        choices=arm_choices(view.arms, view.prior) if changes and view.arms else (),
        tiles=_tiles(view),
        rates=rate_chart(drawn_bins(view.bins)),
        rewards=None if mean is None else reward_chart(view.means, mean),
        open_words=open_words(view.means) if view.means.is_open else "",
        silence=_silence_words(view.rules),
        caption=_caption(view.listing, view.totals.tasks),
        decide=decide_command(address, "u17", view.prior, token),
        reward=reward_command(address, None, token),
        spans=SPANS,
        page_rows=PAGE_ROWS,
        longest_search=LONGEST_SEARCH,
    )


# -- contents -------------------------------------------------------------------------------------


def read_overview(
    decider: DeciderReader, store: StoreReader, now: float, query: Query = _NO_QUERY
) -> Overview:
    """Read everything that the overview shows."""
    query = query.checked(SPANS, LONGEST_SEARCH)
    facts = prior_facts(decider.prior, decider.prior_version)
    final = store.final_until(now)
    agreements = decider.agreements(facts.version)
    name = query.span or usual_span(max(now - final, 0.0))
    span, earned = SPANS[name], store.versions(final)
    # A young service has nothing to show of the time before its first decision.
    begin = max(now - span.seconds, min([row.first_at for row in earned], default=0.0))
    bins = read_bins(store, begun_span(span, begin, now), now)
    return Overview(
        now=now,
        health=decider.health(),
        prior=facts,
        policy=policy_facts(decider.policy),
        rules=decider.rules,
        versions=tuple(
            replace(line, agreement=None if found is None else found.whole)
            for line in version_lines(decider.priors(), earned, facts.least_reward)
            for found in [decider.agreements(line.prior.version)]
        ),
        totals=store.totals(),
        unrewarded=store.unrewarded(now),
        recent=read_recent(store, now),
        bins=bins,
        means=read_means(store, bins, final, now),
        table=read_table(store, bins, final, now),
        split=split_of(store.split(facts.version), facts, agreements),
        arms=read_arms(store, facts, Period(begin, now, final), query.arm, query.arms, agreements),
        listing=_listing(decider, store, facts, query),
        query=query,
        span=name,
    )


def version_lines(
    priors: Sequence[PriorVersion], earned: Sequence[VersionEarnings], least: float = -math.inf
) -> tuple[VersionLine, ...]:
    """Return the newest versions, a line for each policy that decided under them."""
    lines = []
    for prior in sorted(priors, key=lambda row: -row.version)[:MOST_VERSIONS]:
        own = [row for row in earned if row.version == prior.version]
        lines += [
            VersionLine(
                prior,
                row.policy,
                row.first_at,
                row.last_at,
                row.earned,
                mean_interval(row.earned, least),
            )
            for row in sorted(own, key=lambda row: -row.last_at)
        ] or [VersionLine(prior, None, 0.0, 0.0, Earnings(), None)]
    return tuple(lines)


def split_of(shares: list[Share], facts: PriorFacts, agreements: Agreements | None = None) -> Split:
    """Return the share of every kind; if there are many, sum up the smallest."""
    counts = {row.latent: row for row in shares}
    waiting = counts.pop(None, Share(None, 0, 0)).tasks
    decided = sum(row.tasks for row in counts.values())
    n_components = len(facts.kind_indices or facts.weights)
    rows = [counts.get(s, Share(s, 0, 0)) for s in range(n_components)]
    tasks, sure = (
        [round(n) for n in facts.by_kind(numbers)]
        for numbers in ([row.tasks for row in rows], [row.sure for row in rows])
    )
    kinds = [
        KindShare(
            facts.kind(g), g, tasks[g], sure[g], tasks[g] / decided if decided else 0.0, weight,
            facts.about(g), None if agreements is None else agreements.kinds.get(g),
        )
        for g, weight in enumerate(facts.weights)
    ]  # fmt: skip
    return Split(_sum_up_smallest(kinds), decided, waiting, sum(sure))


def _sum_up_smallest(kinds: list[KindShare]) -> tuple[KindShare, ...]:
    """Return at most ``MOST_KINDS`` shares: the largest, and the sum of all others."""
    if len(kinds) <= MOST_KINDS:
        return tuple(kinds)
    order = sorted(kinds, key=lambda kind: (-kind.tasks, -kind.prior, kind.kind))
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


def _listing(
    decider: DeciderReader, store: StoreReader, facts: PriorFacts, query: Query
) -> Listing:
    # No name contains NUL, and PostgreSQL rejects NUL in a query.
    rows: list[TaskRow] = []
    if "\0" not in query.search:
        rows = store.tasks(query.search, PAGE_ROWS + 1, query.offset)
    shown = rows[:PAGE_ROWS]
    lines = []
    for row, found in zip(shown, decider.weights([row.task for row in shown]), strict=True):
        if not found:
            lines.append(TaskLine(row, "–", None, 0.0))
            continue
        weights = facts.by_kind(found)
        s = max(range(len(weights)), key=lambda s: weights[s])
        lines.append(TaskLine(row, facts.kind(s), charts.colour(s), weights[s]))
    return Listing(tuple(lines), query.search, query.offset, len(rows) > PAGE_ROWS)


def _offset(offset: int | str) -> int:
    try:
        return min(max(0, int(offset)), _LARGEST_OFFSET)
    except ValueError:
        return 0


# -- words ----------------------------------------------------------------------------------------


def _tiles(view: Overview) -> list[Tile]:
    totals, whole = view.totals, view.means.whole
    rewards = f"{totals.rewards:,} in total"
    rewards += f", {totals.defaults:,} of them defaults" if totals.defaults else ""
    rewards += f", {totals.late:,} late" if totals.late else ""
    kinds = f"{view.split.sure:,} have a sure kind" if view.prior.has_kinds else "of one kind"
    silent = totals.decisions - totals.rewards
    return [
        ("Decisions", *rate_words(view.recent.decision_rate), f"{totals.decisions:,} in total"),
        ("Rewards", *rate_words(view.recent.reward_rate), rewards),
        (
            "Mean reward",
            "–" if whole.mean is None else formats.number(whole.mean),
            "",
            _mean_words(view),
        ),
        (
            "Without reward",
            formats.percent(silent / totals.decisions) if totals.decisions else "–",
            "of decisions" if totals.decisions else "",
            unrewarded_words(view.unrewarded) if totals.decisions else "no decisions yet",
        ),
        ("Tasks", formats.count(totals.tasks), "", kinds),
    ]


def _mean_words(view: Overview) -> str:
    """Return which decisions the mean reward is of."""
    means, rewards = view.means, f"{view.means.whole.rewards:,} rewards"
    if not means.is_open:
        return f"{rewards}, {view.whole.decisions:,} decisions in {SPANS[view.span].words}"
    until = near_moment(means.final, means.now)
    return f"{rewards} of decisions until {until}; windows of later ones are open"


def _silence_words(rules: Rules) -> str:
    """Return what becomes of a decision whose reward does not come."""
    if rules.window_us is None:
        return "no window: a decision waits for its reward without end"
    window = f"expected within {formats.duration(rules.window_us / 1e6)}"
    if rules.default_reward is None:
        return f"{window}; then the decision is given up"
    return f"{window}; then the default reward {formats.number(rules.default_reward)} counts"


def _caption(listing: Listing, total: int) -> str:
    first, last = listing.offset + 1, listing.offset + len(listing.rows)
    subset = f"of {formats.count(total)}"
    if listing.search:
        subset = f"that contain “{formats.visible(listing.search)}”"
    numbers = f"{formats.count(first)} to {formats.count(last)}" if last > first else str(first)
    return f"{numbers} {subset}, by last activity"
