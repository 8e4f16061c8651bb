"""Pooled effects: facts of a person, crosses and scores become the last number of a row."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import mixts
from mixts.errors import ActionError, ParameterError

ITEM = mixts.LevelFeature("item", ("book", "film"))
AGE = mixts.NumberFeature("age", centre=40, scale=10, learned=(18, 90))
LAND = mixts.LevelFeature("land", ("at", "de"))
SCORE = mixts.NumberFeature("score")
OPEN = mixts.Pooled(
    [AGE, LAND, SCORE, ITEM],
    [("age",), ("age", "item"), ("land", "item"), ("score",)],
    person=["age", "land"],
    means=[0.0, 0.25, 0.75, -1.0, 0.5, 0.5],
)
BETA = np.array([0.1, 0.2, -0.2, 1.0, 2.0, 3.0, 4.0, 0.5])
WIDE = mixts.Features([ITEM], pooled=OPEN)
FEATURES = WIDE.learned_pooled(BETA)
ITEMS = [{"item": "book", "score": -1.0}, {"item": "film", "score": 1.0}]


def prior() -> mixts.MixturePrior:
    family = mixts.LinearBernoulli([[0.0, 1.0], [1.0, 0.0]], np.full((2, 2), 0.3), "diag")
    return mixts.MixturePrior(family.with_offset(), features=FEATURES)


# -- rows ----------------------------------------------------------------------------------------


def test_terms_are_products_of_centred_numbers() -> None:
    assert WIDE.names == (
        "item=book", "item=film", "age", "age x item=book", "age x item=film",
        "land=at x item=book", "land=at x item=film", "land=de x item=book", "land=de x item=film",
        "score",
    )  # fmt: skip
    rows = WIDE.rows(ITEMS, context={"age": 60, "land": "at"})
    book, film = [0.5, -0.5], [-0.5, 0.5]
    for row, own, item, score in zip(rows, ([1, 0], [0, 1]), (book, film), (0, 2), strict=True):
        crosses = np.outer([0.75, -0.75], item).ravel()
        np.testing.assert_allclose(row, [*own, 2, *np.multiply(2, item), *crosses, score])


def test_learned_effects_are_one_number() -> None:
    assert FEATURES.names == ("item=book", "item=film", "pooled")
    assert (FEATURES.n_numbers, FEATURES.n_own, WIDE.n_own) == (3, 2, 2)
    wide = WIDE.rows(ITEMS, context={"age": 60, "land": "at"})
    rows = FEATURES.rows(ITEMS, context={"age": 60, "land": "at"})
    np.testing.assert_allclose(rows[:, 2], wide[:, 2:] @ BETA)
    np.testing.assert_array_equal(rows[:, :2], wide[:, :2])
    np.testing.assert_array_equal(FEATURES.row({**ITEMS[1], "age": 60, "land": "at"}), rows[1])


@pytest.mark.parametrize(
    "context", [{}, {"age": None}, {"age": float("nan"), "land": ""}, {"land": "xx"}, None]
)
def test_what_is_not_known_is_that_of_the_average_person(context: Any) -> None:
    rows = FEATURES.rows(ITEMS, context=context)
    np.testing.assert_array_equal(rows[:, 2], [0.0, 1.0])  # the score is all


def test_an_average_fact_says_as_much_as_none() -> None:
    whole = FEATURES.rows(ITEMS, context={"age": 40})
    np.testing.assert_array_equal(whole, FEATURES.rows(ITEMS))


def test_facts_may_stand_beside_the_features() -> None:
    described = [{**item, "age": 25, "land": "de"} for item in ITEMS]
    np.testing.assert_array_equal(
        FEATURES.rows(described), FEATURES.rows(ITEMS, context={"age": 25, "land": "de"})
    )
    pandas = pytest.importorskip("pandas")
    np.testing.assert_array_equal(
        FEATURES.rows(pandas.DataFrame(ITEMS), context={"age": 25}),
        FEATURES.rows(ITEMS, context={"age": 25}),
    )


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("items", "context", "message"),
    [
        (
            ITEMS,
            {"size": 3},
            "unknown fact 'size' of the person: leave it out; facts: 'age', 'land'",
        ),
        (ITEMS, {"item": "book"}, "unknown fact 'item' of the person"),
        (ITEMS, {"age": "old"}, "action 0: feature 'age' must be a finite number, got 'old'"),
        (
            ITEMS,
            {"age": 4000},
            "feature 'age' must be about as large as what the prior was learned",
        ),
        (
            ITEMS,
            {"land": ["at"]},
            "feature 'land' must be one of the levels 'at', 'de', got ['at']",
        ),
        (ITEMS, "at", "context must be facts of the person by name, got 'at'"),
        ([{"item": "book"}], {}, "action 0: feature 'score' must be a finite number, got None"),
        (np.eye(3), {"age": 30}, "a context needs actions that are described, such as"),
    ],
)
def test_wrong_facts_are_refused(items: Any, context: Any, message: str) -> None:
    with pytest.raises(ActionError, match=re.escape(message)):
        FEATURES.rows(items, context=context)


def test_descriptions_leave_the_pooled_effects_out() -> None:
    rows = FEATURES.rows(ITEMS, context={"age": 25})
    assert FEATURES.descriptions(rows) == [{"item": "book"}, {"item": "film"}]
    assert FEATURES.raw_names == ("item", "score")
    assert FEATURES.facts == ("age", "land")
    assert FEATURES.example() == {"item": "book", "score": 1.0}


# -- wrong effects ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([AGE, AGE], [("age",)]), "names of pooled columns must differ"),
        (([AGE], [("size",)]), "pooled terms and facts must be columns, 'age', got 'size'"),
        (([AGE], [("age",)], ["size"]), "got 'size'"),
        (([AGE], []), "pooled terms must be at least one"),
        (([AGE], [("age", "age", "age")]), "each of one name or two"),
        (([AGE], [("age",)], (), [1.0, 2.0]), "means must be 1 numbers"),
        (([AGE], [("age",)], (), None, [1.0, 2.0]), "coefficients must be 1 numbers, one for each"),
    ],
)
def test_wrong_effects_are_refused(arguments: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        mixts.Pooled(*arguments)


def test_too_many_crosses_are_refused_with_their_sizes() -> None:
    lands = mixts.LevelFeature("land", [f"l{i}" for i in range(20)])
    items = mixts.LevelFeature("item", [f"i{i}" for i in range(16)])
    with pytest.raises(ParameterError, match=r"320 numbers, and at most 300.* land x item \(320\)"):
        mixts.Pooled([lands, items], [("land", "item")], ["land"])


def test_a_fact_is_no_feature() -> None:
    with pytest.raises(ParameterError, match="'age' is a feature, and a fact of the person"):
        mixts.Features([AGE], pooled=mixts.Pooled([AGE], [("age",)], ["age"]))


def test_a_prior_needs_coefficients_and_an_offset() -> None:
    family = mixts.LinearGaussian.standard(2, 1.0)
    with pytest.raises(ParameterError, match="pooled effects must have coefficients"):
        mixts.MixturePrior(mixts.LinearGaussian.standard(10, 1.0), features=WIDE)
    with pytest.raises(ParameterError, match="need a family whose last coefficient is 1"):
        mixts.MixturePrior(mixts.LinearGaussian.standard(3, 1.0), features=FEATURES)
    assert mixts.MixturePrior(family.with_offset(), features=FEATURES).family.has_offset


# -- priors and agents -----------------------------------------------------------------------------


def test_a_prior_file_keeps_the_effects(tmp_path: Any) -> None:
    prior().save(tmp_path / "prior.json")
    again = mixts.MixturePrior.load(tmp_path / "prior.json")
    assert again.features == FEATURES
    assert mixts.Features.restore(WIDE.header()) == WIDE
    assert "pooled" not in mixts.Features([ITEM]).header()


@pytest.mark.parametrize("kind", [mixts.MixTS, mixts.MixIDS, mixts.Greedy, mixts.BayesUCB])
def test_agents_decide_for_a_person(kind: Any) -> None:
    young, old = {"age": 20, "land": "at"}, {"age": 80, "land": "at"}
    agent, rows = kind(prior(), seed=1), kind(prior(), seed=1)
    for context in (young, old):
        known = FEATURES.rows(ITEMS, context=context)
        assert agent.act(ITEMS, context=context) == rows.act(known)
        ours = agent.action_probabilities(ITEMS, context=context)[0]
        np.testing.assert_array_equal(ours, rows.action_probabilities(known)[0])
        ours = agent.act_with_probabilities(ITEMS, context=context)[1]
        np.testing.assert_array_equal(ours, rows.act_with_probabilities(known)[1])
        agent.update(ITEMS[0], 1, context=context)
        rows.update(known[0], 1)
    np.testing.assert_array_equal(agent.belief.log_evidence, rows.belief.log_evidence)


def test_each_decision_may_have_a_context() -> None:
    people = [{"age": 20}, {"age": 80}, {}]
    agent = mixts.Greedy(prior(), n_tasks=3, seed=1)
    sets = np.stack([FEATURES.rows(ITEMS, context=person) for person in people])
    np.testing.assert_array_equal(agent.act([ITEMS] * 3, context=people), agent.act(sets))
    agent.update([ITEMS[0]] * 3, [1, 0, 1], context=people)
    again = mixts.Greedy(prior(), n_tasks=3, seed=1)
    again.update(sets[:, 0], [1, 0, 1])
    np.testing.assert_array_equal(agent.belief.weights, again.belief.weights)
    with pytest.raises(ActionError, match="a list of contexts needs a list of 3 action sets"):
        agent.act([ITEMS] * 2, context=people)


def test_agents_without_facts_refuse_a_context() -> None:
    arms = mixts.MixturePrior(mixts.BernoulliArms([[1.0, 2.0]], [[2.0, 1.0]]))
    with pytest.raises(ActionError, match="a context needs a prior whose features"):
        mixts.MixTS(arms, seed=1).act(context={"age": 3})
    with pytest.raises(ActionError, match="takes no context"):
        mixts.Exp4([[0.5, 0.5]], 10, seed=1).act(context={"age": 3})
