"""Raw requests to the ASGI application, and a decider with scripted results."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from mixts_serve.http.app import Service
from mixts_serve.records import Decide, Decision, Health, Operation, Receipt, Result
from mixts_serve.rules import Policy

JSON = ("content-type", "application/json")
ID = "0" * 32


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> Any:
        assert self.headers["content-type"] == "application/json"
        assert set(self.json) == {"error"}
        return self.json["error"]


def call(
    service: Service,
    method: str,
    path: str,
    body: bytes | Sequence[bytes] = b"",
    headers: Sequence[tuple[str, str]] = (),
    host: str | None = "127.0.0.1:8321",
    client: str = "127.0.0.1",
) -> Answer:
    """Send one request; a body may arrive in several parts."""
    return asyncio.run(request(service, method, path, body, headers, host, client))


async def request(
    service: Service, method: str, path: str, body: bytes | Sequence[bytes],
    headers: Sequence[tuple[str, str]], host: str | None, client: str,
) -> Answer:  # fmt: skip
    parts = [body] if isinstance(body, bytes) else list(body)
    given = [*headers, *([("host", host)] if host is not None else [])]
    raw, _, query = path.partition("?")
    scope = {
        "type": "http", "method": method, "path": unquote(raw), "raw_path": raw.encode(),
        "query_string": query.encode(), "root_path": "", "scheme": "http", "http_version": "1.1",
        "client": (client, 50000), "server": ("127.0.0.1", 8321),
        "headers": [(name.encode(), value.encode("latin-1")) for name, value in given],
    }  # fmt: skip
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        if not parts:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": parts.pop(0), "more_body": bool(parts)}

    async def send(message: Any) -> None:
        sent.append(dict(message))

    await service(scope, receive, send)
    if not sent:
        return Answer(0, {}, b"")
    names = [name.decode() for name, _ in sent[0]["headers"]]
    assert len(names) == len(set(names))
    answered = {name.decode(): value.decode("latin-1") for name, value in sent[0]["headers"]}
    content = b"".join(message.get("body", b"") for message in sent[1:])
    return Answer(sent[0]["status"], answered, content)


def post(service: Service, path: str, content: Any, **options: Any) -> Answer:
    """A request with a body in JSON; bytes are sent as they are."""
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    headers = [*options.pop("headers", ()), JSON, ("content-length", str(len(body)))]
    return call(service, "POST", path, body, headers, **options)


def get(service: Service, path: str, **options: Any) -> Answer:
    return call(service, "GET", path, **options)


def answered(operation: Operation) -> Result:
    """A decision or a receipt, whatever was asked for."""
    if isinstance(operation, Decide):
        return Decision(ID, operation.task, 2, 0.25, (0.5, 0.5), 1)
    return Receipt(False)


@dataclass
class FakeDecider:
    """Answers from a thread of its own, as the writer does."""

    answer: Callable[[Operation], Result] = answered
    refuses: Exception | None = None
    submitted: list[Operation] = field(default_factory=list)
    writable: bool = True
    policy: Policy = Policy("ids")  # noqa: RUF009  # frozen
    seconds: float | None = 0.0
    """After which it answers; None: never."""

    def submit(
        self,
        operations: Sequence[Operation],
        done: Callable[[list[Result]], None],
        loop: Any = None,
    ) -> None:
        if self.refuses is not None:
            raise self.refuses
        self.submitted += operations
        if self.seconds is not None:
            results = [self.answer(operation) for operation in operations]
            threading.Timer(self.seconds, done, (results,)).start()

    def health(self) -> Health:
        return Health(self.writable, None if self.writable else "the disk is full", 7)


def service(decider: FakeDecider | None = None, **options: Any) -> Service:
    """Without a store: for what never reaches it."""
    return Service(decider or FakeDecider(), None, **options)
