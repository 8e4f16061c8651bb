"""The dashboard's pages: what they show, what they say when there is nothing, and no harm."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise

import numpy as np
import pytest

from mixts.errors import UnknownTaskError
from mixts.service.dashboard import (
    ASSETS,
    SCRIPT,
    SPANS,
    STYLE,
    missing_page,
    overview_page,
    task_link,
    task_page,
    unavailable_page,
)
from mixts.service.dashboard import pages as pages_module
from mixts.service.dashboard import task as task_module
from mixts.service.dashboard.overview import MOST_KINDS, PAGE_ROWS, read_overview, split_of
from mixts.service.dashboard.source import prior_facts
from mixts.service.dashboard.task import MOST_ACTIONS, kind_weights, read_task
from mixts.service.records import Activity, Share
from tests.unit.sample_dashboards import (
    HOSTILE,
    NOW,
    FakeDecider,
    FakeStore,
    arm_prior,
    history_of,
    linear_prior,
    row_of,
    typical,
)

VOID = {"meta", "link", "input"}


class Page(HTMLParser):
    """A page as a browser sees it: tags with attributes, and text by the tags around it."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(dict(attrs)) == len(attrs)
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.texts.append((self.open[-1], " ".join(data.split())))

    @property
    def text(self) -> str:
        return " ".join(text for _, text in self.texts)

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def overview(decider: FakeDecider, store: FakeStore, **asked: str | int) -> Page:
    return Page(overview_page(decider, store, now=NOW, **asked))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def service() -> tuple[FakeDecider, FakeStore]:
    return typical(60)


def every_page() -> Iterator[tuple[str, str]]:
    """Pages of all sorts, by name."""
    hostile = typical(len(HOSTILE), names=list(HOSTILE.values()), longest=20)
    crowded = typical(3, prior=arm_prior(100, 1000, named=False))
    linear = typical(3, prior=linear_prior())
    named = replace_names(*hostile)
    empty = FakeDecider(arm_prior(), FakeStore())
    failing = typical(3)
    failing[0].writable, failing[0].reason = False, "disk full </div><script>"
    yield "empty", overview_page(empty, empty.store, now=NOW)
    yield "search", overview_page(*hostile, now=NOW, search="<x '\"&\u202e")
    yield "missing", missing_page(HOSTILE["markup"])
    yield "nowhere", missing_page()
    yield "unavailable", unavailable_page("the database is away <script>")
    services = [("hostile", hostile), ("crowded", crowded), ("linear", linear), ("named", named)]
    for name, (decider, store) in [*services, ("failing", failing)]:
        yield f"{name} list", overview_page(decider, store, now=NOW, address="http://<a>")
        for row in store.rows if name == "hostile" else store.rows[:1]:
            yield f"{name} {row.task}", task_page(decider, store, row.task, now=NOW)


def replace_names(decider: FakeDecider, store: FakeStore) -> tuple[FakeDecider, FakeStore]:
    """The same service with hostile names of kinds and arms too."""
    names = list(HOSTILE.values())
    family = decider.prior.family
    prior = type(decider.prior)(family, decider.prior.weights, names[:5], names[:10])
    return replace(decider, prior=prior), store


@pytest.fixture(scope="module")
def pages() -> dict[str, Page]:
    return {name: Page(html) for name, html in every_page()}


# -- no harm --------------------------------------------------------------------------------------


def test_no_name_becomes_markup(pages: dict[str, Page]) -> None:
    for name, page in pages.items():
        scripts = [attributes["src"] for attributes in page.of("script")]
        assert scripts in ([], ["/assets/dashboard.js"]), name
        assert page.of("img") == []
        for tag, attributes in page.tags:
            harmful = [key for key in attributes if key.startswith("on") or key == "style"]
            assert harmful == [], (name, tag)
        assert "style" not in {tag for tag, _ in page.tags}


def test_names_are_shown_as_text(pages: dict[str, Page]) -> None:
    page = pages["hostile list"]
    assert HOSTILE["markup"] in page.text
    assert HOSTILE["template"] in page.text
    assert HOSTILE["entity"] in page.text
    closing = pages[f"hostile {HOSTILE['closing']}"]
    assert ("title", f"{HOSTILE['closing']} · mixts") in closing.texts
    assert ("bdi", HOSTILE["closing"]) in closing.texts
    for page in pages.values():
        assert not re.search("[\u202a-\u202e\u2066-\u2069]", page.text)


