"""Ways to act on one belief, measured on the same problems.

``python -m mixts_paper.studies.policies compare`` plays all policies on simulated problems and on
real data, ``once`` on items that a task takes at most once: jokes, articles, films. Both print
tables in Markdown.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import mixts
from mixts.engines import engine_of
from mixts.environments import ClassificationBandit, Environment
from mixts.errors import ParameterError
from mixts.extend import Array, random
from mixts.families import GaussianStatistics
from mixts.learning import one_blas_thread
from mixts.simulation import AgentSpec, Estimate, estimate, simulate
from mixts_paper.bounds.comparison import N_ERRORS
from mixts_paper.experiments.beyond import INFORMED, PLAIN, policies_of
from mixts_paper.experiments.beyond.policies import image_prior
from mixts_paper.experiments.features import ImageFeatures
from mixts_paper.experiments.paper.images import priors_of
from mixts_paper.studies import BESTSELLER, IDS, bestseller, exit_status
from mixts_paper.studies.movielens import clustered
from mixts_paper.studies.movielens.ratings import Ratings, parse, read_files
from mixts_paper.studies.movielens.splits import learn_mixture, play_held_out, split_users

GREEDY, TS = "Greedy", "MixTS"
_DESCRIPTION = """\
Measure policies on the same problems, and print tables in Markdown. compare: all policies, on
simulated problems and on real data. once: items that a task takes at most once."""


# -- comparisons -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Comparison:
    """Policies that played the same problems, round by round."""

    name: str
    values: Mapping[str, Array]
    """By policy: regret or reward of every round of every run, (n_runs, n_rounds)."""
    rounds: Sequence[int]
    """Numbers of first rounds to look at."""
    rewards: bool = False
    """Whether the values are rewards, averaged over rounds, and not regret, summed over rounds."""
    clusters: tuple[Array, Array] | None = None
    """Two groupings of runs that are not independent: users and splits."""

    def score(self, policy: str, n_rounds: int) -> Estimate:
        """Return the regret, or the mean reward, of the first rounds."""
        return self._mean(self._scores(policy, n_rounds))

    def gain(self, policy: str, rival: str, n_rounds: int) -> Estimate:
        """Return by how much a policy is better than a rival on the same problems."""
        gap = self._scores(policy, n_rounds) - self._scores(rival, n_rounds)
        return self._mean(gap if self.rewards else -gap)

    def _scores(self, policy: str, n_rounds: int) -> Array:
        first = self.values[policy][:, :n_rounds]
        return first.mean(axis=1) if self.rewards else first.sum(axis=1)

    def _mean(self, values: Array) -> Estimate:
        return estimate(values) if self.clusters is None else clustered(values, *self.clusters)

    def worse(self, policy: str, rival: str) -> list[str]:
        """Return where the policy is worse than the rival by more than two errors."""
        gains = {n: self.gain(policy, rival, n) for n in self.rounds}
        return [
            f"{policy} on {self.name}, {n} rounds ({_signed(gain, 3)})"
            for n, gain in gains.items()
            if gain.mean < -N_ERRORS * gain.error
        ]

    def table(self, rivals: Sequence[str], digits: int) -> str:
        """Return a table: the score of each policy, and how much better it is than the rivals.

        Differences are shown for two numbers of rounds: more columns would not fit on a page.
        """
        rounds = self.rounds
        compared = rounds if len(rounds) <= 2 else [n for n in rounds if n in (20, rounds[-1])]
        what = "reward per round" if self.rewards else "regret"
        head = ["policy", *(f"{what}, first {n}" for n in rounds)]
        head += [f"better than {rival}, {n}" for rival in rivals for n in compared]
        lines = [head, [":--", *("--:" for _ in head[1:])]]
        for policy in self.values:
            row = [policy]
            for n in rounds:
                mean, error = self.score(policy, n)
                row.append(f"{mean:.{digits}f} ± {error:.{digits}f}")
            for rival in rivals:
                row += [
                    "" if policy == rival else _signed(self.gain(policy, rival, n), digits)
                    for n in compared
                ]
            lines.append(row)
        return (
            f"**{self.name}**\n\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"
        )


def _signed(value: Estimate, digits: int) -> str:
    return f"{value.mean:+.{digits}f} ± {value.error:.{digits}f}".replace("-", "−")


def share(scale: float, full: int) -> int:
    """Return this share of a number of runs, and at least 2, which an error needs."""
    return max(2, round(scale * full))


# -- compare ---------------------------------------------------------------------------------------


def policies(prior: mixts.MixturePrior, n_rounds: int) -> dict[str, AgentSpec]:
    """Return the specs of all policies with one prior, for tasks of so many rounds."""
    return {BESTSELLER: bestseller(prior), **policies_of(prior, n_rounds, {**PLAIN, **INFORMED})}


@dataclass(frozen=True)
class SimulatedProblem:
    """An environment, and the prior that all policies have."""

    name: str
    prior: mixts.MixturePrior
    environment: Environment
    n_rounds: int
    n_runs: int
    real: bool = False
    """Whether real data decide the outcomes."""

    def play(self, seed: int, workers: int) -> Comparison:
        """Play all policies on the same problems."""
        results = simulate(
            policies(self.prior, self.n_rounds), self.environment, self.n_rounds, self.n_runs,
            seed, engine=workers,
        )  # fmt: skip
        rounds = [*(n for n in (5, 20, 100) if n < self.n_rounds), self.n_rounds]
        return Comparison(self.name, results.regret, rounds)


SHOP = np.array([
    [0.50, 0.10, 0.20, 0.05, 0.05], [0.10, 0.45, 0.20, 0.10, 0.05], [0.05, 0.05, 0.20, 0.30, 0.40],
])  # fmt: skip
"""Click rates in the first example of the README: three kinds of visitor, five banners."""


def shop_prior() -> mixts.MixturePrior:
    """Return the prior of the first example of the README."""
    return mixts.MixturePrior(mixts.BernoulliArms(20 * SHOP, 20 * (1 - SHOP)), [0.5, 0.3, 0.2])


def problems(images: ImageFeatures | None, scale: float, seed: int) -> Iterator[SimulatedProblem]:
    """Yield the shop, the digits, and other images if there are any."""
    prior = shop_prior()
    shop = mixts.BanditEnvironment(prior)
    yield SimulatedProblem("the shop of the README", prior, shop, 200, share(scale, 2000))
    data = {"scikit-learn's digits": (ImageFeatures.digits(), 200)}
    if images is not None:
        data[f"images of {images.n_classes} classes"] = (images, 100)
    for name, (one, n_runs) in data.items():
        prior, _ = priors_of(image_prior(one, seed))
        bandit = ClassificationBandit(one.test_features, one.test_labels)
        yield SimulatedProblem(name, prior, bandit, 500, share(scale, n_runs), real=True)


N_RATED_ROUNDS = 20
"""Rounds of a play with a user of MovieLens."""


def play_split(ratings: Ratings, number: int, seed: int) -> tuple[Array, dict[str, Array]]:
    """Return the held-out users of a split of the cold-start study, and the rewards with each."""
    with one_blas_thread():
        split = split_users(ratings, number, seed)
        agents = policies(learn_mixture(split.past, split.seed).prior, N_RATED_ROUNDS)
        played = play_held_out(ratings, split, agents, N_RATED_ROUNDS)
    return split.held_out, {name: reward for name, (reward, _) in played.items()}


def of_splits(
    name: str, play: Callable[..., Any], ratings: Ratings, n_splits: int, seed: int, workers: int
) -> Comparison:
    """Play the held-out users of several splits of MovieLens."""
    with engine_of(workers) as engine:
        played = list(engine.map(play, [(ratings, n, seed) for n in range(n_splits)]))
    users = [held_out for held_out, _ in played]
    splits = [np.full(len(held_out), split) for split, held_out in enumerate(users)]
    return Comparison(
        name,
        {name: np.concatenate([rewards[name] for _, rewards in played]) for name in played[0][1]},
        (5, 20), rewards=True, clusters=(np.concatenate(users), np.concatenate(splits)),
    )  # fmt: skip


def compare(options: argparse.Namespace) -> Iterator[str]:
    """Yield the tables of all policies on all problems, and what they say about the goals."""
    ratings = _ratings(options)
    images = None if options.features is None else ImageFeatures.load(options.features)
    behind_ts: list[str] = []
    behind_bestseller: list[str] = []

    def judged(comparison: Comparison, digits: int, real: bool) -> str:
        for policy in (IDS, f"{IDS}, horizon"):
            behind_ts.extend(comparison.worse(policy, TS))
            if real:
                behind_bestseller.extend(comparison.worse(policy, BESTSELLER))
        return comparison.table((TS, BESTSELLER), digits)

    for problem in problems(images, options.scale, options.seed):
        yield judged(problem.play(options.seed, options.workers), 2, problem.real)
    if images is None:
        yield "CIFAR-100 was skipped: give a file of its features with --features.\n"
    if ratings is None:
        yield NO_FILMS
    else:
        how = max(1, round(10 * options.scale)), options.seed, options.workers
        yield judged(of_splits("MovieLens, new users", play_split, ratings, *how), 3, real=True)
    yield f"MixIDS worse than MixTS by more than two errors: {_listed(behind_ts)}."
    yield f"MixIDS below the bestseller on real data: {_listed(behind_bestseller)}."


# -- once ------------------------------------------------------------------------------------------


AGAIN = "{}, as if repeatable"
"""Name of a policy that takes an item's own variance for something to explore."""
N_ONCE = 20
"""Rounds of a play with items that are taken once."""
N_FILMS = 300
"""Films of MovieLens that are arms: those with the most ratings."""


