"""Agents and priors for the tests of simulation, where worker processes can import them."""

from __future__ import annotations

import multiprocessing
from typing import Any

import numpy as np

import mixts
from mixts import errors

N_ARMS, N_FEATURES = 4, 3
ACTIONS = np.random.default_rng(1).normal(size=(5, N_FEATURES))


def changing(rng: np.random.Generator, n_tasks: int) -> np.ndarray:
    return rng.normal(size=(n_tasks, 5, N_FEATURES))


def prior(name: str) -> mixts.MixturePrior:
    """Two components of unequal weight, of any family."""
    ones, low, high = np.ones((2, N_ARMS)), [0.0] * N_ARMS, [1.0] * N_ARMS
    families = {
        "bernoulli": lambda: mixts.BernoulliArms(ones, 2 * ones),
        "gaussian": lambda: mixts.GaussianArms([low, high], 0.3 * ones, 0.5),
        "poisson": lambda: mixts.PoissonArms(3 * ones, ones),
        "linear": lambda: mixts.LinearGaussian(
            [low[:N_FEATURES], high[:N_FEATURES]], [0.1, 0.2], 0.5, covariance_type="spherical"
        ),
    }
    return mixts.MixturePrior(families[name](), weights=[0.25, 0.75])


class FixedArm:
    """Agent that always takes the same arm, and records its updates."""

    def __init__(self, arm: int, n_tasks: int, seed: Any) -> None:
        self.arm = arm
        self.n_tasks = n_tasks
        self.history: list[tuple[Any, Any]] = []

    def act(self, actions: Any = None, tasks: Any = None, mask: Any = None) -> np.ndarray:
        return np.full(self.n_tasks, self.arm)

    def update(self, actions: Any, outcomes: Any, tasks: Any = None) -> None:
        self.history.append((actions, outcomes))


class WhereAmI(FixedArm):
    """Takes arm 0 in the calling process, arm 1 in a worker."""

    def __init__(self, n_tasks: int, seed: Any) -> None:
        super().__init__(int(multiprocessing.parent_process() is not None), n_tasks, seed)


class Failing(FixedArm):
    """Fails in its third round."""

    def update(self, actions: Any, outcomes: Any, tasks: Any = None) -> None:
        super().update(actions, outcomes)
        if len(self.history) == 3:
            raise errors.OutcomeError("enough")
