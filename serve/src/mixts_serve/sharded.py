"""Clients of a service whose tasks are divided over several stores: see ``shards``."""

from __future__ import annotations

from asyncio import gather
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, ExitStack
from typing import Any, Generic, Self, TypeVar

from mixts import errors
from mixts_serve.calls import Calls
from mixts_serve.client import AsyncClient, Client, awaited
from mixts_serve.records import Decide, Erased, Operation, TaskState
from mixts_serve.shards import place_of, slot_of, slot_of_id

One = TypeVar("One", Client, AsyncClient)


class _Shards(Generic[One]):
    """The clients of all shards, and which of them an operation goes to."""

    def __init__(self, kind: Callable[..., One], urls: Sequence[str], **settings: Any) -> None:
        if isinstance(urls, str) or not urls:
            raise errors.ParameterError(
                "urls must be the addresses of all shards, in their order, such as "
                f"['http://10.0.0.1:8321', 'http://10.0.0.2:8321'], got {urls!r}"
            )
        self.shards: tuple[One, ...] = tuple(kind(url, **settings) for url in urls)
        """The client of each shard, in their order."""
        known = [client.url for client in self.shards]
        if twice := next((url for url in known if known.count(url) > 1), None):
            raise errors.ParameterError(f"{twice} is the address of two shards: each has its own")

    def shard_of(self, task: str) -> One:
        """Return the client of the shard that has a task.

        Parameters
        ----------
        task : str
            Name of the task.

        Returns
        -------
        Client or AsyncClient
            One of ``shards``.
        """
        return self.shards[place_of(slot_of(task), len(self.shards))]

    @property
    def n_queued(self) -> int:
        """Number of decisions and rewards that wait until their shards are back."""
        return sum(client.n_queued for client in self.shards)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({[client.url for client in self.shards]!r})"

    def _place(self, operation: Operation) -> int:
        if isinstance(operation, Decide):
            slot = slot_of(operation.task) if isinstance(operation.task, str) else b""
        else:
            slot = slot_of_id(operation.decision) if isinstance(operation.decision, str) else b""
        return place_of(slot, len(self.shards))

    def _parts(self, operations: Sequence[Operation]) -> dict[int, list[int]]:
        """Return the places in the list of the operations of each shard."""
        parts: dict[int, list[int]] = {}
        for i, operation in enumerate(operations):
            parts.setdefault(self._place(operation), []).append(i)
        return parts


def _joined(parts: Iterable[list[int]], results: Iterable[Any]) -> list[Any]:
    """Return the results of all parts in the order of the list; an error is that of its part."""
    found: dict[int, Any] = {}
    for places, part in zip(parts, results, strict=True):
        if isinstance(part, errors.MixtsError):
            part = [part] * len(places)
        elif isinstance(part, BaseException):
            raise part
        found.update(zip(places, part, strict=True))
    return [found[i] for i in range(len(found))]


class ShardedClient(_Shards[Client], Calls):
    """Client of a service whose tasks are divided over several stores; threads may share it.

    Each call goes to the shard of its task: by the task's name or, for rewards and activations, by
    the end of the decision's id, so that another process may report them. A shard that is away
    fails for its own tasks only. With a fallback, the client decides for them meanwhile.

    ``decide_many`` and the like send each shard its part at the same time, and return when the last
    one has answered. The failure of a shard is the result of its items and is not raised.

    Parameters
    ----------
    urls : sequence of str
        Addresses of all shards, in their order: ``mixts serve --shard 1/2`` first. A service that
        knows its shard refuses the tasks of others, so that a wrong list is noticed.
    **settings
        As for :class:`Client`, for each shard.

    Notes
    -----
    Priors and arms belong to each store: ``for shard in client.shards: shard.upload_prior(...)``.

    Examples
    --------
    Here a function answers in place of the services.

    >>> import httpx
    >>> from mixts_serve import ShardedClient
    >>> made = {"id": "d1", "task": "ada", "action": 2, "propensity": 0.5}
    >>> made |= {"weights": [0.8, 0.2], "prior_version": 1}
    >>> transport = httpx.MockTransport(lambda request: httpx.Response(200, json=made))
    >>> with ShardedClient(["http://one:8321", "http://two:8321"], transport=transport) as client:
    ...     print(client.shard_of("ada"), client.decide("ada").action)
    Client('http://two:8321') 2
    """

    def __init__(self, urls: Sequence[str], **settings: Any) -> None:
        super().__init__(Client, urls, **settings)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the clients of all shards; with a fallback, each first tries to send its queue."""
        with ExitStack() as stack:
            for client in self.shards:
                stack.callback(client.close)

    def task(self, name: str) -> TaskState:
        """Return the counts and the belief of a task: see :meth:`Client.task`.

        Parameters
        ----------
        name : str
            Name of the task.

        Returns
        -------
        TaskState
            Numbers of decisions and rewards, weights of the components, and mean rewards.
        """
        return self.shard_of(name).task(name)

    def erase(self, task: str) -> Erased:
        """Erase a task with everything about it: see :meth:`Client.erase`.

        Parameters
        ----------
        task : str
            The task's name.

        Returns
        -------
        Erased
            Whether the task was known, and how many decisions it had.
        """
        return self.shard_of(task).erase(task)

    def _one(self, operation: Operation, kind: type) -> Any:
        return self.shards[self._place(operation)]._one(operation, kind)

    def _many(self, operations: Sequence[Any], kind: type) -> list[Any]:
        def send(shard: int, places: list[int]) -> Any:
            try:
                return self.shards[shard]._many([operations[i] for i in places], kind)
            except errors.MixtsError as error:
                return error

        parts = self._parts(operations)
        if not parts:
            return []
        with ThreadPoolExecutor(len(parts), "mixts-shards") as pool:
            return _joined(parts.values(), pool.map(send, parts.keys(), parts.values()))


class AsyncShardedClient(_Shards[AsyncClient]):
    """The methods of ``ShardedClient`` for asyncio, to be awaited.

    Parameters
    ----------
    urls, **settings
        As for :class:`ShardedClient`.
    """

    def __init__(self, urls: Sequence[str], **settings: Any) -> None:
        super().__init__(AsyncClient, urls, **settings)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the clients of all shards; with a fallback, each first tries to send its queue."""
        async with AsyncExitStack() as stack:
            for client in self.shards:
                stack.push_async_callback(client.close)

    decide = awaited(ShardedClient.decide)
    reward = awaited(ShardedClient.reward)
    activate = awaited(ShardedClient.activate)
    decide_many = awaited(ShardedClient.decide_many)
    reward_many = awaited(ShardedClient.reward_many)
    activate_many = awaited(ShardedClient.activate_many)
    task = awaited(ShardedClient.task)
    erase = awaited(ShardedClient.erase)
    _one = awaited(ShardedClient._one)

    async def _many(self, operations: Sequence[Any], kind: type) -> list[Any]:
        parts = self._parts(operations)
        sent = (
            self.shards[shard]._many([operations[i] for i in places], kind)
            for shard, places in parts.items()
        )
        return _joined(parts.values(), await gather(*sent, return_exceptions=True))
