"""The comparison of rules for the number of kinds, at a small scale."""

from __future__ import annotations

import numpy as np
import pytest

from studies import kinds
from studies.coldstart.movielens.ratings import Ratings
from studies.kinds import (
    FOUR,
    RULES,
    film_panel,
    genre_panel,
    linear_panel,
    main,
    measure,
    synthetic_panel,
    table,
)


def ratings(n_users: int = 30, n_films: int = 40) -> Ratings:
    """Every user rates every film; users of even number like the first genre."""
    users, films = (part.ravel() for part in np.indices((n_users, n_films)))
    genres = np.arange(n_films) % 2 == 0
    values = np.where(genres[films] == (users % 2 == 0), 5.0, 2.0)
    both = np.column_stack([genres, ~genres])
    titles = tuple(f"film {k}" for k in range(n_films))
    return Ratings(users, films, values, titles, ("A", "B"), both, np.full(n_films, 2000.0))


def test_a_panel_is_measured_by_all_rules() -> None:
    panel = synthetic_panel(2, 24, 10, np.random.default_rng(1), n_tests=20)
    found = measure(panel, seed=1)
    assert len(found) == 2
    assert set(found[0]) == {*RULES, FOUR}
    assert found[0][FOUR].n_components == 4
    for one in found:
        assert one["one-standard-error"].n_components <= one["best"].n_components
        for row in one.values():
            assert np.isfinite(row.evidence)
            assert {name: gain.shape for name, gain in row.rewards.items()} == {
                "MixIDS": (3,), "Greedy": (3,),
            }  # fmt: skip
    lines = list(table([found, found]))
    assert len(lines) == 2 + len(RULES)
    assert "+0.0000 ±0.0000" in lines[-2]


def test_actions_with_features_earn_their_mean() -> None:
    panel = linear_panel(2, 24, 10, np.random.default_rng(3), n_tests=100)
    assert panel.tests.features is not None
    uniform = np.full((5, 100), 0.5)
    always = np.zeros(kinds.N_ARMS)

    class Always:
        def act(self, actions: np.ndarray, mask: np.ndarray) -> np.ndarray:
            return np.full(100, 3)

        def update(self, actions: np.ndarray, rewards: np.ndarray) -> None:
            always[3] += rewards.mean() / len(uniform)

    earned = kinds.play(Always(), panel.tests, uniform)
    assert always[3] == pytest.approx(panel.tests.chance[:, 3].mean())
    assert earned[0] == pytest.approx(always[3])


def test_panels_of_ratings() -> None:
    rng = np.random.default_rng(2)
    genres = genre_panel(ratings(), 10, rng)
    assert [len(part) for part in genres.training] == [10, 10]
    assert len(genres.tests.chance) == 10
    assert set(np.unique(genres.tests.chance)) == {0.0, 1.0}
    np.testing.assert_array_equal(np.asarray(genres.training[0].n_observations), kinds.N_RATED)
    films = film_panel(ratings(), 10, rng)
    assert films.tests.once
    assert films.tests.offered.shape == (10, 40)
    assert films.tests.offered.all()
    np.testing.assert_array_equal(films.tests.chance.sum(axis=1), 20)


def test_the_bestseller_earns_the_mean_of_its_arm() -> None:
    panel = film_panel(ratings(), 10, np.random.default_rng(2))
    earned = kinds.play(
        kinds._Bestseller(panel.tests, panel.training[0], None), panel.tests, np.full((20, 10), 0.5)
    )
    assert ((earned >= 0) & (earned <= 1)).all()


def test_the_command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kinds, "SIZES", ((12, 5),))
    monkeypatch.setattr(kinds, "N_SYNTHETIC", 10)
    main(["--only", "1 kind,", "--repeats", "1"])
    printed = capsys.readouterr().out
    assert printed.startswith("synthetic, 1 kind, 12 tasks, 5 rows a task\n")
    assert len(printed.splitlines()) == 3 + len(RULES)
