"""The calls that a decider has in process and its clients have over HTTP."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, cast

from mixts.errors import MixtsError
from mixts_serve.records import Activate, Decide, Decision, Operation, Receipt, Reward

Value = TypeVar("Value")


class Calls(ABC):
    """Decisions, rewards and activations: alone, or many at once."""

    def decide(
        self,
        task: str,
        actions: Any = None,
        mask: Any = None,
        key: str | None = None,
        *,
        defer: bool = False,
        values: Any = None,
        costs: Any = None,
        top: int | None = None,
        context: Any = None,
    ) -> Decision:
        """Choose an action for a task.

        Parameters
        ----------
        task : str
            The task's name; a new name is a new task.
        actions : (K, d) array_like or list of dict, optional
            The feature rows that are offered, or actions with ids and named features,
            ``{"id": "sku-17", "features": {"price": 3.2}}``, and perhaps the ``score`` of another
            model; only for linear priors, which need them.
        mask : (K,) array_like of bool or list of str, optional
            True where an action is available, or the names of these arms, or the ids of
            these actions; all are, unless given.
        key : str, optional
            Makes the call safe to repeat: the same key for the same task returns the same decision.
        defer : bool
            The action may never be shown: the reward window begins with ``activate``, and without
            it the decision gets no default reward.
        values, costs : (K,) array_like or dict of str to float, optional
            Maximise value * mean reward - cost; a dictionary has numbers by arm name or id. Both
            are logged with the decision.
        top : int, optional
            Show so many actions, the best first. Each is a decision with an id of its own, by which
            its reward is reported: see ``Decision.shown``. Propensities are the probabilities that
            an action is shown.
        context : dict, optional
            Facts of the person by name, ``{"age": 26}``, for priors that learned their effects.
            They are kept with the decision. A fact that is left out, or None, is not known.

        Returns
        -------
        Decision
            The action, its probability, and the id that the reward refers to.
        """
        request = Decide(task, actions, mask, key, defer, values, costs, top, context)
        return self._one(request, Decision)

    def reward(
        self,
        decision_id: str,
        value: float | None = None,
        metrics: Mapping[str, float] | None = None,
    ) -> Receipt:
        """Report the reward of a decision, other metrics of it, or both.

        Rewards may arrive late, twice and in any order.

        Parameters
        ----------
        decision_id : str
            ``Decision.id``.
        value : float, optional
            The reward.
        metrics : mapping of str to float, optional
            Other numbers to watch, such as ``{"returned": 1}``: compared between the sides of a
            trial, never learned from. They may come later than the reward, each once.

        Returns
        -------
        Receipt
            Whether the reward had come before, or came too late to be learned from. Another value
            for the same decision raises ``ConflictError``.
        """
        return self._one(Reward(decision_id, value, cast(Any, metrics)), Receipt)

    def activate(self, decision_id: str) -> Receipt:
        """Report that the action of a deferred decision was shown: its reward window begins.

        A reward activates its decision by itself.

        Parameters
        ----------
        decision_id : str
            ``Decision.id``.

        Returns
        -------
        Receipt
            A duplicate if the decision was active already, or was not deferred.
        """
        return self._one(Activate(decision_id), Receipt)

    def decide_many(self, requests: Sequence[Decide]) -> list[Decision | MixtsError]:
        """Choose actions for many requests, in few transactions.

        A client sends a list of more than 1,000 items, or a megabyte, in several requests, one
        after the other. If one of them fails nothing more is sent: its items and all later ones get
        its exception, and the earlier results stay. The failure of the first request is raised.

        Parameters
        ----------
        requests : sequence of Decide
            What to decide.

        Returns
        -------
        list of Decision or MixtsError
            In the order of the requests; a refused request's error is returned, not raised.
        """
        return self._many(requests, Decide)

    def reward_many(self, rewards: Sequence[Reward]) -> list[Receipt | MixtsError]:
        """Report many rewards, in few transactions; see ``decide_many``.

        Parameters
        ----------
        rewards : sequence of Reward
            Ids of decisions, and their rewards.

        Returns
        -------
        list of Receipt or MixtsError
            In the order of the rewards; a refused reward's error is returned, not raised.
        """
        return self._many(rewards, Reward)

    def activate_many(self, decision_ids: Sequence[str]) -> list[Receipt | MixtsError]:
        """Activate many deferred decisions, in few transactions; see ``decide_many``.

        Parameters
        ----------
        decision_ids : sequence of str
            Ids of decisions.

        Returns
        -------
        list of Receipt or MixtsError
            In the order of the ids; the error of an unknown one is returned, not raised.
        """
        return self._many([Activate(id) for id in decision_ids], Activate)

    @abstractmethod
    def _one(self, operation: Operation, kind: type[Value]) -> Value:
        """Perform one operation, and return its result, which is of a kind."""

    @abstractmethod
    def _many(self, operations: Sequence[Any], kind: type) -> list[Any]:
        """Perform operations, which are all of a kind, and return their results and errors."""
