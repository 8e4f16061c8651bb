"""Known mixtures, and past tasks drawn from them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mixts.environments import BanditEnvironment
from mixts.families import BernoulliArms, LinearGaussian, Statistics
from mixts.prior import MixturePrior
from studies._shared import Array

N_FEATURES = 4
N_OFFERED = 10
"""Number of actions in a round of the linear bandit; every round draws new ones."""
NOISE = 0.5


@dataclass(frozen=True)
class Truth:
    """Problem with a known prior."""

    name: str
    title: str
    environment: BanditEnvironment
    surer: MixturePrior
    """Overconfident prior: the true one with half the variance (arms: twice the counts)."""

    @property
    def prior(self) -> MixturePrior:
        return self.environment.prior

    @property
    def noise_std(self) -> float | None:
        """Noise of the rewards, which learners know; None for rewards without Gaussian noise."""
        return self.prior.family.noise_std

    def histories(self, rng: np.random.Generator, n_tasks: int, length: int) -> Histories:
        """Draw tasks from the prior, and for each a history of uniformly random actions."""
        family = self.prior.family
        _, parameters = self.prior.draw(rng, n_tasks)
        if family.n_arms is None:
            actions: Array = unit_vectors(rng, n_tasks, length)
            means = np.einsum("nmd,nd->nm", actions, parameters)
        else:
            actions = rng.integers(family.n_arms, size=(n_tasks, length))
            means = np.take_along_axis(parameters, actions, axis=1)
        rewards = family.outcomes(rng, means.ravel()).reshape(means.shape)
        return Histories(self.prior, actions, rewards)


@dataclass(frozen=True)
class Histories:
    """Actions and rewards of tasks."""

    prior: MixturePrior
    actions: Array
    """(n, m) arms, or (n, m, d) features."""
    rewards: Array

    def statistics(self, lengths: Array) -> Statistics:
        """Return the statistics of the first tasks, cut to these lengths."""
        n, longest = len(lengths), self.rewards.shape[1]
        task, step = np.nonzero(np.arange(longest) < lengths[:, None])
        belief = self.prior.belief(n)
        belief.update(self.actions[task, step], self.rewards[task, step], task)
        return belief.statistics


def unit_vectors(rng: np.random.Generator, n_tasks: int, n_actions: int = N_OFFERED) -> Array:
    """Draw actions uniformly from the unit sphere."""
    vectors = rng.normal(size=(n_tasks, n_actions, N_FEATURES))
    return np.asarray(vectors / np.linalg.norm(vectors, axis=2, keepdims=True))


def linear_truth() -> Truth:
    """Return four components with orthogonal means; each varies most towards the next mean."""
    directions = np.array([[1, 1, 1, 1], [1, -1, 1, -1], [1, 1, -1, -1], [1, -1, -1, 1]]) / 2
    towards = np.roll(directions, -1, axis=0)
    covariance = 0.15**2 * np.eye(N_FEATURES) + 0.5**2 * towards[:, :, None] * towards[:, None, :]
    mean, weights = 1.2 * directions, [0.4, 0.3, 0.2, 0.1]
    prior = MixturePrior(LinearGaussian(mean, covariance, NOISE), weights)
    surer = MixturePrior(LinearGaussian(mean, covariance / 2, NOISE), weights)
    return Truth("linear", "Linear rewards", BanditEnvironment(prior, unit_vectors), surer)


def arms_truth() -> Truth:
    """Return three components that prefer different arms of six, worth 12 observations each."""
    mean = np.array(
        [
            [0.8, 0.6, 0.4, 0.3, 0.2, 0.1],
            [0.2, 0.3, 0.1, 0.8, 0.6, 0.4],
            [0.3, 0.1, 0.7, 0.2, 0.4, 0.8],
        ]
    )
    weights = [0.5, 0.3, 0.2]
    prior = MixturePrior(BernoulliArms(12 * mean, 12 * (1 - mean)), weights)
    surer = MixturePrior(BernoulliArms(24 * mean, 24 * (1 - mean)), weights)
    return Truth("arms", "Bernoulli arms", BanditEnvironment(prior), surer)


TRUTHS = (linear_truth(), arms_truth())
