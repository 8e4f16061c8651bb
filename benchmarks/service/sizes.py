"""Compare the estimated work of decisions with the processor time that they take.

    python benchmarks/service/sizes.py [--policy ids] [--long]

The writer cuts batches by these estimates (``mixts_serve.versions.Sizes``). A unit should
take at most 0.2 ms of a decision that is not small. Offered actions count for more, because they
are also parsed, checked and stored. ``--long`` adds a decision that takes minutes.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from mixts_serve import Decide
from mixts_serve.rules import Policy
from mixts_serve.versions import Sizes, StatisticsCodec

import mixts

REPEATS = 3


def linear(n_components: int, n_features: int) -> mixts.MixturePrior:
    rng = np.random.default_rng(0)
    mean = rng.normal(size=(n_components, n_features))
    covariance = np.stack([np.eye(n_features)] * n_components)
    return mixts.MixturePrior(mixts.LinearGaussian(mean, covariance, 0.5))


def arms(n_components: int, n_arms: int) -> mixts.MixturePrior:
    rng = np.random.default_rng(0)
    return mixts.MixturePrior(mixts.BernoulliArms(*rng.uniform(1, 5, (2, n_components, n_arms))))


def clicks(n_components: int, n_features: int) -> mixts.MixturePrior:
    rng = np.random.default_rng(0)
    mean = rng.normal(size=(n_components, n_features))
    covariance = np.stack([np.eye(n_features)] * n_components)
    return mixts.MixturePrior(mixts.LinearBernoulli(mean, covariance))


def table(prior: mixts.MixturePrior, n_rows: int) -> mixts.families.Statistics:
    """Return the statistics of a task with so many distinct rows of clicks."""
    rng, tasks = np.random.default_rng(3), prior.family.empty_statistics(1)
    if n_rows:
        rows = rng.normal(size=(n_rows, prior.family.n_features))
        observed = tasks.observations(rows, rng.integers(0, 2, n_rows))
        tasks.observe(np.zeros(n_rows, np.int64), observed)
    return tasks


def seconds(
    prior: mixts.MixturePrior,
    n_actions: int | None,
    policy: Policy,
    costs: np.ndarray | None,
    n_rows: int = 0,
) -> float:
    """Return the processor time of one decision, of a new task or one with a table: the shortest
    of some."""
    tasks = table(prior, n_rows)
    rng, row = np.random.default_rng(1), np.zeros(1, np.int64)
    sets = None if n_actions is None else rng.normal(size=(1, n_actions, prior.family.n_features))
    times: list[float] = []
    while len(times) < REPEATS and sum(times) < 10.0:
        started = time.thread_time()
        agent = policy.resume(prior, tasks, 0)
        offer = agent.offer(sets, row, costs=costs)
        agent.decide(offer._replace(explore=policy.explore))
        times.append(time.thread_time() - started)
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--policy", default="ids")
    parser.add_argument("--long", action="store_true", help="also 10,000 arms with costs")
    options = parser.parse_args()
    policy = Policy.checked(options.policy)
    cases: list[tuple[str, mixts.MixturePrior, int | None]] = [
        (f"{n_arms:,} arms, {n} components", arms(n, n_arms), None)
        for n, n_arms in ((6, 10), (6, 1_000), (6, 10_000), (20, 10_000))
    ]
    cases += [
        (f"{k:,} actions, {d} features, {n} components", linear(n, d), k)
        for n, d, k in ((3, 2, 10), (3, 2, 10_000), (20, 20, 10_000), (20, 200, 1_000))
    ]
    numbers = (10, 200, 1_000, 2_000, *[10_000] * options.long)
    priced = [(f"{n:,} arms, 6 components, costs", arms(6, n), n) for n in numbers]
    print("| decision | size | processor time | a unit |\n|---|---|---|---|")
    for name, prior, n_actions in cases:
        sizes = Sizes.of_prior(prior, StatisticsCodec(prior.family).n_bytes)
        offered = None if n_actions is None else np.empty((n_actions, 0))
        size = sizes.of(Decide("task", offered))
        show(name, size, seconds(prior, n_actions, policy, None))
    for n, d, n_rows in ((3, 5, 100), (3, 5, 3_000), (3, 5, 9_000), (10, 5, 3_000), (3, 20, 3_000)):
        prior = clicks(n, d)
        sizes = Sizes.of_prior(prior, StatisticsCodec(prior.family).n_bytes)
        sizes.learn({"task": len(table(prior, n_rows).encode()[0])})
        name = f"10 actions, {d} features of clicks, {n_rows:,} distinct rows, {n} components"
        size = sizes.of(Decide("task", np.empty((10, 0))))
        show(name, size, seconds(prior, 10, policy, None, n_rows))
    for name, prior, n_arms in priced:
        costs = np.random.default_rng(2).uniform(0.0, 0.1, n_arms)
        sizes = Sizes.of_prior(prior, StatisticsCodec(prior.family).n_bytes)
        show(name, sizes.of(Decide("task", costs=costs)), seconds(prior, None, policy, costs))


def show(name: str, size: int, took: float) -> None:
    """Print a line of the table."""
    print(f"| {name} | {size:,} | {1e3 * took:.1f} ms | {1e3 * took / size:.3f} ms |", flush=True)


if __name__ == "__main__":
    main()
