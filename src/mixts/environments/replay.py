"""Logged rewards as bandits: items of a task that were not taken yet, or arms with rewards left."""

from __future__ import annotations

from typing import Any

import numpy as np

from mixts import _checks
from mixts._typing import Array, ArrayLike, Bool, Float, Int
from mixts.environments.base import (
    Choices,
    Environment,
    Outcome,
    Problem,
    Streams,
    checked_choice,
    checked_indices,
)
from mixts.errors import ActionError, ParameterError


class ReplayBandit(Environment):
    """Bandits with recorded rewards; a task may be a user, and the items the films they rated.

    Each round offers ``n_actions`` items of the run's task that were not taken yet, uniformly at
    random, or all of them if fewer are left. The reward is the recorded one. Offers depend on
    earlier choices as little as possible: every item has a random rank in every round, the same
    for all agents, and the items with the lowest ranks are offered.

    Even so, good items run out: late rounds offer what earlier rounds avoided. With ``n_rounds``
    the items of a task are dealt to the rounds instead, each item to one round, so that offers do
    not depend on choices at all.

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
    n_rounds
        Number of rounds to which the items of each task are dealt in equal parts, at most
        ``n_actions`` a round; None: a round offers any items that were not taken yet.

    Examples
    --------
    Two users rated two films each; a round offers films that the user has not seen in the run.

    >>> import mixts
    >>> films = [[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 1.0]]
    >>> environment = mixts.ReplayBandit(films, rewards=[5, 2, 1, 4], tasks=[0, 0, 1, 1])
    >>> environment
    ReplayBandit(4 items of 2 tasks, 2 features, 10 a round)
    """

    def __init__(
        self, features: ArrayLike, rewards: ArrayLike, tasks: ArrayLike, n_actions: int = 10,
        n_rounds: int | None = None,
    ) -> None:  # fmt: skip
        self.features: Float[Array, "n d"] = _checks.real_array(features, "features", 2)
        self.rewards: Float[Array, " n"] = _checks.real_array(rewards, "rewards", 1)
        self.n_actions = _checks.count(n_actions, "n_actions")
        self.n_rounds = None if n_rounds is None else _checks.count(n_rounds, "n_rounds")
        self.tasks = checked_indices(tasks, len(self.features), "tasks")
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
        if self.n_rounds is not None and (counts < self.n_rounds).any():
            task = int(np.argmax(counts < self.n_rounds))
            raise ParameterError(
                f"every task needs at least {self.n_rounds} items, one for each round, and task "
                f"{task} has {counts[task]}: play fewer rounds, or leave such tasks out"
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
        latent = _tasks_of_runs(streams("tasks"), self.n_tasks, n_tasks)
        return ReplayProblem(self, latent, streams("actions"))

    def n_dealt(self, tasks: Int[Array, " n"]) -> Int[Array, " n"]:
        """Return how many items a round offers, for tasks whose items are dealt to rounds.

        Parameters
        ----------
        tasks
            Indices of tasks, (n,).

        Returns
        -------
        array
            Number of items, (n,).
        """
        assert self.n_rounds is not None
        return np.minimum(self._counts[tasks] // self.n_rounds, self.n_actions)

    def items_of(self, tasks: Int[Array, " n"]) -> Int[Array, "n m"]:
        """Return the items of each task, padded with -1.

        Parameters
        ----------
        tasks
            Indices of tasks, (n,).

        Returns
        -------
        array
            Indices of items, (n, m), with m the largest number of items of a task.
        """
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
        self._round = 0
        n_rounds = environment.n_rounds
        self._round_of_item = None if n_rounds is None else self._dealt(n_rounds)
        self._rows = np.arange(len(latent))
        self._offered: Int[Array, "n K"] = np.empty((len(latent), 0), np.int64)
        self._mask: Bool[Array, "n K"] = np.empty((len(latent), 0), bool)
        self._values: Float[Array, "n K"] = np.empty((len(latent), 0))

    def _dealt(self, n_rounds: int) -> Int[Array, "n m"]:
        """Return the round of each item: equal parts for all rounds; -1 for the remainder."""
        ranks = np.where(self._left, self._rng.random(self._items.shape), np.inf)
        place = np.argsort(np.argsort(ranks, axis=1), axis=1)
        number = place // self._environment.n_dealt(self.latent)[:, None]
        return np.where(self._left & (number < n_rounds), number, -1)

    def next_round(self) -> Choices:
        environment = self._environment
        if self._round_of_item is not None:
            self._left = self._round_of_item == self._round
        self._round += 1
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
        return Choices(self._sets, None if self._mask.all() else self._mask)

    def play(self, chosen: Any) -> Outcome:
        index, rows = checked_choice(chosen, self._mask.shape, self._mask), self._rows
        self._left[rows, self._offered[rows, index]] = False
        rewards = self._values[rows, index]
        best = np.where(self._mask, self._values, -np.inf).max(axis=1)
        return Outcome((self._sets[rows, index], rewards), rewards, rewards, best)


class ReplayArms(Environment):
    """Arms with recorded rewards; a task may be a user, and the arms the articles they were shown.

    Given the mean rewards of a task, the recorded rewards of one arm are exchangeable. So the first
    choice of an arm gives one of the rewards that the task recorded for it, the next choice another
    one, in a random order that is the same for all agents. An arm is available while it has a
    recorded reward left. Rewards are as in live decisions where the recorded choices did not depend
    on the rewards of the task; otherwise approximately. But live decisions may choose any arm:
    where good arms run out, or were never recorded, they earn more than a replay.

    The runs of a block are the tasks in random order, repeated if there are more runs than tasks;
    ``problem.latent`` has the task of each run. The true mean of an arm is the mean of its recorded
    rewards.

    Parameters
    ----------
    arms
        Arm of each recorded reward, (n,), integers from 0.
    rewards
        Recorded rewards, (n,).
    tasks
        Task of each recorded reward, (n,), integers from 0. Tasks with fewer than ``n_rounds``
        recorded rewards, or with rewards of one arm only, are left out.
    n_rounds
        Largest number of rounds of a run.
    n_arms
        Number of arms; by default the largest arm plus one.
    once
        Whether an arm may be taken only once, whatever the number of its recorded rewards.
    """

    def __init__(
        self, arms: ArrayLike, rewards: ArrayLike, tasks: ArrayLike, n_rounds: int,
        n_arms: int | None = None, once: bool = False,
    ) -> None:  # fmt: skip
        self.rewards: Float[Array, " n"] = _checks.real_array(rewards, "rewards", 1)
        self.arms = checked_indices(arms, len(self.rewards), "arms", "recorded reward")
        self.tasks = checked_indices(tasks, len(self.rewards), "tasks", "recorded reward")
        self.n_rounds = _checks.count(n_rounds, "n_rounds")
        largest = int(self.arms.max(initial=0))
        self.n_arms = largest + 1 if n_arms is None else _checks.count(n_arms, "n_arms")
        if largest >= self.n_arms:
            raise ParameterError(
                f"arms must be integers from 0 to {self.n_arms - 1}, got {largest}"
            )
        shape = (int(self.tasks.max(initial=-1)) + 1, self.n_arms)
        self._group = np.ravel_multi_index((self.tasks, self.arms), shape)
        counts = np.bincount(self._group, minlength=shape[0] * shape[1]).reshape(shape)
        totals = np.bincount(self._group, self.rewards, minlength=counts.size).reshape(shape)
        given = np.minimum(counts, 1) if once else counts
        enough = (given.sum(axis=1) >= self.n_rounds) & ((counts > 0).sum(axis=1) >= 2)
        self.used: Int[Array, " m"] = np.flatnonzero(enough)
        """Tasks with enough recorded rewards."""
        if not len(self.used):
            raise ParameterError(
                f"no task has {self.n_rounds} recorded rewards or more, of two arms or more: play "
                "fewer rounds"
            )
        self.counts: Int[Array, "m K"] = given[self.used]
        """Number of rewards that each arm of each used task may give."""
        self._means = (totals / np.maximum(counts, 1))[self.used]
        self._shape = shape

    @property
    def n_tasks(self) -> int:
        """Number of tasks with enough recorded rewards."""
        return len(self.used)

    def __repr__(self) -> str:
        return (
            f"ReplayArms({len(self.rewards)} rewards, {self.n_tasks} tasks with enough of them for "
            f"{self.n_rounds} rounds, {self.n_arms} arms)"
        )

    @property
    def task_bytes(self) -> int:
        return self.n_arms * (self.n_rounds + 2) * 8

    def start(self, streams: Streams, n_tasks: int) -> ReplayArmsProblem:
        """Choose a task for each run, and shuffle the rewards of each of its arms."""
        places = _tasks_of_runs(streams("tasks"), self.n_tasks, n_tasks)
        rng = streams("rewards")
        # Every repetition of the tasks has an order of its own.
        starts = range(0, n_tasks, self.n_tasks)
        rewards = [self._shuffled(rng)[places[i : i + self.n_tasks]] for i in starts]
        return ReplayArmsProblem(self, places, np.concatenate(rewards))

    def _shuffled(self, rng: np.random.Generator) -> Float[Array, "m K t"]:
        """Return up to ``n_rounds`` rewards of every arm of every used task, in random order."""
        order = rng.permutation(len(self.rewards))
        order = order[np.argsort(self._group[order], kind="stable")]
        group = self._group[order]
        first = np.searchsorted(group, group)
        rank = np.arange(len(order)) - first
        kept = rank < self.n_rounds
        table = np.zeros((self._shape[0] * self.n_arms, self.n_rounds))
        table[group[kept], rank[kept]] = self.rewards[order[kept]]
        return table.reshape(*self._shape, self.n_rounds)[self.used]

    def means_of(self, places: Int[Array, " n"]) -> Float[Array, "n K"]:
        """Return the mean recorded reward of each arm, for positions among the used tasks."""
        return self._means[places]


class ReplayArmsProblem(Problem):
    """One task with recorded rewards of arms for each run."""

    def __init__(
        self, environment: ReplayArms, places: Int[Array, " n"], rewards: Float[Array, "n K t"]
    ) -> None:
        self.latent = environment.used[places]
        self._rewards = rewards
        self._recorded = environment.counts[places]
        self._means = environment.means_of(places)
        self._taken = np.zeros(self._recorded.shape, np.int64)
        self._rows = np.arange(len(places))
        self._round = 0

    def next_round(self) -> Choices:
        if self._round == self._rewards.shape[2]:
            raise ActionError(
                f"the recorded rewards are enough for {self._round} rounds: play fewer, or make "
                "the environment with more"
            )
        self._round += 1
        self._mask: Bool[Array, "n K"] = self._taken < self._recorded
        return Choices(None, None if self._mask.all() else self._mask)

    def play(self, chosen: Any) -> Outcome:
        index, rows = checked_choice(chosen, self._mask.shape, self._mask), self._rows
        rewards = self._rewards[rows, index, self._taken[rows, index]]
        self._taken[rows, index] += 1
        best = np.where(self._mask, self._means, -np.inf).max(axis=1)
        return Outcome((index, rewards), rewards, self._means[rows, index], best)


# -- shared ---------------------------------------------------------------------------------------


def _tasks_of_runs(rng: np.random.Generator, n_tasks: int, n_runs: int) -> Int[Array, " n"]:
    """Return the task of each run: all tasks in random order, repeated as often as needed."""
    orders = [rng.permutation(n_tasks) for _ in range(-(-n_runs // n_tasks))]
    return np.concatenate([np.zeros(0, np.int64), *orders])[:n_runs]
