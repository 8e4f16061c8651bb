"""Decisions and rewards, one or many: read, submit, answer when they are durable."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, runtime_checkable

from mixts.errors import MixtsError, StoreError
from mixts.service.http import protocol
from mixts.service.http.limits import Limits, RateLimit, check_depth
from mixts.service.http.metrics import Metrics
from mixts.service.http.refusals import RefusalError, told
from mixts.service.records import Operation, Result
from mixts.service.writer import CallSoon as Later
from mixts.service.writer import Done

Waiting = asyncio.Future[list[Result]]


@runtime_checkable
class Submits(Protocol):
    """The part of ``Decider`` that does the work."""

    def submit(
        self, operations: Sequence[Operation], done: Done, later: Later | None = None
    ) -> None: ...


@dataclass(frozen=True, slots=True)
class Kind:
    """How one kind of operation is read and answered."""

    name: str
    read: Callable[[Any, Limits], Operation]
    answer: Callable[[Any], Any]
    conflict: str
    """The field that a conflict is about."""


DECIDE = Kind("decide", protocol.read_decide, protocol.decision, "key")
REWARD = Kind("reward", protocol.read_reward, protocol.receipt, "value")


class Completions:
    """Hands results to the event loop, from the writer's thread with one wake-up for many.

    A group is told one by one. If each woke the loop, the threads would hand the interpreter to and
    fro as often, and each time the writer might wait for a switch interval.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._thread = threading.get_ident()
        self._results: deque[tuple[Waiting, list[Result]]] = deque()
        self._awake = False

    def put(self, waiting: Waiting, results: list[Result]) -> None:
        """Called in the loop's thread, or in the writer's."""
        if threading.get_ident() == self._thread:
            _tell(waiting, results)
            return
        self._results.append((waiting, results))
        if not self._awake:
            self._awake = True
            try:
                self.loop.call_soon_threadsafe(self._deliver)
            except RuntimeError:
                return  # the loop has ended, and nobody waits any more

    def _deliver(self) -> None:
        # First this: whoever comes while results are taken out wakes the loop once more.
        self._awake = False
        while self._results:
            _tell(*self._results.popleft())


def _tell(waiting: Waiting, results: list[Result]) -> None:
    if not waiting.done():
        waiting.set_result(results)


class Operations:
    """What clients ask for most."""

    def __init__(
        self, decider: Submits, limits: Limits, rate_limit: RateLimit, metrics: Metrics
    ) -> None:
        self._decider = decider
        self._limits = limits
        self._rate_limit = rate_limit
        self._metrics = metrics
        self._completions: Completions | None = None

    async def one(self, kind: Kind, body: bytes, client: str) -> bytes:
        """The answer to one operation."""
        try:
            check_depth(body, self._limits)
            operation = kind.read(body, self._limits)
            (result,) = await self._submit([operation])
            if isinstance(result, MixtsError):
                raise result
        except (RefusalError, MixtsError) as error:
            refused = told(error, kind.conflict)
            self._metrics.operation(kind.name, refused.status)
            raise refused from error
        self._metrics.operation(kind.name, 200)
        self._metrics.result(result)
        return protocol.encode(kind.answer(result))

    async def many(self, kind: Kind, body: bytes, client: str) -> bytes:
        """The answers to a list, item by item; a list may be refused as a whole."""
        check_depth(body, self._limits)
        items = protocol.split_batch(body, self._limits)
        self._rate_limit.charge(client, len(items) - 1)
        read = [self._read(kind, item) for item in items]
        operations = [item for item in read if not isinstance(item, RefusalError)]
        try:
            results = iter(await self._all(operations))
        except StoreError as error:
            self._metrics.operation(kind.name, told(error).status, len(operations))
            raise
        answers = [item if isinstance(item, RefusalError) else next(results) for item in read]
        return protocol.encode([self._item(kind, answer) for answer in answers])

    def _read(self, kind: Kind, item: Any) -> Operation | RefusalError:
        try:
            return kind.read(item, self._limits)
        except RefusalError as refused:
            return refused

    async def _all(self, operations: list[Operation]) -> list[Result]:
        """The results, if the store took any of the operations."""
        results = await self._submit(operations) if operations else []
        if results and all(isinstance(result, StoreError) for result in results):
            raise results[0]  # type: ignore[misc]  # it is an exception
        return results

    def _item(self, kind: Kind, answer: RefusalError | Result) -> Any:
        if isinstance(answer, (RefusalError, MixtsError)):
            refused = told(answer, kind.conflict)
            self._metrics.operation(kind.name, refused.status)
            return protocol.error(refused, item=True)
        self._metrics.operation(kind.name, 200)
        self._metrics.result(answer)
        return kind.answer(answer)

    async def _submit(self, operations: list[Operation]) -> list[Result]:
        loop = asyncio.get_running_loop()
        completions = self._completions
        if completions is None or completions.loop is not loop:
            completions = self._completions = Completions(loop)
        waiting: Waiting = loop.create_future()
        self._decider.submit(operations, partial(completions.put, waiting), loop.call_soon)
        return await waiting
