"""Connections of the HTTP server: uvicorn's, with limits on what one client may take."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

import httptools
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from mixts_serve.http import protocol
from mixts_serve.http.app import Service, is_one_operation
from mixts_serve.http.limits import Limits
from mixts_serve.http.refusals import CLOSE, JSON, Header, RefusalError
from mixts_serve.http.security import SECURITY_HEADERS

BUFFER_BYTES = 64 << 10
"""Most bytes of a head, of the trailers or between two chunks: they are kept until they end."""

PIECE_BYTES = 512
"""Bytes that are parsed at a time outside of bodies: about one request. Requests in advance are
parsed when those before them are answered, since a parsed one takes many times its bytes."""

BODY_BYTES = 16 << 10
"""Bytes of a body that are parsed at a time."""

TURNS = 4
"""Requests in advance that are begun in one pass of the event loop, whoever sent them: a thousand
clients that send such requests do not keep others waiting."""

REFUSED_SECONDS = 1.0
"""Time for the body of a request to end that was refused before: many clients read the response
only when they have sent everything."""

_HEADERS = b"".join(b"%b: %b\r\n" % header for header in (JSON, *SECURITY_HEADERS))
_NO_HTTP = RefusalError(400, "bad_request", "expected a request in HTTP/1.1")
_NO_END = RefusalError(400, "bad_request", "the trailers of the body do not end")
_LONG_HEAD = RefusalError(431, "headers_too_large", f"expected at most {BUFFER_BYTES:,} bytes")


class WaitingConnections:
    """Connections whose clients sent requests in advance: they take turns."""

    def __init__(self) -> None:
        self._waiting: deque[Connection] = deque()

    def add(self, connection: Connection) -> None:
        """Let a connection go on when it is its turn."""
        self._waiting.append(connection)
        if len(self._waiting) == 1:
            connection.loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        try:
            for _ in range(min(TURNS, len(self._waiting))):
                self._waiting.popleft().go_on()
        finally:
            if self._waiting:
                self._waiting[0].loop.call_soon(self._go_on)


class JoinedWrites:
    """A transport that sends what is written in one pass of the event loop together.

    uvicorn writes the head of a response and its body by two calls, which would be two packets.
    """

    def __init__(self, transport: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._parts: list[bytes] = []
        self.is_closing = transport.is_closing

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Keep data until the pass of the loop ends."""
        if not self._parts:
            self._loop.call_soon(self._flush)
        self._parts.append(data)

    def write_now(self, data: bytes) -> None:
        """Send a whole response."""
        if self._parts:
            self._flush()
        if not self.is_closing():
            self._transport.write(data)

    def close(self) -> None:
        """Send what is left, and close the connection."""
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        parts, self._parts = self._parts, []
        if parts and not self.is_closing():
            self._transport.write(b"".join(parts))


