"""The overview: rates of decisions and rewards, kinds of task, versions of the prior, all tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from urllib.parse import urlencode

from mixts.pages import formats
from mixts_serve.agreement import Agreement, Agreements
from mixts_serve.dashboard import arms as panel
from mixts_serve.dashboard import charts, layout, over_time
from mixts_serve.dashboard import contest as contest_words
from mixts_serve.dashboard import items as items_panel
from mixts_serve.dashboard import worth as worth_words
from mixts_serve.decider import Decider
from mixts_serve.records import Health, PriorVersion
from mixts_serve.refitter import RefitNote, note_of
from mixts_serve.rules import Policy, Rules
from mixts_serve.store import DecisionStore, views

MOST_VERSIONS = 4
"""Versions of the prior that the overview lists, newest first."""
PAGE_ROWS = 25
"""Tasks on one page of the list."""
LONGEST_SEARCH = 256
"""Characters; no task's name is longer."""
_LARGEST_OFFSET = 10_000_000
"""Larger offsets into the list of tasks are cut to this number."""


@dataclass(frozen=True)
class OverviewQuery:
    """The part of the overview's address after the question mark."""

    search: str = ""
    """Part of a task's name."""
    offset: int = 0
    """Number of tasks of the list that are skipped."""
    span: str = ""
    """Name of the period that charts cover; empty for the usual one."""
    arm: str = ""
    """Part of an arm's name."""
    arms: int = layout.ARM_ROWS
    """Number of rows of the table of arms."""
    kind: int = -1
    """Kind of the tasks of the list; -1: any."""
    item: int = -1
    """Arm that the tasks of the list took; -1: any."""

    @classmethod
    def of(cls, given: Mapping[str, str]) -> OverviewQuery:
        """Return the query of an address; impossible values are replaced by possible ones."""
        span = given.get("span", "")
        return cls(
            given.get("search", "")[:LONGEST_SEARCH],
            _bounded(given.get("offset", ""), 0, _LARGEST_OFFSET),
            span if span in over_time.SPANS else "",
            given.get("arm", "")[:LONGEST_SEARCH],
            _bounded(given.get("arms", ""), layout.ARM_ROWS, panel.MOST_ARM_ROWS),
            _bounded(given.get("kind", ""), -1, _LARGEST_OFFSET),
            _bounded(given.get("item", ""), -1, _LARGEST_OFFSET),
        )

    def kept(self, *names: str) -> list[tuple[str, str | int]]:
        """Return names and values that differ from the defaults, for a form to keep."""
        values = [(name, getattr(self, name)) for name in names]
        return [(name, value) for name, value in values if value != getattr(ALL, name)]

    def link(self, anchor: str = "", **changes: str | int) -> str:
        """Return the address of the overview with some values changed; defaults are left out."""
        changed = replace(self, **changes)  # type: ignore[arg-type]
        changed = replace(changed, offset=max(0, changed.offset))
        query = urlencode(changed.kept(*(field.name for field in fields(self))))
        return f"./?{query}{anchor}" if query else f"./{anchor}"


ALL = OverviewQuery()
"""The query of an address without one."""


def _bounded(number: str, least: int, most: int) -> int:
    """Return a number within bounds, the least for a text that is no number."""
    try:
        return min(max(least, int(number)), most)
    except ValueError:
        return least


@dataclass(frozen=True)
class Split:
    """Split of the tasks over the kinds."""

    kinds: tuple[layout.Kind, ...]
    decided: int
    """Tasks that have a decision under the active prior; shares are relative to their number."""
    waiting: int
    """Tasks that have no decision under the active prior."""
    sure: int
    """Tasks whose kind is sure."""


@dataclass(frozen=True)
class TaskLine:
    """A task of the list, with the belief that its own page shows."""

    row: views.TaskRow
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
    among: str = ""
    """Kind and arm to which the list is limited, in words."""


@dataclass(frozen=True)
class VersionLine:
    """A version of the prior, and what its decisions by one policy earned."""

    prior: PriorVersion
    made: views.VersionEarnings
    """Its ``policy`` is empty if the version has not made a decision."""
    interval: panel.Interval | None
    agreement: Agreement | None
    """What the version expected of the decisions of all policies."""
    shared: bool = False
    """Whether several policies decided under the version."""


@dataclass(frozen=True)
class Overview:
    """Everything that the overview shows."""

    now: float
    health: Health
    prior: layout.PriorFacts
    policy: Policy
    rules: Rules
    versions: tuple[VersionLine, ...]
    totals: views.Totals
    unrewarded: views.Unrewarded
    recent: over_time.Bin
    bins: tuple[over_time.Bin, ...]
    means: over_time.Means
    table: list[over_time.Bin]
    split: Split
    arms: panel.ArmsView | None
    items: items_panel.ItemsView | None
    listing: Listing
    query: OverviewQuery
    span: str
    """Name of the period that the charts cover."""
    refitted: RefitNote | None
    """The last refit; None if there was none."""

    @property
    def whole(self) -> over_time.Bin:
        """All bins merged into one: everything until now."""
        return over_time.merge_bins(self.bins)


