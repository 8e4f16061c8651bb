"""Problems on which policies are compared, paired comparisons, and their tables in Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

import mixts
from mixts.engines import engine_of
from mixts.environments import ClassificationBandit, Environment
from mixts.extend import Array
from mixts.learning import one_blas_thread
from mixts.simulation import AgentSpec, Estimate, estimate, simulate
from mixts_paper.experiments.beyond.long_run import N_ARMS, flat_bandit
from mixts_paper.experiments.beyond.policies import image_prior
from mixts_paper.experiments.features import ImageFeatures
from mixts_paper.experiments.paper._synthetic import arms_prior
from mixts_paper.experiments.paper.images import priors_of
from mixts_paper.studies.movielens.analysis import clustered
from mixts_paper.studies.movielens.ratings import Ratings
from mixts_paper.studies.movielens.splits import (
    UserSplit,
    learn_mixture,
    play_held_out,
    split_users,
)
from mixts_paper.studies.policies.agents import Fixed, Narrowed, policies

EARLY = 20
"""Number of first rounds whose differences a wide table shows, besides those of all rounds."""
N_ERRORS = 2.0
"""A difference of more standard errors than this counts as one."""


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
    """Two groupings of runs that are not independent: users and splits, or runs and priors."""

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
        found = []
        for n in self.rounds:
            gain = self.gain(policy, rival, n)
            if gain.mean < -N_ERRORS * gain.error:
                found.append(f"{self.name}, {n} rounds ({signed(gain, 3)})")
        return found


def plain(value: Estimate, digits: int) -> str:
    """Return a mean and its error as text."""
    return f"{value.mean:.{digits}f} ± {value.error:.{digits}f}"


def signed(value: Estimate, digits: int) -> str:
    """Return a difference and its error as text."""
    return f"{value.mean:+.{digits}f} ± {value.error:.{digits}f}".replace("-", "−")


def table(comparison: Comparison, rivals: Sequence[str], digits: int) -> str:
    """Return a table: the score of each policy, and how much better it is than the rivals.

    Differences are shown for two numbers of rounds at most: more columns would not fit on a page.
    """
    rounds = comparison.rounds
    compared = rounds if len(rounds) <= 2 else [n for n in rounds if n in (EARLY, rounds[-1])]
    what = "reward per round" if comparison.rewards else "regret"
    head = ["policy", *(f"{what}, first {n}" for n in rounds)]
    head += [f"better than {rival}, {n}" for rival in rivals for n in compared]
    rows = []
    for policy in comparison.values:
        row = [policy, *(plain(comparison.score(policy, n), digits) for n in rounds)]
        for rival in rivals:
            row += [
                "" if policy == rival else signed(comparison.gain(policy, rival, n), digits)
                for n in compared
            ]
        rows.append(row)
    return f"**{comparison.name}**\n\n" + markdown(head, rows)


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown; all columns but the first are aligned to the right."""
    lines = [head, [":--", *("--:" for _ in head[1:])], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


# -- problems -------------------------------------------------------------------------------------


ROUNDS = (5, 20, 100)
"""Numbers of first rounds that tables show, besides all rounds."""
N_SPLITS = 10
"""Splits of the users of MovieLens, as in the cold-start study."""
N_RATED_ROUNDS = 20
"""Rounds of a play with a user of MovieLens."""
LONG_ROUNDS = (100, 1_000, 10_000)
"""Numbers of first rounds of the long run with a flat prior."""
RATING_SHRINKAGE = 5.0
"""Number of average ratings that "best rated" adds to the ratings of every film."""


def share(scale: float, full: int) -> int:
    """Return this share of a number of runs, and at least 2, which an error needs."""
    return max(2, round(scale * full))


def shown_rounds(n_rounds: int) -> list[int]:
    """Return the numbers of first rounds that a table shows."""
    return [*(n for n in ROUNDS if n < n_rounds), n_rounds]


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
        return Comparison(self.name, results.regret, shown_rounds(self.n_rounds))


def of_prior(name: str, prior: mixts.MixturePrior, n_rounds: int, n_runs: int) -> SimulatedProblem:
    """Return the problem whose tasks are drawn from the prior of arms."""
    return SimulatedProblem(name, prior, mixts.BanditEnvironment(prior), n_rounds, n_runs)


# -- simulated problems ---------------------------------------------------------------------------


def shop_prior() -> mixts.MixturePrior:
    """Return the prior of the first example of the README: three kinds of visitor, five banners."""
    rates = np.array(
        [
            [0.50, 0.10, 0.20, 0.05, 0.05],
            [0.10, 0.45, 0.20, 0.10, 0.05],
            [0.05, 0.05, 0.20, 0.30, 0.40],
        ]
    )
    family = mixts.BernoulliArms(alpha=20 * rates, beta=20 * (1 - rates))
    return mixts.MixturePrior(family, weights=[0.5, 0.3, 0.2])


def simulated_problems(scale: float) -> Iterator[SimulatedProblem]:
    """Yield the simulated problems, with this share of the runs."""
    n_runs = partial(share, scale)
    yield of_prior("the shop of the README", shop_prior(), 200, n_runs(2000))
    yield of_prior("the paper's bandit, width 0.05", arms_prior(), 200, n_runs(200))
    yield of_prior("the paper's bandit, width 0.3", arms_prior(width=0.3), 200, n_runs(200))


# -- images -------------------------------------------------------------------------------------


def image_problem(name: str, images: ImageFeatures, n_runs: int, seed: int) -> SimulatedProblem:
    """Return the classification bandit and the prior of the experiment `paper/images`."""
    prior, _ = priors_of(image_prior(images, seed))
    environment = ClassificationBandit(images.test_features, images.test_labels)
    return SimulatedProblem(name, prior, environment, 500, n_runs, real=True)


def image_problems(
    images: ImageFeatures | None, scale: float, seed: int
) -> Iterator[SimulatedProblem]:
    """Yield the digits, and other images if there are any."""
    digits = ImageFeatures.digits()
    yield image_problem("scikit-learn's digits", digits, share(scale, 200), seed)
    if images is not None:
        name = f"images of {images.n_classes} classes"
        yield image_problem(name, images, share(scale, 100), seed)


# -- films --------------------------------------------------------------------------------------


FilmAgents = Callable[[Ratings, UserSplit, mixts.MixturePrior], tuple[Array, dict[str, AgentSpec]]]
"""Returns the features of all films as agents see them, and the agents."""


def play_films(
    ratings: Ratings, agents_of: FilmAgents, scale: float, seed: int, workers: int
) -> Comparison:
    """Play held-out users of MovieLens as the cold-start study does, with the learned mixture."""
    jobs = [(ratings, agents_of, n, seed) for n in range(max(1, round(scale * N_SPLITS)))]
    with engine_of(workers) as engine:
        played = list(engine.map(play_split, jobs))
    users = [held_out for held_out, _ in played]
    splits = [np.full(len(held_out), split) for split, held_out in enumerate(users)]
    return Comparison(
        "MovieLens, new users",
        {name: np.concatenate([rewards[name] for _, rewards in played]) for name in played[0][1]},
        shown_rounds(N_RATED_ROUNDS),
        rewards=True,
        clusters=(np.concatenate(users), np.concatenate(splits)),
    )


def play_split(
    ratings: Ratings, agents_of: FilmAgents, number: int, seed: int
) -> tuple[Array, dict[str, Array]]:
    """Return the held-out users of a split, and the rewards of every agent with each of them."""
    with one_blas_thread():
        split = split_users(ratings, number, seed)
        prior = learn_mixture(split.past, split.seed).prior
        films, agents = agents_of(ratings, split, prior)
        played = play_held_out(ratings, split, films, agents, N_RATED_ROUNDS)
    return split.held_out, {name: reward for name, (reward, _) in played.items()}


def policies_for_films(
    ratings: Ratings, split: UserSplit, prior: mixts.MixturePrior
) -> tuple[Array, dict[str, AgentSpec]]:
    """Return features of films, with two more for rankings of films, and all agents.

    The two more are the mean rating of a film, shrunken, and the number of its ratings, both among
    training users. Policies do not see them.
    """
    films, values = ratings.films[split.seen], ratings.ratings[split.seen]
    count = np.bincount(films, minlength=ratings.n_films).astype(float)
    total = np.bincount(films, values, minlength=ratings.n_films)
    rating = (total + RATING_SHRINKAGE * values.mean()) / (count + RATING_SHRINKAGE)
    rows = np.column_stack([split.features.films, rating, count])
    d = split.features.n_features
    unit = np.eye(d + 2)
    agents: dict[str, AgentSpec] = {
        "best rated": partial(Fixed, unit[d], True),
        "most watched": partial(Fixed, unit[d + 1], True),
    }
    for name, spec in policies(prior, N_RATED_ROUNDS).items():
        agents[name] = partial(Narrowed, spec, d)
    return rows, agents


# -- a long run ------------------------------------------------------------------------------------


def play_long(n_runs: int, seed: int, workers: int) -> Comparison:
    """Play the policies and the bandit of the experiment `beyond/long-run`."""
    n = LONG_ROUNDS[-1]
    results = simulate(*flat_bandit(n), n, n_runs, seed, engine=workers)
    return Comparison(f"{N_ARMS} Bernoulli arms, flat prior", results.regret, LONG_ROUNDS)
