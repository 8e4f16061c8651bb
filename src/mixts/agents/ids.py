"""MixIDS: information-directed sampling under a mixture prior."""

from __future__ import annotations

from typing import Any

import numpy as np

from mixts import _checks
from mixts._typing import Array, ArrayLike, Bool, Float, Int, Seed
from mixts.agents._kernels import least_ratio
from mixts.agents.belief import BeliefAgent
from mixts.errors import ParameterError
from mixts.families.base import Waiting
from mixts.families.quadrature import Marginal
from mixts.families.rewards import RewardBelief
from mixts.prior import MixturePrior

INFORMATION = ("variance", "best-action", "latent-and-best-action", "mutual-information")
"""Measures of the information in an action, see :class:`MixIDS`."""

N_SAMPLES = 256
"""Default number of draws behind terms that are estimated."""


class MixIDS(BeliefAgent):
    """Information-directed sampling with a mixture prior (Russo and Van Roy, 2014).

    A decision minimises ``regret^2 / information`` over distributions on actions, at most two of
    which get a positive probability. The regret of an action is ``E[max_b theta_b - theta_a]``
    under the belief. For arms both terms are exact; for linear rewards the regret is estimated from
    draws in which components are summed exactly.

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
    information
        The information in an action: ``"variance"``, that of its mean reward under the whole
        belief; ``"best-action"`` and ``"latent-and-best-action"``, the part of this variance that
        the best action, or the latent state and the best action, explain; or
        ``"mutual-information"``, of its next reward and the best action. All but the first are
        estimated from draws.

    Examples
    --------
    >>> prior = mixts.MixturePrior(mixts.BernoulliArms([[8, 2], [2, 8]], [[2, 8], [8, 2]]))
    >>> agent = mixts.MixIDS(prior, seed=1)
    >>> arm = agent.act()
    >>> agent.update(arm, 1)
    """

    def __init__(
        self,
        prior: MixturePrior,
        n_tasks: int | None = None,
        seed: Seed = None,
        *,
        n_samples: int = N_SAMPLES,
        horizon: int | None = None,
        information: str = "variance",
    ) -> None:
        super().__init__(prior, n_tasks, seed)
        self._set(n_samples=n_samples, horizon=horizon, information=information)

    def _set(
        self,
        n_samples: int = N_SAMPLES,
        horizon: int | None = None,
        information: str = "variance",
    ) -> None:
        if information not in INFORMATION:
            raise ParameterError(
                f"information must be one of {', '.join(map(repr, INFORMATION))}, "
                f"got {information!r}"
            )
        self._n_samples = _checks.count(n_samples, "n_samples", least=2)
        self._horizon = self._checked_horizon(horizon)
        self._information = information

    def _settings(self) -> dict[str, Any]:
        return {
            "n_samples": self._n_samples,
            "horizon": self._horizon,
            "information": self._information,
        }

    def terms(
        self,
        actions: ArrayLike | None = None,
        tasks: ArrayLike | None = None,
        mask: ArrayLike | None = None,
        waiting: Any = None,
    ) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
        """Return the expected regret and the information of each action: why it is taken.

        Parameters
        ----------
        actions, tasks, mask, waiting
            As in ``act``.

        Returns
        -------
        regret, information
            (K,) or (n, K) each; NaN for actions that are not available.
        """
        index = self._axis.decisions(tasks)
        sets, n_actions = self._action_sets(actions, len(index))
        available = self._full_mask(mask, len(index), n_actions)
        found = self._terms(index, sets, available, self._checked_waiting(waiting))
        regret, information = (np.where(available, term, np.nan) for term in found)
        return self._axis.squeeze(regret), self._axis.squeeze(information)

    def _probabilities(
        self,
        index: Int[Array, " m"],
        actions: Array | None,
        mask: Bool[Array, "m K"],
        waiting: Waiting | None = None,
    ) -> tuple[Float[Array, "m K"], Float[Array, "m K"]]:
        regret, information = self._terms(index, actions, mask, waiting)
        law = np.zeros(mask.shape)
        least_ratio(regret, information, mask, law)
        return law, np.zeros(mask.shape)

    def _terms(
        self,
        index: Int[Array, " m"],
        actions: Array | None,
        mask: Bool[Array, "m K"],
        waiting: Waiting | None,
    ) -> tuple[Float[Array, "m K"], Float[Array, "m K"]]:
        """Return regret and information of each action."""
        regret, information = np.empty(mask.shape), np.empty(mask.shape)
        exact = self._horizon is None and self._information == "variance"
        for part in self._parts(len(index), mask.shape[1], 1 if exact else self._n_samples):
            sets = actions[part] if actions is not None and actions.ndim == 3 else actions
            rewards = self._rewards(index[part], sets, mask[part], waiting)
            if exact:
                regret[part] = rewards.regrets(self._rng, mask[part], self._n_samples)
                information[part] = rewards.variances()
            else:
                left = self._n_more(index[part], waiting)
                regret[part], information[part] = self._sampled(rewards, mask[part], left)
        # Rounding or sampling may leave the regret of a sure action just below zero.
        return np.maximum(regret, 0.0), information

    def _sampled(
        self, rewards: RewardBelief, mask: Bool[Array, "m K"], n_more: Int[Array, " m"] | None
    ) -> tuple[Float[Array, "m K"], Float[Array, "m K"]]:
        """Return both terms from draws of mean rewards, or of estimates at the horizon."""
        if n_more is None:
            latent, drawn = rewards.draw_mixture(self._rng, self._n_samples)
        else:
            latent, drawn = rewards.draw_estimates(self._rng, self._n_samples, n_more)
        means = rewards.means()
        lead = np.where(mask, means, -np.inf).argmax(axis=1)[:, None]
        best = np.where(mask[:, None], drawn, -np.inf).argmax(axis=2)
        top = np.take_along_axis(drawn, best[:, :, None], axis=2)[:, :, 0]
        gain = (top - np.take_along_axis(drawn, lead[:, None], axis=2)[:, :, 0]).mean(axis=1)
        regret = gain[:, None] + np.take_along_axis(means, lead, axis=1) - means
        if self._information == "variance":
            return regret, drawn.var(axis=1)
        groups = best
        if self._information == "latent-and-best-action":
            groups = best * rewards.weights.shape[1] + latent
        entropy = self._information == "mutual-information"
        return regret, _explained(drawn, groups, rewards.marginal if entropy else None)


