"""Bandits with three latent states for tests of the analysis."""

from __future__ import annotations

from typing import Any

import numpy as np

import mixts
from mixts.environments import BanditEnvironment

WEIGHTS = [0.5, 0.3, 0.2]


def gaussian() -> tuple[mixts.MixturePrior, BanditEnvironment]:
    mean = np.array([[1.0, 0.0, 0.2], [0.0, 0.8, 0.2], [-0.5, 0.1, 0.9]])
    variance = np.array([[0.2, 0.1, 0.5], [0.1, 0.4, 0.1], [0.6, 0.05, 0.2]])
    prior = mixts.MixturePrior(mixts.GaussianArms(mean, variance, 0.7), WEIGHTS)
    return prior, BanditEnvironment(prior)


def directions(rng: np.random.Generator, n_tasks: int) -> Any:
    return rng.normal(size=(n_tasks, 5, 4))


def linear(actions: Any = directions) -> tuple[mixts.MixturePrior, BanditEnvironment]:
    rng = np.random.default_rng(12)
    root = rng.normal(size=(3, 4, 4))
    covariance = root @ np.swapaxes(root, 1, 2)
    family = mixts.LinearGaussian(0.3 * rng.normal(size=(3, 4)), covariance, 0.5)
    prior = mixts.MixturePrior(family, WEIGHTS)
    return prior, BanditEnvironment(prior, actions)
