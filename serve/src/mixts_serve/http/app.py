"""The ASGI application: checks every request, performs decisions and rewards, routes all others."""

from __future__ import annotations

import asyncio
import logging
import re
import threading
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache, partial
from time import perf_counter
from typing import Any, NamedTuple

import msgspec

from mixts.errors import MixtsError, ParameterError, StoreError
from mixts_serve.http import Receive, Scope, Send, endpoints, protocol
from mixts_serve.http.endpoints import Endpoints, Request
from mixts_serve.http.metrics import Metrics
from mixts_serve.http.openapi import BODY_ERRORS, Endpoint, document
from mixts_serve.http.protocol import Headers, Limits, read_body, read_headers
from mixts_serve.http.refusals import (
    Header,
    RefusalError,
    refusal_for,
    retry_after,
    wrong_method,
)
from mixts_serve.http.security import OPEN_PATHS, SECURITY_HEADERS, Gate, Tokens
from mixts_serve.records import (
    Activate,
    Decide,
    Decision,
    MadeDecision,
    Operation,
    Receipt,
    Result,
    Reward,
)

PIECE_BYTES = 32 << 10
"""Bytes of a large body that are decoded at a time, which takes a few milliseconds."""

access_log = logging.getLogger("mixts_serve.access")


# -- operations -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OperationKind:
    """Decide, reward or activate: an operation that clients send alone or in batches."""

    name: str
    read: Callable[[Any, Limits], Operation]
    request: type[Operation]
    response: type[Decision | Receipt]
    summary: str
    batch_summary: str
    conflict_field: str
    """Field of the request that error responses name for a conflict."""
    errors: tuple[int, ...]
    """Status codes of errors that one operation can have, apart from those of every body."""

    def endpoints(self) -> list[Endpoint]:
        """Return the endpoint for one operation and the endpoint for a batch."""
        path = f"/v1/{self.name}"
        return [
            Endpoint(
                "POST", path, self.name, self.summary, self.response, self.request, "write",
                errors=(*self.errors, *BODY_ERRORS),
            ),
            Endpoint(
                "POST", f"{path}:batch", f"{self.name}_batch", self.batch_summary, self.response,
                self.request, "write", errors=BODY_ERRORS, is_batch=True,
            ),
        ]  # fmt: skip


DECIDE = OperationKind(
    "decide", protocol.read_decide, Decide, Decision, "Choose an action for a task",
    "Make many decisions, each with its own result", "key", (409,),
)  # fmt: skip
MADE = OperationKind(
    "decisions", protocol.read_made, MadeDecision, Decision,
    "Log a decision that a client made while the service was away",
    "Log many decisions that a client made, each with its own result", "id", (409,),
)  # fmt: skip
REWARD = OperationKind(
    "reward", protocol.read_reward, Reward, Receipt, "Report the reward of a decision",
    "Report many rewards, each with its own result", "value", (404, 409),
)  # fmt: skip
ACTIVATE = OperationKind(
    "activate", protocol.read_activate, Activate, Receipt,
    "Begin the reward window of a deferred decision: its action was shown",
    "Activate many decisions, each with its own result", "id", (404,),
)  # fmt: skip
KINDS = (DECIDE, MADE, REWARD, ACTIVATE)


class OperationAddress(NamedTuple):
    """Endpoint of one operation or of a batch."""

    name: str
    kind: OperationKind
    is_batch: bool


OPERATIONS = {
    endpoint.path: OperationAddress(endpoint.name, kind, endpoint.is_batch)
    for kind in KINDS
    for endpoint in kind.endpoints()
}
ENDPOINTS = (*(each for kind in KINDS for each in kind.endpoints()), *endpoints.ENDPOINTS)
"""All endpoints, for the OpenAPI document."""


