"""MixIDS: information-directed sampling under a mixture prior."""

from __future__ import annotations

from typing import Any

import numpy as np

from mixts import _checks
from mixts._typing import ActionsLike, Array, ArrayLike, Float, Seed
from mixts.agents._kernels import least_ratio
from mixts.agents.belief import BeliefAgent
from mixts.agents.offers import Request
from mixts.errors import ParameterError
from mixts.families.rewards import ABOUT_OTHERS, INFORMATION
from mixts.prior import MixturePrior

N_SAMPLES = 256
"""Default number of draws behind terms that are estimated."""


class MixIDS(BeliefAgent):
    """Information-directed sampling with a mixture prior (Russo and Van Roy, 2014).

    A decision minimises ``regret^2 / information`` over distributions on actions, at most two of
    which get a positive probability. The regret of an action is ``E[max_b theta_b - theta_a]``
    under the belief. For arms, both terms are exact, but for the mutual information. For linear
    rewards, the regret is estimated from draws in which components are summed exactly, and with a
    horizon both terms are. The standard error of a probability is then 0 given these draws.

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
    information
        The information in an action. ``"variance"``: that of its mean reward under the whole
        belief, the nearest to the optimum in our measurements. ``"best-action"``: the part that the
        best action explains, ``Var(E[theta_a | best action])``. ``"latent-and-best-action"``: the
        part that the latent state and the best action explain. ``"mutual-information"``: of the
        action's next reward and the best action, from draws, which makes it a little too large.
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
        n_tasks: int | None = None,
        seed: Seed = None,
        *,
        n_samples: int = N_SAMPLES,
        horizon: int | None = None,
        information: str = "variance",
        repeatable: bool | None = None,
    ) -> None:
        super().__init__(prior, n_tasks, seed)
        self._set(n_samples, horizon, information, repeatable=repeatable)

    def _set(
        self,
        n_samples: int = N_SAMPLES,
        horizon: int | None = None,
        information: str = "variance",
        *,
        repeatable: bool | None = None,
    ) -> None:
        super()._set(repeatable=repeatable)
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
            **super()._settings(),
        }

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
        asked = self._request(actions, tasks, mask, waiting, values, costs)
        regret, information = (np.where(asked.mask, term, np.nan) for term in self._terms(asked))
        return self._axis.squeeze(regret), self._axis.squeeze(information)

    def _probabilities(self, asked: Request) -> tuple[Float[Array, "m K"], Float[Array, "m K"]]:
        regret, information = self._terms(asked)
        law = np.zeros(asked.mask.shape)
        least_ratio(regret, information, asked.mask, law)
        return law, np.zeros(asked.mask.shape)

    def _terms(self, asked: Request) -> tuple[Float[Array, "m K"], Float[Array, "m K"]]:
        """Return regret and information of each action."""
        mask = asked.mask
        regret, information = np.empty(mask.shape), np.empty(mask.shape)
        measure = self._measure()
        drawn = self._horizon is not None or measure in ("mutual-information", ABOUT_OTHERS)
        n_draws = self._n_samples if drawn else 1
        for part, rewards in self._rewards_by_part(asked, n_draws):
            left = self._n_more(asked.tasks[part], asked.waiting)
            how = (self._rng, mask[part], measure, self._n_samples)
            found = rewards.terms(*how) if left is None else rewards.terms_ahead(*how, left)
            regret[part], information[part] = found
        # Rounding or sampling may leave the regret of a sure action just below zero.
        return np.maximum(regret, 0.0), information

    def _measure(self) -> str:
        if self.repeatable:
            return self._information
        if self._information != "variance":
            raise ParameterError(
                f"information={self._information!r} is for actions that may be taken again: leave "
                "it out, or give repeatable=True"
            )
        return ABOUT_OTHERS
