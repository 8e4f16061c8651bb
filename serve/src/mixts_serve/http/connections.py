"""Connections of the HTTP server: uvicorn's, with a short way for decisions and rewards.

A request for one operation, which almost all are, needs no task of the event loop: the service
performs it when it has come whole, and calls back. All others are ASGI requests. Limits on
connections, on their time and on the length of heads belong to the reverse proxy.
"""

from __future__ import annotations

from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from mixts_serve.http.app import Service, is_one_operation
from mixts_serve.http.refusals import CLOSE, JSON, Header
from mixts_serve.http.security import SECURITY_HEADERS

BODY_BYTES = 16 << 10
"""A request with a longer body is an ASGI request."""

_HEADERS = b"".join(b"%b: %b\r\n" % header for header in (JSON, *SECURITY_HEADERS))


class Connection(HttpToolsProtocol):
    """A connection of uvicorn that passes requests for one operation to the service."""

    def __init__(self, service: Service, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._service = service
        self._operation: Any = None
        """The request for one operation whose body has not come whole yet."""
        self._is_in_head = False

    # -- the parser ---------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Parse what has arrived."""
        self._unset_keepalive_if_required()
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self.data_received(self._head_without_offer() + data[upgrade.args[0] :])
        except httptools.HttpParserError:
            self.send_400_response("expected a request in HTTP/1.1")

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

    def on_message_begin(self) -> None:
        """Begin a head."""
        self._is_in_head = True
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header; a trailer is none, or it could add a token to a request."""
        if self._is_in_head:
            HttpToolsProtocol.on_header(self, name, value)

    def on_headers_complete(self) -> None:
        """Begin to answer the request."""
        self._is_in_head = False
        is_http_1 = self.parser.get_http_version() in ("1.0", "1.1")
        if not is_http_1 or self.parser.get_method() == b"CONNECT":
            raise httptools.HttpParserError("expected a request in HTTP/1.1")
        if not self.parser.should_upgrade():
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Pass a part of the body on."""
        super().on_body(body)
        if self._operation is not None and len(self._operation.body) > BODY_BYTES:
            cycle, self._operation = self._operation, None
            super()._start_asgi_task(cycle, self.app)

    def on_message_complete(self) -> None:
        """End a request."""
        if not self.parser.should_upgrade():
            super().on_message_complete()
            if self._operation is not None:
                cycle, self._operation = self._operation, None
                self._perform(cycle)

    # -- one operation ------------------------------------------------------------------------

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        """Begin to answer a request; one operation waits for its body."""
        # Requests in advance, and those of a client that does not read, need tasks that can wait.
        is_last = cycle is self.cycle and not self.flow.write_paused
        is_short = len(cycle.body) <= BODY_BYTES and not cycle.waiting_for_100_continue
        if not (is_last and is_short and is_one_operation(cycle.scope)):
            super()._start_asgi_task(cycle, app)
        elif cycle.more_body:
            self._operation = cycle
        else:
            self._perform(cycle)

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
        self.transport.write(b"".join([*head, b"\r\n", body]))
        if not cycle.keep_alive:
            self.transport.close()
        cycle.on_response()
