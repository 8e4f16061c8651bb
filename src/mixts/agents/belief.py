"""Agents that decide by a belief: everything but the decision itself."""

from __future__ import annotations

from collections.abc import Iterator
from inspect import signature
from typing import Any, ClassVar, Self

import numpy as np

from mixts import _checks
from mixts._html import card
from mixts._typing import ActionsLike, Array, ArrayLike, Bool, Float, Int, Seed
from mixts.agents.base import Agent, without_retired
from mixts.agents.offers import Request, checked_money, checked_top
from mixts.belief import Belief
from mixts.errors import MaskError, ParameterError
from mixts.families.base import Waiting
from mixts.families.choice import draw_rows, finite_actions, rank_by_scores, top_rows
from mixts.families.pending import Pending
from mixts.families.quadrature import Money
from mixts.families.rewards import RewardBelief
from mixts.families.statistics import Statistics
from mixts.families.trajectory import Trajectory
from mixts.prior import MixturePrior

_LONGEST = 10**9
"""Longest horizon: sums of rewards drawn for more decisions might overflow."""

_MOST_NUMBERS = 4_000_000
"""Largest number of draws in memory at once."""


class BeliefAgent(Agent):
    """An agent that decides by a belief; a subclass defines how (``_probabilities``).

    Parameters
    ----------
    prior
        The mixture prior of every task.
    n_tasks
        Number of tasks; None for one task without a task axis.
    seed
        Seed of the agent's random numbers.
    """

    _allow_dormant: ClassVar[bool] = True
    """Whether components of negligible weight may be left out of updates."""

    _plans: ClassVar[bool] = False
    """Whether the agent decides about MDPs too."""

    _horizon: int | None = None
    """Expected number of decisions of a task."""

    _repeatable: bool | None = None
    """Whether an action may be taken again, as given; None: the prior decides."""

    n_decided: Int[Array, " n"] | None = None
    """Number of decisions of each task so far, for a horizon; None: its observations, and the
    decisions that wait. Set it where rewards may never come."""

    def __init__(self, prior: MixturePrior, n_tasks: int | None = None, seed: Seed = None) -> None:
        super().__init__(n_tasks, seed)
        self._believe(
            self._checked_prior(prior), prior.family.empty_statistics(n_tasks), shared=False
        )

    def _believe(self, prior: MixturePrior, statistics: Statistics, *, shared: bool) -> None:
        self.belief = Belief(prior, statistics, allow_dormant=self._allow_dormant, shared=shared)
        """The agent's belief: read it, and let ``update`` change it."""
        self._find_repeatable()

    def _find_repeatable(self) -> None:
        self.repeatable = (
            self.belief.prior.repeatable if self._repeatable is None else self._repeatable
        )
        """Whether an action may be taken again in a task: as given, or as the prior says."""

    @classmethod
    def resume(
        cls, prior: MixturePrior, statistics: Statistics, seed: Seed = None, **settings: Any
    ) -> Self:
        """Return an agent that continues from statistics of tasks, which stay unchanged.

        Parameters
        ----------
        prior
            The mixture prior of every task.
        statistics
            Statistics of the tasks' histories, as ``belief.statistics`` returns them.
        seed
            Seed of the agent's random numbers.
        **settings
            Other keyword arguments of the constructor.

        Returns
        -------
        BeliefAgent
            The agent.

        Examples
        --------
        >>> import mixts
        >>> prior = mixts.MixturePrior(mixts.BernoulliArms([[8, 2], [2, 8]], [[2, 8], [8, 2]]))
        >>> agent = mixts.MixTS(prior, n_tasks=3, seed=1)
        >>> agent.update([0, 0, 1], [1, 0, 1])
        >>> mixts.MixIDS.resume(prior, agent.belief.statistics, seed=1, horizon=20)
        MixIDS(3 tasks, BernoulliArms(2 components, 2 arms))
        """
        agent = cls.__new__(cls)  # the constructor would make an empty belief first
        Agent.__init__(agent, None if statistics.single else len(statistics), seed)
        agent._believe(cls._checked_prior(prior), statistics, shared=True)
        try:
            agent._set(**settings)
        except TypeError as error:
            known = [name for name in signature(cls._set).parameters if name != "self"]
            raise ParameterError(
                f"{cls.__name__} takes the settings {known}, got {sorted(settings)}"
            ) from error
        return agent

    def _set(self, *, repeatable: bool | None = None) -> None:
        """Check and store the settings, the keyword arguments of the constructor."""
        if repeatable not in (None, True, False):
            raise ParameterError(f"repeatable must be True, False or None, got {repeatable!r}")
        if repeatable is False and self.prior.family.plans:
            raise ParameterError(
                "the actions of an MDP are taken again and again: leave repeatable out"
            )
        self._repeatable = repeatable
        self._find_repeatable()

    def _settings(self) -> dict[str, Any]:
        return {} if self._repeatable is None else {"repeatable": self._repeatable}

    @classmethod
    def _checked_prior(cls, prior: MixturePrior) -> MixturePrior:
        if not isinstance(prior, MixturePrior):
            raise ParameterError(f"prior must be a MixturePrior, got {prior!r}")
        if prior.family.plans and not cls._plans:
            raise ParameterError(
                f"{cls.__name__} compares single actions, but an action of {prior.family!r} is a "
                "policy, and there are too many policies to compare: use mixts.MixTS"
            )
        return prior

    @staticmethod
    def _checked_horizon(horizon: int | None) -> int | None:
        if horizon is not None and _checks.count(horizon, "horizon") > _LONGEST:
            raise ParameterError(
                f"horizon must be at most {_LONGEST:,}, got {horizon}: leave it out if there is no "
                "end in sight"
            )
        return horizon

    @property
    def prior(self) -> MixturePrior:
        """The prior in force."""
        return self.belief.prior

    def _repr_html_(self) -> str:
        return card(f"{type(self).__name__} by this belief:", self.belief._repr_html_())

    def _summary(self) -> str:
        return repr(self.prior.family)

    def update(
        self,
        actions: ActionsLike | Trajectory,
        outcomes: ArrayLike | None = None,
        tasks: ArrayLike | None = None,
    ) -> None:
        """Update every component and the weights, lines 7 to 9  [paper: Alg. 1].

        Outcomes may come late, in any order and in any batches.

        Parameters
        ----------
        actions
            Arms, by index or by the prior's arm names, or feature rows; MDPs: a
            :class:`Trajectory`.
        outcomes
            The reward of each action; None for a trajectory.
        tasks
            The task of each observation; None for one observation of each task in order.
        """
        self.belief.update(actions, outcomes, tasks)

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
        """Choose an action for each task, or for each entry of ``tasks``.

        Parameters
        ----------
        actions, tasks, mask
            See :meth:`Agent.act`.
        waiting
            Decisions whose rewards have not come yet: for one task their actions, for many
            ``(actions, tasks)``, both as ``update`` takes them. The agent decides as if their
            expected rewards had come, so that it does not repeat itself. :class:`MixTS` needs no
            such help: its decisions differ by themselves. Where rewards are clicks of Bernoulli
            arms, :class:`mixts.Pending` also says how probable it is that a click would have come
            by now: then silence is evidence, for :class:`MixTS` too.
        values, costs, top
            See :meth:`Agent.act`. Unless a subclass says otherwise, a ranking starts with the
            action that the agent draws, and the others follow by their expected utility.

        Returns
        -------
        int or array
            See :meth:`Agent.act`.

        Examples
        --------
        The values of a success differ; the costs of showing an action do, too.

        >>> import mixts
        >>> prior = mixts.MixturePrior(mixts.BernoulliArms([[8, 2], [2, 8]], [[2, 8], [8, 2]]))
        >>> agent = mixts.Greedy(prior)
        >>> agent.act(values=[1.0, 3.0], costs=[0.0, 0.2])
        1
        >>> agent.act(values=[1.0, 3.0], top=2)
        array([1, 0])
        """
        how = {"values": values, "costs": costs, "top": top}
        return self.act_with_probabilities(actions, tasks, mask, waiting=waiting, **how)[0]

    def _slates(
        self, asked: Request, k: int
    ) -> tuple[Int[Array, "m k"], Float[Array, "m K"], Float[Array, "m K"]]:
        """Draw the first action by its law, and add those of the highest expected utility."""
        law, errors = self._probabilities(asked)
        mask, means = asked.mask, self._rewards(asked).means()
        first, rows = draw_rows(self._rng, law), np.arange(len(mask))
        rest = mask.copy()
        rest[rows, first] = False
        ranked = np.empty((len(mask), k), np.int64)
        ranked[:, 0], ranked[:, 1:] = first, top_rows(self._rng, means, rest, k - 1)
        included = law.copy()
        for one in np.flatnonzero((law > 0).any(axis=0)):
            rest = mask.copy()
            rest[:, one] = False
            included += law[:, one : one + 1] * rank_by_scores(means, rest, k - 1)
        return ranked, np.minimum(included, 1.0), errors

    # -- for subclasses: what a policy needs to know --------------------------------------------

    def _rewards(self, asked: Request) -> RewardBelief:
        """Return the belief about the mean rewards, or utilities, of the actions on offer."""
        actions = asked.actions
        if actions is not None:
            actions = finite_actions(actions, asked.mask)
        weights = self._latent_weights(asked.tasks)
        rewards = self.belief.posterior.rewards(asked.tasks, weights, actions, asked.waiting)
        if not self.repeatable:
            rewards = rewards.once(asked.mask)
        return rewards.priced(asked.money)

    def _without_taken(
        self, index: Int[Array, " m"], mask: Bool[Array, "m K"], waiting: Waiting | None
    ) -> Bool[Array, "m K"]:
        if self.repeatable or self.prior.family.n_arms is None:
            return mask  # the caller knows which rows of features were taken
        distinct, rows = np.unique(index, return_inverse=True)
        taken = np.asarray(self.belief.posterior.statistics[distinct].pulls) > 0
        if waiting is not None:
            where, arms, _ = waiting.among(distinct)
            taken[where, arms] = True
        left = mask & ~taken[rows]
        if not left.any(axis=1).all():
            raise MaskError(exhausted(f"decision {int(np.argmin(left.any(axis=1)))}"))
        return left

    def _latent_weights(self, index: Int[Array, " m"]) -> Float[Array, "m L"]:
        """Return the weights of the components by which to decide."""
        return self.belief.working_weights(index)

    def _n_decided(self, index: Int[Array, " m"], waiting: Waiting | None) -> Int[Array, " m"]:
        """Return the number of decisions of each task so far, with and without a reward."""
        if self.n_decided is not None:
            return self.n_decided[index]
        distinct, rows = np.unique(index, return_inverse=True)
        count = np.asarray(self.belief.posterior.statistics[distinct].n_observations)
        if waiting is not None:
            count = count + np.bincount(waiting.among(distinct).tasks, minlength=len(distinct))
        return np.asarray(count[rows])

    def _n_more(self, index: Int[Array, " m"], waiting: Waiting | None) -> Int[Array, " m"] | None:
        """Return how many decisions follow the present one; None without a horizon."""
        if self._horizon is None:
            return None
        return np.maximum(self._horizon - self._n_decided(index, waiting) - 1, 0)

    def _rewards_by_part(
        self, asked: Request, n_draws: int
    ) -> Iterator[tuple[slice, RewardBelief]]:
        """Yield parts of the decisions whose draws fit into memory, and ``_rewards`` of each."""
        index, actions, mask, waiting, money = asked
        if actions is not None:
            actions = finite_actions(actions, mask)
        size = max(1, _MOST_NUMBERS // (mask.shape[1] * n_draws * self.prior.n_components))
        for start in range(0, len(index), size):
            part = slice(start, start + size)
            sets = actions[part] if actions is not None and actions.ndim == 3 else actions
            own = None if money is None else money.part(part)
            yield part, self._rewards(Request(index[part], sets, mask[part], waiting, own))

    def _checked_money(self, values: Any, costs: Any, mask: Bool[Array, "m K"]) -> Money | None:
        return checked_money(values, costs, mask, self.prior)

    def _checked_top(self, top: Any, mask: Bool[Array, "m K"]) -> int:
        if self.prior.family.plans:
            raise ParameterError("a policy is planned for whole episodes: leave top out")
        return checked_top(top, mask)

    def _checked_waiting(self, waiting: Any) -> Waiting | None:
        if waiting is None:
            return None
        if isinstance(waiting, Pending):
            return self.belief.checked_pending(waiting)
        actions, tasks = waiting, None
        if not self._axis.single:
            if not (isinstance(waiting, tuple) and len(waiting) == 2):
                raise ParameterError(
                    "waiting must be (actions, tasks): the actions of decisions whose rewards have "
                    "not come, and the task of each; or mixts.Pending(actions, arrived, tasks), "
                    f"got {waiting!r}"
                )
            actions, tasks = waiting
        return self.belief.checked_waiting(actions, tasks)

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
        self.belief.add_tasks(n)
        return new

    def use_prior(self, prior: MixturePrior) -> None:
        """Replace the prior under the live tasks: statistics stay, beliefs are recomputed.

        Parameters
        ----------
        prior
            A prior of the same family. It may have more arms than before (``prior.with_arms``),
            which then have no observations. Retired arms stay retired.

        Examples
        --------
        >>> import mixts
        >>> prior = mixts.MixturePrior(mixts.BernoulliArms([[8, 2], [2, 8]], [[2, 8], [8, 2]]))
        >>> agent = mixts.MixTS(prior, seed=1)
        >>> agent.update(0, 1)
        >>> agent.use_prior(prior.add_arms(1))
        >>> agent.belief.mean_rewards().round(2)
        array([0.71, 0.32, 0.5 ])
        """
        statistics = self.belief.statistics
        had, has = self.prior.family.n_arms, self._checked_prior(prior).family.n_arms
        if had is not None and has is not None and type(prior.family) is type(self.prior.family):
            if has > had:
                statistics = statistics.with_arms(has - had)
            retired = np.flatnonzero(self.prior.retired)
            if len(retired):
                prior = prior.retire_arms(retired.tolist())
        self._believe(prior, statistics, shared=True)

    def retire_arms(self, arms: list[int | str]) -> None:
        """Stop taking these arms; their observations still count.

        Parameters
        ----------
        arms
            Indices or names of arms.
        """
        # Retiring changes neither parameters nor statistics: the belief stays as it is.
        self.belief.prior = self.prior.retire_arms(arms)

    def _new_arms(self) -> Bool[Array, " k"]:
        return self.prior.new_arms

    def _available(
        self, mask: ArrayLike | None, n_rows: int, n_actions: int
    ) -> Bool[Array, "m K"] | None:
        prior = self.belief.prior
        if mask is None and not prior.has_retired:
            return None
        if prior.family.plans:
            raise MaskError("a policy is planned over all actions: leave mask out")
        mask = without_retired(prior, mask, n_rows, n_actions)
        return super()._available(mask, n_rows, n_actions)

    def _action_sets(self, actions: ActionsLike | None, n_rows: int) -> tuple[Array | None, int]:
        prior = self.belief.prior
        rows = None if actions is None else prior.action_rows(actions)
        return prior.family.action_sets(rows, n_rows)

    def _state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        return belief_state(self.belief)

    @classmethod
    def _restore(cls, header: dict[str, Any], arrays: dict[str, Array]) -> Self:
        prior, statistics = restored_belief(header, arrays)
        return cls.resume(prior, statistics, **header["settings"])


def exhausted(decision: str) -> str:
    """Return why a decision has no arm left to take."""
    return (
        f"{decision} has no arm left: its task took every available arm before, and an arm is "
        "taken at most once (repeatable is False). Add arms, or make a prior or an agent with "
        "repeatable=True"
    )


def belief_state(belief: Belief) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return header and arrays of a belief's prior and statistics."""
    header, arrays = {}, {}
    for name, part in (("prior", belief.prior), ("statistics", belief.statistics)):
        header[name], own = part.bundle()
        arrays.update({f"{name}.{key}": array for key, array in own.items()})
    return header, arrays


def restored_belief(
    header: dict[str, Any], arrays: dict[str, Array]
) -> tuple[MixturePrior, Statistics]:
    """Return the prior and the statistics that ``belief_state`` wrote."""

    def part(name: str) -> dict[str, Array]:
        start = f"{name}."
        return {key.removeprefix(start): a for key, a in arrays.items() if key.startswith(start)}

    return (
        MixturePrior.from_bundle(header["prior"], part("prior"), "the prior"),
        Statistics.from_bundle(header["statistics"], part("statistics"), "the statistics"),
    )
