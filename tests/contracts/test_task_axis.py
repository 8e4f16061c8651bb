"""One task or many: the axes of every reading, for every family."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mixts import errors
from mixts.extend._families import History, some
from tests.contracts.problems import (
    ALL_CASES,
    N_COMPONENTS,
    SIZE,
    FamilyCase,
    as_lists,
)

pytestmark = pytest.mark.parametrize("case", ALL_CASES, ids=lambda case: case.name)
counts = pytest.mark.parametrize("n_tasks", [None, 1, 3])


def leading(n_tasks: int | None) -> tuple[int, ...]:
    return () if n_tasks is None else (n_tasks,)


def trailing(case: FamilyCase) -> dict[str, tuple[int, ...]]:
    """The axes of every reading after the tasks."""
    return {
        "weights": (N_COMPONENTS,),
        "log_evidence": (N_COMPONENTS,),
        "component_mean": (N_COMPONENTS, case.size),
        "component_covariance": (N_COMPONENTS, case.size, case.size),
        "mean": (case.size,),
        "covariance": (case.size, case.size),
    }


@counts
@pytest.mark.parametrize("rounds", [0, 2])
def test_readings(case: FamilyCase, n_tasks: int | None, rounds: int) -> None:
    belief = case.prior.belief(n_tasks)
    for seed in range(rounds):
        history = case.history(seed, n_tasks or 1)
        belief.update(*(some(history, 0) if n_tasks is None else history))
    for name, axes in trailing(case).items():
        assert getattr(belief, name).shape == leading(n_tasks) + axes, name
    rewards = belief.mean_rewards(case.actions)
    assert rewards.shape == leading(n_tasks) + case.means_shape
    assert np.shape(belief.statistics.n_observations) == leading(n_tasks)
    assert np.all(belief.statistics.n_observations == rounds * case.n_steps)
    assert len(belief.statistics) == (n_tasks or 1)
    assert belief.n_tasks == n_tasks


@counts
def test_samples(case: FamilyCase, n_tasks: int | None) -> None:
    latent, theta = case.prior.belief(n_tasks).sample(np.random.default_rng(0))
    assert np.shape(latent) == leading(n_tasks)
    assert theta.shape == (*leading(n_tasks), case.size)
    if n_tasks is None:
        assert type(latent) is int
    belief, rng = case.prior.belief(n_tasks), np.random.default_rng(0)
    again = belief.sample_latent(rng)
    np.testing.assert_array_equal(again, latent)
    np.testing.assert_array_equal(belief.sample_parameters(rng, again), theta)


def test_some_tasks_are_sampled(case: FamilyCase) -> None:
    belief, tasks = case.tasks(1, 3, 9), np.array([2, 0, 2, 2])
    rng = np.random.default_rng(0)
    latent = belief.sample_latent(rng, tasks=tasks)
    theta = belief.sample_parameters(rng, latent, tasks=tasks)
    assert latent.shape == (4,)
    assert theta.shape == (4, case.size)
    assert len(np.unique(theta[:, 0])) == 4  # independent, also for the same task


def streams() -> Any:
    """Random generators of 400 draws."""
    return map(np.random.default_rng, range(400))


@counts
def test_mean_rewards_are_those_of_the_mean(case: FamilyCase, n_tasks: int | None) -> None:
    """Mean rewards are linear in the parameters; an action set may differ from task to task."""
    belief = case.prior.belief(n_tasks)
    belief.update(*case.history(1, n_tasks or 1))
    if not case.linear:
        ours = belief.mean_rewards().reshape(*leading(n_tasks), -1)
        np.testing.assert_array_equal(ours, belief.mean[..., : ours.shape[-1]])
        return
    sets = np.random.default_rng(2).normal(size=(n_tasks or 1, 5, SIZE))
    ours = belief.mean_rewards(sets[0] if n_tasks is None else sets)
    if case.conjugate:
        expected = np.einsum("tkd,td->tk", sets, belief.mean.reshape(-1, case.size)[:, :SIZE])
        np.testing.assert_allclose(ours.reshape(-1, 5), expected, rtol=1e-12)
    else:
        rates = [case.prior.family.mean_rewards(belief.sample(rng)[1], sets) for rng in streams()]
        error = np.std(rates, axis=0) / np.sqrt(len(rates))
        assert np.all(
            np.abs(np.mean(rates, axis=0).reshape(-1, 5) - ours.reshape(-1, 5)) < 6 * error
        )
    with pytest.raises(errors.ActionError):
        belief.mean_rewards()


def test_one_task_takes_one_observation_or_several(case: FamilyCase) -> None:
    history = case.history(1, 3)
    by_number, by_array = case.prior.belief(), case.prior.belief()
    for t in range(3):
        by_number.update(*some(history, t))
        by_array.update(*some(history, slice(t, t + 1)))
    np.testing.assert_array_equal(by_number.log_evidence, by_array.log_evidence)
    with pytest.raises(errors.TaskError, match="one task"):
        by_number.update(*history, tasks=np.zeros(3, int))


def each_alone(case: FamilyCase, history: History, tasks: Any, n_tasks: int) -> Any:
    rows = []
    for task in range(n_tasks):
        alone = case.prior.belief()
        alone.update(*some(history, tasks == task))
        rows.append(alone.log_evidence)
    return np.array(rows)


@pytest.mark.parametrize("n", [6, 80], ids=["few", "many"])
def test_tasks_say_whose_observation_it_is(case: FamilyCase, n: int) -> None:
    """Repeats and gaps, in any order; lists and arrays."""
    history = case.history(1, n)
    tasks = np.random.default_rng(3).choice([0, 1, 3], size=n)
    belief = case.prior.belief(5)
    belief.update(*history, tasks=tasks)
    expected = each_alone(case, history, tasks, 5)
    np.testing.assert_allclose(belief.log_evidence, expected, rtol=1e-10, atol=1e-10)
    from_lists = case.prior.belief(5)
    from_lists.update(*as_lists(history), tasks=tasks.tolist())
    np.testing.assert_array_equal(from_lists.log_evidence, belief.log_evidence)


def test_without_tasks_there_is_one_observation_for_each(case: FamilyCase) -> None:
    history = case.history(1, 3)
    belief = case.prior.belief(3)
    belief.update(*history)
    expected = each_alone(case, history, np.arange(3), 3)
    np.testing.assert_allclose(belief.log_evidence, expected, rtol=1e-10, atol=1e-10)
    with pytest.raises(errors.ObservationError, match="each of the 3 tasks"):
        belief.update(*some(history, slice(2)))
    with pytest.raises(errors.ObservationError, match="as many observations as tasks"):
        belief.update(*history, tasks=[0, 1])
