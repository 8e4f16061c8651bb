"""Problems that both sides play, made with numpy alone.

Our environment and the peers' are different interpreters, so the prior, the action sets, the
rewards and the noise are made here, from seeds, on each side. A fingerprint of the numbers
goes back to the parent, which refuses to compare two sides that played different problems.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

N_ROUNDS = 500
PRIOR_SEED = 20210
TASK_SEED = 20211


class Task(Protocol):
    """One task of a problem: its actions, rewards and regret."""

    @property
    def mean_rewards(self) -> Array:
        """(actions,), or (rounds, actions) where the action sets change."""

    def actions(self, round_: int) -> Array | None:
        """Return the features offered in a round, or None where actions are plain arms."""

    def reward(self, round_: int, action: int) -> float:
        """Return the reward of an action; both sides get the same reward in a round."""


class Problem(Protocol):
    """Prior, and the tasks drawn from it."""

    def task(self, index: int) -> Task:
        """Draw task number ``index``, its latent state and parameters, from the prior."""

    def fingerprint(self) -> list[float]:
        """Return a few numbers that differ if anything in the problem differs."""


def task_generator(index: int) -> np.random.Generator:
    """Return the random stream of one task."""
    return np.random.default_rng(np.random.SeedSequence(TASK_SEED, spawn_key=(index,)))


def regret(task: Task, choices: NDArray[np.int64]) -> Array:
    """Return the regret of each round."""
    means = np.broadcast_to(task.mean_rewards, (len(choices), task.mean_rewards.shape[-1]))
    return np.asarray(means.max(axis=1) - means[np.arange(len(choices)), choices])


def uniform_regret(task: Task) -> float:
    """Return the mean regret of choosing uniformly at random."""
    return float(np.mean(task.mean_rewards.max(axis=-1) - task.mean_rewards.mean(axis=-1)))


@dataclass(frozen=True)
class ArmTask:
    """A task of independent arms: ``rewards`` (rounds, arms) drawn beforehand."""

    mean_rewards: Array
    rewards: Array

    def actions(self, round_: int) -> None:
        return None

    def reward(self, round_: int, action: int) -> float:
        return float(self.rewards[round_, action])


@dataclass(frozen=True)
class LinearTask:
    """A linear task: one action set, or one for each round, and its noise."""

    action_sets: Array
    mean_rewards: Array
    noise: Array

    def actions(self, round_: int) -> Array:
        sets = self.action_sets
        return sets if sets.ndim == 2 else np.asarray(sets[round_])

    def reward(self, round_: int, action: int) -> float:
        means = self.mean_rewards
        mean = means[action] if means.ndim == 1 else means[round_, action]
        return float(mean + self.noise[round_])


@dataclass(frozen=True)
class LinearProblem:
    """Components N(mean_s, covariance_s), rewards a'theta + noise, actions of length about one.

    ``spread`` is the standard deviation of a component's mean reward over components and
    ``width`` that of a reward given the component. With noise 0.5 they let 20 rounds pass before
    a component has lost the 16 decimal digits of weight that let it be skipped.
    """

    n_components: int
    n_features: int
    n_actions: int
    tied: bool
    changing: bool
    spread: float = 0.3
    width: float = 0.2
    noise_std: float = 0.5

    def mean(self) -> Array:
        rng = np.random.default_rng(PRIOR_SEED)
        shape = (self.n_components, self.n_features)
        return self.spread * rng.standard_normal(shape)

    def covariance(self) -> Array:
        """Return full covariances (L, d, d), all different; one (d, d) if tied."""
        rng = np.random.default_rng(PRIOR_SEED + 1)
        d = self.n_features
        n_roots = 1 if self.tied else self.n_components
        roots = rng.standard_normal((n_roots, d, 2 * d)) * (self.width / np.sqrt(2 * d))
        covariances = roots @ roots.transpose(0, 2, 1)
        covariances = (covariances + covariances.transpose(0, 2, 1)) / 2
        return np.asarray(covariances[0] if self.tied else covariances)

    def task(self, index: int) -> LinearTask:
        rng = task_generator(index)
        latent = int(rng.integers(self.n_components))
        covariance = self.covariance()
        root = np.linalg.cholesky(covariance if self.tied else covariance[latent])
        theta = self.mean()[latent] + root @ rng.standard_normal(self.n_features)
        n_sets = N_ROUNDS if self.changing else 1
        action_sets = rng.standard_normal((n_sets, self.n_actions, self.n_features))
        action_sets /= np.sqrt(self.n_features)
        if not self.changing:
            action_sets = action_sets[0]
        noise = self.noise_std * rng.standard_normal(N_ROUNDS)
        return LinearTask(action_sets, action_sets @ theta, noise)

    def fingerprint(self) -> list[float]:
        task = self.task(0)
        parts = (self.mean(), self.covariance(), task.action_sets, task.mean_rewards, task.noise)
        return [float(np.abs(part).sum()) for part in parts]


@dataclass(frozen=True)
class ClickTask:
    """A task of clicks: each round offers other items of a catalogue."""

    items: Array
    history: Array
    """(items,): a click or none on each item, before the first round."""
    offers: NDArray[np.int64]
    """(rounds, actions): the items offered."""
    mean_rewards: Array
    uniforms: Array

    def actions(self, round_: int) -> Array:
        return np.asarray(self.items[self.offers[round_]])

    def reward(self, round_: int, action: int) -> float:
        return float(self.uniforms[round_] < self.mean_rewards[round_, action])


@dataclass(frozen=True)
class ClickProblem:
    """Clicks with features: components N(mean_s, covariance_s), P(click) = logistic(a'theta).

    A catalogue of ``n_items`` feature rows is the same for all tasks, and a task has seen every
    item once. Later rounds add no distinct rows. The first feature is 1, with the mean ``level``;
    the others make a row of length about one, as do those of ``LinearProblem``.
    """

    n_components: int
    n_features: int
    n_actions: int
    n_items: int
    level: float = -1.5
    spread: float = 1.0
    width: float = 0.5

    def mean(self) -> Array:
        rng = np.random.default_rng(PRIOR_SEED)
        mean = self.spread * rng.standard_normal((self.n_components, self.n_features))
        mean[:, 0] += self.level
        return mean

    def covariance(self) -> Array:
        """Return full covariances (L, d, d), all different."""
        rng = np.random.default_rng(PRIOR_SEED + 1)
        d = self.n_features
        roots = rng.standard_normal((self.n_components, d, 2 * d)) * (self.width / np.sqrt(2 * d))
        covariances = roots @ roots.transpose(0, 2, 1)
        return np.asarray((covariances + covariances.transpose(0, 2, 1)) / 2)

    def items(self) -> Array:
        rng = np.random.default_rng(PRIOR_SEED + 2)
        items = rng.standard_normal((self.n_items, self.n_features)) / np.sqrt(self.n_features)
        items[:, 0] = 1.0
        return items

    def task(self, index: int) -> ClickTask:
        rng = task_generator(index)
        latent = int(rng.integers(self.n_components))
        root = np.linalg.cholesky(self.covariance()[latent])
        theta = self.mean()[latent] + root @ rng.standard_normal(self.n_features)
        items = self.items()
        rates = 1.0 / (1.0 + np.exp(-items @ theta))
        history = (rng.random(self.n_items) < rates).astype(np.float64)
        order = rng.random((N_ROUNDS, self.n_items)).argsort(axis=1)
        offers = order[:, : self.n_actions]
        return ClickTask(items, history, offers, rates[offers], rng.random(N_ROUNDS))

    def fingerprint(self) -> list[float]:
        task = self.task(0)
        parts = (
            self.mean(), self.covariance(), task.items, task.history, task.mean_rewards,
            task.uniforms,
        )  # fmt: skip
        return [float(np.abs(part).sum()) for part in parts]
