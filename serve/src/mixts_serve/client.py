"""Clients of the decision service: the calls of ``Decider`` over HTTP."""

from __future__ import annotations

import asyncio
import inspect
import os
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Concatenate, ParamSpec, Self, cast

import msgspec

from mixts import MixturePrior
from mixts.extend import checks, files
from mixts_serve._requests import Request, Requests, ServiceError, Steps, segment
from mixts_serve.calls import Calls, Value
from mixts_serve.records import Activation, Erased, PriorVersion, TaskState
from mixts_serve.versions import ArmChanges, ArmList

__all__ = ["AsyncClient", "Client", "ServiceError"]

Arguments = ParamSpec("Arguments")


class Client(Requests, Calls):
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
        return self._call("GET", f"/v1/tasks/{segment(name)}", TaskState)

    def erase(self, task: str) -> Erased:
        """Erase a task with everything about it; what comes under its name later is a new task.

        Parameters
        ----------
        task : str
            The task's name; one that the store does not know changes nothing.

        Returns
        -------
        Erased
            Whether the task was known, and how many decisions it had. A call that was repeated
            because its response was lost counts the task as unknown.
        """
        return self._call("DELETE", f"/v1/tasks/{segment(task)}", Erased)

    def priors(self) -> list[PriorVersion]:
        """Return all versions of the prior.

        Returns
        -------
        list of PriorVersion
            The versions, oldest first.
        """
        return self._call("GET", "/v1/priors", list[PriorVersion])

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
        loaded = prior if isinstance(prior, MixturePrior) else MixturePrior.load(prior)
        path = "/v1/priors" + "?activate=true" * activate + "&force=true" * (activate and force)
        body = files.pack_bundle("prior", *loaded.bundle(), as_json=True)
        return self._call("POST", path, Activation, body, lambda found: found.version)

    def activate_prior(self, version: int, force: bool = False) -> None:
        """Use a version of the prior from now on; tasks keep their statistics.

        Parameters
        ----------
        version : int
            A version that ``priors`` lists.
        force : bool
            Whether to activate it even if it failed its check (``prior.origin``).
        """
        path = f"/v1/priors/{checks.count(version, 'version')}/activate" + "?force=true" * force
        return self._call("POST", path, Activation, None, lambda found: None)

    def arms(self) -> ArmList:
        """Return the arms of the active prior: names, and which are retired or new.

        Returns
        -------
        ArmList
            The version of the prior, and its arms.
        """
        return self._call("GET", "/v1/arms", ArmList)

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
        changes = ArmChanges.checked(add, retire, restore, rename)
        return self._call("POST", "/v1/arms", ArmList, msgspec.json.encode(changes))

    def ready(self) -> bool:
        """Return whether the service responds and accepts writes; there are no retries.

        Returns
        -------
        bool
            True if it is ready.
        """
        return self._run(self._is_ready())

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
    """Return a method of ``Client`` for ``AsyncClient``, whose ``_run`` returns an awaitable.

    A decorator that checks the types of ``Client``, as in tests, is taken off.
    """
    return cast(Any, inspect.unwrap(method))


class AsyncClient(Requests):
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
    erase = _awaited(Client.erase)
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
