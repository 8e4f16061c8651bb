"""Bodies that arrive faster than the application takes them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mixts.service.http.connection import BODY_BYTES, READ_BYTES, Connection
from mixts.service.http.connections import Connections
from mixts.service.http.limits import Limits


class FakeTransport:
    """Transport that counts what is asked of it, and sends nothing."""

    def __init__(self) -> None:
        self.is_paused = False

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments, **options: None

    def get_extra_info(self, name: str) -> tuple[str, int]:
        return "127.0.0.1", 1

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False


async def received(body: bytes) -> bytes:
    """Send a body to an application that begins to read late, and return what it reads."""
    ready: asyncio.Event = asyncio.Event()
    found: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await ready.wait()
        parts, more = [], True
        while more:
            message = await receive()
            parts.append(message["body"])
            more = message["more_body"]
        found.set_result(b"".join(parts))

    shared = Connections(app, Limits(), 10)
    connection, transport = Connection(shared), FakeTransport()
    connection.connection_made(transport)
    head = b"POST /v1/decide HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(body)
    unsent = head + body
    while unsent or not found.done():
        if unsent and not transport.is_paused:
            part, unsent = unsent[:READ_BYTES], unsent[READ_BYTES:]
            shared.buffer[: len(part)] = part
            connection.buffer_updated(len(part))
        else:
            ready.set()
            await asyncio.sleep(0)
    return await found


@pytest.mark.parametrize(
    "size", [100, BODY_BYTES, BODY_BYTES + 2_000, BODY_BYTES + READ_BYTES - 100, 5 * BODY_BYTES]
)
def test_an_application_that_reads_late_gets_the_whole_body(size: int) -> None:
    body = bytes(k % 251 for k in range(size))
    assert asyncio.run(received(body)) == body
