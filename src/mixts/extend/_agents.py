"""The contract of agents: problems, rules, and the check that runs them."""

from __future__ import annotations

import copy
import pickle
import tempfile
from collections.abc import Callable
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np

from mixts.agents import Agent, BeliefAgent, Offer
from mixts.errors import FeedbackError, ObservationError, TaskError
from mixts.extend._comparisons import (
    N_ERRORS,
    ROUNDING,
    answer,
    keep,
    refused,
    same_numbers,
)
from mixts.extend._families import FamilyProblem, History
from mixts.families import ArmFamily, Trajectory
from mixts.prior import MixturePrior

NUMBERS_OF_TASKS = (None, 1, 3)


def check_agent(
    build: Callable[[int | None, Any], Any],
    prior: MixturePrior,
    *,
    step_by_step: bool = False,
) -> None:
    """Check the rules of agents; raise ``AssertionError`` where one is broken.

    Parameters
    ----------
    build
        Function of ``n_tasks`` and ``seed`` that returns an agent of a subclass of ``Agent``.
    prior
        The prior of the agent, or another one of the same actions.
    step_by_step
        Whether each decision needs its own update, before the next decision of the task.

    Examples
    --------
    >>> import mixts
    >>> from mixts.extend.contracts import check_agent
    >>> prior = mixts.MixturePrior(mixts.BernoulliArms([[8, 2], [2, 8]], [[2, 8], [8, 2]]))
    >>> check_agent(lambda n_tasks, seed: mixts.Greedy(prior, n_tasks, seed), prior)
    """
    keep(AGENT_RULES, AgentProblem(FamilyProblem(prior), build, step_by_step=step_by_step))


# -- problems --------------------------------------------------------------------------------------


class AgentProblem:
    """An agent, and what it decides about: an arm, a row of an action set, or a policy.

    Parameters
    ----------
    family
        The problem of its actions.
    build
        Function of ``n_tasks`` and ``seed`` that returns an agent.
    step_by_step
        Whether each decision needs its own update, before the next decision of the task.
    """

    def __init__(
        self,
        family: FamilyProblem,
        build: Callable[[int | None, Any], Any],
        *,
        step_by_step: bool = False,
    ) -> None:
        self.family, self._build, self.step_by_step = family, build, step_by_step

    def build(self, n_tasks: int | None, seed: Any = 0) -> Any:
        """Return a new agent."""
        return self._build(n_tasks, seed)

    @property
    def decision_shape(self) -> tuple[int, ...]:
        """Shape of the decision of one task."""
        family: Any = self.family.prior.family
        return (family.horizon, family.reward.shape[1]) if self.family.mdp else ()

    def offer(self, rng: np.random.Generator, n_rows: int | None = None) -> Any:
        """Return fresh action sets, one for each decision; None where actions are fixed."""
        if not self.family.linear:
            return None
        shape: Any = (self.family.N_ROWS, self.family.prior.family.n_features)
        return rng.normal(size=shape if n_rows is None else (n_rows, *shape))

    def taken(self, offered: Any, chosen: Any) -> Any:
        """Return the argument of ``update`` for a decision: the arm, or the features of the row."""
        if offered is None:
            return chosen
        if offered.ndim == 2:
            return offered[chosen]
        return offered[np.arange(len(chosen)), chosen]

    def rewards(self, rng: np.random.Generator, chosen: Any) -> Any:
        """Return rewards of 0 and 1, which every agent accepts, or the family's if it does not."""
        family: Any = self.family.prior.family
        shape = np.shape(chosen)
        draws: Any = (rng.random(shape) < 0.6).astype(float)
        if isinstance(family, ArmFamily):
            statistics: Any = family.empty_statistics(1)
            if not statistics.accepts(np.array([0.0, 1.0])).all():
                _, theta = self.family.prior.draw(rng, draws.size)
                draws = self.family.outcomes(rng, theta, np.ravel(chosen)).reshape(shape)
        return float(draws) if draws.ndim == 0 else draws

    def feedback(self, rng: np.random.Generator, offered: Any, chosen: Any) -> History:
        """Return the arguments of ``update`` after a decision."""
        if self.family.mdp:
            return (self.episode(rng, chosen),)
        return self.taken(offered, chosen), self.rewards(rng, chosen)

    def episode(self, rng: np.random.Generator, policy: Any) -> Trajectory:
        """Follow policies (..., h, X) from state to state at random."""
        horizon, n_states = self.decision_shape
        states = rng.integers(n_states, size=(*policy.shape[:-2], horizon))
        actions = np.take_along_axis(policy, states[..., None], axis=-1)[..., 0]
        return Trajectory(states, actions, self.rewards(rng, actions))

    def play(self, agent: Any, rounds: int, seed: int = 1, **how: Any) -> list[Any]:
        """Return the decisions of some rounds of act and update."""
        rng, decisions = np.random.default_rng(seed), []
        for _ in range(rounds):
            offered = self.offer(rng, agent.n_tasks)
            chosen = agent.act(offered, **how)
            agent.update(*self.feedback(rng, offered, chosen))
            decisions.append(chosen)
        return decisions


