"""Agents that choose among offered actions: masks, probabilities and floors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mixts
from mixts.extend._agents import readings, unchanged
from tests.contracts.agents import OFFERED_CASES, AgentCase

pytestmark = pytest.mark.parametrize("case", OFFERED_CASES, ids=lambda c: f"{c.agent}-{c.kind}")
counts = pytest.mark.parametrize("n_tasks", [None, 1, 3])


def some(rng: np.random.Generator, agent: Any, case: AgentCase) -> Any:
    return case.offer(rng, agent.n_tasks)


# -- probabilities ---------------------------------------------------------------------------------


@counts
def test_probabilities_are_a_distribution_for_each_task(
    case: AgentCase, n_tasks: int | None
) -> None:
    agent, rng = case.build(n_tasks), np.random.default_rng(0)
    case.play(agent, 3)
    offered, before = some(rng, agent, case), readings(agent)
    shape = (case.n_actions,) if n_tasks is None else (n_tasks, case.n_actions)
    probabilities, errors = agent.action_probabilities(offered)
    chosen, logged, logged_errors = agent.act_with_probabilities(offered)
    for p, e in [(probabilities, errors), (logged, logged_errors)]:
        assert p.shape == e.shape == shape
        np.testing.assert_allclose(p.sum(axis=-1), 1.0, rtol=1e-12)
        assert np.all(p >= 0)
        assert np.all(e >= 0)
        if case.traits.exact or (not case.linear and not case.traits.sampled):
            assert np.all(e == 0)
    assert np.shape(chosen) == shape[:-1]
    if n_tasks is None:
        assert type(chosen) is int
    picked = logged[chosen] if n_tasks is None else logged[np.arange(n_tasks), chosen]
    assert np.all(picked > 0)
    unchanged(agent, before)


def test_logged_decisions_follow_the_seed_too(case: AgentCase) -> None:
    runs = []
    for _ in range(2):
        agent, rng = case.build(2, seed=5), np.random.default_rng(1)
        case.play(agent, 4)
        runs.append(agent.act_with_probabilities(some(rng, agent, case), floor=0.05))
    for one, other in zip(*runs, strict=True):
        np.testing.assert_array_equal(one, other)


def test_some_tasks_decide_with_probabilities(case: AgentCase) -> None:
    """One independent decision for each entry, repeats included, each with its own mask."""
    agent, rng = case.build(3), np.random.default_rng(3)
    tasks = np.array([2, 0, 2, 2])
    for given in (tasks, tasks.tolist(), tasks.astype(np.uint8)):
        offered = case.offer(rng, 4)
        chosen, logged, errors = agent.act_with_probabilities(offered, tasks=given)
        assert chosen.shape == (4,)
        assert logged.shape == errors.shape == (4, case.n_actions)
        assert agent.action_probabilities(offered, tasks=given)[0].shape == (4, case.n_actions)
    mask = np.array([[k == row for k in range(case.n_actions)] for row in range(4)])
    assert agent.act(case.offer(rng, 4), tasks=tasks, mask=mask).tolist() == [0, 1, 2, 3]


# -- masks -----------------------------------------------------------------------------------------


@counts
def test_one_mask_serves_all_tasks(case: AgentCase, n_tasks: int | None) -> None:
    agent, rng = case.build(n_tasks), np.random.default_rng(3)
    mask = np.zeros(case.n_actions, bool)
    mask[[1, 3]] = True
    chosen = [agent.act(some(rng, agent, case), mask=mask) for _ in range(60)]
    found = set(np.ravel(chosen))
    assert found == {1, 3} if case.traits.randomised else found <= {1, 3}


@counts
def test_the_only_available_action_is_taken(case: AgentCase, n_tasks: int | None) -> None:
    agent, rng = case.build(n_tasks), np.random.default_rng(3)
    for only in range(case.n_actions):
        mask = np.arange(case.n_actions) == only
        offered = some(rng, agent, case)
        assert np.all(agent.act(offered, mask=mask) == only)
        probabilities, errors = agent.action_probabilities(offered, mask=mask)
        expected = np.broadcast_to(mask, probabilities.shape)
        np.testing.assert_allclose(probabilities, expected, rtol=1e-15)
        assert np.all(errors == 0)
        chosen, logged, _ = agent.act_with_probabilities(offered, mask=mask, floor=1.0)
        assert np.all(chosen == only)
        np.testing.assert_allclose(logged, expected, rtol=1e-15)


@pytest.mark.parametrize("verb", ["act", "action_probabilities", "act_with_probabilities"])
def test_a_mask_must_leave_something(case: AgentCase, verb: str) -> None:
    agent, rng = case.build(3), np.random.default_rng(3)
    case.play(agent, 2)
    offered, before = some(rng, agent, case), readings(agent)
    mask = np.ones((3, case.n_actions), bool)
    mask[1] = False
    with pytest.raises(mixts.errors.MaskError, match="decision 1"):
        getattr(agent, verb)(offered, mask=mask)
    with pytest.raises(mixts.errors.MaskError, match="at least one must be true"):
        getattr(agent, verb)(offered, mask=np.zeros(case.n_actions, bool))
    unchanged(agent, before)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("verb", ["act", "action_probabilities", "act_with_probabilities"])
def test_masks_of_other_shapes_are_refused(case: AgentCase, verb: str) -> None:
    agent, rng = case.build(3), np.random.default_rng(3)
    offered, k = some(rng, agent, case), case.n_actions
    for wrong in (np.ones(k + 1, bool), np.ones((2, k), bool), np.ones((3, k, 1), bool), True):
        with pytest.raises(mixts.errors.MaskError, match="shape"):
            getattr(agent, verb)(offered, mask=wrong)
    with pytest.raises(mixts.errors.MaskError, match="boolean"):
        getattr(agent, verb)(offered, mask=np.ones(k))


# -- floors ----------------------------------------------------------------------------------------


@counts
def test_a_floor_gives_full_support(case: AgentCase, n_tasks: int | None) -> None:
    agent, rng = case.build(n_tasks), np.random.default_rng(3)
    case.play(agent, 5)
    mask = np.arange(case.n_actions) > 0
    n_available = case.n_actions - 1
    for floor in (0.01, 0.1, 1 / n_available):
        offered = some(rng, agent, case)
        chosen, logged, errors = agent.act_with_probabilities(offered, mask=mask, floor=floor)
        assert np.all(logged[..., 1:] >= floor * (1 - 1e-12))
        assert np.all(logged[..., 0] == 0)
        assert np.all(np.asarray(chosen) > 0)
        np.testing.assert_allclose(logged.sum(axis=-1), 1.0, rtol=1e-12)
        if floor == 1 / n_available:
            np.testing.assert_allclose(logged[..., 1:], floor, rtol=1e-12)
            assert np.all(errors < 1e-12)


@pytest.mark.usefixtures("unchecked")
def test_a_floor_has_an_upper_bound(case: AgentCase) -> None:
    """No more than 1 / (number of available actions) fits."""
    agent, rng = case.build(2), np.random.default_rng(3)
    offered, before = some(rng, agent, case), readings(agent)
    two = np.arange(case.n_actions) < 2
    for floor in (1 / case.n_actions + 1e-9, 1.0, -1e-9, np.nan, np.inf, "0.1", None, True):
        with pytest.raises(mixts.errors.ParameterError, match=r"floor .* 1 / "):
            agent.act_with_probabilities(offered, floor=floor)
    with pytest.raises(mixts.errors.ParameterError, match="1 / 2 "):
        agent.act_with_probabilities(offered, mask=two, floor=0.51)
    agent.act_with_probabilities(offered, mask=two, floor=0.5)
    unchanged(agent, before)
