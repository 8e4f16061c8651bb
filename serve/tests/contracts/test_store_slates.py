"""Values, costs and slates in every store: logged, exported, returned again, true propensities."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mixts_serve import Decide, Decider, Decision, DecisionStore
from mixts_serve.store.export import export
from mixts_serve.store.rebuild import rebuild
from msgspec.structs import replace

import mixts
from mixts import errors
from serve.tests.contracts.stores import ACTIONS, arms, linear
from tests.statistical.standard_errors import assert_within, quotient

NAMES = ["low", "middle", "high"]
MONEY = {"values": [1.0, 2.0, 0.5], "costs": [0.0, 0.3, -0.2]}


def named() -> mixts.MixturePrior:
    return mixts.MixturePrior(arms().family, [0.4, 0.6], arm_names=NAMES)


def test_a_slate_is_a_decision_for_each_position(store: DecisionStore) -> None:
    with Decider(named(), store, policy="ts", seed=1) as decider:
        decision = decider.decide("u", top=2, key="k", **MONEY)
        again = decider.decide("u", top=2, key="k", **MONEY)
        assert again == replace(decision, repeated=True)
        first, second = decision.shown
        assert (first.id, first.action, first.propensity) == (
            decision.id, decision.action, decision.propensity
        )  # fmt: skip
        assert [shown.position for shown in decision.shown] == [0, 1]
        assert [shown.arm for shown in decision.shown] == [NAMES[s.action] for s in decision.shown]
        assert first.action != second.action
        assert store.totals().decisions == 2
        for shown, value in ((second, 1), (first, 0)):
            assert not decider.reward(shown.id, value).duplicate
        assert decider.reward(first.id, 0).duplicate
        alone = decider.decide("u")
        assert alone.shown == ()
    assert store.totals().rewards == 2
    assert rebuild(store, write=False).differing == 0
    assert {row.id: row.value for row in store.history("u")} == {
        first.id: 0.0, second.id: 1.0, alone.id: None
    }  # fmt: skip


def test_slates_of_features_and_defaults(store: DecisionStore) -> None:
    """Waiting, deferring and activating work for each position."""
    with Decider(linear(), store, seed=1, reward_window=3600.0, default_reward=0.0) as decider:
        slate = decider.decide("u", ACTIONS, top=2, defer=True, costs=[0.0, 0.1, 0.2])
        assert store.totals().deferred == 2
        decider.activate(slate.shown[1].id)
        assert store.totals().deferred == 1
        decider.reward(slate.shown[0].id, 1.5)
    assert rebuild(store, write=False).differing == 0


def test_money_counts_in_the_digest_of_a_key(store: DecisionStore) -> None:
    with Decider(named(), store, seed=1) as decider:
        decider.decide("u", key="k", values=MONEY["values"])
        for other in ({}, {"values": [1, 2, 3]}, {**MONEY}, {"values": MONEY["values"], "top": 1}):
            with pytest.raises(errors.ConflictError, match="values"):
                decider.decide("u", key="k", **other)
        assert decider.decide("u", key="k", values=np.array(MONEY["values"])).repeated
        prices = {"low": 1.0, "high": 2.0, "middle": 3.0}
        decider.decide("u", key="names", costs=prices, mask=["low", "high"])
        back = dict(reversed(prices.items()))
        assert decider.decide("u", key="names", costs=back, mask=["low", "high"]).repeated
        with pytest.raises(errors.ConflictError):
            decider.decide("u", key="names", costs=prices, mask=["low"])


def test_bad_money_is_refused_alone(store: DecisionStore) -> None:
    with Decider(named(), store, seed=1) as decider:
        results = decider.decide_many([
            Decide("a", values=[1.0]), Decide("a", top=4), Decide("a", costs={"low": 1.0}),
            Decide("a", mask=["low"], top=2), Decide("a", mask=["hats"]),
            Decide("a", mask=["high"], costs={"high": 1.0}), Decide("b", top=2),
        ])  # fmt: skip
    kinds = [errors.ParameterError, errors.ActionError, errors.ParameterError, errors.ActionError,
             errors.MaskError, Decision, Decision]  # fmt: skip
    assert [type(result) for result in results] == kinds
    assert results[5].action == 2  # type: ignore[union-attr]
    assert store.totals().decisions == 3


def test_the_export_has_slates_and_money(store: DecisionStore, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    with Decider(named(), store, seed=1) as decider:
        slate = decider.decide("u", top=2, values=dict(zip(NAMES, MONEY["values"], strict=True)))
        decider.decide("u")
    export(store, tmp_path / "log.parquet")
    rows = parquet.read_table(tmp_path / "log.parquet").to_pylist()
    assert [row["slate"] for row in rows] == [slate.id, slate.id, None]
    assert [row["position"] for row in rows] == [0, 1, 0]
    assert [row["values"] for row in rows] == [MONEY["values"]] * 2 + [None]
    assert [row["costs"] for row in rows] == [[0.0] * 3] * 2 + [None]
    assert [row["pscore"] for row in rows][:2] == [s.propensity for s in slate.shown]
    assert sum(rows[0]["action_dist"]) == pytest.approx(2.0)


@pytest.mark.parametrize("address", ["sqlite"], indirect=True)  # the draws are those of both
@pytest.mark.parametrize("explore", [0.0, 0.3])
@pytest.mark.parametrize("policy", ["ts", "ids"])
def test_logged_propensities_are_frequencies(
    store: DecisionStore, policy: str, explore: float
) -> None:
    n = 750
    with Decider(arms(), store, policy=policy, explore=explore, seed=3) as decider:
        requests = [Decide(f"task {i}", top=2, **MONEY) for i in range(n)]
        made = decider.decide_many(requests)
    hit = np.zeros((n, 3))
    for i, decision in enumerate(made):
        assert isinstance(decision, Decision)
        hit[i, [shown.action for shown in decision.shown]] = 1
    law = np.frombuffer(
        bytes(store.backend.query("SELECT probabilities FROM decisions LIMIT 1")[0][0])
    )
    assert_within(quotient(hit.mean(axis=0) - law, np.sqrt(law * (1 - law) / n)))


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"values": [1.0]}, "values"),
        ({"values": {"low": 1.0}}, "values"),
        ({"costs": {"hihg": 1.0}}, "costs"),
        ({"costs": [np.inf, 0.0, 0.0]}, "costs"),
        ({"top": 0}, "top"),
        ({"top": 4}, "top"),
        ({"top": 2, "mask": ["low"]}, "top"),
    ],
)
def test_a_refusal_names_the_field(store: DecisionStore, asked: dict[str, Any], field: str) -> None:
    with Decider(named(), store, seed=1) as decider:
        with pytest.raises(errors.MixtsError) as caught:
            decider.decide("u", **asked)
        assert caught.value.field == field


@pytest.mark.parametrize(
    ("mask", "said"),
    [
        ([], "mask is empty"),
        (["lwo"], "mask names 'lwo', which is not among the actions: 'low', 'middle', 'high'"),
    ],
)
def test_a_mask_without_known_arms_is_refused(
    store: DecisionStore, mask: list[str], said: str
) -> None:
    with Decider(named(), store, seed=1) as decider, pytest.raises(errors.MaskError, match=said):
        decider.decide("u", mask=mask)