class Completions:
    """Passes results from the writer's thread to the event loop.

    The writer's thread completes the submissions of a batch one by one, but the event loop wakes
    up once for all of them. If every submission woke it, the two threads would take turns after
    each, and the writer could wait for the interpreter's switch interval every time.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._thread = threading.get_ident()
        self._results: deque[tuple[asyncio.Future[list[Result]], list[Result]]] = deque()
        self._is_scheduled = False

    def put(self, future: asyncio.Future[list[Result]], results: list[Result]) -> None:
        """Complete a future; the event loop's thread and the writer's may call this."""
        self._results.append((future, results))
        if threading.get_ident() == self._thread:
            self._complete_all()
            return
        if not self._is_scheduled:
            self._is_scheduled = True
            try:
                self.loop.call_soon_threadsafe(self._complete_all)
            except RuntimeError:
                return  # the event loop has ended, so no request waits for a response

    def _complete_all(self) -> None:
        # Reset first: a result that arrives during the loop schedules the next call.
        self._is_scheduled = False
        while self._results:
            future, results = self._results.popleft()
            if not future.done():  # or its request was cancelled
                future.set_result(results)


class Turns:
    """Turns of large bodies: they are decoded one at a time, in pieces with rests between them.

    After each piece the event loop rests for as long as the piece took. It serves other requests
    then, and the writer's thread gets the interpreter's lock. Without a rest, the event loop would
    take the lock again before a thread that waits for it has woken up: a small batch, which takes
    the lock after each SQL statement, could wait for tenths of a second.
    """

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._since = 0.0

    async def __aenter__(self) -> None:
        await self._lock.acquire()
        self._since = perf_counter()

    async def __aexit__(self, *error: object) -> None:
        try:
            await self.rest()
        finally:
            self._lock.release()

    async def rest(self) -> None:
        """Rest for as long as the work since the last rest took."""
        await asyncio.sleep(perf_counter() - self._since)
        self._since = perf_counter()


class Operations:
    """Performs decisions and rewards: decodes, submits, and responds when they are durable."""

    def __init__(self, decider: Any, limits: Limits, metrics: Metrics) -> None:
        self._decider = decider
        self._limits = limits
        self._metrics = metrics
        self._completions: Completions | None = None
        self._turns = Turns()

    async def perform(self, kind: OperationKind, body: bytes) -> bytes:
        """Return the response to one operation when it is durable; raise if it was refused."""
        result: Result | RefusalError
        try:
            # Large bodies are decoded one at a time.
            async with self._turns if len(body) > PIECE_BYTES else nullcontext():
                done = self._submit([kind.read(body, self._limits)])
            (result,) = await done
        except (RefusalError, MixtsError) as error:
            result = error
        if isinstance(result, (RefusalError, MixtsError)):
            refusal = refusal_for(result, kind.conflict_field)
            self._metrics.count_operations(kind.name, refusal.status)
            raise refusal
        self._metrics.count_operations(kind.name, 200)
        return protocol.encode(self._response(kind, result))

    async def perform_batch(self, kind: OperationKind, body: bytes) -> bytes:
        """Return the result of each item; raise if the store refused the whole batch."""
        decoded = await self._read_batch(kind, body)
        operations = [item for item in decoded if not isinstance(item, RefusalError)]
        try:
            results = iter(await self._submit_batch(operations))
        except StoreError as error:
            self._metrics.count_operations(kind.name, refusal_for(error).status, len(operations))
            raise
        statuses: Counter[int] = Counter()
        responses: list[Any] = []
        for item in decoded:
            result = item if isinstance(item, RefusalError) else next(results)
            if isinstance(result, (RefusalError, MixtsError)):
                refusal = refusal_for(result, kind.conflict_field)
                statuses[refusal.status] += 1
                responses.append(protocol.error_response(refusal, item=True))
            else:
                statuses[200] += 1
                responses.append(self._response(kind, result))
        for status, n in statuses.items():
            self._metrics.count_operations(kind.name, status, n)
        return protocol.encode(responses)

    async def _read_batch(self, kind: OperationKind, body: bytes) -> list[Operation | RefusalError]:
        """Decode the items of a batch; a large one in pieces."""
        if len(body) <= PIECE_BYTES:
            items = protocol.split_batch(body, self._limits)
            return [self._read(kind, item) for item in items]
        decoded = []
        size = PIECE_BYTES
        async with self._turns:
            for item in protocol.split_batch(body, self._limits):
                if size >= PIECE_BYTES:
                    size = 0
                    await self._turns.rest()
                decoded.append(self._read(kind, item))
                size += memoryview(item).nbytes
        return decoded

    def _read(self, kind: OperationKind, item: Any) -> Operation | RefusalError:
        try:
            return kind.read(item, self._limits)
        except RefusalError as refusal:
            return refusal

    def _response(self, kind: OperationKind, result: Decision | Receipt) -> Decision | Receipt:
        """Count a result, and return its response; a retry gets the first try's response."""
        if kind is not ACTIVATE:
            self._metrics.count_result(result)
        if isinstance(result, Decision) and result.repeated:
            return msgspec.structs.replace(result, repeated=False)
        return result

    async def _submit_batch(self, operations: list[Operation]) -> list[Result]:
        """Return the results; raise the store's error if all operations failed with one."""
        if not operations:
            return []
        results = await self._submit(operations)
        if all(isinstance(result, StoreError) for result in results):
            raise results[0]  # type: ignore[misc]  # it is an exception
        return results

    def _submit(self, operations: Sequence[Operation]) -> asyncio.Future[list[Result]]:
        """Submit operations to the decider, and return the future of their results."""
        loop = asyncio.get_running_loop()
        completions = self._completions
        if completions is None or completions.loop is not loop:
            completions = self._completions = Completions(loop)
        future: asyncio.Future[list[Result]] = loop.create_future()
        self._decider.submit(operations, partial(completions.put, future), loop)
        return future


# -- the application ------------------------------------------------------------------------------


