"""One suite that every agent passes: what act and update take, give and refuse."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mixts
from mixts import errors
from mixts.extend._agents import AGENT_RULES, AgentProblem, readings, unchanged
from tests.contracts.agents import CASES, AgentCase, over

pytestmark = [over(CASES), pytest.mark.usefixtures("program")]


@pytest.mark.parametrize("rule", AGENT_RULES, ids=lambda rule: rule.__name__)
@pytest.mark.usefixtures("unchecked")
def test_every_agent_keeps_the_rules(case: AgentCase, rule: Callable[[AgentProblem], None]) -> None:
    rule(case)


# -- seeds -----------------------------------------------------------------------------------------


def test_another_seed_makes_other_decisions(case: AgentCase) -> None:
    """A generator is used as it is; an integer seed gives the agent its own stream."""
    runs = [case.play(case.build(3, seed), 8) for seed in (5, 6, np.random.default_rng(5))]
    if case.traits.randomised:
        assert not np.array_equal(runs[0], runs[1])
        assert not np.array_equal(runs[0], runs[2])


# -- tasks -----------------------------------------------------------------------------------------


def test_some_tasks_decide(case: AgentCase) -> None:
    """One independent decision for each entry, repeats included."""
    agent, rng = case.build(3), np.random.default_rng(3)
    tasks = np.array([2, 0, 2, 2])
    for given in (tasks, tasks.tolist(), tasks.astype(np.uint8)):
        offered = case.offer(rng, 4)
        assert agent.act(offered, tasks=given).shape == (4, *case.decision_shape)
    nobody = agent.act(case.offer(rng, 0), tasks=np.zeros(0, int))
    assert nobody.shape == (0, *case.decision_shape)


def test_a_task_may_decide_many_times(case: AgentCase) -> None:
    agent, rng = case.build(2), np.random.default_rng(3)
    offered = case.offer(rng)
    chosen = agent.act(offered, tasks=np.ones(300, int))
    assert agent.deterministic == (case.traits.randomised is False)
    if case.traits.randomised is not None:
        assert (len(np.unique(chosen, axis=0)) > 1) == case.traits.randomised


@pytest.mark.parametrize("wrong", [[3], [-1], [0.5], [[0]], 1, ["a"], [True]])
@pytest.mark.usefixtures("unchecked")
def test_unknown_tasks_are_refused(case: AgentCase, wrong: Any) -> None:
    agent, rng = case.build(3), np.random.default_rng(3)
    case.play(agent, 2)
    offered, before = case.offer(rng), readings(agent)
    for verb in (agent.act, agent.action_probabilities, agent.act_with_probabilities):
        with pytest.raises(errors.TaskError):
            verb(offered, tasks=wrong)
    one = np.zeros((1, *case.decision_shape), int)
    with pytest.raises(errors.TaskError):
        agent.update(*case.feedback(rng, offered, one), tasks=wrong)
    unchanged(agent, before)


def test_one_task_is_not_to_be_named(case: AgentCase) -> None:
    agent, rng = case.build(None), np.random.default_rng(3)
    offered = case.offer(rng)
    for verb in (agent.act, agent.action_probabilities, agent.act_with_probabilities):
        with pytest.raises(errors.TaskError, match="one task"):
            verb(offered, tasks=[0])


# -- refusals --------------------------------------------------------------------------------------


@pytest.mark.usefixtures("unchecked")
def test_action_sets_that_do_not_fit_are_refused(case: AgentCase) -> None:
    agent, rng = case.build(3), np.random.default_rng(4)
    case.play(agent, 1)
    before = readings(agent)
    if not case.takes_features:
        refused = [np.eye(4), 0]
    else:
        good = rng.normal(size=(case.n_actions, 4))
        bad = good.copy()
        bad[2, 1] = np.nan
        endless = good.copy()
        endless[2, 1] = np.inf
        refused = [
            good[:, :3], good[0], np.stack([good] * 2), good[:0], "rows", [[1.0], [1.0, 2.0]],
            bad, endless, np.stack([good, good, bad]),
        ]  # fmt: skip
    if case.linear and not case.traits.arms_with_features:
        refused.append(None)
    for verb in (agent.act, agent.action_probabilities, agent.act_with_probabilities):
        for actions in refused:
            with pytest.raises(errors.ActionError):
                verb(actions)
    unchanged(agent, before)


# -- files and text --------------------------------------------------------------------------------


def test_damaged_files_are_refused(case: AgentCase, tmp_path: Path) -> None:
    path = tmp_path / "saved.json"
    agent = case.build(2)
    case.play(agent, 2)
    agent.save(path)
    header = json.loads(path.read_text())
    spoiled = [{**header, "agent": "Nobody"}, {**header, "n_tasks": 5}, {**header, "random": {}},
               {**header, "settings": {"unknown": 1}}, {**header, "arrays": {}},
               {**header, "version": 99}]  # fmt: skip
    for wrong in spoiled:
        path.write_text(json.dumps(wrong))
        with pytest.raises(errors.FormatError):
            mixts.Agent.load(path)


def test_a_repr_names_agent_and_tasks(case: AgentCase) -> None:
    for n_tasks, text in ((None, "1 task"), (3, "3 tasks")):
        agent = case.build(n_tasks)
        assert repr(agent).startswith(f"{type(agent).__name__}({text}, ")
