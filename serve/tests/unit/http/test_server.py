"""Real connections over a socket: behaviour before the application sees a request."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import pytest
from mixts_serve.http import connections, server
from mixts_serve.http.protocol import Limits
from mixts_serve.http.security import SCOPES, Grant, Tokens

from serve.tests.unit.http.calls import FakeDecider, post, service
from serve.tests.unit.store.faulty_store import wait_until

LIMITS = Limits(body=20_000)
POST = b"POST /v1/decide HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"


@dataclass
class Server:
    port: int
    server: server.Server
    decider: FakeDecider

    def connect(self, source: str = "127.0.0.1") -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), 10, (source, 0))

    def exchange(self, *parts: bytes) -> tuple[int, bytes]:
        """Send, and read until the connection is closed."""
        with self.connect() as connection:
            for part in parts:
                connection.sendall(part)
            return _answer(b"".join(iter(lambda: connection.recv(65536), b"")))


def _answer(content: bytes) -> tuple[int, bytes]:
    head, _, body = content.partition(b"\r\n\r\n")
    return int(head.split()[1]), body


@contextmanager
def started(
    decider: FakeDecider, limits: Limits = LIMITS, tokens: Tokens | None = None
) -> Iterator[Server]:
    listener, ready = server.bind("127.0.0.1", 0), threading.Event()
    app = service(decider, limits=limits, tokens=tokens)
    one = server.Server(app, ready.set)
    thread = threading.Thread(target=one.run, args=([listener],))
    thread.start()
    assert ready.wait(30)
    try:
        yield Server(listener.getsockname()[1], one, decider)
    finally:
        one.should_exit = True
        thread.join(30)
        app.close()
        assert not thread.is_alive()


@pytest.fixture(scope="module")
def running() -> Iterator[Server]:
    with started(FakeDecider()) as one:
        yield one


def test_a_request_is_answered(running: Server) -> None:
    body = b'{"task": "t"}'
    length = b"content-length: %d\r\nconnection: close\r\n\r\n" % len(body)
    status, answer = running.exchange(POST + length + body)
    assert (status, json.loads(answer)["action"]) == (200, 2)


@pytest.mark.parametrize("padding", [0, 30_000])
@pytest.mark.parametrize("body", [b'{"task": "t"}', b'{"task": 1}', b"no JSON"])
def test_a_connection_answers_as_the_application_does(
    running: Server, body: bytes, padding: int
) -> None:
    body += b" " * padding
    expected = post(service(FakeDecider(), limits=LIMITS), "/v1/decide", body)
    head = POST + b"content-length: %d\r\nconnection: close\r\n\r\n" % len(body)
    with running.connect() as connection:
        connection.sendall(head)
        time.sleep(0.05)  # the body comes later than its head
        connection.sendall(body)
        content = b"".join(iter(lambda: connection.recv(65536), b""))
    assert _answer(content) == (expected.status, expected.body)
    lines = content.partition(b"\r\n\r\n")[0].decode().splitlines()[1:]
    headers = dict(line.split(": ", 1) for line in lines)
    assert headers.keys() - {"date"} == expected.headers.keys() | {"connection"}


def test_a_body_in_chunks_is_read(running: Server) -> None:
    chunks = b"7\r\n" + b'{"task"' + b"\r\n" + b"6\r\n" + b': "t"}' + b"\r\n0\r\n\r\n"
    head = POST + b"transfer-encoding: chunked\r\nconnection: close\r\n\r\n"
    assert running.exchange(head, chunks)[0] == 200


@pytest.mark.parametrize("sent", [b"\x16\x03\x01 hello\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n"])
def test_what_is_not_http_is_400(running: Server, sent: bytes) -> None:
    assert running.exchange(sent)[0] == 400


def test_a_length_beside_chunks_is_no_way_to_smuggle(running: Server) -> None:
    head = POST + b"content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"
    assert running.exchange(head)[0] == 400


def test_a_connection_serves_many_requests(running: Server) -> None:
    body = b'{"task": "t"}'
    request = POST + b"content-length: %d\r\n\r\n" % len(body) + body
    with running.connect() as connection:
        for _ in range(3):
            connection.sendall(request)
            content = b""
            while b'"policy":"ts"}' not in content:
                content += connection.recv(65536)
            assert _answer(content)[0] == 200


def test_a_client_that_sends_a_whole_large_body_gets_the_refusal(running: Server) -> None:
    n = 3 * LIMITS.body
    head = POST + b"connection: close\r\ncontent-length: %d\r\n\r\n" % n
    status, body = running.exchange(head, b" " * n)
    assert status == 413
    assert json.loads(body)["error"]["code"] == "too_large"


BODY = b'{"task": "t"}'
REQUEST = POST + b"content-length: %d\r\n\r\n" % len(BODY) + BODY


HEALTH = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"


# -- requests in advance, half-closed connections, trailers ---------------------------------------


def test_requests_in_advance_are_answered_in_order(running: Server) -> None:
    """More of them than are parsed at once."""
    paths = [b"/healthz" if i % 3 else b"/nothing" for i in range(500)]
    requests = [HEALTH.replace(b"/healthz", path) for path in paths]
    with running.connect() as connection:
        connection.sendall(b"".join(requests[:-1]))
        connection.sendall(requests[-1][:-2] + b"connection: close\r\n\r\n")
        content = b"".join(iter(lambda: connection.recv(65536), b""))
    statuses = [int(part[:3]) for part in content.split(b"HTTP/1.1 ")[1:]]
    assert statuses == [200 if path == b"/healthz" else 404 for path in paths]


def test_half_a_request_is_not_performed(running: Server) -> None:
    before = len(running.decider.submitted)
    for sent in (REQUEST[:-1], REQUEST[:30]):
        with running.connect() as connection:
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
            assert not connection.recv(65536).startswith(b"HTTP/1.1 200 ")
    assert len(running.decider.submitted) == before


TOKENS = Tokens([Grant(SCOPES, sha256(b"secret").digest())])
CHUNKED = POST + b"transfer-encoding: chunked\r\n\r\n"
CHUNKS = b"d\r\n" + BODY + b"\r\n0\r\n"


def test_a_token_in_a_trailer_is_none() -> None:
    decider = FakeDecider()
    with started(decider, tokens=TOKENS) as one:
        trailer = b"authorization: Bearer secret\r\n\r\n"
        with one.connect() as connection:
            last = CHUNKED.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n")
            connection.sendall(CHUNKED + CHUNKS + trailer + last + CHUNKS + b"\r\n")
            content = b"".join(iter(lambda: connection.recv(65536), b""))
    assert [int(part[:3]) for part in content.split(b"HTTP/1.1 ")[1:]] == [401, 401]
    assert decider.submitted == []


def test_a_client_that_expects_100_continue_is_told_to(running: Server) -> None:
    with running.connect() as connection:
        connection.sendall(REQUEST[: -len(BODY) - 2] + b"expect: 100-continue\r\n\r\n")
        assert connection.recv(65536) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(BODY)
        assert _answer(connection.recv(65536))[0] == 200


def test_an_upgrade_is_answered_in_http_1(running: Server) -> None:
    """`curl --http2` sends one."""
    offer = b"connection: upgrade, close\r\nupgrade: h2c\r\n\r\n"
    assert running.exchange(HEALTH[:-2] + offer)[0] == 200


def test_an_address_without_a_path_is_400(running: Server) -> None:
    offer = b"CONNECT a:1 HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
    assert running.exchange(offer)[0] == 400


def test_a_request_is_logged_if_somebody_wants_to_know(
    running: Server, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("DEBUG", "mixts_serve.access"):
        running.exchange(HEALTH[:-2] + b"connection: close\r\n\r\n")
        assert wait_until(lambda: caplog.messages == ["127.0.0.1 GET alive 200"])


def test_an_answer_without_content_is_sent(running: Server) -> None:
    with running.connect() as connection:
        connection.sendall(b"HEAD /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
        first = connection.recv(65536)
    assert first.startswith(b"HTTP/1.1 ")
    assert first.endswith(b"\r\n\r\n")


def test_an_address_that_is_taken_is_refused(running: Server) -> None:
    with pytest.raises(OSError, match=f"listen on 127.0.0.1, port {running.port}: "):
        server.bind("127.0.0.1", running.port)
    with pytest.raises(OSError, match=r"cannot listen on no\.such\.host\.invalid"):
        server.bind("no.such.host.invalid", 0)


# -- stopping -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("seconds", "expected"), [(0.5, 200), (None, 503)])
def test_what_was_accepted_is_answered_within_bounds(
    seconds: float | None, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "STOP_SECONDS", 10 if seconds else 0.2)
    decider = FakeDecider(seconds=seconds)
    body = b'{"task": "t"}'
    with started(decider) as one, one.connect() as connection:
        connection.sendall(POST + b"content-length: %d\r\n\r\n" % len(body) + body)
        while not decider.submitted:
            time.sleep(0.01)
        one.server.should_exit = True
        status, answer = _answer(b"".join(iter(lambda: connection.recv(65536), b"")))
    assert status == expected
    assert (b"stopping" in answer) == (expected == 503)


def test_a_client_that_does_not_read_cannot_hold_the_end_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "STOP_SECONDS", 0.2)
    found: list[connections.Connection] = []
    connection_made = connections.Connection.connection_made

    def spy(self: connections.Connection, transport: Any) -> None:
        connection_made(self, transport)
        found.append(self)

    monkeypatch.setattr(connections.Connection, "connection_made", spy)
    decider = FakeDecider(seconds=None)
    with socket.socket() as connection, started(decider, Limits()) as one:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", one.port))
        large = HEALTH.replace(b"/healthz", b"/openapi.json")

        def is_full() -> bool:
            if not found[0].flow.write_paused:
                connection.sendall(large)
                time.sleep(0.01)  # one response after the other
            return found[0].flow.write_paused

        assert wait_until(lambda: bool(found) and is_full())
        connection.sendall(REQUEST)
        assert wait_until(lambda: bool(decider.submitted))
        one.server.should_exit = True
