from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import mixts
from mixts import _random
from mixts.environments import ClassificationBandit
from mixts.errors import ActionError, ParameterError

LABELS = np.array([2, 0, 1, 1, 2, 2, 0])
FEATURES = np.arange(14.0).reshape(7, 2)


def bandit(**options) -> ClassificationBandit:
    return ClassificationBandit(FEATURES, LABELS, **{"n_actions": 4, **options})


def start(environment: ClassificationBandit, n: int, seed: int = 0):
    return environment.start(partial(_random.stream, seed), n)


def labels_of(sets: np.ndarray) -> np.ndarray:
    """Features are different, so they tell which image it is."""
    return LABELS[(sets[..., 0] / 2).astype(int)]


def test_one_image_is_surely_of_the_tasks_class() -> None:
    problem = start(bandit(n_actions=1), 200)
    offered, mask = problem.next_round()
    assert mask is None
    np.testing.assert_array_equal(labels_of(offered)[:, 0], problem.latent)


def test_the_sure_image_is_in_any_slot_and_any_of_its_class() -> None:
    environment = bandit(n_actions=3)
    rng = np.random.default_rng(1)
    n = 6000
    classes = np.full(n, 1)
    images = environment.draw_images(rng, classes)
    right = LABELS[images] == 1
    assert right.any(axis=1).all()
    # The others are drawn from all images: 2 of 7 are of class 1 as well.
    expected = (1 + 2 * 2 / 7) / 3
    error = np.sqrt(expected * (1 - expected) / n)
    assert (np.abs(right.mean(axis=0) - expected) < 4 * error).all()
    shares = np.bincount(images[right], minlength=7)[[2, 3]] / right.sum()
    assert np.abs(shares - 0.5).max() < 4 * 0.5 / np.sqrt(right.sum())


def test_rewards_have_the_means_of_the_classes() -> None:
    n = 4000
    problem = start(bandit(success=(0.8, 0.3)), n)
    offered, _ = problem.next_round()
    chosen = np.zeros(n, int)
    outcome = problem.play(chosen)
    right = labels_of(offered)[:, 0] == problem.latent
    np.testing.assert_array_equal(outcome.values, np.where(right, 0.8, 0.3))
    np.testing.assert_array_equal(outcome.best, np.full(n, 0.8))
    np.testing.assert_array_equal(outcome.feedback[0], offered[:, 0])
    assert set(np.unique(outcome.rewards)) == {0.0, 1.0}
    for mean, rewards in ((0.8, outcome.rewards[right]), (0.3, outcome.rewards[~right])):
        assert abs(rewards.mean() - mean) < 4 * np.sqrt(mean * (1 - mean) / len(rewards))


def test_classes_are_drawn_uniformly_not_by_their_number_of_images() -> None:
    n = 6000
    shares = np.bincount(start(bandit(), n).latent, minlength=3) / n
    assert np.abs(shares - 1 / 3).max() < 4 * np.sqrt(2 / 9 / n)


def test_agents_see_the_same_images_whatever_they_choose() -> None:
    first, second = start(bandit(), 5, 7), start(bandit(), 5, 7)
    for t in range(3):
        a, b = first.next_round().actions, second.next_round().actions
        np.testing.assert_array_equal(a, b)
        first.play(np.zeros(5, int))
        second.play(np.full(5, t))


def test_mixts_learns_which_class_it_is() -> None:
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(4), 30)
    features = np.eye(4)[labels] + 0.05 * rng.normal(size=(120, 4))
    prior = mixts.MixturePrior(mixts.LinearGaussian(np.eye(4), np.full((4, 4), 1e-3), 0.5, "diag"))
    results = mixts.simulate(
        {"MixTS": prior}, ClassificationBandit(features, labels, 6), 80, 20, 1, 1
    )
    early, late = results.regret["MixTS"][:, :5].mean(), results.regret["MixTS"][:, -20:].mean()
    assert late < 0.02 < 0.1 < early


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"labels": LABELS[:-1]}, "labels must be 7 integers"),
        ({"labels": LABELS.astype(float)}, "labels must be 7 integers"),
        ({"labels": LABELS - 1}, "labels must be 7 integers"),
        ({"labels": LABELS + 1}, "0 has none"),
        ({"features": np.full((7, 2), np.nan)}, "features"),
        ({"n_actions": 0}, "n_actions"),
        ({"success": (0.9, 1.1)}, "two probabilities"),
        ({"success": (0.9,)}, "two probabilities"),
    ],
)
def test_bad_images_are_refused(options: dict, match: str, unchecked: None) -> None:
    with pytest.raises(ParameterError, match=match):
        ClassificationBandit(**{"features": FEATURES, "labels": LABELS, **options})


def test_bad_choices_are_refused() -> None:
    problem = start(bandit(), 2)
    problem.next_round()
    with pytest.raises(ActionError, match="one of 4 actions"):
        problem.play([0, 4])
