"""Replays of past tasks: what policies would have earned from the rewards that were recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from mixts import _random
from mixts._progress import step
from mixts._typing import Array, Bool, Float, Int
from mixts.agents import Agent
from mixts.diagnostics.bestseller import Bestseller, pooled_scores
from mixts.engines import EngineLike, engine_of
from mixts.environments import ReplayArms, ReplayBandit
from mixts.environments.base import Problem
from mixts.families import Statistics
from mixts.logs import TaskRows, read_rows
from mixts.logs.fit import learn_from
from mixts.logs.fitted import Fit
from mixts.prior import MixturePrior
from mixts.simulation import AgentSpec, simulate
from mixts.simulation._blocks import Observer, Round, RoundRecorder

BESTSELLER = "bestseller"
"""Name of the policy that never learns, beside those of ``mixts.agents.POLICIES``."""
MOST_TASKS, MOST_LINEAR_TASKS = 500, 100
"""Largest number of tasks with arms, and of linear tasks: a few seconds of work."""
N_OFFERED = 10
"""Largest number of recorded rows that each decision of a linear task chooses from."""
MOST_REPEATS = 10
"""Largest number of times that a task is replayed, each time in another random order."""
MOST_FOLDS = 5
"""Largest number of parts of the tasks that are each held out once."""
CHUNK, SMALL_CHUNK, MANY_ARMS = 100, 5, 200
"""Number of tasks that are replayed in lockstep, and the number if there are many arms: then each
chunk knows only the arms of its own tasks. The random numbers depend on both."""

_MOST_NUMBERS = 1 << 25
"""Largest size of the recorded rows in memory: 256 MiB."""


class Fold(NamedTuple):
    """Tasks to replay, and what was learned without them."""

    tasks: Int[Array, " m"]
    """Indices into the tasks of the logs."""
    prior: MixturePrior
    scores: Float[Array, " p"]
    """Scores of the bestseller."""


class Played(NamedTuple):
    """Rewards of all policies on the same tasks."""

    n_found: int
    """Number of tasks that can be replayed: perhaps too few, perhaps more than were replayed."""
    rewards: Mapping[str, Float[Array, " n"]]
    """By policy: the mean reward per decision of each task; empty if nothing was replayed."""
    missed: Mapping[str, Float[Array, " n"]]
    """By policy: how much more the best arm of all was expected to give, per decision of each task,
    than the best arm with a recorded reward left; empty for linear tasks."""
    logged: Float[Array, " n"]
    """Mean of all recorded rewards of each task."""
    n_offered: float
    """Average number of actions that a first decision chooses from."""


class _Job(NamedTuple):
    """Tasks to replay in lockstep, for one number of decisions."""

    n_decisions: int
    environment: ReplayArms | ReplayBandit
    agents: Mapping[str, AgentSpec]
    observer: Missed | None
    n_repeats: int
    seed: int


@dataclass(frozen=True)
class PastTasks:
    """Past tasks of a fit, and the policies that decide for them again."""

    fit: Fit
    policies: Mapping[str, Callable[..., Agent]]
    """By name: the class of the agent of each policy that learns."""
    seed: int
    engine: EngineLike
    """Where files are read, priors learned and tasks replayed."""

    @property
    def linear(self) -> bool:
        """Whether actions have features."""
        return self.fit.logs.arms is None

    @property
    def most(self) -> int:
        """Largest number of tasks to replay."""
        return MOST_LINEAR_TASKS if self.linear else MOST_TASKS

    @property
    def crossed(self) -> bool:
        """Whether training tasks may be held out in turn.

        Held-out tasks that are later than all others must not be learned from. Pooled effects were
        learned from all training tasks.
        """
        return self.fit.logs.times is None and not self.fit.effects

    @cached_property
    def statistics(self) -> Statistics:
        """Statistics of all past tasks."""
        return self.fit.logs.statistics

    def long_enough(self, n_decisions: int) -> Bool[Array, " m"]:
        """Return which past tasks can be replayed.

        A task needs two recorded rewards a decision, of two arms at least: otherwise policies would
        have little to choose between. If arms are taken at most once, a task needs two arms a
        decision.
        """
        if self.linear:
            return np.asarray(self.statistics.n_observations) >= 2 * n_decisions
        pulls = self.statistics.pulls[:, self.arms]
        n_arms = (pulls > 0).sum(axis=1)
        least = 2 if self.fit.prior.repeatable else 2 * n_decisions
        return (pulls.sum(axis=1) >= 2 * n_decisions) & (n_arms >= least)

    @property
    def needed(self) -> str:
        """Requirement for the replay of a task, in words, with a place for a number."""
        if self.linear:
            return "{} recorded rows"
        if not self.fit.prior.repeatable:
            return "recorded rewards of {} arms"
        return "{} recorded rewards of two arms or more"

    @cached_property
    def arms(self) -> Int[Array, " K"]:
        """Indices of the arms that agents may take: not the retired ones."""
        return np.flatnonzero(~self.fit.prior.arms.retired)

    @cached_property
    def order(self) -> Int[Array, " n"]:
        """Tasks in the order in which they are taken for replays: held-out tasks come first.

        So many that their rows fit into memory.
        """
        fit, rng = self.fit, _random.stream(self.seed, "policies", "tasks")
        rest = fit.training if self.crossed else fit.training[:0]
        order = np.concatenate([rng.permutation(fit.held_out), rng.permutation(rest)])
        sizes = np.asarray(self.statistics.n_observations)[order]
        width = len(fit.items) + 2 if self.linear else 3
        return order[np.cumsum(sizes) * width <= _MOST_NUMBERS]

    def folds(self, tasks: Int[Array, " m"]) -> Iterator[Fold]:
        """Yield these tasks in parts, each with a prior that was learned without the part.

        The first part has held-out tasks of the fit, with its prior. The training tasks are divided
        into parts of about that size.
        """
        fit = self.fit
        yield Fold(
            np.intersect1d(tasks, fit.held_out), fit.prior,
            pooled_scores(fit.learned.unimodal, fit.training_tasks),
        )  # fmt: skip
        n_more = min(MOST_FOLDS - 1, max(1, round(len(fit.training) / len(fit.held_out))))
        shuffled = _random.stream(self.seed, "policies", "folds").permutation(fit.training)
        parts = [part for part in np.array_split(shuffled, n_more) if np.isin(part, tasks).any()]
        for i, part in enumerate(parts):
            step(f"learning without part {i + 2} of {len(parts) + 1} of the tasks")
            others = np.setdiff1d(np.arange(len(fit.logs.tasks)), part)
            prior, unimodal = learn_from(fit, others, self.engine)
            yield Fold(
                np.intersect1d(tasks, part), prior,
                pooled_scores(unimodal, fit.logs.statistics[others]),
            )  # fmt: skip

    def agents(self, fold: Fold, arms: Int[Array, " K"] | None) -> dict[str, AgentSpec]:
        """Return the agents by policy, for all actions or for some arms."""
        prior, scores = fold.prior, fold.scores
        if arms is not None and len(arms) < len(scores):  # without the marks of retired arms
            some = prior.family.as_arms.arms(arms)
            prior = MixturePrior(some, prior.weights, repeatable=prior.repeatable)
            scores = scores[arms]
        agents: dict[str, AgentSpec] = {BESTSELLER: partial(Bestseller, scores)}
        return agents | {name: partial(kind, prior) for name, kind in self.policies.items()}

    def seed_of(self, *names: str | int) -> int:
        """Return the seed of one simulation."""
        return int(_random.seed_sequence(self.seed, "policies", *names).generate_state(1)[0])


class Missed(Observer):
    """Observer of how much better the best arm of all is expected to be than the best one left.

    Live decisions can choose every arm, or every arm that the task has not taken yet. A replay can
    choose only arms with a recorded reward left.

    Parameters
    ----------
    others
        Means of arms that the agents do not know, for each component, (L, J); perhaps none.
    score
        Largest score of such arms for the bestseller; minus infinity if there are none.
    repeatable
        Whether an arm may be taken again.
    """

    def __init__(self, others: Float[Array, "L J"], score: float, repeatable: bool) -> None:
        self.others = others
        self.score = score
        self.repeatable = repeatable

    def start(self, agent: Any, problem: Problem) -> MissedRecorder:
        """Return a recorder."""
        return MissedRecorder(self, agent)


class MissedRecorder(RoundRecorder):
    """Records what each decision misses."""

    def __init__(self, observer: Missed, agent: Any) -> None:
        super().__init__()
        self._observer, self._agent = observer, agent
        self._taken: Bool[Array, "n K"] | None = None

    def measure(self, round_: Round) -> dict[str, Array]:
        """Compare expected rewards before the decision's reward is known."""
        mask, n = round_.choices.mask, len(round_.outcome.rewards)
        other = np.full(n, self._observer.score)
        if isinstance(self._agent, Bestseller):
            means = np.broadcast_to(self._agent.scores, (n, len(self._agent.scores)))
        else:
            means = np.asarray(round_.belief.mean_rewards())
            if self._observer.others.size:
                other = (round_.belief.weights @ self._observer.others).max(axis=1)
        left = means if mask is None else np.where(mask, means, -np.inf)
        if not self._observer.repeatable:
            if self._taken is None:
                self._taken = np.zeros(means.shape, bool)
            means = np.where(self._taken, -np.inf, means)
            self._taken[np.arange(n), round_.chosen] = True
        return {"missed": np.maximum(means.max(axis=1), other) - left.max(axis=1)}


