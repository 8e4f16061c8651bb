"""Ratings and films of MovieLens.

They come from a folder or a zip with ``ratings.csv`` and ``movies.csv``, or from the published data
set: MovieLens ml-latest-small by GroupLens at the University of Minnesota, for research and not for
commercial use; its README has the full terms. F. Maxwell Harper and Joseph A. Konstan, The
MovieLens Datasets: History and Context, ACM Transactions on Interactive Intelligent Systems 5, 4
(2015).
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
from studies._download import PublishedFile, cache_folder, fetch
from studies._shared import Array

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
