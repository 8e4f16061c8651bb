"""How much of anything a client may send, checked before it is parsed."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from starlette.types import Receive

from mixts.service.http.refusals import CLOSE, RefusalError, try_later


@dataclass(frozen=True, slots=True)
class Limits:
    """What is taken of one request."""

    body: int = 1 << 20
    """Bytes."""
    prior: int = 16 << 20
    """Bytes of a prior that is uploaded, if not more: a covariance of 200 features is large."""
    head: int = 16 << 10
    """Bytes of all headers."""
    headers: int = 64
    """How many of them."""
    depth: int = 16
    """Of nested lists and objects; a prior's deepest array needs 7."""
    actions: int = 10_000
    """Of one decision."""
    batch: int = 1_000
    """Items of a batch."""
    seconds: float = 30.0
    """For a request to arrive, which its connection looks after."""


# -- headers --------------------------------------------------------------------------------------

READ = frozenset(
    {
        b"authorization", b"content-encoding", b"content-length", b"content-type", b"expect",
        b"host", b"origin",
    }
)  # fmt: skip
"""Headers that are looked at."""

Head = dict[bytes, bytes]


def read_head(headers: Iterable[tuple[bytes, bytes]], limits: Limits) -> Head:
    """The headers that matter, in one pass; none of them may come twice."""
    head: Head = {}
    size = count = 0
    for name, value in headers:
        count += 1
        size += len(name) + len(value)
        if name in READ:
            if name in head:
                raise RefusalError(400, "bad_request", f"the header {name.decode()} comes twice")
            head[name] = value
    if size > limits.head or count > limits.headers:
        raise headers_too_large(limits)
    return head


def headers_too_large(limits: Limits) -> RefusalError:
    """What is said of too many headers, or too long ones."""
    expected = f"at most {limits.headers} headers of {limits.head:,} bytes together are read"
    return RefusalError(431, "headers_too_large", expected, headers=(CLOSE,))


# -- bodies ---------------------------------------------------------------------------------------

_PATIENCE = 8
"""A body that is too large is still received up to this many times the limit, and forgotten:
a client reads the answer only when it has sent everything."""


class DisconnectedError(Exception):
    """The client is gone before it has sent everything."""


async def read_body(receive: Receive, head: Head, limit: int) -> bytes:
    """The whole body, if it is not too large."""
    declared = head.get(b"content-length", b"0")
    if not declared.isdigit():
        raise RefusalError(400, "bad_request", "content-length must be a number", headers=(CLOSE,))
    # One that waits for a "100 Continue" has not begun to send.
    patience = 0 if b"expect" in head else _PATIENCE * limit
    if int(declared) > max(limit, patience):
        raise _too_large(limit)
    parts: list[bytes] = []
    size = 0
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise DisconnectedError
        part = message.get("body", b"")
        size += len(part)
        if size <= limit:
            parts.append(part)
        elif size > patience:
            raise _too_large(limit)
        more = message.get("more_body", False)
    if size > limit:
        raise _too_large(limit)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _too_large(limit: int) -> RefusalError:
    return RefusalError(
        413, "too_large", f"the body must have at most {limit:,} bytes", headers=(CLOSE,)
    )


# -- JSON -----------------------------------------------------------------------------------------

_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


def check_depth(body: bytes, limits: Limits) -> None:
    """Refuse nesting that is too deep, whatever else is in the body."""
    # As few brackets as in almost every request cannot be too deep.
    if body.count(b"[") + body.count(b"{") <= limits.depth:
        return
    brackets = _STRING.sub(b"", body).translate(None, _NOT_BRACKETS)
    kinds = np.frombuffer(brackets, np.uint8)
    opening = (kinds == ord("[")) | (kinds == ord("{"))
    if len(kinds) and np.where(opening, 1, -1).cumsum().max() > limits.depth:
        raise RefusalError(
            422, "too_deep", f"lists and objects may be nested {limits.depth} deep at most"
        )


def check_actions(body: bytes, limits: Limits) -> None:
    """Refuse too many actions, or too long a mask, in the body of one decision."""
    # An action takes 3 bytes or more, as "[],", and a place in a mask 5, as "true,".
    if len(body) <= 3 * limits.actions:
        return
    plain = _STRING.sub(b"", body)
    if plain.count(b"[") > limits.actions + 2:  # and the two lists that they are in
        raise too_many_actions("actions", limits)
    if plain.count(b"true") + plain.count(b"false") > limits.actions:
        raise too_many_actions("mask", limits)


def too_many_actions(field: str, limits: Limits) -> RefusalError:
    """What is said of too long a list."""
    return RefusalError(422, "too_many", f"at most {limits.actions:,} actions are taken", field)


# -- rates ----------------------------------------------------------------------------------------

CLIENTS = 10_000
"""That are remembered; of others it is not known what they did before."""


class RateLimit:
    """A token bucket for each client: ``rate`` operations a second, a second's worth at once.

    An operation is let through while anything is left, and a batch of many may leave a debt: what
    is not parsed yet is not counted yet. ``what`` is counted, in the words of a refusal.
    """

    def __init__(self, rate: float, clients: int = CLIENTS, what: str = "operations") -> None:
        self._rate = rate
        self._what = what
        self._most = max(rate, 1.0)
        self._clients = clients
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, client: str, now: float) -> None:
        """Let one operation through, or refuse it."""
        if not self._rate:
            return
        left, then = self._left.get(client, (self._most, now))
        left = min(self._most, left + (now - then) * self._rate)
        if left < 1:
            raise self._used_up(left)
        self._left[client] = (left - 1, now)
        self._left.move_to_end(client)
        if len(self._left) > self._clients:
            self._left.popitem(last=False)

    def charge(self, client: str, operations: int) -> None:
        """Count more operations of a request that was let through."""
        if self._rate and client in self._left:
            left, then = self._left[client]
            self._left[client] = (left - operations, then)

    def check(self, client: str, now: float) -> None:
        """Refuse whoever has nothing left, and count nothing."""
        left, then = self._left.get(client, (self._most, now))
        left += (now - then) * self._rate
        if left < 1:
            raise self._used_up(left)

    def _used_up(self, left: float) -> RefusalError:
        wait = (1 - left) / self._rate
        return RefusalError(
            429, "rate_limited", f"at most {self._rate:g} {self._what} a second are taken",
            headers=try_later(int(wait) + 1),
        )  # fmt: skip
