"""The panel of imagined outcomes on a task's page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from mixts_serve import Decider, DecisionStore
from mixts_serve import decider as decider_module
from mixts_serve.dashboard import read_outcomes, task_page
from mixts_serve.imagine import outlook

import mixts
from serve.tests.contracts.stores import ACTIONS, linear
from serve.tests.unit.dashboard.dashboard_pages import Page

PRIOR = mixts.MixturePrior(
    mixts.BernoulliArms([[8.0, 2.0], [2.0, 8.0]], [[2.0, 8.0], [8.0, 2.0]]),
    [0.5, 0.5], ["early birds", "night owls"], ["bread", "<b>"],
)  # fmt: skip


@pytest.fixture(scope="module")
def decider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Decider]:
    path = tmp_path_factory.mktemp("imagine") / "decisions.db"
    with DecisionStore(path) as store, Decider(PRIOR, store, seed=1) as decider:
        decider.decide("ada & co")
        yield decider


def page_of(decider: Decider, **query: str) -> Page:
    asked = read_outcomes(query)
    return Page(task_page(decider, decider.store, "ada & co", now=1.8e9, imagine=asked))


@pytest.mark.parametrize(
    ("query", "outcomes"),
    [
        ({}, ()),
        ({"imagine": "2:1,0:0"}, ((2, 1.0), (0, 0.0))),
        ({"imagine": "2:1", "action": "1", "value": "-0.5"}, ((2, 1.0), (1, -0.5))),
        ({"imagine": "x:1,2,3:y,1:inf,:,1:1"}, ((1, 1.0),)),
        ({"action": "1", "value": " "}, ()),
    ],
)
def test_outcomes_of_an_address(query: dict[str, str], outcomes: tuple[object, ...]) -> None:
    assert read_outcomes(query) == outcomes


def test_an_address_has_at_most_one_outcome_too_many() -> None:
    assert len(read_outcomes({"imagine": "0:1," * 10_000})) == 21


def test_outcomes_move_kinds_means_and_the_next_choice(decider: Decider) -> None:
    page = page_of(decider)
    assert "Imagine the outcome of an action" in page.text
    assert "→" not in page.text
    page = page_of(decider, imagine="1:1")
    assert "Imagined, and not logged: <b> 1 . Forget it" in page.text
    assert "night owls : 50 % → 80 %" in page.text
    assert "0.500 → 0.320" in page.text
    assert "0.500 → 0.709" in page.text
    links = [one["href"] or "" for one in page.of("a") if "imagine=" in (one.get("href") or "")]
    assert links[:2] == [
        f"tasks?name=ada%20%26%20co&imagine=1:1,0:{value}#imagine" for value in (1, 0)
    ]
    assert decider.task("ada & co").rewards == 0


def test_an_impossible_outcome_says_why(decider: Decider) -> None:
    assert (
        "This cannot happen: action must be from 0 to 1, got 7."
        in page_of(decider, imagine="7:1").text
    )
    full = page_of(decider, imagine=",".join(["0:1"] * 20))
    assert not [one for one in full.of("a") if "imagine=" in (one.get("href") or "")]


def test_any_number_comes_by_a_form(tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("form") / "decisions.db"
    with DecisionStore(path) as store, Decider(linear(), store, seed=1) as decider:
        decider.decide("ada", ACTIONS)
        asked = read_outcomes({"imagine": "", "action": "0", "value": "2.5"})
        page = Page(task_page(decider, store, "ada", now=1.8e9, imagine=asked))
    assert "Imagined, and not logged: action 0 2.50" in page.text
    kept = [one for one in page.of("input") if one.get("name") == "imagine"]
    assert [one["value"] for one in kept] == ["0:2.5"]


def test_an_arrow_stands_between_numbers_that_differ_as_they_are_shown(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Rare clicks move in digits that large numbers do not show."""
    path = tmp_path_factory.mktemp("rare") / "decisions.db"
    family = mixts.BernoulliArms([[1.0, 300.0]], [[5e3, 300.0]])
    with DecisionStore(path) as store, Decider(mixts.MixturePrior(family), store, seed=1) as rare:
        rare.decide("ada")
        page = Page(
            task_page(rare, store, "ada", now=1.8e9, imagine=[(0, 1.0), (1, 1.0), (1, 0.0)])
        )
    assert "0.000200 → 0.000400" in page.text
    assert "0.500 →" not in page.text


def test_nothing_imagined_decides_once(decider: Decider, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task's page asks for it every two seconds, and a decision of 10,000 arms takes 0.4 s."""
    asked = []

    def counted(*given: Any) -> Any:
        asked.append(given)
        return outlook(*given)

    monkeypatch.setattr(decider_module, "outlook", counted)
    page_of(decider)
    assert len(asked) == 1