def test_pages_are_well_formed_and_can_be_read_aloud(pages: dict[str, Page]) -> None:
    for name, page in pages.items():
        ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
        assert len(ids) == len(set(ids)), name
        levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch("h[1-6]", tag)]
        assert levels[0] == 1
        assert levels.count(1) == 1
        assert all(after - before <= 1 for before, after in pairwise(levels))
        for tag, attributes in page.tags:
            for key in ("aria-labelledby", "aria-describedby", "for"):
                assert attributes.get(key, ids[0]) in ids, (name, tag)
            if "data-live" in attributes:
                assert "id" in attributes
            if tag == "th":
                assert attributes["scope"] in ("col", "row")
        assert len(page.of("caption")) == len(page.of("table"))


def test_charts_have_text_alternatives(service: tuple[FakeDecider, FakeStore]) -> None:
    page = overview(*service)
    charts = [svg for svg in page.of("svg") if svg.get("role") == "img"]
    assert [svg["aria-labelledby"] for svg in charts] == ["rates-title", "rewards-title"]
    said = [text for tag, text in page.texts if tag == "desc"]
    assert said[0].startswith("From 2026-03-14 11:2")
    assert "Over all of it: 0.2" in said[1]


def test_every_task_is_linked_by_its_own_address(pages: dict[str, Page]) -> None:
    links = [attributes["href"] for attributes in pages["hostile list"].of("a")]
    for name in HOSTILE.values():
        assert task_link(name) in links


def test_assets_are_our_own() -> None:
    assert set(ASSETS) == {"dashboard.css", "dashboard.js"}
    assert ASSETS["dashboard.js"] == ("text/javascript; charset=utf-8", SCRIPT.encode())
    assert "http" not in SCRIPT.replace("https://", "http")
    for text in (STYLE, SCRIPT):
        assert "url(" not in text
        assert "@import" not in text


# -- the overview ---------------------------------------------------------------------------------


def test_the_overview_says_how_much_is_going_on(service: tuple[FakeDecider, FakeStore]) -> None:
    page = overview(*service)
    view = read_overview(*service, NOW, "", 0, "")
    texts = [text for _, text in page.texts]
    assert f"{view.recent.decision_rate:.1f}" in texts
    assert f"{view.recent.reward_rate:.1f}" in texts
    assert f"{view.totals.decisions:,} in all" in texts
    assert "prior version 2" in texts
    assert "Bernoulli arms" in texts
    assert "storing" in texts
    assert "active" in texts


def test_the_rate_now_is_of_the_last_seconds() -> None:
    last = NOW - NOW % 10
    spans = [Activity(last - 10, 40, 30, 9.0, 0), Activity(last, 16, 4, 1.0, 0)]
    store = FakeStore(spans=[Activity(last - 60, 6, 0, 0.0, 0), *spans])
    decider = FakeDecider(arm_prior(), store)
    recent = read_overview(decider, store, NOW, "", 0, "").recent
    assert recent.seconds == 10 + NOW - last
    assert recent.decision_rate == pytest.approx(56 / (10 + NOW - last))
    store.spans = [Activity(last - 60, 6, 0, 0.0, 0)]
    recent = read_overview(decider, store, NOW, "", 0, "").recent
    assert recent.decision_rate == pytest.approx(6 / (60 + NOW - last))


@pytest.mark.parametrize("span", SPANS)
def test_bins_cover_the_span(service: tuple[FakeDecider, FakeStore], span: str) -> None:
    view = read_overview(*service, NOW, "", 0, span)
    size = SPANS[span].bin_seconds
    assert size % 10 == 0
    assert all(one.start % size == 0 for one in view.bins)
    assert all(a.end == b.start for a, b in pairwise(view.bins))
    # The bin that has begun is there when half of it is over.
    assert NOW - size / 2 < view.bins[-1].end <= NOW
    assert 60 <= len(view.bins) <= 121
    counted = sum(s.decisions for s in service[1].spans if s.start >= view.bins[0].start)
    shown = view.whole.decisions
    assert counted - 40 * size <= shown <= counted


def test_an_unknown_span_is_the_hour(service: tuple[FakeDecider, FakeStore]) -> None:
    assert read_overview(*service, NOW, "", 0, "<script>").span == "hour"


def test_tasks_split_over_kinds() -> None:
    facts = prior_facts(arm_prior(3), 4)
    split = split_of([Share(None, 7, 0), Share(0, 30, 15), Share(2, 10, 10)], facts)
    assert (split.decided, split.waiting, split.sure) == (40, 7, 25)
    assert [kind.share for kind in split.kinds] == [0.75, 0.0, 0.25]
    assert [kind.sure_share for kind in split.kinds] == [0.375, 0.0, 0.25]
    assert [kind.name for kind in split.kinds] == ["bargain hunters", "night owls", "regulars"]
    assert sum(kind.prior for kind in split.kinds) == pytest.approx(1)


