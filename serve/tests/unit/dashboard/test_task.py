"""One task's page: its kind, its decisions, its actions."""

from __future__ import annotations

import numpy as np
import pytest
from mixts_serve.dashboard import task as task_module
from mixts_serve.dashboard import task_page
from mixts_serve.dashboard.charts import N_COLOURS
from mixts_serve.dashboard.layout import prior_facts
from mixts_serve.dashboard.task import MOST_ACTIONS, kind_weights, read_task, weight_chart
from mixts_serve.store.views import DecisionRow
from msgspec.structs import replace

from mixts.errors import UnknownTaskError
from serve.tests.unit.dashboard.dashboard_pages import Page, pages, service
from serve.tests.unit.dashboard.sample_dashboards import (
    NOW,
    FakeDecider,
    FakeStore,
    arm_prior,
    history_of,
    row_of,
    typical,
)

__all__ = ["pages", "service"]

NOON = 1_773_489_600.0
"""2026-03-14 12:00 UTC."""


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
    assert page.texts[[text for _, text in page.texts].index("Most likely kind") + 1] == (
        "bdi", decider.prior.names[row.latent],
    )  # fmt: skip
    history = store.histories[row.task]
    assert sum(text == "waiting" for _, text in page.texts) == sum(
        one.value is None for one in history[-25:]
    )
    view = read_task(decider, store, row.task, NOW)
    assert [n for n, _ in view.latest][:2] == [row.decisions, row.decisions - 1]
    assert len(view.latest) == 25
    texts = [text for _, text in page.texts]
    assert texts.count("ids") == sum(one.policy == "ids" for one in history[-25:])
    assert texts.count("ts") == sum(one.policy == "ts" for one in history[-25:])
    assert {"policy ids", "horizon 50", "1 % drawn evenly"} <= set(texts)
    late = sum(one.late for one in history[-25:])
    assert sum(text == "late" for _, text in page.texts) == late


@pytest.mark.parametrize(
    ("side", "policy", "words"),
    [
        ("control", "bestseller", {"policy bestseller (held back)"}),
        ("canary", "ids", {"policy ids", "1 % drawn evenly", "canary of version 2"}),
        ("treated", "ids", {"policy ids", "1 % drawn evenly"}),
    ],
)
def test_a_tasks_page_tells_its_side_of_a_trial(side: str, policy: str, words: set[str]) -> None:
    decider, store = typical(1)
    history = store.histories[store.rows[0].task]
    history[-1] = replace(history[-1], side=side, policy=policy, prior_version=2)
    page = Page(task_page(decider, store, store.rows[0].task, now=NOW))
    known = {"policy ids", "1 % drawn evenly", "canary of version 2", *words}
    assert {text for _, text in page.texts} & known == words


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
    monkeypatch.setattr(task_module, "COUNTED", 250)
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
    assert sum(kind.share for kind in kinds) == pytest.approx(1)


def test_actions_of_a_linear_prior_are_those_offered_last(pages: dict[str, Page]) -> None:
    (name,) = [name for name in pages if name.startswith("linear customer-10000")]
    page = pages[name]
    assert "Mean reward of the actions that were offered last" in page.text
    assert "action 5" in page.text
    assert "Taken" not in page.text


# -- the chart of probabilities -------------------------------------------------------------------


def decision(i: int, weights: tuple[float, ...], version: int = 1) -> DecisionRow:
    return DecisionRow(f"{i:032x}", NOON + i, 0, 0.5, weights, version, None, None, False, "ids")


def test_weights_are_stacked_from_the_top() -> None:
    facts = prior_facts(arm_prior(2), 1)
    history = [decision(0, (0.5, 0.5)), decision(1, (0.2, 0.8))]
    chart = weight_chart(history, 1, facts)
    whole, below = chart.bands
    assert whole.path == "M0 100V0H100V100Z"
    assert below.path == "M0 100V50H50V20H100V100Z"
    assert [label.text for label in chart.labels] == ["bargain hunters", "night owls"]
    assert [label.mark for label in chart.labels] == [10, 60]
    assert chart.slots[1].text == (
        "decision 2, 2026-03-14 12:00:01: night owls 80 %, bargain hunters 20 %"
    )
    assert chart.description == (
        "Decisions 1 to 2: at first bargain hunters 50 %, at last night owls 80 %."
    )


def test_only_decisions_under_the_active_prior_are_drawn() -> None:
    decider, store = typical(5)
    task = next(row.task for row in store.rows if row.version == decider.prior_version == 2)
    history = store.histories[task]
    n_active = sum(row.prior_version == 2 for row in history)
    assert 0 < n_active < len(history)
    page = task_page(decider, store, task, now=NOW)
    assert page.count('<rect class="slot"') == n_active
    assert "Earlier decisions, under another version of the prior, had other kinds." in page
    store.histories[task] = [row for row in history if row.prior_version == 1]
    page = task_page(decider, store, task, now=NOW)
    assert "No decision under prior version 2 yet." in page


def test_of_many_kinds_the_heaviest_have_bands() -> None:
    weights = np.full(100, 0.001)
    weights[[3, 11, 40]] = 0.3, 0.3, 0.303
    facts = prior_facts(arm_prior(100, 2, named=False), 1)
    chart = weight_chart([decision(0, tuple(weights.tolist()))], 1, facts)
    assert len(chart.bands) == N_COLOURS
    assert chart.bands[-1].look == "rest"
    assert len({band.look for band in chart.bands}) == N_COLOURS
    assert [label.text for label in chart.labels] == ["kind 4", "kind 12", "kind 41", "93 others"]
    # 3 and 11 would have the same colour, and stand side by side.
    assert chart.labels[0].look != chart.labels[1].look
    # The first three kinds are above the fourth: of equal ones, those with the lowest numbers.
    assert chart.labels[0].mark == pytest.approx(100 * (0.003 + 0.15))
