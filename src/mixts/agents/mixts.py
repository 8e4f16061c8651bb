"""MixTS, Algorithm 1 of the paper; TS and UniTS are the same with another prior."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np

from mixts import _checks
from mixts._typing import ActionsLike, Array, ArrayLike, Bool, Float, Int, Seed
from mixts.agents.belief import BeliefAgent
from mixts.errors import ParameterError
from mixts.families.base import Waiting
from mixts.families.choice import best_rows
from mixts.prior import MixturePrior


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

    Examples
    --------
    >>> prior = mixts.MixturePrior(mixts.BernoulliArms([[8, 2], [2, 8]], [[2, 8], [8, 2]]))
    >>> agent = mixts.MixTS(prior, seed=1)
    >>> arm = agent.act()
    >>> agent.update(arm, 1)
    """

    _plans: ClassVar[bool] = True

    def __init__(
        self,
        prior: MixturePrior,
        n_tasks: int | None = None,
        seed: Seed = None,
        *,
        n_samples: int = 1000,
        horizon: int | None = None,
    ) -> None:
        super().__init__(prior, n_tasks, seed)
        self._set(n_samples=n_samples, horizon=horizon)

    def _set(self, n_samples: int = 1000, horizon: int | None = None) -> None:
        if horizon is not None and self.prior.family.plans:
            raise ParameterError(
                "MixTS takes no horizon for an MDP, because it plans whole episodes: leave it out"
            )
        self._n_samples = _checks.count(n_samples, "n_samples")
        self._horizon = self._checked_horizon(horizon)

    def _settings(self) -> dict[str, Any]:
        return {"n_samples": self._n_samples, "horizon": self._horizon}

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
        """
        return cls(prior.collapse(), n_tasks, seed)

    def act(
        self,
        actions: ActionsLike | None = None,
        tasks: ArrayLike | None = None,
        mask: ArrayLike | None = None,
        waiting: Any = None,
    ) -> Any:
        """Choose by lines 5 and 6 of the algorithm for each decision  [paper: Alg. 1].

        ``last_latent`` holds the latent states that were drawn. See :meth:`Agent.act`. Waiting
        decisions count towards the horizon; otherwise they change nothing.
        """
        index = self._axis.decisions(tasks)
        family = self.belief.prior.family
        sets, n_actions = self._action_sets(actions, len(index))
        available = self._available(mask, len(index), n_actions)
        pending = self._checked_waiting(waiting)
        if self._horizon is not None:
            mask = self._full_mask(mask, len(index), n_actions)
            chosen, latent = self._act_ahead(index, sets, mask, pending)
            self.last_latent = self._axis.squeeze(latent)
            return self._axis.squeeze(chosen)
        latent = self._draw_latent(index)
        theta = self.belief.posterior.sample(self._rng, index, latent)
        chosen = family.best_action(self._rng, theta, sets, available)
        self.last_latent = self._axis.squeeze(latent)
        return self._axis.squeeze(chosen)

    def _draw_latent(self, index: Int[Array, " m"]) -> Int[Array, " m"]:
        return self.belief.draw_latent(self._rng, index)

    def _act_ahead(
        self,
        index: Int[Array, " m"],
        actions: Array | None,
        mask: Bool[Array, "m K"],
        waiting: Waiting | None,
    ) -> tuple[Int[Array, " m"], Int[Array, " m"]]:
        """Draw a component, and what the mean of each action would be at the horizon.

        Returns the best actions and the components.
        """
        left = self._n_more(index, waiting)
        assert left is not None
        # Actions that no decision can take cost no random numbers.
        used = np.arange(mask.shape[1]) if actions is None else np.flatnonzero(mask.any(axis=0))
        sets = None if actions is None else actions[..., used, :]
        rewards = self._rewards(index, sets, mask[:, used], None)
        latent, drawn = rewards.draw_estimates(self._rng, 1, left)
        return used[best_rows(self._rng, drawn[:, 0], mask[:, used])], latent[:, 0]

    def _law_ahead(
        self,
        index: Int[Array, " m"],
        actions: Array | None,
        mask: Bool[Array, "m K"],
        waiting: Waiting | None,
    ) -> Float[Array, "m K"]:
        """Return how often each action is the best in draws of estimates at the horizon."""
        law, n = np.empty(mask.shape), self._n_samples
        left = self._n_more(index, waiting)
        assert left is not None
        for part, rewards in self._rewards_by_part(index, actions, mask, None, n):
            _, drawn = rewards.draw_estimates(self._rng, n, left[part])
            drawn = np.where(mask[part, None], drawn, -np.inf)
            best = drawn == drawn.max(axis=2, keepdims=True)
            law[part] = (best / best.sum(axis=2, keepdims=True)).mean(axis=1)
        return law

    def _probabilities(
        self,
        index: Int[Array, " m"],
        actions: Array | None,
        mask: Bool[Array, "m K"],
        waiting: Waiting | None = None,
    ) -> tuple[Float[Array, "m K"], Float[Array, "m K"]]:
        if self._horizon is not None:
            law = self._law_ahead(index, actions, mask, waiting)
            return law, np.sqrt(law * (1.0 - law) / self._n_samples)
        weights = self._latent_weights(index)
        return self.belief.posterior.best_action_probabilities(
            self._rng, index, weights, actions, mask, self._n_samples
        )


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
        """Raise `ParameterError`: the latent states of new tasks are unknown."""
        raise ParameterError("an Oracle gets the latent states when it is made: make a new one")

    def use_prior(self, prior: MixturePrior) -> None:
        """Replace the prior by one with as many components."""
        if isinstance(prior, MixturePrior) and prior.n_components != self.prior.n_components:
            raise ParameterError(
                f"the latent states are those of {self.prior.n_components} components, "
                f"got a prior with {prior.n_components}: make a new Oracle"
            )
        super().use_prior(prior)

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
