"""One model of all rows: what a team has without a mixture prior."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import mixts
from mixts.diagnostics.bestseller import merged, pooled_scores


def clicks(scale: float, seed: int = 3) -> tuple[np.ndarray, np.ndarray, mixts.Statistics]:
    """Return rows with an intercept, 0 and 1, and the statistics of 50 tasks that share them."""
    rng = np.random.default_rng(seed)
    rows = np.column_stack([np.ones(2000), rng.standard_normal((2000, 2)).round(1)])
    rewards = (rng.random(2000) < 1 / (1 + np.exp(-rows @ [-1.0, 0.8, -0.4]))).astype(int)
    rows[:, 2] *= scale
    belief = mixts.MixturePrior(mixts.LinearBernoulli.standard(3)).belief(50)
    belief.update(rows, rewards, tasks=rng.integers(50, size=2000))
    return rows, rewards, belief.statistics


@pytest.mark.parametrize("scale", [1.0, 1e6, 1e-6])
def test_clicks_have_a_logistic_regression(scale: float) -> None:
    rows, rewards, tasks = clicks(scale)
    wide = np.diag([9.0, 9.0, 9.0 / scale**2])
    prior = mixts.MixturePrior(mixts.LinearBernoulli(np.zeros((1, 3)), wide[None]))
    rival = LogisticRegression(C=9.0, fit_intercept=False, tol=1e-10, max_iter=1000)
    rival.fit(rows / [1.0, 1.0, scale], rewards)
    found = pooled_scores(prior, tasks) * [1.0, 1.0, scale]
    np.testing.assert_allclose(found, rival.coef_[0], rtol=1e-4)


def test_separable_clicks_and_singular_priors_are_finite() -> None:
    """No regression without a prior exists for the first; the second knows one coefficient."""
    rows = np.array([[1.0, -1.0], [1.0, 1.0]]).repeat(100, axis=0)
    covariance = np.array([[[4.0, 0.0], [0.0, 0.0]]])
    for prior, sure in (
        (mixts.MixturePrior(mixts.LinearBernoulli.standard(2)), None),
        (mixts.MixturePrior(mixts.LinearBernoulli([[0.0, 0.7]], covariance)), 0.7),
    ):
        belief = prior.belief(1)
        belief.update(rows, np.arange(200) >= 100, tasks=np.zeros(200, int))
        found = pooled_scores(prior, belief.statistics)
        assert np.isfinite(found).all()
        assert found[1] == sure if sure is not None else found[1] > 2


def test_merged_statistics_are_those_of_all_rows() -> None:
    prior = mixts.MixturePrior(mixts.BernoulliArms(np.ones((1, 3)), np.ones((1, 3))))
    rng = np.random.default_rng(1)
    for n in (1, 2, 7):
        belief = prior.belief(n)
        belief.update(rng.integers(3, size=60), rng.integers(2, size=60), rng.integers(n, size=60))
        whole = merged(belief.statistics)
        assert len(whole) == 1
        np.testing.assert_array_equal(whole.pulls[0], belief.statistics.pulls.sum(axis=0))


def test_an_arm_that_was_hardly_tried_is_no_bestseller() -> None:
    prior = mixts.MixturePrior(mixts.BernoulliArms(np.ones((1, 4)), np.ones((1, 4))))
    belief = prior.belief(2)
    for arm, (n, clicked) in enumerate([(600, 180), (600, 300), (3, 3), (5, 0)]):
        belief.update(np.full(n, arm), np.arange(n) < clicked, tasks=np.arange(n) % 2)
    scores = pooled_scores(prior, belief.statistics)
    assert np.argsort(-scores)[:2].tolist() == [1, 0]
    np.testing.assert_allclose(scores, [0.3, 0.5, 0.3, 0.3], atol=0.01)
