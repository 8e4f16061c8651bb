"""Tasks for a comparison of policies: recorded ones that are replayed, and tasks from the prior."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from mixts import _random
from mixts._typing import Array, ArrayLike, Float, Int
from mixts.agents import Agent
from mixts.belief import Belief
from mixts.engines import EngineLike, engine_of
from mixts.environments import BanditEnvironment, Environment, ReplayArms, ReplayBandit
from mixts.families import Statistics
from mixts.families.arms import ArmFamily
from mixts.learning import Fit
from mixts.logs import TaskRows, read_rows
from mixts.prior import MixturePrior
from mixts.simulation import AgentSpec, simulate

BESTSELLER = "bestseller"
"""Name of the policy that never learns, beside those of ``mixts.agents.POLICIES``."""
MOST_TASKS, MOST_LINEAR_TASKS = 500, 100
"""Largest number of tasks with arms, and of linear tasks: a few seconds of work."""
MOST_ARMS = 200
"""Largest number of arms that simulated tasks offer: IDS takes 0.2 s a decision with 10,000."""
N_OFFERED = 10
"""Number of recorded rows that each decision of a linear task chooses from."""
MOST_REPEATS = 10
"""Largest number of times that a task is replayed, each time in another random order."""
CHUNK = 100
"""Number of tasks that are replayed in lockstep. The random numbers depend on it."""

_RARE = 0.1
"""An arm with less than this share of the average number of rewards is no bestseller."""
_MOST_NUMBERS = 1 << 25
"""Largest size of the recorded rows in memory: 256 MiB."""


class Bestseller:
    """Agent that takes the available action with the highest score, and never learns.

    Parameters
    ----------
    scores
        Score of each arm, (K,), or coefficients of the features, (d,).
    n_tasks, seed
        As for all agents; the seed is not used.
    """

    def __init__(self, scores: Float[Array, " p"], n_tasks: int, seed: Any = None) -> None:
        self._scores = scores
        self._n_tasks = n_tasks

    def act(
        self, actions: Array | None = None, tasks: None = None, mask: ArrayLike | None = None
    ) -> Int[Array, " n"]:
        """Return the action with the highest score for each task."""
        values = self._scores if actions is None else actions @ self._scores
        values = np.broadcast_to(values, (self._n_tasks, values.shape[-1]))
        return np.argmax(values if mask is None else np.where(mask, values, -np.inf), axis=1)

    def update(self, actions: Any, outcomes: Any) -> None:
        """Learn nothing."""


class DrawnRows:
    """Action sets of recorded rows, drawn at random for each decision."""

    def __init__(self, features: Float[Array, "m d"]) -> None:
        self._features = features

    def __call__(self, rng: np.random.Generator, n_tasks: int) -> Float[Array, "n K d"]:
        """Return the action sets of one round."""
        return self._features[rng.integers(len(self._features), size=(n_tasks, N_OFFERED))]


class Played(NamedTuple):
    """Rewards of all policies on the same tasks."""

    n_found: int
    """Number of tasks that can be played: perhaps too few, perhaps more than were played."""
    rewards: Mapping[str, Float[Array, "n t"]]
    """By policy: the reward of each decision; empty if nothing was played."""
    n_offered: float
    """Average number of actions that a decision chooses from."""
    bestseller: str | None
    """Name of the bestseller; None for linear tasks."""


@dataclass(frozen=True)
class Tasks:
    """Held-out tasks of a fit, and the policies that decide for them."""

    fit: Fit
    policies: Mapping[str, Callable[..., Agent]]
    """By name: the class of the agent of each policy that learns."""
    seed: int
    engine: EngineLike
    """Where files are read and tasks are played."""

    @property
    def linear(self) -> bool:
        """Whether actions have features."""
        return self.fit.logs.arms is None

    @cached_property
    def training_scores(self) -> Float[Array, " p"]:
        """Scores of the bestseller by the training rows, as in :func:`training_scores`."""
        return training_scores(self.fit)

    @cached_property
    def prior_scores(self) -> Float[Array, " p"]:
        """Mean reward of each arm, or mean coefficients, under the prior."""
        return _mean_rewards(self.fit, self.fit.prior.belief())

    def n_actions(self, n_decisions: int) -> Int[Array, " m"]:
        """Return how many actions each held-out task offers in a replay.

        A task offers the arms for which it recorded at least ``n_decisions`` rewards. Of a linear
        task every decision offers ``N_OFFERED`` rows that were not chosen yet. A task with fewer
        rows than that needs, or with less than two rows a decision, offers none: in the end only
        rows would be left that every policy avoids.
        """
        held_out = self.fit.logs.statistics[self.fit.held_out]
        if not self.linear:
            return np.asarray((held_out.pulls >= n_decisions).sum(axis=1))
        least = max(n_decisions + N_OFFERED - 1, 2 * n_decisions)
        return np.where(np.asarray(held_out.n_observations) >= least, N_OFFERED, 0)

    @property
    def most(self) -> int:
        """Largest number of tasks to play."""
        return MOST_LINEAR_TASKS if self.linear else MOST_TASKS

    def most_decisions(self, n_decisions: int) -> int:
        """Return how many decisions a task can have: arms that are taken once run out."""
        once = not self.linear and not self.fit.prior.repeatable
        return min(n_decisions, len(self.fit.items)) if once else n_decisions

    @cached_property
    def read(self) -> Int[Array, " m"]:
        """Positions of held-out tasks to read: all, or random ones if all would be too large."""
        held_out = self.fit.held_out
        sizes = np.asarray(self.fit.logs.statistics[held_out].n_observations)
        order = _random.stream(self.seed, "policies", "rows").permutation(len(held_out))
        width = len(self.fit.items) + 2 if self.linear else 3
        return np.sort(order[np.cumsum(sizes[order]) * width <= _MOST_NUMBERS])

    @cached_property
    def rows(self) -> TaskRows:
        """Recorded rows of the tasks in ``read``."""
        return read_rows(self.fit.logs, self.fit.held_out[self.read], self.engine)

    def best(self, scores: Float[Array, " p"]) -> str | None:
        """Return the name of the arm with the highest score; None for linear tasks."""
        return None if self.linear else self.fit.items[int(np.argmax(scores))]

    def agents(
        self, scores: Float[Array, " p"], prior: MixturePrior | None = None
    ) -> dict[str, AgentSpec]:
        """Return the agents by policy; the bestseller goes by these scores."""
        start = self.fit.prior if prior is None else prior
        agents: dict[str, AgentSpec] = {BESTSELLER: partial(Bestseller, scores)}
        return agents | {name: partial(kind, start) for name, kind in self.policies.items()}

    def seed_of(self, *names: str | int) -> int:
        """Return the seed of one simulation."""
        return int(_random.seed_sequence(self.seed, "policies", *names).generate_state(1)[0])


def training_scores(fit: Fit) -> Float[Array, " p"]:
    """Return the mean reward of each arm in the training rows, or coefficients that fit them best.

    The means are posterior means: all rows count as one task, and the one-component prior matters
    only for an arm with few rewards. An arm with less than a tenth of the average number of rewards
    ranks after all others, because its mean is mostly luck.
    """
    tasks = fit.training_tasks
    means = _mean_rewards(fit, fit.learned.unimodal.condition(merged(tasks)))[0]
    if fit.logs.arms is None:
        return means
    counts = tasks.pulls.sum(axis=0)
    return np.where(counts < _RARE * counts.mean(), means - np.ptp(means) - 1, means)


def _mean_rewards(fit: Fit, belief: Belief) -> Float[Array, "... p"]:
    """Return the mean reward of each arm, or the mean coefficient of each feature."""
    unit_rows = np.eye(len(fit.items)) if fit.logs.arms is None else None
    return np.asarray(belief.mean_rewards(unit_rows))


def merged(tasks: Statistics) -> Statistics:
    """Return the statistics of one task that has the histories of all these tasks."""
    while len(tasks) > 1:
        half = len(tasks) // 2
        last = tasks[np.arange(2 * half, len(tasks))]
        tasks = (tasks[np.arange(half)] + tasks[np.arange(half, 2 * half)]).concatenate(last)
    return tasks


# -- replay ---------------------------------------------------------------------------------------


def replay(tasks: Tasks, horizons: Sequence[int], fewest: int) -> dict[int, Played]:
    """Replay the first decisions of held-out tasks, for each number of decisions.

    Parameters
    ----------
    tasks
        The tasks and the policies.
    horizons
        Numbers of decisions.
    fewest
        Least number of tasks to play; with fewer, only their number is returned.
    """
    found, jobs = {}, []
    best = tasks.best(tasks.training_scores)
    for n in horizons:
        n_actions = tasks.n_actions(n)[tasks.read]
        usable = np.flatnonzero(n_actions >= 2)
        rng = _random.stream(tasks.seed, "policies", "replay", n)
        played = np.sort(rng.permutation(usable)[: tasks.most])
        n_offered = float(n_actions[played].mean()) if len(played) else 0.0
        found[n] = Played(len(usable), {}, n_offered, best)
        if len(usable) >= fewest:
            jobs += [(n, *job) for job in _jobs(tasks, played, n)]
    with engine_of(tasks.engine) as where:
        for (n, *_), rewards in zip(jobs, where.map(play_chunk, jobs), strict=True):
            known = found[n].rewards
            joined = {k: np.concatenate([known[k], v]) if known else v for k, v in rewards.items()}
            found[n] = found[n]._replace(rewards=joined)
    return found


def _jobs(tasks: Tasks, played: Int[Array, " m"], n_decisions: int) -> Iterator[tuple[Any, ...]]:
    """Yield the arguments of ``play_chunk`` after the first, for each chunk of tasks."""
    rows, n_items = tasks.rows, len(tasks.fit.items)
    agents = tasks.agents(tasks.training_scores)
    n_repeats = min(MOST_REPEATS, max(1, tasks.most // len(played)))
    for start in range(0, len(played), CHUNK):
        chunk = played[start : start + CHUNK]
        place = np.searchsorted(chunk, rows.tasks)
        kept = chunk[np.minimum(place, len(chunk) - 1)] == rows.tasks
        rewards, place = rows.rewards[kept], place[kept]
        environment: Environment
        if tasks.linear:
            environment = ReplayBandit(rows.features[kept], rewards, place, N_OFFERED)
        else:
            environment = ReplayArms(rows.arms[kept], rewards, place, n_decisions, n_items)
        yield environment, agents, n_repeats, tasks.seed_of("replay", n_decisions, start)


def play_chunk(
    n_decisions: int,
    environment: ReplayArms | ReplayBandit,
    agents: Mapping[str, AgentSpec],
    n_repeats: int,
    seed: int,
) -> dict[str, Float[Array, "n t"]]:
    """Return the rewards of all agents on every task, in the tasks' order: means over repeats."""
    n = n_repeats * environment.n_tasks
    results = simulate(agents, environment, n_decisions, n, seed, engine=1, block_size=n)
    order = np.argsort(results.latent, kind="stable")
    shape = (environment.n_tasks, n_repeats, n_decisions)
    return {
        name: reward[order].reshape(shape).mean(axis=1) for name, reward in results.reward.items()
    }


# -- simulation -----------------------------------------------------------------------------------


def simulate_tasks(tasks: Tasks, n_decisions: int) -> Played:
    """Play tasks that are drawn from the prior; linear tasks choose among recorded rows.

    Of many arms, tasks offer those with the highest means under the prior.
    """
    actions = DrawnRows(tasks.rows.features) if tasks.linear else None
    prior, scores = tasks.fit.prior, tasks.prior_scores
    n_offered = N_OFFERED if tasks.linear else min(MOST_ARMS, len(scores))
    if not tasks.linear and n_offered < len(scores):
        offered = np.sort(np.argsort(-scores, kind="stable")[:n_offered])
        assert isinstance(prior.family, ArmFamily)
        some = prior.family.arms(offered)
        prior = MixturePrior(some, prior.weights, repeatable=prior.repeatable)
        scores = scores[offered]
    results = simulate(
        tasks.agents(scores, prior), BanditEnvironment(prior, actions), n_decisions, tasks.most,
        tasks.seed_of("simulation"), engine=tasks.engine,
    )  # fmt: skip
    best = tasks.best(tasks.prior_scores)
    return Played(tasks.most, results.reward, float(n_offered), best)