def test_of_many_kinds_the_largest_are_shown_and_nothing_is_lost() -> None:
    facts = prior_facts(arm_prior(100, 2, named=False), 1)
    split = split_of([Share(s, 1 + (s == 70), 1) for s in range(100)], facts)
    assert len(split.kinds) == MOST_KINDS
    assert split.kinds[0].name == "kind 71"
    assert split.kinds[-1].name == f"{101 - MOST_KINDS} others"
    assert sum(kind.tasks for kind in split.kinds) == 101
    assert sum(kind.share for kind in split.kinds) == pytest.approx(1)
    assert sum(kind.prior for kind in split.kinds) == pytest.approx(1)


def test_tasks_of_an_older_prior_are_told_apart(service: tuple[FakeDecider, FakeStore]) -> None:
    decider, store = service
    page = overview(decider, store)
    n_old = sum(row.version == 1 for row in store.rows)
    assert n_old > 0
    assert f"{n_old} more tasks had no decision under version 2 yet." in page.text
    assert re.search(r"kind \d of version 1", page.text)


def test_the_list_is_cut_into_pages(service: tuple[FakeDecider, FakeStore]) -> None:
    first = overview(*service)
    links = {a.get("rel"): a["href"] for a in first.of("a")}
    assert "prev" not in links
    assert links["next"] == f"/?offset={PAGE_ROWS}#tasks"
    assert f"1 to {PAGE_ROWS} of 60, by last activity" in first.text
    last = overview(*service, offset=str(2 * PAGE_ROWS), span="day")
    links = {a.get("rel"): a["href"] for a in last.of("a")}
    assert "next" not in links
    assert links["prev"] == f"/?offset={PAGE_ROWS}&span=day#tasks"
    assert "51 to 60 of 60" in last.text
    assert "There are no more tasks." in overview(*service, offset=1000).text
    for odd, offset in (("-5", 0), ("many", 0), ("", 0), ("1e9", 0), (str(10**40), 10_000_000)):
        assert read_overview(*service, NOW, "", odd, "").listing.offset == offset


def test_the_search_stays_in_its_field(service: tuple[FakeDecider, FakeStore]) -> None:
    name = service[1].rows[7].task
    page = overview(*service, search=name[-3:])
    (field,) = [field for field in page.of("input") if field["name"] == "search"]
    assert field["value"] == name[-3:]
    assert name in page.text
    found = overview(*service, search="nobody\0 <b>")
    assert "No task's name contains" in found.text
    assert "nobody[U+0000] <b>" in found.text.replace(" [U", "[U")


# -- nothing to show, or nothing to be written ----------------------------------------------------


def test_an_empty_service_says_what_to_do(pages: dict[str, Page]) -> None:
    page = pages["empty"]
    assert "No decisions yet" in page.text
    commands = [text for tag, text in page.texts if tag == "code"]
    assert "curl http://127.0.0.1:8321/v1/decide" in commands[0]
    assert '{"task": "u17"}' in commands[0]
    assert "/v1/reward" in commands[1]
    assert "bargain hunters" in page.text
    assert not [svg for svg in page.of("svg") if svg.get("role") == "img"]


def test_without_rewards_it_says_how_to_send_one() -> None:
    decider, store = typical(2)
    store.rows = [replace(row, rewards=0, late=0) for row in store.rows]
    store.spans = [replace(span, rewards=0, reward_sum=0.0, late=0) for span in store.spans]
    page = overview(decider, store, address="http://localhost:9", token=True)
    assert "No rewards in the last hour. Nothing is learned before the first comes:" in page.text
    assert "curl http://localhost:9/v1/reward" in page.text
    assert "$TOKEN" in page.text
    task = Page(task_page(decider, store, store.rows[0].task, now=NOW))
    assert "No reward yet." in task.text
    assert store.histories[store.rows[0].task][-1].id in task.text


def test_a_store_that_fails_is_told_with_its_reason(pages: dict[str, Page]) -> None:
    page = pages["failing list"]
    assert "Nothing can be written now." in page.text
    assert "disk full </div><script>" in page.text
    assert "not storing" in page.text
    assert "Nothing can be written now." not in pages["linear list"].text
    assert "the database is away <script>" in pages["unavailable"].text


# -- a task ---------------------------------------------------------------------------------------


