"""Policies on one belief: MixIDS beside MixTS, one task at a time and many at once.

Both sides are ours. The time is that of ``act_with_probabilities``, the decision that a service
logs; updates are the same on either side. It is processor time: each side has one thread, and other
programs on the machine then matter less.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from time import process_time
from typing import Any

import numpy as np
from arms import BernoulliProblem
from benchmark import Benchmark
from linear import mixture_prior
from problems import LinearProblem, Problem, Task, uniform_regret

POLICIES = {"ours": "MixIDS", "peer": "MixTS"}


@dataclass(frozen=True, kw_only=True)
class PolicyBenchmark(Benchmark):
    """A benchmark of decisions for ``n_tasks`` at once; None: one task without a task axis."""

    problem: Problem
    prior: Callable[[], Any]
    n_tasks: int | None
    n_rounds: int
    peer_name: str = "MixTS, act_with_probabilities"
    our_threads: int | None = 1
    peer_threads: tuple[int, ...] = (1,)
    peer_is_ours: bool = True

    @property
    def labels(self) -> tuple[str, ...]:
        return (f"decision, {self.n_rounds} rounds",)

    def chunk(self, side: str, index: int) -> dict[str, Any]:
        """Play fresh tasks with a fresh agent."""
        import mixts

        n = self.n_tasks or 1
        tasks = [self.problem.task(index * n + i) for i in range(n)]
        agent = getattr(mixts, POLICIES[side])(self.prior(), self.n_tasks, seed=index)
        seconds, regret = play(agent, tasks, self.n_rounds)
        return {"seconds": {self.labels[0]: seconds / (n * self.n_rounds)}, "regret": regret}

    def fingerprint(self) -> list[float]:
        return self.problem.fingerprint()


def play(agent: Any, tasks: Sequence[Task], n_rounds: int) -> tuple[float, float]:
    """Return the processor seconds of all decisions, and the regret late in the run relative to
    uniform play, in the last third of the rounds. The tasks have one action set each, or arms."""
    seconds, n, means = 0.0, len(tasks), np.stack([task.mean_rewards for task in tasks])
    offered = [task.actions(0) for task in tasks]
    sets: Any = None if offered[0] is None else np.stack([a for a in offered if a is not None])
    single, every, lost = agent.n_tasks is None, np.arange(n), 0.0
    for round_ in range(n_rounds):
        actions = sets[0] if single and sets is not None else sets
        started = process_time()
        chosen, _, _ = agent.act_with_probabilities(actions)
        seconds += process_time() - started
        index = np.atleast_1d(chosen)
        rewards = np.array([t.reward(round_, int(a)) for t, a in zip(tasks, index, strict=True)])
        taken = index if sets is None else sets[every, index]
        agent.update(taken[0] if single else taken, rewards[0] if single else rewards)
        if 3 * round_ >= 2 * n_rounds:
            lost += float((means.max(axis=1) - means[every, index]).mean())
    uniform = float(np.mean([uniform_regret(task) for task in tasks]))
    return seconds, lost / (n_rounds - -(-2 * n_rounds // 3)) / uniform


ARMS = BernoulliProblem(n_components=5, n_arms=10)
LINEAR = LinearProblem(
    n_components=30, n_features=30, n_actions=30, tied=False, changing=False, noise_std=0.1
)


@cache
def arms_prior() -> Any:
    import mixts

    return mixts.MixturePrior(mixts.BernoulliArms(*ARMS.counts()))


BENCHMARKS = [
    PolicyBenchmark(
        name="ids-arms",
        title="MixIDS, 10 Bernoulli arms, L = 5, one task",
        problem=ARMS,
        prior=arms_prior,
        n_tasks=None,
        n_rounds=300,
        target=0.33,
    ),
    PolicyBenchmark(
        name="ids-arms-many",
        title="MixIDS, 10 Bernoulli arms, L = 5, 1000 tasks at once",
        problem=ARMS,
        prior=arms_prior,
        n_tasks=1000,
        n_rounds=30,
        target=None,
    ),
    PolicyBenchmark(
        name="ids-linear",
        title="MixIDS, linear, L = 30, d = 30, 30 actions, one task",
        problem=LINEAR,
        prior=lambda: mixture_prior(LINEAR),
        n_tasks=None,
        n_rounds=300,
        target=None,
        target_time=1e-3,
    ),
    PolicyBenchmark(
        name="ids-linear-many",
        title="MixIDS, linear, L = 30, d = 30, 30 actions, 100 tasks at once",
        problem=LINEAR,
        prior=lambda: mixture_prior(LINEAR),
        n_tasks=100,
        n_rounds=30,
        target=None,
    ),
]
