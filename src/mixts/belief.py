"""The belief: P_t over latent states and, given each, over parameters; for one task or many."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mixts import _checks
from mixts._numbers import softmax
from mixts._tasks import TaskAxis
from mixts._typing import Array, ArrayLike, Float, Int
from mixts.errors import ActionError, OutcomeError, ParameterError, TaskError
from mixts.families._kernels.choice import draw_latent
from mixts.families.statistics import Statistics
from mixts.families.trajectory import Trajectory

if TYPE_CHECKING:
    from mixts.prior import MixturePrior


class Belief:
    """What prior and statistics say of tasks; made by ``prior.belief`` or ``prior.condition``.

    Incremental updates are only a fast path to the same numbers as
    ``prior.condition(belief.statistics)``.
    """

    def __init__(
        self,
        prior: MixturePrior,
        statistics: Statistics,
        *,
        allow_dormant: bool = True,
        shared: bool = False,
    ) -> None:
        self.prior = prior
        self._axis = TaskAxis(None if statistics.single else len(statistics))
        self._posterior = prior.family.posterior(
            statistics, prior.log_weights, allow_dormant=allow_dormant
        )
        # Somebody else holds the same statistics: they are copied before they change.
        self._shared = shared

    def __repr__(self) -> str:
        tasks = "1 task" if self._axis.single else f"{self._axis.size} tasks"
        text = f"Belief({tasks}, {self._posterior.statistics!r})"
        if self._axis.single:
            names = self.prior.names or [str(s) for s in range(self.prior.n_components)]
            order = np.argsort(-self.weights)[:5]
            text += "".join(f"\n  {names[s]}: {self.weights[s]:.4f}" for s in order)
        return text

    @property
    def n_tasks(self) -> int | None:
        """None for one task without a task axis."""
        return self._axis.n_tasks

    # -- learning -----------------------------------------------------------------------------

    def update(
        self,
        actions: ArrayLike | Trajectory,
        outcomes: ArrayLike | None = None,
        tasks: ArrayLike | None = None,
    ) -> None:
        """Absorb observations, all of them or (with an error) none  [paper: Alg. 1].

        For one task a single action and outcome, or m of them; for many tasks one for each in
        order, or those that ``tasks`` says, in any order and with repeats. Arms are indices,
        linear actions feature rows. MDPs take a :class:`Trajectory` and no outcomes:
        ``update(trajectory, tasks)``.
        """
        if isinstance(actions, Trajectory):
            if not self.prior.family.plans:
                raise ActionError(
                    f"{self.prior.family!r} learns from actions and outcomes, got {actions!r}"
                )
            if tasks is None:
                outcomes, tasks = None, outcomes
        elif outcomes is None and not self.prior.family.plans:
            raise OutcomeError("the outcomes are missing: update(actions, outcomes)")
        observed = self._posterior.observations(actions, outcomes)
        index = self._axis.observations(tasks, len(observed[0]))
        if self._shared:
            self._posterior.statistics = self._posterior.statistics.copy()
            self._shared = False
        self._posterior.update(index, observed)

    @property
    def statistics(self) -> Statistics:
        """What the histories were reduced to; later updates do not change what was returned."""
        self._shared = True
        return self._posterior.statistics

    def add_tasks(self, n: int) -> Int[Array, " n"]:
        """Append tasks with no history; returns their indices."""
        new = self._axis.grow(n)
        self._posterior.add_tasks(len(new))
        self._shared = False
        return new

    # -- reading ------------------------------------------------------------------------------

    @property
    def log_evidence(self) -> Float[Array, "..."]:
        """log p(history | s), (L,) or (n_tasks, L), exact, with all constants."""
        return np.asarray(self._axis.squeeze(self._posterior.log_evidence()))

    @property
    def weights(self) -> Float[Array, "..."]:
        """P_t(s), (L,) or (n_tasks, L): proportional to P_0(s) p(history | s)  [paper: Alg. 1]."""
        return np.asarray(self._axis.squeeze(self._exact_weights()))

    def _exact_weights(self) -> Float[Array, "n L"]:
        return softmax(self.prior.log_weights + self._posterior.log_evidence())

    def working_weights(self, index: Int[Array, " m"]) -> Float[Array, "m L"]:
        """The weights that decisions use: sleeping components, below 1e-16, count as zero."""
        return softmax(self.prior.log_weights + self._posterior.relative[index])

    @property
    def component_mean(self) -> Float[Array, "..."]:
        """E[theta | history, s], (L, p) or (n_tasks, L, p)  [paper: Eq. 4]."""
        return np.asarray(self._axis.squeeze(self._posterior.component_means(self._every())))

    @property
    def component_covariance(self) -> Float[Array, "..."]:
        """Cov[theta | history, s], (L, p, p) or (n_tasks, L, p, p)  [paper: Eq. 4]."""
        return np.asarray(self._axis.squeeze(self._posterior.component_covariances(self._every())))

    @property
    def mean(self) -> Float[Array, "..."]:
        """E[theta | history] under the mixture, (p,) or (n_tasks, p)  [paper: Sec. 3]."""
        return np.asarray(self._axis.squeeze(self._mean()))

    def _mean(self) -> Float[Array, "n p"]:
        means = self._posterior.component_means(self._every())
        return np.einsum("tl,tlp->tp", self._exact_weights(), means)

    @property
    def covariance(self) -> Float[Array, "..."]:
        """Cov[theta | history] under the mixture: within components, and between them.

        P_t(theta) = sum_s P_t(theta | s) P_t(s)  [paper: Sec. 3].
        """
        every, weights = self._every(), self._exact_weights()
        means = self._posterior.component_means(every)
        gap = means - np.einsum("tl,tlp->tp", weights, means)[:, None]
        within = np.einsum("tl,tlpq->tpq", weights, self._posterior.component_covariances(every))
        between = np.einsum("tl,tlp,tlq->tpq", weights, gap, gap)
        return np.asarray(self._axis.squeeze(within + between))

    def mean_rewards(self, actions: ArrayLike | None = None) -> Float[Array, "..."]:
        """The mean reward of each action under the mixture, (K,) or (n_tasks, K).

        Linear families need the action set (K, d), or one for each task. MDPs: (X, A), of each
        action in each state.
        """
        sets, _ = self.prior.family.action_sets(actions, self._axis.size)
        return np.asarray(self._axis.squeeze(self.prior.family.mean_rewards(self._mean(), sets)))

    def as_prior(self, task: int | None = None) -> MixturePrior:
        """The posterior of one task as a prior: today's posterior is tomorrow's prior."""
        if self._axis.single != (task is None):
            raise TaskError(
                "name the task: this belief is about several"
                if task is None
                else "this belief is about one task: leave task out"
            )
        index = 0 if task is None else int(_checks.task_indices([task], self._axis.size)[0])
        prior = type(self.prior)(
            self._posterior.family(index),
            self._exact_weights()[index],
            self.prior.names,
            self.prior.arm_names,
        )
        retired = np.flatnonzero(self.prior.retired)
        return prior.retire_arms(retired.tolist()) if len(retired) else prior

    def _every(self) -> Int[Array, " n"]:
        return np.arange(self._axis.size)

    # -- sampling: the two draws of Algorithm 1 -----------------------------------------------

    def sample_latent(self, rng: np.random.Generator, tasks: ArrayLike | None = None) -> Any:
        """S_t ~ P_t, once for each decision  [paper: Alg. 1].

        With one component it is always the same, and MixTS is plain Thompson sampling
        [paper: Sec. 4.3].
        """
        return self._axis.squeeze(self.draw_latent(rng, self._axis.decisions(tasks)))

    def sample_parameters(
        self, rng: np.random.Generator, latent: ArrayLike, tasks: ArrayLike | None = None
    ) -> Any:
        """theta_t ~ P_t(. | S_t) for latent states that were drawn  [paper: Alg. 1]."""
        index = self._axis.decisions(tasks)
        n = self.prior.n_components
        expected = f"latent must be {len(index)} component indices below {n}"
        states = np.atleast_1d(_checks.integers(latent, expected, ParameterError))
        if states.shape != index.shape or not ((states >= 0) & (states < n)).all():
            raise ParameterError(f"{expected}, got {latent!r}")
        self._posterior.prepare(index, states)
        return self._axis.squeeze(self.draw_parameters(rng, index, states))

    def sample(self, rng: np.random.Generator) -> tuple[Any, Any]:
        """(latent, parameters) for each task, all parameters given the one latent state."""
        index = self._axis.decisions(None)
        latent = self.draw_latent(rng, index)
        parameters = self.draw_parameters(rng, index, latent)
        return self._axis.squeeze(latent), self._axis.squeeze(parameters)

    def draw_latent(self, rng: np.random.Generator, index: Int[Array, " m"]) -> Int[Array, " m"]:
        """``sample_latent`` for checked task indices, always with the task axis."""
        latent = np.empty(len(index), np.int64)
        uniform = rng.random(len(index))
        draw_latent(self.prior.log_weights, self._posterior.relative, index, uniform, latent)
        return latent

    def draw_parameters(
        self, rng: np.random.Generator, index: Int[Array, " m"], latent: Int[Array, " m"]
    ) -> Float[Array, "m p"]:
        """``sample_parameters`` for checked task indices, always with the task axis."""
        return self._posterior.sample(rng, index, latent)

    def component_means(self, index: Int[Array, " m"]) -> Float[Array, "m L p"]:
        """``component_mean`` of checked task indices, always with the task axis."""
        return self._posterior.component_means(index)

    def best_action_probabilities(
        self,
        rng: np.random.Generator,
        index: Int[Array, " m"],
        weights: Float[Array, "m L"],
        actions: Array | None,
        mask: Array,
        n_samples: int,
    ) -> tuple[Float[Array, "m K"], Float[Array, "m K"]]:
        """P(action is best) given weights of the components, and standard errors."""
        return self._posterior.best_action_probabilities(
            rng, index, weights, actions, mask, n_samples
        )