def readings(agent: Any) -> list[Any]:
    """Return everything that can be read of what an agent has learned."""
    found = []
    if hasattr(agent, "belief"):
        statistics = agent.belief.statistics.copy()
        found += [agent.belief.log_evidence, agent.belief.component_mean]
        found += [statistics.array(name) for name in statistics.fields]
    if hasattr(agent, "weights"):
        found.append(agent.weights)
    return found


def unchanged(
    agent: Any, before: list[Any], what: str = "readings changed", rounding: float = 0.0
) -> None:
    """Assert that an agent has learned nothing since the readings."""
    for one, other in zip(readings(agent), before, strict=True):
        same_numbers(one, other, what, rounding)


# -- rules -----------------------------------------------------------------------------------------


def probabilities_have_the_shape_of_the_offer(problem: AgentProblem) -> None:
    """``probabilities`` returns two arrays (decisions, actions)."""
    agent, n = problem.build(7), 7
    assert isinstance(agent, Agent), f"{type(agent).__name__} does not derive from Agent"
    if problem.family.mdp or not isinstance(agent, BeliefAgent):
        return
    offer = Offer.of(agent.prior, np.arange(n), problem.offer(np.random.default_rng(0), n))
    shape = (n, problem.family.n_actions)
    answer(agent, "probabilities", shape, agent.rewards(offer), offer)


def every_task_gets_a_decision(problem: AgentProblem) -> None:
    """Decisions have the shapes and the range of tasks and actions, and updates return None."""
    for n_tasks in NUMBERS_OF_TASKS:
        agent = problem.build(n_tasks)
        assert agent.n_tasks == n_tasks, "n_tasks"
        for chosen in problem.play(agent, 3):
            if n_tasks is None and not problem.decision_shape:
                assert type(chosen) is int, f"the decision of one task is {type(chosen)}, not int"
            else:
                leading = () if n_tasks is None else (n_tasks,)
                assert chosen.shape == leading + problem.decision_shape, "shape of decisions"
                assert chosen.dtype.kind == "i", "type of decisions"
            within = (np.asarray(chosen) >= 0) & (np.asarray(chosen) < problem.family.n_actions)
            assert np.all(within), "an action that does not exist"
    agent, rng = problem.build(None), np.random.default_rng(0)
    offered = problem.offer(rng)
    answer = agent.update(*problem.feedback(rng, offered, agent.act(offered)))
    assert answer is None, "update returns something"


def only_feedback_teaches(problem: AgentProblem) -> None:
    """Decisions change no belief; feedback does."""
    for n_tasks in NUMBERS_OF_TASKS:
        agent, rng = problem.build(n_tasks), np.random.default_rng(0)
        blank = readings(agent)
        problem.play(agent, 5)
        before = readings(agent)
        learned = any(not np.array_equal(a, b) for a, b in zip(before, blank, strict=True))
        assert learned, "feedback teaches nothing"
        for _ in range(3):
            agent.act(problem.offer(rng, n_tasks))
        unchanged(agent, before, "a decision changed what the agent has learned")


