"""Arms that a task takes at most once, in every store: whatever became of their rewards."""

from __future__ import annotations

import pytest
from mixts_serve import Decide, Decider, Decision, DecisionStore

from mixts.agents import POLICIES
from mixts.errors import ActionError, MaskError
from serve.tests.contracts.stores import ACTIONS, arms, linear
from serve.tests.contracts.test_store_silence import Clock, clock  # noqa: F401

ONCE = arms().replace(repeatable=False)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_task_never_sees_an_arm_twice(store: DecisionStore, policy: str) -> None:
    """One request at a time, or all in one batch; a task without an arm left spoils nothing."""
    with Decider(ONCE, store, policy=policy, seed=1) as decider:
        made = [decider.decide("one") for _ in range(3)]
        assert sorted(decision.action for decision in made) == [0, 1, 2]
        with pytest.raises(MaskError, match="task 'one' has no arm left: it took every"):
            decider.decide("one")
        together = decider.decide_many([Decide("two")] * 3 + [Decide("one"), Decide("three")])
        assert isinstance(together[3], MaskError)
        rest = [one for one in together if isinstance(one, Decision)]
        assert sorted(one.action for one in rest[:3]) == [0, 1, 2]
        assert [one.task for one in rest] == ["two", "two", "two", "three"]


def test_an_arm_whose_reward_came_late_or_never_was_taken(
    store: DecisionStore,
    clock: Clock,  # noqa: F811
) -> None:
    with Decider(ONCE, store, reward_window=60, seed=1) as decider:
        first, second = decider.decide("u"), decider.decide("u")
        clock.wait(100)
        decider.reward(first.id, 1.0)  # late: the belief does not learn from it
        assert {first.action, second.action, decider.decide("u").action} == {0, 1, 2}


def test_a_ranking_needs_as_many_arms_as_are_left(store: DecisionStore) -> None:
    with Decider(ONCE, store, seed=1) as decider:
        shown = decider.decide("u", top=2)
        with pytest.raises(ActionError, match="top is 2, but decision 0 has 1 available"):
            decider.decide("u", top=2)
        assert decider.decide("u").action not in (item.action for item in shown.shown)


def test_rows_of_features_are_the_callers(store: DecisionStore) -> None:
    with Decider(linear().replace(repeatable=False), store, seed=1) as decider:
        made = [decider.decide("u", actions=ACTIONS[:1]) for _ in range(2)]
        assert [decision.action for decision in made] == [0, 0]


def test_a_refused_request_that_comes_twice_spoils_no_other(
    store: DecisionStore,
) -> None:
    with Decider(ONCE, store, seed=1) as decider:
        for _ in range(3):
            decider.decide("a")
        twice = [Decide("a", key="x")] * 2
        first, *others, again = decider.decide_many([twice[0], Decide("b"), Decide("c"), twice[1]])
        assert isinstance(first, MaskError)
        assert isinstance(again, MaskError)
        assert all(isinstance(one, Decision) for one in others)
