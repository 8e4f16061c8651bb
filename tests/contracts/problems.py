"""Problems for the contract suites: every family and every agent, with histories."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import mixts
from mixts.extend._families import FamilyProblem, History

N_COMPONENTS = 3
SIZE = 4  # arms, or features
WEIGHTS = np.array([0.5, 0.2, 0.3])
NOISE = 0.5
N_STATES, N_MOVES, HORIZON = 3, 2, 4  # of MDPs


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


def _student(covariance_type: str) -> Any:
    known = _linear(covariance_type)
    noise_std = NOISE if covariance_type == "tied" else [0.5, 0.5, 0.8]
    degrees = [4.0, 30.0, 7.0]
    return mixts.LinearStudent(
        known.mean, known.covariance, noise_std, degrees, covariance_type=covariance_type
    )


def _tabular(zeros: bool) -> Any:
    """With ``zeros`` a state cannot be reached from another, and a pair never gives a reward."""
    rng = np.random.default_rng(7)
    pairs = (N_COMPONENTS, N_STATES, N_MOVES)
    reward, transition = rng.uniform(0.5, 6.0, (*pairs, 2)), rng.uniform(0.5, 4.0, (*pairs, 3))
    if zeros:
        reward[:, 0, 1, 0] = 0.0
        transition[:, 0, :, 2] = 0.0
    return mixts.TabularMDP(reward, transition, HORIZON, [0.5, 0.3, 0.2])


FAMILIES: dict[str, Callable[[], Any]] = {
    "bernoulli": lambda: mixts.BernoulliArms(_table(0, 1.0, 8.0), _table(1, 1.0, 8.0)),
    "gaussian": lambda: mixts.GaussianArms(_table(0, -1.0, 1.0), _table(1, 0.1, 1.0), NOISE),
    "poisson": lambda: mixts.PoissonArms(_table(0, 1.0, 8.0), _table(1, 0.5, 2.0)),
    "spend": lambda: mixts.SpendArms(
        _table(0, 1.0, 8.0),
        _table(1, 1.0, 8.0),
        _table(2, -1.0, 1.0),
        _table(3, 2.0, 6.0),
        _table(4, 2.0, 9.0),
        _table(5, 1.0, 3.0),
    ),
    "student": lambda: mixts.StudentArms(
        _table(0, -1.0, 1.0), _table(1, 0.1, 1.0), [0.5, 0.5, 0.8], [4.0, 30.0, 7.0]
    ),
    "full": lambda: _linear("full"),
    "tied": lambda: _linear("tied"),
    "diag": lambda: _linear("diag"),
    "spherical": lambda: _linear("spherical"),
    "logistic": lambda: mixts.LinearBernoulli(_table(6, -2.0, 2.0), _full(3, N_COMPONENTS)),
    "student full": lambda: _student("full"),
    "student tied": lambda: _student("tied"),
    "student spherical": lambda: _student("spherical"),
    "tabular": lambda: _tabular(zeros=False),
    "tabular with zeros": lambda: _tabular(zeros=True),
}
_MADE = {name: make() for name, make in FAMILIES.items()}
LINEAR = tuple(name for name, family in _MADE.items() if family.n_features is not None)
ARMS = tuple(name for name, family in _MADE.items() if family.n_arms is not None)
MDPS = tuple(name for name, family in _MADE.items() if family.plans)


@functools.cache
def _prior(name: str) -> mixts.MixturePrior:
    # Problems ask for their prior in every round: to make it each time was half of the suite.
    return mixts.MixturePrior(FAMILIES[name](), weights=WEIGHTS, names=["calm", "odd", "wild"])


def as_lists(history: History) -> History:
    """The same history, not as arrays."""
    return tuple(
        mixts.Trajectory(part.states.tolist(), part.actions.tolist(), part.rewards.tolist())
        if isinstance(part, mixts.Trajectory)
        else part.tolist()
        for part in history
    )


@dataclass(frozen=True)
class FamilyCase(FamilyProblem):
    """A prior of one family, and histories under it."""

    name: str

    @property
    def conjugate(self) -> bool:
        return self.name != "logistic"

    @property
    def prior(self) -> mixts.MixturePrior:
        return _prior(self.name)

    @property
    def size(self) -> int:
        """Number of parameters."""
        if self.mdp:
            return N_STATES * N_MOVES * (1 + N_STATES)
        if self.name.startswith("student"):
            return SIZE + 1  # and the noise of the task
        # The mean reward, purchase rate and log spend of every arm.
        return 3 * SIZE if self.name == "spend" else SIZE

    @property
    def n_rewards(self) -> int:
        """Number of parameters that are mean rewards, or that are linear in these."""
        return self.size if self.mdp else SIZE

    @property
    def means_shape(self) -> tuple[int, ...]:
        """Shape of the mean rewards of one task."""
        return (N_STATES, N_MOVES) if self.mdp else (self.n_actions,)


CASES = [FamilyCase(name) for name in (*ARMS, *LINEAR)]
"""Bandits: a round is an action and an outcome."""
ALL_CASES = [*CASES, *(FamilyCase(name) for name in MDPS)]