def replay(past: PastTasks, horizons: Sequence[int], fewest: int) -> dict[int, Played]:
    """Replay the first decisions of past tasks, for each number of decisions.

    Parameters
    ----------
    past
        The tasks and the policies.
    horizons
        Numbers of decisions.
    fewest
        Least number of tasks to replay; with fewer, only their number is returned.
    """
    nothing = np.zeros(0)
    found, chosen = {}, {}
    for n in horizons:
        usable = past.order[past.long_enough(n)[past.order]]
        found[n] = Played(len(usable), {}, {}, nothing, 0.0)
        if len(usable) >= fewest:
            chosen[n] = usable[: past.most]
    if not chosen:
        return found
    wanted = np.unique(np.concatenate(list(chosen.values())))
    rows = read_rows(past.fit.logs, wanted, past.engine)
    jobs: dict[int, list[_Job]] = {n: [] for n in chosen}
    offered: dict[int, list[Array]] = {n: [] for n in chosen}
    places: dict[int, list[Array]] = {n: [] for n in chosen}
    for number, fold in enumerate(past.folds(wanted)):
        for n, tasks in chosen.items():
            for chunk in _chunks(past, np.intersect1d(tasks, fold.tasks)):
                at = np.searchsorted(wanted, chunk)
                job, n_offered = _job(past, fold, rows, at, n, number)
                repeats = min(MOST_REPEATS, max(1, past.most // len(tasks)))
                jobs[n].append(job._replace(n_repeats=repeats))
                offered[n].append(n_offered)
                places[n].append(at)
    bar = step(f"replaying {len(wanted):,} past tasks", sum(map(len, jobs.values())))
    logged = np.bincount(rows.tasks, rows.rewards) / np.bincount(rows.tasks)
    with engine_of(past.engine) as where:
        for n, these in jobs.items():
            parts = []
            for part in where.map(play_chunk, [(job,) for job in these]):
                parts.append(part)
                bar.advance(1)
            rewards, missed = zip(*parts, strict=True)
            found[n] = Played(
                found[n].n_found, _joined(rewards), _joined(missed),
                logged[np.concatenate(places[n])], float(np.concatenate(offered[n]).mean()),
            )  # fmt: skip
    return found


def _joined(parts: Sequence[Mapping[str, Array]]) -> dict[str, Array]:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _chunks(past: PastTasks, tasks: Int[Array, " m"]) -> list[Int[Array, " c"]]:
    many = not past.linear and len(past.fit.items) > MANY_ARMS
    size = SMALL_CHUNK if many else CHUNK
    return [tasks[start : start + size] for start in range(0, len(tasks), size)]


def _job(
    past: PastTasks, fold: Fold, rows: TaskRows, tasks: Int[Array, " m"], n: int, number: int
) -> tuple[_Job, Array]:
    """Return a chunk of tasks to replay, and the number of actions that each of them offers."""
    place = np.searchsorted(tasks, rows.tasks)
    kept = tasks[np.minimum(place, len(tasks) - 1)] == rows.tasks
    rewards, place = rows.rewards[kept], place[kept]
    seed = past.seed_of("replay", n, number, int(tasks[0]))
    if past.linear:
        dealt = ReplayBandit(rows.features[kept], rewards, place, N_OFFERED, n)
        agents = past.agents(fold, None)
        return _Job(n, dealt, agents, None, 1, seed), dealt.n_dealt(np.arange(len(tasks)))
    alive = np.isin(rows.arms[kept], past.arms)
    rewards, place, arms = rewards[alive], place[alive], rows.arms[kept][alive]
    known = past.arms if len(past.arms) <= MANY_ARMS else np.unique(arms)
    once, arms = not fold.prior.repeatable, np.searchsorted(known, arms)
    environment = ReplayArms(arms, rewards, place, n, len(known), once)
    others = np.setdiff1d(past.arms, known)
    family = fold.prior.family
    means = family.mean_rewards(family.parameter_means())[:, others]
    score = float(fold.scores[others].max(initial=-np.inf))
    observer = Missed(means, score, fold.prior.repeatable)
    job = _Job(n, environment, past.agents(fold, known), observer, 1, seed)
    return job, (environment.counts > 0).sum(axis=1)


def play_chunk(
    job: _Job,
) -> tuple[dict[str, Float[Array, " n"]], dict[str, Float[Array, " n"]]]:
    """Return what each agent earned and missed per decision of every task: means over repeats."""
    n_tasks = job.environment.n_tasks
    n = job.n_repeats * n_tasks
    results = simulate(
        job.agents, job.environment, job.n_decisions, n, job.seed, engine=1, block_size=n,
        observe=job.observer,
    )  # fmt: skip
    order = np.argsort(results.latent, kind="stable")

    def by_task(values: Float[Array, "n t"]) -> Float[Array, " m"]:
        return np.asarray(values[order].reshape(n_tasks, -1).mean(axis=1))

    missed = {} if job.observer is None else results.observed
    return (
        {name: by_task(reward) for name, reward in results.reward.items()},
        {name: by_task(one["missed"]) for name, one in missed.items()},
    )
