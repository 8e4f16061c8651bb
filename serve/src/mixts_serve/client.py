"""Clients of the decision service: the calls of ``Decider`` over HTTP."""

from __future__ import annotations

import asyncio
import inspect
import os
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Concatenate, ParamSpec, Self, cast

import msgspec

from mixts import MixturePrior
from mixts.extend import checks, files
from mixts_serve._requests import Request, Requests, ServiceError, Steps, prior_of, segment
from mixts_serve.calls import Calls, Value
from mixts_serve.fallback import Fallback, Queued
from mixts_serve.records import Activation, Erased, PriorVersion, TaskState
from mixts_serve.versions import ArmChanges, ArmList

__all__ = ["AsyncClient", "Client", "Queued", "ServiceError"]

MOST_THREADS = 32
"""Requests of a client with a fallback that may be under way at the same time."""

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
    fallback : MixturePrior, Path, "last", str or int, optional
        How ``decide`` decides while the service is away, in this process: by the prior, or the file
        of a prior, as for a task without rewards, with the highest expected reward; by the prior
        of the service that this client fetched last; or an arm, by name or by index. Without it,
        the call waits and then raises an error.
    patience : float
        With a fallback: seconds after which ``decide`` and ``reward`` wait no longer.

    Notes
    -----
    With a fallback, a call is tried once. If the service does not answer, fails, or is busy, the
    client decides (``decision.policy`` is "fallback"; the digits 13 to 20 of its id are
    ``fa11bacc``), and goes on to decide at once until a thread, or for ``AsyncClient`` a task, has
    found that the service is ready. ``prior_version`` is 0 for a prior of yours and for an arm,
    ``action`` is -1 for an arm whose index is not known. Such decisions, and rewards, which get a
    ``Queued`` receipt, wait in memory (``n_queued``), at most 64 MiB of them. The thread sends them
    to the service, which logs each decision once. **If the process ends before, they are lost**;
    ``close`` tries once more to send them.

    A service that was only slow may have made a decision as well: it is in its log, without a
    reward. A decision with ``top`` or ``defer``, or whose mask a fixed arm cannot be found in, is
    refused with ``StoreUnavailableError``; ``decide_many`` and all other calls know no fallback.

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
        self._closed = threading.Event()
        self._threads: ThreadPoolExecutor | None = None
        self._returning: threading.Thread | None = None
        return self._httpx.Client(**options)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections; with a fallback, first try once more to send what was kept."""
        self._closed.set()
        fallback, returning = self._fallback, self._returning
        if returning is not None:
            returning.join(self._timeout)
        if fallback is not None and fallback.n_queued:
            if returning is None or not returning.is_alive():  # else it is at it
                self._run(self._return(fallback))
            fallback.warn_if_lost()
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
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

    def download_prior(self, version: int) -> MixturePrior:
        """Return a version of the prior.

        Parameters
        ----------
        version : int
            A version that ``priors`` lists.

        Returns
        -------
        MixturePrior
            The prior, as it was uploaded.
        """
        path = f"/v1/priors/{checks.count(version, 'version')}"
        return self._call("GET", path, dict[str, Any], None, prior_of)

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
        if step.within is None:
            return self._request(step)
        try:
            return self._pool().submit(self._request, step).result(step.within)
        except TimeoutError:
            return self._httpx.ReadTimeout(f"not within {step.within:g} s")

    def _request(self, step: Request) -> Any:
        method, path, body, timeout, _ = step
        try:
            return self._http.request(method, path, content=body, timeout=timeout)
        except self._httpx.TransportError as error:
            return error

    def _pool(self) -> ThreadPoolExecutor:
        """Return the threads of requests that the caller may leave before they end."""
        if self._threads is None:
            self._threads = ThreadPoolExecutor(MOST_THREADS, "mixts-client")
        return self._threads

    def _begin_return(self) -> None:
        fallback = self._fallback
        assert fallback is not None
        with fallback.lock:
            if self._returning is None and not self._closed.is_set():
                self._returning = threading.Thread(
                    target=self._until_idle, args=(fallback,), name="mixts-return", daemon=True
                )
                self._returning.start()

    def _until_idle(self, fallback: Fallback) -> None:
        while not self._closed.is_set():
            try:
                self._run(self._return(fallback))
            except RuntimeError:  # the connections were closed in the middle of it
                if self._closed.is_set():
                    return
                raise
            with fallback.lock:
                if fallback.is_idle:
                    self._returning = None
                    return

    def _wait(self, seconds: float) -> None:
        self._closed.wait(seconds)


def awaited(
    method: Callable[Concatenate[Any, Arguments], Value],
) -> Callable[Concatenate[Any, Arguments], Awaitable[Value]]:
    """Return a method of a blocking client for one of asyncio, whose parts return awaitables.

    A decorator that checks the types of the blocking client, as in tests, is taken off.
    """
    return cast(Any, inspect.unwrap(method))


class AsyncClient(Requests):
    """Client of a decision service for asyncio: the methods of ``Client``, to be awaited.

    Parameters
    ----------
    url, token, timeout, retries, deadline, transport, fallback, patience
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
        self._returning: asyncio.Task[None] | None = None
        return self._httpx.AsyncClient(**options)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections; with a fallback, first try once more to send what was kept."""
        fallback = self._fallback
        if self._returning is not None and not self._returning.done():
            self._returning.cancel()
            await asyncio.gather(self._returning, return_exceptions=True)
        if fallback is not None and fallback.n_queued:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._run(self._return(fallback)), self._timeout)
            fallback.warn_if_lost()
        await self._http.aclose()

    decide = awaited(Client.decide)
    reward = awaited(Client.reward)
    activate = awaited(Client.activate)
    decide_many = awaited(Client.decide_many)
    reward_many = awaited(Client.reward_many)
    activate_many = awaited(Client.activate_many)
    task = awaited(Client.task)
    erase = awaited(Client.erase)
    priors = awaited(Client.priors)
    upload_prior = awaited(Client.upload_prior)
    activate_prior = awaited(Client.activate_prior)
    arms = awaited(Client.arms)
    change_arms = awaited(Client.change_arms)
    download_prior = awaited(Client.download_prior)
    ready = awaited(Client.ready)

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
        try:
            return await asyncio.wait_for(self._request(step), step.within)
        except TimeoutError:
            return self._httpx.ReadTimeout(f"not within {step.within:g} s")

    async def _request(self, step: Request) -> Any:
        method, path, body, timeout, _ = step
        try:
            return await self._http.request(method, path, content=body, timeout=timeout)
        except self._httpx.TransportError as error:
            return error

    def _begin_return(self) -> None:
        fallback, task = self._fallback, self._returning
        assert fallback is not None
        # The loop of an earlier ``asyncio.run`` may have ended, and the task with it.
        if task is None or task.done() or task.get_loop() is not asyncio.get_running_loop():
            self._returning = asyncio.create_task(self._until_idle(fallback))

    async def _until_idle(self, fallback: Fallback) -> None:
        while not fallback.is_idle:
            await self._run(self._return(fallback))

    async def _wait(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
