"""The study of clicks with features, at a small size."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from studies import clicks


def test_worlds_have_the_rate_that_was_asked_for() -> None:
    rng = np.random.default_rng(1)
    for rate in (0.02, 0.5):
        world = clicks.draw_world(rate, rng)
        means = world.family.mean_rewards(
            world.family.parameter_means(), clicks.draw_offers(9000, rng)
        )
        assert means.mean() == pytest.approx(rate, rel=0.15)


def test_agents_are_compared_on_the_same_users(capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ["--worlds", "2", "--past", "30", "--new", "2", "--rounds", "2"]
    clicks.main(["simulate", "--rates", "0.5", *sizes])
    first = capsys.readouterr().out
    assert first.count("\n") == 2 + 7
    assert "logistic, MixTS" in first
    clicks.main(["simulate", "--rates", "0.5", *sizes])
    assert capsys.readouterr().out == first


def test_ratings_are_predicted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(2)
    (tmp_path / "movies.csv").write_text(
        "movieId,title,genres\n1,A,Comedy|Drama\n2,B,Drama\n3,C,(no genres listed)\n"
    )
    rows = [
        f"{user},{1 + k % 3},{rng.choice([3, 4, 5])},{100 * user + k}"
        for user in range(1, 26)
        for k in range(12)
    ]
    (tmp_path / "ratings.csv").write_text("userId,movieId,rating,timestamp\n" + "\n".join(rows))
    ratings = clicks.read_ratings(tmp_path)
    assert ratings.names == ("intercept", "Comedy", "Drama")
    np.testing.assert_array_equal(ratings.rows[:3], [[1, 1, 1], [1, 0, 1], [1, 0, 0]])
    clicks.main(["movielens", str(tmp_path), "--ratings", "3"])
    printed = capsys.readouterr().out
    assert "20 users to learn from, 5 held out with 3 ratings each" in printed
    assert printed.count("predicted %") == 3
