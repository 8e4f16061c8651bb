"""A load generator: one thread, many keep-alive connections, some 20 us of CPU an operation.

Closed loop: each connection sends the next operation when the last was answered. Open loop:
operations are due at times that were drawn before, whether or not the service keeps up, and their
latency counts from then: a service that stands still is seen to stand still.
"""

from __future__ import annotations

import select
import socket
import time
from array import array
from collections import Counter, deque
from collections.abc import Callable, Sequence

import numpy as np
from traffic import Operation, Traffic

RECONNECT = 0.02
"""Seconds between attempts to connect."""
PAUSE = 0.1
"""Seconds until a refused operation is sent again."""
PATIENCE = 0.05
"""Longest wait for sockets, in seconds, and so the interval of checks for the end."""
LENGTH = b"content-length:"

Address = tuple[str, int]


class Connection:
    """A socket, and the operation whose response it waits for."""

    __slots__ = ("buffer", "operation", "retry_at", "sent_at", "server", "socket")

    def __init__(self, server: int) -> None:
        self.server = server
        self.socket: socket.socket | None = None
        self.buffer = b""
        self.operation: Operation | None = None
        self.sent_at = 0.0
        self.retry_at = 0.0


class Generator:
    """Sends operations to one or several servers and measures their responses."""

    def __init__(self, servers: Sequence[Address], n_connections: int, traffic: Traffic) -> None:
        self.servers = list(servers)
        self.traffic = traffic
        self.latencies: dict[str, array[float]] = {}
        self.lateness = array("d")
        """Delays of operations that were sent late, for lack of a connection or of CPU."""
        self.failures: Counter[str] = Counter()
        """Counts of refusals and of broken connections."""
        self.answers: Counter[int] = Counter()
        """By server."""
        self._poll = select.epoll()
        self._by_number: dict[int, Connection] = {}
        self._closed = [Connection(i % len(self.servers)) for i in range(n_connections)]
        self._idle: deque[Connection] = deque()
        self._waiting: deque[Operation] = deque()
        self._later: deque[tuple[float, Operation]] = deque()
        self._busy = 0
        self.n_copies = 0

    # -- loops --------------------------------------------------------------------------------

    def run_closed(self, seconds: float) -> None:
        """Send operations for some seconds, each as soon as a connection is free."""
        end = time.perf_counter() + seconds
        self.run_while(lambda now: now < end)

    def run_while(self, goes_on: Callable[[float], bool]) -> None:
        """Send operations while ``goes_on(now)``, each as soon as a connection is free."""
        now = time.perf_counter()
        while goes_on(now):
            self._connect(now)
            self._send_waiting(now)
            while self._idle:
                operation = self.traffic.next(now)
                operation.due = now
                self._send(self._idle.popleft(), operation, now)
            self._receive(PATIENCE)
            now = time.perf_counter()

    def run_open(self, rate: float, seconds: float, rng: np.random.Generator) -> None:
        """Send a Poisson process of operations at a rate; return when all have a response."""
        n = rng.poisson(rate * seconds)
        start = time.perf_counter() + 0.01
        arrivals = (start + np.sort(rng.uniform(0, seconds, n))).tolist()
        for due in arrivals:
            now = time.perf_counter()
            while now < due:
                self._receive(due - now)
                now = time.perf_counter()
                self._send_waiting(now)
            operation = self.traffic.next(now)
            operation.due = due
            self._waiting.append(operation)
            self._connect(now)
            self._send_waiting(now)
        self.finish()

    def forget(self) -> None:
        """Discard all measurements."""
        self.latencies.clear()
        self.failures.clear()
        self.lateness = array("d")

    def finish(self, seconds: float = 30.0) -> None:
        """Wait until every operation that was sent is acknowledged."""
        end = time.perf_counter() + seconds
        while unanswered := self._busy + len(self._waiting) + len(self._later):
            now = time.perf_counter()
            if now > end:
                raise TimeoutError(f"{unanswered} operations have no answer")
            self._connect(now)
            self._send_waiting(now)
            self._receive(PATIENCE)

    def hear_out(self, server: int) -> None:
        """Read the last responses of a dead server; send operations without a response again."""
        for connection in list(self._by_number.values()):
            if connection.server == server:
                connection.socket.settimeout(5)
                while connection.socket is not None:
                    self._read(connection)

    # -- sending ------------------------------------------------------------------------------

    def _connect(self, now: float) -> None:
        if not self._closed:
            return
        for connection in list(self._closed):
            if connection.retry_at > now:
                continue
            try:
                opened = socket.create_connection(self.servers[connection.server], timeout=1)
            except OSError:
                connection.retry_at = now + RECONNECT
                continue
            opened.setblocking(False)
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.socket, connection.buffer = opened, b""
            self._poll.register(opened, select.EPOLLIN)
            self._by_number[opened.fileno()] = connection
            self._closed.remove(connection)
            self._idle.append(connection)

    def _send_waiting(self, now: float) -> None:
        while self._later and self._later[0][0] <= now:
            self._waiting.append(self._later.popleft()[1])
        for _ in range(len(self._waiting)):
            if not self._idle:
                return
            operation = self._waiting.popleft()
            connection = self._connection_for(operation)
            if connection is None:
                self._waiting.append(operation)
            else:
                self._send(connection, operation, now)

    def _connection_for(self, operation: Operation) -> Connection | None:
        if operation.avoid is None:
            return self._idle.popleft()
        for connection in self._idle:
            if connection.server != operation.avoid:
                self._idle.remove(connection)
                return connection
        return None

    def _send(self, connection: Connection, operation: Operation, now: float) -> None:
        operation.tries += 1
        connection.operation, connection.sent_at = operation, now
        self._busy += 1
        if operation.twice:
            operation.twice = False
            copy = operation.copy(connection.server)
            copy.due = now
            self._waiting.append(copy)
            self.n_copies += 1
        try:
            connection.socket.sendall(operation.request)
        except OSError:
            self._lost(connection)

    # -- receiving ----------------------------------------------------------------------------

    def _receive(self, timeout: float) -> None:
        # An epoll waits for whole milliseconds, a select for microseconds, as arrivals need it.
        if timeout > 0:
            select.select([self._poll], [], [], timeout)
        for number, _ in self._poll.poll(0):
            self._read(self._by_number[number])

    def _read(self, connection: Connection) -> None:
        try:
            received = connection.socket.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            received = b""
        if not received:
            self._lost(connection)
            return
        content = connection.buffer + received if connection.buffer else received
        head, end, body = content.partition(b"\r\n\r\n")
        if not end or len(body) < _length(head):
            connection.buffer = content
            return
        connection.buffer = b""
        operation, connection.operation = connection.operation, None
        self._busy -= 1
        self._idle.append(connection)
        self.answers[connection.server] += 1
        self._answered(operation, int(head[9:12]), body, connection.sent_at)

    def _answered(self, operation: Operation, status: int, body: bytes, sent_at: float) -> None:
        now = time.perf_counter()
        if 200 <= status < 300:
            self.traffic.acknowledged(operation, body, now)
            times = self.latencies.get(operation.kind)
            if times is None:
                times = self.latencies[operation.kind] = array("d")
            times.append(now - operation.due)
            self.lateness.append(sent_at - operation.due)
        elif status in (429, 503):
            self.failures[str(status)] += 1
            self._later.append((now + PAUSE, operation))
        else:
            raise RuntimeError(f"{operation.kind} was answered with {status}: {body[:300]!r}")

    def _lost(self, connection: Connection) -> None:
        """Handle a broken connection: send its operation again."""
        self._poll.unregister(connection.socket)
        del self._by_number[connection.socket.fileno()]
        connection.socket.close()
        connection.socket = None
        self._closed.append(connection)
        operation, connection.operation = connection.operation, None
        if operation is None:
            self._idle.remove(connection)
        else:
            self._busy -= 1
            self.failures["broken connection"] += 1
            self._waiting.append(operation)


def _length(head: bytes) -> int:
    lower = head.lower()
    start = lower.index(LENGTH) + len(LENGTH)
    end = lower.find(b"\r\n", start)
    return int(lower[start:] if end < 0 else lower[start:end])
