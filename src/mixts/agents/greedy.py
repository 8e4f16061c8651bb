"""Deterministic policies: Greedy takes the highest mean, BayesUCB the highest quantile."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np

from mixts._typing import Array, Float, Seed
from mixts.agents.bayesian import BeliefAgent
from mixts.agents.offers import Offer
from mixts.families.choice import inclusion, top_rows
from mixts.families.rewards import RewardBelief
from mixts.families.statistics import Statistics
from mixts.prior import MixturePrior

_N_SAMPLES = 1000
"""Number of draws behind a quantile of estimates at a horizon."""


class ScoringAgent(BeliefAgent):
    """An agent that takes the actions of the highest scores; a subclass defines ``scores``."""

    deterministic: ClassVar[bool] = True

    @abstractmethod
    def scores(self, rewards: RewardBelief, offer: Offer) -> Float[Array, "m K"]:
        """Return the score of each action.

        Parameters
        ----------
        rewards, offer
            As in ``probabilities``.

        Returns
        -------
        array
            Scores, (m, K).
        """

    def probabilities(
        self, rewards: RewardBelief, offer: Offer
    ) -> tuple[Float[Array, "m K"], Float[Array, "m K"]]:
        """Share the probability among the available actions of the highest score."""
        return self._included(self.scores(rewards, offer), offer, 1)

    def ranking(self, rewards: RewardBelief, offer: Offer) -> tuple[Array, Array, Array]:
        """Rank the actions by their scores, ties at random."""
        scores, k = self.scores(rewards, offer), offer.top or 1
        ranked = top_rows(self._rng, scores, offer.available, k)
        return ranked, *self._included(scores, offer, k)

    @staticmethod
    def _included(scores: Float[Array, "m K"], offer: Offer, k: int) -> tuple[Array, Array]:
        return inclusion(scores, offer.available, k), np.zeros(scores.shape)


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

    def scores(self, rewards: RewardBelief, offer: Offer) -> Float[Array, "m K"]:
        """Return the mean of each action.

        Parameters
        ----------
        rewards, offer
            As in ``probabilities``.

        Returns
        -------
        array
            Scores, (m, K).
        """
        return rewards.means()


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
        n_tasks: int | Statistics | None = None,
        seed: Seed = None,
        *,
        horizon: int | None = None,
        repeatable: bool | None = None,
    ) -> None:
        super().__init__(prior, n_tasks, seed, repeatable=repeatable)
        self._horizon = self._checked_horizon(horizon)
        self._n_draws = 1 if horizon is None else _N_SAMPLES

    def _settings(self) -> dict[str, Any]:
        return {"horizon": self._horizon, **super()._settings()}

    def scores(self, rewards: RewardBelief, offer: Offer) -> Float[Array, "m K"]:
        """Return the quantile of each action.

        Parameters
        ----------
        rewards, offer
            As in ``probabilities``.

        Returns
        -------
        array
            Scores, (m, K).
        """
        return rewards.quantiles(1.0 - 1.0 / (self._n_decided(offer) + 2.0))
