"""The paper's synthetic bandit, for bounds: 30 arms, means 0.9 and 0.1, noise 0.1, 1,000 rounds."""

from __future__ import annotations

from typing import Any

import numpy as np
from mixts_paper.bounds import (
    EntropyTerms,
    NarrowTerms,
    best_action_entropy,
    entropy_terms,
    narrow_terms,
)

import mixts

N, K, NOISE, RANGE = 1000, 30, 0.1, 0.8


def uniform(n_states: int = K) -> Any:
    return np.full(n_states, 1 / n_states)


def zipf(exponent: float) -> Any:
    weights = np.arange(1.0, K + 1) ** -exponent
    return weights / weights.sum()


def means(n_states: int = K) -> Any:
    table = np.full((n_states, K), 0.1)
    table[np.arange(n_states), np.arange(n_states)] = 0.9
    return table


def covariances(width: float, n_states: int = K) -> Any:
    return np.broadcast_to(width**2 * np.eye(K), (n_states, K, K))


def arm_entropies(mean: Any, width: Any) -> Any:
    """The entropy of the best of Gaussian arms; the noise of rewards does not matter for it."""
    variances = np.broadcast_to(np.square(width), np.shape(mean))
    return best_action_entropy(mixts.GaussianArms(mean, variances, 1.0))


def terms(width: float, weights: Any = None, with_arms: bool = True) -> EntropyTerms:
    """The entropy bounds; without arms, w_s is that without h_s."""
    p = uniform() if weights is None else weights
    h = arm_entropies(means(len(p)), width) if with_arms else None
    mean, covariance = means(len(p)), covariances(width, len(p))
    return entropy_terms(N, p, mean, covariance, NOISE, 1.0, K, h, RANGE)


def narrow(n: int, weights: Any, table: Any, width: float, noise: float) -> NarrowTerms:
    """With the cost of learning that the entropy bounds have."""
    table = np.array(table, float)
    covariance = np.broadcast_to(width**2 * np.eye(table.shape[1]), (*table.shape, table.shape[1]))
    h = arm_entropies(table, width)
    known = entropy_terms(n, weights, table, covariance, noise, 1.0, table.shape[1], h)
    return narrow_terms(n, weights, table, width, noise, known.learning)
