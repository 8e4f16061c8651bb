"""Classification as a bandit: find images of the run's class among those on offer."""

from __future__ import annotations

from typing import Any

import numpy as np

from mixts import _checks
from mixts._typing import Array, ArrayLike, Float, Int
from mixts.environments.base import Environment, Offer, Outcome, Problem, Streams, checked_choice
from mixts.errors import ParameterError


class ClassificationBandit(Environment):
    """A task is a class; images of that class are worth more than others  [paper: Sec. 6.2].

    A run's class is drawn uniformly. Each round offers images in random order: one is certainly of
    the class, the others are drawn from all images. Rewards are Bernoulli.

    Parameters
    ----------
    features
        Features of each image, (n, d).
    labels
        Class of each image, (n,), integers from 0.
    n_actions
        Number of images on offer in a round.
    success
        Mean reward of an image of the class, and of any other image.

    Examples
    --------
    >>> import mixts
    >>> features = [[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.1, 0.9]]
    >>> environment = mixts.ClassificationBandit(features, labels=[0, 0, 1, 1], n_actions=2)
    >>> environment
    ClassificationBandit(4 images of 2 classes, 2 features, 2 a round)
    """

    def __init__(
        self,
        features: ArrayLike,
        labels: ArrayLike,
        n_actions: int = 10,
        success: tuple[float, float] = (0.9, 0.1),
    ) -> None:
        self.features: Float[Array, "n d"] = _checks.real_array(features, "features", 2)
        self.labels = _checked_labels(labels, len(self.features))
        self.n_actions = _checks.count(n_actions, "n_actions")
        self.success = _checked_success(success)
        # The images of a class are a slice of `_order`.
        self._order = np.argsort(self.labels, kind="stable")
        self._counts = np.bincount(self.labels)
        self._starts = np.cumsum(self._counts) - self._counts
        if (self._counts == 0).any():
            missing = int(np.argmin(self._counts))
            raise ParameterError(
                f"every class from 0 to {len(self._counts) - 1} needs an image, {missing} has none"
            )

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self._counts)

    def __repr__(self) -> str:
        n, d = self.features.shape
        return (
            f"ClassificationBandit({n} images of {self.n_classes} classes, {d} features, "
            f"{self.n_actions} a round)"
        )

    @property
    def task_bytes(self) -> int:
        return self.n_classes * self.features.shape[1] ** 2 * 8

    def start(self, streams: Streams, n_tasks: int) -> ClassificationProblem:
        """Draw a class for each run; images and rewards have streams of their own."""
        latent = streams("tasks").integers(self.n_classes, size=n_tasks)
        return ClassificationProblem(self, latent, streams("actions"), streams("rewards"))

    def draw_images(self, rng: np.random.Generator, classes: Int[Array, " n"]) -> Int[Array, "n K"]:
        """Draw the images of a round for each run, one of them of the run's class.

        Parameters
        ----------
        rng
            Generator of the draws.
        classes
            Class of each run, (n,).

        Returns
        -------
        array
            Indices of the images, (n, n_actions).
        """
        n = len(classes)
        offered = rng.integers(len(self.labels), size=(n, self.n_actions))
        within = rng.integers(self._counts[classes])
        slot = rng.integers(self.n_actions, size=n)
        offered[np.arange(n), slot] = self._order[self._starts[classes] + within]
        return offered


class ClassificationProblem(Problem):
    """One class for each run."""

    def __init__(
        self,
        environment: ClassificationBandit,
        latent: Int[Array, " n"],
        action_rng: np.random.Generator,
        reward_rng: np.random.Generator,
    ) -> None:
        self.latent = latent
        self._environment = environment
        self._action_rng, self._reward_rng = action_rng, reward_rng
        self._sets: Float[Array, "n K d"] = np.empty((len(latent), 0, 0))
        self._means: Float[Array, "n K"] = np.empty((len(latent), 0))

    def next_round(self) -> Offer:
        environment = self._environment
        images = environment.draw_images(self._action_rng, self.latent)
        self._sets = environment.features[images]
        right = environment.labels[images] == self.latent[:, None]
        self._means = np.where(right, *environment.success)
        return Offer(self._sets)

    def play(self, chosen: Any) -> Outcome:
        index = checked_choice(chosen, *self._means.shape)
        rows = np.arange(len(index))
        values = self._means[rows, index]
        rewards = (self._reward_rng.random(len(index)) < values).astype(float)
        best = self._means.max(axis=1)
        return Outcome((self._sets[rows, index], rewards), rewards, values, best)


def _checked_labels(labels: ArrayLike, n_images: int) -> Int[Array, " n"]:
    given = np.asarray(labels)
    if given.shape != (n_images,) or given.dtype.kind not in "iu" or given.min(initial=0) < 0:
        raise ParameterError(
            f"labels must be {n_images} integers from 0, one for each row of features, got shape "
            f"{given.shape} of type {given.dtype}"
        )
    return given.astype(np.int64)


def _checked_success(success: tuple[float, float]) -> tuple[float, float]:
    given = _checks.numbers(success, "success must be two probabilities", ParameterError)
    if given.shape != (2,) or not ((given >= 0) & (given <= 1)).all():
        raise ParameterError(f"success must be two probabilities, got {success!r}")
    return float(given[0]), float(given[1])
