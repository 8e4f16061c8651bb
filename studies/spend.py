"""Revenue with zeros: what a learned prior earns on new tasks: ``python -m studies.spend``.

Customers are the tasks and offers are the arms. There are three kinds of customer. A kind says how
often each offer is bought and how much is typically spent on it, and customers of one kind differ.
Spends are log-normal. Priors are learned from the rewards of past customers, who saw random offers.
Agents that start from these priors meet new customers, all with the same luck.

The data are simulated: the study says what the family is good for if rewards are such, not that
the rewards of a shop are such.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import mixts
from mixts.families import GaussianStatistics, SpendStatistics
from studies._shared import Array, stream

N_KINDS, N_ARMS = 3, 8
N_PAST, N_NEW = 400, 200
"""Past customers to learn from, and new customers."""
N_ROWS = 20
"""Decisions of a past customer."""
LEARNING: dict[str, Any] = {"max_components": 4, "n_restarts": 1, "n_folds": 3, "engine": 1}
"""Less work than by default, so that the study takes minutes."""
HORIZONS = (5, 10, 30)
"""Numbers of first decisions whose mean revenue is reported."""
POLICIES = (mixts.MixIDS, mixts.MixTS, mixts.Greedy)
BESTSELLER, BASE = "bestseller", "spend, one component"
"""Names of the agent that does not learn, and of the prior that others are compared with."""


@dataclass(frozen=True)
class World:
    """What differs between kinds of customer."""

    weights: Array
    rate: Array
    """Mean purchase rate, by kind and offer."""
    typical: Array
    """Mean logarithm of a spend, by kind and offer."""
    deviation: Array
    """Standard deviation of the logarithm of a spend, by offer."""


@dataclass(frozen=True)
class Customers:
    """Purchase rate, and mean and standard deviation of the log spend, by customer and offer."""

    rate: Array
    log_spend: Array
    deviation: Array

    @property
    def mean(self) -> Array:
        """Mean revenue of a decision, by customer and offer."""
        return self.rate * np.exp(self.log_spend + self.deviation**2 / 2)

    def spend(self, rows: Array, arms: Array, luck: Array, scores: Array) -> Array:
        """Return the revenue of some decisions, with a uniform and a normal number for each."""
        spent = np.exp(self.log_spend[rows, arms] + self.deviation[arms] * scores)
        return np.where(luck < self.rate[rows, arms], spent, 0.0)


def draw_world(rng: np.random.Generator) -> World:
    """Draw kinds of customer: about one decision in six is a purchase, of about 20."""
    return World(
        rng.dirichlet(np.full(N_KINDS, 5.0)),
        rng.beta(1.0, 5.0, (N_KINDS, N_ARMS)),
        rng.normal(3.0, 0.6, (N_KINDS, N_ARMS)),
        rng.uniform(0.5, 1.0, N_ARMS),
    )


def draw_customers(world: World, n: int, rng: np.random.Generator) -> Customers:
    """Draw customers: rates vary as Beta distributions worth 20 decisions, log spends by 0.3."""
    kind = rng.choice(N_KINDS, n, p=world.weights)
    mean = world.rate[kind]
    rate = rng.beta(20 * mean + 0.01, 20 * (1 - mean) + 0.01)
    return Customers(rate, rng.normal(world.typical[kind], 0.3), world.deviation)


def past_rewards(past: Customers, rng: np.random.Generator) -> tuple[Array, Array, Array]:
    """Return customers, offers and rewards of past decisions, in which offers were random."""
    rows = np.repeat(np.arange(len(past.rate)), N_ROWS)
    arms = rng.integers(N_ARMS, size=len(rows))
    rewards = past.spend(rows, arms, rng.random(len(rows)), rng.standard_normal(len(rows)))
    return rows, arms, rewards


def learned(past: Customers, rng: np.random.Generator, seed: int) -> dict[str, mixts.MixturePrior]:
    """Learn priors from the same rewards of past customers."""
    n = len(past.rate)
    rows, arms, rewards = past_rewards(past, rng)
    spends = SpendStatistics.empty((N_ARMS,), n)
    numbers = GaussianStatistics.empty((N_ARMS,), n)
    for statistics in (spends, numbers):
        statistics.observe(rows, statistics.observations(arms, rewards))
    return {
        "spend, auto": mixts.learn_prior(spends, "auto", seed=seed, **LEARNING),
        BASE: mixts.learn_prior(spends, 1, seed=seed, **LEARNING),
        "Gaussian, auto": mixts.learn_prior(numbers, "auto", seed=seed, **LEARNING),
    }


class Bestseller:
    """The offer with the highest mean reward under a prior, always."""

    def __init__(self, prior: mixts.MixturePrior, n_tasks: int) -> None:
        mean = prior.weights @ prior.family.parameter_means()
        self._arms = np.full(n_tasks, int(np.argmax(mean[:N_ARMS])))

    def act(self) -> Array:
        """Return the offer for each customer."""
        return self._arms

    def update(self, arms: Array, rewards: Array) -> None:
        """Ignore the rewards."""


def play(agent: Any, customers: Customers, rng: np.random.Generator) -> Array:
    """Return the revenue expected of the first decisions, (customers, horizons).

    This is the true mean of each offer that the agent made: what happened by luck is left out.
    """
    rows, mean = np.arange(len(customers.rate)), customers.mean
    found = np.empty((max(HORIZONS), len(rows)))
    for t in range(len(found)):
        arms = agent.act()
        luck, scores = rng.random(len(rows)), rng.standard_normal(len(rows))
        agent.update(arms, customers.spend(rows, arms, luck, scores))
        found[t] = mean[rows, arms]
    return np.stack([found[:n].mean(axis=0) for n in HORIZONS], axis=1)


@dataclass(frozen=True)
class Measured:
    """Results of one world."""

    n_components: dict[str, int]
    revenue: dict[tuple[str, str], Array]
    """Mean revenue of a decision for each of ``HORIZONS``, by prior and policy."""
    best: float
    """Mean revenue of each customer's best offer."""


