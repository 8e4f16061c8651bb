"""Starts of learning: equal groups of tasks lead to one restart, which is computed once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from mixts.engines.local import InlineEngine
from mixts.families import BernoulliStatistics
from mixts.learning.climbing import Patience
from mixts.learning.em import RestartSpec, groups_of, points_of, pooled_restart, run, run_all
from mixts.learning.models import model_of

N_TASKS, N_TRIES = 30, 100
PATIENCE = Patience()


class Counting(InlineEngine):
    """Engine that counts its jobs."""

    def __init__(self) -> None:
        self.n_jobs = 0

    def map(self, function: Callable[..., Any], jobs: Iterable[Any]) -> Iterator[Any]:
        listed = list(jobs)
        self.n_jobs += len(listed)
        return super().map(function, listed)


def jobs_of(rates: tuple[float, ...], n_components: int) -> list[RestartSpec]:
    """Return five restarts; task i has rates[i % len(rates)] for one arm and the rest for one."""
    rng = np.random.default_rng(0)
    rate = np.resize(rates, N_TASKS)[:, None]
    successes = rng.binomial(N_TRIES, np.hstack([rate, 1 - rate]))
    model = model_of(BernoulliStatistics(successes=successes, failures=N_TRIES - successes))
    pooled = pooled_restart(model, PATIENCE)
    return [RestartSpec(model, pooled, n_components, 1, "all", r, PATIENCE) for r in range(5)]


def test_groups_have_the_numbers_of_their_first_tasks() -> None:
    for n_components in (2, 4):
        for job in jobs_of((0.1, 0.9), n_components):
            groups = groups_of(job, points_of(job))
            _, first = np.unique(groups, return_index=True)
            assert (np.diff(first) > 0).all()
            assert groups.max() < n_components


def test_restarts_from_the_same_groups_are_computed_once() -> None:
    jobs, engine = jobs_of((0.1, 0.9), 2), Counting()
    found = run_all(jobs, engine, "learning")
    assert engine.n_jobs == 1
    assert all(restart is found[0] for restart in found)
    np.testing.assert_array_equal(groups_of(jobs[3], points_of(jobs[3])), np.arange(N_TASKS) % 2)


def test_every_restart_has_the_result_of_its_own_groups() -> None:
    jobs, engine = jobs_of((0.3, 0.4, 0.5, 0.6), 4), Counting()
    found = run_all(jobs, engine, "learning")
    starts = [groups_of(job, points_of(job)) for job in jobs]
    assert engine.n_jobs == len({groups.tobytes() for groups in starts}) > 1
    for job, groups, restart in zip(jobs, starts, found, strict=True):
        np.testing.assert_array_equal(restart.history.objective, run(job, groups).history.objective)


def test_other_tasks_and_other_numbers_of_components_are_other_restarts() -> None:
    one, *_ = jobs_of((0.1, 0.9), 2)
    more = RestartSpec(one.model, one.pooled, 3, one.seed, one.part, one.number, one.patience)
    fold = RestartSpec(one.model, one.pooled, 2, one.seed, "fold 0", one.number, one.patience)
    engine = Counting()
    found = run_all([one, more, fold], engine, "learning")
    assert engine.n_jobs == 3
    assert [restart.prior.n_components for restart in found] == [2, 3, 2]
