"""Read the ratings of MovieLens, and learn features of films from the ratings of some users.

**Ratings** come from a folder or a zip with ``ratings.csv`` and ``movies.csv``, or from the
published data set: MovieLens ml-latest-small by GroupLens at the University of Minnesota, for
research and not for commercial use; its README has the full terms. F. Maxwell Harper and Joseph A.
Konstan, The MovieLens Datasets: History and Context, ACM Transactions on Interactive Intelligent
Systems 5, 4 (2015).

**Features** are learned from the ratings of training users only. A film is first described by a
vector z: its genres, its year, the number of training users who rated it, and how much better than
average they rated it. Each training user has coefficients on these descriptions; one Gaussian with
mean m and covariance S is fitted to them. With R R' = S and a standard normal e, a user rates a
film ``m'z + (R e)'z``: the common opinion, and the differences between people. The features are 1,
``m'z``, and the first principal components of ``R'z``, the combinations of the description about
which people disagree most.

When a training rating is predicted, the features of its film are computed without that rating.
Otherwise the features of a film with few ratings would contain the very rating to be predicted. The
noise would be underestimated, and the prior would be overconfident for new users, whose ratings are
not in the features.
"""

from __future__ import annotations

import csv
import hashlib
import io
import re
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mixts.errors import FormatError
from mixts.extend import Array
from mixts.families import LinearGaussian, LinearStatistics
from mixts.learning import learn, statistics_of
from mixts_paper.studies import PublishedFile, cache_folder, fetch

PUBLISHED = PublishedFile(
    name="ml-latest-small.zip",
    url="https://files.grouplens.org/datasets/movielens/ml-latest-small.zip",
    sha256="696d65a3dfceac7c45750ad32df2c259311949efec81f0f144fdfb91ebc9e436",
    option="--option ratings=PATH",
)
"""Published data set; the checksum is that of TensorFlow Datasets."""

CONTENT = {
    "ratings.csv": "80da8b3393dae325bbba5a31f291a6ba55d8d4f4396de3c456f2c1635b1b70e8",
    "movies.csv": "c47b783f23eb304413307e1bb05335e427737da20ec8d3c0e96335567dd5f3dc",
}
"""The sha256 of each file of the published data set, however a copy is packed."""

HEADERS = {
    "ratings.csv": "userId,movieId,rating,timestamp",
    "movies.csv": "movieId,title,genres",
}
_NO_GENRE = "(no genres listed)"
_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError)
"""Exceptions for a file that is not a zip, is truncated, or has a password."""


@dataclass(frozen=True, repr=False)
class Ratings:
    """Every rating with its user and its film, both as integers from 0, and the films."""

    users: Array
    films: Array
    ratings: Array
    titles: tuple[str, ...]
    genre_names: tuple[str, ...]
    genres: Array
    years: Array
    """Year of release of each film; the mean year where the title has none."""

    @property
    def n_users(self) -> int:
        return int(self.users.max()) + 1

    @property
    def n_films(self) -> int:
        return len(self.titles)

    def __repr__(self) -> str:
        return f"Ratings({len(self.users):,} by {self.n_users:,} users of {self.n_films:,} films)"


Files = Mapping[str, bytes]
"""The content of ``ratings.csv`` and ``movies.csv``."""


def read_files(path: str | Path | None) -> Files:
    """Return the files of a folder or zip; None: of the published zip, which is downloaded."""
    where = fetch(PUBLISHED, cache_folder("movielens")) if path is None else Path(path)
    if where.is_dir():
        return {name: _read(where / name) for name in HEADERS}
    if not where.is_file():
        raise FormatError(
            f"{where} is neither a folder nor a file: give the folder or zip of MovieLens"
        )
    try:
        with zipfile.ZipFile(where) as archive:
            return {name: archive.read(_member(archive, name, where)) for name in HEADERS}
    except _DAMAGE as error:
        raise FormatError(f"{where} cannot be read as a zip: {error}") from error


def _read(path: Path) -> bytes:
    if not path.is_file():
        raise FormatError(f"{path} is not there: a folder of MovieLens has {' and '.join(HEADERS)}")
    return path.read_bytes()


