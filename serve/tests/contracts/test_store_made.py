"""Decisions that clients made while the service was away, in every store."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from mixts_serve import Decide, Decider, Decision, DecisionStore, Reward
from mixts_serve.records import MadeDecision
from mixts_serve.store.rebuild import rebuild
from mixts_serve.store.tables import unpack

from mixts import errors
from serve.tests.contracts.stores import ACTIONS, arms, linear
from serve.tests.contracts.test_store_silence import Clock, clock  # noqa: F401


def made(at: float, number: int = 0, task: str = "ada", action: Any = 1, **fields: Any) -> Any:
    id = round(at * 1000).to_bytes(6, "big").hex() + f"fa11bacc{number:012x}"
    return MadeDecision(task=task, id=id, action=action, **fields)


def log(decider: Decider, *operations: Any) -> list[Any]:
    return decider._many(operations, object)


def test_a_decision_of_a_client_is_logged_once_at_its_time(
    store: DecisionStore,
    clock: Clock,  # noqa: F811
) -> None:
    with Decider(arms(), store, seed=1) as decider:
        decider.reward(decider.decide("ada").id, 1.0)
        weights = decider.task("ada").weights
        one = made(store.now() - 50, key="visit")
        first, again = log(decider, one, one)
        assert (first.id, first.action, first.propensity) == (one.id, 1, 1.0)
        assert (first.policy, first.prior_version) == ("fallback", 1)
        assert first.weights == pytest.approx(weights)
        assert (first.repeated, again.repeated) == (False, True)
        (later,) = log(decider, one)
        assert later.repeated
        assert later.id == one.id
        assert decider.task("ada").decisions == 2
        (row,) = [row for row in store.history("ada") if row.id == one.id]
        assert (row.at, row.policy) == (pytest.approx(store.now() - 50), "fallback")
        decider.reward(one.id, 0.0)
        assert decider.task("ada").rewards == 2


def test_the_key_of_a_client_s_decision_returns_it(store: DecisionStore) -> None:
    with Decider(arms(), store, seed=1) as decider:
        one = made(store.now(), key="visit")
        log(decider, one)
        retried = decider.decide("ada", key="visit")
        assert (retried.id, retried.repeated) == (one.id, True)


def test_a_key_that_the_service_has_used_meanwhile_keeps_its_decision(
    store: DecisionStore,
) -> None:
    with Decider(arms(), store, seed=1) as decider:
        orphan = decider.decide("ada", key="visit")
        one, two, three = (made(store.now(), n, key=k) for n, k in enumerate(["visit", "x", "x"]))
        results = log(
            decider, one, two, three, Decide("ada", key="y"), made(store.now(), 9, key="y")
        )
        assert all(isinstance(each, Decision) for each in results)
        assert len({each.id for each in results}) == 5
        assert decider.decide("ada", key="visit").id == orphan.id
        assert decider.decide("ada", key="x").id == two.id
        assert decider.decide("ada", key="y").id == results[3].id
        assert decider.task("ada").decisions == 6


def test_probabilities_and_names_are_logged(store: DecisionStore) -> None:
    named = arms().replace(arm_names=["a", "b", "c"])
    with Decider(named, store, seed=1) as decider:
        (one,) = log(decider, made(store.now(), action="b", probabilities=[0.25, 0.75]))
        assert (one.action, one.arm, one.propensity) == (1, "b", 0.75)


@pytest.mark.parametrize("values", [{"a": 2.0, "b": 3.0, "old": 1.0}, [2.0, 3.0]])
def test_values_of_masked_added_and_renamed_arms_are_not_needed(
    store: DecisionStore, values: Any
) -> None:
    named = arms().replace(arm_names=["a", "b", "c"])
    with Decider(named, store, seed=1) as decider:
        asked = made(store.now(), action="b", mask=["a", "b"], values=values, costs={"b": 0.5})
        log(decider, asked)
    ((money,),) = store.backend.query("SELECT money FROM decisions")
    assert unpack(bytes(money)).tolist() == [2.0, 3.0, 1.0, 0.0, 0.5, 0.0]


def test_features_come_with_the_decision(store: DecisionStore) -> None:
    offered = [{"id": "x", "features": ACTIONS[0]}, {"id": "y", "features": ACTIONS[1]}]
    with Decider(linear(), store, seed=1) as decider:
        (one,) = log(decider, made(store.now(), action="y", actions=offered))
        assert (one.action, one.arm) == (1, "y")
        decider.reward(one.id, 1.0)
        assert decider.task("ada").ids == ("x", "y")


def test_a_window_gives_the_reward_time_to_come(
    store: DecisionStore,
    clock: Clock,  # noqa: F811
) -> None:
    """Decide an hour ago under a window of ten minutes: its reward is sent with it."""
    clock.wait(3600)
    with Decider(arms(), store, reward_window=600, default_reward=0.0, seed=1) as decider:
        old, fresh = made(store.now() - 3600), made(store.now() - 10, 1)
        log(decider, old, fresh)
        clock.wait(50)
        assert not decider.reward(old.id, 1.0).late
        clock.wait(700)
        assert decider.end_windows() == 1  # that of the other one
        assert decider.reward(fresh.id, 1.0).late


@pytest.mark.parametrize(
    "wrong",
    [
        {"id": "no hex"}, {"id": "0" * 31}, {"id": "A" * 32}, {"action": 3}, {"action": -1},
        {"action": "b"}, {"probabilities": [0.5, 0.4, 0.0]}, {"probabilities": [1.0, 0.0, 0.0]},
        {"probabilities": [0.25] * 4}, {"top": 2}, {"defer": True}, {"actions": [[1.0]]},
        {"id": "f" * 32}, {"id": "0" * 32}, {"values": [1.0] * 4},
    ],
)  # fmt: skip
def test_a_decision_that_cannot_be_is_refused(store: DecisionStore, wrong: dict[str, Any]) -> None:
    with Decider(arms(), store, seed=1) as decider:
        fields = {"task": "ada", "id": made(store.now()).id, "action": 1} | wrong
        refused, right = log(decider, MadeDecision(**fields), made(store.now(), 7, "bob"))
        assert isinstance(refused, errors.MixtsError)
        assert isinstance(right, Decision)
        with pytest.raises(errors.UnknownTaskError):
            decider.task("ada")


def test_an_id_stands_for_one_decision(store: DecisionStore) -> None:
    with Decider(arms(), store, seed=1) as decider:
        now = store.now()
        results = log(decider, made(now), made(now, action=2), made(now, task="bob"))
        assert [type(each) for each in results] == [Decision, *[errors.ConflictError] * 2]
        assert decider.task("ada").decisions == 1


def test_the_log_is_sound_and_exported(store: DecisionStore) -> None:
    with Decider(arms(), store, explore=0.3, seed=1) as decider:
        made_now = [made(store.now() - n, n, f"t{n % 3}", n % 3) for n in range(9)]
        log(decider, *made_now)
        decider.reward_many([Reward(one.id, float(n % 2)) for n, one in enumerate(made_now)])
        assert np.isclose(decider.task("t0").rewards, 3)
    found = rebuild(store, write=False)
    assert (found.decisions, found.rewards, found.n_differences) == (9, 9, 0)
