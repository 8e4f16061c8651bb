"""Compare decisions with values and costs, and rankings, with plain ones; measure 10,000 arms.

python -m benchmarks.prices
python -m benchmarks.prices --repeats 9 --arms 1000

All sides take turns, and the time is that of the processor: on a busy machine their ratios say
more than times.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from functools import partial
from time import process_time
from typing import Any

import numpy as np

import mixts

SIZES = ((5, 10), (30, 30))
AT_ONCE = (1, 100)
N_FEATURES = 10
TOP = 3


def priors(n: int, k: int) -> Iterator[tuple[str, mixts.MixturePrior]]:
    """Yield priors of n components and k arms, or of linear rewards."""
    rng = np.random.default_rng(1)
    mean = np.exp(0.6 * rng.standard_normal((n, k)) - 2.0)
    yield "Bernoulli", mixts.MixturePrior(mixts.BernoulliArms(20 * mean, 20 * (1 + mean)))
    first, second = rng.uniform(1, 10, (2, n, k))
    yield "Bernoulli, wide", mixts.MixturePrior(mixts.BernoulliArms(first, second))
    yield "Gaussian", mixts.MixturePrior(mixts.GaussianArms(mean, 0.2 * first, 0.7))
    yield "Poisson", mixts.MixturePrior(mixts.PoissonArms(first, second))
    center = rng.standard_normal((n, N_FEATURES))
    yield (
        "linear",
        mixts.MixturePrior(mixts.LinearGaussian(center, np.full(n, 0.3), 0.5, "spherical")),
    )


def alternate(sides: list[Callable[[], Any]], repeats: int) -> list[list[float]]:
    """Return the seconds of each side, which take turns; a turn has at least 20 ms."""
    counts = []
    for side in sides:
        side()
        started = process_time()
        side()
        counts.append(int(0.02 / (process_time() - started + 1e-9)) + 1)
    seconds: list[list[float]] = [[] for _ in sides]
    for _ in range(repeats):
        for side, n, found in zip(sides, counts, seconds, strict=True):
            started = process_time()
            for _ in range(n):
                side()
            found.append((process_time() - started) / n)
    return seconds


def measure(policy: str, prior: mixts.MixturePrior, m: int, k: int, repeats: int) -> str:
    """Return the cells of a row: milliseconds of a plain decision, and ratios to it."""
    rng = np.random.default_rng(2)
    agent = getattr(mixts, policy)(prior, n_tasks=m, seed=0)
    linear = isinstance(prior.family, mixts.LinearGaussian)
    actions = rng.standard_normal((k, N_FEATURES)) if linear else None
    for _ in range(5):
        taken = rng.integers(0, k, m)
        rewards = rng.integers(0, 2, m).astype(float)
        agent.update(taken if actions is None else actions[taken], rewards)
    values, costs = rng.uniform(0.5, 2.0, k), rng.uniform(0.0, 0.3, k)
    money = {"values": values, "costs": costs}
    plain, *others = alternate(
        [
            lambda: agent.act_with_probabilities(actions),
            lambda: agent.act_with_probabilities(actions, **money),
            lambda: agent.act_with_probabilities(actions, top=TOP),
            lambda: agent.act_with_probabilities(actions, **money, top=TOP),
        ][: None if policy == "MixTS" else 2],
        repeats,
    )
    ratios = [f"{np.median(np.divide(other, plain)):.1f}" for other in others]
    return " | ".join([f"{1e3 * np.median(plain):,.2f}", *ratios, *["-"] * (3 - len(ratios))])


def measure_many(n_arms: int, repeats: int) -> None:
    """Print decisions among more and more arms: plain, priced and ranked."""
    print("| policy | arms | plain, ms | priced, ms | top 3, ms |\n|---|---|---|---|---|")
    for k in [k for k in (10, 100, 1000) if k < n_arms] + [n_arms]:
        rng = np.random.default_rng(1)
        mean = 0.04 * np.exp(0.4 * rng.standard_normal((5, k)))
        prior = mixts.MixturePrior(mixts.BernoulliArms(60 * mean, 60 * (1 - mean)))
        money = {"values": rng.uniform(0.5, 2.0, k), "costs": rng.uniform(0.0, 0.03, k)}
        for policy in ("MixIDS", "MixTS"):
            decide = getattr(mixts, policy)(prior, seed=1).act_with_probabilities
            sides = [decide, partial(decide, **money), partial(decide, top=TOP)]
            cells = [f"{1e3 * np.median(found):,.1f}" for found in alternate(sides, repeats)]
            print(f"| {policy} | {k:,} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--arms", type=int, default=10_000)
    asked = parser.parse_args()
    print("| rewards | L | K | policy | decisions | plain, ms | priced | top 3 | priced top 3 |")
    print("|---|---|---|---|---|---|---|---|---|")
    for n, k in SIZES:
        for name, prior in priors(n, k):
            for policy in ("MixIDS", "MixTS"):
                for m in AT_ONCE:
                    cells = measure(policy, prior, m, k, asked.repeats)
                    print(f"| {name} | {n} | {k} | {policy} | {m} | {cells} |", flush=True)
    print()
    measure_many(asked.arms, asked.repeats)


if __name__ == "__main__":
    main()
