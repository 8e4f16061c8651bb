"""Deterministic policies: Greedy takes the highest mean, BayesUCB the highest quantile."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np

from mixts._typing import Array, Bool, Float, Int, Seed
from mixts.agents.belief import BeliefAgent
from mixts.agents.offers import Request
from mixts.families.choice import rank_by_scores, top_rows
from mixts.prior import MixturePrior

_N_SAMPLES = 1000
"""Number of draws behind a quantile of estimates at a horizon."""


class ScoringAgent(BeliefAgent):
    """An agent that takes the actions of the highest scores; a subclass defines ``_scores``."""

    deterministic: ClassVar[bool] = True

    @abstractmethod
    def _scores(self, asked: Request) -> Float[Array, "m K"]:
        """Return the score of each action."""

    def _probabilities(self, asked: Request) -> tuple[Float[Array, "m K"], Float[Array, "m K"]]:
        return shared_best(self._scores(asked), asked.mask)

    def _slates(
        self, asked: Request, k: int
    ) -> tuple[Int[Array, "m k"], Float[Array, "m K"], Float[Array, "m K"]]:
        scores, mask = self._scores(asked), asked.mask
        ranked = top_rows(self._rng, scores, mask, k)
        return ranked, rank_by_scores(scores, mask, k), np.zeros(mask.shape)


class Greedy(ScoringAgent):
    """Policy of the action with the highest mean reward under the belief; it does not explore.

    It is good for short tasks under an informative prior. In a long task it may take an inferior
    action for ever: its regret then grows linearly.

    Parameters
    ----------
    prior
        The mixture prior of every task; arms or linear rewards.
    n_tasks
        Number of tasks; None for one task without a task axis.
    seed
        Seed of the agent's random numbers, which break ties.
    repeatable
        Whether an arm may be taken again in a task; None: as ``prior.repeatable`` says.

    Examples
    --------
    >>> import mixts
    >>> prior = mixts.MixturePrior(mixts.BernoulliArms([[8, 2], [2, 8]], [[2, 8], [8, 2]]))
    >>> agent = mixts.Greedy(prior, seed=1)
    >>> agent.update(0, 1)
    >>> agent.act()
    0
    """

    def __init__(
        self,
        prior: MixturePrior,
        n_tasks: int | None = None,
        seed: Seed = None,
        *,
        repeatable: bool | None = None,
    ) -> None:
        super().__init__(prior, n_tasks, seed)
        self._set(repeatable=repeatable)

    def _scores(self, asked: Request) -> Float[Array, "m K"]:
        return self._rewards(asked).means()


class BayesUCB(ScoringAgent):
    """Policy of the action with the highest quantile of its mean reward under the mixture.

    After n decisions of the task the quantile is that of probability ``1 - 1 / (n + 2)`` (Kaufmann,
    Cappe and Garivier, 2012): the median at first, higher ones later. It is the quantile of the
    mixture, not a sum of standard deviations.

    Parameters
    ----------
    prior
        The mixture prior of every task; arms or linear rewards.
    n_tasks
        Number of tasks; None for one task without a task axis.
    seed
        Seed of the agent's random numbers, which break ties.
    horizon
        Expected number of decisions of a task. The quantile is then that of the estimate that the
        agent could have by the end, from 1,000 draws, so that exploration fades, and near ties are
        broken by chance; None: no end in sight.
    repeatable
        Whether an action may be taken again in a task. If False, an arm that was taken is masked,
        and the quantile is that of what can be known of an action before it is taken, see
        :class:`MixIDS`. None: as ``prior.repeatable`` says.

    Examples
    --------
    >>> import mixts
    >>> prior = mixts.MixturePrior(mixts.BernoulliArms([[8, 2], [2, 8]], [[2, 8], [8, 2]]))
    >>> agent = mixts.BayesUCB(prior, seed=1)
    >>> agent.update(0, 1)
    >>> agent.act()
    0
    """

    def __init__(
        self,
        prior: MixturePrior,
        n_tasks: int | None = None,
        seed: Seed = None,
        *,
        horizon: int | None = None,
        repeatable: bool | None = None,
    ) -> None:
        super().__init__(prior, n_tasks, seed)
        self._set(horizon, repeatable=repeatable)

    def _set(self, horizon: int | None = None, *, repeatable: bool | None = None) -> None:
        super()._set(repeatable=repeatable)
        self._horizon = self._checked_horizon(horizon)

    def _settings(self) -> dict[str, Any]:
        return {"horizon": self._horizon, **super()._settings()}

    def _scores(self, asked: Request) -> Float[Array, "m K"]:
        index, waiting = asked.tasks, asked.waiting
        quantiles = np.empty(asked.mask.shape)
        level = 1.0 - 1.0 / (self._n_decided(index, waiting) + 2.0)
        n_draws = 1 if self._horizon is None else _N_SAMPLES
        for part, rewards in self._rewards_by_part(asked, n_draws):
            left = self._n_more(index[part], waiting)
            if left is None:
                quantiles[part] = rewards.quantiles(level[part])
            else:
                drawn = rewards.scores(rewards.draw_estimates(self._rng, _N_SAMPLES, left)[1])
                place = np.ceil(level[part] * _N_SAMPLES).astype(np.int64) - 1
                drawn.sort(axis=1)
                quantiles[part] = drawn[np.arange(len(place)), place]
        return quantiles


def shared_best(
    scores: Float[Array, "m K"], mask: Bool[Array, "m K"]
) -> tuple[Float[Array, "m K"], Float[Array, "m K"]]:
    """Return the law that takes the highest available score, equal ones alike; its errors are 0."""
    scores = np.where(mask, scores, -np.inf)
    best = scores == scores.max(axis=1, keepdims=True)
    return best / best.sum(axis=1, keepdims=True), np.zeros(mask.shape)
