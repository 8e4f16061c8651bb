"""The paper's synthetic bandit, for bounds: 30 arms, means 0.9 and 0.1, noise 0.1, 1,000 rounds."""

from __future__ import annotations

from typing import Any

import numpy as np
from mixts_paper.bounds import EntropyTerms, best_arm_entropy, entropy_terms

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


def terms(width: float, weights: Any = None, with_arms: bool = True) -> EntropyTerms:
    """The entropy bounds; without arms, w_s is that without h_s."""
    p = uniform() if weights is None else weights
    h = best_arm_entropy(means(len(p)), width) if with_arms else None
    mean, covariance = means(len(p)), covariances(width, len(p))
    return entropy_terms(N, p, mean, covariance, NOISE, 1.0, K, h, RANGE)
