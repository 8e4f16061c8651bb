"""All connections of the server: they are counted, and closed when their clients are late.

There are limits for all connections and for those of one address. Where there are too many, the
connection that has waited longest for its client makes room for a new one. So silent connections
keep nobody out, however many there are; only requests that are being answered do.
"""

from __future__ import annotations

import asyncio
import ipaddress
import math
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from email.utils import formatdate

from starlette.types import ASGIApp

from mixts.service.http.connection import READ_BYTES, Connection
from mixts.service.http.limits import Limits
from mixts.service.http.refusals import Header

SWEEP_SECONDS = 1.0
"""Time between looks for connections past their deadline."""


IN_ADVANCE = 8
"""Requests that were sent in advance ("pipelining") and are begun in one turn of the event loop:
a thousand clients that send hundreds each take no more of its time than some others do."""


class Connections:
    """The connections of a server, and what they share."""

    def __init__(self, app: ASGIApp, limits: Limits, max_connections: int) -> None:
        self.app = app
        self.limits = limits
        self.loop = asyncio.get_running_loop()
        self.buffer = bytearray(READ_BYTES)
        """Where all connections read into: each empties it before the next one reads."""
        self.tasks: set[asyncio.Task[None]] = set()
        self.is_stopping = False
        self.date: Header = (b"date", b"")
        self._max = max_connections
        self._all: OrderedDict[Connection, None] = OrderedDict()
        """Ordered by the time when a connection was opened or sent its last request."""
        self._by_address: dict[str, OrderedDict[Connection, None]] = {}
        self._later: deque[Callable[[], None]] = deque()
        self._is_calling = False
        """True if the next turn of the event loop calls some of them."""
        self._sweep()

    def add(self, connection: Connection, client: str) -> bool:
        """Add a connection from the client's address; return False if there is no room for it."""
        connection.address = group_of(client)
        near = self._by_address.get(connection.address, OrderedDict())
        rooms = ((near, self.limits.address_connections), (self._all, self._max))
        has_room = all(len(room) < most or _make_room(room) for room, most in rooms)
        # One without room is counted as well, until it is closed.
        self._all[connection] = None
        self._by_address.setdefault(connection.address, OrderedDict())[connection] = None
        return has_room

    def touch(self, connection: Connection) -> None:
        """Note that a connection has sent a whole request."""
        self._all.move_to_end(connection)
        self._by_address[connection.address].move_to_end(connection)

    def remove(self, connection: Connection) -> None:
        """Forget a connection that is closed."""
        self._all.pop(connection, None)
        near = self._by_address.get(connection.address)
        if near is not None:
            near.pop(connection, None)
            if not near:
                del self._by_address[connection.address]

    def call_later(self, go_on: Callable[[], None]) -> None:
        """Let a client that sent a request in advance wait for its turn."""
        self._later.append(go_on)
        if not self._is_calling:
            self._is_calling = True
            self.loop.call_soon(self._call_some)

    def _call_some(self) -> None:
        self._is_calling = False
        some = [self._later.popleft() for _ in range(min(IN_ADVANCE, len(self._later)))]
        if self._later:
            self._is_calling = True
            self.loop.call_soon(self._call_some)
        for go_on in some:
            go_on()

    def _sweep(self) -> None:
        """Close the connections whose deadline is over, now and again after a while."""
        self.date = (b"date", formatdate(usegmt=True).encode())
        now = self.loop.time()
        for connection in [one for one in self._all if one.deadline < now]:
            connection.expire()
        seconds = min(SWEEP_SECONDS, self.limits.seconds / 4)
        self._timer = self.loop.call_later(seconds, self._sweep)

    async def stop(self, seconds: float, hurry: asyncio.Event) -> None:
        """Answer the requests that have begun, within some seconds or until ``hurry`` is set."""
        self.is_stopping = True
        for connection in list(self._all):
            connection.stop()
        end = self.loop.time() + seconds
        while self._all and self.loop.time() < end and not hurry.is_set():
            await asyncio.sleep(0.01)
        tasks = list(self.tasks)
        for task in tasks:
            task.cancel()  # the application refuses the request: the service is stopping
        await asyncio.gather(*tasks, return_exceptions=True)
        self._timer.cancel()
        for connection in list(self._all):
            connection.transport.abort()


def _make_room(connections: Iterable[Connection]) -> bool:
    """Close the first connection that waits for its client; return whether there is one."""
    found = next((one for one in connections if one.deadline < math.inf), None)
    if found is None:
        return False
    found.transport.abort()
    found.forget()
    return True


def group_of(address: str) -> str:
    """Return an address by which connections are counted: one site has 2^64 addresses of IPv6."""
    if ":" not in address:
        return address
    found = ipaddress.IPv6Address(address.partition("%")[0])
    return str(found.ipv4_mapped or ipaddress.IPv6Address(int(found) >> 64 << 64))
