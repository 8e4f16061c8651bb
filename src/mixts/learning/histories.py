"""Statistics of past tasks: from their histories, and in coordinates to learn in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mixts._tables import is_table, matrix
from mixts._typing import Array, Float, Int
from mixts.errors import StatisticsError
from mixts.families import (
    BernoulliArms,
    Family,
    GaussianArms,
    LinearBernoulli,
    LinearGaussian,
    Statistics,
    TabularStatistics,
    Trajectory,
)
from mixts.features import Features, NumberFeature
from mixts.prior import MixturePrior

_EXPECTED = (
    "tasks must be the statistics of past tasks (belief.statistics), or a list with one history a "
    "task: (arms, rewards), (features, rewards), or a mixts.Trajectory"
)


def statistics_of(tasks: Any, family: Family | None = None) -> Statistics:
    """Return the statistics of past tasks, in whatever form they are given.

    Parameters
    ----------
    tasks
        Statistics, which are returned as they are; a list of statistics, which are concatenated; or
        a list with one history for each task. A history is a pair of arrays, arms (m,) as integers
        or features (m, d), and rewards (m,); or the :class:`mixts.Trajectory` of a task's episodes.
    family
        Family of the histories. Without it, rewards that are all 0 or 1 are clicks: those of arms
        are Bernoulli, and those of features logistic (:class:`mixts.LinearBernoulli`). Other
        rewards are Gaussian, or linear with features. The largest index determines the number of
        arms, states or actions.

    Returns
    -------
    Statistics
        Statistics of all tasks.
    """
    if isinstance(tasks, Statistics):
        return tasks
    if isinstance(tasks, (str, bytes)) or not isinstance(tasks, Sequence) or not len(tasks):
        raise StatisticsError(f"{_EXPECTED}; got {type(tasks).__name__}")
    if all(isinstance(task, Statistics) for task in tasks):
        return tasks[0].concatenate(*tasks[1:])
    episodes = isinstance(tasks[0], Trajectory)
    if family is not None and family.plans != episodes:
        needed = "a mixts.Trajectory of every task" if family.plans else "pairs of arrays"
        raise StatisticsError(f"{family!r} needs {needed}, got {tasks[0]!r}")
    return _episodes(tasks, family) if episodes else _rewards(tasks, family)


def observed_tasks(statistics: Statistics) -> Statistics:
    """Return the tasks that have observations, with a task axis; raise an error if none has."""
    seen = np.flatnonzero(np.atleast_1d(statistics.n_observations) > 0)
    if not len(seen):
        raise StatisticsError(
            f"learning needs tasks that were observed, but none of {len(statistics)} was"
        )
    return statistics[seen]


def _rewards(tasks: Sequence[Any], family: Family | None) -> Statistics:
    actions, rewards = [], []
    for number, history in enumerate(tasks):
        if not isinstance(history, Sequence) or len(history) != 2:
            raise StatisticsError(f"{_EXPECTED}; task {number} is {history!r}")
        taken = matrix(history[0]) if is_table(history[0]) else np.asarray(history[0])
        actions.append(np.atleast_1d(taken))
        rewards.append(np.atleast_1d(np.asarray(history[1], dtype=float)))
        if len(actions[-1]) != len(rewards[-1]):
            raise StatisticsError(
                f"task {number} has {len(actions[-1])} actions and {len(rewards[-1])} rewards"
            )
    kinds = {(a.ndim, a.shape[1:]) for a in actions if len(a)}
    if len(kinds) > 1 or (not kinds and family is None):
        raise StatisticsError(
            f"{_EXPECTED}, all of one kind; got actions of shapes {sorted(map(str, kinds))}"
        )
    if family is not None and not kinds:
        return family.empty_statistics(len(tasks))
    (n_axes, shape) = kinds.pop()
    kept = [i for i, a in enumerate(actions) if len(a)]
    joined, outcomes = (np.concatenate([part[i] for i in kept]) for part in (actions, rewards))
    owners = np.repeat(kept, [len(actions[i]) for i in kept])
    if family is None:
        family = _family_of(joined, outcomes, n_axes, shape)
    elif family.n_arms is not None and n_axes == 1:
        _inside(joined, family.n_arms, "arm", owners, family)
    statistics = family.empty_statistics(len(tasks))
    statistics.observe(owners, statistics.observations(joined, outcomes))
    return statistics


def _family_of(actions: Array, rewards: Array, n_axes: int, shape: tuple[int, ...]) -> Family:
    clicks = bool(np.isin(rewards, (0.0, 1.0)).all())
    if n_axes == 2:
        linear = LinearGaussian.standard(shape[0], 1.0)
        return LinearBernoulli.standard(shape[0]) if clicks else linear
    if n_axes != 1 or actions.dtype.kind not in "iu":
        raise StatisticsError(
            f"{_EXPECTED}; got actions of type {actions.dtype} with {n_axes} axes"
        )
    n_arms = int(actions.max()) + 1
    if clicks:
        return BernoulliArms.uniform(n_arms)
    return GaussianArms(np.zeros((1, n_arms)), np.ones((1, n_arms)), 1.0)


def _inside(indices: Array, size: int, noun: str, owners: Int[Array, " m"], family: Family) -> None:
    outside = (indices < 0) | (indices >= size)
    if outside.any():
        index, task = indices[outside][0], owners[outside][0]
        raise StatisticsError(
            f"task {task} has {noun} {index}, but those of {family!r} are numbered from 0 to "
            f"{size - 1}"
        )


def _episodes(tasks: Sequence[Any], family: Family | None) -> Statistics:
    for number, history in enumerate(tasks):
        if not isinstance(history, Trajectory):
            raise StatisticsError(f"{_EXPECTED}, all of one kind; task {number} is {history!r}")
    sizes = np.array([[_size(h.states, h), _size(h.actions, h)] for h in tasks])
    n_states, n_actions = (max(1, int(size)) for size in sizes.max(axis=0))
    if family is not None:
        n_states, n_actions = family.statistics_shape
        for noun, n, found in zip(("state", "action"), (n_states, n_actions), sizes.T, strict=True):
            (played,) = found.nonzero()
            _inside(found[played] - 1, n, noun, played, family)
    statistics = TabularStatistics.empty((n_states, n_actions), len(tasks))
    for number, history in enumerate(tasks):
        observed = statistics.observations(history, None)
        statistics.observe(np.full(len(observed[0]), number), observed)
    return statistics


def _size(indices: Int[Array, "... i"], history: Trajectory) -> int:
    """Return the largest index plus one, without the padding after the end of short episodes."""
    if history.lengths is None:
        return int(indices.max(initial=-1)) + 1
    last = np.where(history.lengths > 0, history.lengths + indices.shape[-1] - history.n_steps, 0)
    counts = np.arange(indices.shape[-1]) < last[..., None]
    return int(indices.max(initial=-1, where=counts)) + 1


# -- coordinates of tasks with features ------------------------------------------------------------

# Learning begins with a prior that is as broad for each feature as the data, and independent of the
# others. A feature far from 0, such as a year, contradicts that: its coefficient and the intercept
# depend on each other. In centred coordinates they do not.


def moments(
    space: Features, statistics: Statistics, *, centred: bool = True
) -> tuple[Float[Array, " d"], Float[Array, " d"]]:
    """Return the mean and the spread of each number of the rows of these tasks.

    Without a constant in the rows, or if they must not be ``centred``, means are 0, and the spread
    is the root mean square. A feature that is always the same is not centred either: divided by a
    spread that is nothing but rounding, its coefficient and the intercept would be huge, and cancel
    each other. The spread of the intercept is 0.
    """
    squares, n = statistics.feature_squares, max(int(np.sum(statistics.n_observations)), 1)
    constant = space.constant if centred else None
    mean = np.zeros(space.n_numbers) if constant is None else constant @ squares / n
    size = np.sqrt(np.diagonal(squares) / n)
    variance = size**2 - mean**2
    constants = variance <= (1e-7 * size) ** 2  # below, it is lost in the rounding of squares
    mean[constants] = 0.0
    spread = np.where(constants, size, np.sqrt(np.maximum(variance, 0.0)))
    if space.intercept:
        mean[0] = spread[0] = 0.0
    return mean, spread


def scaling(
    space: Features, statistics: Statistics, *, centred: bool = True, scaled: bool = True
) -> Float[Array, "d d"]:
    """Return the matrix W by which ``W @ row`` has numbers around 0, divided by their spread.

    Levels stay as they are: each is 0 or 1.
    """
    mean, spread = moments(space, statistics, centred=centred)
    constant, matrix = space.constant, np.eye(space.n_numbers)
    for column, part in space.parts:
        j = part.start
        if isinstance(column, NumberFeature) and spread[j] > 0:
            if constant is not None and centred:
                matrix[j] -= constant * mean[j]
            matrix[j] /= spread[j] if scaled else 1.0
    return matrix


def mapped(statistics: Statistics, matrix: Float[Array, "d d"] | None) -> Statistics:
    """Return the statistics of rows ``matrix @ row``; None changes nothing."""
    return statistics if matrix is None else statistics.mapped(matrix)


def unmapped(prior: MixturePrior, matrix: Float[Array, "d d"] | None) -> MixturePrior:
    """Return a prior of rows ``matrix @ row`` as a prior of the rows; None changes nothing."""
    if matrix is None:
        return prior
    return prior.replace(family=prior.family.mapped(matrix), origin=prior.origin)
