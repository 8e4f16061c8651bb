"""The dashboard's pages: what they show, what they say when there is nothing, and no harm."""

from __future__ import annotations

import math
import re
from itertools import pairwise

import pytest
from mixts_serve.agreement import Agreement, Agreements
from mixts_serve.dashboard import (
    ASSETS,
    SCRIPT,
    SPANS,
    STYLE,
    task_link,
    task_page,
)
from mixts_serve.dashboard.layout import MOST_KINDS, policy_words, prior_facts
from mixts_serve.dashboard.over_time import (
    Bin,
    Means,
    begun_span,
    drawn_bins,
    rate_chart,
    reward_chart,
    usual_span,
)
from mixts_serve.dashboard.overview import PAGE_ROWS, OverviewQuery, read_overview, split_of
from mixts_serve.refitter import RefitNote
from mixts_serve.rules import Policy
from mixts_serve.store.views import Activity, Share
from mixts_serve.trials import Holdback
from msgspec import json
from msgspec.structs import replace

from mixts.agents import POLICIES
from mixts.pages import formats
from serve.tests.unit.dashboard.dashboard_pages import Page, overview, pages, service
from serve.tests.unit.dashboard.sample_dashboards import (
    HOSTILE,
    KINDS,
    NOW,
    FakeDecider,
    FakeStore,
    arm_prior,
    typical,
)

__all__ = ["pages", "service"]

NOON = 1_773_489_600.0
"""2026-03-14 12:00 UTC."""


# -- no harm --------------------------------------------------------------------------------------


def test_no_name_becomes_markup(pages: dict[str, Page]) -> None:
    for name, page in pages.items():
        scripts = [attributes["src"] for attributes in page.of("script")]
        assert scripts in ([], ["assets/dashboard.js"]), name
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
    assert [svg["aria-labelledby"] for svg in charts] == [
        "rates-title",
        "rewards-title",
        "traffic-title",
    ]
    said = [text for tag, text in page.texts if tag == "desc"]
    assert said[0].startswith("From 2026-03-14 11:2")
    assert "Mean of all: 0.2" in said[1]


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
    view = read_overview(*service, NOW)
    texts = [text for _, text in page.texts]
    assert formats.number(view.recent.decision_rate) in texts
    assert formats.number(view.recent.reward_rate) in texts
    assert f"{view.totals.decisions:,} in total" in texts
    assert "prior version 2" in texts
    assert "Bernoulli arms" in texts
    assert "storing" in texts
    assert {"policy ids", "horizon 50", "1 % drawn evenly"} <= set(texts)
    assert "Information-directed sampling ids weighs the reward" in page.text
    assert "50 decisions of a task; exploration fades towards the last" in texts
    assert "1 % of decisions are drawn evenly among the available actions" in page.text
    assert "active" in texts


@pytest.mark.parametrize("name", POLICIES)
def test_the_overview_says_which_policy_is_in_force(name: str) -> None:
    decider, store = typical(1)
    decider.policy = Policy(name, explore=0.0)
    page = overview(decider, store)
    texts = [text for _, text in page.texts]
    assert f"policy {name}" in texts
    assert not any(text.startswith("horizon") or text.endswith("drawn evenly") for text in texts)
    assert "none: a task may go on for ever" in texts
    assert "actions may have probability 0, and the log cannot evaluate" in page.text
    assert policy_words(decider.policy)[0] != name, "a name in words"


@pytest.mark.parametrize(
    ("baseline", "words"),
    [
        ("bestseller", "the bestseller"),
        ("uniform", "actions at random"),
        ("arm:free <gift>", "the arm free <gift>"),
    ],
)
def test_the_overview_says_what_decides_held_back_tasks(baseline: str, words: str) -> None:
    decider, store = typical(1)
    assert "Held back" not in overview(decider, store).text
    decider.holdback = Holdback(0.05, baseline)
    text = overview(decider, store).text
    assert f"Held back 5 % of the tasks, for {words}" in text
    assert "1 % of decisions of the other tasks are drawn evenly" in text
    assert "where rewards are not negative, this costs at most 1 % of them" in text


