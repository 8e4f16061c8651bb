"""The interface of agents: act, update, action probabilities, save and load."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self, overload

import numpy as np

from mixts import _checks, _random
from mixts._files import read_bundle, write_bundle
from mixts._tasks import TaskAxis
from mixts._typing import ActionsLike, Array, ArrayLike, Bool, Float, Int, Seed
from mixts.agents.new_arms import NewShare
from mixts.agents.offers import Request, with_names
from mixts.errors import FormatError, MixtsError, ParameterError
from mixts.families.base import Waiting
from mixts.families.choice import draw_rows, top_rows
from mixts.families.quadrature import Money
from mixts.families.trajectory import Trajectory
from mixts.prior import MixturePrior

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

    # -- defined by each agent ----------------------------------------------------------------

    @overload
    def act(
        self,
        actions: ActionsLike | None,
        tasks: ArrayLike,
        mask: ArrayLike | None = ...,
        *,
        values: Any = ...,
        costs: Any = ...,
        top: int | None = ...,
    ) -> Array: ...

    @overload
    def act(
        self,
        actions: ActionsLike | None = ...,
        *,
        tasks: ArrayLike,
        mask: ArrayLike | None = ...,
        values: Any = ...,
        costs: Any = ...,
        top: int | None = ...,
    ) -> Array: ...

    @overload
    def act(
        self,
        actions: ActionsLike | None = ...,
        tasks: None = ...,
        mask: ArrayLike | None = ...,
        *,
        values: Any = ...,
        costs: Any = ...,
        top: int | None = ...,
    ) -> Any: ...

    @abstractmethod
    def act(
        self,
        actions: ActionsLike | None = None,
        tasks: ArrayLike | None = None,
        mask: ArrayLike | None = None,
        *,
        values: Any = None,
        costs: Any = None,
        top: int | None = None,
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
        values, costs
            The agent maximises ``value * mean reward - cost``: one number for each action, (K,) or
            (n, K), or a dictionary by arm name. None: values 1, costs 0. Beliefs are about rewards
            and do not change with either.
        top
            Number of actions to rank; None for one action.

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
        """

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
    def _probabilities(self, asked: Request) -> tuple[Float[Array, "m K"], Float[Array, "m K"]]:
        """Return the probabilities of the actions and their standard errors; checked input.

        Both are zero where the mask is false.
        """

    @abstractmethod
    def _action_sets(self, actions: ActionsLike | None, n_rows: int) -> tuple[Array | None, int]:
        """Check the action sets; return them and the number of actions."""

    @abstractmethod
    def _state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return what a file stores besides settings and random numbers: header and arrays."""

    @classmethod
    @abstractmethod
    def _restore(cls, header: dict[str, Any], arrays: dict[str, Array]) -> Self:
        """Rebuild the agent from its state; ``header["settings"]`` holds its settings."""

    def _checked_waiting(self, waiting: Any) -> Waiting | None:
        """Check and return the decisions whose rewards have not come."""
        if waiting is not None:
            raise ParameterError(f"{type(self).__name__} takes no waiting decisions: leave it out")
        return None

    def _checked_money(self, values: Any, costs: Any, mask: Bool[Array, "m K"]) -> Money | None:
        """Check and return values and costs of the actions; None if neither is given."""
        if values is not None or costs is not None:
            raise ParameterError(
                f"the experts of {type(self).__name__} vote by mean rewards: leave values and "
                "costs out"
            )
        return None

    def _checked_top(self, top: Any, mask: Bool[Array, "m K"]) -> int:
        """Check and return the length of a ranking."""
        raise ParameterError(
            f"{type(self).__name__} learns from one decision at a time: leave top out"
        )

    def _slates(
        self, asked: Request, k: int
    ) -> tuple[Int[Array, "m k"], Float[Array, "m K"], Float[Array, "m K"]]:
        """Return k actions for each decision, best first, and P(action is among them), with errors.

        The probabilities are those of the procedure that drew the actions.
        """
        raise ParameterError(f"{type(self).__name__} ranks no actions: leave top out")

    def _settings(self) -> dict[str, Any]:
        """Return the other arguments of the constructor: plain numbers and strings."""
        return {}

    def _remember(
        self,
        index: Int[Array, " m"],
        actions: Array | None,
        chosen: Int[Array, " m"],
        probabilities: Float[Array, "m K"],
    ) -> None:
        """Store what an update will need of these decisions; most agents need nothing."""
        return None

    # -- masks and probabilities --------------------------------------------------------------

    def _available(
        self, mask: ArrayLike | None, n_rows: int, n_actions: int
    ) -> Bool[Array, "m K"] | None:
        """Return the checked mask, or None if every action is available."""
        return None if mask is None else _checks.action_mask(mask, n_rows, n_actions)

    def _full_mask(self, mask: ArrayLike | None, n_rows: int, n_actions: int) -> Bool[Array, "m K"]:
        available = self._available(mask, n_rows, n_actions)
        return np.ones((n_rows, n_actions), bool) if available is None else available

    def _without_taken(
        self, index: Int[Array, " m"], mask: Bool[Array, "m K"], waiting: Waiting | None
    ) -> Bool[Array, "m K"]:
        """Return the mask without actions that their tasks may not take again; here all may."""
        return mask

    def _request(
        self,
        actions: ActionsLike | None,
        tasks: ArrayLike | None,
        mask: ArrayLike | None,
        waiting: Any,
        values: Any,
        costs: Any,
    ) -> Request:
        """Check the arguments of decisions."""
        index = self._axis.decisions(tasks)
        sets, n_actions = self._action_sets(actions, len(index))
        available = self._full_mask(mask, len(index), n_actions)
        pending = self._checked_waiting(waiting)
        available = self._without_taken(index, available, pending)
        return Request(
            index, sets, available, pending, self._checked_money(values, costs, available)
        )

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
    ) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
        """Return the probability of each action in the next decision, and its standard error.

        Parameters
        ----------
        actions, tasks, mask
            As in ``act``.
        waiting
            Decisions whose rewards have not come, see :meth:`BeliefAgent.act`.
        values, costs
            As in ``act``.
        top
            If given, return the probability that each action is among the ``top`` actions that
            ``act`` would rank.

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
        asked = self._request(actions, tasks, mask, waiting, values, costs)
        if top is None:
            probabilities, errors = self._probabilities(asked)
        else:
            _, probabilities, errors = self._slates(asked, self._checked_top(top, asked.mask))
        return self._axis.squeeze(probabilities), self._axis.squeeze(errors)

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
    ) -> tuple[Any, Float[Array, "..."], Float[Array, "..."]]:
        """Draw the action from the very probabilities that are returned, ready to be logged.

        Where probabilities are estimated, the returned number is the true propensity given the
        draws behind it, and over those draws the action still follows the agent's law exactly.

        Parameters
        ----------
        actions, tasks, mask
            As in ``act``.
        floor
            Least probability of every available action. Only ``floor > 0`` guarantees that every
            action can be drawn. With ``top``, every action has it in each position: in all, an
            action is shown with a probability of at least ``top * floor``.
        waiting
            Decisions whose rewards have not come, see :meth:`BeliefAgent.act`.
        values, costs
            As in ``act``.
        top
            Number of actions to rank; None for one action.
        new_share
            Largest probability of all new arms together (``prior.new_arms``), or the smallest and
            the largest; the rest goes to the other available arms in proportion. A floor is added
            after that. With ``top``, it is the share of the rankings that have new arms; in the
            smallest share, the last place goes to a new arm. None: no limit.

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
        asked = self._request(actions, tasks, mask, waiting, values, costs)
        room = _room_above(floor, asked.mask)
        share = None if new_share is None else NewShare.checked(new_share)
        if top is None:
            probabilities, errors = self._probabilities(asked)
            if share is not None:
                probabilities = share.apply(probabilities, asked.mask, self._new_arms())
            if floor > 0:
                probabilities = np.where(asked.mask, floor + room * probabilities, 0.0)
                errors = room * errors
            chosen: Array = draw_rows(self._rng, probabilities)
            self._remember(asked.tasks, asked.actions, chosen, probabilities)
        else:
            k = self._checked_top(top, asked.mask)
            chosen, probabilities, errors = self._limited_slates(asked, k, share)
            if floor > 0:
                # The whole ranking is random as often as the first action would be.
                rows = np.flatnonzero(self._rng.random(len(chosen)) >= np.ravel(room))
                level = np.zeros((len(rows), asked.mask.shape[1]))
                chosen[rows] = top_rows(self._rng, level, asked.mask[rows], k)
                probabilities = np.where(asked.mask, k * floor + room * probabilities, 0.0)
                errors = room * errors
        self.last_latent = None
        return (
            self._axis.squeeze(chosen),
            self._axis.squeeze(probabilities),
            self._axis.squeeze(errors),
        )

    def _limited_slates(
        self, asked: Request, k: int, share: NewShare | None
    ) -> tuple[Array, Array, Array]:
        """Return ``_slates`` in which new arms have their share."""
        new = self._new_arms()
        if share is None or not new.any():
            return self._slates(asked, k)

        def rank(mask: Bool[Array, "m K"], n: int) -> tuple[Array, Array, Array]:
            return self._slates(asked._replace(mask=mask), n)

        return share.apply_to_slates(self._rng, rank, asked.mask, new, k)

    def _new_arms(self) -> Bool[Array, " k"]:
        """Return the mask of new arms; empty if there are none."""
        return np.zeros(0, bool)

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


def without_retired(
    prior: MixturePrior, mask: ArrayLike | None, n_rows: int, n_actions: int
) -> ArrayLike | None:
    """Return the mask without the prior's retired arms; it may be a list of names."""
    if mask is not None:
        mask = with_names(prior, mask)
    if not prior.has_retired:
        return mask
    return (
        ~prior.retired
        if mask is None
        else (_checks.action_mask(mask, n_rows, n_actions) & ~prior.retired)
    )


def _room_above(floor: float, available: Bool[Array, "m K"]) -> float | Float[Array, "m 1"]:
    """Return the probability that is left when every available action has its floor."""
    number = isinstance(floor, (int, float, np.number)) and not isinstance(floor, bool)
    if number and floor == 0:
        return 1.0
    n_available = available.sum(axis=1, keepdims=True)
    most = int(n_available.max(initial=1))
    if not number or not 0 <= floor <= 1 / most:
        raise ParameterError(f"floor must be between 0 and 1 / {most} actions, got {floor!r}")
    return 1.0 - floor * n_available
