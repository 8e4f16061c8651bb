"""Clicks with features: what the logistic family is worth: ``python -m studies.clicks``.

``simulate`` draws three kinds of user, who click by a logistic function of an offer's features.
Priors are learned from past users, who saw random offers. Agents that start from these priors meet
new users: all agents see the same offers with the same luck. The data are simulated: this says what
the family is good for if clicks are such, not that real clicks are such.

``movielens FOLDER`` reads ratings.csv and movies.csv of a MovieLens data set. A click is a rating
of 4 or more, and the features are the film's genres. Priors are learned from most users, and
predict the first ratings of the others one after the other.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

import mixts
from mixts.families import LinearBernoulliStatistics
from studies._shared import Array, stream

N_KINDS, N_FEATURES, N_OFFERS = 3, 5, 10
"""Kinds of user, features of an offer (the first is always 1), and offers of a decision."""
N_PAST_ROWS = 50
"""Decisions of a past user."""
RATES = (0.02, 0.06, 0.5)
LOGISTIC, LINEAR, ONE = "logistic", "linear", "logistic, one kind"
BESTSELLER, PEER = "bestseller", "bayesianbandits"
LEARNING: dict[str, Any] = {"n_restarts": 3, "engine": 1}
CLIPPED = 1e-3
"""A linear prediction below this, or above one minus this, counts as this."""


def logistic(x: Array) -> Array:
    """Return 1 / (1 + exp(-x))."""
    return 0.5 * (1 + np.tanh(0.5 * x))


# -- simulated users ------------------------------------------------------------------------------


def draw_users(world: mixts.MixturePrior, n: int, rng: np.random.Generator) -> Array:
    """Return the coefficients of users."""
    return world.draw(rng, n)[1]


def draw_world(rate: float, rng: np.random.Generator) -> mixts.MixturePrior:
    """Draw three kinds of user who click on random offers at about this rate."""
    mean = rng.normal(0, 1, (N_KINDS, N_FEATURES))
    offers = draw_offers(4000, rng)
    # The base level at which the mean rate over kinds and offers is the one asked for.
    low, high = -20.0, 20.0
    for _ in range(60):
        mean[:, 0] = (low + high) / 2
        found = logistic(offers @ mean.T).mean()
        low, high = (mean[0, 0], high) if found < rate else (low, mean[0, 0])
    weights = rng.dirichlet(np.full(N_KINDS, 5.0))
    return mixts.MixturePrior(
        mixts.LinearBernoulli(mean, np.full(N_KINDS, 0.1), "spherical"), weights
    )


def draw_offers(n: int, rng: np.random.Generator) -> Array:
    """Return the features of random offers."""
    return np.concatenate([np.ones((n, 1)), rng.normal(0, 1, (n, N_FEATURES - 1))], axis=1)


def learned(rows: Array, clicks: Array, users: Array, n: int, seed: int) -> dict[str, Any]:
    """Learn priors from the same clicks."""
    tables = LinearBernoulliStatistics.empty(rows.shape[1:], n)
    tables.observe(users, tables.observations(rows, clicks))
    return {
        LOGISTIC: mixts.learn_prior(tables, N_KINDS, seed=seed, **LEARNING),
        LINEAR: mixts.learn_prior(tables.to_linear(), N_KINDS, seed=seed, **LEARNING),
        ONE: mixts.learn_prior(tables, 1, seed=seed, **LEARNING),
    }


class Bestseller:
    """The offer that all past users together like best."""

    def __init__(self, prior: mixts.MixturePrior) -> None:
        self._mean = prior.weights @ prior.family.parameter_means()

    def act(self, offers: Array) -> Array:
        """Return the offer for each user."""
        return np.argmax(offers @ self._mean, axis=1)

    def update(self, rows: Array, clicks: Array) -> None:
        """Ignore the clicks."""


class Peer:
    """Thompson sampling with the logistic regression of bayesianbandits, for each user."""

    def __init__(self, n_users: int, seed: int) -> None:
        model = import_module("bayesianbandits").BayesianGLM  # an optional package
        self._models = [model(1.0, random_state=seed + i) for i in range(n_users)]

    def act(self, offers: Array) -> Array:
        """Return the offer for each user."""
        drawn = [model.sample(sets) for model, sets in zip(self._models, offers, strict=True)]
        return np.array([int(np.argmax(scores)) for scores in drawn])

    def update(self, rows: Array, clicks: Array) -> None:
        """Learn from a click or none of each user."""
        for model, row, click in zip(self._models, rows, clicks, strict=True):
            model.partial_fit(row[None], np.array([click]))


def play(agent: Any, users: Array, n_rounds: int, rng: np.random.Generator) -> Array:
    """Return the regret of each user: what the best offers' rates are above the chosen ones'."""
    regret, index = np.zeros(len(users)), np.arange(len(users))
    for _ in range(n_rounds):
        offers = draw_offers(len(users) * N_OFFERS, rng).reshape(len(users), N_OFFERS, -1)
        rates = logistic(np.einsum("nkd,nd->nk", offers, users))
        chosen = agent.act(offers)
        rate = rates[index, chosen]
        agent.update(offers[index, chosen], (rng.random(len(users)) < rate).astype(float))
        regret += rates.max(axis=1) - rate
    return regret


@dataclass(frozen=True)
class Sizes:
    """Numbers of past and new users, and of decisions of a new user."""

    past: int = 300
    new: int = 40
    rounds: int = 60


def measure(rate: float, seed: int, sizes: Sizes, peer: bool) -> dict[str, Array]:
    """Draw a world, learn all priors, and return the regret of each new user by agent."""
    rng = stream(seed, "clicks", f"{rate}")
    world = draw_world(rate, rng)
    past = draw_users(world, sizes.past, rng)
    owners = np.repeat(np.arange(sizes.past), N_PAST_ROWS)
    rows = draw_offers(len(owners), rng)
    clicks = rng.random(len(owners)) < logistic((rows * past[owners]).sum(axis=1))
    priors = learned(rows, clicks.astype(float), owners, sizes.past, seed)
    users = draw_users(world, sizes.new, rng)
    agents: dict[str, Any] = {
        f"{name}, {policy.__name__}": policy(prior, n_tasks=sizes.new, seed=seed)
        for name, prior in priors.items()
        for policy in (mixts.MixTS, mixts.MixIDS)
    }
    agents[BESTSELLER] = Bestseller(priors[ONE])
    if peer:
        agents[PEER] = Peer(sizes.new, seed)
    return {
        name: play(agent, users, sizes.rounds, stream(seed, "luck", f"{rate}"))
        for name, agent in agents.items()
    }


def regret_table(rate: float, worlds: Sequence[Mapping[str, Array]]) -> Iterator[str]:
    """Return a line for each agent: regret, and what MixTS with the logistic prior saves.

    Differences are paired by user. Worlds are independent, so that errors come from their means.
    """
    base = f"{LOGISTIC}, MixTS"
    yield f"click rate {rate:.0%}"
    yield f"  {'agent':28}{'regret':>16}{'more than ' + base:>32}"
    for name in worlds[0]:
        means = np.array([world[name].mean() for world in worlds])
        gaps = np.array([(world[name] - world[base]).mean() for world in worlds])
        line = f"  {name:28}{_pair(means):>16}"
        yield line + ("" if name == base else f"{_pair(gaps, '+'):>32}")


def _pair(values: Array, sign: str = "") -> str:
    error = values.std(ddof=1) / np.sqrt(len(values))
    return f"{values.mean():{sign}.2f} ± {error:.2f}"


# -- MovieLens ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ratings:
    """Ratings in the order of time: user, features of the film, and whether it was liked."""

    users: Array
    rows: Array
    clicks: Array
    names: tuple[str, ...]


def read_ratings(folder: Path) -> Ratings:
    """Read ratings.csv and movies.csv; the first feature is always 1."""
    with open(folder / "movies.csv", encoding="utf-8", newline="") as file:
        genres = {row["movieId"]: row["genres"].split("|") for row in csv.DictReader(file)}
    names = sorted({g for found in genres.values() for g in found} - {"(no genres listed)"})
    with open(folder / "ratings.csv", encoding="utf-8", newline="") as file:
        ratings = sorted(csv.DictReader(file), key=lambda row: int(row["timestamp"]))
    rows = np.array([[1.0, *(g in genres[r["movieId"]] for g in names)] for r in ratings])
    _, users = np.unique([int(r["userId"]) for r in ratings], return_inverse=True)
    clicks = np.array([float(float(r["rating"]) >= 4) for r in ratings])
    return Ratings(users, rows, clicks, ("intercept", *names))


def predictions(prior: mixts.MixturePrior, rows: Array, clicks: Array) -> Array:
    """Return the predicted rate of each rating given the user's earlier ones, (users, ratings)."""
    belief = prior.belief(len(rows))
    found = np.empty(clicks.shape)
    for t in range(clicks.shape[1]):
        found[:, t] = belief.mean_rewards(rows[:, t : t + 1])[:, 0]
        belief.update(rows[:, t], clicks[:, t])
    return found


