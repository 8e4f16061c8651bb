"""The connection of a client: HTTP/1.1 on the parser httptools, with limits on what it may cost.

A client that has shown no token must not fill the memory, and must not keep others from being
served. So these limits hold before the application sees a request; ``tests/attacks`` attacks them:

- The parser gets little at a time, and nothing while a request is being answered or the application
  has not taken the body so far. What the client sends meanwhile stays in the system's buffers, so
  requests in advance ("pipelining") and bodies need next to no memory.
- A response is made after the one before it has left the process: one response at most waits for a
  client that does not read.
- Requests in advance of all clients together take turns with what else there is to do.
- Whenever the next step is the client's, there is a deadline: to send a request, to read a
  response, to close.
- Headers end before the body. Trailers, which could pass for headers, are refused. So are other
  protocols and versions, and bodies in another coding than chunks. A client that offers another
  protocol is answered in HTTP/1.1.

``connections`` limits the number of connections.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import deque
from collections.abc import Iterable
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import httptools
from starlette.types import Message, Scope

from mixts.service.http import protocol
from mixts.service.http.limits import headers_too_large
from mixts.service.http.refusals import CLOSE, JSON, Header, RefusalError, retry_after
from mixts.service.http.security import SECURITY_HEADERS

if TYPE_CHECKING:
    from mixts.service.http.connections import Connections

log = logging.getLogger("mixts.service")
access_log = logging.getLogger("mixts.access")

READ_BYTES = 16 << 10
"""Most bytes of one read, which a connection may have to keep until it has answered a request."""

PARSED_BYTES = 1 << 10
"""Most bytes that the parser gets at once: they contain some 50 of the shortest requests."""

BODY_BYTES = 64 << 10
"""Bytes of a body that wait for the application before nothing more is read."""

LINGER_SECONDS = 2.0
"""Time for a client that is still sending to read a refusal. If its connection were closed at once,
the system would answer what it sends with a reset, which discards the refusal."""

DISCARDED_BYTES = 8 << 20
"""Bytes that are read and discarded after a refusal, at most."""

STATUS_LINES = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus
}


# -- requests -------------------------------------------------------------------------------------


class Request:
    """A request and its response, as ASGI calls them: ``scope``, ``receive`` and ``send``."""

    __slots__ = (
        "_connection", "_message", "_parts", "_waiter", "body", "due", "expects_continue",
        "headers", "is_answered", "is_complete", "is_dropped", "is_passed_on", "is_persistent",
        "scope", "url",
    )  # fmt: skip

    def __init__(self, connection: Connection, due: float) -> None:
        self._connection = connection
        self._message: Message | None = None
        self._parts: list[bytes] = []
        self._waiter: asyncio.Future[None] | None = None
        self.due = due
        """Time by which the whole request must have arrived."""
        self.url = b""
        self.headers: list[Header] = []
        self.scope: Scope | None = None
        """None until all headers have arrived."""
        self.body = bytearray()
        """What has arrived and the application has not taken."""
        self.expects_continue = False
        self.is_persistent = False
        """True if the connection goes on after the response."""
        self.is_complete = False
        self.is_passed_on = False
        """True if the application has taken the last part of the body."""
        self.is_answered = False
        self.is_dropped = False
        """True if there will be no response: the client is gone or was refused."""

    def wake(self) -> None:
        """Let the application go on that waits for a part of the body."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def drop(self) -> None:
        """Tell the application that the client is gone."""
        self.is_dropped = True
        self.wake()

    async def receive(self) -> Message:
        """Return the part of the body that has arrived, or wait for one."""
        while not (self.is_dropped or self.is_answered):
            if self.body or (self.is_complete and not self.is_passed_on):
                part, self.body = bytes(self.body), bytearray()
                is_last = self.is_passed_on = self.is_complete
                self._connection.read_on()  # may complete the body, but this part stays as it is
                return {"type": "http.request", "body": part, "more_body": not is_last}
            if self.expects_continue:
                self.expects_continue = False
                self._connection.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            self._waiter = self._connection.shared.loop.create_future()
            await self._waiter
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """Take a part of the response; the last part sends all of them."""
        if message["type"] == "http.response.start":
            self._message = message
            return
        self._parts.append(message.get("body", b""))
        if not message.get("more_body", False) and self._message is not None:
            self._connection.respond(
                self, self._message["status"], self._message["headers"], b"".join(self._parts)
            )


# -- connections ----------------------------------------------------------------------------------


