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
        (ITEMS, {"age": "old"}, "action 0: fact 'age' must be a finite number, got 'old'"),
        (
            ITEMS,
            {"age": 4000},
            "fact 'age' must be about as large as what the prior was learned",
        ),
        (
            ITEMS,
            {"land": ["at"]},
            "fact 'land' must be one of the levels 'at', 'de', got ['at']",
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


# -- the plain formula -----------------------------------------------------------------------------

SIZE = mixts.LevelFeature("size", ("s", "m", "rest"), other="rest")
COLUMNS = [
    mixts.NumberFeature("price", 3.0, 2.0),
    AGE, ITEM, SCORE, LAND, SIZE,
    mixts.NumberFeature("speed", 1.0, 0.5, learned=(-1.0, 1.0)),
    mixts.LevelFeature("trip", ("home", "work", "else"), other="else"),
]  # fmt: skip
OWN = [
    "price",  # in another scale
    mixts.LevelFeature("item", ("book", "film"), reference="film"),
    mixts.NumberFeature("own", 1.0, 3.0),
    mixts.LevelFeature("size", ("rest", "m", "s"), reference="s", other="rest"),
    "speed",  # takes more numbers
]
CROSSES = [
    ("age",), ("score",), ("age", "item"), ("item", "land"), ("age", "price"), ("price", "item"),
    ("price", "price"), ("item", "item"), ("age", "land"), ("age", "age"), ("size", "land"),
    ("score", "item"), ("speed", "trip"),
]  # fmt: skip
OPEN_CROSSES = mixts.Pooled(
    COLUMNS, CROSSES, ["age", "land", "trip"], np.linspace(-0.5, 1.0, 14).tolist()
)
POOLED = mixts.Pooled(
    COLUMNS, [*CROSSES, ("item",), ("size",), ("age",)], OPEN_CROSSES.person, OPEN_CROSSES.means
)
LEARNED = mixts.Features(
    OWN, True, POOLED.learned(np.random.default_rng(6).normal(size=len(POOLED.names)))
)
PEOPLE: list[dict[str, Any]] = [
    {"age": 25.5, "land": "de", "trip": "work"},
    {"age": 70, "land": "unheard of", "trip": "unheard of"},
    {"age": float("nan"), "land": "at", "trip": ""},
    {"land": None, "trip": "home"},
    {},
]


def offer(n: int, seed: int = 7) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    return [
        {
            "price": float(rng.normal(3, 2)),
            "item": ["book", "film"][rng.integers(2)],
            "own": int(rng.integers(9)),
            "size": ["s", "m", "rest", "xl"][rng.integers(4)],
            "speed": float(rng.normal()),
            "score": np.float64(rng.normal()),
        }
        for _ in range(n)
    ]


def brute_force(pooled: mixts.Pooled, action: dict[str, Any]) -> list[float]:
    """Return each number of the terms of an action, with the facts beside its features."""
    ends = np.cumsum([0, *(column.n_numbers for column in pooled.columns)])
    centred: dict[str, list[float]] = {}
    for column, start, stop in zip(pooled.columns, ends, ends[1:], strict=False):
        block, value = np.zeros(column.n_numbers), action.get(column.name)
        levels = getattr(column, "levels", None)
        unknown = levels is not None and value not in levels and column.other is None
        if value in (None, "") or value != value or unknown:
            centred[column.name] = block.tolist()
        else:
            column.fill(block, value)
            centred[column.name] = (block - pooled.means[start:stop]).tolist()
    found = []
    for first, *second in pooled.terms:
        others = centred[second[0]] if second else [1.0]
        found += [x * y for x in centred[first] for y in others]
    return found


@pytest.mark.parametrize("person", PEOPLE)
def test_sums_are_those_of_the_plain_formula(person: dict[str, Any]) -> None:
    actions = offer(40)
    terms = np.array([brute_force(POOLED, {**action, **person}) for action in actions])
    rows = LEARNED.rows(actions, context=person)
    expected = terms @ LEARNED.pooled.coefficients
    np.testing.assert_allclose(rows[:, -1], expected, rtol=1e-12, atol=1e-12)
    logs = LEARNED.pooled.numbers(lambda column, block: filled(column, block, actions, person), 40)
    np.testing.assert_allclose(rows[:, -1:], logs, rtol=1e-12, atol=1e-12)
    wide = mixts.Features(OWN, True, OPEN_CROSSES)
    found = wide.rows(actions, context=person)
    expected = terms[:, : len(OPEN_CROSSES.names)]
    np.testing.assert_allclose(found[:, wide.n_own :], expected, rtol=1e-12, atol=1e-12)
    own = [{k: v for k, v in action.items() if k != "score"} for action in actions]
    plain = mixts.Features(OWN, True).rows(own)
    np.testing.assert_array_equal(rows[:, :-1], plain)
    np.testing.assert_array_equal(found[:, : wide.n_own], plain)


def filled(column: Any, block: Any, actions: Any, person: dict[str, Any]) -> Any:
    """Fill a column as logs do, which keep the plain formula."""
    known = []
    for numbers, action in zip(block, actions, strict=True):
        try:
            column.fill(numbers, {**action, **person}.get(column.name))
            known.append(True)
        except ActionError:
            known.append(False)
    return np.array(known)


@pytest.mark.parametrize("size", [1, 2, 3, 17])
def test_a_row_has_the_same_bits_among_any_others(size: int) -> None:
    actions = offer(40)
    for person in PEOPLE:
        every = LEARNED.rows(actions, context=person)
        for start in range(0, 40, size):
            part = slice(start, start + size)
            np.testing.assert_array_equal(LEARNED.rows(actions[part], context=person), every[part])
        np.testing.assert_array_equal(LEARNED.row(actions[3], context=person), every[3])
        beside = [{**action, **person} for action in actions]
        np.testing.assert_array_equal(LEARNED.rows(beside), every)
    people = [PEOPLE[k % 5] for k in range(40)]
    each = [LEARNED.row(action, person) for action, person in zip(actions, people, strict=True)]
    np.testing.assert_array_equal(LEARNED.rows(actions, context=people), each)
    beside = [{**action, **person} for action, person in zip(actions, people, strict=True)]
    np.testing.assert_array_equal(LEARNED.rows(beside), each)


class Facts(dict[str, Any]):
    """Facts that count how often they are read."""

    n_read = 0

    def get(self, *arguments: Any) -> Any:
        self.n_read += 1
        return super().get(*arguments)


def test_facts_are_read_once_a_decision() -> None:
    few, many = Facts(PEOPLE[0]), Facts(PEOPLE[0])
    LEARNED.rows(offer(1), context=PEOPLE[1])
    LEARNED.rows(offer(1), context=few)
    LEARNED.rows(offer(1), context=PEOPLE[1])
    LEARNED.rows(offer(30), context=many)
    assert few.n_read == many.n_read
    LEARNED.row(offer(1)[0], context=many)
    assert many.n_read < 2 * few.n_read  # as before: compared, but not computed again


def test_facts_that_change_count_at_once() -> None:
    person, flag = {"age": 20}, mixts.LevelFeature("flag", ("1", "true"))
    before = FEATURES.rows(ITEMS, context=person)
    person["age"] = 50
    after = FEATURES.rows(ITEMS, context=person)
    assert (before[:, 2] != after[:, 2]).all()
    pooled = mixts.Pooled([flag], [("flag",)], ["flag"], coefficients=[1.0, 2.0])
    features = mixts.Features([ITEM], pooled=pooled)
    sums = [features.row({"item": "book"}, {"flag": value})[-1] for value in (1, True, 1.0, "true")]
    assert sums == [1.0, 2.0, 1.0, 2.0]


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"speed": 11.0}, "action 1: feature 'speed' must be about as large as what the prior was"),
        ({"score": None}, "action 1: feature 'score' must be a finite number, got None"),
        ({"item": "game"}, "action 1: feature 'item' must be one of the levels 'book', 'film'"),
        ({"age": "old"}, "action 1: fact 'age' must be a finite number, got 'old'"),
        ({"colour": 1}, "action 1: unknown feature 'colour': leave it out; features: 'price'"),
    ],
)
def test_errors_name_the_action_and_the_feature(change: dict[str, Any], message: str) -> None:
    one, other = offer(2)
    with pytest.raises(ActionError, match=re.escape(message)):
        LEARNED.rows([one, {**other, **change}])
    with pytest.raises(ActionError, match=re.escape(message.removeprefix("action 1: "))):
        LEARNED.row({**other, **change})


