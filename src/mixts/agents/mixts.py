"""MixTS, Algorithm 1 of the paper; TS and UniTS are the same with another prior."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from mixts import _checks
from mixts._typing import Array, ArrayLike, Bool, Float, Int, Seed
from mixts.agents.base import Agent, without_retired
from mixts.belief import Belief
from mixts.errors import MaskError, ParameterError
from mixts.families.arms import ArmStatistics
from mixts.families.statistics import Statistics
from mixts.families.trajectory import Trajectory
from mixts.prior import MixturePrior


class MixTS(Agent):
    """Thompson sampling with a mixture prior  [paper: Alg. 1].

    A decision draws a latent state from its posterior once, then all parameters given it, and acts
    greedily on them. Plain TS is this with a prior of one component, and UniTS with
    ``prior.collapse()``: see :meth:`units`. With a :class:`TabularMDP` the parameters are an MDP
    and the action is its best policy: PSRL is the uniform prior of one component. ``n_samples`` is
    the number of parameter draws behind an estimated propensity.
    """

    _allow_dormant = True

    def __init__(
        self,
        prior: MixturePrior,
        n_tasks: int | None = None,
        seed: Seed = None,
        *,
        n_samples: int = 1000,
    ) -> None:
        if not isinstance(prior, MixturePrior):
            raise ParameterError(f"prior must be a MixturePrior, got {prior!r}")
        super().__init__(n_tasks, seed)
        self._n_samples = _checks.count(n_samples, "n_samples")
        self.belief = Belief(
            prior, prior.family.empty_statistics(n_tasks), allow_dormant=self._allow_dormant
        )
        """What the agent believes; read it, and let ``update`` change it."""

    @classmethod
    def units(cls, prior: MixturePrior, n_tasks: int | None = None, seed: Seed = None) -> Self:
        """UniTS: TS with the mixture collapsed to one component  [paper: Sec. 6.2]."""
        return cls(prior.collapse(), n_tasks, seed)

    @classmethod
    def resume(
        cls,
        prior: MixturePrior,
        statistics: Statistics,
        seed: Seed = None,
        *,
        n_samples: int = 1000,
    ) -> Self:
        """An agent that goes on where these tasks' statistics, which it leaves as they are, end."""
        agent = cls.__new__(cls)  # an empty belief need not be made first
        Agent.__init__(agent, None if statistics.single else len(statistics), seed)
        agent._n_samples = _checks.count(n_samples, "n_samples")
        agent.belief = Belief(prior, statistics, allow_dormant=cls._allow_dormant, shared=True)
        return agent

    @property
    def prior(self) -> MixturePrior:
        """The prior in force."""
        return self.belief.prior

    def act(
        self,
        actions: ArrayLike | None = None,
        tasks: ArrayLike | None = None,
        mask: ArrayLike | None = None,
    ) -> Any:
        """Lines 5 and 6 of the algorithm for each decision  [paper: Alg. 1]."""
        index = self._axis.decisions(tasks)
        family = self.prior.family
        sets, n_actions = family.action_sets(actions, len(index))
        available = self._available(mask, len(index), n_actions)
        latent = self._draw_latent(index)
        theta = self.belief.draw_parameters(self._rng, index, latent)
        chosen = family.best_action(self._rng, theta, sets, available)
        self.last_latent = self._axis.squeeze(latent)
        return self._axis.squeeze(chosen)

    def update(
        self,
        actions: ArrayLike | Trajectory,
        outcomes: ArrayLike | None = None,
        tasks: ArrayLike | None = None,
    ) -> None:
        """Lines 7 to 9: every component, and the weights  [paper: Alg. 1].

        Outcomes may come late, in any order and in any batches. Arms are indices, linear actions
        feature rows; MDPs take the :class:`Trajectory` of an episode instead of both.
        """
        self.belief.update(actions, outcomes, tasks)

    def add_tasks(self, n: int) -> Int[Array, " n"]:
        """Live tasks keep arriving; returns their indices."""
        new = self._axis.grow(n)
        self.belief.add_tasks(n)
        return new

    def use_prior(self, prior: MixturePrior) -> None:
        """Swap a better prior in under the live tasks: statistics stay, beliefs are recomputed.

        A prior with more arms than before (``prior.with_arms``) adds arms that were never observed;
        arms that were retired stay so.
        """
        if not isinstance(prior, MixturePrior):
            raise ParameterError(f"prior must be a MixturePrior, got {prior!r}")
        statistics = self.belief.statistics
        more = (prior.family.n_arms or 0) - (self.prior.family.n_arms or 0)
        if isinstance(statistics, ArmStatistics) and more > 0:
            statistics = statistics.with_arms(more)
        retired = np.flatnonzero(self.prior.retired)
        if len(retired) and isinstance(statistics, ArmStatistics):
            prior = prior.retire_arms(retired.tolist())
        self.belief = Belief(prior, statistics, allow_dormant=self._allow_dormant, shared=True)

    def retire_arms(self, arms: list[int | str]) -> None:
        """Never take these arms again; what was observed of them still counts."""
        # Retiring changes neither parameters nor statistics: the belief stays as it is.
        self.belief.prior = self.prior.retire_arms(arms)

    def _available(
        self, mask: ArrayLike | None, n_rows: int, n_actions: int
    ) -> Bool[Array, "m K"] | None:
        if mask is not None and self.prior.family.plans:
            raise MaskError("a policy is planned over all actions: leave mask out")
        mask = without_retired(self.prior, mask, n_rows, n_actions)
        return super()._available(mask, n_rows, n_actions)

    def _draw_latent(self, index: Int[Array, " m"]) -> Int[Array, " m"]:
        return self.belief.draw_latent(self._rng, index)

    def _latent_weights(self, index: Int[Array, " m"]) -> Float[Array, "m L"]:
        return self.belief.working_weights(index)

    def _action_sets(self, actions: ArrayLike | None, n_rows: int) -> tuple[Array | None, int]:
        return self.prior.family.action_sets(actions, n_rows)

    def _probabilities(
        self, index: Int[Array, " m"], actions: Array | None, mask: Bool[Array, "m K"]
    ) -> tuple[Float[Array, "m K"], Float[Array, "m K"]]:
        weights = self._latent_weights(index)
        return self.belief.best_action_probabilities(
            self._rng, index, weights, actions, mask, self._n_samples
        )


class Oracle(MixTS):
    """MixTS that knows the latent state: what is left is the regret of learning the parameters.

    ``latent`` is one component, or one for each task.
    """

    _allow_dormant = False

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
        states = _checks.integers(latent, "latent must be component indices", ParameterError)
        inside = ((states >= 0) & (states < prior.n_components)).all()
        if not inside or states.shape not in ((), (self._axis.size,)):
            raise ParameterError(
                f"latent must be a component (0 to {prior.n_components - 1}), or one for each of "
                f"the {self._axis.size} tasks, got {latent!r}"
            )
        self._latent = np.broadcast_to(states, (self._axis.size,)).astype(np.int64)

    def add_tasks(self, n: int) -> Int[Array, " n"]:
        raise ParameterError("an Oracle is told the latent states when it is made: make a new one")

    def use_prior(self, prior: MixturePrior) -> None:
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
