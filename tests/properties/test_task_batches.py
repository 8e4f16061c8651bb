"""A batch of tasks is each task alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mixts
from mixts.families import _core_linear
from mixts.families.linear import LinearFamily
from tests.properties.agreement import assert_same_evidence, assert_same_weights
from tests.properties.strategies import COVARIANCE_TYPES, FEWER, Problem, batches, problems

pytestmark = pytest.mark.usefixtures("program")

MOMENTS = ("component_mean", "component_covariance", "mean", "covariance")


def assert_each_task(together: mixts.Belief, problem: Problem, tasks: Any, n_tasks: int) -> None:
    assert together.weights.shape == (n_tasks, problem.n_components)
    rows = np.eye(problem.first.shape[1]) if problem.kind in COVARIANCE_TYPES else None
    for task in range(n_tasks):
        alone = problem.part(np.flatnonzero(tasks == task)).belief()
        assert_same_evidence(together.log_evidence[task], alone.log_evidence)
        assert_same_weights(together.weights[task], alone.weights, alone.log_evidence)
        for name in MOMENTS:
            ours, expected = getattr(together, name)[task], getattr(alone, name)
            np.testing.assert_allclose(ours, expected, rtol=1e-7, atol=1e-8, err_msg=name)
        np.testing.assert_allclose(
            together.mean_rewards(rows)[task], alone.mean_rewards(rows), rtol=1e-7, atol=1e-8
        )


def owners(n: int, n_tasks: int) -> st.SearchStrategy[Any]:
    choice = st.integers(0, n_tasks - 1)
    return st.lists(choice, min_size=n, max_size=n).map(lambda t: np.array(t, dtype=int))


@FEWER
@given(problems(), st.integers(1, 4), st.data())
def test_any_interleaving_of_tasks(problem: Problem, n_tasks: int, data: st.DataObject) -> None:
    tasks = data.draw(owners(problem.n_rounds, n_tasks))
    belief = problem.prior.belief(n_tasks)
    for batch in data.draw(batches(problem.n_rounds)):
        belief.update(problem.actions[batch], problem.outcomes[batch], tasks=tasks[batch])
    assert_each_task(belief, problem, tasks, n_tasks)


@FEWER
@given(problems())
def test_without_tasks_each_task_gets_one(problem: Problem) -> None:
    n = problem.n_rounds
    belief = problem.prior.belief(n)
    belief.update(problem.actions, problem.outcomes)
    assert_each_task(belief, problem, np.arange(n), n)


@FEWER
@given(problems(), st.integers(1, 3), st.integers(1, 3), st.data())
def test_tasks_that_arrive_later(
    problem: Problem, n_first: int, n_more: int, data: st.DataObject
) -> None:
    """Half the history, then new tasks, then the other half for all of them."""
    n, half = problem.n_rounds, problem.n_rounds // 2
    tasks = np.concatenate(
        [data.draw(owners(half, n_first)), data.draw(owners(n - half, n_first + n_more))]
    ).astype(int)
    belief = problem.prior.belief(n_first)
    belief.update(problem.actions[:half], problem.outcomes[:half], tasks=tasks[:half])
    indices = belief.add_tasks(n_more)
    assert np.asarray(indices).tolist() == list(range(n_first, n_first + n_more))
    belief.update(problem.actions[half:], problem.outcomes[half:], tasks=tasks[half:])
    assert_each_task(belief, problem, tasks, n_first + n_more)
    assert_each_task(problem.prior.condition(belief.statistics), problem, tasks, n_first + n_more)


@contextmanager
def memory_for(n_slots: int) -> Iterator[None]:
    """Room for the posteriors of so few tasks only: the others are dropped and recomputed."""

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LinearFamily, "task_bytes", 1)
        patch.setattr(_core_linear, "BUDGET_BYTES", n_slots)
        yield


@FEWER
@given(problems(COVARIANCE_TYPES), st.integers(2, 5), st.integers(1, 3), st.data())
def test_posteriors_that_do_not_fit_into_memory(
    problem: Problem, n_tasks: int, n_slots: int, data: st.DataObject
) -> None:
    tasks = data.draw(owners(problem.n_rounds, n_tasks))
    with memory_for(n_slots):
        belief = problem.prior.belief(n_tasks)
        for batch in data.draw(batches(problem.n_rounds)):
            belief.update(problem.actions[batch], problem.outcomes[batch], tasks=tasks[batch])
            belief.sample(np.random.default_rng(0))
        assert_each_task(belief, problem, tasks, n_tasks)


@pytest.mark.parametrize("n_slots", [1, 3, 100])
@pytest.mark.parametrize("kind", COVARIANCE_TYPES)
def test_many_features(kind: str, n_slots: int) -> None:
    """Eleven features and five tasks, some with more rewards than features and some with fewer."""
    rng = np.random.default_rng(8)
    n, d, n_tasks = 90, 11, 5
    problem = wide_problem(rng, kind, n, d)
    tasks = rng.choice(n_tasks, size=n, p=[0.5, 0.25, 0.15, 0.07, 0.03])
    with memory_for(n_slots):
        belief = problem.prior.belief(n_tasks)
        for batch in np.split(np.arange(n), [1, 2, 5, 6, 14, 15, 50, 51]):
            belief.update(problem.actions[batch], problem.outcomes[batch], tasks=tasks[batch])
        assert_each_task(belief, problem, tasks, n_tasks)


def wide_problem(rng: np.random.Generator, kind: str, n: int, d: int) -> Problem:
    roots = rng.normal(size=(3, d, d)) / np.sqrt(d)
    covariance = {
        "full": roots @ np.swapaxes(roots, 1, 2),
        "tied": roots[0] @ roots[0].T,
        "diag": rng.uniform(0.1, 1.0, size=(3, d)),
        "spherical": np.array([0.5, 1.0, 2.0]),
    }[kind]
    rows, rewards = rng.normal(size=(n, d)), rng.normal(size=n)
    weights = np.array([0.2, 0.3, 0.5])
    return Problem(kind, rng.normal(size=(3, d)), covariance, 0.7, weights, rows, rewards)


@FEWER
@given(problems(), st.integers(1, 4), st.data())
def test_statistics_of_the_batch_are_those_of_its_tasks(
    problem: Problem, n_tasks: int, data: st.DataObject
) -> None:
    tasks = data.draw(owners(problem.n_rounds, n_tasks))
    belief = problem.prior.belief(n_tasks)
    belief.update(problem.actions, problem.outcomes, tasks=tasks)
    assert len(belief.statistics) == n_tasks
    for task in range(n_tasks):
        alone = problem.part(np.flatnonzero(tasks == task)).belief()
        picked = problem.prior.condition(belief.statistics[task])
        assert_same_evidence(picked.log_evidence, alone.log_evidence)
