"""The application: every request passes the same gate, decisions and rewards by the short way."""

from __future__ import annotations

import asyncio
from time import perf_counter
from typing import Any, NamedTuple

from starlette.routing import Router
from starlette.types import Message, Receive, Scope, Send

from mixts.service.http import protocol
from mixts.service.http.endpoints import Endpoints
from mixts.service.http.limits import DisconnectedError, Limits, RateLimit, read_body, read_head
from mixts.service.http.metrics import Metrics
from mixts.service.http.openapi import document
from mixts.service.http.operations import DECIDE, REWARD, Kind, Operations
from mixts.service.http.refusals import JSON, RefusalError, told, try_later, wrong_method
from mixts.service.http.security import HEADERS, OPEN, Gate, Tokens

RATE = 10_000.0
"""Operations a second of one client, unless said otherwise."""


class Short(NamedTuple):
    """An address of decisions or rewards."""

    name: str
    kind: Kind
    many: bool


SHORT = {
    f"/v1/{kind.name}{suffix}": Short(kind.name + suffix.replace(":", "_"), kind, bool(suffix))
    for kind in (DECIDE, REWARD)
    for suffix in ("", ":batch")
}


class Service:
    """The decision service as an ASGI application; many tasks of one event loop call it."""

    def __init__(
        self,
        decider: Any,
        store: Any,
        *,
        tokens: Tokens | None = None,
        host: str = "127.0.0.1",
        limits: Limits | None = None,
        rate: float = RATE,
    ) -> None:
        self._limits = limits or Limits()
        self._gate = Gate(tokens, host)
        self._rate_limit = RateLimit(rate)
        self.metrics = Metrics()
        self._operations = Operations(decider, self._limits, self._rate_limit, self.metrics)
        self._endpoints = Endpoints(
            decider, store, self._limits, self.metrics,
            protocol.encode(document(self._limits, tokens is not None)), tokens is not None,
        )  # fmt: skip
        self._router = Router(self._endpoints.routes(), redirect_slashes=False)

    def close(self) -> None:
        """End the threads that read."""
        self._endpoints.readers.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise NotImplementedError(f"this application speaks HTTP, not {scope['type']}")
        started = perf_counter()
        short = SHORT.get(scope["path"])
        sender = _Sender(send)
        try:
            head = read_head(scope["headers"], self._limits)
            client = self._gate.admit(scope, head, started)
            if short is None:
                if scope["path"] not in OPEN:
                    self._rate_limit.take(client, started)
                await self._rest(scope, receive, sender)
            else:
                self._rate_limit.take(client, started)
                await sender.answer(200, await self._short(short, scope, receive, head, client))
        except DisconnectedError:
            return
        except asyncio.CancelledError:
            # The service ends before the store has answered; whether it did it, nobody knows.
            message = "the service is stopping: ask again"
            await sender.refuse(RefusalError(503, "stopping", message, headers=try_later(5)))
        except Exception as error:
            await sender.refuse(told(error))
        name = short.name if short else getattr(scope.get("endpoint"), "__name__", "none")
        self.metrics.request(name, sender.status, perf_counter() - started)

    async def _short(
        self, short: Short, scope: Scope, receive: Receive, head: dict[bytes, bytes], client: str
    ) -> bytes:
        if scope["method"] != "POST":
            raise wrong_method("POST")
        protocol.check_json(head)
        body = await read_body(receive, head, self._limits.body)
        perform = self._operations.many if short.many else self._operations.one
        return await perform(short.kind, body, client)

    async def _rest(self, scope: Scope, receive: Receive, sender: _Sender) -> None:
        # Routes see the path as it was sent: an encoded slash is part of a task's name.
        scope["path"] = scope["raw_path"].decode("latin-1")
        scope["app"] = self  # so that the router raises what it refuses
        await self._router(scope, receive, sender.send)


# -- answers --------------------------------------------------------------------------------------


class _Sender:
    """Sends one answer, with the headers that every answer has."""

    __slots__ = ("_send", "status")

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status = 0
        """Of the answer, once it has begun."""

    async def answer(
        self, status: int, body: bytes, headers: tuple[tuple[bytes, bytes], ...] = ()
    ) -> None:
        """The whole answer, in JSON."""
        self.status = status
        length = (b"content-length", b"%d" % len(body))
        await self._send(
            {
                "type": "http.response.start",
                "status": status,
                "headers": [JSON, length, *HEADERS, *headers],
            }
        )
        await self._send({"type": "http.response.body", "body": body})

    async def refuse(self, refused: RefusalError) -> None:
        """An answer that says why not; one that has begun stays what it is."""
        if not self.status:
            body = protocol.encode(protocol.error(refused))
            await self.answer(refused.status, body, refused.headers)

    async def send(self, message: Message) -> None:
        """A part of an answer that somebody else made."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = list(message["headers"])
            present = {name for name, _ in headers}
            headers += [header for header in HEADERS if header[0] not in present]
            message["headers"] = headers
        await self._send(message)
