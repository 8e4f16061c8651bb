"""Mixtures that are known, and past tasks drawn from them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mixts.environments import BanditEnvironment
from mixts.families import BernoulliArms, LinearGaussian, Statistics
from mixts.prior import MixturePrior
from studies._shared import Array

N_FEATURES = 4
N_OFFERED = 10
"""Actions of a round of the linear bandit, drawn anew each time."""
NOISE = 0.5


@dataclass(frozen=True)
class Truth:
    """A problem whose prior nobody has to learn."""

    name: str
    title: str
    environment: BanditEnvironment

    @property
    def prior(self) -> MixturePrior:
        return self.environment.prior

    @property
    def surer(self) -> MixturePrior:
        """The same kinds of task, but half as variable: as wrong as it is overconfident."""
        family = self.prior.family
        if isinstance(family, LinearGaussian):
            half = LinearGaussian(family.mean, family.covariance / 2, family.noise_std)
            return MixturePrior(half, self.prior.weights)
        assert isinstance(family, BernoulliArms)
        twice = BernoulliArms(2 * family.alpha, 2 * family.beta)
        return MixturePrior(twice, self.prior.weights)

    @property
    def noise_std(self) -> float | None:
        """Known to all who learn, where rewards have noise: the question is the prior."""
        family = self.prior.family
        return family.noise_std if isinstance(family, LinearGaussian) else None

    def histories(self, rng: np.random.Generator, n_tasks: int, length: int) -> Histories:
        """Tasks from the prior, in which actions were taken uniformly at random."""
        family = self.prior.family
        _, parameters = self.prior.draw(rng, n_tasks)
        if isinstance(family, LinearGaussian):
            actions: Array = unit_vectors(rng, n_tasks, length)
            means = np.einsum("nmd,nd->nm", actions, parameters)
        else:
            assert isinstance(family, BernoulliArms)
            actions = rng.integers(family.n_arms, size=(n_tasks, length))
            means = np.take_along_axis(parameters, actions, axis=1)
        rewards = family.outcomes(rng, means.ravel()).reshape(means.shape)
        return Histories(self.prior, actions, rewards)


@dataclass(frozen=True)
class Histories:
    """What was done in tasks, and what came of it; they may be cut short."""

    prior: MixturePrior
    actions: Array
    """(n, m) arms, or (n, m, d) features."""
    rewards: Array

    def statistics(self, lengths: Array) -> Statistics:
        """Of the first tasks, so much of each."""
        n, longest = len(lengths), self.rewards.shape[1]
        task, step = np.nonzero(np.arange(longest) < lengths[:, None])
        belief = self.prior.belief(n)
        belief.update(self.actions[task, step], self.rewards[task, step], task)
        return belief.statistics


def unit_vectors(rng: np.random.Generator, n_tasks: int, n_actions: int = N_OFFERED) -> Array:
    """Actions in all directions alike."""
    vectors = rng.normal(size=(n_tasks, n_actions, N_FEATURES))
    return np.asarray(vectors / np.linalg.norm(vectors, axis=2, keepdims=True))


def linear_truth() -> Truth:
    """Four kinds of task about orthogonal means; each varies most towards the mean of the next."""
    directions = np.array([[1, 1, 1, 1], [1, -1, 1, -1], [1, 1, -1, -1], [1, -1, -1, 1]]) / 2
    towards = np.roll(directions, -1, axis=0)
    covariance = 0.15**2 * np.eye(N_FEATURES) + 0.5**2 * towards[:, :, None] * towards[:, None, :]
    family = LinearGaussian(1.2 * directions, covariance, NOISE)
    prior = MixturePrior(family, [0.4, 0.3, 0.2, 0.1])
    return Truth("linear", "Linear rewards", BanditEnvironment(prior, unit_vectors))


def arms_truth() -> Truth:
    """Three kinds of task that like different ones of six arms; a kind is worth 12 observations."""
    liked = np.array(
        [
            [0.8, 0.6, 0.4, 0.3, 0.2, 0.1],
            [0.2, 0.3, 0.1, 0.8, 0.6, 0.4],
            [0.3, 0.1, 0.7, 0.2, 0.4, 0.8],
        ]
    )
    prior = MixturePrior(BernoulliArms(12 * liked, 12 * (1 - liked)), [0.5, 0.3, 0.2])
    return Truth("arms", "Bernoulli arms", BanditEnvironment(prior))


TRUTHS = (linear_truth(), arms_truth())
