"""Limits on requests: sizes, checked before anything is parsed, and rates per client."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass

from mixts_serve.http import Receive
from mixts_serve.http.refusals import CLOSE, Header, RefusalError, retry_after


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits on one request, and on connections."""

    body: int = 1 << 20
    """Bytes of a body."""
    prior: int = 16 << 20
    """Bytes of an uploaded prior, if ``body`` is smaller: a covariance of 200 features is large."""
    head: int = 16 << 10
    """Bytes of all headers together."""
    headers: int = 64
    """Number of headers."""
    actions: int = 10_000
    """Actions of one decision."""
    shown: int = 100
    """Actions that one decision shows (``top``): each is a row with all probabilities."""
    batch: int = 1_000
    """Items of a batch."""
    seconds: float = 30.0
    """Time for the headers to arrive, and then for the body."""
    connections: int = 4_096
    """Connections; fewer if the system allows fewer open files."""


# -- headers --------------------------------------------------------------------------------------

USED_HEADERS = frozenset(
    {
        b"authorization", b"content-encoding", b"content-length", b"content-type", b"expect",
        b"host", b"origin", b"sec-fetch-site", b"transfer-encoding",
    }
)  # fmt: skip
"""Headers that the service reads; all others are ignored."""

Headers = dict[bytes, bytes]


def read_headers(headers: Iterable[tuple[bytes, bytes]], limits: Limits) -> Headers:
    """Return the headers that the service uses; refuse repeated ones, and too many."""
    used: Headers = {}
    size = count = 0
    for name, value in headers:
        count += 1
        size += len(name) + len(value)
        if name in USED_HEADERS:
            if name in used:
                raise RefusalError(400, "bad_request", f"the header {name.decode()} comes twice")
            used[name] = value
    if size > limits.head or count > limits.headers:
        expected = f"expected at most {limits.headers} headers of {limits.head:,} bytes together"
        raise RefusalError(431, "headers_too_large", expected, headers=(CLOSE,))
    # Servers take a body in another coding for plain if chunks come last.
    if used.get(b"transfer-encoding", b"chunked").lower() != b"chunked":
        expected = "expected a body of a known length, or Transfer-Encoding: chunked"
        raise RefusalError(501, "bad_request", expected, headers=(CLOSE,))
    return used


# -- bodies ---------------------------------------------------------------------------------------

_DISCARDED = 8
"""Discard a body of up to this many times the limit instead of closing the connection at once:
many clients read the response only after they have sent everything."""


SMALL_BODY = 16 << 10
"""Bytes of a body that always has room: the largest ones of others do not keep it out."""

ROOM_BODIES = 64
"""Bodies of the largest size that have room at the same time."""


class Bodies:
    """Receives bodies, with joint room in the memory until they are answered."""

    def __init__(self, n_bytes: int) -> None:
        self._left = n_bytes

    async def read(self, receive: Receive, headers: Headers, limit: int) -> bytes:
        """Return the whole body of a request; refuse more than ``limit`` bytes.

        The caller gives the room of the body back when it needs it no more.
        """
        declared = headers.get(b"content-length")
        if declared is not None and not declared.isdigit():
            expected = "content-length must be a number"
            raise RefusalError(400, "bad_request", expected, headers=(CLOSE,))
        length = None if declared is None else int(declared)
        # A client that waits for "100 Continue" has not begun to send the body.
        discarded = 0 if b"expect" in headers else _DISCARDED * limit
        if length is not None and length > max(limit, discarded):
            raise _too_large(limit)
        parts: list[bytes] = []
        size = kept = 0
        more = True
        try:
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    ended = "the request ended before its body did, or its body is malformed"
                    raise RefusalError(400, "bad_request", ended, headers=(CLOSE,))
                part = message.get("body", b"")
                size += len(part)
                if size <= limit:
                    self._take(kept, size)
                    kept = size
                    parts.append(part)
                elif size > discarded:
                    raise _too_large(limit)
                # A server may say that there is more when nothing but the end is.
                more = message.get("more_body", False) and size != length
            if size > limit:
                raise _too_large(limit)
        except BaseException:
            self.give_back(kept)
            raise
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _take(self, before: int, now: int) -> None:
        """Take the room of a body that has grown; refuse it if there is none left."""
        n_bytes = _counted(now) - _counted(before)
        if n_bytes > self._left:
            message = "the bodies of other requests leave no room for this one: try again later"
            raise RefusalError(503, "overloaded", message, headers=(CLOSE, *retry_after(1)))
        self._left -= n_bytes

    def give_back(self, n_bytes: int) -> None:
        """Give the room of a body back."""
        self._left += _counted(n_bytes)


def _counted(n_bytes: int) -> int:
    return n_bytes if n_bytes > SMALL_BODY else 0


def _too_large(limit: int) -> RefusalError:
    return RefusalError(
        413, "too_large", f"the body must have at most {limit:,} bytes", headers=(CLOSE,)
    )


# -- rates ----------------------------------------------------------------------------------------

MAX_CLIENTS = 10_000
"""Clients that a rate limit remembers; it forgets the one that was quiet longest."""


class RateLimit:
    """Token bucket for each client: ``rate`` operations a second, and a second's worth at once.

    An operation passes while anything is left. A batch is counted after it was parsed, so it may
    leave a debt. ``unit`` names the operations in the error message, which has these headers; a
    rate of 0 is no limit.
    """

    def __init__(
        self,
        rate: float,
        clients: int = MAX_CLIENTS,
        unit: str = "operations",
        headers: tuple[Header, ...] = (),
    ) -> None:
        self._rate = rate
        self._unit = unit
        self._headers = headers
        self._capacity = max(rate, 1.0)
        self._clients = clients
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, client: str, now: float) -> None:
        """Count one operation, or refuse it."""
        if not self._rate:
            return
        left, then = self._left.get(client, (self._capacity, now))
        left = min(self._capacity, left + (now - then) * self._rate)
        if left < 1:
            raise self._exceeded(left)
        self._left[client] = (left - 1, now)
        self._left.move_to_end(client)
        if len(self._left) > self._clients:
            self._left.popitem(last=False)

    def charge(self, client: str, operations: int) -> None:
        """Count more operations of a request that has passed."""
        if self._rate and client in self._left:
            left, then = self._left[client]
            self._left[client] = (left - operations, then)

    def _exceeded(self, left: float) -> RefusalError:
        wait = (1 - left) / self._rate
        return RefusalError(
            429, "rate_limited", f"expected at most {self._rate:g} {self._unit} a second",
            headers=(*self._headers, *retry_after(int(wait) + 1)),
        )  # fmt: skip
