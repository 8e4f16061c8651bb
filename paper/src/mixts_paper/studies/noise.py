"""Common noise or a noise of each task, on MovieLens: ``python -m mixts_paper.studies.noise``.

Users are held out as in the study of cold start. Two priors with the same number of kinds are
learned from the other users: one noise for all, or a noise of each user. The table shows how much
better the second predicts all ratings of a held-out user, in nats. In the panel "films" an action
is a film with features; in the panel "genres" an arm is a genre, and a film counts for its first.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from mixts import MixturePrior
from mixts.extend import Array
from mixts.families import GaussianStatistics, Statistics
from mixts.learning import learn, mixture_evidence
from mixts_paper.studies.movielens.ratings import Ratings, parse, read_files, task_statistics
from mixts_paper.studies.movielens.splits import N_RESTARTS, TOLERANCE, UserSplit, split_users

Panel = Callable[[Ratings, UserSplit], tuple[Statistics, Statistics]]
"""Statistics of training users and of held-out users."""


def films(ratings: Ratings, split: UserSplit) -> tuple[Statistics, Statistics]:
    """Return linear tasks: eleven features of every film, learned from the training users."""
    test = ~split.seen
    rows = split.features.films[ratings.films[test]]
    return split.past, task_statistics(rows, ratings.ratings[test], ratings.users[test])


def genres(ratings: Ratings, split: UserSplit) -> tuple[Statistics, Statistics]:
    """Return tasks whose arms are genres; a film counts for its first genre."""
    arm = ratings.genres.argmax(axis=1)
    found = []
    for part in (split.seen, ~split.seen):
        users, own = np.unique(ratings.users[part], return_inverse=True)
        statistics = GaussianStatistics.empty((ratings.genres.shape[1],), len(users))
        statistics.observe(own, (arm[ratings.films[part]], ratings.ratings[part]))
        found.append(statistics)
    return found[0], found[1]


PANELS: dict[str, Panel] = {"films": films, "genres": genres}


@dataclass(frozen=True)
class Compared:
    """Gain of each held-out user of one split by a noise of each user."""

    gain: Array
    n_ratings: Array
    priors: tuple[MixturePrior, MixturePrior]
    """With a common noise, and with a noise of each user."""


def compare(training: Statistics, test: Statistics, n_components: int, seed: int) -> Compared:
    """Learn both priors, and compare the log evidence of each held-out user."""
    common, own = (
        learn(
            training, n_components, seed=seed, noise=noise, n_restarts=N_RESTARTS,
            tolerance=TOLERANCE, engine=1,
        ).prior
        for noise in ("common", "per-task")
    )  # fmt: skip
    gain = mixture_evidence(own, test) - mixture_evidence(common, test)
    return Compared(gain, np.asarray(test.n_observations), (common, own))


def lines(name: str, n_components: int, found: Sequence[Compared]) -> list[str]:
    """Return a line of results: means over splits, and the error of one split.

    Splits share users, so their mean is known a little better than that, but not five times.
    """
    per_task = np.mean([one.gain.mean() for one in found])
    error = np.mean([one.gain.std(ddof=1) / np.sqrt(len(one.gain)) for one in found])
    ratio = [one.gain / one.n_ratings for one in found]
    per_rating = np.mean([one.mean() for one in ratio])
    rating_error = np.mean([one.std(ddof=1) / np.sqrt(len(one)) for one in ratio])
    better = np.mean([(one.gain > 0).mean() for one in found])
    own = found[0].priors[1].family
    noise = ", ".join(f"{x:.2f}" for x in own.arrays()["noise_std"])
    degrees = ", ".join(f"{x:.1f}" for x in own.arrays()["degrees"])
    kinds = f"{n_components} kind{'s' * (n_components != 1)}"
    return [
        f"{name}, {kinds}: {per_task:.2f} ± {error:.2f} nats per held-out user, "
        f"{per_rating:.4f} ± {rating_error:.4f} per rating; "
        f"better for {better:.0%} of the users",
        f"  first split: noise_std {noise}; degrees {degrees}",
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the study and print its lines."""
    parser = argparse.ArgumentParser(
        prog="python -m mixts_paper.studies.noise", description=__doc__
    )
    parser.add_argument("--movielens", metavar="PATH", help="folder or zip of ml-latest-small")
    parser.add_argument("--components", type=int, nargs="+", default=[1, 2], metavar="N")
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    ratings = parse(read_files(options.movielens))
    splits = [split_users(ratings, i, options.seed) for i in range(options.splits)]
    for name, panel in PANELS.items():
        for n in options.components:
            found = [compare(*panel(ratings, split), n, options.seed) for split in splits]
            print("\n".join(lines(name, n, found)), flush=True)


if __name__ == "__main__":
    main()