class Connection(HttpToolsProtocol):
    """A connection that ends if its client sends too slowly, too much or nothing.

    Requests for one operation, which are almost all, need no task of the event loop: the service
    performs them when they have come whole, and calls back. All others are ASGI requests.

    uvicorn waits for a request for ever, keeps heads and trailers of any length, takes trailers for
    headers, and parses requests in advance without end.
    """

    def __init__(
        self, service: Service, limits: Limits, most: int, waiting: WaitingConnections,
        **arguments: Any,
    ) -> None:  # fmt: skip
        super().__init__(**arguments)
        self._service = service
        self._limits = limits
        self._waiting_connections = waiting
        self._most = most
        """Number of connections that may be open."""
        self._rest = b""
        """Bytes that are not parsed yet."""
        self._n_kept = 0
        """Bytes of the present head, trailers or frame of a chunk, about."""
        self._is_in_head = False
        self._has_length = True
        """Whether the client sends its body at once, and said how long it is."""
        self._operation: Any = None
        """The request for one operation whose body has not come whole yet."""
        self._head = b""
        """The present head, as far as it has come."""
        self._deadline: asyncio.TimerHandle | None = None
        """Ends the connection if a head, or the body of a refused request, does not end before."""

    # -- the transport ------------------------------------------------------------------------

    def connection_made(self, transport: Any) -> None:
        """Begin to wait for a request; end at once if there are too many connections."""
        super().connection_made(JoinedWrites(transport, self.loop))  # type: ignore[arg-type]
        if len(self.connections) > self._most:
            transport.abort()
        else:
            self._end_in(self._limits.seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget what was not parsed."""
        self._stop_clock()
        self._unset_keepalive_if_required()  # uvicorn keeps the timer after a reset
        self._rest = b""
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse, but no further than to the first request that must wait for another one."""
        if self._rest:
            self._rest += data
            self.flow.pause_reading()
        elif len(data) <= PIECE_BYTES:
            self._parse_piece(data)
        else:
            self._rest = data
            self._parse_rest()

    def on_response_complete(self) -> None:
        """Go on with the next request, when it is its turn."""
        in_advance = self.pipeline
        if in_advance:  # uvicorn would begin the next request at once
            self.pipeline = deque()
        super().on_response_complete()
        self.pipeline = in_advance
        if self.cycle.response_complete and self.cycle.more_body:
            self._end_in(REFUSED_SECONDS)
        if self.pipeline or self._rest:
            self.flow.pause_reading()
            self._waiting_connections.add(self)

    def go_on(self) -> None:
        """Begin to answer the next request that came in advance."""
        if self.transport.is_closing():
            return
        self._unset_keepalive_if_required()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        else:
            self._parse_rest()

    def _parse_rest(self) -> None:
        """Parse what has arrived, until there is a request that must wait for another one."""
        while self._rest and not self.pipeline and not self.transport.is_closing():
            n = PIECE_BYTES if self._is_between_bodies() else BODY_BYTES
            piece, self._rest = self._rest[:n], self._rest[n:]
            self._parse_piece(piece)
        if self._rest or self.pipeline:
            self.flow.pause_reading()
        elif self.cycle is None or len(self.cycle.body) <= HIGH_WATER_LIMIT:
            self.flow.resume_reading()

    def _has_whole_request(self) -> bool:
        """Return whether a request has come whole, and has no response yet."""
        cycle = self.cycle
        return cycle is not None and not (cycle.more_body or cycle.response_complete)

    def _is_between_bodies(self) -> bool:
        return self._is_in_head or self.cycle is None or not self.cycle.more_body

    def _parse_piece(self, piece: bytes) -> None:
        self._unset_keepalive_if_required()
        self._n_kept += len(piece)
        self._head = self._head + piece if self._is_in_head else piece
        try:
            self.parser.feed_data(piece)
        except httptools.HttpParserUpgrade as upgrade:
            self._parse_piece(self._head_without_offer() + piece[upgrade.args[0] :])
            return
        except httptools.HttpParserError:
            self._end(_NO_HTTP)
            return
        if self._n_kept > BUFFER_BYTES:
            self._end(_LONG_HEAD if self._is_in_head else _NO_END)
        elif self._deadline is None and (self._is_in_head or not self._has_whole_request()):
            self._end_in(self._limits.seconds)

    def _head_without_offer(self) -> bytes:
        """Return the head of a request without its offer to speak another protocol.

        Java's HttpClient and ``curl --http2`` offer HTTP/2. The parser takes what follows for that
        protocol, so another one reads the request again.
        """
        version = self.parser.get_http_version().encode()
        lines = [b"%s %s HTTP/%s" % (self.parser.get_method(), self.url, version)]
        for name, value in self.headers:
            if name == b"connection":
                tokens = [token.strip().lower() for token in value.split(b",")]
                value = b", ".join(token for token in tokens if token in (b"close", b"keep-alive"))
            if name != b"upgrade":
                lines.append(name + b": " + value)
        self.parser = httptools.HttpRequestParser(self)
        return b"\r\n".join(lines) + b"\r\n\r\n"

    # -- the parser ---------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """Begin a head."""
        self._n_kept, self._is_in_head, self._has_length = 0, True, True
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header; a trailer is none, or it could add a token to a request."""
        if not self._is_in_head:
            return
        name = name.lower()
        self.headers.append((name, value))
        if name == b"transfer-encoding":
            self._has_length = False
        elif name == b"expect" and value.lower() == b"100-continue":
            self._has_length, self.expect_100_continue = False, True

    def on_headers_complete(self) -> None:
        """Begin to answer the request."""
        self._n_kept, self._is_in_head = 0, False
        self._stop_clock()
        # The parser also takes other protocols, such as RTSP, and does not tell.
        version, method = self.parser.get_http_version(), self.parser.get_method()
        is_http = version in ("1.0", "1.1") and self.url + b" HTTP/" in self._head
        if not is_http or method == b"CONNECT":
            raise httptools.HttpParserError("expected a request in HTTP/1.1")
        if not self.parser.should_upgrade():
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Pass a part of the body on."""
        self._n_kept = 0
        super().on_body(body)
        if self._operation is not None and len(self._operation.body) > BODY_BYTES:
            cycle, self._operation = self._operation, None
            super()._start_asgi_task(cycle, self.app)

    def on_message_complete(self) -> None:
        """End a request."""
        if self.cycle is not None:
            self._stop_clock()
            super().on_message_complete()
            self.cycle.more_body = False  # uvicorn leaves it if there was a response before
            if self._operation is not None:
                cycle, self._operation = self._operation, None
                self._perform(cycle)

    # -- one operation ------------------------------------------------------------------------

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        """Begin to answer a request; one operation waits for its body."""
        is_whole = not cycle.more_body
        is_short = len(cycle.body) <= BODY_BYTES and (is_whole or self._has_length)
        # A client that does not read its responses must wait, which only a task can.
        if self.flow.write_paused or not (is_short and is_one_operation(cycle.scope)):
            super()._start_asgi_task(cycle, app)
        elif is_whole:
            self._perform(cycle)
        else:
            self._operation = cycle

    def _perform(self, cycle: Any) -> None:
        exchange = None

        def reply(status: int, body: bytes, headers: tuple[Header, ...]) -> None:
            self.tasks.discard(exchange)
            self._reply(cycle, status, body, headers)

        exchange = self._service.perform(cycle.scope, bytes(cycle.body), reply)
        if not exchange.is_done:
            self.tasks.add(exchange)  # type: ignore[arg-type]  # a stop waits for it, or cancels it

    def _reply(self, cycle: Any, status: int, body: bytes, headers: tuple[Header, ...]) -> None:
        """Send a whole response, as uvicorn sends those of ASGI applications."""
        if cycle.disconnected:
            return
        cycle.response_started = cycle.response_complete = True
        given = (*self.server_state.default_headers, *headers)
        cycle.keep_alive = cycle.keep_alive and CLOSE not in given
        head = [STATUS_LINE[status], _HEADERS, b"content-length: %d\r\n" % len(body)]
        head += [b"%b: %b\r\n" % header for header in given if header is not CLOSE]
        if not cycle.keep_alive:
            head.append(b"connection: close\r\n")
        self.transport.write_now(  # type: ignore[attr-defined]
            b"".join([*head, b"\r\n", body])
        )
        if not cycle.keep_alive:
            self.transport.close()
        cycle.on_response()

    # -- the end ------------------------------------------------------------------------------

    def _end_in(self, seconds: float) -> None:
        self._stop_clock()
        self._deadline = self.loop.call_later(seconds, self._end_late)

    def _stop_clock(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _end_late(self) -> None:
        is_in_body = not (self._is_in_head or self._is_between_bodies())
        expected = f"a body must arrive within {self._limits.seconds:g} seconds"
        self._end(RefusalError(408, "timeout", expected) if is_in_body else None)

    def _end(self, refusal: RefusalError | None = None) -> None:
        """Close the connection, after a refusal if there is one; finish whole requests."""
        cycle, self._rest = self.cycle, b""
        if self._has_whole_request():
            cycle.keep_alive = False  # the connection ends with the response
            return
        has_response = cycle is not None and cycle.more_body and cycle.response_started
        # A refusal must not overtake the response to an earlier request.
        if refusal is not None and not (has_response or self.pipeline):
            body = protocol.encode(protocol.error_response(refusal))
            self.transport.write(
                STATUS_LINE[refusal.status]
                + b"content-type: application/json\r\nconnection: close\r\n"
                + b"content-length: %d\r\n\r\n" % len(body)
                + body
            )
        self.transport.close()
