"""Real connections over a socket: behaviour before the application sees a request."""

from __future__ import annotations

import gc
import json
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from mixts.service.http import server
from mixts.service.http.limits import Limits
from mixts.service.http.server import BufferedTransport
from tests.unit.service.http.calls import FakeDecider, service
from tests.unit.service.store.faulty_store import wait_until

LIMITS = Limits(body=20_000, head=4_000, seconds=0.25)
POST = b"POST /v1/decide HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"


@dataclass
class Server:
    port: int
    stop: server.StopSignals
    decider: FakeDecider

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=10)

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
def started(decider: FakeDecider, limits: Limits = LIMITS) -> Iterator[Server]:
    listener = server.bind("127.0.0.1", 0)
    stop, ready = server.StopSignals(), threading.Event()
    app = service(decider, limits=limits)
    thread = threading.Thread(
        target=server.run, args=(app, listener, stop, ready.set), kwargs={"limits": limits}
    )
    thread.start()
    assert ready.wait(30)
    yield Server(listener.getsockname()[1], stop, decider)
    assert stop.stop is not None
    stop.stop()
    thread.join(30)
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


def test_a_body_in_chunks_is_read(running: Server) -> None:
    chunks = b"7\r\n" + b'{"task"' + b"\r\n" + b"6\r\n" + b': "t"}' + b"\r\n0\r\n\r\n"
    head = POST + b"transfer-encoding: chunked\r\nconnection: close\r\n\r\n"
    assert running.exchange(head, chunks)[0] == 200


def test_headers_without_end_are_431(running: Server) -> None:
    status, body = running.exchange(POST + b"x-padding: " + b"x" * 5000)
    assert status == 431
    assert json.loads(body)["error"]["code"] == "headers_too_large"


def test_large_headers_that_end_are_431(running: Server) -> None:
    status, _ = running.exchange(POST + b"x-padding: " + b"x" * 5000 + b"\r\n\r\n")
    assert status == 431


@pytest.mark.parametrize(
    "sent",
    [POST, POST + b"content-length: 100\r\n\r\n", POST + b"content-length: 100\r\n\r\n{"],
    ids=["headers", "no body", "part of a body"],
)
def test_a_request_that_comes_too_slowly_is_408(running: Server, sent: bytes) -> None:
    before = len(running.decider.submitted)
    started = time.perf_counter()
    status, body = running.exchange(sent)
    assert time.perf_counter() - started >= LIMITS.seconds
    assert status == 408
    assert json.loads(body)["error"]["code"] == "timeout"
    assert len(running.decider.submitted) == before


def test_a_client_that_sends_on_and_on_is_not_listened_to(running: Server) -> None:
    """A byte now and then does not win time."""

    def trickle(connection: socket.socket) -> None:
        connection.sendall(POST + b"content-length: 1000\r\n\r\n")
        for _ in range(500):
            connection.sendall(b" ")
            time.sleep(0.02)

    with running.connect() as connection, pytest.raises((BrokenPipeError, ConnectionResetError)):
        trickle(connection)


@pytest.mark.parametrize("sent", [b"\x16\x03\x01 hello\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n"])
def test_what_is_not_http_is_400(running: Server, sent: bytes) -> None:
    status, body = running.exchange(sent)
    assert status == 400
    assert json.loads(body)["error"]["code"] == "bad_request"


def test_the_request_before_is_answered_first(running: Server) -> None:
    body = b'{"task": "t"}'
    request = POST + b"content-length: %d\r\n\r\n" % len(body) + body
    with running.connect() as connection:
        connection.sendall(request + b"no HTTP at all\r\n\r\n")
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert answer.count(b"HTTP/1.1") == 1, "and nothing after it"


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
        time.sleep(1.5 * LIMITS.seconds)  # a connection may rest between requests
        connection.sendall(request)
        assert _answer(connection.recv(65536))[0] == 200


def test_a_client_that_sends_a_whole_large_body_gets_the_refusal(running: Server) -> None:
    n = 3 * LIMITS.body
    status, body = running.exchange(POST + b"content-length: %d\r\n\r\n" % n, b" " * n)
    assert status == 413
    assert json.loads(body)["error"]["code"] == "too_large"


BODY = b'{"task": "t"}'
REQUEST = POST + b"content-length: %d\r\n\r\n" % len(BODY) + BODY


