"""Items that are taken at most once: the study, and what it says about MixIDS."""

from __future__ import annotations

import numpy as np
import pytest
from mixts_paper.studies import BESTSELLER, IDS
from mixts_paper.studies import policies as study
from mixts_paper.studies.policies import GREEDY, TS, Comparison

import mixts
from mixts.extend import Array, random
from mixts.simulation import simulate


def described_items(seed: int) -> tuple[mixts.MixturePrior, Array]:
    """Return 40 items with four features and an effect of their own, and kinds of people."""
    rng = random.stream(seed, "once", "described")
    n_items, d = 40, 4
    rows = np.hstack([rng.standard_normal((n_items, d)) / np.sqrt(d), np.eye(n_items)])
    mean = np.hstack([0.7 * rng.standard_normal((3, d)), np.zeros((3, n_items))])
    own = np.where(rng.random(n_items) < 1 / 3, 3.0, 0.3) ** 2
    variance = np.tile(np.append(np.full(d, 0.3**2), own), (3, 1))
    family = mixts.LinearGaussian(mean, variance, 0.5, "diag")
    return mixts.MixturePrior(family, repeatable=False), rows


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("features", [False, True])
def test_ids_is_not_below_the_bestseller(features: bool, seed: int) -> None:
    """Where people differ in some items for no reason that other items could show.

    As if items came again, MixIDS pays for these items: far below the bestseller and Greedy.
    """
    prior, rows = described_items(seed) if features else (study.items_prior(3, seed), None)
    specs = {
        name: spec
        for name, spec in study.once_policies(prior).items()
        if name in (BESTSELLER, GREEDY, IDS, study.AGAIN.format(IDS))
    }
    played = simulate(specs, mixts.BanditEnvironment(prior, rows), 20, 50, seed, engine=1)
    earned = Comparison("items", played.reward, (5, 20), rewards=True)
    before, greedy = earned.gain(study.AGAIN.format(IDS), GREEDY, 20), earned.gain(IDS, GREEDY, 20)
    assert before.mean < -0.1
    assert before.mean < -4 * before.error
    assert greedy.mean > -3 * greedy.error
    for n in (5, 20):
        gain = earned.gain(IDS, BESTSELLER, n)
        assert gain.mean > -2 * gain.error


def test_people_are_replayed_with_films_that_they_rated() -> None:
    """Every policy sees each film of a person once; people with few films are left out."""
    rng = np.random.default_rng(3)
    people, arms = np.repeat([4, 7, 9], [60, 45, 30]), np.concatenate(
        [rng.permutation(study.N_FILMS)[:n] for n in (60, 45, 30)]
    )  # fmt: skip
    values = rng.integers(1, 6, len(arms)).astype(float)
    means = rng.normal(3.5, 0.3, (2, study.N_FILMS))
    prior = mixts.MixturePrior(
        mixts.GaussianArms(means, np.full(means.shape, 0.5), 0.8), repeatable=False
    )
    users, rewards = study.replayed(prior, arms, values, people)
    assert users.tolist() == [4, 7]
    assert {BESTSELLER, GREEDY, IDS, TS} <= rewards.keys()
    order = np.argsort(-means.mean(axis=0)[arms[people == 4]], kind="stable")
    np.testing.assert_array_equal(rewards[BESTSELLER][0], values[people == 4][order][:20])
