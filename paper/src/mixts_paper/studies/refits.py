"""Does a service that learns from its own decisions get better? Seven worlds with known truth.

A prior is learned from past logs of random choices. A service decides for live tasks with it, by
information-directed sampling, its default. Then the next prior is learned, in three ways:

- *service log alone*: what the service logged, as if nothing had been known before;
- *from the old prior*: what the service logged, beginning with the old prior and its tasks,
  ``mixts fit --from``;
- *all logs*: past logs and the service's log together, learned anew.

The study plays the first decisions of fresh tasks with each prior, all on the same tasks:

    python -m mixts_paper.studies.refits
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

import mixts
from mixts.extend import Array, Estimate, estimate, random
from mixts.families import Statistics
from mixts.learning import refit_prior


@dataclass(frozen=True)
class World:
    """Tasks with known truth, and how many of them there are."""

    truth: mixts.MixturePrior
    actions: Callable[[np.random.Generator, int], Array] | None = None
    n_past: int = 200
    past_decisions: int = 20
    n_live: int = 500
    live_decisions: int = 15
    n_fresh: int = 1000
    fresh_decisions: int = 10
    n_components: int | Literal["auto"] = "auto"
    """Number of kinds; given where choosing it would take minutes."""


def _kinds(seed: int, n_kinds: int, n_arms: int, low: float, high: float) -> Array:
    """Draw the mean rewards of arms: each kind likes some arms and dislikes others."""
    rng = random.stream(seed, "kinds")
    return low + (high - low) * rng.beta(0.6, 1.4, (n_kinds, n_arms))


def _clicks(n_arms: int, high: float, n_past: int = 200) -> World:
    mean = _kinds(n_arms, 3, n_arms, 0.02, high)
    family = mixts.BernoulliArms(15 * mean, 15 * (1 - mean))
    return World(mixts.MixturePrior(family, [0.5, 0.3, 0.2]), n_past=n_past)


def _ratings() -> World:
    mean = _kinds(3, 3, 8, -3.0, 3.0)
    return World(mixts.MixturePrior(mixts.GaussianArms(mean, np.full(mean.shape, 0.5), 1.5)))


def _counts() -> World:
    mean = _kinds(4, 3, 8, 0.2, 4.0)
    return World(mixts.MixturePrior(mixts.PoissonArms(6 * mean, np.full(mean.shape, 6.0))))


def _spend() -> World:
    rate, spend = _kinds(5, 2, 6, 0.05, 0.6), 1.5 + _kinds(6, 2, 6, 0.0, 1.5)
    rest = (np.full(rate.shape, x) for x in (8.0, 4.0, 1.5))
    family = mixts.SpendArms(20 * rate, 20 * (1 - rate), spend, *rest)
    return World(mixts.MixturePrior(family), n_components=2)


def _rows(rng: np.random.Generator, n_tasks: int) -> Array:
    """Draw ten actions with an intercept and four features for each task."""
    rows = rng.standard_normal((n_tasks, 10, 5))
    rows[:, :, 0] = 1.0
    return rows


def _coefficients() -> tuple[Array, Array]:
    rng = random.stream(7, "coefficients")
    mean = rng.standard_normal((3, 5))
    return mean, np.broadcast_to(0.15 * np.eye(5), (3, 5, 5))


def _linear() -> World:
    family = mixts.LinearGaussian(*_coefficients(), 1.0)
    return World(mixts.MixturePrior(family), _rows, n_components=3)


def _logistic() -> World:
    mean, covariance = _coefficients()
    mean = mean - [1.5, 0, 0, 0, 0]
    family = mixts.LinearBernoulli(mean, covariance)
    return World(mixts.MixturePrior(family), _rows, n_past=150, n_components=3)


WORLDS: dict[str, Callable[[], World]] = {
    "clicks, 5 arms": lambda: _clicks(5, 0.6),
    "clicks, 40 arms": lambda: _clicks(40, 0.5, n_past=500),
    "ratings": _ratings,
    "counts": _counts,
    "spend": _spend,
    "linear": _linear,
    "clicks with features": _logistic,
}


@dataclass(frozen=True)
class Played:
    """Tasks that were played: what was seen of each, and the mean of its true mean rewards."""

    statistics: Statistics
    reward: Array


def play(
    world: World, prior: mixts.MixturePrior | None, n_tasks: int, n_decisions: int, seed: int
) -> Played:
    """Play tasks by information-directed sampling with a prior, or at random without one.

    The same seed gives the same tasks.
    """
    environment = mixts.BanditEnvironment(world.truth, world.actions)
    problem = environment.start(lambda name: random.stream(seed, name), n_tasks)
    agent = mixts.MixIDS(prior or world.truth, n_tasks, seed=seed)
    rng, reward = random.stream(seed, "choices"), np.zeros(n_tasks)
    for _ in range(n_decisions):
        actions = problem.next_round().actions
        if prior is None:
            chosen = rng.integers(problem.means.shape[1], size=n_tasks)
        else:
            chosen = agent.act(actions)
        outcome = problem.play(chosen)
        agent.belief.update(*outcome.feedback)
        reward += outcome.values
    return Played(agent.belief.statistics, reward / n_decisions)


@dataclass(frozen=True)
class Loop:
    """One turn of the loop: the old prior, one learned from live tasks alone, and a refitted one.

    It keeps the statistics of past and of live tasks, to learn a prior from both.
    """

    old: mixts.MixturePrior
    past: Statistics
    live: Statistics
    alone: mixts.MixturePrior
    refitted: mixts.MixturePrior

    @classmethod
    def of(cls, world: World, seed: int) -> Loop:
        """Learn from past logs, serve live tasks, and learn again."""
        past = play(world, None, world.n_past, world.past_decisions, 3 * seed).statistics
        old = learn(world, past)
        live = play(world, old, world.n_live, world.live_decisions, 3 * seed + 1).statistics
        return cls(old, past, live, learn(world, live), refit_prior(old, live))


def learn(world: World, tasks: Statistics) -> mixts.MixturePrior:
    """Learn a prior from these tasks alone."""
    return mixts.learn_prior(tasks, world.n_components, seed=1, n_restarts=2, engine=1)


def gain(world: World, new: mixts.MixturePrior, old: mixts.MixturePrior, seed: int) -> Estimate:
    """Return how much more a first decision of fresh tasks earns with the new prior."""
    rewards = [
        play(world, prior, world.n_fresh, world.fresh_decisions, 3 * seed + 2).reward
        for prior in (new, old)
    ]
    return estimate(rewards[0] - rewards[1])


def main() -> None:
    """Run all worlds, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3, help="loops of each world (default 3)")
    options = parser.parse_args()
    ways = ("service log alone", "from the old prior", "all logs")
    print(f"| reward of a decision | old prior | {' | '.join(ways)} |\n|---|---|---|---|---|")
    for name, make in WORLDS.items():
        world, rows, first = make(), [], []
        for seed in range(1, options.seeds + 1):
            loop = Loop.of(world, seed)
            both = learn(world, loop.past.concatenate(loop.live))
            gains = [gain(world, new, loop.old, seed) for new in (loop.alone, loop.refitted, both)]
            rows.append(gains)
            fresh = play(world, loop.old, world.n_fresh, world.fresh_decisions, 3 * seed + 2)
            first.append(fresh.reward.mean())
        cells = []
        for way in zip(*rows, strict=True):
            mean = np.mean([one.mean for one in way])
            error = np.sqrt(np.sum([one.error**2 for one in way])) / len(way)
            cells.append(f"{mean:+.3f} ± {error:.3f}")
        print(f"| {name} | {np.mean(first):.3f} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
