"""Coefficients of log odds in words."""

from __future__ import annotations

import numpy as np
import pytest

import mixts
from mixts.pages.kinds import descriptions_of
from mixts.pages.odds import effect, importance, levels_of, steps_of


@pytest.mark.parametrize(("change", "words"), [
    (np.log(2), "doubles the odds"), (-np.log(2), "halves the odds"),
    (np.log(1.5), "multiplies the odds by 1.5"), (-np.log(30), "divides the odds by 30"),
    (0.04, "hardly changes the odds"), (50.0, "multiplies the odds by over 1,000"),
])  # fmt: skip
def test_changes_of_odds(change: float, words: str) -> None:
    assert effect(change) == words


@pytest.mark.parametrize(("own", "usual", "words"), [
    (2.0, 1.0, "counts twice as much as usual"), (-0.5, -1.0, "counts half as much as usual"),
    (1.2, 1.0, ""), (3.0, 1.0, "counts 3.0 times as much as usual"),
    (0.3, 1.0, "counts 0.3 times as much as usual"), (1.0, 0.01, "counts, and usually hardly does"),
    (0.01, 1.0, "hardly counts"), (1.0, -1.0, "has the opposite effect"), (0.01, -0.01, ""),
])  # fmt: skip
def test_importance_beside_all_tasks(own: float, usual: float, words: str) -> None:
    assert importance(own, usual) == words


def test_steps_are_one_or_about_the_spread() -> None:
    levels = np.array([False, False, False, True])
    np.testing.assert_allclose(
        steps_of(np.array([2.0, 900.0, 0.02, 0.1]), levels), [1, 1e3, 0.01, 1]
    )
    features = mixts.Features(["price", mixts.LevelFeature("brand", ("a", "b", "c"))])
    assert levels_of(features, 4).tolist() == [False, True, True, True]


def test_kinds_in_odds() -> None:
    features = mixts.Features(
        ["price", mixts.LevelFeature("brand", ("a", "b"), reference="a")], intercept=True
    )
    family = mixts.LinearBernoulli([[-3.0, 1.4, 0.0], [-3.0, 0.0, 0.0]], [0.01, 0.01], "spherical")
    first, second = descriptions_of(mixts.MixturePrior(family, features=features))
    assert first == (
        "`price` counts twice as much as usual: 1 more of `price` multiplies the odds by 4.1 "
        "(doubles the odds over all tasks)."
    )
    assert second == (
        "`price` hardly counts: 1 more of `price` hardly changes the odds (doubles the odds over "
        "all tasks)."
    )
