"""One suite that every agent passes: what act and update take, give and refuse."""

from __future__ import annotations

import copy
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mixts
from mixts import errors
from tests.contracts.agents import CASES, AgentCase, assert_unchanged, readings
from tests.contracts.problems import N_STATES

pytestmark = pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c.agent}-{c.kind}")
counts = pytest.mark.parametrize("n_tasks", [None, 1, 3])


def some(rng: np.random.Generator, agent: Any, case: AgentCase) -> Any:
    return case.offer(rng, agent.n_tasks)


# -- shapes and types ------------------------------------------------------------------------------


@counts
def test_a_decision_for_each_task(case: AgentCase, n_tasks: int | None) -> None:
    agent = case.build(n_tasks)
    assert agent.n_tasks == n_tasks
    for chosen in case.play(agent, 3):
        if n_tasks is None and not case.decision_shape:
            assert type(chosen) is int
        else:
            leading = () if n_tasks is None else (n_tasks,)
            assert chosen.shape == leading + case.decision_shape
            assert chosen.dtype.kind == "i"
        assert np.all((np.asarray(chosen) >= 0) & (np.asarray(chosen) < case.n_actions))


def test_update_returns_none(case: AgentCase) -> None:
    agent, rng = case.build(None), np.random.default_rng(0)
    offered = some(rng, agent, case)
    chosen = agent.act(offered)
    assert agent.update(*case.feedback(rng, offered, chosen)) is None


@counts
def test_decisions_teach_nothing(case: AgentCase, n_tasks: int | None) -> None:
    agent, rng = case.build(n_tasks), np.random.default_rng(0)
    case.play(agent, 3)
    before = readings(agent)
    for _ in range(3):
        agent.act(some(rng, agent, case))
    assert_unchanged(agent, before)


def test_feedback_teaches(case: AgentCase) -> None:
    agent = case.build(None)
    before = readings(agent)
    case.play(agent, 5)
    assert any(not np.array_equal(a, b) for a, b in zip(readings(agent), before, strict=True))


# -- seeds -----------------------------------------------------------------------------------------


@counts
def test_the_same_seed_makes_the_same_decisions(case: AgentCase, n_tasks: int | None) -> None:
    runs = [case.play(case.build(n_tasks, seed), 15) for seed in (5, 5, 6)]
    same, again, other = (np.array(run) for run in runs)
    np.testing.assert_array_equal(same, again)
    if case.traits.randomised:
        assert (same != other).any()


def test_a_generator_is_a_seed(case: AgentCase) -> None:
    """A generator is used as it is; an integer seed gives the agent its own stream."""
    sources = [np.random.default_rng(5), np.random.SeedSequence(5), 5, np.int64(5)]
    generator, sequence, number, numpys = (case.play(case.build(None, s), 10) for s in sources)
    np.testing.assert_array_equal(generator, sequence)
    np.testing.assert_array_equal(number, numpys)
    if case.traits.randomised:
        assert not np.array_equal(number, generator)


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


def test_feedback_of_some_tasks_leaves_the_others_alone(case: AgentCase) -> None:
    agent, rng = case.build(4), np.random.default_rng(3)
    case.play(agent, 3)
    before, tasks = readings(agent), np.array([3, 1])
    for _ in range(5):
        offered = case.offer(rng, 2)
        chosen = agent.act(offered, tasks=tasks)
        agent.update(*case.feedback(rng, offered, chosen), tasks=tasks)
    for new, old in zip(readings(agent), before, strict=True):
        np.testing.assert_array_equal(new[[0, 2]], old[[0, 2]])
    changed = [(new[tasks] != old[tasks]).any() for new, old in
               zip(readings(agent), before, strict=True)]  # fmt: skip
    assert any(changed)


def test_repeated_feedback(case: AgentCase) -> None:
    """Outcomes may come in any batches, except where each decision needs its own update."""
    agent, rng = case.build(3), np.random.default_rng(3)
    case.play(agent, 2)
    tasks, before = np.array([1, 1]), readings(agent)
    offered = case.offer(rng, 2)
    chosen = agent.act(offered, tasks=tasks)
    update = case.feedback(rng, offered, chosen)
    if case.traits.step_by_step:
        with pytest.raises(errors.FeedbackError, match="twice"):
            agent.update(*update, tasks=tasks)
        assert_unchanged(agent, before)
    else:
        agent.update(*update, tasks=tasks)
        n_observations = np.array([2, 4, 2]) * case.family.n_steps
        np.testing.assert_array_equal(agent.belief.statistics.n_observations, n_observations)


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
    assert_unchanged(agent, before)


def test_one_task_is_not_to_be_named(case: AgentCase) -> None:
    agent, rng = case.build(None), np.random.default_rng(3)
    offered = case.offer(rng)
    for verb in (agent.act, agent.action_probabilities, agent.act_with_probabilities):
        with pytest.raises(errors.TaskError, match="one task"):
            verb(offered, tasks=[0])


