"""The interface of agents: act, update, action probabilities, save and load."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self, final

import numpy as np

from mixts import _random
from mixts._files import read_bundle, write_bundle
from mixts._tasks import TaskAxis
from mixts._typing import ActionsLike, Array, ArrayLike, Bool, Float, Int, Seed
from mixts.agents.offers import Choice, Offer
from mixts.errors import ActionError, FormatError, MixtsError
from mixts.families.choice import draw_rows
from mixts.families.trajectory import Trajectory

AGENTS: dict[str, type[Agent]] = {}
"""Agents by the name of their class, which files store; a subclass registers itself."""


class Agent(ABC):
    """Base class of agents, which decide for one task or many and learn from the outcomes.

    All agents have the same methods, and one suite of tests runs over all of them.

    Parameters
    ----------
    n_tasks
        Number of tasks; None for one task without a task axis.
    seed
        Seed of the agent's random numbers: None, a number, a SeedSequence or a Generator.

    Examples
    --------
    Any agent can be saved and read again; it continues with the same decisions.

    >>> import mixts
    >>> prior = mixts.MixturePrior(mixts.BernoulliArms([[8, 2], [2, 8]], [[2, 8], [8, 2]]))
    >>> agent = mixts.MixTS(prior, n_tasks=3, seed=1)
    >>> agent.save("agent.json")
    >>> again = mixts.Agent.load("agent.json")
    >>> bool((agent.act() == again.act()).all())
    True
    """

    deterministic: ClassVar[bool] = False
    """Whether the action follows from the history, but for ties: most have probability 0."""

    _quick_belief: Any = None
    """The belief whose core object makes plain decisions of one task, once one was made without."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        AGENTS[_full_name(cls)] = cls
        # A user's class may have the name of one of ours, but does not replace it.
        known = AGENTS.get(cls.__name__)
        if known is None or _is_ours(cls) or not _is_ours(known):
            AGENTS[cls.__name__] = cls

    def __init__(self, n_tasks: int | None, seed: Seed) -> None:
        self._axis = TaskAxis(n_tasks)
        self._rng = _random.generator(seed, "agent")
        self.last_latent: Any = None
        """Latent states that the last ``act`` drew; None if the agent draws none."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._axis}, {self._summary()})"

    def _summary(self) -> str:
        """Return what the agent is made of, for ``repr``."""
        return ", ".join(f"{name}={value!r}" for name, value in self._settings().items())

    @property
    def n_tasks(self) -> int | None:
        """Number of tasks; None for one task without a task axis."""
        return self._axis.n_tasks

    # -- decisions ----------------------------------------------------------------------------

    @final
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
        context: Any = None,
    ) -> Any:
        """Choose an action for each task, or for each entry of ``tasks``.

        Parameters
        ----------
        actions
            Linear families: the action set (K, d), or one for each decision, (n, K, d); or lists of
            descriptions, if the prior names its features. None for arms and MDPs.
        tasks
            The task of each decision, repeats allowed; None for one decision for each task.
        mask
            True where an action is available, (K,) or (n, K), or a list with the names of the
            available arms; None if all are.
        waiting
            Decisions whose rewards have not come yet: for one task their actions, for many
            ``(actions, tasks)``, both as ``update`` takes them. The agent decides as if their
            expected rewards had come, so that it does not repeat itself. For :class:`MixTS`, they
            only count towards its horizon: its decisions differ by themselves.
        values, costs
            The agent maximises ``value * mean reward - cost``: one number for each action, (K,) or
            (n, K), or a dictionary by arm name. None: values 1, costs 0. Beliefs are about rewards
            and do not change with either.
        top
            Number of actions to rank; None for one action. The first is the action that the agent
            draws, and the others follow by their expected utility; :class:`MixTS` ranks one draw,
            :class:`BayesUCB` its quantiles.
        context
            Facts of the person by name, if the prior's features have pooled effects
            (:class:`mixts.Pooled`): one mapping, or a list of them, one for each decision with a
            list of action sets. What is missing counts as that of the average person. Give the same
            context to ``update``.

        Returns
        -------
        int or array
            The arm's index, the row of ``actions``, or the policy (h, X) of an episode. One task
            without a task axis: an int or one policy. Otherwise an array with the decisions first.
            With ``top``: that many distinct actions, the best first, (top,) or (n, top).

        Examples
        --------
        >>> import mixts
        >>> prior = mixts.MixturePrior(mixts.BernoulliArms([[90, 5], [80, 5]], [[5, 90], [5, 80]]))
        >>> agent = mixts.MixTS(prior, n_tasks=3, seed=1)
        >>> agent.act()
        array([0, 0, 0])
        >>> agent.act(tasks=[2, 2], mask=[False, True])
        array([1, 1])

        The values of a success differ, and so do the costs of showing an action.

        >>> agent = mixts.Greedy(prior, seed=1)
        >>> agent.act(values=[3.0, 1.0], costs=[0.2, 0.0])
        0
        >>> agent.act(values=[3.0, 1.0], top=2)
        array([0, 1])
        """
        if context is not None:
            actions = self._in_context(actions, context)
        if (
            self._quick_belief is not None
            and tasks is None
            and mask is None
            and waiting is None
            and values is None
            and costs is None
            and top is None
        ):
            quick = self._quick_belief.quick
            chosen = -1 if quick is None else quick.act_one(self._rng, actions)
            if type(chosen) is not int or chosen >= 0:  # an action, or a policy
                self.last_latent = quick.last_latent
                return chosen
        offer = self.offer(
            actions, tasks, mask, waiting=waiting, values=values, costs=costs, top=top
        )
        return self._axis.squeeze(self._act(offer))

    @final
    def action_probabilities(
        self,
        actions: ActionsLike | None = None,
        tasks: ArrayLike | None = None,
        mask: ArrayLike | None = None,
        waiting: Any = None,
        *,
        values: Any = None,
        costs: Any = None,
        top: int | None = None,
        context: Any = None,
    ) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
        """Return the probability of each action in the next decision, and its standard error.

        Parameters
        ----------
        actions, tasks, mask
            As in ``act``.
        waiting
            Decisions whose rewards have not come, as in ``act``.
        values, costs
            As in ``act``.
        top
            If given, return the probability that each action is among the ``top`` actions that
            ``act`` would rank.
        context
            As in ``act``.

        Returns
        -------
        probabilities, standard_errors
            (K,) or (n, K) each. Exact probabilities have standard error 0; estimates are unbiased.

        Examples
        --------
        >>> import mixts
        >>> prior = mixts.MixturePrior(mixts.BernoulliArms([[8, 2], [2, 8]], [[2, 8], [8, 2]]))
        >>> agent = mixts.MixTS(prior, seed=1)
        >>> agent.update(0, 1)
        >>> probabilities, errors = agent.action_probabilities()
        >>> probabilities.round(3)
        array([0.8, 0.2])
        """
        if context is not None:
            actions = self._in_context(actions, context)
        offer = self.offer(
            actions, tasks, mask, waiting=waiting, values=values, costs=costs, top=top
        )
        probabilities, errors = self._probabilities(offer)
        return self._axis.squeeze(probabilities), self._axis.squeeze(errors)

    @final
    def act_with_probabilities(
        self,
        actions: ActionsLike | None = None,
        tasks: ArrayLike | None = None,
        mask: ArrayLike | None = None,
        floor: float = 0.0,
        waiting: Any = None,
        *,
        values: Any = None,
        costs: Any = None,
        top: int | None = None,
        new_share: float | tuple[float, float] | None = None,
        context: Any = None,
    ) -> tuple[Any, Float[Array, "..."], Float[Array, "..."]]:
        """Draw the action from the very probabilities that are returned, ready to be logged.

        Where probabilities are estimated, the returned number is the true propensity given the
        draws behind it, and over those draws the action still has the agent's exact probabilities.

        Parameters
        ----------
        actions, tasks, mask
            As in ``act``.
        floor
            Least probability of every available action. Only ``floor > 0`` guarantees that every
            action can be drawn. With ``top``, every action has it in each position: in all, an
            action is shown with a probability of at least ``top * floor``.
        waiting
            Decisions whose rewards have not come, as in ``act``.
        values, costs
            As in ``act``.
        top
            Number of actions to rank; None for one action.
        new_share
            Largest probability of all new arms together (``prior.arms.new``), or the smallest and
            the largest; the rest goes to the other available arms in proportion. A floor is added
            after that. With ``top``, it is the share of the rankings that have new arms; in the
            smallest share, the last place goes to a new arm. None: no limit.
        context
            As in ``act``.

        Returns
        -------
        action, probabilities, standard_errors
            The action as ``act`` returns it; (K,) or (n, K) for the others. With ``top``: the
            ranked actions, and the probability that each action is among them.

        Examples
        --------
        >>> import mixts
        >>> prior = mixts.MixturePrior(mixts.BernoulliArms([[8, 2], [2, 8]], [[2, 8], [8, 2]]))
        >>> agent = mixts.MixTS(prior, seed=1)
        >>> agent.update(0, 1)
        >>> arm, probabilities, errors = agent.act_with_probabilities(floor=0.1)
        >>> probabilities.round(3)
        array([0.74, 0.26])
        """
        if context is not None:
            actions = self._in_context(actions, context)
        offer = self.offer(
            actions, tasks, mask, floor, waiting,
            values=values, costs=costs, top=top, new_share=new_share,
        )  # fmt: skip
        choice = self.decide(offer)
        return (
            self._axis.squeeze(choice.actions),
            self._axis.squeeze(choice.probabilities),
            self._axis.squeeze(choice.standard_errors),
        )

    @final
    def offer(
        self,
        actions: ActionsLike | None = None,
        tasks: ArrayLike | None = None,
        mask: ArrayLike | None = None,
        floor: float = 0.0,
        waiting: Any = None,
        *,
        values: Any = None,
        costs: Any = None,
        top: int | None = None,
        new_share: float | tuple[float, float] | None = None,
    ) -> Offer:
        """Check what is asked of decisions, once; ``decide`` takes it.

        Parameters
        ----------
        actions, tasks, mask, floor, waiting, values, costs, top, new_share
            As in ``act_with_probabilities``.

        Returns
        -------
        Offer
            The checked terms of the decisions.
        """
        offer = self._offered(
            self._axis.decisions(tasks), actions, mask, waiting, values, costs, top
        )
        if new_share is None and type(floor) is float and floor == 0.0:
            return offer
        return offer.with_limits(floor, new_share)

    def decide(self, offer: Offer) -> Choice:
        """Make checked decisions: draw each action from the probabilities that are returned.

        Parameters
        ----------
        offer
            What ``offer`` returned, or an offer that was checked in its steps.

        Returns
        -------
        Choice
            Actions, probabilities and standard errors, always with the axis of decisions.
        """
        self.last_latent = None
        probabilities, errors = self._probabilities(offer)
        if offer.new_share is not None:
            new = self._new_arms()
            probabilities = offer.new_share.apply(probabilities, offer.available, new)
        probabilities, errors = above_floor(offer, 1, probabilities, errors)
        choice = Choice(draw_rows(self._rng, probabilities), probabilities, errors)
        self._remember(offer, choice)
        return choice

    def _act(self, offer: Offer) -> Int[Array, "m ..."]:
        """Return the actions of decisions whose probabilities nobody wants to know."""
        return self.decide(offer).actions

    def _in_context(self, actions: Any, context: Any) -> Any:
        """Return the rows of actions for a person, or for the person of each decision."""
        raise ActionError(f"a {type(self).__name__} takes no context: leave it out")

    def _new_arms(self) -> Bool[Array, " k"]:
        """Return the mask of new arms; empty if there are none."""
        return np.zeros(0, bool)

    # -- defined by each agent ----------------------------------------------------------------

    @abstractmethod
    def update(
        self,
        actions: ActionsLike | Trajectory,
        outcomes: ArrayLike | None = None,
        tasks: ArrayLike | None = None,
    ) -> None:
        """Learn from outcomes; a refused update changes nothing.

        Parameters
        ----------
        actions
            Arms, by index or by the prior's arm names, or feature rows; MDPs: a
            :class:`Trajectory`.
        outcomes
            The reward of each action; None for a trajectory.
        tasks
            The task of each observation; None for one observation of each task in order.

        Examples
        --------
        >>> import mixts
        >>> prior = mixts.MixturePrior(mixts.BernoulliArms([[8, 2], [2, 8]], [[2, 8], [8, 2]]))
        >>> agent = mixts.MixTS(prior, n_tasks=3, seed=1)
        >>> agent.update([0, 1], [1, 0], tasks=[2, 2])
        >>> agent.belief.weights.round(2)
        array([[0.5 , 0.5 ],
               [0.5 , 0.5 ],
               [0.94, 0.06]])
        """

    @abstractmethod
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
        """Check what is asked, and return the offer of it; refuse what the agent cannot do."""

    @abstractmethod
    def _probabilities(self, offer: Offer) -> tuple[Float[Array, "m K"], Float[Array, "m K"]]:
        """Return the probabilities of the actions and their standard errors.

        Both are zero where an action is not available. With ``offer.top``, they are those of being
        among the ranked actions.
        """

    @abstractmethod
    def _state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return what a file stores besides settings and random numbers: header and arrays."""

    @classmethod
    @abstractmethod
    def _restore(cls, header: dict[str, Any], arrays: dict[str, Array]) -> Self:
        """Rebuild the agent from its state; ``header["settings"]`` holds its settings."""

    def _settings(self) -> dict[str, Any]:
        """Return the other arguments of the constructor: plain numbers and strings."""
        return {}

    def _remember(self, offer: Offer, choice: Choice) -> None:
        """Store what an update will need of these decisions; most agents need nothing."""
        return None

    # -- files --------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the agent to one file, from which ``load`` continues with the same decisions.

        The file holds the prior, the statistics of all tasks and the state of the random numbers:
        JSON if the path ends in ``.json``, else a zip of arrays; no pickle.

        Parameters
        ----------
        path
            Where to write; an existing file is replaced in one step.
        """
        state, arrays = self._state()
        header = {
            "agent": _name_in_files(type(self)),
            "n_tasks": self.n_tasks,
            "settings": self._settings(),
            "random": _random.generator_state(self._rng),
            **state,
        }
        write_bundle(path, "agent", header, arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read an agent that ``save`` wrote; everything is checked again.

        Parameters
        ----------
        path
            A file of any suffix; the content decides how it is read.

        Returns
        -------
        Agent
            Of the class that was saved, which must be this class or a subclass of it.
        """
        header, arrays = read_bundle(path, "agent")
        kind = AGENTS.get(str(header.get("agent")))
        if kind is None:
            raise FormatError(
                f"{path}: unknown agent {header.get('agent')!r}; known: "
                f"{sorted({_name_in_files(kind) for kind in AGENTS.values()})}. "
                "Import the module that defines it first"
            )
        if not issubclass(kind, cls):
            raise FormatError(f"{path} holds an agent of class {kind.__name__}, not {cls.__name__}")
        try:
            # Every agent has numbers for each of its tasks.
            if (header["n_tasks"] or 0) > max((a.size for a in arrays.values()), default=0):
                raise ValueError(f"{header['n_tasks']} tasks, but no array is as long")
            agent = kind._restore(header, arrays)
            agent._rng = _random.restored_generator(header["random"])
            if agent.n_tasks != header["n_tasks"]:
                raise ValueError(f"{agent.n_tasks} tasks, but {header['n_tasks']} in the header")
        except (MixtsError, KeyError, TypeError, ValueError, IndexError) as error:
            raise FormatError(f"{path} is damaged: {error}") from error
        return agent


def _is_ours(kind: type[Agent]) -> bool:
    return kind.__module__.partition(".")[0] == "mixts"


def _full_name(kind: type[Agent]) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _name_in_files(kind: type[Agent]) -> str:
    """Return the name of a class, with its module if another class is known by its name."""
    return kind.__name__ if AGENTS.get(kind.__name__) is kind else _full_name(kind)


def above_floor(
    offer: Offer, k: int, probabilities: Float[Array, "m K"], errors: Float[Array, "m K"]
) -> tuple[Float[Array, "m K"], Float[Array, "m K"]]:
    """Return P(action is among k) and its error, where some choices are drawn evenly."""
    if not offer.draws_evenly:
        return probabilities, errors
    least, share = offer.drawn_evenly
    room = 1.0 - share
    law = np.where(offer.available, k * least + room * probabilities, 0.0)
    return law, room * errors
