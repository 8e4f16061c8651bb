"""The problem of these benchmarks: 10 Bernoulli arms, 5 components."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

import mixts

N_ARMS, N_COMPONENTS, N_TASKS = 10, 5, 5_000
STRENGTH = 20.0
"""Pseudo-observations of an arm under its component."""
SEED = 1


def make_prior() -> mixts.MixturePrior:
    """Return a prior whose components prefer different arms."""
    rng = np.random.default_rng(SEED)
    mean = rng.uniform(0.05, 0.6, (N_COMPONENTS, N_ARMS))
    family = mixts.BernoulliArms(STRENGTH * mean, STRENGTH * (1 - mean))
    return mixts.MixturePrior(family, arm_names=[f"arm {k}" for k in range(N_ARMS)])


def true_means(prior: mixts.MixturePrior, n_tasks: int) -> npt.NDArray[np.float64]:
    """Draw the mean rewards of tasks from the prior, (n_tasks, N_ARMS)."""
    _, means = prior.draw(np.random.default_rng(SEED + 1), n_tasks)
    return means