def test_a_connection_may_rest_after_a_request_in_two_parts(running: Server) -> None:
    """The time limit of a request ends with the request."""
    with running.connect() as connection:
        for part in (REQUEST[:30], REQUEST[30:]):
            connection.sendall(part)
            time.sleep(0.1 * LIMITS.seconds)
        assert _answer(connection.recv(65536))[0] == 200
        time.sleep(1.5 * LIMITS.seconds)
        connection.sendall(REQUEST)
        assert _answer(connection.recv(65536))[0] == 200


def test_the_size_of_headers_is_counted_for_each_request(running: Server) -> None:
    with running.connect() as connection:
        for _ in range(LIMITS.head // len(REQUEST) + 2):
            connection.sendall(REQUEST)
            assert _answer(connection.recv(65536))[0] == 200
        for part in (REQUEST[:30], REQUEST[30:]):
            connection.sendall(part)
            time.sleep(0.1 * LIMITS.seconds)
        assert _answer(connection.recv(65536))[0] == 200


def test_a_malformed_request_gets_one_error(running: Server) -> None:
    """Not a second one for its size."""
    with running.connect() as connection:
        connection.sendall(b"GET / HTTP/9.9\r\n" + b"x" * 2 * LIMITS.head)
        content = b"".join(iter(lambda: _received(connection), b""))
    assert content.startswith(b"HTTP/1.1 400 ")
    assert content.count(b"HTTP/1.1 ") == 1


def _received(connection: socket.socket) -> bytes:
    try:
        return connection.recv(65536)
    except ConnectionResetError:  # the server closed without reading everything
        return b""


def test_no_timer_keeps_a_broken_connection_in_memory() -> None:
    def connections() -> int:
        return sum(isinstance(each, server.Connection) for each in gc.get_objects())

    with started(FakeDecider(), Limits(seconds=60)) as one:
        before = connections()
        for sent in (b"", POST):
            with one.connect() as connection:
                connection.sendall(sent)
                connection.setsockopt(  # close by a reset
                    socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
                )
                assert wait_until(lambda: connections() == before + 1)
            assert wait_until(lambda: connections() == before)


def test_a_silent_connection_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that never sends a request does not hold its place for ever."""
    monkeypatch.setattr(server, "IDLE_SECONDS", 0.2)
    with started(FakeDecider()) as one, one.connect() as connection:
        connection.settimeout(5)
        assert connection.recv(1) == b""


def test_too_many_connections_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the process runs out of files; those that are open go on."""
    monkeypatch.setattr(server, "_max_connections", lambda: 2)
    with started(FakeDecider()) as one, one.connect() as first, one.connect():
        first.sendall(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert _answer(first.recv(65536))[0] == 200
        with one.connect() as third:
            content = b"".join(iter(lambda: third.recv(65536), b""))
        status, body = _answer(content)
        assert (status, json.loads(body)["error"]["code"]) == (503, "overloaded")
        assert b"retry-after: 1\r\n" in content
        first.sendall(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert _answer(first.recv(65536))[0] == 200


class Wire:
    """Transport that records each write."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.sent.append(data)

    def close(self) -> None:
        self.sent.append(b"(closed)")


HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n"


@pytest.mark.parametrize(
    ("written", "sent"),
    [
        ([HEAD, b"{}"], [HEAD + b"{}"]),
        ([HEAD, b"a", b"b"], [HEAD + b"a", b"b"]),
        ([HEAD, "flush"], [HEAD]),
        ([HEAD, b"{}", "flush"], [HEAD + b"{}"]),
        ([HEAD, "close"], [HEAD, b"(closed)"]),
        ([HEAD, b"0\r\n\r\n", "flush", HEAD, b"{}"], [HEAD + b"0\r\n\r\n", HEAD + b"{}"]),
        ([b"HTTP/1.1 100 Continue\r\n\r\n"], [b"HTTP/1.1 100 Continue\r\n\r\n"]),
    ],
)
def test_an_answer_leaves_in_one_piece(written: list[bytes | str], sent: list[bytes]) -> None:
    wire = Wire()
    joined = BufferedTransport(wire)
    for step in written:
        if isinstance(step, bytes):
            joined.write(step)
        else:
            getattr(joined, step)()
    assert wire.sent == sent


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


@pytest.mark.parametrize(("seconds", "expected"), [(0.3, 200), (None, 503)])
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
        assert one.stop.stop is not None
        one.stop.stop()
        status, answer = _answer(b"".join(iter(lambda: connection.recv(65536), b"")))
    assert status == expected
    assert (b"stopping" in answer) == (expected == 503)
