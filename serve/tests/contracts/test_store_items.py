"""Every store keeps the ids and the named features of the actions that were offered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mixts_serve import Decide, Decider, DecisionStore
from mixts_serve.store.export import export
from mixts_serve.store.rebuild import rebuild

import mixts
from mixts import errors
from mixts.logs import read_logs, read_rows
from serve.tests.contracts.stores import Opener

FEATURES = mixts.Features(
    [
        mixts.NumberFeature("price", centre=2.0, scale=0.5),
        mixts.LevelFeature("task", ("work", "play"), reference="work"),
    ],
    intercept=True,
)


def prior(features: mixts.Features | None = FEATURES) -> mixts.MixturePrior:
    mean = np.array([[0.0, 1.0, 0.0], [0.0, -1.0, 0.5]])
    return mixts.MixturePrior(
        mixts.LinearGaussian(mean, np.ones((2, 3)), 0.5, "diag"), features=features
    )


def item(name: str, price: float, task: str = "work") -> dict[str, Any]:
    return {"id": name, "features": {"price": price, "task": task}}


OFFER = [item("a", 1.0), item("b", 2.5, "play"), item("c", 3.0)]
ROWS = FEATURES.rows([one["features"] for one in OFFER])


def test_described_actions_are_decided_as_their_rows(store: DecisionStore, tmp_path: Path) -> None:
    with (
        Decider(prior(), store, seed=1) as decider,
        DecisionStore(tmp_path / "rows.db") as other,
        Decider(prior(), other, seed=1) as by_rows,
    ):
        for t in range(6):
            one, two = decider.decide("x", OFFER), by_rows.decide("x", ROWS)
            assert (one.action, one.propensity, one.weights) == (
                two.action, two.propensity, two.weights,
            )  # fmt: skip
            assert one.arm == "abc"[one.action]
            assert two.arm is None
            for each, decision in ((decider, one), (by_rows, two)):
                each.reward(decision.id, 0.1 * t)
        assert [row.arm for row in store.history("x")] == [
            "abc"[row.action] for row in store.history("x")
        ]
        assert decider.task("x").ids == ("a", "b", "c")
        assert by_rows.task("x").ids is None
        assert decider.task("x").mean_rewards == by_rows.task("x").mean_rewards
    assert rebuild(store).differing == 0


@pytest.mark.parametrize("named", [True, False])
def test_a_price_in_other_units_is_refused_and_changes_nothing(
    store: DecisionStore, named: bool
) -> None:
    """Cents where euros were learned, in descriptions and in rows of numbers."""
    price = mixts.NumberFeature("price", 2.0, 0.5, learned=(1.0, 9.0))
    features = mixts.Features([price, FEATURES.columns[1]], intercept=True)
    cents = [item("a", 2.0), item("b", 499.0)]
    rows = FEATURES.rows([one["features"] for one in cents])
    with Decider(prior(features), store, seed=1) as decider:
        with pytest.raises(errors.ActionError, match=r"action 1: feature 'price' .* got 499: is"):
            decider.decide("x", cents if named else rows)
        assert store.history("x") == []
        decider.decide("x", OFFER if named else ROWS)


def test_ids_are_part_of_the_set_and_rows_of_numbers_may_have_them(
    store: DecisionStore,
) -> None:
    with Decider(prior(), store, seed=1) as decider:
        decider.decide("x", OFFER)
        decider.decide("x", ROWS)
        other = [{"id": name, "features": row} for name, row in zip("xyz", ROWS, strict=True)]
        assert decider.decide("x", other).arm in ("x", "y", "z")
        unnamed = [{"features": one["features"]} for one in OFFER]
        assert decider.decide("x", unnamed).arm is None
    ((n_sets, n_ids),) = store.backend.query("SELECT COUNT(*), COUNT(ids) FROM action_sets")
    assert (n_sets, n_ids) == (3, 2)


def test_a_mask_may_list_ids(store: DecisionStore) -> None:
    with Decider(prior(), store, seed=1) as decider:
        assert {decider.decide("x", OFFER, mask=["c"]).arm for _ in range(4)} == {"c"}
        for mask, message in (
            (["d"], "names 'd', which"),
            ([], "empty"),
            ([True, "a", "b"], "boolean"),
        ):
            with pytest.raises(errors.MaskError, match=message):
                decider.decide("x", OFFER, mask=mask)
        with pytest.raises(errors.MaskError, match="the actions have none"):
            decider.decide("x", ROWS, mask=["c"])


def test_a_key_stands_for_the_ids_and_features(store: DecisionStore) -> None:
    with Decider(prior(), store, seed=1) as decider:
        first = decider.decide("x", OFFER, key="k")
        again = decider.decide("x", [dict(reversed(one.items())) for one in OFFER], key="k")
        assert (again.id, again.arm, again.repeated) == (first.id, first.arm, True)
        renamed = [{**one, "id": f"{one['id']}2"} for one in OFFER]
        cheaper = [item("a", 0.5), *OFFER[1:]]
        for actions, mask in ((renamed, None), (cheaper, None), (ROWS, None), (OFFER, ["a"])):
            with pytest.raises(errors.ConflictError, match="was used for a request"):
                decider.decide("x", actions, mask, key="k")
        both = decider.decide_many([Decide("y", OFFER, key="q"), Decide("y", OFFER, key="q")])
        assert both[0].arm == both[1].arm


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        ([item("a", 1.0), item("a", 2.0)], "ids of actions must differ, got 'a' twice"),
        ([item("a", 1.0), {"features": {"price": 1.0, "task": "work"}}], "action 1 has none"),
        ([item("a", 1.0), [1.0, 2.0, 0.0]], "as the others are"),
        ([{"price": 1.0, "task": "work"}], "got the fields"),
        ([item("a", 1.0), {"id": "b", "features": [1.0, 0.0, 0.0]}], "in all actions or in none"),
        ([item("a", float("nan"))], "'price' must be a finite number, got nan"),
        ([item("a", 1.0, "sleep")], "'task' must be one of the levels 'work', 'play'"),
    ],
)
def test_faulty_actions_are_refused_and_change_nothing(
    store: DecisionStore, actions: Any, message: str
) -> None:
    with Decider(prior(), store, seed=1) as decider:
        with pytest.raises(errors.ActionError, match=r"action|feature") as raised:
            decider.decide("x", actions)
        assert message in str(raised.value)
        with pytest.raises(errors.ParameterError, match="id of action 0"):
            decider.decide("x", [item("", 1.0)])
    assert store.totals().decisions == 0


def test_names_need_a_prior_with_names(store: DecisionStore) -> None:
    with (
        Decider(prior(None), store, seed=1) as decider,
        pytest.raises(errors.ActionError, match="does not name its features"),
    ):
        decider.decide("x", OFFER)


def test_a_prior_with_other_features_does_not_replace_one(opened: Opener) -> None:
    with Decider(prior(), opened(), seed=1) as decider:
        decider.decide("x", OFFER)
        others = mixts.Features(["price", "weight"], intercept=True)
        with pytest.raises(errors.ParameterError, match="--from the prior in force"):
            decider.upload_prior(prior(others))
        assert decider.upload_prior(prior(None)) == 2


def test_the_export_has_a_column_for_each_feature(store: DecisionStore, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    with Decider(prior(), store, seed=1) as decider:
        made = [decider.decide("x", OFFER) for _ in range(5)]
        plain = decider.decide("x", [[1.0, 0.0, 0.5]])  # half a level: no description has this row
    export(store, tmp_path / "log.parquet")
    rows = parquet.read_table(tmp_path / "log.parquet").to_pylist()
    for row, decision in zip(rows, made, strict=False):
        described = OFFER[decision.action]
        assert row["arm"] == described["id"]
        assert row["price"] == pytest.approx(described["features"]["price"], rel=1e-15)
        assert row["feature_task"] == described["features"]["task"]  # "task" is the task's name
        assert row["task"] == "x"
    last = rows[-1]
    assert (last["id"], last["arm"]) == (plain.id, None)
    assert (last["price"], last["feature_task"]) == (2.0, None)


@pytest.mark.parametrize("name", ["log.parquet", "log.csv"])
def test_the_export_is_read_by_the_features_of_the_prior(
    store: DecisionStore, tmp_path: Path, name: str
) -> None:
    """The feature ``task`` comes from ``feature_task``, not from the column of tasks."""
    pytest.importorskip("pyarrow")
    with Decider(prior(), store, seed=1) as decider:
        made = [decider.decide(f"x{i % 2}", OFFER) for i in range(8)]
        for i, decision in enumerate(made):
            decider.reward(decision.id, 0.1 + i)
    export(store, tmp_path / name)
    logs = read_logs(tmp_path / name, task="task", features=FEATURES, reward="reward")
    assert logs.tasks == ("x0", "x1")
    assert not logs.bad_rows
    rows = read_rows(logs, [0, 1])
    assert np.allclose(rows.features, ROWS[[decision.action for decision in made]], rtol=1e-14)
    assert rows.rewards.tolist() == [0.1 + i for i in range(8)]
