"""Clicks with features in every store: decisions, defaults, slates, export, rebuilding, limits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mixts_serve import Decide, Decider, Decision, DecisionStore, Reward
from mixts_serve.dashboard import overview_page
from mixts_serve.store.export import export
from mixts_serve.store.rebuild import rebuild

import mixts
from mixts import errors
from serve.tests.contracts.stores import ACTIONS, Opener

CLICKS = [0.0, 1.0, 0.0, 0.0, 1.0, 1.0]


def prior(**limits: Any) -> mixts.MixturePrior:
    """Two kinds of visitor, who like opposite features."""
    family = mixts.LinearBernoulli([[2.0, -1.0], [-1.0, 2.0]], np.stack([np.eye(2)] * 2), **limits)
    return mixts.MixturePrior(family, [0.6, 0.4])


def test_clicks_are_kept_and_rebuilt(opened: Opener, tmp_path: Path) -> None:
    store, expected = opened(), prior().belief()
    with Decider(prior(), store, seed=1) as decider:
        for click in CLICKS:
            made = decider.decide("u", actions=ACTIONS)
            decider.reward(made.id, click)
            expected.update(np.array(ACTIONS[made.action]), click)
    assert rebuild(store, write=False).differing == 0
    with Decider(prior(), opened(), seed=1) as again:
        # Counts are exact, and beliefs a function of them.
        weights = again.decide("u", actions=ACTIONS).weights
        np.testing.assert_array_equal(weights, expected.working_weights(np.array([0]))[0])
        np.testing.assert_array_equal(again.task("u").weights, expected.weights)
    parquet = pytest.importorskip("pyarrow.parquet")
    export(store, tmp_path / "rows.parquet")
    rows = parquet.read_table(tmp_path / "rows.parquet").to_pylist()
    assert [row["reward"] for row in rows[:-1]] == CLICKS


def test_impossible_clicks_change_nothing(store: DecisionStore) -> None:
    with Decider(prior(), store, seed=1) as decider:
        decision = decider.decide("u", actions=ACTIONS)
        with pytest.raises(errors.OutcomeError, match="0 or 1"):
            decider.reward(decision.id, 0.5)
        assert store.totals().rewards == 0
        assert not decider.reward(decision.id, 1).duplicate


def test_silence_is_no_click(store: DecisionStore) -> None:
    with Decider(prior(), store, seed=1, reward_window=0.02, default_reward=0.0) as decider:
        decision = decider.decide("u", actions=ACTIONS)
        while store.totals().defaults == 0:
            decider.end_windows()
        expected = prior().belief()
        expected.update(np.array(ACTIONS[decision.action]), 0.0)
        decider.decide("u", actions=ACTIONS)
        np.testing.assert_array_equal(decider.task("u").weights, expected.weights)
    assert rebuild(store, write=False).differing == 0


@pytest.mark.parametrize("policy", ["ts", "ids"])
def test_values_costs_and_slates_of_clicks(store: DecisionStore, policy: str) -> None:
    with Decider(prior(), store, policy=policy, seed=1) as decider:
        money = {"values": [0.0, 10.0, 10.0], "costs": [100.0, 0.0, 50.0]}
        slate = decider.decide("u", actions=ACTIONS, top=2, **money)
        # The first action has no value and costs most, and the last costs more than it brings.
        assert [shown.action for shown in slate.shown] == [1, 2]
        for shown in slate.shown:
            decider.reward(shown.id, 1)
    assert rebuild(store, write=False).differing == 0


def test_decisions_that_wait_are_no_clicks(store: DecisionStore) -> None:
    with Decider(prior(), store, policy="ids", seed=1) as decider:
        shown = {decider.decide("u", actions=ACTIONS).action for _ in range(5)}
        assert shown <= {0, 1, 2}
    assert rebuild(store, write=False).differing == 0


def test_a_task_with_too_many_rows_refuses_its_reward(store: DecisionStore) -> None:
    with Decider(prior(max_rows=2), store, seed=1) as decider:
        for k in range(2):
            made = decider.decide("u", actions=[[1.0, float(k)]])
            decider.reward(made.id, 1)
        last = decider.decide("u", actions=[[1.0, 2.0]])
        with pytest.raises(errors.ObservationError, match="2 distinct rows"):
            decider.reward(last.id, 1)
        other = decider.decide("v", actions=[[1.0, 2.0]])
        decider.reward(other.id, 1)
    assert rebuild(store, write=False).differing == 0


@pytest.mark.parametrize("address", ["sqlite"], indirect=True)  # the arithmetic is that of both
@pytest.mark.parametrize("policy", ["ts", "ids", "greedy", "ucb"])
@pytest.mark.parametrize("other", [1.0, 1e8])
def test_a_unix_time_spoils_no_batch(store: DecisionStore, policy: str, other: float) -> None:
    rng = np.random.default_rng(0)
    with Decider(prior(), store, policy=policy, seed=1) as decider:
        for click in (1, 0, 1, 0):
            requests = [Decide(name, ACTIONS) for name in "uv"]
            for task in range(8):
                offers = other * rng.standard_normal((3, 2))
                offers[:, 0] = 1.7e9 + rng.integers(0, 10**6, 3)
                # The first decision waits for its reward, which changes the belief of IDS.
                requests += [Decide(f"clock {task}", offers)] * 2
            made = decider.decide_many(requests)
            assert [each for each in made if not isinstance(each, Decision)] == []
            decider.reward_many([Reward(decision.id, click) for decision in made[1::2]])
        weights = np.array([decider.task(f"clock {task}").weights for task in range(8)])
        assert np.isfinite(weights).all()


def test_a_prior_that_cannot_use_a_history_refuses_that_task_only(
    store: DecisionStore,
) -> None:
    vague = mixts.LinearBernoulli(np.zeros((2, 2)), [1e6, 1e6], "spherical")
    requests = [Decide("clock", [[1e9, 0.2], [1e9, 0.9]]), Decide("u", ACTIONS)]
    with Decider(prior(), store, seed=1) as decider:
        decider.reward_many([Reward(each.id, 1) for each in decider.decide_many(requests)])
        decider.upload_prior(mixts.MixturePrior(vague, [0.6, 0.4]), activate=True)
        refused, made = decider.decide_many([Decide("clock", ACTIONS), Decide("u", ACTIONS)])
        assert isinstance(refused, errors.StatisticsError)
        assert "scale the feature" in str(refused)
        assert isinstance(made, Decision)
        (at_the_door,) = decider.decide_many(requests[:1])
        assert isinstance(at_the_door, errors.ActionError)
        bad, good = decider.weights(["clock", "u"])
        assert (bad, len(good)) == ((), 2)
        page = overview_page(decider, store, now=store.now())
        assert '<td class="kind">–</td>' in page