def movielens(folder: Path, n_ratings: int, seed: int) -> Iterator[str]:
    """Learn from four fifths of the users, and predict the first ratings of the others."""
    ratings = read_ratings(folder)
    n = int(ratings.users.max()) + 1
    held = np.sort(stream(seed, "movielens").permutation(n)[: n // 5])
    trains = ~np.isin(ratings.users, held)
    _, owners = np.unique(ratings.users[trains], return_inverse=True)
    priors = learned(ratings.rows[trains], ratings.clicks[trains], owners, n - len(held), seed)
    first = np.stack([np.flatnonzero(ratings.users == user)[:n_ratings] for user in held])
    rows, clicks = ratings.rows[first], ratings.clicks[first]
    yield (
        f"{n - len(held)} users to learn from, {len(held)} held out with {n_ratings} ratings each, "
        f"{clicks.mean():.1%} of them 4 or more, {rows.shape[2]} features"
    )
    found = {name: predictions(prior, rows, clicks) for name, prior in priors.items()}
    outside = (found[LINEAR] <= 0) | (found[LINEAR] >= 1)
    yield f"linear predictions outside (0, 1): {outside.mean():.2%}, clipped to (0.001, 0.999)"
    scores = {name: _log_scores(rate, clicks).mean(axis=1) for name, rate in found.items()}
    yield f"  {'prior':20}{'log score a rating':>22}{'below logistic':>22}"
    for name, score in scores.items():
        gap = scores[LOGISTIC] - score
        yield f"  {name:20}{_score(score):>22}{'' if name == LOGISTIC else _score(gap):>22}"
    for name, rate in found.items():
        yield f"  {name}: predicted and liked, in ten classes"
        yield from _classes(np.clip(rate, CLIPPED, 1 - CLIPPED).ravel(), clicks.ravel())


def _log_scores(rate: Array, clicks: Array) -> Array:
    rate = np.clip(rate, CLIPPED, 1 - CLIPPED)
    return np.log(np.where(clicks > 0, rate, 1 - rate))


def _score(values: Array) -> str:
    return f"{values.mean():.4f} ± {values.std(ddof=1) / np.sqrt(len(values)):.4f}"


def _classes(rate: Array, clicks: Array) -> Iterator[str]:
    parts = np.array_split(np.argsort(rate, kind="stable"), 10)
    predicted = "".join(f"{100 * rate[part].mean():7.1f}" for part in parts)
    liked = "".join(f"{100 * clicks[part].mean():7.1f}" for part in parts)
    yield f"    predicted %{predicted}"
    yield f"    liked %    {liked}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="python -m studies.clicks", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    simulated = commands.add_parser("simulate", help="regret on simulated users")
    add = simulated.add_argument
    add("--rates", type=float, nargs="+", default=list(RATES), help="mean click rates")
    add("--worlds", type=int, default=8, help="worlds, at least 2")
    add("--past", type=int, default=Sizes.past, help="past users of a world")
    add("--new", type=int, default=Sizes.new, help="new users of a world")
    add("--rounds", type=int, default=Sizes.rounds, help="decisions of a new user")
    add("--peer", action="store_true", help="also play bayesianbandits, which must be installed")
    films = commands.add_parser("movielens", help="held-out predictions of ratings")
    films.add_argument("folder", type=Path, help="folder with ratings.csv and movies.csv")
    films.add_argument("--ratings", type=int, default=20, help="first ratings of a held-out user")
    for command in (simulated, films):
        command.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    if options.command == "movielens":
        for line in movielens(options.folder, options.ratings, options.seed):
            print(line, flush=True)
        return
    sizes = Sizes(options.past, options.new, options.rounds)
    for rate in options.rates:
        seeds = range(options.seed, options.seed + options.worlds)
        worlds = [measure(rate, seed, sizes, options.peer) for seed in seeds]
        for line in regret_table(rate, worlds):
            print(line, flush=True)


if __name__ == "__main__":
    main()
