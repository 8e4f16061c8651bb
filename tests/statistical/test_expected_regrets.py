"""Regret of linear actions against closed forms, and against plain draws."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

import mixts
from tests.statistical import settings
from tests.statistical.standard_errors import assert_within, of_mean, quotient
from tests.statistical.test_action_probabilities import ACTIONS, learned

FEW = 10
"""Samples behind an estimate: so few that a bias would show."""
N = 4000
ZEROS = np.zeros(N, int)


def estimates(prior: mixts.MixturePrior, actions: Any, n_samples: int = FEW) -> Any:
    """Independent estimates of the expected regrets under a prior, (N, K)."""
    posterior: Any = prior.belief(1).posterior
    mask, weights = np.ones((N, len(actions)), bool), np.tile(prior.weights, (N, 1))
    rng = np.random.default_rng(40)
    return posterior.best_in_draws(rng, ZEROS, weights, actions, mask, n_samples)[2]


def two_actions(prior: mixts.MixturePrior, actions: Any) -> Any:
    """E[max(X_0, X_1)] - E[X_a] of normal differences, component by component."""
    family: Any = prior.family
    gap = actions[1] - actions[0]
    mean, spread = family.mean @ gap, np.sqrt(gap @ family.covariance @ gap)
    rise = mean * stats.norm.cdf(mean / spread) + spread * stats.norm.pdf(mean / spread)
    return np.array([prior.weights @ rise, prior.weights @ (rise - mean)])


@pytest.mark.parametrize("n_components", [1, 3])
@pytest.mark.parametrize("shift", [0.0, 0.4, 2.0])
def test_two_actions(n_components: int, shift: float) -> None:
    rng = np.random.default_rng(41)
    root, far = rng.normal(size=(n_components, 3, 3)) / 2, np.array([shift, 0.0, 0.0])
    mean = rng.normal(size=(n_components, 3)) + far
    family = mixts.LinearGaussian(mean, root @ np.swapaxes(root, 1, 2), 1.0)
    prior = mixts.MixturePrior(family, weights=settings.WEIGHTS if n_components == 3 else None)
    actions = rng.normal(size=(2, 3)) + np.stack([far, np.zeros(3)])
    found = estimates(prior, actions)
    assert found.min() >= 0
    assert_within(of_mean(found, two_actions(prior, actions)))


def plain_draws(belief: Any, actions: Any, n: int) -> Any:
    """max_b X_b - X_a in n draws of the latent state and the parameters."""
    family, rng = belief.as_prior().family, np.random.default_rng(42)
    latent = rng.choice(len(belief.weights), n, p=belief.weights)
    roots = np.linalg.cholesky(family.covariance)
    x = rng.normal(size=(n, family.n_features))
    scores = (family.mean[latent] + np.einsum("nde,ne->nd", roots[latent], x)) @ actions.T
    return scores.max(axis=1, keepdims=True) - scores


@pytest.mark.parametrize("n_rounds", [1, 9, 60])
def test_plain_draws(n_rounds: int) -> None:
    """After some rounds, from many draws; their own error counts as well."""
    setting = settings.linear(0.3, noise_std=1.5)
    agent = learned(mixts.MixTS(setting.prior, 1, seed=3), setting, n_rounds)
    belief = setting.prior.condition(agent.belief.statistics[0])
    found = estimates(belief.as_prior(), ACTIONS)
    drawn = plain_draws(belief, ACTIONS, 300_000)
    error = np.sqrt(found.var(axis=0) / len(found) + drawn.var(axis=0) / len(drawn))
    assert_within(quotient(found.mean(axis=0) - drawn.mean(axis=0), error))
    # Draws come in opposite pairs: the error is below that of as many independent ones.
    lead, n_draws = drawn.mean(axis=0).argmin(), 2 * (2 + FEW // 2 * belief.weights).sum()
    assert found[:, lead].std() < drawn[:, lead].std() / np.sqrt(n_draws)