def _member(archive: zipfile.ZipFile, name: str, where: Path) -> str:
    found = [one for one in archive.namelist() if one.rpartition("/")[2] == name]
    if len(found) != 1:
        raise FormatError(f"{where} must have one file {name}, it has {len(found)}")
    return found[0]


def digests(files: Files) -> dict[str, str]:
    """Return the sha256 of each file, by which results know their data."""
    return {name: hashlib.sha256(files[name]).hexdigest() for name in HEADERS}


def parse(files: Files) -> Ratings:
    """Return the ratings, checked; films without ratings are left out."""
    raters, rated, values = _table(_rows_of("ratings.csv", files["ratings.csv"]))
    users = np.unique(raters, return_inverse=True)[1]
    film_ids, films = np.unique(rated, return_inverse=True)
    pairs = users.astype(np.int64) * len(film_ids) + films
    if len(np.unique(pairs)) < len(pairs):
        raise FormatError("ratings.csv: a user has rated a film twice, expected once at most")
    described = _described(_rows_of("movies.csv", files["movies.csv"]))
    missing = [int(one) for one in film_ids if int(one) not in described]
    if missing:
        raise FormatError(f"movies.csv has no film {missing[0]}, but ratings.csv has ratings of it")
    titles = tuple(described[int(one)][0] for one in film_ids)
    kinds = [set(described[int(one)][1].split("|")) - {_NO_GENRE, ""} for one in film_ids]
    names = tuple(sorted(set().union(*kinds)))
    genres = np.array([[name in kind for name in names] for kind in kinds], bool)
    return Ratings(
        users, films, values, titles, names, genres.reshape(len(titles), len(names)), _years(titles)
    )


