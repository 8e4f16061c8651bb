"""A connection that ends when its headers are too large, or a request comes too slowly.

uvicorn's parser reads headers of any size and waits for them for ever; the application sees a
request only when its headers are complete. Answers leave in one piece, where uvicorn would send
headers and content one after the other and wake the client twice.
"""

from __future__ import annotations

from asyncio import TimerHandle
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from mixts.service.http import protocol
from mixts.service.http.limits import Limits, headers_too_large
from mixts.service.http.refusals import CLOSE, JSON, RefusalError, try_later
from mixts.service.http.security import HEADERS


class Joined:
    """A transport that keeps the headers of an answer until its content is there."""

    __slots__ = ("_head", "_transport")

    def __init__(self, transport: Any) -> None:
        self._transport = transport
        self._head = b""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Headers, which end with an empty line, wait; so may content, until ``flush``."""
        data = self._head + data
        is_head = data.endswith(b"\r\n\r\n") and not data.startswith(_GO_ON)
        self._head = data if is_head else b""
        if not is_head:
            self._transport.write(data)

    def flush(self) -> None:
        """The answer is complete, whatever it looks like."""
        head, self._head = self._head, b""
        if head:
            self._transport.write(head)

    def close(self) -> None:
        """After all that was written."""
        self.flush()
        self._transport.close()


_GO_ON = b"HTTP/1.1 100"
"""Clients wait for this before they send anything more."""


class Connection(HttpToolsProtocol):
    """One of at most ``most`` connections at the same time."""

    def __init__(self, limits: Limits, most: int, **options: Any) -> None:
        super().__init__(**options)
        self._limits = limits
        self._most = most
        self._arrived = 0
        """Bytes of a request that is not complete yet."""
        self._in_head = self._incomplete = False
        self._deadline: TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:  # uvloop's are of no common class
        super().connection_made(cast(Any, Joined(transport)))
        if len(self.connections) > self._most:
            busy = f"there are {self._most:,} connections already: try again later"
            self._end(RefusalError(503, "overloaded", busy, headers=try_later(1)))

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        self._arrived += len(data)
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._in_head and self._arrived > self._limits.head:
            self._end(headers_too_large(self._limits))
        elif self._incomplete:
            if self._deadline is None:
                self._deadline = self.loop.call_later(self._limits.seconds, self._too_slow)
        elif self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head = self._incomplete = True

    def on_headers_complete(self) -> None:
        self._in_head = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._arrived = 0
        self._incomplete = False
        super().on_message_complete()

    def on_response_complete(self) -> None:
        cast(Joined, self.transport).flush()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        super().connection_lost(exc)

    def _too_slow(self) -> None:
        if self.cycle is None or self.cycle.response_complete or not self.cycle.response_started:
            expected = f"a request must arrive within {self._limits.seconds:g} seconds"
            self._end(RefusalError(408, "timeout", expected))
        self.transport.close()

    def send_400_response(self, msg: str) -> None:
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete and not cycle.more_body:
            # What came before is answered first, and nothing after it.
            cycle.keep_alive = False
            self.flow.pause_reading()
            return
        self._end(RefusalError(400, "bad_request", "expected a request of HTTP/1.1"))

    def _end(self, refused: RefusalError) -> None:
        """Answer without the application, and close."""
        body = protocol.encode(protocol.error(refused))
        length = (b"content-length", b"%d" % len(body))
        headers = dict([JSON, length, *HEADERS, *refused.headers, CLOSE])
        lines = [b": ".join(header) + b"\r\n" for header in headers.items()]
        self.transport.write(b"".join([STATUS_LINE[refused.status], *lines, b"\r\n", body]))
        self.transport.close()
