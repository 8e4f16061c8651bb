"""Connections of the HTTP server: uvicorn's, for HTTP/1 and nothing else.

Limits on connections, on their time and on the length of heads belong to the reverse proxy.
"""

from __future__ import annotations

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


class Connection(HttpToolsProtocol):
    """A connection of uvicorn that ignores offers of other protocols, and trailers.

    It refuses CONNECT, and versions other than HTTP/1.0 and HTTP/1.1.
    """

    _is_in_head = False

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

        Java's HttpClient and ``curl --http2`` offer HTTP/2. The parser would leave the rest to that
        protocol, so a new parser reads the request again without the offer.
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

    def on_message_complete(self) -> None:
        """End a request."""
        if not self.parser.should_upgrade():
            super().on_message_complete()
