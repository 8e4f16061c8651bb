"""The cold start of real people, on made-up ones."""

from __future__ import annotations

import hashlib
import pickle
import time
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from mixts_paper.experiments import Reproduction, Setting, reproduce
from mixts_paper.studies import DownloadError, PublishedFile
from mixts_paper.studies.movielens import EXPERIMENT, clustered, ratings, splits
from mixts_paper.studies.movielens.ratings import (
    FILM_SHRINKAGE,
    Ratings,
    _film_means,
    learn_features,
    task_statistics,
)

from mixts.cli import main
from mixts.errors import FormatError, ParameterError
from mixts.extend import random

GENRES = ("Comedy", "Drama", "Horror", "War")
N_USERS, N_FILMS = 50, 120


def write_ratings(folder: Path) -> Path:
    """Thirty people who have rated 70 films and more, and twenty with few; of two kinds."""
    rng = np.random.default_rng(3)
    folder.mkdir()
    kinds = [rng.choice(GENRES, rng.integers(1, 3), replace=False) for _ in range(N_FILMS)]
    lines = ["movieId,title,genres"]
    for film, names in enumerate(kinds):
        title = f'"Film, The {film} ({1950 + film % 60})"' if film % 7 else f"Nameless {film}"
        lines.append(f"{10 * film},{title},{'|'.join(names) if film else '(no genres listed)'}")
    (folder / "movies.csv").write_text("\r\n".join(lines) + "\r\n", encoding="utf-8")
    quality = rng.standard_normal(N_FILMS)
    lines = ["userId,movieId,rating,timestamp"]
    for user in range(N_USERS):
        n = int(rng.integers(70, 90)) if user < 30 else int(rng.integers(5, 20))
        taste = {name: rng.standard_normal() * (0.9 if user % 2 else 0.2) for name in GENRES}
        for film in rng.choice(N_FILMS, n, replace=False):
            liking = 3.2 + 0.4 * quality[film] + sum(taste[name] for name in kinds[film])
            value = np.clip(np.round(2 * (liking + 0.5 * rng.standard_normal())) / 2, 0.5, 5)
            lines.append(f"{user + 1},{10 * film},{value},{1_000_000_000 + film}")
    (folder / "ratings.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_ratings(tmp_path_factory.mktemp("ratings") / "ml")


@pytest.fixture(scope="module")
def rated(folder: Path) -> Ratings:
    return ratings.parse(ratings.read_files(folder))


# -- reading ------------------------------------------------------------------------------------


def zipped(folder: Path, path: Path) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("movies.csv", "ratings.csv"):
            archive.write(folder / name, f"ml/{name}")
    return path


def test_a_folder_is_read(rated: Ratings, folder: Path) -> None:
    rows = (folder / "ratings.csv").read_text().splitlines()[1:]
    assert len(rated.users) == len(rows)
    user, film, value, _ = rows[17].split(",")
    assert rated.users[17] == int(user) - 1
    assert rated.ratings[17] == float(value)
    title = rated.titles[rated.films[17]]
    assert str(int(film) // 10) in title
    assert rated.genre_names == GENRES
    nameless = [i for i, name in enumerate(rated.titles) if name.startswith("Nameless")]
    assert len(set(rated.years[nameless])) == 1
    assert rated.years[next(i for i in range(N_FILMS) if i not in nameless)] == 1951
    assert not rated.genres[rated.titles.index("Nameless 0")].any()
    assert repr(rated) == f"Ratings({len(rows):,} by 50 users of 120 films)"


def test_a_zip_is_the_same_data(folder: Path, tmp_path: Path) -> None:
    path = zipped(folder, tmp_path / "any.zip")
    assert ratings.read_files(path) == ratings.read_files(folder)
    assert EXPERIMENT.choices(ratings=path) == EXPERIMENT.choices(ratings=folder)
    assert EXPERIMENT.choices(ratings=folder)["ratings"].startswith("sha256 ")
    # Without a path it is known what will come before it has come.
    assert EXPERIMENT.choices()["ratings"].startswith("ml-latest-small, sha256 80da8b3393dae325")


def test_the_published_file_comes_from_the_cache(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files that exist are checked, and nothing is downloaded."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    home = tmp_path / "mixts" / "movielens"
    home.mkdir(parents=True)
    path = zipped(folder, home / "ml-latest-small.zip")
    content = path.read_bytes()
    own = replace(
        ratings.PUBLISHED, url="http://127.0.0.1:1/x", sha256=hashlib.sha256(content).hexdigest()
    )
    assert own.option == "--option ratings=PATH"
    monkeypatch.setattr(ratings, "PUBLISHED", own)
    assert ratings.read_files(None) == ratings.read_files(folder)
    # But these are not what was announced.
    setting = Setting(2, 5, 1, EXPERIMENT.choices())
    with pytest.raises(FormatError, match=r"expected ml-latest-small, sha256 80da.* files changed"):
        EXPERIMENT.parts(setting, lambda name, make: make())
    path.write_bytes(content[:-1])
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    with pytest.raises(DownloadError, match="give a copy with --option ratings=PATH"):
        ratings.read_files(None)


def test_the_data_sets_own_address() -> None:
    published: PublishedFile = ratings.PUBLISHED
    assert published.url.startswith("https://files.grouplens.org/")
    assert published.url.endswith(f"/{published.name}")
    assert len(published.sha256) == 64
    assert all(len(one) == 64 for one in ratings.CONTENT.values())


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("ratings.csv", "userId", "user", "ratings.csv must begin with 'userId,movieId"),
        ("movies.csv", "genres", "kinds", "movies.csv must begin with 'movieId,title"),
        ("movies.csv", "\n10,", "\n11,", "movies.csv has no film 10"),
        ("movies.csv", "\n10,", "\nten,", r"movies.csv, row 3: expected id, title and genres"),
        ("ratings.csv", "\n1,", "\none,", "ratings.csv must have numbers in every row"),
        ("ratings.csv", "\n1,", "\n1.5,", "whole numbers as ids"),
        ("ratings.csv", "\n1,", "\n2,", "a user has rated a film twice"),
        ("ratings.csv", None, "userId,movieId,rating,timestamp\n", "has no ratings"),
        ("movies.csv", None, b"\xff\xfe", "movies.csv must be text in UTF-8"),
    ],
)
def test_damaged_files(folder: Path, name: str, old: str, new: str, message: str) -> None:
    files = dict(ratings.read_files(folder))
    if old is None:
        files[name] = new if isinstance(new, bytes) else new.encode()
    else:
        assert old.encode() in files[name]
        files[name] = files[name].replace(old.encode(), new.encode())
    with pytest.raises(FormatError, match=message):
        ratings.parse(files)


def test_what_is_no_data_set(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="neither a folder nor a file"):
        ratings.read_files(tmp_path / "none")
    with pytest.raises(FormatError, match=r"ratings.csv is not there: a folder of MovieLens has"):
        ratings.read_files(tmp_path)
    (tmp_path / "page.zip").write_text("<html>")
    with pytest.raises(FormatError, match="cannot be read as a zip"):
        ratings.read_files(tmp_path / "page.zip")
    with zipfile.ZipFile(tmp_path / "half.zip", "w") as archive:
        archive.write(folder / "ratings.csv", "ratings.csv")
    with pytest.raises(FormatError, match=r"must have one file movies.csv, it has 0"):
        ratings.read_files(tmp_path / "half.zip")


def test_the_command_says_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    command = ["reproduce", "mixts_paper.studies.movielens", "--out", str(out), "--quiet"]
    assert main([*command, "--option", f"ratings={tmp_path / 'none'}"]) == 2
    assert "none is neither a folder nor a file" in capsys.readouterr().err
    assert not out.exists()


# -- features -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def training() -> np.ndarray:
    chosen = np.ones(N_USERS, bool)
    chosen[np.random.default_rng(0).choice(30, 15, replace=False)] = False
    return chosen


def test_features_know_nothing_of_those_held_out(rated: Ratings, training: np.ndarray) -> None:
    features = learn_features(rated, training, 4)
    assert features.n_features == 6
    np.testing.assert_array_equal(features.films[:, 0], 1)
    held_out = ~training[rated.users]
    other = np.where(held_out, 5.5 - rated.ratings, rated.ratings)
    again = learn_features(replace(rated, ratings=other), training, 4)
    np.testing.assert_array_equal(features.films, again.films)
    np.testing.assert_array_equal(features.rows, again.rows)
    assert len(features.rows) == training[rated.users].sum()


def test_a_rating_is_left_out_of_the_mean_of_its_film(rated: Ratings, training: np.ndarray) -> None:
    seen = training[rated.users]
    mean, without = _film_means(rated, seen)
    films = rated.films[seen]
    for row in (0, 99, 500):
        same = films == films[row]
        n, shrunken = same.sum(), FILM_SHRINKAGE
        # Every rating is left out once: (n - 1) times the sum of all of them.
        total = (n - 1) * (n + shrunken) * mean[films[row]]
        assert (n - 1 + shrunken) * without[same].sum() == pytest.approx(total)
        values = rated.ratings.copy()
        values[np.flatnonzero(seen)[row]] += 1e-3
        moved = _film_means(replace(rated, ratings=values), seen)
        # It moves the mean of its film; without it, only by what it says of its user.
        assert moved[0][films[row]] - mean[films[row]] > 0.9e-3 / (n + shrunken)
        assert abs(moved[1][row] - without[row]) < 0.05e-3


def test_who_saw_a_film_alone_saw_it_as_new(rated: Ratings, training: np.ndarray) -> None:
    """Two films more, alike but for the one training user who has seen the first of them."""
    first = int(np.flatnonzero(training[rated.users])[0])
    films = rated.films.copy()
    films[first] = N_FILMS
    films[np.flatnonzero(~training[rated.users])[0]] = N_FILMS + 1
    more = replace(
        rated,
        films=films,
        titles=(*rated.titles, "Seen once", "Never seen"),
        genres=np.concatenate([rated.genres, rated.genres[[3, 3]]]),
        years=np.append(rated.years, [2000.0, 2000.0]),
    )
    features = learn_features(more, training, 3)
    row = int(training[rated.users][:first].sum())
    np.testing.assert_allclose(features.rows[row], features.films[N_FILMS + 1], atol=1e-12)
    assert np.abs(features.films[N_FILMS] - features.films[N_FILMS + 1]).max() > 0.05


def test_statistics_are_of_users_in_order(rated: Ratings) -> None:
    features = np.random.default_rng(0).standard_normal((len(rated.users), 3))
    tasks = task_statistics(features, rated.ratings, rated.users)
    np.testing.assert_array_equal(tasks.n_observations, np.bincount(rated.users))
    own = rated.users == 7
    np.testing.assert_allclose(tasks.moment[7], features[own].T @ rated.ratings[own])
    np.testing.assert_allclose(tasks.gram[7], features[own].T @ features[own])


# -- splits and priors --------------------------------------------------------------------------


def test_who_is_held_out(rated: Ratings) -> None:
    found = [splits.held_out_users(rated, split, seed=1) for split in range(4)]
    for held_out in found:
        assert len(set(held_out)) == int(0.6 * 30)
        assert held_out.max() < 30  # the others have too few ratings
    assert len({tuple(one) for one in found}) == 4
    np.testing.assert_array_equal(found[2], splits.held_out_users(rated, 2, seed=1))
    few = rated.users >= 28
    small = replace(
        rated, users=rated.users[few] - 28, films=rated.films[few], ratings=rated.ratings[few]
    )
    with pytest.raises(ParameterError, match="at least 4 users with 60 ratings are needed, got 2"):
        splits.held_out_users(small, 0, seed=1)


def test_the_flat_prior_has_the_scale_of_the_tasks() -> None:
    rng = random.stream(1, "flat")
    coefficients = 2.0 * rng.standard_normal((300, 3))
    features = rng.standard_normal((300, 20, 3))
    rewards = (features @ coefficients[:, :, None])[:, :, 0] + rng.standard_normal((300, 20))
    tasks = task_statistics(features.reshape(-1, 3), rewards.ravel(), np.repeat(range(300), 20))
    prior = splits.flat_prior(tasks, 1.0)
    scale = float(np.sqrt(prior.family.covariance[0]))
    # 900 numbers of standard deviation 2: its error is 2 / sqrt(1800); the grid's step is 12 %.
    assert abs(np.log(scale / 2)) < 3 / np.sqrt(1800) + 0.06
    np.testing.assert_array_equal(prior.family.mean, 0)


# -- errors -------------------------------------------------------------------------------------


def test_errors_of_independent_pairs_are_the_usual_ones() -> None:
    values = np.random.default_rng(1).standard_normal(200)
    mean, error = clustered(values, np.arange(200), np.arange(200))
    assert mean == pytest.approx(values.mean())
    assert error == pytest.approx(values.std(ddof=1) / np.sqrt(200), rel=3e-3)


def test_repeating_a_person_adds_no_information() -> None:
    values = np.random.default_rng(1).standard_normal(50)
    once = clustered(values, np.arange(50), np.zeros(50, int))
    twice = clustered(np.tile(values, 4), np.tile(np.arange(50), 4), np.repeat(range(4), 50))
    assert twice.mean == pytest.approx(once.mean)
    assert twice.error == pytest.approx(once.error)


def test_both_ways_of_clustering_count() -> None:
    """v = user + split: the variance of the mean is that of both, and each alone is too little."""
    rng = np.random.default_rng(2)
    n_users, n_splits, n_trials = 40, 12, 200
    means, errors = [], []
    for _ in range(n_trials):
        values = rng.standard_normal((n_users, 1)) + rng.standard_normal((1, n_splits))
        users, splits_of = np.indices(values.shape)
        mean, error = clustered(values.ravel(), users.ravel(), splits_of.ravel())
        means.append(mean)
        errors.append(error)
    truth = 1 / n_users + 1 / n_splits
    # A chi-squared with 11 degrees of freedom carries most: its standard deviation is 0.43.
    assert np.mean(np.square(errors)) == pytest.approx(truth, rel=4 * 0.43 / np.sqrt(n_trials))
    assert np.var(means) == pytest.approx(truth, rel=4 * np.sqrt(2 / n_trials))


def test_a_weighted_mean_is_a_quotient() -> None:
    rng = np.random.default_rng(3)
    total, n = rng.standard_normal(2000), rng.integers(1, 9, 2000).astype(float)
    mean, error = clustered(total / n, np.arange(2000), np.arange(2000), n)
    assert mean == pytest.approx(total.sum() / n.sum())
    residual = (total - mean * n) / n.mean()
    assert error == pytest.approx(residual.std() / np.sqrt(2000), rel=1e-3)


# -- the whole ----------------------------------------------------------------------------------


def lessen(patch: pytest.MonkeyPatch) -> None:
    """The same with less to choose from."""
    for module in (splits, splits):
        patch.setattr(module, "MAX_COMPONENTS", 2)
    patch.setattr(splits, "N_RESTARTS", 1)
    patch.setattr(splits, "N_FOLDS", 2)
    patch.setattr(splits, "COMPONENTS", (1, 2))
    patch.setattr(splits, "RIDGES", (1e-2, 1e-1))
    patch.setattr(splits, "SCALES", np.array([0.3, 1.0, 3.0]))
    patch.setattr(splits, "N_PLAYS", 2)


@pytest.fixture(scope="module")
def done(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Reproduction:
    with pytest.MonkeyPatch.context() as patch:
        lessen(patch)
        return reproduce(
            ["mixts_paper.studies.movielens"], tmp_path_factory.mktemp("out"),
            n_runs=2, n_rounds=6, seed=1, engine=1, ratings=folder,
        )  # fmt: skip


def test_the_report_tells_everything(done: Reproduction, folder: Path) -> None:
    (section,) = done.sections
    assert done.n_blocks == 2
    first = section.paragraphs[0]
    assert first.startswith("Data: ratings of the user's own")
    assert "18 users with at least 60 ratings are held out" in section.paragraphs[1]
    table, leads, acted = section.tables
    assert [row[0] for row in table.rows] == list(splits.AGENTS)
    assert [row[0] for row in leads.rows] == [f"MixTS − {name}" for name in splits.AGENTS[:-1]]
    assert [row[0] for row in acted.rows] == ["bestseller", "MixTS", "MixIDS"]
    assert [bool(row[-1]) for row in acted.rows] == [True, True, False]
    assert [figure.files[0] for figure in section.figures] == [
        "studies/movielens/reward.svg", "studies/movielens/evidence.svg",
    ]  # fmt: skip
    assert len(section.claims) == 10
    assert f"--option ratings={folder}" in section.command
    # Whoever learns from others is better off than who knows nothing, on these made-up people.
    (flat,) = (claim for claim in section.claims if "knows nothing" in claim.claim)
    assert flat.verdict == "holds"


def test_a_block_is_the_same_anywhere(
    done: Reproduction, rated: Ratings, monkeypatch: pytest.MonkeyPatch
) -> None:
    lessen(monkeypatch)
    part = pickle.loads(pickle.dumps(splits.SplitBlocks(rated, 2, 6, 1)))
    arrays = part.play(1)
    with np.load(done.folder / "studies/movielens/blocks/splits/0001.npz") as kept:
        assert set(arrays) == {name for name in kept.files if name != "header.json"}
        for name, array in arrays.items():
            np.testing.assert_array_equal(array, kept[name], err_msg=name)
    n = len(arrays["latent"])
    np.testing.assert_array_equal(arrays["n_ratings"], np.bincount(rated.users)[arrays["latent"]])
    assert all(arrays[f"reward/{name}"].shape == (n, 6) for name in splits.AGENTS)
    # The same films are offered first: what was taken and what it costs belong together.
    names = (*splits.AGENTS, "bestseller", "MixIDS")
    best = [arrays[f"reward/{name}"] + arrays[f"regret/{name}"] for name in names]
    for other in best[1:]:
        np.testing.assert_allclose(other[:, 0], best[0][:, 0])


def test_no_more_rounds_than_ratings() -> None:
    setting = Setting(2, 61, 1, EXPERIMENT.choices())
    with pytest.raises(ParameterError, match="60 rounds at most, got 61"):
        EXPERIMENT.parts(setting, lambda name, make: make())
