"""MixIDS: information-directed sampling under a mixture prior."""

from __future__ import annotations

from typing import Any

import numpy as np

from mixts import _checks, _program
from mixts._typing import ActionsLike, Array, ArrayLike, Bool, Float, Seed
from mixts.agents.bayesian import BeliefAgent
from mixts.agents.offers import Offer
from mixts.families.rewards import RewardBelief
from mixts.families.statistics import Statistics
from mixts.prior import MixturePrior

N_SAMPLES = 256
"""Default number of draws behind terms that are estimated."""


class MixIDS(BeliefAgent):
    """Information-directed sampling with a mixture prior (Russo and Van Roy, 2014).

    A decision minimises ``regret^2 / information`` over distributions on actions, at most two of
    which get a positive probability. The regret of an action is ``E[max_b theta_b - theta_a]``
    under the belief, and its information is the variance of its mean reward. For arms, both terms
    are exact. For linear rewards, and for arms with values or costs, the regret is estimated from
    draws in which components are summed exactly, and with a horizon both terms are; for clicks with
    features, it is estimated from the fixed points of the posterior. The standard error of a
    probability is then 0 given these draws or points.

    MixIDS explores an action about as often as the gain that it expects there justifies, which may
    be rarely: in tasks of more than some 10,000 decisions under a vague prior, MixTS is safer.

    Parameters
    ----------
    prior
        The mixture prior of every task; arms or linear rewards.
    n_tasks
        Number of tasks; None for one task without a task axis.
    seed
        Seed of the agent's random numbers.
    n_samples
        Number of draws behind a term that is estimated.
    horizon
        Expected number of decisions of a task. Regret and information are then about the estimates
        that the agent could have by the end, so that exploration fades; None: no end in sight.
    repeatable
        Whether an action may be taken again in a task. If False, an arm that was taken is masked,
        and both terms are about what can be known of an action before it is taken,
        ``X_a = E[theta_a | the latent state, one reward of each other action]``: the regret is
        ``E[max_b X_b - theta_a]``, and the information is what the action's reward says about the
        latent state and the rewards of other actions. Of actions with features, the caller offers
        those that were not taken. None: as ``prior.repeatable`` says.

    Examples
    --------
    >>> import mixts
    >>> prior = mixts.MixturePrior(mixts.BernoulliArms([[8, 2], [2, 8]], [[2, 8], [8, 2]]))
    >>> agent = mixts.MixIDS(prior, seed=1)
    >>> arm = agent.act()
    >>> agent.update(arm, 1)
    >>> print(agent.belief.weights[arm].round(2))  # the kind that likes this arm
    0.8
    """

    def __init__(
        self,
        prior: MixturePrior,
        n_tasks: int | Statistics | None = None,
        seed: Seed = None,
        *,
        n_samples: int = N_SAMPLES,
        horizon: int | None = None,
        repeatable: bool | None = None,
    ) -> None:
        super().__init__(prior, n_tasks, seed, repeatable=repeatable)
        self._n_draws = _checks.count(n_samples, "n_samples", least=2)
        self._horizon = self._checked_horizon(horizon)

    def _settings(self) -> dict[str, Any]:
        return {"n_samples": self._n_draws, "horizon": self._horizon, **super()._settings()}

    def terms(
        self,
        actions: ActionsLike | None = None,
        tasks: ArrayLike | None = None,
        mask: ArrayLike | None = None,
        waiting: Any = None,
        *,
        values: Any = None,
        costs: Any = None,
    ) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
        """Return the expected regret and the information of each action: why it is taken.

        Parameters
        ----------
        actions, tasks, mask, waiting, values, costs
            As in ``act``. With values or costs, both terms are about utilities.

        Returns
        -------
        regret, information
            (K,) or (n, K) each; NaN for actions that are not available.

        Examples
        --------
        >>> import mixts
        >>> prior = mixts.MixturePrior(mixts.BernoulliArms([[8, 2], [2, 8]], [[2, 8], [8, 2]]))
        >>> regret, information = mixts.MixIDS(prior, seed=1).terms()
        >>> regret.round(3), information.round(3)
        (array([0.3, 0.3]), array([0.105, 0.105]))
        """
        offer = self.offer(actions, tasks, mask, waiting=waiting, values=values, costs=costs)
        regret, information = self._in_parts(self._terms, offer)
        available = offer.available
        return (
            self._axis.squeeze(np.where(available, regret, np.nan)),
            self._axis.squeeze(np.where(available, information, np.nan)),
        )

    def probabilities(
        self, rewards: RewardBelief, offer: Offer
    ) -> tuple[Float[Array, "m K"], Float[Array, "m K"]]:
        """Minimise ``regret^2 / information``."""
        probabilities = least_ratio(*self._terms(rewards, offer), offer.available)
        return probabilities, np.zeros(probabilities.shape)

    def _terms(
        self, rewards: RewardBelief, offer: Offer
    ) -> tuple[Float[Array, "m K"], Float[Array, "m K"]]:
        """Return regret and information of each action."""
        regret = rewards.regrets(self._rng, offer.available, self._n_draws)
        information = rewards.variances() if self.repeatable else rewards.taught()
        # Rounding or sampling may leave the regret of a sure action just below zero.
        return np.maximum(regret, 0.0), information


def least_ratio(
    regrets: Float[Array, "m K"], informations: Float[Array, "m K"], mask: Bool[Array, "m K"]
) -> Float[Array, "m K"]:
    """Return the probabilities of available actions that minimise regret^2 / information.

    The ratio is convex in the distribution over actions, so that its minimum is reached by a
    distribution over at most two of them, and by an equal share for actions that are exactly alike.
    Where no action is informative, the action of least regret is taken.
    """
    probabilities = np.zeros(mask.shape)
    if _program.core is not None:
        regrets, informations, mask = map(np.ascontiguousarray, (regrets, informations, mask))
        _program.core.least_ratio(regrets, informations, mask, probabilities)
        return probabilities
    for r, available in enumerate(mask):
        regret, information, among = regrets[r], informations[r], np.flatnonzero(available)
        first, second, share = _best_pair(regret[among], information[among])
        for k, part in ((among[first], 1 - share), (among[second], share)):
            like = available & (regret == regret[k]) & (information == information[k])
            probabilities[r, like] += part / like.sum()
    return probabilities


def _best_pair(
    regret: Float[Array, " K"], information: Float[Array, " K"]
) -> tuple[int, int, float]:
    """Return the two actions of the least ratio, and the probability of the second.

    Between actions i and j, ``(regret_i + q d)^2 / (information_i + q g)`` has its minimum where
    its slope is zero, at ``q = regret_i / d - 2 information_i / g``, or at an end. Of pairs with
    the same ratio the first one counts, in the order of less regret, then of more information.
    """
    order = np.lexsort((-information, regret))
    d, g = (x[order] - x[order][:, None] for x in (regret, information))
    low, known = regret[order][:, None], information[order][:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        # From i to j > i the regret rises: d >= 0.
        q = np.clip(low / d - 2 * known / g, 0.0, 1.0)
        q = np.where(np.isnan(q), 0.0, q)
        at, learned = low + q * d, known + q * g
        ratio = np.where(at <= 0, 0.0, np.where(learned > 0, at * at / learned, np.inf))
    ratio = np.where(np.tri(len(order), k=-1, dtype=bool), np.inf, ratio)
    i, j = np.unravel_index(ratio.argmin(), ratio.shape)
    return int(order[i]), int(order[j]), float(q[i, j])
