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
from hashlib import sha256

import pytest

from mixts.service.http import server
from mixts.service.http.connection import Connection
from mixts.service.http.connections import group_of
from mixts.service.http.limits import Limits
from mixts.service.http.security import SCOPES, Grant, Tokens
from tests.unit.service.http.calls import FakeDecider, service
from tests.unit.service.store.faulty_store import wait_until

LIMITS = Limits(body=20_000, head=4_000, seconds=0.25)
POST = b"POST /v1/decide HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"


@dataclass
class Server:
    port: int
    stop: server.Signals
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
    listener = server.bind("127.0.0.1", 0)
    stop, ready = server.Signals(), threading.Event()
    app = service(decider, limits=limits, tokens=tokens, rate=0)
    thread = threading.Thread(
        target=server.run, args=(app, listener, stop, ready.set), kwargs={"limits": limits}
    )
    thread.start()
    assert ready.wait(30)
    try:
        yield Server(listener.getsockname()[1], stop, decider)
    finally:
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
        return sum(isinstance(each, Connection) for each in gc.get_objects())

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


# -- limits on connections ------------------------------------------------------------------------

HEALTH = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"


def is_open(connection: socket.socket) -> bool:
    """Whether the connection serves another request."""
    try:
        connection.sendall(HEALTH)
        return connection.recv(65536).startswith(b"HTTP/1.1 200")
    except ConnectionError:
        return False


def test_a_silent_connection_is_closed(running: Server) -> None:
    """A connection that never sends a request does not hold its place."""
    with running.connect() as connection:
        assert connection.recv(1) == b""


def test_a_connection_that_rests_too_long_is_closed() -> None:
    with started(FakeDecider(), Limits(seconds=60, idle=0.3)) as one, one.connect() as connection:
        assert is_open(connection)
        begun = time.perf_counter()
        assert connection.recv(1) == b""
        # Far below the 60 s in which a request must have come, also on a busy machine.
        assert 0.2 < time.perf_counter() - begun < 20


def test_the_connection_that_waited_longest_makes_room() -> None:
    with (
        started(FakeDecider(), Limits(connections=3)) as one,
        one.connect() as first, one.connect() as second, one.connect() as third,
    ):  # fmt: skip
        assert all(map(is_open, (second, third, first)))
        with one.connect() as fourth:
            assert is_open(fourth)
            assert not is_open(second)
            assert all(map(is_open, (first, third, fourth)))


def test_an_address_has_a_share_of_the_connections() -> None:
    limits = Limits(connections=3, address_connections=2)
    with (
        started(FakeDecider(), limits) as one,
        one.connect("127.0.0.2") as other, one.connect() as first, one.connect() as second,
        one.connect() as third,
    ):  # fmt: skip
        assert is_open(third)
        assert not is_open(first), "and not the other address's, which is older"
        assert all(map(is_open, (other, second, third)))


def test_a_connection_that_is_being_answered_makes_no_room() -> None:
    decider = FakeDecider(seconds=None)
    with started(decider, Limits(connections=1)) as one, one.connect() as busy:
        busy.sendall(REQUEST)
        assert wait_until(lambda: bool(decider.submitted))
        with one.connect() as second:
            content = b"".join(iter(lambda: second.recv(65536), b""))
        status, body = _answer(content)
        assert (status, json.loads(body)["error"]["code"]) == (503, "overloaded")
        assert b"retry-after: 1\r\n" in content
        assert b"x-content-type-options: nosniff\r\n" in content
        assert one.stop.stop is not None
        one.stop.stop()
        one.stop.stop()  # do not wait for a decider that never answers