def overview_page(
    decider: Decider,
    store: DecisionStore,
    query: OverviewQuery = ALL,
    *,
    now: float,
    address: str = layout.ADDRESS,
    token: bool = False,
    changes: bool = False,
) -> str:
    """Render the overview: rates, rewards, kinds, arms, versions, and a page of the tasks."""
    view = read_overview(decider, store, now, query)
    mean, worth = view.means.whole.mean, decider.worth()
    return layout.render(
        "overview",
        view=view,
        token=token,
        changes=changes and view.prior.arm_names is not None,
        choices=panel.arm_choices(view.arms, view.prior) if changes and view.arms else (),
        tiles=_tiles(view),
        worth=worth,
        contest=contest_words.read_contest(decider, store),
        caveat=contest_words.CAVEAT,
        may_activate=changes,
        worth_tiles=() if worth is None else worth_words.tiles(worth),
        rates=over_time.rate_chart(over_time.drawn_bins(view.bins)),
        rewards=None if mean is None else over_time.reward_chart(view.means, mean),
        open_words=over_time.open_words(view.means) if view.means.is_open else "",
        silence=_silence_words(view.rules),
        baseline=_baseline_words(view),
        caption=_caption(view.listing, view.totals.tasks),
        decide=layout.decide_command(address, "u17", view.prior, token),
        reward=layout.reward_command(address, None, token),
        spans=over_time.SPANS,
        page_rows=PAGE_ROWS,
        longest_search=LONGEST_SEARCH,
    )


# -- contents -------------------------------------------------------------------------------------


def read_overview(
    decider: Decider, store: DecisionStore, now: float, query: OverviewQuery = ALL
) -> Overview:
    """Read everything that the overview shows."""
    facts = layout.prior_facts(decider.prior, decider.prior_version)
    final = store.final_until(now)
    agreements = decider.agreements(facts.version)
    name = query.span or over_time.usual_span(max(now - final, 0.0))
    span, earned = over_time.SPANS[name], store.versions(final)
    # A young service has nothing to show of the time before its first decision.
    begin = max(now - span.seconds, min([row.first_at for row in earned], default=0.0))
    bins = over_time.read_bins(store, over_time.begun_span(span, begin, now), now)
    period = panel.Period(begin, now, final)
    arms = panel.read_arms(store, facts, period, query.arm, query.arms, agreements)
    shown = () if arms is None else [line.index for line in arms.lines]
    return Overview(
        now=now,
        health=decider.health(),
        prior=facts,
        policy=decider.policy,
        rules=decider.rules,
        versions=_version_lines(decider, earned, facts.least_reward),
        totals=store.totals(),
        unrewarded=store.unrewarded(now),
        recent=over_time.read_recent(store, now),
        bins=bins,
        means=over_time.read_means(store, bins, final, now),
        table=over_time.read_table(store, bins, final, now),
        split=split_of(store.split(facts.version), facts, agreements),
        arms=arms,
        items=items_panel.read_items(facts, agreements, shown),
        listing=_listing(decider, store, facts, query),
        query=query,
        span=name,
        refitted=note_of(store),
    )


def _version_lines(
    decider: Decider, earned: Sequence[views.VersionEarnings], least_reward: float
) -> tuple[VersionLine, ...]:
    """Return the newest versions, a line for each policy that decided under them."""
    lines = []
    for prior in sorted(decider.priors(), key=lambda row: -row.version)[:MOST_VERSIONS]:
        own = [row for row in earned if row.version == prior.version]
        own = sorted(own, key=lambda row: -row.last_at)
        found = decider.agreements(prior.version)
        agreement = None if found is None else found.whole
        none = views.VersionEarnings(prior.version, "", 0.0, 0.0, views.Earnings())
        lines += [
            VersionLine(
                prior, row, panel.mean_interval(row.earned, least_reward), agreement, len(own) > 1
            )
            for row in own or [none]
        ]
    return tuple(lines)


def split_of(
    shares: list[views.Share], facts: layout.PriorFacts, agreements: Agreements | None = None
) -> Split:
    """Return the share of every kind; if there are many, sum up the smallest."""
    counts = {row.latent: row for row in shares}
    waiting = counts.pop(None, views.Share(None, 0, 0)).tasks
    decided = sum(row.tasks for row in counts.values())
    n_components = len(facts.kind_indices or facts.weights)
    rows = [counts.get(s, views.Share(s, 0, 0)) for s in range(n_components)]
    tasks, sure = (
        [round(n) for n in facts.by_kind(numbers)]
        for numbers in ([row.tasks for row in rows], [row.sure for row in rows])
    )
    kinds = [
        layout.Kind(
            facts.kind(g), g, charts.colour(g), tasks[g] / decided if decided else 0.0, weight,
            facts.about(g), tasks[g], sure[g],
            None if agreements is None else agreements.kinds.get(g),
        )
        for g, weight in enumerate(facts.weights)
    ]  # fmt: skip
    return Split(layout.largest_kinds(kinds), decided, waiting, sum(sure))


