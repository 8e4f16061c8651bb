"""Rewards in every store, and the log that gives the statistics to the bit."""

from __future__ import annotations

import numpy as np
import pytest
from mixts_serve import Decide, Decider, DecisionStore, Receipt, Reward
from mixts_serve.store.rebuild import rebuild

import mixts
from mixts import errors
from serve.tests.contracts.stores import ACTIONS, Opener, arms, decide_and_reward, linear, set_clock


def test_a_reward_counts_once(store: DecisionStore) -> None:
    with Decider(arms(), store) as decider:
        decision = decider.decide("u")
        receipts = [decider.reward(decision.id, 1.0) for _ in range(3)]
        with pytest.raises(errors.ConflictError, match=r"has the reward 1\.0, which stays"):
            decider.reward(decision.id, 0.0)
        state = decider.task("u")
    assert receipts == [Receipt(False), Receipt(True), Receipt(True)]
    assert (state.decisions, state.rewards) == (1, 1)
    belief = arms().belief()
    belief.update(decision.action, 1.0)
    assert state.weights == pytest.approx(belief.weights, abs=1e-12)
    assert state.mean_rewards == pytest.approx(belief.mean_rewards(), abs=1e-12)


def test_a_reward_twice_in_one_batch(store: DecisionStore) -> None:
    with Decider(arms(), store) as decider:
        decision = decider.decide("u")
        first, second, third = decider.reward_many(
            [Reward(decision.id, 1.0), Reward(decision.id, 1.0), Reward(decision.id, 0.0)]
        )
    assert (first, second) == (Receipt(False), Receipt(True))
    assert isinstance(third, errors.ConflictError)
    assert store.totals().rewards == 1


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("value", [1, True, np.True_, np.float32(1), np.array(1.0)])
def test_whatever_counts_as_a_number_is_the_same_again(store: DecisionStore, value: float) -> None:
    with Decider(arms(), store) as decider:
        decision = decider.decide("u")
        assert decider.reward(decision.id, value) == Receipt(False)
        assert decider.reward(decision.id, value) == Receipt(True)
        assert decider.reward(decision.id, 1.0) == Receipt(True)


@pytest.mark.parametrize("id", ["0" * 32, "", "zz", "٣" * 32, "0" * 31 + " "])
def test_an_unknown_decision(store: DecisionStore, id: str) -> None:
    with Decider(arms(), store) as decider, pytest.raises(errors.UnknownDecisionError):
        decider.reward(id, 1.0)
    assert store.totals().tasks == 0


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("value", [0.5, 2.0, float("nan"), float("inf"), "1"])
def test_an_impossible_reward_changes_nothing(store: DecisionStore, value: float) -> None:
    with Decider(arms(), store) as decider:
        decision = decider.decide("u")
        with pytest.raises(errors.OutcomeError):
            decider.reward(decision.id, value)
        assert decider.reward(decision.id, 1.0) == Receipt(False)


def test_any_order_and_any_delay_give_the_same_belief(opened: Opener) -> None:
    rng = np.random.default_rng(4)
    with Decider(linear(), opened(), seed=5) as decider:
        decisions = decider.decide_many([Decide("a", ACTIONS)] * 30 + [Decide("b", ACTIONS)] * 30)
        values = dict(zip([d.id for d in decisions], rng.normal(size=60), strict=True))
        for index in rng.permutation(60):
            decider.reward(decisions[index].id, float(values[decisions[index].id]))
        states = {name: decider.task(name) for name in "ab"}
    for name, state in states.items():
        belief = linear().belief()
        mine = [d for d in decisions if d.task == name]
        belief.update([ACTIONS[d.action] for d in mine], [values[d.id] for d in mine])
        # Real numbers to rounding in another order.
        assert state.weights == pytest.approx(belief.weights, abs=1e-12)
        assert state.mean_rewards == pytest.approx(belief.mean_rewards(ACTIONS), abs=1e-12)


def test_late_rewards_are_logged_and_not_learned(
    store: DecisionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [1_000_000_000]
    set_clock(monkeypatch, lambda: clock[0])
    with Decider(arms(), store, reward_window=60) as decider:
        early, late = decider.decide("u"), decider.decide("u")
        clock[0] += 60_000_000
        assert decider.reward(early.id, 1.0) == Receipt(False)
        clock[0] += 1
        assert decider.reward(late.id, 0.0) == Receipt(False, late=True)
        assert decider.reward(late.id, 0.0) == Receipt(True, late=True)
        state = decider.task("u")
    assert (state.rewards, state.late) == (2, 1)
    belief = arms().belief()
    belief.update(early.action, 1.0)
    assert state.weights == pytest.approx(belief.weights, abs=1e-12)
    assert [(row.value, row.late) for row in store.history("u")] == [(1.0, False), (0.0, True)]
    assert rebuild(store).differing == 0


PRIORS = {
    "bernoulli": arms(),
    "gaussian": mixts.MixturePrior(mixts.GaussianArms(np.zeros((2, 3)), np.ones((2, 3)), 0.7)),
    "poisson": mixts.MixturePrior(mixts.PoissonArms(np.ones((2, 3)), np.ones((2, 3)))),
    "linear": linear(),
}


@pytest.mark.parametrize("name", sorted(PRIORS))
def test_a_rebuild_finds_the_same_bits(store: DecisionStore, name: str) -> None:
    rng = np.random.default_rng(6)
    prior = PRIORS[name]
    offered = ACTIONS if name == "linear" else None
    draw = {"bernoulli": lambda: float(rng.integers(2)), "poisson": lambda: float(rng.poisson(3))}
    with Decider(prior, store, seed=7) as decider:
        for _ in range(4):
            requests = [Decide(f"t{i}", offered) for i in rng.integers(0, 5, 12)]
            decisions = decider.decide_many(requests)
            values = [draw.get(name, rng.standard_normal)() for _ in decisions]
            pairs = [Reward(d.id, float(v)) for d, v in zip(decisions, values, strict=True)]
            kept = [pairs[i] for i in rng.permutation(12)[:9]]
            decider.reward_many(kept)
    found = rebuild(store)
    assert (found.tasks, found.decisions, found.rewards) == (5, 48, 36)
    assert found.n_differences == 0


def test_a_rebuild_mends_what_differs(store: DecisionStore) -> None:
    with Decider(arms(), store) as decider:
        decide_and_reward(decider, "good", [1.0])
        decide_and_reward(decider, "bad", [1.0, 0.0])
        before = decider.task("bad")
    with store.backend.transaction() as transaction:
        (entry,), _ = transaction.lock_tasks(["bad"], [], 0)
        entry.decisions = entry.rewards = entry.late = entry.defaults = entry.deferred = 9
        entry.statistics = b""
        transaction.save_tasks([entry])
    seen = rebuild(store, write=False)
    assert (seen.differing, seen.examples) == (1, ("bad",))
    assert store.task("bad").decisions == 9
    assert rebuild(store).n_differences == 1
    assert rebuild(store).differing == 0
    with Decider(None, store) as decider:
        assert decider.task("bad") == before


def test_a_rebuild_finds_features_that_come_again_much_later(
    store: DecisionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mixts_serve.store.rebuild.CHUNK", 4)
    with Decider(linear(), store, seed=1) as decider:
        for i in range(24):
            offered = ACTIONS if i % 6 == 0 else [[1.0, i], [0.0, 1.0]]
            decider.reward(decider.decide("u", offered).id, 1.0)
    assert rebuild(store).differing == 0
