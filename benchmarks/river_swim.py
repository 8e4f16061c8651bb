"""RiverSwim: PSRL and MixTS, 500 runs at once and one at a time, against rlberry.

Our environment plays an episode of every run in one call. Our time includes the exact evaluation of
the policies, for the regret, which no peer does.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from time import perf_counter
from typing import Any

import numpy as np
import river_peers
from problems import Array, task_generator
from river import (
    HORIZON,
    N_LAST,
    N_STATES,
    START,
    STRENGTH,
    EpisodeBenchmark,
    Played,
    Tables,
    drawn_tables,
    mean_tables,
)


@cache
def psrl_prior() -> Any:
    """Return a prior of one component: Beta(1, 1) rewards, Dirichlet(1, ..., 1) transitions."""
    import mixts

    return mixts.MixturePrior(mixts.TabularMDP.uniform(N_STATES, 2, HORIZON, START))


@cache
def mixture_prior() -> Any:
    """Return the prior of two components from which the MDPs are drawn."""
    import mixts

    means = mixts.MDP(*mean_tables(), HORIZON, START)
    return mixts.MixturePrior(mixts.TabularMDP.from_means(means, STRENGTH))


PRIORS: dict[str, Callable[[], Any]] = {"PSRL": psrl_prior, "MixTS": mixture_prior}


def start(tables: Tables, rng: np.random.Generator) -> Any:
    """Return the MDPs as a problem; trajectories include the last state, as for the peer."""
    import mixts
    from mixts.environments.mdp import MDPProblem

    mdps = mixts.MDP(*tables, HORIZON, START)
    latent = np.full(len(mdps), -1)
    return MDPProblem(latent, mdps, rng, last_state=True)


def play(agent: Any, problem: Any, n_episodes: int) -> tuple[float, Array]:
    """Play; return the seconds of all episodes, and each run's mean return in the last ones."""
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
    """Return a function that plays all runs of a chunk at once."""

    def play_chunk(index: int, n_episodes: int) -> Played:
        import mixts

        tables = drawn_tables(range(index * n_runs, (index + 1) * n_runs))
        agent = mixts.MixTS(prior(), n_tasks=n_runs, seed=index)
        seconds, returns = play(agent, start(tables, task_generator(index)), n_episodes)
        return Played(seconds / (n_runs * n_episodes), returns, tables)

    return play_chunk


def one_by_one(prior: Callable[[], Any], n_runs: int) -> Callable[[int, int], Played]:
    """Return a function that plays the runs of a chunk one by one, with an agent for each."""

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


N_AT_ONCE = 500
N_ONE_BY_ONE = 8
PSRL = "rlberry PSRL (L = 1)"

ours_at_once = {name: together(prior, N_AT_ONCE) for name, prior in PRIORS.items()}
ours_one_by_one = {name: one_by_one(prior, N_ONE_BY_ONE) for name, prior in PRIORS.items()}
peer_psrl = river_peers.player(river_peers.psrl, N_ONE_BY_ONE)

BENCHMARKS = [
    EpisodeBenchmark(
        name="river-psrl",
        title=f"RiverSwim, L = 1 (PSRL), {N_AT_ONCE} runs at once",
        ours=ours_at_once["PSRL"],
        peer=peer_psrl,
        peer_name=PSRL,
        target=10.0,
        target_time=15e-6,
    ),
    EpisodeBenchmark(
        name="river-psrl-one",
        title="RiverSwim, L = 1 (PSRL), one run at a time",
        ours=ours_one_by_one["PSRL"],
        peer=peer_psrl,
        peer_name=PSRL,
        target=3.0,
    ),
    EpisodeBenchmark(
        name="river-mixts",
        title=f"RiverSwim, L = 2 (MixTS), {N_AT_ONCE} runs at once",
        ours=ours_at_once["MixTS"],
        peer=peer_psrl,
        peer_name=PSRL,
        target=None,
    ),
    EpisodeBenchmark(
        name="river-mixts-one",
        title="RiverSwim, L = 2 (MixTS), one run at a time",
        ours=ours_one_by_one["MixTS"],
        peer=peer_psrl,
        peer_name=PSRL,
        target=None,
    ),
    EpisodeBenchmark(
        name="river-ucbvi",
        title="RiverSwim, L = 1 (PSRL), one run at a time, beside UCBVI",
        ours=ours_one_by_one["PSRL"],
        peer=river_peers.player(river_peers.ucbvi, N_ONE_BY_ONE),
        peer_name="rlberry UCBVI",
        target=None,
    ),
    EpisodeBenchmark(
        name="river-ucbvi-scool",
        title="RiverSwim, L = 1 (PSRL), one run at a time, beside UCBVI not compiled",
        ours=ours_one_by_one["PSRL"],
        peer=river_peers.player(river_peers.scool_ucbvi, 1),
        peer_name="rlberry-scool UCBVI",
        target=None,
    ),
]