def test_the_overview_says_what_came_of_the_last_refit() -> None:
    decider, store = typical(1)
    assert "Last refit" not in overview(decider, store).text
    result = "nothing was learned: the data look wrong. 2026-03-01: <b>\nmore"
    store.notes["refit"] = json.encode(RefitNote(NOW - 3600.0, result)).decode()
    text = overview(decider, store).text
    assert "Last refit, 1 h ago : nothing was learned: the data look wrong. 2026-03-01: <b>" in text
    assert "<b> more" not in text


def test_the_rate_now_is_of_the_last_minute() -> None:
    last = NOW - NOW % 10
    spans = [Activity(last - ago, decisions=n) for ago, n in ((70, 9), (60, 6), (10, 40))]
    store = FakeStore(spans=[*spans, Activity(last, decisions=16, rewards=4)])
    recent = read_overview(FakeDecider(arm_prior(), store), store, NOW).recent
    assert recent.seconds == 60 + NOW - last
    assert recent.decision_rate == pytest.approx(62 / recent.seconds)


@pytest.mark.parametrize("span", SPANS)
def test_bins_cover_the_span(service: tuple[FakeDecider, FakeStore], span: str) -> None:
    view = read_overview(*service, NOW, OverviewQuery(span=span))
    size = int(view.bins[0].seconds)
    assert size % 10 == 0
    if span not in ("week", "month"):  # the service is five days old
        assert size == SPANS[span].bin_seconds
    assert all(one.start % size == 0 for one in view.bins)
    assert all(a.end == b.start for a, b in pairwise(view.bins))
    # The bin that has begun is there when half of it is over.
    assert view.bins[-1].end == NOW
    drawn = drawn_bins(view.bins)
    assert NOW - size / 2 < drawn[-1].end <= NOW
    assert 60 <= len(view.bins) <= 121
    counted = sum(s.decisions for s in service[1].spans if s.start >= view.bins[0].start)
    shown = view.whole.decisions
    assert counted - 40 * size <= shown <= counted


def test_an_unknown_span_is_the_hour(service: tuple[FakeDecider, FakeStore]) -> None:
    assert read_overview(*service, NOW, OverviewQuery.of({"span": "<script>"})).span == "hour"


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


def test_tasks_of_an_older_prior_are_counted_separately(
    service: tuple[FakeDecider, FakeStore],
) -> None:
    decider, store = service
    page = overview(decider, store)
    n_old = sum(row.version == 1 for row in store.rows)
    assert n_old > 0
    assert f"{n_old} more tasks have no decision under prior version 2 yet." in page.text


def test_the_list_is_cut_into_pages(service: tuple[FakeDecider, FakeStore]) -> None:
    first = overview(*service)
    links = {a.get("rel"): a["href"] for a in first.of("a")}
    assert "prev" not in links
    assert links["next"] == f"./?offset={PAGE_ROWS}#tasks"
    assert f"1 to {PAGE_ROWS} of 60, by last activity" in first.text
    last = overview(*service, offset=str(2 * PAGE_ROWS), span="day")
    links = {a.get("rel"): a["href"] for a in last.of("a")}
    assert "next" not in links
    assert links["prev"] == f"./?offset={PAGE_ROWS}&span=day#tasks"
    assert "51 to 60 of 60" in last.text
    assert "There are no more tasks." in overview(*service, offset=1000).text
    for odd, offset in (("-5", 0), ("many", 0), ("", 0), ("1e9", 0), (str(10**40), 10_000_000)):
        assert f"{offset + 1:,} " in overview(*service, offset=odd).text or offset


def test_the_search_stays_in_its_field(service: tuple[FakeDecider, FakeStore]) -> None:
    name = service[1].rows[7].task
    page = overview(*service, search=name[-3:])
    (field,) = [field for field in page.of("input") if field["name"] == "search"]
    assert field["value"] == name[-3:]
    assert name in page.text
    found = overview(*service, search="nobody\0 <b>")
    assert "No task's name contains" in found.text
    assert "nobody[U+0000] <b>" in found.text.replace(" [U", "[U")


