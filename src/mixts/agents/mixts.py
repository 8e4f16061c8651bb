"""MixTS, Algorithm 1 of the paper; TS and UniTS are the same with another prior."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from typing import Any, ClassVar, Self

import numpy as np

from mixts import _checks
from mixts._typing import ActionsLike, Array, ArrayLike, Bool, Float, Int, Seed
from mixts.agents.belief import BeliefAgent
from mixts.agents.offers import Request
from mixts.errors import ParameterError
from mixts.families.bernoulli import BernoulliPosterior
from mixts.families.choice import best_rows, top_rows
from mixts.families.pending import Pending
from mixts.families.rewards import RewardBelief
from mixts.prior import MixturePrior

_N_OUTCOMES = 16
"""Draws of the outcomes of pending decisions behind a propensity."""


class MixTS(BeliefAgent):
    """Thompson sampling with a mixture prior  [paper: Alg. 1].

    A decision draws a latent state from its posterior once, then all parameters given the state,
    and takes the best action under them. Plain TS is MixTS with a prior of one component, and UniTS
    is MixTS with ``prior.collapse()``: see :meth:`units`. With a :class:`TabularMDP` the parameters
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

    _has_drawn = False
    """Whether outcomes of the history were drawn: slow exact results are not worth their time."""

    def __init__(
        self,
        prior: MixturePrior,
        n_tasks: int | None = None,
        seed: Seed = None,
        *,
        n_samples: int = 1000,
        horizon: int | None = None,
        repeatable: bool | None = None,
    ) -> None:
        super().__init__(prior, n_tasks, seed)
        self._set(n_samples, horizon, repeatable=repeatable)

    def _set(
        self, n_samples: int = 1000, horizon: int | None = None, *, repeatable: bool | None = None
    ) -> None:
        super()._set(repeatable=repeatable)
        if horizon is not None and self.prior.family.plans:
            raise ParameterError(
                "MixTS takes no horizon for an MDP, because it plans whole episodes: leave it out"
            )
        self._n_samples = _checks.count(n_samples, "n_samples")
        self._horizon = self._checked_horizon(horizon)

    def _settings(self) -> dict[str, Any]:
        return {
            "n_samples": self._n_samples,
            "horizon": self._horizon,
            **super()._settings(),
        }

    @classmethod
    def units(cls, prior: MixturePrior, n_tasks: int | None = None, seed: Seed = None) -> Self:
        """Return UniTS: TS with the mixture collapsed to one component  [paper: Sec. 6.2].

        Parameters
        ----------
        prior
            Mixture to collapse.
        n_tasks, seed
            As for :class:`MixTS`.

        Returns
        -------
        MixTS
            The agent.

        Examples
        --------
        >>> import mixts
        >>> prior = mixts.MixturePrior(mixts.BernoulliArms([[8, 2], [2, 8]], [[2, 8], [8, 2]]))
        >>> mixts.MixTS.units(prior, seed=1).prior.n_components
        1
        """
        return cls(prior.collapse(), n_tasks, seed)

    def act(
        self,
        actions: ActionsLike | None = None,
        tasks: ArrayLike | None = None,
        mask: ArrayLike | None = None,
        waiting: Any = None,
        *,
        values: Any = None,
        costs: Any = None,
        top: int | None = None,
    ) -> Any:
        """Choose by lines 5 and 6 of the algorithm for each decision  [paper: Alg. 1].

        ``last_latent`` holds the latent states that were drawn. See :meth:`Agent.act`. Waiting
        decisions count towards the horizon; otherwise they change nothing, unless their silence is
        evidence (:class:`mixts.Pending`). With ``top``, the ranking is that of one draw.
        """
        usual = self._horizon is None and self.repeatable
        plain = values is None and costs is None and top is None and usual
        silent = isinstance(waiting, Pending) and np.size(waiting.actions) > 0
        if not plain or silent:
            asked = self._request(actions, tasks, mask, waiting, values, costs)
            k = None if top is None else self._checked_top(top, asked.mask)
            chosen, latent = self._take(asked, k)
        else:
            index = self._axis.decisions(tasks)
            sets, n_actions = self._action_sets(actions, len(index))
            available = self._available(mask, len(index), n_actions)
            self._checked_waiting(waiting)
            chosen, latent = self._decide(index, sets, available)
        self.last_latent = self._axis.squeeze(latent)
        return self._axis.squeeze(chosen)

    @property
    def _as_in_paper(self) -> bool:
        """Whether decisions draw true means: no end is in sight, and actions may be taken again."""
        return self._horizon is None and self.repeatable

    def _decide(
        self, index: Int[Array, " m"], sets: Array | None, mask: Bool[Array, "m K"] | None
    ) -> tuple[Int[Array, "m ..."], Int[Array, " m"]]:
        """Return the best actions under one draw of each task, and the components drawn."""
        return self.belief.decide(self._rng, index, sets, mask)

    def _draw_latent(self, index: Int[Array, " m"]) -> Int[Array, " m"]:
        return self.belief.draw_latent(self._rng, index)

    def _take(self, asked: Request, k: int | None) -> tuple[Array, Int[Array, " m"]]:
        """Draw components and mean rewards once; return the best action or k, and the components.

        With a horizon the means that actions would have then are drawn in place of mean rewards.
        """
        if self._draws_outcomes(asked):
            return self._with_outcomes(asked, 1)._take(asked.repeated(1), k)
        used = np.arange(asked.mask.shape[1])
        if self._as_in_paper:
            latent = self._draw_latent(asked.tasks)
            theta = self.belief.posterior.sample(self._rng, asked.tasks, latent)
            outcomes = self.prior.family.mean_rewards(theta, asked.actions)
        else:
            # Actions that no decision can take cost no random numbers.
            if asked.actions is not None:
                used = np.flatnonzero(asked.mask.any(axis=0))
                asked = asked.among(used)
            left = self._n_more(asked.tasks, asked.waiting)
            rewards = self._rewards(_evident(asked)._replace(money=None))
            latents, drawn = self._drawn(rewards, 1, left)
            latent, outcomes = latents[:, 0], drawn[:, 0]
        scores = outcomes if asked.money is None else asked.money.of(outcomes)
        if k is None:
            return used[best_rows(self._rng, scores, asked.mask)], latent
        return used[top_rows(self._rng, scores, asked.mask, k)], latent

    def _draws_outcomes(self, asked: Request) -> bool:
        """Return whether the outcomes of what is pending are drawn before a decision.

        With a horizon they are expected: draws would make the last decisions explore.
        """
        return asked.silent and self._horizon is None

    def _with_outcomes(self, asked: Request, n: int) -> Self:
        """Return the agent after drawn outcomes of what is pending, with n tasks for each decision.

        Over the draws, its decisions follow the law of the belief given the silence.
        """
        index = np.repeat(asked.tasks, n)
        posterior, weights = self.belief.posterior, self._latent_weights(index)
        assert isinstance(posterior, BernoulliPosterior)
        assert asked.waiting is not None
        drawn = posterior.draw_outcomes(self._rng, index, weights, asked.waiting)
        other = copy(self)
        other._believe(self.prior, drawn, shared=False)
        other._has_drawn, other._n_samples = True, -(-self._n_samples // n)
        return other

    def _draws(self, asked: Request) -> Iterator[tuple[slice, RewardBelief, Float[Array, "m n K"]]]:
        """Yield parts of the decisions, the belief about each and draws from it."""
        left = self._n_more(asked.tasks, asked.waiting)
        n = self._n_samples
        for part, rewards in self._rewards_by_part(_evident(asked), n):
            _, drawn = self._drawn(rewards, n, None if left is None else left[part])
            yield part, rewards, drawn

    def _drawn(
        self, rewards: RewardBelief, n: int, left: Int[Array, " m"] | None
    ) -> tuple[Int[Array, "m n"], Float[Array, "m n K"]]:
        """Draw components, and mean rewards or, with a horizon, estimates at its end."""
        if left is None:
            return rewards.draw_mixture(self._rng, n)
        return rewards.draw_estimates(self._rng, n, left)

    def _probabilities(self, asked: Request) -> tuple[Float[Array, "m K"], Float[Array, "m K"]]:
        if self._draws_outcomes(asked):
            other = self._with_outcomes(asked, _N_OUTCOMES)
            return _average(other._probabilities(asked.repeated(_N_OUTCOMES))[0])
        if self._as_in_paper and asked.money is None:
            weights = self._latent_weights(asked.tasks)
            return self.belief.posterior.best_action_probabilities(
                self._rng, asked.tasks, weights, asked.actions, asked.mask, self._n_samples
            )
        if (exact := self._exact(asked, 1)) is not None:
            return exact
        law, mask = np.empty(asked.mask.shape), asked.mask
        for part, rewards, drawn in self._draws(asked):
            scores = np.where(mask[part, None], rewards.scores(drawn), -np.inf)
            best = scores == scores.max(axis=2, keepdims=True)
            law[part] = (best / best.sum(axis=2, keepdims=True)).mean(axis=1)
        return law, self._standard_errors(law)

    def _slates(
        self, asked: Request, k: int
    ) -> tuple[Int[Array, "m k"], Float[Array, "m K"], Float[Array, "m K"]]:
        """Rank one draw; the probabilities are exact, or those of all draws of which it is one."""
        if self._draws_outcomes(asked):
            other = self._with_outcomes(asked, _N_OUTCOMES)
            every, shares, _ = other._slates(asked.repeated(_N_OUTCOMES), k)
            one = self._rng.integers(_N_OUTCOMES, size=len(asked.mask))
            taken = every.reshape(-1, _N_OUTCOMES, k)[np.arange(len(one)), one]
            return taken, *_average(shares)
        if (exact := self._exact(asked, k)) is not None:
            return self._take(asked, k)[0], *exact
        ranked, included = np.empty((len(asked.mask), k), np.int64), np.empty(asked.mask.shape)
        for part, rewards, drawn in self._draws(asked):
            found = rewards.draw_rankings(self._rng, asked.mask[part], k, drawn)
            ranked[part], included[part] = found
        return ranked, included, self._standard_errors(included)

    def _exact(self, asked: Request, k: int) -> tuple[Array, Array] | None:
        """Return P(action is among the best k) and its errors; None where they must be sampled."""
        if self._horizon is not None or self._has_drawn:
            return None
        return self._rewards(asked._replace(waiting=None)).inclusion(asked.mask, k)

    def _standard_errors(self, shares: Float[Array, "m K"]) -> Float[Array, "m K"]:
        return np.sqrt(shares * (1.0 - shares) / self._n_samples)


def _evident(asked: Request) -> Request:
    """Return the same decisions, with those that wait only if their silence is evidence."""
    return asked if asked.silent else asked._replace(waiting=None)


def _average(shares: Float[Array, "_ K"]) -> tuple[Float[Array, "m K"], Float[Array, "m K"]]:
    """Return the mean of each decision's laws given drawn outcomes, and its standard error."""
    each = shares.reshape(-1, _N_OUTCOMES, shares.shape[1])
    return each.mean(axis=1), each.std(axis=1, ddof=1) / np.sqrt(_N_OUTCOMES)


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
        n_tasks: int | None = None,
        seed: Seed = None,
        *,
        n_samples: int = 1000,
    ) -> None:
        super().__init__(prior, n_tasks, seed, n_samples=n_samples)
        self._know(latent)

    def _know(self, latent: ArrayLike) -> None:
        n = self.prior.n_components
        states = _checks.integers(latent, "latent must be component indices", ParameterError)
        inside = ((states >= 0) & (states < n)).all()
        if not inside or states.shape not in ((), (self._axis.size,)):
            raise ParameterError(
                f"latent must be a component (0 to {n - 1}), or one for each of "
                f"the {self._axis.size} tasks, got {latent!r}"
            )
        self._latent = np.broadcast_to(states, (self._axis.size,)).astype(np.int64)

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

    def _with_outcomes(self, asked: Request, n: int) -> Self:
        other = super()._with_outcomes(asked, n)
        other._latent = self._latent[np.repeat(asked.tasks, n)]
        return other

    def _decide(
        self, index: Int[Array, " m"], sets: Array | None, mask: Bool[Array, "m K"] | None
    ) -> tuple[Int[Array, "m ..."], Int[Array, " m"]]:
        latent = self._draw_latent(index)
        theta = self.belief.posterior.sample(self._rng, index, latent)
        return self.prior.family.best_action(self._rng, theta, sets, mask), latent

    def _draw_latent(self, index: Int[Array, " m"]) -> Int[Array, " m"]:
        return self._latent[index]

    def _latent_weights(self, index: Int[Array, " m"]) -> Float[Array, "m L"]:
        return np.asarray(self._latent[index][:, None] == np.arange(self.prior.n_components), float)

    def _state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        header, arrays = super()._state()
        return header, {**arrays, "latent": self._latent}

    @classmethod
    def _restore(cls, header: dict[str, Any], arrays: dict[str, Array]) -> Self:
        agent = super()._restore(header, arrays)
        agent._know(arrays["latent"])
        return agent
