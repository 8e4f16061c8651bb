"""Measure the policies, and print tables in markdown.

Run it by ``python -m mixts_paper.studies.policies``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path

from mixts.errors import MixtsError, ParameterError
from mixts_paper.experiments.features import ImageFeatures
from mixts_paper.studies.movielens.ratings import Ratings, parse, read_files
from mixts_paper.studies.policies.agents import BESTSELLER, GREEDY, IDS, IDS_HORIZON, TS
from mixts_paper.studies.policies.once import films, simulated
from mixts_paper.studies.policies.problems import (
    Comparison,
    image_problems,
    play_films,
    play_long,
    policies_for_films,
    share,
    simulated_problems,
    table,
)

NO_FILMS = "MovieLens was skipped: give the folder ml-latest-small with --movielens.\n"

_DESCRIPTION = """\
Measure policies on the same problems, and print tables in Markdown. compare: all policies, on
simulated problems and on real data. long: 10,000 rounds with a flat prior. once: items that a task
takes at most once."""


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    top = argparse.ArgumentParser(
        prog="python -m mixts_paper.studies.policies", description=_DESCRIPTION
    )
    add = top.add_argument
    add("part", nargs="?", default="compare", choices=tuple(PARTS), help="(default: compare)")
    add("--movielens", type=Path, metavar="PATH", help="MovieLens ml-latest-small: folder or zip")
    add("--features", type=Path, metavar="FILE", help="npz file of image features (CIFAR-100)")
    add("--seed", type=int, default=1, help="(default: 1)")
    add("--workers", type=int, default=2, help="worker processes (default: 2)")
    add("--scale", type=float, default=1.0, metavar="SHARE", help="share of the runs (default: 1)")
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables of a part; return the exit status."""
    options = parser().parse_args(arguments)
    try:
        if not 0 < options.scale <= 1:
            raise ParameterError(f"--scale must be above 0 and at most 1, got {options.scale:g}")
        for text in PARTS[options.part](options):
            print(text, flush=True)
    except MixtsError as error:
        print(f"mixts_paper.studies.policies: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nmixts_paper.studies.policies: stopped", file=sys.stderr)
        return 130
    return 0


def compare(options: argparse.Namespace) -> Iterator[str]:
    """Yield the tables of all policies on all problems, and what they say about the goals."""
    ratings = _ratings(options)
    images = None if options.features is None else ImageFeatures.load(options.features)
    behind_ts: list[str] = []
    behind_bestseller: list[str] = []

    def judged(comparison: Comparison, digits: int, real: bool) -> str:
        for policy in (IDS, IDS_HORIZON):
            behind_ts.extend(_named(policy, comparison.worse(policy, TS)))
            if real:
                behind_bestseller.extend(_named(policy, comparison.worse(policy, BESTSELLER)))
        return table(comparison, (TS, BESTSELLER), digits)

    for problem in chain(
        simulated_problems(options.scale), image_problems(images, options.scale, options.seed)
    ):
        yield judged(problem.play(options.seed, options.workers), 2, problem.real)
    if images is None:
        yield "CIFAR-100 was skipped: give a file of its features with --features.\n"
    if ratings is None:
        yield NO_FILMS
    else:
        how = options.scale, options.seed, options.workers
        yield judged(play_films(ratings, policies_for_films, *how), 3, real=True)
    yield f"MixIDS worse than MixTS by more than two errors: {_listed(behind_ts)}."
    yield f"MixIDS below the bestseller on real data: {_listed(behind_bestseller)}."


def long_run(options: argparse.Namespace) -> Iterator[str]:
    """Yield the table of the long run."""
    n_runs = share(options.scale, 200)
    yield table(play_long(n_runs, options.seed, options.workers), (TS,), 1)


def once(options: argparse.Namespace) -> Iterator[str]:
    """Yield a table for simulated items that are taken at most once, and one for films."""
    ratings = _ratings(options)
    how = options.scale, options.seed, options.workers
    behind: list[str] = []
    given = [] if ratings is None else [ratings]
    for comparison in chain(simulated(*how), (films(known, *how) for known in given)):
        behind.extend(_named(IDS, comparison.worse(IDS, BESTSELLER)))
        yield table(comparison, (GREEDY, BESTSELLER), 3)
    if ratings is None:
        yield NO_FILMS
    yield f"MixIDS below the bestseller: {_listed(behind)}."


PARTS = {"compare": compare, "long": long_run, "once": once}


def _ratings(options: argparse.Namespace) -> Ratings | None:
    return None if options.movielens is None else parse(read_files(options.movielens))


def _named(policy: str, places: Iterable[str]) -> list[str]:
    return [f"{policy} on {place}" for place in places]


def _listed(places: Sequence[str]) -> str:
    return "; ".join(places) if places else "nowhere"


if __name__ == "__main__":
    sys.exit(main())