# -- refusals --------------------------------------------------------------------------------------


def spoiled_rounds(taken: Any, good: Any) -> list[tuple[Any, ...]]:
    """Actions and outcomes of three tasks, with something wrong in the last or with the shape."""
    return [
        (taken, [1.0, 0.0, np.nan]),
        (taken, [1.0, 0.0, np.inf]),
        (taken, [1.0, 0.0, "one"]),
        (taken, [1.0, [0.0, 1.0], 1.0]),
        (taken, good[:2]),
        (taken[:2], good),
        ("abc", good),
        ([[0], [1, 1], [2]], good),
        (None, good),
        (taken,),
    ]


def spoiled_episodes(good: mixts.Trajectory) -> list[tuple[Any, ...]]:
    """The same of trajectories."""

    def last(array: Any, value: float) -> Any:
        changed = array.copy()
        changed[-1, -1] = value
        return changed

    x, a, r = good.states, good.actions, good.rewards
    return [
        (mixts.Trajectory(x, a, last(r, np.nan)),),
        (mixts.Trajectory(x, a, last(r, 0.5)),),
        (mixts.Trajectory(last(x, N_STATES), a, r),),
        (mixts.Trajectory(x, last(a, -1), r),),
        (mixts.Trajectory(x[:2], a[:2], r[:2]),),
        (mixts.Trajectory(x[:, 1:], a[:, 1:], r[:, 1:]),),
        (a, r),
        (good, r, [0, 1, 2]),
        ("abc",),
        (None,),
    ]


@pytest.mark.usefixtures("unchecked")
def test_a_refused_update_changes_nothing(case: AgentCase) -> None:
    """An agent that saw only the good calls has the same belief and makes the same decisions."""
    agent, twin = case.build(3), case.build(3)
    rng = np.random.default_rng(4)
    for who in (agent, twin):
        case.play(who, 3)
    offered = some(rng, agent, case)
    chosen = agent.act(offered)
    np.testing.assert_array_equal(twin.act(offered), chosen)
    good, before = case.feedback(rng, offered, chosen), readings(agent)
    spoiled = spoiled_episodes(*good) if case.kind == "mdp" else spoiled_rounds(*good)
    for update in spoiled:
        with pytest.raises(errors.ObservationError):
            agent.update(*update)
        assert_unchanged(agent, before)
    for tasks in ([0, 1], [0, 1, 3], [[0, 1, 2]]):
        with pytest.raises((errors.ObservationError, errors.TaskError)):
            agent.update(*good, tasks=tasks)
        assert_unchanged(agent, before)
    for who in (agent, twin):
        who.update(*good)
    assert_unchanged(agent, readings(twin))
    np.testing.assert_array_equal(agent.act(offered), twin.act(offered))


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
    assert_unchanged(agent, before)


# -- files and text --------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["json", "agent"])
@counts
def test_a_loaded_agent_continues(
    case: AgentCase, n_tasks: int | None, suffix: str, tmp_path: Path
) -> None:
    """With the same decisions, in the middle of a round too: a decision waits for its outcome."""
    agent, rng = case.build(n_tasks, seed=3), np.random.default_rng(5)
    case.play(agent, 6)
    offered = some(rng, agent, case)
    chosen = agent.act(offered)
    agent.save(tmp_path / f"saved.{suffix}")
    again = mixts.Agent.load(tmp_path / f"saved.{suffix}")
    assert type(again) is type(agent)
    assert again.n_tasks == n_tasks
    assert repr(again) == repr(agent)
    feedback = case.feedback(rng, offered, chosen)
    for who in (agent, again):
        who.update(*feedback)
    np.testing.assert_array_equal(case.play(again, 10), case.play(agent, 10))
    for one, other in zip(readings(again), readings(agent), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-10)
    if n_tasks is not None:
        assert type(again).load(tmp_path / f"saved.{suffix}").n_tasks == n_tasks


def pickled(agent: Any) -> Any:
    return pickle.loads(pickle.dumps(agent))


@pytest.mark.parametrize("duplicate", [copy.deepcopy, pickled])
@counts
def test_a_copy_continues(case: AgentCase, n_tasks: int | None, duplicate: Any) -> None:
    agent = case.build(n_tasks, seed=3)
    case.play(agent, 3)
    again = duplicate(agent)
    np.testing.assert_array_equal(case.play(again, 10), case.play(agent, 10))
    for one, other in zip(readings(again), readings(agent), strict=True):
        np.testing.assert_array_equal(one, other)


def test_saving_changes_nothing(case: AgentCase, tmp_path: Path) -> None:
    agent, twin = case.build(3, seed=3), case.build(3, seed=3)
    for who in (agent, twin):
        case.play(who, 4)
    agent.save(tmp_path / "saved")
    np.testing.assert_array_equal(case.play(agent, 5), case.play(twin, 5))
    assert_unchanged(agent, readings(twin))


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