class Connection(asyncio.BufferedProtocol):
    """One connection: it reads requests, has the application answer them in turn, and ends."""

    transport: Any  # those of uvloop have no class in common with those of asyncio

    def __init__(self, shared: Connections) -> None:
        self.shared = shared
        self.address = ""
        """The address that the connection is counted by."""
        self.deadline = math.inf
        """Time by which the client must have taken its next step; infinite if it has none."""
        self._limits = shared.limits
        self._addresses: dict[str, Any] = {}
        self._parser = httptools.HttpRequestParser(self)
        self._problem: RefusalError | None = None
        """Why a callback stopped the parser."""
        self._reading: Request | None = None
        """The request of which a part is still to come."""
        self._requests: deque[Request] = deque()
        """Requests whose headers have arrived; the first one is being answered."""
        self._n_bytes = 0
        """Bytes since the last header, part of a body or end of a request."""
        self._n_discarded = 0
        """Bytes since the request that is being read had its response."""
        self._head = b""
        """What the parser got last, from the beginning of a request that had begun before."""
        self._unread = b""
        """What was received and not parsed."""
        self._is_paused = False
        """True if no more bytes are received."""
        self._paused_at = 0.0
        """Time since when."""
        self._is_writing = False
        """True while a part of a response has not left the process."""
        self._is_ending = False
        """True if no further request is read: the connection ends after the last response."""

    # -- the transport's calls ----------------------------------------------------------------

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        client, server = (transport.get_extra_info(name) for name in ("peername", "sockname"))
        self._addresses = {"client": client and client[:2], "server": server and server[:2]}
        # ``pause_writing`` is called as soon as the system does not take all of a response.
        transport.set_write_buffer_limits(high=0)
        self.deadline = self._now() + self._limits.seconds
        if not self.shared.add(self, client[0] if client else ""):
            busy = "there are too many connections: try again later"
            self._refuse(
                RefusalError(503, "overloaded", busy, headers=retry_after(1)), linger=False
            )

    def get_buffer(self, sizehint: int) -> bytearray:
        return self.shared.buffer

    def buffer_updated(self, nbytes: int) -> None:
        if self._is_ending or (self._reading is not None and self._reading.is_answered):
            self._n_discarded += nbytes
            if self._n_discarded > DISCARDED_BYTES:
                self.transport.abort()
                return
        if not self._is_ending:
            self._parse(memoryview(self.shared.buffer)[:nbytes])

    def eof_received(self) -> bool:
        """Close, unless the client waits for a response: it may have closed only its own side."""
        self._is_ending = True
        self._drop_incomplete()
        return bool(self._requests)

    def pause_writing(self) -> None:
        self._is_writing = True
        self.deadline = self._now() + self._limits.seconds

    def resume_writing(self) -> None:
        self._is_writing = False
        self._set_deadline()
        self._go_on()
        self.read_on()

    def connection_lost(self, exc: Exception | None) -> None:
        self.forget()

    def forget(self) -> None:
        """Let everybody forget the connection, and tell the application that the client is gone."""
        self.shared.remove(self)
        self.deadline = math.inf
        self._is_ending = True
        for request in self._requests:
            request.drop()
        self._requests.clear()
        self._reading = self._parser = None  # type: ignore[assignment]  # ends the cycle

    # -- the server's calls -------------------------------------------------------------------

    def expire(self) -> None:
        """End the connection: its client is late."""
        if self._is_ending or self._is_writing:
            self.transport.abort()
        elif self._reading is not None and not self._reading.is_answered:
            expected = f"a request must arrive within {self._limits.seconds:g} seconds"
            self._refuse(RefusalError(408, "timeout", expected))
        else:
            self._close()

    def stop(self) -> None:
        """End the connection after the responses to the requests that have begun."""
        if all(request.is_answered for request in self._requests):
            self._is_ending = True
            self.transport.close()

    # -- reading ------------------------------------------------------------------------------

    def _now(self) -> float:
        return self.shared.loop.time()

    def _is_blocked(self) -> bool:
        """Return whether what comes must wait, for a response or for the application."""
        if not self._requests:
            return False
        first = self._requests[0]
        return first.is_complete or len(first.body) > BODY_BYTES

    def _parse(self, data: memoryview) -> None:
        for start in range(0, len(data), PARSED_BYTES):
            if self._is_blocked():
                self._unread = bytes(data[start:])
                self._is_paused, self._paused_at = True, self._now()
                self.transport.pause_reading()
                self._set_deadline()
                return
            part = bytes(data[start : start + PARSED_BYTES])
            self._n_bytes += len(part)
            self._feed(part)
            self._go_on()  # if the request had its response before its end
            if self._is_ending:
                return
            if self._n_bytes > self._limits.head:
                self._refuse(headers_too_large(self._limits))
                return

    def _feed(self, part: bytes) -> None:
        """Parse the next bytes; refuse what is no request."""
        has_begun = self._reading is not None and self._reading.scope is None
        self._head = self._head + part if has_begun else part
        try:
            self._parser.feed_data(part)
        except httptools.HttpParserUpgrade as upgrade:
            if self._reading is not None:
                self._feed(self._without_upgrade(self._reading) + part[upgrade.args[0] :])
            else:
                self._is_ending = True
        except httptools.HttpParserError:
            expected = RefusalError(400, "bad_request", "expected a request of HTTP/1.1")
            self._refuse(self._problem or expected)

    def _without_upgrade(self, request: Request) -> bytes:
        """Return the head of a request without its offer to speak another protocol.

        Java's HttpClient and ``curl --http2`` offer HTTP/2. The parser then expects that the body,
        if there is one, is of that protocol: another parser reads the request again.
        """
        version = self._parser.get_http_version().encode()
        lines = [b"%s %s HTTP/%s" % (self._parser.get_method(), request.url, version)]
        for name, value in request.headers:
            if name == b"connection":
                tokens = [token.strip().lower() for token in value.split(b",")]
                value = b", ".join(token for token in tokens if token in (b"close", b"keep-alive"))
            if name != b"upgrade":
                lines.append(name + b": " + value)
        self._parser, self._reading = httptools.HttpRequestParser(self), None
        return b"\r\n".join(lines) + b"\r\n\r\n"

    def read_on(self) -> None:
        """Parse what was left, and receive more."""
        if self._is_paused and not self._is_ending and not self._is_blocked():
            self._is_paused = False
            if self._reading is not None:  # no part of it could arrive meanwhile
                self._reading.due += self._now() - self._paused_at
            self._set_deadline()
            data, self._unread = self._unread, b""
            self._parse(memoryview(data))
            if not self._is_paused and not self._is_ending:
                self.transport.resume_reading()

    def _set_deadline(self) -> None:
        """Set the time of the client's next step, if it has one."""
        if self._is_writing or (self._is_ending and not self._requests):
            return
        request = self._requests[0] if self._requests else self._reading
        if request is None:
            self.deadline = self._now() + self._limits.idle
        else:
            is_services = request.is_complete or (self._is_paused and not request.is_answered)
            self.deadline = math.inf if is_services else request.due

    # -- the parser's calls; after an exception it calls no more ------------------------------

    def on_message_begin(self) -> None:
        self._reading = Request(self, self._now() + self._limits.seconds)
        if not self._requests:
            self.deadline = self._reading.due

    def on_url(self, url: bytes) -> None:
        assert self._reading is not None
        self._reading.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        request = self._reading
        assert request is not None
        if request.scope is not None:
            self._stop(RefusalError(400, "bad_request", "expected no headers after the body"))
        name = name.lower()
        if name == b"expect" and value.lower() == b"100-continue":
            request.expects_continue = True
        if name == b"transfer-encoding":
            is_second = any(known == name for known, _ in request.headers)
            if is_second or value.strip().lower() != b"chunked":
                expected = "expected a body of a known length, or Transfer-Encoding: chunked"
                self._stop(RefusalError(501, "bad_request", expected))
        request.headers.append((name, value))

    def on_headers_complete(self) -> None:
        request = self._reading
        assert request is not None
        self._n_bytes = 0
        method, version = self._parser.get_method(), self._parser.get_http_version()
        # The parser also takes other protocols, such as RTSP, and does not tell.
        if version not in ("1.0", "1.1") or request.url + b" HTTP/" not in self._head:
            self._stop(RefusalError(505, "bad_request", "expected a request of HTTP/1.1"))
        if self._parser.should_upgrade() and method != b"CONNECT":
            return  # the parser stops now, and the request is read again
        request.is_persistent = version == "1.1" and self._parser.should_keep_alive()
        try:
            url = httptools.parse_url(request.url)
            path = url.path.decode("ascii")
        except (httptools.HttpParserError, ValueError, AttributeError):
            self._stop(RefusalError(400, "bad_request", "expected the path of an address"))
        request.scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": version,
            "scheme": "http",
            "method": method.decode("ascii"),
            "path": unquote(path) if "%" in path else path,
            "raw_path": url.path,
            "query_string": url.query or b"",
            "root_path": "",
            "headers": request.headers,
            **self._addresses,
        }
        self._requests.append(request)
        if len(self._requests) == 1:
            self._set_deadline()
            self._start(request)

    def on_body(self, body: bytes) -> None:
        request = self._reading
        assert request is not None
        self._n_bytes = 0
        if not (request.is_answered or request.is_dropped):
            request.body += body
            request.wake()

    def on_message_complete(self) -> None:
        request = self._reading
        assert request is not None
        if request.scope is None:  # it is read again
            return
        self._reading = None
        self._n_bytes = self._n_discarded = 0
        request.is_complete = True
        self.shared.touch(self)
        request.wake()
        if request is self._requests[0]:
            self._set_deadline()

    def _stop(self, problem: RefusalError) -> None:
        """Stop the parser."""
        self._problem = problem
        raise problem

    # -- responding ---------------------------------------------------------------------------

    def _start(self, request: Request) -> None:
        task = self.shared.loop.create_task(self._run(request))
        self.shared.tasks.add(task)
        task.add_done_callback(self.shared.tasks.discard)

    async def _run(self, request: Request) -> None:
        try:
            assert request.scope is not None
            await self.shared.app(request.scope, request.receive, request.send)
        except Exception:
            log.exception("a request failed")
        if not (request.is_answered or request.is_dropped):
            self.transport.abort()

    def respond(
        self, request: Request, status: int, headers: Iterable[Header], body: bytes
    ) -> None:
        """Send the response to the first request, and go on to the next one or end."""
        if request.is_dropped or request.is_answered:
            return
        assert request.scope is not None
        if access_log.isEnabledFor(logging.DEBUG):
            # The path as it came: once decoded, it may have line breaks.
            path = request.scope["raw_path"].decode()
            access_log.debug("%s %s %s %d", self.address, request.scope["method"], path, status)
        request.is_answered = True
        request.body.clear()
        ends = (
            not request.is_persistent or CLOSE in headers or self.shared.is_stopping
            or (self._is_ending and len(self._requests) == 1)
        )  # fmt: skip
        is_head = request.scope["method"] == "HEAD"
        self._write(status, headers, b"" if is_head else body, ends)
        if ends:
            self._close(linger=not request.is_complete or self._is_paused)
            return
        if not request.is_complete:  # nobody waits for the rest
            request.due = min(request.due, self._now() + LINGER_SECONDS)
            self._set_deadline()
        if self._unread or len(self._requests) > 1:
            self.shared.call_later(self.go_on)
        else:
            self.go_on()

    def go_on(self) -> None:
        """Begin with the next request that has arrived, and read on."""
        self._go_on()
        self.read_on()

    def _go_on(self) -> None:
        """Begin with the next request, if the first one has arrived and its response has left."""
        first = self._requests[0] if self._requests else None
        if first is None or self._is_writing or not (first.is_complete and first.is_answered):
            return
        self._requests.popleft()
        if self._reading is not None:  # its time begins after the response before it
            self._reading.due = self._now() + self._limits.seconds
        if self._requests:
            self._start(self._requests[0])
        elif self._is_ending:
            self._close()
        self._set_deadline()

    def _write(self, status: int, headers: Iterable[Header], body: bytes, ends: bool) -> None:
        lines = [STATUS_LINES[status]]
        for name, value in (self.shared.date, *headers):
            if not (ends and name == b"connection"):
                lines += (name, b": ", value, b"\r\n")
        lines.append(b"connection: close\r\n\r\n" if ends else b"\r\n")
        lines.append(body)
        self.transport.write(b"".join(lines))

    def _refuse(self, refusal: RefusalError, *, linger: bool = True) -> None:
        """Send an error without the application, or only the responses due before it; then end."""
        is_answered = self._reading is not None and self._reading.is_answered
        self._is_ending = True
        self._drop_incomplete()
        if is_answered:
            self._close(linger=True)
        elif not self._requests:
            body = protocol.encode(protocol.error_response(refusal))
            length = (b"content-length", b"%d" % len(body))
            headers = (JSON, length, *SECURITY_HEADERS, *refusal.headers)
            self._write(refusal.status, headers, body, ends=True)
            self._close(linger=linger)

    def _drop_incomplete(self) -> None:
        """Drop the request of which a part is missing."""
        request, self._reading = self._reading, None
        if request is not None:
            request.drop()
            if self._requests and self._requests[-1] is request:
                self._requests.pop()

    def _close(self, *, linger: bool = False) -> None:
        """End the connection when the last response has left; wait for a client that is sending."""
        self._is_ending = True
        self._requests.clear()
        self._unread = b""
        longest = math.inf if self._is_writing else LINGER_SECONDS
        self.deadline = self._now() + min(self._limits.seconds, longest)
        if self._is_paused:
            self._is_paused = False
            self.transport.resume_reading()
        if linger and self.transport.can_write_eof():
            self.transport.write_eof()
        else:
            self.transport.close()
