"""Ten new items in a live system: how much of the traffic do they take, and what does it cost?

A catalogue of twenty items has a learned prior. Ten items are added, as good as the others on
average, and nobody has seen them yet. The study plays the first decisions of new tasks with four
priors for the new items, by Thompson sampling and by information-directed sampling (the default of
the service), and prints the share of traffic that the new items take:

    python -m mixts_paper.studies.new_items --out new_items.png
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import mixts
from mixts.plots import draw_lines, new_panels

N_OLD, N_NEW = 20, 10
LEVEL = np.array([0.03, 0.10])
"""Mean reward of an item for each kind of user."""
SPREAD = 0.4
"""Standard deviation of the logarithms of the items' means."""
TOTAL = 60.0
"""Users of a kind vary as Beta distributions with this sum of parameters."""
LEAST, MOST = 0.02, 0.05
"""Limits on the traffic of new items."""
TRUE = "true values"
POLICIES = {"Thompson sampling": mixts.MixTS, "IDS": mixts.MixIDS}


@dataclass(frozen=True)
class Course:
    """Share of traffic of the new items, and reward, by decision; averages over worlds."""

    share: np.ndarray
    reward: np.ndarray


def catalogue(rng: np.random.Generator) -> mixts.MixturePrior:
    """Draw a world: the true prior of all items, the new ones last."""
    level = LEVEL[:, None] * np.exp(SPREAD * rng.standard_normal((2, N_OLD + N_NEW)))
    mean = np.minimum(level, 0.5)
    return mixts.MixturePrior(mixts.BernoulliArms(mean * TOTAL, (1 - mean) * TOTAL), [0.6, 0.4])


def learned(world: mixts.MixturePrior, n_tasks: int, rng: np.random.Generator) -> Any:
    """Learn a prior of the old items from logs in which each user saw each item a few times."""
    _, theta = world.draw(rng, n_tasks)
    pulls = rng.poisson(4.0, (n_tasks, N_OLD))
    won = rng.binomial(pulls, theta[:, :N_OLD])
    tasks = mixts.families.BernoulliStatistics(successes=won, failures=pulls - won)
    return mixts.learn_prior(tasks, 2, seed=1, n_restarts=2, engine=1)


def priors(world: mixts.MixturePrior, old: mixts.MixturePrior) -> dict[str, Any]:
    """Return a prior of all items for each curve, and the limits on new items."""
    ones = np.ones((old.n_components, N_NEW))
    new = old.add_arms(N_NEW)
    return {
        TRUE: (world, None),
        "Beta(1, 1)": (old.with_arms(mixts.BernoulliArms(ones, ones)), None),
        "arm_prior": (new, None),
        f"arm_prior, {LEAST:.0%} to {MOST:.0%}": (new, (LEAST, MOST)),
    }


def play(world: mixts.MixturePrior, agent: Any, limit: Any, n_rounds: int, seed: int) -> Course:
    """Play the first decisions of new tasks; all agents meet the same users."""
    rng, n_tasks = np.random.default_rng(seed), agent.n_tasks
    _, theta = world.draw(rng, n_tasks)
    rows = np.arange(n_tasks)
    share, reward = np.empty(n_rounds), np.empty(n_rounds)
    for t in range(n_rounds):
        taken, law, _ = agent.act_with_probabilities(new_share=limit)
        agent.update(taken, (rng.random(n_tasks) < theta[rows, taken]).astype(float))
        share[t] = law[:, N_OLD:].sum(axis=1).mean()
        reward[t] = theta[rows, taken].mean()
    return Course(share, reward)


def show_bestseller(
    world: mixts.MixturePrior, old: mixts.MixturePrior, n_tasks: int, n_rounds: int, seed: int
) -> Course:
    """Show the old item with the highest mean under the learned prior, always."""
    _, theta = world.draw(np.random.default_rng(seed), n_tasks)
    best = int(np.argmax(old.belief().mean_rewards()))
    return Course(np.zeros(n_rounds), np.full(n_rounds, theta[:, best].mean()))


def study(
    n_worlds: int, n_tasks: int, n_rounds: int, seed: int = 1
) -> dict[tuple[str, str], Course]:
    """Return the average course over worlds, by policy and prior of the new items."""
    found: dict[tuple[str, str], list[Course]] = {}
    for number in range(n_worlds):
        rng = np.random.default_rng([seed, number])
        world = catalogue(rng)
        old = learned(world, 1000, rng)
        course = show_bestseller(world, old, n_tasks, n_rounds, number)
        found.setdefault(("bestseller", "no traffic"), []).append(course)
        for policy, agent in POLICIES.items():
            for name, (prior, limit) in priors(world, old).items():
                player = agent(prior, n_tasks=n_tasks, seed=number)
                course = play(world, player, limit, n_rounds, number)
                found.setdefault((policy, name), []).append(course)
    return {
        key: Course(
            np.mean([c.share for c in courses], axis=0),
            np.mean([c.reward for c in courses], axis=0),
        )
        for key, courses in found.items()
    }


def draw(courses: Mapping[tuple[str, str], Course], path: Path) -> None:
    """Draw the share of traffic by decision, one panel for each policy."""
    panels = new_panels(len(POLICIES), height=2.7, titles=list(POLICIES))
    for policy, axes in zip(POLICIES, panels, strict=True):
        mine = [(name, course) for (played, name), course in courses.items() if played == policy]
        lines = {name: course.share for name, course in mine}
        x = np.arange(1.0, len(lines[TRUE]) + 1)
        draw_lines(axes, x, lines, "decision of a task", "traffic of the ten new items")
        axes.set_ylim(0, 1)
    panels[0].figure.savefig(path, dpi=150)


def main(arguments: list[str] | None = None) -> None:
    """Print the table, and draw the figure if a path is given."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--worlds", type=int, default=10)
    parser.add_argument("--tasks", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--out", type=Path, help="picture to write")
    options = parser.parse_args(arguments)
    courses = study(options.worlds, options.tasks, options.rounds)
    columns = f"{'first decision':>16}{'all decisions':>16}{'mean reward':>14}"
    print(f"{'policy':<20}{'new items have':<22}{columns}")
    for (policy, name), course in courses.items():
        row = f"{course.share[0]:>16.1%}{course.share.mean():>16.1%}{course.reward.mean():>14.4f}"
        print(f"{policy:<20}{name:<22}{row}")
    if options.out:
        draw(courses, options.out)


if __name__ == "__main__":
    main()
