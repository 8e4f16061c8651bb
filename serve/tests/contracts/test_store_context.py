"""Facts of the person in every store: they decide, are kept with decisions, and are erased."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mixts_serve import Decide, Decider, DecisionStore, refit
from mixts_serve.store.export import export
from mixts_serve.store.rebuild import rebuild

import mixts
from mixts import errors
from mixts.bridges.vw import dsjson_lines
from mixts.logs import read_logs
from serve.tests.contracts.test_store_made import log, made

ITEM = mixts.LevelFeature("item", ("book", "film"))
EFFECTS = mixts.Pooled(
    [
        ITEM,
        mixts.NumberFeature("age", 40, 10),
        mixts.LevelFeature("land", ("at", "de")),
        mixts.NumberFeature("ctr"),
    ],
    [("age", "item"), ("land",), ("ctr",)],
    ["age", "land"],
    means=[0.5, 0.5, 0, 0.4, 0.6, 0],
    coefficients=[-3.0, 3.0, 0.2, -0.1, 0.5],
    sizes=[3.0, 0.1, 0.5],
)
FEATURES = mixts.Features([ITEM], pooled=EFFECTS)
FAMILY = mixts.LinearBernoulli(
    np.array([[0.3, -0.3], [-0.4, 0.4]]), np.full((2, 2), 0.1), "diag"
).with_offset()
PRIOR = mixts.MixturePrior(FAMILY, features=FEATURES)
YOUNG, OLD = {"age": 20, "land": "at"}, {"age": 60.0}


def offer(scores: tuple[float, float] = (0.0, 0.0)) -> list[dict[str, Any]]:
    named = zip(("book", "film"), scores, strict=True)
    return [{"id": item, "features": {"item": item}, "score": score} for item, score in named]


def rows(context: dict[str, Any], scores: tuple[float, float] = (0.0, 0.0)) -> Any:
    named = zip(("book", "film"), scores, strict=True)
    described = [{"item": item, "ctr": score} for item, score in named]
    return FEATURES.rows(described, context=context)


def test_facts_decide_and_may_change_from_decision_to_decision(store: DecisionStore) -> None:
    with Decider(PRIOR, store, policy="greedy", seed=1, explore=0.01) as decider:
        first = decider.decide("ada", offer(), context=YOUNG)
        second = decider.decide("ada", offer(), context=OLD)
        third = decider.decide("ada", offer((0.0, 30.0)), context=YOUNG)
        assert [one.arm for one in (first, second, third)] == ["book", "film", "film"]
        for one, reward in ((first, 1), (second, 0), (third, 1)):
            decider.reward(one.id, reward)
        belief = PRIOR.belief()
        belief.update(rows(YOUNG)[0], 1)
        belief.update(rows(OLD)[1], 0)
        belief.update(rows(YOUNG, (0.0, 30.0))[1], 1)
        state = decider.task("ada")
        np.testing.assert_allclose(state.weights, belief.weights, rtol=1e-9)
        means = belief.mean_rewards(rows(YOUNG, (0.0, 30.0)))
        np.testing.assert_allclose(state.mean_rewards, means, rtol=1e-9)
        assert state.context == {"age": 20.0, "land": "at"}
    assert not rebuild(store, write=False).n_differences


@pytest.mark.parametrize(
    "context",
    [{}, {"age": None}, {"age": float("nan"), "land": ""}, {"land": "unheard of"}],
    ids=["empty", "null", "nan", "unknown level"],
)
def test_what_is_not_known_counts_as_the_average_person(
    store: DecisionStore, context: dict[str, Any]
) -> None:
    with Decider(PRIOR, store, seed=1) as decider:
        decider.decide("bob", offer())
        decider.decide("ada", offer(), context=context)
        offered = store.last_offer("ada")
        assert offered is not None
        np.testing.assert_array_equal(offered.rows, rows({}))
        kept = {"land": "unheard of"} if context.get("land") else {}
        assert offered.facts.context == kept  # a later prior may know the level


def test_a_key_stands_for_the_same_facts(store: DecisionStore) -> None:
    with Decider(PRIOR, store, seed=1) as decider:
        first = decider.decide("ada", offer(), key="k", context=YOUNG)
        again = decider.decide("ada", offer(), key="k", context={"land": "at", "age": 20.0})
        assert (again.id, again.repeated) == (first.id, True)
        with pytest.raises(errors.ConflictError, match="another mask or context"):
            decider.decide("ada", offer(), key="k", context=OLD)
        with pytest.raises(errors.ConflictError):
            decider.decide("ada", offer((1.0, 0.0)), key="k", context=YOUNG)


def test_facts_may_stand_beside_the_features_of_each_action(store: DecisionStore) -> None:
    def beside(*ages: float) -> list[dict[str, Any]]:
        pairs = zip(("book", "film"), ages, strict=True)
        return [{"features": {"item": item, "ctr": 0, "age": age}} for item, age in pairs]

    with Decider(PRIOR, store, policy="greedy", seed=1) as decider:
        assert decider.decide("ada", beside(60, 60)).action == 1
        offered = store.last_offer("ada")
        assert offered is not None
        assert offered.facts.context == {"age": 60}
        with pytest.raises(errors.ActionError, match="'age' of the person must be the same in all"):
            decider.decide("ada", beside(60, 61))
        with pytest.raises(errors.ActionError, match="unknown feature 'size'"):
            decider.decide("ada", [{"features": {"item": "book", "ctr": 0, "size": 3}}])
        # Facts of the request hold for all actions, whatever stands beside their features.
        assert decider.decide("ada", beside(60, 61), context={"age": 20}).action == 0
        offered = store.last_offer("ada")
        assert offered is not None
        assert offered.facts.context == {"age": 20}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"context": {"agee": 20}},
            "unknown fact 'agee' of the person: leave it out; facts: 'age'",
        ),
        ({"context": {"age": "old"}}, "fact 'age' must be a finite number, got 'old'"),
        ({"context": {"land": "x" * 257}}, "a fact has at most 256 characters, got 257"),
        ({"context": [YOUNG, YOUNG]}, "context must be facts of the person by name, such as"),
        ({"actions": np.eye(3)[:2]}, "a context needs actions that are described"),
        ({"actions": [{"features": {"item": "book"}}]}, "feature 'ctr' .*must be a finite number"),
        ({"actions": [{"features": {"item": "book", "ctr": 1}, "score": 1}]}, "has a score, and"),
        ({"actions": [{"features": [1, 0, 0], "score": 1}], "context": None}, "a score needs"),
        ({"actions": [*offer()[:1], {"id": "b", "features": {"item": "film"}}]}, "action 1 has"),
    ],
)
def test_wrong_facts_and_scores_change_nothing(
    store: DecisionStore, changed: dict[str, Any], message: str
) -> None:
    with Decider(PRIOR, store, seed=1) as decider:
        with pytest.raises(errors.ActionError, match=message):
            decider.decide(**{"task": "ada", "actions": offer(), "context": YOUNG, **changed})
        assert store.totals().decisions == 0


def test_priors_without_effects_refuse_facts_and_scores(store: DecisionStore) -> None:
    plain = mixts.MixturePrior(
        mixts.LinearBernoulli(np.zeros((1, 2)), np.ones((1, 2)), "diag"),
        features=mixts.Features([ITEM]),
    )
    bare = [{"features": {"item": "book"}}]
    with Decider(plain, store, seed=1) as decider:
        with pytest.raises(errors.ActionError, match=r"unknown fact 'age'.*knows none"):
            decider.decide("ada", bare, context=YOUNG)
        with pytest.raises(errors.ActionError, match="this one learned none: leave it out"):
            decider.decide("ada", offer()[:1])


def test_a_client_s_own_decision_keeps_its_facts(store: DecisionStore) -> None:
    with Decider(PRIOR, store, seed=1) as decider:
        one = made(store.now(), action="film", actions=offer(), context=OLD)
        (decision,) = log(decider, one)
        assert decision.arm == "film"
        decider.reward(decision.id, 1)
        assert decider.task("ada").context == OLD
        belief = PRIOR.belief()
        belief.update(rows(OLD)[1], 1)
        np.testing.assert_allclose(decider.task("ada").weights, belief.weights, rtol=1e-9)


def filled(store: DecisionStore) -> None:
    rng = np.random.default_rng(2)
    with Decider(PRIOR, store, seed=1, explore=0.5) as decider:
        for user in range(30):
            for k in range(6):
                context = {"age": 20 + user, "land": ("at", "de", "ch")[user % 3]}
                context = dict(list(context.items())[: 2 - (user + k) % 2])
                one = decider.decide(f"u{user}", offer((0.5, float(k))), context=context)
                decider.reward(one.id, int(rng.random() < 0.5))


def test_an_export_has_facts_and_scores_to_learn_from(store: DecisionStore, tmp_path: Path) -> None:
    filled(store)
    out = tmp_path / "log.parquet"
    export(store, out)
    table = pytest.importorskip("pyarrow.parquet").read_table(out).to_pylist()
    assert {row["land"] for row in table if row["task"] == "u2"} == {"ch", None}
    assert {row["age"] for row in table if row["task"] == "u5"} == {25.0}
    columns = {"task": "task", "reward": "reward", "family": "logistic"}
    logs = read_logs(out, **columns, features=FEATURES)
    by_store = store.statistics(list(logs.tasks))
    contents = [by_store[name] for name in logs.tasks]
    kept = FAMILY.empty_statistics(0).decode(contents)
    np.testing.assert_allclose(
        PRIOR.condition(logs.statistics).log_evidence, PRIOR.condition(kept).log_evidence, rtol=1e-9
    )
    anew = mixts.fit_logs(
        out,
        {**columns, "features": ["item"], "person": ["age", "land"], "score": "ctr"},
        n_components=1,
        held_out=0,
        seed=1,
    )
    learned = anew.prior.features
    assert learned is not None
    assert (learned.facts, learned.scores) == (("age", "land"), ("ctr",))
    events = [json.loads(line) for line in dsjson_lines(out)]
    (first, *_) = [event for event in events if event["Task"] == "u5"]
    assert first["c"]["person"]["age"] == 25.0


def test_an_erased_task_leaves_no_facts(store: DecisionStore) -> None:
    with Decider(PRIOR, store, seed=1) as decider:
        decider.decide("ada", offer(), context={"age": 20, "land": "eine-geheime-insel"})
        decider.decide("bob", offer(), context=OLD)
        decider.erase("ada")
        sets = store.backend.query("SELECT known FROM action_sets")
        assert [json.loads(known)["context"] for (known,) in sets] == [{"age": 60.0}]


def test_a_refit_goes_on_beside_the_effects(store: DecisionStore) -> None:
    filled(store)
    found = refit(store, seed=1, root_tasks=50.0)
    assert found.status in ("activated", "refused")
    body = store.prior_body(found.version)
    assert body is not None
    assert mixts.MixturePrior.from_bytes(body, "the refit").features == FEATURES


def test_other_effects_cannot_take_over_live_tasks(store: DecisionStore) -> None:
    other = FEATURES.learned_pooled([-1.0, 1.0, 0.2, -0.1, 0.5])
    with Decider(PRIOR, store, seed=1) as decider:
        decider.decide_many([Decide("ada", offer(), context=YOUNG)])
        with pytest.raises(errors.ParameterError, match="effects that are the same for everybody"):
            decider.upload_prior(PRIOR.replace(features=other), activate=True)
