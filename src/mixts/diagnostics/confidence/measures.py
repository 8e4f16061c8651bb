"""What a latent state promised in a round of a bandit, and how sure it was."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np

from mixts._typing import Array, Float
from mixts.bounds import feature_width, reward_width
from mixts.families import ArmFamily, GaussianArms, LinearGaussian
from mixts.prior import MixturePrior
from mixts.simulation.followers import Decided


class Promise(NamedTuple):
    """What the sampled latent states promised in one round, for each run."""

    excess: Float[Array, " n"]
    """The promised mean less the reward."""
    width: Float[Array, " n"]
    error: Float[Array, " n"]
    """The standard error of the promised mean; 0 where it is exact."""


class Measure(ABC):
    """Reads the belief before a round's update, and changes nothing."""

    radius_factor: float
    """r of the radius r sqrt(N_t(s))."""

    @abstractmethod
    def __call__(self, decided: Decided) -> Promise:
        """What the sampled states promised for what was chosen, and what came instead."""


class LinearMeasure(Measure):
    """a'theta_{t,s} and sqrt(2 d log(d n)) ||a||; the radius is 2 sigma sqrt(N log n).

    App. A writes these at time t inside the sum over past rounds: meant is the belief of the round
    in which s was sampled  [paper: App. A].
    """

    def __init__(self, prior: MixturePrior, n_rounds: int) -> None:
        assert isinstance(prior.family, LinearGaussian)
        self.radius_factor = 2 * prior.family.noise_std * math.sqrt(math.log(n_rounds))
        self._n_features, self._n_rounds = prior.family.n_features, n_rounds
        self._prior = prior
        self._given: dict[int, MixturePrior] = {}

    def __call__(self, decided: Decided) -> Promise:
        latent, (features, rewards) = decided.latent, decided.feedback
        statistics = decided.belief.statistics
        mean, variance = np.empty(len(latent)), np.empty(len(latent))
        # Only the sampled component, whose posterior is that of a prior of it alone.
        for s in np.unique(latent).tolist():
            rows = np.flatnonzero(latent == s)
            given = self._component(s).condition(statistics[rows])
            a = features[rows]
            mean[rows] = np.einsum("nd,nd->n", a, given.component_mean[:, 0])
            variance[rows] = np.einsum("nd,nde,ne->n", a, given.component_covariance[:, 0], a)
        norm = np.sqrt(np.maximum(variance, 0))  # rounding of a direction that is known exactly
        width = feature_width(norm, self._n_features, self._n_rounds)
        return Promise(mean - rewards, width, np.zeros(len(latent)))

    def _component(self, s: int) -> MixturePrior:
        if s not in self._given:
            self._given[s] = self._prior.select([s])
        return self._given[s]


class ArmMeasure(Measure):
    """Of the one arm that was taken, given the sampled component."""

    def __init__(self, prior: MixturePrior, n_rounds: int) -> None:
        assert isinstance(prior.family, ArmFamily)
        self._family, self._n_rounds = prior.family, n_rounds

    def __call__(self, decided: Decided) -> Promise:
        latent, (arms, rewards) = decided.latent, decided.feedback
        rows = np.arange(len(latent))
        marginal = self._family.marginals(decided.belief.statistics, rows, latent)
        mean = marginal.mean()[rows, arms]
        width = self._width(marginal.parameters[:, rows, arms])
        return Promise(mean - rewards, width, np.zeros(len(latent)))

    @abstractmethod
    def _width(self, parameters: Float[Array, "2 n"]) -> Float[Array, " n"]:
        """From the two parameters of the taken arm's posterior."""


class GaussianMeasure(ArmMeasure):
    """The linear bandit whose actions are the unit vectors, so d is the number of arms."""

    def __init__(self, prior: MixturePrior, n_rounds: int) -> None:
        super().__init__(prior, n_rounds)
        assert isinstance(prior.family, GaussianArms)
        self.radius_factor = 2 * prior.family.noise_std * math.sqrt(math.log(n_rounds))

    def _width(self, parameters: Float[Array, "2 n"]) -> Float[Array, " n"]:
        return feature_width(np.sqrt(parameters[1]), self._family.n_arms, self._n_rounds)


class BernoulliMeasure(ArmMeasure):
    """The MDP of one state, one step and a known transition: c_t alone, h = 1."""

    def __init__(self, prior: MixturePrior, n_rounds: int) -> None:
        super().__init__(prior, n_rounds)
        self.radius_factor = math.sqrt(math.log(n_rounds))

    def _width(self, parameters: Float[Array, "2 n"]) -> Float[Array, " n"]:
        return reward_width(parameters.sum(axis=0), 1, self._family.n_arms, self._n_rounds)
