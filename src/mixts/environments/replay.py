"""Logged rewards as a bandit: each round offers some items of a task that were not taken yet."""

from __future__ import annotations

from typing import Any

import numpy as np

from mixts import _checks
from mixts._typing import Array, ArrayLike, Bool, Float, Int
from mixts.environments.base import Environment, Offer, Outcome, Problem, Streams, checked_choice
from mixts.errors import ActionError, ParameterError


class ReplayBandit(Environment):
    """Bandits with recorded rewards; a task may be a user, and the items the films they rated.

    Each round offers ``n_actions`` items of the run's task that were not taken yet, uniformly at
    random, or all of them if fewer are left. The reward is the recorded one. Offers depend on
    earlier choices as little as possible: every item has a random rank in every round, the same
    for all agents, and the items with the lowest ranks are offered.

    The runs of a block are the tasks in random order, repeated if there are more runs than tasks;
    ``problem.latent`` has the task of each run.

    Parameters
    ----------
    features
        Features of each item, (n, d).
    rewards
        Recorded reward of each item, (n,).
    tasks
        Task of each item, (n,), integers from 0.
    n_actions
        Number of items on offer in a round.
    """

    def __init__(
        self, features: ArrayLike, rewards: ArrayLike, tasks: ArrayLike, n_actions: int = 10
    ) -> None:
        self.features: Float[Array, "n d"] = _checks.real_array(features, "features", 2)
        self.rewards: Float[Array, " n"] = _checks.real_array(rewards, "rewards", 1)
        self.n_actions = _checks.count(n_actions, "n_actions")
        self.tasks = _checked_tasks(tasks, len(self.features))
        if self.rewards.shape != self.tasks.shape:
            raise ParameterError(
                f"rewards must be {len(self.features)} numbers, one for each row of features, got "
                f"{len(self.rewards)}"
            )
        counts = np.bincount(self.tasks)
        if (counts == 0).any():
            raise ParameterError(
                f"every task from 0 to {len(counts) - 1} needs an item, {int(np.argmin(counts))} "
                "has none"
            )
        # The items of a task are a slice of `_order`.
        self._order = np.argsort(self.tasks, kind="stable")
        self._counts = counts
        self._starts = np.cumsum(counts) - counts

    @property
    def n_tasks(self) -> int:
        """Number of tasks."""
        return len(self._counts)

    def __repr__(self) -> str:
        n, d = self.features.shape
        return (
            f"ReplayBandit({n} items of {self.n_tasks} tasks, {d} features, {self.n_actions} a "
            "round)"
        )

    @property
    def task_bytes(self) -> int:
        return self.features.shape[1] ** 2 * 8

    def start(self, streams: Streams, n_tasks: int) -> ReplayProblem:
        """Choose a task for each run; offers have their own stream."""
        rng = streams("tasks")
        rounds = [rng.permutation(self.n_tasks) for _ in range(-(-n_tasks // self.n_tasks))]
        latent = np.concatenate([np.zeros(0, np.int64), *rounds])[:n_tasks]
        return ReplayProblem(self, latent, streams("actions"))

    def items_of(self, tasks: Int[Array, " n"]) -> Int[Array, "n m"]:
        """Return the items of each task, padded with -1."""
        counts = self._counts[tasks]
        place = np.arange(counts.max(initial=0))
        inside = place < counts[:, None]
        index = np.where(inside, self._starts[tasks][:, None] + place, 0)
        return np.where(inside, self._order[index], -1)


class ReplayProblem(Problem):
    """One logged task for each run."""

    def __init__(
        self, environment: ReplayBandit, latent: Int[Array, " n"], rng: np.random.Generator
    ) -> None:
        self.latent = latent
        self._environment = environment
        self._rng = rng
        self._items = environment.items_of(latent)
        self._left = self._items >= 0
        self._rows = np.arange(len(latent))
        self._offered: Int[Array, "n K"] = np.empty((len(latent), 0), np.int64)
        self._mask: Bool[Array, "n K"] = np.empty((len(latent), 0), bool)
        self._values: Float[Array, "n K"] = np.empty((len(latent), 0))

    def next_round(self) -> Offer:
        environment = self._environment
        n_left = self._left.sum(axis=1)
        if (n_left == 0).any():
            run = int(np.argmin(n_left))
            task = int(self.latent[run])
            raise ActionError(
                f"task {task} has {int((self.latent[run] == environment.tasks).sum())} items, and "
                "all were taken: play fewer rounds, or leave such tasks out"
            )
        # Ranks for all items, also for taken ones: every agent uses the same random numbers.
        rank = np.where(self._left, self._rng.random(self._items.shape), np.inf)
        n_offered = min(environment.n_actions, rank.shape[1])
        lowest = np.argpartition(rank, n_offered - 1, axis=1)[:, :n_offered]
        order = np.argsort(np.take_along_axis(rank, lowest, axis=1), axis=1)
        self._offered = np.take_along_axis(lowest, order, axis=1)
        self._mask = np.take_along_axis(self._left, self._offered, axis=1)
        # Padding is masked, so its features do not matter.
        items = np.take_along_axis(self._items, self._offered, axis=1)
        self._sets: Float[Array, "n K d"] = environment.features[items]
        self._values = environment.rewards[items]
        return Offer(self._sets, None if self._mask.all() else self._mask)

    def play(self, chosen: Any) -> Outcome:
        index = checked_choice(chosen, *self._offered.shape)
        rows = self._rows
        if not self._mask[rows, index].all():
            run = int(np.argmin(self._mask[rows, index]))
            raise ActionError(
                f"act chose action {int(index[run])} in run {run}, which the mask says is not "
                "available"
            )
        self._left[rows, self._offered[rows, index]] = False
        rewards = self._values[rows, index]
        best = np.where(self._mask, self._values, -np.inf).max(axis=1)
        return Outcome((self._sets[rows, index], rewards), rewards, rewards, best)


def _checked_tasks(tasks: ArrayLike, n_items: int) -> Int[Array, " n"]:
    given = np.asarray(tasks)
    if given.shape != (n_items,) or given.dtype.kind not in "iu" or given.min(initial=0) < 0:
        raise ParameterError(
            f"tasks must be {n_items} integers from 0, one for each row of features, got shape "
            f"{given.shape} of type {given.dtype}"
        )
    return given.astype(np.int64)