def _explained(
    drawn: Float[Array, "m n K"], groups: Int[Array, "m n"], marginal: Marginal | None
) -> Float[Array, "m K"]:
    """Return the part of each action's variance that the groups of draws explain.

    With the distributions of mean rewards, return the mutual information instead: the entropy of a
    reward, minus its entropy given the group.
    """
    rows = np.arange(len(drawn))[:, None]
    keys, index = np.unique(rows * (groups.max() + 1) + groups, return_inverse=True)
    row_of = keys // (groups.max() + 1)
    flat = drawn.reshape(-1, drawn.shape[2])
    order = np.argsort(index.reshape(-1), kind="stable")
    starts = np.searchsorted(index.reshape(-1)[order], np.arange(len(keys)))
    size = np.diff(np.append(starts, len(flat)))[:, None]
    mean = np.add.reduceat(flat[order], starts) / size
    share = size / drawn.shape[1]
    information = np.zeros((len(drawn), drawn.shape[2]))
    if marginal is None:
        gap = mean - drawn.mean(axis=1)[row_of]
        np.add.at(information, row_of, share * gap * gap)
        return information
    square = np.add.reduceat(flat[order] ** 2, starts) / size
    within = marginal.reward_entropy(mean, np.maximum(square - mean * mean, 0.0))
    np.subtract.at(information, row_of, share * within)
    information += marginal.reward_entropy(drawn.mean(axis=1), drawn.var(axis=1))
    return np.maximum(information, 0.0)
