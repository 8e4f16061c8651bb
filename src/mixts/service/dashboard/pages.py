"""View models set as HTML; every name is escaped by the templates."""

from __future__ import annotations

from mixts.service.dashboard import wording
from mixts.service.dashboard.bands import weight_chart
from mixts.service.dashboard.charts import rate_chart, reward_chart
from mixts.service.dashboard.commands import decide_command, reward_command
from mixts.service.dashboard.markup import render
from mixts.service.dashboard.overview import SPANS, Bin, Listing, Overview, merged, read_overview
from mixts.service.dashboard.source import Believer, Reader
from mixts.service.dashboard.task import COUNTED, TaskView, read_task

ADDRESS = "http://127.0.0.1:8321"
_TABLE_ROWS = 12


# -- pages ----------------------------------------------------------------------------------------


def overview_page(
    decider: Believer,
    store: Reader,
    *,
    now: float,
    search: str = "",
    offset: int | str = 0,
    span: str = "",
    address: str = ADDRESS,
    token: bool = False,
) -> str:
    """The page of everything: rates, rewards, kinds of task, and a page of the list of tasks."""
    view = read_overview(decider, store, now, search, offset, span)
    mean = view.whole.mean_reward
    return render(
        "overview.html",
        view=view,
        token=token,
        tiles=_overview_tiles(view),
        rates=rate_chart(view.bins),
        rewards=None if mean is None else reward_chart(view.bins, mean),
        table=_table(view.bins),
        caption=_caption(view.listing, view.totals.tasks),
        decide=decide_command(address, "u17", view.prior, token),
        reward=reward_command(address, None, token),
    )


def task_page(
    decider: Believer,
    store: Reader,
    task: str,
    *,
    now: float,
    address: str = ADDRESS,
    token: bool = False,
) -> str:
    """The page of one task; one that the store has never seen is an UnknownTaskError."""
    view = read_task(decider, store, task, now)
    shown = view.history
    return render(
        "task.html",
        view=view,
        token=token,
        likeliest=max(view.kinds, key=lambda kind: (kind.colour is not None, kind.weight)),
        tiles=_task_tiles(view),
        weights=weight_chart(shown, view.first_number, view.prior) if shown else None,
        range=_range(view),
        actions_caption=_actions_caption(view),
        decide=decide_command(address, task, view.prior, token),
        reward=reward_command(address, shown[-1].id if shown else None, token),
    )


def missing_page(task: str | None = None) -> str:
    """Of an address that leads nowhere or, with a name, of a task that was never seen."""
    words = "There is no page at this address." if task is None else "The store has no task named"
    title = "Not found" if task is None else "No such task"
    return render("notice.html", title=title, words=words, name=task, reason=None)


def unavailable_page(reason: str) -> str:
    """Of a store that cannot be read."""
    words = "The store cannot be read now. Reload the page to try again."
    return render("notice.html", title="Nothing to show now", words=words, name=None, reason=reason)


# -- what templates are given ---------------------------------------------------------------------


Tile = tuple[str, str, str, str]
"""A name, a number, its unit and a note."""


def _overview_tiles(view: Overview) -> list[Tile]:
    totals, mean = view.totals, view.whole.mean_reward
    late = f"{wording.percent(totals.late / totals.rewards)} of rewards" if totals.rewards else ""
    return [
        ("Decisions", *_rate(view.recent.decision_rate), _in_all(totals.decisions)),
        ("Rewards", *_rate(view.recent.reward_rate), _in_all(totals.rewards)),
        ("Mean reward", "–" if mean is None else wording.number(mean), "", SPANS[view.span].words),
        ("Tasks", wording.count(totals.tasks), "", f"{view.split.sure:,} sure of their kind"),
        ("Late rewards", wording.count(totals.late), "", late or "logged, not learned from"),
    ]


def _in_all(n: int) -> str:
    return f"{wording.count(n)} in all"


def _task_tiles(view: TaskView) -> list[Tile]:
    row = view.row
    waiting = max(0, row.decisions - row.rewards)
    seen = f"first {wording.ago(row.first_at, view.now)}"
    notes = f"{wording.count(waiting)} waiting" if waiting else "none waiting"
    return [
        ("Decisions", wording.count(row.decisions), "", seen),
        ("Rewards", wording.count(row.rewards), "", notes),
        ("Late rewards", wording.count(row.late), "", "logged, not learned from"),
        ("Last activity", wording.ago(row.last_at, view.now), "", wording.moment(row.last_at)),
    ]


def _rate(per_second: float) -> tuple[str, str]:
    unit = wording.rate_unit(per_second)
    return wording.number(per_second * unit.seconds), unit.name


def _table(bins: tuple[Bin, ...]) -> list[Bin]:
    """Few enough to be read aloud, newest first."""
    size = -(-len(bins) // _TABLE_ROWS)
    starts = range(len(bins) % size, len(bins), size)
    return [merged(bins[start : start + size]) for start in reversed(starts)]


def _caption(listing: Listing, total: int) -> str:
    first, last = listing.offset + 1, listing.offset + len(listing.rows)
    whole = f"of {wording.count(total)}"
    if listing.search:
        whole = f"that contain “{wording.visible(listing.search)}”"
    which = f"{wording.count(first)} to {wording.count(last)}" if last > first else str(first)
    return f"{which} {whole}, by last activity"


def _range(view: TaskView) -> str:
    if not view.history:
        return ""
    first, last = view.history[0], view.history[-1]
    return f"From {wording.moment(first.at)} to {wording.moment(last.at)}."


def _actions_caption(view: TaskView) -> str:
    if view.prior.n_arms is None:
        return "Mean reward of the actions that were offered last"
    if view.row.decisions > COUNTED:
        return f"Mean reward of each arm; taken and observed in the last {COUNTED:,} decisions"
    return "Mean reward of each arm"
