"""Revenue with zeros in every store: decisions, defaults, slates, new arms, export, rebuilding."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from mixts_serve import Decider, DecisionStore
from mixts_serve.store.export import export
from mixts_serve.store.rebuild import rebuild

import mixts
from mixts import errors
from serve.tests.contracts.stores import Opener, decide_and_reward

NAMES = ["socks", "shirt", "coat"]
SPENDS = [0.0, 12.5, 0.0, 80.0, 3.25]


def prior() -> mixts.MixturePrior:
    """Two kinds of customer: many small purchases, or few large ones."""
    ones = np.ones((2, 3))
    family = mixts.SpendArms(
        [[4, 3, 1], [1, 2, 2]], [[6, 7, 9], [9, 8, 8]], np.log([[10, 20, 40], [15, 30, 90]]),
        5 * ones, 4 * ones, 2 * ones,
    )  # fmt: skip
    return mixts.MixturePrior(family, [0.6, 0.4], ["often", "seldom"], arm_names=NAMES)


def test_spends_are_kept_and_rebuilt(opened: Opener, tmp_path: Path) -> None:
    store = opened()
    with Decider(prior(), store, seed=1) as decider:
        made = decide_and_reward(decider, "u", SPENDS)
    expected = prior().belief()
    for decision, value in zip(made, SPENDS, strict=True):
        expected.update(decision.action, value)
    assert rebuild(store, write=False).differing == 0
    with Decider(prior(), opened(), seed=1) as again:
        np.testing.assert_allclose(again.decide("u").weights, expected.weights, rtol=1e-9)
    parquet = pytest.importorskip("pyarrow.parquet")
    export(store, tmp_path / "rows.parquet")
    rows = parquet.read_table(tmp_path / "rows.parquet").to_pylist()
    assert [row["reward"] for row in rows[:-1]] == SPENDS
    assert [row["arm"] for row in rows[:-1]] == [NAMES[one.action] for one in made]


def test_impossible_spends_change_nothing(store: DecisionStore) -> None:
    with Decider(prior(), store, seed=1) as decider:
        decision = decider.decide("u")
        with pytest.raises(errors.OutcomeError, match="from 0 to"):
            decider.reward(decision.id, -1.0)
        assert store.totals().rewards == 0
        assert not decider.reward(decision.id, 20.0).duplicate


def test_silence_is_no_purchase(store: DecisionStore) -> None:
    window = 0.02
    with Decider(prior(), store, seed=1, reward_window=window, default_reward=0.0) as decider:
        decision = decider.decide("u")
        while store.totals().defaults == 0:
            decider.end_windows()
        expected = prior().belief()
        expected.update(decision.action, 0.0)
        np.testing.assert_allclose(decider.decide("u").weights, expected.weights, rtol=1e-9)
    assert rebuild(store, write=False).differing == 0


@pytest.mark.parametrize("policy", ["ts", "ids"])
def test_values_costs_and_slates_of_spends(store: DecisionStore, policy: str) -> None:
    with Decider(prior(), store, policy=policy, seed=1) as decider:
        slate = decider.decide("u", top=2, values=[0.0, 1.0, 1.0], costs=[1e4, 0.0, 1e3])
        # Socks have no value and cost most, and coats cost more than they bring.
        assert [shown.arm for shown in slate.shown] == ["shirt", "coat"]
        for shown in slate.shown:
            decider.reward(shown.id, 25.0)
    assert rebuild(store, write=False).differing == 0


def test_new_arms_of_spends(store: DecisionStore) -> None:
    with Decider(prior(), store, seed=1) as decider:
        decide_and_reward(decider, "u", SPENDS)
        decider.change_arms(add=["hat"])
        decision = decider.decide("u", mask=["hat"])
        assert decision.arm == "hat"
        decider.reward(decision.id, 30.0)
    assert rebuild(store, write=False).differing == 0
