"""Films for new users of MovieLens, with priors learned from other users."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from mixts.errors import FormatError, ParameterError
from mixts_paper.experiments import Analysis, Blocks, Experiment, Measured, Scale, Setting
from mixts_paper.experiments.base import Arrays, Once
from mixts_paper.studies.movielens.analysis import analyse
from mixts_paper.studies.movielens.ratings import (
    CONTENT,
    Ratings,
    digests,
    parse,
    read_files,
)
from mixts_paper.studies.movielens.splits import LEAST_RATINGS, SplitBlocks, well_known


class MovieLensExperiment(Experiment):
    """A run is a split of the users: priors are learned from some and used for the others."""

    title = "Cold start with real people"
    place = "not in the paper"
    scale = Scale(10, 20)
    quick = Scale(2, 20)
    options = ("ratings",)

    def choices(self, ratings: str | Path | None = None, **_: Any) -> dict[str, str]:
        """Return the hash of the data; that of the published data is known before the download."""
        if ratings is None:
            return {"ratings": described(CONTENT)}
        files = read_files(ratings)
        parse(files)  # raises an error if these are not MovieLens files
        return {"ratings": described(digests(files))}

    def parts(self, setting: Setting, once: Once) -> dict[str, Blocks]:
        if setting.n_rounds > LEAST_RATINGS:
            raise ParameterError(
                f"users have at least {LEAST_RATINGS} ratings, and every round takes one: play "
                f"{LEAST_RATINGS} rounds at most, got {setting.n_rounds}"
            )
        ratings = ratings_of(setting)
        once("names", partial(_names, ratings))
        return {"splits": SplitBlocks(ratings, setting.n_runs, setting.n_rounds, setting.seed)}

    def analyse(self, measured: Measured) -> Analysis:
        published = measured.setting.choices["ratings"] == described(CONTENT)
        return analyse(measured, published=published)


def described(sums: dict[str, str]) -> str:
    """Return the text that names the data in a report's settings."""
    name = "ml-latest-small, " if sums == CONTENT else ""
    return f"{name}sha256 " + ", ".join(one[:16] for one in sums.values())


def ratings_of(setting: Setting) -> Ratings:
    """Return the ratings of the user's path, or the published ones."""
    files = read_files(setting.sources.get("ratings"))
    if described(digests(files)) != setting.choices["ratings"]:
        raise FormatError(
            f"the ratings are {described(digests(files))}, expected {setting.choices['ratings']}: "
            "the files changed since the command began, or the published data set changed"
        )
    return parse(files)


def _names(ratings: Ratings) -> Arrays:
    """Return genres and the titles of well-known films as UTF-8: results must be numbers."""
    titles = [ratings.titles[film] for film in well_known(ratings)]
    return {
        name: np.frombuffer("\n".join(words).encode(), np.uint8)
        for name, words in (("genres", ratings.genre_names), ("titles", titles))
    }


EXPERIMENT = MovieLensExperiment()
