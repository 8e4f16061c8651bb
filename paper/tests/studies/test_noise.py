"""The comparison of both kinds of noise, at a small scale."""

from __future__ import annotations

import numpy as np
import pytest
from mixts_paper.studies import noise
from mixts_paper.studies.movielens.ratings import Ratings


def ratings(n_users: int = 60, n_films: int = 70) -> Ratings:
    """Every user rates every film; every other user scatters by a third of the noise."""
    users, films = (part.ravel() for part in np.indices((n_users, n_films)))
    rng = np.random.default_rng(1)
    own = np.where(np.arange(n_users) % 2, 0.4, 1.2)
    values = 3.0 + rng.normal(size=n_films)[films] + own[users] * rng.normal(size=len(users))
    genres = np.eye(3, dtype=bool)[np.arange(n_films) % 3]
    titles = tuple(f"film {k}" for k in range(n_films))
    years = 1990.0 + np.arange(n_films) % 20
    return Ratings(users, films, values, titles, ("A", "B", "C"), genres, years)


def test_users_of_different_noise_are_found(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(noise, "read_files", lambda path: path)
    monkeypatch.setattr(noise, "parse", lambda files: ratings())
    noise.main(["--splits", "1", "--components", "1"])
    printed = capsys.readouterr().out
    for panel in ("films", "genres"):
        (line,) = [row for row in printed.splitlines() if row.startswith(panel)]
        gain, error = line.split(": ")[1].split(" nats")[0].split(" ± ")
        assert float(gain) > 3 * float(error)
