"""The model of the delay of clicks: what the agent of a service is told, in every store."""

from __future__ import annotations

from math import exp
from typing import Any

import pytest

import mixts
from mixts.service import Decide, Decider
from tests.contracts.stores import arms, doubtful
from tests.contracts.test_store_policies import only
from tests.contracts.test_store_silence import Clock, clock

__all__ = ["clock"]

DELAY: dict[str, Any] = {
    "reward_window": 60.0, "default_reward": 0.0, "click_delay": 20.0, "seed": 1,
}  # fmt: skip


def arrived(age: float) -> float:
    return (1 - exp(-age / 20)) / (1 - exp(-3))


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What agents were told about decisions that wait: arms and probabilities."""
    found: list[Any] = []
    for kind in (mixts.MixIDS, mixts.MixTS):
        act = kind.act_with_probabilities

        def spy(self: Any, *arguments: Any, act: Any = act, **others: Any) -> Any:
            if len(arguments) > 4:
                found.append(arguments[4])
            return act(self, *arguments, **others)

        monkeypatch.setattr(kind, "act_with_probabilities", spy)
    return found


@pytest.mark.parametrize("policy", ["ids", "ts"])
def test_ages_are_those_of_the_service_clock(
    store: mixts.DecisionStore, clock: Clock, told: list[Any], policy: str
) -> None:
    with Decider(arms(), store, policy=policy, **DELAY) as decider:
        clicked, _ = decider.decide("u", mask=only(1)), decider.decide("u", mask=only(2))
        hidden, shown = (decider.decide("u", mask=only(0), defer=True) for _ in range(2))
        clock.wait(30)
        decider.activate(shown.id)
        decider.reward(clicked.id, 1.0)
        clock.wait(10)
        told.clear()
        decider.decide_many([Decide("u", mask=only(1)), Decide("u", mask=only(1)), Decide("v")])
        decider.activate(hidden.id)
        decider.decide("u")
    u, *_ = [pending for pending in told if pending is not None and len(pending.actions) == 2]
    assert u.actions.tolist() == [2, 0], "neither clicked nor hidden"
    assert u.arrived == pytest.approx([arrived(40), arrived(10)], abs=1e-12)
    if policy == "ids":
        assert told[1].actions.tolist() == [2, 0, 1], "the second request knows the first"
        assert told[1].arrived[2] == 0
    assert len(told) == (3 if policy == "ids" else 2), "MixTS decides the batch in one call"
    assert told[-1].actions.tolist() == [2, 0, 0, 1, 1]
    assert told[-1].arrived[1] == 0, "just activated"


def test_the_logged_propensity_counts_the_silence(store: mixts.DecisionStore, clock: Clock) -> None:
    with Decider(doubtful(), store, policy="ids", **DELAY) as decider:
        decider.decide("u", mask=only(0))
        clock.wait(25)
        early = decider.decide_many([Decide("u")])[0]
        decider.decide("v", mask=only(0))
        clock.wait(60)
        late = decider.decide("v")
        shown = decider.task("v")
    agent = mixts.MixIDS(doubtful())
    law, _ = agent.action_probabilities(waiting=mixts.Pending([0], arrived(25)))
    assert early.propensity == pytest.approx(law[early.action], abs=1e-12)
    # The default is not written yet. Silence until the end of the window says as much.
    agent.update(0, 0)
    law, _ = agent.action_probabilities()
    assert late.propensity == pytest.approx(law[late.action], abs=1e-12)
    assert 0.4 < late.propensity < 0.6
    # The belief that is shown knows rewards and defaults only.
    assert shown.weights == pytest.approx(doubtful().weights, abs=1e-12)


def test_thompson_sampling_counts_the_silence_too(store: mixts.DecisionStore, clock: Clock) -> None:
    with Decider(arms(), store, policy="ts", **DELAY) as decider:
        decider.decide_many([Decide("u", mask=only(2))] * 30)
        clock.wait(50)
        made = decider.decide_many([Decide("u", mask=[True, False, True])] * 20)
    assert {d.action for d in made} == {0}
    assert all(d.propensity > 0.99 for d in made)