class Service:
    """The decision service as an ASGI application; all requests must come from one event loop."""

    def __init__(
        self,
        decider: Any,
        store: Any,
        *,
        tokens: Tokens | None = None,
        host: str = "127.0.0.1",
        limits: Limits | None = None,
        prefix: str = "",
    ) -> None:
        self._limits = limits or Limits()
        self._prefix = checked_prefix(prefix)
        self._gate = Gate(tokens, host)
        self.metrics = Metrics()
        self._operations = Operations(decider, self._limits, self.metrics)
        needs_token = tokens is not None

        @cache
        def openapi() -> bytes:
            return protocol.encode(document(ENDPOINTS, self._limits, needs_token, self._prefix))

        self._endpoints = Endpoints(
            decider, store, self._limits, self.metrics, openapi, needs_token
        )

    def use_tokens(self, tokens: Tokens) -> None:
        """Admit clients by these tokens from now on; not for a service that had none."""
        self._gate.use_tokens(tokens)

    def close(self) -> None:
        """End the threads that read the store."""
        self._endpoints.readers.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond to one request."""
        if scope["type"] != "http":
            raise NotImplementedError(f"this application speaks HTTP, not {scope['type']}")
        started = perf_counter()
        operation, sender = None, Sender(send)
        try:
            if self._prefix:
                self._leave_prefix(scope)
            operation = OPERATIONS.get(scope["path"])
            headers = read_headers(scope["headers"])
            self._gate.admit(scope, headers)
            if operation is None:
                await self._route(scope, receive, sender)
            else:
                await self._operate(operation, scope, receive, sender, headers)
        except asyncio.CancelledError:
            await sender.refuse(STOPPING)
        except Exception as error:
            await sender.refuse(refusal_for(error))
        name = operation.name if operation else scope.get("mixts.endpoint", "none")
        self._count(name, scope, sender.status, started)

    def _leave_prefix(self, scope: Scope) -> None:
        """Take the prefix off the path; health checks are answered without it, too."""
        prefix, path = self._prefix, scope["path"]
        if path.startswith(f"{prefix}/") and scope["raw_path"].startswith(f"{prefix}/".encode()):
            scope["path"] = path.removeprefix(prefix)
            scope["raw_path"] = scope["raw_path"].removeprefix(prefix.encode())
            scope["root_path"] = prefix
        elif path == prefix:
            location = (b"location", f"{prefix}/".encode())
            raise RefusalError(308, "moved", f"the pages are at {prefix}/", headers=(location,))
        elif path not in OPEN_PATHS:
            raise RefusalError(404, "not_found", f"all addresses begin with {prefix}/")

    async def _operate(
        self, operation: OperationAddress, scope: Scope, receive: Receive, sender: Sender,
        headers: Headers,
    ) -> None:  # fmt: skip
        if scope["method"] != "POST":
            raise wrong_method("POST")
        protocol.check_content_type(headers)
        body = await read_body(receive, headers, self._limits.body)
        _, kind, is_batch = operation
        perform = self._operations.perform_batch if is_batch else self._operations.perform
        await sender.respond(200, await perform(kind, body))

    def _count(self, name: str, scope: Scope, status: int, started: float) -> None:
        self.metrics.count_request(name, status, perf_counter() - started)
        if access_log.isEnabledFor(logging.DEBUG):
            # Not the path: a task's name may be in it.
            address = (scope.get("client") or ("",))[0]
            access_log.debug("%s %s %s %d", address, scope["method"], name, status)

    async def _route(self, scope: Scope, receive: Receive, sender: Sender) -> None:
        """Respond to a request for anything but an operation."""
        name, handle, parameters = self._endpoints.find(scope["method"], scope["raw_path"])
        scope["mixts.endpoint"] = name
        response = await handle(Request(scope, receive, parameters))
        await sender.respond(response.status, response.body, response.headers, response.kind)


_PREFIX = re.compile(r"(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)*")


def checked_prefix(prefix: str) -> str:
    """Return the beginning of all addresses, such as "/bandit", or an empty one."""
    if not _PREFIX.fullmatch(prefix):
        raise ParameterError(
            f"a path prefix is like /bandit, of letters, digits and -._~, got {prefix!r}"
        )
    return prefix


STOPPING = RefusalError(
    503, "stopping", "the service is stopping: try again", headers=retry_after(5)
)
"""Sent if the service stops before the store has responded: the outcome is unknown."""


class Sender:
    """Sends one response and adds the security headers."""

    __slots__ = ("_send", "status")

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status = 0
        """Status of the response; 0 before it has begun."""

    async def respond(
        self,
        status: int,
        body: bytes,
        headers: tuple[Header, ...] = (),
        kind: bytes = b"application/json",
    ) -> None:
        """Send a whole response of a kind, a media type."""
        self.status = status
        own = {name for name, _ in headers}
        given = [
            (b"content-type", kind),
            (b"content-length", b"%d" % len(body)),
            *(header for header in SECURITY_HEADERS if header[0] not in own),
            *headers,
        ]
        await self._send({"type": "http.response.start", "status": status, "headers": given})
        await self._send({"type": "http.response.body", "body": body})

    async def refuse(self, refusal: RefusalError) -> None:
        """Send an error, unless a response has already begun."""
        if not self.status:
            await self.respond(refusal.status, protocol.encode_error(refusal), refusal.headers)
