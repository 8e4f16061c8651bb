"""What the contracts run over: every family and every agent, with histories to feed them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import mixts

N_COMPONENTS = 3
SIZE = 4  # arms, or features
WEIGHTS = np.array([0.5, 0.2, 0.3])
NOISE = 0.5


def _table(seed: int, low: float, high: float) -> Any:
    return np.random.default_rng(seed).uniform(low, high, (N_COMPONENTS, SIZE))


def _full(seed: int, n: int) -> Any:
    root = np.random.default_rng(seed).normal(size=(n, SIZE, SIZE)) / SIZE**0.5
    product = root @ np.swapaxes(root, 1, 2) + 0.1 * np.eye(SIZE)
    return (product + np.swapaxes(product, 1, 2)) / 2


def _linear(covariance_type: str) -> Any:
    covariance = {
        "full": lambda: _full(3, N_COMPONENTS),
        "tied": lambda: _full(4, 1)[0],
        "diag": lambda: _table(5, 0.1, 1.0),
        "spherical": lambda: np.array([0.3, 0.8, 0.3]),
    }[covariance_type]()
    mean = _table(6, -1.0, 1.0)
    return mixts.LinearGaussian(mean, covariance, NOISE, covariance_type=covariance_type)


FAMILIES: dict[str, Callable[[], Any]] = {
    "bernoulli": lambda: mixts.BernoulliArms(_table(0, 1.0, 8.0), _table(1, 1.0, 8.0)),
    "gaussian": lambda: mixts.GaussianArms(_table(0, -1.0, 1.0), _table(1, 0.1, 1.0), NOISE),
    "poisson": lambda: mixts.PoissonArms(_table(0, 1.0, 8.0), _table(1, 0.5, 2.0)),
    "full": lambda: _linear("full"),
    "tied": lambda: _linear("tied"),
    "diag": lambda: _linear("diag"),
    "spherical": lambda: _linear("spherical"),
}
LINEAR = ("full", "tied", "diag", "spherical")
ARMS = ("bernoulli", "gaussian", "poisson")


@dataclass(frozen=True)
class FamilyCase:
    """A prior of one family, and histories under it."""

    name: str

    @property
    def linear(self) -> bool:
        return self.name in LINEAR

    @property
    def prior(self) -> mixts.MixturePrior:
        return mixts.MixturePrior(
            FAMILIES[self.name](), weights=WEIGHTS, names=["calm", "odd", "wild"]
        )

    @property
    def actions(self) -> Any:
        """What ``mean_rewards`` and ``act`` are given."""
        return np.random.default_rng(8).normal(size=(5, SIZE)) if self.linear else None

    @property
    def n_actions(self) -> int:
        return 5 if self.linear else SIZE

    def history(self, seed: int, n: int) -> tuple[Any, Any]:
        """Actions and rewards of n rounds of one task drawn from the prior."""
        rng = np.random.default_rng(seed)
        family = self.prior.family
        _, theta = self.prior.draw(rng, 1)
        if self.linear:
            actions = rng.normal(size=(n, SIZE))
            return actions, family.outcomes(rng, actions @ theta[0])
        actions = rng.integers(SIZE, size=n)
        return actions, family.outcomes(rng, theta[0, actions])

    def belief(self, seed: int, n: int) -> mixts.Belief:
        """One task after n rounds."""
        belief = self.prior.belief()
        belief.update(*self.history(seed, n))
        return belief

    def tasks(self, seed: int, n_tasks: int, n: int) -> mixts.Belief:
        """Several tasks that share n rounds, some of them perhaps with none."""
        belief = self.prior.belief(n_tasks)
        owners = np.random.default_rng(seed + 1).integers(n_tasks, size=n)
        belief.update(*self.history(seed, n), tasks=owners)
        return belief


CASES = [FamilyCase(name) for name in FAMILIES]
