"""Facts of the person on the pages: which matter, and what they do to each action."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from mixts_serve import Decider, DecisionStore
from mixts_serve.dashboard import overview_page, task_page
from mixts_serve.dashboard.layout import decide_command, prior_facts
from mixts_serve.dashboard.task import effect_words

import mixts
from serve.tests.contracts.test_store_context import FEATURES, OLD, PRIOR, offer
from serve.tests.unit.dashboard.dashboard_pages import Page


@pytest.fixture(scope="module")
def decider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Decider]:
    path = tmp_path_factory.mktemp("facts") / "decisions.db"
    with DecisionStore(path) as store, Decider(PRIOR, store, seed=1) as decider:
        decider.decide("ada", offer(), context={"age": 60, "land": "<i>"})
        decider.decide("bob", offer())
        yield decider


def words_of(page: str) -> str:
    return " ".join(" ".join(text for _, text in Page(page).texts).split())


def test_the_overview_says_what_is_the_same_for_everybody(decider: Decider) -> None:
    page = overview_page(decider, decider.store, now=decider.store.now())
    words = words_of(page)
    assert "What is the same for everybody" in words
    assert "age x item multiplies or divides the odds by 20" in words
    assert "10 more of age and item=book : divides the odds by 20" in words
    assert words.index("age x item") < words.index("ctr") < words.index("land")


def test_a_task_says_what_is_known_and_what_it_does(decider: Decider) -> None:
    now = decider.store.now()
    page = words_of(task_page(decider, decider.store, "ada", now=now))
    assert "Known of the person at the last decision: age 60, land <i>" in page
    rows = FEATURES.rows([{"item": item, "ctr": 0} for item in ("book", "film")], context=OLD)
    for added in rows[:, -1]:
        assert effect_words(float(added), odds=True) in page
    assert "No facts of the person were known" in words_of(
        task_page(decider, decider.store, "bob", now=now)
    )


def test_names_and_values_of_facts_cannot_reorder_a_line(tmp_path: Path) -> None:
    column = mixts.NumberFeature("age\u202e")
    effects = mixts.Pooled([column], [(column.name,)], [column.name], coefficients=[1.0])
    features = mixts.Features(["size"], pooled=effects)
    family = mixts.LinearBernoulli(np.zeros((1, 1)), np.ones((1, 1)), "diag").with_offset()
    prior = mixts.MixturePrior(family, features=features)
    with DecisionStore(tmp_path / "d.db") as store, Decider(prior, store, seed=1) as decider:
        decider.decide("ada", [{"features": {"size": 1}}], context={column.name: 3})
        page = task_page(decider, store, "ada", now=store.now())
    assert "Known of the person at the last decision: age[U+202E] 3" in words_of(page)


def test_effects_of_an_action_are_odds_or_rewards() -> None:
    assert effect_words(math.log(3), odds=True) == "odds × 3.00"
    assert effect_words(0.25, odds=False) == "+0.250"
    assert effect_words(-0.25, odds=False) == "\N{MINUS SIGN}0.250"


def test_the_command_describes_the_actions_and_the_person(tmp_path: Path) -> None:
    facts = prior_facts(PRIOR, 1)
    body = json.loads(shlex.split(decide_command("http://h", "u", facts, False))[-1])
    with DecisionStore(tmp_path / "d.db") as store, Decider(PRIOR, store, seed=1) as decider:
        made = decider.decide(body["task"], body["actions"], context=body["context"])
        assert made.arm == "a"
    plain = mixts.MixturePrior(
        mixts.LinearGaussian(np.zeros((1, 1)), np.ones(1), 1.0, "spherical"),
        features=mixts.Features(["price"]),
    )
    command = decide_command("http://h", "u", prior_facts(plain, 1), False)
    expected = {"task": "u", "actions": [{"id": "a", "features": {"price": 1.0}}]}
    assert json.loads(shlex.split(command)[-1]) == expected