# -- charts ---------------------------------------------------------------------------------------


def bins(*counts: tuple[int, int]) -> tuple[Bin, ...]:
    return tuple(Bin(NOON + 30 * i, 30, *count) for i, count in enumerate(counts))


def earned_bin(start: float, counted: int = 0, reward_sum: float = 0.0) -> Bin:
    return Bin(start, 30, counted=counted, reward_sum=reward_sum)


def test_rates_are_drawn_from_zero() -> None:
    chart = rate_chart(bins((300, 0), (600, 300)))
    assert chart.title == "Decisions and rewards a second"
    decided, rewarded = chart.lines
    # Ten and twenty decisions a second, on a scale up to 20, at the middles of two bins.
    assert decided.path == "M25 50L75 0"
    assert rewarded.path == "M25 100L75 50"
    assert [label.text for label in chart.labels] == ["decisions", "rewards"]
    assert decided.look != rewarded.look
    assert chart.description == (
        "From 2026-03-14 12:00:00 to 2026-03-14 12:01:00 UTC, a second. "
        "Decisions: between 10 and 20, last 20. Rewards: between 0 and 10, last 10."
    )
    assert [(slot.x, slot.width) for slot in chart.slots] == [(0, 50), (50, 50)]
    assert chart.slots[0].text == "12:00:00: 10 decisions, 0 rewards a second"


def test_slow_rates_are_counted_by_the_hour() -> None:
    chart = rate_chart(tuple(Bin(NOON + 7200 * i, 7200, i) for i in range(12)))
    assert chart.title == "Decisions and rewards an hour"
    assert chart.slots[3].text == "14 Mar, 18:00: 1.50 decisions, 0 rewards an hour"


def test_the_mean_reward_stands_beside_the_mean_of_all() -> None:
    earned = [(4, 1.0), (0, 0.0), (4, 3.0)]
    shown = tuple(earned_bin(NOON + 30 * i, *one) for i, one in enumerate(earned))
    chart = reward_chart(Means(shown, math.inf, NOON + 90), 0.5)
    # 0.25 and 0.75 between 0.2 and 0.8: a twelfth of the height from its ends.
    assert [tick.label for tick in chart.y_ticks] == ["0.2", "0.4", "0.6", "0.8"]
    assert chart.lines[0].dots == ((16.67, 91.67), (83.33, 8.33))
    assert chart.lines[0].path == ""
    assert chart.reference == 50
    assert chart.labels[0].text == "mean 0.500"
    assert [slot.text for slot in chart.slots] == [
        "12:00:00: 0.250, the mean of 4 rewards",
        "12:00:30: no rewards",
        "12:01:00: 0.750, the mean of 4 rewards",
    ]
    assert chart.shade is None


def test_decisions_whose_windows_are_open_are_drawn_apart() -> None:
    shown = (
        earned_bin(NOON, 4, 1.0), earned_bin(NOON + 30, 2, 1.0), earned_bin(NOON + 60),
    )  # fmt: skip
    chart = reward_chart(Means(shown, NOON + 45, NOON + 90), 1 / 3)
    assert chart.shade == 50
    assert chart.slots[-1].text == "12:01:00: reward windows are open"
    assert "decisions since 12:00 are open" in chart.description
    assert "final at 12:02" in chart.description
    chart = reward_chart(Means(shown, NOON + 45, NOON + 86400), 1 / 3)
    assert "decisions since 14 Mar, 12:00 are open" in chart.description


def test_the_page_says_which_decisions_are_final() -> None:
    decider, store = typical(2)
    store.open_seconds = 1200.0
    page = overview(decider, store)
    assert "rewards of decisions until 12:03; windows of later ones are open" in page.text
    assert "Shaded: reward windows of decisions since 12:03 are open" in page.text
    assert "All of them are final at 12:43." in page.text
    assert page.text.count("means of those until 14 Mar, 12:03") == 2
    assert len([one for one in page.of("rect") if one.get("class") == "shade"]) == 1
    store.open_seconds = 2000.0
    quarter = overview(decider, store, span="quarter")
    assert "No decision of the last 15 minutes with a reward is final." in quarter.text
    store.open_seconds = 86400.0
    assert "decisions until 13 Mar, 12:23; windows" in overview(decider, store).text
    store.open_seconds = 7 * 86400.0
    assert read_overview(decider, store, NOW).span == "month", "a period that is half final"