def measure(seed: int, n_past: int = N_PAST, n_new: int = N_NEW) -> Measured:
    """Draw a world, learn all priors, and play all agents."""
    rng = stream(seed, "world")
    world = draw_world(rng)
    priors = learned(draw_customers(world, n_past, rng), rng, seed)
    customers = draw_customers(world, n_new, rng)
    agents: dict[tuple[str, str], Any] = {("", BESTSELLER): Bestseller(priors[BASE], n_new)}
    for name, prior in priors.items():
        for policy in POLICIES:
            agents[name, policy.__name__] = policy(prior, n_tasks=n_new, seed=seed)
    revenue = {
        key: play(agent, customers, stream(seed, "luck")).mean(axis=0)
        for key, agent in agents.items()
    }
    sizes = {name: prior.n_components for name, prior in priors.items()}
    return Measured(sizes, revenue, float(customers.mean.max(axis=1).mean()))


def gain(measured: Sequence[Measured], key: tuple[str, str]) -> tuple[Array, Array]:
    """Return the mean gain over one component with the same policy, and its standard error.

    Worlds are independent, and both agents meet the same customers of a world: the differences
    are taken world by world.
    """
    other = (BASE, key[1]) if key[0] else (BASE, "MixTS")
    differences = np.array([one.revenue[key] - one.revenue[other] for one in measured])
    error = differences.std(axis=0, ddof=1) / np.sqrt(len(differences))
    return differences.mean(axis=0), error