def test_a_task_that_was_never_seen(service: tuple[FakeDecider, FakeStore]) -> None:
    for name in ("nobody", "", "x" * 300, "a\0b"):
        with pytest.raises(UnknownTaskError):
            task_page(*service, name, now=NOW)


def test_a_tasks_page_tells_its_kind_and_its_decisions() -> None:
    decider, store = typical(5)
    row = next(row for row in store.rows if row.version == 2 and row.decisions > 30)
    page = Page(task_page(decider, store, row.task, now=NOW))
    assert row.latent is not None
    assert decider.prior.names is not None
    assert page.texts[[text for _, text in page.texts].index("Likeliest kind") + 1] == (
        "bdi", decider.prior.names[row.latent],
    )  # fmt: skip
    history = store.histories[row.task]
    assert sum(text == "waiting" for _, text in page.texts) == sum(
        one.value is None for one in history[-25:]
    )
    view = read_task(decider, store, row.task, NOW)
    assert [n for n, _ in view.latest][:2] == [row.decisions, row.decisions - 1]
    assert len(view.latest) == 25
    late = sum(one.late for one in history[-25:])
    assert sum(text == "late" for _, text in page.texts) == late


def test_arms_have_counts_and_observed_means() -> None:
    decider, store = typical(1)
    history = store.histories[store.rows[0].task]
    arms = read_task(decider, store, store.rows[0].task, NOW).actions
    assert sum(arm.taken for arm in arms) == len(history)
    for arm in arms:
        values = [row.value for row in history if row.action == arm.index and row.value is not None]
        assert arm.observed == (pytest.approx(sum(values) / len(values)) if values else None)
        assert arm.low < arm.mean < arm.high
    assert [arm.best for arm in arms].count(True) == 1
    assert max(arms, key=lambda arm: arm.mean).best


def test_a_retired_arm_is_not_the_best() -> None:
    decider, store = typical(1)
    name = store.rows[0].task
    best = next(arm for arm in read_task(decider, store, name, NOW).actions if arm.best)
    decider.prior = decider.prior.retire_arms([best.index])
    arms = read_task(decider, store, name, NOW).actions
    assert [arm.retired for arm in arms].count(True) == 1
    assert not arms[best.index].best
    assert "retired" in Page(task_page(decider, store, name, now=NOW)).text


def test_the_history_is_of_the_last_decisions_and_arms_are_counted_in_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = history_of(np.random.default_rng(0), 300, 1, [(2, 300)], NOW)
    store = FakeStore([row_of("busy", rows)], {"busy": rows})
    decider = FakeDecider(arm_prior(2), store)
    view = read_task(decider, store, "busy", NOW)
    assert view.first_number == 101
    assert sum(arm.taken for arm in view.actions) == 300
    page = Page(task_page(decider, store, "busy", now=NOW))
    assert "taken and observed in the last" not in page.text
    assert "Decisions 101 to 300" in page.text
    for module in (pages_module, task_module):
        monkeypatch.setattr(module, "COUNTED", 250)
    assert sum(arm.taken for arm in read_task(decider, store, "busy", NOW).actions) == 250
    page = Page(task_page(decider, store, "busy", now=NOW))
    assert "taken and observed in the last 250 decisions" in page.text


def test_of_many_arms_the_best_are_shown() -> None:
    decider, store = typical(1, prior=arm_prior(3, 1000, named=False))
    view = read_task(decider, store, store.rows[0].task, NOW)
    assert (len(view.actions), view.n_actions) == (MOST_ACTIONS, 1000)
    means = [action.mean for action in view.actions]
    assert means == sorted(decider.posterior(store.rows[0].task).mean)[: -MOST_ACTIONS - 1 : -1]
    page = Page(task_page(decider, store, store.rows[0].task, now=NOW))
    assert f"These are the {MOST_ACTIONS} best of 1,000." in page.text


def test_of_many_kinds_the_likeliest_are_shown() -> None:
    facts = prior_facts(arm_prior(20, 2, named=False), 1)
    weights = [0.01] * 20
    weights[13] = 0.81
    kinds = kind_weights(weights, facts)
    assert [kind.name for kind in kinds[:3]] == ["kind 14", "kind 1", "kind 2"]
    assert kinds[-1].name == "13 others"
    assert sum(kind.weight for kind in kinds) == pytest.approx(1)


def test_actions_of_a_linear_prior_are_those_offered_last(pages: dict[str, Page]) -> None:
    (name,) = [name for name in pages if name.startswith("linear customer-10000")]
    page = pages[name]
    assert "Mean reward of the actions that were offered last" in page.text
    assert "action 5" in page.text
    assert "Taken" not in page.text
