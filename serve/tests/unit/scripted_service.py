"""A service with scripted responses for tests of the clients, and a clock that they move."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from mixts_serve.client import AsyncClient, Client
from mixts_serve.records import Decision

URL = "http://127.0.0.1:8000"
DECIDED = {
    "id": "0" * 32, "task": "u17", "action": 2, "arm": "c", "propensity": 0.25,
    "weights": [0.5, 0.5], "prior_version": 3,
}  # fmt: skip
DECISION = Decision("0" * 32, "u17", 2, 0.25, (0.5, 0.5), 3, "c")
BUSY = {"error": {"code": "overloaded", "message": "too much is waiting"}}


class Service:
    """Service that responds to each request with the next step, and records the requests.

    A step is a status and JSON (and headers), or an exception, for no response. The last step
    repeats. Time passes only while a client waits, and ``takes`` seconds for each request.
    """

    def __init__(self, *steps: Any, takes: float = 0.0) -> None:
        self.steps = list(steps)
        self.takes = takes
        self.asked: list[httpx.Request] = []
        self.pauses: list[float] = []
        self.now = 100.0

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        self.now += self.takes
        step = self.steps.pop(0) if len(self.steps) > 1 else self.steps[0]
        if isinstance(step, type):
            raise step("gone", request=request)
        status, content, *headers = step
        return httpx.Response(status, json=content, headers=headers[0] if headers else None)

    def wait(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds

    async def wait_async(self, seconds: float) -> None:
        self.wait(seconds)

    @property
    def bodies(self) -> list[Any]:
        return [json.loads(request.content) for request in self.asked]


class Blocking:
    """Calls the methods of a blocking or an asyncio client."""

    kind: type = Client

    def __init__(self, service: Service, **settings: Any) -> None:
        transport = httpx.MockTransport(service)
        self.client = self.kind(URL, transport=transport, **settings)
        self.client._clock = lambda: service.now
        self.client._wait = service.wait if self.kind is Client else service.wait_async

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            answer = getattr(self.client, name)(*arguments, **options)
            return asyncio.run(answer) if inspect.isawaitable(answer) else answer

        return call


class Awaited(Blocking):
    kind = AsyncClient


@pytest.fixture(params=[Blocking, Awaited], ids=["blocking", "asyncio"])
def client_of(request: pytest.FixtureRequest) -> Callable[..., Any]:
    return request.param