def test_texts_that_are_no_levels_may_differ_for_pooled_effects() -> None:
    levels = ("s", "m", "rest")
    own = mixts.LevelFeature("size", levels, other="rest")
    rows = []
    for other in ("rest", "m"):
        theirs = mixts.LevelFeature("size", levels, other=other)
        pooled = mixts.Pooled([theirs], [("size",)], coefficients=[5.0, 1.0, 3.0])
        rows.append(mixts.Features([own], pooled=pooled).row({"size": "xl"}))
    np.testing.assert_array_equal(rows, [[0.0, 0.0, 1.0, 3.0], [0.0, 0.0, 1.0, 1.0]])
    strict = mixts.LevelFeature("size", levels)
    pooled = mixts.Pooled([strict], [("size",)], coefficients=[5.0, 1.0, 3.0])
    with pytest.raises(ActionError, match="'size' must be one of the levels"):
        mixts.Features([own], pooled=pooled).row({"size": "xl"})


def test_a_list_of_contexts_has_one_for_each_action() -> None:
    with pytest.raises(ActionError, match="a list of contexts needs 3 actions, got 2"):
        FEATURES.rows(ITEMS, context=[{}, {}, {}])
    with pytest.raises(ActionError, match="unknown fact 'size' of the person"):
        FEATURES.rows(ITEMS, context=[{}, {"size": 3}])


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
