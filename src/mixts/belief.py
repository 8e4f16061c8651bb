"""The belief: P_t over latent states and, given each, over parameters; for one task or many."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from mixts import _checks
from mixts._numbers import softmax
from mixts._tasks import TaskAxis
from mixts._typing import ActionsLike, Array, ArrayLike, Bool, Float, Int
from mixts.errors import ActionError, OutcomeError, ParameterError, TaskError
from mixts.families.base import Waiting
from mixts.families.choice import draw_latent
from mixts.families.statistics import Statistics
from mixts.families.trajectory import Trajectory

if TYPE_CHECKING:
    from mixts.prior import MixturePrior

__all__ = ["Belief"]


class Belief:
    """Posterior of tasks given a prior and their statistics.

    Made by ``prior.belief`` or ``prior.condition``. Incremental updates are a fast path to the
    same numbers as ``prior.condition(belief.statistics)``.

    Parameters
    ----------
    prior
        The mixture prior of every task.
    statistics
        Statistics of the tasks' histories.
    allow_dormant
        Whether components of negligible weight may be left out of updates; ``log_evidence`` and
        ``weights`` are exact in any case.
    shared
        Whether others hold the same statistics object: then updates change a copy.

    Examples
    --------
    >>> import mixts
    >>> family = mixts.BernoulliArms(alpha=[[8, 2], [2, 8]], beta=[[2, 8], [8, 2]])
    >>> prior = mixts.MixturePrior(family, names=["sporty", "homebody"])
    >>> belief = prior.belief()
    >>> belief.update([0, 0, 1], [1, 1, 0])
    >>> belief
    Belief(1 task, 3 observations, BernoulliArms(2 components, 2 arms))
      sporty: weight 0.9796
      homebody: weight 0.0204
    >>> belief.mean_rewards().round(2)
    array([0.82, 0.19])
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
        self.posterior = prior.family.posterior(
            statistics, prior.log_weights, allow_dormant=allow_dormant
        )
        """Posteriors of all components, for agents; every array has the task axis first."""
        self._shared = shared
        self.quick: Any = None
        """Core object of one task (``Posterior.quick``) whose arrays nobody else holds, or None."""

    def __getstate__(self) -> dict[str, Any]:
        """Leave the core object out: it is made again when it is needed."""
        return {**self.__dict__, "quick": None}

    def _find_quick(self) -> None:
        """Make the core object for the next decisions and updates, if there is one."""
        if self.quick is None and self._axis.single and not self._shared:
            self.quick = self.posterior.quick()

    def __repr__(self) -> str:
        n = int(np.sum(self.posterior.statistics.n_observations))
        text = f"Belief({self._axis}, {n} observations, {self.prior.family!r})"
        if self._axis.single:
            names = self.prior.names or [str(s) for s in range(self.prior.n_components)]
            weights = self.weights
            order = np.argsort(-weights)[:5]
            text += "".join(f"\n  {names[s]}: weight {weights[s]:.4f}" for s in order)
        return text

    def _repr_html_(self) -> str:
        from mixts._html import belief_html

        return belief_html(self)

    @property
    def n_tasks(self) -> int | None:
        """Number of tasks; None for one task without a task axis."""
        return self._axis.n_tasks

    # -- learning -----------------------------------------------------------------------------

    def update(
        self,
        actions: ActionsLike | Trajectory,
        outcomes: ArrayLike | None = None,
        tasks: ArrayLike | None = None,
    ) -> None:
        """Learn from observations, all of them or (with an error) none  [paper: Alg. 1].

        Parameters
        ----------
        actions
            Arms, by index or by the prior's arm names, or feature rows: one, or an array of m. A
            description by the names of ``prior.features`` counts as a row. MDPs take a
            :class:`Trajectory` and no outcomes: ``update(trajectory, tasks=tasks)``.
        outcomes
            The reward of each action.
        tasks
            The task of each observation, repeats allowed; None for one observation of each task in
            order. One task without a task axis takes any number of observations and no ``tasks``.

        Examples
        --------
        With several tasks, ``tasks`` gives the task of each observation.

        >>> import mixts
        >>> prior = mixts.MixturePrior(mixts.BernoulliArms([[8, 2], [2, 8]], [[2, 8], [8, 2]]))
        >>> belief = prior.belief(n_tasks=2)
        >>> belief.update([0, 0, 1], [1, 1, 0], tasks=[1, 1, 1])
        >>> belief.weights.round(2)
        array([[0.5 , 0.5 ],
               [0.98, 0.02]])
        """
        quick = self.quick
        if quick is not None and tasks is None and quick.update_one(actions, outcomes):
            return
        prior = self.prior
        if isinstance(actions, Trajectory):
            if not prior.family.plans:
                raise ActionError(
                    f"{prior.family!r} learns from actions and outcomes, got {actions!r}"
                )
            if tasks is None:
                outcomes, tasks = None, outcomes
        elif outcomes is None and not prior.family.plans:
            raise OutcomeError("the outcomes are missing: update(actions, outcomes)")
        elif prior.arm_names is not None:
            actions = prior.arms.indices(actions)
        elif type(actions) is not np.ndarray and type(actions) is not int:
            actions = prior.action_rows(actions)
        observed = self.posterior.observations(actions, outcomes)
        index = self._axis.observations(tasks, len(observed[0]))
        if self._shared:
            self.posterior.statistics = self.posterior.statistics.copy()
            self._shared = False
        self.posterior.update(index, observed)
        self._find_quick()

    @property
    def statistics(self) -> Statistics:
        """Statistics of all tasks; later updates do not change the returned object."""
        self._shared, self.quick = True, None
        return self.posterior.statistics

    def add_tasks(self, n: int) -> Int[Array, " n"]:
        """Append tasks without observations.

        Parameters
        ----------
        n
            Number of new tasks.

        Returns
        -------
        array
            Indices of the new tasks, (n,).
        """
        new = self._axis.grow(n)
        self.posterior.add_tasks(len(new))
        self._shared = False
        return new

    # -- reading ------------------------------------------------------------------------------

    @property
    def log_evidence(self) -> Float[Array, "..."]:
        """log p(history | s), (L,) or (n_tasks, L), exact, with all constants.

        For :class:`LinearBernoulli` it has a known error, see ``evidence_error``.
        """
        return np.asarray(self._axis.squeeze(self.posterior.log_evidence()))

    @property
    def evidence_error(self) -> Float[Array, "..."]:
        """Standard error of ``log_evidence``, of the same shape: 0 where it has a closed form."""
        return np.asarray(self._axis.squeeze(self.posterior.evidence_error()))

    @property
    def weights(self) -> Float[Array, "..."]:
        """P_t(s), (L,) or (n_tasks, L): proportional to P_0(s) p(history | s)  [paper: Alg. 1]."""
        return np.asarray(self._axis.squeeze(self._exact_weights()))

    def _exact_weights(self) -> Float[Array, "n L"]:
        return softmax(self.prior.log_weights + self.posterior.log_evidence())

    @property
    def component_mean(self) -> Float[Array, "..."]:
        """E[theta | history, s] of all tasks, (L, p) or (n_tasks, L, p)  [paper: Eq. 4]."""
        means = self.posterior.component_means(self._axis.decisions(None))
        return np.asarray(self._axis.squeeze(means))

    @property
    def component_covariance(self) -> Float[Array, "..."]:
        """Cov[theta | history, s] of all tasks, (L, p, p) or (n_tasks, L, p, p)  [paper: Eq. 4]."""
        covariances = self.posterior.component_covariances(self._axis.decisions(None))
        return np.asarray(self._axis.squeeze(covariances))

    @property
    def mean(self) -> Float[Array, "..."]:
        """E[theta | history] under the mixture, (p,) or (n_tasks, p)  [paper: Sec. 3]."""
        means = self.posterior.component_means(self._axis.decisions(None))
        mean = np.einsum("tl,tlp->tp", self._exact_weights(), means)
        return np.asarray(self._axis.squeeze(mean))

    @property
    def covariance(self) -> Float[Array, "..."]:
        """Cov[theta | history] under the mixture: within components, and between them.

        P_t(theta) = sum_s P_t(theta | s) P_t(s)  [paper: Sec. 3].
        """
        every, weights = self._axis.decisions(None), self._exact_weights()
        means = self.posterior.component_means(every)
        gap = means - np.einsum("tl,tlp->tp", weights, means)[:, None]
        within = np.einsum("tl,tlpq->tpq", weights, self.posterior.component_covariances(every))
        between = np.einsum("tl,tlp,tlq->tpq", weights, gap, gap)
        return np.asarray(self._axis.squeeze(within + between))

    def mean_rewards(
        self, actions: ActionsLike | None = None, tasks: ArrayLike | None = None
    ) -> Float[Array, "..."]:
        """Return the mean reward of each action under the mixture.

        Parameters
        ----------
        actions
            Linear families need an action set (K, d), or one for each task, (n, K, d); or lists of
            descriptions, if the prior names its features.
        tasks
            Some of the tasks, repeats allowed; None for all.

        Returns
        -------
        array
            (K,) for one task, else (n, K). MDPs: (X, A) in place of (K,), each action in each
            state.

        Examples
        --------
        >>> import mixts
        >>> family = mixts.LinearGaussian([[1, 0], [0, 1]], [0.1, 0.1], 0.5, "spherical")
        >>> belief = mixts.MixturePrior(family).belief()
        >>> belief.mean_rewards([[1.0, 0.0], [0.2, 0.8]])
        array([0.5, 0.5])
        """
        index = self._axis.decisions(tasks)
        rows = self.prior.action_rows(actions)
        sets, _ = self.prior.family.action_sets(rows, len(index))
        means = self.posterior.mean_rewards(index, self._exact_weights()[index], sets)
        return np.asarray(self._axis.squeeze(means))

    def as_prior(self, task: int | None = None) -> MixturePrior:
        """Return the posterior of one task as a prior.

        Parameters
        ----------
        task
            Index of the task; None for a belief about one task.

        Returns
        -------
        MixturePrior
            The prior of what is still to come in the task.

        Examples
        --------
        >>> import mixts
        >>> prior = mixts.MixturePrior(mixts.BernoulliArms([[8, 2], [2, 8]], [[2, 8], [8, 2]]))
        >>> belief = prior.belief()
        >>> belief.update(0, 1)
        >>> belief.as_prior().weights.round(2)
        array([0.8, 0.2])
        """
        if self._axis.single != (task is None):
            raise TaskError(
                "this belief is about several tasks: give the index of one"
                if task is None
                else "this belief is about one task: leave task out"
            )
        index = 0 if task is None else int(_checks.task_indices([task], self._axis.size)[0])
        return self.prior.replace(
            family=self.posterior.family(index), weights=self._exact_weights()[index],
            descriptions=None,
        )  # fmt: skip

    # -- sampling: the two draws of Algorithm 1 -----------------------------------------------

    def sample_latent(self, rng: np.random.Generator, tasks: ArrayLike | None = None) -> Any:
        """Draw S_t ~ P_t, once for each decision  [paper: Alg. 1].

        With one component the draw is always 0, and MixTS is plain Thompson sampling
        [paper: Sec. 4.3].

        Parameters
        ----------
        rng
            Random generator.
        tasks
            Indices of the tasks; None: all tasks.

        Returns
        -------
        array
            Latent states, (m,); a number for a belief about one task.
        """
        return self._axis.squeeze(self.draw_latent(rng, self._axis.decisions(tasks)))

    def sample_parameters(
        self, rng: np.random.Generator, latent: ArrayLike, tasks: ArrayLike | None = None
    ) -> Any:
        """Draw theta_t ~ P_t(. | S_t) for given latent states  [paper: Alg. 1].

        Parameters
        ----------
        rng
            Random generator.
        latent
            Latent state for each task.
        tasks
            Indices of the tasks; None: all tasks.

        Returns
        -------
        array
            Parameters, (m, p); (p,) for a belief about one task.
        """
        index = self._axis.decisions(tasks)
        n = self.prior.n_components
        expected = f"latent must be {len(index)} component indices below {n}"
        states = np.atleast_1d(_checks.integers(latent, expected, ParameterError))
        if states.shape != index.shape or not ((states >= 0) & (states < n)).all():
            raise ParameterError(f"{expected}, got {latent!r}")
        self.posterior.prepare(index, states)
        return self._axis.squeeze(self.posterior.sample(rng, index, states))

    def sample(self, rng: np.random.Generator, tasks: ArrayLike | None = None) -> tuple[Any, Any]:
        """Draw a latent state for each task, and all its parameters given that state.

        Parameters
        ----------
        rng
            Random generator.
        tasks
            Indices of the tasks; None: all tasks.

        Returns
        -------
        tuple of arrays
            Latent states, as from :meth:`sample_latent`, and parameters, as from
            :meth:`sample_parameters`.
        """
        index = self._axis.decisions(tasks)
        latent = self.draw_latent(rng, index)
        parameters = self.posterior.sample(rng, index, latent)
        return self._axis.squeeze(latent), self._axis.squeeze(parameters)

    def draws(
        self, rng: np.random.Generator, n: int, tasks: ArrayLike | None = None, n_chains: int = 1
    ) -> dict[str, Array]:
        """Draw many times, in the form that other libraries expect of a sampler.

        The draws are independent and exact: chains only share them out.

        Parameters
        ----------
        rng
            Random generator.
        n
            Number of draws of each chain.
        tasks
            Indices of the tasks; None: all tasks.
        n_chains
            Number of chains.

        Returns
        -------
        dict
            Arrays whose first axes are chains and draws, and then tasks if the belief has them:
            ``latent``, the latent states; and ``mean_reward`` with an axis for arms, or
            ``coefficient`` with one for features. MDPs: ``mean_reward`` with axes for states and
            actions, and ``transition``, the probabilities of next states.

        Examples
        --------
        >>> import numpy as np
        >>> import mixts
        >>> prior = mixts.MixturePrior(mixts.BernoulliArms([[8, 2], [2, 8]], [[2, 8], [8, 2]]))
        >>> draws = prior.belief().draws(np.random.default_rng(1), 1000)
        >>> draws["mean_reward"].shape
        (1, 1000, 2)
        """
        some = self._axis.decisions(tasks)
        shape = (_checks.count(n_chains, "n_chains"), _checks.count(n, "n"))
        index = np.tile(some, shape[0] * shape[1])
        latent = self.draw_latent(rng, index)
        theta = self.posterior.sample(rng, index, latent)
        first = shape if self._axis.single else (*shape, len(some))
        family = self.prior.family
        axes, n_first = family.statistics_shape, prod(family.statistics_shape)
        name = "mean_reward" if family.n_features is None else "coefficient"
        found = {
            "latent": latent.reshape(first),
            name: theta[:, :n_first].reshape(*first, *axes),
        }
        if family.plans:
            found["transition"] = theta[:, n_first:].reshape(*first, *axes, axes[0])
        return found

    # -- for agents: checked task indices, always with the task axis --------------------------

    def draw_latent(self, rng: np.random.Generator, index: Int[Array, " m"]) -> Int[Array, " m"]:
        """Draw a latent state for each of these tasks.

        Parameters
        ----------
        rng
            Random generator.
        index
            Checked indices of tasks, (m,).

        Returns
        -------
        array
            Latent states, (m,).
        """
        evidence = self.posterior.relative_evidence
        return draw_latent(self.prior.log_weights, evidence, index, rng.random(len(index)))

    def decide(
        self,
        rng: np.random.Generator,
        index: Int[Array, " m"],
        sets: Array | None,
        mask: Bool[Array, "m K"] | None,
    ) -> tuple[Int[Array, "m ..."], Int[Array, " m"]]:
        """Return the best actions under one draw for each task, and the latent states drawn.

        Parameters
        ----------
        rng
            Random generator.
        index
            Checked indices of tasks, (m,).
        sets
            Checked action sets, (K, d) or (m, K, d); None for arms and MDPs.
        mask
            Available actions, (m, K); None if all are.

        Returns
        -------
        actions, latent
            Actions, (m,), or policies, (m, h, X); and latent states, (m,).
        """
        self._find_quick()
        found = self.posterior.decide(rng, self.prior.log_weights, index, mask, sets)
        if found is not None:
            return found
        latent = self.draw_latent(rng, index)
        return self.posterior.draw_best(rng, index, latent, sets, mask), latent

    def working_weights(self, index: Int[Array, " m"]) -> Float[Array, "m L"]:
        """Return the weights that decisions use: dormant components, below 1e-16, count as 0.

        Parameters
        ----------
        index
            Checked indices of tasks, (m,).

        Returns
        -------
        array
            Weights, (m, L).
        """
        return softmax(self.prior.log_weights + self.posterior.relative_evidence[index])

    def checked_waiting(self, actions: Any, tasks: Any) -> Waiting | None:
        """Return the checked decisions whose rewards have not come.

        Parameters
        ----------
        actions, tasks
            Actions of the decisions and the task of each, as ``update`` takes them.

        Returns
        -------
        Waiting or None
            The decisions; None if there are none.
        """
        if np.size(actions) == 0 and np.size([] if tasks is None else tasks) == 0:
            return None
        if self.prior.arm_names is not None:
            actions = self.prior.arms.indices(actions)
        checked = self.posterior.statistics.checked_actions(self.prior.action_rows(actions))
        return Waiting(self._axis.observations(tasks, len(checked)), checked)
