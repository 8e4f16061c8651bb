"""MixTS, Algorithm 1 of the paper; TS and UniTS are the same with another prior."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np

from mixts import _checks
from mixts._typing import Array, ArrayLike, Float, Int, Seed
from mixts.agents.bayesian import BeliefAgent
from mixts.agents.offers import Offer
from mixts.errors import ParameterError
from mixts.families.choice import draw_rows, top_rows
from mixts.families.rewards import RewardBelief
from mixts.families.statistics import Statistics
from mixts.prior import MixturePrior


class MixTS(BeliefAgent):
    """Thompson sampling with a mixture prior  [paper: Alg. 1].

    A decision draws a latent state from its posterior once, then all parameters given the state,
    and takes the best action under them. Plain TS is MixTS with a prior of one component, and UniTS
    is MixTS with ``prior.collapse()``. With a :class:`TabularMDP` the parameters
    are an MDP and the action is its best policy: PSRL is the uniform prior of one component.

    Parameters
    ----------
    prior
        The mixture prior of every task.
    n_tasks
        Number of tasks; None for one task without a task axis.
    seed
        Seed of the agent's random numbers.
    n_samples
        Number of draws behind an estimated propensity.
    horizon
        Expected number of decisions of a task. A decision with n more to come then draws what the
        mean of each action would be after n more observations of it, instead of its true mean
        (Min, Maglaras and Moallemi, 2019): exploration fades, and the last decision is greedy.
        None, as in the paper: no end in sight.
    repeatable
        Whether an action may be taken again in a task. If False, an arm that was taken is masked,
        and a decision draws what can be known of each action before it is taken, see
        :class:`MixIDS`, instead of its true mean. None: as ``prior.repeatable`` says.

    Examples
    --------
    >>> import mixts
    >>> prior = mixts.MixturePrior(mixts.BernoulliArms([[8, 2], [2, 8]], [[2, 8], [8, 2]]))
    >>> agent = mixts.MixTS(prior, seed=1)
    >>> arm = agent.act()
    >>> agent.update(arm, 1)
    >>> print(agent.belief.weights[arm].round(2))  # the kind that likes this arm
    0.8
    """

    _plans: ClassVar[bool] = True
    _expects_waiting: ClassVar[bool] = False

    def __init__(
        self,
        prior: MixturePrior,
        n_tasks: int | Statistics | None = None,
        seed: Seed = None,
        *,
        n_samples: int = 1000,
        horizon: int | None = None,
        repeatable: bool | None = None,
    ) -> None:
        super().__init__(prior, n_tasks, seed, repeatable=repeatable)
        if horizon is not None and self.prior.family.plans:
            raise ParameterError(
                "MixTS takes no horizon for an MDP, because it plans whole episodes: leave it out"
            )
        self._n_draws = _checks.count(n_samples, "n_samples")
        self._horizon = self._checked_horizon(horizon)

    def _settings(self) -> dict[str, Any]:
        return {"n_samples": self._n_draws, "horizon": self._horizon, **super()._settings()}

    def probabilities(
        self, rewards: RewardBelief, offer: Offer
    ) -> tuple[Float[Array, "m K"], Float[Array, "m K"]]:
        """Return P(action is the best), exact or from draws."""
        return rewards.best(self._rng, offer.available, self._n_draws)

    def ranking(self, rewards: RewardBelief, offer: Offer) -> tuple[Array, Array, Array]:
        """Rank one draw; the probabilities are those of all draws of which it is one."""
        drawn = rewards.draws(self._rng, self._n_draws)
        return drawn.ranking(self._rng, offer.available, offer.top or 1)

    def _act(self, offer: Offer) -> Int[Array, "m ..."]:
        """Choose by lines 5 and 6 of the algorithm for each decision  [paper: Alg. 1].

        ``last_latent`` holds the latent states that were drawn.
        """
        # A decision draws true means if no end is in sight and actions may be taken again.
        if offer.is_plain and self._horizon is None and self.repeatable:
            chosen, latent = self._draw_best(offer)
        else:
            # Padding, which no decision can take, costs no random numbers.
            used = np.arange(offer.n_actions)
            if offer.actions is not None and len(offer.tasks):
                used = np.flatnonzero(offer.available.any(axis=0))
            ranked, latent = self._in_parts(self._rank_one_draw, offer.among(used), 1)
            chosen = used[ranked if offer.top else ranked[:, 0]]
        self.last_latent = self._axis.squeeze(latent)
        return chosen

    def _draw_best(self, offer: Offer) -> tuple[Int[Array, "m ..."], Int[Array, " m"]]:
        """Return the best actions under one draw of each task, and the components drawn."""
        if self._axis.single and offer.mask is None and type(self)._act is MixTS._act:
            self._quick_belief = self.belief
        return self.belief.decide(self._rng, offer.tasks, offer.actions, offer.mask)

    def _rank_one_draw(
        self, rewards: RewardBelief, offer: Offer
    ) -> tuple[Int[Array, "m k"], Int[Array, " m"]]:
        """Return the best actions of one draw of each decision, and the components drawn."""
        latent = draw_rows(self._rng, rewards.weights)
        scores = rewards.scores(rewards.draw_given(self._rng, latent[:, None]))[:, 0]
        return top_rows(self._rng, scores, offer.available, offer.top or 1), latent


class Oracle(MixTS):
    """MixTS that knows the latent state: its regret is that of learning the parameters alone.

    Parameters
    ----------
    prior
        The mixture prior of every task.
    latent
        The true component, or one for each task.
    n_tasks, seed, n_samples
        As for :class:`MixTS`.

    Examples
    --------
    >>> import mixts
    >>> prior = mixts.MixturePrior(mixts.BernoulliArms([[8, 2], [2, 8]], [[2, 8], [8, 2]]))
    >>> agent = mixts.Oracle(prior, latent=1, seed=1)
    >>> probabilities, _ = agent.action_probabilities()
    >>> probabilities.round(3)
    array([0.002, 0.998])
    """

    _allow_dormant: ClassVar[bool] = False

    def __init__(
        self,
        prior: MixturePrior,
        latent: ArrayLike,
        n_tasks: int | Statistics | None = None,
        seed: Seed = None,
        *,
        n_samples: int = 1000,
    ) -> None:
        super().__init__(prior, n_tasks, seed, n_samples=n_samples)
        n = self.prior.n_components
        states = _checks.integers(latent, "latent must be component indices", ParameterError)
        inside = ((states >= 0) & (states < n)).all()
        if not inside or states.shape not in ((), (self._axis.size,)):
            raise ParameterError(
                f"latent must be a component (0 to {n - 1}), or one for each of "
                f"the {self._axis.size} tasks, got {latent!r}"
            )
        self._latent = np.broadcast_to(states, (self._axis.size,)).astype(np.int64)

    def _settings(self) -> dict[str, Any]:
        return {"n_samples": self._n_draws}

    def add_tasks(self, n: int) -> Int[Array, " n"]:
        """Raise ``ParameterError``: the latent states of new tasks are unknown.

        Parameters
        ----------
        n
            Not used.
        """
        raise ParameterError("an Oracle gets the latent states when it is made: make a new one")

    def use_prior(self, prior: MixturePrior) -> None:
        """Replace the prior by one with as many components."""
        if isinstance(prior, MixturePrior) and prior.n_components != self.prior.n_components:
            raise ParameterError(
                f"the latent states are those of {self.prior.n_components} components, "
                f"got a prior with {prior.n_components}: make a new Oracle"
            )
        super().use_prior(prior)

    def _draw_best(self, offer: Offer) -> tuple[Int[Array, "m ..."], Int[Array, " m"]]:
        latent = self._latent[offer.tasks]
        posterior = self.belief.posterior
        drawn = posterior.draw_best(self._rng, offer.tasks, latent, offer.actions, offer.mask)
        return drawn, latent

    def _latent_weights(self, index: Int[Array, " m"]) -> Float[Array, "m L"]:
        return np.asarray(self._latent[index][:, None] == np.arange(self.prior.n_components), float)

    def _state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        header, arrays = super()._state()
        return header, {**arrays, "latent": self._latent}

    @classmethod
    def _restore(cls, header: dict[str, Any], arrays: dict[str, Array]) -> Self:
        settings = {**header["settings"], "latent": arrays["latent"]}
        return super()._restore({**header, "settings": settings}, arrays)
