"""A long run with a flat prior: regret must grow like a logarithm."""

from __future__ import annotations

from mixts.experiments.beyond.long_run import N_ARMS, flat_bandit
from mixts.simulation import simulate
from studies.policies.tables import Comparison

ROUNDS = (100, 1_000, 10_000)


def play_long(n_runs: int, seed: int, workers: int) -> Comparison:
    """Play the policies and the bandit of the experiment `beyond/long-run`."""
    results = simulate(*flat_bandit(ROUNDS[-1]), ROUNDS[-1], n_runs, seed, engine=workers)
    return Comparison(f"{N_ARMS} Bernoulli arms, flat prior", results.regret, ROUNDS)
