"""Bandits drawn from a prior, with constant arms, a constant action set, or a changing one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mixts._typing import Array, ArrayLike, Bool, Float, Int
from mixts.environments.base import Environment, Offer, Outcome, Problem, Streams, checked_choice
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
        retired = self.prior.retired
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

    def next_round(self) -> Offer:
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
            return Offer(self._sets, self._mask.copy())
        return Offer(self._sets, self._mask)

    def play(self, chosen: Any) -> Outcome:
        index = self._checked(chosen)
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

    def _checked(self, chosen: Any) -> Int[Array, " n"]:
        index = checked_choice(chosen, *self._means.shape)
        if self._mask is not None and not self._mask[self._rows, index].all():
            bad = int(index[np.argmin(self._mask[self._rows, index])])
            raise ActionError(f"act chose action {bad}, which the mask says is not available")
        return index


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
