"""A long run with a flat prior: regret must grow like a logarithm."""

from __future__ import annotations

from functools import partial

import mixts
from mixts.simulation import AgentSpec, simulate
from studies.policies.agents import GREEDY, IDS, TS, UCB
from studies.policies.tables import Comparison

ROUNDS = (100, 1_000, 10_000)
N_ARMS = 10


def play_long(n_runs: int, seed: int, workers: int) -> Comparison:
    """Play every policy on ten Bernoulli arms about which it knows nothing."""
    prior = mixts.MixturePrior(mixts.BernoulliArms.uniform(n_arms=N_ARMS))
    agents: dict[str, AgentSpec] = {
        TS: partial(mixts.MixTS, prior),
        IDS: partial(mixts.MixIDS, prior),
        UCB: partial(mixts.BayesUCB, prior),
        GREEDY: partial(mixts.Greedy, prior),
    }
    environment = mixts.BanditEnvironment(prior)
    results = simulate(agents, environment, ROUNDS[-1], n_runs, seed, engine=workers)
    return Comparison(f"{N_ARMS} Bernoulli arms, flat prior", results.regret, ROUNDS)
