"""Agents that decide by a belief: everything but the policy itself."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from inspect import signature
from typing import Any, ClassVar, Self

import numpy as np

from mixts import _checks
from mixts._html import card
from mixts._typing import ActionsLike, Array, ArrayLike, Bool, Float, Int, Seed
from mixts.agents.base import Agent, above_floor
from mixts.agents.offers import Choice, Offer
from mixts.belief import Belief
from mixts.errors import MaskError, ParameterError
from mixts.families.base import Waiting
from mixts.families.choice import draw_rows, finite_actions, inclusion, top_rows
from mixts.families.rewards import RewardBelief
from mixts.families.statistics import Statistics
from mixts.families.trajectory import Trajectory
from mixts.prior import MixturePrior

_LONGEST = 10**9
"""Longest horizon: sums of rewards drawn for more decisions might overflow."""

_NO_SETTINGS = ("prior", "n_tasks", "seed")
"""Arguments of every constructor, which files store in other ways."""

_MOST_NUMBERS = 4_000_000
"""Largest number of draws in memory at once."""


class BeliefAgent(Agent):
    """An agent that decides by a belief; a subclass defines the policy (``probabilities``).

    Parameters
    ----------
    prior
        The mixture prior of every task.
    n_tasks
        Number of tasks; None for one task without a task axis. Or the statistics of tasks to
        continue from, see :meth:`resume`.
    seed
        Seed of the agent's random numbers.
    repeatable
        Whether an action may be taken again in a task; None: as ``prior.repeatable`` says.
    """

    _allow_dormant: ClassVar[bool] = True
    """Whether components of negligible weight may be left out of updates."""

    _plans: ClassVar[bool] = False
    """Whether the agent decides about MDPs too."""

    _expects_waiting: ClassVar[bool] = True
    """Whether the agent decides as if the expected rewards of waiting decisions had come."""

    _n_draws: int = 1
    """Number of draws of mean rewards that a decision may need at once."""

    _horizon: int | None = None
    """Expected number of decisions of a task."""

    n_decided: Int[Array, " n"] | None = None
    """Number of decisions of each task so far, for a horizon; None: its observations, and the
    decisions that wait. Set it where rewards may never come."""

    def __init__(
        self,
        prior: MixturePrior,
        n_tasks: int | Statistics | None = None,
        seed: Seed = None,
        *,
        repeatable: bool | None = None,
    ) -> None:
        family, resumes = self._checked_prior(prior).family, isinstance(n_tasks, Statistics)
        if repeatable not in (None, True, False):
            raise ParameterError(f"repeatable must be True, False or None, got {repeatable!r}")
        if repeatable is False and family.plans:
            raise ParameterError(
                "the actions of an MDP are taken again and again: leave repeatable out"
            )
        self._repeatable = repeatable
        known = n_tasks if isinstance(n_tasks, Statistics) else family.empty_statistics(n_tasks)
        super().__init__(None if known.single else len(known), seed)
        self._set_belief(prior, known, shared=resumes)

    def _set_belief(self, prior: MixturePrior, statistics: Statistics, *, shared: bool) -> None:
        self._quick_belief = None
        self.belief = Belief(prior, statistics, allow_dormant=self._allow_dormant, shared=shared)
        """The agent's belief: read it, and let ``update`` change it."""

    @property
    def repeatable(self) -> bool:
        """Whether an action may be taken again in a task: as given, or as the prior says."""
        return self.belief.prior.repeatable if self._repeatable is None else self._repeatable

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
        try:
            return cls(prior, n_tasks=statistics, seed=seed, **settings)
        except TypeError as error:
            known = [name for name in signature(cls).parameters if name not in _NO_SETTINGS]
            if set(settings) <= set(known):
                raise
            raise ParameterError(
                f"{cls.__name__} takes the settings {known}, got {sorted(settings)}"
            ) from error

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
        *,
        context: Any = None,
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
        context
            Facts of the person when the action was chosen, as in ``act``: one mapping, or a list of
            them, one for each observation.
        """
        if context is not None:
            actions = self._in_context(actions, context)
        self.belief.update(actions, outcomes, tasks)

    def _in_context(self, actions: Any, context: Any) -> Any:
        return self.prior.action_rows(actions, context)

    # -- the policy -----------------------------------------------------------------------------

    @abstractmethod
    def probabilities(
        self, rewards: RewardBelief, offer: Offer
    ) -> tuple[Float[Array, "m K"], Float[Array, "m K"]]:
        """Return the probability of each action and its standard error: the policy itself.

        Floors, shares of new arms, values and costs are no concern of it.

        Parameters
        ----------
        rewards
            The belief about what the agent maximises, of the actions on offer: mean rewards, or
            utilities where the offer has values or costs.
        offer
            Tasks and available actions.

        Returns
        -------
        probabilities, standard_errors
            (m, K) each, zero for actions that are not available.
        """

    def ranking(self, rewards: RewardBelief, offer: Offer) -> tuple[Array, Array, Array]:
        """Return ranked actions, best first, and P(action is among them) with its standard error.

        The first action is drawn by its probability. The others are those of the highest mean.

        Parameters
        ----------
        rewards, offer
            As in ``probabilities``; ``offer.top`` is the length of the ranking.

        Returns
        -------
        ranked, probabilities, standard_errors
            (m, top), and (m, K) twice.
        """
        probabilities, errors = self.probabilities(rewards, offer)
        mask, means, k = offer.available, rewards.means(), offer.top or 1
        first, rows = draw_rows(self._rng, probabilities), np.arange(len(mask))
        rest = mask.copy()
        rest[rows, first] = False
        ranked = np.column_stack([first, top_rows(self._rng, means, rest, k - 1)])
        included = probabilities.copy()
        for one in np.flatnonzero((probabilities > 0).any(axis=0)):
            rest = mask.copy()
            rest[:, one] = False
            included += probabilities[:, one : one + 1] * inclusion(means, rest, k - 1)
        return ranked, np.minimum(included, 1.0), errors

    def rewards(self, offer: Offer) -> RewardBelief:
        """Return the belief about the mean rewards, or utilities, of the actions on offer.

        Parameters
        ----------
        offer
            Checked terms of decisions.

        Returns
        -------
        RewardBelief
            What a policy decides by.
        """
        actions, mask = offer.actions, offer.available
        if actions is not None:
            actions = finite_actions(actions, mask)
        weights = self._latent_weights(offer.tasks)
        waiting = offer.waiting if self._expects_waiting else None
        rewards = self.belief.posterior.rewards(offer.tasks, weights, actions, waiting)
        if not self.repeatable:
            rewards = rewards.once(mask)
        if self._horizon is not None:
            n_more = np.maximum(self._horizon - self._n_decided(offer) - 1, 0)
            rewards = rewards.ahead(n_more, self._rng, self._n_draws)
        return rewards.priced(offer.money)

    def _in_parts(
        self,
        decide: Callable[[RewardBelief, Offer], tuple[Array, ...]],
        offer: Offer,
        n_draws: int | None = None,
    ) -> list[Array]:
        """Decide about parts of the decisions whose draws fit into memory."""
        numbers = offer.n_actions * (n_draws or self._n_draws)
        if self._horizon is not None:
            numbers *= self.prior.n_components
        size = max(1, _MOST_NUMBERS // numbers)
        if len(offer.tasks) <= size:
            return list(decide(self.rewards(offer), offer))
        if offer.actions is not None:
            # An error should name the decision by its place among all.
            offer = offer._replace(actions=finite_actions(offer.actions, offer.available))
        parts = [offer.part(slice(i, i + size)) for i in range(0, len(offer.tasks), size)]
        found = [decide(self.rewards(part), part) for part in parts]
        return [np.concatenate(arrays) for arrays in zip(*found, strict=True)]

    def _probabilities(self, offer: Offer) -> tuple[Float[Array, "m K"], Float[Array, "m K"]]:
        if offer.top is not None:
            return self._ranked(offer)[1:]
        probabilities, errors = self._in_parts(self.probabilities, offer)
        return probabilities, errors

    def decide(self, offer: Offer) -> Choice:
        if offer.top is None:
            return super().decide(offer)
        self.last_latent = None
        return self._with_random_rankings(offer, self._rank_with_share(offer))

    def _ranked(self, offer: Offer) -> Choice:
        """Rank ``offer.top`` actions, best first, and return P(action is among them).

        The probabilities are those of the procedure that drew the ranking.
        """
        return Choice(*self._in_parts(self.ranking, offer))

    def _rank_with_share(self, offer: Offer) -> Choice:
        """Return rankings in which new arms have their share."""
        share, new = offer.new_share, self._new_arms()
        if share is None or not new.any():
            return self._ranked(offer)

        def rank(mask: Bool[Array, "m K"], k: int) -> Choice:
            return self._ranked(offer._replace(mask=mask, top=k))

        assert offer.top is not None
        return Choice(*share.apply_to_rankings(self._rng, rank, offer.available, new, offer.top))

    def _with_random_rankings(self, offer: Offer, choice: Choice) -> Choice:
        """Return rankings, the whole of which is random as often as its first action would be."""
        if not offer.draws_evenly:
            return choice
        ranked, mask = choice.actions.copy(), offer.available
        k, (_, share) = ranked.shape[1], offer.drawn_evenly
        rows = np.flatnonzero(self._rng.random(len(ranked)) < share[:, 0])
        level = np.zeros((len(rows), mask.shape[1]))
        ranked[rows] = top_rows(self._rng, level, mask[rows], k)
        return Choice(ranked, *above_floor(offer, k, *choice[1:]))

    def _latent_weights(self, index: Int[Array, " m"]) -> Float[Array, "m L"]:
        """Return the weights of the components by which to decide."""
        return self.belief.working_weights(index)

    def _n_decided(self, offer: Offer) -> Int[Array, " m"]:
        """Return the number of decisions of each task so far, with and without a reward."""
        if self.n_decided is not None:
            return self.n_decided[offer.tasks]
        distinct, rows = np.unique(offer.tasks, return_inverse=True)
        count = np.asarray(self.belief.posterior.statistics[distinct].n_observations)
        if offer.waiting is not None:
            waiting = offer.waiting.among(distinct).tasks
            count = count + np.bincount(waiting, minlength=len(distinct))
        return np.asarray(count[rows])

    # -- checks of offers -----------------------------------------------------------------------

    def _offered(
        self,
        tasks: Int[Array, " m"],
        actions: ActionsLike | None,
        mask: ArrayLike | None,
        waiting: Any,
        values: Any,
        costs: Any,
        top: Any,
    ) -> Offer:
        offer = Offer.of(self.prior, tasks, actions, mask)
        if waiting is not None:
            offer = offer._replace(waiting=self._checked_waiting(waiting))
        if not self.repeatable:
            offer = self._without_taken(offer)
        return offer.with_money(self.prior, values, costs).with_top(self.prior, top)

    def _without_taken(self, offer: Offer) -> Offer:
        """Return the offer without arms that their tasks took before."""
        if self.prior.family.n_arms is None:
            return offer  # the caller knows which rows of features were taken
        distinct, rows = np.unique(offer.tasks, return_inverse=True)
        taken = np.asarray(self.belief.posterior.statistics[distinct].pulls) > 0
        if offer.waiting is not None:
            where, arms = offer.waiting.among(distinct)
            taken[where, arms] = True
        left = offer.available & ~taken[rows]
        if not left.any(axis=1).all():
            row = int(np.argmin(left.any(axis=1)))
            raise MaskError(
                f"decision {row} has no arm left: its task took every available arm before, and an "
                "arm is taken at most once (repeatable is False). Add arms, or make a prior or an "
                "agent with repeatable=True"
            )
        return offer._replace(mask=left)

    def _checked_waiting(self, waiting: Any) -> Waiting | None:
        """Check and return the decisions whose rewards have not come."""
        actions, tasks = waiting, None
        if not self._axis.single:
            if not (isinstance(waiting, tuple) and len(waiting) == 2):
                raise ParameterError(
                    "waiting must be (actions, tasks): the actions of decisions whose rewards have "
                    f"not come, and the task of each, got {waiting!r}"
                )
            actions, tasks = waiting
        return self.belief.checked_waiting(actions, tasks)

    # -- tasks and priors -----------------------------------------------------------------------

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
        if had is not None and has is not None and prior.family.kind == self.prior.family.kind:
            if has > had:
                statistics = statistics.with_arms(has - had)
            retired = np.flatnonzero(self.prior.arms.retired)
            if len(retired):
                prior = prior.retire_arms(retired.tolist())
        self._set_belief(prior, statistics, shared=True)

    def retire_arms(self, arms: list[int | str]) -> None:
        """Stop taking these arms; their observations still count.

        Parameters
        ----------
        arms
            Indices or names of arms.
        """
        # Retiring changes neither parameters nor statistics: the belief stays as it is.
        self.belief.prior = self.prior.retire_arms(arms)
        self._quick_belief = None

    def _new_arms(self) -> Bool[Array, " k"]:
        return self.prior.arms.new

    def _state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        return belief_state(self.belief)

    @classmethod
    def _restore(cls, header: dict[str, Any], arrays: dict[str, Array]) -> Self:
        prior, statistics = restored_belief(header, arrays)
        return cls.resume(prior, statistics, **header["settings"])


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
