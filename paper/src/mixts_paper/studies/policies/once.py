"""Items that a task takes at most once: jokes, articles, films."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

import mixts
from mixts.engines import engine_of
from mixts.extend import Array, random
from mixts.families import GaussianStatistics
from mixts.learning import one_blas_thread
from mixts.simulation import AgentSpec, simulate
from mixts_paper.studies.movielens.ratings import Ratings
from mixts_paper.studies.policies.agents import BESTSELLER, GREEDY, IDS, TS, UCB, bestseller
from mixts_paper.studies.policies.problems import Comparison, share

ROUNDS = (5, 20)
AGAIN = "{}, as if repeatable"
"""Name of a policy that takes an item's own variance for something to explore."""
N_FILMS = 300
"""Films of MovieLens that are arms: those with the most ratings."""
N_SPLITS = 5
"""Splits of the users; a fifth of them is held out in each."""
_LEAST_FILMS = 2 * ROUNDS[-1]
"""Rated films of a user who is replayed: with fewer, all policies end with the same films."""


def policies(prior: mixts.MixturePrior) -> dict[str, AgentSpec]:
    """Return the policies for items that are taken once, and two that do not know that."""
    again = mixts.MixturePrior(prior.family, prior.weights)
    return {
        BESTSELLER: bestseller(prior),
        GREEDY: partial(mixts.Greedy, prior),
        AGAIN.format(IDS): partial(mixts.MixIDS, again),
        AGAIN.format(TS): partial(mixts.MixTS, again),
        IDS: partial(mixts.MixIDS, prior),
        TS: partial(mixts.MixTS, prior),
        UCB: partial(mixts.BayesUCB, prior),
    }


# -- simulated items ------------------------------------------------------------------------------


def items_prior(n_kinds: int, seed: int) -> mixts.MixturePrior:
    """Return kinds of people who rate 60 items; people differ in a third of the items only."""
    rng = random.stream(seed, "once", n_kinds)
    popular, taste = 0.3 * rng.standard_normal(60), 0.5 * rng.standard_normal((n_kinds, 60))
    own = np.where(rng.random(60) < 1 / 3, 3.0, 0.3) ** 2
    family = mixts.GaussianArms(popular + taste, np.tile(own, (n_kinds, 1)), 0.5)
    return mixts.MixturePrior(family, repeatable=False)


def described_items(seed: int) -> tuple[mixts.MixturePrior, Array]:
    """Return 40 items with four features and an effect of their own, and kinds of people."""
    rng = random.stream(seed, "once", "described")
    n_items, d = 40, 4
    rows = np.hstack([rng.standard_normal((n_items, d)) / np.sqrt(d), np.eye(n_items)])
    mean = np.hstack([0.7 * rng.standard_normal((3, d)), np.zeros((3, n_items))])
    own = np.where(rng.random(n_items) < 1 / 3, 3.0, 0.3) ** 2
    variance = np.tile(np.append(np.full(d, 0.3**2), own), (3, 1))
    family = mixts.LinearGaussian(mean, variance, 0.5, "diag")
    return mixts.MixturePrior(family, repeatable=False), rows


def simulated(scale: float, seed: int, workers: int) -> Iterator[Comparison]:
    """Yield the rewards of policies on items whose truth is known."""
    described, rows = described_items(seed)
    for name, prior, actions, n_runs in (
        ("60 items, 3 kinds", items_prior(3, seed), None, 1000),
        ("60 items, 1 kind", items_prior(1, seed), None, 1000),
        ("40 items with features, 3 kinds", described, rows, 300),
    ):
        played = simulate(
            policies(prior), mixts.BanditEnvironment(prior, actions), ROUNDS[-1],
            share(scale, n_runs), seed, engine=workers,
        )  # fmt: skip
        yield Comparison(name, played.reward, ROUNDS, rewards=True)


# -- films ----------------------------------------------------------------------------------------


def films(ratings: Ratings, scale: float, seed: int, workers: int) -> Comparison:
    """Return the rewards of policies with new users of MovieLens, for whom films are arms."""
    jobs = [(ratings, n, seed) for n in range(share(scale, N_SPLITS))]
    with engine_of(workers) as engine:
        played = list(engine.map(play_users, jobs))
    users = [held_out for held_out, _ in played]
    splits = [np.full(len(held_out), split) for split, held_out in enumerate(users)]
    return Comparison(
        f"MovieLens, new users, {N_FILMS} films as arms",
        {name: np.concatenate([rewards[name] for _, rewards in played]) for name in played[0][1]},
        ROUNDS, rewards=True, clusters=(np.concatenate(users), np.concatenate(splits)),
    )  # fmt: skip


def play_users(ratings: Ratings, number: int, seed: int) -> tuple[Array, dict[str, Array]]:
    """Return the held-out users of a split, and the rewards of every policy with each of them."""
    count = np.bincount(ratings.films)
    kept = np.sort(np.argsort(-count, kind="stable")[:N_FILMS])
    arm = np.full(len(count), -1)
    arm[kept] = np.arange(len(kept))
    rated = arm[ratings.films] >= 0
    arms, values, people = arm[ratings.films[rated]], ratings.ratings[rated], ratings.users[rated]
    order = random.stream(seed, "once", "users", number).permutation(ratings.n_users)
    held = np.zeros(ratings.n_users, bool)
    held[order[: ratings.n_users // 5]] = True
    past = ~held[people]
    tasks = GaussianStatistics.empty((N_FILMS,), ratings.n_users)
    tasks.observe(people[past], (arms[past], values[past]))
    with one_blas_thread():
        prior = mixts.learn_prior(tasks[np.flatnonzero(~held)], 3, seed=number)
    return replayed(prior.replace(repeatable=False), arms[~past], values[~past], people[~past])


def replayed(
    prior: mixts.MixturePrior, arms: Array, values: Array, people: Array
) -> tuple[Array, dict[str, Array]]:
    """Play people with enough ratings: each film they rated is offered until it is taken."""
    users, counts = np.unique(people, return_counts=True)
    users = users[counts >= _LEAST_FILMS]
    row = np.searchsorted(users, people)
    known = np.isin(people, users)
    table = np.full((len(users), N_FILMS), np.nan)
    table[row[known], arms[known]] = values[known]
    rewards = {}
    every = np.arange(len(users))
    agents: dict[str, Any] = dict(policies(prior))
    for name, make in agents.items():
        agent, left = make(n_tasks=len(users), seed=1), ~np.isnan(table)
        got = np.empty((len(users), ROUNDS[-1]))
        for t in range(ROUNDS[-1]):
            chosen = agent.act(mask=left)
            got[:, t] = table[every, chosen]
            agent.update(chosen, got[:, t])
            left[every, chosen] = False
        rewards[name] = got
    return users, rewards