def test_the_usual_period_is_half_final() -> None:
    found = [usual_span(seconds) for seconds in (0, 1801, 2000, 40_000, 86_400, 1e9)]
    assert found == ["hour", "hour", "day", "day", "week", "month"]


@pytest.mark.parametrize("name", SPANS)
@pytest.mark.parametrize("age", [1, 100, 4000, 100_000, 3_000_000])
def test_charts_begin_with_the_first_decision(name: str, age: float) -> None:
    span = begun_span(SPANS[name], NOW - age, NOW)
    assert span.seconds <= SPANS[name].seconds
    assert span.seconds >= min(age, SPANS[name].seconds) - span.bin_seconds
    assert span.seconds < age + 13 * span.bin_seconds
    assert 12 <= span.seconds / span.bin_seconds <= 120


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
    store.spans = [replace(span, rewards=0, late=0) for span in store.spans]
    page = overview(decider, store, address="http://localhost:9", token=True)
    assert (
        "No rewards in the last hour. The service learns from rewards; send the first:" in page.text
    )
    assert "curl http://localhost:9/v1/reward" in page.text
    assert "$TOKEN" in page.text
    task = Page(task_page(decider, store, store.rows[0].task, now=NOW))
    assert "No reward yet." in task.text
    assert store.histories[store.rows[0].task][-1].id in task.text


def test_a_store_that_fails_is_shown_with_its_reason(pages: dict[str, Page]) -> None:
    page = pages["failing list"]
    assert "Nothing can be stored now." in page.text
    assert "disk full </div><script>" in page.text
    assert "not storing" in page.text
    assert "Nothing can be stored now." not in pages["linear list"].text
    assert "the database is away <script>" in pages["unavailable"].text


def test_the_page_says_what_becomes_of_silence_and_of_new_arms() -> None:
    decider, store = typical(2)
    assert "no window: a decision waits" in overview(decider, store).text
    decider.window = 1800.0
    assert (
        "expected within 30 min 00 s; then the decision is given up"
        in overview(decider, store).text
    )
    decider.default = 0.0
    assert (
        "expected within 30 min 00 s; then the default reward 0 counts"
        in overview(decider, store).text
    )
    assert "for all of them together" not in overview(decider, store).text
    decider.policy = Policy.checked("ids", new_item_share=0.05)
    assert "New arms 5 % at most for all of them together" in overview(decider, store).text
    decider.policy = Policy.checked("ids", new_item_share=(0.01, 0.05))
    assert "1 % at least and 5 % at most" in overview(decider, store).text


