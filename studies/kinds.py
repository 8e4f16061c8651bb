"""Rules for the number of kinds, compared by evidence and reward: ``python -m studies.kinds``.

Every panel has a pair of training sets from one source, and tasks to test on. Three rules, and four
components for comparison, make a prior of each training set. The tables show the evidence of the
test tasks, and the rewards of agents that start from these priors.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, get_args

import numpy as np
from scipy import special

import mixts
from mixts.families import BernoulliStatistics, Statistics
from mixts.learning import Rule, learn, mixture_evidence
from studies._shared import Array, stream
from studies.coldstart.movielens.ratings import Ratings, parse, read_files

RULES: tuple[Rule, ...] = get_args(Rule)
FOUR = "4 components"
HORIZONS = (5, 10, 20)
"""Numbers of first decisions whose mean reward is reported."""
N_ARMS = 8
SIZES = ((60, 10), (150, 20), (400, 10))
"""Tasks and rows per task of the synthetic logs."""
N_SYNTHETIC = 300
"""Synthetic tasks to test on."""
N_FEATURES, NOISE = 4, 1.0
"""Features of the synthetic actions, and standard deviation of their rewards."""
MOST_USERS = 200
"""Largest number of users to test on."""
LIKED = 4.0
"""Least rating of a film that a user likes."""
N_FILMS, FEWEST_FILMS = 100, 25
"""Number of films, the most rated, and how many of them a user must have rated."""
FEWEST_OF_GENRE = 5
"""Ratings of a genre that a user needs, so that an agent may choose the genre for this user."""
N_RATED = 20
"""Ratings of a training user in the panel of genres."""


@dataclass(frozen=True)
class Tasks:
    """Tasks to test on: their histories, and the rewards that agents find."""

    statistics: Statistics
    chance: Array
    """Probability of reward 1, or the mean reward of an action with features, by task and arm."""
    offered: Array
    """Which arms a task offers."""
    once: bool = False
    """Whether a task offers an arm only once."""
    features: Array | None = None
    """Features of the arms, if the prior is about features."""


@dataclass(frozen=True)
class Panel:
    """A pair of training sets from one source, and tasks to test on."""

    training: tuple[Statistics, Statistics]
    tests: Tasks


Maker = Callable[[np.random.Generator], Panel]


# -- panels ---------------------------------------------------------------------------------------


def synthetic_panel(
    n_kinds: int, n_tasks: int, n_rows: int, rng: np.random.Generator, n_tests: int = N_SYNTHETIC
) -> Panel:
    """Draw tasks from a mixture of this many kinds, whose tasks differ moderately."""
    mean = rng.beta(1.5, 1.5, size=(n_kinds, N_ARMS))
    family = mixts.BernoulliArms(8 * mean + 0.05, 8 * (1 - mean) + 0.05)
    truth = mixts.MixturePrior(family, rng.dirichlet(np.full(n_kinds, 3.0)))

    def drawn(n: int) -> tuple[Statistics, Array]:
        _, chance = truth.draw(rng, n)
        tasks, belief = np.repeat(np.arange(n), n_rows), truth.belief(n_tasks=n)
        arms = rng.integers(N_ARMS, size=len(tasks))
        belief.update(arms, rng.random(len(tasks)) < chance[tasks, arms], tasks)
        return belief.statistics, chance

    tests, chance = drawn(n_tests)
    pair = (drawn(n_tasks)[0], drawn(n_tasks)[0])
    return Panel(pair, Tasks(tests, chance, np.ones(chance.shape, bool)))


def linear_panel(
    n_kinds: int, n_tasks: int, n_rows: int, rng: np.random.Generator, n_tests: int = N_SYNTHETIC
) -> Panel:
    """Draw tasks whose rewards are linear in features; kinds differ more than their tasks do."""
    mean = rng.normal(size=(n_kinds, N_FEATURES))
    family = mixts.LinearGaussian(mean, np.full(n_kinds, 0.1), NOISE, "spherical")
    truth = mixts.MixturePrior(family, rng.dirichlet(np.full(n_kinds, 3.0)))

    def drawn(n: int) -> tuple[Statistics, Array]:
        _, coefficients = truth.draw(rng, n)
        tasks, belief = np.repeat(np.arange(n), n_rows), truth.belief(n_tasks=n)
        rows = rng.normal(size=(len(tasks), N_FEATURES))
        noise = NOISE * rng.normal(size=len(tasks))
        belief.update(rows, (rows * coefficients[tasks]).sum(axis=1) + noise, tasks)
        return belief.statistics, coefficients

    tests, coefficients = drawn(n_tests)
    features = rng.normal(size=(N_ARMS, N_FEATURES))
    reward = coefficients @ features.T
    pair = (drawn(n_tasks)[0], drawn(n_tasks)[0])
    return Panel(pair, Tasks(tests, reward, np.ones(reward.shape, bool), features=features))


def genre_panel(ratings: Ratings, n_tasks: int, rng: np.random.Generator) -> Panel:
    """Make users the tasks and genres the arms; a rating is a row for each genre of the film."""
    rated = rng.permutation(len(ratings.users))
    rated = rated[np.argsort(ratings.users[rated], kind="stable")]
    users = ratings.users[rated]
    rank = np.arange(len(users)) - np.searchsorted(users, users)
    full = _counts(ratings, rated)
    few = _counts(ratings, rated[rank < N_RATED])
    first, second, test = _parts(rng, np.arange(ratings.n_users), n_tasks)
    n = full.sum(axis=2)[test]
    chance = full[test, :, 0] / np.maximum(n, 1)
    offered = n >= FEWEST_OF_GENRE
    tests = Tasks(_statistics(few[test]), chance, offered)
    return Panel((_statistics(few[first]), _statistics(few[second])), tests)


def _counts(ratings: Ratings, rows: Array) -> Array:
    """Count liked and other films by user and genre, (users, genres, 2)."""
    found = np.zeros((ratings.n_users, len(ratings.genre_names), 2), np.int64)
    liked = ratings.ratings[rows] >= LIKED
    for column, chosen in enumerate((liked, ~liked)):
        some = rows[chosen]
        np.add.at(found[:, :, column], ratings.users[some], ratings.genres[ratings.films[some]])
    return found


def film_panel(ratings: Ratings, n_tasks: int, rng: np.random.Generator) -> Panel:
    """Make users the tasks and the most rated films the arms; a user is offered a film once."""
    most = np.argsort(-np.bincount(ratings.films), kind="stable")[:N_FILMS]
    place = np.full(ratings.n_films, -1)
    place[most] = np.arange(len(most))
    rows = np.flatnonzero(place[ratings.films] >= 0)
    counts = np.zeros((ratings.n_users, len(most), 2), np.int64)
    liked = (ratings.ratings[rows] < LIKED).astype(np.int64)
    counts[ratings.users[rows], place[ratings.films[rows]], liked] = 1
    busy = np.flatnonzero(counts.sum(axis=(1, 2)) >= FEWEST_FILMS)
    first, second, test = _parts(rng, busy, n_tasks)
    offered = counts[test].sum(axis=2) > 0
    tests = Tasks(_statistics(counts[test]), counts[test, :, 0].astype(float), offered, once=True)
    return Panel((_statistics(counts[first]), _statistics(counts[second])), tests)


def _statistics(counts: Array) -> BernoulliStatistics:
    return BernoulliStatistics(successes=counts[:, :, 0], failures=counts[:, :, 1])


def _parts(rng: np.random.Generator, users: Array, n_tasks: int) -> list[Array]:
    """Return two training sets of users, and other users to test on."""
    ends = np.cumsum([n_tasks, n_tasks, MOST_USERS])
    return np.split(rng.permutation(users), ends)[:3]


# -- measurements ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Measured:
    """Numbers of one rule and one training set."""

    n_components: int
    evidence: float
    """Mean log evidence of a test task."""
    rewards: dict[str, Array]
    """By policy: mean reward of the first decisions, for each of ``HORIZONS``."""


def measure(panel: Panel, seed: int) -> list[dict[str, Measured]]:
    """Measure all rules, and four components, on both training sets of a panel."""
    found = []
    for training in panel.training:
        learned = learn(training, "auto", seed=seed, engine=1)
        assert learned.selection is not None
        priors: dict[str, mixts.MixturePrior] = {}
        for rule in RULES:
            selection = learned.selection.by(rule)
            same = rule == learned.selection.rule
            priors[rule] = (
                learned.prior if same else learn(training, selection, seed=seed, engine=1).prior
            )
        priors[FOUR] = learn(training, 4, seed=seed, engine=1).prior
        uniform = stream(seed, "rewards").random((max(HORIZONS), len(panel.tests.chance)))
        bestseller = play(
            _Bestseller(panel.tests, training, learned.unimodal), panel.tests, uniform
        )
        rows = {}
        for name, prior in priors.items():
            n = len(panel.tests.chance)
            rewards = {
                policy.__name__: play(policy(prior, n_tasks=n, seed=seed), panel.tests, uniform)
                for policy in (mixts.MixIDS, mixts.Greedy)
            }
            evidence = float(mixture_evidence(prior, panel.tests.statistics).mean())
            gains = {name: reward - bestseller for name, reward in rewards.items()}
            rows[name] = Measured(prior.n_components, evidence, gains)
        found.append(rows)
    return found


class _Bestseller:
    """The arm with the highest mean reward in the training rows, two rewards of 1/2 added.

    With features, it is the action with the highest mean under one component.
    """

    def __init__(self, tests: Tasks, training: Any, one: Any) -> None:
        if tests.features is not None:
            self.score = tests.features @ one.family.mean[0]
            return
        liked, other = (part.sum(axis=0) for part in (training.successes, training.failures))
        self.score = (liked + 1) / (liked + other + 2)

    def act(self, actions: Array | None = None, *, mask: Array) -> Array:
        return np.argmax(np.where(mask, self.score, -np.inf), axis=1)

    def update(self, arms: Array, rewards: Array) -> None:
        """Ignore what happens."""


def play(agent: Any, tests: Tasks, uniform: Array) -> Array:
    """Return the mean reward of the first decisions; the chances are the same for all agents."""
    every, offered = np.arange(len(tests.chance)), tests.offered.copy()
    rewards = np.zeros(len(uniform))
    for t, draw in enumerate(uniform):
        if tests.features is None:
            arms = agent.act(mask=offered)
            reward = (draw < tests.chance[every, arms]).astype(int)
            agent.update(arms, reward)
        else:
            arms = agent.act(tests.features, mask=offered)
            reward = tests.chance[every, arms] + NOISE * special.ndtri(draw)
            agent.update(tests.features[arms], reward)
        rewards[t] = reward.mean()
        if tests.once:
            offered[every, arms] = False
    return np.array([rewards[:n].mean() for n in HORIZONS])


# -- tables ---------------------------------------------------------------------------------------


def table(measured: Sequence[Sequence[dict[str, Measured]]]) -> Iterator[str]:
    """Print one line for each rule; differences are from the rule of one standard error.

    ``measured`` has the two training sets of each repeat.
    """
    yield (
        f"  {'rule':19} {'kinds':>13}  {'evidence':>8}  {'gain':>15}  {'halves':>6}"
        f"  {'IDS 5':>6} {'10':>6} {'20':>6}  {'greedy 5':>8} {'10':>6} {'20':>6}"
    )
    base = np.array([[one["one-standard-error"].evidence for one in pair] for pair in measured])
    for rule in (*RULES, FOUR):
        rows = [[one[rule] for one in pair] for pair in measured]
        kinds = np.array([one.n_components for pair in rows for one in pair])
        evidence = np.array([[one.evidence for one in pair] for pair in rows])
        gain = (evidence - base).mean(axis=1)
        error = gain.std(ddof=1) / np.sqrt(len(gain)) if len(gain) > 1 else np.nan
        rewards = {
            policy: np.mean([one.rewards[policy] for pair in rows for one in pair], axis=0)
            for policy in ("MixIDS", "Greedy")
        }
        numbers = "  ".join(
            " ".join(f"{value:+{width}.3f}" for width, value in zip(widths, values, strict=True))
            for widths, values in zip(((6, 6, 6), (8, 6, 6)), rewards.values(), strict=True)
        )
        apart = np.abs(evidence[:, 0] - evidence[:, 1]).mean()
        spread = f"{kinds.min()}-{kinds.max()}"
        yield (
            f"  {rule:19} {kinds.mean():5.1f} {f'({spread})':>7}  {evidence.mean():8.3f}"
            f"  {gain.mean():+7.4f} ±{error:6.4f}  {apart:6.3f}  {numbers}"
        )


def panels(movielens: str | None) -> Iterator[tuple[str, Maker]]:
    """Name all panels."""
    for n_tasks, n_rows in SIZES:
        for n_kinds in range(1, 6):
            kinds = "1 kind" if n_kinds == 1 else f"{n_kinds} kinds"
            name = f"synthetic, {kinds}, {n_tasks} tasks, {n_rows} rows a task"
            yield name, partial(synthetic_panel, n_kinds, n_tasks, n_rows)
    for n_tasks, n_rows in SIZES:
        name = f"features, 2 kinds, {n_tasks} tasks, {n_rows} rows a task"
        yield name, partial(linear_panel, 2, n_tasks, n_rows)
    if movielens is not None:
        ratings = parse(read_files(movielens))
        for n_tasks in (75, 200):
            yield f"MovieLens genres, {n_tasks} users", partial(genre_panel, ratings, n_tasks)
        for n_tasks in (50, 90):
            yield f"MovieLens films, {n_tasks} users", partial(film_panel, ratings, n_tasks)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a table for each panel."""
    parser = argparse.ArgumentParser(prog="python -m studies.kinds", description=__doc__)
    parser.add_argument("--movielens", metavar="PATH", help="folder or zip of ml-latest-small")
    parser.add_argument(
        "--only", default="", metavar="TEXT", help="panels whose name has this text"
    )
    parser.add_argument("--repeats", type=int, default=5, help="pairs of training sets of a panel")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    for name, make in panels(options.movielens):
        if options.only in name:
            print(name, flush=True)
            measured = [
                measure(make(stream(options.seed, name, r)), options.seed + r)
                for r in range(options.repeats)
            ]
            print("\n".join(table(measured)), flush=True)


if __name__ == "__main__":
    main()
