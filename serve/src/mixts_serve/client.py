"""Clients of the decision service: the calls of ``Decider`` over HTTP."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Self, cast

from mixts import MixturePrior
from mixts.errors import MixtsError
from mixts_serve._calls import Request, ServiceCalls, ServiceError, Steps, Value
from mixts_serve.arms import ArmList
from mixts_serve.records import Decide, Decision, PriorVersion, Receipt, Reward, TaskState

__all__ = ["AsyncClient", "Client", "ServiceError"]

Arguments = ParamSpec("Arguments")


class Client(ServiceCalls):
    """Client of a decision service, with the methods of ``Decider``; threads may share it.

    A call is retried when the connection fails, when no response comes in time, and when the
    service is busy. That is safe: a decision without a key gets one, and the service counts a
    reward once. (A reward that was counted just before the connection broke is then acknowledged
    as a duplicate.) After the last attempt the error is raised.

    Parameters
    ----------
    url : str
        Address of the service, such as ``http://127.0.0.1:8321``.
    token : str, optional
        Token from the service's token file.
    timeout : float
        Seconds that one attempt may wait for the network.
    retries : int
        Number of attempts after the first.
    deadline : float
        Seconds for a call with all its attempts.
    transport : optional
        Transport of httpx, for certificates and proxies of your own.

    Examples
    --------
    Here a function answers in place of the service; leave ``transport`` out to reach a real one.

    >>> import httpx
    >>> import mixts
    >>> from mixts_serve import Client
    >>> made = {"id": "d1", "task": "ada", "action": 2, "propensity": 0.5}
    >>> made |= {"weights": [0.8, 0.2], "prior_version": 1}
    >>> transport = httpx.MockTransport(lambda request: httpx.Response(200, json=made))
    >>> with Client("http://127.0.0.1:8321", transport=transport) as client:
    ...     client.decide("ada").action
    2
    """

    def _open(self, **options: Any) -> Any:
        return self._httpx.Client(**options)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

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
    ) -> Decision:
        """Choose an action for a task.

        Parameters
        ----------
        task : str
            Name of the task.
        actions : (K, d) array_like or list of dict, optional
            Feature rows of the actions, or actions with ids and named features,
            ``{"id": "sku-17", "features": {"price": 3.2}}``; only for linear priors, which need
            them.
        mask : (K,) array_like of bool or list of str, optional
            True where an action is available, or the names of these; all are, unless given.
        key : str, optional
            Makes the call safe to repeat: the same key for the same task returns the same decision.
        defer : bool
            The action may never be shown: the reward window begins with ``activate``, and without
            it the decision gets no default reward.
        values, costs, top
            As for ``Decider.decide``.

        Returns
        -------
        Decision
            The action, its probability, and the id that the reward refers to.
        """
        return self._run(self._decide(task, actions, mask, key, defer, values, costs, top))

    def reward(self, decision_id: str, value: float) -> Receipt:
        """Report the reward of a decision.

        Parameters
        ----------
        decision_id : str
            ``Decision.id``.
        value : float
            The reward.

        Returns
        -------
        Receipt
            Whether the reward had come before, or came too late to be learned from.
        """
        return self._run(self._reward(decision_id, value))

    def activate(self, decision_id: str) -> Receipt:
        """Report that the action of a deferred decision was shown: its reward window begins.

        Parameters
        ----------
        decision_id : str
            ``Decision.id``.

        Returns
        -------
        Receipt
            A duplicate if the decision was active already, or was not deferred.
        """
        return self._run(self._activate(decision_id))

    def decide_many(self, requests: Sequence[Decide]) -> list[Decision | MixtsError]:
        """Make many decisions.

        A list of more than 1,000 items, or a megabyte, is sent in several requests, one after the
        other. If one of them fails nothing more is sent: its items and all later ones get its
        exception, and the earlier results stay. The failure of the first request is raised.

        Parameters
        ----------
        requests : sequence of Decide
            What to decide.

        Returns
        -------
        list of Decision or MixtsError
            A result for each request; the exception of a refused one is returned, not raised.
        """
        return self._run(self._decide_many(requests))

    def reward_many(self, rewards: Sequence[Reward]) -> list[Receipt | MixtsError]:
        """Report many rewards, in several requests as ``decide_many``.

        Parameters
        ----------
        rewards : sequence of Reward
            Ids of decisions, and their rewards.

        Returns
        -------
        list of Receipt or MixtsError
            A result for each reward; the exception of a refused one is returned, not raised.
        """
        return self._run(self._reward_many(rewards))

    def activate_many(self, decision_ids: Sequence[str]) -> list[Receipt | MixtsError]:
        """Activate many deferred decisions, in several requests as ``decide_many``.

        Parameters
        ----------
        decision_ids : sequence of str
            Ids of decisions.

        Returns
        -------
        list of Receipt or MixtsError
            A result for each id; the exception of an unknown one is returned, not raised.
        """
        return self._run(self._activate_many(decision_ids))

    def task(self, name: str) -> TaskState:
        """Return the counts and the belief of a task.

        Parameters
        ----------
        name : str
            Name of the task.

        Returns
        -------
        TaskState
            Numbers of decisions and rewards, weights of the components, and mean rewards.
        """
        return self._run(self._task(name))

    def priors(self) -> list[PriorVersion]:
        """Return all versions of the prior.

        Returns
        -------
        list of PriorVersion
            The versions, oldest first.
        """
        return self._run(self._priors())

    def upload_prior(
        self,
        prior: MixturePrior | str | os.PathLike[str],
        activate: bool = False,
        force: bool = False,
    ) -> int:
        """Store a prior as a new version.

        Parameters
        ----------
        prior : MixturePrior or path
            A prior, or the file of one.
        activate : bool
            Whether the service shall use it from now on.
        force : bool
            Whether to activate it even if it failed its check (``prior.origin``).

        Returns
        -------
        int
            The version.
        """
        return self._run(self._upload_prior(prior, activate, force))

    def activate_prior(self, version: int, force: bool = False) -> None:
        """Use a version of the prior from now on; tasks keep their statistics.

        Parameters
        ----------
        version : int
            A version that ``priors`` lists.
        force : bool
            Whether to activate it even if it failed its check (``prior.origin``).
        """
        self._run(self._activate_prior(version, force))

    def arms(self) -> ArmList:
        """Return the arms of the active prior: names, and which are retired or new.

        Returns
        -------
        ArmList
            The version of the prior, and its arms.
        """
        return self._run(self._arms())

    def change_arms(
        self,
        add: Sequence[str] = (),
        retire: Sequence[str] = (),
        restore: Sequence[str] = (),
        rename: Mapping[str, str] | None = None,
    ) -> ArmList:
        """Change the arms of the active prior, all at once; a repeated call changes nothing.

        Parameters
        ----------
        add, retire, restore : sequence of str
            Names of new arms, of arms to take no more, and of retired arms to take again.
        rename : mapping of str to str
            New names by present names.

        Returns
        -------
        ArmList
            The arms after the changes.
        """
        return self._run(self._change_arms(add, retire, restore, rename))

    def ready(self) -> bool:
        """Return whether the service responds and accepts writes; there are no retries.

        Returns
        -------
        bool
            True if it is ready.
        """
        return self._run(self._ready())

    def _run(self, steps: Steps[Value]) -> Value:
        outcome: Any = None
        while True:
            try:
                step = steps.send(outcome)
            except StopIteration as end:
                return cast(Value, end.value)
            outcome = self._perform(step)

    def _perform(self, step: Request | float) -> Any:
        if not isinstance(step, Request):
            self._wait(step)
            return None
        method, path, body, timeout = step
        try:
            return self._http.request(method, path, content=body, timeout=timeout)
        except self._httpx.TransportError as error:
            return error

    def _wait(self, seconds: float) -> None:
        time.sleep(seconds)


def _awaited(
    method: Callable[Concatenate[Client, Arguments], Value],
) -> Callable[Concatenate[AsyncClient, Arguments], Awaitable[Value]]:
    """Return a method of ``Client`` for ``AsyncClient``: the same steps, performed otherwise."""
    steps = getattr(ServiceCalls, f"_{method.__name__}")

    @wraps(method)
    async def call(self: AsyncClient, /, *values: Arguments.args, **named: Arguments.kwargs) -> Any:
        return await self._run(steps(self, *values, **named))

    return call


class AsyncClient(ServiceCalls):
    """Client of a decision service for asyncio: the methods of ``Client``, to be awaited.

    Parameters
    ----------
    url, token, timeout, retries, deadline, transport
        As for ``Client``.

    Examples
    --------
    Here the service runs in the same process; leave ``transport`` out to reach one elsewhere.

    >>> import asyncio
    >>> import httpx
    >>> import mixts
    >>> from mixts_serve.http.app import Service
    >>> from mixts_serve import AsyncClient, Decider, DecisionStore
    >>> async def program(service):
    ...     transport = httpx.ASGITransport(service)
    ...     async with AsyncClient("http://127.0.0.1:8321", transport=transport) as client:
    ...         decision = await client.decide("ada")
    ...         return await client.reward(decision.id, 1.0)
    >>> prior = mixts.MixturePrior(mixts.BernoulliArms.uniform(3))
    >>> with DecisionStore("decisions.db") as store, Decider(prior, store) as decider:
    ...     service = Service(decider, store)
    ...     asyncio.run(program(service))
    ...     service.close()
    Receipt(duplicate=False, late=False)
    """

    def _open(self, **options: Any) -> Any:
        return self._httpx.AsyncClient(**options)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    decide = _awaited(Client.decide)
    reward = _awaited(Client.reward)
    activate = _awaited(Client.activate)
    decide_many = _awaited(Client.decide_many)
    reward_many = _awaited(Client.reward_many)
    activate_many = _awaited(Client.activate_many)
    task = _awaited(Client.task)
    priors = _awaited(Client.priors)
    upload_prior = _awaited(Client.upload_prior)
    activate_prior = _awaited(Client.activate_prior)
    arms = _awaited(Client.arms)
    change_arms = _awaited(Client.change_arms)
    ready = _awaited(Client.ready)

    async def _run(self, steps: Steps[Value]) -> Value:
        outcome: Any = None
        while True:
            try:
                step = steps.send(outcome)
            except StopIteration as end:
                return cast(Value, end.value)
            outcome = await self._perform(step)

    async def _perform(self, step: Request | float) -> Any:
        if not isinstance(step, Request):
            await self._wait(step)
            return None
        method, path, body, timeout = step
        try:
            return await self._http.request(method, path, content=body, timeout=timeout)
        except self._httpx.TransportError as error:
            return error

    async def _wait(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
