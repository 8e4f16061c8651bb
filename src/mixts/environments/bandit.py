"""Bandits drawn from a prior, and bandits whose tasks are the classes of images."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mixts import _checks
from mixts._typing import Array, ArrayLike, Bool, Float, Int
from mixts.environments.base import (
    Choices,
    Environment,
    Outcome,
    Problem,
    Streams,
    checked_choice,
    checked_indices,
)
from mixts.errors import ActionError, ParameterError
from mixts.families.base import Family
from mixts.prior import MixturePrior

ActionSource = Callable[[np.random.Generator, int], ArrayLike]
"""``(rng, n_tasks)`` to the action sets of a round, (n_tasks, K, d) or, shared, (K, d)."""


class BanditEnvironment(Environment):
    """Bandits whose latent state and parameters are drawn from ``prior``  [paper: Sec. 2].

    If ``prior.repeatable`` is False, arms and rows of a constant action set are offered until they
    are taken; regret is then that against the best action that is left.

    Parameters
    ----------
    prior
        The distribution of tasks.
    actions
        None for families with arms; for others a constant action set (K, d), or a function
        ``(rng, n_tasks) -> (n_tasks, K, d)`` that is called in every round. Where worker processes
        play, the function must be a function of a module: not a lambda, nor an inner function.

    Examples
    --------
    >>> import mixts
    >>> prior = mixts.MixturePrior(mixts.BernoulliArms([[9, 1], [1, 9]], [[1, 9], [9, 1]]))
    >>> environment = mixts.BanditEnvironment(prior)
    >>> results = mixts.simulate({"MixTS": prior}, environment, n_rounds=20, n_runs=10, seed=1)
    >>> results.regret["MixTS"].shape
    (10, 20)
    """

    def __init__(
        self, prior: MixturePrior, actions: ArrayLike | ActionSource | None = None
    ) -> None:
        if not isinstance(prior, MixturePrior):
            raise ParameterError(f"prior must be a MixturePrior, got {type(prior).__name__}")
        if prior.family.plans:
            raise ParameterError(f"{prior.family!r} has policies, not arms: use MDPEnvironment")
        self.prior = prior
        self.actions: Array | ActionSource | None = (
            actions if callable(actions) else _constant_actions(prior.family, actions)
        )
        if callable(actions) and prior.family.n_arms is not None:
            raise ParameterError(f"{prior.family!r} has fixed arms: leave actions out")

    def __repr__(self) -> str:
        if self.actions is None:
            text = ""
        elif callable(self.actions):
            text = f", actions by {getattr(self.actions, '__name__', repr(self.actions))}"
        else:
            text = f", {len(self.actions)} actions"
        return f"BanditEnvironment({self.prior.family!r}{text})"

    @property
    def task_bytes(self) -> int:
        return self.prior.family.task_bytes

    def start(self, streams: Streams, n_tasks: int) -> BanditProblem:
        """Draw tasks from the prior; actions and rewards have streams of their own."""
        latent, parameters = self.prior.draw(streams("tasks"), n_tasks)
        retired = self.prior.arms.retired
        mask = np.broadcast_to(~retired, (n_tasks, len(retired))) if retired.any() else None
        problem = BanditProblem(
            self.prior.family, latent, parameters, self.actions, mask,
            streams("actions"), streams("rewards"),
        )  # fmt: skip
        if not self.prior.repeatable and not callable(self.actions):
            problem.offer_once()
        return problem


class BanditProblem(Problem):
    """One bandit for each run."""

    def __init__(
        self,
        family: Family,
        latent: Int[Array, " n"],
        parameters: Float[Array, "n p"],
        actions: Array | ActionSource | None,
        mask: Bool[Array, "n K"] | None,
        action_rng: np.random.Generator,
        reward_rng: np.random.Generator,
    ) -> None:
        self.latent = latent
        self.parameters = parameters
        self._family = family
        self._mask = mask
        self._action_rng = action_rng
        self._reward_rng = reward_rng
        self._rows = np.arange(len(latent))
        self._source = actions if callable(actions) else None
        self._once = False
        self._sets: Array | None = None
        if not callable(actions):
            self._offer(actions)

    def offer_once(self) -> None:
        """Offer each action until it is taken."""
        self._once = True
        self._mask = np.ones(self._means.shape, bool) if self._mask is None else self._mask.copy()

    def _offer(self, sets: Array | None) -> None:
        """Set the action sets of the current round, and compute their true means."""
        self._sets = sets
        # One product for each run: unlike a single large one its bits do not depend on how many
        # threads BLAS has, which differs between worker processes and the calling one.
        n = len(self._rows)
        each = None if sets is None else np.broadcast_to(sets, (n, *sets.shape[-2:]))
        self._means = self._family.mean_rewards(self.parameters, each)
        self._find_best()

    def _find_best(self) -> None:
        means = self._means
        self._available = means if self._mask is None else np.where(self._mask, means, -np.inf)
        self._best: Float[Array, " n"] = self._available.max(axis=1)

    @property
    def means(self) -> Float[Array, "n K"]:
        """mu_*(a), the true mean reward of every action of this round."""
        view = self._means[:]
        view.flags.writeable = False
        return view

    @property
    def best_action(self) -> Int[Array, " n"]:
        """A_t*, the index of the best action of this round; the first of several that are."""
        return np.argmax(self._available, axis=1)

    def next_round(self) -> Choices:
        if self._source is not None:
            n = len(self._rows)
            sets, _ = self._family.action_sets(self._source(self._action_rng, n), n)
            if sets is None or not np.isfinite(sets).all():
                raise ActionError("the environment's actions must have finite features")
            self._offer(sets)
        if self._once and self._mask is not None:
            if not self._mask.any(axis=1).all():
                raise ActionError(
                    f"a task has {self._means.shape[1]} actions, and all were taken, because each "
                    "is taken at most once: play fewer rounds"
                )
            self._find_best()
            return Choices(self._sets, self._mask.copy())
        return Choices(self._sets, self._mask)

    def play(self, chosen: Any) -> Outcome:
        index = checked_choice(chosen, self._means.shape, self._mask)
        values = self._means[self._rows, index]
        laws = self._family.reward_parameters(self.parameters, index, values)
        rewards = self._family.outcomes(self._reward_rng, laws)
        if self._sets is None:
            taken = index
        else:
            taken = self._sets[index] if self._sets.ndim == 2 else self._sets[self._rows, index]
        if self._once and self._mask is not None:
            self._mask[self._rows, index] = False
        return Outcome((taken, rewards), rewards, values, self._best)


def _constant_actions(family: Family, actions: ArrayLike | None) -> Array | None:
    """Return a constant action set that fits the family, read-only; None for arms."""
    try:
        sets, _ = family.action_sets(actions, 1)
    except ActionError as error:
        raise ParameterError(f"the environment's actions do not fit: {error}") from error
    if sets is None:
        return None
    if sets.ndim != 2 or not np.isfinite(sets).all():
        raise ParameterError(
            f"a constant action set must be finite, of shape (K, d), got {sets.shape}; one that "
            "changes is given as a function (rng, n_tasks) -> (n_tasks, K, d)"
        )
    copy = np.array(sets)
    copy.flags.writeable = False
    return copy


# -- classes of images ----------------------------------------------------------------------------


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
        self.labels = checked_indices(labels, len(self.features), "labels")
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

    def next_round(self) -> Choices:
        environment = self._environment
        images = environment.draw_images(self._action_rng, self.latent)
        self._sets = environment.features[images]
        right = environment.labels[images] == self.latent[:, None]
        self._means = np.where(right, *environment.success)
        return Choices(self._sets)

    def play(self, chosen: Any) -> Outcome:
        index = checked_choice(chosen, self._means.shape)
        rows = np.arange(len(index))
        values = self._means[rows, index]
        rewards = (self._reward_rng.random(len(index)) < values).astype(float)
        best = self._means.max(axis=1)
        return Outcome((self._sets[rows, index], rewards), rewards, values, best)


def _checked_success(success: tuple[float, float]) -> tuple[float, float]:
    given = _checks.numbers(success, "success must be two probabilities", ParameterError)
    if given.shape != (2,) or not ((given >= 0) & (given <= 1)).all():
        raise ParameterError(f"success must be two probabilities, got {success!r}")
    return float(given[0]), float(given[1])