def the_same_seed_makes_the_same_decisions(problem: AgentProblem) -> None:
    """Equal seeds give equal decisions; a generator is used as it is."""
    for n_tasks in NUMBERS_OF_TASKS:
        one, other = (problem.play(problem.build(n_tasks, 5), 8) for _ in range(2))
        same_numbers(one, other, "decisions of one seed")
    sources = [np.random.default_rng(5), np.random.SeedSequence(5), 5, np.int64(5)]
    runs = [problem.play(problem.build(None, source), 8) for source in sources]
    same_numbers(runs[0], runs[1], "a generator and its seed sequence")
    same_numbers(runs[2], runs[3], "an integer and numpy's")


def other_seeds_make_other_decisions(problem: AgentProblem) -> None:
    """Two seeds give decisions that differ, unless equal ones are likely."""
    if problem.family.mdp:
        return
    n, found = 100, []
    offered = problem.offer(np.random.default_rng(0), n)
    for seed in (5, 6):
        agent = problem.build(n, seed)
        law, _ = agent.action_probabilities(offered)
        found.append(agent.act(offered))
    if np.prod((law**2).sum(axis=1)) < 1e-9:  # the probability that two agents decide alike
        assert (found[0] != found[1]).any(), f"act of {type(agent).__name__} ignores the seed"


def feedback_of_some_tasks_leaves_the_others_alone(problem: AgentProblem) -> None:
    """Tasks learn from their own outcomes only."""
    agent, rng = problem.build(4), np.random.default_rng(3)
    problem.play(agent, 3)
    before, tasks = readings(agent), np.array([3, 1])
    for _ in range(5):
        offered = problem.offer(rng, 2)
        chosen = agent.act(offered, tasks=tasks)
        agent.update(*problem.feedback(rng, offered, chosen), tasks=tasks)
    pairs = list(zip(readings(agent), before, strict=True))
    for new, old in pairs:
        same_numbers(new[[0, 2]], old[[0, 2]], "tasks without feedback")
    assert any((new[tasks] != old[tasks]).any() for new, old in pairs), "feedback teaches nothing"


def outcomes_come_in_any_batches(problem: AgentProblem) -> None:
    """Two outcomes of a task count as two, except where each decision needs its own update."""
    agent, rng = problem.build(3), np.random.default_rng(3)
    problem.play(agent, 2)
    tasks, before = np.array([1, 1]), readings(agent)
    offered = problem.offer(rng, 2)
    chosen = agent.act(offered, tasks=tasks)
    update = problem.feedback(rng, offered, chosen)
    if problem.step_by_step:
        refused(lambda: agent.update(*update, tasks=tasks), (FeedbackError,), "a task twice")
        unchanged(agent, before, "a task twice")
    else:
        agent.update(*update, tasks=tasks)
        expected = np.array([2, 4, 2]) * problem.family.n_steps
        same_numbers(agent.belief.statistics.n_observations, expected, "numbers of observations")


def spoiled_rounds(taken: Any, good: Any) -> list[History]:
    """Return actions and outcomes of three tasks with something wrong, at the end or in shape."""
    return [
        (taken, [*good[:2], np.nan]),
        (taken, [*good[:2], np.inf]),
        (taken, [*good[:2], "one"]),
        (taken, [good[0], good[:2], good[2]]),
        (taken, good[:2]),
        (taken[:2], good),
        ("abc", good),
        ([[0], [1, 1], [2]], good),
        (None, good),
        (taken,),
    ]


def spoiled_episodes(good: Trajectory, n_states: int) -> list[History]:
    """Return the same of trajectories."""

    def last(array: Any, value: float) -> Any:
        changed = array.copy()
        changed[-1, -1] = value
        return changed

    x, a, r = good.states, good.actions, good.rewards
    return [
        (Trajectory(x, a, last(r, np.nan)),),
        (Trajectory(x, a, last(r, 0.5)),),
        (Trajectory(last(x, n_states), a, r),),
        (Trajectory(x, last(a, -1), r),),
        (Trajectory(x[:2], a[:2], r[:2]),),
        (Trajectory(x[:, 1:], a[:, 1:], r[:, 1:]),),
        (a, r),
        (good, r, [0, 1, 2]),
        ("abc",),
        (None,),
    ]