def test_the_first_rewards_are_drawn_at_once() -> None:
    decider, store = typical(2)
    store.spans = [Activity(10 * (NOW // 10), decisions=6, rewards=3)]
    assert not any(one.rewards for one in drawn_bins(read_overview(decider, store, NOW).bins))
    page = overview(decider, store)
    assert "No rewards in" not in page.text
    assert "3 rewards, 6 decisions in the last hour" in page.text


# -- what the prior expected ----------------------------------------------------------------------


def test_expected_stands_beside_earned_and_an_alarm_has_a_banner() -> None:
    decider, store = typical(40)
    assert "The prior is wrong." not in overview(decider, store).text
    whole, arm = Agreement(412.0, 0.4401, 0.1012, True), Agreement(300.0, 0.512, 0.504)
    decider.found = Agreements(
        whole, {0: arm, 1: whole}, {2: Agreement(7.6, 0.31, 0.32)}, {}, 9.5, True
    )
    decider.alarm = "the rewards do not agree with version 2 of the prior: <b>\u202e"
    page = overview(decider, store)
    assert (
        "The prior is wrong. The rewards do not agree with version 2 of the prior: <b>" in page.text
    )
    wrong = [attributes for attributes in page.of("b") if attributes.get("class") == "wrong"]
    assert len(wrong) == 2, "an arm and the version"
    assert page.text.count("0.440 earned 0.101") == 2
    assert "0.512 earned 0.504" in page.text
    assert "0.310 earned 0.320" in page.text
    titles = [one["title"] or "" for one in page.of("span") if "title" in one]
    assert any(title.startswith("of 8 decisions") for title in titles)
    assert "The prior is wrong." in task_page(decider, store, store.rows[0].task, now=NOW)
    assert "all policies" not in page.text
    history = store.histories[store.rows[0].task]
    history[-1] = replace(history[-1], policy="bestseller", prior_version=2)
    assert overview(decider, store).text.count("earned 0.101 all policies") == 2


def test_arms_by_kind_lead_to_their_tasks() -> None:
    decider, store = typical(40)
    assert "Arms by kind" not in overview(decider, store).text
    whole = Agreement(100.0, 0.4, 0.4)
    cells = {
        (0, 1): Agreement(30.0, 0.31, 0.32),
        (0, 2): Agreement(10.0, 0.11, 0.12),
        (2, 1): Agreement(60.0, 0.55, 0.5),
    }
    decider.found = Agreements(whole, {1: whole}, {0: whole}, cells, 0.0, False)
    page = overview(decider, store)
    assert "Arms by kind" in page.text
    assert "75 % 0.320 (0.310)" in page.text, "three quarters of the decisions of the first kind"
    assert "100 % 0.500 (0.550)" in page.text
    links = [one["href"] or "" for one in page.of("a") if "item=" in (one.get("href") or "")]
    assert sorted(links) == [
        "./?kind=0&item=1#tasks", "./?kind=0&item=2#tasks", "./?kind=2&item=1#tasks",
    ]  # fmt: skip
    shown = overview(decider, store, kind=2, item=1)
    facts = prior_facts(decider.prior, decider.prior_version)
    arm, kind = facts.action(1), facts.kind(2)
    assert f"that took {arm} and whose last decision was for {kind}" in shown.text
    wanted = {task_link(row.task) for row in store.rows if row.latent == 2}
    links = [one.get("href") or "" for one in shown.of("a")]
    found = {link for link in links if link.startswith("tasks?")}
    assert found
    assert found <= wanted
    assert "There is no task" in overview(decider, store, kind=4000).text


# -- kinds of several components --------------------------------------------------------------


def test_shares_are_summed_by_kind() -> None:
    prior = arm_prior(4, named=False).replace(kinds=["day", "night", "day", "day"])
    facts = prior_facts(prior, 1)
    assert facts.by_kind([0.1, 0.2, 0.3, 0.4]) == pytest.approx((0.8, 0.2))
    assert facts.by_kind([0.6, 0.4], version=2) == (0.6, 0.4)
    split = split_of([Share(0, 3, 1), Share(1, 4, 2), Share(3, 1, 1), Share(None, 7, 0)], facts)
    assert [(kind.name, kind.tasks, kind.sure) for kind in split.kinds] == [
        ("day", 4, 2), ("night", 4, 2),
    ]  # fmt: skip
    assert [kind.prior for kind in split.kinds] == pytest.approx(
        [prior.weights[[0, 2, 3]].sum(), prior.weights[1]]
    )
    assert (split.decided, split.waiting, split.sure) == (8, 7, 4)
    assert len(facts.descriptions) == 2


def test_pages_show_kinds_not_components() -> None:
    prior = arm_prior(5).replace(kinds=["day", "night", "day", "night", "day"])
    decider, store = typical(40, prior=prior)
    view = read_overview(decider, store, NOW)
    assert {line.kind for line in view.listing.rows} == {"day", "night"}
    name = view.listing.rows[0].row.task
    line = view.listing.rows[0]
    page = task_page(decider, store, name, now=NOW)
    weights = decider.task(name).weights
    by_kind = (weights[0] + weights[2] + weights[4], weights[1] + weights[3])
    assert line.certainty == pytest.approx(max(by_kind))
    assert line.kind == ("day", "night")[by_kind.index(max(by_kind))]
    assert not any(component in page for component in KINDS)
