"""Measure how the time of a round of clicks grows with rows, components, features and tasks.

    OMP_NUM_THREADS=1 python -m benchmarks.clicks
    OMP_NUM_THREADS=1 python -m benchmarks.clicks --only rows tasks --seconds 4

A round is one ``act`` among 10 actions and one ``update`` of a task that has seen a number of
distinct rows of features. Times are medians of the processor's time: on a busy machine they say
more than elapsed times, though they grow with the load as well.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from time import process_time
from typing import Any

import numpy as np

from benchmarks.problems import ClickProblem

POLICIES = ("MixTS", "MixIDS")
N_COMPONENTS, N_FEATURES, N_ROWS, N_ACTIONS = 5, 20, 50, 10

SPREADS = {"close": 0.1, "apart": 1.0}
"""Standard deviations of the components' means. Components that are close cost most: the history
does not tell them apart, and none becomes dormant."""

GROWTH: dict[str, tuple[int, ...]] = {
    "rows": (5, 20, 50, 200, 1000, 5000),
    "components": (1, 2, 5, 10, 30),
    "features": (2, 5, 10, 20, 50),
}
N_TASKS = (1, 1000, 100_000)
N_ROUNDS = 60
"""Rounds of an agent before the next takes over: with more of them, components become dormant."""


def problem_of(size: dict[str, int], spread: float) -> ClickProblem:
    """Return the problem with one size changed."""
    return ClickProblem(
        n_components=size.get("components", N_COMPONENTS),
        n_features=size.get("features", N_FEATURES),
        n_actions=N_ACTIONS,
        n_items=size.get("rows", N_ROWS),
        spread=spread,
    )


def rounds_of(policy: str, problem: ClickProblem, n_tasks: int | None = None) -> Rounds:
    """Return rounds with a new agent, of its last task."""
    import mixts

    family = mixts.LinearBernoulli(problem.mean(), problem.covariance())
    agent = getattr(mixts, policy)(mixts.MixturePrior(family), n_tasks, seed=1)
    return Rounds(agent, problem, None if n_tasks is None else np.array([n_tasks - 1]))


class Rounds:
    """Rounds of a task that has seen every item once: new actions, then a click on some item."""

    def __init__(self, agent: Any, problem: ClickProblem, tasks: Any = None) -> None:
        self.agent, self.tasks = agent, tasks
        self.items = problem.items()
        self.rng = np.random.default_rng(2)
        theta = problem.mean()[0]
        self.rates = 1.0 / (1.0 + np.exp(-self.items @ theta))
        history = (self.rng.random(len(self.items)) < self.rates).astype(float)
        of = None if tasks is None else np.repeat(tasks, len(self.items))
        agent.update(self.items, history, of)

    def play(self) -> tuple[float, float]:
        """Return the seconds of one act and of one update."""
        rng, (n, d) = self.rng, self.items.shape
        actions = rng.standard_normal((N_ACTIONS, d)) / np.sqrt(d)
        actions[:, 0] = 1.0
        i = rng.integers(n)
        click = np.array([float(rng.random() < self.rates[i])])
        row, reward = self.items[i : i + 1], click
        if self.tasks is None:
            row, reward = row[0], click[0]
        started = process_time()
        self.agent.act(actions, self.tasks)
        acted = process_time()
        self.agent.update(row, reward, self.tasks)
        return acted - started, process_time() - acted

    def n_awake(self) -> int:
        """Return how many components the decisions of the task consider."""
        task = 0 if self.tasks is None else self.tasks[0]
        return int(np.isfinite(self.agent.belief.posterior.relative_evidence[task]).sum())


def medians(make: Callable[[], Rounds], seconds: float) -> tuple[float, float, float]:
    """Return the medians of act, of update and of the number of components that are not dormant.

    New agents play ``N_ROUNDS`` each, until all rounds together have taken so long.
    """
    found: list[tuple[float, float]] = []
    awake = []
    while np.sum(found) < seconds:
        rounds = make()
        rounds.play()  # computes the posterior of the whole history
        found += [rounds.play() for _ in range(N_ROUNDS)]
        awake.append(rounds.n_awake())
    act, update = np.median(found, axis=0)
    return float(act), float(update), float(np.median(awake))


def show(*cells: object) -> None:
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def head(*names: str) -> None:
    print()
    show(*names)
    print("|" + "---|" * len(names))


def ms(seconds: float) -> str:
    return f"{1e3 * seconds:,.3f}"


def measure_growth(name: str, seconds: float) -> None:
    """Print rounds of both policies, as one of the sizes grows.

    In brackets: the number of components that are not dormant after the rounds.
    """
    head(name, *(f"{policy}, {kind}, ms" for policy in POLICIES for kind in SPREADS))
    for value in GROWTH[name]:
        cells = []
        for policy in POLICIES:
            for spread in SPREADS.values():
                problem = problem_of({name: value}, spread)
                act, update, awake = medians(partial(rounds_of, policy, problem), seconds)
                cells.append(f"{ms(act + update)} ({awake:g})")
        show(f"{value:,}", *cells)


def measure_tasks(seconds: float) -> None:
    """Print rounds of one task among many."""
    head("tasks", "act, ms", "update, ms")
    problem = problem_of({}, SPREADS["apart"])
    for n in N_TASKS:
        act, update, _ = medians(partial(rounds_of, "MixTS", problem, n), seconds)
        show(f"{n:,}", ms(act), ms(update))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parts = (*GROWTH, "tasks")
    parser.add_argument("--only", nargs="+", choices=parts, default=parts, help="these tables only")
    parser.add_argument("--seconds", type=float, default=1.0, help="time of all rounds of a cell")
    options = parser.parse_args()
    for name in GROWTH:
        if name in options.only:
            measure_growth(name, options.seconds)
    if "tasks" in options.only:
        measure_tasks(options.seconds)


if __name__ == "__main__":
    main()