def a_refused_update_changes_nothing(problem: AgentProblem) -> None:
    """An agent that saw only the good calls has the same belief and makes the same decisions."""
    agent, twin = problem.build(3), problem.build(3)
    rng = np.random.default_rng(4)
    for who in (agent, twin):
        problem.play(who, 3)
    offered = problem.offer(rng, 3)
    chosen = agent.act(offered)
    same_numbers(twin.act(offered), chosen, "decisions of twins")
    good, before = problem.feedback(rng, offered, chosen), readings(agent)
    if problem.family.mdp:
        spoiled = spoiled_episodes(good[0], problem.decision_shape[1])
    else:
        spoiled = spoiled_rounds(*good)
    for i, update in enumerate(spoiled):
        refused(lambda u=update: agent.update(*u), (ObservationError,), f"spoiled update {i}")  # type: ignore[misc]
        unchanged(agent, before, f"spoiled update {i}")
    for tasks in ([0, 1], [0, 1, 3], [[0, 1, 2]]):
        errors = (ObservationError, TaskError)
        refused(lambda t=tasks: agent.update(*good, tasks=t), errors, f"tasks {tasks}")  # type: ignore[misc]
        unchanged(agent, before, f"tasks {tasks}")
    for who in (agent, twin):
        who.update(*good)
    # Only the agent was read in between, which may settle how a belief is rounded.
    unchanged(agent, readings(twin), "after refused updates", ROUNDING)
    same_numbers(agent.act(offered), twin.act(offered), "decisions after refused updates")


def a_loaded_agent_continues(problem: AgentProblem) -> None:
    """With the same decisions, in the middle of a round too: a decision waits for its outcome."""
    kind = type(problem.build(None))
    if issubclass(kind, BeliefAgent):
        try:
            signature(kind).bind_partial(prior=None, n_tasks=None, seed=None)
        except TypeError as error:
            what = "needs arguments named prior, n_tasks and seed, which files restore by name"
            raise AssertionError(f"{kind.__name__}.__init__ {what}: {error}") from error
    with tempfile.TemporaryDirectory() as folder:
        for n_tasks, suffix in ((None, "json"), (1, "agent"), (3, "json"), (3, "agent")):
            _continue_from(problem, n_tasks, Path(folder, f"saved.{suffix}"))


def _continue_from(problem: AgentProblem, n_tasks: int | None, path: Path) -> None:
    agent, rng = problem.build(n_tasks, seed=3), np.random.default_rng(5)
    problem.play(agent, 3)
    offered = problem.offer(rng, n_tasks)
    chosen = agent.act(offered)
    agent.save(path)
    again = Agent.load(path)
    assert type(again) is type(agent), "the loaded agent is of another class"
    assert again.n_tasks == n_tasks, "the loaded agent has other tasks"
    assert repr(again) == repr(agent), "the loaded agent has other settings"
    feedback = problem.feedback(rng, offered, chosen)
    for who in (agent, again):
        who.update(*feedback)
    same_numbers(problem.play(again, 5), problem.play(agent, 5), "decisions after loading")
    for one, other in zip(readings(again), readings(agent), strict=True):
        same_numbers(one, other, "readings after loading", ROUNDING)


def a_copy_continues(problem: AgentProblem) -> None:
    """Copies and pickles make the same decisions, and saving changes nothing."""
    for n_tasks in NUMBERS_OF_TASKS:
        for pickled in (False, True):
            agent = problem.build(n_tasks, seed=3)
            problem.play(agent, 3)
            again = pickle.loads(pickle.dumps(agent)) if pickled else copy.deepcopy(agent)
            same_numbers(problem.play(again, 5), problem.play(agent, 5), "decisions of a copy")
            unchanged(again, readings(agent), "readings of a copy")
    agent, twin = problem.build(3, seed=3), problem.build(3, seed=3)
    for who in (agent, twin):
        problem.play(who, 4)
    with tempfile.TemporaryDirectory() as folder:
        agent.save(Path(folder, "saved"))
    same_numbers(problem.play(agent, 5), problem.play(twin, 5), "decisions after saving")
    unchanged(agent, readings(twin), "readings after saving")


