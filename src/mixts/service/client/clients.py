"""The two clients: one whose calls block, and one for an event loop.

What they ask, how they read the answers and when they try again is the same code.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from typing import Any, Self, TypeVar

from mixts.errors import MixtsError
from mixts.prior import MixturePrior
from mixts.service.client import calls
from mixts.service.client.calls import Call
from mixts.service.client.settings import Settings
from mixts.service.records import Decide, Decision, PriorVersion, Receipt, Reward, TaskState

Answer = TypeVar("Answer")


class Client(Settings):
    """A connection to a decision service: ``Decider``'s calls, values and exceptions over HTTP.

    A context manager; threads may share it. A call is repeated, at most ``retries`` times and
    within ``deadline`` seconds, when nothing is heard for ``timeout`` seconds, the connection
    breaks, or the service says that it is busy; then the error is raised. That is safe: a decision
    without a key gets one of its own, and a reward is counted once (one that was counted just
    before the connection broke is acknowledged as a duplicate). ``transport`` is httpx's, for
    certificates and proxies of your own.
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
        self, task: str, actions: Any = None, mask: Any = None, key: str | None = None
    ) -> Decision:
        """An action for a task; ``actions`` (K, d) and ``mask`` (K,) may be numpy arrays."""
        return self._answer(calls.decide(Decide(task, actions, mask, key)))

    def reward(self, decision_id: str, value: float) -> Receipt:
        """What came of a decision."""
        return self._answer(calls.reward(Reward(decision_id, value)))

    def decide_many(self, requests: Sequence[Decide]) -> list[Decision | MixtsError]:
        """Item by item; one that was refused is its exception, not raised.

        More than 1,000, or than a megabyte, go in several requests, one after the other. If one of
        them fails, nothing more is sent: its items, and those after it, are that exception, and
        what was answered before stays. It is raised if it was the first.
        """
        return self._all_answers(calls.decide_many(requests))

    def reward_many(self, requests: Sequence[Reward]) -> list[Receipt | MixtsError]:
        """Item by item, and many in several requests, as ``decide_many``."""
        return self._all_answers(calls.reward_many(requests))

    def task(self, name: str) -> TaskState:
        """What is known and believed of a task."""
        return self._answer(calls.task(name))

    def priors(self) -> list[PriorVersion]:
        """Every version of the prior."""
        return self._answer(calls.priors())

    def upload_prior(
        self, prior: MixturePrior | str | os.PathLike[str], activate: bool = False
    ) -> int:
        """Store a prior, or the file of one, and perhaps decide by it; its version."""
        return self._answer(calls.upload_prior(prior, activate))

    def activate_prior(self, version: int) -> None:
        """Decide by this version from now on; tasks keep their statistics."""
        self._answer(calls.activate_prior(version))

    def ready(self) -> bool:
        """Whether the service is there and takes requests; asked once."""
        try:
            return bool(self._http.get("/readyz", timeout=self._timeout).is_success)
        except self._httpx.TransportError:
            return False

    def _all_answers(self, parts: Sequence[Call[list[Answer]]]) -> list[Answer]:
        answers = calls.Answers(parts)
        for part in parts:
            try:
                answers.add(self._answer(part))
            except MixtsError as error:
                return answers.cut_short(error)
        return answers.found

    def _answer(self, call: Call[Answer]) -> Answer:
        if call.known is not None:
            return call.known
        attempts, outcome = self._attempts(), None
        while True:
            try:
                outcome = self._http.request(
                    call.method, call.path, content=call.body, timeout=attempts.timeout()
                )
            except self._httpx.TransportError as error:
                outcome = error
            pause = self._pause(attempts, outcome)
            if pause is None:
                return call.result(outcome.status_code, outcome.content)
            self._wait(pause)

    def _wait(self, seconds: float) -> None:
        time.sleep(seconds)


class AsyncClient(Settings):
    """``Client`` for an event loop: the same calls, to be awaited."""

    def _open(self, **options: Any) -> Any:
        return self._httpx.AsyncClient(**options)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def decide(
        self, task: str, actions: Any = None, mask: Any = None, key: str | None = None
    ) -> Decision:
        """An action for a task; ``actions`` (K, d) and ``mask`` (K,) may be numpy arrays."""
        return await self._answer(calls.decide(Decide(task, actions, mask, key)))

    async def reward(self, decision_id: str, value: float) -> Receipt:
        """What came of a decision."""
        return await self._answer(calls.reward(Reward(decision_id, value)))

    async def decide_many(self, requests: Sequence[Decide]) -> list[Decision | MixtsError]:
        """Item by item; one that was refused is its exception, not raised.

        More than 1,000, or than a megabyte, go in several requests, one after the other. If one of
        them fails, nothing more is sent: its items, and those after it, are that exception, and
        what was answered before stays. It is raised if it was the first.
        """
        return await self._all_answers(calls.decide_many(requests))

    async def reward_many(self, requests: Sequence[Reward]) -> list[Receipt | MixtsError]:
        """Item by item, and many in several requests, as ``decide_many``."""
        return await self._all_answers(calls.reward_many(requests))

    async def task(self, name: str) -> TaskState:
        """What is known and believed of a task."""
        return await self._answer(calls.task(name))

    async def priors(self) -> list[PriorVersion]:
        """Every version of the prior."""
        return await self._answer(calls.priors())

    async def upload_prior(
        self, prior: MixturePrior | str | os.PathLike[str], activate: bool = False
    ) -> int:
        """Store a prior, or the file of one, and perhaps decide by it; its version."""
        return await self._answer(calls.upload_prior(prior, activate))

    async def activate_prior(self, version: int) -> None:
        """Decide by this version from now on; tasks keep their statistics."""
        await self._answer(calls.activate_prior(version))

    async def ready(self) -> bool:
        """Whether the service is there and takes requests; asked once."""
        try:
            return bool((await self._http.get("/readyz", timeout=self._timeout)).is_success)
        except self._httpx.TransportError:
            return False

    async def _all_answers(self, parts: Sequence[Call[list[Answer]]]) -> list[Answer]:
        answers = calls.Answers(parts)
        for part in parts:
            try:
                answers.add(await self._answer(part))
            except MixtsError as error:
                return answers.cut_short(error)
        return answers.found

    async def _answer(self, call: Call[Answer]) -> Answer:
        if call.known is not None:
            return call.known
        attempts, outcome = self._attempts(), None
        while True:
            try:
                outcome = await self._http.request(
                    call.method, call.path, content=call.body, timeout=attempts.timeout()
                )
            except self._httpx.TransportError as error:
                outcome = error
            pause = self._pause(attempts, outcome)
            if pause is None:
                return call.result(outcome.status_code, outcome.content)
            await self._wait(pause)

    async def _wait(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
