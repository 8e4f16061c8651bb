"""The evidence for a challenger: values by hand, and its words."""

from __future__ import annotations

import math

import numpy as np
import pytest
from mixts_serve.challenger import Account, Contest, History, log_ratios

import mixts


def champion() -> mixts.MixturePrior:
    return mixts.MixturePrior(mixts.BernoulliArms([[8, 2], [2, 8]], [[2, 8], [8, 2]]), [0.7, 0.3])


def challenger() -> mixts.MixturePrior:
    family = mixts.BernoulliArms([[8, 2], [2, 8], [5, 5]], [[2, 8], [8, 2], [5, 5]])
    return mixts.MixturePrior(family, [0.5, 0.2, 0.3])


def history(successes: list[int], failures: list[int]) -> History:
    arms = np.repeat([0, 1, 0, 1], [*successes, *failures])
    return History(arms, np.repeat([1.0, 0.0], [sum(successes), sum(failures)]))


HISTORIES = [
    history([2, 0], [0, 1]), history([0, 3], [1, 0]), history([1, 1], [1, 2]),
    history([0, 0], [0, 0]),
]  # fmt: skip


def test_the_evidence_of_four_tasks_is_as_computed_by_hand() -> None:
    found = log_ratios(champion(), challenger(), HISTORIES)
    assert found.round(6).tolist() == [-0.192998, -0.166775, 0.276635, 0.0]
    assert round(math.exp(found.sum()), 6) == 0.920224


def test_an_arm_that_only_one_version_knows_changes_nothing() -> None:
    """Its parameters are no part of histories without it."""
    one, other = champion(), challenger().with_arms(mixts.BernoulliArms([[1]] * 3, [[4]] * 3))
    np.testing.assert_allclose(
        log_ratios(one, other, HISTORIES), log_ratios(one, challenger(), HISTORIES), atol=1e-14
    )


def test_rows_of_features_are_compared_as_well() -> None:
    one, other = (
        mixts.MixturePrior(mixts.LinearGaussian([[m, 0.0]], [1.0], 0.5, "spherical"))
        for m in (0.0, 1.0)
    )
    (found,) = log_ratios(one, other, [History(np.array([[1.0, 0.0]]), np.array([1.0]))])
    assert found == pytest.approx(0.5 / 1.25)  # N(1; 1, 1.25) against N(1; 0, 1.25)


@pytest.mark.parametrize(
    ("log_evidence", "words"),
    [
        (math.log(14), "evidence 14 to 1 for version 4 over version 3 after 120 new tasks"),
        (-math.log(2), "evidence 2.0 to 1 for version 3 over version 4 after 120 new tasks"),
        (1e4, "evidence more than a million to 1 for version 4 over version 3 after 120 new tasks"),
    ],
)
def test_words(log_evidence: float, words: str) -> None:
    assert Account(Contest(3, 4, 0), 120, log_evidence, ()).words == words