def decisions_follow_the_probabilities(problem: AgentProblem) -> None:
    """Over many decisions, actions come as often as ``action_probabilities`` says."""
    if problem.family.mdp:
        return
    agent, rng, n, n_calls = problem.build(1, seed=7), np.random.default_rng(6), 50, 40
    problem.play(agent, 4)
    offered, tasks = problem.offer(rng), np.zeros(n, int)
    # Probabilities may be estimates, other ones for each decision: both sides average as many.
    probabilities = np.stack(
        [agent.action_probabilities(offered, tasks)[0].mean(axis=0) for _ in range(n_calls)]
    )
    shares = np.stack(
        [
            np.bincount(agent.act(offered, tasks=tasks), minlength=probabilities.shape[1])
            for _ in probabilities
        ]
    )
    same_numbers(probabilities.sum(axis=1), np.ones(n_calls), "sum of probabilities", 1e-6)
    gap, average = shares / n - probabilities, probabilities.mean(axis=0)
    least = average * (1 - average) / (n * n_calls) + 1e-12
    spread = np.sqrt(np.maximum(gap.var(axis=0) / n_calls, least))
    worst = float(np.max(np.abs(gap.mean(axis=0)) / spread))
    assert worst < N_ERRORS, f"shares of actions differ by {worst:.1f} standard errors"


def masked_actions_are_never_taken(problem: AgentProblem) -> None:
    """Actions outside the mask, and retired arms, have probability 0 and are not taken."""
    if problem.family.mdp:
        return
    n, n_actions = 40, problem.family.n_actions
    agent, rng = problem.build(n), np.random.default_rng(3)
    for _ in range(3):
        offered, mask = problem.offer(rng, n), rng.random((n, n_actions)) < 0.5
        mask[np.arange(n), rng.integers(n_actions, size=n)] = True
        _within(agent, offered, mask, mask)
        chosen, _, _ = agent.act_with_probabilities(offered, mask=mask)
        agent.update(*problem.feedback(rng, offered, chosen))
    if not problem.family.linear and hasattr(agent, "retire_arms"):
        agent.retire_arms([0])
        _within(agent, None, None, np.tile(np.arange(n_actions) > 0, (n, 1)))


def _within(agent: Any, offered: Any, mask: Any, available: Any) -> None:
    """Assert that all decisions, and all probabilities, are of the available actions."""
    rows = np.arange(len(available))
    law, errors = agent.action_probabilities(offered, mask=mask)
    decided, logged, _ = agent.act_with_probabilities(offered, mask=mask)
    for name, chosen in (
        ("act", agent.act(offered, mask=mask)),
        ("act_with_probabilities", decided),
    ):
        assert available[rows, chosen].all(), f"{name} takes actions that are not available"
    for name, array in (
        ("action_probabilities", law),
        ("standard errors of action_probabilities", errors),
        ("probabilities of act_with_probabilities", logged),
    ):
        assert np.all(array[~available] == 0), f"{name}: not 0 for actions that are not available"
    same_numbers(law.sum(axis=1), np.ones(len(law)), "sum of probabilities under a mask", 1e-12)


AGENT_RULES: tuple[Callable[[AgentProblem], None], ...] = (
    probabilities_have_the_shape_of_the_offer,
    every_task_gets_a_decision,
    only_feedback_teaches,
    the_same_seed_makes_the_same_decisions,
    other_seeds_make_other_decisions,
    feedback_of_some_tasks_leaves_the_others_alone,
    outcomes_come_in_any_batches,
    a_refused_update_changes_nothing,
    a_loaded_agent_continues,
    a_copy_continues,
    decisions_follow_the_probabilities,
    masked_actions_are_never_taken,
)
"""Rules that every agent keeps."""