def table(measured: Sequence[Measured]) -> Iterator[str]:
    """Print a line for each prior and policy."""
    widths = "".join(f"{f'first {n}':>9}" for n in HORIZONS)
    gains = "".join(f"{f'gain, first {n}':>18}" for n in HORIZONS)
    yield f"{'prior':22}{'kinds':>6}  {'policy':12}{widths}{gains}"
    for key in measured[0].revenue:
        prior, policy = key
        mean = np.mean([one.revenue[key] for one in measured], axis=0)
        kinds = f"{_kinds(measured, prior):.1f}" if prior else ""
        line = f"{prior:22}{kinds:>6}  {policy:12}" + "".join(f"{x:9.2f}" for x in mean)
        if prior != BASE:
            pairs = zip(*gain(measured, key), strict=True)
            line += "".join(f"{f'{x:+.2f} ± {e:.2f}':>18}" for x, e in pairs)
        yield line.rstrip()
    best = np.mean([one.best for one in measured])
    yield f"the best offer of each customer: {best:.2f}"


def _kinds(measured: Sequence[Measured], prior: str) -> float:
    sizes: list[Mapping[str, int]] = [one.n_components for one in measured]
    return float(np.mean([size[prior] for size in sizes]))


# -- one huge order -------------------------------------------------------------------------------


def measure_order(
    seed: int, order: float, n_past: int = N_PAST, n_new: int = N_NEW
) -> dict[str, tuple[float, float, Array]]:
    """Learn three components from rewards as they are, with one huge order, and with it clipped.

    Returns
    -------
    dict
        For each of the three: the mean reward of the offer that had the order, its largest mean of
        a kind, and the revenue with ``MixIDS`` for each of ``HORIZONS``.
    """
    rng = stream(seed, "world")
    world = draw_world(rng)
    rows, arms, usual = past_rewards(draw_customers(world, n_past, rng), rng)
    bought = np.flatnonzero(usual > 0)
    place = bought[rng.integers(len(bought))]
    distorted = usual.copy()
    distorted[place] = order
    clipped = np.minimum(distorted, np.delete(usual, place).max())
    customers = draw_customers(world, n_new, rng)
    found = {}
    versions = {"as they are": usual, "one order": distorted, "order clipped": clipped}
    for name, rewards in versions.items():
        spends = SpendStatistics.empty((N_ARMS,), n_past)
        spends.observe(rows, spends.observations(arms, rewards))
        prior = mixts.learn_prior(spends, N_KINDS, seed=seed, **LEARNING)
        means = prior.family.parameter_means()[:, arms[place]]
        agent = mixts.MixIDS(prior, n_tasks=n_new, seed=seed)
        revenue = play(agent, customers, stream(seed, "luck")).mean(axis=0)
        found[name] = (float(prior.weights @ means), float(means.max()), revenue)
    return found


def order_table(measured: Sequence[dict[str, tuple[float, float, Array]]]) -> Iterator[str]:
    """Print a line for each version of the rewards, with means over worlds."""
    widths = "".join(f"{f'first {n}':>9}" for n in HORIZONS)
    yield f"{'rewards':14}{'mean of the offer':>18}{'of a kind, at most':>20}{widths}"
    for name in measured[0]:
        mean, most = np.mean([one[name][:2] for one in measured], axis=0)
        revenue = np.mean([one[name][2] for one in measured], axis=0)
        yield f"{name:14}{mean:18.2f}{most:20.2f}" + "".join(f"{x:9.2f}" for x in revenue)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m studies.spend", description=__doc__)
    parser.add_argument("--worlds", type=int, default=6, help="worlds, at least 2")
    parser.add_argument("--past", type=int, default=N_PAST, help="past customers of a world")
    parser.add_argument("--new", type=int, default=N_NEW, help="new customers of a world")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--order", type=float, metavar="SIZE", help="show what one past order of this size does"
    )
    options = parser.parse_args(arguments)
    if options.worlds < 2:
        parser.error(f"--worlds must be at least 2 for standard errors, got {options.worlds}")
    sizes = (options.past, options.new)
    seeds = [options.seed + world for world in range(options.worlds)]
    if options.order is not None:
        orders = [measure_order(seed, options.order, *sizes) for seed in seeds]
        print("\n".join(order_table(orders)))
        return
    print("\n".join(table([measure(seed, *sizes) for seed in seeds])))


if __name__ == "__main__":
    main()
