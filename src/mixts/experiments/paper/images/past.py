"""The prior of the image bandit, from 1,000 past tasks on training images."""

from __future__ import annotations

import numpy as np

from mixts import _random
from mixts._typing import Array, Float, Int
from mixts.experiments.base import Arrays
from mixts.families import LinearGaussian
from mixts.learning.two_stage import (
    gaussian_of_estimates,
    mixture_of_estimates,
    one_blas_thread,
    ridge_coefficients,
)
from mixts.prior import MixturePrior

N_TASKS = 1000
N_IMAGES = 500
"""Of each past task, drawn from the training images without replacement."""


def past_coefficients(features: Float[Array, "n d"], labels: Int[Array, " n"], seed: int) -> Arrays:
    """A linear model of each past task: reward 1 for its class, 0 for others  [paper: Sec. 6.2]."""
    rng = _random.stream(seed, "paper/images", "past")
    n_images = min(N_IMAGES, len(labels))
    n_classes = int(labels.max()) + 1
    tasks = rng.integers(n_classes, size=N_TASKS)
    coefficients = np.empty((N_TASKS, features.shape[1]))
    with one_blas_thread():
        for i, task in enumerate(tasks):
            shown = rng.choice(len(labels), n_images, replace=False)
            rewards = (labels[shown] == task).astype(float)
            coefficients[i] = ridge_coefficients(features[shown], rewards)
    return {"coefficients": coefficients, "tasks": tasks}


def prior_arrays(
    coefficients: Float[Array, "n d"], n_classes: int, noise_std: float, seed: int
) -> Arrays:
    """The mixture, and the one Gaussian, of the past tasks' coefficients."""
    # scikit-learn takes 32 bits.
    state = int(_random.seed_sequence(seed, "paper/images", "mixture").generate_state(1)[0])
    mixture = mixture_of_estimates(coefficients, n_classes, noise_std, state)
    one = gaussian_of_estimates(coefficients, noise_std)
    assert isinstance(mixture.family, LinearGaussian)
    assert isinstance(one.family, LinearGaussian)
    return {
        "mean": mixture.family.mean,
        "covariance": mixture.family.covariance,
        "unimodal_mean": one.family.mean,
        "unimodal_covariance": one.family.covariance,
    }


def prior_of(arrays: Arrays, noise_std: float) -> tuple[MixturePrior, MixturePrior]:
    """MixTS's prior, with equally likely latent states, and UniTS's."""
    mixture = LinearGaussian(arrays["mean"], arrays["covariance"], noise_std)
    one = LinearGaussian(arrays["unimodal_mean"], arrays["unimodal_covariance"], noise_std)
    return MixturePrior(mixture), MixturePrior(one)
