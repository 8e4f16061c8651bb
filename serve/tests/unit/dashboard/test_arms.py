"""The panel of arms: counts, shares, means with intervals, and traffic over time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mixts_serve.dashboard import overview_page, task_page
from mixts_serve.dashboard.arms import (
    ARM_ROWS,
    MOST_ARM_ROWS,
    MOST_BANDS,
    Period,
    arm_choices,
    bin_size,
    mean_interval,
    read_arms,
    traffic_chart,
)
from mixts_serve.dashboard.layout import prior_facts
from mixts_serve.dashboard.overview import OverviewQuery, read_overview
from mixts_serve.store.views import ArmTraffic, Earnings
from scipy import stats

import mixts
from serve.tests.unit.dashboard.dashboard_pages import Page, overview, service
from serve.tests.unit.dashboard.sample_dashboards import (
    NOW,
    FakeDecider,
    FakeStore,
    arm_prior,
    linear_prior,
    typical,
)

__all__ = ["service"]

NOON = 1_773_489_600.0
"""2026-03-14 12:00 UTC."""


# -- numbers --------------------------------------------------------------------------------------


def earned(values: list[float], decisions: int | None = None) -> Earnings:
    total, squares = sum(values), sum(v * v for v in values)
    n = len(values) if decisions is None else decisions
    return Earnings(total, squares, len(values), decisions=n, rewards=len(values))


def test_clicks_have_jeffreys_interval() -> None:
    found = mean_interval(earned([1.0] * 3 + [0.0] * 17))
    assert found is not None
    assert found.mean == 0.15
    law = stats.beta(3.5, 17.5)
    assert (found.low, found.high) == pytest.approx((law.ppf(0.05), law.ppf(0.95)))
    nothing, all_ = mean_interval(earned([0.0] * 9)), mean_interval(earned([1.0] * 9))
    assert nothing is not None
    assert all_ is not None
    assert (nothing.low, nothing.mean, nothing.high > 0.1) == (0.0, 0.0, True)
    assert (all_.low < 0.9, all_.mean, all_.high) == (True, 1.0, 1.0)


def test_other_rewards_have_students_interval() -> None:
    values = [3.0, 4.5, 2.0, 7.0, 3.5]
    found = mean_interval(earned(values))
    assert found is not None
    error = stats.sem(values)
    low, high = stats.t.interval(0.9, 4, np.mean(values), error)
    assert (found.low, found.mean, found.high) == pytest.approx((low, 4.0, high))
    alone = mean_interval(earned([2.5]))
    assert alone is not None
    assert (alone.low, alone.high) == (2.5, 2.5)
    assert alone.words == "", "one reward says nothing of the next"
    assert found.words.count(" to ") == 1
    assert mean_interval(Earnings(decisions=5)) is None


@given(st.lists(st.floats(-1e6, 1e6) | st.sampled_from([0.0, 1.0]), min_size=1, max_size=30))
def test_a_mean_lies_inside_its_interval_in_print_too(values: list[float]) -> None:
    found = mean_interval(earned(values))
    assert found is not None
    assert found.low <= found.mean <= found.high
    low, mean, high = (float(x.replace("−", "-").replace(",", "")) for x in found.text)
    assert low <= mean <= high


# -- the table ------------------------------------------------------------------------------------


def test_arms_have_names_counts_and_shares(service: tuple[FakeDecider, FakeStore]) -> None:
    decider, store = service
    facts = prior_facts(decider.prior, 2)
    view = read_arms(store, facts, Period(NOW - 86400, NOW))
    assert view is not None
    rows = [row for history in store.histories.values() for row in history if row.at >= view.since]
    assert view.total.decisions == len(rows)
    assert sum(line.share for line in view.lines) == pytest.approx(1)
    counts = [line.earned.decisions for line in view.lines]
    assert counts == sorted(counts, reverse=True)
    for line in view.lines:
        own = [row for row in rows if row.action == line.index]
        values = [row.value for row in own if row.value is not None]
        assert (line.earned.decisions, line.earned.rewards) == (len(own), len(values))
        assert line.earned.unrewarded == len(own) - len(values)
        assert line.interval is None or line.interval.mean == pytest.approx(np.mean(values))
    page = overview(decider, store, span="day")
    assert view.lines[0].name in page.text
    assert f"{view.total.decisions:,} decisions since 2026-03-13 12:00:00" in page.text


def test_of_many_arms_the_busiest_are_shown_and_a_search_finds_the_others() -> None:
    decider, store = typical(4, prior=arm_prior(3, 1000, named=False))
    facts = prior_facts(decider.prior, 2)
    view = read_arms(store, facts, Period(NOW - 86400, NOW))
    assert view is not None
    assert (len(view.lines), view.n_found, view.more) == (ARM_ROWS, 1000, 5 * ARM_ROWS)
    assert sum(line.look != "rest" for line in view.lines) <= MOST_BANDS
    found = read_arms(store, facts, Period(NOW - 86400, NOW), "ARM 99")
    assert found is not None
    assert found.n_found == 11, "arm 99, and arms 990 to 999"
    page = overview(decider, store, arm="arm 99", arms=50)
    assert "of 11 arms that contain “arm 99”" in page.text
    links = [a["href"] for a in page.of("a")]
    assert "./?arms=50#arms" in links, "all arms again"
    assert "No arm's name contains" in overview(decider, store, arm="nothing like it").text
    assert [OverviewQuery.of({"arms": n}).arms for n in ("x", "-1", "30", "9" * 40)] == [
        ARM_ROWS, ARM_ROWS, 30, MOST_ARM_ROWS,
    ]  # fmt: skip


def test_rows_of_features_have_no_panel() -> None:
    page = overview(*typical(3, prior=linear_prior()))
    assert not any(attributes.get("id") == "arms" for _, attributes in page.tags)


def test_bins_are_few_and_read_little() -> None:
    assert [bin_size(s, 10) for s in (900, 3600, 86_400, 7 * 86_400, 30 * 86_400)] == [
        600, 600, 3600, 14_400, 86_400,
    ]  # fmt: skip
    assert bin_size(7 * 86_400, 10_000) == 86_400


def test_traffic_is_stacked_to_one() -> None:
    facts = prior_facts(arm_prior(2, 3), 1)
    traffic = [
        ArmTraffic(NOON, 0, 30), ArmTraffic(NOON, 1, 10), ArmTraffic(NOON, None, 40),
        ArmTraffic(NOON + 1200, 0, 5), ArmTraffic(NOON + 1200, None, 20),
    ]  # fmt: skip
    chart = traffic_chart(traffic, NOON, 600, NOON + 1800, {0: 0, 1: 1}, facts)
    # Three bins: 75 % and 25 %; none; 25 %, 0 % and 75 % of others.
    first, second, rest = chart.bands
    assert first.path == "M0 100V0H33.33V100H66.67V0H100V100Z"
    assert second.path == "M0 100V75H33.33V100H66.67V25H100V100Z"
    assert rest.path == "M0 100V100H66.67V25H100V100Z"
    assert [label.text for label in chart.labels] == ["free shipping", "other arms"]
    assert [slot.text for slot in chart.slots] == [
        "12:00: 40 decisions; free shipping 75 %, 10 % off 25 %",
        "12:10: 0 decisions",
        "12:20: 20 decisions; free shipping 25 %",
    ]
    assert chart.description.endswith(
        "of 60 decisions: free shipping 58 %, 10 % off 17 %, other arms 25 %."
    )


# -- the same numbers everywhere ------------------------------------------------------------------


def test_a_task_has_the_same_certainty_in_the_list_and_on_its_page(
    service: tuple[FakeDecider, FakeStore],
) -> None:
    view = read_overview(*service, NOW, OverviewQuery())
    for line in view.listing.rows:
        page = Page(task_page(*service, line.row.task, now=NOW))
        weights = service[0].task(line.row.task).weights
        assert line.certainty == max(weights)
        assert line.kind in page.text


def test_one_kind_alone_is_not_drawn() -> None:
    decider, store = typical(3, prior=arm_prior(1, 4))
    name = store.rows[0].task
    for page in (overview(decider, store), Page(task_page(decider, store, name, now=NOW))):
        assert "Kinds of task" not in page.text
        assert "ertainty" not in page.text
        assert not any(attributes.get("id") == "weights" for _, attributes in page.tags)
    assert "of one kind" in overview(decider, store).text


def test_every_version_says_what_it_earned(service: tuple[FakeDecider, FakeStore]) -> None:
    _, store = service
    view = read_overview(*service, NOW)
    assert [(line.prior.version, line.made.policy) for line in view.versions] == [
        (2, "ids"),
        (1, "ts"),
    ]
    total = sum(len(history) for history in store.histories.values())
    assert sum(line.made.earned.decisions for line in view.versions) == total
    page = overview(*service)
    for line in view.versions:
        assert line.interval is not None
        assert f"{line.made.earned.decisions:,}" in page.text
        assert line.interval.text.value in page.text
    fresh = FakeDecider(arm_prior(), FakeStore())
    (line,) = read_overview(fresh, fresh.store, NOW).versions
    assert (line.made.policy, line.interval) == ("", None)


def test_kinds_are_described(service: tuple[FakeDecider, FakeStore]) -> None:
    decider, store = service
    texts = [f"Kind {s} buys `things`." for s in range(5)]
    described = FakeDecider(decider.prior.with_descriptions(texts), store, prior_version=2)
    for page in (
        overview(described, store),
        Page(task_page(described, store, store.rows[0].task, now=NOW)),
    ):
        assert "Kind 3 buys things ." in page.text
    assert "has the highest mean" in overview(*service).text


def test_a_warning_is_on_every_page(service: tuple[FakeDecider, FakeStore]) -> None:
    decider, store = typical(2)
    decider.warning = "every reward that came is 1, and <b>most</b> decisions have none"
    for page in (
        overview(decider, store),
        Page(task_page(decider, store, store.rows[0].task, now=NOW)),
    ):
        assert "Do rewards come only for successes?" in page.text
        assert "Every reward that came is 1, and <b>most</b> decisions have none." in page.text
    assert "only for successes" not in overview(*service).text


def test_no_interval_of_spends_reaches_below_zero() -> None:
    few = Earnings(decisions=7, reward_sum=64.0, reward_squares=2000.0, counted=7)
    free, bounded = mean_interval(few), mean_interval(few, 0.0)
    assert free is not None and bounded is not None  # noqa: PT018
    assert free.low < 0 == bounded.low
    assert (free.mean, free.high) == (bounded.mean, bounded.high)
    spend = np.ones((1, 2))
    family = mixts.SpendArms(spend, spend, spend, spend, spend, spend)
    assert prior_facts(mixts.MixturePrior(family), 1).least_reward == 0
    assert prior_facts(linear_prior(), 1).least_reward == -np.inf


# -- the form -------------------------------------------------------------------------------------


def options(decider: FakeDecider, store: FakeStore, *, changes: bool) -> list[str | None]:
    """Return the arms that the form offers."""
    page = Page(overview_page(decider, store, now=NOW, changes=changes))
    return [attributes["value"] for attributes in page.of("option")][1:]


def test_only_those_who_may_change_arms_have_a_form() -> None:
    decider, store = typical(2)
    assert options(decider, store, changes=False) == []
    assert options(decider, store, changes=True) == list(decider.prior.arm_names or ())
    unnamed = FakeDecider(arm_prior(2, 3, named=False), store)
    assert "Add, retire or rename" not in overview_page(unnamed, store, now=NOW, changes=True)
    linear = FakeDecider(linear_prior(), FakeStore())
    assert "Add, retire or rename" not in overview_page(linear, FakeStore(), now=NOW, changes=True)


def test_the_form_offers_all_arms_or_those_of_the_table() -> None:
    for n, search, expected in (
        (MOST_ARM_ROWS, "", [f"a{k}" for k in range(MOST_ARM_ROWS)]),
        (MOST_ARM_ROWS + 1, "", [f"a{k}" for k in range(ARM_ROWS)]),
        (MOST_ARM_ROWS + 1, "a499", ["a499"]),
    ):
        plain = arm_prior(1, n, named=False)
        prior = plain.replace(arm_names=[f"a{k}" for k in range(n)]).retire_arms(["a0"])
        facts = prior_facts(prior, 1)
        view = read_arms(FakeStore(), facts, Period(NOON - 3600, NOON), search)
        assert view is not None
        assert [name for name, _ in arm_choices(view, facts)] == expected
        assert [name for name, retired in arm_choices(view, facts) if retired] == (
            [] if search else ["a0"]
        )


def test_new_and_retired_arms_have_tags() -> None:
    decider, store = typical(2)
    prior = decider.prior.add_arms(["brand new"]).retire_arms(["bundle"])
    page = overview(FakeDecider(prior, store), store)
    rows = [text for tag, text in page.texts if tag == "span" and text in ("new", "retired")]
    assert sorted(rows) == ["new", "retired"]
    assert "1 to 10 of 11 arms, most decisions first, then 1 new arm:" in page.text