def once_policies(prior: mixts.MixturePrior) -> dict[str, AgentSpec]:
    """Return the policies for items that are taken once, and two that do not know that."""
    again = mixts.MixturePrior(prior.family, prior.weights)
    return {
        BESTSELLER: bestseller(prior),
        **{AGAIN.format(name): partial(PLAIN[name], again) for name in (IDS, TS)},
        **policies_of(prior, N_ONCE, PLAIN),
    }


def items_prior(n_kinds: int, seed: int) -> mixts.MixturePrior:
    """Return kinds of people who rate 60 items; people differ in a third of the items only."""
    rng = random.stream(seed, "once", n_kinds)
    popular, taste = 0.3 * rng.standard_normal(60), 0.5 * rng.standard_normal((n_kinds, 60))
    own = np.where(rng.random(60) < 1 / 3, 3.0, 0.3) ** 2
    family = mixts.GaussianArms(popular + taste, np.tile(own, (n_kinds, 1)), 0.5)
    return mixts.MixturePrior(family, repeatable=False)


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
    """Play people with enough ratings: each film they rated is offered until it is taken.

    With fewer rated films than twice the rounds, all policies end with the same films.
    """
    users, counts = np.unique(people, return_counts=True)
    users = users[counts >= 2 * N_ONCE]
    row = np.searchsorted(users, people)
    known = np.isin(people, users)
    table = np.full((len(users), N_FILMS), np.nan)
    table[row[known], arms[known]] = values[known]
    rewards = {}
    every = np.arange(len(users))
    makes: dict[str, Any] = dict(once_policies(prior))
    for name, make in makes.items():
        agent, left = make(n_tasks=len(users), seed=1), ~np.isnan(table)
        got = np.empty((len(users), N_ONCE))
        for t in range(N_ONCE):
            chosen = agent.act(mask=left)
            got[:, t] = table[every, chosen]
            agent.update(chosen, got[:, t])
            left[every, chosen] = False
        rewards[name] = got
    return users, rewards