@pytest.mark.parametrize(
    ("address", "group"),
    [
        ("10.1.2.3", "10.1.2.3"),
        ("::ffff:10.1.2.3", "10.1.2.3"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
        ("fe80::1:2%eth0", "fe80::"),
    ],
)
def test_addresses_of_one_site_count_as_one(address: str, group: str) -> None:
    assert group_of(address) == group


def test_a_response_that_nobody_reads_is_given_up() -> None:
    """And no other one is made while it waits."""
    request = HEALTH.replace(b"/healthz", b"/openapi.json")
    with started(FakeDecider(), Limits(seconds=0.3)) as one, socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(10)
        connection.connect(("127.0.0.1", one.port))
        with pytest.raises(ConnectionError):
            connection.sendall(1_000_000 * request)


# -- requests in advance, half-closed connections, trailers ---------------------------------------


def test_requests_in_advance_are_answered_in_order(running: Server) -> None:
    """More of them than are parsed at once."""
    paths = [b"/healthz" if i % 3 else b"/nothing" for i in range(500)]
    requests = [HEALTH.replace(b"/healthz", path) for path in paths]
    with running.connect() as connection:
        connection.sendall(b"".join(requests))
        connection.shutdown(socket.SHUT_WR)
        content = b"".join(iter(lambda: connection.recv(65536), b""))
    statuses = [int(part[:3]) for part in content.split(b"HTTP/1.1 ")[1:]]
    assert statuses == [200 if path == b"/healthz" else 404 for path in paths]


def test_a_half_closed_client_gets_its_answer() -> None:
    with started(FakeDecider(seconds=0.2)) as one, one.connect() as connection:
        connection.sendall(REQUEST)
        connection.shutdown(socket.SHUT_WR)
        content = b"".join(iter(lambda: connection.recv(65536), b""))
    assert _answer(content)[0] == 200
    assert b"connection: close\r\n" in content


def test_half_a_request_gets_no_answer(running: Server) -> None:
    before = len(running.decider.submitted)
    for sent in (REQUEST[:-1], REQUEST[:30]):
        with running.connect() as connection:
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
            assert connection.recv(65536) == b""
    assert len(running.decider.submitted) == before


def test_a_busy_client_is_not_late(running: Server) -> None:
    """Every request has its own time, also if the next one begins before the last has ended."""
    with running.connect() as connection:
        connection.sendall(REQUEST[:30])
        for _ in range(10):
            time.sleep(0.2 * LIMITS.seconds)
            connection.sendall(REQUEST[30:] + REQUEST[:30])
            assert _answer(connection.recv(65536))[0] == 200


def test_the_time_of_a_request_begins_after_the_response_before_it() -> None:
    """A client cannot send while the service reads nothing."""
    with started(FakeDecider(seconds=0.3), Limits(seconds=0.4)) as one, one.connect() as connection:
        connection.sendall(REQUEST + REQUEST[:30])
        assert _answer(connection.recv(65536))[0] == 200
        time.sleep(0.25)
        connection.sendall(REQUEST[30:])
        assert _answer(connection.recv(65536))[0] == 200


TOKENS = Tokens([Grant("client", SCOPES, sha256(b"secret").digest())])
CHUNKED = POST + b"transfer-encoding: chunked\r\n\r\n"
CHUNKS = b"d\r\n" + BODY + b"\r\n0\r\n"


def test_a_token_in_a_trailer_is_none() -> None:
    decider = FakeDecider()
    with started(decider, tokens=TOKENS) as one:
        trailer = b"authorization: Bearer secret\r\n\r\n"
        with one.connect() as connection:
            connection.sendall(CHUNKED + CHUNKS + trailer + CHUNKED + CHUNKS + b"\r\n")
            content = b"".join(iter(lambda: connection.recv(65536), b""))
    assert content.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 401 "))
    assert content.count(b"HTTP/1.1 ") == 1, "nor is it one of the next request"
    assert decider.submitted == []


@pytest.mark.parametrize("trailer", [b"x: y\r\n\r\n", b"x: " + b"y" * 100_000, b"x" * 100_000])
def test_trailers_are_refused_with_their_request(running: Server, trailer: bytes) -> None:
    before = len(running.decider.submitted)
    status, body = running.exchange(CHUNKED + CHUNKS + trailer)
    expected = {400: "bad_request", 431: "headers_too_large"}
    assert json.loads(body)["error"]["code"] == expected[status]
    assert len(running.decider.submitted) == before


def test_a_request_has_one_response(running: Server) -> None:
    """A body that turns out to be malformed after the response ends the connection, no more."""
    with running.connect() as connection:
        connection.sendall(CHUNKED.replace(b"decide", b"nothing"))
        assert _answer(connection.recv(65536))[0] == 404
        connection.sendall(b"no chunk\r\n")
        assert connection.recv(65536) == b""


def test_the_rest_of_a_refused_body_is_discarded(running: Server) -> None:
    """And the connection goes on."""
    n = 200_000
    with running.connect() as connection:
        head = POST.replace(b"decide", b"nothing")
        connection.sendall(head + b"content-length: %d\r\n\r\n" % n + b" " * 100_000)
        assert _answer(connection.recv(65536))[0] == 404
        connection.sendall(b" " * (n - 100_000))
        assert is_open(connection)


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
    assert running.exchange(b"CONNECT a:1 HTTP/1.1\r\nhost: localhost\r\n\r\n")[0] == 400


def test_a_request_is_logged_if_somebody_wants_to_know(
    running: Server, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("DEBUG", "mixts.access"):
        running.exchange(HEALTH[:-2] + b"connection: close\r\n\r\n")
    assert caplog.messages == ["127.0.0.1 GET /healthz 200"]


def test_an_answer_leaves_in_one_piece(running: Server) -> None:
    """Headers and body together, so that the client wakes up once."""
    with running.connect() as connection:
        connection.sendall(HEALTH)
        assert connection.recv(65536).endswith(b'{"status":"ok"}')


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