def _rows_of(name: str, content: bytes) -> str:
    """Check the header of a file and return the text below it."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FormatError(f"{name} must be text in UTF-8: {error}") from error
    header, _, rows = text.partition("\n")
    if header.strip() != HEADERS[name]:
        raise FormatError(f"{name} must begin with {HEADERS[name]!r}, got {header[:80]!r}")
    return rows


def _table(rows: str) -> tuple[Array, Array, Array]:
    """Return the users, films and ratings of the rows."""
    if not rows.strip():
        raise FormatError("ratings.csv has no ratings")
    try:
        table = np.loadtxt(io.StringIO(rows), delimiter=",", usecols=(0, 1, 2), ndmin=2)
    except ValueError as error:
        raise FormatError(f"ratings.csv must have numbers in every row: {error}") from error
    if not np.isfinite(table).all() or (table[:, :2] != table[:, :2].astype(np.int64)).any():
        raise FormatError("ratings.csv must have whole numbers as ids, and ratings that are finite")
    return table[:, 0].astype(np.int64), table[:, 1].astype(np.int64), table[:, 2]


def _described(rows: str) -> dict[int, tuple[str, str]]:
    """Return the title and genres of each film, by its id."""
    found: dict[int, tuple[str, str]] = {}
    for number, row in enumerate(csv.reader(io.StringIO(rows)), start=2):
        if len(row) != 3 or not row[0].isdecimal():
            raise FormatError(f"movies.csv, row {number}: expected id, title and genres, got {row}")
        found[int(row[0])] = (row[1], row[2])
    return found


def _years(titles: tuple[str, ...]) -> Array:
    """Return the last year in brackets of each title, such as "Toy Story (1995)"."""
    found = [re.findall(r"\((\d{4})\)", title) for title in titles]
    known = [float(one[-1]) for one in found if one]
    middle = float(np.mean(known)) if known else 0.0
    return np.array([float(one[-1]) if one else middle for one in found])


# -- features of films ----------------------------------------------------------------------------


N_DIRECTIONS = 9
"""Number of principal components; with the constant and the common opinion, 11 features."""
FILM_SHRINKAGE = 2.0
"""Number of average ratings that are added to the ratings of every film."""
USER_SHRINKAGE = 5.0
"""Number of average ratings that are added to the ratings of every user."""
_SWEEPS = 10
"""Alternating updates of the users' and the films' means; after these they hardly change."""


@dataclass(frozen=True)
class FilmFeatures:
    """Features of films for new users, and for the ratings of training users."""

    films: Array
    """Features of every film; the first feature is the constant 1."""
    rows: Array
    """Features of the film of each training rating, computed without that rating."""

    @property
    def n_features(self) -> int:
        return self.films.shape[1]


def learn_features(
    ratings: Ratings, training: Array, n_directions: int = N_DIRECTIONS
) -> FilmFeatures:
    """Learn the features from the users where ``training`` is true, and only from them."""
    seen = training[ratings.users]
    described, rows = _descriptions(ratings, seen)
    values, users = ratings.ratings[seen], ratings.users[seen]
    statistics = task_statistics(_with_constant(rows), values, users)
    family = learn(statistics, 1, seed=0, engine=1).prior.family
    assert isinstance(family, LinearGaussian)
    common, covariance = family.mean[0, 1:], family.full_covariances()[0, 1:, 1:]
    variance, axes = np.linalg.eigh(covariance)
    root = axes * np.sqrt(np.maximum(variance, 0))
    disagreement = np.cov(rows @ root, rowvar=False).reshape(len(common), len(common))
    # eigh sorts the largest last. The sign of an eigenvector is arbitrary: make it reproducible.
    main = np.linalg.eigh(disagreement)[1][:, ::-1][:, :n_directions]
    main = main * np.where(main[np.abs(main).argmax(axis=0), np.arange(main.shape[1])] < 0, -1, 1)
    projection = np.column_stack([common, root @ main])
    scale = (rows @ projection).std(axis=0)
    projection = projection / np.where(scale > 0, scale, 1.0)
    return FilmFeatures(_with_constant(described @ projection), _with_constant(rows @ projection))


def task_statistics(features: Array, rewards: Array, tasks: Array) -> LinearStatistics:
    """Return the statistics of the tasks that occur in ``tasks``, in increasing order."""
    order = np.argsort(tasks, kind="stable")
    ends = np.flatnonzero(np.diff(tasks[order])) + 1
    histories = [(features[part], rewards[part]) for part in np.split(order, ends)]
    statistics = statistics_of(histories, LinearGaussian.standard(features.shape[1], 1.0))
    assert isinstance(statistics, LinearStatistics)
    return statistics


def _with_constant(features: Array) -> Array:
    return np.column_stack([np.ones(len(features)), features])


def _descriptions(ratings: Ratings, seen: Array) -> tuple[Array, Array]:
    """Return the description of every film, and of the film of each training rating without it.

    Both are standardised by the means and deviations over training ratings.
    """
    films = ratings.films[seen]
    mean, mean_without = _film_means(ratings, seen)
    count = np.bincount(films, minlength=ratings.n_films).astype(float)
    # The genres of a film have a norm of one.
    genres = ratings.genres / np.sqrt(np.maximum(ratings.genres.sum(axis=1, keepdims=True), 1))
    known = np.column_stack([genres, ratings.years])
    described = np.column_stack([mean, np.log1p(count), known])
    rows = np.column_stack([mean_without, np.log(count[films]), known[films]])
    middle, scale = rows.mean(axis=0), rows.std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    return (described - middle) / scale, (rows - middle) / scale


def _film_means(ratings: Ratings, seen: Array) -> tuple[Array, Array]:
    """Return how much better than average each film is rated, and the same without each rating."""
    users, films, values = ratings.users[seen], ratings.films[seen], ratings.ratings[seen]
    n_users, n_films = ratings.n_users, ratings.n_films
    of_user = np.bincount(users, minlength=n_users) + USER_SHRINKAGE
    of_film = np.bincount(films, minlength=n_films) + FILM_SHRINKAGE
    rest = values - values.mean()
    film = np.zeros(n_films)
    for _ in range(_SWEEPS):
        user = np.bincount(users, rest - film[films], minlength=n_users) / of_user
        film = np.bincount(films, rest - user[users], minlength=n_films) / of_film
    own = rest - user[users]
    without = (film[films] * of_film[films] - own) / (of_film[films] - 1)
    return film, without