def _listing(
    decider: Decider, store: DecisionStore, facts: layout.PriorFacts, query: OverviewQuery
) -> Listing:
    # No name contains NUL, and PostgreSQL rejects NUL in a query.
    rows: list[views.TaskRow] = []
    among = _among(facts, query)
    if "\0" not in query.search:
        rows = store.tasks(query.search, PAGE_ROWS + 1, query.offset, among)
    shown = rows[:PAGE_ROWS]
    lines = []
    for row, found in zip(shown, decider.weights([row.task for row in shown]), strict=True):
        if not found:
            lines.append(TaskLine(row, "–", None, 0.0))
            continue
        weights = facts.by_kind(found)
        s = max(range(len(weights)), key=lambda s: weights[s])
        lines.append(TaskLine(row, facts.kind(s), charts.colour(s), weights[s]))
    words = _among_words(facts, query)
    return Listing(tuple(lines), query.search, query.offset, len(rows) > PAGE_ROWS, words)


def _among(facts: layout.PriorFacts, query: OverviewQuery) -> views.Among | None:
    """Return the limits of the list of tasks."""
    if query.kind < 0 and query.item < 0:
        return None
    indices = facts.kind_indices or tuple(range(len(facts.weights)))
    wanted = tuple(s for s, kind in enumerate(indices) if kind == query.kind)
    # A kind that the prior does not have has no tasks: no component has this number.
    components = () if query.kind < 0 else wanted or (-1,)
    return views.Among(facts.version, components, query.item if query.item >= 0 else None)


# -- words ----------------------------------------------------------------------------------------


def _tiles(view: Overview) -> list[layout.Tile]:
    totals, whole = view.totals, view.means.whole
    rewards = f"{totals.rewards:,} in total"
    rewards += f", {totals.defaults:,} of them defaults" if totals.defaults else ""
    rewards += f", {totals.late:,} late" if totals.late else ""
    kinds = f"{view.split.sure:,} have a sure kind" if view.prior.has_kinds else "of one kind"
    silent = totals.decisions - totals.rewards
    return [
        (
            "Decisions",
            *over_time.rate_words(view.recent.decision_rate),
            f"{totals.decisions:,} in total",
        ),
        ("Rewards", *over_time.rate_words(view.recent.reward_rate), rewards),
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
            layout.unrewarded_words(view.unrewarded) if totals.decisions else "no decisions yet",
        ),
        ("Tasks", formats.count(totals.tasks), "", kinds),
    ]


def _mean_words(view: Overview) -> str:
    """Return the number of rewards in the mean, and of which decisions they are."""
    means, rewards = view.means, f"{view.means.whole.counted:,} rewards"
    if not means.is_open:
        return (
            f"{rewards}, {view.whole.decisions:,} decisions in {over_time.SPANS[view.span].words}"
        )
    until = over_time.near_moment(means.final, means.now)
    return f"{rewards} of decisions until {until}; windows of later ones are open"


def _silence_words(rules: Rules) -> str:
    """Return what happens to a decision that gets no reward."""
    if rules.window_us is None:
        return "no window: a decision waits for its reward without end"
    window = f"expected within {formats.duration(rules.window_us / 1e6)}"
    if rules.default_reward is None:
        return f"{window}; then the decision is given up"
    return f"{window}; then the default reward {formats.number(rules.default_reward)} counts"


def _baseline_words(view: Overview) -> str:
    """Return how tasks that are held back are decided."""
    holdback = view.rules.holdback
    if holdback is None:
        return ""
    return worth_words.baseline_words(holdback.baseline, view.prior.n_arms is None)


def _among_words(facts: layout.PriorFacts, query: OverviewQuery) -> str:
    """Return the kind and the arm to which the list is limited."""
    words = []
    if query.item >= 0:
        words.append(f"that took {formats.visible(facts.action(query.item))}")
    if query.kind >= 0:
        kind = formats.visible(facts.kind(query.kind))
        words.append(f"{'whose' if not words else 'and whose'} last decision was for {kind}")
    return " ".join(words)


def _caption(listing: Listing, total: int) -> str:
    first, last = listing.offset + 1, listing.offset + len(listing.rows)
    subset = f"of {formats.count(total)}"
    if listing.search:
        subset = f"that contain “{formats.visible(listing.search)}”"
    if listing.among:
        subset = f"{listing.among}{f', {subset}' if listing.search else ''}"
    numbers = f"{formats.count(first)} to {formats.count(last)}" if last > first else str(first)
    return f"{numbers} {subset}, by last activity"
