"""RiverSwim played by mixts: all runs at once as the tasks of one agent, or one after the other.

The environment plays an episode of every run in one call. It also evaluates the policies exactly,
which regret needs and no peer does: that is part of our time.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from time import perf_counter
from typing import Any

import numpy as np
from episodes import N_LAST, Played
from problems import Array, task_generator
from river import HORIZON, N_STATES, START, STRENGTH, Tables, drawn_tables, mean_tables


@cache
def psrl_prior() -> Any:
    """One component: Beta(1, 1) rewards and Dirichlet(1, ..., 1) transitions."""
    import mixts

    return mixts.MixturePrior(mixts.TabularMDP.uniform(N_STATES, 2, HORIZON, START))


@cache
def mixture_prior() -> Any:
    """Two components, from which the MDPs are drawn."""
    import mixts

    means = mixts.MDP(*mean_tables(), HORIZON, START)
    return mixts.MixturePrior(mixts.TabularMDP.from_means(means, STRENGTH))


PRIORS: dict[str, Callable[[], Any]] = {"PSRL": psrl_prior, "MixTS": mixture_prior}


def start(tables: Tables, rng: np.random.Generator) -> Any:
    """The MDPs as a problem; like the peer, agents are told the state after the last step."""
    import mixts
    from mixts.environments.mdp import MDPProblem

    mdps = mixts.MDP(*tables, HORIZON, START)
    latent = np.full(len(mdps), -1)
    return MDPProblem(latent, mdps, rng, last_state=True)


def play(agent: Any, problem: Any, n_episodes: int) -> tuple[float, Array]:
    """Seconds of all episodes, and the mean return of each run in the last of them."""
    seconds, returns, n_last = 0.0, np.zeros(len(problem.mdps)), min(N_LAST, n_episodes)
    for episode in range(n_episodes):
        started = perf_counter()
        outcome = problem.play(agent.act())
        agent.update(*outcome.feedback)
        seconds += perf_counter() - started
        if episode >= n_episodes - n_last:
            returns += outcome.rewards
    return seconds, returns / n_last


def together(prior: Callable[[], Any], n_runs: int) -> Callable[[int, int], Played]:
    """All runs in lockstep."""

    def play_chunk(index: int, n_episodes: int) -> Played:
        import mixts

        tables = drawn_tables(range(index * n_runs, (index + 1) * n_runs))
        agent = mixts.MixTS(prior(), n_tasks=n_runs, seed=index)
        seconds, returns = play(agent, start(tables, task_generator(index)), n_episodes)
        return Played(seconds / (n_runs * n_episodes), returns, tables)

    return play_chunk


def one_by_one(prior: Callable[[], Any], n_runs: int) -> Callable[[int, int], Played]:
    """An agent for one task and a problem of one run, for each of some runs."""

    def play_chunk(index: int, n_episodes: int) -> Played:
        import mixts

        tables = drawn_tables(range(index * n_runs, (index + 1) * n_runs))
        seconds, returns = 0.0, np.empty(n_runs)
        for run in range(n_runs):
            seed = index * n_runs + run
            agent = mixts.MixTS(prior(), seed=seed)
            one = Tables(*(part[run : run + 1] for part in tables))
            problem = start(one, task_generator(seed))
            taken, returns[run : run + 1] = play(agent, problem, n_episodes)
            seconds += taken
        return Played(seconds / (n_runs * n_episodes), returns, tables)

    return play_chunk
