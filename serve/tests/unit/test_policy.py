"""The policy of a decider: what is accepted, and what its agents are."""

from __future__ import annotations

from typing import Any

import pytest
from mixts_serve.rules import Policy

from mixts.agents import POLICIES
from mixts.errors import ParameterError
from serve.tests.contracts.stores import arms, doubtful


@pytest.mark.parametrize("name", POLICIES)
def test_agents_are_of_the_named_class(name: str) -> None:
    policy = Policy.checked(name, explore=0.02)
    prior = arms()
    agent = policy.resume(prior, prior.family.empty_statistics(2), 0)
    assert type(agent) is POLICIES[name]
    assert agent.n_tasks == 2
    assert policy == Policy(name, None, 0.02)


def test_agents_have_the_horizon() -> None:
    prior = doubtful()
    statistics = prior.family.empty_statistics(None)
    agents = [Policy.checked("ids", n).resume(prior, statistics, 0) for n in (None, 1)]
    without, last = (agent.action_probabilities()[0] for agent in agents)
    assert sorted(last) == [0, 0, 1]
    assert max(without) < 0.9


@pytest.mark.parametrize("explore", [-0.1, 1.1, float("nan"), True, "0.1", None])
def test_a_share_of_exploration_is_a_probability(explore: Any) -> None:
    with pytest.raises(ParameterError, match="explore must be a number between 0 and 1"):
        Policy.checked("ts", None, explore)


def test_only_thompson_sampling_has_no_use_for_decisions_that_wait() -> None:
    uses = {name: Policy.checked(name).uses_waiting for name in POLICIES}
    assert not uses.pop("ts")
    assert all(uses.values())
    assert Policy.checked("ts", 20).uses_waiting, "they count towards the horizon"
