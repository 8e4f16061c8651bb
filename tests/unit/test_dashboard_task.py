"""One task's page: its kind, its decisions, its actions."""

from __future__ import annotations

import numpy as np
import pytest

from mixts.errors import UnknownTaskError
from mixts.service.dashboard import pages as pages_module
from mixts.service.dashboard import task as task_module
from mixts.service.dashboard import task_page
from mixts.service.dashboard.source import prior_facts
from mixts.service.dashboard.task import MOST_ACTIONS, kind_weights, read_task
from tests.unit.dashboard_pages import Page, pages, service
from tests.unit.sample_dashboards import (
    NOW,
    FakeDecider,
    FakeStore,
    arm_prior,
    history_of,
    row_of,
    typical,
)

__all__ = ["pages", "service"]


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
