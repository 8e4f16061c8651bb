"""With one component the expectations of our object have the law of MABWiser's."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from scipy.stats import ks_2samp

import mixts
from mixts._typing import Array
from mixts.bridges.mabwiser import MAB

pytest.importorskip("mabwiser")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of the libraries that it imports
    from mabwiser.mab import MAB as THEIRS
    from mabwiser.mab import LearningPolicy

ARMS = ["a", "b", "c"]
N = 20_000


def draws(mab: Any, contexts: Array) -> Array:
    """Return N expectations of every arm, (N, K)."""
    found = mab.predict_expectations(np.repeat(contexts, N, axis=0))
    return np.array([[one[arm] for arm in ARMS] for one in found])


def compare(ours: Array, theirs: Array) -> None:
    """Compare the law of each arm by the largest distance, and look for independent arms."""
    for k in range(len(ARMS)):
        # A right law fails for one seed in 10,000.
        assert ks_2samp(ours[:, k], theirs[:, k]).pvalue > 1e-4
    off_diagonal = np.corrcoef(ours.T)[~np.eye(len(ARMS), dtype=bool)]
    assert np.abs(off_diagonal).max() < 5 / np.sqrt(N)


def test_a_uniform_component_is_thompson_sampling() -> None:
    prior = mixts.MixturePrior(mixts.BernoulliArms.uniform(3))
    ours, theirs = MAB(ARMS, prior, seed=3), THEIRS(ARMS, LearningPolicy.ThompsonSampling(), seed=3)
    for mab in (ours, theirs):
        mab.fit(["a", "b", "a", "a", "b"], [1, 0, 1, 0, 0])
        mab.partial_fit(["c", "a"], [1, 1])
    compare(draws(ours, np.zeros((1, 1))), draws(theirs, np.zeros((1, 1))))
    # Both choose each arm equally often.
    chosen = [np.array(mab.predict(np.zeros((N, 1)))) for mab in (ours, theirs)]
    for arm in ARMS:
        share = [float((one == arm).mean()) for one in chosen]
        assert abs(share[0] - share[1]) < 5 * np.sqrt(2 * 0.25 / N)


def test_a_wide_component_is_linear_thompson_sampling() -> None:
    """LinTS has the posterior of noise alpha and prior variance alpha^2 / l2.

    Only each arm's own law is the same: MABWiser 2.7 copies its generator into the model of every
    arm, and then draws all arms with the same random numbers.
    """
    alpha, penalty = 0.7, 2.0
    family = mixts.LinearGaussian(
        np.zeros((1, 6)), [alpha**2 / penalty], noise_std=alpha, covariance_type="spherical"
    )
    ours = MAB(ARMS, mixts.MixturePrior(family), seed=3)
    theirs = THEIRS(ARMS, LearningPolicy.LinTS(alpha=alpha, l2_lambda=penalty), seed=3)
    contexts = np.array([[1.0, 0.5], [0.2, -1.0], [1.0, 1.0], [0.0, 2.0]])
    for mab in (ours, theirs):
        mab.fit(["a", "b", "c", "a"], [1.0, 0.3, -0.4, 2.0], contexts)
        mab.partial_fit(["b"], [0.9], contexts[:1])
    compare(draws(ours, contexts[2:3]), draws(theirs, contexts[2:3]))
