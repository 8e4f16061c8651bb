"""Problems for the oracles: a prior, one task's history, and the reference's answer to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np

import mixts
from mixts import _program
from tests.oracles import references

COVARIANCE_TYPES = ("full", "tied", "diag", "spherical")


@dataclass(frozen=True, eq=False)
class LinearProblem:
    """A linear-Gaussian mixture and a history of feature rows and rewards."""

    mean: Any
    covariance: Any
    noise_std: float
    covariance_type: str
    actions: Any
    outcomes: Any
    weights: Any = None

    @property
    def prior(self) -> mixts.MixturePrior:
        family = mixts.LinearGaussian(
            self.mean, self.covariance, self.noise_std, covariance_type=self.covariance_type
        )
        return mixts.MixturePrior(family, weights=self.weights)

    @property
    def floor(self) -> float:
        """The variance that rounding gives to a direction without any.

        An eigenvalue of a matrix is known to a few units of rounding of the largest one; only
        singular full matrices need this, and only they get it.
        """
        if self.covariance_type not in ("full", "tied"):
            return 0.0
        spectra = np.linalg.eigvalsh(full_covariances(self))
        singular = spectra[:, 0] < 1e-12 * spectra[:, -1]
        return 1e-15 * float(np.max(spectra[singular, -1], initial=0.0))

    @cached_property
    def reference(self) -> references.MixtureReference:
        short = len(self.outcomes) <= references.WHOLE_HISTORY
        solve = references.whole_history if short else references.kalman
        components = [
            solve(mean, covariance, self.noise_std, self.actions, self.outcomes)
            for mean, covariance in zip(self.mean, full_covariances(self), strict=True)
        ]
        return references.mixture(prior_weights(self), components)


@dataclass(frozen=True, eq=False)
class ArmsProblem:
    """A mixture over independent arms and a history of arms and rewards."""

    kind: str
    first: Any
    second: Any
    actions: Any
    outcomes: Any
    weights: Any = None
    noise_std: float = 1.0

    @property
    def mean(self) -> Any:
        return self.first

    @property
    def prior(self) -> mixts.MixturePrior:
        return mixts.MixturePrior(self._family(), weights=self.weights)

    def _family(self) -> Any:
        if self.kind == "gaussian":
            return mixts.GaussianArms(self.first, self.second, self.noise_std)
        if self.kind == "bernoulli":
            return mixts.BernoulliArms(self.first, self.second)
        return mixts.PoissonArms(self.first, self.second)

    @cached_property
    def reference(self) -> references.MixtureReference:
        arm = {
            "bernoulli": references.bernoulli_arm,
            "poisson": references.poisson_arm,
            "gaussian": lambda m, v, y: references.gaussian_arm(m, v, self.noise_std, y),
        }[self.kind]
        components = []
        for first, second in zip(np.asarray(self.first), np.asarray(self.second), strict=True):

            def component_arm(a: int, y: Any, first: Any = first, second: Any = second) -> Any:
                return arm(first[a], second[a], y)

            components.append(
                references.arms_component(component_arm, len(first), self.actions, self.outcomes)
            )
        return references.mixture(prior_weights(self), components)


Problem = LinearProblem | ArmsProblem


def prior_weights(problem: Problem) -> Any:
    n_components = len(problem.mean)
    return np.ones(n_components) if problem.weights is None else np.asarray(problem.weights)


def full_covariances(problem: LinearProblem) -> Any:
    """Return covariances of any type as an array (L, d, d)."""
    n_components, d = np.shape(problem.mean)
    covariance = np.asarray(problem.covariance, dtype=float)
    if problem.covariance_type == "full":
        return covariance
    if problem.covariance_type == "tied":
        return np.broadcast_to(covariance, (n_components, d, d))
    if problem.covariance_type == "diag":
        return np.array([np.diag(row) for row in covariance])
    return np.array([value * np.eye(d) for value in covariance])


# -- three roads to the same belief ----------------------------------------------------------------


def one_by_one(problem: Problem) -> mixts.Belief:
    return _stepwise(problem, _program.core is None)


@cache
def _stepwise(problem: Problem, plain: bool) -> mixts.Belief:
    belief = problem.prior.belief()
    for action, outcome in zip(problem.actions, problem.outcomes, strict=True):
        belief.update(action, outcome)
    return belief


def one_batch(problem: Problem) -> mixts.Belief:
    belief = problem.prior.belief()
    belief.update(problem.actions, problem.outcomes)
    return belief


def conditioned(problem: Problem) -> mixts.Belief:
    return problem.prior.condition(one_by_one(problem).statistics)


ROADS: dict[str, Callable[[Problem], mixts.Belief]] = {
    "one by one": one_by_one,
    "one batch": one_batch,
    "conditioned": conditioned,
}


# -- random problems -------------------------------------------------------------------------------


def covariances(
    rng: np.random.Generator, covariance_type: str, n_components: int, d: int, scale: float = 1.0
) -> Any:
    """Random covariances of the given type with variances about ``scale``."""

    def wishart() -> Any:
        root = rng.normal(size=(d, d)) / np.sqrt(d)
        product = scale * (root @ root.T + 0.05 * np.eye(d))
        return (product + product.T) / 2

    if covariance_type == "full":
        return np.array([wishart() for _ in range(n_components)])
    if covariance_type == "tied":
        return wishart()
    shape = (n_components, d) if covariance_type == "diag" else (n_components,)
    return scale * rng.uniform(0.3, 3.0, size=shape)


def random_linear(seed: int, covariance_type: str, n: int | None = None) -> LinearProblem:
    rng = np.random.default_rng((seed, COVARIANCE_TYPES.index(covariance_type)))
    n_components, d = rng.integers(2, 5), rng.integers(1, 6)
    n = int(rng.integers(0, 40)) if n is None else n
    mean = rng.normal(size=(n_components, d))
    covariance = covariances(rng, covariance_type, n_components, d, scale=10 ** rng.uniform(-2, 1))
    noise_std = float(10 ** rng.uniform(-1.5, 0.5))
    rows = rng.normal(size=(n, d))
    theta = mean[0] + rng.normal(size=d)
    rewards = rows @ theta + noise_std * rng.normal(size=n)
    weights = rng.dirichlet(np.ones(n_components))
    return LinearProblem(mean, covariance, noise_std, covariance_type, rows, rewards, weights)


def random_arms(seed: int, kind: str, n: int | None = None) -> ArmsProblem:
    rng = np.random.default_rng((seed, len(kind)))
    n_components, n_arms = rng.integers(2, 5), rng.integers(1, 6)
    n = int(rng.integers(0, 80)) if n is None else n
    shape = (n_components, n_arms)
    actions = rng.integers(n_arms, size=n)
    noise_std = float(10 ** rng.uniform(-1.5, 0.5))
    if kind == "gaussian":
        first, second = rng.normal(size=shape), 10 ** rng.uniform(-3, 1, size=shape)
        outcomes = rng.normal(rng.normal(size=n_arms)[actions], noise_std)
    elif kind == "bernoulli":
        first, second = 10 ** rng.uniform(-1, 2, size=(2, *shape))
        outcomes = rng.binomial(1, rng.uniform(size=n_arms)[actions])
    else:
        first, second = 10 ** rng.uniform(-1, 2, size=shape), 10 ** rng.uniform(-1, 1, size=shape)
        outcomes = rng.poisson(rng.gamma(2.0, 3.0, size=n_arms)[actions])
    weights = rng.dirichlet(np.ones(n_components))
    return ArmsProblem(kind, first, second, actions, outcomes, weights, noise_std)
