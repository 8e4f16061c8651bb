"""Attacks on an HTTP server by clients without a token, and the harm that they do.

An attack opens sockets, sends what the server may have to keep, and reads nothing. The harm is the
memory that the server's process gains and the time that an honest client waits. Every attack is
bounded in sockets, bytes and seconds, and stays on this machine.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

GET = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
CHUNKED = (
    b"POST /v1/decide HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n"
)
PATIENCE = 60.0
"""Seconds that an honest client waits at most."""

CONNECT_SECONDS = 5.0
"""Seconds that an attack waits for a connection."""

BEGIN_SECONDS = 0.2
"""Time for the server to read the beginning before the rest comes."""

MEGABYTE = 1 << 20


@dataclass(frozen=True)
class Attack:
    """What the sockets of an attack send: a beginning each, then the rest again and again."""

    name: str
    sockets: int
    begin: bytes = b""
    rest: bytes = b""
    n_bytes: int = 0
    """Most bytes that all sockets send together."""
    pause: float = 0.0
    """Seconds between two rounds of sending."""


def attacks(*, silent: int, unread: int, slow: int, n_bytes: int) -> list[Attack]:
    """Return all attacks, with this many sockets that are silent, unread or slow."""
    trailers = b"".join(b"x-%d: y\r\n" % i for i in range(1000))
    found = [
        Attack("requests without end on one socket", 1, rest=GET * 1000),
        Attack("requests without end, responses unread", unread, rest=GET * 1000),
        Attack("trailers without end", 1, CHUNKED + b"0\r\n", trailers),
        Attack("one trailer without end", 1, CHUNKED + b"0\r\nx: ", b"y" * 10_000),
        Attack("headers without end", 1, GET[:-2] + b"x: ", b"y" * 10_000),
        Attack("a body without end", 1, CHUNKED, b"2710\r\n" + b"y" * 10_000 + b"\r\n"),
        Attack("bodies without end", unread, CHUNKED, b"2710\r\n" + b"y" * 10_000 + b"\r\n"),
        Attack("silent sockets", silent),
        Attack("requests sent byte by byte", slow, GET[:-2] + b"x: ", b"y", pause=0.2),
    ]
    return [replace(attack, n_bytes=n_bytes) for attack in found]


# -- harm -----------------------------------------------------------------------------------------


@dataclass
class Harm:
    """What an attack did to a server and its other clients."""

    grown: float = 0.0
    """Megabytes that the server's processes gained, at most."""
    delays: list[float] = field(default_factory=list)
    """Seconds that each honest request took; infinite if it got no response."""
    sent: int = 0
    """Bytes that the server's system accepted."""
    closed: int = 0
    """Sockets of the attack that the server had closed at its end."""

    @property
    def delay(self) -> float:
        """Longest time, in seconds, that an honest request took."""
        return max(self.delays, default=0.0)


def megabytes(pids: Sequence[int]) -> float:
    """Return the resident memory of processes."""
    texts = [Path(f"/proc/{pid}/status").read_text() for pid in pids]
    return sum(int(text.partition("VmRSS:")[2].split()[0]) for text in texts) / 1024


def ask(address: tuple[str, int], request: bytes = GET, source: str = "127.0.0.1") -> bytes:
    """Send a request on a connection of its own, and return the beginning of the response."""
    with socket.create_connection(address, PATIENCE, (source, 0)) as connection:
        connection.sendall(request)
        return connection.recv(65536)


def suffer(attack: Attack, address: tuple[str, int], pids: Sequence[int], seconds: float) -> Harm:
    """Attack for some seconds, and measure the harm; no socket stays open."""
    harm = Harm()
    before = megabytes(pids)

    def weigh() -> None:
        harm.grown = max(harm.grown, megabytes(pids) - before)

    with opened(attack, address) as sockets:
        with watching(harm, address):
            _send_all(sockets, attack.begin, harm)
            # Trailers that the server reads together with the headers would be limited as those.
            time.sleep(BEGIN_SECONDS)
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                sent = harm.sent
                if attack.rest and harm.sent < attack.n_bytes:
                    _send_all(sockets, attack.rest, harm)
                if attack.pause or harm.sent == sent:
                    time.sleep(attack.pause or 0.01)
                weigh()
        weigh()  # the server has answered the last honest request, so it has read what came before
        harm.closed = sum(map(is_closed, sockets))
    return harm


@contextmanager
def opened(attack: Attack, address: tuple[str, int]) -> Iterator[list[socket.socket]]:
    """Open the sockets of an attack; close them by a reset, so that none is left behind."""
    sockets = []
    try:
        for _ in range(attack.sockets):
            try:
                one = socket.create_connection(address, CONNECT_SECONDS)
            except TimeoutError:
                break  # the server accepts no more
            sockets.append(one)
            one.setblocking(False)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        yield sockets
    finally:
        for one in sockets:
            one.close()


def _send_all(sockets: Sequence[socket.socket], data: bytes, harm: Harm) -> None:
    """Send what each socket takes without waiting."""
    for one in sockets:
        with contextlib.suppress(OSError):  # full, or closed by the server
            harm.sent += one.send(data)


def is_closed(connection: socket.socket) -> bool:
    """Return whether the server has closed a connection; discard what it had sent."""
    with contextlib.suppress(BlockingIOError):
        try:
            while connection.recv(1 << 16):
                pass
        except OSError as error:
            if isinstance(error, BlockingIOError):
                raise
        return True
    return False


@contextmanager
def watching(
    harm: Harm, address: tuple[str, int], request: bytes = GET, source: str = "127.0.0.1"
) -> Iterator[None]:
    """Let an honest client send a request all the time, each on a new connection."""
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(0.02):
            harm.delays.append(delay(address, request, source))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(2 * PATIENCE)


def delay(address: tuple[str, int], request: bytes = GET, source: str = "127.0.0.1") -> float:
    """Return the seconds that an honest request takes; infinite if the response is no 200."""
    started = time.monotonic()
    try:
        is_served = ask(address, request, source).startswith(b"HTTP/1.1 200")
    except OSError:
        is_served = False
    return time.monotonic() - started if is_served else float("inf")