def once(options: argparse.Namespace) -> Iterator[str]:
    """Yield a table for simulated items that are taken at most once, and one for films."""
    ratings, scale = _ratings(options), options.scale
    prior = items_prior(3, options.seed)
    played = simulate(
        once_policies(prior), mixts.BanditEnvironment(prior), N_ONCE, share(scale, 1000),
        options.seed, engine=options.workers,
    )  # fmt: skip
    behind: list[str] = []

    def judged(comparison: Comparison) -> str:
        behind.extend(comparison.worse(IDS, BESTSELLER))
        return comparison.table((GREEDY, BESTSELLER), 3)

    yield judged(Comparison("60 items, 3 kinds", played.reward, (5, 20), rewards=True))
    if ratings is None:
        yield NO_FILMS
    else:
        name = f"MovieLens, new users, {N_FILMS} films as arms"
        how = share(scale, 5), options.seed, options.workers
        yield judged(of_splits(name, play_users, ratings, *how))
    yield f"MixIDS below the bestseller: {_listed(behind)}."


# -- the command -----------------------------------------------------------------------------------


PARTS = {"compare": compare, "once": once}
NO_FILMS = "MovieLens was skipped: give the folder ml-latest-small with --movielens.\n"


def _ratings(options: argparse.Namespace) -> Ratings | None:
    return None if options.movielens is None else parse(read_files(options.movielens))


def _listed(places: Sequence[str]) -> str:
    return "; ".join(places) if places else "nowhere"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables of a part; return the exit status."""
    program = "mixts_paper.studies.policies"
    parser = argparse.ArgumentParser(prog=f"python -m {program}", description=_DESCRIPTION)
    add = parser.add_argument
    add("part", nargs="?", default="compare", choices=tuple(PARTS), help="(default: compare)")
    add("--movielens", type=Path, metavar="PATH", help="MovieLens ml-latest-small: folder or zip")
    add("--features", type=Path, metavar="FILE", help="npz file of image features (CIFAR-100)")
    add("--seed", type=int, default=1, help="(default: 1)")
    add("--workers", type=int, default=2, help="worker processes (default: 2)")
    add("--scale", type=float, default=1.0, metavar="SHARE", help="share of the runs (default: 1)")
    options = parser.parse_args(arguments)
    return exit_status(program, lambda: _print(options))


def _print(options: argparse.Namespace) -> None:
    if not 0 < options.scale <= 1:
        raise ParameterError(f"--scale must be above 0 and at most 1, got {options.scale:g}")
    for text in PARTS[options.part](options):
        print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
