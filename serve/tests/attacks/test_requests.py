"""Requests as real clients and attackers send them, over plain sockets, to ``mixts serve``.

Nothing here knows which server accepts the connections: the tests hold for any.
"""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

import mixts

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="measures memory by /proc")

MIXTS = [sys.executable, "-c", "import sys; from mixts.cli import main; sys.exit(main())"]
TOKEN = b"a-token-of-some-length"
BODY = b'{"task": "t"}'
PATIENCE = 20.0
"""Seconds that a client waits for a response, or for the end of its connection."""


def post(
    *headers: bytes,
    path: bytes = b"/v1/decide",
    version: bytes = b"HTTP/1.1",
    token: bytes = TOKEN,
    body: bytes = BODY,
    length: int | None = None,
) -> bytes:
    """Return a request; ``length=-1`` leaves the length out."""
    lines = [b"POST " + path + b" " + version, b"Host: localhost"]
    lines += [b"Content-Type: application/json", b"Authorization: Bearer " + token, *headers]
    if length != -1:
        lines.append(b"Content-Length: %d" % (len(body) if length is None else length))
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


@dataclass
class Victim:
    """A service in a process of its own."""

    pid: int
    address: tuple[str, int]

    def connect(self) -> socket.socket:
        return socket.create_connection(self.address, PATIENCE)

    def exchange(self, *parts: bytes) -> bytes:
        """Send parts, each after a moment; return what comes until the end or a whole response."""
        with self.connect() as connection:
            for k, part in enumerate(parts):
                time.sleep(0.05 * (k > 0))
                connection.sendall(part)
            return response(connection)

    def status(self, *parts: bytes) -> int:
        """Return the status of the response; 0 if the connection was closed without one."""
        content = self.exchange(*parts)
        return int(content.split()[1]) if content.startswith(b"HTTP/1.1 ") else 0

    def is_refused(self, *parts: bytes) -> bool:
        """Return whether a request gets an error, or no response at all."""
        return self.status(*parts) in (0, 400, 413, 426, 501, 505)


def response(connection: socket.socket) -> bytes:
    """Read one response; what there is of it if the connection ends before."""
    content = b""
    with contextlib.suppress(ConnectionError):
        while chunk := connection.recv(65536):
            content += chunk
            head, ended, body = content.partition(b"\r\n\r\n")
            length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
            if ended and len(body) >= int(length or 0):
                break
    return content


@contextmanager
def serving(folder: Path, *options: str) -> Iterator[Victim]:
    prior = mixts.MixturePrior(mixts.BernoulliArms.uniform(3))
    prior.save(folder / "prior.json")
    (folder / "tokens").write_bytes(TOKEN + b"\n")
    (folder / "tokens").chmod(0o600)
    command = [*MIXTS, "serve", "--port", "0", "--prior", str(folder / "prior.json")]
    command += ["--store", str(folder / "decisions.db"), "--token-file", str(folder / "tokens")]
    process = subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        port = process.stdout.readline().partition("127.0.0.1:")[2].split()[0]
        yield Victim(process.pid, ("127.0.0.1", int(port)))
    finally:
        process.terminate()
        assert process.wait(30) == 0
        process.stdout.close()


@pytest.fixture(scope="module")
def victim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Victim]:
    with serving(tmp_path_factory.mktemp("victim")) as one:
        yield one


# -- clients that offer another protocol ----------------------------------------------------------

UPGRADE = (
    b"Connection: Upgrade, HTTP2-Settings",
    b"HTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABkAAQBAAAAAAUAAEAA",
    b"Upgrade: h2c",
)
"""What Java's HttpClient and ``curl --http2`` add to the first request of a connection."""


@pytest.mark.parametrize("at_once", [True, False], ids=["one segment", "two segments"])
def test_an_offer_of_http_2_is_ignored(victim: Victim, at_once: bool) -> None:
    request = post(*UPGRADE)
    head = len(request) - len(BODY)
    parts = (request,) if at_once else (request[:head], request[head:])
    content = victim.exchange(*parts)
    assert content.startswith(b"HTTP/1.1 200 "), content
    assert json.loads(content.partition(b"\r\n\r\n")[2])["task"] == "t"


def test_an_offer_of_http_2_may_have_a_body_in_chunks(victim: Victim) -> None:
    chunks = b"%x\r\n" % len(BODY) + BODY + b"\r\n0\r\n\r\n"
    request = post(*UPGRADE, b"Transfer-Encoding: chunked", body=b"", length=-1)
    assert victim.status(request + chunks) == 200
    assert victim.status(request, chunks[:6], chunks[6:]) == 200


def test_a_connection_goes_on_after_an_offer_of_http_2(victim: Victim) -> None:
    """The same client then sends requests without the offer, or with it."""
    with victim.connect() as connection:
        for request in (post(*UPGRADE), post(), post(*UPGRADE), post()):
            connection.sendall(request)
            assert response(connection).startswith(b"HTTP/1.1 200 ")
        get = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + b"\r\n".join(UPGRADE) + b"\r\n\r\n"
        connection.sendall(get)
        assert response(connection).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("version", [b"HTTP/0.9", b"HTTP/2.0", b"HTTP/3.0"])
def test_other_versions_are_refused(victim: Victim, version: bytes) -> None:
    assert victim.is_refused(post(version=version))
    assert victim.is_refused(b"GET /healthz " + version + b"\r\nHost: localhost\r\n\r\n")


def test_http_0_9_without_a_version_is_refused(victim: Victim) -> None:
    assert victim.is_refused(b"GET /healthz\r\n\r\n")


@pytest.mark.parametrize("headers", [(), UPGRADE], ids=["plain", "with an offer of HTTP/2"])
def test_http_1_0_is_served_and_closed(victim: Victim, headers: tuple[bytes, ...]) -> None:
    with victim.connect() as connection:
        connection.settimeout(5.0)
        connection.sendall(post(*headers, version=b"HTTP/1.0"))
        assert response(connection).startswith((b"HTTP/1.0 200 ", b"HTTP/1.1 200 "))
        assert connection.recv(65536) == b""


# -- bodies ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "codings",
    [
        [b"gzip, chunked"], [b"gzip", b"chunked"], [b"chunked, chunked"], [b"chunked", b"chunked"],
        [b"identity, chunked"], [b"xchunked"],
    ],
    ids=lambda codings: b" + ".join(codings).decode(),
)  # fmt: skip
def test_no_other_transfer_coding_is_read_as_plain(victim: Victim, codings: list[bytes]) -> None:
    chunks = b"%x\r\n" % len(BODY) + BODY + b"\r\n0\r\n\r\n"
    headers = [b"Transfer-Encoding: " + coding for coding in codings]
    assert victim.is_refused(post(*headers, body=chunks, length=-1))
    assert victim.status(post(b"Transfer-Encoding: Chunked", body=chunks, length=-1)) == 200


# -- crowds ---------------------------------------------------------------------------------------
